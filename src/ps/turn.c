/*
 * ps/turn.c: turns. Two pushes of a large shard at the same time are one of them in vain: so they take turns. A turn is
 * advice, and no lock: the commit alone decides. So nobody waits for an owner that is dead, and for one that is stopped
 * no longer than such a push takes where the processor is shared: the next one takes the turn from it, and the commit
 * of the one before fails.
 *
 * A turn's word: number of its takings 32 | incarnation 15 | slot + 1, 16; 0: free | S.
 */
#include "ps/private.h"

#include <stdio.h>

#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/slot.h"
#include "segment/wait.h"
#include "sync/futex.h"

enum {
    SMALL = 32768,          /* bytes of a shard that are pushed again sooner than a turn is waited for */
    PATIENCE_NS = 20000000, /* and */
    NS_PER_KIB = 20000      /* for each KiB, fifty times of what it takes on a processor of one's own */
};

#define TURN_OWNER(w) ((uint32_t)(w)&0xfffffffeu)
#define TURN(number, ctx)                                                                                              \
    ((uint64_t)(number) << 32 | (uint64_t)((ctx)->incarnation & 0x7fffu) << 17 | (uint64_t)((ctx)->slot + 1) << 1)

static bool owner_is_gone(const struct muster_segment *seg, uint64_t turn)
{
    uint32_t slot = (TURN_OWNER(turn) >> 1 & 0xffffu) - 1;
    uint64_t w;

    if (slot >= seg->num_slots)
        return true;
    w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim and the burial */
    return MU_SLOT_STATE(w) != MU_SLOT_LIVE || (MU_SLOT_INCARNATION(w) & 0x7fffu) != TURN_OWNER(turn) >> 17 ||
           mu_slot_is_dead(seg, slot, w);
}

/* One try, with the turn read as `seen`. */
static bool turn_try(struct mu_ctx *ctx, mu_a64 *word, uint64_t seen, struct ps_turn *turn)
{
    uint64_t mine = TURN((uint32_t)(seen >> 32) + 1, ctx);

    /* acq_rel: pairs with mu_ps_turn_give(). S goes on: its sleepers wait for this turn's end. */
    if (!mu_cas(word, seen, mine | (seen & MU_WORD_S)))
        return false;
    *turn = (struct ps_turn){word, mine};
    return true;
}

static enum muster_status turn_await(struct muster_ps *ps, struct mu_ctx *ctx, mu_a64 *word, uint64_t patience,
                                     muster_deadline deadline, struct ps_turn *turn)
{
    uint64_t until = mu_now() + patience, owner = 0;
    enum muster_status status = MUSTER_OK;
    char what[MUSTER_PS_NAME_MAX + 32];
    struct mu_wait w;

    snprintf(what, sizeof what, "a turn at tensor %s", ps->name);
    mu_wait_begin(&w, ps->seg, ctx, until < deadline ? until : deadline, what);
    while (!status) {
        uint64_t seen;

        mu_wait_look(&w);
        seen = mu_load_acquire(word);                  /* acquire: pairs with mu_ps_turn_give() */
        if (TURN_OWNER(seen) && seen >> 32 != owner) { /* another's turn, and its time */
            owner = seen >> 32;
            until = mu_now() + patience;
            w.deadline = until < deadline ? until : deadline;
        }
        if (!TURN_OWNER(seen) || owner_is_gone(ps->seg, seen) || mu_now() >= until) {
            if (turn_try(ctx, word, seen, turn))
                break;
            continue;
        }
        status = mu_wait_on(&w, word, seen);
        if (status == MUSTER_DEADLINE_EXCEEDED && deadline > until)
            status = MUSTER_OK;
    }
    mu_wait_end(&w);
    return status;
}

enum muster_status mu_ps_turn_take(struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard, muster_deadline deadline,
                                   struct ps_turn *ret_turn)
{
    mu_a64 *word = &ps->turns[shard * PS_TURN_WORDS];
    uint64_t bytes = ps_shard_bytes(ps, shard), seen;

    *ret_turn = (struct ps_turn){0};
    if (bytes <= SMALL)
        return MUSTER_OK;
    seen = mu_load_acquire(word); /* acquire: pairs with mu_ps_turn_give() */
    if (!TURN_OWNER(seen) && turn_try(ctx, word, seen, ret_turn))
        return MUSTER_OK;
    return turn_await(ps, ctx, word, PATIENCE_NS + bytes / 1024 * NS_PER_KIB, deadline, ret_turn);
}

void mu_ps_turn_give(struct ps_turn *turn)
{
    uint64_t seen = turn->mine, given = turn->mine & ~0xffffffffull;

    if (!turn->word)
        return;
    /* acq_rel: pairs with turn_try(). Failed but for S: somebody has taken it. */
    while (!mu_cas_seen(turn->word, &seen, given))
        if ((seen & ~MU_WORD_S) != turn->mine)
            return;
    if (seen & MU_WORD_S)
        mu_futex_wake(turn->word);
    turn->word = NULL;
}
