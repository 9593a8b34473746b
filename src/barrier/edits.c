/*
 * barrier/edits.c: what happens to a named barrier, each as one edit of its table entry.
 *
 * An edit decodes a copy, lets a rule (rules.c) change it, and puts it. It may be called several times, and decides by
 * what it reads inside.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "barrier/call.h"
#include "base/clock.h"
#include "segment/hosts.h"

struct edit_work {
    struct mu_named *n;
    struct mu_call *const *calls;
    uint32_t count;
    uint64_t counter; /* the instance to fail, or to look after */
};

/* Encode and put. */
static enum mu_verdict barrier_put(struct mu_edit *e, struct mu_named *n, const struct mu_barrier *b)
{
    free(n->value);
    n->value = mu_barrier_encode(b, &e->len);
    e->value = n->value;
    n->rings = b->h.passed && b->h.num &&
               (!mu_is_bridged(n->seg) || !(mu_is_local_task(n->seg, mu_barrier_id(b, 0)) &&
                                            mu_is_local_task(n->seg, mu_barrier_id(b, b->h.num - 1))));
    if (n->value)
        return MU_PUT;
    e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
    return MU_KEEP;
}

/* The copy to work on; false: it is not well formed. */
static bool take_copy(struct mu_edit *e, struct mu_named *n, struct mu_barrier *b)
{
    e->status = MUSTER_OK;
    n->exists = e->version != 0;
    n->caught_up = false;
    n->missing = UINT32_MAX;
    if (!n->exists || mu_barrier_decode(b, e->old, e->old_len))
        return true;
    e->status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", n->id);
    return false;
}

static enum mu_verdict arrive_all(struct mu_edit *e)
{
    struct edit_work *w = e->arg;
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_KEEP;
    bool changed = false;
    uint32_t told = 0;

