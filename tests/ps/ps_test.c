/*
 * tests/ps/ps_test.c: tensors of muster/ps.h: pushes, rounds, names, files, threads at once, and pushers that die.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cm.h"
#include "job.h"
#include "ps/private.h"

enum { TASKS = 4, MIB = 1 << 20 };

static struct test_job job;
static struct muster *m[TASKS];

static int enter(void)
{
    struct muster_segment_config config = {.num_tasks = TASKS, .heap_bytes = 32 * MIB, .object_bytes = 256 * MIB};

    if (test_job_create(&job, &config))
        return -1;
    for (int32_t i = 0; i < TASKS; i++) {
        m[i] = test_join(job.name, i, MUSTER_JOIN_NO_HEARTBEAT);
        if (!m[i])
            return -1;
    }
    return 0;
}

static int leave(void)
{
    for (int i = 0; i < TASKS; i++)
        if (m[i])
            muster_leave(m[i]);
    memset(m, 0, sizeof m);
    return (int)test_job_end(&job); /* with the audit */
}
#define PS_TEST(name) TEST_WITH(name, enter, leave)

static struct muster_ps *create(int who, const char *name, const struct muster_ps_config *config, const void *initial)
{
    struct muster_ps *ps = NULL;

    if (muster_ps_create(m[who], name, config, initial, &ps))
        fail_msg("create: %s", muster_last_error());
    return ps;
}

static struct muster_ps_config shape(uint64_t count)
{
    return (struct muster_ps_config){.num_dims = 1, .dims = {count}};
}

static void push(struct muster_ps *ps, float value, uint64_t count)
{
    float *data = malloc(count * sizeof *data);

    for (uint64_t i = 0; i < count; i++)
        data[i] = value;
    if (muster_ps_push(ps, data, MUSTER_FOREVER, NULL))
        fail_msg("push: %s", muster_last_error());
    free(data);
}

/* All values are the same; that one. */
static float value_of(struct muster_ps *ps, uint64_t count)
{
    float *data = malloc(count * sizeof *data), value;

    if (muster_ps_pull(ps, data, NULL))
        fail_msg("pull: %s", muster_last_error());
    value = data[0];
    for (uint64_t i = 1; i < count; i++)
        if (memcmp(&data[i], &value, sizeof value) != 0)
            fail_msg("torn: value %zu is %g, and the first %g", (size_t)i, (double)data[i], (double)value);
    free(data);
    return value;
}

#define SAYS(part)                                                                                                     \
    if (!strstr(muster_last_error(), part))                                                                            \
    fail_msg("\"%s\" does not say \"%s\"", muster_last_error(), part)

PS_TEST(what_one_pushes_another_pulls)
{
    static const uint64_t counts[] = {1, 3, 1000, 16384, 400001};

    for (unsigned i = 0; i < 5; i++)
        for (uint32_t shards = 1; shards <= 3 && shards <= counts[i]; shards += 2) {
            struct muster_ps_config c = shape(counts[i]);
            struct muster_ps *a, *b;
            struct muster_ps_info info;

            c.shards = shards;
            a = create(0, "w", &c, NULL);
            assert_int_equal(muster_ps_open(m[1], "w", 0, &b), MUSTER_OK);
            assert_true(value_of(b, counts[i]) == 0);
            push(a, 1.5f, counts[i]);
            push(b, 2, counts[i]);
            assert_true(value_of(a, counts[i]) == 3.5f);
            assert_int_equal(muster_ps_info(b, &info), MUSTER_OK);
            assert_int_equal(info.version, 2);
            assert_int_equal(info.bytes, counts[i] * 4);
            assert_int_equal(info.config.shards, shards);
            muster_ps_close(a);
            assert_true(value_of(b, counts[i]) == 3.5f);
            muster_ps_close(b);
        }
}

PS_TEST(a_view_stays_as_it_was)
{
    struct muster_ps_config c = shape(50000);
    struct muster_ps *ps = create(0, "v", &c, NULL);
    struct muster_object_view view;
    uint64_t version = 0, first = 1;

    push(ps, 1, 50000);
    assert_int_equal(muster_ps_view(ps, 0, &view, &first, &version), MUSTER_OK);
    assert_int_equal(version, 1);
    assert_int_equal(first, 0);
    push(ps, 1, 50000);
    assert_true(((const float *)view.data)[49999] == 1);
    assert_true(value_of(ps, 50000) == 2);
    muster_object_unview(m[0], &view, 1);
    assert_int_equal(muster_ps_view(ps, 1, &view, NULL, NULL), MUSTER_OUT_OF_RANGE);
    muster_ps_close(ps);
}

