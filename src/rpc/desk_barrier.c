/*
 * rpc/desk_barrier.c: named barriers, for guests: the steps of barrier/named_steps.h, and calls that are parked in
 * between.
 *
 * A meeting is a barrier at which guests wait. It is looked at when a guest calls there, and when something says that
 * it may have changed: its bucket's word, the job's state, its deadline. A call that is given up stays arrived: the
 * instance may pass all the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/desk_remote.h"
#include "segment/object.h"
#include "segment/stats.h"

#define OUT_NS     100000000u  /* a recoverable participant is out: what becomes of it may change no version */
#define TIMEOUT_NS 1000000000u /* of a caller that names none: as the reference, whose next tick ends it */

enum { CHAINS = 1024 };

struct mu_meeting {
    struct mu_meeting *prev, *next, *chain;
    struct mu_parked_list calls;
    mu_a64 *bucket;
    uint64_t word, version; /* of the bucket, and the job's state, when last looked at */
    uint64_t checked;       /* as mu_named's */
    uint64_t look_at;       /* even if nothing changes */
    char id[];
};

/* ---- which there are ---- */

static struct mu_meeting **chain_of(struct mu_desk *desk, const char *id)
{
    uint32_t h = 2166136261u;

    for (; *id; id++)
        h = (h ^ (uint8_t)*id) * 16777619u;
    return &desk->meetings[h % CHAINS];
}

static struct mu_meeting *find(struct mu_desk *desk, const char *id)
{
    struct mu_meeting *m = desk->meetings ? *chain_of(desk, id) : NULL;

    while (m && strcmp(m->id, id) != 0)
        m = m->chain;
    return m;
}

static struct mu_meeting *meeting_of(struct mu_desk *desk, const char *id)
{
    struct mu_table t = mu_table_cells(desk->seg);
    size_t len = strlen(id);
    struct mu_meeting *m = find(desk, id), **chain;

    if (m)
        return m;
    if (!desk->meetings)
        desk->meetings = calloc(CHAINS, sizeof(struct mu_meeting *));
    m = desk->meetings ? calloc(1, sizeof *m + len + 1) : NULL;
    if (!m)
        return NULL;
    memcpy(m->id, id, len);
    m->bucket = mu_table_bucket(&t, &desk->named.key); /* whose turn it is */
    m->checked = m->look_at = UINT64_MAX;
    chain = chain_of(desk, id);
    m->chain = *chain;
    *chain = m;
    m->next = desk->first_meeting;
    if (m->next)
        m->next->prev = m;
    desk->first_meeting = m;
    return m;
}

/* Unless somebody waits there. */
static void drop_meeting(struct mu_desk *desk, struct mu_meeting *m)
{
    struct mu_meeting **at = chain_of(desk, m->id);

    if (m->calls.count)
        return;
    while (*at != m)
        at = &(*at)->chain;
    *at = m->chain;
    *(m->prev ? &m->prev->next : &desk->first_meeting) = m->next;
    if (m->next)
        m->next->prev = m->prev;
    free(m);
}

/* ---- answers ---- */

static const char *words_of(const struct mu_call *c)
{
    return c->text ? c->text : muster_status_name(c->result);
}

/* It is none of its task's calls any more. */
static void forget_call(struct mu_desk *desk, const struct mu_parked *p)
{
    struct mu_parked **at = &desk->tasks[p->task].meets;

    while (*at != p)
        at = &(*at)->older;
    *at = p->older;
}

/* The call that is parked has its answer. `superseded`: by a later one of its task. */
static void answer_parked(struct mu_desk *desk, struct mu_parked *p, const char *id, bool superseded)
{
    struct mu_call *c = &p->call;

    p->owned[0] = strdup(id);
    p->ask->barrier_id = p->owned[0] ? p->owned[0] : "";
    p->ask->counter = (int64_t)c->counter;
    p->ask->replayed = false;
    forget_call(desk, p);
    mu_parked_answer(desk, p, c->result, superseded ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER, words_of(c));
    mu_call_done(c);
}

/* Read it, until nothing is left to be done about its failures and its deadline. */
static enum muster_status read_settled(struct mu_named *n)
{
    enum muster_status status;
    bool ended;

    do {
        ended = false;
        status = mu_named_read(n);
        if (!status && n->b.h.num && !n->b.h.passed)
            status = mu_named_settle(n, &ended);
    } while (!status && ended);
    return status;
}

