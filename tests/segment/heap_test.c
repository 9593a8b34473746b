/*
 * tests/segment/heap_test.c: blocks: classes, generations, exhaustion, parts freed with their head.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"
#include "seed.h"
#include "segment/file.h"
#include "segment/heap.h"
#include "segment/scavenge.h"
#include "segment/slot.h"

static struct test_job job;
static struct muster_segment *seg;
static struct mu_ctx *ctx;

static int setup(void)
{
    const struct muster_segment_config config = {.heap_bytes = 1 << 20};

    ctx = malloc(sizeof *ctx);
    return test_job_create(&job, &config) || mu_segment_open(job.name, true, &seg) || mu_slot_claim(seg, 0, ctx) ? -1
                                                                                                                 : 0;
}

static int teardown(void)
{
    mu_slot_release(ctx);
    free(ctx);
    muster_segment_close(seg);
    return test_job_end(&job) ? -1 : 0;
}

TEST_WITH(the_class_of_a_size_is_the_smallest_that_holds_it, setup, teardown)
{
    for (size_t bytes = 0; bytes <= MU_BODY_MAX; bytes++) {
        uint32_t c = mu_heap_class(bytes);

        assert_true(c < MU_CLASSES && mu_heap_class_bytes(c) >= bytes);
        assert_true(c == 0 || mu_heap_class_bytes(c - 1) < bytes);
    }
    assert_int_equal(mu_heap_class(MU_BODY_MAX + 1), MU_CLASSES);
    for (uint32_t c = 0; c < MU_CLASSES; c++)
        assert_true(mu_heap_chunk_blocks(c) * (mu_heap_class_bytes(c) + MU_BLOCK_HEADER) <= MU_CHUNK);
}

TEST_WITH(a_block_goes_from_free_to_owned_to_live_to_free_one_generation_on, setup, teardown)
{
    struct mu_block *b;
    uint64_t ref, w;

    assert_ok(mu_heap_alloc(ctx, 100, 0, &ref, &b));
    w = mu_load_relaxed(&b->word);
    assert_int_equal(MU_BLOCK_STATE(w), MU_OWNED);
    assert_int_equal(MU_BLOCK_SLOT(w), ctx->slot);
    assert_int_equal(MU_BLOCK_INCARNATION(w), ctx->incarnation);
    assert_int_equal(MU_BLOCK_GENERATION(w), MU_REF_GENERATION(ref));
    assert_ptr_equal(mu_heap_block(seg, MU_REF_INDEX(ref), NULL), b);
    assert_false(mu_heap_is_live(seg, ref));
    assert_false(mu_heap_free(seg, ctx, ref)); /* only what is LIVE */
    mu_heap_publish(ctx, ref);
    assert_true(mu_heap_is_live(seg, ref));
    assert_false(mu_heap_free(seg, ctx, ref + (1ull << 32))); /* only at its generation */
    assert_false(mu_heap_free(seg, ctx, ref - (1ull << 32)));
    assert_true(mu_heap_free(seg, ctx, ref));
    assert_false(mu_heap_free(seg, ctx, ref)); /* once */
    w = mu_load_relaxed(&b->word);
    assert_int_equal(MU_BLOCK_STATE(w), MU_FREE);
    assert_int_equal(MU_BLOCK_GENERATION(w), (uint32_t)(MU_REF_GENERATION(ref) + 1));
}

TEST_WITH(a_generation_wraps_without_harm, setup, teardown)
{
    struct mu_block *b;
    uint64_t ref;

    assert_ok(mu_heap_alloc(ctx, 100, 0, &ref, &b));
    mu_heap_discard(ctx, ref);
    mu_store_relaxed(&b->word, MU_BLOCK_WORD(UINT32_MAX, 0, 0, MU_FREE));
    do {
        assert_ok(mu_heap_alloc(ctx, 100, 0, &ref, &b));
        mu_heap_publish(ctx, ref);
    } while (MU_REF_GENERATION(ref) != UINT32_MAX && mu_heap_free(seg, ctx, ref));
    assert_int_equal(MU_REF_GENERATION(ref), UINT32_MAX);
    assert_true(mu_heap_free(seg, ctx, ref));
    assert_int_equal(MU_BLOCK_GENERATION(mu_load_relaxed(&b->word)), 0);
}

