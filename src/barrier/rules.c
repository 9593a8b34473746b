/*
 * barrier/rules.c: named barriers with the rules of the coordination service (RPCs Barrier and CancelBarrier).
 *
 * Each rule is plain code on a private copy of the barrier's state (state.h), committed as one edit of its table entry:
 * arrival, timeout, cancellation and a participant's failure exclude each other, and all waiters read one result. Any
 * waiter may commit the timeout or the failure that it finds. Results of the last instances are kept, so that a waiter
 * that is slow to wake still returns the result of its own instance.
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

bool mu_rules_answer(struct mu_call *c, enum muster_status result, const char *text)
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
static bool call_misfit(struct mu_call *c, struct mu_barrier *b, int32_t place, enum muster_status code,
                        const char *text)
{
    mu_rules_answer(c, code, text);
    if (b->h.passed)
        return false;
    mu_barrier_end(b, code, "%s", text);
    if (place >= 0 && c->name != MU_CALLS_NONE)
        b->marks[place] = (b->marks[place] & MU_MARK_ARRIVED) | number_of(c, 0, b->h.counter);
    return true;
}

/*
 * Acts upon what happened to an open instance while it had no waiter to do so: its deadline passed, or a participant
 * failed. Ends it on the copy, or brings it up to date.
 */
enum muster_status mu_rules_catch_up(struct mu_named *n, struct mu_barrier *b)
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
            if (!out) /* a task that is out may arrive all the same, and changes no version when it dies after that */
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
        return call_misfit(c, b, place, MUSTER_INTERNAL, text);
    }
    if (wrong || place < 0) {
        snprintf(text, sizeof text, "%s: barrier %s::%" PRIu64 ", %s",
                 wrong ? wrong : "A non-participating task called the barrier", n->id, c->counter,
                 MU_LABEL(n->seg, c->task));
        return call_misfit(c, b, place, MUSTER_INVALID_ARGUMENT, text);
    }
    if (b->h.passed && (!fresh || b->h.code != MUSTER_OK)) {
        uint32_t mark = b->marks[place];

        mu_rules_answer(c, (enum muster_status)b->h.code, b->text);
        if (c->name != MU_CALLS_NONE)
            mark = number_of(c, 0, b->h.counter);
        mark = (mark & ~MU_MARK_UNTOLD) | MU_MARK_ARRIVED; /* it knows: the next call is for the next instance */
        if (mark == b->marks[place])
            return false;
        b->marks[place] = mark;
        return true;
    }
    if (c->flags & MUSTER_JOIN_RECOVERABLE && !is_well(n, c->task)) {
        b->h.version = 0; /* its death would change no version: the next to come must look */
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
        mu_rules_answer(c, MUSTER_OK, "");
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

bool mu_rules_answered(struct mu_call *c, const struct mu_barrier *b, const char *id)
{
    char text[MU_BARRIER_TEXT];

    if (b->h.counter == c->counter && b->h.passed) {
        mu_rules_answer(c, (enum muster_status)b->h.code, b->text);
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
        mu_rules_answer(c, result, text);
        return true;
    }
    if (c->place < 0 || (uint32_t)c->place >= b->h.num || mu_barrier_id(b, (uint32_t)c->place) != c->task ||
        (b->marks[c->place] & ~MU_MARK_UNTOLD) !=
            (c->number | MU_MARK_ARRIVED)) { /* called again, or in error itself */
        snprintf(text, sizeof text, MU_CALL_SUPERSEDED, id, c->counter);
        mu_rules_answer(c, MUSTER_CANCELLED, text);
        return true;
    }
    return false;
}

bool mu_barrier_call_answered(struct mu_call *c, const struct mu_named *n)
{
    return mu_rules_answered(c, &n->b, n->id);
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
    mu_rules_answered(c, b, n->id);
    return true;
}

/* Nobody has used the id, or it was cancelled before anybody came: what is said to a call that opens no instance. */
static bool call_refuse(const struct mu_named *n, struct mu_call *c, const struct mu_barrier *b)
{
    char text[300];

    if (n->exists)
        return mu_rules_answer(c, (enum muster_status)b->h.code, b->text);
    snprintf(text, sizeof text,
             "Barrier (%.100s::%" PRId64 ") is invoked by %s, but nobody has used this id yet. "
             "The job or the task probably restarted, or counters were not kept",
             n->id, mu_barrier_number(c->counter), MU_LABEL(n->seg, c->task));
    return mu_rules_answer(c, MUSTER_INTERNAL, text);
}

/* A task that leaves at once is told by its next call. */
bool mu_rules_mark_untold(const struct mu_call *c, struct mu_barrier *b)
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
        return c->leaves && mu_rules_mark_untold(c, b);
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

bool mu_rules_arrive(struct mu_named *n, struct mu_call *c, struct mu_barrier *b, enum muster_status *ret_status)
{
    bool changed = false, fresh;
    int32_t place;

    c->replayed = n->exists && b->h.num && b->h.passed && b->h.counter == c->asked;
    if (!n->caught_up && n->exists && b->h.num && !b->h.passed) {
        *ret_status = mu_rules_catch_up(n, b);
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
        return call_refuse(n, c, b) || changed;
    if (fresh) {
        *ret_status = open_instance(n, c, b);
        if (*ret_status)
            return false;
        changed = true;
    }
    changed |= arrive_at(n, c, b, fresh);
    if (c->leaves)
        changed |= mu_rules_mark_untold(c, b);
    return changed;
}
