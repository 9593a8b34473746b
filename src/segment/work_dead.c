/*
 * segment/work_dead.c: calls after a death.
 *
 * What the dead thread ran stands in its slot, from before the claim: it is queued again, or an error, before the slot
 * is free. What it was about to hint at, or had just taken from the queue, nobody knows: so every death asks for a
 * rescan, in which one worker looks at the words of all objects. A rescan only repeats hints: the words decide. Calls
 * that ask for resources have no hints here: see lease.h.
 */
#include <stdio.h>

#include "segment/work.h"
#include "segment/hosts.h"
#include "segment/lease.h"
#include "segment/slot.h"

void mu_work_ask(struct muster_segment *seg, uint32_t bits)
{
    mu_a32 *word = &seg->header->rescan;
    uint32_t seen;

    do
        seen = mu_load32_acquire(word);         /* acquire: pairs with the CASes of it */
    while (!mu_cas32(word, seen, seen | bits)); /* acq_rel: what is to be found comes before; see mu_work_answer() */
}

bool mu_work_answer(struct muster_segment *seg, uint32_t bits)
{
    mu_a32 *word = &seg->header->rescan;
    uint32_t seen;

    do
        seen = mu_load32_acquire(word);                         /* acquire: pairs with mu_work_ask() */
    while (seen & bits && !mu_cas32(word, seen, seen & ~bits)); /* acq_rel: one does it */
    return seen & bits;
}

void mu_work_rescan(struct muster_segment *seg)
{
    if (!mu_load32_acquire(&seg->header->queue_there)) /* acquire: pairs with mu_queue_commit() */
        return;
    mu_work_ask(seg, MU_RESCAN_ALL);
    mu_crew_wake(seg);
}

void mu_work_leave(struct mu_ctx *ctx)
{
    const struct mu_slot *s = ctx->own;
    bool worked = mu_load_relaxed(&s->worker) != 0; /* relaxed, all: our own */
    bool runs = mu_load_relaxed(&s->calls[0]) || mu_load_relaxed(&s->calls[1]);

    mu_slot_free(ctx);
    if (runs) /* calls that nobody runs now: see runner_is_gone() */
        mu_work_rescan(ctx->seg);
    if (worked)
        mu_crew_moved(ctx->seg);
}

/* ---- what the dead ran ---- */

struct work_burial {
    uint64_t runner;
    bool again; /* whether it may be run again */
    bool queued;
    struct mu_object end; /* what it is, if it may not */
};

static enum muster_status call_buried(struct mu_object *o, void *arg)
{
    struct work_burial *b = arg;

    if (o->state != MU_OBJECT_CALL_RUNNING || o->bytes != b->runner)
        return MUSTER_ALREADY_EXISTS;
    b->queued = b->again && o->code;
    if (b->queued && b->end.data)
        return MUSTER_UNAVAILABLE; /* it was read before somebody else buried its runner */
    if (b->queued) {
        o->state = MU_OBJECT_CALL_QUEUED;
        o->code--;
        o->bytes = 0;
        return MUSTER_OK;
    }
    o->state = MU_OBJECT_ERROR;
    o->code = MUSTER_UNAVAILABLE;
    o->data = b->end.data;
    o->bytes = b->end.bytes;
    o->meta = b->end.data ? 0 : MU_ENDED_RUNNING;
    return MUSTER_OK;
}

/* A task's record names its process. Of a worker without a number the error does; without memory for that it does not.
 */
static void end_name_worker(struct mu_ctx *ctx, uint64_t ref, struct work_burial *b, uint32_t pid)
{
    struct mu_object o;
    char host[64], text[160];
    int len;

    if (mu_object_peek(ctx->seg, ref, ctx->scratch, &o) || o.task || o.state != MU_OBJECT_CALL_RUNNING ||
        o.bytes != b->runner || (b->again && o.code))
        return;
    mu_host_name(ctx->seg, ctx->seg->host, host, sizeof host);
    len = snprintf(text, sizeof text, "its worker (pid %u on host %s) ended in the midst of the call", pid, host);
    if (mu_work_error(ctx, MUSTER_UNAVAILABLE, text, (size_t)len, 0, &b->end))
        b->end.data = b->end.bytes = 0;
}

/* `pid`: the runner's, 0: not known. False: there is no memory for it now. */
static bool call_bury(struct mu_ctx *ctx, uint64_t ref, uint64_t runner, bool again, uint32_t pid)
{
    struct work_burial b = {.runner = runner, .again = again};
    enum muster_status status;

    if (pid)
        end_name_worker(ctx, ref, &b, pid);
    status = mu_object_change(ctx, ref, b.end.data, call_buried, &b, false);

    if (!status && b.queued)
        mu_queue_put(ctx->seg, ref);
    return status != MUSTER_RESOURCE_EXHAUSTED && status != MUSTER_UNAVAILABLE;
}

