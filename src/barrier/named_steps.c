/*
 * barrier/named_steps.c: a named barrier as somebody deals with it: its key, its state as it is now, lists of
 * participants.
 */
#include "barrier/named_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "segment/hosts.h"

void mu_barrier_call_done(struct mu_call *c)
{
    free(c->ids);
    free(c->text);
    c->ids = NULL;
    c->text = NULL;
}

enum muster_status mu_barrier_call_result(const struct mu_call *c)
{
    return c->result ? mu_fail(c->result, "%s", c->text ? c->text : "") : MUSTER_OK;
}

enum muster_status mu_named_begin(struct mu_named *n, struct muster_segment *seg, struct mu_ctx *ctx, const char *id)
{
    memset(n, 0, offsetof(struct mu_named, fail_text)); /* not the key, which is large */
    n->seg = seg;
    return mu_named_turn_to(n, ctx, id);
}

enum muster_status mu_named_turn_to(struct mu_named *n, struct mu_ctx *ctx, const char *id)
{
    char key[MUSTER_BARRIER_ID_MAX + 2];
    size_t len = id ? strlen(id) : 0;

    n->ctx = ctx;
    n->id = id;
    n->checked = UINT64_MAX;
    n->done = NULL;
    if (!len || len > MUSTER_BARRIER_ID_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a barrier's id is 1 to %u bytes long, not %zu", MUSTER_BARRIER_ID_MAX,
                       len);
    key[0] = 'B';
    memcpy(key + 1, id, len);
    mu_key_make(&n->key, n->seg, key, len + 1);
    return MUSTER_OK;
}

bool mu_barrier_is_hosts(const char *id)
{
    return !strncmp(id, MUSTER_BARRIER_HOST, sizeof MUSTER_BARRIER_HOST - 1);
}

void mu_barrier_call_pack(struct mu_pack *p, const char *id, const struct mu_call *c)
{
    mu_pack_text(p, id);
    mu_pack_u32(p, c->name);
    mu_pack_u32(p, c->untold);
    mu_pack_u64(p, c->asked);
    mu_pack_u64(p, c->timeout_ns);
    mu_pack_u32(p, c->all ? 0 : c->num);
    for (uint32_t i = 0; i < c->num && !c->all; i++)
        mu_pack_u32(p, c->ids[i]);
}

bool mu_barrier_call_unpack(struct mu_unpack *u, uint32_t num_tasks, char *id, struct mu_call *c)
{
    mu_unpack_text(u, id, MUSTER_BARRIER_ID_MAX + 1);
    c->name = mu_unpack_u32(u);
    c->untold = mu_unpack_u32(u);
    c->asked = mu_unpack_u64(u);
    c->timeout_ns = mu_unpack_u64(u);
    c->num = mu_unpack_u32(u);
    c->all = !c->num;
    if (u->failed || !id[0] || c->name > MU_CALLS_MASK || c->num > num_tasks || u->left != c->num * 4ul)
        return false;
    c->ids = c->all ? NULL : malloc(c->num * sizeof *c->ids);
    if (!c->all && !c->ids)
        return false;
    for (uint32_t i = 0; i < c->num; i++) {
        c->ids[i] = mu_unpack_u32(u);
        if (c->ids[i] >= num_tasks || (i && c->ids[i] <= c->ids[i - 1]))
            return false;
    }
    if (c->all)
        c->num = num_tasks;
    return true;
}

void mu_named_done(struct mu_named *n)
{
    mu_barrier_done(&n->b);
    free(n->buffer);
    free(n->value);
    free(n->records);
    n->buffer = n->value = NULL;
    n->records = NULL;
}

enum muster_status mu_named_read(struct mu_named *n)
{
    struct mu_table t = mu_table_cells(n->seg);
    struct mu_found f = {0};
    enum muster_status status;

    mu_barrier_done(&n->b);
    n->b.h.num = 0;
    for (;;) {
        status = mu_table_get(&t, n->ctx, &n->key, n->buffer, n->capacity, &f);
        if (status || f.len <= n->capacity)
            break;
        free(n->buffer);
        n->capacity = f.len + 256;
        n->buffer = malloc(n->capacity);
        if (!n->buffer) {
            n->capacity = 0;
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
        }
    }
    n->word = f.word;
    if (!status && f.version && !mu_barrier_decode(&n->b, n->buffer, f.len))
        status = mu_fail(MUSTER_DATA_LOSS, "barrier %s is not well formed", n->id);
    return status;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

enum muster_status mu_barrier_call_take_list(struct mu_call *c, const struct mu_named *n, const int32_t *task_ids,
                                             size_t count)
{
    uint32_t kept = 0;

    c->all = !count;
    c->num = n->seg->num_tasks;
    if (c->all)
        return MUSTER_OK;
    if (!task_ids || count > 65536)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu participants of barrier %s", count, n->id);
    c->ids = malloc(count * sizeof *c->ids);
    if (!c->ids)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
    for (size_t i = 0; i < count; i++) {
        if (task_ids[i] < 0 || (uint32_t)task_ids[i] >= n->seg->num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "Unexpected task (%s) that is not in the cluster called the barrier. Barrier Id: %s",
                           MU_BARE_LABEL(n->seg, task_ids[i]), n->id);
        c->ids[i] = (uint32_t)task_ids[i];
    }
    qsort(c->ids, count, sizeof *c->ids, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || c->ids[i] != c->ids[i - 1])
            c->ids[kept++] = c->ids[i];
    c->num = kept;
    return MUSTER_OK;
}

enum muster_status mu_barrier_call_take_own_list(struct mu_call *c, const struct mu_named *n, const int32_t *task_ids,
                                                 size_t count)
{
    enum muster_status status = MUSTER_OK;

    if (count) {
        status = mu_barrier_call_take_list(c, n, task_ids, count);
    } else {
        c->num = n->seg->local_tasks;
        c->ids = malloc((c->num + 1) * sizeof *c->ids);
        if (!c->ids)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
        for (uint32_t i = 0; i < c->num; i++)
            c->ids[i] = n->seg->first_task + i;
    }
    for (uint32_t i = 0; i < c->num && !status; i++)
        if (!mu_is_local_task(n->seg, c->ids[i]))
            status = mu_fail(MUSTER_INVALID_ARGUMENT,
                             "task %u is on another host, and barrier %s is this host's own (its id begins with %s)",
                             c->ids[i], n->id, MUSTER_BARRIER_HOST);
    return status;
}
