/*
 * coord/error.c: errors of tasks, polls for them, and heartbeats, by which a task learns of its own.
 *
 * The job's first error that counts is told to every poller, once, and to later pollers, for as long as
 * any task is in such an error: when the last is reset, the job is well again, which the reference never is. Wire
 * clients that do not poll and are servers themselves are called. When nobody has ever polled there is but one way to
 * tell the others: each is put in error, and learns it by its next heartbeat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "coord/remote.h"
#include "task/client.h"
#include "task/task.h"

#define WORD_NS 5000000000u /* for which host 0's word may come behind the record of the task that it blames */

enum { SILENT_SHOWN = 3, LAST_CODE = MUSTER_DATA_LOSS };

/* ---- telling ---- */

static void poller_tell(struct mu_coord *coord, struct mu_coord_pending *p)
{
    const struct mu_coord_error *e = &coord->error;

    coord->tasks[p->task].poll = NULL;
    coord->tasks[p->task].poll_line = NULL;
    mu_coord_pending_answer(coord, p, e->code, MU_PAYLOAD_SERVICE, e->text);
    p->request->origin = e->origin;
    p->request->reported = e->reported;
}

/* A wire client of this host that is connected, and not by its registration, which waits and is told so. */
static bool is_wire_client(const struct mu_coord *coord, int32_t task, struct mu_task_record *ret_record)
{
    if (!mu_coord_is_own(coord, task) || coord->tasks[task].registering)
        return false;
    mu_coord_record(coord, task, ret_record, NULL);
    return ret_record->state == MUSTER_TASK_CONNECTED && (ret_record->flags & MU_TASK_GUEST);
}

static bool is_told(const struct mu_coord *coord, uint32_t task, uint64_t incarnation)
{
    return coord->tasks[task].is_told && coord->tasks[task].told == incarnation;
}

/* Those of this host; another's engine does likewise. `first` before all others, if it is one: the job's first error
 * names the task to blame. */
static void fail_wire_clients(struct mu_coord *coord, const char *text, bool also_told, int32_t first)
{
    struct mu_ctx *ctx;

    if (mu_enter(coord->m, &ctx))
        return;
    for (uint32_t k = mu_coord_has(coord, first) ? 0 : 1; k <= coord->num_tasks; k++) {
        uint32_t i = k ? k - 1 : (uint32_t)first;
        struct mu_task_record r;

        if (!k && !mu_coord_is_own(coord, first) && !mu_coord_follows(coord)) /* host 0's engine blames any */
            mu_coord_record(coord, first, &r, NULL);
        else if (!is_wire_client(coord, (int32_t)i, &r))
            continue;
        if (r.state == MUSTER_TASK_CONNECTED && (r.flags & MU_TASK_GUEST) &&
            (also_told || !is_told(coord, i, r.incarnation)))
            mu_task_fail(ctx, i, r.incarnation, MU_EVENT_REPORT, MUSTER_INTERNAL, MUSTER_CAUSE_SERVICE, text);
    }
    mu_exit(ctx);
}

/* Those of wire clients that do not poll. */
static void call_wire_clients(struct mu_coord *coord)
{
    const struct mu_coord_error *e = &coord->error;

    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        struct mu_coord_report report = {
            .task = (int32_t)i, .origin = e->origin, .code = e->code, .text = e->text, .reported = e->reported};
        struct mu_task_record r;

        coord->tasks[i].is_told = false;
        if (!coord->call_task || coord->tasks[i].poll || !is_wire_client(coord, (int32_t)i, &r))
            continue;
        report.incarnation = coord->tasks[i].told = r.incarnation;
        coord->tasks[i].is_told = coord->call_task(coord->call_arg, &report);
    }
}

static void fail_untold(struct mu_coord *coord)
{
    char text[MU_COORD_TEXT + 200];

    snprintf(text, sizeof text,
             "All tasks were set to error because coordination service encountered an error, but was unable to inform "
             "clients. Error: %s",
             coord->error.text);
    fail_wire_clients(coord, text, false, -1);
}

