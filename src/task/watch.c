/*
 * task/watch.c: looking at tasks, waiting for their changes and errors, interrupting waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/hosts.h"
#include "segment/wait.h"
#include "task/task.h"

/* Where the threads of `count` tasks from infos[0]'s on wait: of each the longest wait. One pass over the slots. */
static void fill_waiting(const struct muster_segment *seg, struct muster_task_info *infos, size_t count)
{
    uint32_t high = count ? mu_slot_high(seg) : 0;

    for (uint32_t s = 0; s < high; s++) {
        const struct mu_slot *slot = &seg->slots[s];
        uint64_t w = mu_load_acquire(&slot->word); /* acquire: pairs with the claim */
        uint64_t task = mu_load_relaxed(&slot->task) - 1 - (uint64_t)infos[0].task_id; /* relaxed: advisory */
        struct muster_task_info *i = &infos[task < count ? task : 0];
        uint64_t since, text[12];

        if (MU_SLOT_STATE(w) != MU_SLOT_LIVE || task >= count || !i->alive)
            continue;
        since = mu_load_acquire(&slot->wait_since); /* acquire: pairs with wait_tell() in segment/wait.c */
        if (!since || (i->waiting_since_ns && since >= i->waiting_since_ns))
            continue;
        mu_copy_out(text, slot->wait_text, 12);
        memcpy(i->waiting, text, sizeof i->waiting);
        i->waiting[sizeof i->waiting - 1] = 0;
        i->waiting_since_ns = since;
    }
}

static void info_fill(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *r, const char *text,
                      struct muster_task_info *i)
{
    memset(i, 0, sizeof *i);
    i->task_id = (int32_t)task;
    i->state = (enum muster_task_state)r->state;
    i->cause = (enum muster_cause)r->cause;
    i->error = (enum muster_status)r->code;
    i->recoverable = r->flags & MU_TASK_RECOVERABLE ? 1 : 0;
    i->guest = r->flags & MU_TASK_GUEST ? 1 : 0;
    i->ended = mu_cluster_is_over(r);
    i->wait_status = !i->ended ? 0 : r->flags & MU_TASK_HOW_UNKNOWN ? -1 : (int)MU_TASK_HOW(r->flags);
    i->alive = mu_cluster_alive(seg, task, r);
    i->pid = r->pid;
    i->attempt = r->attempt;
    i->incarnation = r->incarnation;
    i->since_ns = r->since;
    i->heartbeats = mu_task_beats(seg, task, r);
    if (r->attempt || i->ended)
        mu_host_name(seg, mu_host_of(seg, task), i->host, sizeof i->host);
    snprintf(i->message, sizeof i->message, "%s", text);
}

static enum muster_status bad_task(const struct muster_segment *seg, int32_t task)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d; job %s has tasks 0 to %u", task, seg->job, seg->num_tasks - 1);
}

static bool is_task(const struct muster_segment *seg, int32_t task)
{
    return task >= 0 && (uint32_t)task < seg->num_tasks;
}

enum muster_status muster_task_get(struct muster *muster, int32_t task_id, struct muster_task_info *ret_info)
{
    enum muster_status status = mu_enter_read(muster);
    struct mu_cluster c;
    struct mu_task_record r;
    char text[MU_TEXT_MAX];

    if (status)
        return status;
    if (!is_task(muster->seg, task_id))
        status = bad_task(muster->seg, task_id);
    if (!status)
        status = mu_cluster_task(muster->seg, (uint32_t)task_id, &r, text, &c);
    if (!status)
        info_fill(muster->seg, (uint32_t)task_id, &r, text, ret_info);
    if (!status)
        fill_waiting(muster->seg, ret_info, 1);
    mu_exit_read();
    return status;
}

static enum muster_status look_at_run(const struct muster_segment *seg, uint32_t first, uint32_t count,
                                      struct muster_task_info *ret_infos, uint64_t *ret_starts)
{
    struct mu_task_record *records = calloc(count ? count : 1, sizeof *records);
    char(*texts)[MU_TEXT_MAX] = calloc(count ? count : 1, sizeof *texts);
    struct mu_cluster c;
    enum muster_status status;

