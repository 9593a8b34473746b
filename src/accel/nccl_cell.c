/*
 * accel/nccl_cell.c: where a communicator's record lies, how it is read, and its changes, each one edit.
 *
 * On one host the record is a cell of the segment. In a job of several hosts it is an entry of the leader's store: so
 * copies of it go to hosts that look at it (bridge/kv/copies.c), and a waiter for a change sleeps on its own host. Its
 * key begins with '/', which no key of a task's does: they neither meet it nor list, count or delete it. A task of
 * another host asks the leader for the changes (nccl_remote.c), and the leader's agent makes them here: that host knows
 * first which tasks live, and the time. Names that begin with MUSTER_NCCL_HOST are each host's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_id.h"
#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/hosts.h"

#define UNPINNED_TRIES 1000u

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

enum mu_nccl_presence mu_nccl_presence(void *arg, int32_t task, uint64_t incarnation, uint32_t attempt)
{
    const struct mu_nccl_call *call = arg;
    struct muster_segment *seg = call->m->seg;
    struct mu_task_record r;
    struct mu_cluster c;
    uint32_t ahead;

    if (task < 0 || mu_cluster_task(seg, (uint32_t)task, &r, NULL, &c))
        return MU_NCCL_LOST;
    ahead = (attempt - r.attempt) & MU_NCCL_ATTEMPT_MASK;
    if (!mu_is_local_task(seg, (uint32_t)task) && ahead && ahead <= MU_NCCL_ATTEMPT_MASK / 2)
        return MU_NCCL_HERE; /* it has registered, and this host is about to hear of it */
    if (r.incarnation != incarnation || r.state == MUSTER_TASK_ERROR)
        return MU_NCCL_LOST;
    if (r.state == MUSTER_TASK_DISCONNECTED)
        return MU_NCCL_LEFT;
    return mu_cluster_alive(seg, (uint32_t)task, &r) ? MU_NCCL_HERE : MU_NCCL_LOST;
}

void mu_nccl_task_name(const struct mu_nccl_call *call, int32_t task, char name[MU_NCCL_TASK_NAME])
{
    struct muster_segment *seg = call->m->seg;
    char host[48];

    if (!call->shared || task < 0 || (uint32_t)task >= seg->num_tasks) {
        snprintf(name, MU_NCCL_TASK_NAME, "task %d", task);
        return;
    }
    mu_host_name(seg, mu_host_of(seg, (uint32_t)task), host, sizeof host);
    snprintf(name, MU_NCCL_TASK_NAME, "task %d (host %s)", task, host);
}

void mu_nccl_say(const struct mu_nccl_call *call, const char *joint, const char *words, char reason[120])
{
    char name[MU_NCCL_TASK_NAME], all[400];

    mu_nccl_task_name(call, call->asker.task, name);
    snprintf(all, sizeof all, "%s%.20s%.200s", name, joint, words);
    snprintf(reason, 120, "%.119s", all);
}

static void name_for_record(void *arg, int32_t task, char name[MU_NCCL_TASK_NAME])
{
    mu_nccl_task_name(arg, task, name);
}

void mu_nccl_call_make(struct mu_nccl_call *call, struct muster *m, const char *name)
{
    char key[sizeof MU_NCCL_KEYS + MUSTER_NCCL_NAME_MAX];
    size_t len = strlen(name), before = 1;
    struct mu_task_record own;
    struct mu_cluster c;

    memset(call, 0, offsetof(struct mu_nccl_call, key));
    call->m = m;
    call->name = name;
    call->shared = mu_is_bridged(m->seg) && strncmp(name, MUSTER_NCCL_HOST, sizeof MUSTER_NCCL_HOST - 1) != 0;
    call->remote = call->shared && mu_is_follower(m->seg);
    if (call->shared)
        before = sizeof MU_NCCL_KEYS - 1;
    memcpy(key, call->shared ? MU_NCCL_KEYS : "U", before);
    memcpy(key + before, name, len);
    mu_key_make(&call->key, m->seg, key, before + len);
    snprintf(call->what, sizeof call->what, "NCCL id %s", name);
    call->asker = (struct mu_nccl_asker){.task = m->task_id,
                                         .incarnation = m->incarnation,
                                         .now = mu_now(),
                                         .presence = mu_nccl_presence,
                                         .name = name_for_record,
                                         .arg = call};
    if (call->shared && m->task_id >= 0 && !mu_cluster_task(m->seg, (uint32_t)m->task_id, &own, NULL, &c))
        call->asker.attempt = own.attempt & MU_NCCL_ATTEMPT_MASK;
}

