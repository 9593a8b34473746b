/*
 * rpc/desk_error.c: errors of tasks, who polls for them, and heartbeats, which are how a task learns of its own.
 *
 * The job's first error that counts is told to everybody who polls, once, and to whoever polls later, for as long as
 * any task is in such an error: when the last is reset, the job is well again, which the reference never is. Guests
 * that do not poll and are servers themselves are called. When nobody has ever polled there is but one way to tell the
 * others: each is put in error, and learns it by its next heartbeat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "rpc/desk_remote.h"
#include "task/guest.h"
#include "task/task.h"

enum { SILENT_SHOWN = 3, LAST_CODE = MUSTER_DATA_LOSS };

/* ---- telling ---- */

static void tell(struct mu_desk *desk, struct mu_parked *p)
{
    const struct mu_desk_error *e = &desk->error;

    desk->tasks[p->task].poll = NULL;
    desk->tasks[p->task].poll_line = NULL;
    mu_parked_answer(desk, p, e->code, MU_PAYLOAD_SERVICE, e->text);
    p->ask->origin = e->origin;
    p->ask->reported = e->reported;
}

/* A guest of this host that is connected, and not by its registration, which waits and is told so. */
static bool is_guest(const struct mu_desk *desk, int32_t task, struct mu_task_record *ret_record)
{
    if (!mu_desk_is_own(desk, task) || desk->tasks[task].registering)
        return false;
    mu_desk_record(desk, task, ret_record, NULL);
    return ret_record->state == MUSTER_TASK_CONNECTED && (ret_record->flags & MU_TASK_GUEST);
}

static bool is_told(const struct mu_desk *desk, uint32_t task, uint64_t incarnation)
{
    return desk->tasks[task].is_told && desk->tasks[task].told == incarnation;
}

/* Those of this host; another's desk does likewise. */
static void fail_guests(struct mu_desk *desk, const char *text, bool also_told)
{
    struct mu_ctx *ctx;

    if (mu_enter(desk->m, &ctx))
        return;
    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        struct mu_task_record r;

        if (is_guest(desk, (int32_t)i, &r) && (also_told || !is_told(desk, i, r.incarnation)))
            mu_task_fail(ctx, i, r.incarnation, MU_EVENT_REPORT, MUSTER_INTERNAL, MUSTER_CAUSE_REPORTED, text);
    }
    mu_exit(ctx);
}

/* Of those who do not poll. */
static void call_guests(struct mu_desk *desk)
{
    const struct mu_desk_error *e = &desk->error;

    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        struct mu_desk_report report = {
            .task = (int32_t)i, .origin = e->origin, .code = e->code, .text = e->text, .reported = e->reported};
        struct mu_task_record r;

        desk->tasks[i].is_told = false;
        if (!desk->call_task || desk->tasks[i].poll || !is_guest(desk, (int32_t)i, &r))
            continue;
        report.incarnation = desk->tasks[i].told = r.incarnation;
        desk->tasks[i].is_told = desk->call_task(desk->call_arg, &report);
    }
}

static void fail_untold(struct mu_desk *desk)
{
    char text[MU_DESK_TEXT + 200];

    snprintf(text, sizeof text,
             "All tasks were set to error because coordination service encountered an error, but was unable to inform "
             "clients. Error: %s",
             desk->error.text);
    fail_guests(desk, text, false);
}

/* desk->error is new. */
static void broadcast(struct mu_desk *desk)
{
    desk->error.is = true;
    mu_wishes_fail(desk, desk->error.text);
    call_guests(desk);
    if (!desk->polled) {
        fail_untold(desk);
        return;
    }
    while (desk->polls.first)
        tell(desk, desk->polls.first);
}

void mu_desk_report_by(struct mu_desk *desk, bool (*report)(void *arg, const struct mu_desk_report *report), void *arg)
{
    desk->call_task = report;
    desk->call_arg = arg;
    if (report)
        mu_desk_watch_bell(desk); /* as for one who waits: nobody else looks for the errors of other hosts' tasks */
}

void mu_desk_untold(struct mu_desk *desk, int32_t task, uint64_t incarnation)
{
    if (desk->stopped || !is_told(desk, (uint32_t)task, incarnation))
        return;
    desk->tasks[task].is_told = false;
    mu_desk_look_tasks(desk);
    if (desk->error.is && !desk->polled)
        fail_untold(desk);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}

void mu_errors_say(struct mu_desk *desk, enum muster_status code, const char *text)
{
    if (!desk->error.is) {
        desk->error.code = code;
        desk->error.origin = -1;
        desk->error.reported = false;
        snprintf(desk->error.text, sizeof desk->error.text, "%s", text);
        broadcast(desk);
    }
    fail_guests(desk, text, true);
}

