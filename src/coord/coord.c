/*
 * coord/coord.c: the engine: opening and closing it, its moments, and the look at what others have changed.
 *
 * Guests change things through the engine itself, which looks at once at what hangs on them. What the tasks of the C
 * library change is found by a look at all words on which something waits: when the bell rings, and every 100 ms while
 * something waits (as every waiter of the job does: then the dead are looked for, too). In a job of several hosts it is
 * the bridge that says so, and on those that are not the leader's brings answers as well (coord/remote.h).
 */
#include "coord/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coord/bell.h"
#include "segment/hosts.h"
#include "task/task.h"

#define RECHECK_MS 100u
#define HOUR_NS    3600000000000u
#define SECOND_NS  1000000000u

enum { LOOKS = 8 };

const struct mu_coord_options *mu_coord_options(const struct mu_coord *coord)
{
    return &coord->o;
}

uint64_t mu_coord_incarnation(const struct mu_coord *coord)
{
    return coord->incarnation;
}

uint32_t mu_coord_num_tasks(const struct mu_coord *coord)
{
    return coord->num_tasks;
}

void mu_coord_record(const struct mu_coord *coord, int32_t task, struct mu_task_record *ret_record, char *text)
{
    struct mu_cluster cluster;

    if (!mu_cluster_task(coord->seg, (uint32_t)task, ret_record, text, &cluster))
        return;
    memset(ret_record, 0, sizeof *ret_record);
    if (text)
        text[0] = 0;
}

void mu_coord_name(const struct mu_coord *coord, int32_t task, char *name, size_t size)
{
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, NULL);
    mu_cluster_name(coord->seg, (uint32_t)task, &r, name, size);
}

/* ---- moments ---- */

static uint64_t earliest(const struct mu_coord *coord)
{
    const uint64_t all[] = {mu_pending_next(&coord->pending), mu_registering_next(coord), mu_leaving_next(coord),
                            coord->lost_next};
    uint64_t at = UINT64_MAX;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        at = all[i] < at ? all[i] : at;
    return at;
}

static void moment(uv_timer_t *timer)
{
    struct mu_coord *coord = timer->data;
    uint64_t now = mu_now();

    coord->timer_at = UINT64_MAX;
    mu_coord_look_tasks(coord); /* what has happened comes before what has not */
    mu_registering_due(coord, now);
    mu_leaving_due(coord, now);
    mu_lost_due(coord, now);
    mu_coord_look_tasks(coord);
    mu_coord_pending_look(coord);
    mu_coord_due(coord, earliest(coord));
    mu_coord_deliver(coord);
}

void mu_coord_due(struct mu_coord *coord, uint64_t at)
{
    uint64_t now = mu_now();

    if (at >= coord->timer_at || coord->stopped)
        return;
    coord->timer_at = at;
    uv_update_time(coord->o.loop);
    /* never at once: what could not be done is not tried again without a pause */
    uv_timer_start(&coord->timer, moment, at > now ? (at - now) / 1000000 + 1 : 1, 0);
}

/* ---- looking ---- */

/* Each look may change states itself: until one has not. */
static void look_at_tasks(struct mu_coord *coord, bool always)
{
    struct mu_cluster cluster;
    bool changed = false;

    for (int i = 0; i < LOOKS && !coord->stopped && !mu_cluster_look(coord->seg, &cluster); i++) {
        if (cluster.root.version == coord->version && !always)
            break;
        coord->version = cluster.root.version;
        always = false;
        changed = true;
        mu_errors_look(coord, &cluster.root);
        mu_registering_look(coord, &cluster.root);
        mu_leaving_look(coord, &cluster.root);
        mu_guests_look(coord, &cluster.root);
        mu_coord_pending_look(coord);
    }
    if (changed)
        mu_watchers_look(coord);
}

void mu_coord_look_tasks(struct mu_coord *coord)
{
    look_at_tasks(coord, false);
}

void mu_coord_look_at_tasks(struct mu_coord *coord)
{
    look_at_tasks(coord, true);
}

void mu_coord_look(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    mu_coord_look_tasks(coord);
    mu_wishes_look(coord);
    if (coord->remote)
        mu_coord_remote_look(coord);
    mu_coord_pending_look(coord);
    mu_coord_deliver(coord);
}

/* Somebody tells us that others have changed something. */
static bool is_listening(const struct mu_coord *coord)
{
    return coord->listener || coord->o.lanes;
}

/* Before the look, so that what changes after it rings. */
static void arm(struct mu_coord *coord)
{
    coord->armed = mu_coord_awaits(coord) && is_listening(coord);
    if (coord->armed && coord->o.lanes)
        mu_lanes_arm(coord->o.lanes);
    else if (coord->armed)
        mu_listener_arm(coord->listener);
}

/* In the listener's thread, or in one of the bridge's. */
static void rung(void *arg)
{
    uv_async_send(arg);
}

static void bell(uv_async_t *async)
{
    struct mu_coord *coord = async->data;

    if (coord->stopped)
        return;
    arm(coord);
    if (coord->remote)
        mu_lanes_take(coord->o.lanes);
    mu_coord_look(coord);
}

static void recheck(uv_timer_t *timer)
{
    struct mu_coord *coord = timer->data;
    struct mu_ctx *ctx;

    if (!mu_coord_awaits(coord)) {
        uv_timer_stop(timer);
        return;
    }
    if (!mu_enter(coord->m, &ctx)) {
        mu_task_scavenge(ctx);
        mu_exit(ctx);
    }
    mu_registering_beat(coord);
    mu_coord_look(coord);
}

