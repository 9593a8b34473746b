/*
 * cli/trace/timeline.c: from single events to spans and barriers.
 *
 * Entries and exits are paired slot by slot, in order of time: a thread is in one call at a time. An exit is left out
 * if its entry has been overwritten; an entry without an exit is a call that goes on, or in which its thread died,
 * unless its slot enters another: then it is over, and how is not known. Spans of one barrier and instance
 * are a barrier; a call that was refused for its arguments is none of them.
 *
 * A host's trace has its own tasks alone. That others came later still shows: all of this host's have come, and nobody
 * leaves, for longer than it takes to be told of the verdict.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/trace/timeline.h"
#include "segment/host_view.h"

#define SLACK_NS 1000000u /* beyond two round trips: for agents and tasks to be woken */

static bool is_entry(const struct mu_traced *e)
{
    return e->kind == MU_TRACE_NAMED_ENTER || e->kind == MU_TRACE_GROUP_ENTER || e->kind == MU_TRACE_KEY_ENTER;
}

static bool is_exit(const struct mu_traced *e)
{
    return e->kind == MU_TRACE_NAMED_LEAVE || e->kind == MU_TRACE_GROUP_LEAVE || e->kind == MU_TRACE_KEY_LEAVE;
}

/* `inside`: for each slot, its open span + 1. */
static void spans_pair(struct mu_cli_timeline *t, size_t *inside, uint32_t slots)
{
    for (size_t i = 0; i < t->num_events; i++) {
        const struct mu_traced *e = &t->events[i];
        uint64_t slot = e->kind == MU_TRACE_DEATH ? e->value >> 32 : e->slot;
        struct mu_cli_span *span = slot < slots && inside[slot] ? &t->spans[inside[slot] - 1] : NULL;

        if (span && e->kind == MU_TRACE_DEATH) {
            span->dead = 1;
        } else if (is_exit(e) && span && (unsigned)span->enter->kind + 1 == (unsigned)e->kind &&
                   span->enter->object == e->object) {
            span->open = 0;
            span->status = e->status;
            span->version = e->value;
        } else if (is_entry(e)) {
            if (span) { /* its exit is missing */
                span->end_ns = e->time_ns;
                span->open = 0;
                span->unknown = 1;
            }
            t->spans[t->num_spans] = (struct mu_cli_span){.enter = e, .open = 1, .barrier = -1};
            inside[slot] = ++t->num_spans;
            continue;
        } else {
            continue;
        }
        span->end_ns = e->time_ns;
        inside[slot] = 0;
    }
}

static int by_barrier(const void *a, const void *b)
{
    const struct mu_cli_span *x = *(struct mu_cli_span *const *)a, *y = *(struct mu_cli_span *const *)b;

    if (x->enter->object != y->enter->object)
        return x->enter->object > y->enter->object ? 1 : -1;
    if (x->enter->value != y->enter->value)
        return x->enter->value > y->enter->value ? 1 : -1;
    return x->enter < y->enter ? -1 : x->enter > y->enter;
}

/*
 * Spans come in order of their entry. `again`: its task is counted already, by an earlier call: one that gave up and
 * came back, or was refused. A task that returned OK says how it went; others may have failed for a reason of their
 * own.
 */
static void barrier_add(struct mu_cli_barrier *m, const struct mu_cli_span *span)
{
    const struct mu_traced *e = span->enter;

    if (!m->count)
        *m = (struct mu_cli_barrier){.name = e->name,
                                     .object = e->object,
                                     .instance = e->value,
                                     .is_group = e->kind == MU_TRACE_GROUP_ENTER,
                                     .first_ns = e->time_ns,
                                     .last_ns = e->time_ns};
    if (!*m->name)
        m->name = e->name;
    if (!span->again) {
        m->before_ns = m->last_ns;
        m->last_ns = e->time_ns;
        m->last_task = e->task;
        m->count++;
    }
    m->open += span->open != 0;
    if (span->unknown)
        return;
    if (!span->open && span->status == MUSTER_OK) {
        m->passed = 1;
        if (!m->left_ns || span->end_ns < m->left_ns)
            m->left_ns = span->end_ns;
    }
    if (m->passed)
        m->status = MUSTER_OK;
    else if (!span->open && m->status == MUSTER_OK)
        m->status = span->status;
}