PS_TEST(a_name_is_one_tensor_and_goes_with_its_last_holder)
{
    struct muster_ps_config c = shape(10), other = shape(11);
    float initial[10] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    struct muster_ps *a = create(0, "n", &c, initial), *b = create(1, "n", &c, NULL), *none;

    assert_true(value_of(b, 10) == 7);
    assert_int_equal(muster_ps_create(m[1], "n", &other, NULL, &none), MUSTER_FAILED_PRECONDITION);
    SAYS("tensor n is there already, with another shape");
    muster_ps_close(a);
    muster_ps_close(b);
    assert_int_equal(muster_ps_open(m[1], "n", 0, &none), MUSTER_DEADLINE_EXCEEDED);
    SAYS("tensor n");
    a = create(2, "n", &other, NULL);
    muster_ps_close(a);
    assert_int_equal(muster_ps_create(m[0], "", &c, NULL, &none), MUSTER_INVALID_ARGUMENT);
    c.optimizer = MUSTER_PS_SGD;
    c.type = MUSTER_PS_INT32;
    assert_int_equal(muster_ps_create(m[0], "n", &c, NULL, &none), MUSTER_INVALID_ARGUMENT);
    SAYS("integers have no optimizer");
    c = shape(10);
    c.pushers = 600;
    c.staleness = 1;
    assert_int_equal(muster_ps_create(m[0], "n", &c, NULL, &none), MUSTER_INVALID_ARGUMENT);
    SAYS("at most 1024 pushes");
    c = shape(0);
    assert_int_equal(muster_ps_create(m[0], "n", &c, NULL, &none), MUSTER_INVALID_ARGUMENT);
    c = shape(1ull << 34);
    assert_int_equal(muster_ps_create(m[0], "n", &c, NULL, &none), MUSTER_OUT_OF_RANGE);
}

PS_TEST(the_optimizers_do_what_they_are_known_for)
{
    struct muster_ps_config c = shape(2);
    double g[2] = {0.5, -2}, p[2] = {1, 1}, mean[2] = {0}, square[2] = {0}, got[2];
    struct muster_ps *ps;

    c.type = MUSTER_PS_DOUBLE;
    c.optimizer = MUSTER_PS_ADAM;
    c.rate = 0.01;
    c.momentum = 0.9;
    c.beta2 = 0.999;
    c.epsilon = 1e-8;
    ps = create(0, "adam", &c, p);
    for (int t = 1; t <= 5; t++) {
        assert_int_equal(muster_ps_push(ps, g, 0, NULL), MUSTER_OK);
        for (int i = 0; i < 2; i++) {
            mean[i] = 0.9 * mean[i] + 0.1 * g[i];
            square[i] = 0.999 * square[i] + 0.001 * g[i] * g[i];
            p[i] -= 0.01 * (mean[i] / (1 - pow(0.9, t))) / (sqrt(square[i] / (1 - pow(0.999, t))) + 1e-8);
        }
    }
    assert_int_equal(muster_ps_pull(ps, got, NULL), MUSTER_OK);
    assert_true(fabs(got[0] - p[0]) < 1e-9 && fabs(got[1] - p[1]) < 1e-9);
    muster_ps_close(ps);

    c.optimizer = MUSTER_PS_MOMENTUM;
    c.rate = 0.5;
    c.momentum = 0.5;
    ps = create(0, "momentum", &c, NULL);
    muster_ps_push(ps, g, 0, NULL); /* m = g; p = -g / 2 */
    muster_ps_set_rate(ps, 1);
    muster_ps_push(ps, g, 0, NULL); /* m = 1.5 g; p = -2 g */
    assert_int_equal(muster_ps_pull(ps, got, NULL), MUSTER_OK);
    assert_true(got[0] == -1 && got[1] == 4);
    muster_ps_close(ps);
}

/* ---- what is corrupt ---- */

