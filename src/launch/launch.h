/*
 * launch/launch.h: starting the processes of a job and making sure that they end.
 *
 * Nothing here knows the segment, except the guard, which removes it. The agent (agent/) decides; this room does.
 */
#ifndef MU_LAUNCH_LAUNCH_H
#define MU_LAUNCH_LAUNCH_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <termios.h>

/* ---- spawn.c -------------------------------------------------------------------------------------------------- */

/* What a new process runs, and with what. */
struct mu_launch_image {
    const char *path; /* run this file; NULL: look for argv[0] in PATH */
    char *const *argv;
    char *const *envp;
    const char *directory; /* NULL: the caller's */
    int stdio[3];          /* become descriptors 0, 1, 2; -1: the caller's */
    int keep[2];           /* close-on-exec descriptors to be inherited all the same; -1: none */
    sigset_t mask;         /* signal mask and ... */
    sigset_t defaults;     /* ... signals put back to SIG_DFL */
    struct rlimit files;   /* RLIMIT_NOFILE */
    int survives;          /* 0: killed when the calling thread ends */

    const cpu_set_t *cpus; /* the processors that it may use; NULL: the caller's */
    size_t cpus_size;      /* bytes of the set */

    const unsigned long *nodes; /* memory nodes to be preferred, a bit each; NULL: the caller's policy */
    size_t nodes_bits;
    int *ret_memory_error; /* becomes 0, or why they are not preferred: then the process runs without; may be NULL */
};

/* Why a process could not be started: the step ("chdir", "exec") and its errno. */
struct mu_launch_failure {
    const char *step;
    int error;
};

/* 0, or -1 with *ret_failure. When it returns, the new process has exec'ed. The caller must not be multi-spawning. */
int mu_launch_spawn(const struct mu_launch_image *image, pid_t *ret_pid, int *ret_pidfd,
                    struct mu_launch_failure *ret_failure);

/* A process that is on its way to exec. So many at once; more are started as above. Each may keep 3 descriptors open.
 */
#define MU_LAUNCH_BEGUN_MAX 8
struct mu_launch_begun {
    pid_t pid;
    int pidfd;
    struct child_place *place; /* NULL: has exec'ed */
};

/* As mu_launch_spawn(), but without waiting; `image`, and all that it names, stays as it is until it is settled. */
int mu_launch_begin(const struct mu_launch_image *image, struct mu_launch_begun *ret_begun,
                    struct mu_launch_failure *ret_failure);
/* Until it has exec'ed, or failed; it is still to be settled. */
void mu_launch_await(const struct mu_launch_begun *begun);
/*
 * When it returns 0, the new process has exec'ed: it may be another than the one begun, which had failed. -1 with
 * *ret_failure: there is none. Nobody must reap children between begin and settle.
 */
int mu_launch_settle(const struct mu_launch_image *image, struct mu_launch_begun *begun,
                     struct mu_launch_failure *ret_failure);

/* ---- env.c ---------------------------------------------------------------------------------------------------- */

/* The environment of a job's tasks: the launcher's own, less what muster sets, plus what muster sets. */
struct mu_launch_env {
    char **vars; /* what is the same for all, with a NULL behind it */
    size_t count;
    char *const *own;         /* with values that differ from task to task: the job's */
    uint32_t first_task;      /* of this host */
    const char *error_folder; /* the job's */
    uint32_t changes;         /* likewise */
    int says_devices;         /* JAX is told each task's MUSTER_GPU_ORDINALS */
    int spares_proxy;         /* its no_grpc_proxy is ours */
    int is_allocated;         /* JAX would find this launcher's cluster, and take itself for that one's process */
    int has_coordinator;      /* JAX's is the user's own */
};

/* This host's part of a job of several; all 0: the job has this one alone. */
struct mu_launch_whereabouts {
    uint32_t node, nodes;
    uint32_t first_task, tasks;
    const char *master; /* where task 0 runs: an address or a name */
};

/* What is the same for all tasks of a command. `run_id`: 32 hex digits, the job's mark on every process of it. */
struct mu_launch_job {
    const char *job, *segment, *run_id;
    const char *title;    /* the job's name on all hosts */
    const char *topology; /* where hwloc's tree is shared; NULL: it is not */
    uint32_t num_tasks, app, restarts;
    uint32_t changes;        /* of its attempts: those that no failure has brought */
    uint32_t num_processors; /* that they may use together; 0: those that we may */
    int recoverable;
    int to_terminal;            /* what they write goes to a terminal */
    const char *grpc;           /* where the coordination service is; NULL: the job has none */
    const char *tcpstore;       /* where PyTorch's store is, "127.0.0.1:4711"; NULL: the job has none */
    uint16_t ports[2];          /* torch's MASTER_PORT, JAX's coordinator; 0: none to be had */
    char *const *env;           /* NAME=VALUE..., over the inherited; NULL: none */
    char *const *own;           /* NAME=..., of which each task has its own value; NULL: none */
    const char *const *dropped; /* names that are not inherited; NULL: none */
    const char *error_folder;   /* where each task may write why it fails, which stays as it is; NULL: nowhere */
    int serves_mpi;             /* tasks get variables of MPI's launchers: none is inherited */
    struct mu_launch_whereabouts part;
};

