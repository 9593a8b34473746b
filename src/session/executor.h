/*
 * session/executor.h: how a session runs its parts: one executor a task, which has kernels and variables.
 *
 * There are two kinds, and the session knows neither: a server that speaks TensorFlow's WorkerService, and muster's own
 * kernels. Graphs, tensors and lists are bytes of TensorFlow's messages. What a session sends has been checked before:
 * names, edges, types, devices. One thread: the loop's. `done` is called once, and never before the call that was given
 * it has returned; after cancel() it is not called. Its bytes are valid until it returns, a caller's until the call has
 * returned.
 */
#ifndef MU_SESSION_EXECUTOR_H
#define MU_SESSION_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

struct mu_executor;
struct mu_executor_call; /* one that is not done */
struct mu_direct_way;    /* a shorter one for a graph's steps: session/direct.h */

struct mu_executor_bytes {
    const void *at;
    size_t len;
};

/* A tensor on its way: the key of its rendezvous, "SEND_DEVICE;INCARNATION;RECV_DEVICE;NAME;0:0", and a TensorProto. */
struct mu_executor_tensor {
    const char *key;
    struct mu_executor_bytes tensor;
};

/* What became of a call. Only what the call was for is set. */
struct mu_executor_answer {
    enum muster_status status;
    const char *text;                        /* why not; "" */
    bool is_lost;                            /* the executor is gone: it did not answer itself */
    const char *graph;                       /* register_graph: its handle */
    struct mu_direct_way *way;               /* the same; NULL: none */
    const struct mu_executor_bytes *devices; /* devices: DeviceAttributes */
    uint32_t num_devices;
    const struct mu_executor_tensor *tensors; /* run: of the keys that were asked for, in any order */
    uint32_t num_tensors;
    void **buffers; /* run: where the tensors lie, malloc()ed: one that is taken becomes NULL here; NULL: none may be */
    bool is_clean;  /* run: cleanup() has nothing to do */
    struct mu_executor_bytes step_stats, cost_graph; /* run: StepStats, CostGraphDef; empty: none */
    const struct mu_executor_bytes *graphs;          /* run: GraphDefs, as they were run */
    uint32_t num_graphs;
};
typedef void mu_executor_done(void *arg, const struct mu_executor_answer *answer);

struct mu_executor_session {
    const char *session;
    struct mu_executor_bytes server; /* a ServerDef: all tasks of the session with their addresses, and which it is */
    bool is_isolated;                /* it has variables of its own */
};

struct mu_executor_graph {
    const char *session;
    struct mu_executor_bytes
        graph; /* GraphDef: this task's part. _Send and _Recv join it to the others and the client */
    struct mu_executor_bytes config; /* ConfigProto; its graph_options (empty: none) are in graph_options, too */
    struct mu_executor_bytes graph_options;
    bool
        is_whole; /* its steps have no other part, never wait, and leave nothing but variables: mu_ss_part_is_whole() */
};

struct mu_executor_run { /* what is sent is valid until it is done, or cancelled */
    const char *session, *graph;
    struct mu_direct_way *way;
    int64_t step;                          /* all parts of a step have one number */
    const struct mu_executor_tensor *send; /* what the client feeds */
    uint32_t num_send;
    const char *const *recv; /* the keys of what it fetches */
    uint32_t num_recv;
    struct mu_executor_bytes options; /* ExecutorOpts; empty: none */
    bool is_partial, is_last;         /* more of the same step follows, on the same number; is_last: no more */
};

/* A kind of executor. NULL as `done`: nobody wants to know. A call that cannot be begun is done with its reason. */
struct mu_executor_kind {
    const char *name;   /* for people */
    const char *remedy; /* where an op is not in its lists, for people; NULL: none */
    /* What ops and kernels there are: OpList, KernelList. They are valid as long as the executor is. False: unknown. */
    bool (*lists)(struct mu_executor *executor, struct mu_executor_bytes *ret_ops,
                  struct mu_executor_bytes *ret_kernels);
    struct mu_executor_call *(*devices)(struct mu_executor *executor, mu_executor_done *done, void *arg);
    struct mu_executor_call *(*create_session)(struct mu_executor *executor, const struct mu_executor_session *session,
                                               mu_executor_done *done, void *arg);
    void (*delete_session)(struct mu_executor *executor, const char *session);
    struct mu_executor_call *(*register_graph)(struct mu_executor *executor, const struct mu_executor_graph *graph,
                                               mu_executor_done *done, void *arg);
    void (*deregister_graph)(struct mu_executor *executor, const char *session, const char *graph,
                             struct mu_direct_way *way);
    struct mu_executor_call *(*run)(struct mu_executor *executor, const struct mu_executor_run *run,
                                    mu_executor_done *done, void *arg);
    void (*cleanup)(struct mu_executor *executor, int64_t step); /* nothing of that step is wanted any more */
    /* Variables and queues of these containers are forgotten; none named: of the default one. */
    struct mu_executor_call *(*cleanup_all)(struct mu_executor *executor, const char *const *containers, uint32_t count,
                                            mu_executor_done *done, void *arg);
    void (*cancel)(struct mu_executor_call *call);
};

/* What each executor begins with. Its maker frees it, when its calls have been cancelled or are done. */
struct mu_executor {
    const struct mu_executor_kind *kind;
    const char *job; /* "ps" */
    uint32_t task;
    const char *address; /* where others' executors find it, for ServerDef: "127.0.0.1:4711"; "": nowhere */
    bool is_gone;     /* its process has ended: it is asked nothing more. An executor that comes again is a new one */
    bool is_nameless; /* it has not said yet which task it is */
};

/* "/job:ps/replica:0/task:0", as messages have it. */
void mu_executor_name(const struct mu_executor *executor, char *text, size_t size);

#endif