/* engine->error is new. */
static void error_broadcast(struct mu_coord *coord)
{
    coord->error.is = true;
    coord->word_until = UINT64_MAX;
    mu_coord_key_waits_fail(coord, coord->error.text);
    call_wire_clients(coord);
    if (!coord->polled)
        return;
    while (coord->polls.first)
        poller_tell(coord, coord->polls.first);
    mu_lines_failed(coord);
}

void mu_coord_report_by(struct mu_coord *coord, bool (*report)(void *arg, const struct mu_coord_report *report),
                        void *arg)
{
    coord->call_task = report;
    coord->call_arg = arg;
    if (report)
        mu_coord_watch_bell(coord); /* as for a waiter: nobody else looks for the errors of other hosts' tasks */
}

void mu_coord_untold(struct mu_coord *coord, int32_t task, uint64_t incarnation)
{
    if (coord->stopped || !is_told(coord, (uint32_t)task, incarnation))
        return;
    coord->tasks[task].is_told = false;
    mu_coord_look_tasks(coord);
    if (coord->error.is && !coord->polled)
        fail_untold(coord);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

void mu_errors_say(struct mu_coord *coord, enum muster_status code, const char *text, const char *brief, int32_t first)
{
    if (!coord->error.is) {
        coord->error.code = code;
        coord->error.origin = -1;
        coord->error.reported = false;
        snprintf(coord->error.text, sizeof coord->error.text, "%s", text);
        error_broadcast(coord);
    }
    fail_wire_clients(coord, brief, true, first);
}

/* Up to three tasks that are in error because they were silent. */
static void list_silent(const struct mu_coord *coord, char *text, size_t size)
{
    size_t len = 0;
    uint32_t shown = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < coord->num_tasks && shown < SILENT_SHOWN && len < size; i++) {
        struct mu_task_record r;
        char why[MU_TEXT_MAX], name[MU_NAME_MAX];

        mu_coord_record(coord, (int32_t)i, &r, why);
        if (r.state != MUSTER_TASK_ERROR || r.cause != MUSTER_CAUSE_HEARTBEAT)
            continue;
        mu_coord_name(coord, (int32_t)i, name, sizeof name);
        len += (size_t)snprintf(text + len, size - len, "%s: heartbeat timeout: %s\n", name, why);
        shown++;
    }
}

/* The error of the job's first task that is in one. False: it has been reset meanwhile. */
static bool error_compose(struct mu_coord *coord, int32_t task)
{
    struct mu_coord_error *e = &coord->error;
    char why[MU_TEXT_MAX], name[MU_NAME_MAX], silent[3 * (MU_TEXT_MAX + 160)];
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, why);
    if (r.state != MUSTER_TASK_ERROR)
        return false;
    mu_coord_name(coord, task, name, sizeof name);
    e->code = r.code ? (enum muster_status)r.code : MUSTER_UNKNOWN;
    e->origin = task;
    e->reported = r.cause == MUSTER_CAUSE_REPORTED;
    list_silent(coord, silent, sizeof silent);
    if (r.cause == MUSTER_CAUSE_HEARTBEAT)
        snprintf(e->text, sizeof e->text,
                 "The following tasks are unhealthy (stopped sending heartbeats):\n%sThe tasks have crashed, or are "
                 "stopped or starved. Check the task logs for an earlier error to debug further.",
                 silent);
    else
        snprintf(e->text, sizeof e->text, "%s is in error: %s", name,
                 e->reported && coord->report_of == task ? coord->report : why);
    return true;
}

/*
 * Host 0's engine has put the task in error, for a failure of its own, and tells the other engines what that is: on
 * those the record may come first, which says less.
 */
static bool word_awaited(struct mu_coord *coord, int32_t task)
{
    struct mu_task_record r;

    if (!mu_coord_follows(coord))
        return false;
    mu_coord_record(coord, task, &r, NULL);
    if (r.state != MUSTER_TASK_ERROR || r.cause != MUSTER_CAUSE_SERVICE)
        return false;
    if (coord->word_until == UINT64_MAX) {
        coord->word_until = mu_now() + WORD_NS;
        mu_coord_due(coord, coord->word_until);
    }
    return coord->word_until != 0;
}

