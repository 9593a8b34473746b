/*
 * tests/base/process_test.c: facts about processes.
 */
#include "cm.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/process.h"
#include "child.h"

TEST(a_process_has_one_start_time_and_the_next_a_later_one)
{
    uint64_t mine = mu_process_start(getpid());

    assert_true(mine > 0);
    assert_true(mu_process_start(getpid()) == mine);
    assert_true(mu_process_start(getppid()) <= mine);
    assert_int_equal(mu_process_start(0), 0);
    assert_int_equal(mu_process_start(-1), 0);
    assert_int_equal(mu_process_start(0x3fffffff), 0);
}

static int has_a_nasty_name(void *arg)
{
    uint64_t before = mu_process_start(getpid());

    (void)arg;
    CHECK(before != 0);
    CHECK(prctl(PR_SET_NAME, ") 1 2 (x) 3") == 0); /* the name stands before the numbers, unescaped */
    CHECK(mu_process_start(getpid()) == before);
    return 0;
}

TEST(a_process_cannot_lie_about_it_by_its_name)
{
    assert_int_equal(test_in_child(has_a_nasty_name, NULL), 0);
}

TEST(this_boot_and_its_namespaces_are_known_and_stay)
{
    uint8_t a[16], b[16], none[16] = {0};

    mu_boot_id(a);
    mu_boot_id(b);
    assert_memory_equal(a, b, 16);
    assert_true(memcmp(a, none, 16) != 0);
    assert_true(mu_namespace("pid") != 0);
    assert_true(mu_namespace("pid") == mu_namespace("pid"));
    assert_int_equal(mu_namespace("nonsense"), 0);
}

TEST(random_bytes_differ_and_fill_any_length)
{
    uint64_t a[512] = {0}, b[512] = {0};

    mu_random(a, sizeof a);
    mu_random(b, sizeof b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    for (int i = 0; i < 512; i++)
        assert_true(a[i] != 0);
    mu_random(a, 0);
}

static int runs_on_one_processor(void *arg)
{
    cpu_set_t set;

    (void)arg;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(mu_processors() == 1);
    mu_processors_learn(16); /* bound by a launcher, and each of its tasks to another */
    CHECK(mu_processors() == 16);
    mu_processors_learn(0);
    CHECK(mu_processors() == 1);
    return 0;
}

TEST(only_the_processors_that_may_be_used_count)
{
    assert_true(mu_processors() >= 1);
    assert_int_equal(test_in_child(runs_on_one_processor, NULL), 0);
}

static void *wait_for_the_lock(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* In a child: it has one thread. (A thread sanitizer's runtime has one of its own.) */
static int knows_whether_it_is_alone(void *arg)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;

    (void)arg;
    CHECK(mu_is_alone());
    pthread_mutex_lock(&lock);
    CHECK(pthread_create(&thread, NULL, wait_for_the_lock, &lock) == 0);
    CHECK(!mu_is_alone());
    mu_own_thread(1);
    CHECK(mu_is_alone());
    mu_own_thread(1); /* more than there are: then it is not known */
    CHECK(!mu_is_alone());
    mu_own_thread(-1);
    pthread_mutex_unlock(&lock);
    mu_own_thread(-1);
    pthread_join(thread, NULL);
    for (int i = 0; !mu_is_alone() && i < 100000; i++) /* a thread can be joined just before it goes from /proc */
        sched_yield();
    CHECK(mu_is_alone());
    mu_own_thread(1);
    return 0;
}

/* A child has none of its parent's threads. */
static int is_alone_after_fork(void *arg)
{
    mu_own_thread(1);
    return test_in_child(knows_whether_it_is_alone, arg);
}

TEST(other_threads_count_but_our_own)
{
    assert_int_equal(test_in_child(knows_whether_it_is_alone, NULL), 0);
    assert_int_equal(test_in_child(is_alone_after_fork, NULL), 0);
}
