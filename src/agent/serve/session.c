/*
 * agent/serve/session.c: TensorFlow's master (session/session.h) beside a job's tasks, and its executors.
 *
 * Of `muster serve` the executors are servers that others run. Of `muster run` each task has one, a process beside it:
 * `muster executor`. The agent starts it with the job, and again where a signal killed it; what it held is lost then,
 * and the sessions that used it are told so at once. Which ops there are is asked of such a process, too, once.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/private.h"
#include "base/process.h"
#include "session/inner.h"

#define RESTARTS_MAX 16u
#define PREFIX       8u /* of a list of ops: its length */

struct executor_process {
    pid_t pid; /* 0: none runs */
    uint32_t restarts;
    char address[32];
};

struct session_state {
    struct mu_master *master; /* NULL: it is not served */
    struct mu_executor **executors, **retired;
    struct executor_process *processes; /* NULL: others run them */
    uint32_t count, num_retired, room_retired;
    char **jobs; /* by executor; NULL: they know it themselves */
    uint32_t *numbers;
    pid_t ops_pid;
    int ops_fd; /* what it writes */
    int is_ending, is_stopped;
    struct mu_inner *inner; /* muster's own kernels; NULL: others' */
    char way[64];
    struct mu_account tensors; /* what is held for clients: what they feed and fetch is long */
};

static struct session_state *session_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_SESSION);
}

const char *mu_agent_session_address(const struct mu_agent *agent)
{
    return session_state(agent)->master ? mu_master_address(session_state(agent)->master) : NULL;
}

static void on_master_said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

static void on_executor_lost(void *arg, struct mu_executor *executor, const char *why)
{
    struct mu_agent *agent = arg;

    if (session_state(agent)->master)
        mu_master_lost(session_state(agent)->master, executor, why);
}

/* ---- which executors there are ----------------------------------------------------------------------------------- */

/* Of "ps:1,worker:2": the job and the number in it of each of `count`. -1: they are not so many, or no memory. */
static int jobs_take(struct session_state *state, const char *jobs)
{
    uint32_t n = 0;

    state->jobs = calloc(state->count + 1, sizeof *state->jobs);
    state->numbers = calloc(state->count + 1, sizeof *state->numbers);
    while (state->jobs && state->numbers && *jobs) {
        size_t len = strcspn(jobs, ",:");
        unsigned long tasks = jobs[len] == ':' ? strtoul(jobs + len + 1, NULL, 10) : 1;

        for (unsigned long i = 0; i < tasks; i++, n++)
            if (n < state->count) {
                state->jobs[n] = strndup(jobs, len);
                state->numbers[n] = (uint32_t)i;
            }
        jobs += strcspn(jobs, ",");
        jobs += *jobs == ',';
    }
    return state->jobs && state->numbers && n == state->count ? 0 : -1;
}

static uint32_t words_count(const char *list)
{
    uint32_t count = 1;

    for (; *list; list++)
        count += *list == ',';
    return count;
}

/* The tasks of --tf-jobs; without: one. */
static uint32_t jobs_count(const char *jobs)
{
    uint32_t count = 0;

    for (; jobs; jobs = strchr(jobs, ','), jobs = jobs ? jobs + 1 : NULL)
        count += jobs[strcspn(jobs, ",:")] == ':' ? (uint32_t)strtoul(jobs + strcspn(jobs, ":") + 1, NULL, 10) : 1;
    return count ? count : 1;
}

static int inner_open(struct mu_agent *agent)
{
    struct session_state *state = session_state(agent);

    state->inner = mu_inner_new(&agent->loop, state->tensors.most);
    for (uint32_t i = 0; state->inner && i < state->count; i++)
        if (!(state->executors[i] = mu_inner_executor(state->inner, state->jobs[i], state->numbers[i])))
            return -1;
    return state->inner ? 0 : -1;
}

/* channel: as in struct mu_remote_options. */
static enum muster_status executor_open(struct mu_agent *agent, uint32_t i, const char *address, int channel)
{
    struct session_state *state = session_state(agent);
    const struct mu_remote_options options = {.loop = &agent->loop,
                                              .address = address,
                                              .job = state->jobs ? state->jobs[i] : NULL,
                                              .task = state->jobs ? state->numbers[i] : 0,
                                              .channel = channel,
                                              .lost = on_executor_lost,
                                              .arg = agent};

    return mu_executor_remote_open(&options, &state->executors[i]);
}

