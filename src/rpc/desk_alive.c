/*
 * rpc/desk_alive.c: which tasks of a set are alive, for guests: the steps of task/alive.h, and calls that are parked in
 * between. A gathering is a set about which guests ask; it is looked at when another asks, when its bucket's word
 * changes, and when the job's state does: somebody may have gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/desk_remote.h"
#include "segment/object.h"

struct mu_gathering {
    struct mu_gathering *prev, *next;
    struct mu_parked_list calls;
    struct mu_parked *payer; /* the one of them whose line bears what this takes; NULL: to be chosen */
    uint64_t version;        /* of the job's state, when last looked at */
    struct mu_alive alive;
};

static struct mu_gathering *find(const struct mu_desk *desk, const struct mu_alive *a)
{
    struct mu_gathering *g = desk->gatherings;

    while (g && (g->alive.count != a->count || memcmp(g->alive.ids, a->ids, a->count * sizeof *a->ids) != 0))
        g = g->next;
    return g;
}

/* Its records are as many as the job has tasks, whatever the set. */
static size_t bytes_of(const struct mu_gathering *g)
{
    return sizeof *g + g->alive.len + g->alive.seg->num_tasks * sizeof *g->alive.records;
}

/* Somebody bears them, as long as anybody waits. */
static void choose_payer(struct mu_desk *desk, struct mu_gathering *g)
{
    struct mu_parked *p = g->calls.first;

    if (g->payer)
        return;
    g->payer = p;
    p->bytes += bytes_of(g);
    desk->parked_bytes += bytes_of(g);
    if (p->line)
        p->line->bytes += bytes_of(g);
}

/* Unless somebody waits for it. */
static void drop(struct mu_desk *desk, struct mu_gathering *g)
{
    if (g->calls.count) {
        choose_payer(desk, g);
        return;
    }
    *(g->prev ? &g->prev->next : &desk->gatherings) = g->next;
    if (g->next)
        g->next->prev = g->prev;
    mu_alive_done(&g->alive);
    free(g);
}

static void alive_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_gathering *g = p->at;

    g->payer = g->payer == p ? NULL : g->payer;
    drop(desk, g); /* its call stands */
}

/* The answer: incarnations, then ids. */
static struct mu_shared *answer_of(const struct mu_alive *a, size_t *ret_count)
{
    struct mu_shared *s = mu_shared_new(a->count * (sizeof(uint64_t) + sizeof(int32_t)));
    uint64_t *incarnations;
    int32_t *ids;

    *ret_count = 0;
    if (!s)
        return NULL;
    incarnations = (uint64_t *)s->bytes;
    ids = (int32_t *)&incarnations[a->count];
    for (uint32_t i = 0; i < a->count; i++)
        if (mu_alive_is_in(a, i)) {
            incarnations[*ret_count] = mu_alive_incarnation(a, i);
            ids[(*ret_count)++] = a->ids[i];
        }
    return s;
}

