/*
 * rpc/desk.c: the desk: opening and closing it, its moments, and the look at what others have changed.
 *
 * Guests change things through the desk itself, which looks at once at what hangs on them. What the tasks of the C
 * library change is found by a look at all words on which something waits: when the bell rings, and every 100 ms while
 * something waits (as every waiter of the job does: then the dead are looked for, too). In a job of several hosts it is
 * the bridge that says so, and on those that are not the leader's brings answers as well (desk_remote.h).
 */
#include "rpc/desk_remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/bell.h"
#include "segment/hosts.h"
#include "task/task.h"

#define RECHECK_MS 100u
#define HOUR_NS    3600000000000u
#define SECOND_NS  1000000000u

enum { LOOKS = 8 };

const struct mu_desk_options *mu_desk_options(const struct mu_desk *desk)
{
    return &desk->o;
}

uint64_t mu_desk_incarnation(const struct mu_desk *desk)
{
    return desk->incarnation;
}

uint32_t mu_desk_num_tasks(const struct mu_desk *desk)
{
    return desk->num_tasks;
}

void mu_desk_record(const struct mu_desk *desk, int32_t task, struct mu_task_record *ret_record, char *text)
{
    struct mu_cluster cluster;

    if (!mu_cluster_task(desk->seg, (uint32_t)task, ret_record, text, &cluster))
        return;
    memset(ret_record, 0, sizeof *ret_record);
    if (text)
        text[0] = 0;
}

void mu_desk_name(const struct mu_desk *desk, int32_t task, char *name, size_t size)
{
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, NULL);
    mu_cluster_name(desk->seg, (uint32_t)task, &r, name, size);
}

/* ---- moments ---- */

static uint64_t earliest(const struct mu_desk *desk)
{
    const uint64_t all[] = {mu_pending_next(&desk->pending), mu_registering_next(desk), mu_leaving_next(desk),
                            desk->lost_next};
    uint64_t at = UINT64_MAX;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        at = all[i] < at ? all[i] : at;
    return at;
}

static void moment(uv_timer_t *timer)
{
    struct mu_desk *desk = timer->data;
    uint64_t now = mu_now();

    desk->timer_at = UINT64_MAX;
    mu_desk_look_tasks(desk); /* what has happened comes before what has not */
    mu_registering_due(desk, now);
    mu_leaving_due(desk, now);
    mu_lost_due(desk, now);
    mu_desk_look_tasks(desk);
    mu_desk_pending_look(desk);
    mu_desk_due(desk, earliest(desk));
    mu_desk_deliver(desk);
}

void mu_desk_due(struct mu_desk *desk, uint64_t at)
{
    uint64_t now = mu_now();

    if (at >= desk->timer_at || desk->stopped)
        return;
    desk->timer_at = at;
    uv_update_time(desk->o.loop);
    /* never at once: what could not be done is not tried again without a pause */
    uv_timer_start(&desk->timer, moment, at > now ? (at - now) / 1000000 + 1 : 1, 0);
}

/* ---- looking ---- */

/* Each look may change states itself: until one has not. */
static void look_at_tasks(struct mu_desk *desk, bool always)
{
    struct mu_cluster cluster;
    bool changed = false;

    for (int i = 0; i < LOOKS && !desk->stopped && !mu_cluster_look(desk->seg, &cluster); i++) {
        if (cluster.root.version == desk->version && !always)
            break;
        desk->version = cluster.root.version;
        always = false;
        changed = true;
        mu_errors_look(desk, &cluster.root);
        mu_registering_look(desk, &cluster.root);
        mu_leaving_look(desk, &cluster.root);
        mu_guests_look(desk, &cluster.root);
        mu_desk_pending_look(desk);
    }
    if (changed)
        mu_watchers_look(desk);
}

void mu_desk_look_tasks(struct mu_desk *desk)
{
    look_at_tasks(desk, false);
}

void mu_desk_look_at_tasks(struct mu_desk *desk)
{
    look_at_tasks(desk, true);
}

void mu_desk_look(struct mu_desk *desk)
{
    if (desk->stopped)
        return;
    mu_desk_look_tasks(desk);
    mu_wishes_look(desk);
    if (desk->remote)
        mu_desk_remote_look(desk);
    mu_desk_pending_look(desk);
    mu_desk_deliver(desk);
}

/* Somebody tells us that others have changed something. */
static bool is_listening(const struct mu_desk *desk)
{
    return desk->listener || desk->o.lanes;
}

/* Before the look, so that what changes after it rings. */
static void arm(struct mu_desk *desk)
{
    desk->armed = mu_desk_awaits(desk) && is_listening(desk);
    if (desk->armed && desk->o.lanes)
        mu_lanes_arm(desk->o.lanes);
    else if (desk->armed)
        mu_listener_arm(desk->listener);
}

/* In the listener's thread, or in one of the bridge's. */
static void rung(void *arg)
{
    uv_async_send(arg);
}

static void bell(uv_async_t *async)
{
    struct mu_desk *desk = async->data;

    if (desk->stopped)
        return;
    arm(desk);
    if (desk->remote)
        mu_lanes_take(desk->o.lanes);
    mu_desk_look(desk);
}

static void recheck(uv_timer_t *timer)
{
    struct mu_desk *desk = timer->data;
    struct mu_ctx *ctx;

    if (!mu_desk_awaits(desk)) {
        uv_timer_stop(timer);
        return;
    }
    if (!mu_enter(desk->m, &ctx)) {
        mu_task_scavenge(ctx);
        mu_exit(ctx);
    }
    mu_registering_beat(desk);
    mu_desk_look(desk);
}

