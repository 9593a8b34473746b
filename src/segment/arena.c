/*
 * segment/arena.c: runs of units, each owned by a block.
 *
 * Invariant: a unit belongs to the block that its word names, while that block is at the generation that the word
 * names. Linearization: a unit is claimed by a CAS of its word, from a word that names nobody; all units of a run are
 * freed by the CAS that frees their block (mu_heap_free_word(), or the sweep). A word that names nobody goes on to do
 * so, for generations do not come back: so a claimant may take its time between look and CAS.
 *
 * A claimant has its block first, OWNED; then it claims the run upward. Of two claimants that meet, the one that
 * begins higher has its unit already, and the other gives up what it has: so one of them always goes on. It makes the
 * pages of what is not backed, in pieces, so that signals do not stop it for ever; the units are marked when all are
 * there. Where one cannot be made, those that are not marked are given back: a failed claim takes nobody's memory.
 *
 * What a SIGKILL leaves:
 *   with units claimed              an OWNED block; the sweep frees it, and with it the units
 *   behind fallocate, unmarked      pages that nobody counts; they are there next time
 *   with a range committed          likewise
 * tests/model/extent.pml has all of this.
 *
 * Search: what this thread freed last; the lowest run that is long enough, behind not too many extents, so that the
 * arena stays dense; on from where this thread was last; everything; a new range. Where no page is to be had: what is
 * backed.
 */
#include "segment/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>

#include "segment/file.h"
#include "segment/heap.h"

enum {
    NEAR = 256,  /* extents that the search for the lowest run jumps over */
    PIECE = 256, /* units that get their pages by one call */
    FIT =
        8 /* of a run that this thread freed at most so much is left over: larger ones stay whole for larger objects */
};

/* A search, for a block that is OWNED. */
struct arena_run {
    struct mu_ctx *ctx;
    uint64_t ref;
    struct mu_block *block;
    uint32_t units;
    uint32_t start; /* found: of the run; else of the free units before the place where the search ended */
    uint32_t piece; /* units that get their pages by one call */
    bool backed;    /* only units that are */
};

uint8_t *mu_arena_map(struct muster_segment *seg, bool writable)
{
    return mu_segment_map(seg, writable ? &seg->arena : &seg->arena_views, seg->arena_offset,
                          (uint64_t)seg->num_units * MU_UNIT, writable);
}

bool mu_unit_is_free(const struct muster_segment *seg, uint64_t w)
{
    uint64_t ref = MU_UNIT_REF(w);
    const struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);

    if (!ref)
        return true;
    /* acquire: pairs with the CAS that freed it: all use of the unit comes before the next owner's */
    return b && MU_BLOCK_GENERATION(mu_load_acquire(&b->word)) != MU_REF_GENERATION(ref);
}

bool mu_arena_extent(const struct muster_segment *seg, uint64_t ref, uint32_t *ret_start, uint32_t *ret_units)
{
    const struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);
    uint64_t word, meta, start, units;

    if (!b)
        return false;
    word = mu_load_acquire(&b->word); /* acquire: pairs with publish */
    meta = mu_load_relaxed(&b->meta); /* relaxed, as the others: the word is looked at again */
    start = mu_load_relaxed(&b->body[0]);
    units = mu_load_relaxed(&b->body[1]);
    if (mu_recheck(&b->word) != word || MU_BLOCK_GENERATION(word) != MU_REF_GENERATION(ref) ||
        meta != MU_META(MU_EXTENT_BYTES, 0, MU_TYPE_EXTENT) || !units || units > seg->num_units ||
        start > seg->num_units - units)
        return false;
    *ret_start = (uint32_t)start;
    *ret_units = (uint32_t)units;
    return true;
}

/* ---- one run ---- */

static void run_put_back(struct arena_run *r, uint32_t start, uint32_t count)
{
    mu_a64 *units = &r->ctx->seg->units[start];

    /* release: what came before our claim comes before the next one's; pairs with the load in units_find(). Stores, for
     * nobody else changes a word that names a block which is not free. */
    for (uint32_t i = 0; i < count; i++)
        mu_store_release(&units[i], mu_load_relaxed(&units[i]) & MU_UNIT_BACKED); /* relaxed: our own */
}

