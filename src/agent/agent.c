/*
 * agent/agent.c: what a launcher needs whatever it launches: signals, limits, the loop, the guard; and its taking down.
 *
 * The order of a job's life is the table in agent/phase.c, and the loop that follows it agent/life.c. A failing task,
 * a signal, the timeout or a launcher that cannot go on post an event there: SIGTERM to every task's process group,
 * SIGKILL after the grace; of a job that ends by SIGINT, that at first, as a shell and torchrun have it. Threads come
 * as they are needed. Nothing here waits for anything in the segment.
 */
#include "agent/process/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/hosts/stay.h"
#include "checkpoint/checkpoint.h"

#define UNSAID_RETRY_NS    50000000ull
#define GUARD_RESTARTS_MAX 100
#define OUTPUT_GRACE_NS    2000000000ull
#define GRPC_GRACE_NS      100000000ull /* for others than the tasks, which have ended */

/* A pidfd a task; a pipe, and a file, for each stream that is copied; one where input is; connections of clients. */
static rlim_t files_needed(const struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    rlim_t streams = options->label || options->pty ? 2 : (rlim_t)agent->launching.catch_err;
    rlim_t local = options->elastic ? options->elastic->most : agent->local_tasks;
    rlim_t each = 1 + streams + (options->output ? streams : 0) + (options->stdin_to == MU_AGENT_STDIN_ALL);
    rlim_t hosts = options->hosts && options->hosts->node == 0 ? 8 * (rlim_t)options->hosts->nodes : 0;
    rlim_t clients = options->hosts ? agent->local_tasks : mu_agent_capacity(agent);
    rlim_t wire = options->grpc ? 2 * clients : 0; /* connections */
    rlim_t stores = options->tcpstore ? 4 * clients : 0;
    rlim_t ray = options->ray ? 256 : 0;      /* drivers, workers and stores, each by two connections */
    rlim_t sessions = options->tf ? 1024 : 0; /* clients, and executors */
    rlim_t mpi = options->mpi == MU_AGENT_MPI_NONE || agent->launching.has_no_room_for_mpi ? 0 : 2 * clients;
    rlim_t parts = options->checkpoint ? 2 * local : 0; /* of a generation, held and written */

    return 64 + local * each + parts + 2 * (rlim_t)options->workers + hosts + wire + stores + ray + sessions + mpi;
}

