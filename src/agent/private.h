/*
 * agent/private.h: what the files of this room share.
 *
 * say.c      what is said on stderr; tell.c: hosts and tasks by name, and how one agent tells another: the lowest
 * event.c    events that are posted, and how a task is condemned
 * phase.c    the phases of a job's life, and what each event does in each
 * life.c     the one loop, and what is done when a phase begins
 * run.c, serve.c, adopt.c   `muster run`, `muster serve`, `muster agent --adopt`: how each opens the job
 * agent.c    what every launcher needs: limits, the loop's turn; and its taking down
 * signals.c  signals; suspend.c: ^Z; sentry.c: the guard
 * attempt.c  starting again: the whole job, or one task; elastic.c: with another number of tasks
 * job.c      the segment, the observer's handle, the thread that waits for deaths
 * tasks.c    start the tasks, reap them, signal them
 * stdio.c    what a task's 0, 1 and 2 are; deferred.c: when the thread that relays output starts
 * leftover.c after the last task: end what the tasks left behind
 * report.c   what people are told of the job, and its exit status; error_file.c: what tasks leave that raised
 * plan.c     --dry-run
 *
 * The components (component.h), as components.c lists them:
 *
 * job.c      the observer
 * hosts.c    other hosts (with meet.c, mail.c, orders.c, lead.c, rsh.c, follow.c, news.c, rejoin.c, stay.c)
 * exposition.c  what Prometheus is told (in metrics/: metrics.c, connection.c, address.c, text.c; rpc/http.c)
 * coord.c, grpc.c  the engine, which the servers of clients ask; the coordination service for JAX and TensorFlow
 * tcpstore.c PyTorch's store; mindspore.c, ray.c: schedulers of MindSpore and Ray
 * notes.c    what is served where, for people; workers.c: workers beside the tasks; session.c: TensorFlow's master
 * mpi.c      PMI-1 for the tasks that are MPI programs (with mpi/wait.c, mpi/folder.c, mpi/unserved.c)
 * pmix.c     PMIx for the tasks, by libpmix
 * health.c   errors of GPUs (with health/watch.c, health/uses.c, health/words.c)
 * status.c   what another host's tasks do and wait for; checkpoints.c: what its tasks have saved
 * gather_agent.c  what all hosts give, put together (gather.c, pieces.c)
 * checkpoint/keep.c  checkpoints on a disk (in checkpoint/: disk.h, writer.c)
 */
#ifndef MU_AGENT_PRIVATE_H
#define MU_AGENT_PRIVATE_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <uv.h>

#include <muster/task.h>

#include "base/account.h"
#include "agent/agent.h"
#include "agent/component.h"
#include "agent/serve/gather.h"
#include "agent/health/health.h"
#include "agent/hosts/hosts.h"
#include "agent/launching.h"
#include "agent/metrics/metrics.h"
#include "agent/phase.h"
#include "agent/hosts/talk.h"
#include "compat/pmi1.h"
#include "launch/binding/bind.h"
#include "launch/launch.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { MU_AGENT_MPI_PLACES = 5 }; /* variables that name a folder for Open MPI and libpmix */
#define MU_AGENT_NOTE 220u        /* bytes that say it */

struct mu_agent_task {
    pid_t pid;
    int pidfd;
    int started, ended;
    int wait_status;
    int verdict; /* a wait status that counts instead of its process's; 0: none */
    int by_us;   /* it ended after the launcher had begun to end the job */
    uint32_t app;
    uint32_t attempt;    /* how often it was started again, by itself or with the job */
    uint32_t restarts;   /* how often by itself */
    uint64_t restart_at; /* UINT64_MAX: not to be started again */
    char *err_path;      /* where its stderr goes; NULL: not to a file */
    char *error;         /* the exception that it ended by, as it has written itself; NULL: nothing is known */
    struct timespec raised_at;
    char *words;    /* how it ended, as another host's agent or a judge says; NULL: as wait_status has it */
    uv_poll_t poll; /* of an adopted task's pidfd */
};

