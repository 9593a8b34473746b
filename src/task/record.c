/*
 * task/record.c: the task's transitions, each one edit of its record.
 *
 * Every function here asks the table in state.c and then changes the record by mu_cluster_edit(): one commit decides
 * state, error, job version and the propagated error. Any process that finds the same evidence may repeat them.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/utf8.h"
#include "segment/scavenge.h"
#include "segment/stats.h"
#include "segment/trace.h"
#include "task/client.h"
#include "segment/members.h"
#include "task/task.h"

struct failure {
    enum mu_task_event event;
    enum muster_status code;
    enum muster_cause cause;
    const char *text;
    uint32_t pid;         /* only if it is this process still; 0: any */
    uint64_t incarnation; /* likewise */
    const struct muster_segment *seg;
    bool fits; /* what the last look at the record found: this failure is recorded by us, or not at all */
};

static bool fail_record(struct mu_task_change *c)
{
    struct failure *f = c->arg;
    int next = mu_task_next(c->record.state, f->event, c->record.flags & MU_TASK_RECOVERABLE);

    f->fits = false;
    if (next < 0 && f->event == MU_EVENT_REPORT) /* the reporter is told; the finder of a known death need not be */
        c->status =
            mu_fail(MUSTER_FAILED_PRECONDITION, "%s is not connected or already in error", MU_LABEL(f->seg, c->task));
    if (next < 0 || (f->pid && c->record.pid != f->pid) || (f->incarnation && c->record.incarnation != f->incarnation))
        return false;
    c->record.state = (uint32_t)next;
    c->record.code = f->code;
    c->record.cause = f->cause;
    c->record.since = mu_now();
    mu_utf8_copy(c->text, sizeof c->text, f->text, strlen(f->text));
    f->fits = true;
    return true;
}

static enum muster_status task_fail(struct mu_ctx *ctx, uint32_t task, struct failure *f)
{
    enum muster_status status;

    f->seg = ctx->seg;
    status = mu_cluster_edit(ctx, task, fail_record, f);
    if (!status && f->fits && (f->event == MU_EVENT_DEATH || f->event == MU_EVENT_SILENCE))
        mu_count(&ctx->own->deaths, 1);
    return status;
}

enum muster_status mu_task_fail(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation, enum mu_task_event event,
                                enum muster_status code, enum muster_cause cause, const char *text)
{
    struct failure f = {event, code, cause, text, 0, incarnation, NULL, false};
    enum muster_status status = task_fail(ctx, task, &f);

    if (!status)
        mu_membership_follow(ctx);
    return status;
}

/* Note the death in the trace: once, by the thread that marked the slot. */
static void death_trace(struct mu_ctx *ctx, const struct mu_death *d)
{
    uint64_t now = mu_is_traced(ctx) && !d->is_known ? mu_trace_now(ctx) : 0;

    /* acquire: pairs with the claim. Still that death: the slot's next owner comes after `now` */
    if (now && mu_load_acquire(&ctx->seg->slots[d->slot].word) == d->slot_word)
        mu_trace_note(ctx, now, MU_TRACE_DEATH, MUSTER_OK, 0, d->task_word - 1,
                      (uint64_t)d->slot << 32 | MU_SLOT_PID(d->slot_word));
}

/* The scavenger's question: which task had the slot? A task is dead when the last of its threads is. */
static void on_death(void *arg, struct mu_ctx *ctx, const struct mu_death *d)
{
    struct failure f = {.event = MU_EVENT_DEATH,
                        .code = MUSTER_UNAVAILABLE,
                        .cause = MUSTER_CAUSE_DIED,
                        .pid = MU_SLOT_PID(d->slot_word)};
    struct mu_cluster cluster;
    struct mu_task_record r;

    f.text = arg ? arg : "its process died";
    death_trace(ctx, d);
    if (!d->task_word) /* an observer's: an agent, perhaps */
        mu_clients_orphaned(ctx, f.pid);
    if (!d->task_word || d->task_word > ctx->seg->num_tasks)
        return;
    /* only what this death was registered with: a successor may have the record by now */
    if (mu_cluster_task(ctx->seg, (uint32_t)d->task_word - 1, &r, NULL, &cluster) ||
        mu_cluster_alive(ctx->seg, (uint32_t)d->task_word - 1, &r))
        return;
    f.incarnation = r.incarnation;
    task_fail(ctx, (uint32_t)d->task_word - 1, &f);
}

