/*
 * agent/hosts/lead.c: host 0's part in a job of several hosts: it hears of the others' tasks, decides, and tells.
 *
 * What it hears is put where a task of its own would have put it (agent->tasks), so failure, root cause and exit status
 * are found as on one node. A host is over when its last task has ended, or it is lost; a lost one ends the job.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"
#include "agent/process/elastic.h"

#define GIVE_UP_NS 5000000000ull /* beyond the grace, on a host without an agent while the job ends */

static void is_over(struct mu_agent_bridge *b, struct mu_agent_host *host)
{
    if (!host->over)
        b->open--;
    host->over = 1;
}

static void take_started(struct mu_agent *agent, struct mu_agent_host *host, struct mu_unpack *u)
{
    uint32_t first = mu_unpack_u32(u), count = mu_unpack_u32(u);

    if (u->failed || first < host->first_task || count > host->tasks || first - host->first_task > host->tasks - count)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct mu_agent_task *task = &agent->tasks[first + i];
        pid_t pid = (pid_t)mu_unpack_u32(u);

        if (task->started && !task->ended && task->pid != pid) { /* it had failed, and was started anew there */
            agent->failures++;
            if (agent->metrics)
                mu_metrics_restarted(agent->metrics, 1);
        }
        task->pid = pid;
        if (mu_agent_is_live(agent) && (task->ended || first + i >= agent->options->num_tasks)) {
            host->running += !task->started; /* not at first, and so not counted yet */
            mu_agent_live_began(agent, first + i);
        }
        host->running += task->ended; /* again */
        task->started = 1;
        task->ended = 0;
    }
    if (host->over && count) { /* of a live job: it had none for a while */
        host->over = 0;
        agent->bridge->open++;
    }
    agent->any_started = 1;
    mu_agent_host_has_orders(host);
}

static void take_ended(struct mu_agent *agent, struct mu_agent_host *host, struct mu_unpack *u)
{
    uint32_t task_id = mu_unpack_u32(u), wait_status = mu_unpack_u32(u);
    int by_us = mu_unpack_u8(u), is_new;
    struct mu_agent_task *task;
    char words[640];

    mu_unpack_text(u, words, sizeof words);
    if (u->failed || task_id - host->first_task >= host->tasks)
        return;
    task = &agent->tasks[task_id];
    is_new = !task->ended; /* all is said again after a break */
    host->running -= is_new;
    task->started = task->ended = 1;
    task->wait_status = (int)wait_status;
    task->by_us = by_us;
    free(task->words);
    task->words = strdup(words);
    agent->failures += is_new && !by_us && mu_launch_code(task->wait_status) != 0;
    if (mu_agent_is_live(agent) && is_new)
        mu_agent_live_ended(agent, task_id);
    else if (!by_us && agent->root_cause < 0 && mu_launch_code(task->wait_status) != 0)
        agent->root_cause = (int32_t)task_id;
}

/* Nobody knows how. The word of an earlier agent, which was its parent, is better. */
static void take_gone(struct mu_agent *agent, struct mu_agent_host *host, struct mu_unpack *u)
{
    uint32_t task_id = mu_unpack_u32(u);
    int has_failed = mu_unpack_u8(u);
    struct mu_agent_task *task;
    char words[640];

    mu_unpack_text(u, words, sizeof words);
    if (u->failed || task_id - host->first_task >= host->tasks || agent->tasks[task_id].ended)
        return;
    task = &agent->tasks[task_id];
    host->running--;
    task->started = task->ended = 1;
    task->wait_status = has_failed ? 1 << 8 : 0;
    task->by_us = mu_agent_is_ending(agent);
    free(task->words);
    task->words = strdup(words);
    agent->failures += !task->by_us && has_failed;
    if (!task->by_us && agent->root_cause < 0 && has_failed)
        agent->root_cause = (int32_t)task_id;
}

/*
 * A message for a leader's agent that has died comes to its successor, ahead of all that is said anew to that one. A
 * leader that has not heard of the end of so many tasks will, and of this again.
 */
static void take_done(struct mu_agent *agent, struct mu_agent_host *host, uint32_t count)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < host->tasks; i++)
        known += (uint32_t)agent->tasks[host->first_task + i].ended;
    if (known >= count)
        is_over(agent->bridge, host);
}

/* It knows nothing of what its predecessor was told. */
static void take_another(struct mu_agent *agent, const struct mu_agent_host *host)
{
    uint32_t host_id = (uint32_t)(host - agent->bridge->hosts);

    mu_agent_say(
        "host %s has another agent: how its tasks end is not known from now on, only whether they are in error",
        host->name);
    mu_agent_tell_checkpoints_again(agent);
    mu_agent_forget_status(agent, host_id);
    mu_agent_gather_lost(agent, host_id, "a host has another agent, which knows nothing of what was gathered before");
    if (agent->force == MU_FORCE_TERM)
        mu_agent_tell_end(agent, host_id);
    else if (agent->force == MU_FORCE_KILL)
        mu_agent_tell(agent, host_id, MU_TALK_KILL, NULL);
}