/* Ports (8 at most) that nobody has now: of 127.0.0.1, or of all addresses of this host. 0, or -1. */
int mu_launch_free_ports(uint16_t *ret_ports, int count, int anywhere);

/* Variables that muster sets: a user's --env may not name them. */
bool mu_launch_env_is_ours(const char *name, size_t len);
/* The same where the job has PyTorch's store. */
bool mu_launch_env_is_stores(const char *name, size_t len);
/* `job` NULL: only the inherited part. -1: out of memory; mu_launch_env_done() is due all the same. */
int mu_launch_env_init(struct mu_launch_env *env, char **base, const struct mu_launch_job *job);
/*
 * The array for exec of task `task_id` (its local id counts from this host's first) at its attempt, from 0: one block,
 * to be freed before `env` is. `own`: the task's values for job->own, the same names in the same order, which live
 * as long; NULL: the job's. `more`, `served`: what it has besides, which
 * lives as long; NULL: nothing. NULL: no memory.
 */
char **mu_launch_env_task(const struct mu_launch_env *env, uint32_t task_id, uint32_t attempt, char *const *own,
                          char *const *more, char *const *served);
/* The file of a task's attempt in such a folder. */
void mu_launch_error_path(const char *folder, uint32_t task_id, uint32_t attempt, char *path, size_t size);
/* What muster sets in such an array, a line each. */
void mu_launch_env_print(const struct mu_launch_env *env, char *const *vars, FILE *out);
void mu_launch_env_done(struct mu_launch_env *env);

/* ---- family.c ------------------------------------------------------------------------------------------------- */

/*
 * NAME=VALUE by which another launcher has told this process what it is, which says nothing true of its tasks.
 * `of_mpi`: also the names that launchers of MPI programs use.
 */
int mu_launch_family_told(const char *entry, int of_mpi);

/* ---- sweep.c -------------------------------------------------------------------------------------------------- */

/* Which processes are the job's: any of these. */
struct mu_launch_mark {
    const char *run_id;           /* MUSTER_RUN_ID=this stood in its environment at exec */
    pid_t parent;                 /* a child of this process, none of the pre-existing; 0: not asked */
    pid_t except;                 /* never this one */
    const char *spare;            /* nor one of this name; NULL: none */
    pid_t session;                /* in this session and ... */
    const volatile pid_t *groups; /* ... in one of these process groups (0: empty entry) */
    size_t num_groups;
};

/* Send `signal_number` to every process that bears the mark and may be signalled, the caller excepted; their number. */
size_t mu_launch_sweep(const struct mu_launch_mark *mark, int signal_number, pid_t *ret_first, char name[32]);

/* Kill all that bears the mark, what is made meanwhile too, in at most so many passes. */
void mu_launch_sweep_out(const struct mu_launch_mark *mark, int passes, int pause_ms);

/* Whether MUSTER_RUN_ID=`run_id` stood in the process's environment at exec. */
int mu_launch_bears_mark(pid_t pid, const char *run_id);

/* The process's parent; 0: not known. */
pid_t mu_launch_parent(pid_t pid);

/* Whether the process is stopped by a signal. */
bool mu_launch_is_stopped(pid_t pid);

/*
 * The children that the calling process has now are not the job's, nor looked for below: a process that became the
 * launcher by exec may have had some ("exec > >(tee log); exec muster run ..."). Known where the
 * kernel lists children. One that was reaped is to be forgotten: its number may be another's.
 */
void mu_launch_note_preexisting(void);
/* A child of the launcher is one from now on: it outlives the attempt. */
void mu_launch_note_preexisting_child(pid_t pid);
void mu_launch_forget_preexisting(pid_t pid);

/* Whether the calling thread has a child other than `except` and the pre-existing, dead or alive. */
bool mu_launch_has_children(pid_t except);

/* ---- guard.c -------------------------------------------------------------------------------------------------- */

/* A process beside the launcher that outlives it and cleans up after its death. */
struct mu_launch_guard;

