/*
 * agent/leftover.c: what the tasks left behind when the last of them has ended.
 *
 * Their descendants have a second to end by themselves, then SIGTERM and the grace, then SIGKILL. Nothing of the job is
 * alive once the guard is the launcher's only child, but for those that the launcher had before it was one.
 */
#include "agent/private.h"

#include <poll.h>
#include <unistd.h>

#define LEFTOVER_PATIENCE_NS 1000000000ull /* what a task left behind may take to end by itself */
#define LEFTOVER_KILL_NS     5000000000ull /* after SIGKILL, before it is given up and named */

static int all_gone(struct mu_agent *agent)
{
    mu_agent_reap(agent);
    return !mu_launch_has_children(mu_launch_guard_pid(agent->guard));
}

/* Reap until nothing is left (then 1), the time has come, or the end is in the phase `hurry` or a later one. */
static int wait_for_leftovers(struct mu_agent *agent, uint64_t until, enum mu_agent_phase hurry)
{
    struct pollfd pfd = {.fd = agent->signal_fd, .events = POLLIN};

    for (;;) {
        uint64_t now;

        if (all_gone(agent))
            return 1;
        now = muster_now_ns();
        if (now >= until || agent->phase >= hurry)
            return 0;
        /* SIGCHLD wakes us. A process that is not our child yet does not: hence no more than 20 ms. */
        poll(&pfd, 1, until - now > 20000000 ? 20 : (int)((until - now) / 1000000) + 1);
        mu_agent_take_signals(agent); /* a second ^C, say */
        mu_agent_check_clock(agent);
    }
}

/* SIGKILL until nothing is left. A guard of a job inside this one is given time to clean up after its launcher. */
static void kill_leftovers(struct mu_agent *agent, struct mu_launch_mark *mark)
{
    uint64_t give_up = muster_after_ns(LEFTOVER_KILL_NS), spare = muster_after_ns(LEFTOVER_KILL_NS / 2);
    size_t found;
    pid_t first = 0;
    char name[32] = "";

    do {
        mark->except = mu_launch_guard_pid(agent->guard);
        mark->spare = NULL;
        mu_launch_sweep(mark, SIGTERM, NULL, NULL); /* to a guard that waits for an adopter: there will be none */
        mark->spare = muster_now_ns() < spare ? MU_LAUNCH_GUARD_NAME : NULL;
        found = mu_launch_sweep(mark, SIGKILL, &first, name);
    } while (!wait_for_leftovers(agent, muster_after_ns(5000000), MU_AGENT_NO_PHASE) && muster_now_ns() < give_up);
    if (found > 0 && !all_gone(agent))
        mu_agent_say("%zu process%s of the job cannot be ended (pid %d, %s)", found, found == 1 ? "" : "es", (int)first,
                     name);
}

void mu_agent_end_leftovers(struct mu_agent *agent)
{
    struct mu_launch_mark mark = {
        .run_id = agent->run_id, .parent = getpid(), .session = getsid(0), .spare = MU_LAUNCH_GUARD_NAME};
    size_t found;
    pid_t first = 0;
    char name[32] = "";

    if (!agent->any_started || all_gone(agent) ||
        wait_for_leftovers(agent, muster_after_ns(LEFTOVER_PATIENCE_NS), MU_AGENT_ENDING))
        return;
    if (agent->phase != MU_AGENT_KILLING) {
        mark.except = mu_launch_guard_pid(agent->guard);
        found = mu_launch_sweep(&mark, SIGTERM, &first, name);
        if (found > 0 && agent->phase == MU_AGENT_RUNNING)
            mu_agent_say("the tasks left %zu process%s behind (pid %d, %s): ending %s", found, found == 1 ? "" : "es",
                         (int)first, name, found == 1 ? "it" : "them");
        if (wait_for_leftovers(agent, muster_after_ns(agent->options->grace_ns), MU_AGENT_KILLING))
            return;
    }
    kill_leftovers(agent, &mark);
}
