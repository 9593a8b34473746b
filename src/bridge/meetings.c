/*
 * bridge/meetings.c: named barriers and questions who is alive, for tasks of other hosts: the leader's agent calls on
 * their behalf (barrier/named_steps.h, task/alive.h), and keeps those that wait.
 *
 * A call is put to its meeting when it is taken, and made at the turn's look: all that came in one turn for the same
 * barrier arrive by one commit. A meeting is looked at again only when something says that it may have changed: its
 * bucket's word, the job's state, its deadline. What is kept is soft: an agent that starts has none of it, and the
 * hosts send their open calls again, which take up what their arrivals left in the marks.
 *
 * A call may overtake its task's record, which says that the task is there: it waits for that before it arrives.
 */
#include "bridge/meetings.h"

#include <stdlib.h>
#include <string.h>

#include "segment/cluster.h"

#define LISTS_MAX (1u << 20) /* bytes of participants' lists that arriving calls may hold until the turn's end */

/* ---- what is kept ---- */

static uint32_t chain_of(const char *key, uint32_t len)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)key[i]) * 16777619u;
    return h % CHAINS;
}

/* The meeting of this cell, made when there is none; NULL: no memory. */
static struct meeting *meeting_of(struct mu_core *core, const char *key, uint32_t len)
{
    struct meetings *s = mu_meetings_of(core);
    struct meeting **chain = &s->chains[chain_of(key, len)], *m = *chain;
    struct mu_table t = mu_table_cells(core->seg);
    struct mu_key k;

    while (m && (m->key_len != len || memcmp(m->key, key, len) != 0))
        m = m->chain;
    if (m)
        return m;
    m = calloc(1, sizeof *m + len + 1);
    if (!m)
        return NULL;
    memcpy(m->key, key, len);
    m->key_len = len;
    mu_key_make(&k, core->seg, key, len);
    m->bucket = mu_table_bucket(&t, &k);
    m->checked = UINT64_MAX;
    m->chain = *chain;
    *chain = m;
    m->next = s->list;
    if (m->next)
        m->next->prev = m;
    s->list = m;
    return m;
}

static void drop_meeting(struct meetings *s, struct meeting *m)
{
    struct meeting **at = &s->chains[chain_of(m->key, m->key_len)];

    while (*at != m)
        at = &(*at)->chain;
    *at = m->chain;
    if (m->next)
        m->next->prev = m->prev;
    *(m->prev ? &m->prev->next : &s->list) = m->next;
    free(m);
}

/* Room for the host's slot; NULL: no memory. */
static struct waiter **place_of(struct meetings *s, uint32_t host, uint32_t slot)
{
    uint32_t n = s->hosts[host].count ? s->hosts[host].count : 16;
    struct waiter **more;

    if (slot < s->hosts[host].count)
        return &s->hosts[host].slots[slot];
    while (n <= slot)
        n *= 2;
    more = realloc(s->hosts[host].slots, n * sizeof *more);
    if (!more)
        return NULL;
    memset(more + s->hosts[host].count, 0, (n - s->hosts[host].count) * sizeof *more);
    s->hosts[host].slots = more;
    s->hosts[host].count = n;
    return &more[slot];
}

static void forget(struct meetings *s, struct waiter *w)
{
    struct meeting *m = w->meeting;

    *(w->prev ? &w->prev->next : &m->first) = w->next;
    *(w->next ? &w->next->prev : &m->last) = w->prev;
    if (w->here)
        m->waiting--;
    else
        m->arriving--;
    if (m->key[0] == 'B') {
        m->bytes -= w->call.ids ? w->call.num * sizeof *w->call.ids : 0;
        mu_call_done(&w->call);
    }
    s->hosts[w->host].slots[w->slot] = NULL;
    s->num_waiters--;
    free(w);
}

void mu_meeting_answer(struct mu_core *core, struct waiter *w, enum muster_status status, const char *text,
                       const struct mu_pack *body)
{
    if (body->failed) /* it is sent again, and taken up */
        mu_call_later(core, w->host, w->slot, w->number);
    else
        mu_call_answer(core, w->host, w->slot, w->number, status, text, body->bytes, body->len);
    forget(mu_meetings_of(core), w);
}

