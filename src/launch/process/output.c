/*
 * launch/process/output.c: the tasks' output on its way through the launcher.
 *
 * A thread of its own reads one pipe per task and stream, so a reader that stops reading the launcher's output stops
 * the tasks' writing, as it would without muster, and never the supervision. A labelled stream leaves line by line,
 * whole lines only, each behind "[task] "; another one leaves as it comes. Either may be copied to a file as well. Of
 * what goes to stderr the end is kept: it is said again below the root cause of a failure.
 * When stdout or stderr is closed (EPIPE) the pipes that feed it alone are closed too: the tasks get their own SIGPIPE.
 * With options.pty each stream comes by a terminal of the task's own instead of a pipe (pty.c), which ends by EIO.
 * What cannot be written otherwise (a full disk, 'ulimit -f') is said to be lost, and counts as a failure at the end.
 *
 * The main thread adds streams (a task that is started again has new ones), may ask for a task's last lines, and at
 * last says that no more will come; the eventfd only wakes the thread, what is asked lies behind the lock. The thread
 * is started when there is something for it to do, which mu_launch_output_look() finds out, and ends when each pipe has
 * ended.
 */
#include "launch/process/output_private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <muster/status.h>

enum { JOIN_NS = 50000000 };

static void output_release(struct mu_launch_output *output)
{
    for (struct mu_output_stream *stream = output->streams, *next; stream; stream = next) {
        next = stream->next;
        mu_output_free_stream(stream);
    }
    if (output->epoll_fd >= 0)
        close(output->epoll_fd);
    if (output->event_fd >= 0)
        close(output->event_fd);
    pthread_mutex_destroy(&output->lock);
    free(output->out);
    free(output);
}

int mu_launch_output_start(const struct mu_launch_output_options *options, struct mu_launch_output **ret_output)
{
    struct mu_launch_output *output = malloc(sizeof *output);
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    if (!output)
        return -1;
    memset(output, 0, offsetof(struct mu_launch_output, input));
    output->options = *options;
    pthread_mutex_init(&output->lock, NULL);
    output->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    output->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (output->epoll_fd < 0 || output->event_fd < 0 ||
        epoll_ctl(output->epoll_fd, EPOLL_CTL_ADD, output->event_fd, &event)) {
        error = errno;
        output_release(output);
        errno = error;
        return -1;
    }
    *ret_output = output;
    return 0;
}

int mu_launch_output_go(struct mu_launch_output *output)
{
    int error = output->runs ? 0 : pthread_create(&output->thread, NULL, mu_output_main, output);

    output->runs = error == 0;
    errno = error;
    return error ? -1 : 0;
}

int mu_launch_output_fd(const struct mu_launch_output *output)
{
    return output->epoll_fd;
}

int mu_launch_output_look(struct mu_launch_output *output)
{
    struct epoll_event events[64];
    int count = epoll_wait(output->epoll_fd, events, 64, 0), needed = 0;

    for (int i = 0; i < count; i++)
        if (events[i].data.ptr && events[i].events == EPOLLHUP) /* its end, and nothing before it */
            mu_output_end_stream(output, events[i].data.ptr);
        else
            needed = 1;
    return needed;
}

static void set_prefix(const struct mu_launch_output *output, struct mu_output_stream *stream)
{
    static const char colours[] = "236451"; /* green, yellow, cyan, blue, magenta, red */
    unsigned colour = stream->task_id % 6;
    int n;

    if (!output->options.label)
        return;
    if (output->options.colour[stream->out])
        n = snprintf(stream->prefix, sizeof stream->prefix, "\033[3%cm[%u]\033[0m ", colours[colour], stream->task_id);
    else
        n = snprintf(stream->prefix, sizeof stream->prefix, "[%u] ", stream->task_id);
    stream->prefix_len = (size_t)n;
    stream->width = (uint16_t)snprintf(NULL, 0, "[%u] ", stream->task_id);
    stream->lines = 1;
}

/* What is left of it for a task's lines. */
static struct mu_launch_size output_size(const struct mu_launch_output *output, const struct mu_output_stream *stream)
{
    struct mu_launch_size size = output->options.size;

    size.columns = size.columns > stream->width + 1 ? (uint16_t)(size.columns - stream->width) : 1;
    return size;
}