/* `seen`: a word a task, zeros: the last barrier that it was counted in. */
static void barriers_collect(struct mu_cli_timeline *t, struct mu_cli_span **arrivals, size_t count, size_t *seen)
{
    const struct mu_traced *last = NULL;

    qsort(arrivals, count, sizeof(void *), by_barrier);
    for (size_t i = 0; i < count; i++) {
        const struct mu_traced *e = arrivals[i]->enter;

        if (!last || last->object != e->object || last->value != e->value)
            t->num_barriers++;
        last = e;
        arrivals[i]->again = e->task >= 0 && seen[e->task] == t->num_barriers;
        barrier_add(&t->barriers[t->num_barriers - 1], arrivals[i]);
        if (e->task >= 0)
            seen[e->task] = t->num_barriers;
        arrivals[i]->barrier = (long)t->num_barriers - 1;
    }
}

/* The longest round trip to a host, between the agents. */
static uint64_t longest_way(const struct muster_segment *segment)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < segment->num_hosts; i++) {
        struct mu_host_view view;

        mu_host_look(segment, i, &view);
        longest = view.rtt > longest ? view.rtt : longest;
    }
    return longest;
}

static void remote_look(struct mu_cli_timeline *t, const struct muster_segment *segment)
{
    uint64_t slack;

    t->is_part = mu_is_bridged(segment);
    if (!t->is_part)
        return;
    slack = 2 * longest_way(segment) + SLACK_NS;
    for (size_t i = 0; i < t->num_barriers; i++) {
        struct mu_cli_barrier *m = &t->barriers[i];

        if (m->left_ns > m->last_ns && m->left_ns - m->last_ns > slack)
            m->remote_ns = m->left_ns - m->last_ns;
    }
}

/* Ends what has no end, and picks the arrivals at barriers. */
static size_t arrivals_pick(struct mu_cli_timeline *t, uint64_t now_ns, struct mu_cli_span **arrivals)
{
    uint64_t end = t->num_events ? t->events[t->num_events - 1].time_ns : 0;
    size_t count = 0;

    end = now_ns > end ? now_ns : end;
    for (size_t i = 0; i < t->num_spans; i++) {
        struct mu_cli_span *span = &t->spans[i];

        if (!span->end_ns)
            span->end_ns = end;
        if (span->end_ns < span->enter->time_ns) /* a damaged time */
            span->end_ns = span->enter->time_ns;
        if (span->enter->kind != MU_TRACE_KEY_ENTER && (span->open || span->status != MUSTER_INVALID_ARGUMENT))
            arrivals[count++] = span;
    }
    return count;
}

enum muster_status mu_cli_timeline_read(const struct muster_segment *segment, uint64_t now_ns,
                                        struct mu_cli_timeline *ret)
{
    struct mu_cli_timeline t = {0};
    struct mu_cli_span **arrivals;
    size_t *inside, *seen;
    enum muster_status status = mu_trace_read(segment, &t.events, &t.num_events, &t.lost);

    if (status != MUSTER_OK)
        return status;
    t.spans = calloc(t.num_events + 1, sizeof *t.spans);
    t.barriers = calloc(t.num_events + 1, sizeof *t.barriers);
    arrivals = calloc(t.num_events + 1, sizeof(void *));
    inside = calloc(segment->num_slots, sizeof *inside);
    seen = calloc(segment->num_tasks, sizeof *seen);
    if (t.spans && t.barriers && arrivals && inside && seen) {
        spans_pair(&t, inside, segment->num_slots);
        barriers_collect(&t, arrivals, arrivals_pick(&t, now_ns, arrivals), seen);
        remote_look(&t, segment);
        *ret = t;
    } else {
        mu_cli_timeline_done(&t);
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to put %zu events together", t.num_events);
    }
    free(arrivals);
    free(inside);
    free(seen);
    return status;
}

void mu_cli_timeline_done(struct mu_cli_timeline *timeline)
{
    free(timeline->events);
    free(timeline->spans);
    free(timeline->barriers);
}
