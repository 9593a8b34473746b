/*
 * tests/bridge/ids_test.c: NCCL's ids handed out between tasks of several hosts: one id for all ranks wherever its
 * maker is; who gives up, expires, fails, or is refused is heard of on every host. ids_death_test.c kills tasks,
 * ids_faults_test.c agents and connections.
 *
 * The ids are FAKE (ranks.h), so that no libnccl is needed, and a maker can be stopped while it makes one.
 * tests/accel/hosts_test.sh does the same with the real library.
 */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

enum { ID = MUSTER_NCCL_ID_BYTES };

static void count_keys(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    size_t count = 0;

    (void)a;
    (void)fd;
    r->status = (int)muster_kv_count(m, "/", MUSTER_NTS, &count);
    r->number = count;
}

static void delete_all(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    size_t count = 0;

    (void)a;
    (void)fd;
    r->status = (int)muster_kv_delete(m, "/", MUSTER_NTS, &count);
    r->number = count;
}

TEST(all_ranks_of_all_hosts_get_one_id)
{
    const struct hosts_config *configs[2] = {TWO_HOSTS, THREE_HOSTS};
    char before[ID] = "";

    for (int hosts = 0; hosts < 2; hosts++) {
        cast_open(configs[hosts]);
        enter_all(0);
        for (uint64_t generation = 1; generation <= 4; generation++) {
            uint32_t first = (uint32_t)generation % 4; /* each is the maker once */
            struct cast_reply r = do_take(first, 4, 0);

            assert_has(r, generation, NULL);
            assert_memory_not_equal(r.bytes, before, ID);
            for (uint32_t i = 1; i < 4; i++)
                tell_take((first + i) % 4, 4, 0);
            for (uint32_t i = 1; i < 4; i++)
                assert_has(cast_hear((first + i) % 4), generation, r.bytes);
            for (uint32_t i = 0; i < 4; i++)
                assert_reply(do_fn(i, rank_check, generation), MUSTER_OK);
            memcpy(before, r.bytes, ID);
        }
        cast_close();
    }
}

TEST(whoever_comes_first_all_at_once_agree)
{
    cast_open(THREE_HOSTS);
    enter_all(0);
    for (uint64_t generation = 1; generation <= 30; generation++) {
        struct cast_reply r[4];

        for (uint32_t i = 0; i < 4; i++)
            tell_take(i, 4, 0);
        for (uint32_t i = 0; i < 4; i++) {
            r[i] = cast_hear(i);
            assert_has(r[i], generation, r[0].bytes);
        }
    }
    cast_close();
}

TEST(several_names_are_several_communicators_also_on_two_hosts_alone)
{
    struct cast_reply r[4];

    cast_open(TWO_HOSTS);
    enter_all(0);
    for (uint32_t i = 0; i < 4; i++) { /* tasks 0 and 2, 1 and 3: as many ranks as a host has tasks */
        struct cast_act a = taking(i % 2 ? "odd" : "even", 2, i / 2, 0);

        cast_tell(i, &a);
    }
    for (uint32_t i = 0; i < 4; i++)
        r[i] = cast_hear(i);
    assert_has(r[0], 1, NULL);
    assert_has(r[1], 1, NULL);
    assert_has(r[2], 1, r[0].bytes);
    assert_has(r[3], 1, r[1].bytes);
    assert_memory_not_equal(r[0].bytes, r[1].bytes, ID);
    cast_close();
}

TEST(a_name_of_the_host_s_own_meets_no_other)
{
    struct cast_reply r[4];

    cast_open(TWO_HOSTS);
    enter_all(0);
    hosts_cut(cast_hosts, 1); /* and needs nobody */
    for (uint32_t i = 0; i < 4; i++) {
        struct cast_act a = taking("muster/host/ring", 2, i % 2, 0);

        r[i] = cast_do(i, &a);
    }
    hosts_join(cast_hosts, 1);
    assert_has(r[1], 1, r[0].bytes);
    assert_has(r[3], 1, r[2].bytes);
    assert_memory_not_equal(r[0].bytes, r[2].bytes, ID);
    cast_close();
}

