/*
 * rpc/desk_remote.h: the desk of a host that is not the leader's: what it asks the leader for.
 *
 *   desk_remote.c           calls to the leader, and the asks that wait for their answers
 *   desk_remote_kv.c        changes of keys; what the leader says of a key of which there is no copy here
 *   desk_remote_list.c       listings
 *   desk_remote_barrier.c   named barriers, who is alive, errors of other hosts' tasks
 *
 * A call goes by a lane of the bridge (bridge/lanes.h), and its answer comes in the loop's thread, behind everything
 * that the leader said before it: the copies of keys that it made are in our table then. While the connection is down
 * calls wait; when the leader is given up each is answered UNAVAILABLE, and so is everything else that waits for it.
 */
#ifndef MU_RPC_DESK_REMOTE_H
#define MU_RPC_DESK_REMOTE_H

#include "bridge/lanes.h"
#include "rpc/desk_private.h"

/* ---- calls: desk_remote.c ---- */

struct mu_desk_call {
    struct mu_lane_call lane;
    struct mu_desk *desk;
    struct mu_desk_call *prev, *next; /* of those that are open */
    bool open;
    size_t bytes;        /* of its request, that count */
    struct mu_parked *p; /* who waits for the answer; NULL: nobody, or as the owner of the call knows */
    /*
     * Answered: it is not open any more, and its owner's, who asks again or frees it. The text is of an error, and
     * begins with what the call was about. Within it p may be answered; other calls, asks and lines stay.
     */
    void (*answered)(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body);
    void (*freed)(struct mu_desk_call *call); /* what it holds on to; may be NULL */
    char what[160];                           /* what it is about: "key x" */
};

struct mu_key_fetch;

struct mu_desk_remote {
    struct mu_desk_call *first;    /* open calls */
    struct mu_parked_list asks;    /* those that wait for one answer */
    struct mu_parked_list meets;   /* calls to barriers, */
    struct mu_parked_list gathers; /* and who is alive */
    size_t bytes;                  /* of requests, and of values that come in pieces */
    uint32_t lingering;            /* changes for which nobody waits any more */
    /* questions about keys (desk_remote_kv.c) */
    struct mu_key_fetch *queue, *queue_end; /* to be asked, in this order */
    uint32_t asking;                        /* so many are */
    uint32_t round;                         /* of the bridge, when all wishes were last looked at */
};

/* What may wait in requests and unfinished values. */
#define MU_DESK_REMOTE_BYTES (512u << 20)

enum muster_status mu_desk_remote_open(struct mu_desk *desk);
/* Everything that waits is answered by the files whose it is; what is left are calls that nobody waits for. */
void mu_desk_remote_stop(struct mu_desk *desk);
/* Outside of mu_enter(): has the leader been lost, has a new round begun? */
void mu_desk_remote_look(struct mu_desk *desk);

/* Make the call, with what its owner has put into call->lane besides the op; the request is taken over in every case.
 * On a failure nothing was asked. */
enum muster_status mu_desk_call_make(struct mu_desk *desk, struct mu_desk_call *call, enum mu_op op,
                                     struct mu_pack *request);
/* Ask something else instead, by which the call that is open is given up. */
enum muster_status mu_desk_call_replace(struct mu_desk_call *call, enum mu_op op, struct mu_pack *request);
/* Nobody waits for it any more. It may be freed then. */
void mu_desk_call_end(struct mu_desk_call *call);
void mu_desk_call_free(struct mu_desk_call *call); /* with what it holds on to; it is not open */
/*
 * An ask waits in `list` for the answer to one call: p->at is the call, the first member of what was malloc()ed, and is
 * freed with it. `line_bytes` count against its line, and the call. The call's `answered` ends with
 * mu_desk_call_done(). False: the ask was answered, and the call is freed.
 */
bool mu_desk_call_park(struct mu_desk *desk, struct mu_ask *ask, struct mu_parked_list *list, struct mu_desk_call *call,
                       enum mu_op op, struct mu_pack *request, size_t line_bytes);
/* Its ask is answered, and the call freed. */
void mu_desk_call_done(struct mu_desk_call *call, enum muster_status status, unsigned payload, const char *text);
/* The sentence for who cannot be told anything else, and the status that goes with it. */
enum muster_status mu_desk_call_malformed(const struct mu_desk_call *call);

/* ---- keys: desk_remote_kv.c ---- */

/* The change of a key as mu_kv_key() made it, or the delete of a directory. */
void mu_desk_remote_change(struct mu_desk *desk, struct mu_ask *ask, enum mu_op op, const struct mu_key *k,
                           uint64_t number, const void *value, size_t len);
/* The wish's key is not in our table: the leader is asked, unless it has been and will say so when the key comes. `p`
 * has just come to it. */
void mu_key_fetch_want(struct mu_desk *desk, struct mu_wish *w, struct mu_parked *p);
extern const size_t mu_key_fetch_bytes; /* that each takes */
/* The wish goes, and with it what it asked. */
void mu_key_fetch_drop(struct mu_desk *desk, struct mu_key_fetch *q);
/* For all wishes. */
void mu_key_fetches_fail(struct mu_desk *desk, enum muster_status status, const char *text);
void mu_key_fetches_renew(struct mu_desk *desk);
/* As many as may be asked at a time are. */
void mu_key_fetches_go(struct mu_desk *desk);

/* ---- listings: desk_remote_list.c. `prefix` ends with a '/'. ---- */
void mu_desk_remote_list(struct mu_desk *desk, struct mu_ask *ask, const char *prefix, size_t prefix_len);
void mu_desk_remote_count(struct mu_desk *desk, struct mu_ask *ask, const char *prefix, size_t prefix_len);

/* ---- barriers, who is alive: desk_remote_barrier.c ---- */
struct mu_desk_remote_barrier {
    int32_t task;
    const char *id;
    uint64_t asked, timeout_ns;
    const int32_t *tasks;
    size_t count;
};
void mu_desk_remote_barrier(struct mu_desk *desk, struct mu_ask *ask, const struct mu_desk_remote_barrier *wanted);
void mu_desk_remote_cancel(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const char *id, uint64_t asked);
void mu_desk_remote_alive(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const int32_t *tasks, size_t count);
/* An error of another host's task. */
void mu_desk_remote_report(struct mu_desk *desk, struct mu_ask *ask, int32_t task, enum muster_status code,
                           const char *text);
void mu_desk_remote_stop_waits(struct mu_desk *desk);

#endif
