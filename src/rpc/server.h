/*
 * rpc/server.h: a gRPC server: HTTP/2 on a libuv loop.
 *
 * One thread: the loop's. A method is called with a whole message; it answers at once or later, once, or is told that
 * nobody waits for its answer any more. Nothing here knows what the methods are about. No handle keeps the loop alive,
 * but of a server that stops. What a client does, slow, broken or hostile, costs only that client: what may be held for
 * it, how long and how often is bounded, and a client that goes beyond is told so where the protocol has a place for
 * it.
 */
#ifndef MU_RPC_SERVER_H
#define MU_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/blob.h"
#include "muster/status.h"

struct mu_account;
struct mu_rpc;      /* a server */
struct mu_rpc_conn; /* a client's connection */
struct mu_rpc_call; /* one call: a stream */

struct mu_rpc_method {
    const char *path; /* "/tensorflow.CoordinationService/Barrier" */
    /* `body` is a message, inflated; valid until this returns. Never called from within another call of this header. */
    void (*begin)(struct mu_rpc_call *call, const void *body, size_t len);
    const void *data; /* the user's */
    /* A stream of requests: begin is called for each, this when there are no more. NULL: unary. */
    void (*last)(struct mu_rpc_call *call);
    /* Its answer may be long: it begins when its connection has taken what it asked for before, and behind all calls of
     * this turn that are not. */
    bool is_long;
};

/* TLS 1.3. With an authority clients must show a certificate that it signed. Files are PEM. */
struct mu_rpc_tls {
    const char *certificate, *private_key;
    const char *authority; /* NULL: any client may come */
    /* With an authority: one of the URIs in a client's certificate must begin with this, which ends in '/'. NULL: any.
     */
    const char *peer_uri;
};

struct mu_rpc_options {
    uv_loop_t *loop;
    /* "HOST:PORT", "[V6]:PORT"; ":PORT" and "localhost:PORT": loopback, of both families; "*:PORT": every interface;
     * "unix:PATH": mode 0600, a socket there that nobody serves is replaced. Port 0: any. */
    const char *address;
    const struct mu_rpc_method *methods; /* ends with a NULL path; outlives the server */
    void *arg;                           /* mu_rpc_arg(), and what the functions below get */
    /* What the methods take and give, a google.protobuf.FileDescriptorSet of files that import none: reflection tells
     * it to clients. Outlives the server. NULL: there is no reflection. */
    const void *described;
    size_t described_len;
    const struct mu_rpc_tls *tls; /* NULL: in the clear. Off loopback that is refused unless insecure is set. */
    bool insecure;
    const char *insecure_option; /* which option sets it where the server has no TLS; NULL: --grpc-insecure, or TLS */
    /* Clients of every user of this machine may come. Else, at an address that only this machine reaches, this user's
     * and root's alone, unless they must show certificates. */
    bool any_user;
    /* The connection is gone; its calls have been told before. why: "closed by its peer", "reset by its peer", ...;
     * may be NULL. */
    void (*closed)(void *arg, struct mu_rpc_conn *conn, const char *why);
    void (*said)(void *arg, const char *sentence); /* which client was refused, for people; may be NULL */
    struct mu_account *account; /* what is held counts against it; outlives the server. NULL: one of total_max */
    /* Bounds; 0: what stands behind. Of an account that has less no more than that. */
    size_t message_max;       /* of a message, inflated; 256 MiB */
    size_t held_max;          /* bytes held for one connection, of requests and answers; message_max + 64 MiB */
    size_t total_max;         /* the same for all of them, of which one leaves as much as it holds; twice held_max */
    uint32_t streams_max;     /* open calls of one connection; 20000 */
    uint32_t connections_max; /* 16384 */
    uint32_t handshake_ms;    /* from connecting to the client's SETTINGS, and for the headers of a call; 10 s */
    uint32_t stall_ms;        /* no byte of a request or of an answer that has begun moves; 60 s */
};
/* The reason of a failure is in muster_last_error(). A HOST that is a name is looked up, however long that takes. */
enum muster_status mu_rpc_start(const struct mu_rpc_options *options, struct mu_rpc **ret_rpc);
const char *mu_rpc_address(const struct mu_rpc *rpc); /* where it listens: "127.0.0.1:4711", "unix:/path" */
uint32_t mu_rpc_connections(const struct mu_rpc *rpc);
/* GOAWAY to all, no new calls; those that are open go on until they are answered or grace_ns is over. Then `stopped`
 * is called, from the loop, and the server is freed. */
void mu_rpc_stop(struct mu_rpc *rpc, uint64_t grace_ns, void (*stopped)(void *arg));

void *mu_rpc_arg(const struct mu_rpc_call *call);
const struct mu_rpc_method *mu_rpc_method_of(const struct mu_rpc_call *call);
struct mu_rpc_conn *mu_rpc_conn_of(const struct mu_rpc_call *call);
uint32_t mu_rpc_peer_pid(const struct mu_rpc_conn *conn);     /* of a Unix socket's peer; 0: unknown */
const char *mu_rpc_peer_name(const struct mu_rpc_conn *conn); /* "127.0.0.1:51234", "pid 4711" */
void **mu_rpc_conn_data(struct mu_rpc_conn *conn);            /* the user's, per connection; NULL at first */

/* The client has cancelled it, its deadline has passed, or its connection is gone: `ended` is called once, and the call
 * is not to be answered any more (it is freed when that returns). Set in begin, by a method that does not answer at
 * once; never called after the answer. */
void mu_rpc_wait(struct mu_rpc_call *call, void (*ended)(void *arg), void *arg);
/* Each of these ends the call, which is not to be used any more. The message is copied. */
void mu_rpc_answer(struct mu_rpc_call *call, const void *message, size_t len);
/* A message that begins with these bytes and ends with the tail, which is held, not copied. */
void mu_rpc_answer_with(struct mu_rpc_call *call, const void *head, size_t len, const struct mu_slice *tail);
/* details: the bytes of grpc-status-details-bin; len 0: none. The text is cut as gRPC's users are used to. */
void mu_rpc_refuse(struct mu_rpc_call *call, enum muster_status status, const char *text, const void *details,
                   size_t len);
/* A stream of answers: any number of messages, then mu_rpc_finish() or mu_rpc_refuse(). */
bool mu_rpc_send(struct mu_rpc_call *call, const void *message, size_t len); /* false: it was refused, and is over */
void mu_rpc_finish(struct mu_rpc_call *call);

#endif
