/*
 * segment/heap.c: type-stable blocks, each with one word that names its holder.
 *
 * Invariant: a block is FREE, or OWNED by one {slot, incarnation} and reachable from nowhere (a ledger: from that
 * slot), or LIVE and then either reachable from exactly one object or named by the intent of the thread that is about
 * to make or just made it so. Linearization: the CAS FREE -> OWNED takes, the store OWNED -> LIVE promises, the CAS
 * LIVE -> FREE gives back. A SIGKILL leaves a block OWNED (the scavenger's sweep frees it) or LIVE and named by an
 * intent (the scavenger frees it unless its object names it). There are no free lists: nothing to corrupt, nothing to
 * lose.
 *
 * Search: first this thread's last frees (still in its cache, oldest first, so that one block is not recycled at
 * once), then on through the current chunk, another of the class, its newest, a little of others, then a fresh chunk.
 * In a full heap: what this thread freed of larger classes, then every block of the class, then of the larger ones. A
 * thread that searched everything in vain does not search again before somebody has freed a block that would have
 * served: a full heap says so at once, and never when it is not (the header's word `wanted`, see search_all()). Deletes
 * have a reserve of blocks that hold any page, so that a full store can be emptied. Chunks are committed (fallocate)
 * before they are claimed: no access ever meets a page that the file system lacks.
 */
#include "segment/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "segment/file.h"
#include "sync/futex.h"

const uint16_t mu_class_granules[MU_CLASSES] = MU_CLASS_GRANULES;

enum {
    PROBES = 96, /* blocks looked at before another chunk is taken */
    CHUNKS = 16, /* chunks of the class, anywhere, before a fresh one is claimed, */
    LOOKS = 4,   /* and blocks looked at in each, */
    LARGE = 16,  /* by a thread that is new, and always where no more than so many fit into a chunk */
    SEARCHES = 3 /* of everything, while others free behind the search what they take before it */
};

uint32_t mu_heap_class_large(size_t granules)
{
    uint32_t c = 0;

    while (c < MU_CLASSES && mu_class_granules[c] < granules)
        c++;
    return c;
}

size_t mu_heap_class_bytes(uint32_t class_index)
{
    return (size_t)mu_class_granules[class_index] * MU_GRANULE - MU_BLOCK_HEADER;
}

uint32_t mu_heap_chunk_blocks(uint32_t class_index)
{
    return MU_CHUNK_GRANULES / mu_class_granules[class_index];
}

static uint32_t block_index(uint32_t chunk, uint32_t class_index, uint32_t i)
{
    return chunk * MU_CHUNK_GRANULES + i * mu_class_granules[class_index] + 1;
}

static uint64_t take_from_chunk(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, uint32_t probes)
{
    uint32_t blocks = mu_heap_chunk_blocks(class_index), chunk = h->chunk - 1;

    for (uint32_t i = 0; i < blocks && i < probes; i++) {
        uint32_t at = h->next < blocks ? h->next : 0;
        uint64_t ref = mu_heap_take(ctx, block_index(chunk, class_index, at));

        h->next = at + 1;
        if (ref)
            return ref;
    }
    return 0;
}

static uint32_t chunk_word(uint32_t class_index, bool system)
{
    return class_index + 1 + (system ? MU_CHUNK_SYSTEM : 0);
}

/* Move h on to another chunk of the class, cyclically; false when there is no other. */
static bool next_chunk(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, bool system)
{
    struct muster_segment *seg = ctx->seg;
    uint32_t want = chunk_word(class_index, system), from = h->chunk ? h->chunk - 1 : 0;
    uint32_t end = system ? seg->num_system_chunks : ctx->unclaimed;

    if (end > seg->num_chunks)
        end = seg->num_chunks;
    for (uint32_t i = 1; i <= end; i++) {
        uint32_t c = (from + i) % end;

        if (mu_load32_acquire(&seg->chunks[c]) == want) { /* acquire: pairs with chunk_claim() */
            bool other = c + 1 != h->chunk;

            h->chunk = c + 1;
            h->next = 0;
            return other;
        }
    }
    return false;
}