void mu_meeting_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    struct meetings *s = mu_meetings_of(core);

    if (slot < s->hosts[host].count && s->hosts[host].slots[slot] && s->hosts[host].slots[slot]->number == number)
        forget(s, s->hosts[host].slots[slot]);
}

/* ---- calls come ---- */

static bool refuse(struct mu_core *core, const struct mu_request *r, const char *why)
{
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_INVALID_ARGUMENT, why, NULL, 0);
    return true;
}

/* A call to its meeting; NULL: no memory, and it will be sent again. What is in *w moves there. */
static struct waiter *keep(struct mu_core *core, const struct mu_request *r, const char *key, uint32_t len,
                           struct waiter *w)
{
    struct meetings *s = mu_meetings_of(core);
    struct waiter **place = place_of(s, r->host, r->slot), *kept = place ? malloc(sizeof *kept) : NULL;
    struct meeting *m = kept ? meeting_of(core, key, len) : NULL;

    if (!m) {
        free(kept);
        mu_call_later(core, r->host, r->slot, r->number);
        return NULL;
    }
    *kept = *w;
    kept->host = r->host;
    kept->slot = r->slot;
    kept->number = r->number;
    kept->incarnation = r->incarnation;
    kept->attempt = r->attempt;
    kept->meeting = m;
    kept->prev = m->last;
    *(m->last ? &m->last->next : &m->first) = kept;
    m->last = kept;
    m->arriving++;
    *place = kept;
    s->num_waiters++;
    return kept;
}

static bool barrier_call(struct mu_core *core, const struct mu_request *r, bool leaves)
{
    struct waiter w = {.call = {.flags = r->flags, .attempt = r->attempt, .again = r->resent, .leaves = leaves}};
    struct mu_unpack u = r->body;
    char key[MUSTER_BARRIER_ID_MAX + 2] = {'B'};
    struct waiter *kept;

    if (!r->task)
        return refuse(core, r, "an observer cannot take part in a barrier");
    w.call.task = r->task - 1;
    if (!mu_call_unpack(&u, core->seg->num_tasks, key + 1, &w.call) || mu_barrier_is_hosts(key + 1)) {
        mu_call_done(&w.call);
        return refuse(core, r, "the call to a barrier is not well formed");
    }
    kept = keep(core, r, key, (uint32_t)strlen(key), &w);
    if (!kept) {
        mu_call_done(&w.call);
        return false;
    }
    kept->meeting->bytes += w.call.ids ? w.call.num * sizeof *w.call.ids : 0;
    if (kept->meeting->bytes > LISTS_MAX)
        mu_meet_barrier(core, kept->meeting);
    return false;
}

bool mu_op_barrier_wait(struct mu_core *core, const struct mu_request *r)
{
    return barrier_call(core, r, false);
}

bool mu_op_barrier_give_up(struct mu_core *core, const struct mu_request *r)
{
    return barrier_call(core, r, true);
}

/* Those that came before it arrive first. */
static void make_arrive(struct mu_core *core, const char *key)
{
    struct meeting *m = mu_meetings_of(core)->chains[chain_of(key, (uint32_t)strlen(key))];

    while (m && strcmp(m->key, key) != 0)
        m = m->chain;
    if (m && m->arriving)
        mu_meet_barrier(core, m);
}

bool mu_op_barrier_cancel(struct mu_core *core, const struct mu_request *r)
{
    struct mu_call c = {.task = r->task ? r->task - 1 : MU_NOBODY, .name = MU_CALLS_NONE, .untold = MU_CALLS_NONE};
    struct mu_done done = {.id = MU_DONE_ID(r->host, r->slot), .number = r->number};
    struct mu_named *n = &mu_meetings_of(core)->named;
    struct mu_unpack u = r->body;
    struct mu_ctx *ctx;
    char key[MUSTER_BARRIER_ID_MAX + 2] = {'B'};
    enum muster_status status;

    mu_unpack_text(&u, key + 1, MUSTER_BARRIER_ID_MAX + 1);
    c.asked = mu_unpack_u64(&u);
    if (!mu_unpack_end(&u) || !key[1] || mu_barrier_is_hosts(key + 1))
        return refuse(core, r, "the call to cancel a barrier is not well formed");
    make_arrive(core, key);
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_named_turn_to(n, ctx, key + 1);
        n->done = &done;
        if (!status)
            status = mu_named_cancel(n, &c);
        n->done = NULL;
        mu_exit(ctx);
    }
    if (status == MUSTER_UNAVAILABLE) {
        mu_call_later(core, r->host, r->slot, r->number);
    } else {
        status = status ? status : mu_call_result(&c);
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
    }
    mu_call_done(&c);
    return true;
}