enum mu_agent_force { MU_FORCE_NONE, MU_FORCE_TERM, MU_FORCE_KILL }; /* by which the job has been told to end */
enum mu_sweep_step { MU_SWEEP_WAIT, MU_SWEEP_TERM, MU_SWEEP_KILL };  /* of what the tasks left behind */

struct mu_agent {
    const struct mu_agent_options *options;
    const struct mu_component *const *components;
    unsigned num_components; /* that have been opened */
    void *states[MU_COMPONENT_COUNT];
    char job[208], title[208]; /* its name here, where its segment is, and everywhere */
    char run_id[40], segment_text[280], topology_text[48];
    int topology_fd; /* for hwloc's tree, which the first task that asks fills in; only with its path above */

    struct mu_account clients; /* memory that is held for them, by all servers */
    struct muster_segment *segment;
    struct muster *muster; /* NULL also while nobody has joined, see mu_agent_be_there() */

    struct mu_agent_task *tasks;
    uint32_t num_tasks;               /* of all hosts */
    uint32_t first_task, local_tasks; /* of this one */
    uint32_t running, waiting;        /* here; waiting: to be started again */
    uint32_t attempt, next_tasks;     /* of the whole job, from 0; of the one behind it, 0: as many */
    uint64_t anew;                    /* tasks that later attempts have started */
    int any_started, adopted;
    int32_t root_cause; /* the task that failed first; -1: none */
    int root_said;
    uint64_t failures; /* processes of tasks that ended badly by themselves */

    enum mu_agent_phase phase;
    uint32_t events;      /* posted, not yet dispatched: a bit each */
    uint64_t phase_until; /* the phase looks again at this time; UINT64_MAX: when something happens */
    enum mu_agent_force force;
    enum mu_sweep_step sweep;
    uint64_t sweep_until;                    /* the step's end */
    bool (*is_over)(struct mu_agent *agent); /* the job, though no task of the launcher's says so; NULL: tasks say it */
    enum mu_agent_event (*open)(struct mu_agent *agent); /* make an attempt's job: what has come of it */
    uint64_t timeout_at, term_at, kill_at;               /* UINT64_MAX: not set */
    uint64_t give_up_at;      /* with the end begun, on the next host without an agent; UINT64_MAX: not set */
    uint64_t suspend_until;   /* other hosts are to say until then that they have stopped; UINT64_MAX: nothing */
    pid_t suspend_owner;      /* gets the terminal back afterwards; 0: nobody had it */
    _Atomic int is_suspended; /* process-local, a follower's: its tasks need not beat; deaths_watch() looks */
    uint64_t deadline;        /* of all attempts together; UINT64_MAX: none */
    int end_signal;           /* the signal that ended the job; 0: none */
    int is_interrupted;       /* the job ends by SIGINT, here or at another host: the tasks get that before SIGTERM */
    uint64_t interrupted_at;
    int told_to_end;       /* by a signal, whatever had ended the job before: it is not started again */
    int timed_out, broken; /* broken: the launcher itself cannot go on */
    int gave_up;           /* a host: whether its tasks live is not known */
    int lost_output;       /* another host's agent could not write what its tasks wrote, and has said so */
    int spawn_status;      /* 125 to 127 when a task could not be started; 0: all were */

    uv_loop_t loop;
    uv_poll_t signals;
    uv_timer_t timer;
    int has_loop, signal_fd;
    struct mu_agent_launching launching;
    struct mu_metrics *metrics;
    unsigned stopping;                 /* services that have been told to stop, and have not */
    mu_agent_ready_fn ready;           /* of `muster serve` */
    int served_all;                    /* with --once: all tasks have come and gone */
    struct mu_launch_orphans *orphans; /* what one that adopts has found */
    struct mu_health *health;
    int gpu_failed;                 /* the root cause is a GPU's failure */
    struct mu_agent_bridge *bridge; /* to the other hosts; NULL: there are none */
    struct mu_agent_stays *stays;   /* those of them that stay from one attempt to the next; NULL: none */
    struct mu_agent_pmix *pmix;     /* NULL: it is not served */
};