/* Its name in /proc, and that of its table. "muster" is no part of it: 'pkill -9 muster' ends launchers, and what
 * cleans up after them must outlive that. */
#define MU_LAUNCH_GUARD_NAME "mu-guard"

/* What it guards, and how. */
struct mu_launch_guarded {
    const char *job, *run_id;
    uint32_t num_tasks;
    uint32_t num_commands; /* hosts, at most, that it starts by commands */
    int survive;           /* the tasks are to outlive the launcher */
    sigset_t mask;         /* the guard's */
    struct rlimit files;   /* the guard's RLIMIT_NOFILE */
};

/*
 * How this host's agent is known to those of the other hosts: what its successor needs. The key is in it: it lies in
 * the guard's table, which only processes of this user can open, as they could the agents themselves.
 */
struct mu_launch_role {
    uint32_t node, nodes;
    uint64_t incarnation[2];
    uint64_t timeout_ns; /* a silent host is lost; 0: the default */
    uint64_t adopt_ns;   /* within which somebody must adopt it */
    int latency;
    uint8_t key[32];
    char address[320]; /* where the leader listens, or is to be found */
    char name[64];     /* of this host */
    char job[208];     /* as the other hosts call it */
};

/* Start it: where it must be forked, the less memory we use by now the better. -1 with *ret_failure. */
int mu_launch_guard_start(const struct mu_launch_guarded *guarded, struct mu_launch_guard **ret_guard,
                          struct mu_launch_failure *ret_failure);
/* Before anything has a name that the guard removes: until no end of the launcher's process group ends it, too. */
void mu_launch_guard_await(struct mu_launch_guard *guard);
/* Before the first task begins: until the guard is a process that nothing takes for the launcher; another is started
 * where it could not be. Does not wait again. -1 with *ret_failure. */
int mu_launch_guard_settle(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure);
/* Task `task_id` has this process group (0: it has ended). */
void mu_launch_guard_task(struct mu_launch_guard *guard, uint32_t task_id, pid_t group);
/* So has the command that starts a host. It dies with the launcher, but what it has started in turn need not. */
void mu_launch_guard_command(struct mu_launch_guard *guard, uint32_t host, pid_t group);
/* From now on (NULL: no longer) this host is one of several, and its agent can be replaced. */
void mu_launch_guard_part(struct mu_launch_guard *guard, const struct mu_launch_role *part);
/* This folder, with all that lies in it, goes when the launcher is killed; NULL: none does. */
void mu_launch_guard_folder(struct mu_launch_guard *guard, const char *path);
/* So does the segment's file, if it is this one: said before that has its name. */
void mu_launch_guard_segment(struct mu_launch_guard *guard, dev_t device, ino_t file);
/* So does the socket at "unix:PATH" that nobody serves then: said before it is made, and again, as `made`, when it is:
 * from then on only that one goes. Any other address, or NULL: there is none. */
enum mu_launch_socket { MU_LAUNCH_SOCKET_GRPC, MU_LAUNCH_SOCKET_METRICS, MU_LAUNCH_SOCKETS };
void mu_launch_guard_socket(struct mu_launch_guard *guard, enum mu_launch_socket which, const char *address, int made);
/* Remove a folder for MPI's programs, and all that lies in it; what cannot be removed stays, and any other folder. */
void mu_launch_remove_folder(const char *path);
/* What the name of such a folder begins with: a job within the job must not take it for its user's. */
#define MU_LAUNCH_MPI_FOLDER "/mpi-muster-"
/* Its pid (0: none is running): the one child of the launcher that is not of the job. */
pid_t mu_launch_guard_pid(const struct mu_launch_guard *guard);
/* Wait for the dead guard; then another may be started. */
void mu_launch_guard_reap(struct mu_launch_guard *guard);
int mu_launch_guard_restart(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure);
/* main() of this executable where it is exec'ed as a guard: its words begin with MU_LAUNCH_GUARD_NAME. */
int mu_launch_guard_main(void);
/* Tell it to end: the launcher has cleaned up by itself. Does not wait. NULL is allowed, also below. */
void mu_launch_guard_dismiss(struct mu_launch_guard *guard);
/* Reap the dismissed guard. */
void mu_launch_guard_free(struct mu_launch_guard *guard);
/* The tasks of a job, as its guard knows them. */
struct mu_launch_orphans {
    pid_t launcher;
    int launcher_lives, survive;
    int adopted; /* an agent holds the lock that `fd` is for: it has adopted the job until it closes that */
    int fd;
    uint32_t num_tasks;
    char run_id[40];
    pid_t *pids; /* malloc()ed; 0: has ended, or was never started */
    int has_part;
    struct mu_launch_role part; /* of one of several hosts */
};
/* By the job's name, and what its segment says of its launcher and tasks. 0, or -1: no such guard of ours is here. */
int mu_launch_guard_find(const char *job, pid_t launcher, uint32_t num_tasks, struct mu_launch_orphans *ret_orphans);
/*
 * The processes of this host's tasks (0: has ended, or is not there), whether they have joined or not, as the guard
 * knows them that this launcher has. 0, or -1: no such guard of ours is here. Nothing is waited for or locked.
 */
