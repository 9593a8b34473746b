/*
 * rpc/private.h: what the files of the server share.
 *
 *   listen.c   addresses                      server.c   start, stop, new connections, the loop's rounds, timers
 *   turns.c    what is held, turns, marks     methods.c  the methods, by path
 *   conn.c     a connection's bytes           session.c  HTTP/2's events, from nghttp2
 *   call.c     a call from begin to answer    message.c  gRPC's messages within a call's bytes
 *   deadline.c the calls' deadlines           tls.c      the same bytes through TLS
 *   peer.c     the user of a client's process
 *   probe.c    the service that tells whether the others are served
 *   reflect.c  the services that tell what the others' messages look like
 */
#ifndef MU_RPC_PRIVATE_H
#define MU_RPC_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "base/account.h"
#include "bridge/link/openssl.h"
#include "rpc/listen.h"
#include "rpc/peer.h"
#include "rpc/server.h"

#define MU_RPC_IN_BYTES  (64u << 10)  /* read at once */
#define MU_RPC_OUT_BYTES (256u << 10) /* written at once */
#define MU_RPC_TURN      4u           /* so many of them for one connection, then others have their turn */
#define MU_RPC_HEADERS   (16u << 10)  /* of a call, in bytes */

struct z_stream_s;
struct mu_rpc_watch;
struct mu_rpc_described;

/* Part of an answer: a message with its prefix, or its tail; many answers may be the same bytes. */
struct mu_rpc_piece {
    struct mu_rpc_piece *next;
    struct mu_slice bytes; /* what of it has not been given to HTTP/2 */
    size_t held;           /* that count for its connection: one connection bears a blob, the first */
};

enum mu_rpc_phase {
    MU_CALL_ARRIVING, /* its request is not here whole */
    MU_CALL_READY,    /* it is, and begin is called when the read is over, of a long one when its connection can take */
    MU_CALL_BEGUN,
    MU_CALL_ANSWERED, /* nothing is heard of it any more */
};
enum mu_rpc_encoding { MU_ENCODING_IDENTITY, MU_ENCODING_GZIP, MU_ENCODING_DEFLATE, MU_ENCODING_OTHER };

struct mu_rpc_call {
    struct mu_rpc_conn *conn;
    struct mu_rpc_call *next, *prev;   /* of the connection's */
    struct mu_rpc_call *after, *prior; /* of those that arrive, by their last byte; of those that are ready, or long */
    const struct mu_rpc_method *method;
    int32_t id;
    uint8_t phase, encoding, status;
    bool is_post, is_grpc, is_late; /* of its headers; late: grpc-timeout is none */
    bool has_headers, has_message;  /* all of them are here; so is the one message of a unary call */
    bool is_half_closed;            /* the client has said all */
    bool is_responding, is_asleep;  /* HTTP/2 has our headers; and waits for more of the answer */
    /* the request's message that arrives */
    uint8_t prefix[5], prefix_len;
    size_t have, size, room; /* of body, in bytes: what is there, what is to come, what is allocated */
    uint8_t *body;
    uint64_t moved_ms;   /* its last byte came */
    uint64_t timeout_ns; /* UINT64_MAX: none */
    uint64_t deadline_ms;
    size_t deadline_at; /* its place in the server's heap, from 1; 0: none */
    void (*ended)(void *arg);
    void *ended_arg;
    struct mu_rpc_piece *first, *last; /* of the answer */
    char *trailers;                    /* of an error: text, then details, both as they are sent */
    size_t text_len, details_len;
    uint8_t small[256]; /* a body that fits */
};

/* So many of something at once, and so many a second. */
struct mu_rpc_budget {
    uint32_t left;
    uint64_t filled_ms;
};

/* What a connection waits for a turn for. */
enum mu_rpc_turn { MU_TURN_READ, MU_TURN_LONG, MU_TURNS };

