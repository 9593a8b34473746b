/*
 * segment/edit.c: changing one entry: copy its page, change the copy, commit.
 *
 * Small entries lie in the page itself, so that most writes touch two blocks and most reads one. An entry that is
 * large, or lies in a page that has grown large, keeps key and value in a block of its own, or in parts that this
 * lists; the page then only refers to it, and neighbours' edits carry the reference over. Crash rules are those of
 * segment/object.c: the new page, the new value and the replaced ones are all in the intent.
 */
#include "segment/table.h"

#include <stdlib.h>
#include <string.h>

#include "segment/entry.h"

enum {
    INLINE_MAX = 512 / 8,        /* words of an entry that may lie in the page */
    PAGE_INLINE_MAX = 16384 / 8, /* words of a page above which new values go outside */
    DELETE_TRIES = 200           /* in a full heap, while others hold the deletes' reserve */
};

struct entry_edit {
    const struct mu_table *t;
    struct mu_ctx *ctx;
    const struct mu_key *k;
    struct mu_edit *e;
    struct mu_txn txn;
    struct mu_root root;
    struct mu_page page;
    struct mu_entry old; /* words 0: absent */
    void *fetched;       /* the old value, when it lies outside the page */
    bool no_memory;      /* for it */
    bool forgets;        /* records were taken out of the page */
    bool has_value;      /* the last of txn.news is this edit's value block */
};

static enum muster_status edit_corrupt(const struct entry_edit *d)
{
    if (d->no_memory)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the value of the key");
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: bucket %td is not well formed", d->t->seg->job,
                   d->txn.word - d->t->buckets);
}

/* The value behind an external entry with our key; into d->fetched. */
static enum mu_fetch value_fetch(struct entry_edit *d, const struct mu_entry *e, bool wants_value)
{
    struct mu_external x = {d->t->seg, d->txn.word, d->root.word, d->root.body[e->ref_at], e->key_len, e->value_len};
    size_t capacity = wants_value ? e->value_len : 0;

    if (wants_value) {
        free(d->fetched);
        d->fetched = malloc(e->value_len + 1);
        d->no_memory = !d->fetched;
        if (d->no_memory)
            return MU_FETCH_CORRUPT;
    }
    /* no pin inside a transaction; a value that keeps changing makes the whole attempt start again */
    return mu_external_get(&x, NULL, d->k, NULL, d->fetched, capacity);
}

/* Find our entry in the copied page: 1 done (d->old.words tells), 0 try again, -1 corrupt. */
static int entry_locate(struct entry_edit *d, bool wants_old)
{
    struct mu_entry e;
    uint32_t index = 0;
    bool bad = false;

    d->old = (struct mu_entry){0};
    while (mu_page_next(&d->page, &index, &e, &bad)) {
        if (e.hash != d->k->hash || e.key_len != d->k->len)
            continue;
        if (e.flags & MU_ENTRY_EXTERNAL) {
            enum mu_fetch rc = value_fetch(d, &e, wants_old);

            if (rc == MU_FETCH_OTHER)
                continue;
            if (rc != MU_FETCH_OK)
                return rc == MU_FETCH_CHANGED || (!d->no_memory && !mu_word_same(mu_recheck(d->txn.word), d->root.word))
                           ? 0
                           : -1;
        } else if (memcmp(&d->page.data[e.at + MU_ENTRY_WORDS], d->k->words, mu_words(d->k->len) * 8)) {
            continue;
        }
        d->old = e;
        return 1;
    }
    return bad ? -1 : 1;
}

static void entry_describe(struct entry_edit *d, bool wants_old)
{
    struct mu_edit *e = d->e;
    uint32_t own = d->old.flags & MU_ENTRY_EXTERNAL ? 1 : 0;

    e->key = d->k;
    e->version = d->old.words ? d->old.version : 0;
    e->old_len = d->old.words ? d->old.value_len : 0;
    e->old = NULL;
    if (d->old.words && wants_old)
        e->old = own ? d->fetched : &d->page.data[d->old.at + MU_ENTRY_WORDS + mu_words(d->k->len)];
    e->refs = d->old.words ? d->root.body + d->old.ref_at + own : NULL;
    e->old_refs = d->old.words ? d->old.refs - own : 0;
}

