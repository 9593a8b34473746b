/*
 * bench/late.c: a barrier to which all but one have come and gone to sleep: what the last one's arrival costs.
 *
 *   late.N.call   the late task's own call: it waits for nobody, but has the others to wake
 *   late.N.each   from just before that call to the return of each of the others
 *   late.N.last   the same, of the last of them
 *
 * In turn: muster's group barrier, its named barrier (muster-named), a process-shared pthread_barrier, and the kernel's
 * part alone (futex): N - 1 processes in FUTEX_WAIT on one word, a store, one FUTEX_WAKE of all.
 *
 * Usage: late N ROUNDS
 */
#include "gate.h"
#include "job.h"

#include <pthread.h>

enum { TASKS_MAX = 128 };
enum kind { GROUP, NAMED, PTHREAD, FUTEX, NUM_KINDS };
enum row { CALL, EACH, LAST, NUM_ROWS };

static const char *const whos[NUM_KINDS] = {"muster", "muster-named", "pthread", "futex"};
static const char *const rows[NUM_ROWS] = {"call", "each", "last"};

struct table {
    _Alignas(BENCH_LINE) _Atomic uint32_t round;   /* of now; a futex: task 0 begins each */
    _Alignas(BENCH_LINE) _Atomic uint32_t arrived; /* about to come to the barrier of this round */
    _Alignas(BENCH_LINE) _Atomic uint32_t left;    /* have noted their time */
    _Alignas(BENCH_LINE) _Atomic uint32_t word;    /* FUTEX: the round that may be left */
    pthread_barrier_t barrier;
    uint64_t returned[TASKS_MAX];
};

static struct {
    struct table *table;
    struct muster *muster;
    struct muster_group *group;
    uint32_t size;
} self;

static void arrive(enum kind kind, uint32_t round, int is_late)
{
    switch (kind) {
    case GROUP: bench_ok(muster_group_barrier(self.group, muster_after_ms(60000)), "muster_group_barrier"); break;
    case NAMED:
        bench_ok(muster_barrier_wait(self.muster, "late", MUSTER_BARRIER_NEXT, NULL, 0, 0, muster_after_ms(60000)),
                 "muster_barrier_wait");
        break;
    case PTHREAD: pthread_barrier_wait(&self.table->barrier); break;
    default:
        if (is_late)
            bench_gate_open(&self.table->word, round);
        else
            bench_gate_wait(&self.table->word, round);
    }
}

static void be_early(uint32_t rank, uint32_t rounds)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        bench_gate_wait(&self.table->round, round);
        atomic_fetch_add(&self.table->arrived, 1); /* seq_cst, as all of the table: no figure hangs on it */
        arrive(round % NUM_KINDS, round, 0);
        self.table->returned[rank] = bench_now_ns();
        atomic_fetch_add(&self.table->left, 1);
    }
}

static void await_count(const _Atomic uint32_t *count, uint32_t wanted)
{
    while (atomic_load(count) != wanted)
        usleep(200);
}

static void be_late(uint32_t rounds, struct bench_samples samples[NUM_KINDS][NUM_ROWS])
{
    struct table *table = self.table;

    for (uint32_t round = 1; round <= rounds; round++) {
        enum kind kind = round % NUM_KINDS;
        uint64_t start, last = 0;

        atomic_store(&table->arrived, 0);
        atomic_store(&table->left, 0);
        bench_gate_open(&table->round, round);
        await_count(&table->arrived, self.size - 1);
        usleep(2000 + 300 * self.size); /* they have looked long enough, and sleep */
        start = bench_now_ns();
        arrive(kind, round, 1);
        bench_add(&samples[kind][CALL], bench_now_ns() - start);
        await_count(&table->left, self.size - 1);
        for (uint32_t rank = 1; rank < self.size; rank++) {
            uint64_t after = table->returned[rank] > start ? table->returned[rank] - start : 0;

            bench_add(&samples[kind][EACH], after);
            last = after > last ? after : last;
        }
        bench_add(&samples[kind][LAST], last);
    }
}

static void emit(struct bench_samples samples[NUM_KINDS][NUM_ROWS])
{
    char metric[64];

    for (int kind = 0; kind < NUM_KINDS; kind++)
        for (int row = 0; row < NUM_ROWS; row++) {
            snprintf(metric, sizeof(metric), "late.%u.%s", self.size, rows[row]);
            bench_emit(metric, whos[kind], &samples[kind][row], 1, 1, 1);
        }
}

static void run_rank(const struct bench_job *job, const struct bench_cpus *cpus, uint32_t rank, uint32_t rounds)
{
    static struct bench_samples samples[NUM_KINDS][NUM_ROWS];

    self.muster = bench_job_join(job, (int32_t)rank, 0);
    bench_pin(cpus, (int)rank);
    bench_ok(muster_group_create(self.muster, "bench", NULL, 0, 0, muster_after_ms(60000), &self.group),
             "muster_group_create");
    for (int kind = 0; rank == 0 && kind < NUM_KINDS; kind++)
        for (int row = 0; row < NUM_ROWS; row++)
            bench_samples_init(&samples[kind][row], (size_t)rounds * (row == EACH ? self.size : 1));
    if (rank)
        be_early(rank, rounds);
    else
        be_late(rounds, samples);
    if (rank == 0)
        emit(samples);
    arrive(NAMED, 0, 0);
    muster_group_free(self.group);
    bench_ok(muster_leave(self.muster), "muster_leave");
}

int main(int argc, char **argv)
{
    pthread_barrierattr_t attributes;
    pid_t children[TASKS_MAX];
    struct bench_cpus cpus;
    struct bench_job job;
    uint32_t rounds;

    if (argc != 3)
        bench_die("usage: late N ROUNDS");
    self.size = (uint32_t)bench_number(argv[1], 2, TASKS_MAX);
    rounds = (uint32_t)bench_number(argv[2], 1, 100000) * NUM_KINDS;
    alarm(120);
    bench_cpus_read(&cpus);
    self.table = bench_shared(sizeof(*self.table));
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&self.table->barrier, &attributes, self.size);
    bench_job_init(&job, "late", self.size);
    for (uint32_t rank = 1; rank < self.size; rank++) {
        children[rank] = bench_fork(120);
        if (children[rank] == 0) {
            run_rank(&job, &cpus, rank, rounds);
            _exit(0);
        }
    }
    run_rank(&job, &cpus, 0, rounds);
    for (uint32_t rank = 1; rank < self.size; rank++)
        bench_reap(children[rank], "a task");
    return 0;
}