void mu_desk_watch_bell(struct mu_desk *desk)
{
    if (desk->stopped)
        return;
    if (!uv_is_active((uv_handle_t *)&desk->recheck))
        uv_timer_start(&desk->recheck, recheck, RECHECK_MS, RECHECK_MS);
    if (desk->armed || !is_listening(desk))
        return;
    arm(desk);
    uv_async_send(&desk->bell); /* what waits was looked at before: once more */
}

/* ---- opening, closing ---- */

static enum muster_status begin_handles(struct mu_desk *desk)
{
    if (uv_async_init(desk->o.loop, &desk->bell, bell) || uv_timer_init(desk->o.loop, &desk->timer) ||
        uv_timer_init(desk->o.loop, &desk->recheck) ||
        uv_idle_init(desk->o.loop, &desk->idle)) /* only the first of them can fail */
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no timers for the coordination service");
    desk->timer.data = desk->recheck.data = desk->idle.data = desk->bell.data = desk;
    desk->timer_at = UINT64_MAX;
    desk->closing = 4;
    return MUSTER_OK;
}

/* Then the register barrier has passed, before an adoption. */
static bool have_all_been_here(const struct mu_desk *desk)
{
    struct mu_task_record r = {.attempt = 1};

    for (uint32_t i = 0; i < desk->num_tasks && r.attempt; i++)
        mu_desk_record(desk, (int32_t)i, &r, NULL);
    return r.attempt != 0;
}

/* The run's first word: a job that is begun again has another. Never 0. */
static uint64_t incarnation_of(struct muster_segment *seg)
{
    struct muster_segment_info info;

    return muster_segment_info(seg, &info) || !info.run_id[0] ? 1 : info.run_id[0];
}

/* Once it cannot fail any more. */
static void begin_listening(struct mu_desk *desk)
{
    if (desk->o.lanes)
        mu_lanes_listen(desk->o.lanes, rung, &desk->bell);
    else if (mu_listener_start(desk->seg, rung, &desk->bell, &desk->listener))
        desk->listener = NULL; /* then the recheck sees what others do */
}

static void stop_listening(struct mu_desk *desk)
{
    if (desk->o.lanes)
        mu_lanes_listen(desk->o.lanes, NULL, NULL);
    mu_listener_stop(desk->listener);
    desk->listener = NULL;
}

static enum muster_status begin(struct mu_desk *desk)
{
    enum muster_status status;

    if (!desk->tasks)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", desk->num_tasks);
    status = mu_desk_pending_open(desk);
    if (!status && mu_is_follower(desk->seg))
        status = mu_desk_remote_open(desk);
    return status ? status : begin_handles(desk);
}

enum muster_status mu_desk_open(const struct mu_desk_options *options, struct mu_desk **ret_desk)
{
    struct mu_desk *desk = calloc(1, sizeof *desk);
    enum muster_status status;

    if (!desk)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the coordination service");
    desk->o = *options;
    desk->o.register_timeout_ns = options->register_timeout_ns ? options->register_timeout_ns : HOUR_NS;
    desk->o.say_ns = options->say_ns ? options->say_ns : 10ull * SECOND_NS;
    desk->m = options->m;
    desk->seg = muster_segment_of(options->m);
    desk->num_tasks = desk->seg->num_tasks;
    desk->incarnation = incarnation_of(desk->seg);
    desk->tasks = calloc(desk->num_tasks, sizeof *desk->tasks);
    status = begin(desk);
    if (status) {
        mu_pending_close(&desk->pending);
        free(desk->remote);
        free(desk->tasks);
        free(desk);
        return status;
    }
    desk->leave_until = desk->lost_next = UINT64_MAX;
    desk->report_of = -1;
    desk->registered = have_all_been_here(desk);
    begin_listening(desk);
    desk->pending.named.is_heard = desk->listener != NULL;
    *ret_desk = desk;
    return MUSTER_OK;
}

void mu_desk_stop(struct mu_desk *desk)
{
    if (desk->stopped)
        return;
    desk->stopped = true;
    mu_wishes_stop(desk);
    mu_work_stop(desk);
    mu_desk_pending_stop(desk);
    mu_registering_stop(desk);
    mu_leaving_stop(desk);
    mu_polls_stop(desk);
    mu_watchers_stop(desk);
    if (desk->remote)
        mu_desk_remote_stop(desk);
    stop_listening(desk);
    uv_timer_stop(&desk->timer);
    uv_timer_stop(&desk->recheck);
    mu_desk_deliver(desk);
}

static void closed(uv_handle_t *handle)
{
    struct mu_desk *desk = handle->data;

    if (--desk->closing)
        return;
    for (uint32_t i = 0; i < desk->num_tasks; i++)
        free(desk->tasks[i].lost_why);
    for (uint32_t i = 0; i < MU_VALUES; i++)
        if (desk->values[i].blob)
            desk->values[i].blob->seat = NULL;
    free(desk->tasks);
    free(desk->remote);
    free(desk);
}

void mu_desk_free(struct mu_desk *desk)
{
    if (!desk)
        return;
    mu_desk_stop(desk);
    uv_close((uv_handle_t *)&desk->timer, closed);
    uv_close((uv_handle_t *)&desk->recheck, closed);
    uv_close((uv_handle_t *)&desk->idle, closed);
    uv_close((uv_handle_t *)&desk->bell, closed);
}
