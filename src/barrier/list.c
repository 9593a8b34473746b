/*
 * barrier/list.c: every named barrier, for people: the tasks that have come, and the missing ones.
 */
#include <stdlib.h>
#include <string.h>

#include "barrier/state.h"
#include "segment/handle.h"

struct list_gathering {
    struct muster_barrier_info *infos;
    size_t count, capacity;
};

static bool is_barrier(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len > 1 && key_len <= MUSTER_BARRIER_ID_MAX + 1 && key[0] == 'B';
}

static enum muster_status listing_gather(void *arg, const struct mu_item *item)
{
    struct list_gathering *g = arg;
    struct muster_barrier_info *i;
    struct mu_barrier b;

    if (!mu_barrier_decode(&b, item->value, item->len))
        return mu_fail(MUSTER_DATA_LOSS, "barrier %.*s is not well formed", (int)item->key_len - 1, item->key + 1);
    if (g->count == g->capacity) {
        size_t n = g->capacity ? g->capacity * 2 : 16;
        struct muster_barrier_info *more = realloc(g->infos, n * sizeof *more);

        if (!more) {
            mu_barrier_done(&b);
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list barriers");
        }
        g->infos = more;
        g->capacity = n;
    }
    i = &g->infos[g->count++];
    memset(i, 0, sizeof *i);
    memcpy(i->id, item->key + 1, item->key_len - 1);
    i->counter = b.h.counter;
    i->passed = b.h.passed != 0;
    i->result = (enum muster_status)b.h.code;
    i->participants = b.h.num;
    i->arrived = mu_barrier_arrived(&b);
    i->deadline_ns = b.h.deadline;
    i->since_ns = b.h.since;
    for (uint32_t k = 0; k < b.h.num; k++)
        if (!(b.marks[k] & MU_MARK_ARRIVED) && i->missing_count < sizeof i->missing / sizeof i->missing[0])
            i->missing[i->missing_count++] = (int32_t)mu_barrier_id(&b, k);
    mu_barrier_done(&b);
    return MUSTER_OK;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct muster_barrier_info *)a)->id, ((const struct muster_barrier_info *)b)->id);
}

enum muster_status muster_barrier_list(struct muster *muster,
                                       int (*visit)(void *arg, const struct muster_barrier_info *info), void *arg)
{
    struct list_gathering g = {0};
    struct mu_walk w = {is_barrier, listing_gather, &g, false};
    struct mu_table t;
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    t = mu_table_cells(muster->seg);
    for (uint32_t i = 0; i <= t.mask && !status; i++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, NULL, i, &w, &info);
    }
    mu_exit_read(); /* `visit` may call us again */
    if (g.count)
        qsort(g.infos, g.count, sizeof *g.infos, by_id);
    for (size_t i = 0; i < g.count && !status; i++)
        if (visit(arg, &g.infos[i]))
            break;
    free(g.infos);
    return status;
}
