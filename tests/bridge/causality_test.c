/* tests/bridge/causality_test.c: whoever learns of a write sees all that came before it, on every host, whatever
 * connections and agents break (I10); and when all is quiet every copy is the leader's value.
 * TEST_ROUNDS=n: so many times as long.
 * timeout: 300
 */
#include "cm.h"
#include "bridge/kv/copies.h"
#include "hosts.h"
#include "segment/remote.h"

#include <muster/muster.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOSTS = 3, PAIRS = 8, READS = 40000, KEYS = 64 };

static unsigned rounds(void)
{
    const char *n = getenv("TEST_ROUNDS");

    return n ? (unsigned)strtoul(n, NULL, 10) : 1;
}

struct field {
    struct hosts *h;
    struct muster *at[HOSTS];
    _Atomic int stop;
    _Atomic uint64_t reads, learned;
};

static void field_open(struct field *f)
{
    memset(f, 0, sizeof *f);
    f->h = hosts_open(&(struct hosts_config){.tasks = {2, 2, 2}, .segment = {.num_buckets = 64}});
    for (uint32_t i = 0; i < HOSTS; i++)
        f->at[i] = hosts_observer(f->h, i);
}

static void field_close(struct field *f)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        assert_ok(muster_leave(f->at[i]));
    assert_int_equal(hosts_close(f->h), 0);
}

static void must(enum muster_status status, const char *what)
{
    if (!status)
        return;
    printf("%s: %s: %s\n", what, muster_status_name(status), muster_last_error());
    fflush(stdout);
    abort();
}

/* A number at the head of a value of some length. */
static void put(struct muster *m, const char *key, uint64_t n, size_t len)
{
    uint8_t value[3000];

    memset(value, (int)n, sizeof value);
    memcpy(value, &n, sizeof n);
    must(muster_kv_set(m, key, MUSTER_NTS, value, len < sizeof n ? sizeof n : len, NULL), "set");
}

/* 0: absent. A torn value ends the test. */
static uint64_t get(struct muster *m, const char *key)
{
    uint8_t value[3000];
    uint64_t n;
    size_t len;
    enum muster_status status = muster_kv_try_get(m, key, MUSTER_NTS, value, sizeof value, &len, NULL);

    if (status == MUSTER_NOT_FOUND)
        return 0;
    must(status, "get");
    memcpy(&n, value, sizeof n);
    for (size_t i = sizeof n; i < len; i++)
        if (value[i] != (uint8_t)n)
            must(MUSTER_DATA_LOSS, "torn");
    return n;
}

static void name(char key[16], const char *what, unsigned i)
{
    snprintf(key, 16, "%s/%u", what, i);
}

struct actor {
    struct field *f;
    uint32_t host;
    uint64_t seed;
    pthread_t thread;
};

/* Sets the data, then the flag, of one pair after the other: each pair has one writer. */
static void *write_pairs(void *arg)
{
    struct actor *a = arg;
    struct test_random r = {a->seed};

    for (uint64_t n = 1; !a->f->stop; n++) {
        unsigned i = (unsigned)(test_below(&r, PAIRS / 2) * 2 + (a->host != 0));
        char data[16], flag[16];

        name(data, "data", i);
        name(flag, "flag", i);
        put(a->f->at[a->host], data, n, test_below(&r, 3000));
        put(a->f->at[a->host], flag, n, 8);
        if (!test_below(&r, 50)) { /* gone, and there again: the number goes on */
            must(muster_kv_delete(a->f->at[a->host], flag, MUSTER_NTS, NULL), "delete");
            put(a->f->at[a->host], data, n + 1, 8);
            put(a->f->at[a->host], flag, n + 1, 8);
            n++;
        }
    }
    return NULL;
}

static void *read_pairs(void *arg)
{
    struct actor *a = arg;
    struct test_random r = {a->seed};

    for (unsigned n = READS * rounds(); n; n--) {
        unsigned i = (unsigned)test_below(&r, PAIRS);
        uint64_t seen, old;
        char data[16], flag[16];

        name(data, "data", i);
        name(flag, "flag", i);
        seen = get(a->f->at[a->host], flag);
        old = get(a->f->at[a->host], data);
        if (old < seen) {
            printf("host %u: flag %u says %llu, and its data is of %llu\n", a->host, i, (unsigned long long)seen,
                   (unsigned long long)old);
            fflush(stdout);
            abort();
        }
        a->f->reads += 2;
        a->f->learned += seen > 0;
    }
    return NULL;
}

