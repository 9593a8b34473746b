/*
 * tests/bridge/deletes_test.c: a directory that a task of another host deletes goes in pieces, between which others
 * have their turn, however many one host deletes; each of its keys goes once, also when the leader's agent dies in the
 * midst of it and keys come again meanwhile; and what is left when its caller is dead stays.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <muster/muster.h>

#include "bridge/call/calls.h"
#include "child.h"
#include "hosts.h"

enum { PARTS = 6, PART = 1500, KEYS = 6000, PIECE_MAX = DELETE_PIECE / 16 + 1, PRIME = 251 };

struct scene {
    struct hosts *h;
    struct muster *leader;
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

/* The leader's agent has this many to go, or fewer by what goes in one piece. */
static void delete_until(struct scene *s, size_t goal)
{
    hosts_await(s->h, left(s) <= goal, "the leader has no more to go");
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

TEST(a_delete_goes_in_pieces_and_others_have_their_turn)
{
    struct scene s;
    pid_t pid, other;

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
struct part {
    int directory;
};

static int delete_part(struct muster *m, void *arg)
{
    const struct part *p = arg;
    char key[32];
    size_t count = 0;

    snprintf(key, sizeof key, "part/%d", p->directory);
    CHECK(!muster_kv_delete(m, key, MUSTER_NTS, &count));
    CHECK(count == PART);
    return 0;
}

static size_t left_of_parts(struct muster *leader, int from, int to)
{
    size_t sum = 0;

    for (int i = from; i < to; i++) {
        char key[32];
        size_t count;

        snprintf(key, sizeof key, "part/%d", i);
        assert_ok(muster_kv_count(leader, key, MUSTER_NTS, &count));
        sum += count;
    }
    return sum;
}

static void make_parts(struct muster *leader)
{
    for (int i = 0; i < PARTS * PART; i++) {
        char key[32];

        snprintf(key, sizeof key, "part/%d/%d", i % PARTS, i / PARTS);
        assert_ok(muster_kv_insert(leader, key, MUSTER_NTS, "x", 1));
    }
}

struct deleters {
    struct hosts *h;
    uint64_t calls[2]; /* that have been sent, once both hosts have asked for all */
};

/* The followers act, the leader does not. */
static bool all_is_asked(void *arg)
{
    const struct deleters *a = arg;

    for (uint32_t host = 1; host < 3; host++)
        while (hosts_step(a->h, host))
            ;
    return hosts_frames(a->h, 1, MU_FRAME_CALL) >= a->calls[0] && hosts_frames(a->h, 2, MU_FRAME_CALL) >= a->calls[1];
}

/* All but the last directory are deleted by tasks of one host, that by another's. */
TEST(many_deletes_of_one_host_are_one_piece_a_turn_and_half_of_them_anothers)
{
    const struct hosts_config config = {.tasks = {1, 1, 1}, .stepped = true, .segment = {.num_buckets = 64}};
    struct hosts *h = hosts_open(&config);
    struct muster *leader = hosts_observer(h, 0);
    struct deleters asked = {.h = h};
    size_t many = (PARTS - 1) * PART, one = PART;
    pid_t pids[PARTS];

    make_parts(leader);
    hosts_settle(h, NULL);
    asked.calls[0] = hosts_frames(h, 1, MU_FRAME_CALL) + PARTS - 1;
    asked.calls[1] = hosts_frames(h, 2, MU_FRAME_CALL) + 1;
    for (int i = 0; i < PARTS; i++) {
        struct part part = {i};

        pids[i] = hosts_visitor(h, i < PARTS - 1 ? 1 : 2, delete_part, &part);
    }
    for (int i = 0; !all_is_asked(&asked); i++) {
        struct timespec ms = {0, 1000000};

        assert_true(i < 60000);
        nanosleep(&ms, NULL); /* sleep: between looks at processes, while the leader's agent may not act */
    }
    for (int i = 0; i < PARTS; i++) /* the frames: the first of them, at most, begins at once */
        assert_true(hosts_step(h, 0));
    assert_true(left_of_parts(leader, 0, PARTS) + PIECE_MAX >= many + one);
    while (one > PART / 3) {
        size_t before = left_of_parts(leader, 0, PARTS), gone;

        hosts_step(h, 0);
        many = left_of_parts(leader, 0, PARTS - 1);
        one = left_of_parts(leader, PARTS - 1, PARTS);
        gone = (PARTS - 1) * PART - many;
        assert_true(many + one + PIECE_MAX >= before);
        assert_true(PART - one + 2 * PIECE_MAX >= gone && gone + 2 * PIECE_MAX >= PART - one);
    }
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(left_of_parts(leader, 0, PARTS), 0);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

TEST(what_comes_again_after_the_agent_s_death_stays)
{
    struct scene s;
    char key[32];
    int again = 0;
    pid_t pid;

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

TEST(what_is_left_when_the_caller_is_dead_stays)
{
    struct scene s;
    size_t there;
    pid_t pid;

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
