/*
 * bridge/meet.c: one look at a barrier, or at a question who is alive, at which tasks of other hosts call.
 *
 * Whoever is arriving arrives, all by one commit; then the state is read once, and compared with each call that waits.
 * Answers go out when the look is over, for they may lead anywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "bridge/meetings.h"
#include "segment/cluster.h"

#define AWAIT_NS 5000000u   /* a call whose task's record has not come: looked at again */
#define OUT_NS   100000000u /* a recoverable participant is out: what becomes of it may change no version */

/* Can the call be made? READY; not yet, its task's record is on its way; never, another process is the task. */
enum readiness { READY, AWAITED, REPLACED };

static enum readiness is_ready(const struct mu_core *core, const struct waiter *w, uint32_t task)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (mu_cluster_task(core->seg, task, &r, NULL, &cluster))
        return AWAITED;
    if (r.incarnation == w->incarnation)
        return READY;
    return r.attempt > w->attempt ? REPLACED : AWAITED;
}

/* ---- barriers ---- */

static void answer_barrier(struct mu_core *core, struct waiter *w, enum muster_status status, const char *text,
                           uint64_t present, uint8_t flags)
{
    struct mu_pack body = {0};

    mu_pack_u64(&body, w->call.counter);
    mu_pack_u8(&body, w->call.waiting);
    mu_pack_u64(&body, present);
    mu_pack_u8(&body, flags);
    mu_meeting_answer(core, w, status, text, &body);
    mu_pack_done(&body);
}

/* What its instance says, or said when it came. */
static void answer_by_instance(struct mu_core *core, const struct mu_named *n, struct waiter *w, bool at_once)
{
    const struct mu_call *c = &w->call;
    bool open = n->b.h.num && !n->b.h.passed && n->b.h.counter == c->counter;
    uint8_t flags = at_once ? MU_MEET_AT_ONCE : open && !c->leaves ? MU_MEET_SUPERSEDED : 0;

    if (at_once && c->replayed)
        flags |= MU_MEET_REPLAYED;
    answer_barrier(core, w, c->result, c->text ? c->text : "", n->b.h.num ? n->b.h.counter : 0, flags);
}

/* Who can arrive does. All that failed together are told so, and gone. */
static void arrive(struct mu_core *core, struct mu_named *n, struct meeting *m)
{
    struct mu_call **calls = malloc(m->arriving * sizeof *calls);
    struct waiter **who = malloc(m->arriving * sizeof *who);
    uint32_t count = 0;
    enum muster_status status = MUSTER_OK;

    for (struct waiter *w = m->first, *next; w && calls && who; w = next) {
        enum readiness ready = w->here ? AWAITED : is_ready(core, w, w->call.task);

        next = w->next;
        if (ready == READY) {
            calls[count] = &w->call;
            who[count++] = w;
        } else if (ready == REPLACED) {
            mu_fail(MUSTER_FAILED_PRECONDITION, "barrier %s: %s is another process by now", n->id,
                    MU_LABEL(n->seg, w->call.task));
            answer_barrier(core, w, MUSTER_FAILED_PRECONDITION, NULL, 0, MU_MEET_REPLACED);
        }
    }
    if (count)
        status = mu_named_arrive(n, calls, count);
    for (uint32_t i = 0; i < count; i++) {
        struct waiter *w = who[i];

        if (status) {
            answer_barrier(core, w, status, NULL, 0, 0);
            continue;
        }
        w->here = true;
        m->arriving--;
        m->waiting++;
        m->bytes -= w->call.ids ? w->call.num * sizeof *w->call.ids : 0;
        free(w->call.ids);
        w->call.ids = NULL;
    }
    free(calls);
    free(who);
}

/* Read it, until nothing is left to be done about its failures and its deadline. */
static enum muster_status read_settled(struct mu_named *n, const struct meeting *m)
{
    enum muster_status status;
    bool ended;

    do {
        ended = false;
        status = mu_named_read(n);
        if (!status && n->b.h.num && !n->b.h.passed && m->waiting)
            status = mu_named_settle(n, &ended);
    } while (!status && ended);
    return status;
}