static int servers_open(struct mu_agent *agent, const char *list)
{
    struct session_state *state = session_state(agent);
    char address[300];

    for (uint32_t i = 0; i < state->count; i++) {
        size_t len = strcspn(list, ",");

        snprintf(address, sizeof address, "%.*s", (int)len, list);
        if (executor_open(agent, i, address, 0)) {
            mu_agent_say("no worker at %s: %s", address, muster_last_error());
            return -1;
        }
        list += len + (list[len] == ',');
    }
    return 0;
}

/* ---- their processes --------------------------------------------------------------------------------------------- */

/* Its standard input and output become these; -1: the agent's. 0: it could not be started, which has been said. */
static pid_t command_start(struct mu_agent *agent, char *const *words, int in, int out)
{
    struct mu_launch_failure failure = {"environment", ENOMEM};
    struct mu_launch_image image = {.argv = words,
                                    .stdio = {in, out, -1},
                                    .keep = {-1, -1},
                                    .mask = agent->launching.mask_before,
                                    .defaults = agent->launching.defaults,
                                    .files = agent->launching.files_before};
    struct mu_launch_env env;
    pid_t pid = 0;
    int pidfd = -1;

    if (mu_launch_env_init(&env, environ, NULL) == 0) {
        image.envp = env.vars;
        if (mu_launch_spawn(&image, &pid, &pidfd, &failure))
            pid = 0;
    }
    mu_launch_env_done(&env);
    if (!pid)
        mu_agent_say("cannot start an executor: %s: %s", failure.step, strerror(failure.error));
    else
        close(pidfd);
    return pid;
}

static pid_t executor_command(struct mu_agent *agent, const char *address, int in, int out)
{
    const char *library = agent->options->tf->libtensorflow;
    char self[4096];
    const char *words[8] = {self, "executor", address ? "--address" : "--ops", address};
    int n = address ? 4 : 3;

    if (mu_command_path(self, sizeof self))
        return 0;
    if (library) {
        words[n++] = "--libtensorflow";
        words[n++] = library;
    }
    return command_start(agent, (char *const *)(uintptr_t)words, in, out);
}

static void ops_ask(struct mu_agent *agent)
{
    struct session_state *state = session_state(agent);

    state->ops_fd = memfd_create("muster-ops", MFD_CLOEXEC);
    state->ops_pid = state->ops_fd >= 0 ? executor_command(agent, NULL, -1, state->ops_fd) : 0;
    if (!state->ops_pid)
        mu_master_no_ops(state->master, "no process could be started that tells them");
}

static size_t list_take(const uint8_t *at, size_t left, struct mu_executor_bytes *ret)
{
    uint64_t len = 0;

    for (unsigned i = 0; left >= PREFIX && i < PREFIX; i++)
        len |= (uint64_t)at[i] << (8 * i);
    if (left < PREFIX || len > left - PREFIX)
        return 0;
    *ret = (struct mu_executor_bytes){at + PREFIX, (size_t)len};
    return PREFIX + (size_t)len;
}

/* What the process has written is there whole: it has ended. */
static void ops_take(struct mu_agent *agent, int is_well)
{
    struct session_state *state = session_state(agent);
    struct mu_executor_bytes ops, kernels;
    struct stat st = {.st_size = 0};
    size_t first;
    uint8_t *all = MAP_FAILED;

    if (is_well && fstat(state->ops_fd, &st) == 0 && st.st_size > 0)
        all = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, state->ops_fd, 0);
    first = all != MAP_FAILED ? list_take(all, (size_t)st.st_size, &ops) : 0;
    if (!first || !list_take(all + first, (size_t)st.st_size - first, &kernels) ||
        !mu_master_ops(state->master, ops, kernels))
        mu_master_no_ops(state->master, "TensorFlow is not to be found: say where it is by --libtensorflow, or by "
                                        "MUSTER_LIBTENSORFLOW");
    if (all != MAP_FAILED)
        munmap(all, (size_t)st.st_size);
    close(state->ops_fd);
    state->ops_fd = -1;
}

