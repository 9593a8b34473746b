/*
 * segment/table.c: finding entries: hashing, optimistic reads, walks.
 *
 * A read copies straight out of the page into the caller's buffer and then looks at the bucket's word again: equal
 * index and tag mean that the copy is whole and was current during all of it; that second look is its linearization
 * point. A value outside the page is checked by its own block's word instead, so that neighbours in the bucket cannot
 * starve its readers; one in parts, or that changes faster than it can be copied, is pinned first.
 *
 * Everything that is read is compared with the block's real size before it is used: a corrupt page gives DATA_LOSS.
 */
#include "segment/table.h"

#include <string.h>

#include "segment/entry.h"
#include "segment/pin.h"

void mu_key_make(struct mu_key *k, const struct muster_segment *seg, const void *bytes, size_t len)
{
    uint64_t h = mu_hash_begin(seg, len);
    uint32_t words = mu_words(len);

    k->len = (uint32_t)len;
    if (words)
        k->words[words - 1] = 0;
    memcpy(k->words, bytes, len);
    for (uint32_t i = 0; i < words; i++)
        h = mu_hash_step(h, k->words[i]);
    k->hash = mu_hash_end(h);
}

/* Copy `len` bytes that start at a word. */
static inline void copy_bytes(void *to, const mu_a64 *from, size_t len)
{
    /* relaxed, as all here: the caller re-checks */
    uint8_t *out = to;
    size_t words = len / 8, i = 0;

    for (; i + 4 <= words; i += 4) {
        uint64_t a = mu_load_relaxed(&from[i]), b = mu_load_relaxed(&from[i + 1]); /* relaxed: the caller re-checks */
        uint64_t c = mu_load_relaxed(&from[i + 2]), d = mu_load_relaxed(&from[i + 3]); /* relaxed: likewise */

        memcpy(out + i * 8, &a, 8);
        memcpy(out + i * 8 + 8, &b, 8);
        memcpy(out + i * 8 + 16, &c, 8);
        memcpy(out + i * 8 + 24, &d, 8);
    }
    for (; i < words; i++) {
        uint64_t v = mu_load_relaxed(&from[i]); /* relaxed: likewise */

        memcpy(out + i * 8, &v, 8);
    }
    if (len % 8) {
        uint64_t v = mu_load_relaxed(&from[words]); /* relaxed: likewise */

        memcpy(out + words * 8, &v, len % 8);
    }
}

static bool same_key(const mu_a64 *words, const struct mu_key *k)
{
    uint32_t n = mu_words(k->len);

    for (uint32_t i = 0; i < n; i++)
        if (mu_load_relaxed(&words[i]) != k->words[i]) /* relaxed: the caller re-checks */
            return false;
    return true;
}

/* The value block's parts, one after the other. False: a part is not where it should be. */
static bool copy_parts(const struct muster_segment *seg, struct mu_block *head, uint32_t parts, uint8_t *to, size_t len)
{
    for (uint32_t i = 0; i < parts && len; i++) {
        uint64_t ref = mu_load_relaxed(&head->body[i]); /* relaxed: pinned, or re-checked by the caller */
        size_t n = len < MU_BODY_MAX ? len : MU_BODY_MAX;
        uint32_t limit;
        struct mu_block *part = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);

        if (!part || limit < MU_BLOCK_HEADER + n)
            return false;
        copy_bytes(to, part->body, n);
        to += n;
        len -= n;
    }
    return len == 0;
}

/* With the block held still, or to be re-checked: is it as the entry says, and what does it hold? */
static enum mu_fetch copy_external(const struct mu_external *x, struct mu_block *b, uint32_t limit,
                                   const struct mu_key *match, uint64_t *ret_key_words, void *buffer, size_t capacity)
{
    uint64_t meta = mu_load_relaxed(&b->meta); /* relaxed: re-checked by the caller */
    uint32_t parts = MU_META_REFS(meta), key_words = mu_words(x->key_len), have = MU_META_BYTES(meta);
    uint64_t need = key_words * 8ull + (parts ? 0 : x->value_len);
    const mu_a64 *key = b->body + parts;

    if (have > limit || MU_BLOCK_HEADER + parts * 8ull + have > limit || have < need)
        return MU_FETCH_CORRUPT;
    if (match && !same_key(key, match))
        return MU_FETCH_OTHER;
    if (ret_key_words)
        mu_copy_out(ret_key_words, key, key_words);
    if (x->value_len > capacity)
        return MU_FETCH_OK;
    if (!parts)
        copy_bytes(buffer, key + key_words, x->value_len);
    else if (!copy_parts(x->seg, b, parts, buffer, x->value_len))
        return MU_FETCH_CORRUPT;
    return MU_FETCH_OK;
}