/* It cannot be read, and never will. */
static void fail_all(struct mu_desk *desk, struct mu_meeting *m, enum muster_status status)
{
    while (m->calls.first) {
        struct mu_call *c = &m->calls.first->call;

        free(c->text);
        c->text = strdup(muster_last_error());
        c->result = status;
        answer_parked(desk, m->calls.first, m->id, false);
    }
}

/* Whoever of the waiting has an answer gets it. The meeting may be gone afterwards. */
static void look_at(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_meeting *m)
{
    struct mu_named *n = &desk->named;
    struct mu_cluster cluster;
    enum muster_status status = mu_named_turn_to(n, ctx, m->id);

    if (!status)
        status = mu_cluster_look(desk->seg, &cluster);
    if (!status) {
        m->version = cluster.root.version;
        n->checked = m->checked;
        status = read_settled(n);
        m->word = n->word;
        m->checked = n->checked;
    }
    for (struct mu_parked *p = m->calls.first, *next; p && !status; p = next) {
        next = p->next;
        if (mu_call_answered(&p->call, n))
            answer_parked(desk, p, m->id, !n->b.h.passed && n->b.h.counter == p->call.counter);
    }
    if (status == MUSTER_DATA_LOSS)
        fail_all(desk, m, status);
    m->look_at = UINT64_MAX;
    if (status || n->checked == UINT64_MAX)
        m->look_at = mu_now() + OUT_NS;
    if (!status && n->b.h.deadline < m->look_at)
        m->look_at = n->b.h.deadline;
    if (m->calls.count)
        mu_desk_due(desk, m->look_at);
    drop_meeting(desk, m);
}

void mu_meetings_look(struct mu_desk *desk)
{
    struct mu_ctx *ctx;
    uint64_t now = mu_now();

    if (!desk->first_meeting || mu_enter(desk->m, &ctx))
        return;
    for (struct mu_meeting *m = desk->first_meeting, *next; m; m = next) {
        next = m->next;
        /* relaxed: only a reason to look, which acquires; pairs with the commits there */
        if (now >= m->look_at || m->version != desk->version || !mu_word_same(mu_load_relaxed(m->bucket), m->word))
            look_at(desk, ctx, m);
    }
    mu_exit(ctx);
}

uint64_t mu_meetings_next(const struct mu_desk *desk)
{
    uint64_t at = UINT64_MAX;

    for (const struct mu_meeting *m = desk->first_meeting; m; m = m->next)
        at = m->look_at < at ? m->look_at : at;
    return at;
}

/* ---- calls ---- */

static void call_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_meeting *m = p->at;
    struct mu_ctx *ctx;

    if (!mu_enter(desk->m, &ctx)) {
        if (!mu_named_turn_to(&desk->named, ctx, m->id))
            mu_named_leave(&desk->named, &p->call);
        mu_exit(ctx);
    }
    forget_call(desk, p);
    mu_call_done(&p->call);
    drop_meeting(desk, m);
}

/* What the caller has sent. NONE of its task's earlier calls is taken up: each is a new one. */
struct wanted {
    int32_t task;
    const char *id;
    const int32_t *tasks;
    size_t count;
    int64_t counter, timeout_ms;
};

/* Numbers below 0 as mu_barrier_number() knows them; the two lowest are the same. */
static uint64_t instance_of(int64_t counter)
{
    return (uint64_t)(counter < 0 && counter > INT64_MIN ? counter - 1 : counter);
}

static uint64_t timeout_of(int64_t ms)
{
    return ms <= 0 ? TIMEOUT_NS : ms > INT64_MAX / 1000000 ? UINT64_MAX : (uint64_t)ms * 1000000;
}