uint32_t mu_task_scavenge(struct mu_ctx *ctx)
{
    uint32_t n = mu_scavenge(ctx, on_death, NULL);

    if (n) {
        mu_count(&ctx->own->burials, n);
        mu_membership_follow(ctx);
    }
    return n;
}

struct registering {
    const struct muster_segment *seg;
    const struct mu_registration *reg;
};

static bool register_record(struct mu_task_change *c)
{
    const struct registering *ing = c->arg;
    const struct mu_registration *reg = ing->reg;
    struct mu_task_record *r = &c->record;
    int next = mu_task_next(r->state, MU_EVENT_REGISTER, r->flags & MU_TASK_RECOVERABLE);

    if (next < 0 && r->state == MUSTER_TASK_CONNECTED && r->incarnation == reg->incarnation && r->pid == reg->pid &&
        r->slot == reg->slot)
        return false; /* a repeated registration */
    /* a restart waits for the old process to be dead, also when that one is stopped or has reported an error */
    if (next >= 0 && (r->pid != reg->pid || r->start != reg->start) && mu_cluster_alive(ing->seg, c->task, r)) {
        c->status = MUSTER_ALREADY_EXISTS;
        return false;
    }
    if (next < 0) {
        c->status = r->state == MUSTER_TASK_CONNECTED ? MUSTER_ALREADY_EXISTS : MUSTER_ABORTED;
        return false;
    }
    r->state = (uint32_t)next;
    r->cause = MUSTER_CAUSE_NONE;
    r->code = MUSTER_OK;
    r->flags = (reg->flags & MUSTER_JOIN_RECOVERABLE ? MU_TASK_RECOVERABLE : 0) |
               (reg->flags & MUSTER_JOIN_TRANSIENT ? MU_TASK_TRANSIENT : 0);
    r->pid = reg->pid;
    r->start = reg->start;
    r->incarnation = reg->incarnation;
    r->slot = reg->slot;
    r->slot_incarnation = reg->slot_incarnation;
    r->since = mu_now();
    r->attempt++;
    c->text[0] = 0;
    return true;
}

struct burial {
    const struct muster_segment *seg;
    const char *text;
    bool fits;
};

static bool bury_record(struct mu_task_change *c)
{
    struct burial *b = c->arg;
    struct mu_task_record *r = &c->record;
    const char *text = r->flags & MU_TASK_GUEST ? "the agent through which it spoke is gone"
                                                : "its process died, or became another program";

    b->fits = r->state == MUSTER_TASK_CONNECTED && r->slot && !mu_cluster_alive(b->seg, c->task, r);
    if (!b->fits)
        return false;
    r->state = (uint32_t)mu_task_next(r->state, MU_EVENT_DEATH, 0);
    r->code = MUSTER_UNAVAILABLE;
    r->cause = MUSTER_CAUSE_DIED;
    r->since = mu_now();
    snprintf(c->text, sizeof c->text, "%s", b->text ? b->text : text);
    return true;
}

bool mu_task_bury_dead(struct mu_ctx *ctx, uint32_t task, const char *text)
{
    struct burial b = {ctx->seg, text, false};

    if (mu_cluster_edit(ctx, task, bury_record, &b) || !b.fits)
        return false;
    mu_count(&ctx->own->deaths, 1);
    return true;
}

