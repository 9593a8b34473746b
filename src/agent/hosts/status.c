/*
 * agent/hosts/status.c: what this host's tasks do and wait for, told to the leader's agent, for `muster status` there.
 *
 * A host with a task that is stopped, sleeps or waits in muster for long is hung, or holds others up: its agent looks
 * for that every few seconds, and tells it when it is other than before. Where all tasks work nothing is told, and no
 * key is there. The leader's agent keeps it as it came, for readers of its segment.
 */
#include "agent/hosts/status.h"

#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "agent/hosts/bridge.h"
#include "base/activity.h"
#include "base/process.h"

/* A task takes 0.1 ms of a look, and the agent of an idle job has 1 ms a second for all that it does. */
enum { LOOK_MS = 1000, LOOK_MS_A_TASK = 500, LOOK_MS_OF_TASKS_MAX = 9000, LOOK_MS_A_HOST = 10 };
#define LONG_NS 1000000000u /* shorter waits and pauses are a task's work */

/* What the last look saw of a task. */
struct past {
    char letter;
    uint64_t cpu_ns, run, quiet_since; /* quiet_since: it has not run since then */
};

struct mu_agent_status_watch {
    struct mu_agent_status *told; /* of each of this host's tasks; all zero: nothing */
    struct muster_task_info *infos;
    uint64_t *starts;
    struct past *past;
    uint64_t looked;
    bool is_told; /* the leader's agent knows something of us */
};

struct status_state {
    uv_timer_t timer;
    int has_timer;
    struct mu_agent_status_watch *statuses; /* a follower's, while it looks */
};

static struct status_state *status_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_STATUS);
}

/* ---- as bytes ---------------------------------------------------------------------------------------------------- */

static uint64_t age_of(uint64_t when, uint64_t now)
{
    return !when ? 0 : when < now ? now - when : 1;
}

static uint64_t time_of(uint64_t age, uint64_t now)
{
    return age && age < now ? now - age : 0;
}

void mu_agent_status_pack(struct mu_pack *p, const struct mu_agent_status *status, uint64_t now)
{
    mu_pack_u32(p, status->task);
    mu_pack_u64(p, status->incarnation);
    mu_pack_u32(p, status->pid);
    mu_pack_u8(p, (uint8_t)status->letter);
    mu_pack_u64(p, age_of(status->ran, now));
    mu_pack_u64(p, age_of(status->since, now));
    mu_pack_text(p, status->waiting);
}

