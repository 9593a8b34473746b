/*
 * agent/process/suspend.c: ^Z: the tasks stop, then the launcher, and all go on together.
 *
 * On one host the launcher stops itself at once (unless nobody could wake it: the kernel sees to that). Of several it
 * tells the others first, for they would take its silence for the loss of its host: their agents stop their tasks, say
 * so, and from then on believe the connection instead, which the kernel of a stopped process keeps. They go on
 * themselves. A host that does not answer, or has no agent now, would not know: then nothing stays stopped.
 */
#include <signal.h>

#include "agent/hosts/bridge.h"

#define ANSWER_NS 5000000000u /* for the other hosts to say that they have stopped */

static void stop_self(struct mu_agent *agent)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    mu_agent_signal_tasks(agent, SIGCONT);
}

static void give_terminal_back(struct mu_agent *agent)
{
    if (agent->suspend_owner)
        mu_launch_terminal_give(&agent->launching.terminal, agent->suspend_owner);
    agent->suspend_owner = 0;
}

/* Why the job cannot be suspended now; NULL: it can. */
static const char *suspend_obstacle(const struct mu_agent *agent, const char **ret_host)
{
    const struct mu_agent_bridge *b = agent->bridge;

    *ret_host = "";
    if (mu_agent_follows(agent))
        return "only where it was started";
    if (!b || !b->hosts || b->meeting || !agent->muster)
        return "it has not begun";
    if (mu_agent_is_ending(agent))
        return "it ends";
    for (uint32_t i = 1; i < b->num_hosts; i++)
        if (b->hosts[i].away && !b->hosts[i].over) {
            *ret_host = b->hosts[i].name;
            return " is away";
        }
    return NULL;
}

static void go_on(struct mu_agent *agent)
{
    agent->suspend_until = UINT64_MAX;
    mu_agent_tell(agent, UINT32_MAX, MU_TALK_GO, NULL);
    give_terminal_back(agent);
}

void mu_agent_suspend(struct mu_agent *agent, pid_t owner)
{
    struct mu_agent_bridge *b = agent->bridge;
    const char *host, *why;

    if (agent->suspend_until != UINT64_MAX)
        return;
    agent->suspend_owner = owner;
    if (!agent->options->hosts) {
        mu_agent_signal_tasks(agent, SIGTSTP);
        stop_self(agent);
        give_terminal_back(agent);
        return;
    }
    why = suspend_obstacle(agent, &host);
    if (why) {
        mu_agent_say("the job cannot be suspended now: %s%s%s", host[0] ? "host " : "", host, why);
        mu_agent_signal_tasks(agent, SIGCONT); /* the one that had the terminal has stopped */
        give_terminal_back(agent);
        return;
    }
    for (uint32_t i = 1; i < b->num_hosts; i++)
        b->hosts[i].stopped = 0;
    agent->suspend_until = muster_after_ns(ANSWER_NS);
    mu_agent_signal_tasks(agent, SIGTSTP);
    mu_agent_tell(agent, UINT32_MAX, MU_TALK_STOP, NULL);
    mu_agent_look_suspended(agent);
}

void mu_agent_look_suspended(struct mu_agent *agent)
{
    const struct mu_agent_bridge *b = agent->bridge;
    const char *missing = NULL;

    if (agent->suspend_until == UINT64_MAX)
        return;
    for (uint32_t i = 1; !missing && i < b->num_hosts; i++)
        if (!b->hosts[i].over && (!b->hosts[i].stopped || b->hosts[i].away))
            missing = b->hosts[i].name;
    if (!missing) {
        stop_self(agent);
        go_on(agent);
    } else if (muster_now_ns() >= agent->suspend_until) {
        mu_agent_say("the job is not suspended: host %s does not answer", missing);
        mu_agent_signal_tasks(agent, SIGCONT);
        go_on(agent);
    }
}

void mu_agent_drop_suspension(struct mu_agent *agent)
{
    if (agent->suspend_until != UINT64_MAX)
        go_on(agent);
}

void mu_agent_told_to_stop(struct mu_agent *agent)
{
    mu_bridge_be_patient(agent->bridge->bridge, true);
    agent->is_suspended = 1;
    mu_agent_signal_tasks(agent, SIGTSTP);
    mu_agent_tell(agent, 0, MU_TALK_STOPPED, NULL);
}

void mu_agent_told_to_go_on(struct mu_agent *agent)
{
    mu_bridge_be_patient(agent->bridge->bridge, false);
    agent->is_suspended = 0;
    mu_agent_signal_tasks(agent, SIGCONT);
}