/* Somebody has written over the chunk's word since the block was looked at. */
TEST_WITH(a_block_of_a_chunk_of_no_class_is_freed_and_not_remembered, setup, teardown)
{
    static const uint32_t words[] = {0, MU_CLASSES + 1, 0xff, MU_CHUNK_SYSTEM};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct mu_block *b;
        uint32_t was;
        uint64_t ref;
        mu_a32 *chunk;

        assert_ok(mu_heap_alloc(ctx, 100, 0, &ref, &b));
        mu_heap_publish(ctx, ref);
        chunk = &seg->chunks[(MU_REF_INDEX(ref) - 1) / MU_CHUNK_GRANULES];
        was = mu_load32_relaxed(chunk);
        mu_store32_release(chunk, words[i]);
        assert_true(
            mu_heap_free_word(seg, ctx, MU_REF_INDEX(ref), MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE)));
        mu_store32_release(chunk, was);
        assert_int_equal(MU_BLOCK_STATE(mu_load_relaxed(&b->word)), MU_FREE);
    }
}

static int by_index(const void *a, const void *b)
{
    uint32_t x = MU_REF_INDEX(*(const uint64_t *)a), y = MU_REF_INDEX(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

TEST_WITH(all_of_the_heap_can_be_had_once_in_blocks_of_any_class, setup, teardown)
{
    static uint64_t refs[40000];

    for (uint32_t c = 0; c < MU_CLASSES; c++) {
        uint32_t granules = (uint32_t)(mu_heap_class_bytes(c) + MU_BLOCK_HEADER) / MU_GRANULE, n = 0;
        struct mu_block *b;

        assert_int_equal(teardown(), 0);
        assert_int_equal(setup(), 0);
        while (mu_heap_alloc(ctx, mu_heap_class_bytes(c), 0, &refs[n], &b) == MUSTER_OK) {
            memset((void *)b->body, 0xee, mu_heap_class_bytes(c)); /* all of it is ours */
            n++;
        }
        assert_says("full");
        assert_int_equal(n, (seg->num_chunks - seg->num_system_chunks) * mu_heap_chunk_blocks(c));
        qsort(refs, n, sizeof refs[0], by_index);
        for (uint32_t i = 1; i < n; i++)
            assert_true(MU_REF_INDEX(refs[i]) - MU_REF_INDEX(refs[i - 1]) >= granules);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(MU_BLOCK_STATE(mu_load_relaxed(&mu_heap_block(seg, MU_REF_INDEX(refs[i]), NULL)->word)),
                             MU_OWNED);
        mu_heap_discard(ctx, refs[n / 2]);
        assert_ok(mu_heap_alloc(ctx, mu_heap_class_bytes(c), 0, &refs[n / 2], &b));
        for (uint32_t i = 0; i < n; i++)
            mu_heap_discard(ctx, refs[i]);
    }
}

TEST_WITH(in_a_full_heap_a_larger_block_serves, setup, teardown)
{
    static uint64_t large[100];
    struct mu_block *b;
    uint64_t small[3];
    uint32_t n = 0;

    while (mu_heap_alloc(ctx, MU_BODY_MAX, 0, &large[n], &b) == MUSTER_OK)
        n++;
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 10, 0, &small[0], &b));
    mu_heap_discard(ctx, large[0]);
    assert_ok(mu_heap_alloc(ctx, 10, 0, &small[0], &b));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 10, 0, &small[1], &b));
    assert_ok(mu_heap_alloc(ctx, 10, MU_HEAP_RESERVE, &small[1], &b)); /* the deletes' two */
    assert_true(mu_heap_is_reserve(seg, small[1]));
    assert_ok(mu_heap_alloc(ctx, 10, MU_HEAP_RESERVE, &small[2], &b));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 10, MU_HEAP_RESERVE, &large[0], &b));
    assert_ok(mu_heap_alloc(ctx, 10, MU_HEAP_SYSTEM, &large[0], &b)); /* the cluster's own chunks are others */
    assert_false(mu_heap_is_reserve(seg, large[0]));
    for (uint32_t i = 0; i < n; i++)
        mu_heap_discard(ctx, large[i]);
    for (int i = 0; i < 3; i++)
        mu_heap_discard(ctx, small[i]);
}

static uint32_t fill(struct mu_ctx *who, size_t bytes, uint64_t *refs)
{
    struct mu_block *b;
    uint32_t n = 0;

    while (mu_heap_alloc(who, bytes, 0, &refs[n], &b) == MUSTER_OK)
        n++;
    return n;
}

static void discard(struct mu_ctx *who, const uint64_t *refs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        mu_heap_discard(who, refs[i]);
}