/* Reserve the chunk's pages; 0 or errno. Repeating it, or dying in it, leaves pages reserved and nothing else. */
static int chunk_commit(struct muster_segment *seg, uint32_t chunk)
{
    int rc;

    if (seg->fd < 0)
        return 0;
    do
        rc = fallocate(seg->fd, 0, (off_t)(mu_offset_of(seg, seg->heap) + (uint64_t)chunk * MU_CHUNK), MU_CHUNK);
    while (rc && errno == EINTR);
    return rc ? errno : 0;
}

/* Claim a fresh chunk for the class: commit its pages, then one CAS. */
static int chunk_claim(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, bool system)
{
    struct muster_segment *seg = ctx->seg;
    uint32_t c = system ? 0 : ctx->unclaimed, end = system ? seg->num_system_chunks : seg->num_chunks;

    if (!system && c < seg->num_system_chunks)
        c = seg->num_system_chunks;
    for (; c < end; c++) {
        int rc;

        if (mu_load32_acquire(&seg->chunks[c])) /* acquire: as in mu_heap_block() */
            continue;
        rc = chunk_commit(seg, c);
        if (rc)
            return rc;
        /* release half: pairs with the loads of the chunk word everywhere; the pages are there before the claim */
        if (!mu_cas32(&seg->chunks[c], 0, chunk_word(class_index, system)))
            continue;
        h->chunk = c + 1;
        h->next = 0;
        if (!system) {
            ctx->unclaimed = c + 1;
            mu_fence_seq_cst(); /* as after a free: pairs with the fence in search_all() */
            mu_heap_tell(seg, class_index);
        }
        return 0;
    }
    if (!system)
        ctx->unclaimed = end;
    return ENOMEM;
}

static enum muster_status heap_no_memory(const struct muster_segment *seg, int why)
{
    char place[MU_PLACE_MAX];

    if (why == ENOSPC) {
        mu_segment_place(seg, place, sizeof place);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "%s is full: no room to grow the segment of job %s (free some, or mount it larger)", place,
                       seg->job);
    }
    if (why == ENOMEM)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "the segment of job %s is full: all %u chunks of 64 KiB are in use (create it with more heap)",
                       seg->job, seg->num_chunks);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot commit memory of job %s: %s", seg->job, strerror(why));
}

/* Another for each thread, for the next with its slot too, and as its search goes on. */
static uint32_t random_draw(const struct mu_ctx *ctx, const struct mu_hints *h)
{
    uint64_t seed = ((uint64_t)ctx->slot << 16) + ctx->incarnation;

    seed = (seed + h->chunk * 0xbf58476d1ce4e5b9u + h->next * 0x94d049bb133111ebu) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(seed >> 32);
}

/*
 * Share the newest chunk of the class, which has room if any has, from a place of this thread's own: many threads that
 * need a block each would else find the old ones full and claim a chunk each. False: h is there already, or there is
 * none.
 */
static bool newest_chunk(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, bool system)
{
    const struct muster_segment *seg = ctx->seg;
    uint32_t want = chunk_word(class_index, system), c;

    if (ctx->unclaimed < seg->num_system_chunks)
        ctx->unclaimed = seg->num_system_chunks;
    while (ctx->unclaimed < seg->num_chunks && mu_load32_relaxed(&seg->chunks[ctx->unclaimed])) /* relaxed: a hint */
        ctx->unclaimed++;
    c = system ? seg->num_system_chunks : ctx->unclaimed;
    while (c && mu_load32_acquire(&seg->chunks[c - 1]) != want) /* acquire: pairs with chunk_claim() */
        c--;
    if (!c || c == h->chunk)
        return false;
    h->next = random_draw(ctx, h) % mu_heap_chunk_blocks(class_index);
    h->chunk = c;
    return true;
}

/*
 * A little of some chunks of the class, from anywhere on: what was freed behind those that have gone, in chunks that
 * are neither theirs nor the newest, would else be found by nobody before the heap is full.
 */
