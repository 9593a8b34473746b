/*
 * agent/process/deferred.c: the launcher's threads, started when there is something for them to do.
 *
 * A thread costs what a tenth of a task's start costs, and a job may be over before it has done anything. So the
 * watcher (job.c) comes when the job has lasted a while: a task that dies sooner is small, and its pidfd no later than
 * its slot. The thread that relays output comes with the first byte. Until then this loop takes the ends of pipes
 * through which nothing came, and it never writes what a reader may keep waiting.
 */
#include "agent/private.h"

#include <errno.h>
#include <string.h>

static int start_relay(struct mu_agent *agent)
{
    if (mu_launch_output_go(agent->launching.output) == 0)
        return 0;
    mu_agent_say("cannot relay output: %s", strerror(errno));
    return -1;
}

static void output_came(uv_poll_t *poll, int status, int events)
{
    struct mu_agent *agent = poll->loop->data;

    (void)status;
    (void)events;
    if (!mu_launch_output_look(agent->launching.output))
        return;
    uv_poll_stop(poll);
    if (start_relay(agent))
        mu_agent_break(agent);
}

int mu_agent_expect_output(struct mu_agent *agent)
{
    if (!agent->launching.output || agent->attempt > 0)
        return 0;
    if (mu_agent_leads(agent)) /* other hosts' agents write soon */
        return start_relay(agent);
    if (uv_poll_init(&agent->loop, &agent->launching.relay, mu_launch_output_fd(agent->launching.output)))
        return start_relay(agent);
    agent->launching.relays = 1;
    uv_poll_start(&agent->launching.relay, UV_READABLE, output_came);
    return 0;
}

void mu_agent_expect_no_output(struct mu_agent *agent)
{
    if (agent->launching.relays)
        uv_close((uv_handle_t *)&agent->launching.relay, NULL);
    agent->launching.relays = 0;
}
