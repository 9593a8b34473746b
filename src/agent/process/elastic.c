/*
 * agent/process/elastic.c: a job that gets another number of tasks by starting all of it again.
 *
 * Programs that know nothing of it see what torchelastic's see: when a task is lost, or other numbers of tasks are
 * asked for, all are ended, and all are started again, with new ranks, a new size, and another segment, so that nothing
 * of the last epoch is met. An attempt is an epoch: its segment has a membership that says so (segment/members.h).
 *
 * A live job (live.c) is another matter: its epochs follow each other in one segment, and its programs wait for them.
 *
 * What is asked for (`muster scale`, or a task) is a change of that membership that is pending: the launcher looks ten
 * times a second, takes it, or rolls it back in words. One that is taken is not rolled back any more: it ends with this
 * segment, and the next segment's membership is its outcome. A launcher that is killed before that leaves a job that
 * ends; one that is stopped leaves the change pending until its time is over.
 */
#include "agent/process/elastic.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <muster/membership.h>

#include "segment/members.h"

#define LOOK_NS 100000000u /* as every wait */

uint32_t mu_agent_elastic_changes(const struct mu_agent *agent)
{
    return agent->options->elastic ? agent->attempt - mu_agent_elastic(agent)->failures : 0;
}

/* Where no number is said: as long as there are tasks to lose. */
uint32_t mu_agent_elastic_restarts(const struct mu_agent *agent)
{
    const struct mu_agent_elastic *elastic = agent->options->elastic;
    uint32_t spare = elastic->on_failure == MU_AGENT_SHRINK ? agent->num_tasks - elastic->least : 0;

    return agent->options->restarts ? agent->options->restarts : mu_agent_elastic(agent)->failures + spare;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

/* Why nothing can be changed now; NULL: it can. */
static const char *elastic_obstacle(const struct mu_agent *agent)
{
    for (uint32_t i = 0; i < agent->num_tasks; i++)
        if (agent->tasks[i].ended)
            return "a task has ended already, so the job is about to";
    return NULL;
}

static void change_take(struct mu_agent *agent, const struct mu_members *head)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    const char *why = elastic_obstacle(agent);
    uint32_t wanted = 0;
    struct mu_ctx *ctx;

    if (why) {
        muster_membership_cancel(agent->muster, head->change, why);
        return;
    }
    if (mu_enter(agent->muster, &ctx) != MUSTER_OK)
        return;
    if (mu_membership_take(ctx, head->change, &wanted) != MUSTER_OK) /* it was rolled back meanwhile */
        wanted = 0;
    mu_exit(ctx);
    if (!wanted)
        return;
    state->wanted = wanted;
    mu_agent_say("the job is to have %u task%s: ending the %u of epoch %u", wanted, wanted == 1 ? "" : "s",
                 agent->running, agent->attempt + 1);
    mu_agent_post(agent, MU_ON_END);
}

static void elastic_tick(struct mu_agent *agent, uint64_t now)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    struct mu_members head;
    uint64_t word;

    if (!state->look_at || now < state->look_at)
        return;
    state->look_at = now + LOOK_NS;
    if (mu_agent_is_live(agent)) {
        mu_agent_live_look(agent, now);
        return;
    }
    if (agent->phase != MU_PHASE_RUNNING || mu_agent_is_ending(agent) ||
        mu_membership_look(agent->segment, &head, &word) != MUSTER_OK || (word & ~MU_WORD_S) == state->word)
        return;
    state->word = word & ~MU_WORD_S;
    if (head.phase == MUSTER_PHASE_PREPARING)
        change_take(agent, &head);
}

static uint64_t elastic_due(const struct mu_agent *agent)
{
    return mu_agent_elastic(agent)->look_at ? mu_agent_elastic(agent)->look_at : UINT64_MAX;
}

/* ---- from one epoch to the next ---------------------------------------------------------------------------------- */

/* The first that failed, and those that were killed beside it; others may have failed because of these. */
static uint32_t lost_count(const struct mu_agent *agent)
{
    uint32_t lost = 0;

    for (uint32_t i = 0; i < agent->num_tasks; i++) {
        const struct mu_agent_task *task = &agent->tasks[i];
        int is_killed =
            task->ended && !task->by_us && WIFSIGNALED(task->wait_status) && WTERMSIG(task->wait_status) == SIGKILL;

        lost += (int32_t)i == agent->root_cause || is_killed;
    }
    return lost;
}