    if (!take_copy(e, w->n, &b))
        return MU_KEEP;
    for (uint32_t i = 0; i < w->count && !e->status; i++) {
        changed |= mu_rules_arrive(w->n, w->calls[i], &b, &e->status);
        for (; b.h.passed && told < i; told++) /* before its words are replaced by the next instance's */
            if (w->calls[told]->waiting && !w->calls[told]->leaves) /* a leaver is told by its next call */
                mu_rules_answered(w->calls[told], &b, w->n->id);
    }
    if (changed && !e->status) {
        e->quiet = e->version && mu_barrier_has_only_more(&b, e->old);
        verdict = barrier_put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* End the instance w->counter with n->fail_*, unless it has ended. */
static enum mu_verdict fail_instance(struct mu_edit *e)
{
    struct edit_work *w = e->arg;
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;

    e->status = MUSTER_OK;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == w->counter && !b.h.passed) {
        mu_barrier_end(&b, w->n->fail_code, "%s", w->n->fail_text);
        verdict = barrier_put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* The records are looked at after the barrier: in older ones a successor that has arrived by now might still be the
 * dead one. */
static enum mu_verdict barrier_unarrive(struct mu_edit *e)
{
    struct edit_work *w = e->arg;
    struct mu_barrier b;
    struct mu_cluster cluster;
    enum mu_verdict verdict = MU_KEEP;

    e->status = mu_named_read_records(w->n, &cluster);
    if (e->status || !e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == w->counter && !b.h.passed && mu_named_unmark_failed(w->n, &b))
        verdict = barrier_put(e, w->n, &b);
    mu_barrier_done(&b);
    return verdict;
}

/* The caller goes away: its instance has ended by now (then it is told), or its next call must hear of it. */
static enum mu_verdict give_up(struct mu_edit *e)
{
    struct edit_work *w = e->arg;
    struct mu_call *c = w->calls[0];
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;

    e->status = MUSTER_OK;
    c->waiting = true;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (!mu_rules_answered(c, &b, w->n->id) && mu_rules_mark_untold(c, &b)) {
        e->quiet = true; /* no answer for anybody else */
        verdict = barrier_put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* Why the instance cannot be cancelled; false: it can. */
static bool refuse_cancel(const struct mu_named *n, struct mu_call *c, const struct mu_barrier *b)
{
    char text[MU_BARRIER_TEXT];

    if (c->counter == b->h.counter && !b->h.passed)
        return false;
    if (c->counter != b->h.counter)
        snprintf(text, sizeof text,
                 "barrier %s::%" PRId64 " cannot be cancelled: it is at instance %" PRIu64
                 ". This is likely due to a restart in the task or the job",
                 n->id, mu_barrier_number(c->counter), b->h.counter);
    else
        snprintf(text, sizeof text, "barrier %s::%" PRIu64 " has already been passed with status %s", n->id, c->counter,
                 muster_status_name((enum muster_status)b->h.code));
    mu_rules_answer(c, MUSTER_FAILED_PRECONDITION, text);
    return true;
}

static enum mu_verdict barrier_cancel(struct mu_edit *e)
{
    struct edit_work *w = e->arg;
    struct mu_named *n = w->n;
    struct mu_call *c = w->calls[0];
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_KEEP;
    bool changed = false;

    if (!take_copy(e, n, &b))
        return MU_KEEP;
    if (n->exists && b.h.num && !b.h.passed) {
        e->status = mu_rules_catch_up(n, &b);
        changed = b.h.passed != 0; /* an instance that catching up has ended is over, told or not */
    }
    c->counter = c->asked == MUSTER_BARRIER_NEXT ? b.h.counter : c->asked;
    if (!e->status && !refuse_cancel(n, c, &b)) {
        mu_rules_answer(c, MUSTER_OK, "");
        if (c->task != MU_NOBODY)
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by %s", n->id, c->counter,
                           MU_LABEL(n->seg, c->task));
        else
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by an observer", n->id,
                           c->counter);
        b.h.all = b.h.num ? b.h.all : 1;
        if (e->done)
            e->done->result[0] = c->counter;
        changed = true;
    }
    if (!e->status && changed)
        verdict = barrier_put(e, n, &b);
    mu_barrier_done(&b);
    return verdict;
}

static enum muster_status barrier_edit(struct edit_work *w, mu_edit_fn fn)
{
    struct mu_table t = mu_table_cells(w->n->seg);
    struct mu_edit e = {.arg = w, .forget = w->n->forget, .forget_arg = w->n->forget_arg};
    enum muster_status status;

    w->n->rings = false;
    e.done = fn == barrier_cancel ? w->n->done : NULL;
    status = mu_table_edit(&t, w->n->ctx, &w->n->key, MU_EDIT_WANTS_OLD, fn, &e, NULL);
    if (e.was_done) { /* it was cancelled */
        mu_rules_answer(w->calls[0], MUSTER_OK, "");
        w->calls[0]->counter = e.done->result[0];
    }
    if (w->n->rings && !w->n->is_heard)
        mu_bell_ring(w->n->seg);
    return status;
}

enum muster_status mu_named_arrive(struct mu_named *n, struct mu_call *const *calls, uint32_t count)
{
    struct edit_work w = {n, calls, count, 0};

    return barrier_edit(&w, arrive_all);
}

enum muster_status mu_named_leave(struct mu_named *n, struct mu_call *c)
{
    struct edit_work w = {n, &c, 1, 0};

    return barrier_edit(&w, give_up);
}

enum muster_status mu_named_cancel(struct mu_named *n, struct mu_call *c)
{
    struct edit_work w = {n, &c, 1, 0};

    return barrier_edit(&w, barrier_cancel);
}

/*
 * Does a participant's state end the instance in n->b? Sets n->fail_*; true when it does. Un-arrives recoverable ones:
 * while any is out every look counts, for it may have arrived after the copy was taken.
 */
static bool participant_failed(struct mu_named *n)
{
    struct edit_work w = {.n = n, .counter = n->b.h.counter};
    struct mu_cluster cluster;
    bool out = false;

    if (mu_cluster_look(n->seg, &cluster) || cluster.root.version == n->checked || mu_named_read_records(n, &cluster))
        return false;
    if (mu_named_find_fatal(n, &n->b, &out))
        return true;
    n->checked = out ? UINT64_MAX : cluster.root.version;
    if (out && mu_named_unmark_failed(n, &n->b)) /* on the copy: the edit does it for all */
        barrier_edit(&w, barrier_unarrive);
    return false;
}

enum muster_status mu_named_settle(struct mu_named *n, bool *ret_ended)
{
    struct edit_work w = {.n = n, .counter = n->b.h.counter};

    *ret_ended = participant_failed(n);
    if (!*ret_ended && n->b.h.deadline <= mu_now()) {
        mu_named_compose_timeout(n, &n->b);
        *ret_ended = true;
    }
    return *ret_ended ? barrier_edit(&w, fail_instance) : MUSTER_OK;
}