enum mu_fetch mu_external_get(const struct mu_external *x, struct mu_ctx *pin, const struct mu_key *match,
                              uint64_t *ret_key_words, void *buffer, size_t capacity)
{
    uint32_t limit;
    struct mu_block *b = mu_heap_block(x->seg, MU_REF_INDEX(x->ref), &limit);
    uint64_t live = MU_BLOCK_WORD(MU_REF_GENERATION(x->ref), 0, 0, MU_LIVE);
    enum mu_fetch rc;

    /* The reference itself came from the page: it counts only if the page is still the bucket's, or was at this look.
     * Pinned without, it might be a block of another bucket, and the end of the pin would free that. */
    if (!mu_word_same(mu_recheck(x->bucket), x->word))
        return MU_FETCH_CHANGED;
    if (pin) {
        if (!mu_pin(pin, x->bucket, x->word, x->ref))
            return MU_FETCH_CHANGED;
        /* pinned while the bucket named it: it is there, or the segment is corrupt. acquire: as below */
        if (!b || x->value_len > MU_ENTRY_MAX || mu_load_acquire(&b->word) != live)
            rc = MU_FETCH_CORRUPT;
        else
            rc = copy_external(x, b, limit, match, ret_key_words, buffer, capacity);
        mu_unpin(pin);
        return rc;
    }
    if (!b || x->value_len > MU_ENTRY_MAX)
        return MU_FETCH_CORRUPT;
    /* acquire: pairs with mu_heap_publish(); LIVE at this generation means that the contents are the entry's.
     * Nobody frees a block before the commit that no longer names it: not LIVE and still named is damage. */
    if (mu_load_acquire(&b->word) != live)
        return mu_word_same(mu_recheck(x->bucket), x->word) ? MU_FETCH_CORRUPT : MU_FETCH_CHANGED;
    rc = copy_external(x, b, limit, match, ret_key_words, buffer, capacity);
    /* Parts are freed before the block that lists them, so that block's word would not tell in time; the bucket's does:
     * nobody begins to free before the commit that replaces the entry. */
    if (MU_META_REFS(mu_load_relaxed(&b->meta)) && !mu_word_same(mu_recheck(x->bucket), x->word))
        return MU_FETCH_CHANGED;
    return mu_recheck(&b->word) == live ? rc : MU_FETCH_CHANGED;
}

/* Where the search in a shared page ended. */
struct page_place {
    const mu_a64 *body, *data;
    uint32_t at, ref_at;
    uint64_t shape;
};

/*
 * Look for the key in the page that `b` holds, without trusting a word of it: 1 found (p filled), 0 not there, -1 not
 * well formed. An external entry with the right hash and length counts as found: its block says whether the key is the
 * same.
 */
static int page_find(const struct mu_block *b, uint32_t limit, const struct mu_key *k, uint32_t skip,
                     struct page_place *p)
{
    uint64_t meta = mu_load_relaxed(&b->meta); /* relaxed, as all below: the caller re-checks the bucket's word */
    uint32_t refs = MU_META_REFS(meta), words = MU_META_BYTES(meta) / 8, at = MU_PAGE_WORDS, ref_at = 0;
    uint64_t count;

    if (MU_META_BYTES(meta) > limit || MU_BLOCK_HEADER + (refs + words) * 8ull > limit || words < MU_PAGE_WORDS)
        return -1;
    p->body = b->body;
    p->data = b->body + refs;
    count = mu_load_relaxed(&p->data[2]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t shape;
        uint32_t size;

        if (at + MU_ENTRY_WORDS > words)
            return -1;
        shape = mu_load_relaxed(&p->data[at + 2]);
        size = MU_SHAPE_WORDS(shape);
        if (size < MU_ENTRY_WORDS || at + size > words || ref_at + MU_SHAPE_REFS(shape) > refs)
            return -1;
        if (mu_load_relaxed(&p->data[at]) == k->hash && MU_SHAPE_KEY_LEN(shape) == k->len) {
            bool external = MU_SHAPE_FLAGS(shape) & MU_ENTRY_EXTERNAL;

            if (!external && MU_ENTRY_WORDS + mu_words(k->len) > size)
                return -1;
            if (external ? !skip-- : same_key(&p->data[at + MU_ENTRY_WORDS], k)) {
                p->at = at;
                p->ref_at = ref_at;
                p->shape = shape;
                return external && !MU_SHAPE_REFS(shape) ? -1 : 1;
            }
        }
        ref_at += MU_SHAPE_REFS(shape);
        at += size;
    }
    return 0;
}

