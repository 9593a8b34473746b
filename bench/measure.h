/*
 * bench/measure.h: clock, pinning, samples and output shared by every bench program.
 *
 * A program prints JSON lines on stdout and nothing else there; bench/run reads and merges them:
 *   {"metric": M, "who": W, "batch": B, "n": N, "mean": ns, "min": ns, "max": ns, "hist": [[ns, count], ...]}
 *   {"metric": M, "who": W, "value": V, "unit": U}          a single figure
 *   {"fact": F, "text": T}                                  a parameter that the reader needs
 *
 * Samples are raw tick deltas, written in order into memory that was touched before, so that recording costs one
 * store in a streaming line; they become nanoseconds and a histogram (512 steps an octave, 0.2 %) afterwards.
 * Ticks are the TSC on x86 (rdtscp, calibrated against CLOCK_MONOTONIC), CLOCK_MONOTONIC elsewhere. Where the tick
 * is coarse against the thing measured, a sample is `batch` operations in a row and reported per operation.
 *
 * Everything is static inline: programs built by mpicc include it too, so no library is needed.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_LINE     128 /* two lines: the adjacent-line prefetcher must not couple neighbours */
#define BENCH_CPUS_MAX 16384

struct bench_samples {
    uint64_t *ticks;
    size_t count;
    size_t capacity;
};

struct bench_cpus {
    int ids[BENCH_CPUS_MAX];
    int count;
};

__attribute__((format(printf, 1, 2), noreturn)) static inline void bench_die(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    uint32_t low, high, cpu;

    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu)::"memory");
    return (uint64_t)high << 32 | low;
#else
    return bench_now_ns();
#endif
}

/* One turn of a spin. After a few milliseconds the other side is likely not running: let it have the processor. */
static inline void bench_pause(void)
{
    static _Thread_local unsigned turns;

    if (++turns % 65536 == 0)
        sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Nanoseconds of one tick: the closest of several (clock, tick) pairs at both ends of 30 ms. */
static inline double bench_tick_ns(void)
{
#if defined(__x86_64__)
    uint64_t clock[2] = {0, 0}, tick[2] = {0, 0};

    for (int end = 0; end < 2; end++) {
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < 50; i++) {
            uint64_t before = bench_ticks(), now = bench_now_ns(), after = bench_ticks();
            if (after - before < best) {
                best = after - before;
                clock[end] = now;
                tick[end] = before + (after - before) / 2;
            }
        }
        if (end == 0)
            usleep(30000);
    }
    return (double)(clock[1] - clock[0]) / (double)(tick[1] - tick[0]);
#else
    return 1.0;
#endif
}

static inline void bench_spin_ns(uint64_t ns)
{
    for (uint64_t start = bench_now_ns(); bench_now_ns() - start < ns;)
        bench_pause();
}

/* The processors that the caller may use, in order; call it before the first pin. */
static inline void bench_cpus_read(struct bench_cpus *ret_cpus)
{
    cpu_set_t sets[BENCH_CPUS_MAX / CPU_SETSIZE]; /* a set of 1024 is refused where the kernel knows more */

    ret_cpus->count = 0;
    if (sched_getaffinity(0, sizeof(sets), sets))
        bench_die("sched_getaffinity: %s", strerror(errno));
    for (int cpu = 0; cpu < BENCH_CPUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, sizeof(sets), sets))
            ret_cpus->ids[ret_cpus->count++] = cpu;
}

/* The one pinning policy of every contender: rank modulo the processors that it may use. */
static inline void bench_pin(const struct bench_cpus *cpus, int rank)
{
    cpu_set_t sets[BENCH_CPUS_MAX / CPU_SETSIZE];

    CPU_ZERO_S(sizeof(sets), sets);
    CPU_SET_S(cpus->ids[rank % cpus->count], sizeof(sets), sets);
    if (sched_setaffinity(0, sizeof(sets), sets))
        bench_die("sched_setaffinity: %s", strerror(errno));
}

/* All of them again, for what has threads of its own. */
static inline void bench_unpin(const struct bench_cpus *cpus)
{
    cpu_set_t sets[BENCH_CPUS_MAX / CPU_SETSIZE];

    CPU_ZERO_S(sizeof(sets), sets);
    for (int i = 0; i < (int)cpus->count; i++)
        CPU_SET_S(cpus->ids[i], sizeof(sets), sets);
    if (sched_setaffinity(0, sizeof(sets), sets))
        bench_die("sched_setaffinity: %s", strerror(errno));
}

/* Memory shared with forked children, zeroed and touched. */
static inline void *bench_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        bench_die("mmap %zu bytes: %s", bytes, strerror(errno));
    return memory;
}

