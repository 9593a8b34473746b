/*
 * agent/tasks.c: the processes of the job.
 *
 * The launcher is a child subreaper: a task's orphaned descendants become its own children, so nothing of the job is
 * alive exactly when the guard is its only child. A task is reaped before its
 * process group is forgotten; a group is signalled by number only while its leader is not reaped, since the number
 * cannot be another's until then. Descendants of a reaped task are found by launch/sweep.c.
 */
#include "agent/private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFTOVER_PATIENCE_NS 1000000000ull /* what a task left behind may take to end by itself */
#define LEFTOVER_KILL_NS     5000000000ull /* after SIGKILL, before it is given up and named */

static void say_not_started(struct mu_agent *agent, uint32_t task_id, const struct mu_launch_failure *failure)
{
    const char *command = agent->options->argv[0];

    agent->spawn_status = MU_AGENT_EXIT_FAILED;
    if (strcmp(failure->step, "exec") == 0) {
        agent->spawn_status =
            failure->error == ENOENT || failure->error == ENOTDIR ? MU_AGENT_EXIT_NO_FILE : MU_AGENT_EXIT_NOT_EXEC;
        if (agent->spawn_status == MU_AGENT_EXIT_NO_FILE && !strchr(command, '/'))
            mu_agent_say("%s: command not found", command);
        else
            mu_agent_say("cannot run %s: %s", command, strerror(failure->error));
    } else if (strcmp(failure->step, "chdir") == 0) {
        mu_agent_say("cannot change to %s: %s", agent->options->directory, strerror(failure->error));
    } else {
        mu_agent_say("cannot start task %u: %s: %s", task_id, failure->step, strerror(failure->error));
    }
}

static int start_one(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = task_id};
    struct mu_launch_failure failure;
    struct mu_launch_image image = {
        .argv = agent->options->argv,
        .envp = agent->env.vars,
        .directory = agent->options->directory,
        .stdio = {task_id == 0 ? -1 : agent->null_fd, -1, -1},
        .keep = {strncmp(agent->segment_text, "fd:", 3) == 0 ? muster_segment_fd(agent->segment) : -1, -1},
        .mask = agent->mask_before,
        .defaults = agent->defaults,
        .files = agent->files_before,
    };
    int rc;

    if (agent->relay && mu_launch_relay_add(agent->relay, task_id, image.stdio)) {
        failure = (struct mu_launch_failure){"pipe", errno};
        rc = -1;
    } else {
        mu_launch_env_task(&agent->env, task_id);
        rc = mu_launch_spawn(&image, &task->pid, &task->pidfd, &failure);
    }
    for (int out = 1; out <= 2; out++)
        if (image.stdio[out] >= 0)
            close(image.stdio[out]);
    if (rc) {
        say_not_started(agent, task_id, &failure);
        return -1;
    }
    mu_launch_guard_task(agent->guard, task_id, task->pid);
    task->started = 1;
    agent->started++;
    agent->running++;
    if (epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, task->pidfd, &event)) {
        failure = (struct mu_launch_failure){"epoll", errno};
        say_not_started(agent, task_id, &failure);
        return -1;
    }
    return 0;
}

int mu_agent_start_tasks(struct mu_agent *agent)
{
    for (uint32_t i = 0; i < agent->options->num_tasks; i++)
        if (start_one(agent, i))
            return -1;
    return 0;
}

static void task_ended(struct mu_agent *agent, uint32_t task_id, const siginfo_t *info)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    siginfo_t reaped;

    task->ended = 1;
    task->wait_status = info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8
                                                    : info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
    task->by_us = agent->phase != MU_AGENT_RUNNING;
    mu_launch_guard_task(agent->guard, task_id, 0);
    waitid(P_PIDFD, (id_t)task->pidfd, &reaped, WEXITED);
    epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, task->pidfd, NULL);
    close(task->pidfd);
    agent->running--;
    if (task_id == 0)
        mu_launch_terminal_take(&agent->terminal);
    mu_agent_task_ended(agent, task_id);
    mu_task_process_ended(agent->muster, (int32_t)task_id, (uint32_t)task->pid, task->wait_status);
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
        if (info.si_pid == mu_launch_guard_pid(agent->guard)) {
            mu_agent_guard_died(agent);
            continue;
        }
        for (i = 0; i < agent->options->num_tasks; i++)
            if (agent->tasks[i].started && !agent->tasks[i].ended && agent->tasks[i].pid == info.si_pid)
                break;
        if (i < agent->options->num_tasks)
            task_ended(agent, i, &info);
        else
            waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG); /* an adopted orphan */
    }
}