static void take_failed(struct mu_agent *agent, struct mu_agent_host *host, uint32_t code)
{
    if (agent->spawn_status == 0)
        agent->spawn_status =
            code >= MU_AGENT_EXIT_FAILED && code <= MU_AGENT_EXIT_NO_FILE ? (int)code : MU_AGENT_EXIT_FAILED;
    if (!mu_agent_is_ending(agent))
        mu_agent_say("host %s could not start its tasks: ending the job", host->name);
    mu_agent_post(agent, MU_ON_END);
}

void mu_agent_lead(struct mu_agent *agent, uint32_t host_id, enum mu_agent_talk kind, struct mu_unpack *u)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_agent_host *host = host_id > 0 && host_id < b->num_hosts ? &b->hosts[host_id] : NULL;
    uint32_t number;

    if (!host || host->lost)
        return;
    switch ((uint32_t)kind) {
    case MU_CONTROL_ANOTHER: take_another(agent, host); break;
    case MU_TALK_STARTED: take_started(agent, host, u); break;
    case MU_TALK_GONE: take_gone(agent, host, u); break;
    case MU_TALK_ENDED: take_ended(agent, host, u); break;
    case MU_TALK_FAILED: take_failed(agent, host, mu_unpack_u32(u)); break;
    case MU_TALK_DONE: take_done(agent, host, mu_unpack_u32(u)); break;
    case MU_TALK_STOPPED: host->stopped = 1; break;
    case MU_TALK_TOLD:
        number = mu_unpack_u32(u);
        if (!u->failed && number > 0 && number < 64)
            mu_agent_end_by_signal(agent, (int)number);
        break;
    default: mu_components_hear(agent, host_id, kind, u); /* or what only a leader says */
    }
}

void mu_agent_host_moved(struct mu_agent *agent, uint32_t host_id, int is_up, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_agent_host *host = host_id > 0 && host_id < b->num_hosts ? &b->hosts[host_id] : NULL;

    if (!host || host->over || b->is_over || host->away == !is_up)
        return;
    host->away = !is_up;
    host->give_up_at = 0;
    mu_agent_await_briefly(agent);
    if (!b->options->adopt_ns) /* it will be lost, or back, soon: that is said, or not worth a word */
        return;
    if (is_up)
        mu_agent_say("host %s is back", host->name);
    else
        mu_agent_say("host %s is away (%s): its tasks are given up in %.6g s at most, unless it is back or, there, "
                     "'muster agent "
                     "--adopt %s.h%u' takes them over",
                     host->name, why, (double)b->options->adopt_ns / 1e9, agent->title, host_id);
}

void mu_agent_await_briefly(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    uint64_t until;

    if (!b || !mu_agent_is_ending(agent))
        return;
    until = muster_after_ns(agent->options->grace_ns + GIVE_UP_NS);
    if (!b->hosts && b->away)
        agent->give_up_at = until;
    for (uint32_t i = 1; b->hosts && i < b->num_hosts; i++)
        if (b->hosts[i].away && !b->hosts[i].give_up_at) {
            b->hosts[i].give_up_at = until;
            agent->give_up_at = until < agent->give_up_at ? until : agent->give_up_at;
        }
}

void mu_agent_give_up_away(struct mu_agent *agent)
{
    static const char why[] = "the job ends, and it has no agent";
    struct mu_agent_bridge *b = agent->bridge;
    int broken = agent->broken; /* what the job's status is has been decided before */
    uint64_t now = muster_now_ns();

    agent->give_up_at = UINT64_MAX;
    if (b && !b->hosts && b->away)
        mu_agent_leader_lost(agent, why);
    for (uint32_t i = 1; b && b->hosts && i < b->num_hosts; i++) {
        uint64_t until = b->hosts[i].give_up_at;

        if (!b->hosts[i].away || b->hosts[i].over || !until)
            continue;
        if (until <= now) {
            agent->gave_up = 1;
            mu_agent_host_lost(agent, i, why);
        } else if (until < agent->give_up_at) {
            agent->give_up_at = until;
        }
    }
    if (b && b->hosts)
        agent->broken = broken;
}

/* Whether a live job goes on without the host. */
static int is_spared(struct mu_agent *agent, uint32_t host_id, const char *why)
{
    const struct mu_agent_host *host = &agent->bridge->hosts[host_id];
    uint32_t left = 0;
    uint64_t epoch = 0;
    char lost[300];

    if (!mu_agent_is_live(agent) || mu_agent_is_ending(agent))
        return 0;
    mu_bridge_give_up(agent->bridge->bridge, host_id, why);
    snprintf(lost, sizeof lost, "host %s is lost", host->name);
    if (!mu_agent_live_without(agent, host->first_task, host->tasks, lost, &epoch, &left))
        return 0;
    mu_agent_say("host %s is lost: %s; epoch %llu goes on with %u task%s", host->name, why, (unsigned long long)epoch,
                 left, left == 1 ? "" : "s");
    return 1;
}

