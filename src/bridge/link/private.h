/*
 * bridge/link/private.h: a link and its connections, for the files of bridge/link.
 *
 * Three layers. The lowest knows the bytes of one connection (peer, queue, read, tls) and calls what is above it by
 * struct mu_link_calls alone. The middle knows the link's own frames, and what they decide (beat, join, dial, move,
 * via, tree, notice). The highest is the link itself (link, turn), and a relay, which owns a second one.
 *
 * A connection (peer) is made by accept or connect, goes through the states of link/state.h, and is freed at the end of
 * the turn in which it closed, so that a function in the middle of it may go on. What its end means to the owner is a
 * notice, told from the turn, never from within the owner's own call.
 */
#ifndef MU_BRIDGE_LINK_PRIVATE_H
#define MU_BRIDGE_LINK_PRIVATE_H

#include <sys/epoll.h>
#include <sys/socket.h>

#include "bridge/link/link.h"
#include "bridge/link/address.h"
#include "bridge/link/state.h"
#include "bridge/link/openssl.h"
#include "bridge/link/mux.h"

#define MU_LINK_NOBODY UINT32_MAX

enum {
    MU_LINK_PENDING = 64,       /* connections at once that have not sent their JOIN */
    MU_LINK_SILENT = 1000,      /* so many of them that said nothing are worth a word */
    MU_LINK_JOIN_BYTES = 1024,  /* most that such a one may send */
    MU_LINK_BUFFER = 256 << 10, /* of one read; one for all peers */
    MU_LINK_DIRECT = 4096,      /* so much of a payload is read to where it belongs, and not through that buffer */
    MU_LINK_CHUNK = 16 << 10,   /* small frames share one of these, which is one TLS record */
    MU_LINK_RECORD = 16 << 10,  /* most of a TLS record */
    MU_LINK_TLS = 64 << 10,     /* that OpenSSL reads at once */
    MU_LINK_VECTOR = 64,        /* pieces of one writev */
    MU_LINK_EVENTS_AT_ONCE = 64,
    MU_LINK_REFUSALS = 3, /* of a follower that its leader has called, at least, before it gives up */
    MU_LINK_FAN = 64,     /* relays at most, and hosts behind one */
    MU_LINK_VIA_MOST = MU_FRAME_MESSAGE + 32768, /* of a message that a relay passes on, with what goes before it */
};
#define MU_LINK_JOIN_NS    5000000000u  /* to send the JOIN */
#define MU_LINK_RUSH_NS    2000000000u  /* the same while others wait for their turn to */
#define MU_LINK_HELLO_NS   30000000u    /* and then to begin at all: a host that comes to join speaks at once */
#define MU_LINK_END_NS     1000000000u  /* for a last word to be read */
#define MU_LINK_RETRY_NS   20000000u    /* between the first attempts of a follower, then twice as much each time */
#define MU_LINK_SLOW_NS    1000000000u  /* and at most this */
#define MU_LINK_REFUSED_NS 3000000000u  /* and for so long, at least */
#define MU_LINK_REACH_NS   5000000000u  /* at most, for a relay to take a connection, or to listen */
#define MU_LINK_LOOK_NS    100000000u   /* between looks whether one listens that was asked to */
#define MU_LINK_MOVE_NS    10000000000u /* at most, for the leader's answer to come through it */

/* What waits to be written: bytes of its own, then perhaps some that lie elsewhere. */
struct mu_link_chunk {
    struct mu_link_chunk *next;
    size_t at, len, capacity; /* at: of both together, how many have gone */
    struct mu_slice slice;
    uint8_t bytes[];
};

enum mu_link_notice { MU_LINK_QUIET, MU_LINK_DOWN, MU_LINK_LEFT, MU_LINK_GONE, MU_LINK_FAILED, MU_LINK_REFUSED };

/* The leader's: what is behind a relay. */
struct mu_link_branch {
    bool listens;
    char address[64]; /* where */
    uint32_t count, coming;
    struct mu_link_peer *first;
    struct mu_mux_batch batch; /* that is to be said to them */
};