void mu_coord_watch_bell(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    if (!uv_is_active((uv_handle_t *)&coord->recheck))
        uv_timer_start(&coord->recheck, recheck, RECHECK_MS, RECHECK_MS);
    if (coord->armed || !is_listening(coord))
        return;
    arm(coord);
    uv_async_send(&coord->bell); /* what waits was looked at before: once more */
}

/* ---- opening, closing ---- */

static enum muster_status begin_handles(struct mu_coord *coord)
{
    if (uv_async_init(coord->o.loop, &coord->bell, bell) || uv_timer_init(coord->o.loop, &coord->timer) ||
        uv_timer_init(coord->o.loop, &coord->recheck) ||
        uv_idle_init(coord->o.loop, &coord->idle)) /* only the first of them can fail */
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no timers for the coordination service");
    coord->timer.data = coord->recheck.data = coord->idle.data = coord->bell.data = coord;
    coord->timer_at = UINT64_MAX;
    coord->closing = 4;
    return MUSTER_OK;
}

/* Then the register barrier has passed, before an adoption. */
static bool have_all_been_here(const struct mu_coord *coord)
{
    struct mu_task_record r = {.attempt = 1};

    for (uint32_t i = 0; i < coord->num_tasks && r.attempt; i++)
        mu_coord_record(coord, (int32_t)i, &r, NULL);
    return r.attempt != 0;
}

/* The run's first word: a job that is begun again has another. Never 0. */
static uint64_t incarnation_of(struct muster_segment *seg)
{
    struct muster_segment_info info;

    return muster_segment_info(seg, &info) || !info.run_id[0] ? 1 : info.run_id[0];
}

/* Once it cannot fail any more. */
static void begin_listening(struct mu_coord *coord)
{
    if (coord->o.lanes)
        mu_lanes_listen(coord->o.lanes, rung, &coord->bell);
    else if (mu_listener_start(coord->seg, rung, &coord->bell, &coord->listener))
        coord->listener = NULL; /* then the recheck sees what others do */
}

static void stop_listening(struct mu_coord *coord)
{
    if (coord->o.lanes)
        mu_lanes_listen(coord->o.lanes, NULL, NULL);
    mu_listener_stop(coord->listener);
    coord->listener = NULL;
}

static enum muster_status begin(struct mu_coord *coord)
{
    enum muster_status status;

    if (!coord->tasks)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", coord->num_tasks);
    status = mu_coord_pending_open(coord);
    if (!status && mu_is_follower(coord->seg))
        status = mu_coord_remote_open(coord);
    return status ? status : begin_handles(coord);
}

enum muster_status mu_coord_open(const struct mu_coord_options *options, struct mu_coord **ret_coord)
{
    struct mu_coord *coord = calloc(1, sizeof *coord);
    enum muster_status status;

    if (!coord)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the coordination service");
    coord->o = *options;
    coord->o.register_timeout_ns = options->register_timeout_ns ? options->register_timeout_ns : HOUR_NS;
    coord->o.say_ns = options->say_ns ? options->say_ns : 10ull * SECOND_NS;
    coord->m = options->m;
    coord->seg = muster_segment_of(options->m);
    coord->num_tasks = coord->seg->num_tasks;
    coord->incarnation = incarnation_of(coord->seg);
    coord->tasks = calloc(coord->num_tasks, sizeof *coord->tasks);
    status = begin(coord);
    if (status) {
        mu_pending_close(&coord->pending);
        free(coord->remote);
        free(coord->tasks);
        free(coord);
        return status;
    }
    coord->leave_until = coord->lost_next = UINT64_MAX;
    coord->report_of = -1;
    coord->registered = have_all_been_here(coord);
    begin_listening(coord);
    coord->pending.named.is_heard = coord->listener != NULL;
    *ret_coord = coord;
    return MUSTER_OK;
}

void mu_coord_stop(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    coord->stopped = true;
    mu_wishes_stop(coord);
    mu_work_stop(coord);
    mu_coord_pending_stop(coord);
    mu_registering_stop(coord);
    mu_leaving_stop(coord);
    mu_polls_stop(coord);
    mu_watchers_stop(coord);
    if (coord->remote)
        mu_coord_remote_stop(coord);
    stop_listening(coord);
    uv_timer_stop(&coord->timer);
    uv_timer_stop(&coord->recheck);
    mu_coord_deliver(coord);
}

static void closed(uv_handle_t *handle)
{
    struct mu_coord *coord = handle->data;

    if (--coord->closing)
        return;
    for (uint32_t i = 0; i < coord->num_tasks; i++)
        free(coord->tasks[i].lost_why);
    for (uint32_t i = 0; i < MU_VALUES; i++)
        if (coord->values[i].blob)
            coord->values[i].blob->seat = NULL;
    free(coord->tasks);
    free(coord->remote);
    free(coord);
}

void mu_coord_free(struct mu_coord *coord)
{
    if (!coord)
        return;
    mu_coord_stop(coord);
    uv_close((uv_handle_t *)&coord->timer, closed);
    uv_close((uv_handle_t *)&coord->recheck, closed);
    uv_close((uv_handle_t *)&coord->idle, closed);
    uv_close((uv_handle_t *)&coord->bell, closed);
}
