/*
 * barrier/entry.c: joining a group, and reading which have.
 *
 * A group is one entry of muster's own table, under its name and a generation: its members, which of them are there or
 * have left, and a reference to each member's area, which is allocated and committed together with its coming. A second
 * entry under the name alone is the current generation, by its version, which never comes again: a task that finds that
 * the current one cannot be joined any more (it is complete, spoiled, or has us already) moves it on, by writing it
 * again.
 *
 * An entry that is gone must not be made once more under the same generation: a task that found the old one full is
 * about to move on, and would wait in the next for those that wait in this. So the name's entry ends before the group's
 * does, and a task that has come looks at the name again: if it has gone on meanwhile, the task was late, and follows.
 * Unless all have come: then the others have had this group, and it is ours, too, though they may be at the next
 * already.
 *
 * How it is left, and taken apart, is in reap.c.
 */
#include "barrier/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/generation.h"
#include "barrier/shortcut.h"

enum { ATTACHED, NEXT, REFUSED };

/* A value that may be used as one of `size` members. */
bool mu_group_entry_well_formed(const void *value, size_t len)
{
    struct mu_group_head h;

    if (len < sizeof h)
        return false;
    memcpy(&h, value, sizeof h);
    return len == sizeof h + h.size * sizeof(struct mu_group_member) && h.data_bytes <= MUSTER_GROUP_DATA_MAX;
}

void mu_group_entry_key(struct mu_key *k, const struct muster_segment *seg, const char *name, uint64_t generation)
{
    char bytes[MUSTER_GROUP_NAME_MAX + 16];
    size_t n = (size_t)snprintf(bytes, sizeof bytes, "G%s", name) + 1;

    memcpy(bytes + n, &generation, sizeof generation);
    mu_key_make(k, seg, bytes, n + sizeof generation);
}

bool mu_group_entry_name(const char *key, uint32_t key_len, char name[MUSTER_GROUP_NAME_MAX + 1],
                         uint64_t *ret_generation)
{
    if (key_len < 11 || key_len > MUSTER_GROUP_NAME_MAX + 10 || key[0] != 'G')
        return false;
    memcpy(name, key + 1, key_len - 9);
    memcpy(ret_generation, key + key_len - 8, sizeof *ret_generation);
    return strlen(name) == key_len - 10;
}

/* An area, zeroed. */
static enum muster_status new_area(struct mu_ctx *ctx, uint32_t data_bytes, uint64_t *ret_ref)
{
    size_t bytes = mu_area_bytes(data_bytes);
    struct mu_block *b;
    enum muster_status status = mu_heap_alloc(ctx, bytes, 0, ret_ref, &b);

    if (status)
        return status;
    mu_store_relaxed(&b->meta, MU_META(bytes, 0, MU_TYPE_AREA)); /* relaxed: the commit CAS publishes, as below */
    for (size_t i = 0; i < bytes / 8; i++)
        mu_store_relaxed(&b->body[i], 0);
    return MUSTER_OK;
}

/* ---- coming ------------------------------------------------------------------------------------------------------ */

/* Of the entry that is there: NEXT, REFUSED, or ATTACHED: it would have us, or (with *ret_already) has. */
static int joiner_fits(const struct mu_group_join *c, const struct mu_edit *e, bool *ret_already)
{
    const struct mu_group_head *there = e->old;
    const struct mu_group_member *members = (const struct mu_group_member *)(there + 1);
    const struct mu_group_member *mine = &members[c->rank];

    *ret_already = e->old_len == c->value_len && c->again && c->call && mine->incarnation == c->incarnation &&
                   MU_MEMBER_CALL_OF(mine->flags) == c->call && !(mine->flags & MU_MEMBER_LEFT);
    if (*ret_already)
        return ATTACHED;
    for (uint32_t i = 0; i < there->size; i++) {
        uint32_t flags = members[i].flags;

        /* spoiled: somebody left, or it is being taken apart after its members' deaths */
        if ((flags & MU_MEMBER_LEFT) || ((flags & MU_MEMBER_THERE) && (i >= e->old_refs || !e->refs[i])))
            return NEXT;
    }
    if (e->old_len != c->value_len || there->data_bytes != c->data_bytes)
        return REFUSED;
    for (uint32_t i = 0; i < there->size; i++)
        if (members[i].task != c->members[i].task)
            return REFUSED;
    return mine->flags ? NEXT : ATTACHED;
}