/* A connection; on the leader also a host behind a relay, which has no socket here, but the relay's connection. */
struct mu_link_peer {
    struct mu_link *link;
    struct mu_link_peer *prev, *next, *next_dirty, *next_notice;
    int fd;
    SSL *ssl;
    struct mu_openssl_socket socket; /* of ssl */
    enum mu_link_state state;
    enum mu_link_notice notice;
    bool is_dirty, wants_out, is_again, is_shut;
    bool is_pending; /* it has not sent its JOIN */
    bool is_dropped; /* by words, ours or its own: it would come to that again */
    bool is_kept;    /* waiting, by the owner's word; the owner will hear of its end */
    uint32_t connection, host, sequence;
    struct mu_frame_reader reader;
    struct mu_link_chunk *head, *tail;
    size_t queued;
    uint64_t opened, heard, pinged, ping_stamp;
    uint64_t unanswered; /* since then its kernel has not answered what was sent again; 0: it has */
    struct mu_link_stats *stats;
    char name[64]; /* of its host, as it says */
    char from[64]; /* its address */
    char why[256]; /* of its end */
    /* Leader, link/via.c */
    struct mu_link_branch *branch; /* NULL: it is no relay */
    struct mu_link_peer *relay, *next_behind;
    struct mu_mux_route route;
    bool is_told; /* the relay knows of its end */
    /* Leader, link/tree.c */
    struct mu_join *join;
    bool is_parked, is_staying, is_loopback;
    uint32_t pending_host, moving_to; /* the relay's connection; 0: it was not told to move */
    uint64_t parked;
    /* Follower, link/move.c: it leads, or is to lead, to the leader by a relay */
    bool is_moving, is_relayed;
    bool is_asked;                 /* to relay, on this connection */
    uint64_t beyond, beyond_least; /* round trip from there on */
    uint64_t beyond_heard;         /* when the leader was last heard of there */
    bool is_paused;                /* relay: not read, while too much waits to go up */
};

struct mu_link_host {
    struct mu_link_peer *peer;
    struct mu_link_stats stats;
    uint8_t stays;      /* how often it could not get to a relay */
    bool cannot_listen; /* it is no relay */
};

struct mu_link_dial { /* a follower's attempts */
    struct mu_link_name name;
    struct mu_lookup *lookup;
    struct addrinfo *list, *next;
    uint64_t since, retry_at, pause; /* since: without a connection; retry_at 0: none is planned */
    char why[400];                   /* the last failure */
    uint32_t refusals;               /* rounds of its addresses in a row in which none could be connected to */
    bool is_vain;                    /* this round so far: nothing has begun that may succeed */
    bool has_failed, has_opened;     /* once: a round, which was told; a connection: somebody is there */
};

struct mu_link_tree { /* the leader's; wanted 0: all are its own connections */
    struct mu_link_peer *relays[MU_LINK_FAN];
    uint32_t wanted, count;
};

struct mu_link_relay {
    struct mu_link *up, *down;     /* down listens */
    uint32_t num_hosts, *channels; /* by host */
    bool has_event, has_paused;
};

/* What connections call above them: link.c has the only one. */
struct mu_link_calls {
    void (*secured)(struct mu_link_peer *p); /* TCP, and TLS where there is a key, are there */
    void (*ended)(struct mu_link_peer *p);   /* it is closed, or its last word is on its way */
    void (*frames[MU_FRAME_OWNER])(struct mu_link_peer *p, const struct mu_message *message); /* by type */
};