static void answer(struct mu_desk *desk, const struct mu_alive *a, struct mu_parked *p, struct mu_shared *s,
                   size_t count)
{
    if (!s) {
        mu_parked_answer(desk, p, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for the tasks alive");
        return;
    }
    mu_parked_answer(desk, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    p->shared = mu_shared_ref(s);
    p->ask->incarnations = (const uint64_t *)s->bytes;
    p->ask->alive = (const int32_t *)&p->ask->incarnations[a->count];
    p->ask->num_alive = count;
}

/* One commit: who has not called calls, and who can be answered is. */
static enum muster_status step(struct mu_desk *desk, struct mu_gathering *g)
{
    struct mu_alive_call **calls = malloc(g->calls.count * sizeof *calls);
    struct mu_shared *s = NULL;
    size_t alive = 0;
    uint32_t n = 0;
    enum muster_status status;

    for (struct mu_parked *p = g->calls.first; p && calls; p = p->next)
        calls[n++] = &p->alive;
    status = calls ? mu_alive_step(&g->alive, calls, n)
                   : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u calls", g->calls.count);
    free(calls);
    for (struct mu_parked *p = g->calls.first, *next; p && !status; p = next) {
        next = p->next;
        if (!p->alive.answered)
            continue;
        g->payer = g->payer == p ? NULL : g->payer;
        s = s ? s : answer_of(&g->alive, &alive);
        answer(desk, &g->alive, p, s, alive);
    }
    mu_shared_unref(s);
    return status;
}

/* The gathering may be gone afterwards. */
static void look_at(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_gathering *g)
{
    enum muster_status status = MUSTER_OK;
    bool again = true;

    g->version = desk->version;
    g->alive.ctx = ctx;
    while (again && g->calls.count && !status) {
        status = step(desk, g);
        again = false;
        if (status || !g->calls.count)
            break;
        status = mu_alive_read(&g->alive);
        for (struct mu_parked *p = g->calls.first; p && !status; p = p->next)
            again |= p->alive.instance != g->alive.instance; /* it completed since */
    }
    if (status == MUSTER_DATA_LOSS)
        while (g->calls.first)
            mu_parked_answer(desk, g->calls.first, status, MU_PAYLOAD_NONE, muster_last_error());
    drop(desk, g);
}

void mu_gatherings_look(struct mu_desk *desk)
{
    struct mu_table t = mu_table_cells(desk->seg);
    struct mu_ctx *ctx;

    if (!desk->gatherings || mu_enter(desk->m, &ctx))
        return;
    for (struct mu_gathering *g = desk->gatherings, *next; g; g = next) {
        next = g->next;
        /* relaxed: only a reason to look, which acquires; pairs with the commits there */
        if (g->version != desk->version ||
            !mu_word_same(mu_load_relaxed(mu_table_bucket(&t, &g->alive.key)), g->alive.word))
            look_at(desk, ctx, g);
    }
    mu_exit(ctx);
}

void mu_gatherings_stop(struct mu_desk *desk)
{
    while (desk->gatherings) {
        struct mu_gathering *g = desk->gatherings;

        while (g->calls.first)
            mu_parked_answer(desk, g->calls.first, MUSTER_ABORTED, MU_PAYLOAD_NONE,
                             "GetAliveTasks failed because service is shutting down.");
        drop(desk, g);
    }
}

/* ---- the call ---- */

/* The set's gathering. NULL: a sentence says why. */
static struct mu_gathering *gathering_of(struct mu_desk *desk, struct mu_ctx *ctx, const int32_t *tasks, size_t count,
                                         enum muster_status *ret_status)
{
    struct mu_gathering *g = calloc(1, sizeof *g), *known;

    if (!g) {
        *ret_status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu tasks", count);
        return NULL;
    }
    *ret_status = mu_alive_begin(&g->alive, desk->seg, ctx, tasks, count);
    known = *ret_status ? NULL : find(desk, &g->alive);
    if (*ret_status || known) {
        mu_alive_done(&g->alive);
        free(g);
        return known;
    }
    g->next = desk->gatherings;
    if (g->next)
        g->next->prev = g;
    desk->gatherings = g;
    return g;
}

static enum muster_status call(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_ask *ask, int32_t task,
                               const int32_t *tasks, size_t count)
{
    enum muster_status status;
    struct mu_gathering *g = gathering_of(desk, ctx, tasks, count, &status);
    struct mu_parked *p;

    if (!g)
        return status;
    if (!mu_desk_has(desk, task) || mu_alive_find(&g->alive, (uint32_t)task) < 0) {
        drop(desk, g);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "Requesting task %s is not one of the tasks that it asks about",
                       MU_BARE_LABEL(desk->seg, task));
    }
    p = mu_desk_park(desk, ask, &g->calls, g->calls.count ? 0 : bytes_of(g));
    if (!p) {
        drop(desk, g);
        return MUSTER_RESOURCE_EXHAUSTED;
    }
    g->payer = g->payer ? g->payer : p;
    p->at = g;
    p->dropped = alive_dropped;
    p->task = task;
    p->alive = (struct mu_alive_call){.task = (uint32_t)task, .name = MU_ALIVE_NONE};
    look_at(desk, ctx, g);
    return MUSTER_OK;
}

void mu_desk_alive(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const int32_t *tasks, size_t count)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    if (mu_desk_has(desk, task) && !mu_desk_is_own(desk, task)) {
        mu_desk_fail(ask, mu_desk_refuse_other(desk, task), MU_PAYLOAD_NONE);
        return;
    }
    if (desk->remote) {
        mu_desk_remote_alive(desk, ask, task, tasks, count);
        mu_desk_deliver(desk);
        return;
    }
    status = mu_enter(desk->m, &ctx);
    if (!status) {
        status = call(desk, ctx, ask, task, tasks, count);
        mu_exit(ctx);
    }
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
    mu_desk_deliver(desk);
}
