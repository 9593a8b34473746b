/*
 * agent/phase.c: the table of agent/phase.h. Every legal step is a row; an event without a row is refused, and said.
 */
#include "agent/phase.h"

#include <stddef.h>

#include "agent/private.h"

static const struct mu_phase_row rows[] = {
    {MU_PHASE_NEW, MU_ON_BEGIN, MU_PHASE_MEETING, mu_agent_meet},
    {MU_PHASE_NEW, MU_ON_NOT_OPENED, MU_PHASE_PARTING, mu_agent_part},

    {MU_PHASE_MEETING, MU_ON_MET, MU_PHASE_OPENING, mu_agent_open},
    {MU_PHASE_MEETING, MU_ON_NOT_MET, MU_PHASE_PARTING, mu_agent_part},
    {MU_PHASE_MEETING, MU_ON_END, MU_PHASE_MEETING, mu_agent_end_meeting},
    {MU_PHASE_MEETING, MU_ON_KILL, MU_PHASE_MEETING, mu_agent_end_meeting},

    {MU_PHASE_OPENING, MU_ON_OPENED, MU_PHASE_RUNNING, NULL},
    {MU_PHASE_OPENING, MU_ON_NOT_OPENED, MU_PHASE_PARTING, mu_agent_part},
    {MU_PHASE_OPENING, MU_ON_NOT_STARTED, MU_PHASE_ENDING, mu_agent_fail_start},
    {MU_PHASE_OPENING, MU_ON_OVER, MU_PHASE_DONE, NULL}, /* another may adopt the job: nothing of it is ended */

    {MU_PHASE_RUNNING, MU_ON_END, MU_PHASE_ENDING, mu_agent_end_tasks},
    {MU_PHASE_RUNNING, MU_ON_KILL, MU_PHASE_KILLING, mu_agent_kill_tasks},
    {MU_PHASE_RUNNING, MU_ON_ENDED, MU_PHASE_PARTING, mu_agent_part},

    {MU_PHASE_ENDING, MU_ON_END, MU_PHASE_ENDING, NULL},
    {MU_PHASE_ENDING, MU_ON_KILL, MU_PHASE_KILLING, mu_agent_kill_tasks},
    {MU_PHASE_ENDING, MU_ON_ENDED, MU_PHASE_PARTING, mu_agent_part},

    {MU_PHASE_KILLING, MU_ON_END, MU_PHASE_KILLING, NULL},
    {MU_PHASE_KILLING, MU_ON_KILL, MU_PHASE_KILLING, mu_agent_kill_tasks},
    {MU_PHASE_KILLING, MU_ON_ENDED, MU_PHASE_PARTING, mu_agent_part},

    /* From here on there are no tasks: what these two change is how long the rest is waited for. */
    {MU_PHASE_PARTING, MU_ON_END, MU_PHASE_PARTING, mu_agent_end_tasks},
    {MU_PHASE_PARTING, MU_ON_KILL, MU_PHASE_PARTING, mu_agent_kill_tasks},
    {MU_PHASE_PARTING, MU_ON_PARTED, MU_PHASE_STOPPING, mu_agent_stop},

    {MU_PHASE_STOPPING, MU_ON_END, MU_PHASE_STOPPING, mu_agent_end_tasks},
    {MU_PHASE_STOPPING, MU_ON_KILL, MU_PHASE_STOPPING, mu_agent_kill_tasks},
    {MU_PHASE_STOPPING, MU_ON_STOPPED, MU_PHASE_SWEEPING, mu_agent_sweep},

    {MU_PHASE_SWEEPING, MU_ON_END, MU_PHASE_SWEEPING, mu_agent_end_tasks},
    {MU_PHASE_SWEEPING, MU_ON_KILL, MU_PHASE_SWEEPING, mu_agent_kill_tasks},
    {MU_PHASE_SWEEPING, MU_ON_SWEPT, MU_PHASE_PAUSING, mu_agent_pause},

    {MU_PHASE_PAUSING, MU_ON_BEGIN, MU_PHASE_MEETING, mu_agent_meet},
    {MU_PHASE_PAUSING, MU_ON_OVER, MU_PHASE_DONE, NULL},
    {MU_PHASE_PAUSING, MU_ON_END, MU_PHASE_DONE, NULL},
    {MU_PHASE_PAUSING, MU_ON_KILL, MU_PHASE_DONE, NULL},
};

const struct mu_phase_row *mu_phase_row(enum mu_agent_phase phase, enum mu_agent_event event)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].phase == phase && rows[i].event == event)
            return &rows[i];
    return NULL;
}

const char *mu_agent_phase_name(enum mu_agent_phase phase)
{
    static const char *const names[MU_PHASE_COUNT] = {
        [MU_PHASE_NEW] = "NEW",         [MU_PHASE_MEETING] = "MEETING",   [MU_PHASE_OPENING] = "OPENING",
        [MU_PHASE_RUNNING] = "RUNNING", [MU_PHASE_ENDING] = "ENDING",     [MU_PHASE_KILLING] = "KILLING",
        [MU_PHASE_PARTING] = "PARTING", [MU_PHASE_STOPPING] = "STOPPING", [MU_PHASE_SWEEPING] = "SWEEPING",
        [MU_PHASE_PAUSING] = "PAUSING", [MU_PHASE_DONE] = "DONE",
    };

    return names[phase];
}

const char *mu_agent_event_words(enum mu_agent_event event)
{
    static const char *const words[MU_ON_COUNT] = {
        [MU_ON_BEGIN] = "an attempt begins",
        [MU_ON_MET] = "the hosts have met",
        [MU_ON_NOT_MET] = "the hosts have not met",
        [MU_ON_OPENED] = "the job is open",
        [MU_ON_NOT_OPENED] = "the job cannot be opened",
        [MU_ON_NOT_STARTED] = "a task cannot be started",
        [MU_ON_END] = "the job is to end",
        [MU_ON_KILL] = "the job is to be killed",
        [MU_ON_ENDED] = "the tasks have ended",
        [MU_ON_PARTED] = "the hosts have parted",
        [MU_ON_STOPPED] = "the services have stopped",
        [MU_ON_SWEPT] = "nothing is left behind",
        [MU_ON_OVER] = "the job is over",
    };

    return words[event];
}