/* Its tasks have ended, nobody knows how. */
void mu_agent_host_lost(struct mu_agent *agent, uint32_t host_id, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_agent_host *host = host_id > 0 && host_id < b->num_hosts ? &b->hosts[host_id] : NULL;
    uint32_t others;
    char lost[400];

    if (host && b->is_over)
        host->left = 1;
    if (!host || host->lost || b->is_over || (host->over && !mu_agent_is_live(agent)))
        return;
    host->lost = 1;
    host->running = 0;
    is_over(b, host);
    for (uint32_t i = host->first_task; agent->tasks && i < host->first_task + host->tasks; i++) {
        agent->tasks[i].by_us |= !agent->tasks[i].ended;
        agent->tasks[i].ended = 1;
    }
    mu_agent_forget_status(agent, host_id);
    snprintf(lost, sizeof lost, "host %s is lost: %s", host->name, why);
    mu_agent_gather_lost(agent, host_id, lost);
    if (host->rsh) /* nothing that it could still do is waited for; its agent, if it lives, ends its tasks by itself */
        kill(-host->rsh, b->options->adopt_ns ? SIGTERM : SIGKILL); /* a guard would wait for an adopter */
    if (is_spared(agent, host_id, why))
        return;
    agent->broken = 1;
    others = mu_agent_running_everywhere(agent);
    if (agent->options->keep_going)
        mu_agent_say("host %s is lost: %s; its tasks are given up", host->name, why);
    else if (others == 0)
        mu_agent_say("host %s is lost: %s; ending the job", host->name, why);
    else
        mu_agent_say("host %s is lost: %s; ending the other %u task%s", host->name, why, others,
                     others == 1 ? "" : "s");
    if (!agent->options->keep_going)
        mu_agent_post(agent, MU_ON_END);
}

bool mu_agent_is_awaiting(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (!b || b->hosts)
        return b && b->open > 0;
    if (agent->running == 0 && agent->waiting == 0 && !b->said_done) {
        b->said_done = 1;
        mu_agent_tell_done(agent);
    }
    return !b->is_over;
}

/* Why the command of a host that is not done has ended. */
static void command_why(const struct mu_agent *agent, const siginfo_t *info, char *why, size_t size)
{
    const char *rsh = agent->bridge->options->rsh ? agent->bridge->options->rsh : "ssh";
    int len = (int)strcspn(rsh, " ");

    if (info->si_code != CLD_EXITED)
        snprintf(why, size, "its command (%.*s, pid %d) was killed by signal %d", len, rsh, (int)info->si_pid,
                 info->si_status);
    else if (info->si_status == MU_AGENT_EXIT_NO_FILE || info->si_status == MU_AGENT_EXIT_NOT_EXEC)
        snprintf(why, size, "its command (%.*s) exited with status %d: muster was not found there, or could not be run",
                 len, rsh, info->si_status);
    else
        snprintf(why, size, "its command (%.*s) exited with status %d", len, rsh, info->si_status);
}

/* With what its command wrote last: that says why, but mostly without a name ("Host key verification failed."). */
static void say_not_come(struct mu_agent *agent, uint32_t host, const char *why)
{
    char sentence[640];

    snprintf(sentence, sizeof sentence, "muster run: host %s has not come: %s", agent->bridge->hosts[host].name, why);
    if (mu_launch_output_explain(agent->launching.output, host, 1, sentence))
        mu_agent_say("host %s has not come: %s", agent->bridge->hosts[host].name, why);
}

int mu_agent_command_ended(struct mu_agent *agent, const siginfo_t *info)
{
    struct mu_agent_bridge *b = agent->bridge;
    siginfo_t reaped;
    char why[300];

    if (mu_agent_stay_ended(agent, info))
        return 1;
    for (uint32_t i = 1; b && b->hosts && i < b->num_hosts; i++) {
        struct mu_agent_host *host = &b->hosts[i];

        if (host->rsh != info->si_pid || !host->rsh)
            continue;
        if (!host->over && (b->meeting || !b->options->adopt_ns)) /* while the number is still its own */
            kill(-host->rsh, SIGKILL);
        mu_launch_guard_command(agent->launching.guard, i, 0);
        mu_launch_forget_preexisting(info->si_pid);
        waitid(P_PID, (id_t)info->si_pid, &reaped, WEXITED);
        host->rsh = 0;
        if (host->over || b->is_over || agent->broken) {
            host->left = 1;
            /* of its own accord: where the job has failed, it ends with the status that it was told */
            agent->lost_output |= info->si_code == CLD_EXITED && info->si_status == MU_AGENT_EXIT_FAILED &&
                                  mu_agent_exit_status(agent) == 0;
            return 1;
        }
        command_why(agent, info, why, sizeof why);
        if (!b->meeting && b->options->adopt_ns) {
            mu_agent_say("host %s: %s; its agent, if it lives, or another can go on", host->name, why);
            return 1;
        }
        if (!b->meeting) {
            mu_agent_host_lost(agent, i, why);
            return 1;
        }
        if (!mu_agent_is_ending(agent))
            say_not_come(agent, i, why);
        mu_agent_break(agent);
        return 1;
    }
    return 0;
}