int mu_launch_guard_tasks(const char *job, pid_t launcher, uint32_t num_tasks, pid_t *ret_pids);
/* The adopter has seen to the end of it: nobody else is waited for. */
void mu_launch_guard_over(const struct mu_launch_orphans *orphans);

/* ---- title.c -------------------------------------------------------------------------------------------------- */

/* For main(), before anything changes `environ`: where the process's words and variables lie. */
void mu_launch_title_init(char **argv);
/* In a forked process: to be shown as `name`, its command line as `name` and, as far as there is room, `subject`. */
void mu_launch_title_set(const char *name, const char *subject);

/* ---- pty.c ---------------------------------------------------------------------------------------------------- */

struct mu_launch_size {
    uint16_t rows, columns;
};

/* Of the terminal that the launcher has; else as the environment says, or what is usual. */
struct mu_launch_size mu_launch_size_here(void);
/* A terminal for a task to write to: ends[1] is the task's. As pipe2() with O_CLOEXEC; -1: errno says why. */
int mu_launch_pty_open(struct mu_launch_size size, int ends[2]);
/* By either end. */
void mu_launch_pty_resize(int fd, struct mu_launch_size size);

/* ---- output.c ------------------------------------------------------------------------------------------------- */

/* Copies the tasks' output to the launcher's, and to files, on a thread of its own. */
struct mu_launch_output;

struct mu_launch_output_options {
    int label;                  /* whole lines, each with "[task] " before it; else as it comes */
    int colour[3];              /* of the label on stdout, stderr */
    int both;                   /* what comes for stderr is stdout as well */
    int hidden;                 /* it is in files alone */
    int pty;                    /* the tasks write to terminals, of ... */
    struct mu_launch_size size; /* ... this size, less the label */
};

#define MU_LAUNCH_LINE_MAX   (1u << 20)
#define MU_LAUNCH_TAIL_LINES 20

/* -1: errno says why. */
int mu_launch_output_start(const struct mu_launch_output_options *options, struct mu_launch_output **ret_output);
/* Start the thread, if it does not run yet: until then what is written waits in the pipes. -1: errno says why. */
int mu_launch_output_go(struct mu_launch_output *output);
/* Before it runs: readable when there is something to do. mu_launch_output_look() does what needs no thread; 1: it is
 * needed, for something was written or is to be said. */
int mu_launch_output_fd(const struct mu_launch_output *output);
int mu_launch_output_look(struct mu_launch_output *output);
/* Of its terminals. */
void mu_launch_output_resize(struct mu_launch_output *output, struct mu_launch_size size);
/*
 * A pipe for a task's stdout (`out` 1) or stderr (2); the caller gives *ret_fd to the task, then closes it. What comes
 * is copied to `file`, too (-1: none), which is the stream's from then on. With options.pty a terminal instead.
 */
int mu_launch_output_add(struct mu_launch_output *output, uint32_t task_id, int out, int file, int *ret_fd);
/*
 * A pipe for what comes from another host for stdout or stderr: it is put through as it comes or, with `lines`, whole
 * lines at a time; it bears its labels already.
 */
int mu_launch_output_pass(struct mu_launch_output *output, uint32_t host, int out, int lines, int *ret_fd);
/*
 * Say the last lines of the task's stderr, once all that it wrote until now is copied. Does not wait. With a sentence
 * the last line alone is said, behind that, and again before the last lines when those are said. `is_host`: of what
 * came from a host. -1: there is no such stream, or no memory.
 */
int mu_launch_output_explain(struct mu_launch_output *output, uint32_t id, int is_host, const char *sentence);
/* There will be no more pipes: the thread ends when those that there are have ended. NULL is allowed, also below. */
void mu_launch_output_end(struct mu_launch_output *output);
/* Wait until every pipe has ended and all of it is written; free. 1: some could not be, and that has been said. -1:
 * it was not read until `until_ns` (UINT64_MAX: there is no such time), and the process is to end now. */
