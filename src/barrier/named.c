/*
 * barrier/named.c: named barriers with the rules of the coordination service (RPCs Barrier and CancelBarrier).
 *
 * Each rule is plain code on a private copy of the barrier's state (state.h), committed as one edit of its table entry:
 * arrival, timeout, cancellation and a participant's failure exclude each other, and all who wait read one result.
 * Whoever waits may commit the timeout or the failure that it finds. Results of the last instances are kept, so that
 * a waiter that is slow to wake still returns the result of its own instance.
 *
 * Where the reference lets a misplaced call overwrite the stored result of an instance that has passed, this does not:
 * the caller gets the error, the result stays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/call.h"
#include "base/clock.h"
#include "segment/slot.h"
#include "segment/stats.h"
#include "segment/trace.h"
#include "segment/wait.h"

static enum mu_verdict answer(struct mu_edit *e, struct mu_call *c, enum muster_status result, const char *text)
{
    c->waiting = false;
    c->result = result;
    if (text != c->text)
        snprintf(c->text, sizeof c->text, "%s", text);
    e->status = MUSTER_OK;
    return MU_KEEP;
}

/* Encode and put. */
static enum mu_verdict put(struct mu_edit *e, struct mu_call *c, struct mu_barrier *b)
{
    free(c->value);
    c->value = mu_barrier_encode(b, &e->len);
    e->value = c->value;
    if (c->value)
        return MU_PUT;
    e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", c->id);
    return MU_KEEP;
}

/* A new instance: participants are those of the first call ever. */
static enum mu_verdict open_instance(struct mu_edit *e, struct mu_call *c, struct mu_barrier *b)
{
    char name[128], why[MU_TEXT_MAX];
    struct mu_cluster cluster;

    e->status = mu_cluster_look(c->m->seg, &cluster);
    if (e->status)
        return MU_KEEP;
    if (!b->h.num && !mu_barrier_participants(b, c->ids, c->num, c->all)) {
        e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", c->id);
        return MU_KEEP;
    }
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
    if (mu_call_find_failed(c, b, name, sizeof name, why) >= 0)
        mu_barrier_end(b, MUSTER_INTERNAL,
                       "barrier %s::%" PRIu64 ": %s was already in error before the barrier was called: %s", c->id,
                       c->counter, name, why);
    return MU_PUT;
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
static enum mu_verdict misfit(struct mu_edit *e, struct mu_call *c, struct mu_barrier *b, enum muster_status code,
                              const char *text)
{
    answer(e, c, code, text);
    if (b->h.passed)
        return c->changed ? put(e, c, b) : MU_KEEP;
    mu_barrier_end(b, code, "%s", text);
    return put(e, c, b);
}

/*
 * What happened to an open instance while nobody waited in it, who would have acted upon it: its deadline passed, or a
 * participant failed. Ends it on the copy, or brings it up to date.
 */
static enum muster_status catch_up(struct mu_call *c, struct mu_barrier *b)
{
    struct mu_cluster cluster;
    enum muster_status status = mu_cluster_look(c->m->seg, &cluster);
    bool out;

    if (!status && cluster.root.version != b->h.version) {
        status = mu_call_read_records(c, &cluster);
        if (!status && mu_call_find_fatal(c, b, &out)) {
            mu_barrier_end(b, c->fail_code, "%s", c->fail_text);
            return MUSTER_OK;
        }
        if (!status) {
            mu_call_unmark_failed(c, b);
            if (!out) /* who is out may arrive all the same, and changes no version when it dies after that */
                b->h.version = cluster.root.version;
        }
    }
    if (!status && b->h.deadline <= mu_now()) {
        mu_call_compose_timeout(c, b);
        mu_barrier_end(b, c->fail_code, "%s", c->fail_text);
    }
    return status;
}

static bool is_well(const struct mu_call *c)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    return !mu_cluster_task(c->m->seg, c->task, &r, NULL, &cluster) && r.state == MUSTER_TASK_CONNECTED;
}

static enum mu_verdict arrive_at(struct mu_edit *e, struct mu_call *c, struct mu_barrier *b, bool fresh)
{
    char text[MU_BARRIER_TEXT];
    const char *wrong = what_is_wrong(c, b);
    int32_t place = mu_barrier_find(b, c->task);