/* Make the call: desk->named is the barrier afterwards. *ret_replayed: its instance had ended before. */
static enum muster_status arrive(struct mu_desk *desk, struct mu_ctx *ctx, const struct wanted *w, struct mu_call *c,
                                 bool *ret_replayed)
{
    struct mu_named *n = &desk->named;
    struct mu_task_record r;
    enum muster_status status = mu_named_turn_to(n, ctx, w->id);

    if (!status)
        status = mu_is_bridged(desk->seg) && mu_barrier_is_hosts(w->id)
                     ? mu_call_take_own_list(c, n, w->tasks, w->count)
                     : mu_call_take_list(c, n, w->tasks, w->count);
    if (status)
        return status;
    mu_desk_record(desk, w->task, &r, NULL);
    c->task = (uint32_t)w->task;
    c->attempt = r.attempt;
    c->flags = desk->o.recoverable || mu_desk_is_recoverable(&r) ? MUSTER_JOIN_RECOVERABLE : 0;
    c->asked = instance_of(w->counter);
    c->timeout_ns = timeout_of(w->timeout_ms);
    c->name = c->untold = MU_CALLS_NONE;
    if (!find(desk, w->id)) /* else guests wait in it: it is open */
        *ret_replayed = !mu_named_read(n) && n->b.h.num && n->b.h.passed && n->b.h.counter == c->asked;
    return mu_named_arrive(n, (struct mu_call *const[]){c}, 1);
}

/* The call waits. */
static enum muster_status park(struct mu_desk *desk, struct mu_ask *ask, const struct mu_call *c, const char *id)
{
    struct mu_meeting *m = meeting_of(desk, id);
    struct mu_parked *p = m ? mu_desk_park(desk, ask, &m->calls, c->ids ? c->num * sizeof *c->ids : 0) : NULL;

    if (!p) {
        if (m)
            drop_meeting(desk, m);
        return m ? MUSTER_RESOURCE_EXHAUSTED : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", id);
    }
    p->call = *c;
    free(p->call.ids); /* only its arrival needed them */
    p->call.ids = NULL;
    p->at = m;
    p->dropped = call_dropped;
    p->task = (int32_t)c->task;
    p->older = desk->tasks[c->task].meets;
    desk->tasks[c->task].meets = p;
    return MUSTER_OK;
}

/* One more has come, and waits as the others do: for them nothing is new, nor has anybody's state changed. Thousands
 * come so one after the other. */
static bool is_one_more(const struct mu_desk *desk, const struct mu_meeting *m, const struct mu_call *c)
{
    const struct mu_parked *own = desk->tasks[c->task].meets;

    for (const struct mu_parked *p = own->older; p; p = p->older)
        if (p->at == m)
            return false; /* that one is superseded */
    return m->calls.count > 1 && m->version == desk->version;
}

/* The service's own instance, of a call that was refused. */
static uint64_t present_instance(struct mu_desk *desk, const struct mu_call *c)
{
    return !mu_named_read(&desk->named) && desk->named.b.h.num ? desk->named.b.h.counter : c->result ? 0 : c->counter;
}

static void call(struct mu_desk *desk, struct mu_ask *ask, const struct wanted *w)
{
    struct mu_call c = {0};
    struct mu_meeting *m;
    struct mu_ctx *ctx;
    bool replayed = false;
    enum muster_status status = mu_enter(desk->m, &ctx);

    if (status) {
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
        return;
    }
    status = arrive(desk, ctx, w, &c, &replayed);
    if (!status && c.waiting) {
        status = park(desk, ask, &c, w->id);
        if (status)
            mu_named_leave(&desk->named, &c);
        c.waiting = !status;
    } else if (!status) {
        ask->counter = (int64_t)(c.result ? present_instance(desk, &c) : c.counter);
    }
    if (!status && !c.result)
        mu_count(&ctx->own->named_barriers, 1);
    m = find(desk, w->id);
    if (m && !(c.waiting && is_one_more(desk, m, &c)))
        look_at(desk, ctx, m);
    mu_exit(ctx);
    if (status) { /* nothing was done, or the arrival stands and nobody is told */
        mu_desk_fail(ask, status, status == MUSTER_RESOURCE_EXHAUSTED ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER);
        mu_call_done(&c);
    } else if (!c.waiting) {
        ask->replayed = replayed;
        mu_desk_answer(ask, c.result, MU_PAYLOAD_BARRIER, words_of(&c));
        mu_call_done(&c);
    }
}

/* It lies in the leader's segment, and not here. A barrier of a host's own lies in that host's. */
static bool is_remote(const struct mu_desk *desk, const char *id)
{
    return desk->remote && !mu_barrier_is_hosts(id);
}