/* A shard names an object that is not there. */
static void shard_spoil(struct muster_ps *ps, uint64_t count)
{
    float *data = calloc(count, sizeof *data);
    struct muster_object_view view;
    struct ps_shard s;
    struct mu_ctx *ctx;
    uint64_t value, *ref;

    assert_int_equal(mu_enter(ps->m, &ctx), MUSTER_OK);
    assert_int_equal(mu_ps_shard_read(ps, ctx, 0, &s), MUSTER_OK);
    mu_exit(ctx);
    ref = (uint64_t *)mu_bundle_at(ps->seg, s.data)->refs;
    value = *ref;
    *ref += 1; /* the next generation */
    assert_int_equal(muster_ps_pull(ps, data, NULL), MUSTER_DATA_LOSS);
    assert_int_equal(muster_ps_view(ps, 0, &view, NULL, NULL), MUSTER_DATA_LOSS);
    assert_int_equal(muster_ps_push(ps, data, MUSTER_FOREVER, NULL), MUSTER_DATA_LOSS);
    *ref = value;
    assert_int_equal(muster_ps_push(ps, data, MUSTER_FOREVER, NULL), MUSTER_OK);
    free(data);
}

PS_TEST(a_shard_that_names_what_is_not_there_is_lost_data)
{
    static const uint64_t counts[] = {4, 3000, 100000}; /* copied out, held, and with a turn */

    for (unsigned i = 0; i < 3; i++) {
        struct muster_ps_config c = shape(counts[i]);
        struct muster_ps *ps = create(0, "spoilt", &c, NULL);

        shard_spoil(ps, counts[i]);
        muster_ps_close(ps);
    }
}

/* ---- rounds ---- */

PS_TEST(the_last_pusher_of_a_round_applies_it_once)
{
    struct muster_ps_config c = shape(20000);
    struct muster_ps *ps[3];
    struct muster_ps_info info;
    uint64_t version = 0;

    c.pushers = 3;
    c.optimizer = MUSTER_PS_SGD;
    c.rate = 1;
    c.flags = MUSTER_PS_AVERAGE;
    for (int i = 0; i < 3; i++)
        ps[i] = create(i, "round", &c, NULL);
    for (int round = 1; round <= 3; round++) {
        push(ps[0], 3, 20000);
        push(ps[1], 6, 20000);
        assert_int_equal(muster_ps_info(ps[0], &info), MUSTER_OK);
        assert_int_equal(info.kept, 2);
        assert_int_equal(info.version, round - 1);
        assert_true(value_of(ps[2], 20000) == (float)(-6 * (round - 1)));
        assert_int_equal(muster_ps_wait(ps[0], (uint64_t)round, muster_after_ms(1), NULL), MUSTER_DEADLINE_EXCEEDED);
        SAYS("has 2 of 3 pushes, of the tasks 0, 1");
        push(ps[2], 9, 20000);
        assert_int_equal(muster_ps_wait(ps[0], (uint64_t)round, MUSTER_FOREVER, &version), MUSTER_OK);
        assert_int_equal(version, round);
        assert_true(value_of(ps[1], 20000) == (float)(-6 * round));
    }
    for (int i = 0; i < 3; i++)
        muster_ps_close(ps[i]);
}

PS_TEST(a_task_is_ahead_by_the_staleness_and_no_more)
{
    struct muster_ps_config c = shape(4);
    struct muster_ps *a, *b;
    float one[4] = {1, 1, 1, 1};
    uint64_t version = 0;

    c.pushers = 2;
    c.staleness = 2;
    a = create(0, "stale", &c, NULL);
    b = create(1, "stale", &c, NULL);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(muster_ps_push(a, one, 0, &version), MUSTER_OK);
        assert_int_equal(version, i);
    }
    assert_int_equal(muster_ps_push(a, one, muster_after_ms(1), NULL), MUSTER_DEADLINE_EXCEEDED);
    SAYS("round 1 has 1 of 2 pushes, of the tasks 0");
    push(b, 10, 4);
    assert_true(value_of(a, 4) == 11);
    assert_int_equal(muster_ps_push(a, one, 0, &version), MUSTER_OK);
    assert_int_equal(version, 4);
    muster_ps_set(b, (float[4]){0, 0, 0, 0}, NULL); /* what is kept stays */
    for (int i = 0; i < 3; i++)
        push(b, 10, 4);
    assert_true(value_of(a, 4) == 33);
    muster_ps_close(a);
    muster_ps_close(b);
}