static void errors_look(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    if (!root->errors) {
        coord->error.is = false;
        coord->word_until = UINT64_MAX;
    } else if (!coord->error.is && root->first_error && root->first_error <= coord->num_tasks &&
               !word_awaited(coord, (int32_t)root->first_error - 1) &&
               error_compose(coord, (int32_t)root->first_error - 1)) {
        error_broadcast(coord);
        if (!coord->polled)
            fail_untold(coord);
    }
}

static uint64_t errors_next(const struct mu_coord *coord)
{
    return coord->word_until ? coord->word_until : UINT64_MAX;
}

static void errors_due(struct mu_coord *coord, uint64_t now)
{
    if (!coord->word_until || now < coord->word_until)
        return;
    coord->word_until = 0; /* the record must do */
    mu_coord_look_at_tasks(coord);
}

const char *mu_coord_error(struct mu_coord *coord, int32_t *ret_origin)
{
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
    *ret_origin = coord->error.origin;
    return coord->error.is ? coord->error.text : NULL;
}

/* ---- polling ---- */

static void poll_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    coord->tasks[p->task].poll = NULL; /* not its line: should that hang up now, the task has gone with it */
}

void mu_poll_cancel(struct mu_coord *coord, int32_t task, const char *text)
{
    struct mu_coord_pending *p = coord->tasks[task].poll;

    coord->tasks[task].poll = NULL;
    coord->tasks[task].poll_line = NULL;
    if (p)
        mu_coord_pending_answer(coord, p, MUSTER_CANCELLED, MU_PAYLOAD_SERVICE, text);
}

/* False: it was answered. */
static bool may_poll(struct mu_coord *coord, struct mu_coord_request *request, int32_t task,
                     const struct mu_task_record *r, const char *why)
{
    char text[MU_COORD_TEXT], name[MU_NAME_MAX];
    const char *bare = MU_BARE_LABEL(coord->seg, task);

    mu_coord_name(coord, task, name, sizeof name);
    if (r->state == MUSTER_TASK_DISCONNECTED && !mu_client_has_grace(coord->seg, r, mu_now()))
        snprintf(text, sizeof text,
                 "%s: Task (%s) that has not been registered or has disconnected polling for errors.", name, bare);
    else if (r->state == MUSTER_TASK_ERROR)
        snprintf(text, sizeof text,
                 "%s: Task (%s) that is already in error state polling for errors. Current error: %s", name, bare, why);
    else
        return true;
    mu_coord_answer(request, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_SERVICE, text);
    return false;
}

static void wait_for_error(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, uint64_t incarnation)
{
    struct mu_coord_pending *p;

    mu_poll_cancel(coord, task, "Cancelled error polling because: there is a new request from the same task.");
    p = mu_coord_pending_new(coord, request, &coord->polls, 0);
    if (!p) {
        mu_coord_fail(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->dropped = poll_dropped;
    coord->tasks[task].poll = p;
    coord->tasks[task].poll_line = request->line;
    mu_line_speaks(coord, request->line, task, incarnation);
    if (coord->error.is)
        poller_tell(coord, p);
}

void mu_coord_poll_error(struct mu_coord *coord, struct mu_coord_request *request, int32_t task)
{
    struct mu_task_record r;
    char why[MU_TEXT_MAX], text[128];

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord); /* an error that nobody had polled for comes first */
    coord->polled = true;
    if (!mu_coord_has(coord, task)) {
        snprintf(text, sizeof text, "Unexpected task (%d) that is not in the cluster polling for errors.", task);
        mu_coord_answer(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE, text);
    } else if (!mu_coord_is_own(coord, task)) {
        mu_coord_fail(request, mu_coord_refuse_other(coord, task), MU_PAYLOAD_SERVICE);
    } else {
        mu_coord_record(coord, task, &r, why);
        if (may_poll(coord, request, task, &r, why))
            wait_for_error(coord, request, task, r.incarnation);
    }
    mu_coord_deliver(coord);
}

static void polls_stop(struct mu_coord *coord)
{
    while (coord->polls.first)
        mu_poll_cancel(coord, coord->polls.first->task,
                       "Cancelled error polling because: the service is shutting down.");
}

/* ---- reporting ---- */

static enum muster_status code_of(int32_t code)
{
    return code > MUSTER_OK && code <= LAST_CODE ? (enum muster_status)code : MUSTER_UNKNOWN;
}

/* What the record keeps of it. OK: the task may be reported. */
static enum muster_status prepare_report(struct mu_coord *coord, int32_t task, struct mu_task_record *r,
                                         char text[MU_TEXT_MAX])
{
    mu_coord_record(coord, task, r, NULL);
    mu_utf8_copy(text, MU_TEXT_MAX, coord->report, strlen(coord->report));
    return r->state == MUSTER_TASK_CONNECTED ? MUSTER_OK
                                             : mu_fail(MUSTER_FAILED_PRECONDITION, "%s", MU_COORD_CANNOT_REPORT);
}

static enum muster_status error_report(struct mu_coord *coord, int32_t task, int32_t code)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    char text[MU_TEXT_MAX];
    enum muster_status status = prepare_report(coord, task, &r, text);

    if (!status)
        status = mu_enter(coord->m, &ctx);
    if (status)
        return status;
    status =
        mu_task_fail(ctx, (uint32_t)task, r.incarnation, MU_EVENT_REPORT, code_of(code), MUSTER_CAUSE_REPORTED, text);
    mu_exit(ctx);
    return status;
}

