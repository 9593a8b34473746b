/*
 * rpc/desk_guest.c: guests come and go: RegisterTask with its barrier, ResetTask, and what every way of leaving shares.
 *
 * The register barrier is the desk's own: a guest is connected when all tasks are there, and until then its record says
 * nothing of it, so that nobody misses its heartbeats. A task of the C library that is connected counts as registered.
 * Who hangs up while it waits has not come. When the barrier fails, those who wait are told, and the next who registers
 * begins it anew.
 *
 * Of several hosts host 0's desk decides (desk_hosts.c). What another one's guests wait for is the same; their records
 * are connected meanwhile, and heartbeats brought for them, until the barrier fails or they give up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/desk_private.h"
#include "task/guest.h"
#include "task/task.h"

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
        char name[MU_NAME_MAX];

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
    char names[2 * MU_NAME_MAX];
    uint32_t missing = name_missing(desk, there, "\n", names, sizeof names);

    snprintf(
        text, size,
        "Barrier timed out. Id: %s::0. This usually happens because a task triggered the barrier too early or too "
        "slowly, or died before it. # of tasks that reached the barrier: %u/%u.\nThe first task at the barrier: %s. "
        "Some timed out task names:%s",
        id, desk->num_tasks - missing, desk->num_tasks, MU_BARE_LABEL(desk->seg, first), names);
}

uint64_t mu_desk_say_missing(struct mu_desk *desk, mu_there_fn there, const char *what, uint64_t now)
{
    char names[2 * MU_NAME_MAX], text[2 * MU_NAME_MAX + 100];
    uint32_t missing = name_missing(desk, there, ", ", names, sizeof names);

    snprintf(text, sizeof text, "%u of %u tasks %s:%s%s", missing, desk->num_tasks, what, names + (missing > 0),
             missing > 2 ? " ..." : "");
    if (desk->o.said && missing)
        desk->o.said(desk->o.arg, text);
    return now + SAY_SLOWER * desk->o.say_ns;
}

/* ---- registering ---- */

/* Another host's guest that is connected has come if it waits still, or the barrier had passed before. */
static bool is_there(const struct mu_desk *desk, uint32_t task, const struct mu_task_record *r)
{
    const struct mu_desk_task *t = &desk->tasks[task];

    if (r->state != MUSTER_TASK_CONNECTED)
        return false;
    return mu_desk_is_own(desk, (int32_t)task) || !(r->flags & MU_TASK_GUEST) || desk->registered ||
           (t->comes && t->comes_attempt == r->attempt);
}

static bool is_registered(const struct mu_desk *desk, uint32_t task)
{
    struct mu_task_record r;

    if (desk->tasks[task].registering)
        return true;
    mu_desk_record(desk, (int32_t)task, &r, NULL);
    return is_there(desk, task, &r);
}

/* Those who are there and do not wait here. */
static uint32_t count_connected(const struct mu_desk *desk)
{
    struct mu_task_record records[MU_TASKS_PER_BLOCK];
    struct mu_cluster cluster;
    uint32_t count = 0;

    for (uint32_t i = 0, n; i < desk->num_tasks; i += n) {
        n = desk->num_tasks - i < MU_TASKS_PER_BLOCK ? desk->num_tasks - i : MU_TASKS_PER_BLOCK;
        if (mu_cluster_run(desk->seg, i, n, records, NULL, &cluster))
            return 0; /* as if nobody were */
        for (uint32_t k = 0; k < n; k++)
            count += !desk->tasks[i + k].registering && is_there(desk, i + k, &records[k]);
    }
    return count;
}

static bool somebody_waits(const struct mu_desk *desk)
{
    return desk->registering.count || desk->coming;
}

/* Another host's task does not wait there, or that is over. */
static void forget_coming(struct mu_desk *desk, int32_t task)
{
    desk->coming -= desk->tasks[task].comes;
    desk->tasks[task].comes = false;
}

/* The barrier is over, for all hosts. */
static void end_round(struct mu_desk *desk, enum muster_status code, const char *text)
{
    for (uint32_t i = 0; i < desk->num_tasks && desk->coming; i++)
        forget_coming(desk, (int32_t)i);
    desk->register_version = 0; /* who waited was not counted as connected, and may be, by a process of its own */
    if (!mu_desk_follows(desk)) /* whose rounds go on when they hear */
        mu_desk_tell_all(desk, MU_WORD_REGISTERED, desk->register_round++, code, text);
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
    end_round(desk, MUSTER_OK, NULL); /* when those here are connected */
}

