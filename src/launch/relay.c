/*
 * launch/relay.c: the tasks' output, line by line, each behind "[task] ".
 *
 * A thread of its own reads one pipe per task and stream and writes whole lines, so a reader that stops reading the
 * launcher's output stops the tasks' writing, as it would without muster, and never the supervision. When stdout or
 * stderr is closed (EPIPE) the pipes that feed it are closed too: the tasks get their own SIGPIPE. The main thread adds
 * streams and at last tells the number of them through the eventfd; the thread ends after as many ends of file.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define READ_SIZE 65536

struct stream {
    int fd, out;
    char prefix[16];
    size_t prefix_len;
    char *line; /* the beginning of a line whose end is not here yet */
    size_t len, cap;
};

struct mu_launch_relay {
    int epoll_fd, event_fd;
    pthread_t thread;
    uint32_t added;
    struct stream *streams; /* 2 per task */
    char *out;              /* what is about to be written */
    size_t out_len, out_cap;
    int broken[3];
    char input[READ_SIZE];
};

static int reserve(char **buffer, size_t *cap, size_t need)
{
    size_t size = *cap ? *cap : 256;
    char *more;

    while (size < need)
        size *= 2;
    if (size == *cap)
        return 0;
    more = realloc(*buffer, size);
    if (!more)
        return -1;
    *buffer = more;
    *cap = size;
    return 0;
}

static void write_all(struct mu_launch_relay *relay, int fd, const char *data, size_t len)
{
    while (len > 0 && !relay->broken[fd]) {
        ssize_t n = write(fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) { /* whoever shares the file description made it non-blocking */
            struct pollfd pfd = {.fd = fd, .events = POLLOUT};

            poll(&pfd, 1, -1);
        } else if (errno != EINTR) {
            relay->broken[fd] = 1;
        }
    }
}

/* One whole line (without its newline), with what was kept of it before, goes to relay->out. */
static void put_line(struct mu_launch_relay *relay, struct stream *stream, const char *rest, size_t rest_len)
{
    size_t need = stream->prefix_len + stream->len + rest_len + 1;

    if (reserve(&relay->out, &relay->out_cap, relay->out_len + need))
        return; /* out of memory: this line is lost, the job is not */
    memcpy(relay->out + relay->out_len, stream->prefix, stream->prefix_len);
    relay->out_len += stream->prefix_len;
    if (stream->len)
        memcpy(relay->out + relay->out_len, stream->line, stream->len);
    relay->out_len += stream->len;
    memcpy(relay->out + relay->out_len, rest, rest_len);
    relay->out_len += rest_len;
    relay->out[relay->out_len++] = '\n';
    stream->len = 0;
}

static void take(struct mu_launch_relay *relay, struct stream *stream, const char *data, size_t len)
{
    const char *newline;

    relay->out_len = 0;
    while (len > 0 && (newline = memchr(data, '\n', len))) {
        put_line(relay, stream, data, (size_t)(newline - data));
        len -= (size_t)(newline - data) + 1;
        data = newline + 1;
    }
    if (len > 0 && (stream->len + len > MU_LAUNCH_LINE_MAX || reserve(&stream->line, &stream->cap, stream->len + len)))
        put_line(relay, stream, data, len); /* too long for one line */
    else if (len > 0) {
        memcpy(stream->line + stream->len, data, len);
        stream->len += len;
    }
    write_all(relay, stream->out, relay->out, relay->out_len);
}

/* 1: the stream has ended. */
static int serve(struct mu_launch_relay *relay, struct stream *stream)
{
    ssize_t n = read(stream->fd, relay->input, READ_SIZE);

    if (n > 0)
        take(relay, stream, relay->input, (size_t)n);
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0 && !relay->broken[stream->out])
        return 0;
    if (stream->len) {
        relay->out_len = 0;
        put_line(relay, stream, "", 0);
        write_all(relay, stream->out, relay->out, relay->out_len);
    }
    /* By hand: a task being spawned may hold the pipe for a moment longer, and closing alone would leave it in. */
    epoll_ctl(relay->epoll_fd, EPOLL_CTL_DEL, stream->fd, NULL);
    close(stream->fd);
    free(stream->line);
    stream->line = NULL;
    return 1;
}

static void *relay_main(void *arg)
{
    struct mu_launch_relay *relay = arg;
    struct epoll_event events[64];
    uint64_t expected = UINT64_MAX, ended = 0;

    while (ended < expected) {
        int count = epoll_wait(relay->epoll_fd, events, 64, -1);

        for (int i = 0; i < count; i++) {
            uint64_t value;

            if (events[i].data.ptr)
                ended += (uint64_t)serve(relay, events[i].data.ptr);
            else if (read(relay->event_fd, &value, sizeof value) == sizeof value)
                expected = value - 1;
        }
    }
    return NULL;
}

static void release(struct mu_launch_relay *relay)
{
    if (relay->epoll_fd >= 0)
        close(relay->epoll_fd);
    if (relay->event_fd >= 0)
        close(relay->event_fd);
    free(relay->streams);
    free(relay->out);
    free(relay);
}

int mu_launch_relay_start(uint32_t num_tasks, struct mu_launch_relay **ret_relay)
{
    struct mu_launch_relay *relay = calloc(1, sizeof *relay);
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    if (!relay)
        return -1;
    relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    relay->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->streams = calloc(2 * (size_t)num_tasks, sizeof *relay->streams);
    error = errno;
    if (relay->epoll_fd < 0 || relay->event_fd < 0 || !relay->streams ||
        epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, relay->event_fd, &event) ||
        (error = pthread_create(&relay->thread, NULL, relay_main, relay))) {
        release(relay);
        errno = error ? error : EMFILE;
        return -1;
    }
    *ret_relay = relay;
    return 0;
}

int mu_launch_relay_add(struct mu_launch_relay *relay, uint32_t task_id, int ret_stdio[3])
{
    for (int out = 1; out <= 2; out++) {
        struct stream *stream = &relay->streams[2 * (size_t)task_id + (size_t)out - 1];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
        int ends[2];

        if (pipe2(ends, O_CLOEXEC))
            return -1;
        fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the tasks' ends stay blocking */
        stream->fd = ends[0];
        stream->out = out;
        stream->prefix_len = (size_t)snprintf(stream->prefix, sizeof stream->prefix, "[%u] ", task_id);
        ret_stdio[out] = ends[1];
        if (epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, ends[0], &event)) {
            close(ends[0]);
            return -1;
        }
        relay->added++;
    }
    return 0;
}

void mu_launch_relay_finish(struct mu_launch_relay *relay)
{
    uint64_t value;

    if (!relay)
        return;
    value = (uint64_t)relay->added + 1;
    if (write(relay->event_fd, &value, sizeof value) == sizeof value)
        pthread_join(relay->thread, NULL);
    release(relay);
}