/* Up to three who are in error because they were silent. */
static void list_silent(const struct mu_desk *desk, char *text, size_t size)
{
    size_t len = 0;
    uint32_t shown = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < desk->num_tasks && shown < SILENT_SHOWN && len < size; i++) {
        struct mu_task_record r;
        char why[MU_TEXT_MAX], name[MU_NAME_MAX];

        mu_desk_record(desk, (int32_t)i, &r, why);
        if (r.state != MUSTER_TASK_ERROR || r.cause != MUSTER_CAUSE_HEARTBEAT)
            continue;
        mu_desk_name(desk, (int32_t)i, name, sizeof name);
        len += (size_t)snprintf(text + len, size - len, "%s: heartbeat timeout: %s\n", name, why);
        shown++;
    }
}

/* The error of the job's first task that is in one. False: it has been reset meanwhile. */
static bool compose(struct mu_desk *desk, int32_t task)
{
    struct mu_desk_error *e = &desk->error;
    char why[MU_TEXT_MAX], name[MU_NAME_MAX], silent[3 * (MU_TEXT_MAX + 160)];
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, why);
    if (r.state != MUSTER_TASK_ERROR)
        return false;
    mu_desk_name(desk, task, name, sizeof name);
    e->code = r.code ? (enum muster_status)r.code : MUSTER_UNKNOWN;
    e->origin = task;
    e->reported = r.cause == MUSTER_CAUSE_REPORTED;
    list_silent(desk, silent, sizeof silent);
    if (r.cause == MUSTER_CAUSE_HEARTBEAT)
        snprintf(e->text, sizeof e->text,
                 "The following tasks are unhealthy (stopped sending heartbeats):\n%sThe tasks have crashed, or are "
                 "stopped or starved. Check the task logs for an earlier error to debug further.",
                 silent);
    else
        snprintf(e->text, sizeof e->text, "%s is in error: %s", name,
                 e->reported && desk->report_of == task ? desk->report : why);
    return true;
}

void mu_errors_look(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    if (!root->errors) {
        desk->error.is = false;
    } else if (!desk->error.is && root->first_error && root->first_error <= desk->num_tasks &&
               compose(desk, (int32_t)root->first_error - 1)) {
        broadcast(desk);
    }
}

const char *mu_desk_error(struct mu_desk *desk, int32_t *ret_origin)
{
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
    *ret_origin = desk->error.origin;
    return desk->error.is ? desk->error.text : NULL;
}

/* ---- polling ---- */

static void poll_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    desk->tasks[p->task].poll = NULL; /* not its line: should that hang up now, the task has gone with it */
}

void mu_poll_cancel(struct mu_desk *desk, int32_t task, const char *text)
{
    struct mu_parked *p = desk->tasks[task].poll;

    desk->tasks[task].poll = NULL;
    desk->tasks[task].poll_line = NULL;
    if (p)
        mu_parked_answer(desk, p, MUSTER_CANCELLED, MU_PAYLOAD_SERVICE, text);
}

/* False: it was answered. */
static bool may_poll(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const struct mu_task_record *r,
                     const char *why)
{
    char text[MU_DESK_TEXT], name[MU_NAME_MAX];
    const char *bare = MU_BARE_LABEL(desk->seg, task);

    mu_desk_name(desk, task, name, sizeof name);
    if (r->state == MUSTER_TASK_DISCONNECTED && !mu_guest_has_grace(desk->seg, r, mu_now()))
        snprintf(text, sizeof text,
                 "%s: Task (%s) that has not been registered or has disconnected polling for errors.", name, bare);
    else if (r->state == MUSTER_TASK_ERROR)
        snprintf(text, sizeof text,
                 "%s: Task (%s) that is already in error state polling for errors. Current error: %s", name, bare, why);
    else
        return true;
    mu_desk_answer(ask, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_SERVICE, text);
    return false;
}

static void wait_for_error(struct mu_desk *desk, struct mu_ask *ask, int32_t task, uint64_t incarnation)
{
    struct mu_parked *p;

    mu_poll_cancel(desk, task, "Cancelled error polling because: there is a new request from the same task.");
    p = mu_desk_park(desk, ask, &desk->polls, 0);
    if (!p) {
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->dropped = poll_dropped;
    desk->tasks[task].poll = p;
    desk->tasks[task].poll_line = ask->line;
    mu_line_speaks(desk, ask->line, task, incarnation);
    if (desk->error.is)
        tell(desk, p);
}

void mu_desk_poll_error(struct mu_desk *desk, struct mu_ask *ask, int32_t task)
{
    struct mu_task_record r;
    char why[MU_TEXT_MAX], text[128];

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk); /* an error that nobody had polled for comes first */
    desk->polled = true;
    if (!mu_desk_has(desk, task)) {
        snprintf(text, sizeof text, "Unexpected task (%d) that is not in the cluster polling for errors.", task);
        mu_desk_answer(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE, text);
    } else if (!mu_desk_is_own(desk, task)) {
        mu_desk_fail(ask, mu_desk_refuse_other(desk, task), MU_PAYLOAD_SERVICE);
    } else {
        mu_desk_record(desk, task, &r, why);
        if (may_poll(desk, ask, task, &r, why))
            wait_for_error(desk, ask, task, r.incarnation);
    }
    mu_desk_deliver(desk);
}

