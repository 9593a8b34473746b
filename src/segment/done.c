/*
 * segment/done.c: records of calls that other hosts made and that a commit of this page carried out.
 *
 * They are entries without a key, so pages with them are pages like any other to readers, sweeps and the auditor.
 * Only an edit adds or removes them, in its private copy of the page, published by its own commit: the record and what
 * it records become visible at once, or not at all.
 */
#include <string.h>

#include "segment/entry.h"

/* Take the entry out of the private copy. It has no references. */
static void remove_entry(struct mu_page *p, const struct mu_entry *e)
{
    memmove(&p->data[e->at], &p->data[e->at + e->words], (size_t)(p->words - e->at - e->words) * 8);
    p->words -= e->words;
    p->data[2] = --p->count;
}

enum mu_done_look mu_page_done(struct mu_page *p, struct mu_done *done, mu_forget_fn forget, void *arg,
                               uint32_t *ret_count)
{
    enum mu_done_look look = MU_DONE_NEW;
    struct mu_entry e = {0};
    uint32_t index = 0, kept = 0;
    bool bad = false;

    if (done && done->goes_on)
        memset(done->result, 0, sizeof done->result);
    while (mu_page_next(p, &index, &e, &bad)) {
        const uint64_t *r = &p->data[e.at + MU_ENTRY_WORDS]; /* id, number, two results */
        bool same, old;

        if (!(e.flags & MU_ENTRY_DONE) || e.refs || e.words != MU_DONE_WORDS)
            continue;
        same = done && r[0] == done->id;
        old = same && r[1] < done->number;
        if (same && !old) {
            look = r[1] == done->number ? MU_DONE_BEFORE : MU_DONE_STRAY;
            memcpy(done->result, &r[2], sizeof done->result);
            done->version = e.version;
            if (done->goes_on && look == MU_DONE_BEFORE) {
                look = MU_DONE_NEW;
                old = true;
            }
        }
        if (!old && !(forget && forget(arg, r[0], r[1]))) {
            kept++;
            continue;
        }
        remove_entry(p, &e);
        index--;
        e.words = 0; /* the next one lies where this one did */
    }
    *ret_count = kept; /* of a page that is not well formed the search that follows complains */
    return look;
}

void mu_done_entry(uint64_t words[MU_DONE_WORDS], const struct mu_done *done, uint64_t hash, uint32_t mask,
                   uint64_t commits)
{
    words[0] = hash & ((uint64_t)mask << 20);
    words[1] = commits;
    words[2] = MU_SHAPE(8, MU_ENTRY_DONE, 0, MU_DONE_WORDS);
    words[3] = 3 * 8;
    words[4] = done->id;
    words[5] = done->number;
    words[6] = done->result[0];
    words[7] = done->result[1];
}

enum muster_status mu_table_done(const struct mu_table *t, struct mu_ctx *ctx, uint32_t bucket, struct mu_done *done)
{
    struct mu_root root;
    struct mu_page page;
    struct mu_entry e = {0};
    uint32_t index = 0;
    bool bad = false;

    if (mu_object_read(t->seg, &t->buckets[bucket], ctx->scratch, &root) == MU_READ_CORRUPT ||
        !mu_page_open(&page, &root))
        bad = true;
    while (!bad && mu_page_next(&page, &index, &e, &bad)) {
        const uint64_t *r = &page.data[e.at + MU_ENTRY_WORDS];

        if (!(e.flags & MU_ENTRY_DONE) || e.words != MU_DONE_WORDS || r[0] != done->id || r[1] != done->number)
            continue;
        done->result[0] += r[2];
        done->result[1] += r[3];
    }
    return bad ? mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: bucket %u is not well formed",
                         t->seg->job, bucket)
               : MUSTER_OK;
}