/* Claim the units from r->start on, upward. False: another has one of them, or was quicker; *ret_next: behind it. */
static bool run_claim(struct arena_run *r, uint32_t *ret_next)
{
    mu_a64 *units = &r->ctx->seg->units[r->start];

    for (uint32_t i = 0; i < r->units; i++) {
        uint64_t w = mu_load_acquire(&units[i]); /* acquire: as in units_find() */

        /* acq_rel: one claimant gets it; pairs with the loads of the word */
        if (mu_unit_is_free(r->ctx->seg, w) && mu_cas(&units[i], w, r->ref | (w & MU_UNIT_BACKED)))
            continue;
        run_put_back(r, r->start, i);
        *ret_next = r->start + i + 1;
        return false;
    }
    return true;
}

static int pages_ask(const struct muster_segment *seg, int mode, uint32_t start, uint32_t count)
{
    off_t at = (off_t)(seg->arena_offset + (uint64_t)start * MU_UNIT);

    return seg->fd < 0 || !fallocate(seg->fd, mode, at, (off_t)count * MU_UNIT) ? 0 : errno;
}

/* From the i-th unit on, the first that are not backed: *ret_at, and how many. */
static uint32_t unbacked_find(const struct arena_run *r, uint32_t i, uint32_t *ret_at)
{
    const mu_a64 *units = &r->ctx->seg->units[r->start];
    uint32_t end;

    while (i < r->units && mu_load_relaxed(&units[i]) & MU_UNIT_BACKED) /* relaxed, both: our own */
        i++;
    for (end = i; end < r->units && !(mu_load_relaxed(&units[end]) & MU_UNIT_BACKED);)
        end++;
    *ret_at = i;
    return end - i;
}

/* The pages of so many units; 0 or errno: ENOSPC where there is no memory. */
static int pages_make(struct arena_run *r, uint32_t start, uint32_t count)
{
    while (count) {
        uint32_t n = count < r->piece ? count : r->piece;
        int rc = pages_ask(r->ctx->seg, 0, start, n);

        if (rc == EINTR && r->piece > 1) /* signals come faster than that many pages are made */
            r->piece /= 2;
        else if (rc && rc != EINTR)
            return rc == ENOMEM ? ENOSPC : rc; /* ENOMEM is left for runs */
        if (rc)
            continue;
        start += n;
        count -= n;
    }
    return 0;
}

/* Whether the file system says that it has room for so many more units. */
static bool units_have_room(const struct muster_segment *seg, uint64_t units)
{
    struct statfs fs;

    return seg->fd < 0 || fstatfs(seg->fd, &fs) || !fs.f_blocks ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= units * MU_UNIT;
}

/* The pages of all its units, or of no more than there were; 0 or errno. */
static int run_back(struct arena_run *r)
{
    mu_a64 *units = &r->ctx->seg->units[r->start];
    uint64_t missing = 0;
    uint32_t at, n;
    int rc = 0;

    for (uint32_t i = 0; (n = unbacked_find(r, i, &at)) != 0; i = at + n)
        missing += n;
    if (!missing)
        return 0;
    if (!units_have_room(r->ctx->seg, missing))
        return ENOSPC;
    r->piece = PIECE;
    for (uint32_t i = 0; !rc && (n = unbacked_find(r, i, &at)) != 0; i = at + n)
        rc = pages_make(r, r->start + at, n);
    if (rc) /* refused: they stay, and are there next time */
        for (uint32_t i = 0; (n = unbacked_find(r, i, &at)) != 0; i = at + n)
            pages_ask(r->ctx->seg, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->start + at, n);
    for (uint32_t i = 0; !rc && i < r->units; i++)
        /* release: behind the pages; pairs with the load in run_claim(). relaxed load: our own */
        mu_store_release(&units[i], mu_load_relaxed(&units[i]) | MU_UNIT_BACKED);
    return rc;
}

/* ---- the search ---- */

