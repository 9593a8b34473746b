/*
 * barrier/group.c: building and leaving groups.
 *
 * A group is one entry of muster's own table, under its name and a generation: its members, who of them is there or has
 * left, and a reference to each member's area, which the member allocated and committed together with its coming. A
 * second entry under the name alone holds the current generation: whoever finds that the current one cannot be joined
 * any more (it is complete, spoiled, or has us already) moves it on.
 *
 * Areas are written after their publication, so they must outlive every member that may still touch them: they are
 * freed, one edit each, only when every member has left or its process is dead by the kernel's word; then the entry
 * goes. Whoever leaves last does it, or the next to build any group. A SIGKILL in between leaves an entry that the next
 * one finishes.
 */
#include "barrier/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/meeting.h"
#include "base/clock.h"
#include "base/process.h"
#include "segment/file.h"
#include "segment/wait.h"
#include "sync/futex.h"

enum { SPIN_NS = 8000 };

enum outcome { ATTACHED, NEXT, REFUSED };

/* One attempt to come to a group. */
struct coming {
    struct muster_group *g;
    const struct mu_group_head *head; /* what we want it to be */
    size_t value_len;
    uint64_t area;
    uint8_t *value; /* the new value */
    enum outcome outcome;
};

static struct mu_group_member *members_of(void *value)
{
    return (struct mu_group_member *)((uint8_t *)value + sizeof(struct mu_group_head));
}

/* A value that may be used as one of `size` members. */
static bool well_formed(const void *value, size_t len)
{
    struct mu_group_head h;

    if (len < sizeof h)
        return false;
    memcpy(&h, value, sizeof h);
    return len == sizeof h + h.size * sizeof(struct mu_group_member) && h.data_bytes <= MUSTER_GROUP_DATA_MAX;
}

static enum mu_verdict come(struct mu_edit *e)
{
    struct coming *c = e->arg;
    struct muster_group *g = c->g;
    struct mu_group_member *members = members_of(c->value), *mine = &members[g->rank];

    e->status = MUSTER_OK;
    c->outcome = NEXT;
    if (e->version) {
        const struct mu_group_head *there = e->old;

        if (!well_formed(e->old, e->old_len)) {
            e->status = mu_fail(MUSTER_DATA_LOSS, "group %s is not well formed", g->name);
            return MU_KEEP;
        }
        memcpy(c->value, e->old, e->old_len < c->value_len ? e->old_len : c->value_len);
        for (uint32_t i = 0; i < there->size; i++) {
            uint32_t flags = ((const struct mu_group_member *)(there + 1))[i].flags;

            /* spoiled: somebody left, or it is being taken apart after its members' deaths */
            if ((flags & MU_MEMBER_LEFT) || ((flags & MU_MEMBER_THERE) && (i >= e->old_refs || !e->refs[i])))
                return MU_KEEP;
        }
        if (e->old_len != c->value_len || there->data_bytes != c->head->data_bytes) {
            c->outcome = REFUSED;
            return MU_KEEP;
        }
        for (uint32_t i = 0; i < there->size; i++)
            if (members[i].task != g->members[i].task) {
                c->outcome = REFUSED;
                return MU_KEEP;
            }
        if (mine->flags)
            return MU_KEEP;
    } else {
        memcpy(c->value, c->head, sizeof *c->head);
        memcpy(members, g->members, g->size * sizeof *members);
        e->num_refs = g->size;
    }
    mine->flags = MU_MEMBER_THERE;
    mine->incarnation = g->muster->incarnation;
    e->value = c->value;
    e->len = c->value_len;
    e->ref_at = (int32_t)g->rank;
    c->outcome = ATTACHED;
    return MU_PUT;
}

static void entry_key(struct mu_key *k, const struct muster_segment *seg, const char *name, uint64_t generation)
{
    char bytes[MUSTER_GROUP_NAME_MAX + 16];
    size_t n = (size_t)snprintf(bytes, sizeof bytes, "G%s", name) + 1;

    memcpy(bytes + n, &generation, sizeof generation);
    mu_key_make(k, seg, bytes, n + sizeof generation);
}

