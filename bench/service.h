/*
 * bench/service.h: what a service and its client spend, beside what the client waits for.
 *
 * bench_service_watch() names the service's process. bench_used_now() before and bench_emit_used() behind a row print
 * METRIC.client and METRIC.service: microseconds of a processor for each of `count` operations; bench_emit_service()
 * prints the second alone.
 */
#ifndef BENCH_SERVICE_H
#define BENCH_SERVICE_H

#include "measure.h"

#include <stdbool.h>

struct bench_used {
    uint64_t own, service, began;
};

static struct {
    clockid_t clock;
    bool has_clock;
    const char *who;
} bench_service;

/* pid 0: its processor time is not told. */
static inline void bench_service_watch(const char *who, pid_t pid)
{
    bench_service.who = who;
    bench_service.has_clock = pid > 0 && !clock_getcpuclockid(pid, &bench_service.clock);
}

static inline uint64_t bench_read_clock(clockid_t clock)
{
    struct timespec t = {0};

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct bench_used bench_used_now(void)
{
    return (struct bench_used){bench_read_clock(CLOCK_PROCESS_CPUTIME_ID),
                               bench_service.has_clock ? bench_read_clock(bench_service.clock) : 0, bench_now_ns()};
}

static inline void bench_emit_each(const char *metric, const char *what, uint64_t ns, size_t count)
{
    char name[64];

    snprintf(name, sizeof name, "%s.%s", metric, what);
    bench_emit_value(name, bench_service.who, (double)ns / 1000 / (double)count, "µs");
}

static inline void bench_emit_service(const char *metric, struct bench_used before, size_t count)
{
    if (bench_service.has_clock)
        bench_emit_each(metric, "service", bench_used_now().service - before.service, count);
}

/* What both sides spent on each of so many operations. */
static inline void bench_emit_used(const char *metric, struct bench_used before, size_t count)
{
    bench_emit_each(metric, "client", bench_used_now().own - before.own, count);
    bench_emit_service(metric, before, count);
}

#endif
