/*
 * task/alive.c: which tasks of a set are alive, as agreed by all of them (RPC GetAliveTasks).
 *
 * One table entry a set: an instance number, its callers, and the answer of the last one that completed. The instance
 * completes when every CONNECTED member has called; the caller or waiter that finds that so commits the
 * answer. A task's failure completes it too, for then fewer need to call: the waiters look again when the job's state
 * changes.
 */
#include "task/alive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/wait.h"
#include "task/task.h"

struct alive_work {
    struct mu_alive *a;
    struct mu_alive_call *const *calls;
    uint32_t count;
};

static struct mu_alive_row *rows_of(const struct mu_alive *a)
{
    return (struct mu_alive_row *)(a->value + sizeof(struct mu_alive_head));
}

uint64_t mu_alive_incarnation(const struct mu_alive *a, uint32_t i)
{
    return rows_of(a)[i].incarnation;
}

bool mu_alive_is_in(const struct mu_alive *a, uint32_t i)
{
    const struct mu_task_record *r = &a->records[a->ids[i]];

    return rows_of(a)[i].incarnation || (r->state == MUSTER_TASK_CONNECTED && !r->incarnation);
}

uint32_t mu_alive_key(const int32_t *ids, uint32_t count, char ret_key[MU_ALIVE_KEY_MAX])
{
    uint32_t bytes = (uint32_t)ids[count - 1] / 8 + 1;

    ret_key[0] = count <= MU_ALIVE_LIST ? 'A' : 'a';
    if (count <= MU_ALIVE_LIST) {
        memcpy(ret_key + 1, ids, count * sizeof *ids);
        return count * (uint32_t)sizeof *ids + 1;
    }
    memset(ret_key + 1, 0, bytes);
    for (uint32_t i = 0; i < count; i++)
        ret_key[1 + ids[i] / 8] |= (char)(1 << ids[i] % 8);
    return bytes + 1;
}
_Static_assert(MU_ALIVE_MAX / 8 < MU_ALIVE_KEY_MAX, "a map of all tasks is a key");

uint32_t mu_alive_set(const char *key, uint32_t len, int32_t *ret_ids)
{
    uint32_t count = 0;

    if (key[0] == 'A') {
        memcpy(ret_ids, key + 1, len - 1);
        return (len - 1) / (uint32_t)sizeof *ret_ids;
    }
    for (uint32_t i = 0; i < (len - 1) * 8; i++)
        if (key[1 + i / 8] & 1 << i % 8)
            ret_ids[count++] = (int32_t)i;
    return count;
}

/* On the copy: have all connected members called? Then answer and open the next instance. The records are younger than
 * the copy: a caller there had joined, and if it is not connected now it has gone since. */
static bool instance_complete(struct mu_alive *a, struct mu_alive_head *h)
{
    struct mu_alive_row *rows = rows_of(a);

    for (uint32_t i = 0; i < a->count; i++)
        if (a->records[a->ids[i]].state == MUSTER_TASK_CONNECTED && MU_ALIVE_CALLED(rows[i].called) != h->instance + 1)
            return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct mu_task_record *r = &a->records[a->ids[i]];

        rows[i].incarnation = r->state == MUSTER_TASK_CONNECTED ? r->incarnation : 0;
    }
    h->instance++;
    return true;
}

/* Call for the instance that is open, unless this very call has called for it, or the last one, before. */
static bool instance_call(const struct mu_alive *a, struct mu_alive_call *c, uint64_t instance)
{
    struct mu_alive_row *row = &rows_of(a)[c->place];
    uint64_t name = c->name == MU_ALIVE_NONE ? 0 : (c->name & 0x7fffu) + 1, before = row->called;

    c->instance = instance;
    if (c->called && MU_ALIVE_CALLED(before) == instance + 1) /* by whatever thread of the task */
        return false;
    if (c->again && name && MU_ALIVE_NAME(before) == name && MU_ALIVE_CALLED(before) == instance) {
        c->instance = instance - 1;
        return false;
    }
    row->called = name << MU_ALIVE_NAME_SHIFT | (instance + 1);
    return row->called != before;
}

static enum mu_verdict alive_step(struct mu_edit *e)
{
    struct alive_work *w = e->arg;
    struct mu_alive *a = w->a;
    struct mu_alive_head h = {0, a->count};
    struct mu_cluster cluster;
    bool changed = false, open = false;

