/*
 * segment/crew.c: the queue of ready calls, and the workers that sleep until there is one.
 *
 * The queue is a ring of hints. A place of it is {round, index + 1}, or {round, 0} while it is empty; it changes by CAS
 * alone, each before the counter that it belongs to:
 *
 *   put    place[tail]: {round, 0} -> {round, index + 1},  then tail + 1
 *   take   place[head]: {round, index + 1} -> {round + 1, 0},  then head + 1
 *
 * A thread that finds the first half done makes the second: so a SIGKILL between the two delays nobody, and the round
 * lets no late CAS meet a place of another round. A hint is lost when its putter dies before it, or its taker behind
 * it: both deaths ask for a rescan.
 *
 * A worker sets its slot's bit, fences, and looks at the queue again; a putter fences behind its put and looks at the
 * bits: one of the two sees the other. The CAS that clears a bit decides which putter rings that worker's bell. A dead
 * worker's bit goes with its slot; a putter that has taken it before is made good by the epoch, which wakes all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "segment/work.h"

#include "segment/file.h"
#include "segment/slot.h"
#include "sync/futex.h"

#define PLACE(counter)      ((counter) % MU_QUEUE_PLACES)
#define EMPTY(counter)      (((counter) / MU_QUEUE_PLACES) << 32)
#define FULL(counter, hint) (EMPTY(counter) | ((hint) + 1ull))

enum muster_status mu_queue_commit(struct muster_segment *seg)
{
    off_t at = (off_t)mu_offset_of(seg, seg->idle);
    char place[MU_PLACE_MAX];
    int rc;

    if (mu_load32_acquire(&seg->header->queue_there)) /* acquire: pairs with the store below */
        return MUSTER_OK;
    do
        rc = seg->fd < 0 ? 0 : fallocate(seg->fd, 0, at, (off_t)MU_QUEUE_BYTES);
    while (rc && errno == EINTR);
    if (rc) {
        const char *why = strerror(errno);

        mu_segment_place(seg, place, sizeof place);
        return mu_fail(
            MUSTER_RESOURCE_EXHAUSTED,
            "no room in %s for the queue of calls of job %s: %s (remove something there, or mount it larger)", place,
            seg->job, why);
    }
    mu_store32_release(&seg->header->queue_there, 1); /* release: its pages are there */
    return MUSTER_OK;
}

static bool queue_push(struct muster_segment *seg, uint32_t index)
{
    struct mu_header *h = seg->header;

    for (;;) {
        uint64_t tail = mu_load_acquire(&h->queue_tail); /* acquire: pairs with the CASes of it */
        uint64_t seen = mu_load_acquire(&seg->queue[PLACE(tail)]);

        if (seen == EMPTY(tail)) {
            /* acq_rel: the call's commit comes before its hint */
            if (!mu_cas(&seg->queue[PLACE(tail)], seen, FULL(tail, index)))
                continue;
            mu_cas(&h->queue_tail, tail, tail + 1); /* acq_rel. Failed: another thread did it */
            return true;
        }
        if (seen >> 32 == EMPTY(tail) >> 32 || seen == EMPTY(tail + MU_QUEUE_PLACES))
            mu_cas(&h->queue_tail, tail, tail + 1);       /* acq_rel: the putter has not come so far */
        else if (mu_load_acquire(&h->queue_tail) == tail) /* acquire: likewise */
            return false;
    }
}

bool mu_queue_take(struct muster_segment *seg, uint32_t *ret_index)
{
    struct mu_header *h = seg->header;

    for (;;) {
        uint64_t head = mu_load_acquire(&h->queue_head); /* acquire: pairs with the CASes of it */
        uint64_t seen = mu_load_acquire(&seg->queue[PLACE(head)]);

        if (seen == EMPTY(head)) {
            if (mu_load_acquire(&h->queue_head) == head) /* acquire: likewise */
                return false;
        } else if (seen >> 32 == EMPTY(head) >> 32) {
            /* acq_rel: behind the put; the place is free for the next round */
            if (!mu_cas(&seg->queue[PLACE(head)], seen, EMPTY(head + MU_QUEUE_PLACES)))
                continue;
            mu_cas(&h->queue_head, head, head + 1); /* acq_rel. Failed: another thread did it */
            *ret_index = (uint32_t)seen - 1;
            return true;
        } else {
            mu_cas(&h->queue_head, head, head + 1); /* acq_rel: the taker has not come so far */
        }
    }
}