static int process_start(struct mu_agent *agent, uint32_t i)
{
    struct session_state *state = session_state(agent);
    struct executor_process *p = &state->processes[i];
    uint16_t port;
    int out, channel[2];

    if (mu_launch_free_ports(&port, 1, 0)) {
        mu_agent_say("no port is free for an executor");
        return -1;
    }
    snprintf(p->address, sizeof p->address, "127.0.0.1:%u", port);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel))
        channel[0] = channel[1] = -1; /* steps go over gRPC alone */
    if (executor_open(agent, i, p->address, channel[0] + 1)) {
        mu_agent_say("no executor: %s", muster_last_error());
        close(channel[0]);
        close(channel[1]);
        return -1;
    }
    out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    p->pid = executor_command(agent, p->address, channel[1], out);
    close(out);
    close(channel[1]);
    return p->pid ? 0 : -1;
}

/* Its sessions are told; what they still refer to is closed at the end. */
static void executor_retire(struct session_state *state, uint32_t i, const char *why)
{
    struct mu_executor *executor = state->executors[i];
    struct mu_executor **more;

    executor->is_gone = true;
    state->executors[i] = NULL;
    more = realloc(state->retired, (state->num_retired + 1) * sizeof *more);
    if (more) {
        state->retired = more;
        state->retired[state->num_retired++] = executor;
    }
    mu_master_lost(state->master, executor, why);
}

static void process_ended(struct mu_agent *agent, uint32_t i, const siginfo_t *info)
{
    struct session_state *state = session_state(agent);
    struct executor_process *p = &state->processes[i];
    char why[120];

    if (info->si_code == CLD_EXITED)
        snprintf(why, sizeof why, "its executor has ended with status %d", info->si_status);
    else
        snprintf(why, sizeof why, "its executor was killed by signal %d", info->si_status);
    executor_retire(state, i, why);
    if (state->is_ending)
        return;
    mu_agent_say("/job:%s/task:%u: %s", state->jobs[i], state->numbers[i], why);
    if (info->si_code == CLD_EXITED || ++p->restarts > RESTARTS_MAX || process_start(agent, i))
        mu_agent_say("/job:%s/task:%u has no executor any more", state->jobs[i], state->numbers[i]);
}

static int session_child_ended(struct mu_agent *agent, const siginfo_t *info)
{
    struct session_state *state = session_state(agent);

    if (state->ops_pid && info->si_pid == state->ops_pid) {
        waitpid(info->si_pid, NULL, 0);
        state->ops_pid = 0;
        if (state->master)
            ops_take(agent, info->si_code == CLD_EXITED && info->si_status == 0);
        return 1;
    }
    for (uint32_t i = 0; state->processes && i < state->count; i++)
        if (state->processes[i].pid && state->processes[i].pid == info->si_pid) {
            waitpid(info->si_pid, NULL, 0);
            state->processes[i].pid = 0;
            if (state->master) /* may start the next one */
                process_ended(agent, i, info);
            return 1;
        }
    return 0;
}

/* ---- the job's life ---------------------------------------------------------------------------------------------- */

static int executors_begin(struct mu_agent *agent)
{
    const struct mu_agent_tf *tf = agent->options->tf;
    struct session_state *state = session_state(agent);
    char one[40];

    state->count = tf->workers ? words_count(tf->workers) : agent->local_tasks;
    if (tf->own_kernels && (tf->jobs || agent->options->num_apps == 0))
        state->count = jobs_count(tf->jobs);
    state->executors = calloc(state->count + 1, sizeof(struct mu_executor *));
    snprintf(one, sizeof one, "%s:%u", tf->own_kernels && state->count == 1 ? "local" : "worker", state->count);
    if (!state->executors)
        return -1;
    if ((tf->jobs || !tf->workers) && jobs_take(state, tf->jobs ? tf->jobs : one)) {
        mu_agent_say("--tf-jobs %s names %u tasks, but there are %u %s", tf->jobs ? tf->jobs : one,
                     jobs_count(tf->jobs), state->count,
                     tf->workers ? "servers (--tf-workers)" : "tasks in the job (-n)");
        return -1;
    }
    return tf->own_kernels ? inner_open(agent) : tf->workers ? servers_open(agent, tf->workers) : 0;
}

/* Half of this machine's memory, or of what this group of processes may have. */
static void account_open(struct mu_account *account)
{
    uint64_t limit = uv_get_constrained_memory(), bytes = uv_get_total_memory();

    if (limit > 0 && limit < bytes)
        bytes = limit;
    *account = (struct mu_account){.most = (size_t)(bytes / 2)};
}