struct mu_link {
    struct mu_link_options options;
    const struct mu_link_calls *calls;
    uint8_t key[MU_KEY_BYTES];
    enum mu_link_side side;
    bool is_secure; /* with a key or certificates; tls: from when OpenSSL is open */
    SSL_CTX *tls;
    int epoll, listener, poke;
    bool is_paused;  /* nobody is accepted */
    bool is_rush;    /* others wait to be accepted: seen when the timers were last looked at */
    bool is_over;    /* follower: refused, or the leader left */
    bool is_patient; /* follower: the leader is silent, and has said so */
    bool has_beaten; /* before it was due: the timers are to be looked at again */
    uint64_t now, turned, due, resume_at;
    uint32_t num_pending, num_silent, next_connection, num_again; /* num_silent: closed, to make room */
    struct mu_link_host *hosts;
    struct mu_link_peer *peers, *dead, *dirty, *notices, **last_notice;
    struct mu_link_stats others; /* of connections that are no host's */
    struct mu_link_chunk *spare;
    struct mu_link_dial dial;
    struct mu_link_tree tree;
    struct mu_link_peer *moving; /* a follower's, to a relay */
    struct mu_link_relay *relay; /* a follower that is one */
    bool is_ending;              /* the owner hears of nothing any more */
    char address[320];
    uint32_t said, unsaid; /* sentences within this period, and those that were too many */
    uint64_t said_since;
    char listener_tag, lookup_tag, poke_tag, relay_tag; /* their addresses: what epoll tells of those four */
    struct epoll_event events[MU_LINK_EVENTS_AT_ONCE];
    int num_events; /* that mu_link_wait() has found; -1: it was not called */
    uint8_t buffer[MU_LINK_BUFFER];
};