    e->status = mu_cluster_all(a->seg, a->records, NULL, &cluster);
    if (e->status)
        return MU_KEEP;
    memset(a->value, 0, a->len);
    memcpy(a->value, &h, sizeof h);
    if (e->version && e->old_len == a->len)
        memcpy(a->value, e->old, a->len);
    memcpy(&h, a->value, sizeof h);
    for (uint32_t i = 0; i < w->count; i++) {
        struct mu_alive_call *c = w->calls[i];

        if (!c->called)
            c->place = (uint32_t)mu_alive_find(a, c->task);
        /* Calls that came at once count as calls one by one: a second call may be about the next round. */
        if (!c->called && open && MU_ALIVE_CALLED(rows_of(a)[c->place].called) == h.instance + 1 &&
            instance_complete(a, &h)) {
            changed = true;
            open = false;
        }
        if (!c->called || c->instance == h.instance)
            changed |= instance_call(a, c, h.instance);
        open |= c->instance == h.instance;
    }
    changed |= open && instance_complete(a, &h);
    memcpy(a->value, &h, sizeof h);
    a->instance = h.instance;
    e->value = a->value;
    e->len = a->len;
    return changed ? MU_PUT : MU_KEEP;
}

enum muster_status mu_alive_step(struct mu_alive *a, struct mu_alive_call *const *calls, uint32_t count)
{
    struct mu_table t = mu_table_cells(a->seg);
    struct alive_work w = {a, calls, count};
    struct mu_edit e = {.arg = &w};
    enum muster_status status = mu_table_edit(&t, a->ctx, &a->key, MU_EDIT_WANTS_OLD, alive_step, &e, NULL);

    mu_bell_ring(a->seg);
    for (uint32_t i = 0; i < count && !status; i++) {
        calls[i]->called = true; /* not before the commit: what a CAS that failed wrote was never there */
        calls[i]->answered = calls[i]->instance != a->instance;
    }
    return status;
}

enum muster_status mu_alive_read(struct mu_alive *a)
{
    struct mu_table t = mu_table_cells(a->seg);
    struct mu_found f;
    enum muster_status status = mu_table_get(&t, a->ctx, &a->key, a->value, a->len, &f);

    if (status)
        return status;
    memcpy(&a->instance, a->value, sizeof a->instance);
    a->word = f.word;
    return MUSTER_OK;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

int mu_alive_find(const struct mu_alive *a, uint32_t task)
{
    int32_t id = (int32_t)task;
    const int32_t *at = bsearch(&id, a->ids, a->count, sizeof id, by_number);

    return at ? (int)(at - a->ids) : -1;
}

static bool is_sorted(const int32_t *ids, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (ids[i - 1] > ids[i])
            return false;
    return true;
}

static enum muster_status take_list(struct mu_alive *a, const int32_t *task_ids, size_t count)
{
    uint32_t n = 0;

    if (!task_ids || !count || count > 65536)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "which of no tasks are alive");
    a->ids = malloc(count * sizeof *a->ids);
    if (!a->ids)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    memcpy(a->ids, task_ids, count * sizeof *a->ids);
    if (!is_sorted(a->ids, count)) /* which it mostly is, and asked by thousands */
        qsort(a->ids, count, sizeof *a->ids, by_number);
    for (size_t i = 0; i < count; i++) {
        if (a->ids[i] < 0 || (uint32_t)a->ids[i] >= a->seg->num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "there is no task %d in job %s", a->ids[i], a->seg->job);
        if (!n || a->ids[n - 1] != a->ids[i])
            a->ids[n++] = a->ids[i];
    }
    a->count = n;
    return MUSTER_OK;
}

enum muster_status mu_alive_begin(struct mu_alive *a, struct muster_segment *seg, struct mu_ctx *ctx,
                                  const int32_t *task_ids, size_t count)
{
    char key[MU_ALIVE_KEY_MAX];
    enum muster_status status;

    memset(a, 0, offsetof(struct mu_alive, key)); /* not the key, which is large */
    a->seg = seg;
    a->ctx = ctx;
    status = take_list(a, task_ids, count);
    if (status)
        return status;
    if (a->count > MU_ALIVE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u tasks; %u is the most", a->count, MU_ALIVE_MAX);
    a->len = sizeof(struct mu_alive_head) + a->count * sizeof(struct mu_alive_row);
    a->value = calloc(1, a->len);
    a->records = calloc(seg->num_tasks, sizeof *a->records);
    if (!a->value || !a->records)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", a->count);
    mu_key_make(&a->key, seg, key, mu_alive_key(a->ids, a->count, key));
    return MUSTER_OK;
}

void mu_alive_done(struct mu_alive *a)
{
    free(a->ids);
    free(a->value);
    free(a->records);
}

/* Connected, and not known to have called; on a host that is not the leader's nobody else is known to have. */
static bool has_not_called(void *arg, uint32_t task)
{
    const struct mu_alive *a = arg;
    int place = mu_alive_find(a, task);

    return place >= 0 && a->records[task].state == MUSTER_TASK_CONNECTED &&
           MU_ALIVE_CALLED(rows_of(a)[place].called) != a->instance + 1;
}

/* Behind the last sentence: which of the connected have not called. */
static enum muster_status say_missing(struct mu_alive *a)
{
    struct mu_cluster cluster;
    char text[MU_LIST_MAX];

    if (mu_cluster_all(a->seg, a->records, NULL, &cluster))
        return MUSTER_DEADLINE_EXCEEDED;
    mu_cluster_list(a->seg, has_not_called, a, text);
    return text[0] ? mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s; %s: %s", muster_last_error(),
                             mu_is_follower(a->seg) ? "asked were" : "not asking", text)
                   : MUSTER_DEADLINE_EXCEEDED;
}