static int session_begin(struct mu_agent *agent)
{
    const struct mu_agent_tf *tf = agent->options->tf;
    struct session_state *state = session_state(agent);
    struct mu_master_options options;

    if (!tf || mu_agent_follows(agent))
        return 0;
    state->is_ending = 0;
    account_open(&state->tensors);
    if (executors_begin(agent))
        return -1;
    options = (struct mu_master_options){.loop = &agent->loop,
                                         .address = tf->address,
                                         .insecure = tf->insecure,
                                         .account = agent->options->client_bytes ? &agent->clients : &state->tensors,
                                         .executors = state->executors,
                                         .num_executors = state->count,
                                         .awaits_ops = !tf->own_kernels,
                                         .said = on_master_said,
                                         .arg = agent};
    if (mu_master_start(&options, &state->master) != MUSTER_OK) {
        mu_agent_say("no TensorFlow master at %s: %s", tf->address, muster_last_error());
        return -1;
    }
    mu_agent_find_way(mu_master_address(state->master), state->way, sizeof state->way);
    if (tf->own_kernels)
        return 0;
    ops_ask(agent);
    state->processes = tf->workers ? NULL : calloc(state->count + 1, sizeof *state->processes);
    for (uint32_t i = 0; state->processes && i < state->count; i++)
        if (process_start(agent, i))
            return -1;
    return 0;
}

static int session_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift)
{
    const size_t room = sizeof gift->served / sizeof gift->served[0] - 1;
    size_t n = 0;

    (void)task_id;
    while (gift->served[n])
        n++;
    if (!session_state(agent)->master || n >= room)
        return 0;
    snprintf(gift->served_text[n], sizeof gift->served_text[n], "MUSTER_TF_MASTER=grpc://%s",
             session_state(agent)->way);
    gift->served[n] = gift->served_text[n];
    gift->served[n + 1] = NULL;
    return 0;
}

static void session_describe(const struct mu_agent *agent, char *text, size_t size)
{
    const struct session_state *state = session_state(agent);
    struct mu_master_stats stats;

    if (!state->master)
        return;
    mu_master_stats(state->master, &stats);
    snprintf(text, size,
             "%s sessions %u running %u steps %llu failed %llu created %llu closed %llu reset %llu collected %llu "
             "executors %u direct %llu",
             mu_master_address(state->master), stats.sessions, stats.running, (unsigned long long)stats.steps,
             (unsigned long long)stats.failed, (unsigned long long)stats.created, (unsigned long long)stats.closed,
             (unsigned long long)stats.reset, (unsigned long long)stats.collected, state->count,
             (unsigned long long)stats.direct);
}

static void session_ending(struct mu_agent *agent, int killed)
{
    (void)killed;
    session_state(agent)->is_ending = 1;
}

static void on_executors_closed(void *arg)
{
    struct mu_agent *agent = arg;
    struct session_state *state = session_state(agent);

    for (uint32_t i = 0; i < state->count; i++) {
        if (!state->inner)
            mu_executor_remote_close(state->executors[i]);
        free(state->jobs ? state->jobs[i] : NULL);
    }
    for (uint32_t i = 0; i < state->num_retired; i++)
        mu_executor_remote_close(state->retired[i]);
    free(state->executors);
    free(state->retired);
    free(state->processes);
    free(state->jobs);
    free(state->numbers);
    *state = (struct session_state){.ops_fd = -1};
    agent->stopping--;
}

static void on_session_stopped(void *arg)
{
    struct session_state *state = session_state(arg);

    if (state->inner)
        mu_inner_free(state->inner, on_executors_closed, arg);
    else
        on_executors_closed(arg);
}

static void session_stop(struct mu_agent *agent)
{
    struct session_state *state = session_state(agent);

    if (!state->executors || state->is_stopped)
        return;
    state->is_ending = state->is_stopped = 1;
    for (uint32_t i = 0; state->processes && i < state->count; i++)
        if (state->processes[i].pid)
            kill(state->processes[i].pid, SIGKILL);
    if (state->ops_pid)
        kill(state->ops_pid, SIGKILL);
    agent->stopping++;
    mu_master_stop(state->master, on_session_stopped, agent);
    state->master = NULL;
}

const struct mu_component mu_session_component = {
    .name = "session",
    .state_size = sizeof(struct session_state),
    .begin = session_begin,
    .equip = session_equip,
    .ending = session_ending,
    .child_ended = session_child_ended,
    .stop = session_stop,
    .key = MU_AGENT_TF_KEY,
    .describe = session_describe,
};