bool mu_work_bury(struct mu_ctx *ctx, uint32_t slot, uint64_t dead)
{
    struct mu_slot *s = &ctx->seg->slots[slot];
    uint64_t calls[2] = {mu_load_acquire(&s->calls[0]), mu_load_acquire(&s->calls[1])}; /* acquire: as the claim's */
    bool worked = mu_load_relaxed(&s->worker) != 0; /* relaxed: the slot is looked at again */
    char kept[MU_SENTENCE_MAX];
    bool done = true;

    if (mu_recheck(&s->word) != dead)
        return false;
    mu_crew_bury(ctx->seg, slot);
    if (mu_queue_length(ctx->seg)) /* the dead one may have been rung for a hint */
        mu_crew_wake(ctx->seg);
    mu_error_keep(kept);
    for (uint32_t i = 0; i < 2; i++)
        if (calls[i] && mu_object_word(ctx->seg, calls[i]))
            done &=
                call_bury(ctx, calls[i], MU_OBJECT_MAKER(slot, MU_SLOT_INCARNATION(dead)), i == 0, MU_SLOT_PID(dead));
    mu_error_restore(kept);
    if (worked)
        mu_crew_moved(ctx->seg);
    return done;
}

/* ---- looking at all ---- */

/* The thread ended in the midst of the call, and gave its slot back. */
static bool runner_is_gone(const struct muster_segment *seg, uint64_t runner)
{
    uint32_t slot = (uint32_t)(runner >> 16) - 1;
    /* acquire: pairs with the claim and the release of the slot */
    uint64_t w = slot < seg->num_slots ? mu_load_acquire(&seg->slots[slot].word) : 0;

    return MU_SLOT_STATE(w) == MU_SLOT_FREE || MU_SLOT_INCARNATION(w) != (uint16_t)runner;
}

static enum muster_status waiting_marked(struct mu_object *o, void *arg)
{
    (void)arg;
    if (!mu_object_is_open(o->state))
        return MUSTER_ALREADY_EXISTS;
    o->waiting |= MU_WAITING_ALL;
    return MUSTER_OK;
}

/* True: the call asks for resources, and is not queued here. */
static bool call_rescan(struct mu_ctx *ctx, uint32_t index)
{
    uint64_t blocked;
    struct mu_object o;

    if (!MU_WORD_INDEX(mu_load_relaxed(&ctx->seg->objects[index])) || /* relaxed: a look */
        mu_object_at(ctx->seg, index, ctx->scratch, &o))
        return false;
    if (o.state == MU_OBJECT_CALL_QUEUED && o.meta) /* its asks */
        return true;
    if (o.state == MU_OBJECT_CALL_QUEUED) {
        mu_queue_put(ctx->seg, o.ref);
    } else if (o.state == MU_OBJECT_CALL_RUNNING && runner_is_gone(ctx->seg, o.bytes)) {
        call_bury(ctx, o.ref, o.bytes, true, 0);
    } else if (o.state == MU_OBJECT_CALL_WAITING || o.state == MU_OBJECT_CALL_PLACED) {
        blocked = mu_work_recheck(ctx, o.ref, o.state);
        if (blocked && mu_object_change(ctx, blocked, 0, waiting_marked, NULL, true))
            mu_work_recheck(ctx, o.ref, o.state); /* it has ended meanwhile, perhaps with our help alone */
    }
    return false;
}

void mu_work_rescan_if_asked(struct mu_ctx *ctx, bool idle)
{
    uint32_t high = mu_objects_high(ctx->seg);
    char kept[MU_SENTENCE_MAX];
    bool parked = false;

    if (!mu_work_answer(ctx->seg, idle ? MU_RESCAN_ALL | MU_RESCAN_FULL : MU_RESCAN_ALL))
        return;
    mu_error_keep(kept);
    for (uint32_t i = 0; i < high; i++)
        parked |= call_rescan(ctx, i);
    mu_error_restore(kept);
    if (parked)
        mu_lease_rescan(ctx->seg);
}

void mu_work_each(struct mu_ctx *ctx, uint32_t state, uint64_t place, void (*visit)(void *arg, uint64_t ref), void *arg)
{
    uint32_t high = mu_objects_high(ctx->seg);

    for (uint32_t i = 0; i < high; i++) {
        struct mu_object o;

        if (!MU_WORD_INDEX(mu_load_relaxed(&ctx->seg->objects[i])) || /* relaxed: a look */
            mu_object_at(ctx->seg, i, ctx->scratch, &o) || o.state != state)
            continue;
        if (!place || mu_work_place_of(ctx, o.ref) == place)
            visit(arg, o.ref);
    }
}
