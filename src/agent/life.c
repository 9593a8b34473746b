/*
 * agent/life.c: the one loop of a job's life, and what is done when a phase begins (agent/phase.h has the table).
 *
 * A turn of the loop sleeps until something happens, then the events that were posted are dispatched, ended processes
 * are reaped, and the phase looks whether what it waits for has come. The order of an attempt's end: the tasks, the
 * other hosts, the services, the tasks' descendants, the segment's name. Every path, that of a failed set-up too, goes
 * through these phases, so nothing that was made is forgotten.
 */

#include "agent/process/elastic.h"

#include "checkpoint/checkpoint.h"

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void events_dispatch(struct mu_agent *agent)
{
    while (agent->events && agent->phase != MU_PHASE_DONE) {
        enum mu_agent_event event = (enum mu_agent_event)__builtin_ctz(agent->events);
        const struct mu_phase_row *row = mu_phase_row(agent->phase, event);

        agent->events &= agent->events - 1;
        if (!row) {
            mu_agent_say("this is a fault of muster, please report it: '%s' in the phase %s; going on",
                         mu_agent_event_words(event), mu_agent_phase_name(agent->phase));
            continue;
        }
        if (row->next != agent->phase)
            agent->phase_until = UINT64_MAX;
        agent->phase = row->next;
        if (row->act)
            row->act(agent);
    }
}

/* ---- ending the tasks -------------------------------------------------------------------------------------------- */

void mu_agent_end_tasks(struct mu_agent *agent)
{
    if (agent->force != MU_FORCE_NONE)
        return;
    agent->force = MU_FORCE_TERM;
    agent->timeout_at = UINT64_MAX;
    for (uint32_t i = 0; agent->tasks && i < agent->num_tasks; i++) /* none is started again */
        agent->tasks[i].restart_at = UINT64_MAX;
    agent->waiting = 0;
    agent->kill_at = muster_after_ns(agent->options->grace_ns);
    if (agent->is_interrupted)
        agent->term_at = muster_after_ns(agent->options->grace_ns / 2);
    mu_components_ending(agent, 0);
    if (agent->options->grace_ns > 0)
        mu_agent_signal_tasks(agent, agent->is_interrupted ? SIGINT : SIGTERM);
}

void mu_agent_kill_tasks(struct mu_agent *agent)
{
    agent->force = MU_FORCE_KILL;
    agent->term_at = agent->kill_at = UINT64_MAX;
    mu_components_ending(agent, 1);
    mu_agent_signal_tasks(agent, SIGKILL);
}

void mu_agent_end_meeting(struct mu_agent *agent)
{
    mu_agent_end_tasks(agent);
    mu_agent_stop_meeting(agent);
}

void mu_agent_fail_start(struct mu_agent *agent)
{
    mu_agent_end_tasks(agent);
    mu_agent_tell_failed(agent);
}

/* ---- an attempt begins ------------------------------------------------------------------------------------------- */

enum mu_agent_event mu_agent_open_run(struct mu_agent *agent)
{
    if (mu_agent_open_job(agent) || mu_components_begin(agent))
        return MU_ON_NOT_OPENED;
    if (mu_agent_start_tasks(agent))
        return MU_ON_NOT_STARTED;
    mu_components_started(agent, agent->first_task, mu_agent_at_first(agent, agent->first_task, agent->local_tasks));
    return MU_ON_OPENED;
}

void mu_agent_open(struct mu_agent *agent)
{
    enum mu_agent_event event = agent->open(agent);

    agent->broken |= event == MU_ON_NOT_OPENED;
    mu_agent_post(agent, event);
}

/* ---- an attempt ends --------------------------------------------------------------------------------------------- */

/* No task is left, here or elsewhere. */
void mu_agent_part(struct mu_agent *agent)
{
    mu_launch_guard_part(agent->launching.guard, NULL); /* what is left is nobody else's to see to */
    agent->term_at = agent->kill_at = agent->timeout_at = UINT64_MAX;
    mu_components_part(agent);
}

void mu_agent_stop(struct mu_agent *agent)
{
    mu_components_stop(agent);
}

/* The descendants have ended, too. */
static void attempt_close(struct mu_agent *agent)
{
    mu_components_clear(agent);
    if (mu_agent_exit_status(agent) != 0)
        mu_launch_terminal_restore(&agent->launching.terminal);
    mu_launch_feed_stop(agent->launching.feed);
    agent->launching.feed = NULL;
    mu_agent_remove_name(agent);
    if (agent->adopted) { /* the guard of the launcher that has died is not needed any more */
        mu_checkpoint_remove(agent->run_id);
        mu_launch_guard_over(agent->orphans);
    }
}

void mu_agent_pause(struct mu_agent *agent)
{
    attempt_close(agent);
    if (!mu_agent_job_again(agent))
        mu_agent_post(agent, MU_ON_OVER);
}

/* ---- what each phase waits for ----------------------------------------------------------------------------------- */

static void tasks_look(struct mu_agent *agent)
{
    if (agent->is_over && agent->phase == MU_PHASE_RUNNING && !agent->is_over(agent))
        return;
    if (agent->phase == MU_PHASE_RUNNING)
        mu_agent_start_again(agent);
    if (!agent->adopted || !mu_agent_follows(agent)) { /* of one that was adopted its leader decides */
        mu_agent_say_root_cause(agent);
        if (agent->root_cause >= 0 && !agent->options->keep_going && !mu_agent_is_ending(agent))
            mu_agent_post(agent, MU_ON_END);
    }
    if (agent->running == 0 && agent->waiting == 0 && !mu_agent_is_awaiting(agent))
        mu_agent_post(agent, MU_ON_ENDED);
}

static void stopping_look(struct mu_agent *agent)
{
    if (agent->stopping == 0)
        mu_agent_post(agent, MU_ON_STOPPED);
}

static void phase_look(struct mu_agent *agent)
{
    static void (*const looks[MU_PHASE_COUNT])(struct mu_agent *) = {
        [MU_PHASE_MEETING] = mu_agent_look_meeting,
        [MU_PHASE_RUNNING] = tasks_look,
        [MU_PHASE_ENDING] = tasks_look,
        [MU_PHASE_KILLING] = tasks_look,
        [MU_PHASE_PARTING] = mu_agent_look_parting,
        [MU_PHASE_STOPPING] = stopping_look,
        [MU_PHASE_SWEEPING] = mu_agent_look_sweeping,
        [MU_PHASE_PAUSING] = mu_agent_look_pausing,
    };

    if (looks[agent->phase])
        looks[agent->phase](agent);
}

void mu_agent_live(struct mu_agent *agent, enum mu_agent_event first)
{
    mu_agent_post(agent, first);
    for (;;) {
        events_dispatch(agent);
        if (agent->phase == MU_PHASE_DONE)
            return;
        mu_agent_reap(agent);
        phase_look(agent);
        if (!agent->events)
            mu_agent_turn(agent);
    }
}
