/*
 * barrier/named.c: named barriers as the tasks of this process call them: the steps of named_steps.h, and sleep in
 * between.
 *
 * Barriers are in the segment of the leader's host, where alone all calls are seen; but ids of a host's own are in
 * that host's, and no call of another host's task can mean them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "barrier/call.h"
#include "segment/hosts.h"
#include "segment/stats.h"
#include "segment/trace.h"
#include "segment/wait.h"

static enum muster_status wait_for_end(struct mu_named *n, struct mu_call *c, muster_deadline deadline)
{
    struct mu_table t = mu_table_cells(n->seg);
    struct mu_wait w;
    char what[96];
    enum muster_status status = MUSTER_OK;
    bool done = false, ended = false;

    snprintf(what, sizeof what, "barrier %.60s::%" PRIu64, n->id, c->counter);
    mu_wait_begin(&w, n->seg, n->ctx, deadline, what);
    w.kind = MU_WAIT_BARRIER;
    if (mu_is_leader(n->seg) && !mu_barrier_is_hosts(n->id))
        mu_wait_remote(&w);
    while (!status && !done) {
        mu_wait_look(&w);
        status = mu_named_read(n);
        done = !status && mu_barrier_call_answered(c, n);
        if (status || done)
            break;
        status = mu_named_settle(n, &ended);
        if (status || ended)
            continue;
        w.deadline = n->b.h.deadline < deadline ? n->b.h.deadline : deadline;
        status = mu_wait_on(&w, mu_table_bucket(&t, &n->key), n->word);
        if (status == MUSTER_DEADLINE_EXCEEDED && w.deadline < deadline)
            status = MUSTER_OK; /* the barrier's own: commit it in the next round */
    }
    mu_wait_end(&w);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        status = mu_named_say_missing(n, status);
    if (status && status != MUSTER_DATA_LOSS) {
        char why[MU_BARRIER_TEXT];

        snprintf(why, sizeof why, "%s", muster_last_error());
        c->waiting = true;
        if (!mu_named_leave(n, c) && !c->waiting)
            return MUSTER_OK; /* it ended just now: c->result */
        status = mu_fail(status, "%s", why);
    }
    return status;
}

/* Which registration of the task we are: it does not change, so the first call looks it up. */
static enum muster_status know_attempt(struct muster *m, const struct mu_named *n, struct mu_call *c)
{
    struct mu_task_record r;
    struct mu_cluster cluster;
    enum muster_status status = MUSTER_OK;

    /* process-local, relaxed: partner is the store below; the word is the whole value, and every thread finds the same
     */
    c->attempt = atomic_load_explicit(&m->attempt, memory_order_relaxed);
    if (c->attempt)
        return MUSTER_OK;
    status = mu_cluster_task(m->seg, c->task, &r, NULL, &cluster);
    if (status)
        return status;
    if (r.incarnation != m->incarnation)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "barrier %s: %s is another process by now", n->id,
                       MU_LABEL(n->seg, c->task));
    c->attempt = r.attempt;
    /* process-local, relaxed: partner is the load above; nothing else hangs on it */
    atomic_store_explicit(&m->attempt, r.attempt, memory_order_relaxed);
    return MUSTER_OK;
}

static bool is_remote(const struct mu_named *n)
{
    return mu_is_follower(n->seg) && !mu_barrier_is_hosts(n->id);
}

/* An observer is told so first, whatever else is wrong. */
static enum muster_status call_prepare(struct muster *m, struct mu_ctx *ctx, struct mu_named *n, struct mu_call *c,
                                       const char *id, const int32_t *task_ids, size_t count)
{
    enum muster_status status = mu_named_begin(n, m->seg, ctx, id);

    c->task = (uint32_t)m->task_id;
    c->flags = m->flags;
    if (m->task_id < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "an observer cannot take part in a barrier");
    if (!status)
        status = mu_is_bridged(n->seg) && mu_barrier_is_hosts(n->id)
                     ? mu_barrier_call_take_own_list(c, n, task_ids, count)
                     : mu_barrier_call_take_list(c, n, task_ids, count);
    if (!status)
        status = know_attempt(m, n, c);
    return status;
}

enum muster_status muster_barrier_wait(struct muster *muster, const char *id, uint64_t counter, const int32_t *task_ids,
                                       size_t count, uint64_t timeout_ns, muster_deadline deadline)
{
    struct mu_call c = {.asked = counter, .timeout_ns = timeout_ns, .name = MU_CALLS_NONE, .untold = MU_CALLS_NONE};
    struct mu_call *const only = &c;
    struct mu_named n;
    struct mu_ctx *ctx;
    uint64_t came = 0;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (mu_is_traced(ctx))
        came = mu_trace_now(ctx);
    status = call_prepare(muster, ctx, &n, &c, id, task_ids, count);
    if (!status)
        status = is_remote(&n) ? mu_barrier_call_remote(muster, &n, &c, deadline) : mu_named_arrive(&n, &only, 1);
    if (status)
        came = 0; /* it did not come */
    if (came)
        mu_barrier_call_note_entry(&n, &c, came);
    if (!status && c.waiting)
        status = wait_for_end(&n, &c, deadline);
    if (!status && !c.result)
        mu_count(&ctx->own->named_barriers, 1);
    if (came)
        mu_barrier_call_note_exit(&n, &c, status ? status : c.result);
    mu_named_done(&n);
    mu_exit(ctx);
    if (!status)
        status = mu_barrier_call_result(&c);
    mu_barrier_call_done(&c);
    return status;
}

enum muster_status muster_barrier_cancel(struct muster *muster, const char *id, uint64_t counter)
{
    struct mu_call c = {.asked = counter, .name = MU_CALLS_NONE, .untold = MU_CALLS_NONE};
    struct mu_named n;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    c.task = muster->task_id >= 0 ? (uint32_t)muster->task_id : MU_NOBODY;
    status = mu_named_begin(&n, muster->seg, ctx, id);
    if (!status)
        status = is_remote(&n) ? mu_cancel_remote(muster, &n, &c) : mu_named_cancel(&n, &c);
    mu_named_done(&n);
    mu_exit(ctx);
    if (!status)
        status = mu_barrier_call_result(&c);
    mu_barrier_call_done(&c);
    return status;
}
