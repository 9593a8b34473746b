/*
 * agent/hosts/stay.c: followers that stay from one attempt of the job to the next.
 *
 * A host's checkpoints are its agent's and its guard's to remove, so where the job has any, and is about to be started
 * again, the leader tells the others with the attempt's end to come again. Such a follower takes everything of the
 * attempt down, but keeps its process, its number and the guard; it then tries to reach the leader, which listens at
 * the same port as before, as it did at first. The leader keeps the command by which it had started the host, and that
 * command's standard input: where this ends, for the leader has died or there is no other attempt, so does the
 * follower, and removes what it kept. If it is killed, its guard does that. A host with a task that gets the launcher's
 * standard input is started anew: what it has read of it is gone.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"
#include "checkpoint/checkpoint.h"

#define END_NS 10000000000ull /* for the commands of hosts that stayed for an attempt that does not come */

struct mu_agent_stays {
    uint32_t num_hosts;
    char port[16]; /* where the leader listens again, as :PORT */
    struct {
        pid_t rsh; /* 0: none */
        int input;
    } hosts[];
};

/* ---- a follower's part ------------------------------------------------------------------------------------------- */

int mu_agent_is_staying(const struct mu_agent *agent)
{
    return mu_agent_follows(agent) && !agent->adopted && agent->phase == MU_PHASE_DONE && agent->options->hosts->stays;
}

/* ---- the leader's ------------------------------------------------------------------------------------------------ */

void mu_agent_choose_stays(struct mu_agent *agent, uint64_t *ret_delay_ns)
{
    struct mu_agent_bridge *b = agent->bridge;
    int again = mu_agent_may_begin_again(agent, ret_delay_ns) && mu_checkpoint_is_there(agent->run_id);

    for (uint32_t i = 1; again && i < b->num_hosts; i++) {
        struct mu_agent_host *host = &b->hosts[i];

        host->stays = !host->lost && (!b->options->list || (host->rsh && !mu_agent_host_takes_input(agent, host)));
        b->comes_again |= host->stays;
        if (host->stays && host->rsh)
            mu_launch_note_preexisting_child(host->rsh); /* nothing that the tasks left behind */
    }
}

uint32_t mu_agent_count_parting(const struct mu_agent_bridge *b)
{
    uint32_t count = 0;

    for (uint32_t i = 1; i < b->num_hosts; i++)
        count += b->hosts[i].stays ? !b->hosts[i].left : b->hosts[i].rsh != 0;
    return count;
}

void mu_agent_keep_stays(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_agent_stays *stays;
    uint32_t count = 0;

    for (uint32_t i = 1; b->hosts && i < b->num_hosts; i++)
        count += (uint32_t)b->hosts[i].stays;
    if (!count)
        return;
    stays = calloc(1, sizeof *stays + b->num_hosts * sizeof *stays->hosts);
    if (!stays) /* their input ends with the bridge, and so do they */
        return;
    stays->num_hosts = b->num_hosts;
    snprintf(stays->port, sizeof stays->port, "%s", b->port);
    for (uint32_t i = 0; i < b->num_hosts; i++) {
        stays->hosts[i].input = -1;
        if (!b->hosts[i].stays)
            continue;
        stays->hosts[i].rsh = b->hosts[i].rsh;
        stays->hosts[i].input = b->hosts[i].input;
        b->hosts[i].input = -1;
        b->hosts[i].stays = 0;
    }
    agent->stays = stays;
}

void mu_agent_take_stays(struct mu_agent *agent)
{
    struct mu_agent_stays *stays = agent->stays;
    struct mu_agent_bridge *b = agent->bridge;
    size_t len = strlen(b->listen_at);

    if (!stays)
        return;
    if (len >= 2 && strcmp(b->listen_at + len - 2, ":0") == 0)
        snprintf(b->listen_at + len - 2, sizeof b->listen_at - len + 2, "%s", stays->port);
    for (uint32_t i = 1; i < b->num_hosts; i++) {
        b->hosts[i].rsh = stays->hosts[i].rsh;
        b->hosts[i].input = stays->hosts[i].input;
    }
    free(stays);
    agent->stays = NULL;
}

int mu_agent_stay_ended(struct mu_agent *agent, const siginfo_t *info)
{
    struct mu_agent_stays *stays = agent->stays;
    siginfo_t reaped;

    for (uint32_t i = 1; stays && i < stays->num_hosts; i++) {
        if (!stays->hosts[i].rsh || stays->hosts[i].rsh != info->si_pid)
            continue;
        mu_launch_guard_command(agent->launching.guard, i, 0);
        mu_launch_forget_preexisting(info->si_pid);
        waitid(P_PID, (id_t)info->si_pid, &reaped, WEXITED);
        stays->hosts[i].rsh = 0; /* the next attempt starts the host anew */
        if (stays->hosts[i].input >= 0)
            close(stays->hosts[i].input);
        stays->hosts[i].input = -1;
        return 1;
    }
    return 0;
}

/* Those that have not ended after a signal, if it is not 0. */
static uint32_t stays_left(struct mu_agent *agent, int number)
{
    struct mu_agent_stays *stays = agent->stays;
    uint32_t left = 0;

    for (uint32_t i = 1; i < stays->num_hosts; i++) {
        siginfo_t info = {.si_pid = 0};

        if (!stays->hosts[i].rsh)
            continue;
        if (number)
            kill(-stays->hosts[i].rsh, number);
        if (waitid(P_PID, (id_t)stays->hosts[i].rsh, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            mu_agent_stay_ended(agent, &info);
        left += stays->hosts[i].rsh != 0;
    }
    return left;
}

void mu_agent_end_stays(struct mu_agent *agent)
{
    uint64_t until = muster_after_ns(agent->options->grace_ns + END_NS);
    struct mu_agent_stays *stays;

    if (agent->bridge) /* the job was told to end before its pause */
        mu_agent_keep_stays(agent);
    stays = agent->stays;
    for (uint32_t i = 1; stays && i < stays->num_hosts; i++) {
        if (stays->hosts[i].input >= 0)
            close(stays->hosts[i].input);
        stays->hosts[i].input = -1;
    }
    while (stays && stays_left(agent, 0) > 0 && muster_now_ns() < until)
        poll(NULL, 0, 5);
    if (stays && stays_left(agent, SIGKILL) > 0)
        poll(NULL, 0, 5);
    free(stays);
    agent->stays = NULL;
}