    if (!records || !texts)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to look at %u tasks", count);
    else
        status = mu_cluster_run(seg, first, count, records, texts, &c);
    for (uint32_t i = 0; !status && i < count; i++) {
        info_fill(seg, first + i, &records[i], texts[i], &ret_infos[i]);
        ret_starts[i] = records[i].start;
    }
    if (!status)
        fill_waiting(seg, ret_infos, count);
    free(records);
    free(texts);
    return status;
}

enum muster_status mu_task_run(struct muster *muster, uint32_t first, uint32_t count,
                               struct muster_task_info *ret_infos, uint64_t *ret_starts)
{
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    status = look_at_run(muster->seg, first, count, ret_infos, ret_starts);
    mu_exit_read();
    return status;
}

static enum muster_status infos_list(const struct muster_segment *seg, struct muster_task_info *ret_infos,
                                     size_t capacity, size_t *ret_count, uint64_t *ret_version)
{
    uint32_t n = seg->num_tasks;
    struct mu_task_record *records = calloc(n, sizeof *records);
    char(*texts)[MU_TEXT_MAX] = calloc(n, sizeof *texts);
    struct mu_cluster c;
    enum muster_status status;

    if (!records || !texts)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list %u tasks", n);
    else
        status = mu_cluster_all(seg, records, texts, &c);
    for (uint32_t i = 0; !status && i < n && i < capacity; i++)
        info_fill(seg, i, &records[i], texts[i], &ret_infos[i]);
    if (!status)
        fill_waiting(seg, ret_infos, n < capacity ? n : capacity);
    if (!status && ret_count)
        *ret_count = n;
    if (!status && ret_version)
        *ret_version = c.root.version;
    free(records);
    free(texts);
    return status;
}

enum muster_status muster_task_list(struct muster *muster, struct muster_task_info *ret_infos, size_t capacity,
                                    size_t *ret_count, uint64_t *ret_version)
{
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    status = infos_list(muster->seg, ret_infos, capacity, ret_count, ret_version);
    mu_exit_read();
    return status;
}

