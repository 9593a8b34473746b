/*
 * agent/hosts/sights.c: what this host's tasks do and wait for, told to the leader's agent, for `muster status` there.
 *
 * A host with a task that is stopped, sleeps or waits in muster for long is hung, or holds others up: its agent looks
 * for that every few seconds, and tells it when it is other than before. Where all tasks work nothing is told, and no
 * key is there. The leader's agent keeps it as it came, for readers of its segment.
 */
#include "agent/hosts/sights.h"

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

struct mu_agent_sights {
    struct mu_sight *told; /* of each of this host's tasks; all zero: nothing */
    struct muster_task_info *infos;
    uint64_t *starts;
    struct past *past;
    uint64_t looked;
    bool is_told; /* the leader's agent knows something of us */
};

struct sights_state {
    uv_timer_t timer;
    int has_timer;
    struct mu_agent_sights *sights; /* a follower's, while it looks */
};

static struct sights_state *sights_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_SIGHTS);
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

void mu_sight_pack(struct mu_pack *p, const struct mu_sight *sight, uint64_t now)
{
    mu_pack_u32(p, sight->task);
    mu_pack_u64(p, sight->incarnation);
    mu_pack_u32(p, sight->pid);
    mu_pack_u8(p, (uint8_t)sight->letter);
    mu_pack_u64(p, age_of(sight->ran, now));
    mu_pack_u64(p, age_of(sight->since, now));
    mu_pack_text(p, sight->waiting);
}