static bool is_last(const struct mu_group_join *c, const struct mu_group_member *members)
{
    for (uint32_t i = 0; i < c->size; i++)
        if (!(members[i].flags & MU_MEMBER_THERE))
            return false;
    return true;
}

static enum mu_verdict joiner_enter(struct mu_edit *e)
{
    struct mu_group_join *c = e->arg;
    struct mu_group_head head = {c->size, c->data_bytes};
    struct mu_group_member *members = mu_group_entry_members(c->value);
    bool already = false;

    e->status = MUSTER_OK;
    if (e->version && !mu_group_entry_well_formed(e->old, e->old_len)) {
        e->status = mu_fail(MUSTER_DATA_LOSS, "group %s is not well formed", c->name);
        return MU_KEEP;
    }
    c->outcome = e->version ? joiner_fits(c, e, &already) : ATTACHED;
    if (c->outcome != ATTACHED || already)
        return MU_KEEP;
    if (e->version) {
        memcpy(c->value, e->old, c->value_len);
    } else {
        memcpy(c->value, &head, sizeof head);
        for (uint32_t i = 0; i < c->size; i++)
            members[i] = (struct mu_group_member){.task = c->members[i].task};
        e->num_refs = c->size + c->spans;
    }
    members[c->rank].flags = MU_MEMBER_THERE | MU_MEMBER_FLAGS_OF(c->call);
    members[c->rank].incarnation = c->incarnation;
    e->value = c->value;
    e->len = c->value_len;
    e->ref_at = (int32_t)c->rank;
    e->quiet = !is_last(c, members); /* the others wait for all */
    return MU_PUT;
}

/* All have come, and while nobody had left: else the last of them would have been refused. */
static bool have_all_come(const struct mu_edit *e, bool *ret_left)
{
    const struct mu_group_head *h = e->old;

    *ret_left = false;
    for (uint32_t i = 0; i < h->size; i++) {
        uint32_t flags = ((const struct mu_group_member *)(h + 1))[i].flags;

        if (!(flags & MU_MEMBER_THERE) || i >= e->old_refs || !e->refs[i])
            return false;
        *ret_left |= (flags & MU_MEMBER_LEFT) != 0;
    }
    return true;
}

/*
 * The group was complete at some moment, if not now: a quick member has it, may have left it, and is perhaps at the
 * next. Where a group spans hosts the proxy says so.
 */
static bool was_complete(const struct mu_group_join *c, const struct mu_edit *e)
{
    bool left;

    return have_all_come(e, &left) && (!left || !c->spans || (e->old_refs > c->size && e->refs[c->size]));
}

static enum mu_verdict joiner_withdraw(struct mu_edit *e)
{
    struct mu_group_join *c = e->arg;

    e->status = MUSTER_OK;
    c->outcome = NEXT;
    if (!e->version || !mu_group_entry_well_formed(e->old, e->old_len) || e->old_len != c->value_len)
        return MU_KEEP;
    if (was_complete(c, e)) {
        c->outcome = ATTACHED;
        return MU_KEEP;
    }
    memcpy(c->value, e->old, c->value_len);
    mu_group_entry_members(c->value)[c->rank].flags |= MU_MEMBER_LEFT;
    e->value = c->value;
    e->len = c->value_len;
    return MU_PUT;
}

/*
 * We are in, but the generation may have been another's already: then nobody else will come, or at most others that
 * were as late. Unless these are all: out again, and on.
 */
static enum muster_status joining_confirm(struct mu_ctx *ctx, struct mu_group_join *c)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_edit e = {.arg = c};
    uint64_t now;
    enum muster_status status = mu_generation_now(ctx, c->name, &now);

    if (status || now == c->generation)
        return status;
    status = mu_table_edit(&t, ctx, &c->key, MU_EDIT_WANTS_OLD, joiner_withdraw, &e, NULL);
    if (!status && c->outcome == NEXT)
        mu_group_entry_reap(ctx, &c->key);
    return status;
}

