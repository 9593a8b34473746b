/*
 * tests/bridge/deletes_test.c: a directory that a task of another host deletes goes in pieces, between which others
 * have their turn; each of its keys goes once, also when the leader's agent dies in the midst of it and keys come again
 * meanwhile; and what is left when its caller is dead stays.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <muster/muster.h>

#include "bridge/calls.h"
#include "child.h"
#include "hosts.h"

enum { KEYS = 6000, PIECE_MAX = DELETE_PIECE / 16 + 1, PRIME = 251 };

struct scene {
    struct hosts *h;
    struct muster *leader;
    size_t goal; /* of left_at_most() */
};

static void open_scene(struct scene *s)
{
    struct muster_segment_config c = {.num_buckets = 64};
    char key[32];

    *s = (struct scene){.h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .segment = c})};
    s->leader = hosts_observer(s->h, 0);
    hosts_settle(s->h, NULL);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "d/%d", i);
        assert_ok(muster_kv_insert(s->leader, key, MUSTER_NTS, "first", 5));
    }
    assert_ok(muster_kv_insert(s->leader, "d", MUSTER_NTS, "itself", 6));
    assert_ok(muster_kv_insert(s->leader, "dd/0", MUSTER_NTS, "another", 7));
}

static void close_scene(struct scene *s)
{
    assert_ok(muster_leave(s->leader));
    assert_int_equal(hosts_close(s->h), 0);
}

static size_t left(struct scene *s)
{
    size_t count;

    assert_ok(muster_kv_count(s->leader, "d", MUSTER_NTS, &count));
    return count;
}

static bool is_there(struct scene *s, const char *key)
{
    enum muster_status status = muster_kv_try_get(s->leader, key, MUSTER_NTS, NULL, 0, NULL, NULL);

    return status != MUSTER_NOT_FOUND;
}

static bool left_at_most(void *arg)
{
    struct scene *s = arg;

    return left(s) <= s->goal;
}

/* The leader's agent has this many to go, or fewer by what goes in one piece. */
static void delete_until(struct scene *s, size_t goal)
{
    s->goal = goal;
    assert_true(hosts_until(s->h, left_at_most, s));
    assert_true(left(s) + PIECE_MAX > goal && left(s));
}

static int delete_all(struct muster *m, void *arg)
{
    size_t count = 0;

    (void)arg;
    CHECK(!muster_kv_delete(m, "d", MUSTER_NTS, &count));
    CHECK(count == KEYS + 1);
    CHECK(!muster_kv_delete(m, "d", MUSTER_NTS, &count));
    return (int)(count % PRIME); /* those that came again */
}

static int count_up(struct muster *m, void *arg)
{
    int64_t sum;

    (void)arg;
    CHECK(!muster_kv_increment(m, "others", MUSTER_NTS, 1, &sum));
    return 0;
}

static void let_act(struct scene *s, uint32_t host)
{
    while (hosts_step(s->h, host))
        ;
}

/* A call of host 1's is made, and nobody has looked at it. */
static void await_call(struct scene *s)
{
    mu_a64 *bits = hosts_segment(s->h, 1)->asks;

    for (int i = 0; !mu_load_relaxed(bits); i++) { /* relaxed: a hint; the agent looks for itself */
        struct timespec ms = {0, 1000000};

        assert_true(i < 60000);
        nanosleep(&ms, NULL); /* sleep: between looks at a process, while no agent may act */
    }
}

static void a_delete_goes_in_pieces_and_others_have_their_turn(void **state)
{
    struct scene s;
    pid_t pid, other;

    (void)state;
    open_scene(&s);
    pid = hosts_visitor(s.h, 1, delete_all, NULL);
    delete_until(&s, KEYS - 1);
    other = hosts_visitor(s.h, 1, count_up, NULL);
    await_call(&s);
    for (int i = 0; i < 3; i++) {
        size_t before = left(&s);

        let_act(&s, 1);
        let_act(&s, 0);
        assert_true(left(&s) + 3 * PIECE_MAX > before);
    }
    assert_true(is_there(&s, "others"));
    assert_true(left(&s) > KEYS / 2);
    assert_int_equal(hosts_reap(s.h, other), 0);
    assert_int_equal(hosts_reap(s.h, pid), 0);
    assert_int_equal(left(&s), 0);
    assert_false(is_there(&s, "d"));
    assert_true(is_there(&s, "dd/0"));
    close_scene(&s);
}

/* Of the bucket that was under way, too. */
static void what_comes_again_after_the_agent_s_death_stays(void **state)
{
    struct scene s;
    char key[32];
    int again = 0;
    pid_t pid;

    (void)state;
    open_scene(&s);
    pid = hosts_visitor(s.h, 1, delete_all, NULL);
    delete_until(&s, KEYS / 2);
    hosts_kill(s.h, 0);
    for (int i = -1; i < KEYS; i++) {
        snprintf(key, sizeof key, i < 0 ? "d" : "d/%d", i);
        if (is_there(&s, key))
            continue;
        assert_ok(muster_kv_insert(s.leader, key, MUSTER_NTS, "again", 5));
        again++;
    }
    assert_true(again > KEYS / 2);
    hosts_mend(s.h);
    assert_int_equal(hosts_reap(s.h, pid), again % PRIME); /* its second delete finds them all */
    assert_int_equal(left(&s), 0);
    close_scene(&s);
}

static void what_is_left_when_the_caller_is_dead_stays(void **state)
{
    struct scene s;
    size_t there;
    pid_t pid;

    (void)state;
    open_scene(&s);
    pid = hosts_visitor(s.h, 1, delete_all, NULL);
    delete_until(&s, KEYS - 1);
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    for (int i = 0; i < 3; i++) {
        hosts_pass(s.h, 2 * SWEEP_NS);
        hosts_settle(s.h, NULL);
    }
    there = left(&s);
    assert_true(there > 0);
    assert_null(mu_calls_of(hosts_lock(s.h, 0))->deletions);
    hosts_unlock(s.h, 0);
    hosts_pass(s.h, 2 * SWEEP_NS);
    hosts_settle(s.h, NULL);
    assert_int_equal(left(&s), there);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delete_goes_in_pieces_and_others_have_their_turn),
        cmocka_unit_test(what_comes_again_after_the_agent_s_death_stays),
        cmocka_unit_test(what_is_left_when_the_caller_is_dead_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
