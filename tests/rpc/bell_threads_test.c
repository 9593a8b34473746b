/*
 * tests/rpc/bell_threads_test.c: whoever listens for the bell hears of every change, with tasks that change keys beside
 * it. The listener here does not look again by itself, so one ring that is lost leaves the test hanging, and it fails.
 */
#define MU_LISTENER_RECHECK_NS 3600000000000u
#include "coord/bell.c" /* with a time of its own */

#include "cm.h"
#include "job.h"

#include <semaphore.h>
#include <stdio.h>

#include <muster/kv.h>

#ifdef MU_TSAN
enum { ROUNDS = 300 };
#else
enum { ROUNDS = 1500 }; /* beside much else a round takes as long as three wake-ups */
#endif
enum { TASKS = 2, OTHERS = 30 /* that the loop looks at besides */ };
static int tasks;

static struct test_job job;
static sem_t bells;                   /* stands for uv_async_send() */
static _Atomic int64_t looked[TASKS]; /* process-local: what the loop has seen of each task's key */
static _Atomic uint64_t num_rung;     /* process-local: a count */

static void rung(void *arg)
{
    (void)arg;
    num_rung++;
    sem_post(&bells);
}

static void key_of(int task, char key[16])
{
    snprintf(key, 16, "key/%d", task);
}

/* A task counts up, and goes on when the loop has seen it; it waits in different ways, so that all meet. */
static void *count_up(void *arg)
{
    int task = (int)(intptr_t)arg;
    struct muster *m = test_join(job.name, task, 0);
    unsigned seed = (unsigned)task + 1;
    char key[16];
    int64_t n = 0;

    key_of(task, key);
    while (m && n < ROUNDS) {
        if (muster_kv_increment(m, key, MUSTER_NTS, 1, &n))
            break;
        while (looked[task] < n)
            sched_yield();
        seed = seed * 1103515245u + 12345u;
        for (volatile unsigned i = 0; i < (seed >> 16) % 2000; i++)
            ;
    }
    muster_leave(m);
    return NULL;
}

/* What the loop does at each turn. */
static bool look(struct muster *m, struct mu_listener *l)
{
    bool over = true;

    mu_listener_arm(l);
    for (int i = 0; i < tasks; i++) {
        char key[16], value[24] = "";
        size_t len = 0;

        key_of(i, key);
        if (!muster_kv_try_get(m, key, MUSTER_NTS, value, sizeof value - 1, &len, NULL)) {
            value[len] = 0;
            looked[i] = strtoll(value, NULL, 10);
        }
        over = over && looked[i] >= ROUNDS;
    }
    for (int i = 0; i < OTHERS; i++) /* which gives who was seen the time to go on */
        muster_kv_try_get(m, "other", MUSTER_NTS, NULL, 0, NULL, NULL);
    return over;
}

static void listen_to(int count)
{
    struct muster_segment_config c = {.num_tasks = TASKS, .listened = 1};
    pthread_t threads[TASKS];
    struct mu_listener *l;
    struct muster *m;

    tasks = count;
    for (int i = 0; i < TASKS; i++)
        looked[i] = 0;
    num_rung = 0;
    assert_ok(test_job_create(&job, &c));
    m = test_join(job.name, -1, MUSTER_JOIN_OBSERVER);
    assert_non_null(m);
    assert_int_equal(sem_init(&bells, 0, 0), 0);
    assert_ok(mu_listener_start(muster_segment_of(m), rung, NULL, &l));
    for (int i = 0; i < tasks; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, (void *)(intptr_t)i), 0);
    while (!look(m, l)) {
        sem_wait(&bells);
        while (!sem_trywait(&bells)) /* as many as came are one */
            ;
    }
    for (int i = 0; i < tasks; i++)
        pthread_join(threads[i], NULL);
    mu_listener_stop(l);
    printf("%d changes, %llu rings\n", tasks * ROUNDS, (unsigned long long)num_rung);
    sem_destroy(&bells);
    assert_ok(muster_leave(m));
    assert_int_equal(test_job_end(&job), 0);
}

/* Of one alone: no other's ring makes good one that is lost. */
TEST(no_ring_of_one_is_lost)
{
    listen_to(1);
}

TEST(no_ring_of_several_is_lost)
{
    listen_to(TASKS);
}

TEST(nothing_is_heard_that_was_not_asked_for)
{
    struct muster_segment_config c = {.num_tasks = 1, .listened = 1};
    struct mu_listener *l;
    struct muster *m;

    num_rung = 0;
    assert_ok(test_job_create(&job, &c));
    m = test_join(job.name, 0, 0);
    assert_int_equal(sem_init(&bells, 0, 0), 0);
    mu_listener_stop(NULL);
    assert_ok(mu_listener_start(muster_segment_of(m), rung, NULL, &l));
    assert_ok(muster_kv_set(m, "k", MUSTER_NTS, "1", 1, NULL));
    mu_listener_stop(l);
    assert_int_equal(num_rung, 0);
    /* and one that is asked for may be ended all the same, at once */
    assert_ok(mu_listener_start(muster_segment_of(m), rung, NULL, &l));
    mu_listener_arm(l);
    mu_listener_arm(l);
    mu_listener_stop(l);
    assert_int_equal(num_rung, 0);
    assert_ok(mu_listener_start(muster_segment_of(m), rung, NULL, &l));
    mu_listener_arm(l);
    assert_ok(muster_kv_set(m, "k", MUSTER_NTS, "2", 1, NULL));
    sem_wait(&bells);
    mu_listener_stop(l);
    sem_destroy(&bells);
    assert_ok(muster_leave(m));
    assert_int_equal(test_job_end(&job), 0);
}

TEST(a_segment_that_rings_nobody_is_refused)
{
    struct mu_listener *l;

    assert_ok(test_job_create(&job, NULL));
    assert_int_equal(mu_listener_start(job.segment, rung, NULL, &l), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(test_job_end(&job), 0);
}
