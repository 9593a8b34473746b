/*
 * agent/serve.c: `muster serve`: a job's segment and what is served to clients on it, and no tasks of its own.
 *
 * The order is agent.c's: the guard first (it removes the segment should we be killed), the segment, the service; then
 * the loop, until a signal comes or, where that is asked for, until all tasks have shut down. Tasks come and go by the
 * wire, or as processes on this host that join the segment by the job's name.
 */
#include "agent/private.h"

#include <stdlib.h>
#include <unistd.h>

#include "rpc/desk.h"
#include "rpc/service.h"

#define GRACE_NS 1000000000ull /* for clients to fetch their answers in */
#define LOOK_MS  50

struct mu_serving {
    struct mu_agent agent;
    uv_timer_t timer;
    int over; /* with --once: all tasks have come and gone */
};

static void look(uv_timer_t *timer)
{
    struct mu_serving *serving = timer->data;

    serving->over = mu_desk_is_over(serving->agent.desk);
}

static int is_once(const struct mu_agent *agent)
{
    return agent->options->grpc && agent->options->grpc->once;
}

static int open_up(struct mu_serving *serving)
{
    struct mu_agent *agent = &serving->agent;

    if (mu_agent_set_up_loop(agent) || mu_agent_take_tasks(agent, agent->options->num_tasks, 0))
        return -1;
    mu_agent_name_job(agent);
    if (mu_agent_start_guard(agent) || mu_agent_open_job(agent) || mu_agent_serve_metrics(agent) ||
        mu_agent_serve_clients(agent))
        return -1;
    mu_agent_watch_job(agent);
    uv_timer_init(&agent->loop, &serving->timer);
    serving->timer.data = serving;
    if (is_once(agent))
        uv_timer_start(&serving->timer, look, LOOK_MS, LOOK_MS);
    return 0;
}

static void close_down(struct mu_serving *serving)
{
    struct mu_agent *agent = &serving->agent;

    uv_timer_stop(&serving->timer); /* the service ends in turns of the loop, and is not looked at meanwhile */
    mu_agent_stop_clients(agent, GRACE_NS);
    mu_metrics_stop(agent->metrics);
    if (agent->watching)
        muster_interrupt(agent->muster);
    mu_agent_remove_name(agent);
    mu_launch_guard_dismiss(agent->guard);
    mu_agent_close_job(agent);
    mu_agent_flush(1);
    mu_launch_guard_free(agent->guard);
    mu_agent_close_loop(agent);
    free(agent->tasks);
}

/* With --once the tasks' end is what it is for; without, a signal is how it ends. */
static int exit_status(struct mu_serving *serving)
{
    struct mu_agent *agent = &serving->agent;
    struct muster_error error;
    int32_t first;

    if (agent->broken)
        return MU_AGENT_EXIT_FAILED;
    if (!is_once(agent))
        return 0;
    if (!serving->over)
        return 128 + agent->end_signal;
    first = mu_agent_first_error(agent, &error);
    if (first >= 0)
        mu_agent_say("task %d has failed: %s", (int)first, error.message);
    return first >= 0;
}

int mu_agent_serve(const struct mu_agent_options *options, mu_agent_ready_fn ready)
{
    struct mu_serving serving = {.agent = {.options = options,
                                           .num_tasks = options->num_tasks,
                                           .root_cause = -1,
                                           .timeout_at = UINT64_MAX,
                                           .kill_at = UINT64_MAX,
                                           .give_up_at = UINT64_MAX,
                                           .suspend_until = UINT64_MAX,
                                           .deadline = UINT64_MAX,
                                           .signal_fd = -1,
                                           .null_fd = -1}};
    struct mu_agent *agent = &serving.agent;
    int status;

    if (open_up(&serving)) {
        agent->broken = 1;
    } else {
        ready(agent->job, agent->service ? mu_service_address(agent->service) : NULL,
              agent->tcpstore ? agent->tcpstore_at : NULL);
        while (agent->phase == MU_AGENT_RUNNING && !serving.over) {
            mu_agent_turn(agent);
            mu_agent_reap(agent);
        }
    }
    status = exit_status(&serving);
    close_down(&serving);
    return status;
}