bool mu_op_task_alive(struct mu_core *core, const struct mu_request *r)
{
    struct waiter w = {.alive = {.again = r->resent}};
    struct mu_unpack u = r->body;
    int32_t ids[MU_ALIVE_MAX];
    char key[MU_ALIVE_KEY_MAX];
    bool in = false;
    uint32_t count;

    w.alive.name = mu_unpack_u32(&u);
    count = mu_unpack_u32(&u);
    if (!r->task || !count || count > MU_ALIVE_MAX || u.left != count * 4ul)
        return refuse(core, r, "the question who is alive is not well formed");
    w.alive.task = r->task - 1;
    for (uint32_t i = 0, before = 0; i < count; i++) {
        uint32_t id = mu_unpack_u32(&u);

        if (id >= core->seg->num_tasks || (i && id <= before))
            return refuse(core, r, "the question who is alive is not well formed");
        in |= id == w.alive.task;
        ids[i] = (int32_t)id;
        before = id;
    }
    if (!in)
        return refuse(core, r, "the caller is not among the tasks it asks about");
    keep(core, r, key, mu_alive_key(ids, count, key), &w);
    return false;
}

/* ---- the module ---- */

static bool init(struct mu_core *core, void **ret_state)
{
    struct meetings *s = calloc(1, sizeof *s);

    *ret_state = s;
    if (!s)
        return false;
    if (!core->leader)
        return true;
    s->hosts = calloc(core->num_hosts, sizeof *s->hosts);
    if (!s->hosts || !mu_sight_init(core, &s->sight))
        return false;
    mu_named_begin(&s->named, core->seg, NULL, "-");
    s->named.forget = mu_call_is_settled;
    s->named.forget_arg = core;
    return true;
}

static void done(struct mu_core *core)
{
    struct meetings *s = mu_meetings_of(core);

    while (s->list) {
        while (s->list->first)
            forget(s, s->list->first);
        drop_meeting(s, s->list);
    }
    for (uint32_t i = 0; s->hosts && i < core->num_hosts; i++)
        free(s->hosts[i].slots);
    free(s->hosts);
    mu_named_done(&s->named);
    mu_sight_done(&s->sight);
    free(s);
}

static bool is_due(const struct mu_core *core, const struct meeting *m, uint64_t version)
{
    /* relaxed: only a reason to look, which acquires; pairs with the commits there */
    return m->arriving || core->now >= m->look_at || ((mu_load_relaxed(m->bucket) ^ m->word) & ~MU_WORD_S) ||
           version != m->version;
}

static void look(struct mu_core *core)
{
    struct meetings *s = mu_meetings_of(core);
    struct mu_cluster cluster;

    if (!core->leader)
        return;
    if (s->list && mu_cluster_look(core->seg, &cluster))
        cluster.root.version = 0;
    for (struct meeting *m = s->list, *next; m; m = next) {
        next = m->next;
        if (m->first && is_due(core, m, cluster.root.version)) {
            if (m->key[0] == 'B')
                mu_meet_barrier(core, m);
            else
                mu_meet_alive(core, m);
        }
        if (!m->first)
            drop_meeting(s, m);
    }
    mu_sight_look(core);
}

static void up(struct mu_core *core, uint32_t host)
{
    if (core->leader)
        mu_sight_up(core, host);
}

static uint64_t next(struct mu_core *core)
{
    const struct meetings *s = mu_meetings_of(core);
    uint64_t at = core->leader && s->sight.stale ? s->sight.at : UINT64_MAX;

    for (const struct meeting *m = s->list; m; m = m->next)
        at = m->look_at < at ? m->look_at : at;
    return at;
}

static bool busy(struct mu_core *core)
{
    return mu_meetings_of(core)->num_waiters > 0;
}

const struct mu_module mu_module_meetings = {
    .name = "meetings", .init = init, .done = done, .up = up, .look = look, .next = next, .busy = busy};