static enum muster_status alive_gather(struct mu_alive *a, struct mu_alive_call *c, muster_deadline deadline)
{
    struct mu_table t = mu_table_cells(a->seg);
    struct mu_alive_call *const only = c;
    struct mu_wait w;
    enum muster_status status;

    mu_wait_begin(&w, a->seg, a->ctx, deadline, "the tasks alive");
    do {
        mu_wait_look(&w);
        status = mu_alive_step(a, &only, 1);
        if (status || c->answered)
            break;
        /* the word to sleep on: as it is while our instance is still open */
        status = mu_alive_read(a);
        if (!status && a->instance == c->instance)
            status = mu_wait_on(&w, mu_table_bucket(&t, &a->key), a->word);
    } while (!status);
    mu_wait_end(&w);
    return status == MUSTER_DEADLINE_EXCEEDED ? say_missing(a) : status;
}

static enum muster_status remote_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_alive_remote *r = (struct mu_alive_remote *)steps;
    uint32_t count = mu_unpack_u32(body);

    if (status)
        return status;
    if (body->failed || count > MU_ALIVE_MAX || body->left != count * 12ul)
        return mu_steps_malformed(steps);
    r->incarnations = malloc(count * (sizeof *r->incarnations + sizeof *r->ids) + 1);
    if (!r->incarnations)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the tasks alive");
    r->ids = (int32_t *)&r->incarnations[count];
    r->count = count;
    for (uint32_t i = 0; i < count; i++) {
        r->ids[i] = (int32_t)mu_unpack_u32(body);
        r->incarnations[i] = mu_unpack_u64(body);
    }
    return MUSTER_OK;
}

void mu_alive_remote_begin(struct mu_alive_remote *r, const struct mu_alive *a, uint32_t name)
{
    struct mu_pack *request = mu_steps_ask(&r->steps, MU_OP_TASK_ALIVE);

    mu_pack_u32(request, name & 0x7fffu);
    mu_pack_u32(request, a->count);
    for (uint32_t i = 0; i < a->count; i++)
        mu_pack_u32(request, (uint32_t)a->ids[i]);
    r->steps.answer = remote_answer;
    snprintf(r->steps.about, sizeof r->steps.about, "the tasks alive");
}

/* The leader's host asks them for us: the answer into the value's rows. */
static enum muster_status alive_remote(struct muster *m, struct mu_alive *a, muster_deadline deadline)
{
    struct mu_alive_remote r = {0};
    enum muster_status status;

    /* process-local, relaxed: nobody but this counts; each call gets another */
    mu_alive_remote_begin(&r, a, atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed));
    status = mu_steps_run(m, a->ctx, &r.steps, deadline);
    for (uint32_t i = 0; !status && i < r.count; i++) {
        int place = mu_alive_find(a, (uint32_t)r.ids[i]);

        if (place >= 0)
            rows_of(a)[place].incarnation = r.incarnations[i];
    }
    free(r.incarnations);
    return status == MUSTER_DEADLINE_EXCEEDED ? say_missing(a) : status;
}

enum muster_status muster_task_alive(struct muster *muster, const int32_t *task_ids, size_t count,
                                     muster_deadline deadline, int32_t *ret_task_ids, uint64_t *ret_incarnations,
                                     size_t *ret_count)
{
    struct mu_alive_call c = {.name = MU_ALIVE_NONE};
    struct mu_alive a;
    struct mu_ctx *ctx;
    size_t n = 0;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    c.task = (uint32_t)muster->task_id;
    status = mu_alive_begin(&a, muster->seg, ctx, task_ids, count);
    if (!status && (muster->task_id < 0 || mu_alive_find(&a, c.task) < 0))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the caller (task %d) is not among the tasks it asks about",
                         muster->task_id);
    if (!status)
        status = mu_is_follower(a.seg) ? alive_remote(muster, &a, deadline) : alive_gather(&a, &c, deadline);
    for (uint32_t i = 0; !status && i < a.count; i++) {
        uint64_t incarnation = mu_alive_incarnation(&a, i);

        if (!incarnation)
            continue;
        ret_task_ids[n] = a.ids[i];
        if (ret_incarnations)
            ret_incarnations[n] = incarnation;
        n++;
    }
    if (!status)
        *ret_count = n;
    mu_alive_done(&a);
    mu_exit(ctx);
    return status;
}
