/*
 * agent/agent.c: the life of a job on this node.
 *
 * Order: block signals, start the guard, create the segment, start the tasks, then one event loop over their pidfds,
 * signals and the guard. A failing task, a signal, the timeout or a launcher that cannot go on begin the end: SIGTERM
 * to every task's process group, SIGKILL after the grace. When the last task is reaped: descendants are ended, the
 * segment's name goes, the guard goes, output is drained. Every path, early errors too, leaves through finish().
 *
 * Nothing here waits for anything in the segment.
 */
#include "agent/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SECOND_INTERRUPT_NS 1000000000ull
#define GUARD_RESTARTS_MAX  100

static const int forwarded[] = {SIGUSR1, SIGUSR2, SIGQUIT};
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

/* Take over the signals that we act on. Those that our parent had ignored (nohup) stay ignored. */
static void take_signals(struct mu_agent *agent)
{
    static const int others[] = {SIGCHLD, SIGTSTP, SIGTTOU};
    struct sigaction now, ignore = {.sa_handler = SIG_IGN}, by_default = {.sa_handler = SIG_DFL};

    sigemptyset(&agent->handled);
    sigemptyset(&agent->defaults);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        sigaddset(&agent->handled, forwarded[i]);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&agent->handled, ending[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        sigaddset(&agent->handled, others[i]);
    sigaction(SIGCHLD, &by_default, NULL); /* an inherited SIG_IGN would lose the exit statuses */
    sigaction(SIGPIPE, NULL, &now);
    if (now.sa_handler != SIG_IGN) {
        sigaction(SIGPIPE, &ignore, NULL);
        sigaddset(&agent->defaults, SIGPIPE);
    }
    pthread_sigmask(SIG_BLOCK, &agent->handled, &agent->mask_before);
    sigdelset(&agent->mask_before, SIGCHLD);
}

/* A pidfd per task, and two pipes with --label. */
static int raise_file_limit(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    rlim_t need = 64 + (rlim_t)options->num_tasks * (options->label ? 3 : 1);
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &agent->files_before);
    limit = agent->files_before;
    if (limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = need;
    if (need <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    mu_agent_say("%u tasks need %llu open files, the limit is %llu (raise it with 'ulimit -Hn')", options->num_tasks,
                 (unsigned long long)need, (unsigned long long)limit.rlim_max);
    return -1;
}

static int watch_fd(struct mu_agent *agent, int fd, uint32_t id)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = id};

    return epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int start_guard(struct mu_agent *agent)
{
    struct mu_launch_failure failure;
    struct mu_launch_image image = {
        .mask = agent->mask_before, .defaults = agent->defaults, .files = agent->files_before};

    if (mu_launch_guard_start(agent->job, agent->run_id, agent->options->num_tasks, &image, &agent->guard, &failure)) {
        mu_agent_say("cannot start the guard: %s: %s", failure.step, strerror(failure.error));
        return -1;
    }
    return watch_fd(agent, mu_launch_guard_fd(agent->guard), MU_AGENT_EVENT_GUARD);
}

static int set_up(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    take_signals(agent);
    if (raise_file_limit(agent))
        return -1;
    mu_launch_terminal_init(&agent->terminal);
    agent->tasks = calloc(options->num_tasks, sizeof *agent->tasks);
    agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    agent->signal_fd = signalfd(-1, &agent->handled, SFD_CLOEXEC | SFD_NONBLOCK);
    agent->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!agent->tasks || agent->epoll_fd < 0 || agent->signal_fd < 0 || agent->null_fd < 0 ||
        watch_fd(agent, agent->signal_fd, MU_AGENT_EVENT_SIGNAL)) {
        mu_agent_say("cannot set up: %s", strerror(errno));
        return -1;
    }
    mu_agent_name_job(agent);
    if (start_guard(agent) || mu_agent_open_job(agent))
        return -1;
    if (options->label && mu_launch_relay_start(options->num_tasks, &agent->relay)) {
        mu_agent_say("cannot relay output: %s", strerror(errno));
        return -1;
    }
    if (mu_launch_env_init(
            &agent->env, environ,
            &(struct mu_launch_job){agent->job, agent->segment_text, agent->run_id, options->num_tasks, 0})) {
        mu_agent_say("out of memory");
        return -1;
    }
    return 0;
}

void mu_agent_begin_end(struct mu_agent *agent)
{
    if (agent->phase != MU_AGENT_RUNNING)
        return;
    agent->phase = MU_AGENT_ENDING;
    agent->timeout_at = UINT64_MAX;
    agent->kill_at = muster_after_ns(agent->options->grace_ns);
    if (agent->options->grace_ns > 0)
        mu_agent_signal_tasks(agent, SIGTERM);
}

static void kill_all(struct mu_agent *agent)
{
    agent->phase = MU_AGENT_KILLING;
    agent->kill_at = UINT64_MAX;
    mu_agent_signal_tasks(agent, SIGKILL);
}

void mu_agent_task_ended(struct mu_agent *agent, uint32_t task_id)
{
    const struct mu_agent_task *task = &agent->tasks[task_id];

    if (!task->by_us && agent->root_cause < 0 && mu_launch_code(task->wait_status) != 0)
        agent->root_cause = (int32_t)task_id;
}