static inline bool mu_agent_has_task(const struct mu_agent *agent, uint32_t task_id)
{
    return task_id - agent->first_task < agent->local_tasks;
}
static inline uint32_t mu_agent_tasks_end(const struct mu_agent *agent)
{
    return agent->first_task + agent->local_tasks;
}
/* The job has been told to end, or is about to be. */
static inline bool mu_agent_is_ending(const struct mu_agent *agent)
{
    return agent->force != MU_FORCE_NONE || (agent->events & (1u << MU_ON_END | 1u << MU_ON_KILL)) != 0;
}
/* `muster serve`: there are no tasks of its own. */
static inline int mu_agent_only_serves(const struct mu_agent *agent)
{
    return !agent->adopted && agent->options->num_apps == 0;
}
/* Something is served to clients. */
static inline bool mu_agent_has_coord(const struct mu_agent *agent)
{
    return agent->options->grpc || agent->options->tcpstore;
}
/* Another host's agent decides. */
static inline bool mu_agent_follows(const struct mu_agent *agent)
{
    return agent->options->hosts && agent->options->hosts->node > 0;
}
/* This one does, for others. */
static inline bool mu_agent_leads(const struct mu_agent *agent)
{
    return agent->options->hosts && agent->options->hosts->node == 0;
}

/* ---- life.c ---- */
/* Something has happened: it is acted upon when the work in hand is done. */
void mu_agent_post(struct mu_agent *agent, enum mu_agent_event event);
/* The launcher itself cannot go on; the reason has been said. */
void mu_agent_break(struct mu_agent *agent);
/* Live the job's life to its end; first: MU_ON_BEGIN, or MU_ON_NOT_OPENED where the set-up failed. */
void mu_agent_live(struct mu_agent *agent, enum mu_agent_event first);
/* How `muster run` opens an attempt. */
enum mu_agent_event mu_agent_open_run(struct mu_agent *agent);

/* What phases do, called by the table in phase.c and by life.c: when they begin, and while they wait. */
void mu_agent_meet(struct mu_agent *agent);
void mu_agent_stop_meeting(struct mu_agent *agent);
void mu_agent_end_meeting(struct mu_agent *agent);
void mu_agent_open(struct mu_agent *agent);
void mu_agent_fail_start(struct mu_agent *agent);
void mu_agent_end_tasks(struct mu_agent *agent);
void mu_agent_kill_tasks(struct mu_agent *agent);
void mu_agent_part(struct mu_agent *agent);
void mu_agent_stop(struct mu_agent *agent);
void mu_agent_sweep(struct mu_agent *agent);
void mu_agent_pause(struct mu_agent *agent);
void mu_agent_look_meeting(struct mu_agent *agent);
void mu_agent_look_parting(struct mu_agent *agent);
void mu_agent_look_sweeping(struct mu_agent *agent);
void mu_agent_look_pausing(struct mu_agent *agent);

extern const struct mu_component mu_observer_component, mu_hosts_component, mu_metrics_component, mu_elastic_component,
    mu_coordination_component, mu_grpc_component, mu_tcpstore_component, mu_ray_component, mu_mindspore_component,
    mu_workers_component, mu_session_component, mu_notes_component, mu_mpi_component, mu_pmix_component,
    mu_health_component, mu_status_component, mu_gather_component, mu_checkpoints_component, mu_keep_component;

/* ---- exposition.c ---- */
/* Serve the job's metrics, where that is asked for. 0, or -1 with the reason said. */
int mu_agent_serve_metrics(struct mu_agent *agent);

/* ---- agent.c ---- */
int mu_agent_init(struct mu_agent *agent, const struct mu_agent_options *options,
                  const struct mu_component *const *components);
