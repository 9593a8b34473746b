/* launch/process/output_private.h: what output.c (the main thread's) and output_streams.c (the other's) share. */
#ifndef MU_LAUNCH_PROCESS_OUTPUT_PRIVATE_H
#define MU_LAUNCH_PROCESS_OUTPUT_PRIVATE_H

#include <pthread.h>

#include "launch/launch.h"

enum { MU_OUTPUT_READ = 65536 };

struct mu_output_stream {
    struct mu_output_stream *next;
    int fd, out, file; /* the pipe; 1 or 2; -1: no file */
    uint32_t task_id;  /* or, of what is passed on, the host */
    int is_passed;
    char prefix[32];
    size_t prefix_len;
    int is_terminal;
    uint16_t width; /* of the label */
    int lines;      /* it leaves line by line; else as it comes */
    char *line;     /* the beginning of a line without its end yet */
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
    struct mu_output_stream *streams;
    size_t open;
    int finished;
    size_t tails; /* streams with an end to be said */
    char *out;    /* what is about to be written */
    size_t out_len, out_cap;
    int broken[3];
    int lost;                   /* what should be in a file, or came for stdout, is not there */
    int midline;                /* the last that went to stderr did not end its line */
    char input[MU_OUTPUT_READ]; /* last: its pages are not touched before they are needed */
};

/* The thread: until every pipe has ended, and no more will come. */
void *mu_output_main(void *output);
void mu_output_end_stream(struct mu_launch_output *output, struct mu_output_stream *stream);
void mu_output_free_stream(struct mu_output_stream *stream);

#endif
