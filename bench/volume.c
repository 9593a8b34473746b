/*
 * bench/volume.c: the key-value store of more and more keys: insert, get, overwrite, audit, memory.
 *
 * N keys of 64-byte values are inserted, and deleted and inserted again until the time is over; then gets and
 * overwrites pick at random, each independent of the one before. A sample is the mean of 32 operations, or of all N
 * where they are fewer. BUCKETS 0 is what a job has that asks for nothing (32,768); otherwise the index is that large.
 *
 *   keys.insert.N  keys.get.N  keys.set.N   an operation
 *   keys.audit.N                            muster_segment_check()
 *   keys.memory.N                           bytes of live blocks for each key
 *
 * Usage: volume SECONDS N BUCKETS WHO     (seconds for each row)
 */
#include "job.h"
#include "keys.h"

enum { BATCH = 32, AUDITS = 10 };

static struct {
    struct muster *muster;
    const char *who;
    uint32_t keys, batch;
    uint64_t random;
    double seconds, tick_ns;
    char value[BENCH_VALUE_LEN];
} store = {.random = 88172645463325252u};

static void emit(const char *name, struct bench_samples *samples, int batch)
{
    char metric[64];

    snprintf(metric, sizeof(metric), "keys.%s.%u", name, store.keys);
    bench_emit(metric, store.who, samples, store.tick_ns, batch, batch);
    bench_samples_free(samples);
}

static uint64_t deadline(void)
{
    return bench_now_ns() + (uint64_t)(store.seconds * 1e9);
}

/* As long as there is time; what was inserted last stays. */
static void row_insert(void)
{
    struct bench_samples samples;
    uint64_t end = deadline();
    char key[BENCH_KEY_ROOM];
    size_t gone;

    bench_samples_init(&samples, 1u << 18);
    for (;;) {
        for (uint32_t number = 0; number < store.keys;) {
            uint32_t many = store.keys - number < store.batch ? store.keys - number : store.batch;
            uint64_t start = bench_ticks();

            for (uint32_t i = 0; i < many; i++, number++) {
                bench_key(key, number);
                bench_ok(muster_kv_insert(store.muster, key, BENCH_KEY_LEN, store.value, sizeof(store.value)),
                         "muster_kv_insert");
            }
            if (many == store.batch)
                bench_add(&samples, bench_ticks() - start);
        }
        if (!bench_goes_on(&samples, end))
            break;
        bench_ok(muster_kv_delete(store.muster, "bench", 5, &gone), "muster_kv_delete");
        if (gone != store.keys)
            bench_die("%zu of %u keys were deleted", gone, store.keys);
    }
    emit("insert", &samples, (int)store.batch);
}

static uint32_t pick(void)
{
    return bench_below((uint32_t)(bench_random(&store.random) >> 32), store.keys);
}

static void row_get(void)
{
    struct bench_samples samples;
    uint64_t end = deadline();
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN];
    size_t len;

    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < BATCH; i++) {
            bench_key(key, pick());
            if (muster_kv_try_get(store.muster, key, BENCH_KEY_LEN, value, sizeof(value), &len, NULL))
                bench_die("muster_kv_try_get: %s", muster_last_error());
        }
        bench_add(&samples, bench_ticks() - start);
    }
    emit("get", &samples, BATCH);
}

static void row_set(void)
{
    struct bench_samples samples;
    uint64_t end = deadline();
    char key[BENCH_KEY_ROOM];

    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < BATCH; i++) {
            bench_key(key, pick());
            if (muster_kv_set(store.muster, key, BENCH_KEY_LEN, store.value, sizeof(store.value), NULL))
                bench_die("muster_kv_set: %s", muster_last_error());
        }
        bench_add(&samples, bench_ticks() - start);
    }
    emit("set", &samples, BATCH);
}

static uint64_t row_audit(void)
{
    struct bench_samples samples;
    struct muster_audit audit;

    bench_samples_init(&samples, AUDITS);
    while (!bench_samples_full(&samples)) {
        uint64_t start = bench_ticks();

        bench_ok(muster_segment_check(muster_segment_of(store.muster), NULL, NULL, &audit), "muster_segment_check");
        bench_add(&samples, bench_ticks() - start);
        if (audit.problems || audit.keys != store.keys)
            bench_die("the audit found %" PRIu64 " keys and %" PRIu64 " problems", audit.keys, audit.problems);
    }
    emit("audit", &samples, 1);
    return audit.bytes_live;
}

int main(int argc, char **argv)
{
    struct muster_audit empty;
    struct bench_cpus cpus;
    struct bench_job job;
    char metric[64];

    if (argc != 5)
        bench_die("usage: volume SECONDS N BUCKETS WHO");
    store.seconds = bench_number(argv[1], 0.001, 60);
    store.keys = (uint32_t)bench_number(argv[2], 1, 1 << 22);
    store.batch = store.keys < BATCH ? store.keys : BATCH;
    store.who = argv[4];
    alarm((unsigned)store.seconds * 20 + 120);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    store.tick_ns = bench_tick_ns();
    bench_job_init(&job, "volume", 1);
    job.config.num_buckets = (uint32_t)bench_number(argv[3], 0, 1 << 22);
    job.config.heap_bytes = UINT64_C(4) << 30;
    store.muster = bench_job_join(&job, 0, 0);
    bench_value(store.value, 7);
    bench_ok(muster_segment_check(muster_segment_of(store.muster), NULL, NULL, &empty), "muster_segment_check");
    row_insert();
    row_get();
    row_set();
    snprintf(metric, sizeof(metric), "keys.memory.%u", store.keys);
    bench_emit_value(metric, store.who, (double)(row_audit() - empty.bytes_live) / store.keys, "bytes");
    bench_ok(muster_leave(store.muster), "muster_leave");
    return 0;
}