enum muster_status muster_task_watch(struct muster *muster, uint64_t version, muster_deadline deadline,
                                     struct muster_task_info *ret_infos, size_t capacity, size_t *ret_count,
                                     uint64_t *ret_version)
{
    struct mu_ctx *ctx;
    struct mu_wait w;
    struct mu_cluster c;
    enum muster_status status = mu_enter_wait(muster, &ctx);

    if (status)
        return status;
    mu_wait_begin(&w, muster->seg, ctx, deadline, "a change of any task's state");
    w.interrupt = &muster->interrupt;
    for (;;) {
        mu_wait_look(&w);
        status = mu_cluster_look(muster->seg, &c);
        if (!status && version > c.root.version)
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "version %llu is from the future: the job is at %llu",
                             (unsigned long long)version, (unsigned long long)c.root.version);
        if (status || !version || c.root.version > version)
            break;
        status = mu_wait_on(&w, &muster->seg->header->cluster, c.word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    if (!status)
        status = infos_list(muster->seg, ret_infos, capacity, ret_count, ret_version);
    mu_exit(ctx);
    return status;
}

/* UNKNOWN: it has been reset since the root was read. */
static enum muster_status fill_error(const struct muster_segment *seg, uint64_t first, struct muster_error *e)
{
    struct mu_task_record r;
    struct mu_cluster c;
    char text[MU_TEXT_MAX];
    enum muster_status status = mu_cluster_task(seg, (uint32_t)first - 1, &r, text, &c);

    if (!status && r.state != MUSTER_TASK_ERROR)
        status = MUSTER_UNKNOWN;
    if (status)
        return status;
    memset(e, 0, sizeof *e);
    e->task_id = (int32_t)first - 1;
    e->code = (enum muster_status)r.code;
    e->cause = (enum muster_cause)r.cause;
    e->pid = r.pid;
    e->incarnation = r.incarnation;
    e->since_ns = r.since;
    mu_host_name(seg, mu_host_of(seg, (uint32_t)first - 1), e->host, sizeof e->host);
    snprintf(e->message, sizeof e->message, "%s", text);
    return MUSTER_OK;
}

enum muster_status muster_error_wait(struct muster *muster, muster_deadline deadline, struct muster_error *ret_error)
{
    struct mu_ctx *ctx;
    struct mu_wait w;
    struct mu_cluster c;
    enum muster_status status = mu_enter_wait(muster, &ctx);

    if (status)
        return status;
    mu_wait_begin(&w, muster->seg, ctx, deadline, "an error of any task");
    w.interrupt = &muster->interrupt;
    for (;;) {
        mu_wait_look(&w);
        status = mu_cluster_look(muster->seg, &c);
        if (!status && c.root.first_error) { /* a corrupt number is told by the call that takes it */
            status = fill_error(muster->seg, c.root.first_error, ret_error);
            if (status != MUSTER_UNKNOWN)
                break;
            status = MUSTER_OK;
            if (!mu_word_same(mu_recheck(&muster->seg->header->cluster), c.word))
                continue; /* reset, and perhaps another is the first by now; else the root is damaged: until the
                             deadline */
        }
        if (!status)
            status = mu_wait_on(&w, &muster->seg->header->cluster, c.word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_error_report(struct muster *muster, int32_t task_id, enum muster_status code,
                                       const char *message)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (!is_task(muster->seg, task_id))
        status = bad_task(muster->seg, task_id);
    else if (code <= MUSTER_OK || code > MUSTER_DATA_LOSS)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "%d is not the code of an error", (int)code);
    message = message ? message : "";
    if (!status && mu_is_follower(muster->seg) && !mu_is_local_task(muster->seg, (uint32_t)task_id))
        status = mu_task_remote_report(muster, ctx, (uint32_t)task_id, code, message);
    else if (!status)
        status = mu_task_fail(ctx, (uint32_t)task_id, 0, MU_EVENT_REPORT, code, MUSTER_CAUSE_REPORTED, message);
    mu_exit(ctx);
    return status;
}

struct reset {
    const struct muster_segment *seg;
    int32_t caller;
};

static bool reset_record(struct mu_task_change *c)
{
    const struct reset *r = c->arg;
    int next = mu_task_next(c->record.state, MU_EVENT_RESET, 0);

    if (next < 0)
        c->status = mu_fail(MUSTER_FAILED_PRECONDITION, "task %u is disconnected already", c->task);
    else if (mu_cluster_alive(r->seg, c->task, &c->record) && (int32_t)c->task != r->caller)
        c->status = c->record.flags & MU_TASK_GUEST
                        ? mu_fail(MUSTER_FAILED_PRECONDITION, "task %u is alive, over the wire: end it first", c->task)
                        : mu_fail(MUSTER_FAILED_PRECONDITION, "task %u is alive (pid %u): end it first", c->task,
                                  c->record.pid);
    if (c->status)
        return false;
    c->record.state = (uint32_t)next;
    c->record.code = MUSTER_OK;
    c->record.cause = MUSTER_CAUSE_NONE;
    c->record.since = mu_now();
    c->text[0] = 0;
    return true;
}

enum muster_status mu_task_reset(struct mu_ctx *ctx, uint32_t task, int32_t caller)
{
    struct reset r = {ctx->seg, caller};

    return mu_cluster_edit(ctx, task, reset_record, &r);
}

enum muster_status muster_task_reset(struct muster *muster, int32_t task_id)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (!is_task(muster->seg, task_id))
        status = bad_task(muster->seg, task_id);
    else if (!mu_is_local_task(muster->seg, (uint32_t)task_id))
        status = mu_task_remote_reset(muster, ctx, (uint32_t)task_id);
    else
        status = mu_task_reset(ctx, (uint32_t)task_id, muster->task_id);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_heartbeat(struct muster *muster)
{
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    if (muster->task_id < 0 || !muster->pulse)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "an observer has no heartbeat");
    else /* relaxed: a counter; its change is all that matters */
        mu_store_relaxed(&muster->pulse->heartbeat, mu_load_relaxed(&muster->pulse->heartbeat) + 1);
    mu_exit_read();
    return status;
}

struct last_beat {
    const struct muster_segment *seg;
    uint64_t incarnation;
    bool conflict, counts;
};

static bool beat_record(struct mu_task_change *c)
{
    struct last_beat *b = c->arg;
    struct mu_task_record *r = &c->record;

    b->conflict = b->counts = false;
    if (r->state == MUSTER_TASK_ERROR) {
        c->status = mu_fail(MUSTER_ABORTED, "unexpected heartbeat from %s, which is already in error: %s",
                            MU_LABEL(b->seg, c->task), c->text);
        return false;
    }
    if (r->state != MUSTER_TASK_CONNECTED) {
        c->status = mu_fail(MUSTER_INVALID_ARGUMENT, "%s must be registered before it sends heartbeats",
                            MU_LABEL(b->seg, c->task));
        return false;
    }
    if (r->incarnation == b->incarnation) {
        b->counts = true;
        return false; /* the record stays as it is, and everybody asleep */
    }
    if (r->flags & MU_TASK_RECOVERABLE)
        return false; /* accepted, not counted */
    b->conflict = true;
    r->state = (uint32_t)mu_task_next(r->state, MU_EVENT_CONFLICT, 0);
    r->code = MUSTER_ABORTED;
    r->cause = MUSTER_CAUSE_RESTARTED;
    r->since = mu_now();
    snprintf(c->text, sizeof c->text, "a heartbeat came from another incarnation of it: it has likely restarted");
    return true;
}

/* An incarnation that came just now only gains by it: a beat too many. */
void mu_task_count_beat(struct muster_segment *seg, uint32_t task)
{
    mu_a64 *beats = &seg->beats[task];
    uint64_t n = mu_load_relaxed(beats); /* relaxed: only the change counts; see mu_task_beats() */

    while (!mu_cas_seen(beats, &n, n + 1))
        ;
}

enum muster_status mu_task_beat(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation)
{
    struct last_beat b = {.seg = ctx->seg, .incarnation = incarnation};
    enum muster_status status = mu_cluster_edit(ctx, task, beat_record, &b);

    if (!status && b.counts)
        mu_task_count_beat(ctx->seg, task);
    if (!status && b.conflict)
        status = mu_fail(MUSTER_ABORTED, "%s: the heartbeat is of a stale incarnation; the task is now in error",
                         MU_LABEL(ctx->seg, task));
    return status;
}

enum muster_status muster_task_heartbeat(struct muster *muster, int32_t task_id, uint64_t incarnation)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (!is_task(muster->seg, task_id))
        status =
            mu_fail(MUSTER_INVALID_ARGUMENT, "unexpected heartbeat from task %d, which is not in the cluster", task_id);
    else if (!mu_is_local_task(muster->seg, (uint32_t)task_id))
        status = mu_task_remote_beat(muster, ctx, (uint32_t)task_id, incarnation);
    else
        status = mu_task_beat(ctx, (uint32_t)task_id, incarnation);
    mu_exit(ctx);
    return status;
}

void muster_interrupt(struct muster *muster)
{
    struct muster_segment *seg;

    /* relaxed, process-local: left (by a leave that we interrupt, too), or inherited through fork: no wait to end */
    if (!muster || atomic_load_explicit(&muster->state, memory_order_relaxed) != MU_HANDLE_OPEN ||
        !mu_handle_is_ours(muster))
        return;
    seg = muster->seg;
    mu_store32_release(&muster->interrupt, 1); /* release: pairs with the acquire in segment/wait.c */
    if (seg->writable)
        mu_epoch_move(seg);
}

void muster_resume(struct muster *muster)
{
    mu_store32_release(&muster->interrupt, 0); /* release: as above */
}
