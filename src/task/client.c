/*
 * task/client.c: tasks that speak through the agent: their transitions, each one edit of the record, as in record.c.
 *
 * The deciding words are read inside the edit. A wire client has no slot, so nothing of it is scavenged. It is dead
 * when its agent's slot has another holder, or none; the process that finds that writes it into the record.
 */
#include "task/client.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/hosts.h"
#include "segment/stats.h"
#include "task/task.h"

enum { TRIES = 4 /* deaths that a registration finds in its way */ };

struct arrival {
    const struct mu_ctx *ctx;
    const struct mu_client *client;
    uint64_t start; /* of its process */
    bool conflict;  /* found: another incarnation is connected */
};

/* The record becomes the client's, connected. */
static bool take_place(struct mu_task_change *c, const struct arrival *a)
{
    const struct mu_client *g = a->client;

    c->record = (struct mu_task_record){.state = MUSTER_TASK_CONNECTED,
                                        .cause = MUSTER_CAUSE_NONE,
                                        .code = MUSTER_OK,
                                        .flags = MU_TASK_GUEST |
                                                 (g->flags & MUSTER_JOIN_RECOVERABLE ? MU_TASK_RECOVERABLE : 0) |
                                                 (g->flags & MUSTER_JOIN_TRANSIENT ? MU_TASK_TRANSIENT : 0),
                                        .pid = g->pid,
                                        .attempt = c->record.attempt + 1,
                                        .start = a->start,
                                        .incarnation = g->incarnation,
                                        .since = mu_now(),
                                        .slot = a->ctx->slot + 1,
                                        .slot_incarnation = a->ctx->incarnation};
    c->text[0] = 0;
    return true;
}

/* Whether the task is its own: it joined by itself, and lives; or it is served from outside, without a slot. */
static bool is_own_process(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *r)
{
    return !(r->flags & MU_TASK_GUEST) &&
           (mu_cluster_alive(seg, task, r) || (!r->slot && r->state == MUSTER_TASK_CONNECTED));
}

/* A client is connected, and alive. */
static bool meet_connected(struct mu_task_change *c, struct arrival *a)
{
    struct mu_task_record *r = &c->record;

    if (r->incarnation == a->client->incarnation)
        return false;
    if (r->flags & MU_TASK_RECOVERABLE)
        return take_place(c, a);
    a->conflict = true;
    r->state = (uint32_t)mu_task_next(r->state, MU_EVENT_CONFLICT, 0);
    r->code = MUSTER_ABORTED;
    r->cause = MUSTER_CAUSE_RESTARTED;
    r->since = mu_now();
    snprintf(c->text, sizeof c->text, "another incarnation of it tried to connect: it has likely restarted");
    return true;
}

static bool client_admit(struct mu_task_change *c)
{
    struct arrival *a = c->arg;
    const struct muster_segment *seg = a->ctx->seg;
    const struct mu_task_record *r = &c->record;
    char name[MU_NAME_MAX];

    a->conflict = false;
    mu_cluster_name(seg, c->task, r, name, sizeof name);
    if (is_own_process(seg, c->task, r)) {
        c->status = mu_fail(MUSTER_ALREADY_EXISTS,
                            "%s has joined the job by itself, and lives; a task id is for one process at a time", name);
        return false;
    }
    if (r->state == MUSTER_TASK_CONNECTED && !mu_cluster_alive(seg, c->task, r)) {
        c->status = MUSTER_UNAVAILABLE; /* dead, which the record does not say yet */
        return false;
    }
    if (r->state == MUSTER_TASK_CONNECTED)
        return meet_connected(c, a);
    if (r->state == MUSTER_TASK_ERROR &&
        (r->code != MUSTER_UNAVAILABLE || !(a->client->reconnects || (r->flags & MU_TASK_RECOVERABLE)))) {
        c->status = mu_fail(MUSTER_ABORTED,
                            "%s unexpectedly tried to connect while it is already in error; it is to be reset before "
                            "it connects again. Existing error: %s",
                            name, c->text);
        return false;
    }
    return take_place(c, a);
}

enum muster_status mu_client_register(struct mu_ctx *ctx, const struct mu_client *client)
{
    struct arrival a = {.ctx = ctx, .client = client, .start = client->pid ? mu_process_start((pid_t)client->pid) : 0};
    enum muster_status status = MUSTER_UNAVAILABLE;

