/*
 * barrier/shortcut.h: with --latency, barriers of a group on two hosts that go from task to task, not by the agents.
 *
 * One member of each host, the speaker (its lowest rank), has a UDP socket to the other host's. When all of its host
 * have arrived it commits: the proxy's word says from then on that the other host has the last word (TRUSTED), so this
 * host cannot make the instance fail any more; and it says so, in a datagram. Once a speaker has sent its datagram and
 * received its peer's, it lets its proxy arrive, which releases its host's members. So two hosts that come at once send
 * a datagram each, and nobody waits for an answer; agents sleep through it.
 *
 * A datagram is a hint, that may be lost, come twice or late: its content stays true, and is found out without it. A
 * member that has waited for a while, or gives up, asks the agents (`ask`), which do as if there were no shortcut, on
 * the same words (bridge/group/groups_shortcut.c; model: shortcut.pml). It is signed with a key that came over the
 * agents' own connection, and it is only for that connection.
 *
 * Causality (I10). What this host had told the other one before, and what it must have told, is seen to before it
 * commits: the records' word, the events' tail, and on the leader the words of all buckets that the other host has
 * copies of, are those that were told; if not, the agents go the long way. The datagram says how many messages were
 * told by then, and its receiver first waits until its own agent has taken as many.
 *
 * Killed anywhere, a speaker leaves words that the agents go on from: committed and not said, said and not taken.
 */
#ifndef MU_BARRIER_SHORTCUT_H
#define MU_BARRIER_SHORTCUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "segment/handle.h"

struct muster_group;

/* A member's end of it: process-local. */
struct mu_shortcut_end {
    struct mu_shortcut *way; /* NULL: the group has none, for all its members are here */
    bool is_speaker;
    bool is_live; /* the speaker's: it has a socket, the other's address and keys */
    int fd;
    uint64_t state;           /* as last looked at */
    uint64_t committed;       /* the last instance that we have committed to */
    uint64_t heard;           /* and that the other host has: monotone */
    uint64_t late, late_told; /* heard, but not to be taken before our agent has taken so many messages */
    uint32_t missed;          /* instances in turn without a datagram: after some the agents are asked at once */
    uint64_t key_in[2], key_out[2];
};

/* What goes from speaker to speaker, little-endian. */
struct mu_datagram {
    uint64_t magic;    /* MU_DATAGRAM_MAGIC */
    uint64_t instance; /* all of the sender's host have arrived at it */
    uint64_t told;     /* messages that its agent had given to the connection before */
    uint64_t tag[2];   /* SipHash-2-4-128 of what stands before, under the receiver's key */
};
#define MU_DATAGRAM_MAGIC 0x0000317473756d75u

/* Bytes a member for which a proxy's area must be made, so that the shortcut has room there. */
uint32_t mu_shortcut_room(uint32_t data_bytes);

/* The group is built; g->end is zeros. And the end. */
void mu_shortcut_begin(struct muster_group *g);
void mu_shortcut_end(struct muster_group *g);

/* Any member, behind a full fence after its arrival: nobody has to ring the agent. */
bool mu_shortcut_covers(struct muster_group *g, uint64_t instance);
/* The speaker: open, and look for the other. Cheap when nothing has changed. */
void mu_shortcut_look(struct muster_group *g);
/* The speaker: commit, send, take what has come. True: the proxy has arrived. */
bool mu_shortcut_turn(struct muster_group *g, uint64_t instance);
/* Any member: the agents shall do it. */
void mu_shortcut_ask(struct muster_group *g, uint64_t instance);
/* The speaker, when the instance has passed. */
void mu_shortcut_passed(struct muster_group *g, uint64_t instance);

/* Instances up to this one go by the agents. */
void mu_shortcut_raise(mu_a64 *ask, uint64_t instance);

/* An address as three words: family and scope, and sixteen bytes. False: it is of no family that is known. */
bool mu_shortcut_encode(const struct sockaddr_storage *a, uint64_t ret_words[3]);
/* Its length; 0: there is none. */
socklen_t mu_shortcut_decode(const uint64_t words[3], uint16_t port, struct sockaddr_storage *ret_a);

/* For tests alone: how many times the datagram of an instance is sent. NULL: once. */
extern unsigned (*mu_shortcut_fate)(uint64_t instance);

#endif
