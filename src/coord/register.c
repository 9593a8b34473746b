/*
 * coord/register.c: wire clients come and go: RegisterTask with its barrier, ResetTask, and what every way of leaving
 * shares.
 *
 * The register barrier is the engine's own: a wire client is connected when all tasks are there, and until then its
 * record says nothing of it, so that nobody misses its heartbeats. A task of the C library that is connected counts as
 * registered. A client that hangs up while it waits has not come. When the barrier fails, the waiters are told, and the
 * next client that registers begins it anew.
 *
 * Of several hosts host 0's engine decides (coord/hosts.c). What another one's wire clients wait for is the same; their
 * records are connected meanwhile, and heartbeats brought for them, until the barrier fails or they give up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "coord/private.h"
#include "task/client.h"
#include "task/task.h"

#define BARRIER "[Init]Wait_for_all_tasks_to_register"

/* ---- registering ---- */

/* Another host's wire client that is connected has come if it waits still, or the barrier had passed before. */
static bool client_has_come(const struct mu_coord *coord, uint32_t task, const struct mu_task_record *r)
{
    const struct mu_coord_task *t = &coord->tasks[task];

    if (r->state != MUSTER_TASK_CONNECTED)
        return false;
    return mu_coord_is_own(coord, (int32_t)task) || !(r->flags & MU_TASK_GUEST) || coord->registered ||
           (t->comes && t->comes_attempt == r->attempt);
}

static bool is_registered(const struct mu_coord *coord, uint32_t task)
{
    struct mu_task_record r;

    if (coord->tasks[task].registering)
        return true;
    mu_coord_record(coord, (int32_t)task, &r, NULL);
    return client_has_come(coord, task, &r);
}

/* The tasks that are there and do not wait here. */
static uint32_t count_connected(const struct mu_coord *coord)
{
    struct mu_task_record records[MU_TASKS_PER_BLOCK];
    struct mu_cluster cluster;
    uint32_t count = 0;

    for (uint32_t i = 0, n; i < coord->num_tasks; i += n) {
        n = coord->num_tasks - i < MU_TASKS_PER_BLOCK ? coord->num_tasks - i : MU_TASKS_PER_BLOCK;
        if (mu_cluster_run(coord->seg, i, n, records, NULL, &cluster))
            return 0; /* as if nobody were */
        for (uint32_t k = 0; k < n; k++)
            count += !coord->tasks[i + k].registering && client_has_come(coord, i + k, &records[k]);
    }
    return count;
}

static bool somebody_waits(const struct mu_coord *coord)
{
    return coord->registering.count || coord->coming;
}

/* Another host's task does not wait there, or that is over. */
static void forget_coming(struct mu_coord *coord, int32_t task)
{
    coord->coming -= coord->tasks[task].comes;
    coord->tasks[task].comes = false;
}

/* The barrier is over, for all hosts. */
static void register_round_end(struct mu_coord *coord, enum muster_status code, const char *text)
{
    for (uint32_t i = 0; i < coord->num_tasks && coord->coming; i++)
        forget_coming(coord, (int32_t)i);
    coord->register_version = 0;  /* a waiter was not counted as connected, and may be, by a process of its own */
    if (!mu_coord_follows(coord)) /* a follower's rounds go on when it hears */
        mu_coord_tell_all(coord, MU_WORD_REGISTERED, coord->register_round++, code, text, NULL);
}

static enum muster_status client_admit(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_line *line, int32_t task,
                                       uint64_t incarnation, bool recoverable)
{
    struct mu_client g = {.task = (uint32_t)task, .incarnation = incarnation, .reconnects = coord->o.reconnects};
    enum muster_status status;

    g.flags = coord->o.recoverable || recoverable ? MUSTER_JOIN_RECOVERABLE : 0;
    g.pid = coord->o.pid_of ? coord->o.pid_of(coord->o.arg, (uint32_t)task) : 0;
    if (!g.pid && line)
        g.pid = line->pid;
    status = mu_client_register(ctx, &g);
    if (!status) {
        coord->tasks[task].left = false;
        mu_line_speaks(coord, line, task, incarnation);
    }
    return status;
}

