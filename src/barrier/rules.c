/*
 * barrier/rules.c: named barriers with the rules of the coordination service (RPCs Barrier and CancelBarrier).
 *
 * Each rule is plain code on a private copy of the barrier's state (state.h), committed as one edit of its table entry:
 * arrival, timeout, cancellation and a participant's failure exclude each other, and all who wait read one result.
 * Whoever waits may commit the timeout or the failure that it finds. Results of the last instances are kept, so that
 * a waiter that is slow to wake still returns the result of its own instance.
 *
 * Where the reference lets a misplaced call overwrite the stored result of an instance that has passed, this does not:
 * the caller gets the error, the result stays.
 *
 * A call with a name leaves it in its task's mark together with the instance, also when it was answered at once: made
 * again, it is that call, however far the barrier has gone on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/call.h"
#include "base/clock.h"
#include "segment/hosts.h"

_Static_assert(MU_BARRIER_HISTORY == 16, "a named call's mark has four bits for the instance");
_Static_assert((MU_CALLS_MASK << 4 | 15) == 0x7fff, "and the others for its name");

/* The rules return whether the copy was changed, so that it must be put. This one does not. */
static bool answer(struct mu_call *c, enum muster_status result, const char *text)
{
    c->waiting = false;
    c->result = result;
    free(c->text);
    c->text = text[0] ? strdup(text) : NULL;
    return false;
}

static uint32_t number_of(const struct mu_call *c, uint32_t mark, uint64_t counter)
{
    return MU_MARK(c->attempt, c->name == MU_CALLS_NONE
                                   ? mark + 1
                                   : (c->name & MU_CALLS_MASK) << 4 | (uint32_t)(counter % MU_BARRIER_HISTORY));
}

/* A new instance: participants are those of the first call ever. */
static enum muster_status open_instance(struct mu_named *n, const struct mu_call *c, struct mu_barrier *b)
{
    char why[MU_NAME_MAX + MU_TEXT_MAX];
    struct mu_cluster cluster;
    enum muster_status status = mu_cluster_look(n->seg, &cluster);

    if (status)
        return status;
    if (!b->h.num && !mu_barrier_participants(b, c->ids, c->num, c->all))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
    for (uint32_t i = 0; i < b->h.num; i++)
        b->marks[i] &= ~MU_MARK_ARRIVED;
    b->h.counter = c->counter;
    b->h.passed = 0;
    b->h.code = MUSTER_OK;
    b->h.since = mu_now();
    b->h.deadline = c->timeout_ns && c->timeout_ns < UINT64_MAX - b->h.since ? b->h.since + c->timeout_ns : UINT64_MAX;
    b->h.first = c->task;
    b->h.opened = b->h.version = cluster.root.version;
    b->text[0] = 0;
    n->exists = n->caught_up = true;
    n->missing = b->h.num;
    if (mu_named_find_failed(n, b, why, sizeof why))
        mu_barrier_end(b, MUSTER_INTERNAL, "barrier %s::%" PRIu64 ": %s", n->id, c->counter, why);
    return MUSTER_OK;
}

static const char *what_is_wrong(const struct mu_call *c, const struct mu_barrier *b)
{
    if (c->all && !b->h.all && b->h.num != c->num)
        return "No tasks were specified by this call, but the barrier is for some tasks only";
    if (!c->all && (b->h.all || b->h.num != c->num || memcmp(b->ids, c->ids, (size_t)c->num * 4)))
        return b->h.all && c->num == b->h.num
                   ? NULL
                   : "Conflicting tasks specified by different processes for the same barrier";
    return NULL;
}

/* A call that does not fit: it fails the instance for all, unless that has passed. */
static bool misfit(struct mu_call *c, struct mu_barrier *b, int32_t place, enum muster_status code, const char *text)
{
    answer(c, code, text);
    if (b->h.passed)
        return false;
    mu_barrier_end(b, code, "%s", text);
    if (place >= 0 && c->name != MU_CALLS_NONE)
        b->marks[place] = (b->marks[place] & MU_MARK_ARRIVED) | number_of(c, 0, b->h.counter);
    return true;
}

/*
 * What happened to an open instance while nobody waited in it, who would have acted upon it: its deadline passed, or a
 * participant failed. Ends it on the copy, or brings it up to date.
 */
static enum muster_status catch_up(struct mu_named *n, struct mu_barrier *b)
{
    struct mu_cluster cluster;
    enum muster_status status = mu_cluster_look(n->seg, &cluster);
    bool out;

