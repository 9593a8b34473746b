/*
 * compat/tcpstore_private.h: what the files of the TCPStore server share.
 *
 *   tcpstore.c          start, stop; new connections; rounds of the loop
 *   tcpstore_conn.c     a connection: its socket and its requests
 *   tcpstore_out.c      its answers
 *   tcpstore_room.c     memory, and the connections that wait for it
 *   tcpstore_scan.c     where a request ends
 *   tcpstore_key.c      what keys are called in the job's store
 *   tcpstore_turn.c     turns of connections
 *   tcpstore_run.c      one request after another
 *   tcpstore_step.c     the fields of a request, its answer, its steps
 *   tcpstore_keys.c     requests about keys
 *   tcpstore_change.c   those that depend on the value that is there
 *   tcpstore_queue.c    queues
 *   tcpstore_wait.c     waiting: for keys, and at barriers
 *   tcpstore_await.c    waiting for the next item of a queue; looks at what may have been missed
 *
 * A request is carried out in steps. Each makes one call at the engine, and the answer says which step is the next;
 * whether it comes at once or later makes no difference, and a long pipeline does not deepen the stack.
 */
#ifndef MU_COMPAT_TCPSTORE_PRIVATE_H
#define MU_COMPAT_TCPSTORE_PRIVATE_H

#include <sys/socket.h>

#include "base/account.h"
#include "base/blob.h"
#include "base/error.h"
#include "compat/tcpstore.h"
#include "compat/tcpstore_key.h"
#include "rpc/peer.h"
#include "compat/tcpstore_scan.h"
#include "coord/coord.h"
#include "rpc/listen.h"

#define MU_TS_SLICE   4096u        /* of one turn: steps, more for those that cost more */
#define MU_TS_BUFFER  (64u << 10)  /* bytes that are read in one turn */
#define MU_TS_LONG    (64u << 10)  /* of a value: it is sent from where it is */
#define MU_TS_OUT_MAX (256u << 10) /* of answers that a client has not taken: then it is not served any more */

struct mu_ts_conn;
typedef void (*mu_ts_step)(struct mu_ts_conn *conn);

struct mu_ts_field {
    size_t at, len; /* from the request's beginning */
};

/* A key that a client waits for, and the queue of that name. */
struct mu_ts_item {
    struct mu_coord_request plain, queue;
    struct mu_ts_wait *wait;
    struct mu_ts_field key; /* in the wait's copy of the request */
    bool has_come;
    /* of the queue (tcpstore_await.c) */
    bool is_pass;        /* it is none: a barrier's pass is waited for, the next after `head` */
    uint64_t tail, head; /* the head's next item is waited for */
    uint64_t seen;       /* the head, when it was last looked at */
    bool is_prompt;      /* there was something when the wait came */
    bool sleeps, was_seen;
    struct mu_ts_item *next, *prev; /* of those that sleep */
};

struct mu_ts_wait {
    struct mu_ts_wait *next, *prev;
    struct mu_ts_conn *conn;
    void (*drop)(struct mu_ts_wait *wait); /* its client waits no more, or goes */
    uint32_t num, missing;
    bool is_whole; /* every key has been asked for */
    size_t bytes;
    uint8_t *request;
    struct mu_ts_item items[];
};

/* The connections that wait for items of queues, or at barriers. */
struct mu_ts_sleepers {
    struct mu_ts_item *first, *last;
    struct mu_ts_item *looked_at; /* by `look`, which is at the engine */
    struct mu_coord_request look;
    uint32_t count, left; /* left: to be looked at now */
    bool is_looking, is_in_looks;
    uv_timer_t timer;
    struct {
        uint64_t hash, at;
    } told[256]; /* the items of which clients have been told, and when; by their queue */
};