/* One attempt: 1 done, 0 look again, -1 corrupt. */
static int get_once(const struct mu_table *t, struct mu_ctx *pin, const mu_a64 *bucket, const struct mu_key *k,
                    void *buffer, size_t capacity, struct mu_found *f)
{
    uint32_t limit, skip = 0;
    struct mu_block *b;
    struct page_place p;
    int rc;

    /* acquire: pairs with the commit CAS; the page's contents come with its word */
    f->word = mu_load_acquire(bucket);
    f->version = 0;
    f->len = 0;
    if (!MU_WORD_INDEX(f->word))
        return 1;
    b = mu_heap_block(t->seg, MU_WORD_INDEX(f->word), &limit);
    rc = b ? page_find(b, limit, k, skip, &p) : -1;
    while (rc == 1 && (MU_SHAPE_FLAGS(p.shape) & MU_ENTRY_EXTERNAL)) {
        struct mu_external x = {t->seg, bucket, f->word, 0, k->len, 0};
        uint64_t version = mu_load_relaxed(&p.data[p.at + 1]); /* relaxed: re-checked inside mu_external_get() */

        x.value_len = mu_load_relaxed(&p.data[p.at + 3]);
        x.ref = mu_load_relaxed(&p.body[p.ref_at]);
        switch (mu_external_get(&x, pin, k, NULL, buffer, capacity)) {
        case MU_FETCH_OK:
            f->version = version;
            f->len = x.value_len;
            return 1;
        case MU_FETCH_CHANGED: return 0;
        case MU_FETCH_CORRUPT: return mu_word_same(mu_recheck(bucket), f->word) ? -1 : 0;
        case MU_FETCH_OTHER: rc = page_find(b, limit, k, ++skip, &p); break; /* 64 equal bits, another key */
        }
    }
    if (rc == 1) {
        uint64_t len = mu_load_relaxed(&p.data[p.at + 3]); /* relaxed, as the next: re-checked below */

        f->version = mu_load_relaxed(&p.data[p.at + 1]);
        f->len = len;
        if (len > MU_CHUNK || MU_ENTRY_WORDS + mu_words(k->len) + mu_words(len) > MU_SHAPE_WORDS(p.shape))
            rc = -1;
        else if (len <= capacity)
            copy_bytes(buffer, &p.data[p.at + MU_ENTRY_WORDS + mu_words(k->len)], len);
    }
    if (!mu_word_same(mu_recheck(bucket), f->word))
        return 0;
    if (rc == 0)
        f->version = 0;
    return rc < 0 ? -1 : 1;
}

/*
 * The usual case, straight: an entry in the page itself. 1 done; 0 anything else, which get_once() then takes apart.
 */