TEST(waiting_for_the_maker_ends_when_it_has_made_and_the_deadline_names_it)
{
    for (int k = 0; k < 2; k++) {
        uint32_t maker = makers[k], here = other_than(maker, 0), there = other_than(maker, 1);
        struct cast_act late = taking("world", 4, there, 0);
        struct cast_reply r;

        cast_open(TWO_HOSTS);
        enter_all(0);
        stop_maker(maker, 4, 0);
        for (late.patience_ns = 50000000;; late.patience_ns *= 2) {
            r = cast_do(there, &late);
            assert_reply(r, MUSTER_DEADLINE_EXCEEDED);
            if (strstr(r.text, "while waiting for NCCL id world; who makes it, for ")) /* else a slow machine */
                break;
        }
        assert_in(r.text, maker ? "s now: task 3 " : "s now: task 0 ");
        tell_take(here, 4, 0);
        tell_take(there, 4, 0);
        until_it_waits(here);
        until_it_waits(there);
        go_on(maker);
        r = cast_hear(maker);
        assert_has(r, 1, NULL);
        assert_has(cast_hear(here), 1, r.bytes);
        assert_has(cast_hear(there), 1, r.bytes);
        cast_close();
    }
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

TEST(who_gives_up_is_heard_on_every_host)
{
    for (int k = 0; k < 2; k++) {
        uint32_t who = makers[k];
        struct cast_reply r;

        cast_open(TWO_HOSTS);
        enter_all(0);
        for (uint32_t i = 0; i < 4; i++) { /* communicators that never come up, but one */
            struct cast_act a = taking("world", 5, i, i == who ? 0 : INIT | NEVER_UP);

            cast_tell(i, &a);
        }
        assert_has(cast_hear(who), 1, NULL);
        do
            r = do_fn(who, rank_get, 0);
        while (r.count < 4);
        assert_reply(do_fn(who, rank_abandon, k ? 1 : 0), MUSTER_OK);
        for (uint32_t i = 0; i < 4; i++) {
            r = i == who ? do_fn(i, rank_check, 1) : cast_hear(i);
            assert_reply(r, MUSTER_ABORTED);
            assert_in(r.text,
                      who ? "task 3 (host node1) gave it up: enough" : "task 0 (host node0) gave it up: enough");
        }
        assert_has(do_take(1, 5, 0), 2, NULL);
        cast_close();
    }
}

TEST(a_deadline_names_the_ranks_that_have_not_come_from_any_host)
{
    struct cast_act a = taking("world", 5, 2, INIT | NEVER_UP);
    struct cast_reply r;

    cast_open(TWO_HOSTS);
    enter_all(0);
    assert_has(do_take(0, 5, 0), 1, NULL);
    a.patience_ns = 100000000;
    r = cast_do(2, &a);
    assert_reply(r, MUSTER_DEADLINE_EXCEEDED);
    assert_in(r.text, "without rank 1, 3, 4");
    r = do_fn(0, rank_check, 1);
    assert_reply(r, MUSTER_ABORTED);
    assert_in(r.text, "task 2 (host node1): communicator world: the deadline passed");
    cast_close();
}

TEST(communicators_of_all_hosts_that_are_up_leave_no_name)
{
    struct cast_reply r;

    cast_open(THREE_HOSTS);
    enter_all(0);
    for (int n = 0; n < 3; n++) {
        for (uint32_t i = 0; i < 4; i++)
            tell_take(i, 4, INIT);
        for (uint32_t i = 0; i < 4; i++)
            assert_reply(cast_hear(i), MUSTER_OK);
        for (uint32_t i = 0; i < 4; i += 3) {
            r = do_fn(i, rank_get, 0);
            assert_reply(r, MUSTER_OK);
            assert_int_equal(r.tasks[0], MUSTER_NCCL_NONE);
        }
    }
    cast_close();
}

/* Two of four take an id that is good for so long. False: that was too short for it. */
static bool two_have_it(uint32_t maker, uint64_t expiry)
{
    struct cast_act a = taking("world", 4, maker, 0);
    struct cast_reply first;

    a.timeout_ns = expiry;
    first = cast_do(maker, &a);
    assert_reply(first, MUSTER_OK);
    return do_take(2, 4, 0).number == first.number;
}

TEST(an_id_expires_for_hosts_that_have_another_clock)
{
    static const uint32_t others[2] = {0, 3};

    for (int k = 0; k < 2; k++) {
        uint64_t expiry = 50000000, generation;
        struct cast_reply r;

        cast_open(TWO_HOSTS);
        enter_all(0);
        while (!two_have_it(others[k], expiry)) { /* this machine is slow just now */
            assert_reply(do_fn(2, rank_abandon, 0), MUSTER_OK);
            expiry *= 2;
        }
        generation = do_fn(0, rank_get, 0).number;
        do
            r = do_fn(2, rank_check, generation); /* the leader's agent says so, when it is time */
        while (r.status == MUSTER_OK);
        assert_reply(r, MUSTER_ABORTED);
        assert_in(r.text, "only 2 of 4 ranks had come when the id expired");
        assert_reply(do_fn(1, rank_check, generation), MUSTER_ABORTED);
        assert_has(do_take(2, 4, 0), generation + 1, NULL);
        cast_close();
    }
}

static void fill_up(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    static char value[60000];
    char key[32];
    size_t size = sizeof value;

    (void)a;
    (void)fd;
    while (size) { /* down to the last small page */
        snprintf(key, sizeof key, "/fill/%d", (int)r->number);
        r->status = (int)muster_kv_set(m, key, MUSTER_NTS, value, size, NULL);
        if (r->status)
            size /= 2;
        else
            r->number++;
    }
}

static void make_room(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    (void)a;
    (void)fd;
    r->status = (int)muster_kv_delete(m, "/fill", MUSTER_NTS, NULL);
}

/* That it has expired is said where there is room for nothing else; or when there is again. */
TEST(an_id_expires_in_a_segment_that_is_full)
{
    const struct hosts_config config = {
        .tasks = {2, 2}, .timeout_ns = 600000000000u, .segment = {.heap_bytes = 4u << 20}};
    uint64_t expiry = 300000000, generation;
    struct cast_reply r;

    cast_open(&config);
    enter_all(0);
    while (!two_have_it(3, expiry)) { /* this machine is slow just now */
        assert_reply(do_fn(2, rank_abandon, 0), MUSTER_OK);
        expiry *= 2;
    }
    generation = do_fn(0, rank_get, 0).number;
    assert_reply(do_fn(0, fill_up, 0), MUSTER_RESOURCE_EXHAUSTED);
    do /* the leader's host looks at the clock itself, the others are told by its agent */
        r = do_fn(0, rank_check, generation);
    while (r.status == MUSTER_OK);
    assert_reply(r, MUSTER_ABORTED);
    assert_reply(do_fn(0, make_room, 0), MUSTER_OK);
    do
        r = do_fn(2, rank_check, generation);
    while (r.status == MUSTER_OK);
    assert_reply(r, MUSTER_ABORTED);
    assert_in(r.text, "only 2 of 4 ranks had come when the id expired");
    assert_has(do_take(2, 4, 0), generation + 1, NULL);
    cast_close();
}

TEST(what_is_refused_is_refused_from_every_host)
{
    struct cast_act a;
    struct cast_reply r;

    cast_open(TWO_HOSTS);
    enter_all(0);
    for (uint32_t task = 0; task < 3; task += 2) { /* of the leader's, and of another */
        char name[16];

        snprintf(name, sizeof name, "from%u", task);
        a = taking(name, 4, task, 0);
        assert_has(cast_do(task, &a), 1, NULL);
        r = cast_do(task, &a);
        assert_reply(r, MUSTER_ALREADY_EXISTS);
        assert_in(r.text, "has taken generation 1 already, and 3 of 4 ranks have not");
        r = cast_do(3 - task, &a);
        assert_reply(r, MUSTER_ALREADY_EXISTS);
        assert_in(r.text, task ? "task 2 has taken generation 1 as rank 2; task 1 says it is that rank, too"
                               : "task 0 has taken generation 1 as rank 0; task 3 says it is that rank, too");
        a = taking(name, 3, 1, 0);
        r = cast_do(3 - task, &a);
        assert_reply(r, MUSTER_INVALID_ARGUMENT);
        assert_in(r.text, "3 ranks and 1 ids here; task");
        a = taking(name, 4, 1, OTHER_VERSION);
        r = cast_do(3 - task, &a);
        assert_reply(r, MUSTER_FAILED_PRECONDITION);
        assert_in(r.text, "this libnccl is version 2.29.0 (fake), that of task");
        a = act_of(rank_check, name, 1);
        r = cast_do(task, &a);
        assert_reply(r, MUSTER_ABORTED);
        assert_in(r.text, "but the id was made by task");
    }
    cast_close();
}

TEST(a_maker_that_fails_says_its_words_on_every_host)
{
    for (int k = 0; k < 2; k++) {
        uint32_t maker = makers[k], waiters[2] = {other_than(maker, 0), other_than(maker, 1)};

        cast_open(TWO_HOSTS);
        enter_all(0);
        stop_maker(maker, 4, FAILS);
        for (int i = 0; i < 2; i++) {
            tell_take(waiters[i], 4, 0);
            until_it_waits(waiters[i]);
        }
        go_on(maker);
        assert_reply(cast_hear(maker), MUSTER_UNAVAILABLE);
        for (int i = 0; i < 2; i++) {
            struct cast_reply r = cast_hear(waiters[i]);

            assert_reply(r, MUSTER_UNAVAILABLE);
            assert_in(r.text, maker ? "task 3 (host node1): NCCL" : "task 0 (host node0): NCCL");
        }
        cast_close();
    }
}

/* Where NCCL chose loopback: hosts that are one machine may use it, others are told what to set. */
TEST(a_root_that_no_other_host_can_reach_is_refused_in_words)
{
    for (int k = 0; k < 2; k++) {
        uint32_t maker = makers[k], near = maker ? 2 : 1, far = maker ? 0 : 2;
        struct cast_reply r;

        cast_open(TWO_HOSTS);
        enter_all(0);
        assert_has(do_take(maker, 4, LONELY | LISTENS), 1, NULL);
        assert_has(do_take(far, 4, 0), 1, NULL); /* as it does here */
        assert_reply(do_fn(maker, rank_abandon, 1), MUSTER_OK);
        assert_has(do_take(maker, 4, LONELY), 2, NULL);
        assert_has(do_take(near, 4, 0), 2, NULL); /* nobody asks what is between two tasks of one host */
        r = do_take(far, 4, 0);
        assert_reply(r, MUSTER_FAILED_PRECONDITION);
        assert_in(r.text,
                  maker ? "of task 3 (host node1), listens at 127.0.0.1:" : "of task 0 (host node0), listens at");
        assert_in(r.text, "cannot reach: set NCCL_SOCKET_IFNAME");
        do /* its own host's word may come first */
            r = do_fn(near, rank_check, 2);
        while (r.status == MUSTER_OK);
        assert_reply(r, MUSTER_ABORTED);
        assert_in(r.text, maker ? "task 0 (host node0) cannot reach 127" : "task 2 (host node1) cannot reach 127");
        cast_close();
    }
}

TEST(a_deadline_that_has_passed_leaves_nobody_waiting)
{
    struct cast_act far = taking("world", 4, 2, 0), near = taking("world", 4, 0, 0);
    struct cast_reply r;

    cast_open(TWO_HOSTS);
    enter_all(0);
    far.patience_ns = 1; /* who waits for nobody needs no more, on any host */
    r = cast_do(2, &far);
    if (r.status) /* a slow machine: then it has taken back what it asked for */
        assert_reply(r, MUSTER_DEADLINE_EXCEEDED);
    near.patience_ns = 60000000000;
    assert_reply(cast_do(0, &near), MUSTER_OK);
    cast_close();
}

TEST(a_maker_that_is_interrupted_hands_out_nothing)
{
    struct cast_act near = taking("world", 4, 0, 0);
    struct cast_reply r;

    cast_open(TWO_HOSTS);
    enter_all(0);
    stop_maker(2, 4, 0);
    hosts_cut(cast_hosts, 1);
    go_on(2);
    do
        cast_interrupt(2); /* until it is in the call that says that it has made it */
    while (!cast_has_answered(2));
    assert_reply(cast_hear(2), MUSTER_CANCELLED);
    hosts_join(cast_hosts, 1);
    near.patience_ns = 60000000000;
    do /* until the leader has heard that this generation is none */
        r = cast_do(0, &near);
    while (r.status == MUSTER_ABORTED || r.status == MUSTER_UNAVAILABLE);
    assert_has(r, 2, NULL);
    cast_close();
}

TEST(names_are_no_keys)
{
    struct cast_reply r;

    cast_open(TWO_HOSTS);
    enter_all(0);
    assert_has(do_take(0, 4, 0), 1, NULL);
    assert_has(do_take(2, 4, 0), 1, NULL);
    assert_reply(do_fn(2, rank_check, 1), MUSTER_OK); /* a copy is there */
    for (uint32_t i = 0; i < 4; i += 3) {
        r = do_fn(i, count_keys, 0);
        assert_reply(r, MUSTER_OK);
        assert_int_equal(r.number, 0);
        r = do_fn(i, delete_all, 0);
        assert_reply(r, MUSTER_OK);
        assert_int_equal(r.number, 0);
        r = do_fn(i, rank_get, 0);
        assert_reply(r, MUSTER_OK);
        assert_int_equal(r.number, 1);
        assert_int_equal(r.count, 2);
        assert_int_equal(r.tasks[0], MUSTER_NCCL_READY);
        assert_int_equal(r.tasks[1], 0);
        assert_in_range(r.incarnations[1] - r.incarnations[0], 0, 60000000000u); /* since: by the asker's clock */
    }
    cast_close();
}
