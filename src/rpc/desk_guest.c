/*
 * rpc/desk_guest.c: guests come and go: RegisterTask with its barrier, ResetTask, and what every way of leaving shares.
 *
 * The register barrier is the desk's own: a guest is connected when all tasks are there, and until then its record says
 * nothing of it, so that nobody misses its heartbeats. A task of the C library that is connected counts as registered.
 * Who hangs up while it waits has not come. When the barrier fails, those who wait are told, and the next who registers
 * begins it anew.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/desk_private.h"
#include "task/guest.h"

#define BARRIER "[Init]Wait_for_all_tasks_to_register"
enum { SAY_SLOWER = 6 /* times as long as at first, when it is said again */ };

/* ---- words for a barrier of the desk's own ---- */

/* "task 2, task 5 (pid 4711 on host n1)": two at most of those who are not there, each after `between`. */
static uint32_t name_missing(const struct mu_desk *desk, mu_there_fn there, const char *between, char *text,
                             size_t size)
{
    size_t len = 0;
    uint32_t missing = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        char name[128];

        if (there(desk, i))
            continue;
        if (missing++ >= 2 || len >= size)
            continue;
        mu_desk_name(desk, (int32_t)i, name, sizeof name);
        len += (size_t)snprintf(text + len, size - len, "%s%s", between, name);
    }
    return missing;
}

void mu_desk_words_of_timeout(const struct mu_desk *desk, const char *id, mu_there_fn there, int32_t first, char *text,
                              size_t size)
{
    char names[300];
    uint32_t missing = name_missing(desk, there, "\n", names, sizeof names);

    snprintf(
        text, size,
        "Barrier timed out. Id: %s::0. This usually happens because a task triggered the barrier too early or too "
        "slowly, or died before it. # of tasks that reached the barrier: %u/%u.\nThe first task at the barrier: %d. "
        "Some timed out task names:%s",
        id, desk->num_tasks - missing, desk->num_tasks, first, names);
}

uint64_t mu_desk_say_missing(struct mu_desk *desk, mu_there_fn there, const char *what, uint64_t now)
{
    char names[300], text[400];
    uint32_t missing = name_missing(desk, there, ", ", names, sizeof names);

    snprintf(text, sizeof text, "%u of %u tasks %s:%s%s", missing, desk->num_tasks, what, names + (missing > 0),
             missing > 2 ? " ..." : "");
    if (desk->o.said && missing)
        desk->o.said(desk->o.arg, text);
    return now + SAY_SLOWER * desk->o.say_ns;
}

/* ---- registering ---- */

static bool is_registered(const struct mu_desk *desk, uint32_t task)
{
    struct mu_task_record r;

    if (desk->tasks[task].registering)
        return true;
    mu_desk_record(desk, (int32_t)task, &r, NULL);
    return r.state == MUSTER_TASK_CONNECTED;
}

static enum muster_status admit(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_line *line, int32_t task,
                                uint64_t incarnation, bool recoverable)
{
    struct mu_guest g = {.task = (uint32_t)task, .incarnation = incarnation, .reconnects = desk->o.reconnects};
    enum muster_status status;

    g.flags = desk->o.recoverable || recoverable ? MUSTER_JOIN_RECOVERABLE : 0;
    g.pid = desk->o.pid_of ? desk->o.pid_of(desk->o.arg, (uint32_t)task) : 0;
    if (!g.pid && line)
        g.pid = line->pid;
    status = mu_guest_register(ctx, &g);
    if (!status) {
        desk->tasks[task].left = false;
        mu_line_speaks(desk, line, task, incarnation);
    }
    return status;
}

/* Everybody who waits is connected. */
static void pass(struct mu_desk *desk)
{
    struct mu_ctx *ctx;

    if (mu_enter(desk->m, &ctx))
        return; /* the next look tries again */
    desk->registered = true;
    while (desk->registering.first) {
        struct mu_parked *p = desk->registering.first;
        enum muster_status status = admit(desk, ctx, p->line, p->task, p->incarnation, p->recoverable);

        desk->tasks[p->task].registering = NULL;
        mu_parked_answer(desk, p, status, MU_PAYLOAD_SERVICE, status ? muster_last_error() : NULL);
    }
    mu_exit(ctx);
}

static void fail(struct mu_desk *desk, enum muster_status code, const char *text)
{
    desk->register_until = UINT64_MAX;
    desk->register_version = 0; /* who waited was not counted as connected, and may be, by a process of its own */
    while (desk->registering.first) {
        struct mu_parked *p = desk->registering.first;

        desk->tasks[p->task].registering = NULL;
        p->ask->barrier_id = BARRIER;
        p->ask->counter = 0;
        mu_parked_answer(desk, p, code, MU_PAYLOAD_BARRIER, text);
    }
}

/* A task that is in error fails it. */
static bool fail_by_error(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    char text[MU_TEXT_MAX + 400], why[MU_TEXT_MAX], name[128];
    struct mu_task_record r;

    if (!root->errors || !root->first_error || root->first_error > desk->num_tasks)
        return false;
    mu_desk_record(desk, (int32_t)root->first_error - 1, &r, why);
    mu_desk_name(desk, (int32_t)root->first_error - 1, name, sizeof name);
    snprintf(text, sizeof text, "Barrier failed because: task is set to ERROR: %s: %s. Barrier Id: " BARRIER "::0",
             name, why);
    fail(desk, MUSTER_INTERNAL, text);
    return true;
}

