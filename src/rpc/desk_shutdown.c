/*
 * rpc/desk_shutdown.c: ShutdownTask and its barrier: nobody goes before all are done.
 *
 * The barrier is the desk's own. It waits for every task that is not recoverable: a guest until it calls, a task of the
 * C library until it leaves. Who has called is done, even if its connection goes then. It fails when one of them is in
 * error, or when its time, from the first caller on, is over: then all who are at it are told, whoever polls for errors
 * is told, and every guest is in error. A call of a task that is none of the job's, or has left, fails nobody's.
 *
 * Of several hosts host 0's desk decides, and is told who has called elsewhere (desk_hosts.c); each host's takes the
 * consequences for its own guests.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/desk_private.h"

static bool is_done(const struct mu_desk *desk, uint32_t task)
{
    struct mu_task_record r;

    mu_desk_record(desk, (int32_t)task, &r, NULL);
    if (desk->tasks[task].left && (mu_desk_is_own(desk, (int32_t)task) ||
                                   r.attempt <= desk->tasks[task].left_attempt)) /* it may have come again */
        return true;
    return mu_desk_is_recoverable(&r) || (r.state == MUSTER_TASK_DISCONNECTED && r.attempt) || mu_task_is_over(&r);
}

static void answer_all(struct mu_desk *desk, enum muster_status status, const char *text)
{
    while (desk->leaving.first) {
        desk->tasks[desk->leaving.first->task].leaving = NULL;
        mu_parked_answer(desk, desk->leaving.first, status, MU_PAYLOAD_SERVICE, text);
    }
}

bool mu_desk_is_leaving(const struct mu_desk *desk, int32_t task)
{
    return mu_desk_has(desk, task) && desk->tasks[task].left;
}

/* Who decides tells the others; their rounds go on when they hear. */
static void end_round(struct mu_desk *desk, enum muster_status code, const char *text)
{
    if (!mu_desk_follows(desk))
        mu_desk_tell_all(desk, MU_WORD_LEFT, desk->leave_round++, code, text);
}

static void pass(struct mu_desk *desk)
{
    struct mu_ctx *ctx;

    mu_guests_gone(desk); /* before anybody is told: nobody has come again */
    if (mu_enter(desk->m, &ctx))
        return; /* the next look tries again */
    desk->leave_until = UINT64_MAX;
    desk->leave_passes = false;
    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        if (desk->tasks[i].left && mu_desk_is_own(desk, (int32_t)i))
            mu_desk_disconnect(desk, ctx, (int32_t)i);
        desk->tasks[i].left = false;
    }
    answer_all(desk, MUSTER_OK, NULL);
    mu_exit(ctx);
    end_round(desk, MUSTER_OK, NULL);
}

static void fail(struct mu_desk *desk, enum muster_status code, const char *text)
{
    desk->leave_until = UINT64_MAX;
    desk->leaving_failed = true;
    snprintf(desk->leaving_text, sizeof desk->leaving_text, "Shutdown barrier has failed.\nBarrier result: '%s: %s'",
             muster_status_name(code), text);
    for (uint32_t i = 0; i < desk->num_tasks; i++)
        desk->tasks[i].left = false;
    answer_all(desk, MUSTER_INTERNAL, desk->leaving_text);
    end_round(desk, code, text);
    mu_errors_say(desk, MUSTER_INTERNAL, desk->leaving_text);
}

static void fail_by_error(struct mu_desk *desk, int32_t task)
{
    char text[MU_TEXT_MAX + 400], why[MU_TEXT_MAX], name[MU_NAME_MAX];
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, why);
    mu_desk_name(desk, task, name, sizeof name);
    snprintf(text, sizeof text,
             "Barrier failed because: task is set to ERROR: %s: %s. Barrier Id: Shutdown::%" PRIu64 "::0", name, why,
             mu_desk_incarnation(desk));
    fail(desk, MUSTER_INTERNAL, text);
}

void mu_leaving_look(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    if (desk->leaving_failed && !root->errors)
        desk->leaving_failed = false; /* all have been reset: the job is well again */
    if (desk->leave_passes)
        pass(desk);
    if (desk->leave_until == UINT64_MAX)
        return;
    if (root->errors && root->first_error && root->first_error <= desk->num_tasks) {
        fail_by_error(desk, (int32_t)root->first_error - 1);
        return;
    }
    if (desk->leave_version != root->version) {
        desk->leave_version = root->version;
        desk->not_done = 0;
        for (uint32_t i = 0; i < desk->num_tasks; i++)
            desk->not_done += !is_done(desk, i);
    }
    if (!desk->not_done)
        pass(desk);
}

uint64_t mu_leaving_next(const struct mu_desk *desk)
{
    if (desk->leave_until == UINT64_MAX)
        return UINT64_MAX;
    return desk->leave_until < desk->leave_say_at ? desk->leave_until : desk->leave_say_at;
}