enum muster_status mu_nccl_call_begin(struct mu_nccl_call *call, struct muster *m, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    enum muster_status status;

    if (!len || len > MUSTER_NCCL_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a communicator's name has 1 to %u bytes, not %zu",
                       MUSTER_NCCL_NAME_MAX, len);
    status = mu_enter_read(m);
    if (status)
        return status;
    mu_nccl_call_make(call, m, name);
    mu_exit_read();
    return MUSTER_OK;
}

void mu_nccl_call_done(struct mu_nccl_call *call)
{
    free(call->room);
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

bool mu_nccl_make_room(struct mu_nccl_call *call, size_t size)
{
    void *more;

    if (size <= call->room_size)
        return true;
    more = realloc(call->room, size);
    if (!more)
        return false;
    call->room = more;
    call->room_size = size;
    return true;
}

enum muster_status mu_nccl_no_memory(const struct mu_nccl_call *call)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %s", call->what);
}

enum muster_status mu_nccl_corrupt(const struct mu_nccl_call *call)
{
    return mu_fail(MUSTER_DATA_LOSS, "%s in the segment of job %s is not well formed", call->what, call->m->seg->job);
}

/* A private copy of what an edit found, with room for the asker's shape besides. */
static enum muster_status copy_old(struct mu_nccl_call *call, const struct mu_edit *e)
{
    size_t own = mu_nccl_record_size(call->asker.nranks, call->asker.nids);

    if (!mu_nccl_make_room(call, own > e->old_len ? own : e->old_len))
        return mu_nccl_no_memory(call);
    memcpy(call->room, e->old, e->old_len);
    call->asker.now = mu_now();
    return mu_nccl_record_view(&call->record, call->room, e->old_len) ? MUSTER_OK : mu_nccl_corrupt(call);
}

struct mu_table mu_nccl_table(const struct mu_nccl_call *call)
{
    return call->shared ? mu_table_kv(call->m->seg) : mu_table_cells(call->m->seg);
}

enum muster_status mu_nccl_read_here(struct mu_nccl_call *call, struct mu_ctx *ctx, uint64_t *ret_word, bool *ret_there)
{
    struct mu_table t = mu_nccl_table(call);
    struct mu_found f;
    enum muster_status status;

    for (uint32_t tries = 0;; tries++) {
        status = mu_table_get(&t, ctx, &call->key, call->room, call->room_size, &f);
        if (status == MUSTER_ABORTED && tries < UNPINNED_TRIES) /* without a slot nothing can be pinned */
            continue;
        if (status || f.len <= call->room_size)
            break;
        if (!mu_nccl_make_room(call, f.len))
            return mu_nccl_no_memory(call);
    }
    if (status == MUSTER_ABORTED)
        return mu_fail(MUSTER_UNAVAILABLE, "%s changes faster than it can be read", call->what);
    if (status)
        return status;
    *ret_there = f.version != 0;
    *ret_word = f.word;
    call->asker.now = mu_now();
    return f.version && !mu_nccl_record_view(&call->record, call->room, f.len) ? mu_nccl_corrupt(call) : MUSTER_OK;
}