    if (!status && cluster.root.version != b->h.version) {
        status = mu_named_read_records(n, &cluster);
        if (!status && mu_named_find_fatal(n, b, &out)) {
            mu_barrier_end(b, n->fail_code, "%s", n->fail_text);
            return MUSTER_OK;
        }
        if (!status) {
            mu_named_unmark_failed(n, b);
            n->missing = UINT32_MAX;
            if (!out) /* who is out may arrive all the same, and changes no version when it dies after that */
                b->h.version = cluster.root.version;
        }
    }
    if (!status && b->h.deadline <= mu_now()) {
        mu_named_compose_timeout(n, b);
        mu_barrier_end(b, n->fail_code, "%s", n->fail_text);
    }
    return status;
}

static bool is_well(const struct mu_named *n, uint32_t task)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    return !mu_cluster_task(n->seg, task, &r, NULL, &cluster) && r.state == MUSTER_TASK_CONNECTED;
}

static bool arrive_at(struct mu_named *n, struct mu_call *c, struct mu_barrier *b, bool fresh)
{
    char text[MU_BARRIER_TEXT];
    const char *wrong = what_is_wrong(c, b);
    int32_t place = mu_barrier_find(b, c->task);

    if (!fresh && c->counter != b->h.counter) {
        bool restart = !c->counter || !b->h.counter;

        snprintf(text, sizeof text, "Barrier (%s::%" PRId64 ") is invoked by %s, but it is at instance %" PRIu64 ". %s",
                 n->id, mu_barrier_number(c->counter), MU_LABEL(n->seg, c->task), b->h.counter,
                 restart ? "The job or the task probably restarted, or counters were not kept"
                         : "One task is probably way too quick / slow in its execution");
        return misfit(c, b, place, MUSTER_INTERNAL, text);
    }
    if (wrong || place < 0) {
        snprintf(text, sizeof text, "%s: barrier %s::%" PRIu64 ", %s",
                 wrong ? wrong : "A non-participating task called the barrier", n->id, c->counter,
                 MU_LABEL(n->seg, c->task));
        return misfit(c, b, place, MUSTER_INVALID_ARGUMENT, text);
    }
    if (b->h.passed && (!fresh || b->h.code != MUSTER_OK)) {
        uint32_t mark = b->marks[place];

        answer(c, (enum muster_status)b->h.code, b->text);
        if (c->name != MU_CALLS_NONE)
            mark = number_of(c, 0, b->h.counter);
        mark = (mark & ~MU_MARK_UNTOLD) | MU_MARK_ARRIVED; /* it knows: the next call is for the next instance */
        if (mark == b->marks[place])
            return false;
        b->marks[place] = mark;
        return true;
    }
    if (c->flags & MUSTER_JOIN_RECOVERABLE && !is_well(n, c->task)) {
        b->h.version = 0; /* its death would change no version: who comes next must look */
        n->caught_up = false;
    }
    if (n->missing == UINT32_MAX)
        n->missing = b->h.num - mu_barrier_arrived(b);
    if (!(b->marks[place] & MU_MARK_ARRIVED))
        n->missing--;
    c->place = place;
    c->number = number_of(c, b->marks[place], b->h.counter);
    b->marks[place] = c->number | MU_MARK_ARRIVED;
    c->waiting = true;
    if (!n->missing) {
        mu_barrier_end(b, MUSTER_OK, "%s", "");
        answer(c, MUSTER_OK, "");
    }
    return true;
}

/* It has arrived, and been told the outcome, or will be by the call that waits. */
static bool is_told(uint32_t mark)
{
    return (mark & MU_MARK_ARRIVED) && !(mark & MU_MARK_UNTOLD);
}

/* Which instance does the call mean? */
static uint64_t counter_of(const struct mu_named *n, const struct mu_call *c, const struct mu_barrier *b, int32_t place)
{
    if (!c->asked && n->exists && (c->flags & MUSTER_JOIN_RECOVERABLE)) /* it has forgotten how far it was */
        return b->h.counter + (b->h.passed ? 1 : 0);
    if (c->asked != MUSTER_BARRIER_NEXT)
        return c->asked;
    return b->h.counter + (n->exists && b->h.passed && (!b->h.num || (place >= 0 && is_told(b->marks[place]))) ? 1 : 0);
}