static uint64_t take_anywhere(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, bool system)
{
    const struct muster_segment *seg = ctx->seg;
    uint32_t want = chunk_word(class_index, system), end = system ? seg->num_system_chunks : ctx->unclaimed;
    uint32_t from = random_draw(ctx, h), chunks = 0;
    uint64_t ref = 0;

    for (uint32_t i = 0; !ref && i < end && chunks < CHUNKS; i++) {
        uint32_t c = (from % end + i) % end;

        if (mu_load32_acquire(&seg->chunks[c]) != want) /* acquire: pairs with chunk_claim() */
            continue;
        chunks++;
        h->chunk = c + 1;
        h->next = random_draw(ctx, h) % mu_heap_chunk_blocks(class_index);
        ref = take_from_chunk(ctx, h, class_index, LOOKS);
    }
    return ref;
}

/* Beyond the hints: current chunk, another one, the newest, a little of others, a fresh one. */
static uint64_t heap_search(struct mu_ctx *ctx, struct mu_hints *h, uint32_t class_index, bool system, int *why)
{
    bool roams = !h->chunk || mu_heap_chunk_blocks(class_index) <= LARGE;
    uint64_t ref = 0;

    if (h->chunk)
        ref = take_from_chunk(ctx, h, class_index, PROBES);
    if (!ref && h->chunk && next_chunk(ctx, h, class_index, system))
        ref = take_from_chunk(ctx, h, class_index, PROBES);
    if (!ref && newest_chunk(ctx, h, class_index, system))
        ref = take_from_chunk(ctx, h, class_index, PROBES);
    if (!ref && roams)
        ref = take_anywhere(ctx, h, class_index, system);
    while (!ref) {
        *why = chunk_claim(ctx, h, class_index, system);
        if (*why)
            break;
        ref = take_from_chunk(ctx, h, class_index, UINT32_MAX);
    }
    return ref;
}

/* Every block of one class, each once. */
static uint64_t sweep_class(struct mu_ctx *ctx, uint32_t class_index, bool system)
{
    struct muster_segment *seg = ctx->seg;
    struct mu_hints *h = &ctx->hints[system][class_index];
    uint32_t want = chunk_word(class_index, system), end = system ? seg->num_system_chunks : seg->num_chunks;
    uint64_t ref = 0;

    for (uint32_t c = system ? 0 : seg->num_system_chunks; !ref && c < end; c++) {
        if (mu_load32_acquire(&seg->chunks[c]) != want) /* acquire: pairs with chunk_claim() */
            continue;
        h->chunk = c + 1;
        ref = take_from_chunk(ctx, h, class_index, UINT32_MAX);
    }
    return ref;
}

void mu_heap_end_wanted(struct muster_segment *seg, uint32_t classes)
{
    uint64_t w = mu_load_acquire(&seg->header->wanted); /* acquire: pairs with mu_heap_want() */

    /* release half: pairs with search_all(). Ends: it is tried again only when others changed the word */
    while (MU_WANTED_CLASSES(w) & classes)
        if (mu_cas_seen(&seg->header->wanted, &w, (w & ~((uint64_t)classes << 1 | MU_WORD_S)) + (1ull << 32))) {
            if (w & MU_WORD_S)
                mu_futex_wake(&seg->header->wanted);
            break;
        }
}

uint64_t mu_heap_want(struct muster_segment *seg, uint32_t class_index)
{
    uint64_t bit = MU_WANTED_BIT(class_index);
    uint64_t w = mu_load_acquire(&seg->header->wanted); /* acquire: another's mu_heap_want() */

    while (!(w & bit) && !mu_cas_seen(&seg->header->wanted, &w, w | bit)) /* lock-free: failed for another's change */
        ;
    mu_fence_seq_cst(); /* the bit comes before the look at any block; pairs with mu_heap_tell() */
    return w | bit;
}

/*
 * Every block that can serve, or the proof that there is none: the class's bit in `wanted` is set before the search,
 * and every free of a block that could serve looks at the word after its CAS and clears the bit. So while the bit
 * stands at the count of a search that was in vain, the heap is as full as it was then. A thread that frees and dies
 * before it looks has not freed yet; the scavenger clears the bits for it. (The count would have to go round while this
 * thread sleeps between two calls to be mistaken.)
 */
