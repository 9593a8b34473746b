/*
 * barrier/remote.c: named barriers for tasks of hosts that are not the leader's (the leader's segment has the
 * barriers): the steps, and their driver for a task's thread.
 *
 * When not even the word that a caller has gone away was answered in time, the process remembers the call's name. Its
 * next call at this barrier tells the leader that nobody has heard of the end of that one, nor of any since.
 */
#include "barrier/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/call.h"
#include "base/clock.h"

#define GRACE_NS 1000000000u /* beyond the deadline: for a leader that is there to say how it stands */

/* ---- the steps --------------------------------------------------------------------------------------------------- */

static void name_instance(struct mu_steps *steps, const char *id, uint64_t asked)
{
    if (asked == MUSTER_BARRIER_NEXT) /* which that is, the leader knows */
        snprintf(steps->about, sizeof steps->about, "barrier %.80s", id);
    else
        snprintf(steps->about, sizeof steps->about, "barrier %.60s::%" PRId64, id, mu_barrier_number(asked));
}

static enum muster_status wait_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_barrier_remote *r = (struct mu_barrier_remote *)steps;

    r->said = body->left > 0;
    r->call->counter = mu_unpack_u64(body);
    r->call->waiting = mu_unpack_u8(body) != 0;
    r->present = mu_unpack_u64(body);
    r->flags = mu_unpack_u8(body);
    if (status || (mu_unpack_end(body) && (r->gives_up || !r->call->waiting)))
        return status;
    r->said = false;
    return mu_steps_malformed(steps);
}

void mu_barrier_wait_begin(struct mu_barrier_remote *r)
{
    mu_barrier_call_pack(mu_steps_ask(&r->steps, MU_OP_BARRIER_WAIT), r->id, r->call);
    r->steps.answer = wait_answer;
    r->steps.kind = MU_WAIT_BARRIER;
    name_instance(&r->steps, r->id, r->call->asked);
}

void mu_barrier_give_up_begin(struct mu_barrier_remote *r)
{
    mu_barrier_call_pack(mu_steps_ask(&r->steps, MU_OP_BARRIER_GIVE_UP), r->id, r->call);
    r->gives_up = true;
}

void mu_barrier_cancel_begin(struct mu_steps *steps, const char *id, uint64_t asked)
{
    struct mu_pack *request = mu_steps_ask(steps, MU_OP_BARRIER_CANCEL);

    mu_pack_text(request, id);
    mu_pack_u64(request, asked);
    steps->answer = mu_steps_take_status;
    name_instance(steps, id, asked);
}

/* ---- a task's thread --------------------------------------------------------------------------------------------- */

/* What one place of the handle's `untold` holds: which barrier, that there is one, the call's name. */
#define UNTOLD(hash, name) (((hash) & ~UINT64_C(0xfff)) | 0x800u | (name))

static mu_a64 *untold_of(struct muster *m, const struct mu_named *n)
{
    return &m->untold[(n->key.hash >> 12) % (sizeof m->untold / sizeof *m->untold)];
}

/* The first of several: the leader takes the later ones to be given up, too. */
static void untold_remember(struct muster *m, const struct mu_named *n, uint32_t name)
{
    mu_a64 *place = untold_of(m, n);
    uint64_t w = atomic_load_explicit(place, memory_order_relaxed); /* process-local: as below */

    /* process-local, relaxed: partner is the load of untold_recall(); the word is all that is said */
    if (!w || ((w ^ n->key.hash) & ~UINT64_C(0xfff)))
        atomic_store_explicit(place, UNTOLD(n->key.hash, name), memory_order_relaxed);
}

static uint32_t untold_recall(struct muster *m, const struct mu_named *n)
{
    uint64_t w =
        atomic_load_explicit(untold_of(m, n), memory_order_relaxed); /* process-local: as in untold_remember() */

    return w && !((w ^ n->key.hash) & ~UINT64_C(0xfff)) ? (uint32_t)w & MU_CALLS_MASK : MU_CALLS_NONE;
}

