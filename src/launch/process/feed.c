/*
 * launch/process/feed.c: the launcher's standard input, copied to every task.
 *
 * A thread of its own reads it and keeps what it read in pieces until the slowest task has it; each task's pipe is
 * written as far as it takes it. A task that does not read holds the others up only once BACKLOG_MAX bytes wait for it.
 * At the end of the input each pipe is closed when the task has all: every task sees the end of file. A task that has
 * closed its end, or ended, is left out from then on.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_SIZE = 65536, BACKLOG_MAX = 64 << 20 };

struct piece {
    struct piece *next;
    uint32_t readers; /* that have not got all of it */
    size_t len;
    char data[PIECE_SIZE];
};

struct reader {
    int fd;              /* the pipe's end; -1: it has all, or wants no more */
    struct piece *piece; /* where it is; NULL: it has all that there is */
    size_t at;
};

struct mu_launch_feed {
    pthread_t thread;
    int from, from_is_ours, stop_fd, running;
    uint32_t num_readers, live;
    struct piece *first, *last;
    size_t backlog;
    int ended; /* the input has */
    struct reader readers[];
};

/* The reader is done with its piece. */
static void reader_advance(struct mu_launch_feed *feed, struct reader *reader)
{
    struct piece *piece = reader->piece;

    reader->piece = piece->next;
    reader->at = 0;
    piece->readers--;
    while (feed->first && feed->first->readers == 0) { /* pieces are finished in their order by each reader */
        struct piece *done = feed->first;

        feed->first = done->next;
        if (!feed->first)
            feed->last = NULL;
        feed->backlog -= done->len;
        free(done);
    }
}

static void reader_drop(struct mu_launch_feed *feed, struct reader *reader)
{
    while (reader->piece)
        reader_advance(feed, reader);
    close(reader->fd);
    reader->fd = -1;
    feed->live--;
}

static void write_to(struct mu_launch_feed *feed, struct reader *reader)
{
    while (reader->piece) {
        ssize_t n = write(reader->fd, reader->piece->data + reader->at, reader->piece->len - reader->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            reader_drop(feed, reader); /* EPIPE: it reads no more */
            return;
        }
        reader->at += (size_t)n;
        if (reader->at == reader->piece->len)
            reader_advance(feed, reader);
    }
    if (feed->ended)
        reader_drop(feed, reader);
}

static void take_input(struct mu_launch_feed *feed)
{
    struct piece *piece = malloc(sizeof *piece);
    ssize_t n = piece ? read(feed->from, piece->data, PIECE_SIZE) : -1;

    if (n <= 0) {
        free(piece);
        feed->ended = n == 0 || (errno != EINTR && errno != EAGAIN);
        return;
    }
    piece->next = NULL;
    piece->len = (size_t)n;
    piece->readers = feed->live;
    if (feed->last)
        feed->last->next = piece;
    else
        feed->first = piece;
    feed->last = piece;
    feed->backlog += piece->len;
    for (uint32_t i = 0; i < feed->num_readers; i++)
        if (feed->readers[i].fd >= 0 && !feed->readers[i].piece)
            feed->readers[i].piece = piece;
}

static void *feed_main(void *arg)
{
    struct mu_launch_feed *feed = arg;
    struct pollfd *polls = calloc(feed->num_readers + 2, sizeof *polls);

    while (polls && feed->live > 0) {
        polls[0] = (struct pollfd){.fd = feed->stop_fd, .events = POLLIN};
        polls[1] =
            (struct pollfd){.fd = feed->ended || feed->backlog >= BACKLOG_MAX ? -1 : feed->from, .events = POLLIN};
        for (uint32_t i = 0; i < feed->num_readers; i++) /* without events: only whether the task still reads */
            polls[i + 2] = (struct pollfd){.fd = feed->readers[i].fd, .events = feed->readers[i].piece ? POLLOUT : 0};
        if (poll(polls, feed->num_readers + 2, -1) < 0)
            continue;
        if (polls[0].revents)
            break;
        if (polls[1].revents)
            take_input(feed);
        for (uint32_t i = 0; i < feed->num_readers; i++) {
            if (feed->readers[i].fd < 0)
                continue;
            if (polls[i + 2].revents & POLLERR)
                reader_drop(feed, &feed->readers[i]);
            else if (feed->readers[i].piece || feed->ended)
                write_to(feed, &feed->readers[i]);
        }
    }
    for (uint32_t i = 0; i < feed->num_readers; i++)
        if (feed->readers[i].fd >= 0)
            reader_drop(feed, &feed->readers[i]);
    free(polls);
    return NULL;
}

/*
 * Standard input, so that reading it never blocks: another reader may be quicker between our look and our read. All its
 * users share its flags, so a pipe or terminal is opened anew.
 */
static void open_input(struct mu_launch_feed *feed)
{
    struct stat st;

    if (fstat(0, &st) || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return;
    feed->from = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    feed->from_is_ours = feed->from >= 0;
    if (feed->from < 0)
        feed->from = 0;
}

int mu_launch_feed_new(uint32_t num_tasks, struct mu_launch_feed **ret_feed)
{
    struct mu_launch_feed *feed = calloc(1, sizeof *feed + num_tasks * sizeof feed->readers[0]);

    if (!feed)
        return -1;
    open_input(feed);
    feed->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (feed->stop_fd < 0) {
        if (feed->from_is_ours)
            close(feed->from);
        free(feed);
        return -1;
    }
    *ret_feed = feed;
    return 0;
}

int mu_launch_feed_add(struct mu_launch_feed *feed, int *ret_fd)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK); /* the tasks' ends stay blocking */
    feed->readers[feed->num_readers++].fd = ends[1];
    feed->live++;
    *ret_fd = ends[0];
    return 0;
}

void mu_launch_feed_take(struct mu_launch_feed *feed, int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    feed->readers[feed->num_readers++].fd = fd;
    feed->live++;
}

int mu_launch_feed_start(struct mu_launch_feed *feed)
{
    int error = pthread_create(&feed->thread, NULL, feed_main, feed);

    feed->running = error == 0;
    errno = error;
    return error ? -1 : 0;
}

void mu_launch_feed_stop(struct mu_launch_feed *feed)
{
    uint64_t one = 1;

    if (!feed)
        return;
    (void)!write(feed->stop_fd, &one, sizeof one);
    if (feed->running)
        pthread_join(feed->thread, NULL);
    else
        for (uint32_t i = 0; i < feed->num_readers; i++)
            close(feed->readers[i].fd);
    close(feed->stop_fd);
    if (feed->from_is_ours)
        close(feed->from);
    while (feed->first) {
        struct piece *next = feed->first->next;

        free(feed->first);
        feed->first = next;
    }
    free(feed);
}