/* Store bytes as words. Relaxed: our own unpublished block. */
static void put_bytes(mu_a64 *to, const uint8_t *from, size_t len)
{
    size_t words = len / 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t v;

        memcpy(&v, from + i * 8, 8);
        mu_store_relaxed(&to[i], v); /* relaxed: see above */
    }
    if (len % 8) {
        uint64_t v = 0;

        memcpy(&v, from + words * 8, len % 8);
        mu_store_relaxed(&to[words], v); /* relaxed: see above */
    }
}

/* The new value's bytes from `at` on, wherever they lie. */
static void put_value(const struct mu_edit *e, size_t at, size_t len, mu_a64 *to)
{
    size_t first = e->len - e->more_len, n, words;
    uint8_t joint[8];

    if (at < first && at + len > first) { /* whole words of the first piece, then the word that has some of both */
        words = (first - at) / 8;
        put_bytes(to, (const uint8_t *)e->value + at, words * 8);
        at += words * 8;
        len -= words * 8;
        to += words;
        n = first - at;
        memcpy(joint, (const uint8_t *)e->value + at, n);
        words = len < 8 ? len : 8;
        memcpy(joint + n, e->more, words - n);
        put_bytes(to++, joint, words);
        at += words;
        len -= words;
    }
    if (len)
        put_bytes(to, at < first ? (const uint8_t *)e->value + at : (const uint8_t *)e->more + (at - first), len);
}

/* One block of the value. */
static enum muster_status fill_part(struct entry_edit *d, size_t at, size_t n, uint64_t *ret_ref)
{
    struct mu_block *b;
    enum muster_status status = mu_heap_alloc(d->ctx, n, 0, ret_ref, &b);

    if (status)
        return status;
    mu_store_relaxed(&b->meta, MU_META(n, 0, MU_TYPE_PART)); /* relaxed: the commit CAS publishes */
    put_value(d->e, at, n, b->body);
    return MUSTER_OK;
}

/* Key and value into a block of their own, or the key and a list of parts. Joins the transaction at once. */
static enum muster_status make_value(struct entry_edit *d)
{
    size_t key_bytes = mu_words(d->k->len) * 8, len = d->e->len;
    bool in_parts = key_bytes + len > MU_BODY_MAX;
    uint32_t parts = in_parts ? (uint32_t)((len + MU_BODY_MAX - 1) / MU_BODY_MAX) : 0;
    size_t bytes = key_bytes + (in_parts ? 0 : len);
    struct mu_block *b;
    uint64_t ref;
    enum muster_status status = mu_heap_alloc(d->ctx, parts * 8 + bytes, 0, &ref, &b);

    if (status)
        return status;
    mu_store_relaxed(&b->meta, MU_META(bytes, parts, MU_TYPE_VALUE)); /* relaxed: our own, as all below */
    for (uint32_t i = 0; i < parts; i++)
        mu_store_relaxed(&b->body[i], 0);
    mu_copy_in(b->body + parts, d->k->words, key_bytes / 8);
    mu_txn_new(&d->txn, ref | (in_parts ? MU_REF_DEEP : 0));
    d->has_value = true;
    if (!in_parts)
        put_value(d->e, 0, len, b->body + key_bytes / 8);
    for (uint32_t i = 0; i < parts && !status; i++) {
        size_t at = (size_t)i * MU_BODY_MAX, n = len - at < MU_BODY_MAX ? len - at : MU_BODY_MAX;

        status = fill_part(d, at, n, &ref);
        if (!status)
            mu_store_relaxed(&b->body[i], ref);
    }
    return status;
}

/* What the new page is made of. */
struct shape {
    uint32_t entry_words; /* of our entry, 0: gone */
    uint32_t entry_refs;
    bool external;
    uint32_t words, refs; /* of the whole page, but for the record */
    uint32_t done_words;  /* of the record of a call; 0: none */
};

