/*
 * bridge/object/objects.h: objects of the tasks, from host to host; for the files of this folder.
 *
 * A pull brings an object of another host, its home, into a replica here (segment/replica.h); a loan is what the home
 * keeps for a pull: a counted reference, from when the object is wanted until its bytes have come. Pull and loan speak
 * by OBJECT frames, which the leader passes on between two followers. All that is said may be said again: a pull knows
 * how much it has, a loan what it was asked for. So when a connection has broken, or an agent died, either side says
 * what it has with the other anew, and the other answers "not any more" to what it does not know.
 *
 *   pull    ASKED ── IS, sealed ──► WAITS for memory, and its turn ──► MOVES ── the last PIECE ──► DONE, until the
 *             │                       │                                  │                          replica is gone
 *             └─────── IS, an error or gone; LOST; no memory for too long ┴──────────────────────────► DONE
 *   loan    WANT ──► open: S is set in its word ── it is sealed ──► told ── GO ──► goes ── DROP, LOST ──► gone
 *
 * A pull's memory is OWNED until one commit makes it the replica's and seals it; a loan is a bundle (segment/bundle.h)
 * of one reference, OWNED likewise. Both go with the agent that has them, whatever it was at.
 */
#ifndef MU_BRIDGE_OBJECT_OBJECTS_H
#define MU_BRIDGE_OBJECT_OBJECTS_H

#include "bridge/core/modules.h"
#include "segment/bundle.h"
#include "segment/replica.h"

#define MU_PIECE_BYTES (1u << 20)    /* of a piece, most */
#define MU_PULL_WINDOW (4ull << 20)  /* on the way to one pull */
#define MU_LOAN_BYTES  (64ull << 20) /* on the way from here to all hosts */
#define MU_LOAN_LEAST  (16ull << 10) /* on the way to each host, however many they are */
#define MU_IS_BYTES    (32u << 10)   /* that come with the news that they are there */
#define MU_LOANS_MAX   65536u        /* of one host */
enum { MU_OBJECT_BUCKETS = 4096, MU_OBJECT_TEXT = 800, MU_DISPATCH_SPARES = 8 };

/* What an OBJECT frame says. */
enum mu_dispatch_said {
    MU_SAY_WANT = 1, /* to the home: the sender's host wants it */
    MU_SAY_GO = 2,   /* to the home: it has so many bytes, and takes more */
    MU_SAY_END = 3,  /* to the home: it wants it no more */
    MU_SAY_IS = 4,   /* from the home: what it is */
    MU_SAY_PIECE = 5,
    MU_SAY_AGAIN = 6, /* from the leader: the host that the frame is from has come again */
    MU_SAY_LOST = 7,  /* from the leader: it is lost */
    MU_SAYINGS
};
/* IS: what it is; and where it is sealed, its own state: MU_OBJECT_SEALED, MU_OBJECT_ERROR. */
#define MU_IS_GONE 0u
#define MU_IS_OPEN 1u

enum mu_pull_state { MU_PULL_ASKED, MU_PULL_WAITS, MU_PULL_MOVES, MU_PULL_DONE };
struct mu_pull {
    struct mu_pull *next;            /* of its bucket */
    struct mu_pull *before, *behind; /* of those that wait */
    uint64_t ref, local;
    enum mu_pull_state state;
    struct mu_object o; /* as the home says; its memory here */
    uint64_t whole, have, said;
    uint64_t try_at, full_at; /* WAITS: when it is tried again; since when there is no memory, 0: there was */
};

struct mu_loan {
    struct mu_loan *next;
    struct mu_loan *before, *behind; /* of all */
    uint64_t ref, bundle;
    uint32_t host;
    bool told, says_open, goes;
    mu_a64 *word; /* not told: it is as seen */
    uint64_t seen;
    const uint8_t *bytes;
    uint64_t whole, sent, taken;
};

/* What is on its way to a host, and how many of its loans there are. */
struct mu_borrower {
    uint64_t on_the_way;
    uint32_t loans;
};

struct mu_dispatch {
    struct mu_pull *pulls[MU_OBJECT_BUCKETS], *first, *last;
    struct mu_loan *loans[MU_OBJECT_BUCKETS], *first_loan, *last_loan;
    struct mu_borrower *borrowers; /* by host */
    uint64_t **known;              /* the leader's: by host, which others it speaks with; a bit each */
    uint64_t num_pulls, num_loans;
    struct mu_blob
        *spares[MU_DISPATCH_SPARES]; /* for pieces: each has its pages from the last one; until `spares_end` */
    uint64_t spares_end, sweep_at;   /* 0: there are none */
    uint32_t sweep_bucket, moving, going;
    bool is_started;
};

static inline struct mu_dispatch *mu_dispatch_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_OBJECTS);
}
static inline uint32_t mu_dispatch_bucket(uint64_t ref)
{
    return (uint32_t)((ref * 0x9e3779b97f4a7c15u) >> 52);
}

/* objects.c: to that host, or to the leader for it. */
void mu_dispatch_tell(struct mu_core *core, enum mu_dispatch_said word, uint32_t host, uint64_t ref,
                      const struct mu_pack *rest, const struct mu_slice *body);

/* pull.c. What ends a pull frees it. */
static inline uint32_t mu_pull_home(const struct mu_pull *p)
{
    return MU_OBJECT_HOST(p->ref);
}
struct mu_pull *mu_pull_find(struct mu_dispatch *t, uint64_t ref);
struct mu_pull *mu_pull_add(struct mu_dispatch *t, uint64_t ref, uint64_t local); /* NULL: no memory */
void mu_pull_become(struct mu_dispatch *t, struct mu_pull *p, enum mu_pull_state state);
bool mu_pull_lives(struct mu_ctx *ctx, const struct mu_pull *p);
void mu_pull_say(struct mu_core *core, enum mu_dispatch_said what, const struct mu_pull *p);
void mu_pull_go(struct mu_core *core, struct mu_pull *p, bool anew);
void mu_pull_discard(struct mu_ctx *ctx, struct mu_pull *p);
bool mu_pull_begin(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p);
void mu_pull_fail(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p, enum muster_status code, uint32_t task,
                  const char *text);
void mu_pull_end(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p);
bool mu_pull_take_is(struct mu_core *core, uint32_t home, uint64_t ref, struct mu_unpack *u);
bool mu_pull_take_piece(struct mu_core *core, uint64_t ref, struct mu_unpack *u);

/* pulls.c. Each host: every one. */
#define MU_EVERY_HOST UINT32_MAX
void mu_pulls_again(struct mu_core *core, uint32_t home);
void mu_pulls_lost(struct mu_core *core, uint32_t home);
void mu_pulls_look(struct mu_core *core);
uint64_t mu_pulls_next(struct mu_core *core);
void mu_pulls_done(struct mu_core *core);

/* loans.c */
void mu_loans_again(struct mu_core *core, uint32_t host);
void mu_loans_lost(struct mu_core *core, uint32_t host);
void mu_loans_look(struct mu_core *core);
uint64_t mu_loans_next(struct mu_core *core);
void mu_loans_done(struct mu_core *core);
void mu_loan_want(struct mu_core *core, uint32_t host, uint64_t ref);
bool mu_loan_go(struct mu_core *core, uint32_t host, uint64_t ref, struct mu_unpack *u);
void mu_loan_end(struct mu_core *core, uint32_t host, uint64_t ref);

#endif
