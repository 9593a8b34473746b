/*
 * session/direct.h: steps that go to `muster executor` by a socket of its own, past gRPC.
 *
 *   direct.c      the master's end: what is said
 *   direct_in.c   what is answered
 *   direct_way.c  what is said of a graph: its part of a session's graph, with feeds and fetches instead of _Recv,
 * _Send
 *
 * Both ends are one program on one machine, so numbers are as they lie in memory. A frame is a head, `count` tensors'
 * descriptions, `words` bytes of text and `bytes` bytes of their elements, one tensor behind the other. A frame that is
 * wrong ends the channel, and nothing else: steps go the other way then.
 */
#ifndef MU_SESSION_DIRECT_H
#define MU_SESSION_DIRECT_H

#include <uv.h>

#include "session/executor.h"

#define MU_DIRECT_TENSORS 64u
#define MU_DIRECT_DIMS    8u
#define MU_DIRECT_WORDS   65536u
#define MU_DIRECT_BYTES   0x7fffffffu /* of a tensor */
#define MU_DIRECT_GRAPH   (16u << 20)
#define MU_DIRECT_IN      "muster.in/"                   /* with their numbers behind: nodes that are fed */
#define MU_DIRECT_OUT     "muster.out/"                  /* that are fetched */
#define MU_DIRECT_END     "muster.end"                   /* that runs when all have */
#define MU_DIRECT_ITSELF  "/job:muster/replica:0/task:0" /* as which an executor begins */

enum mu_direct_kind {
    MU_DIRECT_BUILD = 1, /* to the executor: id: the graph's. words: ConfigProto and GraphDef, count: fed, fetched */
    MU_DIRECT_RUN,       /* a step of it. count: of the tensors that are fed, all of them */
    MU_DIRECT_DROP,      /* the graph is wanted no more */
    MU_DIRECT_BUILT,     /* from it: status, words */
    MU_DIRECT_DONE,      /* status, words; else the tensors that are fetched, all of them */
};

struct mu_direct_head {
    uint32_t kind, count;
    uint64_t id, graph; /* of the step; of its graph */
    uint32_t status, words;
    uint32_t config, fetches; /* BUILD: so many of its words are ConfigProto */
    uint64_t bytes;
};

struct mu_direct_tensor {
    uint32_t type, num_dims;
    uint64_t bytes;
    int64_t dims[MU_DIRECT_DIMS];
};

/* Bytes of an element of this type; 0: not all have as many. */
size_t mu_direct_element(uint64_t type);
/* The description is one of a tensor. */
bool mu_direct_tensor_is_well(const struct mu_direct_tensor *tensor);

/* ---- the master's end: in the loop's thread ---- */
struct mu_direct;
struct mu_direct_way;  /* to run steps of a graph */
struct mu_direct_call; /* a step, until it is done or cancelled */

/* The socket is the channel's from now on, if it could be made; NULL: it could not. `task`: "/job:ps/replica:0/task:0",
 * for texts. */
struct mu_direct *mu_direct_open(uv_loop_t *loop, int fd, const char *task);
void mu_direct_close(struct mu_direct *direct); /* its calls are not done any more */
/* A graph that has been registered: its bytes are copied. NULL: its steps do not go this way. */
struct mu_direct_way *mu_direct_way_new(struct mu_direct *direct, const struct mu_executor_graph *graph);
void mu_direct_way_drop(
    struct mu_direct_way *way); /* NULL is allowed; before close(). Its steps may still be on their way */
/* NULL: it goes the other way. What it feeds is valid until it is done, or cancelled. */
struct mu_direct_call *mu_direct_run(struct mu_direct_way *way, const struct mu_executor_run *run,
                                     mu_executor_done *done, void *arg);
void mu_direct_cancel(struct mu_direct_call *call);

/* ---- direct_way.c ---- */
#define MU_DIRECT_NAME_MAX 256u
struct mu_direct_names { /* of tensors, by number */
    char *fed[MU_DIRECT_TENSORS], *fetched[MU_DIRECT_TENSORS];
    uint32_t num_fed, num_fetched;
};
/* A part's GraphDef as BUILD has it; malloc()ed. NULL: it cannot be run so. The names are to be freed in either case.
 */
void *mu_direct_graph(const void *part, size_t len, struct mu_direct_names *names, size_t *ret_len);
void mu_direct_names_free(struct mu_direct_names *names);
/* ConfigProto with these GraphOptions, and no optimizer of graphs: a part is run as it is. malloc()ed. */
void *mu_direct_config(struct mu_executor_bytes graph_options, size_t *ret_len);

#endif