struct mu_ts_conn {
    uv_tcp_t tcp; /* first */
    struct mu_tcpstore *store;
    struct mu_ts_conn *next, *prev;
    struct mu_ts_conn *next_turn, *next_dirty;
    int fd;
    bool is_closed, has_turn, is_dirty, reads;
    bool has_filled; /* its room, the last piece read: there may be more */
    bool is_ended;   /* nothing more comes */
    bool is_lost;    /* its socket has failed */
    bool is_full;    /* too much of its answers waits: nothing more is done */
    bool has_spare;  /* its answers are gathered in the server's buffer */
    char name[64];
    size_t held;                   /* bytes of memory, that count */
    size_t wants;                  /* it waits for so many more; 0: it does not */
    struct mu_ts_conn *next_short; /* of those that do */
    uint64_t moved_ms;             /* the last byte came or went, as far as that is looked at, */
    size_t left_seen;              /* when so many were to go */

    /* in: what has been read and not consumed, in memory of its own or, during a turn, in the server's */
    uint8_t *own, *bytes;
    size_t room, at, len; /* of own; in bytes: where the request begins, and how many bytes there are from there */
    struct mu_ts_scan scan;

    /* the request that is under way */
    mu_ts_step step; /* NULL: none is */
    mu_ts_step take; /* what the engine's answer goes to */
    bool is_running, is_answered;
    int32_t units; /* left of the turn */
    size_t cursor; /* the next field's place */
    uint64_t left; /* keys of its list */
    struct mu_ts_field f[3];
    bool is_hash;                 /* the name of the key that was asked for */
    int64_t number, sum, world;   /* what is to be added; what that has come to; how many a barrier waits for */
    uint64_t head, tail, version; /* of a queue; of its head, or of the value that is there */
    uint64_t passes;              /* of a barrier */
    mu_ts_step looked, summed;    /* where it goes on then */
    uint8_t *kept;                /* bytes that outlive a step */
    size_t kept_len;
    struct mu_coord_request request;

    struct mu_ts_wait *waits;
    uint32_t num_waits;
    struct mu_line *line; /* at the engine */

    /* out */
    uint8_t *out, few[16];
    size_t out_at, out_len, out_room; /* sent; to be sent behind that; in all */
    struct mu_slice value; /* to be sent behind that: it is not copied, and nothing is added until it has gone */
    uint8_t *going;        /* what the loop sends when the socket takes it, */
    size_t going_room;
    struct mu_blob *going_value; /* and what behind that */
    uv_write_t write;
};

struct mu_tcpstore {
    struct mu_tcpstore_options options;
    struct mu_listen listen;
    struct mu_peers peers;
    uv_poll_t listeners[MU_LISTEN_MAX];
    uv_check_t check;
    uv_prepare_t prepare;
    uv_idle_t idle; /* while somebody waits for a turn: the loop does not sleep */
    uv_timer_t tick;
    uint32_t open;                               /* handles */
    void (*released)(struct mu_tcpstore *store); /* one of them is closed */
    mu_ts_step run;                              /* what a connection does in its turn */
    struct mu_ts_conn *conns, *first_turn, **last_turn, *dirty;
    bool is_stopping, is_paused, was_paused;
    int reserve_fd;
    struct mu_account own, *account;
    size_t held;                                  /* of it, for connections, and values on their way to them */
    struct mu_ts_conn *first_short, **last_short; /* those that wait for memory; */
    struct mu_ts_conn *favoured;                  /* the one that has what is kept, and is not done; NULL: none */
    uv_timer_t shortage;
    uint32_t sentences; /* that may be said */
    uint64_t sentences_at;
    struct mu_tcpstore_stats stats;
    void (*stopped)(void *arg);
    void *stopped_arg;
    struct mu_ts_name key; /* for the call that is being made */
    struct mu_ts_sleepers sleepers;
    uint8_t *spare; /* MU_TS_BUFFER bytes for answers; NULL: a connection has them */
    uint8_t in[MU_TS_BUFFER];
};