/* Another host's task: by the leader. */
static void report_remote(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, int32_t code)
{
    struct mu_task_record r;
    char text[MU_TEXT_MAX];
    enum muster_status status = prepare_report(coord, task, &r, text);

    if (status)
        mu_coord_fail(request, status, MU_PAYLOAD_SERVICE);
    else
        mu_coord_remote_report(coord, request, task, code_of(code), text);
    mu_coord_deliver(coord);
}

void mu_coord_report_error(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, int32_t code,
                           const char *text, size_t len)
{
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    if (!mu_coord_has(coord, task)) {
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "Unexpected request from task %d, which is not in the cluster", task);
    } else {
        coord->report_of = task;
        mu_utf8_copy(coord->report, sizeof coord->report, text, len);
        if (coord->remote && !mu_coord_is_own(coord, task)) {
            report_remote(coord, request, task, code);
            return;
        }
        status = error_report(coord, task, code);
    }
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

/* ---- heartbeats ---- */

static enum muster_status client_beat(struct mu_coord *coord, struct mu_line *line, int32_t task, uint64_t incarnation)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    char why[MU_TEXT_MAX], name[MU_NAME_MAX];
    enum muster_status status;

    if (!mu_coord_has(coord, task))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "Unexpected heartbeat request from task: %d. It is not in the cluster, of %u tasks.", task,
                       coord->num_tasks);
    if (!mu_coord_is_own(coord, task))
        return mu_coord_refuse_other(coord, task);
    mu_coord_record(coord, task, &r, why);
    mu_coord_name(coord, task, name, sizeof name);
    if (r.state == MUSTER_TASK_ERROR)
        return mu_fail(MUSTER_ABORTED,
                       "Unexpected heartbeat request from an already-in-error task: %s with existing error: %s", name,
                       why);
    if (r.state == MUSTER_TASK_DISCONNECTED && mu_client_has_grace(coord->seg, &r, mu_now()))
        return MUSTER_OK;
    if (r.state == MUSTER_TASK_DISCONNECTED)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "Task with task=%s must be registered before sending heartbeat messages. The service might have "
                       "restarted; please register the task anew.",
                       MU_BARE_LABEL(coord->seg, task));
    status = mu_enter(coord->m, &ctx);
    if (status)
        return status;
    status = mu_task_beat(ctx, (uint32_t)task, incarnation);
    mu_exit(ctx);
    if (status == MUSTER_ABORTED)
        return mu_fail(status, "Heartbeat of %s comes from another incarnation of it: it has likely restarted.", name);
    if (!status && incarnation == r.incarnation)
        mu_line_speaks(coord, line, task, incarnation);
    return status;
}

void mu_coord_heartbeat(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, uint64_t incarnation)
{
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    status = client_beat(coord, request->line, task, incarnation);
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

const struct mu_coord_feature mu_errors_feature = {
    .look_tasks = errors_look, .next = errors_next, .due = errors_due, .stop = polls_stop};