PS_TEST(a_worker_has_no_push_in_a_round)
{
    struct muster_ps_config c = shape(1);
    struct muster *worker = test_join(job.name, -1, MUSTER_JOIN_WORKER | MUSTER_JOIN_NO_HEARTBEAT);
    struct muster_ps *ps, *mine;
    float one = 1;

    assert_non_null(worker);
    c.pushers = 2;
    ps = create(0, "round", &c, NULL);
    assert_int_equal(muster_ps_open(worker, "round", 0, &mine), MUSTER_OK);
    assert_int_equal(muster_ps_push(mine, &one, 0, NULL), MUSTER_FAILED_PRECONDITION);
    SAYS("tensor round: a round counts one push of each task");
    push(ps, 1, 1);
    assert_true(value_of(mine, 1) == 0); /* the worker's does not count as one */
    muster_ps_close(mine);
    muster_ps_close(ps);
    c.pushers = 0;
    assert_int_equal(muster_ps_create(worker, "plain", &c, NULL, &mine), MUSTER_OK);
    push(mine, 1, 1);
    muster_ps_close(mine);
    assert_int_equal(muster_leave(worker), MUSTER_OK);
}

/* ---- threads ---- */

struct pusher {
    struct muster *m;
    const char *name;
    uint64_t count;
    int pushes;
    bool rows;
};
static _Atomic int bad;

static void rows_work(const struct pusher *p, struct muster_ps *ps)
{
    uint64_t keys[8] = {0, ~0ull, 5, 6, 0x9e3779b97f4a7c15u, 8, 9, 5};
    float rows[8 * 5];

    for (int i = 0; i < p->pushes; i++) {
        for (int k = 0; k < 40; k++)
            rows[k] = 1;
        if (muster_ps_rows_push(ps, keys, 8, rows, NULL) || muster_ps_rows_pull(ps, keys, 8, rows, NULL))
            atomic_fetch_add(&bad, 1);
        for (int k = 0; k < 40; k++)
            atomic_fetch_add(&bad, rows[k] != rows[k / 5 * 5]);
    }
}

static void *pusher_run(void *arg)
{
    struct pusher *p = arg;
    struct muster_ps *ps;
    float *data = malloc(p->count * sizeof *data);

    if (muster_ps_open(p->m, p->name, MUSTER_FOREVER, &ps))
        return NULL;
    if (p->rows)
        rows_work(p, ps);
    for (int i = 0; !p->rows && i < p->pushes; i++) {
        struct muster_object_view view = {0};

        for (uint64_t k = 0; k < p->count; k++)
            data[k] = 1;
        if (muster_ps_push(ps, data, MUSTER_FOREVER, NULL) || muster_ps_pull(ps, data, NULL) ||
            muster_ps_view(ps, 0, &view, NULL, NULL))
            atomic_fetch_add(&bad, 1);
        muster_object_unview(p->m, &view, 1);
        for (uint64_t k = 1; k < p->count; k++)
            atomic_fetch_add(&bad, data[k] != data[0]);
    }
    muster_ps_close(ps);
    free(data);
    return NULL;
}

static void pushers_run(const char *name, uint64_t count, int pushes, bool rows)
{
    struct pusher p[TASKS];
    pthread_t threads[TASKS];

    atomic_store(&bad, 0);
    for (int i = 0; i < TASKS; i++) {
        p[i] = (struct pusher){m[i], name, count, pushes, rows};
        pthread_create(&threads[i], NULL, pusher_run, &p[i]);
    }
    for (int i = 0; i < TASKS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&bad), 0);
}

PS_TEST(pushes_at_once_are_all_there)
{
    static const uint64_t counts[] = {1, 300, 30000};

    for (unsigned i = 0; i < 3; i++)
        for (uint32_t pushers = 0; pushers <= TASKS; pushers += TASKS) {
            struct muster_ps_config c = {.num_dims = 1, .dims = {counts[i]}, .pushers = pushers};
            int pushes = i == 2 ? 30 : 200;
            struct muster_ps *ps = create(0, "many", &c, NULL);

            pushers_run("many", counts[i], pushes, false);
            assert_true(value_of(ps, counts[i]) == (float)(pushes * TASKS));
            muster_ps_close(ps);
        }
}