/* Signals, limits, the loop, the guard: what every launcher needs. 0, or -1 with the reason said. */
int mu_agent_set_up(struct mu_agent *agent);
/* Give back whatever was set up, after a failed set-up too. 1: output was lost. */
int mu_agent_tear_down(struct mu_agent *agent);
/* One round of the loop: sleep until something happens, take signals, look at the clock. */
void mu_agent_turn(struct mu_agent *agent);
/* A signal for all tasks here; of a new size their terminals have it before. */
void mu_agent_signal_sized(struct mu_agent *agent, int number, struct mu_launch_size size);
/* Labels may be in colour on this stream. */
int mu_agent_shows_colour(int fd);
/* Now that it is known how many tasks each host has. 0, or -1 with the reason said. */
int mu_agent_take_tasks(struct mu_agent *agent, uint32_t num_tasks, uint32_t first_task);
/* Take over the signals that the launcher acts on; take those that have come, and no more. */
void mu_agent_block_signals(struct mu_agent *agent);
void mu_agent_take_signals(struct mu_agent *agent);
/* The followers, or one, are to end their tasks as those of this host are ended. */
void mu_agent_tell_end(struct mu_agent *agent, uint32_t host);
/* A signal, here or at another host, ends the job. */
void mu_agent_end_by_signal(struct mu_agent *agent, int number);
/* Start the guard, before anything else of the job. 0, or -1 with the reason said. */
int mu_agent_start_guard(struct mu_agent *agent);
/* It has ended: start another, or end the job. */
void mu_agent_guard_died(struct mu_agent *agent);

/* ---- coord.c ---- */
/* Where clients' calls wait; NULL: nothing is served. */
struct mu_coord *mu_agent_coord(const struct mu_agent *agent);
/* Where clients on this machine find it: a listener at every address is here, too. */
void mu_agent_find_way(const char *address, char *way, size_t size);

/* ---- grpc.c, tcpstore.c, ray.c, session.c: where the tasks find what is served, where it listens; NULL: it is not
 * served ---- */
const char *mu_agent_grpc_way(const struct mu_agent *agent);
const char *mu_agent_grpc_address(const struct mu_agent *agent);
const char *mu_agent_tcpstore_way(const struct mu_agent *agent);
const char *mu_agent_tcpstore_address(const struct mu_agent *agent);
const char *mu_agent_ray_address(const struct mu_agent *agent);
const char *mu_agent_session_address(const struct mu_agent *agent);

/* ---- status.c ---- */
/* A follower tells the leader's agent from now on what its tasks do; not any more; and anew, for it may not know. */
void mu_agent_begin_status(struct mu_agent *agent);
void mu_agent_end_status(struct mu_agent *agent);
void mu_agent_tell_status_again(struct mu_agent *agent);
void mu_agent_forget_status(struct mu_agent *agent, uint32_t host);

/* ---- mpi.c ---- */
/* What components give a task: variables, and a socket; at first fd is -1, all else 0. */
struct mu_agent_gift {
    char text[4][64];
    char *vars[8 + MU_AGENT_MPI_PLACES]; /* a NULL behind them */
    char **pmix;                         /* instead of these, in one block; NULL: not */
    char served_text[6][96], *served[7]; /* besides, of services; a NULL behind them */
    int fd;                              /* the child's, which the server closes; -1: none */
};

/* MPI programs are served, by whatever protocol. */
int mu_agent_serves_mpi(const struct mu_agent *agent);
/* A dry run: once, then for each task: what it would be given, with words for what is not known before. 0, or -1 with
 * the reason said. */
int mu_agent_foresee_mpi(struct mu_agent *agent);
int mu_agent_imagine_mpi(struct mu_agent *agent, uint32_t task_id, uint32_t app, struct mu_agent_gift *ret_gift);

/* ---- mpi/wait.c ---- */
/* Tasks here wait: it is looked at, for people, from now on. `agent`: as the servers' arg. */
void mu_agent_mpi_waits(void *agent);
/* Now: before a report. */
void mu_agent_note_mpi_waits(struct mu_agent *agent);
void mu_agent_stop_mpi_waits(struct mu_agent *agent);
void mu_agent_tell_mpi(void *agent, const void *bytes, size_t len);
void mu_agent_hear_mpi(struct mu_agent *agent, uint32_t host, struct mu_unpack *u);