bool mu_task_bury_past(struct mu_ctx *ctx, uint32_t task)
{
    struct failure f = {.event = MU_EVENT_DEATH,
                        .code = MUSTER_UNAVAILABLE,
                        .cause = MUSTER_CAUSE_DIED,
                        .text = "its process became another program"};
    struct mu_cluster cluster;
    struct mu_task_record now;

    if (mu_cluster_task(ctx->seg, task, &now, NULL, &cluster) || now.state != MUSTER_TASK_CONNECTED || !now.slot ||
        (now.flags & MU_TASK_GUEST) || now.pid != (uint32_t)getpid() || now.start != mu_process_start(getpid()) ||
        mu_cluster_main_alive(ctx->seg, &now))
        return false;
    f.incarnation = now.incarnation;
    return task_fail(ctx, task, &f) == MUSTER_OK;
}

enum muster_status mu_task_register(struct mu_ctx *ctx, const struct mu_registration *r)
{
    struct registering ing = {ctx->seg, r};
    enum muster_status status = mu_cluster_edit(ctx, r->task, register_record, &ing);
    struct mu_cluster cluster;
    struct mu_task_record now;
    char text[MU_TEXT_MAX], name[MU_NAME_MAX];

    if (status != MUSTER_ALREADY_EXISTS && status != MUSTER_ABORTED)
        return status;
    if (mu_cluster_task(ctx->seg, r->task, &now, text, &cluster))
        return MUSTER_DATA_LOSS;
    mu_cluster_name(ctx->seg, r->task, &now, name, sizeof name);
    if (status == MUSTER_ABORTED)
        return mu_fail(status,
                       "%s cannot join: the task is in error (%s) and not recoverable; reset it first "
                       "('muster task reset %u')",
                       name, text, r->task);
    if (mu_task_bury_past(ctx, r->task))
        return mu_fail(MUSTER_UNAVAILABLE, "%s is dead since its exec", name);
    if ((now.flags & MU_TASK_GUEST) && mu_task_bury_dead(ctx, r->task, NULL))
        return mu_fail(MUSTER_UNAVAILABLE, "%s has lost its agent", name);
    if (now.flags & MU_TASK_GUEST)
        return mu_fail(status,
                       "%s is in the job already, over the wire, through the agent of its host; a task id is for "
                       "one process at a time",
                       name);
    if (now.slot && !mu_cluster_alive(ctx->seg, r->task, &now))
        return mu_fail(MUSTER_UNAVAILABLE, "%s is dead but not yet cleaned up", name);
    return mu_fail(status, "%s is in the job already and alive; a task id is for one process at a time", name);
}

struct task_departure {
    uint64_t incarnation;
};

static bool unregister_record(struct mu_task_change *c)
{
    const struct task_departure *d = c->arg;
    int next = mu_task_next(c->record.state, MU_EVENT_UNREGISTER, 0);

    if (next < 0 || c->record.incarnation != d->incarnation)
        return false;
    c->record.state = (uint32_t)next;
    c->record.since = mu_now();
    c->record.slot = 0;
    c->text[0] = 0;
    return true;
}

enum muster_status mu_task_unregister(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation)
{
    struct task_departure d = {incarnation};
    enum muster_status status = mu_cluster_edit(ctx, task, unregister_record, &d);

    if (!status)
        mu_membership_follow(ctx);
    return status;
}

static void words_for(int wait_status, char *text, size_t size)
{
    if (WIFSIGNALED(wait_status))
        snprintf(text, size, "killed by signal %d (%s)%s", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)),
                 WCOREDUMP(wait_status) ? ", core dumped" : "");
    else
        snprintf(text, size, "exited with status %d without leaving the job", WEXITSTATUS(wait_status));
}

