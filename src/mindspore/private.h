/*
 * mindspore/private.h: what the files of MindSpore's scheduler share.
 *
 *   mindspore.c   start, stop, the clock
 *   conn.c        connections: their sockets, and which protocol they speak
 *   seed.c        ps core's frames, and what they ask of the cluster
 *   cluster.c     the cluster: members, ranks, deaths, the end
 *   scale.c       its scaling: out, in, back
 *   message.c     what the cluster tells its members
 *   link.c        the connections on which it does
 *   rest.c        HTTP's paths
 *   rpc0.c        RPC0: ranks; keys.c: its keys
 *
 * cluster.c, scale.c and message.c know no socket: they tell by three functions (struct mu_ms_out).
 */
#ifndef MU_MINDSPORE_PRIVATE_H
#define MU_MINDSPORE_PRIVATE_H

#include "mindspore/mindspore.h"

#include <stdio.h>

#include "base/account.h"
#include "mindspore/ps_core.pb-c.h"
#include "rpc/listen.h"
#include "rpc/peer.h"

#define MU_MS_NAME_MAX  255u /* bytes of a node's id, of a host */
#define MU_MS_NODES_MAX 4096u
#define MU_MS_FRAME_MAX (16u << 20) /* bytes, of a request */
#define MU_MS_META_MAX  1024u
#define MU_MS_OUT_MAX   (16u << 20) /* bytes that a peer has not taken */
#define MU_MS_KEYS_MAX  (64u << 20) /* bytes, of RPC0's keys and values together */
#define MU_MS_NO_RANK   0xffffffffu
#define MU_MS_SENTENCE  512u

struct mu_ms_conn;
struct mu_ms_link;

/* ---- cluster.c: the members ---- */

struct mu_ms_node {
    struct mu_ms_node *next, *prev;
    Mu__Ms__Role role;
    uint32_t rank, next_rank, port;
    bool is_alive;
    bool is_registered; /* in the scaling that is under way, or since ever */
    bool is_old;        /* it was a member before that scaling */
    bool is_asked;      /* it was told the outcome, and is to say that it is done */
    bool is_leaving;    /* by that scaling */
    bool is_behind;     /* it was told of the scaling, and not of its outcome; */
    bool is_late;       /* and has registered again after that was told to the others */
    bool is_finished;
    bool is_untold; /* something could not be sent to it: it is lost soon */
    uint64_t heard_ns;
    struct mu_ms_conn *conn; /* its own; NULL: it has none */
    struct mu_ms_link *link; /* to it; NULL: none yet */
    char ip[64];
    char id[MU_MS_NAME_MAX + 1];
};

/* How the cluster speaks. None of these calls the cluster. */
struct mu_ms_out {
    void (*push)(void *arg, struct mu_ms_node *node, Mu__Ms__Command command, const void *body, size_t len);
    void (*beat)(void *arg, struct mu_ms_node *node, const void *body, size_t len); /* unasked, on its own connection */
    void (*gone)(void *arg, struct mu_ms_node *node); /* it is no member any more, and is about to be freed */
    void (*said)(void *arg, const char *sentence);
    void *arg;
};

struct mu_ms_cluster {
    struct mu_ms_out out;
    struct mu_ms_node *nodes;
    uint32_t want[2], wanted_first[2], wanted_before[2]; /* by role: now, at the start, before the scaling */
    Mu__Ms__State state, scaling;                        /* scaling: which one is under way, or was the last */
    bool is_changed;   /* a member has come again since the outcome of the scaling was told: all are told of it */
    bool is_told;      /* the outcome of the scaling */
    bool is_over;      /* a whole cluster has finished */
    uint32_t scalings; /* that have succeeded */
    uint64_t until_ns; /* of this half of the scaling */
    uint64_t scale_ns, silence_ns;
};

struct mu_ms_register {
    const char *id, *ip;
    uint32_t port, claim; /* claim: a rank, MU_MS_NO_RANK: none */
    Mu__Ms__Role role;
};

/* NULL, or a sentence of why it is refused. The caller answers, and then calls mu_ms_cluster_go_on(). */
const char *mu_ms_cluster_register(struct mu_ms_cluster *c, const struct mu_ms_register *r, struct mu_ms_conn *conn,
                                   uint64_t now, struct mu_ms_node **ret_node);
