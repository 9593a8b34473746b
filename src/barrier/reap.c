/*
 * barrier/reap.c: leaving a group, and taking it apart.
 *
 * Areas are written after their publication, so they must outlive every member that may still touch them: they are
 * freed, one edit each, only when every member has left or its process is dead by the kernel's word; then the entry
 * goes. The last to leave does it, or the next to build any group. A SIGKILL in between leaves an entry that the next
 * one finishes.
 */
#include <stdlib.h>
#include <string.h>

#include "barrier/generation.h"
#include "barrier/entry.h"

struct leaving {
    bool (*who)(void *arg, uint32_t rank, const struct mu_group_member *m);
    void *arg;
    uint8_t *value;
};

static enum mu_verdict member_reap(struct mu_edit *e)
{
    struct leaving *l = e->arg;
    struct mu_group_member *members;
    uint32_t size;
    bool any = false;
    uint8_t *more;

    e->status = MUSTER_OK;
    if (!e->version || !mu_group_entry_well_formed(e->old, e->old_len))
        return MU_KEEP;
    more = realloc(l->value, e->old_len);
    if (!more) {
        e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to leave a group");
        return MU_KEEP;
    }
    l->value = more;
    memcpy(l->value, e->old, e->old_len);
    size = ((const struct mu_group_head *)e->old)->size;
    members = mu_group_entry_members(l->value);
    for (uint32_t i = 0; i < size; i++)
        if (!(members[i].flags & MU_MEMBER_LEFT) && l->who(l->arg, i, &members[i])) {
            members[i].flags |= MU_MEMBER_LEFT;
            any = true;
        }
    e->value = l->value;
    e->len = e->old_len;
    return any ? MU_PUT : MU_KEEP;
}

enum muster_status mu_group_entry_leave(struct mu_ctx *ctx, const struct mu_key *k,
                                        bool (*who)(void *arg, uint32_t rank, const struct mu_group_member *m),
                                        void *arg)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct leaving l = {who, arg, NULL};
    struct mu_edit e = {.arg = &l};
    enum muster_status status = mu_table_edit(&t, ctx, k, MU_EDIT_WANTS_OLD, member_reap, &e, NULL);

    free(l.value);
    return status;
}

bool mu_group_entry_is_gone(const struct muster_segment *seg, const struct mu_group_member *m, bool served)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (!(m->flags & MU_MEMBER_THERE) || (m->flags & MU_MEMBER_LEFT))
        return true;
    if (served && !mu_is_local_task(seg, m->task)) /* its area is written by the agent, which says when it is not */
        return false;
    if (m->task >= seg->num_tasks || mu_cluster_task(seg, m->task, &r, NULL, &cluster))
        return false;
    return r.incarnation != m->incarnation || !mu_cluster_alive(seg, m->task, &r);
}

/* Whether the agent has its part in it: the entry has a proxy. */
static bool is_served(const struct mu_group_head *h, const uint64_t *refs, uint32_t num_refs)
{
    return num_refs > h->size && refs[h->size];
}

static bool all_are_gone(const struct muster_segment *seg, const void *value, const uint64_t *refs, uint32_t num_refs)
{
    const struct mu_group_head *h = value;
    bool served = is_served(h, refs, num_refs);

    for (uint32_t i = 0; i < h->size; i++)
        if (!mu_group_entry_is_gone(seg, &((const struct mu_group_member *)(h + 1))[i], served))
            return false;
    return true;
}

struct dismantling {
    const struct muster_segment *seg;
    bool is_ended; /* the name is not at this generation any more */
};

/* Free one area of a group that everybody has left, or the entry when none is left. */
static enum mu_verdict area_dismantle(struct mu_edit *e)
{
    const struct dismantling *d = e->arg;

    e->status = MUSTER_OK;
    if (!e->version || !mu_group_entry_well_formed(e->old, e->old_len) ||
        !all_are_gone(d->seg, e->old, e->refs, e->old_refs))
        return MU_KEEP;
    e->status = MUSTER_UNKNOWN; /* more to do */
    for (uint32_t i = 0; i < e->old_refs; i++)
        if (e->refs[i]) {
            e->value = e->old;
            e->len = e->old_len;
            e->ref_at = (int32_t)i;
            return MU_PUT;
        }
    if (!d->is_ended) {
        e->status = MUSTER_ABORTED;
        return MU_KEEP;
    }
    e->status = MUSTER_OK;
    return MU_DELETE;
}

/* Nobody finds it by its name from now on. */
static enum muster_status end_generation(struct mu_ctx *ctx, const struct mu_key *k)
{
    char name[MUSTER_GROUP_NAME_MAX + 1];
    uint64_t generation;

    if (!mu_group_entry_name((const char *)k->words, k->len, name, &generation))
        return MUSTER_OK;
    return mu_generation_end(ctx, name, generation);
}

void mu_group_entry_reap(struct mu_ctx *ctx, const struct mu_key *k)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct dismantling d = {.seg = ctx->seg};
    struct mu_edit e;
    enum muster_status status;

    do {
        e = (struct mu_edit){.arg = &d};
        status = mu_table_edit(&t, ctx, k, MU_EDIT_WANTS_OLD, area_dismantle, &e, NULL);
        if (status == MUSTER_ABORTED && !d.is_ended) {
            status = end_generation(ctx, k);
            d.is_ended = true;
            e.status = MUSTER_UNKNOWN;
        }
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

    if (mu_group_entry_well_formed(item->value, item->len) &&
        all_are_gone(r->seg, item->value, item->refs, item->num_refs) && r->count < REAP_BATCH)
        mu_key_make(&r->keys[r->count++], r->seg, item->key, item->key_len);
    return MUSTER_OK;
}

void mu_group_entry_reap_some(struct mu_ctx *ctx)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct reaping r = {ctx->seg, malloc(REAP_BATCH * sizeof *r.keys), 0};
    struct mu_walk w = {is_group, note_group, &r, false};
    enum muster_status status = r.keys ? MUSTER_OK : MUSTER_RESOURCE_EXHAUSTED;

    for (uint32_t i = 0; i <= t.mask && !status && r.count < REAP_BATCH; i++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, ctx, i, &w, &info);
    }
    for (uint32_t i = 0; i < r.count; i++)
        mu_group_entry_reap(ctx, &r.keys[i]);
    free(r.keys);
}