    if (!fresh && c->counter != b->h.counter) {
        bool restart = !c->counter || !b->h.counter;

        snprintf(text, sizeof text,
                 "Barrier (%s::%" PRIu64 ") is invoked by task %u, but it is at instance %" PRIu64 ". %s", c->id,
                 c->counter, c->task, b->h.counter,
                 restart ? "The job or the task probably restarted, or counters were not kept"
                         : "One task is probably way too quick / slow in its execution");
        return misfit(e, c, b, MUSTER_INTERNAL, text);
    }
    if (wrong || place < 0) {
        snprintf(text, sizeof text, "%s: barrier %s::%" PRIu64 ", task %u",
                 wrong ? wrong : "A non-participating task called the barrier", c->id, c->counter, c->task);
        return misfit(e, c, b, MUSTER_INVALID_ARGUMENT, text);
    }
    if (b->h.passed && (!fresh || b->h.code != MUSTER_OK)) {
        bool known = b->marks[place] & MU_MARK_ARRIVED;

        answer(e, c, (enum muster_status)b->h.code, b->text);
        if (known && !c->changed && !(b->marks[place] & MU_MARK_UNTOLD))
            return MU_KEEP;
        b->marks[place] = (b->marks[place] & ~MU_MARK_UNTOLD) |
                          MU_MARK_ARRIVED; /* it knows: the next call is for the next instance */
        return put(e, c, b);
    }
    if (c->m->flags & MUSTER_JOIN_RECOVERABLE && !is_well(c))
        b->h.version = 0; /* its death would change no version: who comes next must look */
    c->number = MU_MARK(c->attempt, b->marks[place] + 1);
    b->marks[place] = c->number | MU_MARK_ARRIVED;
    c->waiting = true;
    if (mu_barrier_arrived(b) == b->h.num) {
        mu_barrier_end(b, MUSTER_OK, "%s", "");
        c->waiting = false;
        c->result = MUSTER_OK;
    }
    return put(e, c, b);
}

/* It has arrived, and been told the outcome, or will be by the call that waits. */
static bool is_told(uint32_t mark)
{
    return (mark & MU_MARK_ARRIVED) && !(mark & MU_MARK_UNTOLD);
}

static enum mu_verdict arrive(struct mu_edit *e)
{
    struct mu_call *c = e->arg;
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_PUT;
    bool exists = e->version != 0, fresh;
    int32_t place;

    if (exists && !mu_barrier_decode(&b, e->old, e->old_len)) {
        e->status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", c->id);
        return MU_KEEP;
    }
    e->status = MUSTER_OK;
    c->changed = exists && b.h.num && !b.h.passed;
    if (c->changed)
        e->status = catch_up(c, &b);
    if (e->status) {
        mu_barrier_done(&b);
        return MU_KEEP;
    }
    c->changed &= b.h.passed != 0;
    place = exists ? mu_barrier_find(&b, c->task) : -1;
    c->counter = c->asked;
    if (!c->counter && exists && (c->m->flags & MUSTER_JOIN_RECOVERABLE)) { /* it has forgotten how far it was */
        c->counter = b.h.counter + (b.h.passed ? 1 : 0);
    } else if (c->counter == MUSTER_BARRIER_NEXT) {
        c->counter = b.h.counter;
        if (exists && b.h.passed && (!b.h.num || (place >= 0 && is_told(b.marks[place]))))
            c->counter++;
    }
    fresh = exists ? b.h.passed && c->counter == b.h.counter + 1 : c->counter == 0;
    if (!exists && !fresh) {
        char text[200];

        snprintf(text, sizeof text,
                 "Barrier (%.100s::%" PRIu64 ") is invoked by task %u, but nobody has used this id yet", c->id,
                 c->counter, c->task);
        return answer(e, c, MUSTER_INTERNAL, text);
    }
    if (!fresh && !b.h.num) /* cancelled before anybody came */
        verdict = answer(e, c, (enum muster_status)b.h.code, b.text);
    else if (fresh)
        verdict = open_instance(e, c, &b);
    if (verdict == MU_PUT)
        verdict = arrive_at(e, c, &b, fresh);
    mu_barrier_done(&b);
    return verdict;
}

/* End the instance that c waits in, with c->fail_*, unless it has ended. */
static enum mu_verdict fail_instance(struct mu_edit *e)
{
    struct mu_call *c = e->arg;
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;