void mu_leaving_due(struct mu_desk *desk, uint64_t now)
{
    char text[MU_DESK_TEXT - 200], id[48];

    if (desk->leave_until != UINT64_MAX && now < desk->leave_until && now >= desk->leave_say_at)
        desk->leave_say_at = mu_desk_say_missing(desk, is_done, "have not called for the shutdown yet", now);
    if (now < desk->leave_until)
        return;
    snprintf(id, sizeof id, "Shutdown::%" PRIu64, mu_desk_incarnation(desk));
    mu_desk_words_of_timeout(desk, id, is_done, desk->first_to_leave, text, sizeof text);
    fail(desk, MUSTER_DEADLINE_EXCEEDED, text);
}

void mu_leaving_stop(struct mu_desk *desk)
{
    char text[200];

    snprintf(text, sizeof text,
             "Shutdown barrier has failed.\nBarrier result: 'ABORTED: Barrier failed because service is shutting down. "
             "Barrier_id: Shutdown::%" PRIu64 "::0'",
             mu_desk_incarnation(desk));
    answer_all(desk, MUSTER_INTERNAL, text);
}

/* ---- the call ---- */

static void leaving_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    desk->tasks[p->task].leaving = NULL; /* but it has called */
}

/* The task has called, at this desk or, as it was registered then, at its own host's. */
static void count_call(struct mu_desk *desk, int32_t task, uint32_t attempt)
{
    struct mu_desk_task *t = &desk->tasks[task];
    bool was_done;

    if (desk->leave_until == UINT64_MAX) {
        desk->leave_until = mu_now() + desk->o.shutdown_timeout_ns;
        desk->leave_say_at = mu_now() + desk->o.say_ns;
        desk->leave_version = 0;
        desk->first_to_leave = task;
        mu_desk_due(desk, mu_leaving_next(desk));
    }
    was_done = is_done(desk, (uint32_t)task);
    t->left = true;
    t->left_attempt = attempt;
    if (!was_done && is_done(desk, (uint32_t)task)) /* else it has come again since it called */
        desk->not_done--;                           /* of no account while the count is not taken */
}

static void join_barrier(struct mu_desk *desk, struct mu_ask *ask, int32_t task)
{
    struct mu_desk_task *t = &desk->tasks[task];
    struct mu_parked *p;

    if (t->leaving)
        mu_parked_answer(desk, t->leaving, MUSTER_CANCELLED, MU_PAYLOAD_SERVICE,
                         "Cancelled because there's a more recent call to shut down from the same task.");
    t->leaving = NULL;
    p = mu_desk_park(desk, ask, &desk->leaving, 0);
    if (!p) {
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->dropped = leaving_dropped;
    t->leaving = p;
    if (!mu_desk_follows(desk))
        count_call(desk, task, 0);
    else if (!t->left)
        mu_desk_tell_of(desk, MU_WORD_LEAVES, desk->leave_round, task);
    t->left = true;
    mu_desk_look_at_tasks(desk);
}

void mu_leaving_told(struct mu_desk *desk, const struct mu_desk_news *news)
{
    if (news->round != desk->leave_round)
        return;
    if (news->word == MU_WORD_LEAVES) {
        count_call(desk, (int32_t)news->task, news->attempt);
        mu_desk_watch_bell(desk);
    } else if (news->code == MUSTER_OK) {
        desk->leave_passes = true;
    } else {
        fail(desk, news->code, news->text);
    }
    desk->leave_round = news->round + (news->word == MU_WORD_LEFT);
    mu_desk_look_at_tasks(desk);
}

/* At once: it is recoverable, or there is no barrier; or that has failed, or the task has left. */
static enum muster_status leave(struct mu_desk *desk, int32_t task, bool barrier)
{
    struct mu_ctx *ctx;
    char why[MU_TEXT_MAX];
    enum muster_status status = mu_enter(desk->m, &ctx);

    if (status)
        return status;
    status = mu_desk_disconnect(desk, ctx, task);
    mu_exit(ctx);
    if (!barrier)
        return status;
    if (desk->leaving_failed)
        return mu_fail(MUSTER_INTERNAL, "%s", desk->leaving_text);
    if (status != MUSTER_FAILED_PRECONDITION)
        return status;
    snprintf(why, sizeof why, "%s", muster_last_error());
    return mu_fail(MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'FAILED_PRECONDITION: %s'", why);
}

void mu_desk_shutdown(struct mu_desk *desk, struct mu_ask *ask, int32_t task)
{
    struct mu_task_record r = {0};
    enum muster_status status;
    bool barrier;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    if (mu_desk_has(desk, task))
        mu_desk_record(desk, task, &r, NULL);
    barrier = desk->o.shutdown_timeout_ns && !mu_desk_is_recoverable(&r);
    barrier &= !mu_desk_has(desk, task) || mu_desk_is_own(desk, task);
    if (mu_desk_has(desk, task) && barrier && !desk->leaving_failed && r.state != MUSTER_TASK_DISCONNECTED) {
        join_barrier(desk, ask, task);
        mu_desk_deliver(desk);
        return;
    }
    if (mu_desk_has(desk, task) && !mu_desk_is_own(desk, task))
        status = mu_desk_refuse_other(desk, task);
    else if (mu_desk_has(desk, task))
        status = leave(desk, task, barrier);
    else
        status = mu_fail(MUSTER_INVALID_ARGUMENT,
                         "Unexpected disconnect request with task=%d: it is not in the cluster", task);
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}