static void start(struct actor *a, struct field *f, uint32_t host, struct test_random *r, void *(*fn)(void *))
{
    *a = (struct actor){.f = f, .host = host, .seed = test_random(r)};
    assert_int_equal(pthread_create(&a->thread, NULL, fn, a), 0);
}

/* One fault, of which all then recover. */
static void disturb(struct hosts *h, struct test_random *r)
{
    uint32_t follower = 1 + (uint32_t)test_below(r, HOSTS - 1), any = (uint32_t)test_below(r, HOSTS);
    uint32_t few = 1 + (uint32_t)test_below(r, 200);

    switch (test_below(r, 6)) {
    case 0: hosts_cut(h, follower); break;
    case 1: hosts_cut_after(h, follower, few); break;
    case 2: hosts_kill(h, any); break;
    case 3: hosts_kill_after(h, any, few); break;
    case 4: hosts_pause(h, any); break;
    default: break;
    }
    nanosleep(&(struct timespec){.tv_nsec = (long)test_below(r, 3000000)}, NULL); /* sleep: how long the fault lasts */
    for (uint32_t i = 0; i < HOSTS; i++)
        hosts_resume(h, i);
    hosts_mend(h);
    nanosleep(&(struct timespec){.tv_nsec = (long)test_below(r, 3000000)}, NULL); /* sleep: until the next */
}

static void litmus(bool faults)
{
    struct test_random r = {test_seed()};
    struct actor writers[2], readers[4];
    struct field f;

    field_open(&f);
    start(&writers[0], &f, 0, &r, write_pairs);
    start(&writers[1], &f, 2, &r, write_pairs);
    for (uint32_t i = 0; i < 4; i++)
        start(&readers[i], &f, i % HOSTS, &r, read_pairs);
    for (int n = faults ? 150 * (int)rounds() : 0; n; n--)
        disturb(f.h, &r);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(readers[i].thread, NULL);
    f.stop = 1;
    pthread_join(writers[0].thread, NULL);
    pthread_join(writers[1].thread, NULL);
    printf("%llu reads, %llu of them behind a flag\n", (unsigned long long)f.reads, (unsigned long long)f.learned);
    assert_true(f.learned > 0);
    field_close(&f);
}

/* ---- events ---- */

/* Data, then an event that says so: from the leader's host, and from another. */
static void *send_events(void *arg)
{
    struct actor *a = arg;
    struct test_random r = {a->seed};
    enum muster_status status;
    char data[16];

    name(data, "event", a->host);
    for (uint64_t n = 1; !a->f->stop; n++) {
        put(a->f->at[a->host], data, n, test_below(&r, 3000));
        status = muster_event_send(a->f->at[a->host], a->host, &n, sizeof n, NULL);
        if (status != MUSTER_UNAVAILABLE) /* sent or not, so many came since that nobody can tell */
            must(status, "send");
    }
    return NULL;
}

static void *read_events(void *arg)
{
    struct actor *a = arg;
    uint64_t position = 0;

    for (unsigned left = READS / 40 * rounds(); left;) {
        struct muster_event e;
        uint64_t n, lost;
        enum muster_status status =
            muster_event_read(a->f->at[a->host], &position, MUSTER_FOREVER, &e, &n, sizeof n, &lost);
        char data[16];

        if (status == MUSTER_OUT_OF_RANGE)
            continue;
        must(status, "event");
        name(data, "event", e.type);
        if (get(a->f->at[a->host], data) < n)
            must(MUSTER_DATA_LOSS, "an event without its data");
        left--;
    }
    return NULL;
}

