/*
 * coord/look.c: the engine's turn: the look at what others have changed, and what is due.
 *
 * Wire clients change things through the engine itself, which looks at once at what hangs on them. What the tasks of
 * the C library change is found by a look at all words on which something waits: when the bell rings, and every 100 ms
 * while something waits (as every waiter of the job does: then the dead are looked for, too). In a job of several hosts
 * it is the bridge that says so, and on those that are not the leader's brings answers as well (coord/remote.h).
 *
 * The features are reached through the table in the engine alone, so no file below coord.c names all of them.
 */
#include "base/clock.h"
#include "bridge/call/lanes.h"
#include "coord/bell.h"
#include "coord/private.h"
#include "task/task.h"

#define RECHECK_MS 100u

enum { LOOKS = 8 };

/* ---- what is due ---- */

static uint64_t next_due(const struct mu_coord *coord)
{
    uint64_t first = UINT64_MAX;

    for (const struct mu_coord_feature *const *f = coord->features; *f; f++) {
        uint64_t at = (*f)->next ? (*f)->next(coord) : UINT64_MAX;

        first = at < first ? at : first;
    }
    return first;
}

static void timer_rings(uv_timer_t *timer)
{
    struct mu_coord *coord = timer->data;
    uint64_t now = mu_now();

    coord->timer_at = UINT64_MAX;
    mu_coord_look_tasks(coord); /* what has happened comes before what has not */
    for (const struct mu_coord_feature *const *f = coord->features; *f; f++)
        if ((*f)->due)
            (*f)->due(coord, now);
    mu_coord_look_tasks(coord);
    mu_coord_due(coord, next_due(coord));
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
    uv_timer_start(&coord->timer, timer_rings, at > now ? (at - now) / 1000000 + 1 : 1, 0);
}

/* ---- looking ---- */

/* Each look may change states itself: until one has not. */
static void tasks_look(struct mu_coord *coord, bool always)
{
    struct mu_cluster cluster;
    bool changed = false;

    for (int i = 0; i < LOOKS && !coord->stopped && !mu_cluster_look(coord->seg, &cluster); i++) {
        if (cluster.root.version == coord->version && !always)
            break;
        coord->version = cluster.root.version;
        always = false;
        changed = true;
        for (const struct mu_coord_feature *const *f = coord->features; *f; f++)
            if ((*f)->look_tasks)
                (*f)->look_tasks(coord, &cluster.root);
    }
    for (const struct mu_coord_feature *const *f = coord->features; *f && changed; f++)
        if ((*f)->looked)
            (*f)->looked(coord);
}

void mu_coord_look_tasks(struct mu_coord *coord)
{
    tasks_look(coord, false);
}

void mu_coord_look_at_tasks(struct mu_coord *coord)
{
    tasks_look(coord, true);
}

void mu_coord_look(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    mu_coord_look_tasks(coord);
    for (const struct mu_coord_feature *const *f = coord->features; *f; f++)
        if ((*f)->look)
            (*f)->look(coord);
    mu_coord_deliver(coord);
}

/* Somebody tells us that others have changed something. */
static bool is_listening(const struct mu_coord *coord)
{
    return coord->listener || coord->o.lanes;
}

/* Before the look, so that what changes after it rings. */
static void bell_arm(struct mu_coord *coord)
{
    coord->armed = mu_coord_awaits(coord) && is_listening(coord);
    if (coord->armed && coord->o.lanes)
        mu_lanes_arm(coord->o.lanes);
    else if (coord->armed)
        mu_listener_arm(coord->listener);
}

/* In the listener's thread, or in one of the bridge's. */
static void bell_rung(void *arg)
{
    uv_async_send(arg);
}

static void bell_heard(uv_async_t *async)
{
    struct mu_coord *coord = async->data;

    if (coord->stopped)
        return;
    bell_arm(coord);
    if (coord->remote)
        mu_lanes_take(coord->o.lanes);
    mu_coord_look(coord);
}

static void recheck_rings(uv_timer_t *timer)
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
    for (const struct mu_coord_feature *const *f = coord->features; *f; f++)
        if ((*f)->beat)
            (*f)->beat(coord);
    mu_coord_look(coord);
}

void mu_coord_watch_bell(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    if (!uv_is_active((uv_handle_t *)&coord->recheck))
        uv_timer_start(&coord->recheck, recheck_rings, RECHECK_MS, RECHECK_MS);
    if (coord->armed || !is_listening(coord))
        return;
    bell_arm(coord);
    uv_async_send(&coord->bell); /* what waits was looked at before: once more */
}

/* ---- timers and the bell ---- */

enum muster_status mu_coord_handles_open(struct mu_coord *coord)
{
    if (uv_async_init(coord->o.loop, &coord->bell, bell_heard) || uv_timer_init(coord->o.loop, &coord->timer) ||
        uv_timer_init(coord->o.loop, &coord->recheck) ||
        uv_idle_init(coord->o.loop, &coord->idle)) /* only the first of them can fail */
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no timers for the coordination service");
    coord->timer.data = coord->recheck.data = coord->idle.data = coord->bell.data = coord;
    coord->timer_at = UINT64_MAX;
    coord->closing = 4;
    return MUSTER_OK;
}

void mu_coord_listen(struct mu_coord *coord)
{
    if (coord->o.lanes)
        mu_lanes_listen(coord->o.lanes, bell_rung, &coord->bell);
    else if (mu_listener_start(coord->seg, bell_rung, &coord->bell, &coord->listener))
        coord->listener = NULL; /* then the recheck sees what others do */
}

void mu_coord_listen_stop(struct mu_coord *coord)
{
    if (coord->o.lanes)
        mu_lanes_listen(coord->o.lanes, NULL, NULL);
    mu_listener_stop(coord->listener);
    coord->listener = NULL;
}
