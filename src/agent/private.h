/*
 * agent/private.h: what the files of this room share.
 *
 * agent.c    the event loop and what it decides: failure, timeout, signals, the order of the end
 * attempt.c  starting again: the whole job, or one task
 * job.c      the segment, the observer's handle, the thread that waits for deaths
 * tasks.c    start the tasks, reap them, signal them
 * leftover.c after the last task: end what the tasks left behind
 * report.c   what is said on stderr
 * health.c   errors of GPUs (with health_watch.c, health_uses.c, health_words.c)
 * adopt.c    a job whose launcher has died
 * plan.c     --dry-run
 */
#ifndef MU_AGENT_PRIVATE_H
#define MU_AGENT_PRIVATE_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <uv.h>

#include <muster/task.h>

#include "agent/agent.h"
#include "agent/health.h"
#include "agent/metrics.h"
#include "launch/bind.h"
#include "launch/launch.h"
#include "task/task.h"

struct mu_agent_task {
    pid_t pid;
    int pidfd;
    int started, ended;
    int wait_status;
    int by_us; /* it ended after the launcher had begun to end the job */
    uint32_t app;
    uint32_t attempt;    /* how often it was started again, by itself or with the job */
    uint32_t restarts;   /* how often by itself */
    uint64_t restart_at; /* UINT64_MAX: not to be started again */
    char *err_path;      /* where its stderr goes; NULL: not to a file */
    uv_poll_t poll;      /* of an adopted task's pidfd */
};

enum mu_agent_phase {
    MU_AGENT_RUNNING,
    MU_AGENT_ENDING, /* SIGTERM sent, SIGKILL at kill_at */
    MU_AGENT_KILLING,
    MU_AGENT_NO_PHASE,
};

struct mu_agent {
    const struct mu_agent_options *options;
    char job[208], run_id[40], segment_text[280], topology_text[48];
    int topology_fd; /* for hwloc's tree, which the first task that asks fills in; only with its path above */

    struct muster_segment *segment;
    struct muster *muster;
    pthread_t watcher;
    int watching;
    struct mu_beat *beats; /* of each task; the watcher's */

    struct mu_agent_task *tasks;
    uint32_t num_tasks, running, waiting; /* waiting: to be started again */
    uint32_t attempt;                     /* of the whole job, from 0 */
    int any_started, adopted;
    int32_t root_cause; /* the task that failed first; -1: none */
    int root_said;
    int memory_said; /* that memory cannot be preferred */

    enum mu_agent_phase phase;
    uint64_t timeout_at, kill_at; /* UINT64_MAX: not set */
    uint64_t deadline;            /* of all attempts together; UINT64_MAX: none */
    int end_signal;               /* the signal that ended the job; 0: none */
    uint64_t interrupted_at;
    int told_to_end;       /* by a signal, whatever had ended the job before: it is not started again */
    int timed_out, broken; /* broken: the launcher itself cannot go on */
    int spawn_status;      /* 125 to 127 when a task could not be started; 0: all were */
    unsigned guard_restarts;
    uint64_t oom_kills; /* of the machine, when the tasks were started */

    uv_loop_t loop;
    uv_poll_t signals;
    uv_timer_t timer;
    int has_loop, signal_fd, null_fd;
    sigset_t mask_before, handled, defaults;
    struct rlimit files_before;
    struct mu_launch_guard *guard;
    struct mu_launch_output *output;
    struct mu_launch_feed *feed;
    int catch_err;  /* stderr passes through the launcher, though it needs no label */
    int catch_both; /* and stdout with it: they are one file */
    struct mu_launch_terminal terminal;
    struct mu_launch_env *envs; /* one an app */
    struct mu_metrics *metrics;
    struct mu_health *health;
    int gpu_failed; /* the root cause is a GPU's failure */
};

