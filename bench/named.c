/*
 * bench/named.c: named barriers on one node: what an arrival costs.
 *
 * With one participant every arrival is also the last, and the figure is the whole instance: one call, nobody awaited.
 * With two, pinned to two processors, the figure is the period of back-to-back instances of one barrier, divided by
 * its two arrivals.
 *
 * Usage: named SECONDS
 */
#include "job.h"

#define TIMEOUT_NS UINT64_C(20000000000)

static void arrive(struct muster *muster, const char *id, uint64_t counter, const int32_t *tasks, size_t count)
{
    if (muster_barrier_wait(muster, id, counter, tasks, count, TIMEOUT_NS, MUSTER_FOREVER) != MUSTER_OK)
        bench_die("muster_barrier_wait: %s", muster_last_error());
}

static void row_alone(struct muster *muster, double seconds, double tick_ns)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9), previous, now, counter = 0;
    struct bench_samples samples;
    int32_t self = muster_task_id(muster);

    bench_samples_init(&samples, 1u << 20);
    for (; counter < 1000; counter++)
        arrive(muster, "alone", counter, &self, 1);
    previous = bench_ticks();
    while (bench_goes_on(&samples, end)) {
        for (int i = 0; i < 64; i++) {
            arrive(muster, "alone", counter++, &self, 1);
            now = bench_ticks();
            bench_add(&samples, now - previous);
            previous = now;
        }
        previous = bench_ticks();
    }
    bench_emit("named.1", "muster", &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

/* Both tasks run the same number of instances, fixed beforehand from the time of the first thousand. */
static void row_pair(struct muster *muster, volatile uint64_t *total, double seconds, double tick_ns)
{
    const int32_t tasks[] = {0, 1};
    int lead = muster_task_id(muster) == 0;
    struct bench_samples samples;
    uint64_t start = bench_now_ns(), previous, now, counter = 0;

    for (; counter < 1000; counter++)
        arrive(muster, "pair", counter, tasks, 2);
    if (lead)
        *total = 1000 + (uint64_t)(seconds * 1e9 * 1000 / (double)(bench_now_ns() - start));
    arrive(muster, "pair", counter++, tasks, 2);
    bench_samples_init(&samples, lead ? *total : 1);
    previous = bench_ticks();
    for (uint64_t i = 0, n = *total; i < n; i++) {
        arrive(muster, "pair", counter++, tasks, 2);
        now = bench_ticks();
        bench_add(&samples, now - previous);
        previous = now;
    }
    if (lead)
        bench_emit("named.2", "muster", &samples, tick_ns, 2, 1);
    bench_samples_free(&samples);
}

int main(int argc, char **argv)
{
    volatile uint64_t *total = bench_shared(BENCH_LINE);
    double seconds, tick_ns;
    struct muster *muster;
    struct bench_cpus cpus;
    struct bench_job job;
    pid_t child;

    if (argc != 2)
        bench_die("usage: named SECONDS");
    seconds = bench_number(argv[1], 0.001, 60);
    alarm((unsigned)seconds * 10 + 60);
    bench_cpus_read(&cpus);
    bench_job_init(&job, "named", 2);
    child = bench_fork((unsigned)seconds * 10 + 60);
    tick_ns = child ? bench_tick_ns() : 0;
    muster = bench_job_join(&job, child == 0, 0);
    bench_pin(&cpus, child == 0);
    if (child)
        row_alone(muster, seconds / 2, tick_ns);
    row_pair(muster, total, seconds / 2, tick_ns);
    bench_ok(muster_leave(muster), "muster_leave");
    if (child)
        bench_reap(child, "the second task");
    return 0;
}