/* All waiters are connected. */
static void register_pass(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    if (mu_enter(coord->m, &ctx))
        return; /* the next look tries again */
    coord->registered = true;
    while (coord->registering.first) {
        struct mu_coord_pending *p = coord->registering.first;
        enum muster_status status = client_admit(coord, ctx, p->line, p->task, p->incarnation, p->recoverable);

        coord->tasks[p->task].registering = NULL;
        mu_coord_pending_answer(coord, p, status, MU_PAYLOAD_SERVICE, status ? muster_last_error() : NULL);
    }
    mu_exit(ctx);
    register_round_end(coord, MUSTER_OK, NULL); /* when those here are connected */
}

/* A wire client of another host than 0 that waited was connected, and is not to be. In error it stays: it has died. */
static void give_up_place(struct mu_coord *coord, const struct mu_coord_pending *p)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;

    mu_coord_record(coord, p->task, &r, NULL);
    if (!mu_coord_follows(coord) || r.state != MUSTER_TASK_CONNECTED || r.incarnation != p->incarnation ||
        !(r.flags & MU_TASK_GUEST) || mu_enter(coord->m, &ctx))
        return;
    mu_coord_disconnect(coord, ctx, p->task);
    mu_exit(ctx);
}

static void register_fail(struct mu_coord *coord, enum muster_status code, const char *text)
{
    coord->register_until = UINT64_MAX;
    register_round_end(coord, code, text);
    while (coord->registering.first) {
        struct mu_coord_pending *p = coord->registering.first;

        coord->tasks[p->task].registering = NULL;
        give_up_place(coord, p);
        p->request->barrier_id = BARRIER;
        p->request->counter = 0;
        mu_coord_pending_answer(coord, p, code, MU_PAYLOAD_BARRIER, text);
    }
}

/* A task that is in error fails it. */
static bool register_fail_by_error(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    char text[MU_TEXT_MAX + 400], why[MU_TEXT_MAX], name[MU_NAME_MAX];
    struct mu_task_record r;

    if (!root->errors || !root->first_error || root->first_error > coord->num_tasks)
        return false;
    mu_coord_record(coord, (int32_t)root->first_error - 1, &r, why);
    mu_coord_name(coord, (int32_t)root->first_error - 1, name, sizeof name);
    snprintf(text, sizeof text, "Barrier failed because: task is set to ERROR: %s: %s. Barrier Id: " BARRIER "::0",
             name, why);
    register_fail(coord, MUSTER_INTERNAL, text);
    return true;
}

/* So does one that has ended, and will not come. */
static bool fail_by_end(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    char text[MU_NAME_MAX + 300], name[MU_NAME_MAX], end[MU_DOING_MAX];
    struct mu_task_record r;

    for (uint32_t i = 0; i < coord->num_tasks && root->ended; i++) {
        mu_coord_record(coord, (int32_t)i, &r, NULL);
        if (coord->tasks[i].registering || !mu_cluster_is_over(&r))
            continue;
        mu_coord_name(coord, (int32_t)i, name, sizeof name);
        snprintf(text, sizeof text, "Barrier failed because: %s %s. Barrier Id: " BARRIER "::0", name,
                 mu_cluster_end(&r, end));
        register_fail(coord, MUSTER_INTERNAL, text);
        return true;
    }
    return false;
}

static void registering_look(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    if (mu_coord_follows(coord) && coord->registering.count && coord->registered)
        register_pass(coord); /* which was told before, and could not be done */
    if (mu_coord_follows(coord) || !somebody_waits(coord) || register_fail_by_error(coord, root) ||
        fail_by_end(coord, root))
        return;
    if (coord->register_version != root->version) {
        coord->register_version = root->version;
        coord->connected = count_connected(coord);
    }
    if (coord->registering.count + coord->connected >= coord->num_tasks)
        register_pass(coord);
}

static uint64_t registering_next(const struct mu_coord *coord)
{
    if (mu_coord_follows(coord) || !somebody_waits(coord)) /* registering_due() */
        return UINT64_MAX;
    return coord->register_until < coord->say_at ? coord->register_until : coord->say_at;
}