void mu_meet_barrier(struct mu_core *core, struct meeting *m)
{
    struct mu_named *n = &mu_meetings_of(core)->named;
    struct mu_cluster cluster;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    m->look_at = UINT64_MAX;
    if (!status)
        status = mu_named_turn_to(n, ctx, m->key + 1);
    if (!status)
        status = mu_cluster_look(core->seg, &cluster);
    if (status) {
        m->look_at = core->now + OUT_NS;
        return;
    }
    m->version = cluster.root.version;
    n->checked = m->checked;
    if (m->arriving)
        arrive(core, n, m);
    status = read_settled(n, m);
    m->word = n->word;
    m->checked = n->checked;
    for (struct waiter *w = m->first, *next; w && !status; w = next) {
        bool at_once = !w->call.waiting;

        next = w->next;
        /* who leaves gets what was decided when it arrived: its mark says whether its next call is told */
        if (w->here && (at_once || w->call.leaves || mu_call_answered(&w->call, n)))
            answer_by_instance(core, n, w, at_once);
    }
    while (status == MUSTER_DATA_LOSS && m->first)
        answer_barrier(core, m->first, status, NULL, 0, 0);
    if (status || m->arriving)
        m->look_at = core->now + AWAIT_NS;
    else if (m->waiting && n->checked == UINT64_MAX)
        m->look_at = core->now + OUT_NS;
    if (!status && m->waiting && n->b.h.deadline < m->look_at)
        m->look_at = n->b.h.deadline;
    mu_exit(ctx);
}

/* ---- who is alive ---- */

static void answer_alive(struct mu_core *core, const struct mu_alive *a, struct waiter *w)
{
    struct mu_pack body = {0};
    uint32_t count = 0;

    mu_pack_u32(&body, 0);
    for (uint32_t i = 0; i < a->count; i++) {
        if (!mu_alive_is_in(a, i))
            continue;
        mu_pack_u32(&body, (uint32_t)a->ids[i]);
        mu_pack_u64(&body, mu_alive_incarnation(a, i));
        count++;
    }
    mu_pack_put_u32(&body, 0, count);
    mu_meeting_answer(core, w, MUSTER_OK, "", &body);
    mu_pack_done(&body);
}

/* Calls for those that can, and answers whom it can. */
static enum muster_status step(struct mu_core *core, struct mu_alive *a, struct meeting *m)
{
    uint32_t most = m->arriving + m->waiting, count = 0;
    struct mu_alive_call **calls = malloc(most * sizeof *calls);
    struct waiter **who = malloc(most * sizeof *who);
    enum muster_status status =
        calls && who ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u calls", most);

    for (struct waiter *w = m->first, *next; w && !status; w = next) {
        enum readiness ready = w->here ? READY : is_ready(core, w, w->alive.task);

        next = w->next;
        if (ready == READY) {
            calls[count] = &w->alive;
            who[count++] = w;
        } else if (ready == REPLACED) {
            mu_fail(MUSTER_FAILED_PRECONDITION, "task %u is another process by now", w->alive.task);
            mu_meeting_answer(core, w, MUSTER_FAILED_PRECONDITION, NULL, &(struct mu_pack){0});
        }
    }
    if (!status && count)
        status = mu_alive_step(a, calls, count);
    for (uint32_t i = 0; i < count && !status; i++) {
        m->arriving -= !who[i]->here;
        m->waiting += !who[i]->here;
        who[i]->here = true;
        if (who[i]->alive.answered)
            answer_alive(core, a, who[i]);
    }
    free(calls);
    free(who);
    return status;
}

void mu_meet_alive(struct mu_core *core, struct meeting *m)
{
    int32_t ids[MU_ALIVE_MAX];
    struct mu_alive a = {0};
    struct mu_cluster cluster;
    struct mu_ctx *ctx = NULL;
    enum muster_status status = mu_enter(core->m, &ctx);

    m->look_at = core->now + AWAIT_NS;
    if (!status)
        status = mu_cluster_look(core->seg, &cluster);
    if (!status) {
        m->version = cluster.root.version;
        status = mu_alive_begin(&a, core->seg, ctx, ids, mu_alive_set(m->key, m->key_len, ids));
        if (!status)
            status = step(core, &a, m);
        if (!status)
            status = mu_alive_read(&a);
        m->word = a.word;
        if (!status && !m->arriving)
            m->look_at = UINT64_MAX;
        for (const struct waiter *w = m->first; w && !status; w = w->next)
            if (w->here && w->alive.instance != a.instance) /* completed since */
                m->look_at = core->now;
        mu_alive_done(&a);
    }
    if (ctx)
        mu_exit(ctx);
}