/* ---- mpi/folder.c ---- */
/* For an attempt, before its tasks are started. */
void mu_agent_name_mpi_folder(struct mu_agent *agent);
/* Once the tasks are on their way; and when one of them needs it, with words where it cannot be made. */
void mu_agent_begin_mpi_folder(struct mu_agent *agent);
void mu_agent_make_mpi_folder(struct mu_agent *agent);
void mu_agent_remove_mpi_folder(struct mu_agent *agent);
/* Its name, in the variables that say it. */
void mu_agent_name_mpi_places(struct mu_agent *agent);
/* NAME=FOLDER, of a command's tasks; how many. */
int mu_agent_list_mpi_places(struct mu_agent *agent, uint32_t app, char **ret_vars);

/* ---- mpi/unserved.c ---- */
/* Once the attempt's folder is there: a task that asks for PMIx is told how to have it. */
void mu_agent_watch_unserved(struct mu_agent *agent);
/* Whether one has: at a task's end, and at times. */
void mu_agent_look_unserved(struct mu_agent *agent);
uint64_t mu_agent_unserved_due(const struct mu_agent *agent);
void mu_agent_unserved_tick(struct mu_agent *agent, uint64_t now);

/* ---- error_file.c ---- */
/* Where the attempt's tasks write why they fail; NULL: nowhere. */
const char *mu_agent_error_folder(const struct mu_agent *agent);
/* What is in a file of theirs; for tests, too. */
char *mu_agent_error_text(const char *json);
/* What the task has written. */
void mu_agent_take_error(struct mu_agent *agent, uint32_t task_id);
/* Of this host's tasks that have written such a file, as `task_id` has, the first; `task_id`, where it has not. */
int32_t mu_agent_first_raised(const struct mu_agent *agent, int32_t task_id);

/* ---- pmix.c ---- */
/* What its tasks share; while it is served. */
const char *mu_agent_pmix_folder(const struct mu_agent *agent);
/* Whether that can be served to such a job. 0, or -1 with the reason said. */
int mu_agent_may_serve_pmix(const struct mu_agent *agent);
/* The same in a dry run. */
int mu_agent_imagine_pmix(char ***ret_vars);
/* The tasks that wait in it here; "": none, or it is not served. */
void mu_agent_describe_pmix(const struct mu_agent *agent, char *text, size_t size);

/* ---- attempt.c ---- */
/* A task has ended badly: whether it will be started again by itself; if so, all is prepared and said. */
int mu_agent_task_again(struct mu_agent *agent, uint32_t task_id);
/* Start the tasks that are due. */
void mu_agent_start_again(struct mu_agent *agent);
uint64_t mu_agent_next_start(const struct mu_agent *agent);
/* The job has ended: whether it is to be started again; if so, it pauses until then. */
int mu_agent_job_again(struct mu_agent *agent);

/* ---- job.c ---- */
void mu_agent_name_job(struct mu_agent *agent);
/* Create the segment, and join it. 0, or -1 with the reason said. */
int mu_agent_open_job(struct mu_agent *agent);
/* Join the open segment as an observer: what opening the job ends with. */
int mu_agent_join_job(struct mu_agent *agent);
/* In a job where the launcher has not joined yet: have it join, and know what has happened so far. */
int mu_agent_be_there(struct mu_agent *agent);
/* Start the thread that watches for deaths. Without it the pidfds alone must do. */
void mu_agent_watch_job(struct mu_agent *agent);
/* Mark the job closed and remove its name: this calls the watcher back, too. */
void mu_agent_remove_name(struct mu_agent *agent);
void mu_agent_close_job(struct mu_agent *agent);
/* End the job if its segment has been removed under it. */
void mu_agent_check_removed(struct mu_agent *agent);
/* The task that the segment says failed first, with its error; -1: none. */
int32_t mu_agent_first_error(struct mu_agent *agent, struct muster_error *ret_error);

/* ---- deferred.c ---- */
/* The tasks are on their way: whatever they write will be relayed. 0, or -1 with the reason said. */
int mu_agent_expect_output(struct mu_agent *agent);
void mu_agent_expect_no_output(struct mu_agent *agent);
/* mu_agent_watch_job() a little later, by the clock. */
void mu_agent_watch_soon(struct mu_agent *agent);

/* ---- stdio.c: 0; -1: what is said, or errno says why not ---- */
int mu_agent_set_input(struct mu_agent *agent, uint32_t task_id, int stdio[3]);
int mu_agent_set_output(struct mu_agent *agent, uint32_t task_id, int stdio[3]);

