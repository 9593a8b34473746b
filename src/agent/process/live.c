/*
 * agent/process/live.c: a live elastic job: its epochs follow each other in one segment, and its tasks wait for them.
 *
 * The membership says which tasks there are to be, and the launcher sees to it that there are: a task that a pending
 * change asks for is started; one that is no member any more, and has no part in a change, is given time to leave, and
 * is then ended. Nothing of it is kept that a look at the membership would not tell again. Members that are lost leave
 * the membership without the launcher, as long as enough are left (segment/members_settle.c); where they do not, the
 * loss is the job's failure. A task that ends before it has joined is no live program: its end fails the job, or, of
 * one that was to come, the change.
 *
 * In a job of several hosts each host's launcher does so for its own tasks, by the mirror of the membership that it
 * has; what an end means the leader's decides, which hears of all. A host that is lost is the loss of its tasks.
 */
#include "agent/process/elastic.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <muster/membership.h>

#include "segment/members.h"

#define REPLACE_NS 60000000000u /* within which one that replaces another takes part */

/* It cannot be started, and why has been said. The others need not end for that: the change is over. */
static void comer_failed(struct mu_agent *agent, uint32_t task_id, uint64_t change)
{
    char why[120];

    if (mu_agent_follows(agent)) { /* the leader ends the job: a follower waits for no answer of it here */
        mu_agent_post(agent, MU_ON_END);
        mu_agent_tell_failed(agent);
        return;
    }
    agent->spawn_status = 0;
    snprintf(why, sizeof why, "task %u, which was to come, cannot be started", task_id);
    muster_membership_cancel(agent->muster, change, why);
}

static void live_start(struct mu_agent *agent, uint32_t task_id, uint64_t change)
{
    struct mu_agent_task *task = &agent->tasks[task_id];

    if (task->started && !task->ended)
        return;
    task->attempt += (uint32_t)task->started;
    mu_agent_elastic(agent)->leavers[task_id] = (struct mu_agent_leaver){.change = change};
    if (mu_agent_start_task(agent, task_id)) {
        comer_failed(agent, task_id, change);
        return;
    }
    agent->anew++;
    mu_components_started(agent, task_id, 1);
}

/* One that is no member: SIGTERM when its time to leave is over, SIGKILL when that is over once more. */
static void live_end(struct mu_agent *agent, uint32_t task_id, uint64_t now)
{
    struct mu_agent_leaver *leaver = &mu_agent_elastic(agent)->leavers[task_id];
    struct mu_agent_task *task = &agent->tasks[task_id];

    if (!leaver->end_at) {
        leaver->end_at = now + agent->options->grace_ns;
    } else if (now >= leaver->end_at) {
        kill(-task->pid, leaver->is_told ? SIGKILL : SIGTERM); /* not reaped: the group's number is its own */
        kill(-task->pid, SIGCONT);                             /* one that is stopped hears it, too */
        task->by_us = 1;
        leaver->end_at = now + agent->options->grace_ns;
        leaver->is_told = 1;
    }
}

static void live_settle(struct mu_agent *agent, uint32_t task_id, const struct mu_membership_copy *c, uint64_t now)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    uint8_t flags = c->rows[task_id].flags;

    if (flags & MU_IS_NEXT && !(flags & MU_IS_MEMBER))
        live_start(agent, task_id, c->head.change);
    if (!(flags & (MU_IS_NEXT | MU_IS_MEMBER)) && task->started && !task->ended)
        live_end(agent, task_id, now);
    else
        mu_agent_elastic(agent)->leavers[task_id].end_at = mu_agent_elastic(agent)->leavers[task_id].is_told = 0;
}

/* A process is dead, and not reaped yet: its number is free in a moment. */
static bool number_is_coming_free(const struct mu_agent *agent)
{
    for (uint32_t i = agent->first_task; i < mu_agent_tasks_end(agent); i++) {
        struct pollfd pfd = {.fd = agent->tasks[i].pidfd, .events = POLLIN};

        if (agent->tasks[i].started && !agent->tasks[i].ended && poll(&pfd, 1, 0) > 0)
            return true;
    }
    return false;
}

/* Tasks are missing: the lowest numbers that are free are to come, by one change: its outcome is as many as there are
 * to be. */
static void live_replace(struct mu_agent *agent, const struct mu_membership_copy *c)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    uint32_t left = agent->options->restarts - state->failures, missing = state->target - state->size, count = 0;
    int32_t *come;

    if (agent->options->elastic->on_failure != MU_AGENT_REPLACE || c->head.phase != MUSTER_PHASE_STEADY ||
        state->size >= state->target || state->failures >= agent->options->restarts || number_is_coming_free(agent))
        return;
    missing = missing < left ? missing : left;
    come = calloc(missing, sizeof *come);
    for (uint32_t i = 0; come && i < c->head.count && count < missing; i++) {
        if (c->rows[i].flags & MU_IS_MEMBER || (agent->tasks[i].started && !agent->tasks[i].ended) ||
            mu_agent_is_out_of_reach(agent, i))
            continue;
        come[count++] = (int32_t)i;
    }
    if (count && muster_membership_propose(agent->muster, come, count, NULL, NULL, 0, REPLACE_NS, NULL) == MUSTER_OK)
        state->failures += count;
    free(come);
}