static void name_key(struct mu_key *k, const struct muster_segment *seg, const char *name)
{
    char bytes[MUSTER_GROUP_NAME_MAX + 2];
    int n = snprintf(bytes, sizeof bytes, "N%s", name);

    mu_key_make(k, seg, bytes, (size_t)n);
}

struct turn {
    uint64_t from, to;
};

static enum mu_verdict move_on(struct mu_edit *e)
{
    struct turn *t = e->arg;
    uint64_t now = 0;

    e->status = MUSTER_OK;
    if (e->version && e->old_len == sizeof now)
        memcpy(&now, e->old, sizeof now);
    if (now != t->from)
        return MU_KEEP;
    t->to = now + 1;
    e->value = &t->to;
    e->len = sizeof t->to;
    return MU_PUT;
}

static enum muster_status current_generation(struct muster_segment *seg, struct mu_ctx *ctx, const char *name,
                                             uint64_t *ret_generation)
{
    struct mu_table t = mu_table_cells(seg);
    struct mu_found f;
    struct mu_key k;
    enum muster_status status;

    *ret_generation = 0;
    name_key(&k, seg, name);
    status = mu_table_get(&t, ctx, &k, ret_generation, sizeof *ret_generation, &f);
    if (!status && !f.version)
        *ret_generation = 0;
    return status;
}

/* An area of our own, zeroed. */
static enum muster_status new_area(struct mu_ctx *ctx, uint32_t data_bytes, uint64_t *ret_ref)
{
    size_t bytes = sizeof(struct mu_area) + 2 * ((data_bytes + 7) / 8) * 8;
    struct mu_block *b;
    enum muster_status status = mu_heap_alloc(ctx, bytes, 0, ret_ref, &b);

    if (status)
        return status;
    mu_store_relaxed(&b->meta, MU_META(bytes, 0, MU_TYPE_AREA)); /* relaxed: the commit CAS publishes, as below */
    for (size_t i = 0; i < bytes / 8; i++)
        mu_store_relaxed(&b->body[i], 0);
    return MUSTER_OK;
}

/* Is the member's process gone for good, so that it cannot touch an area any more? */
static bool is_gone(const struct muster_segment *seg, const struct mu_group_member *m)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (!(m->flags & MU_MEMBER_THERE) || (m->flags & MU_MEMBER_LEFT))
        return true;
    if (m->task >= seg->num_tasks || mu_cluster_task(seg, m->task, &r, NULL, &cluster))
        return false;
    return r.incarnation != m->incarnation || !mu_cluster_alive(seg, m->task, &r);
}

/* Free one area of a group that everybody has left, or the entry when none is left. */
static enum mu_verdict dismantle(struct mu_edit *e)
{
    const struct mu_group_head *h = e->old;
    const struct muster_segment *seg = e->arg;

    e->status = MUSTER_OK;
    if (!e->version || !well_formed(e->old, e->old_len))
        return MU_KEEP;
    for (uint32_t i = 0; i < h->size; i++)
        if (!is_gone(seg, &((const struct mu_group_member *)(h + 1))[i]))
            return MU_KEEP;
    e->status = MUSTER_UNKNOWN; /* more to do */
    for (uint32_t i = 0; i < e->old_refs; i++)
        if (e->refs[i]) {
            e->value = e->old;
            e->len = e->old_len;
            e->ref_at = (int32_t)i;
            return MU_PUT;
        }
    e->status = MUSTER_OK;
    return MU_DELETE;
}

static void reap(struct muster_segment *seg, struct mu_ctx *ctx, const struct mu_key *k)
{
    struct mu_table t = mu_table_cells(seg);
    struct mu_edit e;
    enum muster_status status;

    do {
        e = (struct mu_edit){.arg = seg};
        status = mu_table_edit(&t, ctx, k, MU_EDIT_WANTS_OLD, dismantle, &e, NULL);
    } while (!status && e.status == MUSTER_UNKNOWN);
}