/* Has our instance an answer for us in this state? */
static bool answered(struct mu_call *c, const struct mu_barrier *b, const char *id)
{
    char text[MU_BARRIER_TEXT];

    if (b->h.counter == c->counter && b->h.passed) {
        answer(c, (enum muster_status)b->h.code, b->text);
        return true;
    }
    if (b->h.counter != c->counter) {
        uint64_t ago = b->h.counter - c->counter;
        enum muster_status result = ago < MU_BARRIER_HISTORY
                                        ? (enum muster_status)b->h.history[c->counter % MU_BARRIER_HISTORY]
                                        : MUSTER_ABORTED;

        text[0] = 0;
        if (result)
            snprintf(text, sizeof text, "barrier %.100s::%" PRIu64 " ended so; it is at instance %" PRIu64 " by now",
                     id, c->counter, b->h.counter);
        answer(c, result, text);
        return true;
    }
    if (c->place < 0 || (uint32_t)c->place >= b->h.num || mu_barrier_id(b, (uint32_t)c->place) != c->task ||
        (b->marks[c->place] & ~MU_MARK_UNTOLD) !=
            (c->number | MU_MARK_ARRIVED)) { /* called again, or in error itself */
        snprintf(text, sizeof text, MU_CALL_SUPERSEDED, id, c->counter);
        answer(c, MUSTER_CANCELLED, text);
        return true;
    }
    return false;
}

bool mu_call_answered(struct mu_call *c, const struct mu_named *n)
{
    return answered(c, &n->b, n->id);
}

/* Was the call made before? Then it is taken up as it stands. */
static bool take_up(const struct mu_named *n, struct mu_call *c, const struct mu_barrier *b, int32_t place)
{
    uint32_t mark = place < 0 ? 0 : b->marks[place], later = (mark >> 4) - c->name;

    if (c->name == MU_CALLS_NONE || !n->exists || (mark >> 16 & 0x7fffu) != (c->attempt & 0x7fffu))
        return false;
    later &= MU_CALLS_MASK;
    if (later > MU_CALLS_MASK / 2) /* the mark is an earlier call's */
        return false;
    c->place = place;
    c->counter = b->h.counter - ((b->h.counter - mark) & (MU_BARRIER_HISTORY - 1));
    c->number = later ? UINT32_MAX : mark & ~(MU_MARK_ARRIVED | MU_MARK_UNTOLD);
    if (later) /* a more recent one took its place: whatever the outcome of that */
        c->counter = b->h.counter;
    c->waiting = true;
    answered(c, b, n->id);
    return true;
}

/* Nobody has used the id, or it was cancelled before anybody came: what is said to a call that opens no instance. */
static bool refuse(const struct mu_named *n, struct mu_call *c, const struct mu_barrier *b)
{
    char text[300];

    if (n->exists)
        return answer(c, (enum muster_status)b->h.code, b->text);
    snprintf(text, sizeof text,
             "Barrier (%.100s::%" PRId64 ") is invoked by %s, but nobody has used this id yet. "
             "The job or the task probably restarted, or counters were not kept",
             n->id, mu_barrier_number(c->counter), MU_LABEL(n->seg, c->task));
    return answer(c, MUSTER_INTERNAL, text);
}

/* Who leaves at once is told by its next call. */
static bool mark_untold(const struct mu_call *c, struct mu_barrier *b)
{
    if (!c->waiting || c->place < 0 || (b->marks[c->place] & MU_MARK_UNTOLD))
        return false;
    b->marks[c->place] |= MU_MARK_UNTOLD;
    return true;
}

/* The same of a call that was taken up. It may have left before, and be told now, since it asks again. */
static bool mark_heard(const struct mu_call *c, struct mu_barrier *b)
{
    uint32_t mark = c->place < 0 ? 0 : b->marks[c->place];

    if (c->waiting)
        return c->leaves && mark_untold(c, b);
    if (!(mark & MU_MARK_UNTOLD) || ((mark >> 4 ^ c->name) & MU_CALLS_MASK))
        return false;
    b->marks[c->place] &= ~MU_MARK_UNTOLD;
    return true;
}

/* Is the mark that of a call which the caller's process knows to have been given up in vain, or of one after that? */
static bool is_unheard(const struct mu_call *c, uint32_t mark)
{
    return c->untold != MU_CALLS_NONE && (mark & MU_MARK_ARRIVED) && (mark >> 16 & 0x7fffu) == (c->attempt & 0x7fffu) &&
           (((mark >> 4) - c->untold) & MU_CALLS_MASK) < ((c->name - c->untold) & MU_CALLS_MASK);
}

