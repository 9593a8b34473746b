/*
 * tests/barrier/group_memory_test.c: what a group took is given back: with the last member, or, when members died,
 * with the next group that anybody builds. Counted in blocks, after the audit.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void free_on(int player)
{
    assert_status(do_plain(player, act_group_free), MUSTER_OK);
}

STAGE_TEST(the_last_to_give_back_frees_everything)
{
    crew_open(3, NULL);
    stage_enter_all();
    assert_int_equal(crew_areas(), 0);
    crew_create("g", 3, 4096);
    assert_int_equal(crew_areas(), 3);
    free_on(0);
    free_on(1);
    assert_int_equal(crew_areas(), 3); /* written after publication: they outlive every member that may touch them */
    free_on(2);
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

STAGE_TEST(a_thousand_groups_leave_no_more_than_one_did)
{
    struct muster_audit before, after;

    crew_open(2, NULL);
    stage_enter_all();
    for (int i = 0; i < 2; i++) { /* the second has the same entry of the name as the last */
        crew_create("g", 2, 100);
        free_on(0);
        free_on(1);
    }
    before = stage_audit();
    for (int i = 0; i < 1000; i++) {
        crew_create("g", 2, 100);
        free_on(i % 2);
        free_on(1 - i % 2);
    }
    after = stage_audit();
    assert_int_equal(after.blocks_live, before.blocks_live);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(after.blocks_owned, 0);
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

STAGE_TEST(members_that_leave_the_job_without_giving_back_leave_nothing_for_good)
{
    static const int32_t alone[] = {0};

    crew_open(3, NULL);
    stage_enter_all();
    crew_create("g", 3, 64);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    free_on(0); /* the last: it takes the group apart */
    assert_int_equal(crew_areas(), 0);
    assert_status(create_on(0, "h", alone, 1, 0), MUSTER_OK);
    assert_int_equal(crew_areas(), 1);
    free_on(0);
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

STAGE_TEST(a_group_whose_members_all_died_goes_when_another_is_built)
{
    static const int32_t pair[] = {1, 2}, alone[] = {0};

    crew_open(3, NULL);
    stage_enter_all();
    tell_create(1, "g", pair, 2);
    tell_create(2, "g", pair, 2);
    assert_status(stage_hear(1), MUSTER_OK);
    assert_status(stage_hear(2), MUSTER_OK);
    stage_kill(1);
    stage_kill(2);
    stage_audit();
    assert_int_equal(crew_areas(), 2); /* nobody has come by */
    assert_status(create_on(0, "other", alone, 1, 0), MUSTER_OK);
    assert_int_equal(crew_areas(), 1);
    free_on(0);
    assert_int_equal(crew_areas(), 0);
    stage_audit();
    crew_close();
}

STAGE_TEST(a_stopped_member_keeps_its_area_until_it_is_gone)
{
    crew_open(2, NULL);
    stage_enter_all();
    crew_create("g", 2, 64);
    stage_signal(1, SIGSTOP);
    free_on(0);
    assert_int_equal(crew_areas(), 2); /* it may still write there */
    stage_kill(1);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    {
        static const int32_t alone[] = {0};

        assert_status(create_on(0, "other", alone, 1, 0), MUSTER_OK);
        free_on(0);
    }
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

static enum muster_status set(const char *kind, int i, size_t len)
{
    static char value[60000];
    char key[24];

    snprintf(key, sizeof key, "%s%d", kind, i);
    return muster_kv_set(stage_observer, key, MUSTER_NTS, value, len, NULL);
}

/*
 * A full segment refuses the group and nothing is lost; with room again it is built. Memory keeps its size class for
 * ever, so the room must come from values as large as an area: a group is built before, to have every class there.
 */
STAGE_TEST(a_full_segment_refuses_and_forgets)
{
    struct muster_segment_config c = {.num_buckets = 64, .num_events = 64, .heap_bytes = 2u << 20};
    struct group_act a = {.name = "g", .tasks = {0}, .count = 1, .data_bytes = MUSTER_GROUP_DATA_MAX};
    enum muster_status s = MUSTER_OK;
    enum { KEYS = 200 };
    int large = 0; /* a key that got its value */

    crew_open(1, &c);
    stage_enter_all();
    assert_status(stage_do(0, act_group_create, &a, sizeof a), MUSTER_OK);
    free_on(0);
    /* keys first, then their values, again and again: so it is values, not pages, that there is no room for */
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(set("large", i, 8), MUSTER_OK);
    for (int i = 0; i < 3 * KEYS; i++) {
        s = set("large", i % KEYS, 40000);
        large = s ? large : i % KEYS;
        assert_true(s == MUSTER_OK || s == MUSTER_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(s, MUSTER_RESOURCE_EXHAUSTED);
    assert_status(stage_do(0, act_group_create, &a, sizeof a), MUSTER_RESOURCE_EXHAUSTED);
    stage_audit();
    assert_int_equal(crew_areas(), 0);
    assert_int_equal(set("large", large, 8), MUSTER_OK);
    assert_status(stage_do(0, act_group_create, &a, sizeof a), MUSTER_OK);
    assert_int_equal(crew_areas(), 1);
    free_on(0);
    crew_close();
}