/* To the current generation, or the next one that will have us. */
enum muster_status mu_group_entry_join(struct mu_ctx *ctx, struct mu_group_join *c)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    enum muster_status status;

    c->value_len = sizeof(struct mu_group_head) + c->size * sizeof *c->members;
    c->value = malloc(c->value_len);
    status = c->value ? mu_generation_begin(ctx, c->name, &c->generation)
                      : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for group %s", c->name);
    while (!status) {
        struct mu_edit e = {.arg = c};

        status = new_area(ctx, c->data_bytes, &e.new_ref);
        if (status)
            break;
        mu_group_entry_key(&c->key, ctx->seg, c->name, c->generation);
        status = mu_table_edit(&t, ctx, &c->key, MU_EDIT_WANTS_OLD, joiner_enter, &e, NULL);
        if (!status && c->outcome == ATTACHED)
            status = joining_confirm(ctx, c);
        if (status || c->outcome == ATTACHED)
            break;
        if (c->outcome == REFUSED) {
            status = mu_fail(MUSTER_INVALID_ARGUMENT,
                             "group %s: another member made it with other tasks, another order or another data size",
                             c->name);
            break;
        }
        status = mu_generation_move_on(ctx, c->name, c->generation);
        if (!status)
            status = mu_generation_begin(ctx, c->name, &c->generation);
    }
    free(c->value);
    c->value = NULL;
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct entry_reading {
    const struct mu_key *key;
    const char *name;
    const struct muster_segment *seg;
    struct mu_group_entry *entry;
};

static bool is_wanted(void *arg, const char *key, uint32_t key_len)
{
    const struct entry_reading *r = arg;

    return key_len == r->key->len && !memcmp(key, r->key->words, key_len);
}

/* The area that a reference names; NULL when it is not sound. */
static struct mu_area *area_at(const struct entry_reading *r, uint64_t ref, uint32_t data_bytes)
{
    uint32_t limit;
    struct mu_block *b = mu_heap_block(r->seg, MU_REF_INDEX(ref), &limit);

    return b && limit >= MU_BLOCK_HEADER + mu_area_bytes(data_bytes) ? (struct mu_area *)b->body : NULL;
}

static enum muster_status entry_survey(void *arg, const struct mu_item *item)
{
    struct entry_reading *r = arg;
    struct mu_group_entry *entry = r->entry;
    const struct mu_group_member *members = mu_group_entry_members((void *)(uintptr_t)item->value);

    if (!mu_group_entry_well_formed(item->value, item->len) ||
        (item->num_refs != entry->size && item->num_refs != entry->size + 1) ||
        item->len != sizeof(struct mu_group_head) + entry->size * sizeof *members)
        return mu_fail(MUSTER_DATA_LOSS, "group %s is not well formed", r->name);
    entry->found = true;
    for (uint32_t i = 0; i < entry->size; i++) {
        entry->members[i] = members[i];
        entry->there += members[i].flags & MU_MEMBER_THERE;
        if (members[i].flags & MU_MEMBER_LEFT)
            entry->left = (int32_t)i;
        if (!(members[i].flags & MU_MEMBER_THERE)) {
            entry->missing = entry->missing < 0 ? (int32_t)i : entry->missing;
            continue;
        }
        entry->areas[i] = area_at(r, item->refs[i], entry->data_bytes);
        if (!entry->areas[i])
            return mu_fail(MUSTER_DATA_LOSS, "group %s has no sound area for member %u", r->name, i);
    }
    if (item->num_refs > entry->size && item->refs[entry->size])
        entry->proxy = area_at(r, item->refs[entry->size], mu_shortcut_room(entry->data_bytes));
    return MUSTER_OK;
}

enum muster_status mu_group_entry_read(struct muster_segment *seg, struct mu_ctx *ctx, const struct mu_key *k,
                                       const char *name, struct mu_group_entry *r)
{
    struct mu_table t = mu_table_cells(seg);
    struct entry_reading reading = {k, name, seg, r};
    struct mu_walk walk = {is_wanted, entry_survey, &reading, false};
    struct mu_bucket_info info;
    enum muster_status status;

    r->proxy = NULL;
    r->there = 0;
    r->left = r->missing = -1;
    r->found = false;
    status = mu_table_walk(&t, ctx, (uint32_t)(mu_table_bucket(&t, k) - t.buckets), &walk, &info);
    r->word = info.word;
    return status;
}

/* A member in error comes first: one that gave up may have done so because of it. */
enum muster_status mu_group_entry_lost(struct muster_segment *seg, const char *group, const struct mu_group_entry *r)
{
    struct mu_task_record t;
    struct mu_cluster cluster;
    char name[MU_NAME_MAX], text[MU_TEXT_MAX];

