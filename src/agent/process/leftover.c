/*
 * agent/process/leftover.c: what the tasks left behind when the last of them has ended.
 *
 * Their descendants have a second to end by themselves, then SIGTERM and the grace, then SIGKILL. Nothing of the job is
 * alive once the guard is the launcher's only child, but for those that the launcher had before it was one.
 */
#include "agent/private.h"

#include <stdbool.h>
#include <unistd.h>

#define PATIENCE_NS  1000000000ull /* what a task left behind may take to end by itself */
#define KILL_NS      5000000000ull /* after SIGKILL, before it is given up and named */
#define LOOK_NS      20000000ull   /* a process that is not our child yet wakes nobody when it ends */
#define KILL_LOOK_NS 5000000ull

/* What one that was adopted left behind is nobody's child here. */
static struct mu_launch_mark leftovers_mark(const struct mu_agent *agent)
{
    if (agent->adopted)
        return (struct mu_launch_mark){.run_id = agent->run_id, .session = -1};
    return (struct mu_launch_mark){.run_id = agent->run_id,
                                   .parent = getpid(),
                                   .session = getsid(0),
                                   .spare = MU_LAUNCH_GUARD_NAME,
                                   .except = mu_launch_guard_pid(agent->launching.guard)};
}

static bool leftovers_are_gone(struct mu_agent *agent)
{
    struct mu_launch_mark mark = leftovers_mark(agent);

    if (agent->adopted)
        return mu_launch_sweep(&mark, 0, NULL, NULL) == 0;
    return !mu_launch_has_children(mu_launch_guard_pid(agent->launching.guard));
}

static void sweep_step(struct mu_agent *agent, enum mu_sweep_step step, uint64_t ns)
{
    agent->sweep = step;
    agent->sweep_until = muster_after_ns(ns);
}

static void sweep_term(struct mu_agent *agent)
{
    struct mu_launch_mark mark = leftovers_mark(agent);
    pid_t first = 0;
    char name[32] = "";
    size_t found = mu_launch_sweep(&mark, SIGTERM, &first, name);

    if (found > 0 && agent->force == MU_FORCE_NONE && !agent->adopted)
        mu_agent_say("the tasks left %zu process%s behind (pid %d, %s): ending %s", found, found == 1 ? "" : "es",
                     (int)first, name, found == 1 ? "it" : "them");
    sweep_step(agent, MU_SWEEP_TERM, agent->options->grace_ns);
}

/* Again and again. A guard of a job inside this one is given time to clean up after its launcher. */
static void sweep_kill(struct mu_agent *agent)
{
    struct mu_launch_mark mark = leftovers_mark(agent);
    uint64_t now = muster_now_ns();
    pid_t first = 0;
    char name[32] = "";
    size_t found;

    mark.spare = NULL;
    if (!agent->adopted) {
        mu_launch_sweep(&mark, SIGTERM, NULL, NULL); /* to a guard that waits for an adopter: there will be none */
        mark.spare = now + KILL_NS / 2 < agent->sweep_until ? MU_LAUNCH_GUARD_NAME : NULL;
    }
    found = mu_launch_sweep(&mark, SIGKILL, &first, name);
    if (now < agent->sweep_until)
        return;
    if (found > 0)
        mu_agent_say("%zu process%s of the job cannot be ended (pid %d, %s)", found, found == 1 ? "" : "es", (int)first,
                     name);
    mu_agent_post(agent, MU_ON_SWEPT);
}

void mu_agent_sweep(struct mu_agent *agent)
{
    if (agent->adopted)
        sweep_term(agent);
    else
        sweep_step(agent, MU_SWEEP_WAIT, PATIENCE_NS);
}

void mu_agent_look_sweeping(struct mu_agent *agent)
{
    uint64_t now = muster_now_ns();
    int is_over = now >= agent->sweep_until;

    if (!agent->any_started || leftovers_are_gone(agent)) {
        mu_agent_post(agent, MU_ON_SWEPT);
        return;
    }
    if (agent->sweep != MU_SWEEP_KILL && (agent->force == MU_FORCE_KILL || (agent->sweep == MU_SWEEP_TERM && is_over)))
        sweep_step(agent, MU_SWEEP_KILL, KILL_NS);
    else if (agent->sweep == MU_SWEEP_WAIT && (is_over || agent->force != MU_FORCE_NONE))
        sweep_term(agent);
    if (agent->sweep == MU_SWEEP_KILL)
        sweep_kill(agent);
    agent->phase_until = now + (agent->sweep == MU_SWEEP_KILL ? KILL_LOOK_NS : LOOK_NS);
    if (agent->sweep != MU_SWEEP_KILL && agent->sweep_until < agent->phase_until)
        agent->phase_until = agent->sweep_until;
}
