/*
 * agent/process/tasks.c: the processes of the job.
 *
 * The launcher is a child subreaper: a task's orphaned descendants become its own children, so nothing of the job is
 * alive exactly when the guard is its only child. A task is reaped before its
 * process group is forgotten; a group is signalled by number only while its leader is not reaped, since the number
 * cannot be another's until then. Descendants of a reaped task are found by launch/process/sweep.c. An adopted task is
 * nobody's child here: its pidfd alone says that it has ended, and nothing says how.
 */
#include "agent/process/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/reserve.h"

static const struct mu_agent_app *app_of_task(const struct mu_agent *agent, uint32_t task_id)
{
    return &agent->options->apps[agent->tasks[task_id].app];
}

/* What the kernel's word for it hides, of a path that tells from here. */
static const char *exec_reason(const struct mu_agent_app *app, int error)
{
    const char *command = app->argv[0];
    struct stat st;

    if (!strchr(command, '/') || (app->directory && command[0] != '/') || stat(command, &st))
        return "";
    if (S_ISDIR(st.st_mode))
        return " (it is a directory)";
    return error == ENOENT ? " (it is there: what is not is its interpreter, or its loader)" : "";
}

static void say_not_started(struct mu_agent *agent, uint32_t task_id, const struct mu_launch_failure *failure)
{
    const struct mu_agent_app *app = app_of_task(agent, task_id);
    const char *command = app->argv[0];

    agent->spawn_status = MU_AGENT_EXIT_FAILED;
    if (strcmp(failure->step, "exec") == 0) {
        agent->spawn_status =
            failure->error == ENOENT || failure->error == ENOTDIR ? MU_AGENT_EXIT_NO_FILE : MU_AGENT_EXIT_NOT_EXEC;
        if (!*command)
            mu_agent_say("the command is an empty word");
        else if (agent->spawn_status == MU_AGENT_EXIT_NO_FILE && !strchr(command, '/'))
            mu_agent_say("%s: command not found", command);
        else
            mu_agent_say("cannot run %s: %s%s", command, strerror(failure->error), exec_reason(app, failure->error));
    } else if (strcmp(failure->step, "chdir") == 0) {
        mu_agent_say("cannot change to %s: %s", app->directory, strerror(failure->error));
    } else {
        mu_agent_say("cannot start task %u: %s: %s%s", task_id, failure->step, strerror(failure->error),
                     failure->error == EAGAIN ? " (see 'ulimit -u', and the cgroup's pids.max)" : "");
    }
}

/* Once for all tasks: mostly a container's filter of system calls. */
static void say_memory(struct mu_agent *agent, uint32_t task_id, int error)
{
    if (!agent->launching.memory_said)
        mu_agent_say("task %u: memory near its GPUs is not preferred: set_mempolicy: %s%s", task_id, strerror(error),
                     error == EPERM ? " (in a container, --cap-add SYS_NICE allows it)" : "");
    agent->launching.memory_said = 1;
}

/* ---- starting --------------------------------------------------------------------------------------------------- */

/* A task on its way: what its process needs until it has exec'ed. */
struct starting {
    struct mu_launch_image image;
    struct mu_launch_begun begun;
    char **vars;
    int memory_error;
    struct mu_agent_gift gift;
};

/*
 * Its command is looked for in its own PATH, where it was given one: until restore_path(). NULL: it has none, or there
 * was none before.
 */
static char *change_path(const struct mu_agent_app *app, int *ret_changed)
{
    const char *own = NULL, *now = getenv("PATH");
    char *before;

    for (char *const *var = app->env; var && *var; var++)
        if (strncmp(*var, "PATH=", 5) == 0)
            own = *var + 5;
    *ret_changed = own != NULL;
    if (!own)
        return NULL;
    before = now ? strdup(now) : NULL;
    setenv("PATH", own, 1);
    return before;
}

static void restore_path(char *before, int changed)
{
    if (changed && before)
        setenv("PATH", before, 1);
    else if (changed)
        unsetenv("PATH");
    free(before);
}

static void set_up_image(struct mu_agent *agent, uint32_t task_id, struct starting *it)
{
    struct mu_launch_image *image = &it->image;
    const struct mu_launch_place *place =
        agent->options->plan ? mu_launch_plan_place(agent->options->plan, task_id - agent->first_task) : NULL;

    *image = (struct mu_launch_image){
        .argv = app_of_task(agent, task_id)->argv,
        .directory = app_of_task(agent, task_id)->directory,
        .stdio = {-1, -1, -1},
        .keep = {strncmp(agent->segment_text, "fd:", 3) == 0 ? muster_segment_fd(agent->segment) : -1, -1},
        .mask = agent->launching.mask_before,
        .defaults = agent->launching.defaults,
        .files = agent->launching.files_before,
        .survives = agent->options->survive,
    };
    if (place && place->bound) {
        image->cpus = place->cpus;
        image->cpus_size = place->cpus_size;
        image->nodes = (const unsigned long *)place->memory;
        image->nodes_bits = place->memory_size * 8;
        image->ret_memory_error = &it->memory_error;
    }
}

