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
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

enum { READ_SIZE = 65536, TAIL_SIZE = 8192, TAIL_READS = 64, JOIN_NS = 50000000 };

struct stream {
    struct stream *next;
    int fd, out, file; /* the pipe; 1 or 2; -1: no file */
    uint32_t task_id;  /* or, of what is passed on, the host */
    int is_passed;
    char prefix[32];
    size_t prefix_len;
    int is_terminal;
    uint16_t width; /* of the label */
    int lines;      /* it leaves line by line; else as it comes */
    char *line;     /* the beginning of a line whose end is not here yet */
    size_t len, cap;
    char *tail; /* of stderr: TAIL_SIZE bytes at most */
    size_t tail_len;
    int tail_cut;    /* something was before them */
    int tail_wanted; /* under the lock */
    char *sentence;  /* so too: it is said with the last line behind it, instead of all of them */
    char *explained; /* how that line read: it is said once more before them */
};

struct mu_launch_output {
    struct mu_launch_output_options options;
    int epoll_fd, event_fd;
    pthread_t thread;
    int runs;             /* the thread does */
    pthread_mutex_t lock; /* over the next four */
    struct stream *streams;
    size_t open;
    int finished;
    size_t tails; /* streams whose end is to be said */
    char *out;    /* what is about to be written */
    size_t out_len, out_cap;
    int broken[3];
    int lost;              /* what should be in a file, or came for stdout, is not there */
    int midline;           /* the last that went to stderr did not end its line */
    char input[READ_SIZE]; /* last: its pages are not touched before they are needed */
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

/* 0, or -1 when nobody will ever read it. */
static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) { /* whoever shares the file description made it non-blocking */
            struct pollfd pfd = {.fd = fd, .events = POLLOUT};

            poll(&pfd, 1, -1);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* errno's words, and what can be done. */
static const char *reason(void)
{
    return errno == EFBIG ? "File too large (raise the limit: 'ulimit -f')" : strerror(errno);
}

static void forward(struct mu_launch_output *output, int fd, const char *data, size_t len)
{
    if (len > 0 && !output->broken[fd] && write_all(fd, data, len)) {
        output->broken[fd] = 1;
        output->lost |= errno != EPIPE; /* whose reader is gone wants no more */
        if (fd == 1 && errno != EPIPE)
            dprintf(2, "muster run: cannot write standard output: %s: the tasks' output is lost\n", reason());
    }
    if (len > 0 && fd == 2)
        output->midline = data[len - 1] != '\n';
}

/* One whole line (without its newline), with what was kept of it before, goes to output->out. */
static void put_line(struct mu_launch_output *output, struct stream *stream, const char *rest, size_t rest_len)
{
    size_t need = stream->prefix_len + stream->len + rest_len + 1;

    if (reserve(&output->out, &output->out_cap, output->out_len + need))
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

static void take_lines(struct mu_launch_output *output, struct stream *stream, const char *data, size_t len)
{
    const char *newline;

    output->out_len = 0;
    while (len > 0 && (newline = memchr(data, '\n', len))) {
        put_line(output, stream, data, (size_t)(newline - data));
        len -= (size_t)(newline - data) + 1;
        data = newline + 1;
    }
    if (len > 0 && (stream->len + len > MU_LAUNCH_LINE_MAX || reserve(&stream->line, &stream->cap, stream->len + len)))
        put_line(output, stream, data, len); /* too long for one line */
    else if (len > 0) {
        memcpy(stream->line + stream->len, data, len);
        stream->len += len;
    }
    forward(output, stream->out, output->out, output->out_len);
}

static void keep_tail(struct stream *stream, const char *data, size_t len)
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

static void lose_file(struct mu_launch_output *output, struct stream *stream)
{
    const char *why = reason();
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
static int is_hidden(const struct mu_launch_output *output, const struct stream *stream)
{
    return output->options.hidden && !stream->is_passed;
}

static void take(struct mu_launch_output *output, struct stream *stream, const char *data, size_t len)
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
        forward(output, stream->out, data, len);
}

static void free_stream(struct stream *stream)
{
    free(stream->tail);
    free(stream->sentence);
    free(stream->explained);
    free(stream);
}

/* Of a task that is started again and again the last ended stream is kept, for its tail. The lock is held. */
static void forget_others(struct mu_launch_output *output, const struct stream *stream)
{
    for (struct stream **at = &output->streams; *at;) {
        struct stream *other = *at;

        if (other == stream || other->fd >= 0 || other->tail_wanted || other->task_id != stream->task_id ||
            other->is_passed != stream->is_passed || other->out != stream->out) {
            at = &other->next;
            continue;
        }
        *at = other->next;
        free_stream(other);
    }
}

static void end_stream(struct mu_launch_output *output, struct stream *stream)
{
    if (stream->len) {
        output->out_len = 0;
        put_line(output, stream, "", 0);
        forward(output, stream->out, output->out, output->out_len);
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
static int serve(struct mu_launch_output *output, struct stream *stream)
{
    ssize_t n = stream->fd < 0 ? -1 : read(stream->fd, output->input, READ_SIZE);

    if (stream->fd < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return 0;
    if (n > 0)
        take(output, stream, output->input, (size_t)n);
    if (n > 0 && ((!output->broken[stream->out] && !is_hidden(output, stream)) || stream->file >= 0))
        return 1;
    end_stream(output, stream);
    return 0;
}

static void say_tail(struct mu_launch_output *output, struct stream *stream, const char *sentence)
{
    struct mu_launch_tail tail;
    char *text;
    size_t len;

    for (int i = 0; i < TAIL_READS && serve(output, stream); i++)
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
        forward(output, 2, "\n", 1);
    if (text)
        forward(output, 2, text, len);
    free(text);
}

/* The oldest stream whose end is to be said. */
static struct stream *next_tail(struct mu_launch_output *output, char **ret_sentence)
{
    struct stream *found = NULL;

    pthread_mutex_lock(&output->lock);
    for (struct stream *stream = output->streams; stream && output->tails > 0; stream = stream->next)
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
    struct stream *stream;
    char *sentence;
    int done;

    for (; (stream = next_tail(output, &sentence)); free(sentence))
        say_tail(output, stream, sentence);
    pthread_mutex_lock(&output->lock);
    done = output->finished && output->open == 0;
    pthread_mutex_unlock(&output->lock);
    return done;
}

static void *output_main(void *arg)
{
    struct mu_launch_output *output = arg;
    struct epoll_event events[64];

    while (!take_wishes(output)) {
        int count = epoll_wait(output->epoll_fd, events, 64, -1);

        for (int i = 0; i < count; i++) {
            uint64_t value;

            if (events[i].data.ptr)
                serve(output, events[i].data.ptr);
            else
                (void)!read(output->event_fd, &value, sizeof value);
        }
    }
    return NULL;
}

static void release(struct mu_launch_output *output)
{
    for (struct stream *stream = output->streams, *next; stream; stream = next) {
        next = stream->next;
        free_stream(stream);
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
        release(output);
        errno = error;
        return -1;
    }
    *ret_output = output;
    return 0;
}

int mu_launch_output_go(struct mu_launch_output *output)
{
    int error = output->runs ? 0 : pthread_create(&output->thread, NULL, output_main, output);

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
            end_stream(output, events[i].data.ptr);
        else
            needed = 1;
    return needed;
}

static void set_prefix(const struct mu_launch_output *output, struct stream *stream)
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
static struct mu_launch_size size_of(const struct mu_launch_output *output, const struct stream *stream)
{
    struct mu_launch_size size = output->options.size;

    size.columns = size.columns > stream->width + 1 ? (uint16_t)(size.columns - stream->width) : 1;
    return size;
}

void mu_launch_output_resize(struct mu_launch_output *output, struct mu_launch_size size)
{
    pthread_mutex_lock(&output->lock);
    output->options.size = size;
    for (struct stream *stream = output->streams; stream; stream = stream->next)
        if (stream->is_terminal && stream->fd >= 0)
            mu_launch_pty_resize(stream->fd, size_of(output, stream));
    pthread_mutex_unlock(&output->lock);
}

/* The stream, freed where it fails. */
static int add(struct mu_launch_output *output, struct stream *stream, int *ret_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    int ends[2];

    if (stream->is_terminal ? mu_launch_pty_open(size_of(output, stream), ends) : pipe2(ends, O_CLOEXEC)) {
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
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return -1;
    stream->out = out;
    stream->file = file;
    stream->task_id = task_id;
    stream->is_terminal = output->options.pty;
    set_prefix(output, stream);
    return add(output, stream, ret_fd);
}

int mu_launch_output_pass(struct mu_launch_output *output, uint32_t host, int out, int lines, int *ret_fd)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return -1;
    stream->out = out;
    stream->file = -1;
    stream->task_id = host;
    stream->is_passed = 1;
    stream->lines = lines;
    return add(output, stream, ret_fd);
}

static void wake(struct mu_launch_output *output)
{
    uint64_t one = 1;

    (void)!write(output->event_fd, &one, sizeof one);
}

/* The newest of those streams is to say its end. The lock is held. */
static struct stream *want_tail(struct mu_launch_output *output, uint32_t id, int is_passed)
{
    struct stream *stream = output->streams; /* the newest first */

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
    struct stream *stream;

    pthread_mutex_lock(&output->lock);
    stream = text || !sentence ? want_tail(output, id, is_host) : NULL;
    if (stream && text) {
        free(stream->sentence);
        stream->sentence = text;
    }
    pthread_mutex_unlock(&output->lock);
    wake(output);
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
    wake(output);
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
        output_main(output);
    else if (until_ns == UINT64_MAX ? pthread_join(output->thread, NULL) : join_until(output->thread, until_ns))
        return -1; /* it may write when somebody reads: all that it uses stays until the process ends */
    lost = output->lost;
    release(output);
    return lost;
}