enum muster_status mu_nccl_look(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w, uint64_t *ret_word,
                                bool *ret_there)
{
    return call->remote ? mu_nccl_read_remote(call, ctx, w, ret_word, ret_there)
                        : mu_nccl_read_here(call, ctx, ret_word, ret_there);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

struct decision {
    struct mu_nccl_call *call;
    struct mu_nccl_act *act;
};

/* The name is new. */
static enum mu_verdict act_begin(struct mu_nccl_call *call, struct mu_nccl_act *act, struct mu_edit *e)
{
    size_t size = mu_nccl_record_size(call->asker.nranks, call->asker.nids);

    e->status = mu_nccl_make_room(call, size) ? MUSTER_OK : mu_nccl_no_memory(call);
    if (e->status)
        return MU_KEEP;
    memset(call->room, 0, size);
    call->asker.now = mu_now();
    mu_nccl_first(&call->record, call->room, &call->asker);
    act->answer = MU_NCCL_MAKE;
    act->changed = act->there = true;
    e->value = call->room;
    e->len = size;
    return MU_PUT;
}

static enum muster_status record_ask(struct mu_nccl_call *call, struct mu_nccl_act *act)
{
    const struct mu_nccl_head *h = call->record.head;
    uint64_t before = h->generation;
    uint32_t state = h->state;

    if (call->generation && h->generation == call->generation && h->state == MUSTER_NCCL_FAILED) /* waited for */
        return mu_fail(MUSTER_UNAVAILABLE, "%s: %s", call->what, h->reason);
    act->lost = !act->rechecked && mu_nccl_is_maker_lost(&call->record, &call->asker);
    if (act->lost)
        return MUSTER_OK;
    act->answer = mu_nccl_request(&call->record, &call->asker);
    act->changed = act->answer == MU_NCCL_TAKE || h->generation != before || h->state != state;
    return MUSTER_OK;
}

/* On the copy of a record that is there. */
static enum muster_status record_change(struct mu_nccl_call *call, struct mu_nccl_act *act)
{
    struct mu_nccl_record *r = &call->record;
    const struct mu_nccl_asker *a = &call->asker;
    uint32_t taken = r->head->taken, state = r->head->state;

    switch (act->step) {
    case MU_NCCL_LOOK: break;
    case MU_NCCL_REQUEST: return record_ask(call, act);
    case MU_NCCL_CLAIM: act->answer = mu_nccl_claim(r, a, call->generation); break;
    case MU_NCCL_MADE: act->accepted = mu_nccl_made(r, a, call->generation, act->ids); break;
    case MU_NCCL_FAIL:
        act->generation = r->head->generation;
        act->accepted = mu_nccl_fail(r, call->generation, a->now, act->reason);
        break;
    case MU_NCCL_EXPIRE: act->accepted = mu_nccl_expire(r, a->now); break;
    case MU_NCCL_FINISH: act->changed = act->accepted = mu_nccl_done(r, a, call->generation); return MUSTER_OK;
    case MU_NCCL_WITHDRAW:
        act->changed = act->accepted = act->deletes = mu_nccl_is_maker(r, a, call->generation);
        return MUSTER_OK;
    }
    act->changed = r->head->taken != taken || r->head->state != state;
    return MUSTER_OK;
}

static enum mu_verdict record_decide(struct mu_edit *e)
{
    struct decision *d = e->arg;
    struct mu_nccl_call *call = d->call;
    struct mu_nccl_act *act = d->act;
    const struct mu_nccl_head *h;

    act->there = act->changed = act->accepted = act->deletes = act->lost = false;
    act->answer = MU_NCCL_AGAIN;
    if (!e->version)
        return act->step == MU_NCCL_REQUEST ? act_begin(call, act, e) : MU_KEEP;
    e->status = copy_old(call, e);
    if (!e->status)
        e->status = record_change(call, act);
    if (e->status)
        return MU_KEEP;
    act->there = true;
    h = call->record.head;
    if (act->step == MU_NCCL_FINISH && act->changed)
        act->deletes = h->done == h->nranks && !mu_nccl_has_died(&call->record);
    if (act->deletes)
        return MU_DELETE;
    e->value = call->room;
    e->len = mu_nccl_record_size(h->nranks, h->nids);
    return act->changed ? MU_PUT : MU_KEEP;
}

void mu_nccl_recheck(struct mu_ctx *ctx)
{
    void (*recheck)(struct mu_ctx *) = mu_wait_recheck;

    if (recheck)
        recheck(ctx);
}

enum muster_status mu_nccl_step_here(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act)
{
    struct mu_table t = mu_nccl_table(call);
    struct decision d = {call, act};
    struct mu_edit e = {.arg = &d};
    const struct mu_nccl_asker *a = &call->asker;
    enum muster_status status;

    if (act->step == MU_NCCL_REQUEST && mu_nccl_presence(call, a->task, a->incarnation, a->attempt) != MU_NCCL_HERE)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s: task %d, the caller, is in error itself, or was replaced",
                       call->what, a->task);
    status = mu_table_edit(&t, ctx, &call->key, MU_EDIT_WANTS_OLD, record_decide, &e, NULL);
    if (!status && act->lost) { /* its waiters are to hear of its death, where that ends the job's waits */
        mu_nccl_recheck(ctx);
        status = mu_cluster_error(call->m->seg, call->what);
        act->rechecked = true;
        e = (struct mu_edit){.arg = &d};
        if (!status)
            status = mu_table_edit(&t, ctx, &call->key, MU_EDIT_WANTS_OLD, record_decide, &e, NULL);
    }
    if (call->shared)
        mu_bell_ring(call->m->seg);
    return status;
}

enum muster_status mu_nccl_step(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act,
                                muster_deadline deadline)
{
    return call->remote ? mu_nccl_step_remote(call, ctx, act, deadline) : mu_nccl_step_here(call, ctx, act);
}
