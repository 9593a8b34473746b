/*
 * kv/survey.c: a snapshot in steps: collect, check, sort.
 *
 * All buckets are read once, and what was found in each is noted with its word. Then they are checked: a bucket with
 * the same word has not been written since. One that has been is read again, and if it has other keys of ours now,
 * or other versions of them, or if any key was deleted there, that is what it is noted with from then on, and another
 * check is due. A check that finds all as it was noted: so it was when that check began. (Why deletions count:
 * kv/snapshot.c.) To look at a word costs a hundredth of reading a bucket, so a check is soon over, and most find
 * nothing or little. After some that did it is not interrupted any more: then only other processes can change what it
 * looks at, as with a snapshot in one go.
 *
 * The entries are sorted in runs, which are merged, again in steps.
 */
#include "kv/survey.h"

#include <stdlib.h>

enum {
    SHY = 8,            /* checks that may be interrupted; then so many at a time are not */
    CHECKS_MAX = 16000, /* then it is given up */
    WORDS_A_LOOK = 64,
    BYTES_A_LOOK = 1024,
    RUN = 512, /* entries that are sorted at once */
    DEAD_LEAST = 1 << 20,
};

/* What a step may still spend, in looks. */
struct survey_purse {
    uint64_t left;
};

static bool purse_spend(struct survey_purse *purse, uint64_t looks)
{
    purse->left -= looks < purse->left ? looks : purse->left;
    return purse->left > 0;
}

static enum muster_status no_memory(void)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
}

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static enum muster_status survey_begin(struct muster_segment *seg, struct mu_survey *s)
{
    if (!s->buckets)
        s->buckets = malloc(((size_t)mu_table_kv(seg).mask + 1) * sizeof *s->buckets);
    if (!s->buckets)
        return no_memory();
    s->snapshot.count = s->snapshot.used = 0;
    s->dead = s->dead_bytes = 0;
    s->at = 0;
    s->phase = MU_SURVEY_COLLECTS;
    return MUSTER_OK;
}

/* What the bucket has goes behind the entries. */
static enum muster_status bucket_look(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s,
                                      uint32_t bucket, struct mu_survey_bucket *ret_found, struct survey_purse *purse)
{
    uint64_t looks = s->snapshot.looks;
    size_t first = s->snapshot.count, used = s->snapshot.used;
    struct mu_bucket_info info;
    enum muster_status status;

    s->snapshot.fingerprint = 0;
    status = mu_snapshot_bucket(seg, ctx, &s->snapshot, bucket, &info);
    if (status)
        return status;
    *ret_found = (struct mu_survey_bucket){.word = info.word,
                                           .sign = mu_snapshot_mix(s->snapshot.fingerprint, info.deletes),
                                           .first = (uint32_t)first,
                                           .count = (uint32_t)(s->snapshot.count - first)};
    purse_spend(purse, 1 + s->snapshot.looks - looks + (s->snapshot.used - used) / BYTES_A_LOOK);
    return MUSTER_OK;
}

static enum muster_status survey_collect(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s,
                                         struct survey_purse *purse)
{
    uint32_t mask = mu_table_kv(seg).mask;

    while (purse->left > 0 && s->at <= mask) {
        enum muster_status status = bucket_look(seg, ctx, s, s->at, &s->buckets[s->at], purse);

        if (status)
            return status;
        s->at++;
    }
    if (s->at > mask) {
        s->at = 0;
        s->changed = false;
        s->phase = MU_SURVEY_CHECKS;
    }
    return MUSTER_OK;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static void bucket_bury(struct mu_survey *s, const struct mu_survey_bucket *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct muster_kv_entry *e = &s->snapshot.entries[b->first + i];

        s->dead_bytes += e->key_len + e->value_len + 2;
        e->key_len = 0;
    }
    s->dead += b->count;
}

/* The bucket has been written. */
static enum muster_status look_again(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s,
                                     uint32_t bucket, struct survey_purse *purse)
{
    size_t count = s->snapshot.count, used = s->snapshot.used;
    struct mu_survey_bucket *b = &s->buckets[bucket], now;
    enum muster_status status = bucket_look(seg, ctx, s, bucket, &now, purse);

    if (status)
        return status;
    if (now.sign == b->sign) { /* something else was */
        s->snapshot.count = count;
        s->snapshot.used = used;
        b->word = now.word;
        return MUSTER_OK;
    }
    bucket_bury(s, b);
    *b = now;
    s->changed = true;
    return MUSTER_OK;
}

/* The check is over. */
static enum muster_status survey_judge(struct mu_survey *s)
{
    s->at = 0;
    if (!s->changed) {
        s->next = s->live = 0;
        s->phase = MU_SURVEY_POINTS;
        return MUSTER_OK;
    }
    s->changed = false;
    if (++s->checks >= CHECKS_MAX)
        return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot: %d looks and no two alike",
                       CHECKS_MAX);
    if (s->dead_bytes > DEAD_LEAST + s->snapshot.used / 2)
        s->phase = MU_SURVEY_BEGINS;
    return MUSTER_OK;
}

