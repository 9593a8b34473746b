/* tests/bridge/causality_test.c: whoever learns of a write sees all that came before it, on every host, whatever
 * connections and agents break (I10); and when all is quiet every copy is the leader's value.
 * TEST_ROUNDS=n: so many times as long.
 * timeout: 300
 */
#include "cm.h"
#include "bridge/core.h"
#include "hosts.h"
#include "segment/remote.h"

#include <muster/muster.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    for (uint64_t n = test_below(r, 20000); n; n--)
        __asm__ volatile("" ::: "memory");
    for (uint32_t i = 0; i < HOSTS; i++)
        hosts_resume(h, i);
    hosts_mend(h);
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

static void a_flag_that_is_seen_shows_its_data(void **state)
{
    (void)state;
    litmus(false);
}

static void and_through_every_fault(void **state)
{
    (void)state;
    litmus(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_that_is_seen_shows_its_data),
        cmocka_unit_test(and_through_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