PS_TEST(rows_pushed_at_once_are_all_there)
{
    struct muster_ps_config c = shape(5);
    const uint64_t keys[4] = {5, ~0ull, 77, 0x9e3779b97f4a7c15u};
    unsigned char there[4];
    struct muster_ps_info info;
    struct muster_ps *ps;
    float rows[20];

    c.rows = 7;
    ps = create(0, "table", &c, NULL);
    pushers_run("table", 5, 300, true);
    assert_int_equal(muster_ps_rows_pull(ps, keys, 4, rows, there), MUSTER_OK);
    assert_true(rows[0] == 2 * 300 * TASKS && rows[4] == rows[0] && rows[5] == 300 * TASKS && rows[10] == 0 &&
                rows[15] == 300 * TASKS);
    assert_true(there[0] && there[1] && !there[2] && there[3]);
    assert_int_equal(muster_ps_info(ps, &info), MUSTER_OK);
    assert_int_equal(info.rows, 7);
    muster_ps_close(ps);
}

/* ---- deaths ---- */

enum { LARGE = 200000 };

/* Pushes until it is killed. */
static int pushes_on(void *arg)
{
    static const uint64_t keys[3] = {1, 2, 3};
    struct muster *me = test_join(job.name, 3, 0);
    float *data = calloc(LARGE, sizeof *data);
    struct muster_ps *ps, *rows;

    (void)arg;
    CHECK(me && !muster_ps_open(me, "large", 0, &ps) && !muster_ps_open(me, "rows", 0, &rows));
    for (int i = 0; i < LARGE; i++)
        data[i] = 1;
    while (!muster_ps_push(ps, data, MUSTER_FOREVER, NULL) && !muster_ps_rows_push(rows, keys, 3, data, NULL))
        ;
    return 1;
}

static uint64_t version_of(struct muster_ps *ps)
{
    struct muster_ps_info info;

    assert_int_equal(muster_ps_info(ps, &info), MUSTER_OK);
    return info.version;
}

PS_TEST(a_pusher_that_is_killed_or_stopped_leaves_all_whole)
{
    struct muster_ps_config c = shape(LARGE), t = shape(900);
    float three[2700], got[2700];
    uint64_t keys[3] = {1, 2, 3}, version;
    struct muster_ps *ps, *rows;

    t.rows = 3;
    ps = create(0, "large", &c, NULL);
    rows = create(0, "rows", &t, NULL);
    muster_leave(m[3]);
    m[3] = NULL;
    for (int i = 0; i < 12; i++) {
        pid_t pid = test_fork(pushes_on, NULL);
        float value;

        version = version_of(ps);
        await(version_of(ps) > version + (uint64_t)i % 3, "pushes");
        kill(pid, SIGSTOP);
        push(ps, 1, LARGE); /* stopped in its midst, it delays nobody for long */
        for (int k = 0; k < 2700; k++)
            three[k] = 1;
        assert_int_equal(muster_ps_rows_push(rows, keys, 3, three, NULL), MUSTER_OK);
        kill(pid, i % 2 ? SIGKILL : SIGCONT);
        kill(pid, SIGKILL);
        test_reap(pid);
        muster_scavenge(m[0], NULL);
        muster_task_reset(m[0], 3);
        value = value_of(ps, LARGE);
        assert_true(value == (float)version_of(ps));
        assert_int_equal(muster_ps_rows_pull(rows, keys, 3, got, NULL), MUSTER_OK);
        for (int k = 0; k < 2700; k++)
            assert_true(got[k] == got[k / 900 * 900] && got[k] >= (float)(i + 1));
    }
    muster_ps_close(ps);
    muster_ps_close(rows);
}

PS_TEST(a_death_ends_the_wait_for_a_round)
{
    struct muster_ps_config c = shape(1);
    struct muster_ps *ps;
    pid_t pid;

    c.pushers = 2;
    ps = create(0, "large", &c, NULL);
    muster_leave(m[3]);
    m[3] = NULL;
    push(ps, 1, 1);
    pid = test_fork(pushes_on, NULL); /* fails at once, for there is no table: its task is in error */
    assert_int_not_equal(test_reap(pid), 0);
    muster_scavenge(m[0], NULL);
    assert_int_equal(muster_ps_wait(ps, 1, MUSTER_FOREVER, NULL), MUSTER_UNAVAILABLE);
    SAYS("version 1 of tensor large: task 3");
    muster_task_reset(m[0], 3);
    muster_ps_close(ps);
}

