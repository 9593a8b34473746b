/*
 * coord/remote.h: the engine of a host that is not the leader's: what it asks the leader for.
 *
 *   coord/remote.c           calls to the leader, and the requests that wait for them
 *   coord/remote_kv.c        changes of keys, and listings
 *   coord/remote_fetch.c     fetches of a key of which there is no copy here
 *   coord/remote_barrier.c   named barriers, liveness queries, errors of other hosts' tasks
 *
 * What a request means and what its answer says is an operation's (segment/steps.h), as for the tasks of the C library.
 * The engine makes its requests by agent calls (bridge/call/lanes.h). Their answers come in the loop's thread, behind
 * everything that the leader said before: the copies of keys that it made are in our table then. While the connection
 * is down calls wait; when the leader is given up each is answered UNAVAILABLE, and so is all else that waits for it.
 */
#ifndef MU_COORD_REMOTE_H
#define MU_COORD_REMOTE_H

#include "bridge/call/lanes.h"
#include "coord/private.h"
#include "segment/steps.h"

/* ---- calls: coord/remote.c ---- */

/* An operation at the leader. */
struct mu_coord_call {
    struct mu_lane_call lane;
    struct mu_steps *steps; /* the operation, which lies in what its owner has allocated with the call */
    struct mu_coord *coord;
    struct mu_coord_call *prev, *next; /* of those that are open */
    bool open;                         /* a request is under way */
    size_t bytes;                      /* of that request, which count */
    size_t held;                       /* and of what has come, see mu_coord_call_hold() */
    struct mu_coord_pending *p;        /* the request that waits for it; NULL: none, or the owner knows */
    /*
     * The operation has ended; the text is of an error. The owner begins it again or frees it. Within it p may be
     * answered; other calls, requests and lines stay.
     */
    void (*ended)(struct mu_coord_call *call, enum muster_status status, const char *text);
    void (*freed)(struct mu_coord_call *call); /* what it holds on to; may be NULL */
};

struct mu_key_fetch;

struct mu_coord_remote {
    struct mu_coord_call *first;           /* open calls */
    struct mu_coord_pending_list requests; /* those that wait for one */
    struct mu_coord_pending_list meets;    /* calls to barriers, */
    struct mu_coord_pending_list gathers;  /* and liveness queries */
    size_t bytes;                          /* of requests, and of what calls hold */
    uint32_t lingering;                    /* changes for which nobody waits any more */
    /* fetches of keys (coord/remote_fetch.c) */
    struct mu_key_fetch *queue, *queue_end; /* to be begun, in this order */
    uint32_t fetching;                      /* so many are */
    uint32_t round;                         /* of the bridge, when all were last looked at */
};

/* What requests and unfinished answers may take. */
#define MU_COORD_REMOTE_BYTES (512u << 20)

/* A zeroed struct of so many bytes that begins with the request's call, and has its steps behind that. NULL: no memory,
 * the request was answered. */
void *mu_coord_call_new(struct mu_coord_request *request, size_t bytes,
                        void (*ended)(struct mu_coord_call *call, enum muster_status status, const char *text));
/* Make the request that call->steps is at, for the task that its owner has put into call->lane. On a failure nothing
 * was asked. */
enum muster_status mu_coord_call_make(struct mu_coord *coord, struct mu_coord_call *call);
/* The same in place of the request that is open, which is given up by it. */
enum muster_status mu_coord_call_replace(struct mu_coord_call *call);
/* So many bytes of the answer are kept until the call is freed or says otherwise. RESOURCE_EXHAUSTED: there is no room
 * besides what others take. */
enum muster_status mu_coord_call_hold(struct mu_coord_call *call, size_t bytes);
/* Nobody waits for it any more. It may be freed then. */
void mu_coord_call_end(struct mu_coord_call *call);
void mu_coord_call_free(struct mu_coord_call *call); /* with what it holds on to; it is not open */
/*
 * A request waits in `list` for the operation to end: p->at is the call, the first member of what was malloc()ed, and
 * is freed with it. `line_bytes` count against its line, and the call. The call's `ended` ends with
 * mu_coord_call_done(). False: the request was answered, and the call is freed.
 */
bool mu_coord_call_begin(struct mu_coord *coord, struct mu_coord_request *request, struct mu_coord_pending_list *list,
                         struct mu_coord_call *call, size_t line_bytes);
/* Its request is answered, and the call freed. */
void mu_coord_call_done(struct mu_coord_call *call, enum muster_status status, unsigned payload, const char *text);

/* ---- keys: coord/remote_kv.c. A path ends with a '/'. ---- */

/* The change of a key as mu_kv_key() made it, or the delete of a directory. */
void mu_coord_remote_change(struct mu_coord *coord, struct mu_coord_request *request, enum mu_op op,
                            const struct mu_key *k, uint64_t number, const void *value, size_t len);
/* The path is freed, now or when it has ended. */
void mu_coord_remote_list(struct mu_coord *coord, struct mu_coord_request *request, char *path, size_t len);
void mu_coord_remote_count(struct mu_coord *coord, struct mu_coord_request *request, const char *prefix,
                           size_t prefix_len);

/* ---- fetches: coord/remote_fetch.c ---- */

/* The wait's key is not in our table: the leader is asked, unless it has been and will say so when the key comes. `p`
 * has just come to it. */
void mu_coord_key_fetch_want(struct mu_coord *coord, struct mu_key_wait *w, struct mu_coord_pending *p);
extern const size_t mu_key_fetch_bytes; /* that each takes */
/* The wait goes, and with it its fetch. */
void mu_coord_key_fetch_drop(struct mu_coord *coord, struct mu_key_fetch *f);

/* ---- barriers, liveness queries: coord/remote_barrier.c ---- */
struct mu_coord_remote_barrier {
    int32_t task;
    const char *id;
    uint64_t asked, timeout_ns;
    const int32_t *tasks;
    size_t count;
};
void mu_coord_remote_barrier(struct mu_coord *coord, struct mu_coord_request *request,
                             const struct mu_coord_remote_barrier *wanted);
void mu_coord_remote_cancel(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                            uint64_t asked);
void mu_coord_remote_alive(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const int32_t *tasks,
                           size_t count);
/* An error of another host's task. */
void mu_coord_remote_report(struct mu_coord *coord, struct mu_coord_request *request, int32_t task,
                            enum muster_status code, const char *text);
void mu_coord_remote_stop_waits(struct mu_coord *coord);

#endif