static bool arrive(struct mu_named *n, struct mu_call *c, struct mu_barrier *b, enum muster_status *ret_status)
{
    bool changed = false, fresh;
    int32_t place;

    c->replayed = n->exists && b->h.num && b->h.passed && b->h.counter == c->asked;
    if (!n->caught_up && n->exists && b->h.num && !b->h.passed) {
        *ret_status = catch_up(n, b);
        n->caught_up = true;
        changed = b->h.passed != 0;
    }
    if (*ret_status)
        return false;
    place = n->exists ? mu_barrier_find(b, c->task) : -1;
    if (place >= 0 && is_unheard(c, b->marks[place]))
        b->marks[place] |= MU_MARK_UNTOLD;
    if ((c->again || c->leaves) && take_up(n, c, b, place))
        return mark_heard(c, b) || changed;
    c->counter = counter_of(n, c, b, place);
    fresh = n->exists ? b->h.passed && c->counter == b->h.counter + 1 : c->counter == 0;
    if (!fresh && !b->h.num)
        return refuse(n, c, b) || changed;
    if (fresh) {
        *ret_status = open_instance(n, c, b);
        if (*ret_status)
            return false;
        changed = true;
    }
    changed |= arrive_at(n, c, b, fresh);
    if (c->leaves)
        changed |= mark_untold(c, b);
    return changed;
}

/* ---- the edits ---- */

struct work {
    struct mu_named *n;
    struct mu_call *const *calls;
    uint32_t count;
    uint64_t counter; /* the instance to fail, or to look after */
};

/* Encode and put. */
static enum mu_verdict put(struct mu_edit *e, struct mu_named *n, const struct mu_barrier *b)
{
    free(n->value);
    n->value = mu_barrier_encode(b, &e->len);
    e->value = n->value;
    n->rings = b->h.passed && b->h.num &&
               (!mu_is_bridged(n->seg) || !(mu_is_local_task(n->seg, mu_barrier_id(b, 0)) &&
                                            mu_is_local_task(n->seg, mu_barrier_id(b, b->h.num - 1))));
    if (n->value)
        return MU_PUT;
    e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
    return MU_KEEP;
}

/* The copy to work on; false: it is not well formed. */
static bool take_copy(struct mu_edit *e, struct mu_named *n, struct mu_barrier *b)
{
    e->status = MUSTER_OK;
    n->exists = e->version != 0;
    n->caught_up = false;
    n->missing = UINT32_MAX;
    if (!n->exists || mu_barrier_decode(b, e->old, e->old_len))
        return true;
    e->status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", n->id);
    return false;
}

static enum mu_verdict arrive_all(struct mu_edit *e)
{
    struct work *w = e->arg;
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_KEEP;
    bool changed = false;
    uint32_t told = 0;