bool mu_agent_status_unpack(struct mu_unpack *u, uint64_t now, struct mu_agent_status *ret_status)
{
    ret_status->task = mu_unpack_u32(u);
    ret_status->incarnation = mu_unpack_u64(u);
    ret_status->pid = mu_unpack_u32(u);
    ret_status->letter = (char)mu_unpack_u8(u);
    ret_status->ran = time_of(mu_unpack_u64(u), now);
    ret_status->since = time_of(mu_unpack_u64(u), now);
    mu_unpack_text(u, ret_status->waiting, sizeof ret_status->waiting);
    return !u->failed;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* It ran after the look before, if that saw it otherwise: what the scheduler's clock says is believed within that. */
static uint64_t quiet_since(const struct mu_agent_status_watch *s, const struct past *past,
                            const struct mu_activity *seen, uint64_t now)
{
    if (past->letter == seen->letter && past->run == seen->run && past->quiet_since)
        return past->quiet_since;
    if (!seen->last_ran)
        return now;
    return seen->last_ran > s->looked ? seen->last_ran : s->looked;
}

/* The letter that is worth telling: a task that sleeps now and then, or is seen in the kernel once, works. */
static char letter_of(struct mu_agent_status_watch *s, struct past *past, const struct mu_activity *seen, uint64_t now)
{
    bool is_busy = (seen->cpu_ns - past->cpu_ns) * 100 >= now - s->looked;
    char before = past->letter;

    *past = (struct past){seen->letter, seen->cpu_ns, seen->run, quiet_since(s, past, seen, now)};
    switch (seen->letter) {
    case 'T':
    case 't': return seen->letter;
    case 'D': return before == 'D' ? 'D' : 'R';
    case 'S': return is_busy || now < past->quiet_since + LONG_NS ? 'R' : 'S';
    default: return 'R';
    }
}

/* The pid of a task's process that is there and has not joined, or not again; else 0. A child of it may have joined. */
static uint32_t unjoined_pid(const struct mu_agent_task *task, const struct muster_task_info *info, uint64_t start)
{
    if (info->alive || !task->started || task->ended || (uint32_t)task->pid == info->pid)
        return 0;
    return info->attempt && mu_process_start(task->pid) <= start ? 0 : (uint32_t)task->pid;
}

static struct mu_agent_status task_see(struct mu_agent_status_watch *s, const struct mu_agent *agent, uint32_t i,
                                       const struct mu_activity_clock *clock)
{
    const struct muster_task_info *info = &s->infos[i];
    uint32_t pid = unjoined_pid(&agent->tasks[agent->first_task + i], info, s->starts[i]);
    struct mu_agent_status status = {.task = agent->first_task + i, .incarnation = info->incarnation, .pid = pid};
    struct mu_activity seen = {.letter = 0};

    if (!info->alive && !pid)
        return (struct mu_agent_status){.task = 0};
    if (mu_activity_look(pid ? pid : info->pid, pid ? mu_process_start((pid_t)pid) : s->starts[i], clock, &seen)) {
        status.letter = letter_of(s, &s->past[i], &seen, clock->now);
        status.ran = status.letter == 'R' ? 0 : s->past[i].quiet_since;
    }
    if (!pid && info->waiting[0] && clock->now > info->waiting_since_ns + LONG_NS) {
        status.since = info->waiting_since_ns;
        memcpy(status.waiting, info->waiting, sizeof status.waiting);
        if (seen.letter == 'S')
            status.letter = 'S';
    }
    return status;
}

static bool is_as_told(const struct mu_agent_status *told, const struct mu_agent_status *now)
{
    return told->incarnation == now->incarnation && told->pid == now->pid && told->letter == now->letter &&
           told->ran == now->ran && told->since == now->since && strcmp(told->waiting, now->waiting) == 0;
}

static bool is_worth_telling(const struct mu_agent_status *status)
{
    return status->waiting[0] || (status->letter && status->letter != 'R');
}

static void status_tell(struct mu_agent *agent, uint64_t now)
{
    struct mu_agent_status_watch *s = status_state(agent)->statuses;
    struct mu_pack what = {.bytes = NULL};
    bool is_worth = false;

    for (uint32_t i = 0; i < agent->local_tasks; i++)
        is_worth |= is_worth_telling(&s->told[i]);
    for (uint32_t i = 0; i < agent->local_tasks && is_worth; i++)
        if (s->told[i].incarnation || s->told[i].pid)
            mu_agent_status_pack(&what, &s->told[i], now);
    if (!what.failed && (is_worth || s->is_told)) {
        mu_agent_tell(agent, 0, MU_TALK_SEES, &what);
        s->is_told = is_worth;
    }
    mu_pack_done(&what);
}

static void on_status_timer(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;
    struct mu_agent_status_watch *s = status_state(agent)->statuses;
    struct mu_activity_clock clock;
    bool has_changed = false;

    /* While the leader is away what is said to it piles up: at its return one look tells all. */
    if (!agent->muster || agent->bridge->away ||
        mu_task_run(agent->muster, agent->first_task, agent->local_tasks, s->infos, s->starts) != MUSTER_OK)
        return;
    mu_activity_clock(&clock);
    for (uint32_t i = 0; i < agent->local_tasks; i++) {
        struct mu_agent_status status = task_see(s, agent, i, &clock);

        if (!is_as_told(&s->told[i], &status)) {
            s->told[i] = status;
            has_changed = true;
        }
    }
    if (has_changed)
        status_tell(agent, clock.now);
    s->looked = clock.now;
}

void mu_agent_begin_status(struct mu_agent *agent)
{
    struct mu_agent_status_watch *s;
    uint64_t pause = (uint64_t)agent->local_tasks * LOOK_MS_A_TASK;
    uint32_t n = agent->local_tasks + 1;

    if (!mu_agent_follows(agent) || status_state(agent)->statuses || !(s = calloc(1, sizeof *s)))
        return;
    status_state(agent)->statuses = s;
    s->looked = muster_now_ns();
    s->is_told = agent->adopted; /* by the agent before us, perhaps */
    s->told = calloc(n, sizeof *s->told);
    s->infos = calloc(n, sizeof *s->infos);
    s->starts = calloc(n, sizeof *s->starts);
    s->past = calloc(n, sizeof *s->past);
    if (!s->told || !s->infos || !s->starts || !s->past) { /* then nobody is told */
        mu_agent_end_status(agent);
        return;
    }
    if (!status_state(agent)->has_timer)
        uv_timer_init(&agent->loop, &status_state(agent)->timer);
    status_state(agent)->has_timer = 1;
    pause = LOOK_MS + (pause < LOOK_MS_OF_TASKS_MAX ? pause : LOOK_MS_OF_TASKS_MAX);
    pause += (uint64_t)agent->options->hosts->nodes * LOOK_MS_A_HOST;
    uv_timer_start(&status_state(agent)->timer, on_status_timer, pause, pause);
}

void mu_agent_end_status(struct mu_agent *agent)
{
    struct mu_agent_status_watch *s = status_state(agent)->statuses;

    if (!s)
        return;
    if (status_state(agent)->has_timer)
        uv_timer_stop(&status_state(agent)->timer);
    free(s->told);
    free(s->infos);
    free(s->starts);
    free(s->past);
    free(s);
    status_state(agent)->statuses = NULL;
}

void mu_agent_tell_status_again(struct mu_agent *agent)
{
    if (status_state(agent)->statuses)
        status_state(agent)->statuses->is_told = true; /* by somebody, at some time */
    for (uint32_t i = 0; status_state(agent)->statuses && i < agent->local_tasks; i++)
        status_state(agent)->statuses->told[i] = (struct mu_agent_status){.task = 0};
}

/* ---- the leader's part ------------------------------------------------------------------------------------------- */

void mu_agent_forget_status(struct mu_agent *agent, uint32_t host)
{
    char key[64];

    snprintf(key, sizeof key, MU_AGENT_STATUS "/%u", host);
    if (agent->muster)
        muster_kv_delete(agent->muster, key, MUSTER_NTS, NULL);
}

/* A full segment: then status knows no more than the table of hosts has. */
static void status_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_unpack check = *u;
    struct mu_pack value = {.bytes = NULL};
    struct mu_agent_status status;
    char key[64];

    if (!mu_agent_leads(agent))
        return;
    while (check.left && mu_agent_status_unpack(&check, UINT64_MAX, &status))
        ;
    if (check.failed || !u->left || !agent->segment || mu_agent_be_there(agent)) {
        mu_agent_forget_status(agent, host);
        return;
    }
    mu_pack_u64(&value, muster_now_ns());
    mu_pack_raw(&value, u->at, u->left);
    snprintf(key, sizeof key, MU_AGENT_STATUS "/%u", host);
    if (!value.failed)
        muster_kv_set(agent->muster, key, MUSTER_NTS, value.bytes, value.len, NULL);
    mu_pack_done(&value);
}

static void status_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    (void)first;
    (void)count;
    mu_agent_begin_status(agent);
}

const struct mu_component mu_status_component = {
    .name = "sights",
    .state_size = sizeof(struct status_state),
    .started = status_started,
    .part = mu_agent_end_status,
    .talk = MU_TALK_SEES,
    .hear = status_hear,
};
