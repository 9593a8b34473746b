/*
 * agent/hosts/talk.h: what the agents of a job say to each other, as kinds of bridge/core/control.h's messages.
 *
 * The leader's agent (host 0) decides; the others tell it what happens to their tasks and do as they are told. Numbers
 * are packed as base/pack.h does it. To an agent that took a dead one's place (MU_CONTROL_ANOTHER) each tells anew how
 * things stand, so what comes twice must do no harm.
 */
#ifndef MU_AGENT_HOSTS_TALK_H
#define MU_AGENT_HOSTS_TALK_H

#include "base/pack.h"

enum mu_agent_talk {
    /* to the leader */
    MU_TALK_STARTED = 1, /* u32 first task, u32 how many, u32 pid of each: they have been started, or one again */
    MU_TALK_ENDED = 2,   /* u32 task, u32 wait status, u8 ended by its agent, text: how, in words */
    MU_TALK_FAILED = 3,  /* u32 exit status: a task could not be started, or its agent cannot go on */
    MU_TALK_DONE = 4,    /* u32 how many: its last task has ended; of so many it has said that they have */
    MU_TALK_TOLD = 5,    /* u32 signal: somebody wants the job to end */
    MU_TALK_GONE = 6,    /* u32 task, u8 it is in error, text: it has ended, and nobody knows how */
    MU_TALK_STOPPED = 7, /* its tasks are stopped, and it will not mind our silence until we go on */
    MU_TALK_SERVES = 8,  /* u8 what, text: what it serves to clients, as that stands in its key */
    MU_TALK_SEES = 9,    /* what its tasks do, as agent/hosts/status.h packs it; nothing: they all work */
    /* from the leader */
    MU_TALK_SIGNAL = 16, /* u32 signal: to every task; u16 rows, columns: of the terminal */
    MU_TALK_END = 17,    /* u8 SIGINT comes first: SIGTERM, and SIGKILL after the grace */
    MU_TALK_KILL = 18,   /* SIGKILL */
    MU_TALK_TAIL = 19,   /* u32 task: say the last lines that it wrote */
    MU_TALK_OVER = 20,   /* u32 exit status of the job: go; u8: come again, within u64 ns, for another attempt */
    MU_TALK_STOP = 21,   /* ^Z: stop the tasks, and say so: this agent will be stopped, too */
    MU_TALK_GO = 22,     /* it goes on, or was not stopped: so shall they */
    /* both ways */
    MU_TALK_COORD = 32, /* u32 word, u32 round, u32 task, u32 attempt, u32 code, text, text: mu_coord_told() */
    /* text: a round's name, u32 bytes, u32 where these begin, blob: to the leader one host's part, from it the answer
     */
    MU_TALK_GATHER = 33,
    MU_TALK_MPI = 35,        /* u8 'p', bytes: what tasks have published; u8 'w', text: the waiters, to the leader */
    MU_TALK_CHECKPOINT = 36, /* rows of a checkpoint, as checkpoint/hosts.c packs them */
    MU_TALK_PMIX = 34,       /* u8 more pieces follow, bytes: of a message of compat/pmix.h */
};

#endif