    for (uint32_t i = 0; i < r->size; i++) {
        bool there = r->members[i].flags & MU_MEMBER_THERE;

        if (mu_cluster_task(seg, r->members[i].task, &t, text, &cluster))
            continue;
        mu_cluster_name(seg, r->members[i].task, &t, name, sizeof name);
        if (there && t.incarnation != r->members[i].incarnation) /* its successor will come to the next generation */
            return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s has replaced the member that came", group,
                           name);
        if (mu_cluster_is_over(&t) && t.state != MUSTER_TASK_ERROR)
            return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s %s", group, name,
                           mu_cluster_end(&t, text));
        if (t.state != MUSTER_TASK_ERROR)
            continue;
        return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s is in error: %s", group, name, text);
    }
    if (r->left < 0 || mu_cluster_task(seg, r->members[r->left].task, &t, NULL, &cluster))
        return MUSTER_OK;
    mu_cluster_name(seg, r->members[r->left].task, &t, name, sizeof name);
    return mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: %s gave up", group, name);
}

/* ---- agents ------------------------------------------------------------------------------------------------------ */

static enum mu_verdict entry_complete(struct mu_edit *e)
{
    const struct mu_group_head *h = e->old;
    bool *ret_complete = e->arg, left;

    e->status = MUSTER_OK;
    *ret_complete = e->version && mu_group_entry_well_formed(e->old, e->old_len) && e->old_refs == h->size + 1 &&
                    have_all_come(e, &left) && (!left || e->refs[h->size]);
    if (!*ret_complete || e->refs[h->size])
        return MU_KEEP;
    e->value = e->old;
    e->len = e->old_len;
    e->ref_at = (int32_t)h->size;
    return MU_PUT;
}

enum muster_status mu_group_entry_complete(struct mu_ctx *ctx, const struct mu_key *k, uint32_t data_bytes,
                                           bool *ret_complete)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_edit e = {.arg = ret_complete};
    enum muster_status status = new_area(ctx, mu_shortcut_room(data_bytes), &e.new_ref);

    *ret_complete = false;
    return status ? status : mu_table_edit(&t, ctx, k, MU_EDIT_WANTS_OLD, entry_complete, &e, NULL);
}

struct entry_making {
    const void *value;
    size_t len;
    uint32_t size;
    bool whole;
};

/* The entry, or its next area. */
static enum mu_verdict entry_make(struct mu_edit *e)
{
    struct entry_making *m = e->arg;

    e->status = MUSTER_OK;
    if (e->version && (e->old_len != m->len || e->old_refs != m->size + 1)) {
        e->status = mu_fail(MUSTER_DATA_LOSS, "a group's entry is not well formed");
        return MU_KEEP;
    }
    e->num_refs = m->size + 1;
    e->value = e->version ? e->old : m->value;
    e->len = m->len;
    if (!e->version) {
        e->ref_at = (int32_t)m->size; /* the proxy first: from now on it is served */
        return MU_PUT;
    }
    for (uint32_t i = 0; i <= m->size; i++)
        if (!e->refs[i]) {
            e->ref_at = (int32_t)i;
            return MU_PUT;
        }
    m->whole = true;
    return MU_KEEP;
}

enum muster_status mu_group_entry_make(struct mu_ctx *ctx, const struct mu_key *k, const struct mu_group_head *head,
                                       const struct mu_group_member *members)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct entry_making m = {.len = sizeof *head + head->size * sizeof *members, .size = head->size};
    uint8_t *value = malloc(m.len);
    bool is_first = true; /* the proxy, but where an agent before this one began: then a member's area is too large */
    enum muster_status status =
        value ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a group of %u", head->size);

    if (status)
        return status;
    memcpy(value, head, sizeof *head);
    memcpy(value + sizeof *head, members, head->size * sizeof *members);
    m.value = value;
    while (!status && !m.whole) {
        struct mu_edit e = {.arg = &m};

        status = new_area(ctx, is_first ? mu_shortcut_room(head->data_bytes) : head->data_bytes, &e.new_ref);
        is_first = false;
        if (!status)
            status = mu_table_edit(&t, ctx, k, MU_EDIT_WANTS_OLD, entry_make, &e, NULL);
    }
    free(value);
    return status;
}
