/* cli/bench/bench.h: what the parts of `muster bench` share. The clock and the samples are those of bench/measure.h. */
#ifndef MU_CLI_BENCH_BENCH_H
#define MU_CLI_BENCH_BENCH_H

#include <stdint.h>

#include <muster/muster.h>

#include "bench/measure.h"

#define MU_BENCH_SAMPLES_MAX (1u << 20)
#define MU_BENCH_TASKS_MAX   64

/* Shared with the tasks. What one writes and another reads lies between two barriers of theirs, or ends with a process.
 */
struct mu_bench_table {
    _Alignas(BENCH_LINE) volatile uint64_t stop_at;     /* rank 0: the barrier after which all stop */
    _Alignas(BENCH_LINE) volatile uint64_t returned_at; /* a reader: its clock when it was woken */
    _Alignas(BENCH_LINE) char why[512];                 /* of a task that failed */
    uint64_t count;
    uint64_t ticks[MU_BENCH_SAMPLES_MAX];
};

struct mu_bench {
    struct mu_bench_table *table;
    struct bench_cpus cpus;
    double seconds, tick_ns;
    uint32_t tasks;
};

/* A task's side: its number, its group, where its samples go. */
struct mu_bench_task {
    const struct mu_bench *bench;
    struct mu_bench_table *table;
    struct muster *muster;
    struct muster_group *group;
    uint32_t rank, size;
    uint64_t end_ns; /* measure until then */
};

/* One figure: `batch` operations a sample. `run` leaves ticks in the table; 0, or an exit status with why[] filled. */
struct mu_bench_row {
    const char *name, *what;
    unsigned batch;
    int (*run)(struct mu_bench *bench, const struct mu_bench_row *row);
    int (*task)(struct mu_bench_task *task, unsigned batch);
    uint32_t size; /* tasks; 0: as told */
};

extern const struct mu_bench_row mu_bench_rows[];

/* bench/tasks.c: a private job of the row's tasks, each in row->task(). */
int mu_bench_run_tasks(struct mu_bench *bench, const struct mu_bench_row *row);
/* A child that joins `job` as `rank` (an observer from `size` on) and does `main`; its pid, or -1. */
pid_t mu_bench_fork(struct mu_bench *bench, const char *job, int fd, uint32_t rank, uint32_t size,
                    int (*main)(struct mu_bench_task *task, unsigned batch), unsigned batch);
/* A job of its own, in a memfd: whatever happens, nothing is left. */
int mu_bench_create(struct mu_bench *bench, uint32_t size, char job[64], struct muster_segment **ret_segment);
/* Wait for it. 0, or an exit status: what it said, or which signal ended it or us. */
int mu_bench_reap(struct mu_bench *bench, pid_t pid);
/* Whether SIGINT, SIGTERM or SIGHUP has come: its number. */
int mu_bench_interrupted(void);
void mu_bench_catch_signals(void);
/* Returns 1. */
int mu_bench_fail(struct mu_bench_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mu_bench_add(struct mu_bench_table *table, uint64_t ticks);

/* bench/whole.c: rows that start and kill processes. */
int mu_bench_death(struct mu_bench *bench, const struct mu_bench_row *row);
int mu_bench_launch(struct mu_bench *bench, const struct mu_bench_row *row);
int mu_bench_spawn(struct mu_bench *bench, const struct mu_bench_row *row);

#endif
