/*
 * segment/entry.h: reading pages and values; shared by table.c (read) and edit.c (write).
 */
#ifndef MU_SEGMENT_ENTRY_H
#define MU_SEGMENT_ENTRY_H

#include "segment/table.h"

/* Optimistic copies of a value that keeps changing, before its reader pins it. */
#ifdef MU_SIM
extern uint32_t mu_sim_tries; /* drawn for each schedule: few, so that it gets there */
#define MU_TRIES_UNPINNED mu_sim_tries
#else
enum { MU_TRIES_UNPINNED = 64 };
#endif

static inline uint32_t mu_words(uint64_t bytes)
{
    return (uint32_t)((bytes + 7) / 8);
}

/* One entry of a private, consistent copy of a page. Offsets are in words of the page's data. */
struct mu_entry {
    uint32_t at, words;
    uint32_t ref_at, refs; /* its first reference among the page's, and how many */
    uint32_t key_len, flags;
    uint64_t hash, version, value_len;
};

struct mu_page {
    const struct mu_root *root;
    uint64_t *data;
    uint32_t words, count;
};

/* Understand a copied root as a page. False: not well formed. An empty object is a page without entries. */
bool mu_page_open(struct mu_page *p, const struct mu_root *root);
/* The entry at *e, which starts zeroed and is moved on by each call; false at the end, or *corrupt. */
bool mu_page_next(const struct mu_page *p, uint32_t *index, struct mu_entry *e, bool *corrupt);

/*
 * Go over the private page's records of calls that were done (done.c): take out those that `forget` says, or that are
 * of *done's id and older.
 *   MU_DONE_NEW    go on; *ret_count are left
 *   MU_DONE_BEFORE *done was carried out: its result is filled in
 *   MU_DONE_STRAY  a later one of its id was
 */
enum mu_done_look { MU_DONE_NEW, MU_DONE_BEFORE, MU_DONE_STRAY };
enum mu_done_look mu_page_done(struct mu_page *p, struct mu_done *done, mu_forget_fn forget, void *arg,
                               uint32_t *ret_count);
/* The record as an entry of MU_DONE_WORDS words, for the page of this hash's bucket. */
void mu_done_entry(uint64_t words[MU_DONE_WORDS], const struct mu_done *done, uint64_t hash, uint32_t mask,
                   uint64_t commits);

/*
 * Fetch the key (may be NULL: it must then equal `match`) and value of an external entry. `word` is the bucket's.
 *   MU_FETCH_OK       copied (or too long for capacity: then only the length counts)
 *   MU_FETCH_OTHER    the key is not `match`
 *   MU_FETCH_CHANGED  the bucket has changed: look again
 *   MU_FETCH_CORRUPT
 */
enum mu_fetch { MU_FETCH_OK, MU_FETCH_OTHER, MU_FETCH_CHANGED, MU_FETCH_CORRUPT };
struct mu_external {
    const struct muster_segment *seg;
    const mu_a64 *bucket;
    uint64_t word;
    uint64_t ref;
    uint32_t key_len;
    uint64_t value_len;
};
enum mu_fetch mu_external_get(const struct mu_external *x, struct mu_ctx *pin, const struct mu_key *match,
                              uint64_t *ret_key_words, void *buffer, size_t capacity);

#endif
