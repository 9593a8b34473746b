/*
 * bridge/barrier/pending_look.c: one look at a barrier, or at a set of tasks, at which calls wait.
 *
 * The calls that can arrive do, all by one commit. Then the state is read once, and compared with each call that waits.
 */
#include <stdlib.h>

#include "bridge/barrier/pending.h"
#include "segment/cluster.h"

#define AWAIT_NS 5000000u /* a call without its task's record yet: looked at again */

/* The call has its answer, and goes. */
static void give_answer(struct mu_pending_table *t, struct mu_pending_call *c, const struct mu_pending_answer *a)
{
    mu_pending_remove(c);
    t->answered(t->arg, c, a);
}

static void fail_call(struct mu_pending_table *t, struct mu_pending_call *c, enum muster_status status)
{
    give_answer(t, c, &(struct mu_pending_answer){.status = status});
}

/* Look again by then. */
static void look_by(struct mu_pending *p, uint64_t at)
{
    p->look_at = at < p->look_at ? at : p->look_at;
}

/* Another process is the task: the call is never made. */
static void answer_replaced(struct mu_pending_table *t, struct mu_pending_call *c, uint32_t task)
{
    bool barrier = mu_pending_is_barrier(c->at);
    struct mu_pending_answer a = {.status = MUSTER_FAILED_PRECONDITION, .flags = barrier ? MU_MEET_REPLACED : 0};

    mu_fail(a.status, "%s%s%s%s is another process by now", barrier ? "barrier " : "", barrier ? t->named.id : "",
            barrier ? ": " : "", MU_LABEL(t->m->seg, task));
    give_answer(t, c, &a);
}

/* The calls that one commit makes. */
struct arrivals {
    struct mu_pending_call **calls;
    void **steps; /* the same calls' parts: struct mu_call *, or struct mu_alive_call * */
    uint32_t count;
};

/* Those that can arrive; of a set of tasks those that wait, too. False: no memory. */
static bool arrivals_begin(struct mu_pending_table *t, struct mu_pending *p, struct arrivals *a)
{
    bool barrier = mu_pending_is_barrier(p);
    uint32_t most = p->arriving + p->waiting;

    *a = (struct arrivals){malloc(most * sizeof *a->calls), malloc(most * sizeof *a->steps), 0};
    for (struct mu_pending_call *c = p->first, *next; c && a->calls && a->steps; c = next) {
        uint32_t task = barrier ? c->call.task : c->alive.task;
        enum mu_readiness ready = MU_CALL_READY;

        next = c->next;
        if (barrier && c->here)
            continue;
        if (t->ready && !c->here)
            ready = t->ready(t->arg, c, task);
        if (ready == MU_CALL_READY) {
            a->steps[a->count] = barrier ? (void *)&c->call : &c->alive;
            a->calls[a->count++] = c;
        } else if (ready == MU_CALL_REPLACED) {
            answer_replaced(t, c, task);
        }
    }
    return a->calls && a->steps;
}

static void arrivals_done(struct arrivals *a)
{
    free(a->calls);
    free(a->steps);
}

/* ---- barriers ---- */

/* What its instance says, or said when it came. */
static void answer_by_instance(struct mu_pending_table *t, struct mu_pending_call *c, bool at_once)
{
    const struct mu_barrier_head *h = &t->named.b.h;
    bool open = h->num && !h->passed && h->counter == c->call.counter;
    struct mu_pending_answer a = {
        .status = c->call.result, .text = c->call.text ? c->call.text : "", .present = h->num ? h->counter : 0};

    a.flags = at_once ? MU_MEET_AT_ONCE : open && !c->call.leaves ? MU_MEET_SUPERSEDED : 0;
    if (at_once && c->call.replayed)
        a.flags |= MU_MEET_REPLAYED;
    give_answer(t, c, &a);
}

/* The call has arrived: its list was for that. */
static void call_waits(struct mu_pending *p, struct mu_pending_call *c)
{
    p->bytes -= c->call.ids ? c->call.num * sizeof *c->call.ids : 0;
    p->arriving--;
    p->waiting++;
    c->here = true;
    free(c->call.ids);
    c->call.ids = NULL;
}

/* Those that can arrive do. All that failed together are told so, and gone. */
static void arrive_at_barrier(struct mu_pending_table *t, struct mu_pending *p)
{
    struct arrivals a;
    enum muster_status status = MUSTER_OK;

    arrivals_begin(t, p, &a); /* without memory: at the next look */
    if (a.count)
        status = mu_named_arrive(&t->named, (struct mu_call *const *)a.steps, a.count);
    for (uint32_t i = 0; i < a.count; i++)
        if (status)
            fail_call(t, a.calls[i], status);
        else
            call_waits(p, a.calls[i]);
    arrivals_done(&a);
}