/* ---- rows ---- */

PS_TEST(a_table_is_full_when_it_says_so)
{
    struct muster_ps_config c = {.type = MUSTER_PS_INT64, .rows = 1000};
    uint64_t keys[1001];
    int64_t rows[1001];
    struct muster_ps *ps = create(0, "full", &c, NULL);
    size_t done = 0;

    for (uint64_t i = 0; i < 1001; i++) {
        keys[i] = i * 0x10000;
        rows[i] = (int64_t)i;
    }
    assert_int_equal(muster_ps_rows_push(ps, keys, 1001, rows, &done), MUSTER_RESOURCE_EXHAUSTED);
    SAYS("table full is full: it has 1000 rows");
    assert_int_equal(done, 1000);
    assert_int_equal(muster_ps_rows_set(ps, keys, 3, rows + 500, NULL), MUSTER_OK);
    assert_int_equal(muster_ps_rows_push(ps, keys + 999, 1, rows + 1, NULL), MUSTER_OK);
    memset(rows, 1, sizeof rows);
    assert_int_equal(muster_ps_rows_pull(ps, keys, 1001, rows, NULL), MUSTER_OK);
    assert_true(rows[0] == 500 && rows[2] == 502 && rows[3] == 3 && rows[999] == 1000 && rows[1000] == 0);
    assert_int_equal(muster_ps_push(ps, rows, 0, NULL), MUSTER_INVALID_ARGUMENT);
    SAYS("is a table");
    muster_ps_close(ps);
}

/* ---- files ---- */

PS_TEST(what_was_saved_is_loaded)
{
    struct muster_ps_config c = shape(3000), t = shape(3);
    char path[64], line[8];
    struct muster_ps *ps, *rows, *other;
    uint64_t keys[2] = {4, 1ull << 60};
    float values[6] = {1, 2, 3, 4, 5, 6}, got[6];
    FILE *f;

    snprintf(path, sizeof path, "/tmp/muster-ps-%d", (int)getpid());
    c.optimizer = MUSTER_PS_MOMENTUM;
    c.rate = 1;
    c.momentum = 0.5;
    c.shards = 2;
    ps = create(0, "saved", &c, NULL);
    push(ps, 1, 3000); /* m 1, p -1 */
    assert_int_equal(muster_ps_save(ps, path), MUSTER_OK);
    push(ps, 1, 3000);
    push(ps, 1, 3000);
    assert_int_equal(muster_ps_load(ps, path), MUSTER_OK);
    assert_true(value_of(ps, 3000) == -1);
    push(ps, 1, 3000); /* m 1.5: the state was saved, too */
    assert_true(value_of(ps, 3000) == -2.5f);

    t.rows = 10;
    rows = create(0, "saved rows", &t, NULL);
    assert_int_equal(muster_ps_load(rows, path), MUSTER_INVALID_ARGUMENT);
    SAYS("is of another tensor than saved rows");
    muster_ps_rows_push(rows, keys, 2, values, NULL);
    assert_int_equal(muster_ps_save(rows, path), MUSTER_OK);
    other = create(1, "other rows", &t, NULL);
    assert_int_equal(muster_ps_load(other, path), MUSTER_OK);
    assert_int_equal(muster_ps_rows_pull(other, keys, 2, got, NULL), MUSTER_OK);
    assert_memory_equal(got, values, sizeof got);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(muster_ps_load(other, path), MUSTER_DATA_LOSS);
    f = fopen(path, "w");
    fprintf(f, "no tensor");
    fclose(f);
    assert_int_equal(muster_ps_load(other, path), MUSTER_INVALID_ARGUMENT);
    unlink(path);
    assert_int_equal(muster_ps_load(other, path), MUSTER_NOT_FOUND);
    assert_int_equal(muster_ps_save(other, "/nowhere/at/all"), MUSTER_NOT_FOUND);
    snprintf(line, sizeof line, "%.7s", muster_last_error());
    assert_string_equal(line, "cannot ");
    muster_ps_close(ps);
    muster_ps_close(rows);
    muster_ps_close(other);
}