int mu_launch_output_finish(struct mu_launch_output *output, uint64_t until_ns);

/* ---- files.c -------------------------------------------------------------------------------------------------- */

struct mu_launch_file {
    const char *job, *host;
    uint32_t task_id, attempt;
    int out; /* 1, 2 */
};

/* 0, or -1 with what is wrong with the template: some of so many tasks, or attempts, would share a file. */
int mu_launch_files_check(const char *template, uint32_t num_tasks, uint32_t restarts, char *ret_why, size_t size);
/* stdout and stderr have files of their own. */
bool mu_launch_files_are_apart(const char *template);
/* malloc()ed; NULL: no memory. */
char *mu_launch_files_path(const char *template, const struct mu_launch_file *file);
/* An empty file and the folders above it; -1: errno says why. */
int mu_launch_files_open(char *path);

/* ---- tail.c --------------------------------------------------------------------------------------------------- */

/* The end of what a task wrote. */
struct mu_launch_tail {
    const char *text;
    size_t len;
    int cut; /* something was before it */
    uint32_t task_id;
    const char *what; /* "stderr", "output" */
    int is_passed;    /* from another host */
};
/* Its last lines, below what was `explained` of the task before (NULL: nothing) and a line that names the task;
 * malloc()ed. NULL: there are none. */
char *mu_launch_tail_text(const struct mu_launch_tail *tail, const char *explained, size_t *ret_len);
/* "SENTENCE: LAST LINE", the line as plain text; malloc()ed. NULL: no memory. *explained becomes a copy. */
char *mu_launch_tail_last(const struct mu_launch_tail *tail, const char *sentence, char **explained, size_t *ret_len);
/* mu_launch_tail_text() of a file's end. */
char *mu_launch_files_tail(const char *path, uint32_t task_id, const char *what, size_t *ret_len);

/* ---- feed.c --------------------------------------------------------------------------------------------------- */

/* Copies the launcher's standard input to every task, on a thread of its own. */
struct mu_launch_feed;

int mu_launch_feed_new(uint32_t num_tasks, struct mu_launch_feed **ret_feed);
/* One more task; the caller gives *ret_fd to it, then closes it. -1: errno says why. */
int mu_launch_feed_add(struct mu_launch_feed *feed, int *ret_fd);
/* One more, by a pipe that is there already, and the feed's from now on. */
void mu_launch_feed_take(struct mu_launch_feed *feed, int fd);
/* After the last one. */
int mu_launch_feed_start(struct mu_launch_feed *feed);
/* Close what is open still; free. NULL is allowed. */
void mu_launch_feed_stop(struct mu_launch_feed *feed);

/* ---- terminal.c ----------------------------------------------------------------------------------------------- */

/* Task 0 inherits stdin. When that is a terminal, the foreground passes to its process group at its first read. */
struct mu_launch_terminal {
    int active;  /* stdin is our controlling terminal */
    pid_t owner; /* the process group that we gave it to; 0: none */
    int warned;
    int has_mode;
    struct termios mode; /* when the launcher began */
};

void mu_launch_terminal_init(struct mu_launch_terminal *terminal);
/* `group` was stopped because it wanted the terminal. -1: it cannot have it (said once is enough: *terminal.warned). */
int mu_launch_terminal_give(struct mu_launch_terminal *terminal, pid_t group);
void mu_launch_terminal_take(struct mu_launch_terminal *terminal);
/* Its settings are again what they were, where we are in its foreground. */
void mu_launch_terminal_restore(const struct mu_launch_terminal *terminal);

/* ---- words.c -------------------------------------------------------------------------------------------------- */

/* "exited with status 3", "was killed by signal 11 (SIGSEGV, core dumped)". `wait_status` as from waitpid(). */
const char *mu_launch_words(int wait_status, char *buffer, size_t size);
enum mu_launch_oom { MU_LAUNCH_OOM_NOT, MU_LAUNCH_OOM_MAY, MU_LAUNCH_OOM };
/* Whether the kernel killed the process for want of memory; `before`: mu_launch_oom_kills() when it was started. */
enum mu_launch_oom mu_launch_oom_of(pid_t pid, uint64_t before);
/* What a wait status mostly means; NULL: its words say it all. */
const char *mu_launch_hint(int wait_status, enum mu_launch_oom oom);
/* How often the kernel has killed for want of memory since it started. */
uint64_t mu_launch_oom_kills(void);
/* 0 to 255: the exit code, or 128 + signal. */
int mu_launch_code(int wait_status);
/* "SIGTERM", "SIGRTMIN+3". */
const char *mu_launch_signal_name(int signal_number, char buffer[32]);

#endif
