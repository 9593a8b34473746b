/*
 * bridge/link/link.h: connections between agents: TCP, TLS 1.3 with the job's key, joining, heartbeats, queues.
 *
 * One object a side. Nothing here knows of segments. Not thread-safe: its owner (bridge/bridge.c) holds a lock.
 */
#ifndef MU_BRIDGE_LINK_LINK_H
#define MU_BRIDGE_LINK_LINK_H

#include <sys/socket.h>

#include "base/blob.h"
#include "base/pack.h"
#include "bridge/core/frame.h"
#include "muster/status.h"

#define MU_KEY_BYTES 32u

/* What a host says of itself when it comes; the leader's answer is bytes of its own making (the welcome). */
struct mu_join {
    uint32_t node, nodes; /* UINT32_MAX: the leader may choose; 0: it knows */
    uint32_t num_tasks;
    uint64_t incarnation[2]; /* random, of this host's part in the job: the same when its agent is adopted, or the
                                connection was broken; another process with this node id has another */
    uint32_t pid;
    char job[208];
    char host[64];
};

enum mu_join_verdict { MU_JOIN_REFUSED, MU_JOIN_ACCEPTED, MU_JOIN_LATER };

/* All but the last are called from mu_link_turn() and mu_link_welcome() alone; they may call anything here but
 * mu_link_turn() and mu_link_free(). */
struct mu_link_events {
    void *arg;
    /* Leader: the peer has proved that it knows the key. Accept: *ret_host, fill `welcome`; an older connection of that
     * host is closed first. Refuse: false, with a sentence, which the peer shows to its user. `later`: keep it waiting,
     * mu_link_welcome() will be called. */
    enum mu_join_verdict (*join)(void *arg, uint32_t connection, const struct mu_join *join, uint32_t *ret_host,
                                 struct mu_pack *welcome, char *refusal, size_t size);
    /* Leader: a connection that was kept waiting has broken. */
    void (*gone)(void *arg, uint32_t connection);
    /* Follower: accepted. (host is 0: the leader.) Leader: the host is up. */
    void (*up)(void *arg, uint32_t host, const void *welcome, size_t len);
    void (*down)(void *arg, uint32_t host, const char *why);
    /* It said that it leaves, in good order: instead of down, and it will not come back. */
    void (*left)(void *arg, uint32_t host);
    /* Follower: refused for good; no more attempts. */
    void (*refused)(void *arg, const char *why);
    void (*frame)(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len);
    /* Something that a person should read: which peer was refused, and why. Few a second at most. May be NULL. */
    void (*said)(void *arg, const char *sentence);
    /* Leader: the port is open. Told from within mu_link_listen(), before OpenSSL is opened and may be found missing:
     * that takes 3 ms, in which the others can be on their way. May be NULL. */
    void (*listens)(void *arg, const char *address);
};

struct mu_link_options {
    const char *address; /* to listen at, or the leader's: HOST:PORT, [V6]:PORT, :PORT, PORT; port 0: any */
    const uint8_t *key;  /* MU_KEY_BYTES; NULL: none: loopback only */
    const char *certificate, *private_key, *authority; /* PEM files instead of the key: mutual TLS; NULL */
    uint64_t timeout_ns;  /* a peer silent for longer: down. Heartbeats go out every quarter of it */
    uint64_t patience_ns; /* follower: how long to try to (re)connect, with back-off, before refused() */
    bool is_called; /* follower: by its leader, which so listens: an attempt that fails is told, and few are refused */
    uint32_t num_hosts;  /* host indices are below it */
    size_t queue_bytes;  /* of one peer, most; 0: 128 MiB */
    uint32_t star_hosts; /* leader: of more hosts than these most come through relays; 0: never */
    struct mu_join join; /* follower's */
    struct mu_link_events events;
};

struct mu_link;
enum muster_status mu_link_listen(const struct mu_link_options *options, struct mu_link **ret_link);
enum muster_status mu_link_connect(const struct mu_link_options *options, struct mu_link **ret_link); /* begins to */
void mu_link_free(struct mu_link *link); /* says LEAVE to all that are up, and closes */

/* A message of any length up to 65 MiB: split into frames. false: no such peer, or its queue is full: it is dropped. */
bool mu_link_send(struct mu_link *link, uint32_t host, uint8_t type, const void *payload, size_t len);
/* A message with its end in a blob: that is held until it has been written from there. */
bool mu_link_send_slice(struct mu_link *link, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body);
void mu_link_flush(struct mu_link *link); /* write what the sockets take now: one writev a peer */
/* With the reason for both sides. down() is called by the next turn. */
void mu_link_drop(struct mu_link *link, uint32_t host, const char *why);
void mu_link_welcome(struct mu_link *link, uint32_t connection, uint32_t host, const void *welcome, size_t len);
void mu_link_refuse(struct mu_link *link, uint32_t connection, const char *why);

void mu_link_set_limits(struct mu_link *link, uint64_t timeout_ns, uint64_t patience_ns);
/* A follower: the leader's process will be stopped. It is not asked whether it lives, and its silence is no end. */
void mu_link_be_patient(struct mu_link *link, bool is_patient, uint64_t now);

/* Sleep until there is something to do, somebody pokes, or so many milliseconds have passed (-1: for ever); what there
 * is to do is done by the next turn. One thread, which also takes the turns; the lock need not be held meanwhile. */
void mu_link_wait(struct mu_link *link, int ms);
void mu_link_poke(struct mu_link *link);               /* any thread */
int mu_link_fd(const struct mu_link *link);            /* an epoll descriptor: readable when there is something to do */
uint64_t mu_link_next(const struct mu_link *link);     /* CLOCK_MONOTONIC ns: when turn must be called at the latest */
void mu_link_turn(struct mu_link *link, uint64_t now); /* accept, read, write, heartbeats, timeouts: calls events */
/* Between turns, for any thread: the heartbeats that are due, or nearly, so that nobody wakes up for them. */
void mu_link_beat(struct mu_link *link, uint64_t now);
/* The address that it listens at, with the real port: "192.0.2.1:4711"; a follower's: the leader's. */
const char *mu_link_address(const struct mu_link *link);
/* Where a host's connection comes from, "192.0.2.7:50112"; "" while there is none. */
const char *mu_link_peer_address(const struct mu_link *link, uint32_t host);

/* The two ends of the host's connection. False: there is none, or it comes through a relay. */
bool mu_link_path(const struct mu_link *link, uint32_t host, struct sockaddr_storage *ret_own,
                  struct sockaddr_storage *ret_peer);

struct mu_link_stats {
    uint64_t rtt_ns, rtt_min_ns, bytes_in, bytes_out, frames_in, frames_out, connects, heard_ns;
    size_t queued;
};
/* Leader: the host through which this one comes; 0: none. */
uint32_t mu_link_relay_of(const struct mu_link *link, uint32_t host);
bool mu_link_stats(const struct mu_link *link, uint32_t host, struct mu_link_stats *ret_stats);

#endif