/* Where the extent ends that has the unit by its word, as far as that can be told: a unit further at least. */
static uint32_t extent_end(const struct muster_segment *seg, uint32_t at, uint64_t w)
{
    uint32_t start, units;

    if (!mu_arena_extent(seg, MU_UNIT_REF(w), &start, &units) || at < start || at - start >= units)
        return at + 1;
    return start + units;
}

/* The first run of free units that begins at `from` or above it, and ends at `to` or below it. */
static bool units_find(struct arena_run *r, uint32_t from, uint32_t to, uint32_t *jumps)
{
    const struct muster_segment *seg = r->ctx->seg;
    uint64_t nobody = 0; /* a reference that named nobody a moment ago, and does not for ever */

    r->start = from;
    for (uint32_t i = from; i < to;) {
        uint64_t w = mu_load_acquire(&seg->units[i]); /* acquire: pairs with run_put_back() and the claims */

        if (MU_UNIT_REF(w) == nobody || mu_unit_is_free(seg, w)) {
            nobody = MU_UNIT_REF(w);
            i++;
            if (r->backed && !(w & MU_UNIT_BACKED))
                r->start = i;
            else if (i - r->start == r->units)
                return true;
            continue;
        }
        i = r->start = extent_end(seg, i, w);
        if (!(*jumps)--)
            break;
    }
    return false;
}

/* Find and claim; r->start is where the run is. */
static bool run_take(struct arena_run *r, uint32_t from, uint32_t to, uint32_t jumps)
{
    while (units_find(r, from, to, &jumps)) {
        /* relaxed, as all here: the claims publish them to searches, the commit's CAS to readers. Before the first
         * claim no unit names the block, so that nobody reads what it said in an earlier life. */
        mu_store_relaxed(&r->block->meta, MU_META(MU_EXTENT_BYTES, 0, MU_TYPE_EXTENT));
        mu_store_relaxed(&r->block->body[0], r->start);
        mu_store_relaxed(&r->block->body[1], r->units);
        if (run_claim(r, &from))
            return true;
    }
    return false;
}

static void run_remember(struct mu_ctx *ctx, uint32_t start, uint32_t units)
{
    struct mu_extents *e = &ctx->extents;

    if (e->count == MU_HINTS) /* the oldest goes */
        memmove(&e->ring[0], &e->ring[1], --e->count * sizeof e->ring[0]);
    e->ring[e->count].start = start;
    e->ring[e->count++].units = units;
}

static bool run_take_remembered(struct arena_run *r)
{
    struct mu_extents *e = &r->ctx->extents;
    uint32_t high = mu_units_high(r->ctx->seg);

    for (uint32_t i = e->count; i-- > 0;) {
        uint32_t start = e->ring[i].start, units = e->ring[i].units;

        if (start >= high || units > high - start || units < r->units || units - r->units > units / FIT)
            continue;
        e->count--;
        memmove(&e->ring[i], &e->ring[i + 1], (e->count - i) * sizeof e->ring[0]);
        if (!run_take(r, start, start + units, 1))
            continue;
        if (units > r->units)
            run_remember(r->ctx, start + r->units, units - r->units);
        return true;
    }
    return false;
}

void mu_arena_freed(struct mu_ctx *ctx, uint32_t start, uint32_t units)
{
    run_remember(ctx, start, units);
    /* seq_cst: after the CAS that freed; pairs with the fence in mu_heap_want(): its search finds the run, or we its
     * bit
     */
    if (MU_WANTED_CLASSES(mu_load_seq_cst(&ctx->seg->header->wanted)) >> MU_WANTED_RUNS & 1)
        mu_heap_end_wanted(ctx->seg, 1u << MU_WANTED_RUNS);
}

/* Commit another range of words; 0 or errno. */
static int unit_range_commit(struct muster_segment *seg, uint32_t high)
{
    uint32_t count = seg->num_units - high < MU_UNITS_RANGE ? seg->num_units - high : MU_UNITS_RANGE;
    int rc;

    do
        rc =
            seg->fd < 0 ? 0 : fallocate(seg->fd, 0, (off_t)(mu_offset_of(seg, seg->units) + high * 8ull), count * 8ull);
    while (rc && errno == EINTR);
    if (rc)
        return errno == ENOMEM ? ENOSPC : errno; /* ENOMEM is left for runs */
    /* release half: the pages are there before the words count; pairs with mu_units_high(). Failed: another did it. */
    mu_cas32(&seg->header->units_high, high, high + count);
    return 0;
}

