/*
 * barrier/remote.c: named barriers for tasks of hosts that are not the leader's, whose segment has the barriers.
 *
 * A wait is one call, answered when the instance has ended. Who goes away earlier says so by another call, which
 * carries all that the first one did: whichever of them comes through first is the arrival, for both have one name.
 * Where not even that was answered in time, the process remembers the name, and its next call at this barrier tells
 * the leader that nobody has heard of the end of that one, nor of any since.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/call.h"
#include "base/clock.h"
#include "segment/remote.h"

#define GRACE_NS 1000000000u /* beyond the deadline: for a leader that is there to say how it stands */

/* What one place of the handle's `untold` holds: which barrier, that there is one, the call's name. */
#define UNTOLD(hash, name) (((hash) & ~UINT64_C(0xfff)) | 0x800u | (name))

static mu_a64 *untold_of(struct muster *m, const struct mu_named *n)
{
    return &m->untold[(n->key.hash >> 12) % (sizeof m->untold / sizeof *m->untold)];
}

/* The first of several: the leader takes the later ones to be given up, too. */
static void remember(struct muster *m, const struct mu_named *n, uint32_t name)
{
    mu_a64 *place = untold_of(m, n);
    uint64_t w = atomic_load_explicit(place, memory_order_relaxed); /* process-local: as below */

    /* process-local, relaxed: partner is the load of recall(); the word is all that is said */
    if (!w || ((w ^ n->key.hash) & ~UINT64_C(0xfff)))
        atomic_store_explicit(place, UNTOLD(n->key.hash, name), memory_order_relaxed);
}

static uint32_t recall(struct muster *m, const struct mu_named *n)
{
    uint64_t w = atomic_load_explicit(untold_of(m, n), memory_order_relaxed); /* process-local: as in remember() */

    return w && !((w ^ n->key.hash) & ~UINT64_C(0xfff)) ? (uint32_t)w & MU_CALLS_MASK : MU_CALLS_NONE;
}

/* The leader knows by now. */
static void forget(struct muster *m, const struct mu_named *n, uint32_t name)
{
    uint64_t w = UNTOLD(n->key.hash, name);

    if (name != MU_CALLS_NONE) /* process-local, relaxed: as in remember() */
        atomic_compare_exchange_strong_explicit(untold_of(m, n), &w, 0, memory_order_relaxed, memory_order_relaxed);
}

/* The answer, whatever it says of the barrier, into the call. False: none came. */
static bool take_answer(struct mu_call *c, struct mu_answer *a)
{
    if (!a->memory)
        return false;
    c->counter = mu_unpack_u64(&a->body);
    c->waiting = mu_unpack_u8(&a->body) != 0;
    c->result = a->status;
    free(c->text);
    c->text = c->result ? strdup(muster_last_error()) : NULL;
    mu_answer_done(a);
    return true;
}

/* The caller goes away, for the reason in `status`: unless its instance has ended by now. */
static enum muster_status leave(struct muster *m, const struct mu_named *n, struct mu_call *c,
                                struct mu_remote_call *call, enum muster_status status)
{
    struct mu_answer a;
    char why[MU_BARRIER_TEXT];

    snprintf(why, sizeof why, "%s", muster_last_error());
    remember(m, n, c->name);
    call->op = MU_OP_BARRIER_GIVE_UP;
    call->deadline = mu_bridge_state(n->seg) == MU_BRIDGE_UP ? muster_after_ns(GRACE_NS) : 0;
    mu_remote_call(m, n->ctx, call, &a);
    if (take_answer(c, &a)) {
        forget(m, n, c->untold == MU_CALLS_NONE ? c->name : c->untold);
        if (!c->waiting)
            return MUSTER_OK;
    }
    return mu_fail(status, "%s", why);
}

enum muster_status mu_call_remote(struct muster *m, const struct mu_named *n, struct mu_call *c,
                                  muster_deadline deadline)
{
    struct mu_pack request = {0};
    char what[96];
    struct mu_remote_call call = {
        .op = MU_OP_BARRIER_WAIT, .request = &request, .deadline = deadline, .what = what, .kind = MU_WAIT_BARRIER};
    struct mu_answer a;
    enum muster_status status;

    if (c->asked == MUSTER_BARRIER_NEXT) /* which that is, the leader knows */
        snprintf(what, sizeof what, "barrier %.80s", n->id);
    else
        snprintf(what, sizeof what, "barrier %.60s::%" PRIu64, n->id, c->asked);
    /* process-local, relaxed: nobody but this counts; each call gets another */
    c->name = atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed) & MU_CALLS_MASK;
    c->untold = recall(m, n);
    mu_call_pack(&request, n->id, c);
    status = mu_remote_call(m, n->ctx, &call, &a);
    if (take_answer(c, &a)) {
        forget(m, n, c->untold);
        status = MUSTER_OK;
    } else if (status == MUSTER_DEADLINE_EXCEEDED || status == MUSTER_CANCELLED) {
        status = leave(m, n, c, &call, status);
    }
    mu_pack_done(&request);
    return status;
}

enum muster_status mu_cancel_remote(struct muster *m, const struct mu_named *n, struct mu_call *c)
{
    struct mu_pack request = {0};
    struct mu_remote_call call = {.op = MU_OP_BARRIER_CANCEL,
                                  .request = &request,
                                  .deadline = MUSTER_FOREVER,
                                  .what = "the leader to cancel a barrier"};
    struct mu_answer a;
    enum muster_status status;

    mu_pack_text(&request, n->id);
    mu_pack_u64(&request, c->asked);
    status = mu_remote_call(m, n->ctx, &call, &a);
    mu_answer_done(&a);
    mu_pack_done(&request);
    return status;
}