/* The id as a string; false: it was answered. */
static bool take_id(struct mu_ask *ask, const char *id, size_t len, char text[MUSTER_BARRIER_ID_MAX + 1])
{
    if (!len || len > MUSTER_BARRIER_ID_MAX || memchr(id, 0, len)) {
        ask->barrier_id = "";
        mu_fail(MUSTER_INVALID_ARGUMENT, "a barrier's id is 1 to %u bytes long, without a NUL; this one has %zu",
                MUSTER_BARRIER_ID_MAX, len);
        mu_desk_fail(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return false;
    }
    memcpy(text, id, len);
    text[len] = 0;
    ask->barrier_id = text;
    ask->counter = 0;
    return true;
}

/* The task is one of the job's, and ours; false: it was answered. No instance knows of such a call. */
static bool is_member(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const char *id)
{
    char text[MUSTER_BARRIER_ID_MAX + 160];

    if (mu_desk_has(desk, task) && mu_desk_is_own(desk, task))
        return true;
    if (mu_desk_has(desk, task)) {
        mu_desk_fail(ask, mu_desk_refuse_other(desk, task), MU_PAYLOAD_SERVICE);
        return false;
    }
    snprintf(text, sizeof text, "Unexpected task (%d) that is not in the cluster called the barrier. Barrier Id: %s",
             task, id);
    mu_desk_answer(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_BARRIER, text);
    return false;
}

void mu_desk_barrier(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const char *id, size_t id_len,
                     int64_t timeout_ms, const int32_t *tasks, size_t count, int64_t counter)
{
    char text[MUSTER_BARRIER_ID_MAX + 1], late[MUSTER_BARRIER_ID_MAX + 96];
    struct wanted w = {task, text, tasks, count, counter, timeout_ms};

    ask->parked = NULL;
    ask->replayed = false;
    if (!take_id(ask, id, id_len, text))
        return;
    if (desk->stopped) {
        snprintf(late, sizeof late, "Barrier %s requested after coordination service has shut down.", text);
        mu_desk_answer(ask, MUSTER_INTERNAL, MU_PAYLOAD_BARRIER, late);
        return;
    }
    if (!is_member(desk, ask, task, text))
        return;
    mu_desk_look_tasks(desk);
    if (is_remote(desk, text))
        mu_desk_remote_barrier(
            desk, ask,
            &(struct mu_desk_remote_barrier){task, text, instance_of(counter), timeout_of(timeout_ms), tasks, count});
    else
        call(desk, ask, &w);
    mu_desk_deliver(desk);
}

void mu_desk_cancel(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const char *id, size_t id_len,
                    int64_t counter)
{
    struct mu_call c = {.task = (uint32_t)task, .asked = instance_of(counter), .name = MU_CALLS_NONE};
    char text[MUSTER_BARRIER_ID_MAX + 1];
    struct mu_meeting *m;
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask) || !take_id(ask, id, id_len, text) || !is_member(desk, ask, task, text))
        return;
    if (is_remote(desk, text)) {
        mu_desk_remote_cancel(desk, ask, task, text, c.asked);
        mu_desk_deliver(desk);
        return;
    }
    status = mu_enter(desk->m, &ctx);
    if (!status) {
        status = mu_named_turn_to(&desk->named, ctx, text);
        if (!status)
            status = mu_named_cancel(&desk->named, &c);
        m = find(desk, text);
        if (m)
            look_at(desk, ctx, m);
        mu_exit(ctx);
    }
    status = status ? status : mu_call_result(&c);
    mu_call_done(&c);
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_deliver(desk);
}

/* ---- the end ---- */

void mu_meetings_stop(struct mu_desk *desk)
{
    struct mu_ctx *ctx;
    bool entered = desk->first_meeting && !mu_enter(desk->m, &ctx);

    if (desk->remote)
        mu_desk_remote_stop_waits(desk);
    while (desk->first_meeting) {
        struct mu_meeting *m = desk->first_meeting;
        bool known = entered && !mu_named_turn_to(&desk->named, ctx, m->id);

        while (m->calls.first) {
            struct mu_call *c = &m->calls.first->call;
            char text[MUSTER_BARRIER_ID_MAX + 128];

            if (known)
                mu_named_leave(&desk->named, c);
            snprintf(text, sizeof text, "Barrier failed because service is shutting down. Barrier_id: %s::%" PRIu64,
                     m->id, c->counter);
            free(c->text);
            c->text = strdup(text);
            c->result = MUSTER_ABORTED;
            answer_parked(desk, m->calls.first, m->id, false);
        }
        drop_meeting(desk, m);
    }
    if (entered)
        mu_exit(ctx);
    free(desk->meetings);
    desk->meetings = NULL;
    mu_named_done(&desk->named);
}