/* 0, or errno: ENOMEM where no run is as long. */
static int run_search(struct arena_run *r)
{
    struct muster_segment *seg = r->ctx->seg;
    uint32_t high = mu_units_high(seg), next = r->ctx->extents.next;

    next = next < high ? next : 0;
    if (run_take_remembered(r) || run_take(r, 0, high, NEAR) || run_take(r, next, high, UINT32_MAX) ||
        run_take(r, 0, high, UINT32_MAX))
        return 0;
    /* from the free units below the end on, which r->start names */
    while (seg->num_units - r->start >= r->units) {
        int rc;

        while ((high = mu_units_high(seg)) < r->start + r->units)
            if ((rc = unit_range_commit(seg, high)) != 0)
                return rc;
        if (run_take(r, r->start, high, UINT32_MAX))
            return 0;
    }
    return ENOMEM;
}

/* The same, with its pages; ENOSPC where no memory is to be had, and what is backed has no run as long. */
static int run_make(struct arena_run *r)
{
    int rc = run_search(r);

    if (!rc && (rc = run_back(r)) != 0)
        run_put_back(r, r->start, r->units);
    if (!rc || rc == ENOMEM)
        return rc;
    r->backed = true;
    return run_take(r, 0, mu_units_high(r->ctx->seg), UINT32_MAX) ? 0 : rc;
}

static enum muster_status arena_full(const struct muster_segment *seg, uint64_t bytes, int why)
{
    char place[MU_PLACE_MAX];

    if (why == ENOMEM)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "no %llu KiB in a row are free of the %llu KiB that job %s has for objects (drop some, or give "
                       "the job more: --objects)",
                       (unsigned long long)bytes / 1024, (unsigned long long)seg->num_units * (MU_UNIT / 1024),
                       seg->job);
    mu_segment_place(seg, place, sizeof place);
    if (why == ENOSPC)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "%s is full: no room for %llu KiB of an object of job %s (drop some, or mount it larger)", place,
                       (unsigned long long)bytes / 1024, seg->job);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot commit %llu KiB in %s for an object of job %s: %s",
                   (unsigned long long)bytes / 1024, place, seg->job, strerror(why));
}

static enum muster_status arena_too_small(const struct muster_segment *seg, uint64_t bytes)
{
    if (!seg->num_units)
        return mu_fail(
            MUSTER_OUT_OF_RANGE,
            "an object of %llu bytes; job %s has no room for objects above %u bytes: no file may be as large "
            "where it was made ('ulimit -f')",
            (unsigned long long)bytes, seg->job, MU_BODY_MAX - MU_OBJECT_PAD);
    return mu_fail(MUSTER_OUT_OF_RANGE,
                   "an object of %llu bytes; job %s has %llu KiB for objects above %u bytes (--objects)",
                   (unsigned long long)bytes, seg->job, (unsigned long long)seg->num_units * (MU_UNIT / 1024),
                   MU_BODY_MAX - MU_OBJECT_PAD);
}

enum muster_status mu_arena_take(struct mu_ctx *ctx, uint64_t bytes, uint64_t *ret_ref, uint32_t *ret_start)
{
    struct arena_run r = {.ctx = ctx};
    enum muster_status status;
    int rc;

    if (bytes > (uint64_t)ctx->seg->num_units * MU_UNIT)
        return arena_too_small(ctx->seg, bytes);
    r.units = mu_arena_units(bytes);
    status = mu_heap_alloc(ctx, MU_EXTENT_BYTES, 0, &r.ref, &r.block);
    if (status)
        return status;
    rc = run_make(&r);
    if (rc) {
        mu_heap_discard(ctx, r.ref);
        return arena_full(ctx->seg, bytes, rc);
    }
    ctx->extents.next = r.start + r.units;
    *ret_ref = r.ref;
    *ret_start = r.start;
    return MUSTER_OK;
}