/* The peers noticed the death before the launcher knew the reason: keep the error, add the words. */
static bool add_words(struct mu_task_change *c)
{
    const struct failure *f = c->arg;
    char before[MU_TEXT_MAX], first[120], then[120];

    if (c->record.state != MUSTER_TASK_ERROR || c->record.cause != MUSTER_CAUSE_DIED || c->record.pid != f->pid ||
        (c->record.cause == f->cause && !strncmp(c->text, f->text, strlen(f->text))))
        return false;
    c->record.cause = f->cause;
    memcpy(before, c->text, sizeof before);
    if (!(c->record.flags & MU_TASK_GUEST)) {
        snprintf(c->text, sizeof c->text, "%s", f->text);
        return true;
    }
    mu_utf8_copy(first, sizeof first, f->text, strlen(f->text));
    mu_utf8_copy(then, sizeof then, before, strlen(before));
    snprintf(c->text, sizeof c->text, "%s; before it: %s", first, then); /* that its connection went has been told */
    return true;
}

struct ending {
    struct failure f;
    int wait_status;
    bool is_last;
};

/* A wire client that has exited with status 0 has left, with or without a shutdown. A task of the library has not: what
 * it leaves to its peers is found by them before anybody knows a status. */
static bool leave_record(struct mu_task_change *c, const struct ending *e)
{
    struct mu_task_record *r = &c->record;

    if (e->wait_status || !(r->flags & MU_TASK_GUEST) || r->state != MUSTER_TASK_CONNECTED || r->pid != e->f.pid)
        return false;
    r->state = (uint32_t)mu_task_next(r->state, MU_EVENT_UNREGISTER, 0);
    r->since = mu_now();
    r->slot = 0;
    c->text[0] = 0;
    return true;
}

/* All that an end changes, in one commit: the error of one that had not left, its words, and that it has ended. */
static bool end_record(struct mu_task_change *c)
{
    struct ending *e = c->arg;
    struct mu_task_record *r = &c->record;
    bool is_known = e->wait_status != MU_TASK_HOW_IS_UNKNOWN, changed = false;
    uint32_t flags = MU_TASK_ENDED | (is_known ? MU_TASK_HOW_FLAGS(e->wait_status) : MU_TASK_HOW_UNKNOWN);

    if (is_known) {
        c->arg = &e->f;
        changed = leave_record(c, e) || fail_record(c) || add_words(c);
        c->arg = e;
    }
    if (!e->is_last || (r->flags & MU_TASK_ENDED))
        return changed;
    r->flags |= flags;
    if (!r->attempt) {
        r->pid = e->f.pid;
        r->since = mu_now();
    }
    return true;
}

enum muster_status mu_task_process_ended(struct muster *m, int32_t task_id, uint32_t pid, int wait_status, bool is_last)
{
    struct mu_ctx *ctx;
    char text[MU_TEXT_MAX] = "";
    enum muster_status status = mu_enter(m, &ctx);
    struct ending e = {.f = {.event = MU_EVENT_DEATH, .code = MUSTER_UNAVAILABLE, .text = text, .pid = pid},
                       .wait_status = wait_status,
                       .is_last = is_last};

    if (status)
        return status;
    if (task_id < 0 || (uint32_t)task_id >= m->seg->num_tasks) {
        mu_exit(ctx);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d; the job has tasks 0 to %u", task_id, m->seg->num_tasks - 1);
    }
    if (wait_status != MU_TASK_HOW_IS_UNKNOWN) {
        e.f.cause = WIFSIGNALED(wait_status) ? MUSTER_CAUSE_DIED : MUSTER_CAUSE_EXITED;
        words_for(wait_status, text, sizeof text);
    }
    mu_count(&ctx->own->burials, mu_scavenge_process(ctx, pid, (uint64_t)task_id + 1, on_death, text[0] ? text : NULL));
    status = mu_cluster_edit(ctx, (uint32_t)task_id, end_record, &e);
    if (!status && e.f.fits)
        mu_count(&ctx->own->deaths, 1);
    if (!status)
        mu_membership_follow(ctx);
    mu_exit(ctx);
    return status;
}