struct reaping {
    struct muster_segment *seg;
    struct mu_key *keys;
    uint32_t count;
};
enum { REAP_BATCH = 8 };

static bool is_group(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len > 9 && key[0] == 'G';
}

static enum muster_status note_group(void *arg, const struct mu_item *item)
{
    struct reaping *r = arg;
    const struct mu_group_head *h = item->value;
    bool gone = well_formed(item->value, item->len);

    for (uint32_t i = 0; gone && i < h->size; i++)
        gone = is_gone(r->seg, &((const struct mu_group_member *)(h + 1))[i]);
    if (gone && r->count < REAP_BATCH)
        mu_key_make(&r->keys[r->count++], r->seg, item->key, item->key_len);
    return MUSTER_OK;
}

/* Groups whose members are all gone, whatever their name: a few at each building of a group. */
static void reap_all(struct muster_segment *seg, struct mu_ctx *ctx)
{
    struct mu_table t = mu_table_cells(seg);
    struct reaping r = {seg, malloc(REAP_BATCH * sizeof *r.keys), 0};
    struct mu_walk w = {is_group, note_group, &r, false};
    enum muster_status status = r.keys ? MUSTER_OK : MUSTER_RESOURCE_EXHAUSTED;

    for (uint32_t i = 0; i <= t.mask && !status && r.count < REAP_BATCH; i++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, ctx, i, &w, &info);
    }
    for (uint32_t i = 0; i < r.count; i++)
        reap(seg, ctx, &r.keys[i]);
    free(r.keys);
}

static enum mu_verdict go(struct mu_edit *e)
{
    struct coming *c = e->arg;

    e->status = MUSTER_OK;
    if (!e->version || e->old_len != c->value_len || !well_formed(e->old, e->old_len))
        return MU_KEEP;
    memcpy(c->value, e->old, c->value_len);
    members_of(c->value)[c->g->rank].flags |= MU_MEMBER_LEFT;
    e->value = c->value;
    e->len = c->value_len;
    return MU_PUT;
}

/* Close our own line, so that nobody waits for us; say that we left; take the group apart if we were the last. */
static void leave(struct muster_group *g, struct mu_ctx *ctx)
{
    struct muster_segment *seg = g->muster->seg;
    struct mu_table t = mu_table_cells(seg);
    struct coming c = {.g = g, .value_len = sizeof(struct mu_group_head) + g->size * sizeof *g->members};
    struct mu_edit e = {.arg = &c};
    uint64_t w = mu_load_acquire(&g->mine->arrived); /* acquire: pairs with closers */

    while (!(w & MU_ARRIVED_CLOSED)) {
        uint64_t next = MU_ARRIVED(MU_ARRIVED_INSTANCE(w) + 1) | MU_ARRIVED_CLOSED;

        if (mu_cas_seen(&g->mine->arrived, &w, next)) { /* pairs with the members' looks in collective.c */
            if (w & MU_ARRIVED_S)
                mu_futex_wake(&g->mine->arrived);
            break;
        }
    }
    c.value = malloc(c.value_len);
    if (c.value && !mu_table_edit(&t, ctx, &g->key, MU_EDIT_WANTS_OLD, go, &e, NULL))
        reap(seg, ctx, &g->key);
    free(c.value);
}

/* Come to the current generation, or the next one that will have us. */
static enum muster_status attach(struct muster_group *g, struct mu_ctx *ctx, const struct mu_group_head *head)
{
    struct muster_segment *seg = g->muster->seg;
    struct mu_table t = mu_table_cells(seg);
    struct coming c = {.g = g, .head = head};
    enum muster_status status;