void mu_registering_look(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    if (!desk->registering.count || fail_by_error(desk, root))
        return;
    if (desk->register_version != root->version) {
        desk->register_version = root->version;
        desk->connected = 0;
        for (uint32_t i = 0; i < desk->num_tasks; i++)
            desk->connected += !desk->tasks[i].registering && is_registered(desk, i);
    }
    if (desk->registering.count + desk->connected >= desk->num_tasks)
        pass(desk);
}

uint64_t mu_registering_next(const struct mu_desk *desk)
{
    if (!desk->registering.count)
        return UINT64_MAX;
    return desk->register_until < desk->say_at ? desk->register_until : desk->say_at;
}

void mu_registering_due(struct mu_desk *desk, uint64_t now)
{
    char text[MU_DESK_TEXT];

    if (!desk->registering.count)
        return;
    if (now >= desk->register_until) {
        mu_desk_say_missing(desk, is_registered, "have not registered in time", now);
        mu_desk_words_of_timeout(desk, BARRIER, is_registered, desk->registering.first->task, text, sizeof text);
        fail(desk, MUSTER_DEADLINE_EXCEEDED, text);
    } else if (now >= desk->say_at) {
        desk->say_at = mu_desk_say_missing(desk, is_registered, "have not registered yet", now);
    }
}

static void registering_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    desk->tasks[p->task].registering = NULL;
    desk->register_version = 0; /* as in fail() */
}

/* Wait for the others. */
static void join_barrier(struct mu_desk *desk, struct mu_ask *ask, int32_t task, uint64_t incarnation, bool recoverable)
{
    struct mu_desk_task *t = &desk->tasks[task];
    uint64_t now = mu_now();
    struct mu_parked *p;

    if (t->registering)
        mu_parked_answer(desk, t->registering, MUSTER_ALREADY_EXISTS, MU_PAYLOAD_SERVICE,
                         "Aborted connect attempt as there is a request from a newer incarnation.");
    t->registering = NULL;
    p = mu_desk_park(desk, ask, &desk->registering, 0);
    if (!p) {
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    if (desk->registering.count == 1) {
        desk->register_until = now + desk->o.register_timeout_ns;
        desk->say_at = now + desk->o.say_ns;
        mu_desk_due(desk, mu_registering_next(desk));
    }
    p->task = task;
    p->incarnation = incarnation;
    p->recoverable = recoverable;
    p->dropped = registering_dropped;
    t->registering = p;
    mu_desk_look_at_tasks(desk);
}

static bool may_join(const struct mu_desk *desk, const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_DISCONNECTED || (r->state == MUSTER_TASK_ERROR && r->code == MUSTER_UNAVAILABLE &&
                                                    (desk->o.reconnects || mu_desk_is_recoverable(r)));
}

void mu_desk_register(struct mu_desk *desk, struct mu_ask *ask, int32_t task, uint64_t incarnation, bool recoverable)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    if (!mu_desk_has(desk, task)) {
        mu_fail(MUSTER_INVALID_ARGUMENT,
                "Unexpected task registered with task=%d: it is not in the cluster, of %u tasks", task,
                desk->num_tasks);
        mu_desk_fail(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return;
    }
    mu_desk_look_tasks(desk);
    mu_desk_record(desk, task, &r, NULL);
    if (desk->o.register_barrier && !desk->registered && may_join(desk, &r)) {
        join_barrier(desk, ask, task, incarnation, recoverable);
        mu_desk_deliver(desk);
        return;
    }
    status = mu_enter(desk->m, &ctx);
    if (!status) {
        status = admit(desk, ctx, ask->line, task, incarnation, recoverable);
        mu_exit(ctx);
    }
    if (status == MUSTER_ABORTED)
        mu_desk_fail_of(ask, status, task);
    else if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}

bool mu_desk_is_over(const struct mu_desk *desk)
{
    bool over = !desk->registering.count;

    for (uint32_t i = 0; i < desk->num_tasks && over; i++) {
        struct mu_task_record r;

        mu_desk_record(desk, (int32_t)i, &r, NULL);
        over = r.attempt && r.state != MUSTER_TASK_CONNECTED && (r.state != MUSTER_TASK_ERROR || !may_join(desk, &r));
    }
    return over;
}

void mu_registering_stop(struct mu_desk *desk)
{
    fail(desk, MUSTER_ABORTED, "Barrier failed because service is shutting down. Barrier_id: " BARRIER "::0");
}

/* ---- leaving ---- */

enum muster_status mu_desk_disconnect(struct mu_desk *desk, struct mu_ctx *ctx, int32_t task)
{
    struct mu_desk_task *t = &desk->tasks[task];
    enum muster_status status = mu_guest_disconnect(ctx, (uint32_t)task);

    if (status)
        return status;
    t->left = false;
    t->line = NULL;
    t->lost_at = 0;
    mu_poll_cancel(desk, task, "Cancelled error polling because: task has disconnected.");
    return MUSTER_OK;
}

void mu_desk_reset(struct mu_desk *desk, struct mu_ask *ask, int32_t task)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    if (!mu_desk_has(desk, task)) {
        status = mu_fail(MUSTER_INVALID_ARGUMENT,
                         "Unexpected disconnect request with task=%d: it is not in the cluster", task);
    } else {
        status = mu_enter(desk->m, &ctx);
        if (!status) {
            status = mu_desk_disconnect(desk, ctx, task);
            mu_exit(ctx);
        }
    }
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}