/* The leader knows by now. */
static void untold_forget(struct muster *m, const struct mu_named *n, uint32_t name)
{
    uint64_t w = UNTOLD(n->key.hash, name);

    if (name != MU_CALLS_NONE) /* process-local, relaxed: as in untold_remember() */
        atomic_compare_exchange_strong_explicit(untold_of(m, n), &w, 0, memory_order_relaxed, memory_order_relaxed);
}

/* The leader has said how the call stands: this is its result. */
static enum muster_status keep_result(struct mu_call *c, enum muster_status status)
{
    c->result = status;
    free(c->text);
    c->text = status ? strdup(muster_last_error()) : NULL;
    return MUSTER_OK;
}

/* The caller goes away, for the reason in `status`: unless its instance has ended by now. */
static enum muster_status call_leave(struct muster *m, const struct mu_named *n, struct mu_barrier_remote *r,
                                     enum muster_status status)
{
    bool is_up = mu_host_bridge_state(n->seg) == MU_BRIDGE_UP;
    struct mu_call *c = r->call;
    char why[MU_BARRIER_TEXT];
    enum muster_status result;

    snprintf(why, sizeof why, "%s", muster_last_error());
    untold_remember(m, n, c->name);
    mu_barrier_give_up_begin(r);
    result = mu_steps_run(m, n->ctx, &r->steps, is_up ? muster_after_ns(GRACE_NS) : 0);
    if (r->said) {
        untold_forget(m, n, c->untold == MU_CALLS_NONE ? c->name : c->untold);
        if (!c->waiting)
            return keep_result(c, result);
    }
    return mu_fail(status, "%s", why);
}

/* The missing tasks, as the leader's barriers are seen here (bridge/barrier/mirror.c): a little late. */
static void say_missing_here(const struct mu_named *n, uint32_t own)
{
    struct mu_named seen;
    char why[200];
    int32_t place;

    snprintf(why, sizeof why, "%s", muster_last_error());
    if (!mu_named_begin(&seen, n->seg, n->ctx, n->id) && !mu_named_read(&seen) && seen.b.h.num && !seen.b.h.passed) {
        place = mu_barrier_find(&seen.b, own);
        if (place >= 0) /* it has come, whatever is seen here */
            seen.b.marks[place] |= MU_MARK_ARRIVED;
        mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s", why);
        mu_named_say_missing(&seen, MUSTER_DEADLINE_EXCEEDED);
    } else {
        mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s", why);
    }
    mu_named_done(&seen);
}

enum muster_status mu_barrier_call_remote(struct muster *m, const struct mu_named *n, struct mu_call *c,
                                          muster_deadline deadline)
{
    struct mu_barrier_remote r = {.id = n->id, .call = c};
    enum muster_status status;

    /* process-local, relaxed: nobody but this counts; each call gets another */
    c->name = atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed) & MU_CALLS_MASK;
    c->untold = untold_recall(m, n);
    mu_barrier_wait_begin(&r);
    status = mu_steps_run(m, n->ctx, &r.steps, deadline);
    c->waiting = false;
    if (r.said) {
        untold_forget(m, n, c->untold);
        return keep_result(c, status);
    }
    if (status == MUSTER_DEADLINE_EXCEEDED)
        say_missing_here(n, c->task);
    if (status == MUSTER_DEADLINE_EXCEEDED || status == MUSTER_CANCELLED)
        status = call_leave(m, n, &r, status);
    return status;
}

enum muster_status mu_cancel_remote(struct muster *m, const struct mu_named *n, struct mu_call *c)
{
    struct mu_steps steps = {.what = "the leader to cancel a barrier"};

    mu_barrier_cancel_begin(&steps, n->id, c->asked);
    return mu_steps_run(m, n->ctx, &steps, MUSTER_FOREVER);
}