bool mu_sight_unpack(struct mu_unpack *u, uint64_t now, struct mu_sight *ret_sight)
{
    ret_sight->task = mu_unpack_u32(u);
    ret_sight->incarnation = mu_unpack_u64(u);
    ret_sight->pid = mu_unpack_u32(u);
    ret_sight->letter = (char)mu_unpack_u8(u);
    ret_sight->ran = time_of(mu_unpack_u64(u), now);
    ret_sight->since = time_of(mu_unpack_u64(u), now);
    mu_unpack_text(u, ret_sight->waiting, sizeof ret_sight->waiting);
    return !u->failed;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* It ran after the look before, if that saw it otherwise: what the scheduler's clock says is believed within that. */
static uint64_t quiet_since(const struct mu_agent_sights *s, const struct past *past, const struct mu_activity *seen,
                            uint64_t now)
{
    if (past->letter == seen->letter && past->run == seen->run && past->quiet_since)
        return past->quiet_since;
    if (!seen->last_ran)
        return now;
    return seen->last_ran > s->looked ? seen->last_ran : s->looked;
}

/* The letter that is worth telling: a task that sleeps now and then, or is seen in the kernel once, works. */
static char letter_of(struct mu_agent_sights *s, struct past *past, const struct mu_activity *seen, uint64_t now)
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

static struct mu_sight task_see(struct mu_agent_sights *s, const struct mu_agent *agent, uint32_t i,
                                const struct mu_activity_clock *clock)
{
    const struct muster_task_info *info = &s->infos[i];
    uint32_t pid = unjoined_pid(&agent->tasks[agent->first_task + i], info, s->starts[i]);
    struct mu_sight sight = {.task = agent->first_task + i, .incarnation = info->incarnation, .pid = pid};
    struct mu_activity seen = {.letter = 0};

    if (!info->alive && !pid)
        return (struct mu_sight){.task = 0};
    if (mu_activity_look(pid ? pid : info->pid, pid ? mu_process_start((pid_t)pid) : s->starts[i], clock, &seen)) {
        sight.letter = letter_of(s, &s->past[i], &seen, clock->now);
        sight.ran = sight.letter == 'R' ? 0 : s->past[i].quiet_since;
    }
    if (!pid && info->waiting[0] && clock->now > info->waiting_since_ns + LONG_NS) {
        sight.since = info->waiting_since_ns;
        memcpy(sight.waiting, info->waiting, sizeof sight.waiting);
        if (seen.letter == 'S')
            sight.letter = 'S';
    }
    return sight;
}

static bool is_as_told(const struct mu_sight *told, const struct mu_sight *now)
{
    return told->incarnation == now->incarnation && told->pid == now->pid && told->letter == now->letter &&
           told->ran == now->ran && told->since == now->since && strcmp(told->waiting, now->waiting) == 0;
}

static bool is_worth_telling(const struct mu_sight *sight)
{
    return sight->waiting[0] || (sight->letter && sight->letter != 'R');
}

static void sights_tell(struct mu_agent *agent, uint64_t now)
{
    struct mu_agent_sights *s = sights_state(agent)->sights;
    struct mu_pack what = {.bytes = NULL};
    bool is_worth = false;

    for (uint32_t i = 0; i < agent->local_tasks; i++)
        is_worth |= is_worth_telling(&s->told[i]);
    for (uint32_t i = 0; i < agent->local_tasks && is_worth; i++)
        if (s->told[i].incarnation || s->told[i].pid)
            mu_sight_pack(&what, &s->told[i], now);
    if (!what.failed && (is_worth || s->is_told)) {
        mu_agent_tell(agent, 0, MU_TALK_SEES, &what);
        s->is_told = is_worth;
    }
    mu_pack_done(&what);
}

static void on_sights_timer(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;
    struct mu_agent_sights *s = sights_state(agent)->sights;
    struct mu_activity_clock clock;
    bool has_changed = false;

    /* While the leader is away what is said to it piles up: at its return one look tells all. */
    if (!agent->muster || agent->bridge->away ||
        mu_task_run(agent->muster, agent->first_task, agent->local_tasks, s->infos, s->starts) != MUSTER_OK)
        return;
    mu_activity_clock(&clock);
    for (uint32_t i = 0; i < agent->local_tasks; i++) {
        struct mu_sight sight = task_see(s, agent, i, &clock);

        if (!is_as_told(&s->told[i], &sight)) {
            s->told[i] = sight;
            has_changed = true;
        }
    }
    if (has_changed)
        sights_tell(agent, clock.now);
    s->looked = clock.now;
}

void mu_agent_begin_sights(struct mu_agent *agent)
{
    struct mu_agent_sights *s;
    uint64_t pause = (uint64_t)agent->local_tasks * LOOK_MS_A_TASK;
    uint32_t n = agent->local_tasks + 1;

    if (!mu_agent_follows(agent) || sights_state(agent)->sights || !(s = calloc(1, sizeof *s)))
        return;
    sights_state(agent)->sights = s;
    s->looked = muster_now_ns();
    s->is_told = agent->adopted; /* by the agent before us, perhaps */
    s->told = calloc(n, sizeof *s->told);
    s->infos = calloc(n, sizeof *s->infos);
    s->starts = calloc(n, sizeof *s->starts);
    s->past = calloc(n, sizeof *s->past);
    if (!s->told || !s->infos || !s->starts || !s->past) { /* then nobody is told */
        mu_agent_end_sights(agent);
        return;
    }
    if (!sights_state(agent)->has_timer)
        uv_timer_init(&agent->loop, &sights_state(agent)->timer);
    sights_state(agent)->has_timer = 1;
    pause = LOOK_MS + (pause < LOOK_MS_OF_TASKS_MAX ? pause : LOOK_MS_OF_TASKS_MAX);
    pause += (uint64_t)agent->options->hosts->nodes * LOOK_MS_A_HOST;
    uv_timer_start(&sights_state(agent)->timer, on_sights_timer, pause, pause);
}

void mu_agent_end_sights(struct mu_agent *agent)
{
    struct mu_agent_sights *s = sights_state(agent)->sights;

    if (!s)
        return;
    if (sights_state(agent)->has_timer)
        uv_timer_stop(&sights_state(agent)->timer);
    free(s->told);
    free(s->infos);
    free(s->starts);
    free(s->past);
    free(s);
    sights_state(agent)->sights = NULL;
}

void mu_agent_tell_sights_again(struct mu_agent *agent)
{
    if (sights_state(agent)->sights)
        sights_state(agent)->sights->is_told = true; /* by somebody, at some time */
    for (uint32_t i = 0; sights_state(agent)->sights && i < agent->local_tasks; i++)
        sights_state(agent)->sights->told[i] = (struct mu_sight){.task = 0};
}

/* ---- the leader's part ------------------------------------------------------------------------------------------- */

void mu_agent_forget_sights(struct mu_agent *agent, uint32_t host)
{
    char key[64];

    snprintf(key, sizeof key, MU_AGENT_SIGHTS "/%u", host);
    if (agent->muster)
        muster_kv_delete(agent->muster, key, MUSTER_NTS, NULL);
}

/* A full segment: then status knows no more than the table of hosts has. */
static void sights_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_unpack check = *u;
    struct mu_pack value = {.bytes = NULL};
    struct mu_sight sight;
    char key[64];

    if (!mu_agent_leads(agent))
        return;
    while (check.left && mu_sight_unpack(&check, UINT64_MAX, &sight))
        ;
    if (check.failed || !u->left || !agent->segment || mu_agent_be_there(agent)) {
        mu_agent_forget_sights(agent, host);
        return;
    }
    mu_pack_u64(&value, muster_now_ns());
    mu_pack_raw(&value, u->at, u->left);
    snprintf(key, sizeof key, MU_AGENT_SIGHTS "/%u", host);
    if (!value.failed)
        muster_kv_set(agent->muster, key, MUSTER_NTS, value.bytes, value.len, NULL);
    mu_pack_done(&value);
}

static void sights_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    (void)first;
    (void)count;
    mu_agent_begin_sights(agent);
}

const struct mu_component mu_sights_component = {
    .name = "sights",
    .state_size = sizeof(struct sights_state),
    .started = sights_started,
    .part = mu_agent_end_sights,
    .talk = MU_TALK_SEES,
    .hear = sights_hear,
};