static void put_away(const struct mu_agent *agent, struct starting *it)
{
    for (int i = 0; i < 3; i++)
        if (it->image.stdio[i] >= 0 && it->image.stdio[i] != agent->launching.null_fd)
            close(it->image.stdio[i]);
    free(it->gift.pmix);
    free(it->vars);
}

/* What the plan sets for it alone; NULL: nothing. */
static char *const *own_values(const struct mu_agent *agent, uint32_t task_id)
{
    const struct mu_launch_plan *plan = agent->options->plan;

    return plan ? mu_launch_plan_place(plan, task_id - agent->first_task)->env : NULL;
}

/* 0, or -1 with the reason said. The guard learns of the process at once: it may outlive us before it is settled. */
static int begin_task(struct mu_agent *agent, uint32_t task_id, struct starting *ret_starting)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    struct mu_launch_failure failure;
    int rc, changed;
    char *before;

    *ret_starting = (struct starting){.gift.fd = -1};
    set_up_image(agent, task_id, ret_starting);
    rc = mu_agent_set_input(agent, task_id, ret_starting->image.stdio) ||
         mu_agent_set_output(agent, task_id, ret_starting->image.stdio) ||
         mu_components_equip(agent, task_id, &ret_starting->gift);
    ret_starting->image.keep[1] = ret_starting->gift.fd;
    if (rc) {
        agent->spawn_status = MU_AGENT_EXIT_FAILED; /* the reason has been said */
    } else if (!(ret_starting->vars = mu_launch_env_task(
                     &agent->launching.envs[task->app], task_id, task->attempt, own_values(agent, task_id),
                     ret_starting->gift.pmix ? ret_starting->gift.pmix : ret_starting->gift.vars,
                     ret_starting->gift.served))) {
        agent->spawn_status = MU_AGENT_EXIT_FAILED;
        mu_agent_say("out of memory");
        rc = -1;
    } else {
        ret_starting->image.envp = ret_starting->vars;
        before = change_path(app_of_task(agent, task_id), &changed);
        rc = mu_launch_begin(&ret_starting->image, &ret_starting->begun, &failure);
        restore_path(before, changed);
        if (rc)
            say_not_started(agent, task_id, &failure);
    }
    if (rc) {
        put_away(agent, ret_starting);
        return -1;
    }
    mu_launch_guard_task(agent->launching.guard, task_id - agent->first_task, ret_starting->begun.pid);
    return 0;
}

/* The end of it; `quiet`: the first failure has been said. */
static int settle_task(struct mu_agent *agent, uint32_t task_id, struct starting *it, int quiet)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    struct mu_launch_failure failure;
    int rc, changed;
    char *before = change_path(app_of_task(agent, task_id), &changed);

    rc = mu_launch_settle(&it->image, &it->begun, &failure);
    restore_path(before, changed);
    put_away(agent, it);
    mu_launch_guard_task(agent->launching.guard, task_id - agent->first_task, rc ? 0 : it->begun.pid);
    if (rc) {
        if (!quiet)
            say_not_started(agent, task_id, &failure);
        return -1;
    }
    if (it->memory_error)
        say_memory(agent, task_id, it->memory_error);
    task->verdict = 0;
    free(task->words);
    free(task->error);
    task->words = task->error = NULL;
    task->pid = it->begun.pid;
    task->pidfd = it->begun.pidfd;
    task->started = 1;
    task->ended = task->by_us = 0;
    agent->any_started = 1;
    agent->running++;
    return 0;
}

int mu_agent_start_task(struct mu_agent *agent, uint32_t task_id)
{
    struct starting it;

    return begin_task(agent, task_id, &it) ? -1 : settle_task(agent, task_id, &it, 0);
}

/*
 * What need not be there before the tasks are on their way, and would delay them: threads, above all. `quiet`: the
 * first failure has been said.
 */
static int deferred_begin(struct mu_agent *agent, int quiet)
{
    mu_agent_watch_soon(agent);
    mu_agent_begin_mpi_folder(agent);
    agent->launching.oom_kills = mu_launch_oom_kills();
    if (mu_agent_expect_output(agent) == 0)
        return 0;
    if (!quiet)
        agent->spawn_status = MU_AGENT_EXIT_FAILED;
    return -1;
}

