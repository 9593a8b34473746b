/*
 * task/state.c: the task state machine. Every legal step is a row; what has no row is refused.
 *
 * Source: tensorflow.CoordinationService. Two rows differ from it on purpose: a task in error that leaves stays in
 * error (its record is the diagnosis; reset clears it), and an error never overwrites an earlier one.
 */
#include "task/state.h"

#include <stddef.h>

enum { ALWAYS = 1, IF_RECOVERABLE = 2 };

static const struct {
    uint8_t from, event, to, when;
} rows[] = {
    {MUSTER_TASK_DISCONNECTED, MU_EVENT_REGISTER, MUSTER_TASK_CONNECTED, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_UNREGISTER, MUSTER_TASK_DISCONNECTED, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_RESET, MUSTER_TASK_DISCONNECTED, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_REPORT, MUSTER_TASK_ERROR, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_DEATH, MUSTER_TASK_ERROR, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_SILENCE, MUSTER_TASK_ERROR, ALWAYS},
    {MUSTER_TASK_CONNECTED, MU_EVENT_CONFLICT, MUSTER_TASK_ERROR, ALWAYS},
    {MUSTER_TASK_ERROR, MU_EVENT_REGISTER, MUSTER_TASK_CONNECTED, IF_RECOVERABLE},
    {MUSTER_TASK_ERROR, MU_EVENT_RESET, MUSTER_TASK_DISCONNECTED, ALWAYS},
};

int mu_task_next(enum muster_task_state state, enum mu_task_event event, int recoverable)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].from == state && rows[i].event == event)
            return rows[i].when == ALWAYS || recoverable ? rows[i].to : -1;
    return -1;
}

static const char *name_pick(const char *const *names, size_t count, size_t i)
{
    return i < count && names[i] ? names[i] : "?";
}

const char *mu_task_state_name(enum muster_task_state state)
{
    static const char *const names[] = {
        [MUSTER_TASK_DISCONNECTED] = "DISCONNECTED",
        [MUSTER_TASK_CONNECTED] = "CONNECTED",
        [MUSTER_TASK_ERROR] = "ERROR",
    };

    return name_pick(names, sizeof names / sizeof names[0], (size_t)state);
}

const char *mu_task_event_name(enum mu_task_event event)
{
    static const char *const names[] = {
        [MU_EVENT_REGISTER] = "registers",    [MU_EVENT_UNREGISTER] = "leaves", [MU_EVENT_RESET] = "is reset",
        [MU_EVENT_REPORT] = "reports",        [MU_EVENT_DEATH] = "dies",        [MU_EVENT_SILENCE] = "falls silent",
        [MU_EVENT_CONFLICT] = "is contested",
    };

    return name_pick(names, sizeof names / sizeof names[0], (size_t)event);
}

const char *mu_task_cause_name(enum muster_cause cause)
{
    static const char *const names[] = {
        [MUSTER_CAUSE_NONE] = "none",           [MUSTER_CAUSE_REPORTED] = "reported",
        [MUSTER_CAUSE_DIED] = "died",           [MUSTER_CAUSE_HEARTBEAT] = "heartbeat",
        [MUSTER_CAUSE_RESTARTED] = "restarted", [MUSTER_CAUSE_EXITED] = "exited",
        [MUSTER_CAUSE_SERVICE] = "service",
    };

    return name_pick(names, sizeof names / sizeof names[0], (size_t)cause);
}