/* A guest of another host than 0 that waited was connected, and is not to be. In error it stays: it has died. */
static void give_up_place(struct mu_desk *desk, const struct mu_parked *p)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;

    mu_desk_record(desk, p->task, &r, NULL);
    if (!mu_desk_follows(desk) || r.state != MUSTER_TASK_CONNECTED || r.incarnation != p->incarnation ||
        !(r.flags & MU_TASK_GUEST) || mu_enter(desk->m, &ctx))
        return;
    mu_desk_disconnect(desk, ctx, p->task);
    mu_exit(ctx);
}

static void fail(struct mu_desk *desk, enum muster_status code, const char *text)
{
    desk->register_until = UINT64_MAX;
    end_round(desk, code, text);
    while (desk->registering.first) {
        struct mu_parked *p = desk->registering.first;

        desk->tasks[p->task].registering = NULL;
        give_up_place(desk, p);
        p->ask->barrier_id = BARRIER;
        p->ask->counter = 0;
        mu_parked_answer(desk, p, code, MU_PAYLOAD_BARRIER, text);
    }
}

/* A task that is in error fails it. */
static bool fail_by_error(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    char text[MU_TEXT_MAX + 400], why[MU_TEXT_MAX], name[MU_NAME_MAX];
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

/* So does one that has ended, and will not come. */
static bool fail_by_end(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    char text[MU_NAME_MAX + 300], name[MU_NAME_MAX], end[MU_DOING_MAX];
    struct mu_task_record r;

    for (uint32_t i = 0; i < desk->num_tasks && root->ended; i++) {
        mu_desk_record(desk, (int32_t)i, &r, NULL);
        if (desk->tasks[i].registering || !mu_task_is_over(&r))
            continue;
        mu_desk_name(desk, (int32_t)i, name, sizeof name);
        snprintf(text, sizeof text, "Barrier failed because: %s %s. Barrier Id: " BARRIER "::0", name,
                 mu_cluster_end(&r, end));
        fail(desk, MUSTER_INTERNAL, text);
        return true;
    }
    return false;
}

void mu_registering_look(struct mu_desk *desk, const struct mu_cluster_root *root)
{
    if (mu_desk_follows(desk) && desk->registering.count && desk->registered)
        pass(desk); /* which was told before, and could not be done */
    if (mu_desk_follows(desk) || !somebody_waits(desk) || fail_by_error(desk, root) || fail_by_end(desk, root))
        return;
    if (desk->register_version != root->version) {
        desk->register_version = root->version;
        desk->connected = count_connected(desk);
    }
    if (desk->registering.count + desk->connected >= desk->num_tasks)
        pass(desk);
}

uint64_t mu_registering_next(const struct mu_desk *desk)
{
    if (mu_desk_follows(desk) || !somebody_waits(desk)) /* mu_registering_due() */
        return UINT64_MAX;
    return desk->register_until < desk->say_at ? desk->register_until : desk->say_at;
}

void mu_registering_due(struct mu_desk *desk, uint64_t now)
{
    char text[MU_DESK_TEXT];

    if (mu_desk_follows(desk) || !somebody_waits(desk))
        return;
    if (now >= desk->register_until) {
        mu_desk_say_missing(desk, is_registered, "have not registered in time", now);
        mu_desk_words_of_timeout(desk, BARRIER, is_registered, desk->first_to_register, text, sizeof text);
        fail(desk, MUSTER_DEADLINE_EXCEEDED, text);
    } else if (now >= desk->say_at) {
        desk->say_at = mu_desk_say_missing(desk, is_registered, "have not registered yet", now);
    }
}

void mu_registering_beat(struct mu_desk *desk)
{
    for (const struct mu_parked *p = desk->registering.first; p && mu_desk_follows(desk); p = p->next)
        mu_task_count_beat(desk->seg, (uint32_t)p->task);
}

static void registering_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    desk->tasks[p->task].registering = NULL;
    desk->register_version = 0; /* as in end_round() */
    if (!mu_desk_follows(desk) || desk->stopped)
        return;
    mu_desk_tell_of(desk, MU_WORD_GOES, desk->register_round, p->task);
    give_up_place(desk, p);
}