void mu_ms_cluster_go_on(struct mu_ms_cluster *c, uint64_t now);
struct mu_ms_node *mu_ms_cluster_find(const struct mu_ms_cluster *c, const char *id);
/* A beat on this connection, perhaps a new one. */
void mu_ms_cluster_beat(struct mu_ms_cluster *c, struct mu_ms_node *node, struct mu_ms_conn *conn, uint64_t now);
void mu_ms_cluster_finish(struct mu_ms_cluster *c, struct mu_ms_node *node);
void mu_ms_cluster_event(struct mu_ms_cluster *c, uint32_t event);
/* Its connection has ended, it is silent, it cannot be reached. `why`: "has closed its connection". */
void mu_ms_cluster_lost(struct mu_ms_cluster *c, struct mu_ms_node *node, const char *why, uint64_t now);
void mu_ms_cluster_tick(struct mu_ms_cluster *c, uint64_t now);
void mu_ms_cluster_free(struct mu_ms_cluster *c);
uint32_t mu_ms_cluster_count(const struct mu_ms_cluster *c, Mu__Ms__Role role); /* members that are there */
const char *mu_ms_state_name(Mu__Ms__State state);                              /* as the paths of HTTP say it */
const char *mu_ms_role_name(Mu__Ms__Role role);                                 /* "SERVER" */
void mu_ms_say(const struct mu_ms_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The rank that is claimed, where nobody has it; or the lowest that nobody has; or MU_MS_NO_RANK. */
uint32_t mu_ms_rank_choose(const bool *taken, uint32_t count, uint32_t claim);

/* for scale.c */
bool mu_ms_is_scaling(const struct mu_ms_cluster *c);
void mu_ms_cluster_end_if_finished(struct mu_ms_cluster *c);
void mu_ms_node_drop(struct mu_ms_cluster *c, struct mu_ms_node *node);
bool mu_ms_is_whole(const struct mu_ms_cluster *c);                         /* every member is there and registered */
void mu_ms_missing(const struct mu_ms_cluster *c, char *text, size_t size); /* "server 1 (fl1), 1 of 3 servers" */

/* ---- scale.c ---- */
/* NULL, or the answer's "error_message". */
const char *mu_ms_scale_out(struct mu_ms_cluster *c, int64_t workers, int64_t servers, uint64_t now);
const char *mu_ms_scale_in(struct mu_ms_cluster *c, char *const *ids, size_t count, uint64_t now);
void mu_ms_scale_go_on(struct mu_ms_cluster *c, uint64_t now); /* all have registered */
void mu_ms_scale_catch_up(struct mu_ms_cluster *c);
void mu_ms_scale_done(struct mu_ms_cluster *c, struct mu_ms_node *node, uint64_t now);
void mu_ms_scale_back(struct mu_ms_cluster *c, const char *why, uint64_t now);
void mu_ms_scale_late(struct mu_ms_cluster *c, uint64_t now);

/* ---- message.c: malloc()ed bodies; NULL: no memory ---- */
void *mu_ms_pack(const ProtobufCMessage *message, size_t *ret_len);
void *mu_ms_body_beat(const struct mu_ms_cluster *c, size_t *ret_len);
void *mu_ms_body_servers(const struct mu_ms_cluster *c, size_t *ret_len);
void mu_ms_tell_beat(struct mu_ms_cluster *c); /* all, unasked */
void mu_ms_tell_metadata(struct mu_ms_cluster *c, struct mu_ms_node *node, Mu__Ms__State state);
void mu_ms_tell_scale(struct mu_ms_cluster *c, struct mu_ms_node *node);
void mu_ms_tell_event(struct mu_ms_cluster *c, uint32_t event);
void mu_ms_tell(struct mu_ms_cluster *c, Mu__Ms__Command command); /* all, without a body */

/* ---- keys.c ---- */

struct mu_ms_key {
    const char *name; /* behind the value */
    size_t len;
    uint8_t value[];
};

struct mu_ms_topology;
struct mu_ms_key *mu_ms_key_find(const struct mu_ms_topology *t, const char *name);
void mu_ms_key_drop(struct mu_ms_topology *t, struct mu_ms_key *key);
void mu_ms_keys_free(struct mu_ms_topology *t);
/* False: no memory, or too much of it. */
bool mu_ms_key_put(struct mu_ms_topology *t, const char *name, const void *value, size_t len);

/* ---- rpc0.c: RPC0's cluster ---- */

struct mu_ms_topology {
    struct mu_ms_peer *peers;
    void *keys; /* a tree of them, by name: <search.h> */
    uint32_t want[2];
    uint32_t count; /* of peers */
    size_t held;    /* bytes of keys and their values */
    unsigned found; /* the answer of a key that is there: 10 or 11; */
    bool is_fixed;  /* that was said, not found out */
    bool is_over;
};

size_t mu_ms_rpc0_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len);
void mu_ms_rpc0_closed(struct mu_ms_topology *t, struct mu_ms_conn *conn, uint64_t now);
void mu_ms_topology_tick(struct mu_ms_topology *t, uint64_t now);
void mu_ms_topology_free(struct mu_ms_topology *t);
uint32_t mu_ms_topology_count(const struct mu_ms_topology *t, Mu__Ms__Role role);