void mu_agent_live_look(struct mu_agent *agent, uint64_t now)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    struct mu_membership_copy c;

    if (agent->phase != MU_PHASE_RUNNING || mu_agent_is_ending(agent) || agent->is_suspended)
        return;
    if (mu_membership_read(agent->segment, &c) == MUSTER_OK) {
        state->size = mu_membership_count(&c, MU_IS_MEMBER);
        if (c.head.epoch != state->epoch && c.head.outcome == MUSTER_OUTCOME_COMMITTED)
            state->target = state->size;
        state->epoch = c.head.epoch;
        for (uint32_t i = agent->first_task; i < c.head.count && i < mu_agent_tasks_end(agent); i++)
            live_settle(agent, i, &c, now);
        if (!mu_agent_follows(agent))
            live_replace(agent, &c);
    }
    mu_membership_done(&c);
}

/* What follows from the records, of other hosts' tasks too, before the membership is asked. */
static void live_follow(struct mu_agent *agent)
{
    struct mu_ctx *ctx;

    if (mu_enter(agent->muster, &ctx))
        return;
    mu_membership_follow(ctx);
    mu_exit(ctx);
}

void mu_agent_live_began(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_members head;
    uint64_t word;

    if (mu_membership_look(agent->segment, &head, &word) == MUSTER_OK)
        mu_agent_elastic(agent)->leavers[task_id] = (struct mu_agent_leaver){.change = head.change};
}

int mu_agent_live_without(struct mu_agent *agent, uint32_t first, uint32_t count, const char *why, uint64_t *ret_epoch,
                          uint32_t *ret_left)
{
    struct mu_membership_copy c;
    uint32_t members = 0, comers = 0;
    int goes_on;

    live_follow(agent);
    goes_on = mu_membership_read(agent->segment, &c) == MUSTER_OK;
    for (uint32_t i = first; goes_on && i < first + count && i < c.head.count; i++) {
        members += (c.rows[i].flags & MU_IS_MEMBER) != 0;
        comers += (c.rows[i].flags & (MU_IS_MEMBER | MU_IS_NEXT)) == MU_IS_NEXT;
    }
    if (goes_on) {
        if (comers)
            muster_membership_cancel(agent->muster, c.head.change, why);
        goes_on = !members;
        *ret_epoch = c.head.epoch;
        *ret_left = mu_membership_count(&c, MU_IS_MEMBER);
    }
    mu_membership_done(&c);
    return goes_on;
}

/* It was to come, and whatever its status is it has not: started again it would end again. */
static void comer_ended(struct mu_agent *agent, uint32_t task_id, uint64_t change)
{
    char name[120], words[256], why[400];

    mu_agent_task_name(agent, task_id, name, sizeof name);
    snprintf(why, sizeof why, "%s, which was to come, %s", name,
             mu_agent_words(agent, &agent->tasks[task_id], words, sizeof words));
    muster_membership_cancel(agent->muster, change, why);
}

void mu_agent_live_ended(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    struct mu_membership_copy c;
    uint8_t flags = MU_IS_MEMBER;
    uint32_t left = 0;
    uint64_t epoch = 0;
    char name[120], words[256];

    if (mu_agent_is_ending(agent) || mu_agent_follows(agent))
        return;
    live_follow(agent);
    if (mu_membership_read(agent->segment, &c) == MUSTER_OK) {
        flags = c.rows[task_id].flags;
        left = mu_membership_count(&c, MU_IS_MEMBER);
        epoch = c.head.epoch;
        if ((flags & (MU_IS_NEXT | MU_IS_MEMBER)) == MU_IS_NEXT &&
            mu_agent_elastic(agent)->leavers[task_id].change == c.head.change) /* else it was one that has left */
            comer_ended(agent, task_id, c.head.change);
    }
    mu_membership_done(&c);
    if (mu_launch_code(task->wait_status) == 0 || task->by_us)
        return;
    if (flags & MU_IS_MEMBER) {
        if (agent->root_cause < 0)
            agent->root_cause = (int32_t)task_id;
        return;
    }
    task->by_us = 1; /* its status is not the job's */
    mu_agent_task_name(agent, task_id, name, sizeof name);
    mu_agent_say("%s %s; epoch %llu goes on with %u task%s", name, mu_agent_words(agent, task, words, sizeof words),
                 (unsigned long long)epoch, left, left == 1 ? "" : "s");
}