/* Tasks of the epoch after a failure; 0: there is none, and why has been said. */
static uint32_t size_after_failure(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    const struct mu_agent_elastic *elastic = options->elastic;
    uint32_t lost = lost_count(agent), left = lost < agent->num_tasks ? agent->num_tasks - lost : 0;

    if (elastic->on_failure == MU_AGENT_END)
        return 0;
    if (options->restarts && mu_agent_elastic(agent)->failures >= options->restarts) {
        mu_agent_say("the job ends: it was started again after %u failure%s already (--restarts)", options->restarts,
                     options->restarts == 1 ? "" : "s");
        return 0;
    }
    if (elastic->on_failure != MU_AGENT_SHRINK)
        return agent->num_tasks;
    if (left < elastic->least) {
        mu_agent_say("the job ends: %u of its %u tasks %s left, and --elastic asks for %u at least", left,
                     agent->num_tasks, left == 1 ? "is" : "are", elastic->least);
        return 0;
    }
    return left;
}

static void note_loss(struct mu_agent *agent)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    char name[120], words[256];

    mu_agent_task_name(agent, (uint32_t)agent->root_cause, name, sizeof name);
    mu_agent_words(agent, &agent->tasks[agent->root_cause], words, sizeof words);
    snprintf(state->why, sizeof state->why, "%s %s", name, words);
}

uint32_t mu_agent_elastic_again(struct mu_agent *agent, uint64_t *ret_delay_ns)
{
    struct elastic_state *state = mu_agent_elastic(agent);
    uint32_t size = state->wanted;

    *ret_delay_ns = 0;
    if (mu_agent_is_live(agent))
        return 0;
    if (agent->root_cause >= 0) {
        size = size ? size : size_after_failure(agent);
        if (!size)
            return 0;
        note_loss(agent);
        *ret_delay_ns = agent->options->restarts ? mu_agent_restart_delay(agent, state->failures) : 0;
        state->failures++;
    } else if (size) {
        snprintf(state->why, sizeof state->why, "%u tasks were asked for, instead of %u", size, agent->num_tasks);
    }
    state->wanted = 0;
    if (size)
        mu_agent_say("epoch %u: starting the job again with %u task%s", agent->attempt + 2, size, size == 1 ? "" : "s");
    return size;
}

/* ---- the component ----------------------------------------------------------------------------------------------- */

static int elastic_begin(struct mu_agent *agent)
{
    const struct mu_agent_elastic *elastic = agent->options->elastic;
    struct elastic_state *state = mu_agent_elastic(agent);
    struct mu_ctx *ctx;
    enum muster_status status;
    uint32_t size;

    if (!elastic)
        return 0;
    size = elastic->live ? agent->options->num_tasks : agent->num_tasks;
    state->size = state->target = size;
    state->epoch = 1;
    free(state->leavers);
    state->leavers = calloc(elastic->most, sizeof *state->leavers);
    if (!state->leavers) {
        mu_agent_say("out of memory");
        return -1;
    }
    status = mu_enter(agent->muster, &ctx);
    if (!status) {
        status = mu_membership_begin(
            ctx, &(struct mu_membership_set){.epoch = agent->attempt + 1,
                                             .size = size,
                                             .least = elastic->least,
                                             .most = elastic->most,
                                             .anew = !elastic->live,
                                             .shrinks = elastic->live && elastic->on_failure != MU_AGENT_END,
                                             .mirrors = mu_agent_follows(agent),
                                             .text = state->why});
        mu_exit(ctx);
    }
    if (status == MUSTER_ALREADY_EXISTS && mu_agent_follows(agent)) /* the leader has told already */
        status = MUSTER_OK;
    if (status) {
        mu_agent_say("the job has no membership: %s", muster_last_error());
        return -1;
    }
    state->word = 0;
    state->look_at = muster_after_ns(LOOK_NS);
    return 0;
}

static void elastic_part(struct mu_agent *agent)
{
    mu_agent_elastic(agent)->look_at = 0;
}

static void elastic_close(struct mu_agent *agent)
{
    free(mu_agent_elastic(agent)->leavers);
    mu_agent_elastic(agent)->leavers = NULL;
}

static void elastic_describe(const struct mu_agent *agent, char *text, size_t size)
{
    const struct elastic_state *state = mu_agent_elastic(agent);

    if (mu_agent_is_live(agent))
        snprintf(text, size, "- epoch %llu tasks %u/%u failures %u", (unsigned long long)state->epoch, state->size,
                 state->target, state->failures);
    else if (agent->options->elastic)
        snprintf(text, size, "- epoch %u tasks %u/%u failures %u", agent->attempt + 1, agent->num_tasks,
                 state->wanted ? state->wanted : agent->num_tasks, state->failures);
}

const struct mu_component mu_elastic_component = {
    .name = "elastic",
    .state_size = sizeof(struct elastic_state),
    .begin = elastic_begin,
    .due = elastic_due,
    .tick = elastic_tick,
    .part = elastic_part,
    .close = elastic_close,
    .describe = elastic_describe,
};
