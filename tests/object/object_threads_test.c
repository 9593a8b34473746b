/*
 * tests/object/object_threads_test.c: threads of several tasks put, hold, view and drop the same objects at once. What
 * is seen is whole, and at the end nothing is left.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cm.h"
#include "job.h"
#include "seed.h"

enum { TASKS = 3, THREADS = 2, PLACES = 4, ROUNDS = 3000 };

/* References on their way from hand to hand: a worker that finds one may come too late for it. */
static _Atomic muster_object places[PLACES];
static _Atomic int bad;

struct worker {
    struct muster *m;
    uint64_t seed;
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void complain(const char *what)
{
    atomic_fetch_add(&bad, 1);
    print_error("%s: %s\n", what, muster_last_error());
}

/* Each word is the first, and the metadata says how many there are. */
static muster_object put_one(struct muster *m, uint64_t *seed)
{
    uint64_t words[80], n = next(seed) % 80 + 1, word = next(seed);
    muster_object object = 0;

    for (uint64_t i = 0; i < n; i++)
        words[i] = word;
    if (muster_object_put(m, words, n * 8, &n, sizeof n, 0, &object))
        complain("put");
    return object;
}

static void look_at(struct muster *m, muster_object object)
{
    struct muster_object_view v;
    enum muster_status status = muster_object_get(m, &object, 1, MUSTER_FOREVER, &v, NULL);
    const uint64_t *words = v.data;

    if (status == MUSTER_NOT_FOUND)
        return;
    if (status)
        return complain("get");
    if (v.len != *(const uint64_t *)v.meta * 8)
        complain("lengths differ");
    for (size_t i = 0; i < v.len / 8; i++)
        if (words[i] != words[0])
            complain("torn");
    muster_object_unview(m, &v, 1);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t at = next(&w->seed) % PLACES, what = next(&w->seed) % 4;
        muster_object object = atomic_load(&places[at]);

        if (what == 0 || !object) {
            /* this thread's reference stays until the object has been seen where it is handed on */
            muster_object fresh = put_one(w->m, &w->seed);

            atomic_store(&places[at], fresh);
            look_at(w->m, fresh);
            if (muster_object_drop(w->m, &fresh, 1))
                complain("drop");
        } else if (what == 1) {
            enum muster_status status = muster_object_retain(w->m, &object, 1, NULL);

            if (status && status != MUSTER_NOT_FOUND)
                complain("retain");
            look_at(w->m, object);
            if (!status && muster_object_drop(w->m, &object, 1))
                complain("drop of what was retained");
        } else {
            look_at(w->m, object);
        }
    }
    muster_thread_detach(w->m);
    return NULL;
}

static int count(void *arg, const struct muster_object_info *info)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static atomic_bool over;

/* Looks at objects without holding them: what it copies may be anything by then. */
static void *look_on(void *arg)
{
    int n = 0;

    while (!atomic_load(&over))
        if (muster_object_list(arg, count, &n))
            complain("list");
    muster_thread_detach(arg);
    return NULL;
}

TEST(objects_of_many_hands_are_whole_and_go)
{
    struct muster_segment_config config = {.num_tasks = TASKS};
    struct worker workers[TASKS * THREADS];
    pthread_t threads[TASKS * THREADS];
    struct muster *m[TASKS];
    struct test_job job;
    uint64_t seed = test_seed();
    pthread_t looks;
    int left = 0;

    assert_int_equal(test_job_create(&job, &config), MUSTER_OK);
    for (int t = 0; t < TASKS; t++)
        assert_non_null(m[t] = test_join(job.name, t, 0));
    for (int i = 0; i < TASKS * THREADS; i++) {
        workers[i] = (struct worker){m[i % TASKS], seed + (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&looks, NULL, look_on, m[0]), 0);
    for (int i = 0; i < TASKS * THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&over, true);
    pthread_join(looks, NULL);
    assert_int_equal(bad, 0);
    assert_int_equal(muster_object_list(m[0], count, &left), MUSTER_OK);
    assert_int_equal(left, 0);
    for (int t = 0; t < TASKS; t++)
        assert_int_equal(muster_leave(m[t]), MUSTER_OK);
    assert_int_equal(test_job_end(&job), 0);
}
