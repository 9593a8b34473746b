/*
 * base/error.c: status names, the thread's last sentence, clocks and deadlines of the public interface.
 *
 * The sentence lives in thread-local storage of fixed size: failing needs no memory. Longer sentences are cut.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

static _Thread_local char last_error[MU_SENTENCE_MAX];

static const char *const names[] = {
    [MUSTER_OK] = "OK",
    [MUSTER_CANCELLED] = "CANCELLED",
    [MUSTER_UNKNOWN] = "UNKNOWN",
    [MUSTER_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [MUSTER_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
    [MUSTER_NOT_FOUND] = "NOT_FOUND",
    [MUSTER_ALREADY_EXISTS] = "ALREADY_EXISTS",
    [MUSTER_PERMISSION_DENIED] = "PERMISSION_DENIED",
    [MUSTER_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
    [MUSTER_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
    [MUSTER_ABORTED] = "ABORTED",
    [MUSTER_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [MUSTER_UNIMPLEMENTED] = "UNIMPLEMENTED",
    [MUSTER_INTERNAL] = "INTERNAL",
    [MUSTER_UNAVAILABLE] = "UNAVAILABLE",
    [MUSTER_DATA_LOSS] = "DATA_LOSS",
};
enum { NAMES = sizeof names / sizeof names[0] };

const char *muster_status_name(enum muster_status status)
{
    return (unsigned)status < NAMES ? names[status] : "?";
}

enum muster_status muster_status_from_name(const char *name)
{
    for (unsigned i = 0; name && i < NAMES; i++)
        if (!strcasecmp(name, names[i]))
            return (enum muster_status)i;
    return MUSTER_UNKNOWN;
}

const char *muster_last_error(void)
{
    return last_error;
}

void mu_error_keep(char kept[MU_SENTENCE_MAX])
{
    memcpy(kept, last_error, strlen(last_error) + 1);
}

void mu_error_restore(const char *kept)
{
    memmove(last_error, kept, strlen(kept) + 1);
}

enum muster_status mu_fail(enum muster_status status, const char *format, ...)
{
    int saved = errno;
    char sentence[sizeof last_error]; /* an argument may be the last sentence itself */
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    snprintf(last_error, sizeof last_error, "%s", sentence);
    errno = saved;
    return status;
}

uint64_t muster_now_ns(void)
{
    return mu_now();
}

muster_deadline muster_after_ns(uint64_t ns)
{
    uint64_t now = mu_now();

    return ns > MUSTER_FOREVER - now ? MUSTER_FOREVER : now + ns;
}

muster_deadline muster_after_ms(int64_t ms)
{
    if (ms < 0 || (uint64_t)ms > UINT64_MAX / 1000000u)
        return MUSTER_FOREVER;
    return muster_after_ns((uint64_t)ms * 1000000u);
}

const char *muster_version(void)
{
    return "0.1.0";
}
