/*
 * tests/bridge/objects_faults_test.c: what is left of an object on its way when a connection breaks, an agent or a
 * reader dies, or a host is lost in the midst of it.
 */
#include "goods.h"

static int get_long(struct muster *m, void *arg)
{
    struct muster_object_view view;
    muster_object ref = number(REFS);

    (void)arg;
    EXPECT_OK(muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL));
    EXPECT(view.len == LONG && bytes_are(view.data, LONG, 9));
    return 0;
}

static void long_object(uint32_t home, pid_t *ret_source)
{
    crowd_open(&goods_three);
    *ret_source = hosts_task(h, 2 * home, put_long, NULL);
    reached(AT, 1, "the object is there");
}

static void long_end(uint32_t home, pid_t source)
{
    until_holders(home, number(REFS), 1);
    number_set(STEP, 1);
    ends_well(source);
    crowd_close();
}

TEST(connections_that_break_lose_nothing_and_count_nothing_twice)
{
    struct test_random r = {test_seed()};

    for (uint32_t home = 0; home < 2; home++) {
        pid_t source, reader;

        long_object(home, &source);
        for (int i = 0; i < 4; i++) {
            reader = hosts_task(h, 4 + i % 2, get_long, NULL);
            for (int k = 0; k < 3; k++) {
                uint32_t host = home && test_below(&r, 2) ? 1 : 2;

                hosts_cut_after(h, host, (uint32_t)test_below(&r, 12));
                usleep((useconds_t)test_below(&r, 3000)); /* sleep: somewhere in the midst */
                hosts_mend(h);
            }
            ends_well(reader);
        }
        long_end(home, source);
    }
}

TEST(agents_that_die_and_are_replaced_lose_nothing)
{
    struct test_random r = {test_seed()};

    for (uint32_t victim = 0; victim < 3; victim++) {
        pid_t source, reader;

        long_object(1, &source);
        for (int i = 0; i < 3; i++) {
            reader = hosts_task(h, 4, get_long, NULL);
            hosts_kill_after(h, victim, (uint32_t)test_below(&r, 40));
            usleep((useconds_t)test_below(&r, 3000)); /* sleep: somewhere in the midst */
            hosts_mend(h);
            ends_well(reader);
        }
        long_end(1, source);
    }
}

TEST(a_reader_that_is_killed_in_the_midst_leaves_nothing)
{
    struct test_random r = {test_seed()};

    for (uint32_t home = 0; home < 2; home++) {
        pid_t source;

        long_object(home, &source);
        for (int i = 0; i < 6; i++) {
            pid_t reader = hosts_task(h, 4 + i % 2, get_long, NULL);

            usleep((useconds_t)test_below(&r, 20000)); /* sleep: somewhere in the midst */
            crowd_murder(reader, 2);
            until_holders(2, number(REFS), 0);
        }
        long_end(home, source);
    }
}

TEST(a_source_host_that_is_lost_in_the_midst_is_named)
{
    pid_t source, reader;

    long_object(1, &source);
    hosts_pause(h, 1); /* its pieces do not come */
    reader = hosts_task(h, 4, get_one, NULL);
    reached(READERS, 1, "the reader waits");
    hosts_lose(h, 0, 1, "it is silent");
    assert_int_equal(hosts_reap(h, reader), MUSTER_UNAVAILABLE);
    assert_non_null(strstr(board->words[4], "host node1 is lost"));
    hosts_resume(h, 1);
    number_set(STEP, 1);
    ends_well(source);
    crowd_close();
}

int main(void)
{
    return test_run(goods_begin, NULL);
}