/* ---- tcpstore_turn.c ---- */
#define MU_TS_SENTENCES 20u /* that may be said in one go */
void mu_ts_say(struct mu_tcpstore *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mu_ts_turn(struct mu_ts_conn *conn);               /* it has something to do: soon */
void mu_ts_dirty(struct mu_ts_conn *conn);              /* it has something to say: soon */
void mu_ts_cost(struct mu_ts_conn *conn, size_t bytes); /* of a step that moves so many */

/* ---- tcpstore_conn.c ---- */
/* Takes the descriptor. NULL: no memory. */
struct mu_ts_conn *mu_ts_conn_new(struct mu_tcpstore *store, int fd, const struct sockaddr *peer);
void mu_ts_close(struct mu_ts_conn *conn);
void mu_ts_drop_waits(struct mu_ts_conn *conn); /* it waits for nothing any more */
/* Its socket has failed. A request that is under way and changes something is carried out first: others may count on
 * its other half. */
void mu_ts_lost(struct mu_ts_conn *conn);
/* It is said why. */
void mu_ts_dismiss(struct mu_ts_conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mu_ts_go_on(struct mu_ts_conn *conn);       /* a turn */
void mu_ts_read_or_not(struct mu_ts_conn *conn); /* as it is now; to be called after a change of that */
/* So many bytes are held for the rest of its request. */
void mu_ts_roomy(struct mu_ts_conn *conn, size_t more);
/* It is read on, or its step is made again, when there is room for so many bytes more. */
void mu_ts_want(struct mu_ts_conn *conn, size_t bytes);
/* ---- tcpstore_out.c ---- */
/* Room for that many bytes of an answer. NULL: none, and the connection is closed. */
uint8_t *mu_ts_out(struct mu_ts_conn *conn, size_t len);
/* A long value, and its length: it is held, not copied. */
void mu_ts_out_value(struct mu_ts_conn *conn, const struct mu_slice *value);
void mu_ts_flush(struct mu_ts_conn *conn);
void mu_ts_out_drop(struct mu_ts_conn *conn);

/* ---- tcpstore_room.c ---- */
/* Count memory. False: it would be too much. */
bool mu_ts_hold(struct mu_ts_conn *conn, size_t bytes);
bool mu_ts_hold_rest(struct mu_ts_conn *conn, size_t bytes); /* of a request: what was read in a turn */
void mu_ts_unhold(struct mu_ts_conn *conn, size_t bytes);
/* It waits until there is room for so many bytes more. False: for one client there never is. */
bool mu_ts_room_wait(struct mu_ts_conn *conn, size_t bytes);
size_t mu_ts_room_for_one(const struct mu_tcpstore *store);
void mu_ts_room_leave(struct mu_ts_conn *conn); /* it does not want any; its request is over */
void mu_ts_room_moved(struct mu_ts_conn *conn);
/* A client that waits for room, and has it now: so many bytes are held for it. NULL: none. */
struct mu_ts_conn *mu_ts_room_next(struct mu_tcpstore *store, size_t *ret_bytes);
/* Others wait for what it holds, and it has neither sent nor taken anything for long. */
bool mu_ts_room_stalled(struct mu_ts_conn *conn);
void mu_ts_room_begin(struct mu_tcpstore *store);

/* ---- tcpstore_run.c ---- */
void mu_ts_run(struct mu_ts_conn *conn); /* what has come, as far as a turn goes */

/* ---- tcpstore_step.c ---- */
/* Ask the engine: prepares conn->request; the answer goes to `take`. */
struct mu_coord_request *mu_ts_request(struct mu_ts_conn *conn, mu_ts_step take);
/* The request is over; or the step was without a call, and `next` follows. */
void mu_ts_finish(struct mu_ts_conn *conn);
void mu_ts_then(struct mu_ts_conn *conn, mu_ts_step next);
/* The engine has refused: the client is sent away. */
void mu_ts_refused(struct mu_ts_conn *conn);
/* A count that the engine has read or changed; 0: it is absent. False: the client is sent away. */
bool mu_ts_count(struct mu_ts_conn *conn, uint64_t *ret_count);
struct mu_ts_field mu_ts_next_field(struct mu_ts_conn *conn);
static inline const uint8_t *mu_ts_at(const struct mu_ts_conn *conn, struct mu_ts_field f)
{
    return conn->bytes + conn->at + f.at;
}
/* The name of what field f says. */
const struct mu_ts_name *mu_ts_name_of(struct mu_ts_conn *conn, enum mu_ts_place place, struct mu_ts_field f);
/* Answers. */
void mu_ts_out_u8(struct mu_ts_conn *conn, uint8_t v);
void mu_ts_out_i64(struct mu_ts_conn *conn, int64_t v);
void mu_ts_out_bytes(struct mu_ts_conn *conn, const void *bytes, size_t len); /* and their length */

/* ---- requests: the first step of each ---- */
void mu_ts_set(struct mu_ts_conn *conn); /* and MULTI_SET: one of `left` */
void mu_ts_get(struct mu_ts_conn *conn); /* and MULTI_GET */
void mu_ts_check(struct mu_ts_conn *conn);
void mu_ts_num_keys(struct mu_ts_conn *conn);
void mu_ts_list_keys(struct mu_ts_conn *conn);
void mu_ts_delete(struct mu_ts_conn *conn);
void mu_ts_append(struct mu_ts_conn *conn);
void mu_ts_add(struct mu_ts_conn *conn);
void mu_ts_compare_set(struct mu_ts_conn *conn);
void mu_ts_queue_push(struct mu_ts_conn *conn);
void mu_ts_queue_pop(struct mu_ts_conn *conn);
void mu_ts_queue_len(struct mu_ts_conn *conn);
void mu_ts_wait(struct mu_ts_conn *conn);
void mu_ts_barrier(struct mu_ts_conn *conn);
void mu_ts_cancel_wait(struct mu_ts_conn *conn);

/* What is of the key in the value of a name that is a hash, and what is the value: false, it is another key's. */
bool mu_ts_value(const struct mu_ts_conn *conn, struct mu_ts_field key, bool is_hash, const void **value, size_t *len);
/* A value as it is to be stored under the name: malloc()ed when it is a hash. NULL: no memory. */
const void *mu_ts_stored(struct mu_ts_conn *conn, struct mu_ts_field key, bool is_hash, const void *value, size_t *len,
                         void **ret_memory);
/* Decimal text, as C's strtoll() takes it. False: no number. */
bool mu_ts_number(const void *text, size_t len, int64_t *ret_number);

/* ---- tcpstore_change.c ---- */
/* Add `number` to f[0]: conn->sum, when `take` is called. */
void mu_ts_sum(struct mu_ts_conn *conn, mu_ts_step take);

/* ---- tcpstore_queue.c ---- */
/* How many are in the queue of f[0]: conn->tail - conn->head, when `take` is called. */
void mu_ts_queue_look(struct mu_ts_conn *conn, mu_ts_step take);

/* ---- tcpstore_wait.c ---- */
void mu_ts_came(struct mu_ts_item *item); /* the wait, and the item, may be gone then */
/* It cannot be waited for, as the engine says: the client is sent away. */
void mu_ts_cannot_wait(struct mu_ts_item *item, const struct mu_coord_request *request);
void mu_ts_prepare(struct mu_coord_request *request, void (*answered)(struct mu_coord_request *request));

/* ---- tcpstore_await.c ---- */
void mu_ts_await(struct mu_ts_item *item); /* something in the queue of that name */
void mu_ts_await_end(struct mu_ts_item *item);
void mu_ts_await_pass(struct mu_ts_item *item, uint64_t passes); /* looks whether there are more than these */
void mu_ts_looks_begin(struct mu_tcpstore *store);               /* their timer is one of the store's handles */
void mu_ts_looks_end(struct mu_tcpstore *store);

#endif