    if (!take_copy(e, w->n, &b))
        return MU_KEEP;
    for (uint32_t i = 0; i < w->count && !e->status; i++) {
        changed |= arrive(w->n, w->calls[i], &b, &e->status);
        for (; b.h.passed && told < i; told++) /* before its words are replaced by the next instance's */
            if (w->calls[told]->waiting && !w->calls[told]->leaves) /* who left is told by its next call */
                answered(w->calls[told], &b, w->n->id);
    }
    if (changed && !e->status) {
        e->quiet = e->version && mu_barrier_has_only_more(&b, e->old);
        verdict = put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* End the instance w->counter with n->fail_*, unless it has ended. */
static enum mu_verdict fail_instance(struct mu_edit *e)
{
    struct work *w = e->arg;
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;

    e->status = MUSTER_OK;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == w->counter && !b.h.passed) {
        mu_barrier_end(&b, w->n->fail_code, "%s", w->n->fail_text);
        verdict = put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* The records are looked at after the barrier: in older ones a successor that has arrived by now might still be the
 * dead one. */
static enum mu_verdict unarrive(struct mu_edit *e)
{
    struct work *w = e->arg;
    struct mu_barrier b;
    struct mu_cluster cluster;
    enum mu_verdict verdict = MU_KEEP;

    e->status = mu_named_read_records(w->n, &cluster);
    if (e->status || !e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == w->counter && !b.h.passed && mu_named_unmark_failed(w->n, &b))
        verdict = put(e, w->n, &b);
    mu_barrier_done(&b);
    return verdict;
}

/* The caller goes away: its instance has ended by now (then it is told), or its next call must hear of it. */
static enum mu_verdict give_up(struct mu_edit *e)
{
    struct work *w = e->arg;
    struct mu_call *c = w->calls[0];
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;

    e->status = MUSTER_OK;
    c->waiting = true;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (!answered(c, &b, w->n->id) && mark_untold(c, &b)) {
        e->quiet = true; /* no answer for anybody else */
        verdict = put(e, w->n, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* Why the instance cannot be cancelled; false: it can. */
static bool refuse_cancel(const struct mu_named *n, struct mu_call *c, const struct mu_barrier *b)
{
    char text[MU_BARRIER_TEXT];

    if (c->counter == b->h.counter && !b->h.passed)
        return false;
    if (c->counter != b->h.counter)
        snprintf(text, sizeof text,
                 "barrier %s::%" PRId64 " cannot be cancelled: it is at instance %" PRIu64
                 ". This is likely due to a restart in the task or the job",
                 n->id, mu_barrier_number(c->counter), b->h.counter);
    else
        snprintf(text, sizeof text, "barrier %s::%" PRIu64 " has already been passed with status %s", n->id, c->counter,
                 muster_status_name((enum muster_status)b->h.code));
    answer(c, MUSTER_FAILED_PRECONDITION, text);
    return true;
}

static enum mu_verdict cancel(struct mu_edit *e)
{
    struct work *w = e->arg;
    struct mu_named *n = w->n;
    struct mu_call *c = w->calls[0];
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_KEEP;
    bool changed = false;

    if (!take_copy(e, n, &b))
        return MU_KEEP;
    if (n->exists && b.h.num && !b.h.passed) {
        e->status = catch_up(n, &b);
        changed = b.h.passed != 0; /* what catching up ended has ended, whoever is told */
    }
    c->counter = c->asked == MUSTER_BARRIER_NEXT ? b.h.counter : c->asked;
    if (!e->status && !refuse_cancel(n, c, &b)) {
        answer(c, MUSTER_OK, "");
        if (c->task != MU_NOBODY)
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by %s", n->id, c->counter,
                           MU_LABEL(n->seg, c->task));
        else
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by an observer", n->id,
                           c->counter);
        b.h.all = b.h.num ? b.h.all : 1;
        if (e->done)
            e->done->result[0] = c->counter;
        changed = true;
    }
    if (!e->status && changed)
        verdict = put(e, n, &b);
    mu_barrier_done(&b);
    return verdict;
}

static enum muster_status edit(struct work *w, mu_edit_fn fn)
{
    struct mu_table t = mu_table_cells(w->n->seg);
    struct mu_edit e = {.arg = w, .forget = w->n->forget, .forget_arg = w->n->forget_arg};
    enum muster_status status;

    w->n->rings = false;
    e.done = fn == cancel ? w->n->done : NULL;
    status = mu_table_edit(&t, w->n->ctx, &w->n->key, MU_EDIT_WANTS_OLD, fn, &e, NULL);
    if (e.was_done) { /* it was cancelled */
        answer(w->calls[0], MUSTER_OK, "");
        w->calls[0]->counter = e.done->result[0];
    }
    if (w->n->rings && !w->n->is_heard)
        mu_bell_ring(w->n->seg);
    return status;
}

enum muster_status mu_named_arrive(struct mu_named *n, struct mu_call *const *calls, uint32_t count)
{
    struct work w = {n, calls, count, 0};

    return edit(&w, arrive_all);
}

enum muster_status mu_named_leave(struct mu_named *n, struct mu_call *c)
{
    struct work w = {n, &c, 1, 0};

    return edit(&w, give_up);
}

enum muster_status mu_named_cancel(struct mu_named *n, struct mu_call *c)
{
    struct work w = {n, &c, 1, 0};

    return edit(&w, cancel);
}

/*
 * Does a participant's state end the instance in n->b? Sets n->fail_*; true when it does. Un-arrives recoverable ones:
 * while any is out every look counts, for it may have arrived after the copy was taken.
 */
static bool participant_failed(struct mu_named *n)
{
    struct work w = {.n = n, .counter = n->b.h.counter};
    struct mu_cluster cluster;
    bool out = false;

    if (mu_cluster_look(n->seg, &cluster) || cluster.root.version == n->checked || mu_named_read_records(n, &cluster))
        return false;
    if (mu_named_find_fatal(n, &n->b, &out))
        return true;
    n->checked = out ? UINT64_MAX : cluster.root.version;
    if (out && mu_named_unmark_failed(n, &n->b)) /* on the copy: the edit does it for all */
        edit(&w, unarrive);
    return false;
}

enum muster_status mu_named_settle(struct mu_named *n, bool *ret_ended)
{
    struct work w = {.n = n, .counter = n->b.h.counter};

    *ret_ended = participant_failed(n);
    if (!*ret_ended && n->b.h.deadline <= mu_now()) {
        mu_named_compose_timeout(n, &n->b);
        *ret_ended = true;
    }
    return *ret_ended ? edit(&w, fail_instance) : MUSTER_OK;
}