TEST(an_event_shows_its_data)
{
    struct test_random r = {test_seed()};
    struct actor senders[2], readers[3];
    struct field f;

    field_open(&f);
    start(&senders[0], &f, 0, &r, send_events);
    start(&senders[1], &f, 2, &r, send_events);
    for (uint32_t i = 0; i < 3; i++)
        start(&readers[i], &f, i, &r, read_events);
    for (int n = 50 * (int)rounds(); n; n--)
        disturb(f.h, &r);
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(readers[i].thread, NULL);
    f.stop = 1;
    pthread_join(senders[0].thread, NULL);
    pthread_join(senders[1].thread, NULL);
    field_close(&f);
}

/* ---- barriers ---- */

/* Everybody writes, all meet, everybody reads what everybody wrote. */
static int meet_and_read(struct muster *m, void *arg)
{
    uint32_t task = (uint32_t)muster_task_id(m);
    char data[16];

    for (uint64_t n = 1; n <= *(unsigned *)arg; n++) {
        name(data, "meet", task);
        put(m, data, n, task * 100);
        must(muster_barrier_wait(m, "all", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER), "barrier");
        for (uint32_t i = 0; i < HOSTS * 2; i++) {
            name(data, "meet", i);
            if (get(m, data) < n)
                must(MUSTER_DATA_LOSS, "a barrier passed without the data");
        }
    }
    return 0;
}

TEST(a_barrier_shows_what_came_before_it)
{
    struct test_random r = {test_seed()};
    unsigned often = 200 * rounds();
    pid_t tasks[HOSTS * 2];
    struct field f;

    field_open(&f);
    for (uint32_t i = 0; i < HOSTS * 2; i++)
        tasks[i] = hosts_task(f.h, i, meet_and_read, &often);
    for (int n = 30 * (int)rounds(); n; n--)
        disturb(f.h, &r);
    for (uint32_t i = 0; i < HOSTS * 2; i++)
        assert_int_equal(hosts_reap(f.h, tasks[i]), 0);
    field_close(&f);
}

/* ---- states of tasks ---- */

static void *read_states(void *arg)
{
    struct actor *a = arg;

    while (!a->f->stop) {
        struct muster_task_info info;

        hosts_calls(a->f->h, true);
        must(muster_task_get(a->f->at[a->host], 5, &info), "state");
        if (get(a->f->at[a->host], "life") < info.attempt)
            must(MUSTER_DATA_LOSS, "a task that came without what came before it");
        hosts_calls(a->f->h, false);
        a->f->reads++;
        a->f->learned += info.attempt > 5;
    }
    return NULL;
}

static int come_and_go(struct muster *m, void *arg)
{
    (void)m;
    (void)arg;
    return 0;
}

TEST(a_task_that_came_shows_what_came_before_it)
{
    struct test_random r = {test_seed()};
    struct actor readers[3];
    struct field f;

    field_open(&f);
    for (uint32_t i = 0; i < 3; i++)
        start(&readers[i], &f, i, &r, read_states);
    for (uint64_t n = 1; n <= 20; n++) {
        put(f.at[2], "life", n, 8); /* on the task's host: that this came before it is not known on any other */
        assert_int_equal(hosts_reap(f.h, hosts_task(f.h, 5, come_and_go, NULL)), 0);
        disturb(f.h, &r);
    }
    f.stop = 1;
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(readers[i].thread, NULL);
    assert_true(f.learned > 0);
    field_close(&f);
}

/* ---- when all is quiet ---- */

/* Sets, deletes, inserts anew; now and then reads what it has just written. */
static void *change_keys(void *arg)
{
    struct actor *a = arg;
    struct test_random r = {a->seed};
    struct muster *m = a->f->at[a->host];

    for (uint64_t n = 1; !a->f->stop; n++) {
        unsigned i = (unsigned)test_below(&r, KEYS);
        char key[16];

        name(key, "key", i);
        if (!test_below(&r, 3)) {
            must(muster_kv_delete(m, key, MUSTER_NTS, NULL), "delete");
        } else {
            put(m, key, n, test_below(&r, 3000));
        }
        name(key, "own", a->host); /* nobody else writes it */
        if (!test_below(&r, 8)) {
            put(m, key, n, 8);
            if (get(m, key) != n)
                must(MUSTER_DATA_LOSS, "its own write is not there");
        }
    }
    return NULL;
}