static void registering_due(struct mu_coord *coord, uint64_t now)
{
    char text[MU_COORD_TEXT];

    if (mu_coord_follows(coord) || !somebody_waits(coord))
        return;
    if (now >= coord->register_until) {
        mu_coord_say_missing(coord, is_registered, "have not registered in time", -1, now);
        mu_coord_words_of_timeout(coord, BARRIER, is_registered, coord->first_to_register, text, sizeof text);
        register_fail(coord, MUSTER_DEADLINE_EXCEEDED, text);
    } else if (now >= coord->say_at) {
        coord->say_at = mu_coord_say_missing(coord, is_registered, "have not registered yet", -1, now);
    }
}

/* Clients that wait connected say nothing for themselves. */
static void registering_beat(struct mu_coord *coord)
{
    for (const struct mu_coord_pending *p = coord->registering.first; p && mu_coord_follows(coord); p = p->next)
        mu_task_count_beat(coord->seg, (uint32_t)p->task);
}

static void registering_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    coord->tasks[p->task].registering = NULL;
    coord->register_version = 0; /* as in register_round_end() */
    if (!mu_coord_follows(coord) || coord->stopped)
        return;
    mu_coord_tell_of(coord, MU_WORD_GOES, coord->register_round, p->task);
    give_up_place(coord, p);
}

/* The task is the first that waits, or not the first. */
static void begin_waiting(struct mu_coord *coord, int32_t task)
{
    uint64_t now = mu_now();

    if (somebody_waits(coord))
        return;
    coord->register_until = now + coord->o.register_timeout_ns;
    coord->say_at = now + coord->o.say_ns;
    coord->first_to_register = task;
    if (!mu_coord_follows(coord))
        mu_coord_due(coord, coord->register_until < coord->say_at ? coord->register_until : coord->say_at);
}

/* Connected, it waits until host 0's engine says that all are: with an error when it may not be. */
static enum muster_status remote_arrive(struct mu_coord *coord, struct mu_coord_request *request,
                                        const struct mu_coord_pending *p)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(coord->m, &ctx);

    if (status)
        return status;
    status = client_admit(coord, ctx, request->line, p->task, p->incarnation, p->recoverable);
    mu_exit(ctx);
    if (!status)
        mu_coord_tell_of(coord, MU_WORD_COMES, coord->register_round, p->task);
    return status;
}

/* A newer call of the same task. */
static void take_its_place(struct mu_coord *coord, struct mu_coord_task *t)
{
    if (!t->registering)
        return;
    give_up_place(coord, t->registering);
    mu_coord_pending_answer(coord, t->registering, MUSTER_ALREADY_EXISTS, MU_PAYLOAD_SERVICE,
                            "Aborted connect attempt as there is a request from a newer incarnation.");
    t->registering = NULL;
}

