/*
 * tests/barrier/quiet_test.c: who comes to a barrier, or to a group that is being built, wakes nobody before the last
 * does: else n tasks that come one after the other would wake each other n * n / 2 times.
 *
 * The sign that somebody sleeps is put into the bucket's word by hand: a commit that wakes takes it out.
 */
#include "named.h"

#include <string.h>

#include "barrier/entry.h"
#include "segment/handle.h"

static mu_a64 *bucket_of(const struct mu_key *k)
{
    struct mu_table t = mu_table_cells(muster_segment_of(stage_observer));

    return mu_table_bucket(&t, k);
}

static void somebody_sleeps(mu_a64 *bucket)
{
    uint64_t w = mu_load_acquire(bucket); /* acquire: pairs with the commits of edit.c */

    while (!mu_cas_seen(bucket, &w, w | MU_WORD_S)) /* as sleep_on() does; pairs with the same */
        ;
}

static bool has_woken(mu_a64 *bucket)
{
    return !(mu_load_acquire(bucket) & MU_WORD_S); /* acquire: as above */
}

/* It comes, and does not stay: neither is anybody else's business. */
static void arrive(int player, uint64_t counter)
{
    assert_status(named_wait(player, "b", counter, 0, 1), MUSTER_DEADLINE_EXCEEDED);
}

STAGE_TEST(only_the_last_to_come_to_a_barrier_wakes)
{
    struct mu_key k;
    mu_a64 *bucket;

    stage_open(4, NULL);
    stage_enter_all();
    mu_key_make(&k, muster_segment_of(stage_observer), "Bb", 2);
    bucket = bucket_of(&k);
    arrive(0, 0);
    for (uint64_t counter = 0; counter < 2; counter++) {
        somebody_sleeps(bucket);
        arrive(1, counter);
        assert_false(has_woken(bucket));
        arrive(2, counter);
        assert_false(has_woken(bucket));
        assert_status(do_barrier(3, "b", counter), MUSTER_OK);
        assert_true(has_woken(bucket));
        for (int player = 0; player < 3; player++)
            assert_status(do_barrier(player, "b", counter), MUSTER_OK);
        somebody_sleeps(bucket);
        arrive(0, counter + 1); /* opens the next: whoever may still wait in this one is to look */
        assert_true(has_woken(bucket));
    }
    stage_close();
}

STAGE_TEST(what_ends_a_call_of_another_is_told_at_once)
{
    struct mu_key k;
    mu_a64 *bucket;

    stage_open(3, NULL);
    stage_enter_all();
    mu_key_make(&k, muster_segment_of(stage_observer), "Bb", 2);
    bucket = bucket_of(&k);
    arrive(0, 0);
    somebody_sleeps(bucket);
    arrive(0, 0); /* a second call of the task: the first is superseded */
    assert_true(has_woken(bucket));
    somebody_sleeps(bucket);
    assert_int_equal(muster_barrier_cancel(stage_observer, "b", 0), MUSTER_OK);
    assert_true(has_woken(bucket));
    stage_close();
}

STAGE_TEST(only_the_last_to_come_to_a_group_wakes)
{
    struct mu_group_member members[3] = {{.task = 0}, {.task = 1}, {.task = 2}};
    struct mu_ctx *ctx;
    mu_a64 *bucket = NULL;

    stage_open(3, NULL);
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct mu_group_join c = {.name = "g", .members = members, .size = 3, .data_bytes = 64, .rank = rank};

        if (bucket)
            somebody_sleeps(bucket);
        assert_int_equal(mu_group_entry_join(ctx, &c), MUSTER_OK);
        bucket = bucket_of(&c.key);
        assert_int_equal(has_woken(bucket), rank != 1);
    }
    mu_exit(ctx);
    stage_close();
}
