/*
 * tests/coord/far_greed_test.c: clients of a host that is not the leader's who ask for much, or go away from it: what
 * is left for others, and what is done all the same. Tasks 2 and 3 are guests there.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/call/lanes.h"

enum { LEADER = 0, FAR = 2, OTHER = 3 };

static const struct hosts_config two = {.tasks = {2, 2}};

/* Of those who have gone a delete is made, however much else they leave. */
PAIR_TEST(a_delete_is_made_behind_many_who_go_away)
{
    struct asked *a;

    pair_open(&two, NULL);
    assert_answer(do_insert(pair_as(LEADER), "gone", "x", false), MUSTER_OK);
    hosts_cut(cast_hosts, 1);
    pair_as(FAR);
    for (int i = 0; i < 1100; i++) {
        a = do_increment(FAR, "n", 1);
        mu_coord_drop(coord, &a->ask);
    }
    a = do_delete(FAR, "gone");
    mu_coord_drop(coord, &a->ask);
    hosts_join(cast_hosts, 1);
    counter_await(mu_lanes_open(pair_lanes[1]) == 0, "all calls have ended");
    assert_answer(do_try_get(pair_as(LEADER), "gone"), MUSTER_NOT_FOUND);
    assert_value(do_get(LEADER, "n"), "1024");
    pair_close();
}

static uint32_t refused;

static void count_answer(struct mu_coord_request *q)
{
    refused += q->status == MUSTER_RESOURCE_EXHAUSTED;
}

/* One asks for all that there is: as much is left for others. */
PAIR_TEST(who_takes_much_leaves_as_much)
{
    enum { GREED = 20000 };
    static struct mu_coord_request asks[GREED];
    struct asked *a;
    uint32_t taken;

    pair_open(&two, NULL);
    hosts_cut(cast_hosts, 1);
    refused = 0;
    pair_as(FAR);
    for (int i = 0; i < GREED; i++) {
        asks[i] = (struct mu_coord_request){.answered = count_answer, .line = line_of(FAR)};
        mu_coord_increment(coord, &asks[i], "n", 1, 1);
    }
    taken = GREED - refused;
    assert_int_equal(mu_lanes_open(pair_lanes[1]), taken);
    assert_in_range(mu_lanes_left(pair_lanes[1]), taken, taken + 1);
    a = do_increment(FAR, "n", 1);
    assert_says_so(a, MUSTER_RESOURCE_EXHAUSTED, "calls of this connection wait for the leader");
    a = do_increment(pair_as(OTHER), "m", 1);
    assert_waits(a);
    for (int i = 0; i < GREED; i++)
        mu_coord_drop(coord, &asks[i]);
    hosts_join(cast_hosts, 1);
    assert_value(a, "1");
    assert_value(do_increment(pair_as(FAR), "m", 1), "2"); /* it may again */
    pair_close();
}
