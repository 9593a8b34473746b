/*
 * barrier/group.c: building and leaving groups: what a member does. What the group's entry says, and how it changes, is
 * in entry.c; what is different when members are on other hosts, in span.c.
 */
#include "barrier/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/view.h"
#include "segment/file.h"
#include "segment/members.h"
#include "segment/wait.h"
#include "sync/futex.h"

/* Within a host; and where an answer comes over the network, by an agent that perhaps sleeps. */
enum { SPIN_NS = 8000, SPAN_SPIN_NS = 50000, YIELD_NS = 300 };

static bool is_rank(void *arg, uint32_t rank, const struct mu_group_member *m)
{
    (void)m;
    return rank == *(const uint32_t *)arg;
}

/* Close our own line, so that nobody waits for us; say that we left; take the group apart if we were the last. */
static void group_leave(struct muster_group *g, struct mu_ctx *ctx)
{
    uint64_t w = mu_load_acquire(&g->mine->arrived); /* acquire: pairs with closers */

    while (!(w & MU_ARRIVED_CLOSED)) {
        uint64_t next = MU_ARRIVED(MU_ARRIVED_INSTANCE(w) + 1) | MU_ARRIVED_CLOSED;

        if (mu_cas_seen(&g->mine->arrived, &w, next)) { /* pairs with the members' looks in collective.c */
            if (w & MU_ARRIVED_S)
                mu_futex_wake(&g->mine->arrived);
            w = next;
        }
    }
    if (g->spans && g->proxy)
        mu_span_wish(g, MU_ARRIVED_INSTANCE(w), 0);
    if (!mu_group_entry_leave(ctx, &g->key, is_rank, &g->rank))
        mu_group_entry_reap(ctx, &g->key);
    mu_bell_ring(ctx->seg);
}

/* Come to the current generation, or the next one that will have us. */
static enum muster_status group_attach(struct muster_group *g, struct mu_ctx *ctx)
{
    struct mu_group_join c = {.name = g->name,
                              .members = g->members,
                              .size = g->size,
                              .data_bytes = g->data_bytes,
                              .rank = g->rank,
                              .spans = g->spans,
                              .incarnation = g->muster->incarnation};
    enum muster_status status = mu_group_entry_join(ctx, &c);

    g->generation = c.generation;
    g->key = c.key;
    if (!status && g->spans)
        mu_bell_ring(ctx->seg);
    return status;
}

/* All of them have it: a member that has left since had it, too. */
static bool is_whole(const struct muster_group *g, const struct mu_group_entry *r)
{
    return r->there == g->size && (!g->spans || r->proxy);
}

/*
 * What the entry says, and whether anything speaks against it. The records are looked at again only when the epoch has
 * moved since the last look that found nothing, as every change of a task's record moves it; or when more have come:
 * one may be of an incarnation that is over.
 */
static enum muster_status group_entry_look(struct muster_group *g, struct mu_ctx *ctx, struct mu_group_entry *r,
                                           uint32_t epoch)
{
    enum muster_status status = mu_group_entry_read(g->muster->seg, ctx, &g->key, g->name, r);

    g->proxy = r->proxy;
    if (status || is_whole(g, r) || (g->looked && g->epoch == epoch && g->there == r->there && r->left < 0))
        return status;
    if (mu_group_is_past(g)) {
        char past[MU_LIST_MAX];

        return mu_fail(MUSTER_UNAVAILABLE, "group %s is not built: %s", g->name, mu_group_say_past(g, past));
    }
    status = mu_group_entry_lost(g->muster->seg, g->name, r);
    g->looked = !status;
    g->epoch = epoch;
    g->there = r->there;
    return status;
}

static bool is_absent(void *arg, uint32_t task)
{
    const struct muster_group *g = arg;

    for (uint32_t i = 0; i < g->size; i++)
        if (g->members[i].task == task)
            return !(g->members[i].flags & MU_MEMBER_THERE);
    return false;
}

/* The deadline is over: a last look, for only the last to come wakes anybody. */
static enum muster_status group_late_look(struct muster_group *g, struct mu_ctx *ctx, struct mu_group_entry *r,
                                          uint32_t epoch)
{
    char text[MU_LIST_MAX];
    enum muster_status status = group_entry_look(g, ctx, r, epoch);

    if (status || is_whole(g, r))
        return status;
    if (r->missing < 0)
        return MUSTER_DEADLINE_EXCEEDED;
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "group %s: %u of %u members came before the deadline; not there: %s",
                   g->name, r->there, g->size, mu_cluster_list(g->muster->seg, is_absent, g, text));
}

