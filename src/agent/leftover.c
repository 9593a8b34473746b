/*
 * agent/leftover.c: what the tasks left behind when the last of them has ended.
 *
 * Their descendants have a second to end by themselves, then SIGTERM and the grace, then SIGKILL. Nothing of the job is
 * alive once the guard is the launcher's only child.
 */
#include "agent/private.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LEFTOVER_PATIENCE_NS 1000000000ull /* what a task left behind may take to end by itself */
#define LEFTOVER_KILL_NS     5000000000ull /* after SIGKILL, before it is given up and named */

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

    if (!agent->any_started || all_gone(agent))
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