struct mu_rpc_conn {
    uv_poll_t poll; /* first: a handle is its connection */
    struct mu_rpc *rpc;
    struct mu_rpc_conn *next, *prev, *next_dirty, *next_turn[MU_TURNS];
    bool has_turn[MU_TURNS];
    int fd, polled; /* polled: for which events */
    bool is_dirty, is_closed;
    bool is_secure;  /* the handshake of TLS is over, or there is none */
    bool is_greeted; /* its SETTINGS are here */
    bool is_unread;  /* more may be there than the socket says */
    bool is_leaving; /* it gets what is to be said, and nothing of it is read any more */
    bool is_full;    /* it does not take what we write, and so much waits that nothing is read */
    nghttp2_session *session;
    SSL *ssl;
    struct mu_openssl_socket socket; /* of ssl */
    struct mu_rpc_call *calls;
    struct mu_rpc_call *arriving, *arriving_last; /* the one that has been silent longest first */
    struct mu_rpc_call *ready, *ready_last;
    struct mu_rpc_call *longs, *longs_last; /* ready, and their answers may be long */
    uint32_t count;                         /* of calls */
    size_t held;                            /* bytes of requests and answers */
    size_t pieces;                          /* of answers; not all of them are held for it alone */
    uint8_t *out;                           /* what the socket did not take */
    size_t out_len, out_at;
    uint64_t since_ms;   /* it came; later: it is leaving */
    uint64_t headers_ms; /* headers have begun; 0: none are incomplete */
    uint32_t headers;    /* bytes of them */
    uint64_t taken_ms;   /* it last took a byte of what waits for it */
    struct mu_rpc_budget resets, idle;
    uint32_t pid;
    char name[64];
    char why[160]; /* it will be closed */
    void *data;
};

struct mu_rpc {
    struct mu_rpc_options options;
    struct mu_listen listen;
    struct mu_peers peers;
    uid_t refused; /* the user that was refused last, which has been said; at first our own */
    uv_poll_t listeners[MU_LISTEN_MAX];
    uv_check_t check;     /* answers leave when all that came in a round has been handled, */
    uv_prepare_t prepare; /* or before the loop sleeps */
    uv_idle_t idle;       /* while somebody waits for a turn: the loop does not sleep */
    uv_timer_t deadline_timer, tick;
    unsigned open;                        /* handles that are not closed */
    void (*released)(struct mu_rpc *rpc); /* one of them is */
    bool is_stopping, is_ticking;
    bool is_paused, was_paused; /* nobody is accepted; nobody has been since nobody could */
    uint64_t stop_ms;           /* the end of the grace */
    void (*stopped)(void *arg);
    SSL_CTX *tls;
    bool clients_prove; /* their identity, by certificates */
    char *peer_uri;     /* options.tls->peer_uri */
    nghttp2_option *http_options;
    nghttp2_session_callbacks *callbacks;
    struct mu_rpc_conn *conns, *dirty, *first_turn[MU_TURNS], **last_turn[MU_TURNS];
    uint32_t count;
    struct mu_account own, *account;
    struct mu_blob *last_body; /* a large one that was answered last, while anybody has it: for calls for the same */
    int reserve_fd;            /* closed to have one for a connection that is refused because there is none */
    struct mu_rpc_budget sentences;
    const struct mu_rpc_method *lists[3]; /* the user's methods, then those of our own */
    unsigned num_lists;
    const struct mu_rpc_method **table; /* by path */
    uint32_t table_mask;
    struct mu_rpc_call **deadlines;
    size_t num_deadlines, deadlines_room;
    uint64_t timer_ms;         /* the deadline timer is set to; 0: not */
    struct mu_rpc_call *spare; /* by next */
    unsigned num_spare;
    struct z_stream_s *inflate[2];      /* gzip, deflate */
    struct mu_rpc_call *watching;       /* of health: by their user's argument */
    struct mu_rpc_watch *watches;       /* of the server's health */
    struct mu_rpc_described *described; /* options.described, once somebody has asked */
    uint8_t in[MU_RPC_IN_BYTES], out[MU_RPC_OUT_BYTES];
};

/* bounds.c: puts what stands behind 0. INVALID_ARGUMENT where bounds contradict each other. */
enum muster_status mu_rpc_bounds(struct mu_rpc_options *options);

static inline uint64_t mu_rpc_now(const struct mu_rpc *rpc)
{
    return uv_now(rpc->options.loop);
}
/* methods.c: those of rpc->lists; -1: no memory. */
int mu_rpc_methods_open(struct mu_rpc *rpc);
const struct mu_rpc_method *mu_rpc_find(const struct mu_rpc *rpc, const char *path, size_t len);