uint32_t mu_queue_length(const struct muster_segment *seg)
{
    /* relaxed, both: a look */
    uint64_t head = mu_load_relaxed(&seg->header->queue_head), tail = mu_load_relaxed(&seg->header->queue_tail);

    return tail > head ? (uint32_t)(tail - head) : 0;
}

void mu_queue_put(struct muster_segment *seg, uint64_t ref)
{
    if (!queue_push(seg, MU_OBJECT_INDEX(ref)))
        mu_work_ask(seg, MU_RESCAN_FULL);
    mu_crew_wake(seg);
}

/* ---- idle workers ---- */

static mu_a64 *idle_word(const struct muster_segment *seg, uint32_t slot)
{
    return &seg->idle[slot / 64 % MU_IDLE_WORDS];
}

static bool idle_clear(struct muster_segment *seg, uint32_t slot)
{
    mu_a64 *word = idle_word(seg, slot);
    uint64_t bit = 1ull << slot % 64, seen = mu_load_acquire(word); /* acquire: pairs with the CASes of it */

    while (seen & bit)
        if (mu_cas_seen(word, &seen, seen & ~bit)) /* acq_rel: one thread clears it */
            return true;
    return false;
}

void mu_crew_idle(struct mu_ctx *ctx)
{
    mu_a64 *word = idle_word(ctx->seg, ctx->slot);
    uint64_t bit = 1ull << ctx->slot % 64, seen = mu_load_relaxed(word); /* relaxed: the CAS decides */

    while (!(seen & bit) && !mu_cas_seen(word, &seen, seen | bit))
        ;
    mu_fence_seq_cst(); /* the bit comes before the look at the queue; pairs with mu_crew_wake() */
}

bool mu_crew_busy(struct mu_ctx *ctx)
{
    return idle_clear(ctx->seg, ctx->slot);
}

bool mu_crew_is_idle(const struct muster_segment *seg, uint32_t slot)
{
    return mu_load_acquire(idle_word(seg, slot)) >> slot % 64 & 1; /* acquire: a look */
}

/* Count it up, and wake those that sleep on it. */
static void bell_ring(mu_a64 *bell)
{
    uint64_t seen = mu_load_relaxed(bell); /* relaxed: the CAS decides */

    while (!mu_cas_seen(bell, &seen, (seen | MU_WORD_S) + 1)) /* acq_rel: pairs with the look behind mu_wait_on() */
        ;
    if (seen & MU_WORD_S)
        mu_futex_wake(bell);
}

void mu_crew_wake(struct muster_segment *seg)
{
    uint32_t words;

    mu_fence_seq_cst(); /* what there is to do comes before the look at the bits; pairs with mu_crew_idle() */
    words = (mu_slot_high(seg) + 63) / 64;
    for (uint32_t i = 0; i < words && i < MU_IDLE_WORDS; i++)
        for (uint64_t left = mu_load_acquire(&seg->idle[i]); left; left &= left - 1) { /* acquire: as above */
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(left);

            if (slot >= seg->num_slots || !idle_clear(seg, slot))
                continue;
            bell_ring(&seg->slots[slot].bell);
            return;
        }
}

void mu_crew_bury(struct muster_segment *seg, uint32_t slot)
{
    if (mu_load32_acquire(&seg->header->queue_there)) /* acquire: pairs with mu_queue_commit() */
        idle_clear(seg, slot);
}

/* ---- watchers of workers ---- */

void mu_crew_moved(struct muster_segment *seg)
{
    bell_ring(&seg->header->workers);
}

void mu_crew_say(struct mu_ctx *ctx, uint32_t state)
{
    uint64_t word = MU_WORKER(ctx->incarnation, state);

    if (mu_load_relaxed(&ctx->own->worker) == word) /* relaxed: our own */
        return;
    mu_store_release(&ctx->own->worker, word); /* release: pairs with the looks of watchers */
    mu_crew_moved(ctx->seg);
}

_Thread_local struct mu_crew_watch mu_crew_watch;

bool mu_crew_block(struct mu_ctx *ctx)
{
    /* relaxed, both: our own */
    if (!mu_load_relaxed(&ctx->own->calls[0]) ||
        mu_load_relaxed(&ctx->own->worker) != MU_WORKER(ctx->incarnation, MU_WORKER_FREE))
        return false;
    mu_crew_say(ctx, MU_WORKER_BLOCKED);
    if (mu_crew_watch.moved)
        mu_crew_watch.moved(mu_crew_watch.arg, true);
    return true;
}

void mu_crew_unblock(struct mu_ctx *ctx)
{
    if (mu_crew_watch.moved)
        mu_crew_watch.moved(mu_crew_watch.arg, false);
    mu_crew_say(ctx, MU_WORKER_FREE);
}