/* Read it, until nothing is left to be done about its failures and its deadline. */
static enum muster_status read_settled(struct mu_named *n, const struct mu_pending *p)
{
    enum muster_status status;
    bool ended;

    do {
        ended = false;
        status = mu_named_read(n);
        if (!status && n->b.h.num && !n->b.h.passed && p->waiting)
            status = mu_named_settle(n, &ended);
    } while (!status && ended);
    return status;
}

static enum muster_status look_at_barrier(struct mu_pending_table *t, struct mu_ctx *ctx, struct mu_pending *p,
                                          uint64_t now)
{
    struct mu_named *n = &t->named;
    struct mu_cluster cluster;
    enum muster_status status = mu_named_turn_to(n, ctx, p->key + 1);

    if (!status)
        status = mu_cluster_look(t->m->seg, &cluster);
    if (status)
        return status;
    p->version = cluster.root.version;
    n->checked = p->checked;
    if (p->arriving)
        arrive_at_barrier(t, p);
    status = read_settled(n, p);
    p->word = n->word;
    p->checked = n->checked;
    for (struct mu_pending_call *c = p->first, *next; c && !status; c = next) {
        bool at_once = !c->call.waiting;

        next = c->next;
        /* a leaver gets what was decided when it arrived: its mark says whether its next call is told */
        if (c->here && (at_once || c->call.leaves || mu_barrier_call_answered(&c->call, n)))
            answer_by_instance(t, c, at_once);
    }
    if (!status && p->waiting)
        look_by(p, n->b.h.deadline);
    if (!status && p->waiting && n->checked == UINT64_MAX)
        look_by(p, now + MU_PENDING_OUT_NS);
    return status;
}

/* ---- liveness queries ---- */

/* Calls for those that can, and answers those that it can. */
static enum muster_status step_alive(struct mu_pending_table *t, struct mu_alive *set, struct mu_pending *p)
{
    struct arrivals a;
    enum muster_status status =
        arrivals_begin(t, p, &a) ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls that wait");

    if (!status && a.count)
        status = mu_alive_step(set, (struct mu_alive_call *const *)a.steps, a.count);
    for (uint32_t i = 0; i < a.count && !status; i++) {
        struct mu_pending_call *c = a.calls[i];

        p->arriving -= !c->here;
        p->waiting += !c->here;
        c->here = true;
        if (c->alive.answered)
            give_answer(t, c, &(struct mu_pending_answer){.text = "", .alive = set});
    }
    arrivals_done(&a);
    return status;
}

/* The call's instance has completed since it was made. */
static bool has_completed(const struct mu_pending *p, const struct mu_alive *set)
{
    for (const struct mu_pending_call *c = p->first; c; c = c->next)
        if (c->here && c->alive.instance != set->instance)
            return true;
    return false;
}

static enum muster_status look_at_alive(struct mu_pending_table *t, struct mu_ctx *ctx, struct mu_pending *p,
                                        struct mu_alive *begun)
{
    int32_t ids[MU_ALIVE_MAX];
    struct mu_alive own = {0}, *set = begun ? begun : &own;
    struct mu_cluster cluster;
    enum muster_status status = mu_cluster_look(t->m->seg, &cluster);

    if (status)
        return status;
    p->version = cluster.root.version;
    if (!begun)
        status = mu_alive_begin(&own, t->m->seg, ctx, ids, mu_alive_set(p->key, p->key_len, ids));
    do {
        if (!status)
            status = step_alive(t, set, p);
        if (!status)
            status = mu_alive_read(set);
    } while (!status && has_completed(p, set));
    p->word = set->word;
    mu_alive_done(&own);
    return status;
}

void mu_pending_look(struct mu_pending_table *t, struct mu_ctx *ctx, struct mu_pending *p, uint64_t now,
                     struct mu_alive *alive)
{
    enum muster_status status;

    p->look_at = UINT64_MAX;
    status = mu_pending_is_barrier(p) ? look_at_barrier(t, ctx, p, now) : look_at_alive(t, ctx, p, alive);
    while (status == MUSTER_DATA_LOSS && p->first) /* it cannot be read, and never will */
        fail_call(t, p->first, status);
    if (p->arriving)
        look_by(p, now + AWAIT_NS);
    if (status)
        look_by(p, now + MU_PENDING_OUT_NS);
    if (t->looked)
        t->looked(t->arg, p);
}
