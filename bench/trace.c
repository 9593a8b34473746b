/*
 * bench/trace.c: what tracing costs: one event noted, and a group barrier of one member with a trace and without.
 *
 * A member alone awaits nobody: what remains is the call, its CAS and, when traced, two events with their times. The
 * event alone is noted in the library's own way, time and name included.
 *
 * Usage: trace SECONDS
 */
#include "job.h"

#include "segment/handle.h"
#include "segment/trace.h"

#define BATCH 32

static void row_event(struct muster *muster, double seconds, double tick_ns)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9), value = 0;
    struct bench_samples samples;
    struct mu_ctx *ctx;

    bench_ok(mu_handle_context(muster, &ctx), "a context");
    if (!mu_is_traced(ctx))
        bench_die("the job is not traced");
    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t previous = bench_ticks();

        for (int i = 0; i < BATCH; i++)
            mu_trace_note(ctx, mu_trace_now(ctx), MU_TRACE_GROUP_ENTER, MUSTER_OK,
                          mu_trace_name(ctx, 0x1234567890abcdefu, "epoch", 5), 0x1234567890abcdefu, value++);
        bench_add(&samples, bench_ticks() - previous);
    }
    bench_emit("trace.event", "muster", &samples, tick_ns, BATCH, BATCH);
    bench_samples_free(&samples);
}

static void row_group(struct muster *muster, const char *metric, double seconds, double tick_ns)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    int32_t self = muster_task_id(muster);
    struct muster_group *group;
    struct bench_samples samples;

    bench_ok(muster_group_create(muster, "alone", &self, 1, 0, MUSTER_FOREVER, &group), "muster_group_create");
    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t previous = bench_ticks();

        for (int i = 0; i < BATCH; i++)
            if (muster_group_barrier(group, MUSTER_FOREVER) != MUSTER_OK)
                bench_die("muster_group_barrier: %s", muster_last_error());
        bench_add(&samples, bench_ticks() - previous);
    }
    bench_emit(metric, "muster", &samples, tick_ns, BATCH, BATCH);
    bench_samples_free(&samples);
    muster_group_free(group);
}

int main(int argc, char **argv)
{
    struct muster *muster;
    struct bench_cpus cpus;
    struct bench_job job;
    double seconds, tick_ns;

    if (argc != 2)
        bench_die("usage: trace SECONDS");
    seconds = bench_number(argv[1], 0.001, 60);
    alarm((unsigned)seconds * 10 + 60);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    for (int traced = 0; traced < 2; traced++) {
        bench_job_init(&job, traced ? "traced" : "untraced", 1);
        job.config.trace_events = traced ? 4096 : 0;
        muster = bench_job_join(&job, 0, 0);
        row_group(muster, traced ? "trace.barrier" : "trace.off", seconds / 3, tick_ns);
        if (traced)
            row_event(muster, seconds / 3, tick_ns);
        bench_ok(muster_leave(muster), "muster_leave");
    }
    return 0;
}
