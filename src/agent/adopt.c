/*
 * agent/adopt.c: `muster agent --adopt`: supervise a job after its launcher has died and its tasks have survived it.
 *
 * The segment is the truth about the tasks' states, the guard's table about their processes. They are nobody's children
 * here, so each is watched by its pidfd, which tells that it has ended and not how: exit statuses, and output that went
 * through the launcher, are lost, and that is said. A task that has ended without leaving is in error by the segment's
 * word: that is what failure means here. The guard stays; should the adopter die too, the job survives that as well.
 * Of a job of several hosts this host's part is adopted, the leader's or another's (agent/hosts/rejoin.c).
 */
#include "agent/checkpoint/keep.h"
#include "agent/hosts/stay.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <muster/segment.h>

#include "segment/file.h"

#define GUARD_PATIENCE_NS 2000000000ull
#define GUARD_PAUSE_MS    20

static void adopted_ended(uv_poll_t *poll, int status, int events)
{
    struct mu_agent *agent = poll->loop->data;
    struct mu_agent_task *task = poll->data;
    uint32_t task_id = (uint32_t)(task - agent->tasks);
    struct muster_task_info info;

    (void)status;
    (void)events;
    uv_poll_stop(poll);
    task->ended = 1;
    task->by_us = mu_agent_is_ending(agent);
    agent->running--;
    muster_scavenge(agent->muster, NULL);
    mu_task_process_ended(agent->muster, (int32_t)task_id, (uint32_t)task->pid, MU_TASK_HOW_IS_UNKNOWN, true);
    if (mu_agent_follows(agent)) { /* the leader decides */
        mu_agent_tell_gone(agent, task_id);
        return;
    }
    if (muster_task_get(agent->muster, (int32_t)task_id, &info) != MUSTER_OK || info.state != MUSTER_TASK_ERROR)
        return;
    agent->failures += !task->by_us;
    if (!task->by_us && agent->root_cause < 0) {
        agent->root_said = 1;
        agent->root_cause = (int32_t)task_id;
        mu_agent_say("task %u (pid %d) has failed: %s", task_id, (int)task->pid, info.message);
    }
}

static int watch_task(struct mu_agent *agent, uint32_t task_id, pid_t pid)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    int error;

    task->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (task->pidfd < 0)
        return errno == ESRCH ? 0 : -1; /* it has ended meanwhile */
    if (!mu_launch_bears_mark(pid, agent->run_id)) {
        close(task->pidfd); /* the number is somebody else's by now */
        return 0;
    }
    task->pid = pid;
    error = uv_poll_init(&agent->loop, &task->poll, task->pidfd);
    if (error == 0) {
        task->poll.data = task;
        error = uv_poll_start(&task->poll, UV_READABLE, adopted_ended);
    }
    if (error) {
        mu_agent_say("cannot watch task %u (pid %d): %s", task_id, (int)pid, uv_strerror(error));
        return -1;
    }
    task->started = 1;
    agent->any_started = 1;
    agent->running++;
    return 0;
}

/* One that was forked a moment ago, by a launcher that died at once or lives, may not be known by its name yet. */
static int find_guard(const struct mu_agent *agent, pid_t launcher, struct mu_launch_orphans *ret_orphans)
{
    uint64_t until = muster_after_ns(GUARD_PATIENCE_NS);

    while (mu_launch_guard_find(agent->job, launcher, agent->local_tasks, ret_orphans)) {
        if (muster_now_ns() >= until)
            return -1;
        poll(NULL, 0, GUARD_PAUSE_MS);
    }
    return 0;
}

