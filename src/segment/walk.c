/*
 * segment/walk.c: every entry of a bucket, from one consistent copy of its page.
 *
 * Values outside the page are fetched one by one, each checked by its own block; when one has gone, the bucket has
 * changed and the walk of this bucket starts again. What the visitor was told before must then be forgotten: it is only
 * called once the whole bucket is in hand.
 */
#include "segment/table.h"

#include <stdlib.h>
#include <string.h>

#include "segment/entry.h"

/* A bucket's items with copies of everything that is not in the page itself. */
struct haul {
    struct mu_item *items;
    void **owned;
    size_t count, capacity;
};

static void haul_drop(struct haul *h)
{
    for (size_t i = 0; i < h->count; i++)
        free(h->owned[i]);
    h->count = 0;
}

static bool haul_grow(struct haul *h)
{
    size_t n = h->capacity ? h->capacity * 2 : 16;
    struct mu_item *items = realloc(h->items, n * sizeof *items);
    void **owned;

    if (!items)
        return false;
    h->items = items;
    owned = realloc(h->owned, n * sizeof *owned);
    if (!owned)
        return false;
    h->owned = owned;
    h->capacity = n;
    return true;
}

enum step { TAKEN, AGAIN, CORRUPT, NO_MEMORY };

/* The key and value of an external entry into malloc()ed memory: key words, then the value. */
static enum step take_external(const struct mu_table *t, struct mu_ctx *pin, uint32_t bucket, const struct mu_page *p,
                               const struct mu_entry *e, const struct mu_walk *w, struct mu_item *item, void **owned)
{
    struct mu_external x = {t->seg,     &t->buckets[bucket], p->root->word, p->root->body[e->ref_at],
                            e->key_len, e->value_len};
    size_t key_bytes = mu_words(e->key_len) * 8;
    uint8_t *copy = malloc(key_bytes + 1);
    enum mu_fetch rc;

    if (!copy)
        return NO_MEMORY;
    rc = mu_external_get(&x, pin, NULL, (uint64_t *)copy, NULL, 0);
    if (rc == MU_FETCH_OK && w->visit && !w->lengths_only &&
        (!w->wants || w->wants(w->arg, (char *)copy, e->key_len))) {
        uint8_t *more = realloc(copy, key_bytes + e->value_len + 1);

        if (!more) {
            free(copy);
            return NO_MEMORY;
        }
        copy = more;
        rc = mu_external_get(&x, pin, NULL, NULL, copy + key_bytes, e->value_len);
    }
    *owned = copy;
    if (rc == MU_FETCH_OK) {
        item->key = (char *)copy;
        item->value = copy + key_bytes;
        return TAKEN;
    }
    free(copy);
    return rc == MU_FETCH_CHANGED ? AGAIN : CORRUPT;
}

static enum step entry_take(const struct mu_table *t, struct mu_ctx *pin, uint32_t bucket, const struct mu_page *p,
                            const struct mu_entry *e, const struct mu_walk *w, struct haul *h)
{
    struct mu_item *item;
    enum step step = TAKEN;
    uint32_t own = e->flags & MU_ENTRY_EXTERNAL ? 1 : 0;

    if (h->count == h->capacity && !haul_grow(h))
        return NO_MEMORY;
    item = &h->items[h->count];
    *item = (struct mu_item){.key_len = e->key_len,
                             .version = e->version,
                             .len = e->value_len,
                             .refs = p->root->body + e->ref_at + own,
                             .num_refs = e->refs - own,
                             .client = (e->flags & MU_ENTRY_GUEST) != 0};
    h->owned[h->count] = NULL;
    if (own) {
        step = take_external(t, pin, bucket, p, e, w, item, &h->owned[h->count]);
        if (step != TAKEN)
            return step;
    } else {
        item->key = (const char *)&p->data[e->at + MU_ENTRY_WORDS];
        item->value = &p->data[e->at + MU_ENTRY_WORDS + mu_words(e->key_len)];
    }
    h->count++;
    return TAKEN;
}

static enum step haul_bucket(const struct mu_table *t, struct mu_ctx *pin, uint32_t bucket, const struct mu_walk *w,
                             struct haul *h, struct mu_root *root, uint64_t *body, struct mu_bucket_info *info)
{
    enum mu_read rc = mu_object_read(t->seg, &t->buckets[bucket], body, root);
    struct mu_page page;
    struct mu_entry e;
    uint32_t index = 0;
    bool corrupt = false;

    *info = (struct mu_bucket_info){root->word, MU_WORD_TAG(root->word), MU_WORD_TAG(root->word)};
    if (rc == MU_READ_EMPTY)
        return TAKEN;
    if (rc == MU_READ_CORRUPT || !mu_page_open(&page, root))
        return CORRUPT;
    info->commits = page.data[0];
    info->deletes = page.data[1];
    while (mu_page_next(&page, &index, &e, &corrupt)) {
        enum step step = e.flags & MU_ENTRY_DONE ? TAKEN : entry_take(t, pin, bucket, &page, &e, w, h);

        if (step != TAKEN)
            return step;
    }
    return corrupt ? CORRUPT : TAKEN;
}

enum muster_status mu_table_walk(const struct mu_table *t, struct mu_ctx *ctx, uint32_t bucket, const struct mu_walk *w,
                                 struct mu_bucket_info *ret_info)
{
    uint64_t *body;
    struct haul h = {0};
    struct mu_root root;
    enum muster_status status = MUSTER_OK;
    enum step step;

    ret_info->word = mu_load_acquire(&t->buckets[bucket]);               /* acquire: pairs with the commit CAS */
    ret_info->commits = ret_info->deletes = MU_WORD_TAG(ret_info->word); /* as edit.c continues from it */
    if (!MU_WORD_INDEX(ret_info->word))
        return MUSTER_OK;
    body = ctx ? ctx->scratch : malloc(MU_CHUNK);
    if (!body)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to read a bucket");
    for (uint32_t tries = 0;; tries++) {
        step = haul_bucket(t, tries < MU_TRIES_UNPINNED ? NULL : ctx, bucket, w, &h, &root, body, ret_info);
        if (step != AGAIN || (tries >= MU_TRIES_UNPINNED && !ctx))
            break;
        haul_drop(&h);
    }
    if (step == TAKEN && w->visit) {
        for (size_t i = 0; i < h.count && !status; i++)
            if (!w->wants || w->wants(w->arg, h.items[i].key, h.items[i].key_len))
                status = w->visit(w->arg, &h.items[i]);
    } else if (step == AGAIN) {
        status = mu_fail(MUSTER_ABORTED, "a value changes faster than it can be copied");
    } else if (step == NO_MEMORY) {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to read a bucket");
    } else if (step == CORRUPT) {
        status = mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: bucket %u is not well formed",
                         t->seg->job, bucket);
    }
    haul_drop(&h);
    free(h.items);
    free(h.owned);
    if (!ctx)
        free(body);
    return status;
}
