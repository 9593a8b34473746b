/*
 * agent/hosts/rejoin.c: one host's part in a job of several, taken over from an agent that has died.
 *
 * What a successor needs (which host this is, its incarnation, the key, where the leader is or listens) is noted in the
 * guard's table as soon as the hosts have met; the rest is in the segment: its table of hosts says which take part and
 * which have been given up. Nobody is waited for: the connections come by themselves, and then each side tells how
 * things stand with it (MU_CONTROL_ANOTHER). Knowledge of the dead one alone, how its children ended, is lost.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/hosts/bridge.h"

#define LISTEN_PATIENCE_NS 5000000000ull /* for the dead one's last process, which may hold its port still */
#define LISTEN_PAUSE_MS    50

void mu_agent_note_part(struct mu_agent *agent)
{
    const struct mu_agent_hosts *hosts = agent->options->hosts;
    struct mu_launch_role part = {.node = hosts->node,
                                  .nodes = hosts->nodes,
                                  .incarnation = {hosts->incarnation[0], hosts->incarnation[1]},
                                  .timeout_ns = hosts->heartbeat_timeout_ns,
                                  .adopt_ns = hosts->adopt_ns,
                                  .latency = hosts->latency};

    memcpy(part.key, hosts->key, sizeof part.key);
    snprintf(part.address, sizeof part.address, "%s", hosts->node ? hosts->address : agent->bridge->port);
    mu_host_name(agent->muster->seg, hosts->node, part.name, sizeof part.name);
    snprintf(part.job, sizeof part.job, "%s", agent->title);
    mu_launch_guard_part(agent->launching.guard, &part);
    explicit_bzero(part.key, sizeof part.key);
}

int mu_agent_take_part(struct mu_agent *agent, struct mu_agent_hosts *hosts, const struct mu_launch_orphans *orphans)
{
    const struct muster_segment *seg = agent->segment;
    const struct mu_launch_role *part = &orphans->part;

    if (!orphans->has_part || part->node != seg->host || part->nodes != seg->num_hosts) {
        mu_agent_say("job %s cannot be adopted: its agent was killed before it knew the other hosts, or while it ended",
                     agent->job);
        return -1;
    }
    *hosts = (struct mu_agent_hosts){.node = part->node,
                                     .nodes = part->nodes,
                                     .tasks_here = seg->local_tasks,
                                     .address = part->address,
                                     .name = part->name,
                                     .heartbeat_timeout_ns = part->timeout_ns,
                                     .adopt_ns = part->adopt_ns,
                                     .incarnation = {part->incarnation[0], part->incarnation[1]},
                                     .latency = part->latency};
    memcpy(hosts->key, part->key, sizeof hosts->key);
    snprintf(agent->title, sizeof agent->title, "%s", part->job);
    agent->num_tasks = seg->num_tasks;
    agent->first_task = seg->first_task;
    return 0;
}

/* The other hosts, as the dead leader's agent left them: until they say otherwise all of their tasks run. */
static void recall_hosts(struct mu_agent *agent)
{
    const struct muster_segment *seg = agent->segment;
    struct mu_agent_bridge *b = agent->bridge;

    for (uint32_t i = 0; i < b->num_hosts; i++) {
        struct mu_agent_host *host = &b->hosts[i];
        uint64_t state = mu_load_relaxed(&seg->hosts[i].state); /* relaxed: agents write it, and the last one is dead */

        host->input = -1;
        host->first_task = seg->hosts[i].first_task;
        host->tasks = seg->hosts[i].num_tasks;
        host->lost = host->over = i > 0 && (state == MU_HOST_LOST || state == MU_HOST_LEFT);
        host->running = i > 0 && !host->lost ? host->tasks : 0;
        host->away = !host->lost;
        mu_host_name(seg, i, host->name, sizeof host->name);
        b->open += i > 0 && !host->lost;
        agent->broken |= host->lost;
        for (uint32_t task = host->first_task; host->lost && task < host->first_task + host->tasks; task++)
            agent->tasks[task].ended = agent->tasks[task].by_us = 1;
    }
}

int mu_agent_rejoin(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge = mu_agent_new_bridge(agent->options->hosts);
    uint64_t until = muster_after_ns(LISTEN_PATIENCE_NS);
    struct mu_bridge_options options;
    enum muster_status status;

    if (!b) {
        mu_agent_say("out of memory");
        return -1;
    }
    b->away = 1;
    if (b->hosts)
        recall_hosts(agent);
    snprintf(b->listen_at, sizeof b->listen_at, "%.15s", b->hosts ? b->options->address : "");
    snprintf(b->port, sizeof b->port, "%.15s", b->listen_at);
    if (mu_agent_hear_mail(agent))
        return -1;
    mu_agent_bridge_options(b, &options);
    options.job = agent->title;
    while ((status = mu_bridge_resume(&options, agent->muster, &b->bridge)) == MUSTER_ALREADY_EXISTS &&
           muster_now_ns() < until)
        poll(NULL, 0, LISTEN_PAUSE_MS);
    if (status != MUSTER_OK) {
        mu_agent_say("%s", muster_last_error());
        return -1;
    }
    if (mu_agent_follows(agent))
        mu_agent_tell_all(agent);
    return 0;
}
