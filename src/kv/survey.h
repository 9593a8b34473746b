/* kv/survey.h: a snapshot (kv/snapshot.h) made in steps, sorted, for a loop that serves others meanwhile. */
#ifndef MU_KV_SURVEY_H
#define MU_KV_SURVEY_H

#include "kv/snapshot.h"

/* What was found in a bucket. */
struct mu_survey_bucket {
    uint64_t word; /* its, when it was looked at */
    uint64_t sign; /* of what it had of the snapshot then, and of how many keys had ever been deleted there */
    uint32_t first, count;
};

struct mu_survey {
    struct mu_snapshot snapshot; /* prefix and what of are set, the rest is zero; at the end it is sorted */
    struct mu_survey_bucket *buckets;
    enum {
        MU_SURVEY_BEGINS,
        MU_SURVEY_COLLECTS,
        MU_SURVEY_CHECKS,
        MU_SURVEY_POINTS,
        MU_SURVEY_SORTS,
        MU_SURVEY_MERGES
    } phase;
    uint32_t at; /* the next bucket */
    uint32_t checks;
    bool changed;      /* in this check */
    size_t dead;       /* entries that were replaced: their keys have no bytes */
    size_t dead_bytes; /* of theirs */
    /* of pointing and sorting */
    size_t next, live;
    size_t width, out, left, middle, right,
        end; /* runs of this width from `left` and `middle` on become one at `out` */
    struct muster_kv_entry *merged;
};

/*
 * A step of about so many looks at buckets and keys. True: it has ended; with *ret_status OK the snapshot is that of a
 * moment between the first step and this one. ABORTED: the keys change too fast.
 */
bool mu_survey_step(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_survey *s, uint64_t looks,
                    enum muster_status *ret_status);
void mu_survey_done(struct mu_survey *s);

#endif
