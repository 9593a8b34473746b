/*
 * agent/say.c: what the launcher says on stderr.
 *
 * Each message is one line and one write(), so that it never mixes with the relayed output, and none is waited for:
 * what cannot be written is kept and tried again.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/private.h"

static const char *my_name = "muster run";

/* What nobody has taken yet: a reader of our stderr that does not read must not stop the supervision. */
static struct {
    pthread_mutex_t lock;
    char *text;
    size_t len;
} unsaid = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define UNSAID_MAX (1u << 20)

void mu_agent_call_me(const char *name)
{
    my_name = name;
}

/* Write what fits; a pipe that can be written takes a page. The lock is held. */
static void lines_flush(int patience_ms)
{
    while (unsaid.len > 0) {
        struct pollfd pfd = {.fd = 2, .events = POLLOUT};
        size_t part = unsaid.len < 4096 ? unsaid.len : 4096;
        const char *end = memrchr(unsaid.text, '\n', part);
        ssize_t n;

        if (poll(&pfd, 1, patience_ms) == 0)
            return;
        if (end)
            part = (size_t)(end - unsaid.text) + 1;
        n = write(2, unsaid.text, part);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            if (patience_ms == 0)
                return;
            continue;
        }
        if (n < 0)
            n = (ssize_t)unsaid.len; /* nobody will ever listen */
        unsaid.len -= (size_t)n;
        memmove(unsaid.text, unsaid.text + n, unsaid.len);
    }
}

void mu_agent_write(const char *text, size_t len)
{
    char *more;

    if (len == 0) /* realloc() to nothing would free */
        return;
    pthread_mutex_lock(&unsaid.lock);
    lines_flush(0);
    if (unsaid.len + len <= UNSAID_MAX && (more = realloc(unsaid.text, unsaid.len + len))) {
        unsaid.text = more;
        memcpy(unsaid.text + unsaid.len, text, len);
        unsaid.len += len;
    } /* else it is lost: so slow a reader will not miss it */
    lines_flush(0);
    pthread_mutex_unlock(&unsaid.lock);
}

int mu_agent_flush(uint64_t until_ns)
{
    uint64_t now = until_ns ? muster_now_ns() : 0;
    size_t left;

    pthread_mutex_lock(&unsaid.lock);
    if (until_ns == UINT64_MAX)
        lines_flush(-1);
    else
        lines_flush(until_ns > now ? (int)((until_ns - now) / 1000000) : 0);
    left = unsaid.len;
    if (until_ns) {
        free(unsaid.text);
        unsaid.text = NULL;
        unsaid.len = 0;
    }
    pthread_mutex_unlock(&unsaid.lock);
    return left > 0;
}

void mu_agent_say(const char *format, ...)
{
    char line[1024];
    size_t start = (size_t)snprintf(line, sizeof line, "%s: ", my_name), len;
    va_list args;

    va_start(args, format);
    vsnprintf(line + start, sizeof line - start - 1, format, args);
    va_end(args);
    len = strlen(line);
    for (size_t i = start; i < len; i++) /* a task's message may hold anything, U+0080 to U+009F too */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
        else if ((line[i] & 0xe0) == 0x80 && (unsigned char)line[i - 1] == 0xc2)
            line[i - 1] = line[i] = ' ';
    line[len++] = '\n';
    mu_agent_write(line, len);
}

int mu_agent_shows_colour(int fd)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

    return isatty(fd) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

void mu_agent_print_word(const char *word, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-";

    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}
