/* task/state.h: the task state machine, as a table. */
#ifndef MU_TASK_STATE_H
#define MU_TASK_STATE_H

#include <muster/task.h>

/*
 * That a task's process has ended is no state of this machine but a flag of its record (MU_TASK_ENDED), which only the
 * launcher sets, in whatever state: a child of that process may be connected still. What nobody speaks for any more, it
 * being set, is over (mu_cluster_is_over()). Registering takes it back.
 */
enum mu_task_event {
    MU_EVENT_REGISTER,   /* with a new process behind it */
    MU_EVENT_UNREGISTER, /* muster_leave, ShutdownTask */
    MU_EVENT_RESET,
    MU_EVENT_REPORT,   /* an error of its own, or reported for it */
    MU_EVENT_DEATH,    /* the kernel's word */
    MU_EVENT_SILENCE,  /* no heartbeat within the timeout */
    MU_EVENT_CONFLICT, /* another incarnation speaks for it */
    MU_EVENTS,
};

/*
 * The state after the event, or -1 when the event is not possible there. `recoverable` matters only for registering
 * from ERROR.
 */
int mu_task_next(enum muster_task_state state, enum mu_task_event event, int recoverable);

/* "CONNECTED"; "registers". Also for the documentation and the command. */
const char *mu_task_state_name(enum muster_task_state state);
const char *mu_task_event_name(enum mu_task_event event);
const char *mu_task_cause_name(enum muster_cause cause);

#endif
