/*
 * bench/barrier.c: muster_group_barrier() of N tasks, by the same loop and pinning as its peers.
 *
 * Every rank is a process that joins the job, builds one group of all, and runs bench_barrier_run().
 *
 * Usage: barrier N SECONDS LEAST MOST
 */
#include "barrier_loop.h"
#include "job.h"

struct rank {
    struct muster_group *group;
    volatile uint64_t *word;
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

    return bench_share_through(rank->word, value, &rank->barrier);
}

static void run_rank(const struct bench_job *job, const struct bench_cpus *cpus, volatile uint64_t *word, int index,
                     char **argv)
{
    struct rank self = {.word = word};
    struct muster *muster = bench_job_join(job, index, 0);

    bench_ok(muster_group_create(muster, "bench", NULL, 0, 0, muster_after_ms(30000), &self.group),
             "muster_group_create");
    bench_pin(cpus, index);
    self.barrier = (struct bench_barrier){
        .barrier = arrive, .share = share, .context = &self, .rank = index, .size = (int)muster_group_size(self.group)};
    bench_barrier_run(&self.barrier, "muster", bench_number(argv[2], 0.001, 60),
                      (uint64_t)bench_number(argv[3], 16, 1e8), (uint64_t)bench_number(argv[4], 16, 1e8));
    bench_ok(muster_group_barrier(self.group, muster_after_ms(30000)), "the last barrier");
    muster_group_free(self.group);
    bench_ok(muster_leave(muster), "muster_leave");
}

int main(int argc, char **argv)
{
    volatile uint64_t *word = bench_shared(BENCH_LINE);
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
            run_rank(&job, &cpus, word, index, argv);
            _exit(0);
        }
    }
    run_rank(&job, &cpus, word, 0, argv);
    for (int index = 1; index < size; index++)
        bench_reap(children[index], "a member");
    return 0;
}
