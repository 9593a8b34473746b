/*
 * barrier/view.c: every named barrier and group, for people that look at a job: all missing tasks, to the last one.
 *
 * The table of cells is walked once, without a slot. A group's entry names its members, and their areas say which
 * instance each has arrived at: the highest is the one that the others wait in. Members go on while they are
 * looked at, so a group in use is seen at any instant of its instance; one that hangs is seen as it hangs.
 */
#include "barrier/view.h"

#include <stdlib.h>
#include <string.h>

#include "barrier/state.h"
#include "segment/handle.h"
#include "segment/heap.h"
#include "segment/hosts.h"

struct view_gathering {
    const struct muster_segment *seg;
    struct mu_barrier_view *views;
    size_t count, capacity;
};

static bool is_shown(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return (key[0] == 'B' && key_len > 1 && key_len <= MUSTER_BARRIER_ID_MAX + 1) ||
           (key[0] == 'G' && key_len > 10 && key_len <= MUSTER_BARRIER_ID_MAX);
}

static struct mu_barrier_view *view_next(struct view_gathering *g, uint32_t participants)
{
    struct mu_barrier_view *m;

    if (g->count == g->capacity) {
        size_t n = g->capacity ? g->capacity * 2 : 16;
        struct mu_barrier_view *more = realloc(g->views, n * sizeof *more);

        if (!more)
            return NULL;
        g->views = more;
        g->capacity = n;
    }
    m = &g->views[g->count];
    memset(m, 0, sizeof *m);
    m->missing = malloc(((size_t)participants * 2 + 1) * sizeof *m->missing);
    if (!m->missing)
        return NULL;
    m->present = m->missing + participants;
    m->participants = participants;
    m->deadline_ns = UINT64_MAX;
    g->count++;
    return m;
}

static enum muster_status no_memory(void)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list barriers");
}

static enum muster_status take_barrier(struct view_gathering *g, const struct mu_item *item)
{
    struct mu_barrier_view *m;
    struct mu_barrier b;

    if (!mu_barrier_decode(&b, item->value, item->len))
        return mu_fail(MUSTER_DATA_LOSS, "barrier %.*s is not well formed", (int)item->key_len - 1, item->key + 1);
    m = view_next(g, b.h.num);
    if (!m) {
        mu_barrier_done(&b);
        return no_memory();
    }
    memcpy(m->id, item->key + 1, item->key_len - 1);
    m->instance = b.h.counter;
    m->code = (enum muster_status)b.h.code;
    m->state = !b.h.passed ? MU_VIEW_WAITING : m->code == MUSTER_OK ? MU_VIEW_PASSED : MU_VIEW_FAILED;
    m->deadline_ns = b.h.deadline;
    m->since_ns = b.h.since;
    for (uint32_t k = 0; k < b.h.num; k++)
        if (b.marks[k] & MU_MARK_ARRIVED)
            m->present[m->arrived++] = (int32_t)mu_barrier_id(&b, k);
        else
            m->missing[m->missing_count++] = (int32_t)mu_barrier_id(&b, k);
    mu_barrier_done(&b);
    return MUSTER_OK;
}

/* The member's arrival word; 0 when it has no sound area, as of one that is being taken apart. */
static uint64_t arrival_of(const struct muster_segment *seg, const struct mu_item *item, uint32_t rank)
{
    struct mu_block *b = NULL;
    uint32_t limit = 0;

    if (rank < item->num_refs && item->refs[rank])
        b = mu_heap_block(seg, MU_REF_INDEX(item->refs[rank]), &limit);
    if (!b || limit < MU_BLOCK_HEADER + sizeof(struct mu_area))
        return 0;
    /* relaxed: a number to show; pairs with the CAS of member_arrive() in collective.c */
    return mu_load_relaxed(&((struct mu_area *)b->body)->arrived);
}

/* Members on other hosts have arrived wherever their proxy has; their own words, which the agent writes, come later. */
static void heed_proxy(const struct muster_segment *seg, const struct mu_group_member *members, uint32_t size,
                       uint64_t proxy, uint64_t *arrivals)
{
    uint64_t passed = MU_ARRIVED_INSTANCE(proxy) - ((proxy & MU_ARRIVED_CLOSED) != 0);

    for (uint32_t i = 0; i < size; i++)
        if (!mu_is_local_task(seg, members[i].task) && MU_ARRIVED_INSTANCE(arrivals[i]) < passed)
            arrivals[i] = MU_ARRIVED(passed);
}