static enum muster_status wait_for_all(struct muster_group *g, struct mu_ctx *ctx, muster_deadline deadline)
{
    struct muster_segment *seg = g->muster->seg;
    struct mu_table t = mu_table_cells(seg);
    mu_a64 *bucket = mu_table_bucket(&t, &g->key);
    struct mu_wait w;
    char what[96];
    enum muster_status status;

    snprintf(what, sizeof what, MU_GROUP_BUILDS, g->name);
    mu_wait_begin(&w, seg, ctx, deadline, what);
    w.kind = MU_WAIT_BARRIER;
    for (;;) {
        struct mu_group_entry r = {
            .size = g->size, .data_bytes = g->data_bytes, .members = g->members, .areas = g->areas};

        mu_wait_look(&w);
        status = group_entry_look(g, ctx, &r, w.epoch);
        if (status || is_whole(g, &r))
            break;
        status = mu_wait_on(&w, bucket, r.word);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            status = group_late_look(g, ctx, &r, w.epoch);
        if (status)
            break;
    }
    mu_wait_end(&w);
    g->looked = false; /* what is lost to a group that is built is more: see collective.c */
    return status;
}

static enum muster_status take_members(struct muster_group *g, const int32_t *task_ids)
{
    struct muster_segment *seg = g->muster->seg;

    g->rank = g->size;
    for (uint32_t i = 0; i < g->size; i++) {
        int32_t task = task_ids ? task_ids[i] : (int32_t)i;

        if (task < 0 || (uint32_t)task >= seg->num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: there is no task %d in job %s", g->name, task, seg->job);
        for (uint32_t k = 0; task_ids && k < i; k++)
            if (g->members[k].task == (uint32_t)task)
                return mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: task %d is named twice", g->name, task);
        g->members[i].task = (uint32_t)task;
        if (task == g->muster->task_id)
            g->rank = i;
    }
    if (g->rank == g->size)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: the caller (task %d) is not a member", g->name,
                       g->muster->task_id);
    return MUSTER_OK;
}

static void group_done(struct muster_group *g)
{
    mu_shortcut_end(g);
    if (g->waits != g->areas)
        free(g->waits);
    free(g->members);
    free(g->areas);
    free(g);
}

/* Pauses before it sleeps. The proxy has no processor of its own: its agent yields, too, so a member that has one may
 * share it with the agent, and each has it when the other waits. */
static uint32_t spins_of(const struct muster_group *g)
{
    uint32_t members = g->spans ? g->num_waits - 1 : g->num_waits;

    if (members > mu_wait_processors(g->muster->seg, members))
        return 0;
    return mu_wait_pauses(g->spans ? SPAN_SPIN_NS : SPIN_NS);
}

/* Meet the others. */
static enum muster_status group_build(struct muster_group *g, struct mu_ctx *ctx, muster_deadline deadline)
{
    enum muster_status status;

    mu_span_look(g);
    g->is_plain = !g->traced && !g->spans;
    mu_group_entry_reap_some(ctx);
    status = g->follows ? mu_span_open(g, ctx, deadline) : group_attach(g, ctx);
    if (status)
        return status;
    if (!g->follows)
        status = wait_for_all(g, ctx, deadline);
    g->mine = g->areas[g->rank];
    if (!status && !mu_span_waits(g))
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for group %s", g->name);
    if (status && g->mine)
        group_leave(g, ctx);
    else if (!status)
        mu_shortcut_begin(g);
    g->turn = mu_wait_pauses(YIELD_NS);
    g->spins = spins_of(g);
    g->patience = g->spins || g->spans ? 0 : mu_wait_pauses(SPIN_NS);
    return status;
}

/* A group's place to be filled: of `size` members. */
static enum muster_status group_new(struct muster *muster, const char *name, uint32_t size, size_t data_bytes,
                                    struct muster_group **ret_group)
{
    struct muster_group *g = calloc(1, sizeof *g);

    if (g && size <= MUSTER_GROUP_SIZE_MAX) {
        g->members = calloc(size, sizeof *g->members);
        g->areas = calloc(size, sizeof *g->areas);
    }
    if (!g || !g->members || !g->areas) {
        if (g)
            group_done(g);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: %u members are too many, or there is no memory", name,
                       size);
    }
    g->muster = muster;
    g->size = size;
    g->data_bytes = (uint32_t)(data_bytes ? data_bytes : 256);
    g->traced = muster->seg->trace != NULL;
    snprintf(g->name, sizeof g->name, "%s", name);
    snprintf(g->what, sizeof g->what, MU_GROUP_WAITS, MUSTER_GROUP_NAME_MAX, name);
    *ret_group = g;
    return MUSTER_OK;
}