static uint64_t search_all(struct mu_ctx *ctx, uint32_t class_index)
{
    const mu_a64 *wanted = &ctx->seg->header->wanted;
    uint64_t ref = 0;

    for (int i = 0; !ref && i < SEARCHES; i++) {
        uint64_t count = MU_WANTED_COUNT(mu_heap_want(ctx->seg, class_index)), w;

        if (ctx->dry[class_index] == count + 1)
            break;
        for (uint32_t c = class_index; !ref && c < MU_CLASSES; c++)
            ref = sweep_class(ctx, c, false);
        w = mu_load_acquire(wanted); /* acquire: pairs with mu_heap_end_wanted() */
        if (!ref && (MU_WANTED_CLASSES(w) >> class_index & 1) && MU_WANTED_COUNT(w) == count)
            ctx->dry[class_index] = count + 1;
    }
    return ref;
}

/* No chunk is to be had: any free block that is large enough. */
static uint64_t search_everywhere(struct mu_ctx *ctx, uint32_t class_index, bool system)
{
    uint64_t ref = 0;

    for (uint32_t c = class_index; !ref && c < MU_CLASSES; c++)
        ref = mu_heap_take_hinted(ctx, &ctx->hints[system][c]);
    if (!ref && !system)
        return search_all(ctx, class_index);
    for (uint32_t c = class_index; !ref && c < MU_CLASSES - 1; c++) /* the largest are the deletes' reserve */
        ref = sweep_class(ctx, c, true);
    return ref;
}

enum muster_status mu_heap_alloc(struct mu_ctx *ctx, size_t body_bytes, uint32_t flags, uint64_t *ret_ref,
                                 struct mu_block **ret_block)
{
    uint32_t c = mu_heap_class(body_bytes);
    bool system = flags & MU_HEAP_SYSTEM;
    struct mu_hints *h;
    int why = 0;
    uint64_t ref;

    if (c >= MU_CLASSES)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "a block of %zu bytes is larger than any can be", body_bytes);
    h = &ctx->hints[system][c];
    ref = h->count ? mu_heap_take_hinted(ctx, h) : 0;
    if (!ref)
        ref = heap_search(ctx, h, c, system, &why);
    if (!ref)
        ref = search_everywhere(ctx, c, system);
    if (!ref && system) { /* the kept chunks are used up: compete with everybody */
        ref = heap_search(ctx, &ctx->hints[0][c], c, false, &why);
        if (!ref)
            ref = search_everywhere(ctx, c, false);
    }
    if (!ref && (flags & MU_HEAP_RESERVE))
        ref = sweep_class(ctx, MU_CLASSES - 1, true);
    if (!ref)
        return heap_no_memory(ctx->seg, why);
    *ret_ref = ref;
    *ret_block = mu_heap_at(ctx->seg, MU_REF_INDEX(ref));
    /* Release fence before the first store into recycled memory: a reader that still copies the old contents and sees
     * one of the new stores must then see the changed word at its re-check. Pairs with mu_recheck(). */
    mu_fence_release();
    return MUSTER_OK;
}

bool mu_heap_is_reserve(const struct muster_segment *seg, uint64_t ref)
{
    /* relaxed: a chunk's word is written once, and this thread holds the block */
    return mu_load32_relaxed(&seg->chunks[(MU_REF_INDEX(ref) - 1) / MU_CHUNK_GRANULES]) ==
           chunk_word(MU_CLASSES - 1, true);
}

void mu_heap_discard(struct mu_ctx *ctx, uint64_t ref)
{
    mu_heap_free_word(ctx->seg, ctx, MU_REF_INDEX(ref),
                      MU_BLOCK_WORD(MU_REF_GENERATION(ref), ctx->incarnation, ctx->slot, MU_OWNED));
}