/* Large enough that a search of everything takes a while: a full heap is never believed to be full for longer. */
TEST_WITH(what_another_frees_in_a_full_heap_is_found_at_once, setup, teardown)
{
    const struct muster_segment_config config = {.heap_bytes = 32 << 20};
    static uint64_t large[32768], small[1 << 19];
    struct mu_ctx *other = malloc(sizeof *other);
    uint32_t num_large, num_small;
    struct mu_block *b;
    uint64_t got[64];

    assert_int_equal(teardown(), 0);
    ctx = malloc(sizeof *ctx);
    assert_ok(test_job_create(&job, &config));
    assert_ok(mu_segment_open(job.name, true, &seg));
    assert_ok(mu_slot_claim(seg, 0, ctx));
    assert_ok(mu_slot_claim(seg, 0, other));
    for (num_large = 0; num_large < 32768; num_large++) /* a quarter of it serves both classes */
        assert_ok(mu_heap_alloc(other, 200, 0, &large[num_large], &b));
    num_small = fill(other, 10, small);
    for (uint32_t i = 0; i < 32; i++) {
        assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 200, 0, &got[i], &b));
        assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 10, 0, &got[i], &b));
        mu_heap_discard(other, large[--num_large]);
        assert_ok(mu_heap_alloc(ctx, i % 2 ? 10 : 200, 0, &got[i], &b));
    }
    for (uint32_t i = 32; i < 64; i++) {
        mu_heap_discard(other, small[--num_small]);
        assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, 200, 0, &got[i], &b)); /* too small for it */
        assert_ok(mu_heap_alloc(ctx, 10, 0, &got[i], &b));
    }
    discard(ctx, got, 64);
    discard(other, large, num_large);
    discard(other, small, num_small);
    mu_slot_release(other);
    free(other);
}

TEST_WITH(what_the_dead_held_in_a_full_heap_is_found_once_they_are_cleaned_up_after, setup, teardown)
{
    uint64_t refs[100], ref;
    struct mu_block *b;
    uint32_t n;
    pid_t child;
    int status;

    child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct mu_ctx *dying = malloc(sizeof *dying);

        _exit(mu_segment_open(job.name, true, &seg) || mu_slot_claim(seg, 0, dying) ||
              mu_heap_alloc(dying, MU_BODY_MAX, 0, &ref, &b));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    n = fill(ctx, MU_BODY_MAX, refs);
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_heap_alloc(ctx, MU_BODY_MAX, 0, &ref, &b));
    assert_int_equal(mu_scavenge(ctx, NULL, NULL), 1);
    assert_int_equal(fill(ctx, MU_BODY_MAX, refs + n), 1);
    discard(ctx, refs, n + 1);
}

TEST_WITH(a_deep_free_takes_the_parts_and_may_be_repeated, setup, teardown)
{
    uint64_t head, parts[5];
    struct mu_block *b, *p;

    for (int killed_after = 0; killed_after <= 5; killed_after++) {
        assert_ok(mu_heap_alloc(ctx, sizeof parts, 0, &head, &b));
        mu_store_relaxed(&b->meta, MU_META(0, 5, MU_TYPE_VALUE));
        for (int i = 0; i < 5; i++) {
            assert_ok(mu_heap_alloc(ctx, 1000, 0, &parts[i], &p));
            mu_store_relaxed(&b->body[i], parts[i]);
            mu_heap_publish(ctx, parts[i]);
        }
        mu_heap_publish(ctx, head);
        for (int i = 0; i < killed_after; i++) /* as by one who died in it */
            assert_true(mu_heap_free(seg, ctx, parts[i]));
        if (killed_after) { /* and one of them has a new owner */
            assert_ok(mu_heap_alloc(ctx, 1000, 0, &parts[0], &p));
            mu_heap_publish(ctx, parts[0]);
        }
        assert_true(mu_heap_free(seg, ctx, head | MU_REF_DEEP));
        assert_false(mu_heap_free(seg, ctx, head | MU_REF_DEEP));
        assert_int_equal(mu_heap_is_live(seg, parts[0]), killed_after > 0);
        for (int i = 1; i < 5; i++)
            assert_false(mu_heap_is_live(seg, parts[i]));
        if (killed_after)
            assert_true(mu_heap_free(seg, ctx, parts[0]));
    }
}