    if (client->task >= ctx->seg->num_tasks || !mu_is_local_task(ctx->seg, client->task))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "there is no task %u on this host; job %s has %u tasks", client->task,
                       ctx->seg->job, ctx->seg->num_tasks);
    for (int i = 0; i < TRIES && status == MUSTER_UNAVAILABLE; i++) {
        status = mu_cluster_edit(ctx, client->task, client_admit, &a);
        if (status == MUSTER_UNAVAILABLE) {
            mu_task_scavenge(ctx);
            mu_task_bury_dead(ctx, client->task, NULL);
        }
    }
    if (status == MUSTER_UNAVAILABLE)
        return mu_fail(status, "%s: one process after the other registers and dies; try again",
                       MU_LABEL(ctx->seg, client->task));
    if (!status && a.conflict)
        return mu_fail(MUSTER_ABORTED,
                       "%s unexpectedly tried to connect with a different incarnation. It has likely restarted",
                       MU_LABEL(ctx->seg, client->task));
    if (!status)
        mu_task_count_beat(ctx->seg, client->task);
    return status;
}

static bool client_disconnect(struct mu_task_change *c)
{
    const struct muster_segment *seg = c->arg;
    struct mu_task_record *r = &c->record;
    char name[MU_NAME_MAX];

    if (r->state == MUSTER_TASK_DISCONNECTED) {
        c->status =
            mu_fail(MUSTER_FAILED_PRECONDITION, "The task is already disconnected: %s", MU_BARE_LABEL(seg, c->task));
        return false;
    }
    if (is_own_process(seg, c->task, r)) {
        mu_cluster_name(seg, c->task, r, name, sizeof name);
        c->status =
            mu_fail(MUSTER_FAILED_PRECONDITION, "%s has joined the job by itself, and lives: end it first", name);
        return false;
    }
    r->state = MUSTER_TASK_DISCONNECTED;
    r->code = MUSTER_OK;
    r->cause = MUSTER_CAUSE_NONE;
    r->since = mu_now();
    r->slot = 0;
    c->text[0] = 0;
    return true;
}

enum muster_status mu_client_disconnect(struct mu_ctx *ctx, uint32_t task)
{
    if (task >= ctx->seg->num_tasks || !mu_is_local_task(ctx->seg, task))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "there is no task %u on this host", task);
    return mu_cluster_edit(ctx, task, client_disconnect, ctx->seg);
}

struct client_loss {
    const char *text;
    uint64_t incarnation;
    bool fits;
};

static bool client_lose(struct mu_task_change *c)
{
    struct client_loss *l = c->arg;
    struct mu_task_record *r = &c->record;

    l->fits = (r->flags & MU_TASK_GUEST) && r->state == MUSTER_TASK_CONNECTED && r->incarnation == l->incarnation;
    if (!l->fits)
        return false;
    r->state = (uint32_t)mu_task_next(r->state, MU_EVENT_DEATH, 0);
    r->code = MUSTER_UNAVAILABLE;
    r->cause = MUSTER_CAUSE_DIED;
    r->since = mu_now();
    snprintf(c->text, sizeof c->text, "%s", l->text);
    return true;
}

enum muster_status mu_client_lost(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation, const char *text)
{
    struct client_loss l = {.text = text, .incarnation = incarnation};
    enum muster_status status;

    if (task >= ctx->seg->num_tasks || !mu_is_local_task(ctx->seg, task))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "there is no task %u on this host", task);
    status = mu_cluster_edit(ctx, task, client_lose, &l);
    if (!status && l.fits)
        mu_count(&ctx->own->deaths, 1);
    return status;
}

bool mu_client_has_grace(const struct muster_segment *seg, const struct mu_task_record *record, uint64_t now)
{
    return record->state == MUSTER_TASK_DISCONNECTED && record->attempt &&
           (now < record->since || now - record->since <= seg->heartbeat_timeout);
}

void mu_clients_orphaned(struct mu_ctx *ctx, uint32_t agent_pid)
{
    const struct muster_segment *seg = ctx->seg;
    struct mu_task_record records[MU_TASKS_PER_BLOCK];
    struct mu_cluster cluster;
    char text[96];

    snprintf(text, sizeof text, "the agent through which it spoke (pid %u) died", agent_pid);
    for (uint32_t i = 0, n; i < seg->local_tasks; i += n) {
        n = seg->local_tasks - i < MU_TASKS_PER_BLOCK ? seg->local_tasks - i : MU_TASKS_PER_BLOCK;
        if (mu_cluster_run(seg, seg->first_task + i, n, records, NULL, &cluster))
            return;
        for (uint32_t k = 0; k < n; k++)
            if ((records[k].flags & MU_TASK_GUEST) && records[k].state == MUSTER_TASK_CONNECTED)
                mu_task_bury_dead(ctx, seg->first_task + i + k, text); /* looks at its agent's slot */
    }
}