    c.value_len = sizeof *head + g->size * sizeof *g->members;
    c.value = malloc(c.value_len);
    status = c.value ? current_generation(seg, ctx, g->name, &g->generation)
                     : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for group %s", g->name);
    while (!status) {
        struct mu_edit e = {.arg = &c};
        struct turn turn = {g->generation, 0};
        struct mu_key name;

        status = new_area(ctx, head->data_bytes, &e.new_ref);
        if (status)
            break;
        entry_key(&g->key, seg, g->name, g->generation);
        status = mu_table_edit(&t, ctx, &g->key, MU_EDIT_WANTS_OLD, come, &e, NULL);
        if (status || c.outcome == ATTACHED)
            break;
        if (c.outcome == REFUSED) {
            status = mu_fail(MUSTER_INVALID_ARGUMENT,
                             "group %s: another member made it with other tasks, another order or another data size",
                             g->name);
            break;
        }
        e = (struct mu_edit){.arg = &turn};
        name_key(&name, seg, g->name);
        status = mu_table_edit(&t, ctx, &name, MU_EDIT_WANTS_OLD, move_on, &e, NULL);
        if (!status)
            status = current_generation(seg, ctx, g->name, &g->generation);
    }
    free(c.value);
    return status;
}

/* What the entry says now: who is there. Fills members and areas. */
struct roll {
    struct muster_group *g;
    uint32_t there;
    int32_t left;    /* a member that has left, or -1 */
    int32_t missing; /* the first that is not there, or -1 */
    bool corrupt;
};

static bool is_ours(void *arg, const char *key, uint32_t key_len)
{
    const struct roll *r = arg;

    return key_len == r->g->key.len && !memcmp(key, r->g->key.words, key_len);
}

static enum muster_status call_roll(void *arg, const struct mu_item *item)
{
    struct roll *r = arg;
    struct muster_group *g = r->g;
    const struct mu_group_member *members = members_of((void *)(uintptr_t)item->value);

    if (!well_formed(item->value, item->len) || item->num_refs != g->size ||
        item->len != sizeof(struct mu_group_head) + g->size * sizeof *members)
        return mu_fail(MUSTER_DATA_LOSS, "group %s is not well formed", g->name);
    for (uint32_t i = 0; i < g->size; i++) {
        uint32_t limit;
        struct mu_block *b = mu_heap_block(g->muster->seg, MU_REF_INDEX(item->refs[i]), &limit);

        g->members[i] = members[i];
        r->there += members[i].flags & MU_MEMBER_THERE;
        if (members[i].flags & MU_MEMBER_LEFT)
            r->left = (int32_t)i;
        if (!(members[i].flags & MU_MEMBER_THERE)) {
            r->missing = r->missing < 0 ? (int32_t)i : r->missing;
            continue;
        }
        if (!b || limit < MU_BLOCK_HEADER + sizeof(struct mu_area) + 2 * ((g->data_bytes + 7) / 8) * 8)
            return mu_fail(MUSTER_DATA_LOSS, "group %s has no sound area for member %u", g->name, i);
        g->areas[i] = (struct mu_area *)b->body;
    }
    return MUSTER_OK;
}

/* A member in error comes first: who gave up may have done so because of it. The roll was read before the records. */
static enum muster_status lost_member(struct muster_group *g, const struct roll *r)
{
    struct muster_segment *seg = g->muster->seg;
    struct mu_task_record t;
    struct mu_cluster cluster;
    char name[128], text[MU_TEXT_MAX];

