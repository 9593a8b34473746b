/*
 * task/alive.c: which tasks of a set are alive, as agreed by all of them (RPC GetAliveTasks).
 *
 * One table entry a set: an instance number, who has called for it, and the answer of the last one that completed. The
 * instance completes when every CONNECTED member has called; whoever finds that so, caller or waiter, commits the
 * answer. A task's failure completes it too, for then fewer need to call: the waiters look again when the job's state
 * changes.
 */
#include <stdlib.h>
#include <string.h>

#include "segment/table.h"
#include "segment/wait.h"
#include "task/task.h"

struct query {
    struct muster *m;
    const int32_t *ids; /* sorted, unique */
    uint32_t count;
    uint32_t place; /* ours */
    struct mu_task_record *records;
    uint64_t instance; /* ours, once called */
    bool called, answered;
    uint8_t *value;
    size_t len;
};

static struct mu_alive_row *rows_of(void *value)
{
    return (struct mu_alive_row *)((uint8_t *)value + sizeof(struct mu_alive_head));
}

/* On the copy: has everybody who is connected called? Then answer and open the next instance. The records are younger
 * than the copy: who has called there had joined, and if it is not connected now it has gone since. */
static bool complete(struct query *q)
{
    struct mu_alive_head h;
    struct mu_alive_row *rows = rows_of(q->value);

    memcpy(&h, q->value, sizeof h);
    for (uint32_t i = 0; i < q->count; i++)
        if (q->records[q->ids[i]].state == MUSTER_TASK_CONNECTED && rows[i].called != h.instance + 1)
            return false;
    for (uint32_t i = 0; i < q->count; i++) {
        const struct mu_task_record *r = &q->records[q->ids[i]];

        rows[i].incarnation = r->state == MUSTER_TASK_CONNECTED ? r->incarnation : 0;
    }
    h.instance++;
    memcpy(q->value, &h, sizeof h);
    return true;
}

static enum mu_verdict call(struct mu_edit *e)
{
    struct query *q = e->arg;
    struct mu_alive_head h = {0, q->count};
    struct mu_alive_row *rows = rows_of(q->value);
    struct mu_cluster cluster;
    bool changed = false;

    e->status = mu_cluster_all(q->m->seg, q->records, NULL, &cluster);
    if (e->status)
        return MU_KEEP;
    memset(q->value, 0, q->len);
    memcpy(q->value, &h, sizeof h);
    if (e->version && e->old_len == q->len)
        memcpy(q->value, e->old, q->len);
    memcpy(&h, q->value, sizeof h);
    if (!q->called || h.instance == q->instance) {
        q->instance = h.instance;
        changed = rows[q->place].called != h.instance + 1;
        rows[q->place].called = h.instance + 1;
        q->answered = complete(q);
        changed |= q->answered;
    } else {
        q->answered = true; /* a peer completed it */
    }
    e->value = q->value;
    e->len = q->len;
    return changed ? MU_PUT : MU_KEEP;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static enum muster_status gather(struct query *q, struct mu_ctx *ctx, muster_deadline deadline)
{
    struct muster_segment *seg = q->m->seg;
    struct mu_table t = mu_table_cells(seg);
    struct mu_wait w;
    struct mu_key k;
    char *key = malloc(q->count * 4 + 1);
    enum muster_status status = MUSTER_OK;

    if (!key)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    key[0] = 'A';
    memcpy(key + 1, q->ids, q->count * 4);
    mu_key_make(&k, seg, key, q->count * 4 + 1);
    free(key);
    mu_wait_begin(&w, seg, ctx, deadline, "the tasks alive");
    for (;;) {
        struct mu_edit e = {.arg = q};
        struct mu_found f;

        mu_wait_look(&w);
        status = mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, call, &e, NULL);
        q->called = true;
        if (status || q->answered)
            break;
        /* the word to sleep on: as it is while our instance is still open */
        status = mu_table_get(&t, ctx, &k, q->value, q->len, &f);
        if (status)
            break;
        if (memcmp(q->value, &q->instance, sizeof q->instance))
            continue;
        status = mu_wait_on(&w, mu_table_bucket(&t, &k), f.word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    return status;
}

static enum muster_status prepare(struct query *q, int32_t *ids, size_t count)
{
    uint32_t n = 0;
    int found = -1;

    qsort(ids, count, sizeof *ids, by_number);
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= q->m->seg->num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "there is no task %d in job %s", ids[i], q->m->seg->job);
        if (!n || ids[n - 1] != ids[i])
            ids[n++] = ids[i];
        if (ids[i] == q->m->task_id)
            found = (int)n - 1;
    }
    if (found < 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the caller (task %d) is not among the tasks it asks about",
                       q->m->task_id);
    if (n > 1000)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u tasks; 1000 is the most", n);
    q->ids = ids;
    q->count = n;
    q->place = (uint32_t)found;
    q->len = sizeof(struct mu_alive_head) + n * sizeof(struct mu_alive_row);
    q->value = malloc(q->len);
    q->records = calloc(q->m->seg->num_tasks, sizeof *q->records);
    return q->value && q->records ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", n);
}

enum muster_status muster_task_alive(struct muster *muster, const int32_t *task_ids, size_t count,
                                     muster_deadline deadline, int32_t *ret_task_ids, uint64_t *ret_incarnations,
                                     size_t *ret_count)
{
    struct query q = {.m = muster};
    struct mu_ctx *ctx;
    int32_t *ids;
    size_t n = 0;
    enum muster_status status;

    if (!task_ids || !count || count > 65536)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "which of no tasks are alive");
    status = mu_enter(muster, &ctx);
    if (status)
        return status;
    ids = malloc(count * sizeof *ids);
    if (ids) {
        memcpy(ids, task_ids, count * sizeof *ids);
        status = prepare(&q, ids, count);
    } else {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    }
    if (!status)
        status = gather(&q, ctx, deadline);
    for (uint32_t i = 0; !status && i < q.count; i++) {
        uint64_t incarnation = rows_of(q.value)[i].incarnation;

        if (!incarnation)
            continue;
        ret_task_ids[n] = q.ids[i];
        if (ret_incarnations)
            ret_incarnations[n] = incarnation;
        n++;
    }
    if (!status)
        *ret_count = n;
    free(ids);
    free(q.value);
    free(q.records);
    mu_exit(ctx);
    return status;
}