/* link/peer.c */
struct mu_link_peer *mu_peer_new(struct mu_link *link, int fd, enum mu_link_state state, const char *from);
bool mu_peer_step(struct mu_link_peer *p, enum mu_link_event event);
void mu_peer_close(struct mu_link_peer *p, enum mu_link_notice notice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A last word, then the end: REFUSE (the leader's, before it is up) or DROP, with the reason; `said` besides. */
void mu_peer_dismiss(struct mu_link_peer *p, const char *why);
void mu_peer_free_all(struct mu_link_peer **list);
void mu_peer_words(const struct mu_link_peer *p, char *text, size_t size);
void mu_peer_is_known(struct mu_link_peer *p); /* it is not among the pending ones any more */
void mu_peer_leave(struct mu_link_peer *p);    /* its host */
/* When something last came from the far end: behind a relay that is the leader, which may be silent while the relay is
 * not. */
static inline uint64_t mu_peer_heard(const struct mu_link_peer *p)
{
    if (p->link->is_patient)
        return p->link->now;
    return p->is_relayed && p->beyond_heard < p->heard ? p->beyond_heard : p->heard;
}
void mu_peer_list(struct mu_link_peer *p);
/* It does not belong here: a sentence, and the end. */
void mu_peer_take_wrong(struct mu_link_peer *p, const struct mu_message *message, const char *what);
void mu_link_say(struct mu_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* link/queue.c */
bool mu_peer_send(struct mu_link_peer *p, uint8_t type, const void *payload, size_t len);
bool mu_peer_send_parts(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len, const void *payload,
                        size_t len);
bool mu_peer_send_slice(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body);
bool mu_branch_send(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len, const void *payload,
                    size_t len); /* to a host behind a relay */
void mu_branch_drain(struct mu_link_peer *relay);
bool mu_peer_await(const struct mu_link_peer *p, bool in, bool out); /* false: epoll does not do it */
void mu_peer_flush(struct mu_link_peer *p);
void mu_peer_forget_queue(struct mu_link_peer *p);
uint32_t mu_link_hosts_behind(const struct mu_link *link); /* of a follower that is a relay */

/* link/read.c */
void mu_peer_read(struct mu_link_peer *p);
void mu_peer_read_again(struct mu_link_peer *p, bool again); /* by the next turn, whatever epoll says */
void mu_peer_pause(struct mu_link_peer *p, bool pause);

/* link/tls.c */
/* *ret_is_secure: there is a key, or certificates; MUSTER_INVALID_ARGUMENT: what is there is not as it should be. */
enum muster_status mu_tls_look(const struct mu_link_options *options, bool *ret_is_secure);
enum muster_status mu_tls_open(struct mu_link *link); /* of one that is to be secure; else nothing happens */
bool mu_tls_begin(struct mu_link_peer *p);            /* false: it is closed, or needs none and is secured */
void mu_tls_shake(struct mu_link_peer *p);
bool mu_tls_has_begun(
    const struct mu_link_peer *p); /* its first words are here, and good: with a key, that it has it */

/* link/beat.c */
void mu_beat_send(struct mu_link_peer *p);
uint64_t mu_beat_period(const struct mu_link *link);
bool mu_beat_is_near(const struct mu_link_peer *p);
void mu_beat_take_ping(struct mu_link_peer *p, const struct mu_message *message);
void mu_beat_take_pong(struct mu_link_peer *p, const struct mu_message *message);
void mu_trip_pack(const struct mu_link *up, struct mu_pack *p);
void mu_trip_take(struct mu_link_peer *p, const struct mu_message *message);

/* link/join.c */
void mu_join_pack(const struct mu_join *join, struct mu_pack *p);
bool mu_join_unpack(const void *bytes, size_t len, struct mu_join *ret_join);
void mu_join_send(struct mu_link_peer *p); /* a follower's, when it is secured */
void mu_join_take(struct mu_link_peer *p, const struct mu_message *message);
void mu_join_take_welcome(struct mu_link_peer *p, const struct mu_message *message);
void mu_join_take_text(struct mu_link_peer *p, const struct mu_message *message); /* REFUSE, DROP */
void mu_join_take_leave(struct mu_link_peer *p, const struct mu_message *message);
void mu_peer_ask(struct mu_link_peer *p, const struct mu_join *join); /* the owner, whether it may come */
void mu_peer_join(struct mu_link_peer *p, const void *bytes, size_t len);
void mu_peer_accept(struct mu_link_peer *p, uint32_t host, const void *welcome, size_t len);

/* link/dial.c */
void mu_dial_begin(struct mu_link *link);
void mu_dial_found(struct mu_link *link);
void mu_dial_opened(struct mu_link_peer *p);
void mu_dial_failed(struct mu_link *link, const char *why);
void mu_dial_timers(struct mu_link *link);
void mu_dial_done(struct mu_link *link);

/* link/via.c: the leader's, of hosts behind relays */
bool mu_branch_begin(struct mu_link_peer *relay);
void mu_branch_end(struct mu_link_peer *relay, const char *why);
void mu_branch_leave(struct mu_link_peer *p); /* it has ended */
void mu_branch_take(struct mu_link_peer *relay, const struct mu_message *message);
void mu_branch_trips(struct mu_link_peer *relay, const struct mu_message *message);

/* link/tree.c: which hosts are the leader's own connections, and which are behind which relay */
void mu_tree_begin(struct mu_link *link);
bool mu_tree_keeps(struct mu_link_peer *p, uint32_t host); /* it may come, but by a relay: it is sent there */
void mu_tree_up(struct mu_link_peer *p);
void mu_tree_listens(struct mu_link_peer *relay, const struct mu_message *message);
void mu_tree_stays(struct mu_link_peer *p, const struct mu_message *message);
void mu_tree_ended(struct mu_link_peer *p);
void mu_tree_look(struct mu_link *link);
/* With a silence of `timeout_ns`, half of a host's time, before either, it has come before that time is over. */
static inline uint64_t mu_link_reach(const struct mu_link *link)
{
    return link->options.timeout_ns / 2 < MU_LINK_REACH_NS ? link->options.timeout_ns / 2 : MU_LINK_REACH_NS;
}
static inline uint64_t mu_link_move(const struct mu_link *link)
{
    uint64_t most = link->options.timeout_ns / 4 * 3;

    return most < MU_LINK_MOVE_NS ? most : MU_LINK_MOVE_NS;
}

/* link/move.c: a follower is sent to a relay */
void mu_move_begin(struct mu_link_peer *p, const struct mu_message *message);
void mu_move_failed(struct mu_link *link, const char *why);
void mu_move_done(struct mu_link_peer *p); /* it is up: it was that one, or another */

/* link/notice.c */
void mu_link_tell(struct mu_link *link);                  /* the notices */
void mu_relay_cut(struct mu_link *link, const char *why); /* all behind are sent away */

/* link/relay.c: a follower that is a relay */
void mu_relay_begin(struct mu_link_peer *p, const struct mu_message *message);
void mu_relay_take(struct mu_link_peer *p, const struct mu_message *message);
void mu_relay_hears(struct mu_link *link); /* epoll says that there is something to do */
void mu_relay_turn(struct mu_link *link);
bool mu_relay_settle(struct mu_link *link); /* after what came from above; true: it did something */
uint64_t mu_relay_next(const struct mu_link *link);
void mu_relay_set_limits(struct mu_link *link);
void mu_relay_end(struct mu_link *link);

#endif