static enum muster_status check_create(const char *name, size_t data_bytes)
{
    if (!name || !*name || strlen(name) > MUSTER_GROUP_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a group's name is 1 to %u bytes long", MUSTER_GROUP_NAME_MAX);
    if (data_bytes > MUSTER_GROUP_DATA_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu bytes a member; %u is the most", data_bytes,
                       MUSTER_GROUP_DATA_MAX);
    return MUSTER_OK;
}

enum muster_status muster_group_create(struct muster *muster, const char *name, const int32_t *task_ids, size_t count,
                                       size_t data_bytes, muster_deadline deadline, struct muster_group **ret_group)
{
    struct muster_group *g = NULL;
    struct mu_ctx *ctx;
    enum muster_status status = check_create(name, data_bytes);

    if (status)
        return status;
    status = mu_enter(muster, &ctx);
    if (status)
        return status;
    if (!count) {
        task_ids = NULL;
        count = muster->seg->num_tasks;
    }
    status = group_new(muster, name, count > UINT32_MAX ? UINT32_MAX : (uint32_t)count, data_bytes, &g);
    if (!status)
        status = take_members(g, task_ids);
    if (!status)
        status = group_build(g, ctx, deadline);
    mu_exit(ctx);
    if (!status)
        *ret_group = g;
    else if (g)
        group_done(g);
    return status;
}

/* The members of the epoch, in the order of their roles and ranks; at most `count`. */
static enum muster_status epoch_members(struct muster_segment *seg, uint64_t epoch, int32_t *task_ids, uint32_t *count)
{
    struct mu_membership_copy c;
    enum muster_status status = mu_membership_read(seg, &c);
    uint32_t n = 0;

    if (!status && c.head.epoch != epoch)
        status = mu_fail(MUSTER_UNAVAILABLE, "the job is in epoch %llu, not %llu%s%s", (unsigned long long)c.head.epoch,
                         (unsigned long long)epoch, c.head.text[0] ? ": " : "", c.head.text);
    for (uint32_t role = 0; !status && role < MU_ROLES_MAX; role++) {
        uint32_t first = n;

        for (uint32_t i = 0; i < c.head.count; i++) {
            const struct mu_member_row *row = &c.rows[i];

            if (!(row->flags & MU_IS_MEMBER) || row->role != role)
                continue;
            if (first + row->rank < *count)
                task_ids[first + row->rank] = (int32_t)i;
            n++;
        }
    }
    *count = n;
    mu_membership_done(&c);
    return status;
}

enum muster_status muster_group_of_epoch(struct muster *muster, const struct muster_membership *now, const char *name,
                                         size_t data_bytes, muster_deadline deadline, struct muster_group **ret_group)
{
    char named[MUSTER_GROUP_NAME_MAX + 32];
    int32_t task_ids[MUSTER_GROUP_SIZE_MAX];
    uint32_t count = MUSTER_GROUP_SIZE_MAX;
    struct muster_group *g = NULL;
    struct mu_ctx *ctx;
    enum muster_status status;

    snprintf(named, sizeof named, "%.255s@%llu", name ? name : "", (unsigned long long)now->epoch);
    status = check_create(name && *name ? named : name, data_bytes);
    if (status)
        return status;
    status = mu_enter(muster, &ctx);
    if (status)
        return status;
    for (uint32_t i = 0; i < MUSTER_GROUP_SIZE_MAX; i++)
        task_ids[i] = -1; /* a place that two ranks of a damaged membership leave empty is no task */
    status = epoch_members(muster->seg, now->epoch, task_ids, &count);
    if (!status)
        status = group_new(muster, named, count, data_bytes, &g);
    if (!status)
        status = take_members(g, task_ids);
    if (!status) {
        g->members_epoch = now->epoch;
        status = group_build(g, ctx, deadline);
    }
    mu_exit(ctx);
    if (!status)
        *ret_group = g;
    else if (g)
        group_done(g);
    return status;
}

void muster_group_free(struct muster_group *group)
{
    struct mu_ctx *ctx;

    if (!group)
        return;
    if (!mu_enter_handle(group->muster)) { /* after leaving the job, or in a forked child, only our copy goes */
        if (mu_segment_is_whole(group->muster->seg) && !mu_handle_context(group->muster, &ctx))
            group_leave(group, ctx);
        mu_exit_read();
    }
    group_done(group);
}

uint32_t muster_group_rank(const struct muster_group *group)
{
    return group->rank;
}

uint32_t muster_group_size(const struct muster_group *group)
{
    return group->size;
}