/* ---- conn.c ---- */

struct mu_ms_conn {
    uv_tcp_t tcp; /* first */
    struct mu_mindspore *server;
    struct mu_ms_conn *next, *prev;
    /* What comes: how many of these bytes are done with, 0: more are needed, MU_MS_BAD: it is closed by now. */
    size_t (*take)(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len);
    struct mu_ms_node *node; /* of ps core: this is its own connection */
    uint8_t *bytes;
    size_t len, room;
    /* RPC0: its last request was told this key, in this dialect; 0: it was for something else. And this request. */
    unsigned told, told_next;
    uint64_t told_ns;
    char told_key[256];
    uint64_t since_ns;
    bool is_closing;
    bool is_head;   /* HTTP: its answer has no body */
    bool is_last;   /* it is closed when its answer has gone */
    bool is_broken; /* it is closed soon: it does not take its answers, or its node is no member any more */
    char name[64];
};
#define MU_MS_BAD ((size_t)-1)

void mu_ms_conn_accept(struct mu_mindspore *server, uv_stream_t *listener);
void mu_ms_conn_close(struct mu_ms_conn *conn);
bool mu_ms_conn_is_mute(const struct mu_ms_conn *conn);
/* It is said why. */
size_t mu_ms_conn_refuse(struct mu_ms_conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Two runs of bytes, copied. */
void mu_ms_conn_send(struct mu_ms_conn *conn, const void *head, size_t head_len, const void *body, size_t len);

/* ---- seed.c ---- */
size_t mu_ms_seed_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len);
/* A frame's header and meta, which is at most MU_MS_META_MAX bytes. Its length. */
#define MU_MS_HEAD_MAX (16u + MU_MS_META_MAX)
size_t mu_ms_head(uint8_t *to, uint32_t proto, const void *meta, size_t meta_len, size_t body_len);
size_t mu_ms_head_of(uint8_t *to, Mu__Ms__Command command, uint64_t request_id, size_t body_len);

/* ---- rest.c ---- */
void mu_ms_quoted_put(FILE *to, const char *text); /* a string of JSON */
size_t mu_ms_rest_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len);

/* ---- link.c ---- */
void mu_ms_link_push(struct mu_mindspore *server, struct mu_ms_node *node, Mu__Ms__Command command, const void *body,
                     size_t len);
void mu_ms_links_end(struct mu_mindspore *server);
void mu_ms_link_drop(struct mu_ms_node *node); /* what was pushed is sent still, as far as it can be */

/* ---- mindspore.c ---- */

struct mu_mindspore {
    struct mu_mindspore_options options;
    struct mu_ms_cluster cluster;
    struct mu_ms_topology topology;
    struct mu_listen listens[2];
    uv_tcp_t listeners[2 * MU_LISTEN_MAX];
    unsigned num_listeners;
    struct mu_peers peers;
    uv_timer_t clock;
    struct mu_ms_conn *conns;
    struct mu_ms_link *links;
    uint32_t handles; /* that the loop has */
    uint64_t request_id;
    uint64_t sentences_from; /* those of strangers are bounded in number */
    uint32_t sentences;
    bool is_stopping;
    bool is_deaf; /* a connection waits that there was no memory for */
    void (*stopped)(void *arg);
    void *stopped_arg;
};
void mu_ms_released(struct mu_mindspore *server); /* a handle is closed */
void mu_ms_said(struct mu_mindspore *server, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
