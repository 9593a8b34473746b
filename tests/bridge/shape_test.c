/*
 * tests/bridge/shape_test.c: the shape of the job that a follower is told must be one that it can have.
 */
#include "cm.h"

#include "bridge/bridge_private.h"

/* Whether host 1 of 2, with two tasks, believes that the hosts have so many. */
static bool believes(uint32_t leaders, uint32_t own)
{
    struct mu_bridge b = {.options = {.num_tasks = 2}};
    struct mu_pack p = {0};
    bool taken;

    assert_int_equal(mu_bridge_begin_meeting(&b), MUSTER_OK);
    for (uint32_t i = 0; i < 2; i++) /* hosts, and which this is; below: events, buckets */
        mu_pack_u32(&p, 2 - i);
    mu_pack_u64(&p, 1);
    mu_pack_u64(&p, 2);
    mu_pack_u32(&p, 0);
    mu_pack_u32(&p, 0);
    for (int i = 0; i < 3; i++) /* bytes of the heap, of objects, the heartbeat's time; below: other times */
        mu_pack_u64(&p, 0);
    mu_pack_u64(&p, 1000000000);
    mu_pack_u64(&p, 0);
    mu_pack_text(&p, "job");
    for (uint32_t i = 0; i < 2; i++) {
        mu_pack_u32(&p, i ? own : leaders);
        mu_pack_text(&p, i ? "b" : "a");
    }
    mu_pack_blob(&p, "", 0);
    taken = mu_bridge_take_welcome(&b, p.bytes, p.len);
    mu_pack_done(&p);
    mu_bridge_end_meeting(&b);
    return taken;
}

TEST(a_welcome_with_other_tasks_than_ours_is_refused)
{
    assert_true(believes(3, 2));
    assert_false(believes(3, 1)); /* the agent would walk beyond its tables */
    assert_false(believes(3, 3));
    assert_false(believes(INT32_MAX, 2));
}
