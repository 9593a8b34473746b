/*
 * agent/hosts/tell.c: the job's hosts and tasks by name and number, and how one agent tells another something.
 *
 * Nothing here calls anything above it: every other file of this room may use it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"
#include "agent/process/elastic.h"

void mu_agent_own_name(const struct mu_agent_hosts *options, char *name, size_t size)
{
    name[0] = 0;
    if (options && options->name)
        snprintf(name, size, "%s", options->name);
    else
        gethostname(name, size - 1);
}

const char *mu_agent_task_name(const struct mu_agent *agent, uint32_t task_id, char *buffer, size_t size)
{
    const struct mu_agent_bridge *b = agent->bridge;
    uint32_t host = 0;

    if (!b || !b->hosts) {
        if (agent->tasks[task_id].pid)
            snprintf(buffer, size, "task %u (pid %d)", task_id, (int)agent->tasks[task_id].pid);
        else /* none of ours: muster serve */
            snprintf(buffer, size, "task %u", task_id);
        return buffer;
    }
    while (host + 1 < b->num_hosts && task_id - b->hosts[host].first_task >= b->hosts[host].tasks)
        host++;
    snprintf(buffer, size, "task %u (host %s, pid %d)", task_id, b->hosts[host].name, (int)agent->tasks[task_id].pid);
    return buffer;
}

uint32_t mu_agent_running_everywhere(const struct mu_agent *agent)
{
    const struct mu_agent_bridge *b = agent->bridge;
    uint32_t running = agent->running;

    for (uint32_t i = 1; b && b->hosts && i < b->num_hosts; i++)
        running += b->hosts[i].running;
    return running;
}

int mu_agent_is_out_of_reach(const struct mu_agent *agent, uint32_t task_id)
{
    const struct mu_agent_bridge *b = agent->bridge;

    for (uint32_t i = 1; b && b->hosts && i < b->num_hosts; i++)
        if (task_id - b->hosts[i].first_task < b->hosts[i].tasks)
            return b->hosts[i].lost;
    return 0;
}

int mu_agent_take_tasks(struct mu_agent *agent, uint32_t num_tasks, uint32_t first_task)
{
    const struct mu_agent_options *options = agent->options;

    if (agent->tasks) /* the job has been started again */
        return 0;
    agent->num_tasks = num_tasks;
    agent->first_task = first_task;
    agent->tasks = calloc(num_tasks, sizeof *agent->tasks);
    if (!agent->tasks) {
        mu_agent_say("cannot set up: %s", strerror(errno));
        return -1;
    }
    for (uint32_t app = 0, i = 0, n = 0; i < num_tasks; i++, n++) {
        while (app + 1 < options->num_apps && n == options->apps[app].num_tasks) {
            app++;
            n = 0;
        }
        agent->tasks[i].restart_at = UINT64_MAX;
        agent->tasks[i].app = app;
        agent->tasks[i].attempt = mu_agent_follows(agent) && !agent->adopted ? options->hosts->orders->attempt : 0;
    }
    return 0;
}

struct mu_hosts_config *mu_agent_place(struct mu_agent *agent, struct muster_segment_config *config,
                                       struct mu_hosts_config *ret_place)
{
    const struct mu_bridge_shape *shape;

    if (!agent->bridge)
        return NULL;
    shape = mu_bridge_shape(agent->bridge->bridge);
    *ret_place = (struct mu_hosts_config){
        .num_hosts = shape->num_hosts,
        .host = shape->host,
        .num_tasks = shape->tasks,
        .run_id = {shape->run_id[0], shape->run_id[1]},
        .adopt_ns = shape->adopt_ns,
    };
    if (mu_agent_follows(agent)) {
        config->heap_bytes = agent->options->hosts->orders->heap_bytes;
        config->object_bytes = agent->options->hosts->orders->object_bytes;
        config->heartbeat_timeout_ns = agent->options->hosts->orders->segment_timeout_ns;
    }
    return ret_place;
}

void mu_agent_tell(struct mu_agent *agent, uint32_t host, enum mu_agent_talk kind, const struct mu_pack *what)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b && mu_agent_follows(agent) && b->is_over) /* one that ends its tasks by itself is lost, and not done */
        return;
    if (b && b->bridge && !b->meeting && agent->muster)
        mu_bridge_control(b->bridge, host, kind, what ? what->bytes : NULL, what ? what->len : 0);
}

void mu_agent_ask_tail(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_pack what = {.bytes = NULL};

    mu_pack_u32(&what, task_id);
    for (uint32_t i = 1; i < b->num_hosts; i++)
        if (task_id - b->hosts[i].first_task < b->hosts[i].tasks && !b->hosts[i].lost)
            mu_agent_tell(agent, i, MU_TALK_TAIL, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_end(struct mu_agent *agent, uint32_t host)
{
    struct mu_pack what = {.bytes = NULL};

    mu_pack_u8(&what, (uint8_t)agent->is_interrupted);
    mu_agent_tell(agent, host, MU_TALK_END, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_failed(struct mu_agent *agent)
{
    struct mu_pack what = {.bytes = NULL};

    if (!mu_agent_follows(agent))
        return;
    mu_pack_u32(&what, agent->spawn_status ? (uint32_t)agent->spawn_status : MU_AGENT_EXIT_FAILED);
    mu_agent_tell(agent, 0, MU_TALK_FAILED, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_signal(struct mu_agent *agent, int number)
{
    struct mu_pack what = {.bytes = NULL};

    if (!mu_agent_follows(agent))
        return;
    mu_pack_u32(&what, (uint32_t)number);
    mu_agent_tell(agent, 0, MU_TALK_TOLD, &what);
    mu_pack_done(&what);
}