/* Wait for the others. */
static void register_barrier_join(struct mu_coord *coord, struct mu_coord_request *request, int32_t task,
                                  uint64_t incarnation, bool recoverable)
{
    struct mu_coord_task *t = &coord->tasks[task];
    struct mu_coord_pending *p;

    take_its_place(coord, t);
    begin_waiting(coord, task);
    p = mu_coord_pending_new(coord, request, &coord->registering, 0);
    if (!p) {
        mu_coord_fail(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->task = task;
    p->incarnation = incarnation;
    p->recoverable = recoverable;
    p->dropped = registering_dropped;
    t->registering = p;
    if (mu_coord_follows(coord)) {
        enum muster_status status = remote_arrive(coord, request, p);

        t->registering = status ? NULL : p;
        if (status)
            mu_coord_pending_answer(coord, p, status, MU_PAYLOAD_SERVICE, muster_last_error());
    }
    mu_coord_look_at_tasks(coord);
}

/* At host 0: the task waits at its own host's engine, or does not any more. Elsewhere: it has passed, or failed. */
static void registering_told(struct mu_coord *coord, const struct mu_coord_news *news)
{
    struct mu_coord_task *t = &coord->tasks[news->task];
    struct mu_cluster cluster;

    if (news->round != coord->register_round)
        return;
    if (news->word == MU_WORD_REGISTERED) {
        coord->registered |= news->code == MUSTER_OK;
        if (news->code == MUSTER_OK)
            register_pass(coord);
        else
            register_fail(coord, news->code, news->text);
        coord->register_round = news->round + 1;
        return;
    }
    if (coord->registered)
        return;
    if (news->word == MU_WORD_COMES)
        begin_waiting(coord, (int32_t)news->task);
    coord->connected -= is_registered(coord, news->task); /* of no account while the count is not taken */
    forget_coming(coord, (int32_t)news->task);
    t->comes = news->word == MU_WORD_COMES;
    t->comes_attempt = news->attempt;
    coord->coming += t->comes;
    coord->connected += is_registered(coord, news->task);
    if (coord->coming)
        mu_coord_watch_bell(coord);
    if (!mu_cluster_look(coord->seg, &cluster))
        registering_look(coord, &cluster.root);
}

static bool may_join(const struct mu_coord *coord, const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_DISCONNECTED || (r->state == MUSTER_TASK_ERROR && r->code == MUSTER_UNAVAILABLE &&
                                                    (coord->o.reconnects || mu_coord_is_recoverable(r)));
}

void mu_coord_register(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, uint64_t incarnation,
                       bool recoverable)
{
    struct mu_task_record r;
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    if (!mu_coord_has(coord, task)) {
        mu_fail(MUSTER_INVALID_ARGUMENT,
                "Unexpected task registered with task=%d: it is not in the cluster, of %u tasks", task,
                coord->num_tasks);
        mu_coord_fail(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return;
    }
    if (!mu_coord_is_own(coord, task)) {
        mu_coord_refuse_other(coord, task);
        mu_coord_fail(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return;
    }
    mu_coord_look_tasks(coord);
    mu_coord_record(coord, task, &r, NULL);
    if (coord->o.register_barrier && !coord->registered && (may_join(coord, &r) || coord->tasks[task].registering)) {
        register_barrier_join(coord, request, task, incarnation, recoverable);
        mu_coord_deliver(coord);
        return;
    }
    status = mu_enter(coord->m, &ctx);
    if (!status) {
        status = client_admit(coord, ctx, request->line, task, incarnation, recoverable);
        mu_exit(ctx);
    }
    if (status == MUSTER_ABORTED)
        mu_coord_fail_of(request, status, task);
    else
        mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

bool mu_coord_is_registering(const struct mu_coord *coord, int32_t task)
{
    return mu_coord_has(coord, task) && coord->tasks[task].registering;
}

bool mu_coord_is_over(const struct mu_coord *coord)
{
    bool over = !coord->registering.count;

    for (uint32_t i = 0; i < coord->num_tasks && over; i++) {
        struct mu_task_record r;

        mu_coord_record(coord, (int32_t)i, &r, NULL);
        over = r.attempt && r.state != MUSTER_TASK_CONNECTED && (r.state != MUSTER_TASK_ERROR || !may_join(coord, &r));
    }
    return over;
}

static void registering_stop(struct mu_coord *coord)
{
    register_fail(coord, MUSTER_ABORTED, "Barrier failed because service is shutting down. Barrier_id: " BARRIER "::0");
}

const struct mu_coord_feature mu_registering_feature = {
    .look_tasks = registering_look,
    .next = registering_next,
    .due = registering_due,
    .beat = registering_beat,
    .words = 1u << MU_WORD_COMES | 1u << MU_WORD_GOES | 1u << MU_WORD_REGISTERED,
    .told = registering_told,
    .stop = registering_stop,
};

/* ---- leaving ---- */

enum muster_status mu_coord_disconnect(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task)
{
    struct mu_coord_task *t = &coord->tasks[task];
    enum muster_status status = mu_client_disconnect(ctx, (uint32_t)task);

    if (status)
        return status;
    t->left = false;
    t->line = NULL;
    t->lost_at = 0;
    mu_poll_cancel(coord, task, "Cancelled error polling because: task has disconnected.");
    return MUSTER_OK;
}

void mu_coord_reset(struct mu_coord *coord, struct mu_coord_request *request, int32_t task)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    if (!mu_coord_has(coord, task)) {
        status = mu_fail(MUSTER_INVALID_ARGUMENT,
                         "Unexpected disconnect request with task=%d: it is not in the cluster", task);
    } else if (!mu_coord_is_own(coord, task)) {
        status = mu_coord_refuse_other(coord, task);
    } else {
        status = mu_enter(coord->m, &ctx);
        if (!status) {
            status = mu_coord_disconnect(coord, ctx, task);
            mu_exit(ctx);
        }
    }
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}