/* Find the job's segment and its processes. */
static int find_job(struct mu_agent *agent, struct mu_launch_orphans *ret_orphans)
{
    struct muster_segment_info info;

    if (mu_segment_open(agent->job, true, &agent->segment) != MUSTER_OK ||
        muster_segment_info(agent->segment, &info) != MUSTER_OK) {
        mu_agent_say("%s", muster_last_error());
        return -1;
    }
    snprintf(agent->segment_text, sizeof agent->segment_text, "%s", info.path);
    agent->num_tasks = agent->local_tasks = agent->segment->local_tasks;
    if (find_guard(agent, (pid_t)info.creator_pid, ret_orphans)) {
        mu_agent_say("job %s has no guard here: it was not started by 'muster run --survive', or the guard was killed, "
                     "too",
                     agent->job);
        return -1;
    }
    if (ret_orphans->launcher_lives) {
        mu_agent_say("the launcher of job %s (pid %d) lives: there is nothing to adopt", agent->job,
                     (int)ret_orphans->launcher);
        return -1;
    }
    if (!ret_orphans->survive) {
        mu_agent_say("job %s was not started with --survive: it is about to end", agent->job);
        return -1;
    }
    if (ret_orphans->adopted) {
        mu_agent_say("job %s has been adopted already", agent->job);
        return -1;
    }
    snprintf(agent->run_id, sizeof agent->run_id, "%s", ret_orphans->run_id);
    return 0;
}

/* What failed while nobody looked. */
static void find_failed(struct mu_agent *agent)
{
    struct muster_error error;

    muster_scavenge(agent->muster, NULL);
    if (mu_agent_follows(agent))
        return;
    agent->root_cause = mu_agent_first_error(agent, &error);
    agent->root_said = agent->root_cause >= 0;
    if (agent->root_cause >= 0)
        mu_agent_say("task %d (pid %u) has failed: %s", (int)agent->root_cause, error.pid, error.message);
}

static int take_over(struct mu_agent *agent)
{
    const struct mu_launch_orphans *orphans = agent->orphans;

    if (mu_agent_take_tasks(agent, agent->num_tasks, agent->first_task) || mu_agent_join_job(agent) ||
        mu_agent_serve_metrics(agent))
        return -1;
    mu_agent_watch_job(agent);
    for (uint32_t i = 0; i < agent->local_tasks; i++)
        if (orphans->pids[i] && watch_task(agent, agent->first_task + i, orphans->pids[i]))
            return -1;
    if (agent->options->hosts && (mu_agent_rejoin(agent) || mu_agent_begin_checkpoints(agent)))
        return -1;
    find_failed(agent);
    mu_health_start(agent);
    mu_agent_begin_status(agent);
    mu_agent_keep_on(agent);
    mu_agent_say("job %s adopted: %u of %u tasks are running (their exit statuses, and how the others ended, are lost)",
                 agent->job, agent->running, agent->local_tasks);
    return 0;
}

/* Where that fails the job goes on without an agent, and another may adopt it. */
static enum mu_agent_event adopt_open(struct mu_agent *agent)
{
    if (take_over(agent)) {
        agent->broken = 1;
        return MU_ON_OVER;
    }
    if (agent->options->timeout_ns && !mu_agent_follows(agent))
        agent->timeout_at = muster_after_ns(agent->options->timeout_ns);
    return MU_ON_OPENED;
}

int mu_agent_adopt(const char *job, const struct mu_agent_options *options)
{
    struct mu_launch_orphans orphans = {.fd = -1};
    struct mu_agent_options own = *options;
    struct mu_agent_hosts hosts = {.node = 0};
    struct mu_agent agent;
    int status;

    mu_agent_call_me("muster agent");
    if (mu_agent_init(&agent, &own, mu_components))
        return MU_AGENT_EXIT_FAILED;
    agent.adopted = 1;
    agent.open = adopt_open;
    agent.orphans = &orphans;
    snprintf(agent.job, sizeof agent.job, "%s", job);
    snprintf(agent.title, sizeof agent.title, "%s", job);
    agent.broken = find_job(&agent, &orphans) != 0;
    if (!agent.broken && mu_is_bridged(agent.segment)) {
        agent.broken = mu_agent_take_part(&agent, &hosts, &orphans) != 0;
        own.hosts = &hosts;
    }
    agent.broken = agent.broken || mu_agent_set_up(&agent);
    if (!agent.broken)
        mu_agent_live(&agent, MU_ON_BEGIN);
    status = mu_agent_exit_status(&agent);
    mu_agent_tear_down(&agent);
    free(orphans.pids);
    explicit_bzero(&orphans.part, sizeof orphans.part);
    close(orphans.fd);
    explicit_bzero(hosts.key, sizeof hosts.key);
    return status;
}