/* Which instance is the furthest, and what speaks against it. */
static void instances_survey(struct mu_barrier_view *m, const struct mu_group_member *members, const uint64_t *arrivals)
{
    uint32_t absent = 0, lost = 0;

    for (uint32_t i = 0; i < m->participants; i++) {
        absent += !(members[i].flags & MU_MEMBER_THERE);
        lost += (members[i].flags & MU_MEMBER_LEFT) || (arrivals[i] & MU_ARRIVED_CLOSED);
        if (!(arrivals[i] & MU_ARRIVED_CLOSED) && MU_ARRIVED_INSTANCE(arrivals[i]) > m->instance)
            m->instance = MU_ARRIVED_INSTANCE(arrivals[i]);
    }
    for (uint32_t i = 0; i < m->participants; i++) {
        bool here = absent ? (members[i].flags & MU_MEMBER_THERE) != 0
                           : !(arrivals[i] & MU_ARRIVED_CLOSED) && MU_ARRIVED_INSTANCE(arrivals[i]) == m->instance;

        if (here)
            m->present[m->arrived++] = (int32_t)members[i].task;
        else
            m->missing[m->missing_count++] = (int32_t)members[i].task;
    }
    m->state = lost ? MU_VIEW_FAILED : absent ? MU_VIEW_BUILDING : m->missing_count ? MU_VIEW_WAITING : MU_VIEW_PASSED;
    m->code = lost ? MUSTER_UNAVAILABLE : MUSTER_OK;
}

static enum muster_status take_group(struct view_gathering *g, const struct mu_item *item)
{
    const struct mu_group_head *head = item->value;
    struct mu_barrier_view *m;
    uint64_t *arrivals;

    if (item->len < sizeof *head || item->len != sizeof *head + head->size * sizeof(struct mu_group_member))
        return mu_fail(MUSTER_DATA_LOSS, "group %.*s is not well formed", (int)item->key_len - 10, item->key + 1);
    arrivals = calloc(head->size + 1, sizeof *arrivals);
    m = arrivals ? view_next(g, head->size) : NULL;
    if (!m) {
        free(arrivals);
        return no_memory();
    }
    m->is_group = true;
    memcpy(m->id, item->key + 1, item->key_len - 10); /* behind the name: NUL, generation */
    for (uint32_t i = 0; i < head->size; i++)
        arrivals[i] = arrival_of(g->seg, item, i);
    if (item->num_refs > head->size)
        heed_proxy(g->seg, (const struct mu_group_member *)(head + 1), head->size, arrival_of(g->seg, item, head->size),
                   arrivals);
    instances_survey(m, (const struct mu_group_member *)(head + 1), arrivals);
    free(arrivals);
    return MUSTER_OK;
}

static enum muster_status view_take(void *arg, const struct mu_item *item)
{
    return item->key[0] == 'B' ? take_barrier(arg, item) : take_group(arg, item);
}

static int by_kind_and_id(const void *a, const void *b)
{
    const struct mu_barrier_view *x = a, *y = b;

    return x->is_group != y->is_group ? x->is_group - y->is_group : strcmp(x->id, y->id);
}

void mu_barrier_view_free(struct mu_barrier_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(views[i].missing);
    free(views);
}

enum muster_status mu_barrier_view_list(struct muster *muster, struct mu_barrier_view **ret_views, size_t *ret_count)
{
    struct view_gathering g = {0};
    struct mu_walk w = {is_shown, view_take, &g, false};
    struct mu_table t;
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    g.seg = muster->seg;
    t = mu_table_cells(muster->seg);
    for (uint32_t i = 0; i <= t.mask && !status; i++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, NULL, i, &w, &info);
    }
    mu_exit_read();
    if (status) {
        mu_barrier_view_free(g.views, g.count);
        return status;
    }
    if (g.count)
        qsort(g.views, g.count, sizeof *g.views, by_kind_and_id);
    *ret_views = g.views;
    *ret_count = g.count;
    return MUSTER_OK;
}
