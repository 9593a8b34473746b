/*
 * muster/status.h: what every call returns, and where its sentence is.
 *
 * The codes are the canonical ones that the coordination protocols use (gRPC's numbering), so a front-end
 * passes them on unchanged. Every call that fails leaves one sentence for a person in muster_last_error():
 * what happened, why, the culprit (task, host, pid) and, where there is one, the remedy.
 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#else
#define MUSTER_API
#endif

enum muster_status {
    MUSTER_OK = 0,
    MUSTER_CANCELLED = 1,
    MUSTER_UNKNOWN = 2,
    MUSTER_INVALID_ARGUMENT = 3,
    MUSTER_DEADLINE_EXCEEDED = 4,
    MUSTER_NOT_FOUND = 5,
    MUSTER_ALREADY_EXISTS = 6,
    MUSTER_PERMISSION_DENIED = 7,
    MUSTER_RESOURCE_EXHAUSTED = 8,
    MUSTER_FAILED_PRECONDITION = 9,
    MUSTER_ABORTED = 10,
    MUSTER_OUT_OF_RANGE = 11,
    MUSTER_UNIMPLEMENTED = 12,
    MUSTER_INTERNAL = 13,
    MUSTER_UNAVAILABLE = 14,
    MUSTER_DATA_LOSS = 15,
};

/* The code's name ("NOT_FOUND"); "?" for a number that is none. Never NULL, never freed. Any thread, any time. */
MUSTER_API const char *muster_status_name(enum muster_status status);

/* The code with this name, any case; MUSTER_UNKNOWN when there is none. */
MUSTER_API enum muster_status muster_status_from_name(const char *name);

/*
 * The sentence of the calling thread's last failed muster call; "" before the first. Owned by the thread: good
 * until its next failed call. A call that succeeds leaves it as it was.
 */
MUSTER_API const char *muster_last_error(void);

/*
 * Deadlines are absolute, in nanoseconds of CLOCK_MONOTONIC. One in the past makes a call look once and return
 * MUSTER_DEADLINE_EXCEEDED without sleeping; MUSTER_FOREVER waits until the answer, an error of a task that the
 * wait needs, or muster_interrupt().
 */
typedef uint64_t muster_deadline;
#define MUSTER_FOREVER ((muster_deadline)UINT64_MAX)

/* The deadline `ns` nanoseconds from now (0: now). Saturates at MUSTER_FOREVER. */
MUSTER_API muster_deadline muster_after_ns(uint64_t ns);
/* The same in milliseconds; a negative value means MUSTER_FOREVER. */
MUSTER_API muster_deadline muster_after_ms(int64_t ms);

/* CLOCK_MONOTONIC in nanoseconds. */
MUSTER_API uint64_t muster_now_ns(void);

/* The library's version, "MAJOR.MINOR.PATCH". */
MUSTER_API const char *muster_version(void);

/* For lengths: the argument before is a NUL-terminated string. */
#define MUSTER_NTS ((size_t)-1)

#ifdef __cplusplus
}
#endif
#endif