/* Keys come and go, so some of these time out. */
static void *wait_for_keys(void *arg)
{
    struct actor *a = arg;
    struct test_random r = {a->seed};
    struct muster *m = a->f->at[a->host];

    while (!a->f->stop) {
        uint8_t value[3000];
        uint64_t version = 0;
        size_t len;
        char key[16];
        enum muster_status status;

        name(key, "key", (unsigned)test_below(&r, KEYS));
        status = muster_kv_get(m, key, MUSTER_NTS, muster_after_ns(20000000), value, sizeof value, &len, &version);
        if (status == MUSTER_OK && !test_below(&r, 4))
            status = muster_kv_watch(m, key, MUSTER_NTS, version, muster_after_ns(20000000), value, sizeof value, &len,
                                     &version);
        if (status != MUSTER_DEADLINE_EXCEEDED && status != MUSTER_NOT_FOUND)
            must(status, "wait");
        a->f->reads++;
    }
    return NULL;
}

static void is_the_leaders(struct field *f, uint32_t host, const char *key)
{
    uint8_t here[3000], there[3000];
    struct mu_found a, b;
    struct mu_key k;
    struct mu_table t = mu_table_kv(f->at[host]->seg), leader = mu_table_kv(f->at[0]->seg);

    mu_key_make(&k, f->at[host]->seg, key, strlen(key));
    assert_ok(mu_table_get(&t, NULL, &k, here, sizeof here, &a));
    mu_key_make(&k, f->at[0]->seg, key, strlen(key));
    assert_ok(mu_table_get(&leader, NULL, &k, there, sizeof there, &b));
    if (!a.version)
        return; /* not held */
    if (a.version != b.version || a.len != b.len || memcmp(here, there, a.len) != 0)
        fail_msg("host %u holds %s at version %llu, the leader at %llu", host, key, (unsigned long long)a.version,
                 (unsigned long long)b.version);
}

static void the_leader_answers(struct muster *m)
{
    struct mu_remote_call call = {.op = MU_OP_SYNC, .deadline = MUSTER_FOREVER, .what = "the leader"};
    struct mu_answer answer;
    struct mu_ctx *ctx;

    assert_ok(mu_enter(m, &ctx));
    assert_ok(mu_remote_call(m, ctx, &call, &answer));
    mu_answer_done(&answer);
    mu_exit(ctx);
}

/* Room for a part of the keys only: copies are dropped and asked for again all the time. */
static void narrow(struct hosts *h)
{
    for (uint32_t i = 1; i < HOSTS; i++) {
        struct mu_core *core = hosts_lock(h, i);

        if (!core)
            continue;
        mu_copies_bound(core, 16, 1u << 20);
        hosts_unlock(h, i);
    }
}

TEST(copies_are_equal_when_all_is_quiet)
{
    struct test_random r = {test_seed()};
    struct actor writers[3], waiters[3];
    struct field f;
    char key[16];

    for (unsigned again = 3 * rounds(); again; again--) {
        field_open(&f);
        for (uint32_t i = 0; i < 3; i++) {
            start(&writers[i], &f, i, &r, change_keys);
            start(&waiters[i], &f, i, &r, wait_for_keys);
        }
        for (int n = 0; n < 40; n++) {
            if (again % 2)
                narrow(f.h);
            disturb(f.h, &r);
        }
        f.stop = 1;
        for (uint32_t i = 0; i < 3; i++) {
            pthread_join(writers[i].thread, NULL);
            pthread_join(waiters[i].thread, NULL);
        }
        for (uint32_t i = 1; i < HOSTS; i++) {
            the_leader_answers(f.at[i]);
            for (unsigned n = 0; n < KEYS; n++) {
                name(key, "key", n);
                is_the_leaders(&f, i, key);
                assert_int_equal(get(f.at[i], key), get(f.at[0], key));
            }
        }
        field_close(&f);
    }
}

TEST(a_flag_that_is_seen_shows_its_data)
{
    litmus(false);
}

TEST(and_through_every_fault)
{
    litmus(true);
}