/* turns.c */
#define MU_RPC_SENTENCES 20u /* in one go */
void mu_rpc_say(struct mu_rpc *rpc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One more; false: too many. */
bool mu_rpc_spend(const struct mu_rpc *rpc, struct mu_rpc_budget *budget, uint32_t burst, uint32_t each_ms);
bool mu_conn_hold(struct mu_rpc_conn *conn, size_t bytes); /* false: that would be too many */
void mu_conn_unhold(struct mu_rpc_conn *conn, size_t bytes);
bool mu_conn_takes(const struct mu_rpc_conn *conn); /* a long answer may be made for it */
void mu_conn_dirty(struct mu_rpc_conn *conn);       /* there is something to write */
/* GOAWAY with these words, and the end. Only marks, so anybody may call it. */
void mu_conn_dismiss(struct mu_rpc_conn *conn, uint32_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mu_rpc_turn(struct mu_rpc_conn *conn, enum mu_rpc_turn what);               /* soon */
struct mu_rpc_conn *mu_rpc_next_turn(struct mu_rpc *rpc, enum mu_rpc_turn what); /* NULL: nobody waits for one */

/* conn.c */
struct mu_rpc_conn *mu_conn_new(struct mu_rpc *rpc, int fd);
void mu_conn_flush(struct mu_rpc_conn *conn);
void mu_conn_receive(struct mu_rpc_conn *conn); /* in its turn */
void mu_conn_close(struct mu_rpc_conn *conn, const char *why);
void mu_conn_tick(struct mu_rpc_conn *conn);

/* session.c */
int mu_session_callbacks(nghttp2_session_callbacks **ret_callbacks);
int mu_session_begin(struct mu_rpc_conn *conn);
int mu_session_respond(struct mu_rpc_call *call, bool with_body); /* false: trailers only */
void mu_session_stop(struct mu_rpc_conn *conn);

/* call.c */
struct mu_rpc_call *mu_rpc_call_new(struct mu_rpc_conn *conn, int32_t id);
void mu_rpc_call_arrives(struct mu_rpc_call *call); /* a byte of it came, or its headers */
void mu_rpc_call_ready(struct mu_rpc_call *call);
void mu_rpc_call_dispatch(struct mu_rpc_conn *conn);
void mu_rpc_call_begin_long(struct mu_rpc_conn *conn); /* one of them, in its turn */
void mu_rpc_call_refuse(struct mu_rpc_call *call, enum muster_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tell the waiter that it is over, then free it. */
void mu_rpc_call_end(struct mu_rpc_call *call);
/* What was begun is told that it is over; the call is then answered with it. */
void mu_rpc_call_abort(struct mu_rpc_call *call, enum muster_status status, const char *text);
void mu_rpc_call_drop_piece(struct mu_rpc_call *call); /* the first of its answer */
void mu_rpc_call_free_all(struct mu_rpc *rpc);

/* message.c: bytes of a call's request; and their end. */
void mu_rpc_message_take(struct mu_rpc_call *call, const uint8_t *bytes, size_t len);
void mu_rpc_message_last(struct mu_rpc_call *call);
void mu_rpc_message_begin(struct mu_rpc_call *call); /* call the method with what is there whole */
void mu_rpc_message_drop(struct mu_rpc_call *call);
void mu_rpc_message_free_all(struct mu_rpc *rpc);

/* deadline.c */
enum muster_status mu_deadline_add(struct mu_rpc_call *call);
void mu_deadline_remove(struct mu_rpc_call *call);
void mu_deadline_expire(struct mu_rpc *rpc);

/* tls.c: like recv() and send(); before the handshake is over they carry it on. */
enum muster_status mu_rpc_tls_open(struct mu_rpc *rpc);
void mu_rpc_tls_free(struct mu_rpc *rpc);
bool mu_rpc_tls_begin(struct mu_rpc_conn *conn);
void mu_rpc_tls_end(struct mu_rpc_conn *conn);
enum { MU_TLS_READS, MU_TLS_WRITES, MU_TLS_DONE };
/* What the handshake waits for; -1: it failed, conn->why says why, or its peer is gone. */
int mu_rpc_tls_shake(struct mu_rpc_conn *conn);
long mu_rpc_tls_read(struct mu_rpc_conn *conn, void *to, size_t size);
long mu_rpc_tls_write(struct mu_rpc_conn *conn, const void *from, size_t size);

/* probe.c: ends with a NULL path */
extern const struct mu_rpc_method mu_rpc_health_methods[];
void mu_rpc_health_stop(struct mu_rpc *rpc);

/* reflect.c: likewise */
extern const struct mu_rpc_method mu_rpc_reflection_methods[];
void mu_rpc_reflection_done(struct mu_rpc *rpc);

#endif