/* ^Z: the tasks stop, then we do (unless nobody could wake us: the kernel sees to that), and go on together. */
static void suspend(struct mu_agent *agent)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    mu_agent_signal_tasks(agent, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    mu_agent_signal_tasks(agent, SIGCONT);
}

static void end_by_signal(struct mu_agent *agent, int number)
{
    uint64_t now = muster_now_ns();
    char name[32];

    if (agent->phase == MU_AGENT_RUNNING) {
        agent->end_signal = number;
        mu_agent_say("%s: ending %u task%s", mu_launch_signal_name(number, name), agent->running,
                     agent->running == 1 ? "" : "s");
        mu_agent_begin_end(agent);
    } else if (number == SIGINT && agent->interrupted_at && now - agent->interrupted_at < SECOND_INTERRUPT_NS) {
        kill_all(agent);
    }
    if (number == SIGINT)
        agent->interrupted_at = now;
}

static void take_signal(struct mu_agent *agent, int number)
{
    if (number == SIGCHLD) {
        mu_agent_check_stopped(agent);
        return; /* the loop reaps after every round */
    }
    if (number == SIGTSTP) {
        suspend(agent);
        return;
    }
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        if (number == forwarded[i])
            mu_agent_signal_tasks(agent, number);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (number == ending[i])
            end_by_signal(agent, number);
}

void mu_agent_guard_died(struct mu_agent *agent)
{
    struct mu_launch_failure failure = {"restart", EAGAIN};

    mu_launch_guard_reap(agent->guard);
    if (agent->guard_restarts++ < GUARD_RESTARTS_MAX && mu_launch_guard_restart(agent->guard, &failure) == 0 &&
        watch_fd(agent, mu_launch_guard_fd(agent->guard), MU_AGENT_EVENT_GUARD) == 0)
        return;
    if (!agent->broken)
        mu_agent_say("the guard was killed and cannot be started again (%s: %s): ending the job", failure.step,
                     strerror(failure.error));
    agent->broken = 1;
    mu_agent_begin_end(agent);
}

static void check_clock(struct mu_agent *agent)
{
    uint64_t now = muster_now_ns();

    if (now >= agent->timeout_at) {
        agent->timed_out = 1;
        mu_agent_say_timeout(agent);
        mu_agent_begin_end(agent);
    }
    if (now >= agent->kill_at)
        kill_all(agent);
}

static int patience(const struct mu_agent *agent)
{
    uint64_t until = agent->timeout_at < agent->kill_at ? agent->timeout_at : agent->kill_at, now = muster_now_ns();

    if (until == UINT64_MAX)
        return -1;
    if (until <= now)
        return 0;
    return until - now > 3600000000000ull ? 3600000 : (int)((until - now) / 1000000) + 1;
}

static void supervise(struct mu_agent *agent)
{
    struct epoll_event events[64];

    while (agent->running > 0) {
        int count = epoll_wait(agent->epoll_fd, events, 64, patience(agent));

        for (int i = 0; i < count; i++) {
            struct signalfd_siginfo info;

            if (events[i].data.u32 == MU_AGENT_EVENT_SIGNAL)
                while (read(agent->signal_fd, &info, sizeof info) == sizeof info)
                    take_signal(agent, (int)info.ssi_signo);
        }
        mu_agent_reap(agent);
        mu_agent_say_root_cause(agent);
        if (agent->root_cause >= 0 && !agent->options->keep_going)
            mu_agent_begin_end(agent);
        check_clock(agent);
    }
    mu_agent_say_root_cause(agent);
}

/*
 * Whatever was set up is taken down. Once nothing of the job lives and the segment has no name, nothing is left that
 * the guard could be needed for; it ends while the rest is put away, and is reaped last.
 */
static void finish(struct mu_agent *agent)
{
    mu_agent_end_leftovers(agent);
    if (agent->watching)
        muster_interrupt(agent->muster);
    mu_agent_remove_name(agent);
    mu_launch_guard_dismiss(agent->guard);
    mu_agent_close_job(agent);
    /* Whoever reads our output may take his time: from here on ^C ends us as it ends any program. */
    pthread_sigmask(SIG_SETMASK, &agent->mask_before, NULL);
    mu_launch_relay_finish(agent->relay);
    mu_launch_guard_free(agent->guard);
    mu_launch_env_done(&agent->env);
    free(agent->tasks);
    close(agent->epoll_fd);
    close(agent->signal_fd);
    close(agent->null_fd);
}

int mu_agent_run(const struct mu_agent_options *options)
{
    struct mu_agent agent = {.options = options,
                             .root_cause = -1,
                             .timeout_at = UINT64_MAX,
                             .kill_at = UINT64_MAX,
                             .epoll_fd = -1,
                             .signal_fd = -1,
                             .null_fd = -1};
    int status;

    if (set_up(&agent)) {
        agent.broken = 1;
    } else {
        if (options->timeout_ns)
            agent.timeout_at = muster_after_ns(options->timeout_ns);
        if (mu_agent_start_tasks(&agent))
            mu_agent_begin_end(&agent);
        supervise(&agent);
    }
    status = mu_agent_exit_status(&agent);
    finish(&agent);
    return status;
}
