/*
 * tests/kv/processes_test.c: the store between processes: waits, sums, snapshots that keep causality.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "kv/survey.h"
#include "seed.h"
#include "segment/handle.h"

enum { CHILDREN = 4, ROUNDS = 2000 };

static struct test_job job;

static int setup(void)
{
    return test_job_create(&job, NULL) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

/* Starts CHILDREN of fn, with numbers 0 to CHILDREN - 1; all must exit with 0. */
static int numbers[CHILDREN] = {0, 1, 2, 3};
static void run_children(int (*fn)(void *))
{
    pid_t pids[CHILDREN];

    for (int i = 0; i < CHILDREN; i++)
        pids[i] = test_fork(fn, &numbers[i]);
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(test_reap(pids[i]), 0);
}

static int waits_for_the_key(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    char buffer[32], expected[32];
    size_t len;

    (void)arg;
    for (int i = 0; i < 50; i++) {
        char key[32], answer[48];

        snprintf(key, sizeof key, "ask/%d", i);
        snprintf(answer, sizeof answer, "answer/%d/%d", i, *(int *)arg);
        CHECK(muster_kv_get(m, key, MUSTER_NTS, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL) == MUSTER_OK);
        snprintf(expected, sizeof expected, "value %d", i);
        CHECK(len == strlen(expected) && !memcmp(buffer, expected, len));
        CHECK(muster_kv_set(m, answer, MUSTER_NTS, NULL, 0, NULL) == MUSTER_OK);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(every_waiter_of_a_key_is_woken_by_its_insertion, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t pids[CHILDREN];
    size_t len;

    for (int i = 0; i < CHILDREN; i++)
        pids[i] = test_fork(waits_for_the_key, &numbers[i]);
    for (int i = 0; i < 50; i++) {
        char key[48], value[32];

        if (i % 10 == 0)
            for (int k = 0; k < CHILDREN; k++)
                test_until_asleep(pids[k]);
        snprintf(key, sizeof key, "ask/%d", i);
        snprintf(value, sizeof value, "value %d", i);
        assert_ok(muster_kv_insert(m, key, MUSTER_NTS, value, MUSTER_NTS));
        for (int k = 0; k < CHILDREN; k++) {
            snprintf(key, sizeof key, "answer/%d/%d", i, k);
            assert_ok(muster_kv_get(m, key, MUSTER_NTS, MUSTER_FOREVER, NULL, 0, &len, NULL));
        }
    }
    for (int k = 0; k < CHILDREN; k++)
        assert_int_equal(test_reap(pids[k]), 0);
    muster_leave(m);
}

static int waits_for_a_deleted_key(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    char buffer[16];
    size_t len;

    (void)arg;
    CHECK(muster_kv_get(m, "path//to/key1", MUSTER_NTS, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL) ==
          MUSTER_OK);
    CHECK(len == 5 && !memcmp(buffer, "again", 5));
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_wait_for_a_deleted_key_ends_when_it_is_inserted_again, setup, teardown) /* (34) */
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t pid;

    assert_ok(muster_kv_insert(m, "/path/to/key1", MUSTER_NTS, "first", 5));
    assert_ok(muster_kv_delete(m, "/path", MUSTER_NTS, NULL));
    pid = test_fork(waits_for_a_deleted_key, NULL);
    test_until_asleep(pid);
    assert_ok(muster_kv_delete(m, "/path", MUSTER_NTS, NULL)); /* another change of nothing wakes nobody for good */
    assert_ok(muster_kv_insert(m, "path/to/key1/", MUSTER_NTS, "again", 5));
    assert_int_equal(test_reap(pid), 0);
    muster_leave(m);
}

static struct test_gate gate;

static int watches(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    uint64_t version = 0, before = 0;
    size_t len;
    int value = 0, last = -1;

    (void)arg;
    while (value < ROUNDS - 1) {
        CHECK(muster_kv_watch(m, "watched", 7, version, MUSTER_FOREVER, &value, sizeof value, &len, &version) ==
              MUSTER_OK);
        CHECK(version > before && value > last);
        before = version;
        last = value;
    }
    test_gate_arrive(&gate);
    CHECK(muster_kv_watch(m, "watched", 7, version, MUSTER_FOREVER, &value, sizeof value, &len, &version) ==
          MUSTER_NOT_FOUND);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_watcher_sees_values_in_order_the_last_one_and_the_deletion, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t pid;

    assert_int_equal(test_gate_open(&gate), 0);
    pid = test_fork(watches, NULL);
    for (int i = 0; i < ROUNDS; i++)
        assert_ok(muster_kv_set(m, "watched", 7, &i, sizeof i, NULL));
    test_gate_await(&gate);
    assert_ok(muster_kv_delete(m, "watched", 7, NULL));
    assert_int_equal(test_reap(pid), 0);
    test_gate_close(&gate);
    muster_leave(m);
}

static int is_interrupted(void *arg);
static struct muster *interrupted;

static void on_signal(int number)
{
    (void)number;
    muster_interrupt(interrupted); /* async-signal-safe */
}

static int is_interrupted(void *arg)
{
    struct sigaction action = {.sa_handler = on_signal};
    size_t len;

    (void)arg;
    interrupted = test_join(job.name, -1, 0);
    CHECK(interrupted != NULL);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    test_gate_arrive(&gate);
    CHECK(muster_kv_get(interrupted, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL) == MUSTER_CANCELLED);
    muster_resume(interrupted);
    CHECK(muster_kv_get(interrupted, "never", 5, 1, NULL, 0, &len, NULL) == MUSTER_DEADLINE_EXCEEDED);
    CHECK(muster_leave(interrupted) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_sleeping_wait_is_ended_by_an_interrupt_from_a_signal_handler, setup, teardown)
{
    pid_t pid;

    assert_int_equal(test_gate_open(&gate), 0);
    pid = test_fork(is_interrupted, NULL);
    test_gate_await(&gate);
    test_until_asleep(pid);
    assert_true(!kill(pid, SIGUSR1));
    assert_int_equal(test_reap(pid), 0);
    test_gate_close(&gate);
}

static int adds(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    int64_t sum, last = 0;

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(muster_kv_increment(m, "sum", 3, i % 3 + 1, &sum) == MUSTER_OK);
        CHECK(sum > last); /* everybody adds: it only grows */
        last = sum;
        CHECK(muster_kv_increment(m, i % 2 ? "sum/odd" : "sum/even", MUSTER_NTS, -1, NULL) == MUSTER_OK);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(increments_of_four_processes_add_up_exactly, setup, teardown)
{
    struct muster *m;
    int64_t each = 0, got;

    run_children(adds);
    for (int i = 0; i < ROUNDS; i++)
        each += i % 3 + 1;
    m = test_join(job.name, -1, 0);
    assert_ok(muster_kv_increment(m, "sum", 3, 0, &got));
    assert_int_equal(got, CHILDREN * each);
    assert_ok(muster_kv_increment(m, "sum/odd", MUSTER_NTS, 0, &got));
    assert_int_equal(got, -CHILDREN * ROUNDS / 2);
    muster_leave(m);
}

static int compares(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);

    (void)arg;
    for (int done = 0; done < ROUNDS / 4;) {
        uint64_t version = 0, old[64] = {0};
        size_t len = 0;
        enum muster_status status = muster_kv_try_get(m, "counter", 7, old, sizeof old, &len, &version);

        CHECK(status == MUSTER_OK || status == MUSTER_NOT_FOUND);
        for (int i = 1; i < 64; i++)
            CHECK(old[i] == old[0]); /* never torn */
        for (int i = 0; i < 64; i++)
            old[i]++;
        status = muster_kv_compare_and_set(m, "counter", 7, version, old, sizeof old, NULL);
        CHECK(status == MUSTER_OK || status == MUSTER_ABORTED);
        done += status == MUSTER_OK;
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(compare_and_set_makes_a_counter_of_any_value, setup, teardown)
{
    struct muster *m;
    uint64_t got[64];
    size_t len;

    run_children(compares);
    m = test_join(job.name, -1, 0);
    assert_ok(muster_kv_try_get(m, "counter", 7, got, sizeof got, &len, NULL));
    assert_int_equal(got[0], CHILDREN * (ROUNDS / 4));
    muster_leave(m);
}

static int appends(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    unsigned char mark = (unsigned char)('a' + *(int *)arg);
    unsigned char piece[3] = {mark, 0, mark};

    for (int i = 0; i < 300; i++) {
        piece[1] = (unsigned char)(i & 0x7f);
        CHECK(muster_kv_append(m, "log", 3, piece, sizeof piece, NULL) == MUSTER_OK);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(pieces_appended_by_four_processes_are_all_there_whole_and_in_order, setup, teardown)
{
    static unsigned char log[CHILDREN * 300 * 3 + 1];
    int next[CHILDREN] = {0};
    struct muster *m;
    size_t len;

    run_children(appends);
    m = test_join(job.name, -1, 0);
    assert_ok(muster_kv_try_get(m, "log", 3, log, sizeof log, &len, NULL));
    assert_int_equal(len, sizeof log - 1);
    for (size_t i = 0; i < len; i += 3) {
        int who = log[i] - 'a';

        assert_in_range(who, 0, CHILDREN - 1);
        assert_int_equal(log[i + 2], log[i]);
        assert_int_equal(log[i + 1], next[who]++ & 0x7f);
    }
    muster_leave(m);
}

static int one_wins(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    int wins = 0;

    for (int i = 0; i < 500; i++) {
        char key[32];
        enum muster_status status;

        snprintf(key, sizeof key, "lock/%d", i);
        status = muster_kv_insert(m, key, MUSTER_NTS, arg, sizeof(int));
        CHECK(status == MUSTER_OK || status == MUSTER_ALREADY_EXISTS);
        wins += status == MUSTER_OK;
    }
    CHECK(muster_kv_increment(m, "wins", 4, wins, NULL) == MUSTER_OK);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(of_four_inserters_exactly_one_wins, setup, teardown)
{
    struct muster *m;
    int64_t wins;

    run_children(one_wins);
    m = test_join(job.name, -1, 0);
    assert_ok(muster_kv_increment(m, "wins", 4, 0, &wins));
    assert_int_equal(wins, 500);
    muster_leave(m);
}

/* Sets chain/0, chain/1, ... to i, in this order, for i = 1, 2, ...; now and then deletes them in the reverse order. */
enum { CHAIN = 6 };
static int writes_a_chain(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    size_t len;

    (void)arg;
    for (int i = 1; muster_kv_try_get(m, "stop", 4, NULL, 0, &len, NULL) == MUSTER_NOT_FOUND; i++)
        for (int k = 0; k < CHAIN; k++) {
            char key[32];

            if (i % 5 == 0) {
                snprintf(key, sizeof key, "chain/%d", CHAIN - 1 - k);
                CHECK(muster_kv_delete(m, key, MUSTER_NTS, NULL) == MUSTER_OK);
            } else {
                snprintf(key, sizeof key, "chain/%d", k);
                CHECK(muster_kv_set(m, key, MUSTER_NTS, &i, sizeof i, NULL) == MUSTER_OK);
            }
        }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

static int churns_elsewhere(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct test_random r = {test_seed()};
    size_t len;

    (void)arg;
    while (muster_kv_try_get(m, "stop", 4, NULL, 0, &len, NULL) == MUSTER_NOT_FOUND) {
        static char value[3000];
        char key[32];

        snprintf(key, sizeof key, "elsewhere/%d", (int)test_below(&r, 500));
        CHECK(muster_kv_set(m, key, MUSTER_NTS, value, test_below(&r, sizeof value), NULL) == MUSTER_OK);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

/* No hole: who is there has its predecessors. */
static void is_of_one_moment(const struct muster_kv_entry *entries, size_t count)
{
    int last = INT32_MAX;

    for (size_t i = 0; i < count; i++) {
        char expected[32];
        int value;

        snprintf(expected, sizeof expected, "chain/%zu", i);
        assert_string_equal(entries[i].key, expected);
        memcpy(&value, entries[i].value, sizeof value);
        assert_true(value <= last && (last == INT32_MAX || last - value <= 1));
        last = value;
    }
}

static enum muster_status list_at_once(struct muster *m)
{
    struct muster_kv_list *list;
    enum muster_status status = muster_kv_get_dir(m, "chain", 5, &list);

    if (status)
        return status;
    is_of_one_moment(list->entries, list->count);
    muster_kv_list_free(list);
    return MUSTER_OK;
}

/* As the coordination service does, which has others to serve meanwhile. */
static enum muster_status list_in_steps(struct muster *m)
{
    static struct test_random r;
    struct mu_survey s = {.snapshot = {.prefix = "chain/", .prefix_len = 6, .of = MU_SNAPSHOT_VALUES}};
    enum muster_status status;
    bool ended = false;
    struct mu_ctx *ctx;

    r.state = r.state ? r.state : test_seed();
    while (!ended) {
        assert_ok(mu_enter(m, &ctx));
        ended = mu_survey_step(m->seg, ctx, &s, 1 + test_below(&r, 8), &status);
        mu_exit(ctx);
    }
    if (!status)
        is_of_one_moment(s.snapshot.entries, s.snapshot.count);
    mu_survey_done(&s);
    return status;
}

static void lists_beside_writers(enum muster_status (*list)(struct muster *))
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t writer = test_fork(writes_a_chain, NULL), churner = test_fork(churns_elsewhere, NULL);
    int snapshots = 0, busy = 0;

    while (snapshots < 150 && busy < 50) {
        enum muster_status status = list(m);

        if (status == MUSTER_ABORTED) { /* allowed, when it is that busy; told from a hang by its being counted */
            busy++;
            continue;
        }
        assert_ok(status);
        snapshots++;
    }
    assert_ok(muster_kv_set(m, "stop", 4, NULL, 0, NULL));
    assert_int_equal(test_reap(writer), 0);
    assert_int_equal(test_reap(churner), 0);
    printf("%d snapshots, %d refused\n", snapshots, busy);
    assert_true(snapshots > 0);
    muster_leave(m);
}

TEST_WITH(a_listing_never_shows_a_later_write_without_the_earlier_ones, setup, teardown)
{
    lists_beside_writers(list_at_once);
}

TEST_WITH(one_in_steps_neither, setup, teardown)
{
    lists_beside_writers(list_in_steps);
}

/* One value of growing and shrinking size, all bytes the same: torn copies show. */
static int rewrites_large_values(void *arg)
{
    struct muster *m = test_join(job.name, -1, 0);
    static unsigned char value[300000];
    size_t len;

    (void)arg;
    for (unsigned i = 0; muster_kv_try_get(m, "stop", 4, NULL, 0, &len, NULL) == MUSTER_NOT_FOUND; i++) {
        static const size_t sizes[] = {100, 3000, 70000, 300000, 0};

        memset(value, (int)(i & 0xff), sizeof value);
        CHECK(muster_kv_set(m, "large", 5, value, sizes[i % 5], NULL) == MUSTER_OK);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(large_values_are_never_torn_while_two_rewrite_them, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t a = test_fork(rewrites_large_values, NULL), b = test_fork(rewrites_large_values, NULL);
    static unsigned char value[300000];

    for (int i = 0; i < 1500; i++) {
        size_t len;
        enum muster_status status = muster_kv_try_get(m, "large", 5, value, sizeof value, &len, NULL);

        if (status == MUSTER_NOT_FOUND)
            continue;
        assert_ok(status);
        for (size_t k = 1; k < len; k++)
            if (value[k] != value[0])
                fail_msg("byte %zu of %zu is %u, the first one %u", k, len, value[k], value[0]);
    }
    assert_ok(muster_kv_set(m, "stop", 4, NULL, 0, NULL));
    assert_int_equal(test_reap(a), 0);
    assert_int_equal(test_reap(b), 0);
    muster_leave(m);
}

static int reads_only(void *arg)
{
    struct muster *m = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);
    struct muster_kv_list *list;
    char buffer[16];
    size_t len, count;
    int64_t sum;
    uint64_t version;

    (void)arg;
    CHECK(m != NULL);
    test_gate_arrive(&gate);
    CHECK(muster_kv_get(m, "late", 4, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL) == MUSTER_OK);
    CHECK(len == 4 && !memcmp(buffer, "came", 4));
    CHECK(muster_kv_get_dir(m, "", 0, &list) == MUSTER_OK && list->count == 1);
    muster_kv_list_free(list);
    CHECK(muster_kv_count(m, "", 0, &count) == MUSTER_OK && count == 1);
    CHECK(muster_kv_set(m, "k", 1, "v", 1, NULL) == MUSTER_PERMISSION_DENIED);
    CHECK(strstr(muster_last_error(), "read-only") != NULL);
    CHECK(muster_kv_insert(m, "k", 1, "v", 1) == MUSTER_PERMISSION_DENIED);
    CHECK(muster_kv_increment(m, "k", 1, 1, &sum) == MUSTER_PERMISSION_DENIED);
    CHECK(muster_kv_append(m, "k", 1, "v", 1, &len) == MUSTER_PERMISSION_DENIED);
    CHECK(muster_kv_compare_and_set(m, "k", 1, 0, "v", 1, &version) == MUSTER_PERMISSION_DENIED);
    CHECK(muster_kv_delete(m, "k", 1, &count) == MUSTER_PERMISSION_DENIED);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_read_only_process_reads_waits_and_may_not_write, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    pid_t pid;

    assert_int_equal(test_gate_open(&gate), 0);
    pid = test_fork(reads_only, NULL);
    test_gate_await(&gate);
    assert_ok(muster_kv_set(m, "late", 4, "came", 4, NULL));
    assert_int_equal(test_reap(pid), 0);
    test_gate_close(&gate);
    muster_leave(m);
}
