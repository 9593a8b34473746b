/*
 * agent/private.h: what the files of this room share.
 *
 * agent.c    the event loop and what it decides: failure, timeout, signals, the order of the end
 * job.c      the segment, the observer's handle, the thread that waits for deaths
 * tasks.c    start the tasks, reap them, signal them
 * report.c   what is said on stderr
 */
#ifndef MU_AGENT_PRIVATE_H
#define MU_AGENT_PRIVATE_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include <muster/task.h>

#include "agent/agent.h"
#include "launch/launch.h"
#include "task/task.h"

struct mu_agent_task {
    pid_t pid;
    int pidfd;
    int started, ended;
    int wait_status;
    int by_us; /* it ended after the launcher had begun to end the job */
};

enum mu_agent_phase {
    MU_AGENT_RUNNING,
    MU_AGENT_ENDING, /* SIGTERM sent, SIGKILL at kill_at */
    MU_AGENT_KILLING,
};

struct mu_agent {
    const struct mu_agent_options *options;
    char job[208], run_id[40], segment_text[280];

    struct muster_segment *segment;
    struct muster *muster;
    pthread_t watcher;
    int watching;
    struct mu_beat *beats; /* of each task; the watcher's */

    struct mu_agent_task *tasks;
    uint32_t started, running;
    int32_t root_cause; /* the task that failed first; -1: none */
    int root_said;

    enum mu_agent_phase phase;
    uint64_t timeout_at, kill_at; /* UINT64_MAX: not set */
    int end_signal;               /* the signal that ended the job; 0: none */
    uint64_t interrupted_at;
    int timed_out, broken; /* broken: the launcher itself cannot go on */
    int spawn_status;      /* 125 to 127 when a task could not be started; 0: all were */
    unsigned guard_restarts;

    int epoll_fd, signal_fd, null_fd;
    sigset_t mask_before, handled, defaults;
    struct rlimit files_before;
    struct mu_launch_guard *guard;
    struct mu_launch_relay *relay;
    struct mu_launch_terminal terminal;
    struct mu_launch_env env;
};

/* Values of epoll events that are not task ids. */
#define MU_AGENT_EVENT_SIGNAL UINT32_MAX
#define MU_AGENT_EVENT_GUARD  (UINT32_MAX - 1)

/* ---- job.c ---- */
void mu_agent_name_job(struct mu_agent *agent);
int mu_agent_open_job(struct mu_agent *agent);
/* Mark the job closed and remove its name: this calls the watcher back, too. */
void mu_agent_remove_name(struct mu_agent *agent);
void mu_agent_close_job(struct mu_agent *agent);
/* The task that the segment says failed first, with its error; -1: none. */
int32_t mu_agent_first_error(struct mu_agent *agent, struct muster_error *ret_error);

/* ---- tasks.c ---- */
int mu_agent_start_tasks(struct mu_agent *agent);
/* Reap what has ended: tasks, adopted orphans, the guard. */
void mu_agent_reap(struct mu_agent *agent);
void mu_agent_signal_tasks(struct mu_agent *agent, int signal_number);
/* A stopped task 0 may want the terminal. */
void mu_agent_check_stopped(struct mu_agent *agent);
/* After the last task: end what they left behind. */
void mu_agent_end_leftovers(struct mu_agent *agent);

/* ---- report.c ---- */
void mu_agent_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Name the root cause, once its task has ended. */
void mu_agent_say_root_cause(struct mu_agent *agent);
void mu_agent_say_timeout(struct mu_agent *agent);
int mu_agent_exit_status(const struct mu_agent *agent);

/* ---- agent.c ---- */
/* Send SIGTERM to all and set the time of SIGKILL; later calls change nothing. */
void mu_agent_begin_end(struct mu_agent *agent);
/* The guard has ended: start another, or end the job. */
void mu_agent_guard_died(struct mu_agent *agent);
/* A task has ended: decide what follows. */
void mu_agent_task_ended(struct mu_agent *agent, uint32_t task_id);

#endif