/* All, several at once; those that were begun are settled in any case. */
static int start_all(struct mu_agent *agent)
{
    struct starting ring[MU_LAUNCH_BEGUN_MAX];
    uint32_t begun = 0, settled = 0, first = agent->first_task;
    uint32_t count = mu_agent_at_first(agent, first, agent->local_tasks);
    int rc = 0;

    while (!rc && begun < count && begun < MU_LAUNCH_BEGUN_MAX) {
        rc = begin_task(agent, first + begun, &ring[begun]);
        begun += !rc;
    }
    rc |= deferred_begin(agent, rc);
    while (settled < begun) {
        if (begun == count) /* sleep until the last has exec'ed, and not be woken by each before it */
            mu_launch_await(&ring[(begun - 1) % MU_LAUNCH_BEGUN_MAX].begun);
        rc |= settle_task(agent, first + settled, &ring[settled % MU_LAUNCH_BEGUN_MAX], rc);
        settled++;
        if (!rc && begun < count) {
            rc = begin_task(agent, first + begun, &ring[begun % MU_LAUNCH_BEGUN_MAX]);
            begun += !rc;
        }
    }
    return rc;
}

int mu_agent_make_environments(struct mu_agent *agent, const struct mu_agent_served *served)
{
    const struct mu_agent_options *options = agent->options;
    struct mu_launch_job job = {
        .job = agent->job,
        .title = agent->title,
        .segment = agent->segment_text,
        .topology = agent->topology_text[0] ? agent->topology_text : NULL,
        .run_id = agent->run_id,
        .num_tasks = agent->num_tasks,
        .num_processors = options->plan ? options->plan->num_processors : 0,
        .restarts = options->elastic ? mu_agent_elastic_restarts(agent) : options->restarts,
        .changes = mu_agent_elastic_changes(agent),
        .grpc = served->grpc,
        .tcpstore = served->tcpstore,
        .recoverable = options->restart_tasks || mu_agent_is_live(agent),
        .to_terminal = options->pty || (!options->label && !options->output && isatty(1)),
        .serves_mpi = served->mpi,
        .error_folder = mu_agent_error_folder(agent),
    };

    if (!mu_agent_set_part(agent, &job) && mu_launch_free_ports(job.ports, 2, 0))
        job.ports[0] = 0; /* no loopback: programs that need one will say so */
    for (job.app = 0; job.app < options->num_apps; job.app++) {
        mu_launch_env_done(&agent->launching.envs[job.app]);
        job.env = options->apps[job.app].env;
        job.own = options->plan ? mu_launch_plan_place(options->plan, 0)->env : NULL;
        job.dropped = options->plan ? mu_launch_plan_dropped(options->plan) : NULL;
        if (mu_launch_env_init(&agent->launching.envs[job.app], environ, &job)) {
            mu_agent_say("out of memory");
            return -1;
        }
    }
    return 0;
}

int mu_agent_start_tasks(struct mu_agent *agent)
{
    const struct mu_agent_served served = {
        .grpc = mu_agent_grpc_way(agent), .tcpstore = mu_agent_tcpstore_way(agent), .mpi = mu_agent_serves_mpi(agent)};
    struct mu_launch_failure failure;

    if (!agent->pmix)
        mu_agent_name_mpi_folder(agent);
    if (mu_agent_make_environments(agent, &served))
        return -1;
    if (mu_launch_guard_settle(agent->launching.guard, &failure)) {
        mu_agent_say("cannot start the guard: %s: %s", failure.step, strerror(failure.error));
        return -1;
    }
    if (mu_agent_needs_feed(agent) &&
        (mu_launch_feed_new(agent->local_tasks + mu_agent_num_rsh(agent), &agent->launching.feed) ||
         mu_agent_feed_rsh(agent))) {
        mu_agent_say("cannot pass standard input on: %s", strerror(errno));
        return -1;
    }
    if (start_all(agent))
        return -1;
    if (agent->launching.feed && mu_launch_feed_start(agent->launching.feed)) {
        mu_agent_say("cannot pass standard input on: %s", strerror(errno));
        return -1;
    }
    if (agent->options->report_bindings && agent->attempt == 0)
        mu_agent_say_bindings(agent);
    return 0;
}

