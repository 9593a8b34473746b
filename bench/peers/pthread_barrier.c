/*
 * bench/peers/pthread_barrier.c: the process-shared barrier of glibc, by the same loop as muster's.
 *
 * Usage: pthread_barrier N SECONDS LEAST MOST
 */
#include "../barrier_loop.h"

#include <pthread.h>

struct table {
    pthread_barrier_t barrier;
    _Alignas(BENCH_LINE) volatile uint64_t word;
};

struct rank {
    struct table *table;
    struct bench_barrier barrier;
};

static void arrive(void *context)
{
    struct rank *rank = context;
    int rc = pthread_barrier_wait(&rank->table->barrier);

    if (rc && rc != PTHREAD_BARRIER_SERIAL_THREAD)
        bench_die("pthread_barrier_wait: %s", strerror(rc));
}

static uint64_t share(void *context, uint64_t value)
{
    struct rank *rank = context;

    return bench_share_through(&rank->table->word, value, &rank->barrier);
}

static void run_rank(struct table *table, const struct bench_cpus *cpus, int rank, int size, char **argv)
{
    struct rank self = {.table = table};

    bench_pin(cpus, rank);
    self.barrier =
        (struct bench_barrier){.barrier = arrive, .share = share, .context = &self, .rank = rank, .size = size};
    bench_barrier_run(&self.barrier, "pthread", bench_number(argv[2], 0.001, 60),
                      (uint64_t)bench_number(argv[3], 16, 1e8), (uint64_t)bench_number(argv[4], 16, 1e8));
}

int main(int argc, char **argv)
{
    struct table *table = bench_shared(sizeof(*table));
    pthread_barrierattr_t attributes;
    struct bench_cpus cpus;
    pid_t children[64];
    int size;

    if (argc != 5)
        bench_die("usage: pthread_barrier N SECONDS LEAST MOST");
    size = (int)bench_number(argv[1], 2, 64);
    alarm(120);
    bench_cpus_read(&cpus);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&table->barrier, &attributes, (unsigned)size);
    for (int rank = 1; rank < size; rank++) {
        children[rank] = bench_fork(120);
        if (children[rank] == 0) {
            run_rank(table, &cpus, rank, size, argv);
            _exit(0);
        }
    }
    run_rank(table, &cpus, 0, size, argv);
    for (int rank = 1; rank < size; rank++)
        bench_reap(children[rank], "a member");
    return 0;
}