static int raise_file_limit(struct mu_agent *agent)
{
    rlim_t need = files_needed(agent);
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &agent->launching.files_before);
    limit = agent->launching.files_before;
    if (need > limit.rlim_max && agent->options->mpi == MU_AGENT_MPI_AUTO) { /* most programs are none of MPI's */
        agent->launching.has_no_room_for_mpi = 1;                            /* mpi.c says so */
        agent->launching.files_for_mpi = (unsigned long long)need;
        need = files_needed(agent);
    }
    if (limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = need;
    if (need <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    mu_agent_say("%u tasks need %llu open files, the limit is %llu (root may raise it: 'ulimit -n')",
                 agent->local_tasks ? agent->local_tasks : agent->num_tasks, (unsigned long long)need,
                 (unsigned long long)limit.rlim_max);
    return -1;
}

/* The kernel doubles a table of descriptors that is full, and of a process with threads that takes it 10 ms each time:
 * meanwhile all clients would wait. We have no threads yet. */
static void widen_table(const struct mu_agent *agent)
{
    int last = mu_agent_has_coord(agent) ? fcntl(agent->signal_fd, F_DUPFD_CLOEXEC, (int)files_needed(agent) - 1) : -1;

    if (last >= 0)
        close(last);
}

static void take_signals(uv_poll_t *poll, int status, int events);

/* A sixteenth of the machine's memory, or of what this group of processes may have; a plain job does not ask. */
static uint64_t usual_client_bytes(const struct mu_agent *agent)
{
    const uint64_t least = 256u << 20, most = 1u << 30;
    uint64_t limit, bytes;

    if (!mu_agent_has_coord(agent) && !agent->options->metrics)
        return least;
    limit = uv_get_constrained_memory();
    bytes = uv_get_total_memory();
    if (limit > 0 && limit < bytes)
        bytes = limit;
    return bytes / 16 < least ? least : bytes / 16 > most ? most : bytes / 16;
}

static void open_account(struct mu_agent *agent)
{
    uint64_t bytes = agent->options->client_bytes;

    agent->clients.most = (size_t)(bytes ? bytes : usual_client_bytes(agent));
    agent->clients.kept = agent->clients.most / 2;
}

static int set_up_loop(struct mu_agent *agent)
{
    int error;

    open_account(agent);
    mu_agent_block_signals(agent);
    if (raise_file_limit(agent))
        return -1;
    agent->signal_fd = signalfd(-1, &agent->launching.handled, SFD_CLOEXEC | SFD_NONBLOCK);
    widen_table(agent);
    error = agent->signal_fd < 0 ? -errno : uv_loop_init(&agent->loop);
    if (error == 0) {
        agent->has_loop = 1;
        agent->loop.data = agent;
        uv_timer_init(&agent->loop, &agent->timer);
        error = uv_poll_init(&agent->loop, &agent->signals, agent->signal_fd);
        if (error == 0)
            error = uv_poll_start(&agent->signals, UV_READABLE, take_signals);
    }
    if (error)
        mu_agent_say("cannot set up: %s", uv_strerror(error));
    return error ? -1 : 0;
}

static void close_one(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_loop(struct mu_agent *agent)
{
    if (agent->has_loop) {
        uv_walk(&agent->loop, close_one, NULL);
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        uv_loop_close(&agent->loop);
    }
    if (agent->signal_fd >= 0)
        close(agent->signal_fd);
}

/* Relay stderr only if it is neither /dev/null nor a terminal: tasks may test isatty(). */
static bool is_plain_stderr(void)
{
    struct stat err, null;

    return !isatty(2) && fstat(2, &err) == 0 &&
           !(stat("/dev/null", &null) == 0 && S_ISCHR(err.st_mode) && err.st_rdev == null.st_rdev);
}

/* "2>&1": in one pipe a task's lines stay in order. */
static bool is_one_file(void)
{
    struct stat out, err;

    return fstat(1, &out) == 0 && fstat(2, &err) == 0 && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* A task's two streams may come by one way. */
static bool is_one_place(const struct mu_agent_options *options)
{
    if (options->output && mu_launch_files_are_apart(options->output))
        return 0;
    return (options->output && !options->label) || is_one_file();
}

/* What is needed to start tasks. */
static int tasks_set_up(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    const int *others = options->hosts ? options->hosts->colour : NULL; /* the leader's streams, where ours end */
    struct mu_launch_output_options output = {.label = options->label,
                                              .both = agent->launching.catch_both,
                                              .hidden = options->output && !options->label,
                                              .pty = options->pty,
                                              .size = mu_agent_follows(agent) ? options->hosts->orders->size
                                                                              : mu_launch_size_here(),
                                              .colour = {0, mu_agent_shows_colour(1) || (others && others[1]),
                                                         mu_agent_shows_colour(2) || (others && others[2])}};

    agent->launching.envs = calloc(options->num_apps, sizeof *agent->launching.envs);
    agent->launching.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!agent->launching.envs || agent->launching.null_fd < 0) {
        mu_agent_say("cannot set up: %s", strerror(errno));
        return -1;
    }
    if ((options->label || options->pty || agent->launching.catch_err || mu_agent_leads(agent)) &&
        mu_launch_output_start(&output, &agent->launching.output)) {
        mu_agent_say("cannot relay output: %s", strerror(errno));
        return -1;
    }
    return 0;
}

int mu_agent_init(struct mu_agent *agent, const struct mu_agent_options *options,
                  const struct mu_component *const *components)
{
    *agent = (struct mu_agent){.options = options,
                               .num_tasks = options->num_tasks,
                               .local_tasks = options->hosts ? options->hosts->tasks_here : options->num_tasks,
                               .root_cause = -1,
                               .timeout_at = UINT64_MAX,
                               .term_at = UINT64_MAX,
                               .kill_at = UINT64_MAX,
                               .phase_until = UINT64_MAX,
                               .give_up_at = UINT64_MAX,
                               .suspend_until = UINT64_MAX,
                               .deadline = UINT64_MAX,
                               .signal_fd = -1,
                               .launching.null_fd = -1};
    if (mu_components_open(agent, components) == 0)
        return 0;
    mu_components_free(agent);
    return -1;
}

int mu_agent_set_up(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;

    if (options->num_apps > 0 && !agent->adopted) {
        mu_launch_note_preexisting();
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        agent->launching.catch_err = !options->survive && !options->output && !options->label && is_plain_stderr();
        agent->launching.catch_both = (agent->launching.catch_err || options->pty) && is_one_place(options);
        mu_launch_terminal_init(&agent->launching.terminal);
    }
    if (set_up_loop(agent))
        return -1;
    if (agent->adopted) /* the job is there, and has its guard */
        return 0;
    if (!options->hosts && mu_agent_take_tasks(agent, mu_agent_capacity(agent), 0))
        return -1;
    if (!options->hosts)
        agent->num_tasks = agent->local_tasks = mu_agent_is_live(agent) ? options->elastic->most : options->num_tasks;
    mu_agent_name_job(agent);
    if (mu_agent_start_guard(agent))
        return -1;
    return options->num_apps > 0 ? tasks_set_up(agent) : 0;
}

static void take_signals(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    mu_agent_take_signals(poll->loop->data);
}

static void check_clock(struct mu_agent *agent)
{
    uint64_t now = muster_now_ns();

    if (now >= agent->timeout_at) {
        agent->timeout_at = UINT64_MAX;
        agent->timed_out = 1;
        mu_agent_say_timeout(agent);
        mu_agent_post(agent, MU_ON_END);
    }
    if (now >= agent->term_at) {
        agent->term_at = UINT64_MAX;
        mu_agent_signal_tasks(agent, SIGTERM);
    }
    if (now >= agent->kill_at) {
        agent->kill_at = UINT64_MAX;
        mu_agent_post(agent, MU_ON_KILL);
    }
    mu_components_tick(agent);
}

/* A round runs the timers before it sleeps: one that is due must keep it from sleeping without any. */
static void time_is_up(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void mu_agent_turn(struct mu_agent *agent)
{
    uint64_t until = agent->timeout_at < agent->kill_at ? agent->timeout_at : agent->kill_at, now = muster_now_ns();
    uint64_t start = mu_agent_next_start(agent);

    until = start < until ? start : until;
    until = agent->term_at < until ? agent->term_at : until;
    until = agent->phase_until < until ? agent->phase_until : until;
    start = mu_components_due(agent);
    until = start < until ? start : until;
    if (mu_agent_flush(0) && until > now + UNSAID_RETRY_NS)
        until = now + UNSAID_RETRY_NS;
    if (until == UINT64_MAX)
        uv_timer_stop(&agent->timer);
    else
        uv_timer_start(&agent->timer, time_is_up, until <= now ? 0 : (until - now) / 1000000 + 1, 0);
    uv_update_time(&agent->loop);
    uv_run(&agent->loop, UV_RUN_ONCE);
    check_clock(agent);
}

static void tasks_free(struct mu_agent *agent)
{
    for (uint32_t i = 0; agent->tasks && i < mu_agent_capacity(agent); i++) {
        struct mu_agent_task *task = &agent->tasks[i];

        if (agent->adopted && task->started && mu_agent_has_task(agent, i))
            close(task->pidfd);
        free(task->err_path);
        free(task->words);
        free(task->error);
    }
    free(agent->tasks);
}

/* A job with a time ends also where nobody reads what it wrote; a slow reader has some seconds for the rest. */
static uint64_t output_deadline(const struct mu_agent *agent)
{
    uint64_t now = muster_now_ns(), from = agent->deadline > now ? agent->deadline : now;

    return agent->deadline == UINT64_MAX ? UINT64_MAX : from + OUTPUT_GRACE_NS;
}

/*
 * Once nothing of the job lives and the segment has no name, nothing is left that the guard could be needed for; it
 * ends, as does the thread that relays output, while all else is given back, and is reaped last.
 */
int mu_agent_tear_down(struct mu_agent *agent)
{
    uint64_t until = output_deadline(agent);
    int lost;

    mu_components_close(agent);
    if (mu_agent_is_staying(agent)) {
        agent->options->hosts->guard = agent->launching.guard;
        agent->launching.guard = NULL;
    } else if (!agent->adopted && agent->phase == MU_PHASE_DONE) {
        mu_checkpoint_remove(agent->run_id);
    }
    mu_launch_guard_dismiss(agent->launching.guard);
    mu_agent_expect_no_output(agent);
    mu_launch_output_end(agent->launching.output);
    mu_agent_close_job(agent);
    /* The reader of our output may take its time: from here on ^C ends us as it ends any program. */
    pthread_sigmask(SIG_SETMASK, &agent->launching.mask_before, NULL);
    mu_agent_flush(until);
    lost = mu_launch_output_finish(agent->launching.output, until);
    if (lost < 0)
        mu_agent_say("nobody reads the output: the rest of it is lost, since the time of --timeout is over");
    lost |= agent->lost_output;
    mu_agent_say_failures(agent);
    mu_agent_flush(until);
    for (uint32_t i = 0; agent->launching.envs && i < agent->options->num_apps; i++)
        mu_launch_env_done(&agent->launching.envs[i]);
    close_loop(agent);
    mu_components_free(agent);
    tasks_free(agent);
    free(agent->launching.envs);
    close(agent->launching.null_fd);
    mu_launch_guard_free(agent->launching.guard);
    return lost;
}