void mu_agent_signal_tasks(struct mu_agent *agent, int signal_number)
{
    for (uint32_t i = 0; i < agent->options->num_tasks; i++) {
        const struct mu_agent_task *task = &agent->tasks[i];

        if (!task->started || task->ended)
            continue;
        /* One that is stopped could not act on it; to others SIGCONT may do harm (one that is being traced, say). */
        if (signal_number == SIGTERM && mu_launch_is_stopped(task->pid))
            kill(-task->pid, SIGCONT);
        kill(-task->pid, signal_number);
    }
}

void mu_agent_check_stopped(struct mu_agent *agent)
{
    struct mu_agent_task *task = &agent->tasks[0];
    siginfo_t info = {.si_pid = 0};

    if (!agent->terminal.active || !task->started || task->ended ||
        waitid(P_PIDFD, (id_t)task->pidfd, &info, WSTOPPED | WNOHANG) || info.si_pid == 0)
        return;
    if (info.si_status != SIGTTIN && info.si_status != SIGTTOU)
        return;
    if (mu_launch_terminal_give(&agent->terminal, task->pid) && !agent->terminal.warned) {
        agent->terminal.warned = 1;
        mu_agent_say("task 0 (pid %d) is stopped: it wants the terminal, which muster run does not have",
                     (int)task->pid);
    }
}

static int all_gone(struct mu_agent *agent)
{
    mu_agent_reap(agent);
    return !mu_launch_has_children(mu_launch_guard_pid(agent->guard));
}

/* Reap until nothing is left or the time has come. 1: nothing is left. */
static int wait_for_leftovers(struct mu_agent *agent, uint64_t until)
{
    struct pollfd pfd = {.fd = agent->signal_fd, .events = POLLIN};

    for (;;) {
        struct signalfd_siginfo ignored;
        uint64_t now;

        if (all_gone(agent))
            return 1;
        now = muster_now_ns();
        if (now >= until)
            return 0;
        /* SIGCHLD wakes us. A process that is not our child yet does not: hence no more than 20 ms. */
        poll(&pfd, 1, until - now > 20000000 ? 20 : (int)((until - now) / 1000000) + 1);
        while (read(agent->signal_fd, &ignored, sizeof ignored) == sizeof ignored)
            ;
    }
}

void mu_agent_end_leftovers(struct mu_agent *agent)
{
    struct mu_launch_mark mark = {.run_id = agent->run_id, .parent = getpid(), .session = getsid(0)};
    int hurried = agent->phase == MU_AGENT_KILLING;
    uint64_t give_up;
    size_t found = 0;
    pid_t first = 0;
    char name[32] = "";

    if (agent->started == 0 || all_gone(agent))
        return;
    mark.except = mu_launch_guard_pid(agent->guard);
    if (agent->phase == MU_AGENT_RUNNING && wait_for_leftovers(agent, muster_after_ns(LEFTOVER_PATIENCE_NS)))
        return;
    if (!hurried) {
        found = mu_launch_sweep(&mark, SIGTERM, &first, name);
        if (found > 0 && agent->phase == MU_AGENT_RUNNING)
            mu_agent_say("the tasks left %zu process%s behind (pid %d, %s): ending %s", found, found == 1 ? "" : "es",
                         (int)first, name, found == 1 ? "it" : "them");
        if (wait_for_leftovers(agent, muster_after_ns(agent->options->grace_ns)))
            return;
    }
    give_up = muster_after_ns(LEFTOVER_KILL_NS);
    do
        found = mu_launch_sweep(&mark, SIGKILL, &first, name);
    while (!wait_for_leftovers(agent, muster_after_ns(5000000)) && muster_now_ns() < give_up);
    if (!all_gone(agent) && found > 0)
        mu_agent_say("%zu process%s of the job cannot be ended (pid %d, %s)", found, found == 1 ? "" : "es", (int)first,
                     name);
}