/* ---- agent.c ---- */
/* Signals, limits, the loop: what every agent needs. 0, or -1 with the reason said. */
int mu_agent_set_up_loop(struct mu_agent *agent);
/* One round of the loop: sleep until something happens, take signals, look at the clock. */
void mu_agent_turn(struct mu_agent *agent);
/* Serve the job's metrics, where that is asked for. 0, or -1 with the reason said. */
int mu_agent_serve_metrics(struct mu_agent *agent);
/* Stop the tasks, then ourselves; go on together. */
void mu_agent_suspend(struct mu_agent *agent);
void mu_agent_take_signals(struct mu_agent *agent);
/* The timeout, and the end of the grace. */
void mu_agent_check_clock(struct mu_agent *agent);
void mu_agent_close_loop(struct mu_agent *agent);
/* Send SIGTERM to all and set the time of SIGKILL; later calls change nothing. */
void mu_agent_begin_end(struct mu_agent *agent);
/* The guard has ended: start another, or end the job. */
void mu_agent_guard_died(struct mu_agent *agent);

/* ---- attempt.c ---- */
/* A task has ended badly: whether it will be started again by itself; if so, all is prepared and said. */
int mu_agent_task_again(struct mu_agent *agent, uint32_t task_id);
/* Start those whose time has come. */
void mu_agent_start_again(struct mu_agent *agent);
uint64_t mu_agent_next_start(const struct mu_agent *agent);
/* The job has ended: whether it is to be started again; if so, the time before it has passed. */
int mu_agent_job_again(struct mu_agent *agent);

/* ---- job.c ---- */
void mu_agent_name_job(struct mu_agent *agent);
/* Create the segment, and join it. 0, or -1 with the reason said. */
int mu_agent_open_job(struct mu_agent *agent);
/* Join the open segment as an observer: what opening the job ends with. */
int mu_agent_join_job(struct mu_agent *agent);
/* Start the thread that watches for deaths. Without it the pidfds alone must do. */
void mu_agent_watch_job(struct mu_agent *agent);
/* Mark the job closed and remove its name: this calls the watcher back, too. */
void mu_agent_remove_name(struct mu_agent *agent);
void mu_agent_close_job(struct mu_agent *agent);
/* The task that the segment says failed first, with its error; -1: none. */
int32_t mu_agent_first_error(struct mu_agent *agent, struct muster_error *ret_error);

/* ---- tasks.c ---- */
int mu_agent_start_tasks(struct mu_agent *agent);
int mu_agent_start_task(struct mu_agent *agent, uint32_t task_id);
/* Reap what has ended: tasks, adopted orphans, the guard. */
void mu_agent_reap(struct mu_agent *agent);
void mu_agent_signal_tasks(struct mu_agent *agent, int signal_number);
/* A stopped task that has our stdin may want the terminal. */
void mu_agent_check_stopped(struct mu_agent *agent);

/* ---- leftover.c ---- */
void mu_agent_end_leftovers(struct mu_agent *agent);

/* ---- report.c ---- */
/* What messages begin with; "muster run" until then. */
void mu_agent_call_me(const char *name);
/* Never blocks: what cannot be written now is kept. */
void mu_agent_write(const char *text, size_t len);
/* Write what was kept; `wait`: all of it, and keep nothing more. 1: something is left. */
int mu_agent_flush(int wait);
void mu_agent_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Name the root cause, once its task has ended. */
void mu_agent_say_root_cause(struct mu_agent *agent);
/* The end of a task's stderr, where the launcher has it. */
void mu_agent_say_tail(struct mu_agent *agent, uint32_t task_id);
/* "was killed by signal 11 (SIGSEGV): it touched memory that it may not". */
const char *mu_agent_words(const struct mu_agent *agent, const struct mu_agent_task *task, char *buffer, size_t size);
/* --report-bindings: where each task runs, as the kernel says; in a dry run, where it would. */
void mu_agent_print_bindings(const struct mu_agent *agent, FILE *out);
void mu_agent_say_bindings(struct mu_agent *agent);
void mu_agent_say_timeout(struct mu_agent *agent);
int mu_agent_exit_status(const struct mu_agent *agent);

#endif