TEST_WITH(wild_indices_name_no_block, setup, teardown)
{
    struct test_random r = {test_seed()};
    struct mu_block *b;
    uint64_t ref;

    assert_ok(mu_heap_alloc(ctx, 1000, 0, &ref, &b));
    for (int i = 0; i < 200000; i++) {
        uint32_t index = (uint32_t)(i % 2 ? test_random(&r) : test_below(&r, seg->num_chunks * MU_CHUNK_GRANULES + 9));
        uint32_t limit = 0;

        b = mu_heap_block(seg, index & MU_INDEX_MAX, &limit);
        if (b)
            assert_true((uint8_t *)b >= seg->heap && (uint8_t *)b + limit <= seg->base + seg->size);
    }
    assert_null(mu_heap_block(seg, 0, NULL));
    assert_null(mu_heap_block(seg, MU_INDEX_MAX, NULL));
    assert_null(mu_heap_block(seg, MU_REF_INDEX(ref) + 1, NULL));
    mu_heap_discard(ctx, ref);
}

TEST_WITH(freed_blocks_are_used_again_before_new_memory, setup, teardown)
{
    struct muster_segment_info before, after;
    struct mu_block *b;
    uint64_t ref;

    for (int i = 0; i < 100; i++) {
        assert_ok(mu_heap_alloc(ctx, 30000, 0, &ref, &b));
        mu_heap_discard(ctx, ref);
        if (i == 10)
            muster_segment_info(seg, &before);
    }
    muster_segment_info(seg, &after);
    assert_int_equal(before.committed_bytes, after.committed_bytes);
}

static uint32_t chunks_claimed(void)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < seg->num_chunks; c++)
        n += mu_load32_acquire(&seg->chunks[c]) != 0;
    return n;
}

/* As the members of a group take an area each: every other thread has been in the oldest chunk, which fills up. */
TEST_WITH(threads_that_need_one_block_each_share_chunks, setup, teardown)
{
    const struct muster_segment_config config = {.heap_bytes = 32 << 20};
    uint32_t class_index = mu_heap_class(1000), first = 0, before, threads = 5 * mu_heap_chunk_blocks(class_index);
    uint64_t refs[5 * MU_CHUNK / 1000];
    struct mu_block *b;

    assert_int_equal(teardown(), 0);
    ctx = malloc(sizeof *ctx);
    assert_ok(test_job_create(&job, &config));
    assert_ok(mu_segment_open(job.name, true, &seg));
    assert_ok(mu_slot_claim(seg, 0, ctx));
    assert_true(threads <= sizeof refs / sizeof refs[0]);
    before = chunks_claimed();
    for (uint32_t i = 0; i < threads; i++) {
        memset(ctx->hints, 0, sizeof ctx->hints); /* another thread's */
        ctx->unclaimed = 0;
        ctx->hints[0][class_index].chunk = i % 2 ? first : 0;
        assert_ok(mu_heap_alloc(ctx, 1000, 0, &refs[i], &b));
        first = i ? first : ctx->hints[0][class_index].chunk;
    }
    assert_true(chunks_claimed() - before <= 6);
    discard(ctx, refs, threads);
}

/* Each takes a block, frees the oldest, and goes: so `live` blocks move on, and what they leave must be found again. */
static void churn(size_t bytes, uint32_t live, uint32_t rounds)
{
    uint64_t *refs = calloc(live, sizeof *refs), ref;
    uint16_t incarnation = ctx->incarnation;
    uint32_t before = 0;
    struct mu_block *b;

    for (uint32_t i = 0; i < live + rounds; i++) {
        memset(ctx->hints, 0, sizeof ctx->hints); /* the slot's next owner's */
        ctx->unclaimed = 0;
        ctx->incarnation++;
        assert_ok(mu_heap_alloc(ctx, bytes, 0, &ref, &b));
        mu_heap_publish(ctx, ref);
        if (i == live)
            before = chunks_claimed();
        assert_int_equal(mu_heap_free(seg, ctx, refs[i % live]), i >= live);
        refs[i % live] = ref;
    }
    assert_true(chunks_claimed() <= before + 4);
    for (uint32_t i = 0; i < live; i++)
        assert_true(mu_heap_free(seg, ctx, refs[i]));
    ctx->incarnation = incarnation;
    free(refs);
}

TEST_WITH(threads_that_come_and_go_find_what_others_freed, setup, teardown)
{
    static const size_t sizes[] = {100, 1000, 30000, 60000};
    const struct muster_segment_config config = {.heap_bytes = 32 << 20};

    assert_int_equal(teardown(), 0);
    ctx = malloc(sizeof *ctx);
    assert_ok(test_job_create(&job, &config));
    assert_ok(mu_segment_open(job.name, true, &seg));
    assert_ok(mu_slot_claim(seg, 0, ctx));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t blocks = mu_heap_chunk_blocks(mu_heap_class(sizes[i]));

        churn(sizes[i], 1, 30 * blocks);
        churn(sizes[i], 6 * blocks, 30 * blocks);
    }
}
