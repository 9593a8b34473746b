/*
 * launch/process/output_streams.c: what comes by the tasks' pipes, on its way to the launcher's output, and to files.
 *
 * All of it runs in the thread of output.c, but for what that asks for, which lies behind the lock.
 */
#include "launch/process/output_private.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { TAIL_SIZE = 8192, TAIL_READS = 64 };

static int buffer_reserve(char **buffer, size_t *cap, size_t need)
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

/* 0, or -1 when nobody will ever read it. */
static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) { /* another user of the file description made it non-blocking */
            struct pollfd pfd = {.fd = fd, .events = POLLOUT};

            poll(&pfd, 1, -1);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* errno's words, and what can be done. */
static const char *error_reason(void)
{
    switch (errno) {
    case EFBIG: return "File too large (raise the limit: 'ulimit -f')";
    case EBADF: return "It is closed";
    default: return strerror(errno);
    }
}

static void output_forward(struct mu_launch_output *output, int fd, const char *data, size_t len)
{
    if (len > 0 && !output->broken[fd] && write_all(fd, data, len)) {
        output->broken[fd] = 1;
        output->lost |= errno != EPIPE; /* a reader that is gone wants no more */
        if (fd == 1 && errno != EPIPE)
            dprintf(2, "muster run: cannot write standard output: %s: the tasks' output is lost\n", error_reason());
    }
    if (len > 0 && fd == 2)
        output->midline = data[len - 1] != '\n';
}

/* One whole line (without its newline), with what was kept of it before, goes to output->out. */
static void put_line(struct mu_launch_output *output, struct mu_output_stream *stream, const char *rest,
                     size_t rest_len)
{
    size_t need = stream->prefix_len + stream->len + rest_len + 1;

    if (buffer_reserve(&output->out, &output->out_cap, output->out_len + need))
        return; /* out of memory: this line is lost, the job is not */
    memcpy(output->out + output->out_len, stream->prefix, stream->prefix_len);
    output->out_len += stream->prefix_len;
    if (stream->len)
        memcpy(output->out + output->out_len, stream->line, stream->len);
    output->out_len += stream->len;
    memcpy(output->out + output->out_len, rest, rest_len);
    output->out_len += rest_len;
    output->out[output->out_len++] = '\n';
    stream->len = 0;
}

static void take_lines(struct mu_launch_output *output, struct mu_output_stream *stream, const char *data, size_t len)
{
    const char *newline;

    output->out_len = 0;
    while (len > 0 && (newline = memchr(data, '\n', len))) {
        put_line(output, stream, data, (size_t)(newline - data));
        len -= (size_t)(newline - data) + 1;
        data = newline + 1;
    }
    if (len > 0 &&
        (stream->len + len > MU_LAUNCH_LINE_MAX || buffer_reserve(&stream->line, &stream->cap, stream->len + len)))
        put_line(output, stream, data, len); /* too long for one line */
    else if (len > 0) {
        memcpy(stream->line + stream->len, data, len);
        stream->len += len;
    }
    output_forward(output, stream->out, output->out, output->out_len);
}

static void keep_tail(struct mu_output_stream *stream, const char *data, size_t len)
{
    if (!stream->tail && !(stream->tail = malloc(TAIL_SIZE)))
        return;
    if (len > TAIL_SIZE) {
        data += len - TAIL_SIZE;
        len = TAIL_SIZE;
        stream->tail_cut = 1;
    }
    if (stream->tail_len + len > TAIL_SIZE) { /* drop the older half, or as much as is needed */
        size_t drop = stream->tail_len + len - TAIL_SIZE;

        if (drop < stream->tail_len / 2)
            drop = stream->tail_len / 2;
        memmove(stream->tail, stream->tail + drop, stream->tail_len - drop);
        stream->tail_len -= drop;
        stream->tail_cut = 1;
    }
    memcpy(stream->tail + stream->tail_len, data, len);
    stream->tail_len += len;
}

static void lose_file(struct mu_launch_output *output, struct mu_output_stream *stream)
{
    const char *why = error_reason();
    char self[40], path[4096];
    ssize_t n;

    snprintf(self, sizeof self, "/proc/self/fd/%d", stream->file);
    n = readlink(self, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    dprintf(2, "muster run: cannot write %s: %s: the rest of task %u's output is lost there\n", path, why,
            stream->task_id);
    output->lost = 1;
    close(stream->file);
    stream->file = -1;
}

/* It comes from a task and goes to a file alone. */
static bool is_hidden(const struct mu_launch_output *output, const struct mu_output_stream *stream)
{
    return output->options.hidden && !stream->is_passed;
}

static void output_take(struct mu_launch_output *output, struct mu_output_stream *stream, const char *data, size_t len)
{
    if (stream->file >= 0 && write_all(stream->file, data, len))
        lose_file(output, stream);
    if (stream->out == 2)
        keep_tail(stream, data, len);
    if (is_hidden(output, stream))
        return;
    if (stream->lines)
        take_lines(output, stream, data, len);
    else
        output_forward(output, stream->out, data, len);
}

void mu_output_free_stream(struct mu_output_stream *stream)
{
    free(stream->tail);
    free(stream->sentence);
    free(stream->explained);
    free(stream);
}

/* Of a task that is started again and again the last ended stream is kept, for its tail. The lock is held. */
static void forget_others(struct mu_launch_output *output, const struct mu_output_stream *stream)
{
    for (struct mu_output_stream **at = &output->streams; *at;) {
        struct mu_output_stream *other = *at;

        if (other == stream || other->fd >= 0 || other->tail_wanted || other->task_id != stream->task_id ||
            other->is_passed != stream->is_passed || other->out != stream->out) {
            at = &other->next;
            continue;
        }
        *at = other->next;
        mu_output_free_stream(other);
    }
}

void mu_output_end_stream(struct mu_launch_output *output, struct mu_output_stream *stream)
{
    if (stream->len) {
        output->out_len = 0;
        put_line(output, stream, "", 0);
        output_forward(output, stream->out, output->out, output->out_len);
    }
    /* By hand: a task being spawned may hold the pipe for a moment longer, and closing alone would leave it in. */
    epoll_ctl(output->epoll_fd, EPOLL_CTL_DEL, stream->fd, NULL);
    if (stream->file >= 0)
        close(stream->file);
    stream->file = -1;
    free(stream->line);
    stream->line = NULL;
    pthread_mutex_lock(&output->lock);
    close(stream->fd);
    stream->fd = -1;
    forget_others(output, stream);
    output->open--;
    pthread_mutex_unlock(&output->lock);
}

/* Read once. 1: there may be more. */
static int stream_serve(struct mu_launch_output *output, struct mu_output_stream *stream)
{
    ssize_t n = stream->fd < 0 ? -1 : read(stream->fd, output->input, MU_OUTPUT_READ);

    if (stream->fd < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return 0;
    if (n > 0)
        output_take(output, stream, output->input, (size_t)n);
    if (n > 0 && ((!output->broken[stream->out] && !is_hidden(output, stream)) || stream->file >= 0))
        return 1;
    mu_output_end_stream(output, stream);
    return 0;
}

static void say_tail(struct mu_launch_output *output, struct mu_output_stream *stream, const char *sentence)
{
    struct mu_launch_tail tail;
    char *text;
    size_t len;

    for (int i = 0; i < TAIL_READS && stream_serve(output, stream); i++)
        ;
    tail = (struct mu_launch_tail){stream->tail,
                                   stream->tail_len,
                                   stream->tail_cut,
                                   stream->task_id,
                                   output->options.both ? "output" : "stderr",
                                   stream->is_passed};
    text = sentence ? mu_launch_tail_last(&tail, sentence, &stream->explained, &len)
                    : mu_launch_tail_text(&tail, stream->explained, &len);
    if (text && output->midline)
        output_forward(output, 2, "\n", 1);
    if (text)
        output_forward(output, 2, text, len);
    free(text);
}

/* The oldest stream with an end to be said. */
static struct mu_output_stream *next_tail(struct mu_launch_output *output, char **ret_sentence)
{
    struct mu_output_stream *found = NULL;

    pthread_mutex_lock(&output->lock);
    for (struct mu_output_stream *stream = output->streams; stream && output->tails > 0; stream = stream->next)
        if (stream->tail_wanted)
            found = stream;
    if (found) {
        found->tail_wanted = 0;
        output->tails--;
        *ret_sentence = found->sentence;
        found->sentence = NULL;
    }
    pthread_mutex_unlock(&output->lock);
    return found;
}

/* What the main thread wants. 1: every pipe has ended, and no more will come. */
static int take_wishes(struct mu_launch_output *output)
{
    struct mu_output_stream *stream;
    char *sentence;
    int done;

    for (; (stream = next_tail(output, &sentence)); free(sentence))
        say_tail(output, stream, sentence);
    pthread_mutex_lock(&output->lock);
    done = output->finished && output->open == 0;
    pthread_mutex_unlock(&output->lock);
    return done;
}

void *mu_output_main(void *arg)
{
    struct mu_launch_output *output = arg;
    struct epoll_event events[64];

    while (!take_wishes(output)) {
        int count = epoll_wait(output->epoll_fd, events, 64, -1);

        for (int i = 0; i < count; i++) {
            uint64_t value;

            if (events[i].data.ptr)
                stream_serve(output, events[i].data.ptr);
            else
                (void)!read(output->event_fd, &value, sizeof value);
        }
    }
    return NULL;
}