static void page_plan(const struct entry_edit *d, enum mu_verdict verdict, struct shape *s)
{
    uint32_t page_words = d->page.words ? d->page.words : MU_PAGE_WORDS;
    uint32_t own_refs = d->old.words ? d->e->old_refs : d->e->num_refs;
    uint32_t inline_words = MU_ENTRY_WORDS + mu_words(d->k->len) + mu_words(d->e->len);

    memset(s, 0, sizeof *s);
    s->words = page_words - d->old.words;
    s->refs = d->root.refs - d->old.refs;
    s->done_words = d->e->done ? MU_DONE_WORDS : 0;
    if (verdict == MU_DELETE)
        return;
    s->external = d->e->len > MU_CHUNK || inline_words > INLINE_MAX || s->words + inline_words > PAGE_INLINE_MAX;
    s->entry_words = s->external ? MU_ENTRY_WORDS : inline_words;
    s->entry_refs = own_refs + s->external;
    s->words += s->entry_words;
    s->refs += s->entry_refs;
}

/* The references: the others' as they were, ours in the place of the old ones (or at the end). */
static void write_refs(struct entry_edit *d, const struct shape *s, mu_a64 *to)
{
    const uint64_t *from = d->root.body;
    uint32_t before = d->old.words ? d->old.ref_at : d->root.refs, n = 0;

    mu_copy_in(to, from, before);
    n = before;
    if (s->entry_words && s->external)
        mu_store_relaxed(&to[n++], d->txn.news[d->txn.num_news - 1]); /* relaxed, as all here: commit publishes */
    for (uint32_t i = 0; i + s->external < s->entry_refs; i++) {
        uint64_t ref = i < d->e->old_refs ? d->e->refs[i] : 0;

        if (d->e->ref_at == (int32_t)i) {
            if (ref)
                mu_txn_old(&d->txn, ref);
            ref = d->e->new_ref;
        }
        mu_store_relaxed(&to[n++], ref);
    }
    mu_copy_in(to + n, from + before + d->old.refs, d->root.refs - before - d->old.refs);
}

static void write_data(struct entry_edit *d, const struct shape *s, uint64_t commits, mu_a64 *to)
{
    const uint64_t *from = d->page.data;
    uint32_t words = d->page.words ? d->page.words : MU_PAGE_WORDS, key_words = mu_words(d->k->len);
    uint32_t before = d->old.words ? d->old.at : words, n = before;
    bool deleted = d->old.words && !s->entry_words;
    uint64_t count = d->page.count + (s->entry_words != 0) - (d->old.words != 0) + (s->done_words != 0);
    uint64_t done[MU_DONE_WORDS];

    /* relaxed, all of them: our own block until the commit CAS publishes it */
    mu_store_relaxed(&to[0], commits);
    mu_store_relaxed(&to[1], (d->page.words ? from[1] : MU_WORD_TAG(d->root.word)) + deleted);
    mu_store_relaxed(&to[2], count);
    mu_copy_in(to + MU_PAGE_WORDS, from + MU_PAGE_WORDS, before - MU_PAGE_WORDS);
    if (s->entry_words) {
        mu_store_relaxed(&to[n], d->k->hash);
        mu_store_relaxed(&to[n + 1], d->e->version_as ? d->e->version_as : commits);
        uint32_t flags = (s->external ? MU_ENTRY_EXTERNAL : 0) | (d->e->client ? MU_ENTRY_GUEST : 0);

        mu_store_relaxed(&to[n + 2], MU_SHAPE(d->k->len, flags, s->entry_refs, s->entry_words));
        mu_store_relaxed(&to[n + 3], d->e->len);
        if (!s->external) {
            mu_copy_in(to + n + MU_ENTRY_WORDS, d->k->words, key_words);
            put_value(d->e, 0, d->e->len, to + n + MU_ENTRY_WORDS + key_words);
        }
        n += s->entry_words;
    }
    mu_copy_in(to + n, from + before + d->old.words, words - before - d->old.words);
    if (s->done_words) {
        mu_done_entry(done, d->e->done, d->k->hash, d->t->mask, commits);
        mu_copy_in(to + s->words, done, s->done_words);
    }
}

