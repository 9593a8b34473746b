/*
 * bench/barrier.c: muster_group_barrier() of N tasks, by the same loop and pinning as its peers.
 *
 * Every rank is a process that joins the job, builds one group of all, and runs bench_barrier_run(). Two ranks on two
 * processors then take turns, some microseconds each, between this barrier and the bare cache line (bench/line.h): a
 * virtual machine whose processors are moved between near and far cores every few seconds changes both alike, so the
 * ratio of neighbouring blocks is the one to trust. It is "barrier.n2.over_line", the median over all blocks.
 *
 * Usage: barrier N SECONDS LEAST MOST
 */
#include "barrier_loop.h"
#include "job.h"
#include "line.h"

#define BLOCK 256 /* operations of a block */

struct rank {
    struct muster_group *group;
    struct bench_table *table;
    struct bench_barrier barrier;
};

static void arrive(void *context)
{
    struct rank *rank = context;

    if (muster_group_barrier(rank->group, MUSTER_FOREVER) != MUSTER_OK)
        bench_die("muster_group_barrier: %s", muster_last_error());
}

static uint64_t share(void *context, uint64_t value)
{
    struct rank *rank = context;

    return bench_share_through(&rank->table->shared, value, &rank->barrier);
}

static int compare_double(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Blocks of round trips and of barriers in turn; rank 0 reports. */
static void beside_the_line(struct rank *self, double seconds)
{
    size_t blocks = (size_t)(seconds * 1e9 / (BLOCK * 150.0)) + 8;
    struct bench_samples line, barrier;
    double *ratios = calloc(blocks, sizeof(double)), tick_ns = self->barrier.rank == 0 ? bench_tick_ns() : 0;
    uint64_t round = 0, start, middle, end;

    if (!ratios)
        bench_die("no memory");
    bench_samples_init(&line, blocks);
    bench_samples_init(&barrier, blocks);
    arrive(self);
    for (size_t i = 0; i < blocks; i++) {
        start = bench_ticks();
        for (int k = 0; k < BLOCK; k++, round++)
            if (self->barrier.rank == 0)
                bench_trip(self->table, round);
            else
                bench_answer(self->table, round);
        middle = bench_ticks();
        for (int k = 0; k < BLOCK; k++)
            arrive(self);
        end = bench_ticks();
        bench_add(&line, middle - start);
        bench_add(&barrier, end - middle);
        ratios[i] = 2.0 * (double)(end - middle) / (double)(middle - start);
    }
    if (self->barrier.rank == 0) {
        qsort(ratios, blocks, sizeof(double), compare_double);
        bench_emit("barrier.n2.beside_line", "muster", &barrier, tick_ns, BLOCK, BLOCK);
        bench_emit("barrier.n2.beside_line", "one-way", &line, tick_ns, 2 * BLOCK, BLOCK);
        bench_emit_value("barrier.n2.over_line", "muster", ratios[blocks / 2], "x");
    }
    free(ratios);
}

static void run_rank(const struct bench_job *job, const struct bench_cpus *cpus, struct bench_table *table, int index,
                     char **argv)
{
    struct rank self = {.table = table};
    struct muster *muster = bench_job_join(job, index, 0);

    bench_ok(muster_group_create(muster, "bench", NULL, 0, 0, muster_after_ms(30000), &self.group),
             "muster_group_create");
    bench_pin(cpus, index);
    self.barrier = (struct bench_barrier){
        .barrier = arrive, .share = share, .context = &self, .rank = index, .size = (int)muster_group_size(self.group)};
    bench_barrier_run(&self.barrier, "muster", bench_number(argv[2], 0.001, 60),
                      (uint64_t)bench_number(argv[3], 16, 1e8), (uint64_t)bench_number(argv[4], 16, 1e8));
    if (self.barrier.size == 2 && cpus->count > 1)
        beside_the_line(&self, bench_number(argv[2], 0.001, 60));
    bench_ok(muster_group_barrier(self.group, muster_after_ms(30000)), "the last barrier");
    muster_group_free(self.group);
    bench_ok(muster_leave(muster), "muster_leave");
}

int main(int argc, char **argv)
{
    struct bench_table *table = bench_shared(sizeof(*table));
    struct bench_cpus cpus;
    struct bench_job job;
    pid_t children[64];
    int size;

    if (argc != 5)
        bench_die("usage: barrier N SECONDS LEAST MOST");
    size = (int)bench_number(argv[1], 2, 64);
    alarm(120);
    bench_cpus_read(&cpus);
    bench_job_init(&job, "barrier", (uint32_t)size);
    for (int index = 1; index < size; index++) {
        children[index] = bench_fork(120);
        if (children[index] == 0) {
            run_rank(&job, &cpus, table, index, argv);
            _exit(0);
        }
    }
    run_rank(&job, &cpus, table, 0, argv);
    for (int index = 1; index < size; index++)
        bench_reap(children[index], "a member");
    return 0;
}
