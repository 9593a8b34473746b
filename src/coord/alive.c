/*
 * coord/alive.c: which tasks of a set are alive, for wire clients: the steps of task/alive.h, and calls that wait in
 * between (bridge/barrier/pending.h).
 */

#include "base/clock.h"
#include "coord/remote.h"

/* The answer: incarnations, then ids; made once for all that one look answers. */
static struct mu_blob *alive_answer_new(const struct mu_alive *a)
{
    struct mu_blob *s = mu_blob_new(a->count * (sizeof(uint64_t) + sizeof(int32_t)));
    uint64_t *incarnations;
    int32_t *ids;

    if (!s)
        return NULL;
    s->len = 0;
    incarnations = (uint64_t *)s->bytes;
    ids = (int32_t *)&incarnations[a->count];
    for (uint32_t i = 0; i < a->count; i++)
        if (mu_alive_is_in(a, i)) {
            incarnations[s->len] = mu_alive_incarnation(a, i);
            ids[s->len++] = a->ids[i];
        }
    return s;
}

void mu_coord_alive_answered(struct mu_coord *coord, struct mu_coord_pending *p, const struct mu_pending_answer *a)
{
    if (a->status) {
        mu_coord_pending_answer(coord, p, a->status, MU_PAYLOAD_NONE, a->text ? a->text : muster_last_error());
        return;
    }
    if (coord->alive && coord->alive_instance != a->alive->instance) {
        mu_blob_drop(coord->alive);
        coord->alive = NULL;
    }
    if (!coord->alive)
        coord->alive = alive_answer_new(a->alive);
    coord->alive_instance = a->alive->instance;
    if (!coord->alive) {
        mu_coord_pending_answer(coord, p, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for the tasks alive");
        return;
    }
    mu_coord_pending_answer(coord, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    p->shared = mu_blob_hold(coord->alive);
    p->request->incarnations = (const uint64_t *)p->shared->bytes;
    p->request->alive = (const int32_t *)&p->request->incarnations[a->alive->count];
    p->request->num_alive = p->shared->len;
}

/* A look reads the records of all tasks, whatever the set. */
static size_t alive_bytes(const struct mu_coord *coord, const struct mu_pending *at)
{
    return sizeof *at + at->key_len + coord->num_tasks * sizeof(struct mu_task_record);
}

void mu_coord_alive_choose_payer(struct mu_coord *coord, struct mu_pending *at)
{
    struct mu_coord_pending *p = at->first ? mu_coord_pending_of(at->first) : NULL;

    if (!p || at->payer || mu_pending_is_barrier(at))
        return;
    at->payer = at->first;
    p->bytes += alive_bytes(coord, at);
    coord->pending_bytes += alive_bytes(coord, at);
    if (p->line)
        p->line->bytes += alive_bytes(coord, at);
}

/* Its client has gone away; the call stands. */
static void alive_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    mu_pending_remove(&p->pending);
    mu_coord_alive_choose_payer(coord, p->at);
    mu_pending_drop(&coord->pending, p->at);
}

/* ---- the call ---- */

static enum muster_status alive_call_set(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_coord_request *request,
                                         int32_t task, struct mu_alive *set)
{
    char key[MU_ALIVE_KEY_MAX];
    uint32_t len = mu_alive_key(set->ids, set->count, key);
    struct mu_pending *at;
    struct mu_coord_pending *p;

    if (!mu_coord_has(coord, task) || mu_alive_find(set, (uint32_t)task) < 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "Requesting task %s is not one of the tasks that it asks about",
                       MU_BARE_LABEL(coord->seg, task));
    at = mu_pending_of(&coord->pending, key, len);
    if (!at)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", set->count);
    p = mu_coord_pending_new(coord, request, &coord->calls, at->payer ? 0 : alive_bytes(coord, at));
    if (!p) {
        mu_pending_drop(&coord->pending, at);
        return MUSTER_RESOURCE_EXHAUSTED;
    }
    p->dropped = alive_dropped;
    p->task = task;
    p->pending.alive = (struct mu_alive_call){.task = (uint32_t)task, .name = MU_ALIVE_NONE};
    mu_coord_pending_add(p, at);
    if (!at->payer)
        at->payer = &p->pending;
    mu_pending_look(&coord->pending, ctx, at, mu_now(), set);
    mu_pending_drop(&coord->pending, at);
    return MUSTER_OK;
}

static enum muster_status alive_call(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_coord_request *request,
                                     int32_t task, const int32_t *tasks, size_t count)
{
    struct mu_alive set = {0};
    enum muster_status status = mu_alive_begin(&set, coord->seg, ctx, tasks, count);

    if (!status)
        status = alive_call_set(coord, ctx, request, task, &set);
    mu_alive_done(&set);
    return status;
}

void mu_coord_alive(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const int32_t *tasks,
                    size_t count)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    if (mu_coord_has(coord, task) && !mu_coord_is_own(coord, task)) {
        mu_coord_fail(request, mu_coord_refuse_other(coord, task), MU_PAYLOAD_NONE);
        return;
    }
    if (coord->remote) {
        mu_coord_remote_alive(coord, request, task, tasks, count);
        mu_coord_deliver(coord);
        return;
    }
    status = mu_enter(coord->m, &ctx);
    if (!status) {
        status = alive_call(coord, ctx, request, task, tasks, count);
        mu_exit(ctx);
    }
    if (status)
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
    mu_coord_deliver(coord);
}