/* ---- tasks.c ---- */
/* What is served to the tasks, as their environment is to say it. */
struct mu_agent_served {
    const char *grpc, *tcpstore; /* where; NULL: not */
    int mpi;
};

/* Of each command, in agent->launching.envs. 0, or -1 with the reason said. */
int mu_agent_make_environments(struct mu_agent *agent, const struct mu_agent_served *served);
int mu_agent_start_tasks(struct mu_agent *agent);
int mu_agent_start_task(struct mu_agent *agent, uint32_t task_id);
/* It has failed with this code (0 counts as 1), whatever its process's end says, and is killed. */
void mu_agent_condemn(struct mu_agent *agent, uint32_t task_id, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reap what has ended: tasks, adopted orphans, the guard. */
void mu_agent_reap(struct mu_agent *agent);
void mu_agent_signal_tasks(struct mu_agent *agent, int signal_number);
/* A stopped task that has our stdin may want the terminal. */
void mu_agent_check_stopped(struct mu_agent *agent);

/* ---- meet.c ---- */
/* What the job calls this host; `hosts`: NULL: it is the only one. */
void mu_agent_own_name(const struct mu_agent_hosts *hosts, char *name, size_t size);
/* What the segment of one of several hosts is; NULL: there is one. */
struct mu_hosts_config *mu_agent_place(struct mu_agent *agent, struct muster_segment_config *config,
                                       struct mu_hosts_config *ret_place);
/* The segment is there. 0, or -1 with the reason said. */
int mu_agent_cross(struct mu_agent *agent);
/* To another agent (a follower: to the leader's); UINT32_MAX: to all. */
void mu_agent_tell(struct mu_agent *agent, uint32_t host, enum mu_agent_talk kind, const struct mu_pack *what);
/* Something is still awaited of other hosts: a follower tells that its own tasks have ended. */
bool mu_agent_is_awaiting(struct mu_agent *agent);
/* This host's tasks have been started, or one again. */
void mu_agent_tell_started(struct mu_agent *agent, uint32_t first, uint32_t count);
void mu_agent_close_bridge(struct mu_agent *agent);

/* This host's part in the tasks' environment. 0: there are no others. */
int mu_agent_set_part(const struct mu_agent *agent, struct mu_launch_job *job);

/* ---- rsh.c ---- */
/* Our address towards each host, for mu_agent_start_rsh(). Asks the resolver: not from the loop. */
void mu_agent_find_ways(struct mu_agent_bridge *bridge);
/* Where the leader listens, as HOST:PORT or :PORT. */
void mu_agent_find_door(const struct mu_agent_hosts *hosts, char *ret_address, size_t size);
int mu_agent_start_rsh(struct mu_agent *agent);
/* Standard input goes through the launcher: to every task, or to one on another host. */
bool mu_agent_needs_feed(const struct mu_agent *agent);
uint32_t mu_agent_num_rsh(const struct mu_agent *agent);
/* Those that pass standard input on are fed from now on. 0, or -1: errno says why. */
int mu_agent_feed_rsh(struct mu_agent *agent);
/* Signal those that have not ended, with 0 only count them: their number. */
uint32_t mu_agent_signal_rsh(struct mu_agent *agent, int number);

/* ---- lead.c ---- */
void mu_agent_lead(struct mu_agent *agent, uint32_t host, enum mu_agent_talk kind, struct mu_unpack *u);
void mu_agent_host_lost(struct mu_agent *agent, uint32_t host, const char *why);
/* The last lines of what a task of another host wrote: that host's agent says them. */
void mu_agent_ask_tail(struct mu_agent *agent, uint32_t task_id);
/* Tasks that run anywhere. */
uint32_t mu_agent_running_everywhere(const struct mu_agent *agent);
/* A child has ended, and is reaped here if it is one of the commands that started hosts: 1. */
int mu_agent_command_ended(struct mu_agent *agent, const siginfo_t *info);
/* The connection to a host's agent broke, or is there again. */
void mu_agent_host_moved(struct mu_agent *agent, uint32_t host, int is_up, const char *why);
/* The job ends, or one more agent has gone since: a host without one is awaited for a little while from now on, not for
 * the whole time in which another might take its place. A follower does so with the leader. */
void mu_agent_await_briefly(struct mu_agent *agent);
/* That time is over for some. */
void mu_agent_give_up_away(struct mu_agent *agent);
/* "task 5 (host b, pid 77)" */
const char *mu_agent_task_name(const struct mu_agent *agent, uint32_t task_id, char *buffer, size_t size);

/* ---- follow.c ---- */
void mu_agent_follow(struct mu_agent *agent, enum mu_agent_talk kind, struct mu_unpack *u);
void mu_agent_leader_lost(struct mu_agent *agent, const char *why);
void mu_agent_input_ended(struct mu_agent *agent);
void mu_agent_leader_moved(struct mu_agent *agent, int is_up, const char *why);
void mu_agent_tell_ended(struct mu_agent *agent, uint32_t task_id);
/* One that was adopted has ended: nobody knows how. */
void mu_agent_tell_gone(struct mu_agent *agent, uint32_t task_id);
/* How things stand here. */
void mu_agent_tell_all(struct mu_agent *agent);
void mu_agent_tell_done(struct mu_agent *agent);
void mu_agent_tell_failed(struct mu_agent *agent);
void mu_agent_tell_signal(struct mu_agent *agent, int number);

/* ---- rejoin.c ---- */
/* This host's agent can be replaced from now on: what its successor needs is noted. */
void mu_agent_note_part(struct mu_agent *agent);
/* Finds what the job's agent here was to those of the other hosts; 0, or -1 with the reason said. */
int mu_agent_take_part(struct mu_agent *agent, struct mu_agent_hosts *hosts, const struct mu_launch_orphans *orphans);
/* Be that: the bridge is there, and messages come. 0, or -1 with the reason said. */
int mu_agent_rejoin(struct mu_agent *agent);

/* ---- suspend.c ---- */
/* Stop the tasks, then ourselves; go on together. `owner` had the terminal, and stopped first; 0: nobody. */
void mu_agent_suspend(struct mu_agent *agent, pid_t owner);
/* An agent may have answered, or its time be over. */
void mu_agent_look_suspended(struct mu_agent *agent);
/* The job ends: it is not suspended any more. */
void mu_agent_drop_suspension(struct mu_agent *agent);
/* A follower's part. */
void mu_agent_told_to_stop(struct mu_agent *agent);
void mu_agent_told_to_go_on(struct mu_agent *agent);

/* ---- report.c ---- */
/* Never blocks: what cannot be written now is kept. */
void mu_agent_write(const char *text, size_t len);
/* Write what was kept; 0: what can be written now. Else wait for that, until then, and keep nothing more. 1: something
 * is left. */
int mu_agent_flush(uint64_t until_ns);
void mu_agent_print_word(const char *word, FILE *out); /* as a shell would have to be given it */
void mu_agent_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Name the root cause, once its task has ended. */
void mu_agent_say_root_cause(struct mu_agent *agent);
/* A sentence about a task of this host, with the last line of its stderr. False: that is not at hand. */
bool mu_agent_explain(struct mu_agent *agent, uint32_t task_id, const char *sentence);
/* The end of a task's stderr, where the launcher has it. */
void mu_agent_say_tail(struct mu_agent *agent, uint32_t task_id);
/* "was killed by signal 11 (SIGSEGV): it touched memory that it may not touch". */
const char *mu_agent_words(const struct mu_agent *agent, const struct mu_agent_task *task, char *buffer, size_t size);
/* --report-bindings: where each task runs, as the kernel says; in a dry run, where it would. */
void mu_agent_print_bindings(const struct mu_agent *agent, FILE *out);
void mu_agent_say_bindings(struct mu_agent *agent);
void mu_agent_say_timeout(struct mu_agent *agent);
int mu_agent_exit_status(const struct mu_agent *agent);
/* Where none ends the job: how many have failed, if they are several, and which task's exit status that is. */
void mu_agent_say_failures(const struct mu_agent *agent);

#endif