/* What the replaced entry alone referred to. */
static enum muster_status note_olds(struct entry_edit *d, enum mu_verdict verdict)
{
    uint32_t own = d->old.flags & MU_ENTRY_EXTERNAL ? 1 : 0;

    if (d->old.words && own)
        mu_txn_old(&d->txn, d->root.body[d->old.ref_at]);
    if (verdict != MU_DELETE)
        return MUSTER_OK;
    for (uint32_t i = 0; i < d->e->old_refs; i++)
        if (d->e->refs[i]) /* would not fit the intent: a caller that deletes such an entry empties its places first */
            return mu_fail(MUSTER_INTERNAL, "an entry with references cannot be deleted");
    return MUSTER_OK;
}

/*
 * The last entry goes, and the page with it: the word names nothing, so that an emptied store holds no memory, and the
 * delete needs none. The counts of commits and deletions go on from the word's tag, which is never less than either;
 * before the tag can wrap, pages are kept.
 */
static enum muster_status page_clear(struct entry_edit *d, enum mu_verdict verdict, uint64_t commits,
                                     enum mu_commit *ret_commit, uint64_t *ret_version)
{
    enum muster_status status = note_olds(d, verdict);

    if (status)
        return status;
    mu_txn_no_root(&d->txn);
    *ret_commit = mu_txn_commit(&d->txn);
    if (*ret_commit == MU_COMMITTED && ret_version)
        *ret_version = commits;
    return MUSTER_OK;
}

/* One attempt after the callback spoke. */
static enum muster_status edit_attempt(struct entry_edit *d, enum mu_verdict verdict, bool keep_value,
                                       enum mu_commit *ret_commit, uint64_t *ret_version)
{
    uint64_t commits = (d->page.words ? d->page.data[0] : MU_WORD_TAG(d->root.word)) + 1;
    enum muster_status status;
    struct shape s;
    mu_a64 *body;

    page_plan(d, verdict, &s);
    if (s.words == MU_PAGE_WORDS && !s.refs && !s.done_words && commits < 1ull << (MU_WORD_TAG_BITS - 1))
        return page_clear(d, verdict, commits, ret_commit, ret_version);
    if (d->has_value && (!s.external || !keep_value)) {
        mu_txn_drop_last(&d->txn);
        d->has_value = false;
    }
    if (s.external && !d->has_value) {
        status = make_value(d);
        if (status)
            return status;
    }
    if (s.refs > 0xffff || (s.refs + (uint64_t)s.words + s.done_words) * 8 > MU_BODY_MAX)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "a bucket of job %s is full: too many keys for %u buckets (create it with more)", d->t->seg->job,
                       d->t->mask + 1);
    status = mu_txn_root(&d->txn, MU_TYPE_PAGE, s.refs, (size_t)(s.words + s.done_words) * 8,
                         verdict == MU_DELETE ? MU_HEAP_RESERVE : 0, &body);
    if (!status)
        status = note_olds(d, verdict);
    if (status)
        return status;
    write_refs(d, &s, body);
    write_data(d, &s, commits, body + s.refs);
    *ret_commit = d->e->quiet ? mu_txn_commit_quietly(&d->txn) : mu_txn_commit(&d->txn);
    if (*ret_commit == MU_COMMITTED && ret_version)
        *ret_version = commits;
    return MUSTER_OK;
}

/* The page's records of calls. False: the edit ends here, with *ret_status. */
static bool look_at_done(struct entry_edit *d, enum muster_status *ret_status)
{
    struct mu_edit *e = d->e;
    uint32_t before = d->page.words, kept;
    enum mu_done_look look = mu_page_done(&d->page, e->done, e->forget, e->forget_arg, &kept);

    d->forgets = d->page.words != before;
    e->was_done = look == MU_DONE_BEFORE;
    if (look == MU_DONE_STRAY)
        *ret_status = mu_fail(MUSTER_CANCELLED, "a later call of its thread has been carried out");
    else if (look == MU_DONE_NEW && e->done && kept >= MU_DONE_MAX)
        *ret_status = mu_fail(MUSTER_UNAVAILABLE, "%u calls on keys near this one are not acknowledged yet", kept);
    return look == MU_DONE_NEW && !*ret_status;
}

