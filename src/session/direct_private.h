/*
 * session/direct_private.h: what the files of the channel share: the master's end of it, in the loop's thread.
 */
#ifndef MU_SESSION_DIRECT_PRIVATE_H
#define MU_SESSION_DIRECT_PRIVATE_H

#include "session/direct.h"

#define MU_DIRECT_READ 65536u

struct mu_direct_piece {
    struct mu_direct_piece *next, *prev;
    const uint8_t *at;
    size_t len;
    struct mu_direct_call *call; /* the bytes are of its request; NULL: they lie behind the piece */
};

enum mu_direct_state { MU_DIRECT_WAY_KNOWN, MU_DIRECT_WAY_BUILDING, MU_DIRECT_WAY_READY, MU_DIRECT_WAY_REFUSED };
struct mu_direct_way {
    struct mu_direct_way *next, *prev;
    struct mu_direct *direct;
    uint64_t id;
    enum mu_direct_state state;
    uint32_t runs;
    void *part, *options; /* until it is said */
    size_t part_len, options_len;
    struct mu_direct_names names;
};

struct mu_direct_call {
    struct mu_direct_call *next, *prev;
    struct mu_direct *direct;
    uint64_t id;
    uint32_t num_recv;
    char **keys; /* of what it fetches, by the graph's number */
    mu_executor_done *done;
    void *arg;
};

/* A frame that comes. */
struct mu_direct_coming {
    struct mu_direct_head head;
    struct mu_direct_tensor tensors[MU_DIRECT_TENSORS];
    char *words;
    struct mu_executor_tensor values[MU_DIRECT_TENSORS];
    void *buffers[MU_DIRECT_TENSORS];
    size_t prefixes[MU_DIRECT_TENSORS];
    uint32_t stage, tensor; /* stage: head, tensors, words, bytes */
    size_t have;            /* of the stage, of the tensor */
};

struct mu_direct {
    uv_poll_t poll;
    int fd, polled;
    bool is_broken, is_closed;
    char *task;
    uint64_t next_id;
    struct mu_direct_way *ways;
    struct mu_direct_call *calls;
    struct mu_direct_piece *out, *out_last;
    struct mu_direct_coming in;
    size_t in_at, in_len;
    uint8_t bytes[MU_DIRECT_READ];
};

/* ---- direct.c ---- */
void mu_direct_call_end(struct mu_direct_call *call, const struct mu_executor_answer *answer);
/* The channel is of no use any more. Its calls end as those of a connection that is lost. */
void mu_direct_break(struct mu_direct *direct);
/* Sends what waits, as far as the socket takes it. */
void mu_direct_flush(struct mu_direct *direct);
/* With so many bytes behind it, for the caller to fill. NULL: no memory. */
struct mu_direct_piece *mu_direct_piece_new(size_t len);

/* ---- direct_way.c ---- */
void mu_direct_way_say(struct mu_direct_way *way); /* BUILD is said, or it never will be */
/* The graph of this number is wanted no more; an executor that has none ignores it. */
void mu_direct_drop_say(struct mu_direct *direct, uint64_t id);

/* ---- direct_in.c ---- */
void mu_direct_on_event(uv_poll_t *poll, int status, int events);
void mu_direct_coming_clear(struct mu_direct_coming *in);

#endif