static enum muster_status survey_check(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s,
                                       struct survey_purse *purse)
{
    struct mu_table t = mu_table_kv(seg);
    uint32_t last = s->checks + SHY;
    enum muster_status status = MUSTER_OK;

    while (!status && s->phase == MU_SURVEY_CHECKS && s->checks < last) {
        if (s->checks < SHY && purse->left == 0)
            break;
        for (uint32_t n = 0; n < WORDS_A_LOOK && s->at <= t.mask && !status; n++, s->at++) {
            uint64_t word = mu_load_acquire(&t.buckets[s->at]); /* acquire: pairs with the commit CAS */

            if (!mu_word_same(word, s->buckets[s->at].word))
                status = look_again(seg, ctx, s, s->at, purse);
        }
        purse_spend(purse, 1);
        if (!status && s->at > t.mask)
            status = survey_judge(s);
    }
    return status;
}

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

/* Offsets become pointers; the dead go. */
static void entries_point(struct mu_survey *s, struct survey_purse *purse)
{
    struct mu_snapshot *p = &s->snapshot;

    for (; s->next < p->count && (s->next % 16 || purse_spend(purse, 1)); s->next++) {
        struct muster_kv_entry e = p->entries[s->next];

        if (!e.key_len)
            continue;
        mu_snapshot_point(p, &e);
        p->entries[s->live++] = e;
    }
    if (s->next < p->count)
        return;
    p->count = s->live;
    s->next = 0;
    s->phase = MU_SURVEY_SORTS;
}

static enum muster_status entries_sort(struct mu_survey *s, struct survey_purse *purse)
{
    struct mu_snapshot *p = &s->snapshot;

    for (; s->next < p->count && purse->left > 0; s->next += RUN) {
        size_t n = p->count - s->next < RUN ? p->count - s->next : RUN;

        qsort(p->entries + s->next, n, sizeof *p->entries, mu_snapshot_by_key);
        purse_spend(purse, 2 * RUN);
    }
    if (s->next < p->count)
        return MUSTER_OK;
    s->phase = MU_SURVEY_MERGES;
    s->width = RUN;
    s->out = s->end = 0;
    if (p->count <= RUN)
        return MUSTER_OK;
    s->merged = malloc(p->count * sizeof *s->merged);
    return s->merged ? MUSTER_OK : no_memory();
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Entries of two runs at `out` become one run, and so all of them, again and again; false: not yet. */
static bool runs_merge(struct mu_survey *s, struct survey_purse *purse)
{
    struct mu_snapshot *p = &s->snapshot;

    while (s->width < p->count) {
        struct muster_kv_entry *swap = p->entries;
        bool left;

        if (s->out == s->end) {
            s->left = s->out;
            s->middle = s->right = at_most(s->out + s->width, p->count);
            s->end = at_most(s->out + 2 * s->width, p->count);
        }
        left = s->left < s->middle &&
               (s->right == s->end || mu_snapshot_by_key(&p->entries[s->left], &p->entries[s->right]) <= 0);
        s->merged[s->out++] = p->entries[left ? s->left++ : s->right++];
        if (s->out == p->count) {
            p->entries = s->merged;
            s->merged = swap;
            s->width *= 2;
            s->out = s->end = 0;
        }
        if (!purse_spend(purse, 1))
            return false;
    }
    return true;
}

bool mu_survey_step(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s, uint64_t looks,
                    enum muster_status *ret_status)
{
    struct survey_purse purse = {looks};

    *ret_status = MUSTER_OK;
    while (!*ret_status && purse.left > 0) {
        switch (s->phase) {
        case MU_SURVEY_BEGINS: *ret_status = survey_begin(seg, s); break;
        case MU_SURVEY_COLLECTS: *ret_status = survey_collect(seg, ctx, s, &purse); break;
        case MU_SURVEY_CHECKS: *ret_status = survey_check(seg, ctx, s, &purse); break;
        case MU_SURVEY_POINTS: entries_point(s, &purse); break;
        case MU_SURVEY_SORTS: *ret_status = entries_sort(s, &purse); break;
        case MU_SURVEY_MERGES:
            if (runs_merge(s, &purse))
                return true;
            break;
        }
        if (s->phase == MU_SURVEY_CHECKS && s->checks >= SHY)
            break; /* others have their turn between checks that are not interrupted */
    }
    return *ret_status != MUSTER_OK;
}

void mu_survey_done(struct mu_survey *s)
{
    mu_snapshot_done(&s->snapshot);
    free(s->buckets);
    free(s->merged);
    s->buckets = NULL;
    s->merged = NULL;
}