    for (uint32_t i = 0; i < g->size; i++) {
        bool there = g->members[i].flags & MU_MEMBER_THERE;

        if (mu_cluster_task(seg, g->members[i].task, &t, text, &cluster))
            continue;
        mu_cluster_name(seg, g->members[i].task, &t, name, sizeof name);
        if (there && t.incarnation != g->members[i].incarnation) /* its successor will come to the next generation */
            return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s has replaced the member that came",
                           g->name, name);
        if (t.state != MUSTER_TASK_ERROR)
            continue;
        return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s is in error: %s", g->name, name, text);
    }
    if (r->left < 0 || mu_cluster_task(seg, g->members[r->left].task, &t, NULL, &cluster))
        return MUSTER_OK;
    mu_cluster_name(seg, g->members[r->left].task, &t, name, sizeof name);
    return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s gave up", g->name, name);
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
        struct roll r = {.g = g, .left = -1, .missing = -1};
        struct mu_walk walk = {is_ours, call_roll, &r, false};
        struct mu_bucket_info info;

        mu_wait_look(&w);
        status = mu_table_walk(&t, ctx, (uint32_t)(bucket - t.buckets), &walk, &info);
        if (!status && r.there == g->size && r.left < 0)
            break;
        if (!status)
            status = lost_member(g, &r);
        if (!status)
            status = mu_wait_on(&w, bucket, info.word);
        if (status == MUSTER_DEADLINE_EXCEEDED && r.missing >= 0)
            status = mu_fail(status, "group %s: %u of %u members came before the deadline; task %u is missing", g->name,
                             r.there, g->size, g->members[r.missing].task);
        if (status)
            break;
    }
    mu_wait_end(&w);
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

static void done(struct muster_group *g)
{
    free(g->members);
    free(g->areas);
    free(g);
}

enum muster_status muster_group_create(struct muster *muster, const char *name, const int32_t *task_ids, size_t count,
                                       size_t data_bytes, muster_deadline deadline, struct muster_group **ret_group)
{
    struct mu_group_head head = {0};
    struct muster_group *g;
    struct mu_ctx *ctx;
    enum muster_status status;

    if (!name || !*name || strlen(name) > MUSTER_GROUP_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a group's name is 1 to %u bytes long", MUSTER_GROUP_NAME_MAX);
    if (data_bytes > MUSTER_GROUP_DATA_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu bytes a member; %u is the most", data_bytes,
                       MUSTER_GROUP_DATA_MAX);
    status = mu_enter(muster, &ctx);
    if (status)
        return status;
    head.size = (uint32_t)(count ? count : muster->seg->num_tasks);
    head.data_bytes = (uint32_t)(data_bytes ? data_bytes : 256);
    g = calloc(1, sizeof *g);
    if (g && count <= MUSTER_GROUP_SIZE_MAX && head.size <= MUSTER_GROUP_SIZE_MAX) {
        g->members = calloc(head.size, sizeof *g->members);
        g->areas = calloc(head.size, sizeof *g->areas);
    }
    if (!g || !g->members || !g->areas) {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: %zu members are too many, or there is no memory", name,
                         count);
        mu_exit(ctx);
        if (g)
            done(g);
        return status;
    }
    g->muster = muster;
    g->size = head.size;
    g->data_bytes = head.data_bytes;
    g->traced = muster->seg->trace != NULL;
    g->spins = g->size <= mu_processors() ? mu_wait_pauses(SPIN_NS) : 0;
    snprintf(g->name, sizeof g->name, "%s", name);
    snprintf(g->what, sizeof g->what, MU_GROUP_WAITS, MUSTER_GROUP_NAME_MAX, name);
    status = take_members(g, count ? task_ids : NULL);
    if (!status) {
        reap_all(muster->seg, ctx);
        status = attach(g, ctx, &head);
    }
    if (!status) {
        status = wait_for_all(g, ctx, deadline);
        g->mine = g->areas[g->rank];
        if (status && g->mine)
            leave(g, ctx);
    }
    mu_exit(ctx);
    if (status)
        done(g);
    else
        *ret_group = g;
    return status;
}

void muster_group_free(struct muster_group *group)
{
    struct mu_ctx *ctx;

    if (!group)
        return;
    if (!mu_enter_read(group->muster)) { /* after leaving the job, or in a forked child, only our copy goes */
        if (mu_segment_is_whole(group->muster->seg) && !mu_handle_context(group->muster, &ctx))
            leave(group, ctx);
        mu_exit_read();
    }
    done(group);
}

uint32_t muster_group_rank(const struct muster_group *group)
{
    return group->rank;
}

uint32_t muster_group_size(const struct muster_group *group)
{
    return group->size;
}
