/*
 * bridge/member/loss.c: hosts that do not come back.
 *
 * A peer with a broken connection is given up when nothing was heard of it for the timeout, but not before half of that
 * has passed in which it could have connected again. An agent that was late itself (stopped, starved, moved to another
 * machine) takes its lateness for the reason and grants all peers a new period. Where agents that died may be replaced
 * (core->adopt) a connection that broke without a silence before has longer: the other end's kernel closed it, so the
 * host is there and its agent is not. A host that was given up is given up for good: its connected tasks are in
 * error everywhere. Only the kernel of a host declares deaths there; this is silence, like that of a task without
 * heartbeats.
 */
#include <stdio.h>
#include <string.h>

#include <muster/task.h>

#include "base/clock.h"
#include "bridge/member/members.h"
#include "task/task.h"

enum { RUN = 4 * MU_TASKS_PER_BLOCK }; /* tasks that are put in error in one go */

struct host_loss {
    uint64_t now;
    char text[MU_TEXT_MAX];
};

/* How long a host may be away. */
static uint64_t absence_period(const struct mu_core *core, bool is_replaced)
{
    return is_replaced ? core->adopt : core->timeout;
}

void mu_loss_begin(struct mu_core *core)
{
    struct members *m = mu_members_of(core);

    /* An agent that goes on where another ended: its peers were there, and must come back. */
    for (uint32_t i = 0; i < mu_members_peers(core); i++) {
        uint64_t state = mu_load_relaxed(&core->seg->hosts[i].state); /* relaxed: only agents write it, one at a time */

        if (i != core->host && (state == MU_HOST_UP || state == MU_HOST_DOWN)) {
            m->told[i].is_replaced = core->adopt != 0;
            m->told[i].gone = core->now + absence_period(core, m->told[i].is_replaced);
        }
    }
    m->looked = core->now;
}

static bool anybody_missing(struct mu_core *core)
{
    const struct members *m = mu_members_of(core);

    for (uint32_t i = 0; i < mu_members_peers(core); i++)
        if (m->told[i].gone)
            return true;
    return false;
}

void mu_loss_broken(struct mu_core *core, uint32_t host)
{
    const struct mu_peer *p = &core->peers[host];
    struct member_told *told = &mu_members_of(core)->told[host];
    uint64_t heard = p->timed ? p->heard : core->now, gone = heard + core->timeout;

    if (gone < core->now + core->timeout / 2)
        gone = core->now + core->timeout / 2;
    told->is_replaced = core->adopt && core->now - heard < core->timeout / 2;
    if (told->is_replaced)
        gone = core->now + absence_period(core, true);
    if (!anybody_missing(core))
        mu_members_of(core)->looked = core->now;
    told->gone = gone;
}

void mu_loss_look(struct mu_core *core)
{
    struct members *m = mu_members_of(core);
    bool late = core->now - m->looked > core->timeout / 2;
    char why[160];

    m->looked = core->now;
    for (uint32_t i = 0; i < mu_members_peers(core); i++) {
        uint64_t *gone = &m->told[i].gone;

        if (!*gone)
            continue;
        if (late) {
            *gone = core->now + absence_period(core, m->told[i].is_replaced);
        } else if (core->now >= *gone) {
            snprintf(why, sizeof why, "nothing was heard of it for %.1f s",
                     (double)absence_period(core, m->told[i].is_replaced) / 1e9);
            mu_core_lost(core, i, why, core->now);
        }
    }
}

uint64_t mu_loss_next(struct mu_core *core)
{
    const struct members *m = mu_members_of(core);
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < mu_members_peers(core); i++)
        if (m->told[i].gone && m->told[i].gone < next)
            next = m->told[i].gone;
    /* often enough to know one's own lateness */
    if (next != UINT64_MAX && m->looked + core->timeout / 4 < next)
        next = m->looked + core->timeout / 4;
    return next;
}

static bool task_lose(struct mu_task_change *c)
{
    const struct host_loss *loss = c->arg;
    int next = mu_task_next(c->record.state, MU_EVENT_SILENCE, c->record.flags & MU_TASK_RECOVERABLE);

    if (next < 0)
        return false;
    c->record.state = (uint32_t)next;
    c->record.code = MUSTER_UNAVAILABLE;
    c->record.cause = MUSTER_CAUSE_HEARTBEAT;
    c->record.since = loss->now;
    snprintf(c->text, sizeof c->text, "%s", loss->text);
    return true;
}

/* The connected among these are in error. */
static void lose_run(struct mu_ctx *ctx, uint32_t first, uint32_t count, struct host_loss *loss)
{
    for (uint32_t i = 0; i < count; i += RUN) {
        uint32_t tasks[RUN], n = 0;

        while (n < RUN && i + n < count) {
            tasks[n] = first + i + n;
            n++;
        }
        mu_cluster_edit_many(ctx, tasks, n, task_lose, loss);
    }
}

/* The host's tasks; where the leader is lost, with it all that are not ours. */
void mu_loss_of(struct mu_core *core, uint32_t host, const char *why)
{
    const struct muster_segment *seg = core->seg;
    uint32_t end = seg->first_task + seg->local_tasks;
    struct host_loss loss = {.now = mu_now()};
    char name[80];
    struct mu_ctx *ctx;

    mu_core_host_name(core, host, name);
    if (why && !strcmp(why, MU_CORE_LEFT))
        snprintf(loss.text, sizeof loss.text, "%s has left the job", name);
    else
        snprintf(loss.text, sizeof loss.text, "%s is lost: %s", name, why ? why : "given up");
    if (mu_enter(core->m, &ctx))
        return;
    if (core->leader) {
        lose_run(ctx, seg->hosts[host].first_task, seg->hosts[host].num_tasks, &loss);
    } else {
        lose_run(ctx, 0, seg->first_task, &loss);
        lose_run(ctx, end, seg->num_tasks - end, &loss);
    }
    mu_exit(ctx);
}
