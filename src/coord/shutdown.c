/*
 * coord/shutdown.c: ShutdownTask and its barrier: nobody goes before all are done.
 *
 * The barrier is the engine's own. It waits for every task that is not recoverable: a wire client until it calls, a
 * task of the C library until it leaves. A task that has called is done, even if its connection goes then. It fails
 * when one of them is in error, or when its time, from the first caller on, is over: then all callers are told, all
 * pollers for errors are told, and every wire client is in error. A call of a task that is none of the job's, or has
 * left, fails nobody's.
 *
 * In a job of several hosts host 0's engine decides, and is told which tasks have called elsewhere (coord/hosts.c).
 * Each host's engine takes the consequences for its own wire clients.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "coord/private.h"

enum { SAY_SOONER = 5 }; /* than say_ns, of a task that stands out */

static bool is_done(const struct mu_coord *coord, uint32_t task)
{
    struct mu_task_record r;

    mu_coord_record(coord, (int32_t)task, &r, NULL);
    if (coord->tasks[task].left && (mu_coord_is_own(coord, (int32_t)task) ||
                                    r.attempt <= coord->tasks[task].left_attempt)) /* it may have come again */
        return true;
    return mu_coord_is_recoverable(&r) || (r.state == MUSTER_TASK_DISCONNECTED && r.attempt) || mu_cluster_is_over(&r);
}

static void answer_all(struct mu_coord *coord, enum muster_status status, const char *text)
{
    while (coord->leaving.first) {
        coord->tasks[coord->leaving.first->task].leaving = NULL;
        mu_coord_pending_answer(coord, coord->leaving.first, status, MU_PAYLOAD_SERVICE, text);
    }
}

bool mu_coord_is_leaving(const struct mu_coord *coord, int32_t task)
{
    return mu_coord_has(coord, task) && coord->tasks[task].left;
}

/* The deciding engine tells the others; their rounds go on when they hear. */
static void shutdown_round_end(struct mu_coord *coord, enum muster_status code, const char *text, const char *brief)
{
    if (!mu_coord_follows(coord))
        mu_coord_tell_all(coord, MU_WORD_LEFT, coord->leave_round++, code, text, brief);
}

static void shutdown_pass(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    mu_coord_clients_gone(coord); /* before anybody is told: nobody has come again */
    if (mu_enter(coord->m, &ctx))
        return; /* the next look tries again */
    coord->leave_until = UINT64_MAX;
    coord->leave_passes = false;
    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        if (coord->tasks[i].left && mu_coord_is_own(coord, (int32_t)i))
            mu_coord_disconnect(coord, ctx, (int32_t)i);
        coord->tasks[i].left = false;
    }
    answer_all(coord, MUSTER_OK, NULL);
    mu_exit(ctx);
    shutdown_round_end(coord, MUSTER_OK, NULL, NULL);
}

/* The records of wire clients have no room for `text`: they say `brief`. `first` is put in error first (-1: nobody). */
static void shutdown_fail(struct mu_coord *coord, enum muster_status code, const char *text, const char *brief,
                          int32_t first)
{
    coord->leave_until = UINT64_MAX;
    coord->leaving_failed = true;
    snprintf(coord->leaving_text, sizeof coord->leaving_text, "Shutdown barrier has failed.\nBarrier result: '%s: %s'",
             muster_status_name(code), text);
    for (uint32_t i = 0; i < coord->num_tasks; i++)
        coord->tasks[i].left = false;
    answer_all(coord, MUSTER_INTERNAL, coord->leaving_text);
    mu_errors_say(coord, MUSTER_INTERNAL, coord->leaving_text, brief, first);
    shutdown_round_end(coord, code, text, brief);
}

static void shutdown_fail_by_error(struct mu_coord *coord, int32_t task)
{
    char text[MU_TEXT_MAX + 400], brief[MU_TEXT_MAX + 400], why[MU_TEXT_MAX], name[MU_NAME_MAX];
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, why);
    mu_coord_name(coord, task, name, sizeof name);
    snprintf(text, sizeof text,
             "Barrier failed because: task is set to ERROR: %s: %s. Barrier Id: Shutdown::%" PRIu64 "::0", name, why,
             mu_coord_incarnation(coord));
    snprintf(brief, sizeof brief, "the shutdown has failed: %s is in error: %s", name, why);
    shutdown_fail(coord, MUSTER_INTERNAL, text, brief, -1);
}