void mu_polls_stop(struct mu_desk *desk)
{
    while (desk->polls.first)
        mu_poll_cancel(desk, desk->polls.first->task, "Cancelled error polling because: the service is shutting down.");
}

/* ---- reporting ---- */

static enum muster_status code_of(int32_t code)
{
    return code > MUSTER_OK && code <= LAST_CODE ? (enum muster_status)code : MUSTER_UNKNOWN;
}

/* What the record keeps of it. OK: the task may be reported. */
static enum muster_status prepare_report(struct mu_desk *desk, int32_t task, struct mu_task_record *r,
                                         char text[MU_TEXT_MAX])
{
    mu_desk_record(desk, task, r, NULL);
    snprintf(text, MU_TEXT_MAX, "%.*s", (int)mu_utf8_cut(desk->report, strlen(desk->report), MU_TEXT_MAX - 1),
             desk->report);
    return r->state == MUSTER_TASK_CONNECTED ? MUSTER_OK
                                             : mu_fail(MUSTER_FAILED_PRECONDITION, "%s", MU_DESK_CANNOT_REPORT);
}

static enum muster_status report(struct mu_desk *desk, int32_t task, int32_t code)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    char text[MU_TEXT_MAX];
    enum muster_status status = prepare_report(desk, task, &r, text);

    if (!status)
        status = mu_enter(desk->m, &ctx);
    if (status)
        return status;
    status =
        mu_task_fail(ctx, (uint32_t)task, r.incarnation, MU_EVENT_REPORT, code_of(code), MUSTER_CAUSE_REPORTED, text);
    mu_exit(ctx);
    return status;
}

/* Another host's task: by the leader. */
static void report_remote(struct mu_desk *desk, struct mu_ask *ask, int32_t task, int32_t code)
{
    struct mu_task_record r;
    char text[MU_TEXT_MAX];
    enum muster_status status = prepare_report(desk, task, &r, text);

    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_remote_report(desk, ask, task, code_of(code), text);
    mu_desk_deliver(desk);
}

void mu_desk_report_error(struct mu_desk *desk, struct mu_ask *ask, int32_t task, int32_t code, const char *text,
                          size_t len)
{
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    if (!mu_desk_has(desk, task)) {
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "Unexpected request from task %d, which is not in the cluster", task);
    } else {
        desk->report_of = task;
        snprintf(desk->report, sizeof desk->report, "%.*s", (int)mu_utf8_cut(text, len, sizeof desk->report - 1), text);
        if (desk->remote && !mu_desk_is_own(desk, task)) {
            report_remote(desk, ask, task, code);
            return;
        }
        status = report(desk, task, code);
    }
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}

/* ---- heartbeats ---- */

static enum muster_status beat(struct mu_desk *desk, struct mu_line *line, int32_t task, uint64_t incarnation)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    char why[MU_TEXT_MAX], name[MU_NAME_MAX];
    enum muster_status status;

    if (!mu_desk_has(desk, task))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "Unexpected heartbeat request from task: %d. It is not in the cluster, of %u tasks.", task,
                       desk->num_tasks);
    if (!mu_desk_is_own(desk, task))
        return mu_desk_refuse_other(desk, task);
    mu_desk_record(desk, task, &r, why);
    mu_desk_name(desk, task, name, sizeof name);
    if (r.state == MUSTER_TASK_ERROR)
        return mu_fail(MUSTER_ABORTED,
                       "Unexpected heartbeat request from an already-in-error task: %s with existing error: %s", name,
                       why);
    if (r.state == MUSTER_TASK_DISCONNECTED && mu_guest_has_grace(desk->seg, &r, mu_now()))
        return MUSTER_OK;
    if (r.state == MUSTER_TASK_DISCONNECTED)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "Task with task=%s must be registered before sending heartbeat messages. The service might have "
                       "restarted; please register the task anew.",
                       MU_BARE_LABEL(desk->seg, task));
    status = mu_enter(desk->m, &ctx);
    if (status)
        return status;
    status = mu_task_beat(ctx, (uint32_t)task, incarnation);
    mu_exit(ctx);
    if (status == MUSTER_ABORTED)
        return mu_fail(status, "Heartbeat of %s comes from another incarnation of it: it has likely restarted.", name);
    if (!status && incarnation == r.incarnation)
        mu_line_speaks(desk, line, task, incarnation);
    return status;
}

void mu_desk_heartbeat(struct mu_desk *desk, struct mu_ask *ask, int32_t task, uint64_t incarnation)
{
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    status = beat(desk, ask->line, task, incarnation);
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}
