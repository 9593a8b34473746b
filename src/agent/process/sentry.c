/*
 * agent/process/sentry.c: the guard beside a job (launch/guard/guard.c), as the launcher sees it.
 *
 * It is started before there are threads and much memory, for it may have to be forked; one that is killed is started
 * again, up to a limit, and a job without one ends.
 */
#include <errno.h>
#include <string.h>

#include "agent/private.h"

#define GUARD_RESTARTS_MAX 100

/* A follower that has stayed: the guard of the attempt before is not needed any more. */
static void guard_relieve(struct mu_agent *agent)
{
    struct mu_agent_hosts *hosts = agent->options->hosts;

    if (!hosts || !hosts->guard)
        return;
    mu_launch_forget_preexisting(mu_launch_guard_pid(hosts->guard));
    mu_launch_guard_dismiss(hosts->guard);
    mu_launch_guard_free(hosts->guard);
    hosts->guard = NULL;
}

int mu_agent_start_guard(struct mu_agent *agent)
{
    struct mu_launch_failure failure;
    struct mu_launch_guarded guarded = {.job = agent->job,
                                        .run_id = agent->run_id,
                                        .num_tasks = agent->options->elastic ? agent->options->elastic->most
                                                                             : agent->local_tasks,
                                        .num_commands = agent->options->hosts ? agent->options->hosts->nodes : 0,
                                        .survive = agent->options->survive,
                                        .mask = agent->launching.mask_before,
                                        .files = agent->launching.files_before};

    if (mu_launch_guard_start(&guarded, &agent->launching.guard, &failure)) {
        mu_agent_say("cannot start the guard: %s: %s", failure.step, strerror(failure.error));
        return -1;
    }
    guard_relieve(agent);
    return 0;
}

void mu_agent_guard_died(struct mu_agent *agent)
{
    struct mu_launch_failure failure = {"restart", EAGAIN};

    mu_launch_guard_reap(agent->launching.guard);
    if (agent->launching.guard_restarts++ < GUARD_RESTARTS_MAX &&
        mu_launch_guard_restart(agent->launching.guard, &failure) == 0)
        return;
    if (!agent->broken)
        mu_agent_say("the guard was killed and cannot be started again (%s: %s): ending the job", failure.step,
                     strerror(failure.error));
    mu_agent_break(agent);
}
