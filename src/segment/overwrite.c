/*
 * segment/overwrite.c: the usual write, straight: a new value for an entry that lies in its page, of as many words as
 * the old one.
 *
 * The same mechanism as edit.c: a new root, an intent, one CAS. What is left out is the private copy of the page: the
 * new root is filled from the old one directly. If the old one was replaced meanwhile the copy may be garbage, but then
 * the commit fails, for the word's tag has moved; until then nothing that was read is used without being checked.
 * Anything unusual is left to edit.c.
 */
#include <string.h>

#include "segment/commit.h"
#include "segment/entry.h"

/* Find the entry in the shared page; its place in words of the data, or 0. */
static uint32_t shared_entry_find(const mu_a64 *data, uint32_t words, const struct mu_key *k, size_t len)
{
    uint32_t at = MU_PAGE_WORDS, key_words = mu_words(k->len);
    uint64_t count = mu_load_relaxed(&data[2]); /* relaxed, as all below: the commit CAS confirms */

    for (uint64_t i = 0; i < count && at + MU_ENTRY_WORDS <= words; i++) {
        uint64_t shape = mu_load_relaxed(&data[at + 2]);
        uint32_t size = MU_SHAPE_WORDS(shape);

        if (size < MU_ENTRY_WORDS || at + size > words)
            return 0;
        if (mu_load_relaxed(&data[at]) == k->hash && MU_SHAPE_KEY_LEN(shape) == k->len &&
            !(MU_SHAPE_FLAGS(shape) & (MU_ENTRY_EXTERNAL | MU_ENTRY_GUEST)) &&
            size == MU_ENTRY_WORDS + key_words + mu_words(len)) {
            for (uint32_t w = 0; w < key_words; w++)
                if (mu_load_relaxed(&data[at + MU_ENTRY_WORDS + w]) != k->words[w])
                    return 0;
            return at;
        }
        at += size;
    }
    return 0;
}

static inline void bytes_put(mu_a64 *to, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    size_t words = len / 8, i = 0;

    for (; i + 4 <= words; i += 4) {
        uint64_t v[4];

        memcpy(v, from + i * 8, 32);
        mu_store_relaxed(&to[i], v[0]); /* relaxed, as all here: our own block until the commit CAS publishes it */
        mu_store_relaxed(&to[i + 1], v[1]);
        mu_store_relaxed(&to[i + 2], v[2]);
        mu_store_relaxed(&to[i + 3], v[3]);
    }
    for (; i < words; i++) {
        uint64_t v;

        memcpy(&v, from + i * 8, 8);
        mu_store_relaxed(&to[i], v);
    }
    if (len % 8) {
        uint64_t v = 0;

        memcpy(&v, from + words * 8, len % 8);
        mu_store_relaxed(&to[words], v);
    }
}

static inline void carry_over(mu_a64 *to, const mu_a64 *from, uint32_t words)
{
    uint32_t i = 0;

    /* relaxed, all of them: the commit CAS confirms, and publishes */
    for (; i + 4 <= words; i += 4) {
        mu_store_relaxed(&to[i], mu_load_relaxed(&from[i]));
        mu_store_relaxed(&to[i + 1], mu_load_relaxed(&from[i + 1]));
        mu_store_relaxed(&to[i + 2], mu_load_relaxed(&from[i + 2]));
        mu_store_relaxed(&to[i + 3], mu_load_relaxed(&from[i + 3]));
    }
    for (; i < words; i++)
        mu_store_relaxed(&to[i], mu_load_relaxed(&from[i])); /* relaxed: likewise */
}

bool mu_table_overwrite(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, const void *value,
                        size_t len, uint64_t *ret_version)
{
    struct mu_txn txn;
    struct mu_block *fresh;
    const struct mu_block *b;
    const mu_a64 *data;
    uint32_t limit, refs, bytes, at, value_at, value_words = mu_words(len);
    uint64_t meta, commits;
    mu_a64 *to;

    mu_commit_begin(&txn, ctx, mu_table_bucket(t, k));
    txn.seen = mu_load_acquire(txn.word); /* acquire: pairs with the commit CAS; the page comes with its word */
    b = mu_heap_block(t->seg, MU_WORD_INDEX(txn.seen), &limit);
    if (!b)
        return false;
    meta = mu_load_relaxed(&b->meta); /* relaxed, as all below: the commit CAS confirms */
    refs = MU_META_REFS(meta);
    bytes = MU_META_BYTES(meta);
    if (MU_META_TYPE(meta) != MU_TYPE_PAGE || MU_BLOCK_HEADER + refs * 8ull + bytes > limit ||
        bytes < MU_PAGE_WORDS * 8)
        return false;
    data = b->body + refs;
    at = shared_entry_find(data, bytes / 8, k, len);
    if (!at)
        return false;
    /* only a block that this thread freed lately: the search for others is edit.c's */
    txn.news[0] = mu_heap_take_hinted(ctx, &ctx->hints[0][mu_heap_class(refs * 8 + bytes)]);
    if (!txn.news[0])
        return false;
    mu_fence_release(); /* as in mu_heap_alloc() */
    fresh = mu_heap_at(t->seg, MU_REF_INDEX(txn.news[0]));
    txn.num_olds = 1;
    commits = mu_load_relaxed(&data[0]) + 1;
    value_at = refs + at + MU_ENTRY_WORDS + mu_words(k->len);
    to = fresh->body;
    mu_store_relaxed(&fresh->meta, meta);
    carry_over(to, b->body, value_at);
    bytes_put(to + value_at, value, len);
    value_at += value_words;
    carry_over(to + value_at, b->body + value_at, refs + bytes / 8 - value_at);
    mu_store_relaxed(&to[refs], commits);
    mu_store_relaxed(&to[refs + at + 1], commits);
    mu_store_relaxed(&to[refs + at + 3], len);
    if (mu_commit_try(&txn) == MU_RETRY) {
        mu_txn_abort(&txn);
        return false;
    }
    if (ret_version)
        *ret_version = commits;
    return true;
}