/* The task is the first who waits, or not the first. */
static void begin_waiting(struct mu_desk *desk, int32_t task)
{
    uint64_t now = mu_now();

    if (somebody_waits(desk))
        return;
    desk->register_until = now + desk->o.register_timeout_ns;
    desk->say_at = now + desk->o.say_ns;
    desk->first_to_register = task;
    if (!mu_desk_follows(desk))
        mu_desk_due(desk, desk->register_until < desk->say_at ? desk->register_until : desk->say_at);
}

/* Connected, it waits until host 0's desk says that all are: with an error when it may not be. */
static enum muster_status come_from_afar(struct mu_desk *desk, struct mu_ask *ask, const struct mu_parked *p)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(desk->m, &ctx);

    if (status)
        return status;
    status = admit(desk, ctx, ask->line, p->task, p->incarnation, p->recoverable);
    mu_exit(ctx);
    if (!status)
        mu_desk_tell_of(desk, MU_WORD_COMES, desk->register_round, p->task);
    return status;
}

/* A newer call of the same task. */
static void take_its_place(struct mu_desk *desk, struct mu_desk_task *t)
{
    if (!t->registering)
        return;
    give_up_place(desk, t->registering);
    mu_parked_answer(desk, t->registering, MUSTER_ALREADY_EXISTS, MU_PAYLOAD_SERVICE,
                     "Aborted connect attempt as there is a request from a newer incarnation.");
    t->registering = NULL;
}

/* Wait for the others. */
static void join_barrier(struct mu_desk *desk, struct mu_ask *ask, int32_t task, uint64_t incarnation, bool recoverable)
{
    struct mu_desk_task *t = &desk->tasks[task];
    struct mu_parked *p;

    take_its_place(desk, t);
    begin_waiting(desk, task);
    p = mu_desk_park(desk, ask, &desk->registering, 0);
    if (!p) {
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->incarnation = incarnation;
    p->recoverable = recoverable;
    p->dropped = registering_dropped;
    t->registering = p;
    if (mu_desk_follows(desk)) {
        enum muster_status status = come_from_afar(desk, ask, p);

        t->registering = status ? NULL : p;
        if (status)
            mu_parked_answer(desk, p, status, MU_PAYLOAD_SERVICE, muster_last_error());
    }
    mu_desk_look_at_tasks(desk);
}

void mu_registering_told(struct mu_desk *desk, const struct mu_desk_news *news)
{
    struct mu_desk_task *t = &desk->tasks[news->task];
    struct mu_cluster cluster;

    if (news->round != desk->register_round)
        return;
    if (news->word == MU_WORD_REGISTERED) {
        desk->registered |= news->code == MUSTER_OK;
        if (news->code == MUSTER_OK)
            pass(desk);
        else
            fail(desk, news->code, news->text);
        desk->register_round = news->round + 1;
        return;
    }
    if (desk->registered)
        return;
    if (news->word == MU_WORD_COMES)
        begin_waiting(desk, (int32_t)news->task);
    desk->connected -= is_registered(desk, news->task); /* of no account while the count is not taken */
    forget_coming(desk, (int32_t)news->task);
    t->comes = news->word == MU_WORD_COMES;
    t->comes_attempt = news->attempt;
    desk->coming += t->comes;
    desk->connected += is_registered(desk, news->task);
    if (desk->coming)
        mu_desk_watch_bell(desk);
    if (!mu_cluster_look(desk->seg, &cluster))
        mu_registering_look(desk, &cluster.root);
}

/* Whose desk is another one. */
enum muster_status mu_desk_refuse_other(const struct mu_desk *desk, int32_t task)
{
    char host[64];

    mu_host_name(desk->seg, mu_host_of(desk->seg, (uint32_t)task), host, sizeof host);
    return mu_fail(MUSTER_INVALID_ARGUMENT,
                   "%s is a task of host %s: its client is to connect to the service there, whose address its "
                   "process was given in MUSTER_GRPC_ADDRESS",
                   MU_LABEL(desk->seg, task), host);
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
    if (!mu_desk_is_own(desk, task)) {
        mu_desk_refuse_other(desk, task);
        mu_desk_fail(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return;
    }
    mu_desk_look_tasks(desk);
    mu_desk_record(desk, task, &r, NULL);
    if (desk->o.register_barrier && !desk->registered && (may_join(desk, &r) || desk->tasks[task].registering)) {
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

bool mu_desk_is_registering(const struct mu_desk *desk, int32_t task)
{
    return mu_desk_has(desk, task) && desk->tasks[task].registering;
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
    } else if (!mu_desk_is_own(desk, task)) {
        status = mu_desk_refuse_other(desk, task);
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