/* A child that cannot outlive its parent, nor the time allowed. 0 in the child. */
static inline pid_t bench_fork(unsigned alarm_seconds)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        alarm(alarm_seconds);
    }
    return pid;
}

/* Reap; anything but exit status 0 ends the program. */
static inline void bench_reap(pid_t pid, const char *what)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("waitpid %s: %s", what, strerror(errno));
    if (WIFSIGNALED(status))
        bench_die("%s died of signal %d", what, WTERMSIG(status));
    if (WEXITSTATUS(status))
        bench_die("%s exited with %d", what, WEXITSTATUS(status));
}

static inline void bench_samples_init(struct bench_samples *samples, size_t capacity)
{
    samples->ticks = mmap(NULL, capacity * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (samples->ticks == MAP_FAILED)
        bench_die("mmap %zu samples: %s", capacity, strerror(errno));
    samples->count = 0;
    samples->capacity = capacity;
}

static inline void bench_samples_free(struct bench_samples *samples)
{
    munmap(samples->ticks, samples->capacity * sizeof(uint64_t));
    samples->ticks = NULL;
    samples->count = samples->capacity = 0;
}

static inline int bench_samples_full(const struct bench_samples *samples)
{
    return samples->count == samples->capacity;
}

/* Until `end`, or until they are full; but one is taken, however long the processor was somebody else's. */
static inline int bench_goes_on(const struct bench_samples *samples, uint64_t end)
{
    return !bench_samples_full(samples) && (samples->count == 0 || bench_now_ns() < end);
}

/* Samples past the capacity are dropped: loops test bench_samples_full(). */
static inline void bench_add(struct bench_samples *samples, uint64_t ticks)
{
    if (samples->count < samples->capacity)
        samples->ticks[samples->count++] = ticks;
}

static inline int bench_compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* The step of the histogram that holds `picoseconds`: 10 significant bits. */
static inline uint64_t bench_step(uint64_t picoseconds)
{
    int shift = picoseconds < 1024 ? 0 : 54 - __builtin_clzll(picoseconds);

    return picoseconds >> shift << shift;
}

/*
 * Print the samples, each divided by `divisor` (operations a sample, or 2 for half a round trip). `batch` is what the
 * reader is told about averaging. Sorts the samples in place.
 */
static inline void bench_emit(const char *metric, const char *who, struct bench_samples *samples, double tick_ns,
                              double divisor, int batch)
{
    double sum = 0, scale = tick_ns / divisor;
    size_t count = samples->count;

    if (count == 0)
        bench_die("%s: no sample", metric);
    qsort(samples->ticks, count, sizeof(uint64_t), bench_compare_u64);
    for (size_t i = 0; i < count; i++)
        sum += (double)samples->ticks[i] * scale;
    printf("{\"metric\": \"%s\", \"who\": \"%s\", \"batch\": %d, \"n\": %zu, \"mean\": %.3f, \"min\": %.3f, "
           "\"max\": %.3f, \"hist\": [",
           metric, who, batch, count, sum / (double)count, (double)samples->ticks[0] * scale,
           (double)samples->ticks[count - 1] * scale);
    for (size_t i = 0, run = 0; i < count; i += run) {
        uint64_t step = bench_step((uint64_t)((double)samples->ticks[i] * scale * 1000));
        for (run = 1; i + run < count; run++)
            if (bench_step((uint64_t)((double)samples->ticks[i + run] * scale * 1000)) != step)
                break;
        printf("%s[%.3f, %zu]", i ? ", " : "", (double)step / 1000, run);
    }
    puts("]}");
    fflush(stdout);
}

static inline void bench_emit_value(const char *metric, const char *who, double value, const char *unit)
{
    printf("{\"metric\": \"%s\", \"who\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"}\n", metric, who, value, unit);
    fflush(stdout);
}

__attribute__((format(printf, 2, 3))) static inline void bench_emit_fact(const char *fact, const char *format, ...)
{
    va_list args;

    printf("{\"fact\": \"%s\", \"text\": \"", fact);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    puts("\"}");
    fflush(stdout);
}

/* A number of the command line, within bounds; ends the program with one line otherwise. */
static inline double bench_number(const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        bench_die("'%s' is not a number from %g to %g", text, low, high);
    return value;
}

/* xorshift64*: enough for picking keys. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* `random` mapped to 0 … bound - 1 without a division. */
static inline uint32_t bench_below(uint32_t random, uint32_t bound)
{
    return (uint32_t)((uint64_t)random * bound >> 32);
}

#endif