static int get_inline(const struct mu_table *t, const mu_a64 *bucket, const struct mu_key *k, void *buffer,
                      size_t capacity, struct mu_found *f)
{
    uint64_t w = mu_load_acquire(bucket), meta, count; /* acquire: as in get_once() */
    uint32_t limit, refs, words, at = MU_PAGE_WORDS, key_words = mu_words(k->len);
    const struct mu_block *b = mu_heap_block(t->seg, MU_WORD_INDEX(w), &limit);
    const mu_a64 *data;

    if (!b)
        return 0;
    mu_heap_prefetch(b);
    meta = mu_load_relaxed(&b->meta); /* relaxed, as all below: re-checked at the end */
    refs = MU_META_REFS(meta);
    words = MU_META_BYTES(meta) / 8;
    if (MU_META_BYTES(meta) > limit || MU_BLOCK_HEADER + (refs + words) * 8ull > limit || words < MU_PAGE_WORDS)
        return 0;
    data = b->body + refs;
    count = mu_load_relaxed(&data[2]);
    f->word = w;
    f->version = f->len = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t shape, len;
        uint32_t size;

        if (at + MU_ENTRY_WORDS > words)
            return 0;
        shape = mu_load_relaxed(&data[at + 2]);
        size = MU_SHAPE_WORDS(shape);
        if (size < MU_ENTRY_WORDS || at + size > words)
            return 0;
        if (mu_load_relaxed(&data[at]) != k->hash || MU_SHAPE_KEY_LEN(shape) != k->len) {
            at += size;
            continue;
        }
        len = mu_load_relaxed(&data[at + 3]);
        if ((MU_SHAPE_FLAGS(shape) & MU_ENTRY_EXTERNAL) || len > MU_CHUNK ||
            MU_ENTRY_WORDS + key_words + mu_words(len) > size || !same_key(&data[at + MU_ENTRY_WORDS], k))
            return 0;
        f->version = mu_load_relaxed(&data[at + 1]);
        f->len = len;
        if (len <= capacity)
            copy_bytes(buffer, &data[at + MU_ENTRY_WORDS + key_words], len);
        break;
    }
    return mu_word_same(mu_recheck(bucket), w);
}

/* Anything else. Not inline: the usual case saves no registers for it. */
static __attribute__((noinline)) enum muster_status get_any(const struct mu_table *t, struct mu_ctx *ctx,
                                                            const struct mu_key *k, void *buffer, size_t capacity,
                                                            struct mu_found *ret_found)
{
    const mu_a64 *bucket = mu_table_bucket(t, k);

    for (uint32_t tries = 0;; tries++) {
        int rc = get_once(t, tries < MU_TRIES_UNPINNED ? NULL : ctx, bucket, k, buffer, capacity, ret_found);

        if (rc > 0)
            return MUSTER_OK;
        if (rc < 0)
            return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: bucket %td is not well formed",
                           t->seg->job, bucket - t->buckets);
        if (tries >= MU_TRIES_UNPINNED && !ctx)
            return mu_fail(MUSTER_ABORTED, "the value changes faster than it can be copied");
    }
}

enum muster_status mu_table_get(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, void *buffer,
                                size_t capacity, struct mu_found *ret_found)
{
    if (get_inline(t, mu_table_bucket(t, k), k, buffer, capacity, ret_found))
        return MUSTER_OK;
    return get_any(t, ctx, k, buffer, capacity, ret_found);
}

bool mu_page_open(struct mu_page *p, const struct mu_root *root)
{
    p->root = root;
    p->data = mu_root_data(root);
    p->words = root->bytes / 8;
    p->count = 0;
    if (!MU_WORD_INDEX(root->word))
        return true;
    if (root->type != MU_TYPE_PAGE || p->words < MU_PAGE_WORDS || p->data[2] > p->words)
        return false;
    p->count = (uint32_t)p->data[2];
    return true;
}

bool mu_page_next(const struct mu_page *p, uint32_t *index, struct mu_entry *e, bool *corrupt)
{
    uint64_t shape;

    if (*index >= p->count)
        return false;
    if (*index == 0)
        *e = (struct mu_entry){.at = MU_PAGE_WORDS};
    else
        *e = (struct mu_entry){.at = e->at + e->words, .ref_at = e->ref_at + e->refs};
    *corrupt = true;
    if (e->at + MU_ENTRY_WORDS > p->words)
        return false;
    shape = p->data[e->at + 2];
    e->hash = p->data[e->at];
    e->version = p->data[e->at + 1];
    e->value_len = p->data[e->at + 3];
    e->words = MU_SHAPE_WORDS(shape);
    e->refs = MU_SHAPE_REFS(shape);
    e->flags = MU_SHAPE_FLAGS(shape);
    e->key_len = MU_SHAPE_KEY_LEN(shape);
    if (e->words < MU_ENTRY_WORDS || e->at + e->words > p->words || e->ref_at + e->refs > p->root->refs)
        return false;
    if (e->key_len > MU_KEY_MAX || e->value_len > MU_ENTRY_MAX)
        return false;
    if (e->flags & MU_ENTRY_EXTERNAL ? !e->refs
                                     : MU_ENTRY_WORDS + mu_words(e->key_len) + mu_words(e->value_len) > e->words)
        return false;
    *corrupt = false;
    ++*index;
    return true;
}
