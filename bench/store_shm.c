/*
 * bench/store_shm.c: what bench/store.c measures of one client of a TCPStore, by a C task through shared memory.
 *
 * The same keys under the directory that the TCPStore's are in, and 64 bytes: ADD is an increment, WAIT and GET one get
 * that may wait, COMPARE_SET a get and a compare-and-set by the version seen. A sample is the mean of 32. The stream is
 * overwrites of 512 keys in turn.
 *
 * Usage: store_shm SECONDS
 */
#include "job.h"

#define BATCH     32
#define KEYS      512
#define VALUE_LEN 64

static struct muster *muster;
static char value[VALUE_LEN];
static uint32_t turn;

static void add(void)
{
    int64_t sum;

    if (muster_kv_increment(muster, "tcpstore/:bench:0::sum", MUSTER_NTS, 1, &sum))
        bench_die("muster_kv_increment: %s", muster_last_error());
}

static uint64_t get_version(void)
{
    char got[VALUE_LEN];
    uint64_t version;
    size_t len;

    if (muster_kv_get(muster, "tcpstore/:bench:0::key", MUSTER_NTS, MUSTER_FOREVER, got, sizeof got, &len, &version) ||
        len != VALUE_LEN || memcmp(got, value, len))
        bench_die("muster_kv_get: %s", muster_last_error());
    return version;
}

static void get(void)
{
    get_version();
}

static void compare_set(void)
{
    uint64_t version = get_version();

    if (muster_kv_compare_and_set(muster, "tcpstore/:bench:0::key", MUSTER_NTS, version, value, sizeof value, NULL))
        bench_die("muster_kv_compare_and_set: %s", muster_last_error());
}

static void set(void)
{
    if (muster_kv_set(muster, "tcpstore/:bench:0::key", MUSTER_NTS, value, sizeof value, NULL))
        bench_die("muster_kv_set: %s", muster_last_error());
}

static void stream(void)
{
    char key[48];
    int len = snprintf(key, sizeof key, "tcpstore/:stream:%u", turn++ % KEYS);

    if (muster_kv_set(muster, key, (size_t)len, value, sizeof value, NULL))
        bench_die("muster_kv_set: %s", muster_last_error());
}

static void run(const char *metric, void (*once)(void), double seconds, double tick_ns)
{
    uint64_t began = bench_now_ns(), end = began + (uint64_t)(seconds * 1e9);
    struct bench_samples samples;

    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < BATCH; i++)
            once();
        bench_add(&samples, bench_ticks() - start);
    }
    if (once == stream)
        bench_emit_value(metric, "muster-shm", (double)samples.count * BATCH * 1e9 / (double)(bench_now_ns() - began),
                         "calls/s");
    else
        bench_emit(metric, "muster-shm", &samples, tick_ns, BATCH, BATCH);
    bench_samples_free(&samples);
}

int main(int argc, char **argv)
{
    struct bench_cpus cpus;
    struct bench_job job;
    double seconds, tick_ns;

    if (argc != 2)
        bench_die("usage: store_shm SECONDS");
    seconds = bench_number(argv[1], 0.001, 60);
    alarm(60 + (unsigned)seconds * 8);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    bench_job_init(&job, "store", 1);
    muster = bench_job_join(&job, 0, 0);
    memset(value, 'v', sizeof value);
    bench_ok(muster_kv_set(muster, "tcpstore/:bench:0::key", MUSTER_NTS, value, sizeof value, NULL), "muster_kv_set");
    run("store.set", set, seconds, tick_ns);
    run("store.add", add, seconds, tick_ns);
    run("store.get", get, seconds, tick_ns);
    run("store.compare_set", compare_set, seconds, tick_ns);
    run("store.stream", stream, seconds, tick_ns);
    bench_ok(muster_leave(muster), "muster_leave");
    return 0;
}