static void leaving_look(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    if (coord->leaving_failed && !root->errors)
        coord->leaving_failed = false; /* all have been reset: the job is well again */
    if (coord->leave_passes)
        shutdown_pass(coord);
    if (coord->leave_until == UINT64_MAX)
        return;
    if (root->errors && root->first_error && root->first_error <= coord->num_tasks) {
        shutdown_fail_by_error(coord, (int32_t)root->first_error - 1);
        return;
    }
    if (coord->leave_version != root->version) {
        coord->leave_version = root->version;
        coord->not_done = 0;
        for (uint32_t i = 0; i < coord->num_tasks; i++)
            coord->not_done += !is_done(coord, i);
    }
    if (!coord->not_done)
        shutdown_pass(coord);
}

static uint64_t leaving_next(const struct mu_coord *coord)
{
    if (coord->leave_until == UINT64_MAX)
        return UINT64_MAX;
    return coord->leave_until < coord->leave_say_at ? coord->leave_until : coord->leave_say_at;
}

/*
 * The task that stands out is one of the fewer. Where no more tasks wait in the shutdown than are missing it is the
 * first waiter: most often a program that has failed, and has nothing left to do but that. -1: most wait, and the
 * missing ones stand out.
 */
static int32_t outlier_find(const struct mu_coord *coord)
{
    uint32_t called = 0, missing = 0;

    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        called += coord->tasks[i].left;
        missing += !is_done(coord, i);
    }
    return called <= missing ? coord->first_to_leave : -1;
}

int32_t mu_coord_waits_alone(const struct mu_coord *coord)
{
    return coord->leave_until == UINT64_MAX ? -1 : outlier_find(coord);
}

static void say_progress(struct mu_coord *coord, uint64_t now)
{
    int32_t waits = outlier_find(coord);

    if (waits < 0 && now < coord->leave_since + coord->o.say_ns) /* so soon only one that stands out is worth a word */
        coord->leave_say_at = coord->leave_since + coord->o.say_ns;
    else
        coord->leave_say_at = mu_coord_say_missing(coord, is_done, "have not called for the shutdown yet", waits, now);
}

static void time_out(struct mu_coord *coord)
{
    char text[MU_COORD_TEXT - 200], brief[3 * MU_NAME_MAX + 100], names[2 * MU_NAME_MAX], id[48], name[MU_NAME_MAX];
    uint32_t missing = mu_coord_name_missing(coord, is_done, ", ", names, sizeof names);
    int32_t first = outlier_find(coord);

    snprintf(id, sizeof id, "Shutdown::%" PRIu64, mu_coord_incarnation(coord));
    mu_coord_words_of_timeout(coord, id, is_done, coord->first_to_leave, text, sizeof text);
    mu_coord_name(coord, coord->first_to_leave, name, sizeof name);
    snprintf(brief, sizeof brief, "the shutdown has timed out: %s waited in it, without%s%s", name, names + 1,
             missing > 2 ? " and others" : "");
    for (uint32_t i = 0; first < 0 && i < coord->num_tasks; i++)
        if (!is_done(coord, i))
            first = (int32_t)i;
    shutdown_fail(coord, MUSTER_DEADLINE_EXCEEDED, text, brief, first);
}

static void leaving_due(struct mu_coord *coord, uint64_t now)
{
    if (coord->leave_until != UINT64_MAX && now < coord->leave_until && now >= coord->leave_say_at)
        say_progress(coord, now);
    if (now >= coord->leave_until)
        time_out(coord);
}

static void leaving_stop(struct mu_coord *coord)
{
    char text[200];

    snprintf(text, sizeof text,
             "Shutdown barrier has failed.\nBarrier result: 'ABORTED: Barrier failed because service is shutting down. "
             "Barrier_id: Shutdown::%" PRIu64 "::0'",
             mu_coord_incarnation(coord));
    answer_all(coord, MUSTER_INTERNAL, text);
}

/* ---- the call ---- */

static void leaving_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    coord->tasks[p->task].leaving = NULL; /* but it has called */
}