void mu_launch_output_resize(struct mu_launch_output *output, struct mu_launch_size size)
{
    pthread_mutex_lock(&output->lock);
    output->options.size = size;
    for (struct mu_output_stream *stream = output->streams; stream; stream = stream->next)
        if (stream->is_terminal && stream->fd >= 0)
            mu_launch_pty_resize(stream->fd, output_size(output, stream));
    pthread_mutex_unlock(&output->lock);
}

/* The stream, freed where it fails. */
static int stream_add(struct mu_launch_output *output, struct mu_output_stream *stream, int *ret_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    int ends[2];

    if (stream->is_terminal ? mu_launch_pty_open(output_size(output, stream), ends) : pipe2(ends, O_CLOEXEC)) {
        free(stream);
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the tasks' ends stay blocking */
    stream->fd = ends[0];
    pthread_mutex_lock(&output->lock);
    if (epoll_ctl(output->epoll_fd, EPOLL_CTL_ADD, ends[0], &event)) {
        pthread_mutex_unlock(&output->lock);
        close(ends[0]);
        close(ends[1]);
        free(stream);
        return -1;
    }
    stream->next = output->streams;
    output->streams = stream;
    output->open++;
    pthread_mutex_unlock(&output->lock);
    *ret_fd = ends[1];
    return 0;
}

int mu_launch_output_add(struct mu_launch_output *output, uint32_t task_id, int out, int file, int *ret_fd)
{
    struct mu_output_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return -1;
    stream->out = out;
    stream->file = file;
    stream->task_id = task_id;
    stream->is_terminal = output->options.pty;
    set_prefix(output, stream);
    return stream_add(output, stream, ret_fd);
}

int mu_launch_output_pass(struct mu_launch_output *output, uint32_t host, int out, int lines, int *ret_fd)
{
    struct mu_output_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return -1;
    stream->out = out;
    stream->file = -1;
    stream->task_id = host;
    stream->is_passed = 1;
    stream->lines = lines;
    return stream_add(output, stream, ret_fd);
}

static void output_wake(struct mu_launch_output *output)
{
    uint64_t one = 1;

    (void)!write(output->event_fd, &one, sizeof one);
}

/* The newest of those streams is to say its end. The lock is held. */
static struct mu_output_stream *want_tail(struct mu_launch_output *output, uint32_t id, int is_passed)
{
    struct mu_output_stream *stream = output->streams; /* the newest first */

    while (stream && !(stream->task_id == id && stream->is_passed == is_passed && stream->out == 2))
        stream = stream->next;
    if (!stream)
        return NULL;
    output->tails += !stream->tail_wanted;
    stream->tail_wanted = 1;
    return stream;
}

int mu_launch_output_explain(struct mu_launch_output *output, uint32_t id, int is_host, const char *sentence)
{
    char *text = sentence ? strdup(sentence) : NULL;
    struct mu_output_stream *stream;

    pthread_mutex_lock(&output->lock);
    stream = text || !sentence ? want_tail(output, id, is_host) : NULL;
    if (stream && text) {
        free(stream->sentence);
        stream->sentence = text;
    }
    pthread_mutex_unlock(&output->lock);
    output_wake(output);
    if (!stream)
        free(text);
    return stream ? 0 : -1;
}

void mu_launch_output_end(struct mu_launch_output *output)
{
    if (!output)
        return;
    pthread_mutex_lock(&output->lock);
    output->finished = 1;
    pthread_mutex_unlock(&output->lock);
    output_wake(output);
}

/* 0: the thread has ended. By the wall clock, which may be set, so a short time each. */
static int join_until(pthread_t thread, uint64_t until_ns)
{
    struct timespec soon;
    int error;

    do {
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += JOIN_NS;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
        error = pthread_timedjoin_np(thread, NULL, &soon);
    } while (error == ETIMEDOUT && muster_now_ns() < until_ns);
    return error;
}

int mu_launch_output_finish(struct mu_launch_output *output, uint64_t until_ns)
{
    int lost;

    if (!output)
        return 0;
    mu_launch_output_end(output);
    if (!output->runs && (until_ns == UINT64_MAX || mu_launch_output_go(output)))
        mu_output_main(output);
    else if (until_ns == UINT64_MAX ? pthread_join(output->thread, NULL) : join_until(output->thread, until_ns))
        return -1; /* it may write when somebody reads: all that it uses stays until the process ends */
    lost = output->lost;
    output_release(output);
    return lost;
}