static void task_ended(struct mu_agent *agent, uint32_t task_id, const siginfo_t *info)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    siginfo_t reaped;

    mu_agent_take_signals(
        agent); /* a ^C that has ended it has come to us, too, and by now: that is what ends the job */
    task->ended = 1;
    task->wait_status = info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8
                                                    : info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
    task->by_us |= mu_agent_is_ending(agent);
    mu_components_judge(agent, task_id, task->wait_status);
    if (task->verdict)
        task->wait_status = task->verdict;
    if (mu_launch_code(task->wait_status) != 0)
        mu_agent_take_error(agent, task_id);
    agent->failures += !task->by_us && mu_launch_code(task->wait_status) != 0;
    if (mu_launch_code(task->wait_status) != 0 && mu_agent_task_again(agent, task_id))
        kill(-task->pid, SIGKILL); /* its group's number is ours until it is reaped */
    else if (mu_agent_follows(agent) && !mu_agent_is_live(agent))
        mu_agent_tell_ended(agent, task_id);
    else if (!task->by_us && agent->root_cause < 0 && !mu_agent_is_live(agent) &&
             mu_launch_code(task->wait_status) != 0)
        agent->root_cause = (int32_t)task_id;
    mu_launch_guard_task(agent->launching.guard, task_id - agent->first_task, 0);
    waitid(P_PIDFD, (id_t)task->pidfd, &reaped, WEXITED);
    close(task->pidfd);
    agent->running--;
    if ((int32_t)task_id == agent->options->stdin_to)
        mu_launch_terminal_take(&agent->launching.terminal);
    if (agent->muster)
        mu_task_process_ended(agent->muster, (int32_t)task_id, (uint32_t)task->pid, task->wait_status,
                              task->restart_at == UINT64_MAX && !mu_agent_is_live(agent));
    else if (mu_segment_is_committed(agent->segment)) /* somebody has joined; until then nobody is to be told */
        mu_agent_be_there(agent);
    if (mu_agent_is_live(agent))
        mu_agent_live_ended(agent, task_id);
    if (mu_agent_is_live(agent) && mu_agent_follows(agent)) /* behind the record, by which its end is judged */
        mu_agent_tell_ended(agent, task_id);
    mu_components_ended(agent, task_id);
}

void mu_agent_reap(struct mu_agent *agent)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        uint32_t i;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) {
            if (errno == EINTR)
                continue;
            return; /* ECHILD */
        }
        if (info.si_pid == 0)
            return;
        if (info.si_pid == mu_launch_guard_pid(agent->launching.guard)) {
            mu_agent_guard_died(agent);
            continue;
        }
        for (i = agent->first_task; agent->tasks && i < mu_agent_tasks_end(agent); i++)
            if (agent->tasks[i].started && !agent->tasks[i].ended && agent->tasks[i].pid == info.si_pid)
                break;
        if (agent->tasks && i < mu_agent_tasks_end(agent))
            task_ended(agent, i, &info);
        else if (!mu_components_child_ended(agent, &info)) {
            waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG); /* an adopted orphan, or a pre-existing child */
            mu_launch_forget_preexisting(info.si_pid);
        }
    }
}

/* An adopted task may have been reaped by its parent, and its number be somebody else's; one of ours is reaped by us.
 */
static bool has_ended(const struct mu_agent *agent, const struct mu_agent_task *task)
{
    struct pollfd pfd = {.fd = task->pidfd, .events = POLLIN};

    return agent->adopted && poll(&pfd, 1, 0) != 0;
}

void mu_agent_signal_tasks(struct mu_agent *agent, int signal_number)
{
    for (uint32_t i = agent->first_task; agent->tasks && i < mu_agent_tasks_end(agent); i++) {
        const struct mu_agent_task *task = &agent->tasks[i];

        if (!task->started || task->ended || has_ended(agent, task))
            continue;
        /* One that is stopped could not act on it; to others SIGCONT may do harm (one that is being traced, say). */
        if ((signal_number == SIGTERM || signal_number == SIGINT) && mu_launch_is_stopped(task->pid))
            kill(-task->pid, SIGCONT);
        kill(-task->pid, signal_number);
    }
}

void mu_agent_check_stopped(struct mu_agent *agent)
{
    int32_t to = agent->options->stdin_to;
    struct mu_agent_task *task = to >= 0 && mu_agent_has_task(agent, (uint32_t)to) ? &agent->tasks[to] : NULL;
    siginfo_t info = {.si_pid = 0};

    if (!task || agent->adopted || !agent->launching.terminal.active || !task->started || task->ended ||
        waitid(P_PIDFD, (id_t)task->pidfd, &info, WSTOPPED | WNOHANG) || info.si_pid == 0)
        return;
    if (info.si_status == SIGTSTP &&
        agent->launching.terminal.owner == task->pid) { /* ^Z went to it alone, for it has the terminal */
        mu_launch_terminal_take(&agent->launching.terminal);
        mu_agent_suspend(agent, task->pid);
        return;
    }
    if (info.si_status != SIGTTIN && info.si_status != SIGTTOU)
        return;
    if (mu_launch_terminal_give(&agent->launching.terminal, task->pid) && !agent->launching.terminal.warned) {
        agent->launching.terminal.warned = 1;
        mu_agent_say("task %d (pid %d) is stopped: it wants the terminal, which muster run does not have", (int)to,
                     (int)task->pid);
    }
}