/* The task has called, at this engine or, as it was registered then, at its own host's. */
static void count_call(struct mu_coord *coord, int32_t task, uint32_t attempt)
{
    struct mu_coord_task *t = &coord->tasks[task];
    bool was_done;

    if (coord->leave_until == UINT64_MAX) {
        coord->leave_since = mu_now();
        coord->leave_until = coord->leave_since + coord->o.shutdown_timeout_ns;
        coord->leave_say_at = coord->leave_since + coord->o.say_ns / SAY_SOONER;
        coord->leave_version = 0;
        coord->first_to_leave = task;
        mu_coord_due(coord, leaving_next(coord));
    }
    was_done = is_done(coord, (uint32_t)task);
    t->left = true;
    t->left_attempt = attempt;
    if (!was_done && is_done(coord, (uint32_t)task)) /* else it has come again since it called */
        coord->not_done--;                           /* of no account while the count is not taken */
}

static void shutdown_barrier_join(struct mu_coord *coord, struct mu_coord_request *request, int32_t task)
{
    struct mu_coord_task *t = &coord->tasks[task];
    struct mu_coord_pending *p;

    if (t->leaving)
        mu_coord_pending_answer(coord, t->leaving, MUSTER_CANCELLED, MU_PAYLOAD_SERVICE,
                                "Cancelled because there's a more recent call to shut down from the same task.");
    t->leaving = NULL;
    p = mu_coord_pending_new(coord, request, &coord->leaving, 0);
    if (!p) {
        mu_coord_fail(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->dropped = leaving_dropped;
    t->leaving = p;
    if (!mu_coord_follows(coord))
        count_call(coord, task, 0);
    else if (!t->left)
        mu_coord_tell_of(coord, MU_WORD_LEAVES, coord->leave_round, task);
    t->left = true;
    mu_coord_look_at_tasks(coord);
}

static void leaving_told(struct mu_coord *coord, const struct mu_coord_news *news)
{
    if (news->round != coord->leave_round)
        return;
    if (news->word == MU_WORD_LEAVES) {
        count_call(coord, (int32_t)news->task, news->attempt);
        mu_coord_watch_bell(coord);
    } else if (news->code == MUSTER_OK) {
        coord->leave_passes = true;
    } else {
        shutdown_fail(coord, news->code, news->text, news->brief ? news->brief : news->text, -1);
    }
    coord->leave_round = news->round + (news->word == MU_WORD_LEFT);
    mu_coord_look_at_tasks(coord);
}

/* At once: it is recoverable, or there is no barrier; or that has failed, or the task has left. */
static enum muster_status task_leave(struct mu_coord *coord, int32_t task, bool barrier)
{
    struct mu_ctx *ctx;
    char why[MU_TEXT_MAX];
    enum muster_status status = mu_enter(coord->m, &ctx);

    if (status)
        return status;
    status = mu_coord_disconnect(coord, ctx, task);
    mu_exit(ctx);
    if (!barrier)
        return status;
    if (coord->leaving_failed)
        return mu_fail(MUSTER_INTERNAL, "%s", coord->leaving_text);
    if (status != MUSTER_FAILED_PRECONDITION)
        return status;
    snprintf(why, sizeof why, "%s", muster_last_error());
    return mu_fail(MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'FAILED_PRECONDITION: %s'", why);
}

void mu_coord_shutdown(struct mu_coord *coord, struct mu_coord_request *request, int32_t task)
{
    struct mu_task_record r = {0};
    enum muster_status status;
    bool barrier;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    if (mu_coord_has(coord, task))
        mu_coord_record(coord, task, &r, NULL);
    barrier = coord->o.shutdown_timeout_ns && !mu_coord_is_recoverable(&r);
    barrier &= !mu_coord_has(coord, task) || mu_coord_is_own(coord, task);
    if (mu_coord_has(coord, task) && barrier && !coord->leaving_failed && r.state != MUSTER_TASK_DISCONNECTED) {
        shutdown_barrier_join(coord, request, task);
        mu_coord_deliver(coord);
        return;
    }
    if (mu_coord_has(coord, task) && !mu_coord_is_own(coord, task))
        status = mu_coord_refuse_other(coord, task);
    else if (mu_coord_has(coord, task))
        status = task_leave(coord, task, barrier);
    else
        status = mu_fail(MUSTER_INVALID_ARGUMENT,
                         "Unexpected disconnect request with task=%d: it is not in the cluster", task);
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

const struct mu_coord_feature mu_leaving_feature = {
    .look_tasks = leaving_look,
    .next = leaving_next,
    .due = leaving_due,
    .words = 1u << MU_WORD_LEAVES | 1u << MU_WORD_LEFT,
    .told = leaving_told,
    .stop = leaving_stop,
};