    e->status = MUSTER_OK;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == c->counter && !b.h.passed) {
        mu_barrier_end(&b, c->fail_code, "%s", c->fail_text);
        verdict = put(e, c, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

/* The records are looked at after the barrier: in older ones a successor that has arrived by now might still be the
 * dead one. */
static enum mu_verdict unarrive(struct mu_edit *e)
{
    struct mu_call *c = e->arg;
    struct mu_barrier b;
    struct mu_cluster cluster;
    enum mu_verdict verdict = MU_KEEP;

    e->status = mu_call_read_records(c, &cluster);
    if (e->status || !e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    if (b.h.counter == c->counter && !b.h.passed && mu_call_unmark_failed(c, &b))
        verdict = put(e, c, &b);
    mu_barrier_done(&b);
    return verdict;
}

/* Has our instance an answer for us in this state? */
static bool answered(struct mu_call *c, const struct mu_barrier *b)
{
    int32_t place = mu_barrier_find(b, c->task);

    if (b->h.counter == c->counter && b->h.passed) {
        c->result = (enum muster_status)b->h.code;
        snprintf(c->text, sizeof c->text, "%s", b->text);
        return true;
    }
    if (b->h.counter != c->counter) {
        uint64_t ago = b->h.counter - c->counter;

        c->result = ago < MU_BARRIER_HISTORY ? (enum muster_status)b->h.history[c->counter % MU_BARRIER_HISTORY]
                                             : MUSTER_ABORTED;
        snprintf(c->text, sizeof c->text, "barrier %.100s::%" PRIu64 " ended so; it is at instance %" PRIu64 " by now",
                 c->id, c->counter, b->h.counter);
        return true;
    }
    if (place < 0 || b->marks[place] != (c->number | MU_MARK_ARRIVED)) { /* called again, or in error itself */
        c->result = MUSTER_CANCELLED;
        snprintf(c->text, sizeof c->text,
                 "Cancelled because there's a more recent barrier call for %.100s::%" PRIu64
                 " from the same task, or the task has been set in error",
                 c->id, c->counter);
        return true;
    }
    return false;
}

/* The caller goes away: its instance has ended by now (then it is told), or its next call must hear of it. */
static enum mu_verdict give_up(struct mu_edit *e)
{
    struct mu_call *c = e->arg;
    struct mu_barrier b;
    enum mu_verdict verdict = MU_KEEP;
    int32_t place;

    e->status = MUSTER_OK;
    c->waiting = true;
    if (!e->version || !mu_barrier_decode(&b, e->old, e->old_len))
        return MU_KEEP;
    place = mu_barrier_find(&b, c->task);
    if (answered(c, &b)) {
        c->waiting = false;
    } else if (place >= 0) {
        b.marks[place] |= MU_MARK_UNTOLD;
        verdict = put(e, c, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

static enum muster_status edit(struct mu_call *c, mu_edit_fn fn)
{
    struct mu_table t = mu_table_cells(c->m->seg);
    struct mu_edit e = {.arg = c};

    return mu_table_edit(&t, c->ctx, &c->key, MU_EDIT_WANTS_OLD, fn, &e, NULL);
}

/*
 * Does a participant's state end the instance? Sets c->fail_*; true when it does. Un-arrives recoverable ones: while
 * any is out every look counts, for it may have arrived after the copy was taken.
 */
static bool participant_failed(struct mu_call *c, struct mu_barrier *b, uint64_t *checked)
{
    struct mu_cluster cluster;
    bool out = false;

    if (mu_cluster_look(c->m->seg, &cluster) || cluster.root.version == *checked || mu_call_read_records(c, &cluster))
        return false;
    if (mu_call_find_fatal(c, b, &out))
        return true;
    *checked = out ? UINT64_MAX : cluster.root.version;
    if (out && mu_call_unmark_failed(c, b)) /* on the copy: the edit does it for all */
        edit(c, unarrive);
    return false;
}

/* Read the state as it is now. version 0: gone. */
static enum muster_status read_state(struct mu_call *c, void **buffer, size_t *capacity, struct mu_found *f,
                                     struct mu_barrier *b)
{
    struct mu_table t = mu_table_cells(c->m->seg);
    enum muster_status status;

    for (;;) {
        status = mu_table_get(&t, c->ctx, &c->key, *buffer, *capacity, f);
        if (status || f->len <= *capacity)
            break;
        free(*buffer);
        *capacity = f->len + 256;
        *buffer = malloc(*capacity);
        if (!*buffer)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", c->id);
    }
    if (!status && f->version && !mu_barrier_decode(b, *buffer, f->len))
        status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", c->id);
    return status;
}

static enum muster_status wait_for_end(struct mu_call *c, muster_deadline deadline)
{
    struct mu_table t = mu_table_cells(c->m->seg);
    struct mu_wait w;
    struct mu_found f;
    uint64_t checked = UINT64_MAX;
    size_t capacity = 512;
    void *buffer = malloc(capacity);
    char what[96];
    enum muster_status status =
        buffer ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", c->id);
    bool done = false;

    snprintf(what, sizeof what, "barrier %.60s::%" PRIu64, c->id, c->counter);
    mu_wait_begin(&w, c->m->seg, c->ctx, deadline, what);
    w.kind = MU_WAIT_BARRIER;
    while (!status && !done) {
        struct mu_barrier b = {0};
        bool fail = false;

        mu_wait_look(&w);
        status = read_state(c, &buffer, &capacity, &f, &b);
        if (!status) {
            done = answered(c, &b);
            fail = !done && participant_failed(c, &b, &checked);
            if (!done && !fail && b.h.deadline <= mu_now()) {
                mu_call_compose_timeout(c, &b);
                fail = true;
            }
        }
        if (!status && fail)
            status = edit(c, fail_instance);
        else if (!status && !done) {
            w.deadline = b.h.deadline < deadline ? b.h.deadline : deadline;
            status = mu_wait_on(&w, mu_table_bucket(&t, &c->key), f.word);
            if (status == MUSTER_DEADLINE_EXCEEDED && w.deadline < deadline)
                status = MUSTER_OK; /* the barrier's own: commit it in the next round */
        }
        mu_barrier_done(&b);
    }
    mu_wait_end(&w);
    free(buffer);
    if (status && status != MUSTER_DATA_LOSS) {
        char why[MU_BARRIER_TEXT];

        snprintf(why, sizeof why, "%s", muster_last_error());
        c->waiting = true;
        if (!edit(c, give_up) && !c->waiting)
            return MUSTER_OK; /* it ended just now: c->result */
        status = mu_fail(status, "%s", why);
    }
    return status;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static enum muster_status make_key(struct mu_call *c)
{
    char key[MUSTER_BARRIER_ID_MAX + 2];
    size_t n = c->id ? strlen(c->id) : 0;

    if (!n || n > MUSTER_BARRIER_ID_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a barrier's id is 1 to %u bytes long, not %zu", MUSTER_BARRIER_ID_MAX,
                       n);
    key[0] = 'B';
    memcpy(key + 1, c->id, n);
    mu_key_make(&c->key, c->m->seg, key, n + 1);
    return MUSTER_OK;
}

static enum muster_status take_list(struct mu_call *c, const int32_t *task_ids, size_t count)
{
    uint32_t n = 0;

    c->all = !count;
    c->num = c->m->seg->num_tasks;
    if (c->all)
        return MUSTER_OK;
    if (!task_ids || count > 65536)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu participants of barrier %s", count, c->id);
    c->ids = malloc(count * sizeof *c->ids);
    if (!c->ids)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", c->id);
    for (size_t i = 0; i < count; i++) {
        if (task_ids[i] < 0 || (uint32_t)task_ids[i] >= c->m->seg->num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "Unexpected task (%d) that is not in the cluster called the barrier. Barrier Id: %s",
                           task_ids[i], c->id);
        c->ids[i] = (uint32_t)task_ids[i];
    }
    qsort(c->ids, count, sizeof *c->ids, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || c->ids[i] != c->ids[i - 1])
            c->ids[n++] = c->ids[i];
    c->num = n;
    return MUSTER_OK;
}

/* Which registration of the task we are: it does not change, so the first call looks it up. */
static enum muster_status know_attempt(struct mu_call *c)
{
    struct mu_task_record r;
    struct mu_cluster cluster;
    enum muster_status status = MUSTER_OK;

    /* process-local, relaxed: partner is the store below; the word is the whole value, and every thread finds the same
     */
    c->attempt = atomic_load_explicit(&c->m->attempt, memory_order_relaxed);
    if (c->attempt)
        return MUSTER_OK;
    status = mu_cluster_task(c->m->seg, c->task, &r, NULL, &cluster);
    if (status)
        return status;
    if (r.incarnation != c->m->incarnation)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "barrier %s: task %u is another process by now", c->id, c->task);
    c->attempt = r.attempt;
    /* process-local, relaxed: partner is the load above; nothing else hangs on it */
    atomic_store_explicit(&c->m->attempt, r.attempt, memory_order_relaxed);
    return MUSTER_OK;
}

enum muster_status muster_barrier_wait(struct muster *muster, const char *id, uint64_t counter, const int32_t *task_ids,
                                       size_t count, uint64_t timeout_ns, muster_deadline deadline)
{
    struct mu_call c = {.m = muster, .id = id, .asked = counter, .timeout_ns = timeout_ns};
    enum muster_status status = mu_enter(muster, &c.ctx);

    if (status)
        return status;
    if (mu_is_traced(c.ctx))
        c.came = mu_trace_now(c.ctx);
    c.task = (uint32_t)muster->task_id;
    if (muster->task_id < 0)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "an observer cannot take part in a barrier");
    if (!status)
        status = make_key(&c);
    if (!status)
        status = take_list(&c, task_ids, count);
    if (!status)
        status = know_attempt(&c);
    if (!status)
        status = edit(&c, arrive);
    if (status)
        c.came = 0; /* it did not come */
    if (c.came)
        mu_call_note_entry(&c);
    if (!status && c.waiting)
        status = wait_for_end(&c, deadline);
    if (!status && !c.result)
        mu_count(&c.ctx->own->named_barriers, 1);
    if (c.came)
        mu_call_note_exit(&c, status ? status : c.result);
    free(c.ids);
    free(c.value);
    free(c.records);
    mu_exit(c.ctx);
    if (!status && c.result)
        status = mu_fail(c.result, "%s", c.text);
    return status;
}

static enum mu_verdict cancel(struct mu_edit *e)
{
    struct mu_call *c = e->arg;
    struct mu_barrier b = {0};
    enum mu_verdict verdict = MU_KEEP;

    if (e->version && !mu_barrier_decode(&b, e->old, e->old_len)) {
        e->status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", c->id);
        return MU_KEEP;
    }
    c->changed = e->version && b.h.num && !b.h.passed;
    e->status = c->changed ? catch_up(c, &b) : MUSTER_OK;
    if (e->status) {
        mu_barrier_done(&b);
        return MU_KEEP;
    }
    c->changed &= b.h.passed != 0;
    c->counter = c->asked == MUSTER_BARRIER_NEXT ? b.h.counter : c->asked;
    c->result = MUSTER_OK;
    if (c->counter != b.h.counter || b.h.passed) { /* what catching up ended has ended, whoever is told */
        char text[MU_BARRIER_TEXT];

        if (c->counter != b.h.counter)
            snprintf(text, sizeof text,
                     "barrier %s::%" PRIu64 " cannot be cancelled: it is at instance %" PRIu64
                     ". This is likely due to a restart in the task or the job",
                     c->id, c->counter, b.h.counter);
        else
            snprintf(text, sizeof text, "barrier %s::%" PRIu64 " has already been passed with status %s", c->id,
                     c->counter, muster_status_name((enum muster_status)b.h.code));
        answer(e, c, MUSTER_FAILED_PRECONDITION, text);
        verdict = c->changed ? put(e, c, &b) : MU_KEEP;
    } else {
        if (c->m->task_id >= 0)
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by task %d", c->id,
                           c->counter, c->m->task_id);
        else
            mu_barrier_end(&b, MUSTER_CANCELLED, "Barrier (%.100s::%" PRIu64 ") is cancelled by an observer", c->id,
                           c->counter);
        b.h.all = b.h.num ? b.h.all : 1;
        verdict = put(e, c, &b);
    }
    mu_barrier_done(&b);
    return verdict;
}

enum muster_status muster_barrier_cancel(struct muster *muster, const char *id, uint64_t counter)
{
    struct mu_call c = {.m = muster, .id = id, .asked = counter};
    enum muster_status status = mu_enter(muster, &c.ctx);

    if (status)
        return status;
    status = make_key(&c);
    if (!status)
        status = edit(&c, cancel);
    free(c.value);
    free(c.records);
    mu_exit(c.ctx);
    if (!status && c.result)
        status = mu_fail(c.result, "%s", c.text);
    return status;
}