/* Free what the block's own references name. Each is read, then the head's word looked at again, before it counts. */
static void free_parts(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_block *head, uint32_t limit,
                       uint64_t word)
{
    uint32_t refs = MU_META_REFS(mu_load_relaxed(&head->meta)); /* relaxed: re-checked below */

    for (uint32_t i = 0; i < refs && MU_BLOCK_HEADER + (i + 1) * 8 <= limit; i++) {
        uint64_t part = mu_load_relaxed(&head->body[i]); /* relaxed: re-checked next */

        if (mu_recheck(&head->word) != word)
            return;
        if (part && mu_heap_block(seg, MU_REF_INDEX(part), NULL))
            mu_heap_free_word(seg, ctx, MU_REF_INDEX(part), MU_BLOCK_WORD(MU_REF_GENERATION(part), 0, 0, MU_LIVE));
    }
}

bool mu_heap_inherit(struct mu_ctx *ctx, uint64_t ref)
{
    struct mu_block *b = mu_heap_at(ctx->seg, MU_REF_INDEX(ref));
    uint64_t w = mu_load_acquire(&b->word); /* acquire: pairs with the release of whichever thread had it */

    /* acq_rel: what this thread does with it comes behind; pairs with the sweep of the slot that had it */
    return MU_BLOCK_GENERATION(w) == MU_REF_GENERATION(ref) && MU_BLOCK_STATE(w) == MU_OWNED &&
           mu_cas(&b->word, w, MU_BLOCK_WORD(MU_REF_GENERATION(ref), ctx->incarnation, ctx->slot, MU_OWNED));
}

void mu_bundle_end(struct mu_ctx *ctx, uint64_t ref)
{
    mu_store_relaxed(&mu_heap_at(ctx->seg, MU_REF_INDEX(ref))->body[0], ctx->ended); /* relaxed: our own block */
    ctx->ended = ref;
}

/* Of all threads that try, one has the bundle, and its references end. */
static bool bundle_take(struct mu_ctx *ctx, struct mu_block *b, uint64_t ref)
{
    /* acq_rel: pairs with mu_heap_publish() */
    if (!mu_cas(&b->word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE),
                MU_BLOCK_WORD(MU_REF_GENERATION(ref), ctx->incarnation, ctx->slot, MU_OWNED)))
        return false;
    mu_bundle_end(ctx, ref);
    return true;
}

bool mu_heap_free_deep(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref)
{
    uint32_t limit;
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);
    uint64_t w;

    if (!b)
        return false;
    if (ref & MU_REF_HOLDS)
        return ctx && bundle_take(ctx, b, ref);
    w = mu_load_acquire(&b->word); /* acquire: pairs with mu_heap_publish(); the table is there */
    /* an OWNED head is met by the scavenger only: its parts may be LIVE already; the sweep frees the head */
    if (MU_BLOCK_GENERATION(w) != MU_REF_GENERATION(ref) || MU_BLOCK_STATE(w) == MU_FREE)
        return false;
    free_parts(seg, ctx, b, limit, w);
    return mu_heap_free_word(seg, ctx, MU_REF_INDEX(ref), MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE));
}

bool mu_heap_is_live(const struct muster_segment *seg, uint64_t ref)
{
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);

    /* acquire: as in mu_heap_free() */
    return b && mu_load_acquire(&b->word) == MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE);
}

uint32_t mu_heap_refs(const struct muster_segment *seg, uint64_t ref, uint64_t *refs, uint32_t capacity)
{
    uint32_t limit, n;
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);
    uint64_t w;

    if (!b)
        return UINT32_MAX;
    w = mu_load_acquire(&b->word); /* acquire: pairs with mu_heap_publish() */
    if (MU_BLOCK_GENERATION(w) != MU_REF_GENERATION(ref) || MU_BLOCK_STATE(w) == MU_FREE)
        return UINT32_MAX;
    n = MU_META_REFS(mu_load_relaxed(&b->meta)); /* relaxed: re-checked below */
    if (MU_BLOCK_HEADER + n * 8 > limit)
        return UINT32_MAX;
    mu_copy_out(refs, b->body, n < capacity ? n : capacity);
    if (MU_BLOCK_GENERATION(mu_recheck(&b->word)) != MU_REF_GENERATION(ref))
        return UINT32_MAX;
    return n;
}
