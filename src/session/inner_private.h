/*
 * session/inner_private.h: what inner.c and inner_step.c share.
 *
 * A number is a step of a session, with the tensors on their way; a part is one executor's graph in it, which runs when
 * it is in the line. Every call is answered from the line, too, and so never before it has returned. A part is freed
 * when its step is cleaned up and none of its kernels runs in another thread.
 */
#ifndef MU_SESSION_INNER_PRIVATE_H
#define MU_SESSION_INNER_PRIVATE_H

#include "kernel/kernel.h"
#include "session/inner.h"

struct local_graph {
    struct local_graph *next, *prev;
    char handle[24];
    struct mu_kernel_graph *graph;
    void *bytes; /* as it came */
    size_t len;
};

struct local_session {
    struct local_session *next, *prev;
    struct mu_resources *own, *isolated; /* isolated: NULL: its variables are its executor's */
    struct local_graph *graphs;
    char name[];
};

struct local_executor {
    struct mu_executor base;
    struct local_executor *next;
    struct mu_inner *local;
    struct mu_resources *shared;
    struct local_session *sessions;
    struct mu_executor_bytes device;
    char *device_name;
};

struct number;

struct part {
    struct part *next, *prev;           /* of its number's */
    struct part *line_next, *line_prev; /* of those that are to run */
    struct number *number;
    struct local_executor *executor;
    struct mu_kernel_step *step;
    struct mu_executor_call *calls, *calls_last;
    char graph[24];
    bool is_in_line, is_done, is_dropped, is_busy;
};

#define MU_INNER_PLACES 1024u
struct number {
    struct number *next, *prev;
    int64_t step;
    struct mu_rendezvous *rendezvous;
    struct part *parts;
};

struct mu_executor_call {
    struct mu_executor_call *next, *prev; /* of the answers, or of its part's */
    struct mu_inner *local;
    struct part *part; /* NULL: it is answered as it is */
    mu_executor_done *done;
    void *arg;
    struct mu_kernel_error error;
    struct mu_executor_bytes device;
    char graph[24];
    char **recv;
    uint32_t num_recv;
    bool is_partial, is_last;
};

struct mu_inner {
    uv_loop_t *loop;
    uv_idle_t idle;
    struct mu_kernel_memory memory;
    struct local_executor *executors;
    struct number *numbers[MU_INNER_PLACES]; /* by step, which is random */
    struct part *line, *line_last;
    struct part *dropped; /* parts that only wait for what runs in other threads, by next */
    struct mu_executor_call *answers, *answers_last;
    uint64_t graphs; /* so far */
    uint32_t works;  /* in other threads */
    bool is_freed, is_closed;
    void (*stopped)(void *arg);
    void *arg;
};

static inline struct mu_inner *mu_inner_of(struct mu_executor *executor)
{
    return ((struct local_executor *)executor)->local;
}

/* inner.c */
struct mu_executor_call *mu_inner_call_new(struct mu_inner *local, mu_executor_done *done, void *arg);
void mu_inner_call_free(struct mu_executor_call *call);
/* It is answered in its turn: with its error, or with what it has. */
struct mu_executor_call *mu_inner_call_answer(struct mu_executor_call *call);
void mu_inner_call_end(struct mu_executor_call *call, struct mu_executor_answer *answer); /* and frees it */
struct local_graph *mu_inner_graph_find(struct mu_executor *executor, const char *session, const char *graph);
void mu_inner_wake(struct mu_inner *local);  /* it has something to do */
void mu_inner_close(struct mu_inner *local); /* if it is to end, and can */

/* inner_step.c */
struct mu_executor_call *mu_inner_run(struct mu_executor *executor, const struct mu_executor_run *run,
                                      mu_executor_done *done, void *arg);
void mu_inner_cleanup(struct mu_executor *executor, int64_t step);
void mu_inner_cancel(struct mu_executor_call *call);
void mu_inner_line_run(struct mu_inner *local, uint32_t count); /* so many parts, each its turn */
/* Cancels what runs this graph. */
void mu_inner_graph_cancel(struct mu_inner *local, const char *graph);
void mu_inner_steps_free(struct mu_inner *local); /* what still runs elsewhere stays in local->dropped */
void mu_inner_part_free(struct part *part);

#endif
