/*
 * agent/phase.h: the life of a job as its launcher sees it: phases, events, and what each event does in each phase.
 *
 * `muster run`, `muster serve` and `muster agent --adopt` live the same life. They differ in how they open the job and
 * in which phases have something to wait for: a job without other hosts passes MEETING and PARTING at once, one that
 * adopts does not stop services that it does not have.
 *
 * Whatever happens (a task's end, a signal, a timer, another host's word) is posted as an event and dispatched by the
 * one loop in agent/life.c. Posting never acts at once, so no component ends the job in the midst of its own work.
 */
#ifndef MU_AGENT_PHASE_H
#define MU_AGENT_PHASE_H

struct mu_agent;

enum mu_agent_phase {
    MU_PHASE_NEW,      /* nothing has been made yet */
    MU_PHASE_MEETING,  /* the agents of several hosts come together */
    MU_PHASE_OPENING,  /* segment, services and tasks are being made */
    MU_PHASE_RUNNING,  /* the tasks run */
    MU_PHASE_ENDING,   /* the tasks have got SIGTERM, or SIGINT, and get SIGKILL when the grace is over */
    MU_PHASE_KILLING,  /* the tasks have got SIGKILL */
    MU_PHASE_PARTING,  /* no task is left; the leader waits for the commands that started other hosts */
    MU_PHASE_STOPPING, /* the services have no tasks left; other clients get their last answers */
    MU_PHASE_SWEEPING, /* what the tasks left behind is ended */
    MU_PHASE_PAUSING,  /* nothing of the attempt is left; the next one begins when its time has come */
    MU_PHASE_DONE,
    MU_PHASE_COUNT
};

/*
 * When several are pending the one that stands first here is dispatched first: a phase that has begun to open is open
 * before it ends, and the job ends before its last task has.
 */
enum mu_agent_event {
    MU_ON_BEGIN,       /* an attempt is to begin */
    MU_ON_MET,         /* all hosts have come, or there are no others */
    MU_ON_NOT_MET,     /* one has not, or the waiting was ended */
    MU_ON_OPENED,      /* all tasks have been started */
    MU_ON_NOT_OPENED,  /* segment or services could not be made: no task has been started */
    MU_ON_NOT_STARTED, /* a task could not be started, others may run */
    MU_ON_END,         /* the job is to end: a failure, a signal, the timeout, the leader's word */
    MU_ON_KILL,        /* now: the grace is over, a second ^C, the leader's word */
    MU_ON_ENDED,       /* nothing more is awaited of tasks, here or elsewhere */
    MU_ON_PARTED,      /* no command of another host is left */
    MU_ON_STOPPED,     /* no service is left */
    MU_ON_SWEPT,       /* no process of the job is left, or those that are cannot be ended */
    MU_ON_OVER,        /* the job is not started again */
    MU_ON_COUNT
};

struct mu_phase_row {
    enum mu_agent_phase phase;
    enum mu_agent_event event;
    enum mu_agent_phase next;
    void (*act)(struct mu_agent *agent); /* called in the next phase; NULL: nothing */
};

/* What the event does in that phase; NULL: it does not belong there. */
const struct mu_phase_row *mu_phase_row(enum mu_agent_phase phase, enum mu_agent_event event);
/* "RUNNING"; "the job is to end". */
const char *mu_agent_phase_name(enum mu_agent_phase phase);
const char *mu_agent_event_words(enum mu_agent_event event);

#endif