/*
 * A delete in a full heap put the page into the reserve; what it freed is large enough, so move it there and leave the
 * reserve to the next delete. One attempt: where it fails, the next edit of the bucket gives the reserve back.
 */
static void leave_reserve(struct mu_ctx *ctx, mu_a64 *word)
{
    struct mu_txn t;
    struct mu_root root;
    mu_a64 *body;

    mu_txn_begin(&t, ctx, word);
    if (mu_txn_read(&t, &root) != MU_READ_OK || root.type != MU_TYPE_PAGE ||
        mu_txn_root(&t, root.type, root.refs, root.bytes, 0, &body)) {
        mu_txn_abort(&t);
        return;
    }
    mu_copy_in(body, root.body, root.refs + root.bytes / 8);
    if (mu_txn_commit(&t) == MU_RETRY)
        mu_txn_abort(&t);
}

enum muster_status mu_table_edit(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, uint32_t flags,
                                 mu_edit_fn fn, struct mu_edit *e, uint64_t *ret_version)
{
    bool wants_old = flags & MU_EDIT_WANTS_OLD;
    enum muster_status status = MUSTER_OK;
    enum mu_commit commit = MU_RETRY;
    uint32_t patience = DELETE_TRIES;
    struct entry_edit d;

    d.t = t;
    d.ctx = ctx;
    d.k = k;
    d.e = e;
    d.fetched = NULL;
    d.no_memory = false;
    d.forgets = false;
    d.has_value = false;
    e->was_done = false;
    mu_txn_begin(&d.txn, ctx, mu_table_bucket(t, k));
    if (e->new_ref)
        mu_txn_new(&d.txn, e->new_ref);
    while (!status && commit == MU_RETRY) {
        enum mu_read rc = mu_txn_read(&d.txn, &d.root);
        enum mu_verdict verdict;
        int found;

        if (rc == MU_READ_CORRUPT || !mu_page_open(&d.page, &d.root)) {
            status = edit_corrupt(&d);
            break;
        }
        if ((e->done || e->forget) && !look_at_done(&d, &status))
            break;
        found = entry_locate(&d, wants_old);
        if (found < 0)
            status = edit_corrupt(&d);
        if (found <= 0)
            continue;
        entry_describe(&d, wants_old);
        e->ref_at = -1;
        e->quiet = false;
        verdict = fn(e);
        if (verdict == MU_KEEP || (verdict == MU_DELETE && !d.old.words && !d.forgets)) {
            status = e->status;
            break;
        }
        status = edit_attempt(&d, verdict, !wants_old, &commit, ret_version);
        if (status == MUSTER_RESOURCE_EXHAUSTED && verdict == MU_DELETE && patience--) {
            status = MUSTER_OK; /* other deletes have the reserve, for a moment */
            mu_yield();
        }
    }
    if (commit == MU_RETRY)
        mu_txn_abort(&d.txn);
    else if (d.txn.news[0] && mu_heap_is_reserve(t->seg, d.txn.news[0]))
        leave_reserve(ctx, d.txn.word);
    free(d.fetched);
    return status;
}

/* An entry that cannot be there is deleted: what is committed is the page without the records. */
static enum mu_verdict forget_only(struct mu_edit *e)
{
    e->status = MUSTER_OK;
    return MU_DELETE;
}

enum muster_status mu_table_forget(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k,
                                   mu_forget_fn forget, void *arg)
{
    struct mu_edit e = {.forget = forget, .forget_arg = arg};
    struct mu_key none;

    none.hash = k->hash & ((uint64_t)t->mask << 20);
    none.len = 0;
    return mu_table_edit(t, ctx, &none, 0, forget_only, &e, NULL);
}
