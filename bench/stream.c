/*
 * bench/stream.c: the stream barrier on real GPUs, the processes going round them; and what a death costs.
 *
 * Rows: "stream.nN" is a round enqueued and synchronized with, as rank 0's CPU sees it; "stream.nN.avg64" the period of
 * rounds enqueued 64 at a time, which is the GPUs' own. "stream.death" is from the SIGKILL of one member, which the
 * others' streams wait for, until each of those streams has run empty and its process knows who died.
 * Without a GPU it says why there are no rows. Several processes on one GPU take turns unless MPS runs: said as a fact.
 *
 * Usage: stream PROCESSES ROUNDS KILLS
 */
#include "job.h"

#include "accel/cuda_library.h"

#define BATCH      64
#define LIMIT_S    120
#define SETTLED_NS 3000000
#define HUNG_LIMIT UINT64_C(60000000000)

struct seat {
    _Alignas(BENCH_LINE) volatile int waiting;
    volatile uint64_t empty_ns;
};
struct table {
    char reason[400]; /* why there is nothing to measure; "" when there is */
    char gpu[128];
    int gpus, driver;
    struct seat seats[MUSTER_STREAM_SIZE_MAX];
};

static void cuda_ok(mu_cuda_result result, const char *what)
{
    if (result)
        bench_die("%s", (mu_cuda_fail(result, what), muster_last_error()));
}

/* In a child: the parent must be able to fork others that start CUDA. */
static void probe(struct table *table)
{
    const struct mu_cuda *cuda;
    mu_cuda_device device;

    if (mu_cuda_start(&cuda)) {
        snprintf(table->reason, sizeof(table->reason), "%s", muster_last_error());
        return;
    }
    cuda_ok(cuda->device_count(&table->gpus), "cuDeviceGetCount");
    cuda_ok(cuda->device_get(&device, 0), "cuDeviceGet");
    cuda_ok(cuda->device_name(table->gpu, sizeof(table->gpu), device), "cuDeviceGetName");
    table->driver = cuda->version;
}

/* One process's part: job, GPU, stream, barrier. */
struct part {
    const struct mu_cuda *cuda;
    struct muster *muster;
    struct muster_stream_barrier *barrier;
    mu_cuda_stream stream;
    mu_cuda_device device;
};

static struct part take_part(const struct bench_job *job, const struct table *table, int rank)
{
    struct part p = {.muster = bench_job_join(job, rank, 0)};
    mu_cuda_context context;

    bench_ok(mu_cuda_start(&p.cuda), "mu_cuda_start");
    cuda_ok(p.cuda->device_get(&p.device, rank % table->gpus), "cuDeviceGet");
    cuda_ok(p.cuda->primary_retain(&context, p.device), "cuDevicePrimaryCtxRetain");
    cuda_ok(p.cuda->context_set(context), "cuCtxSetCurrent");
    cuda_ok(p.cuda->stream_create(&p.stream, MU_CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
    bench_ok(muster_stream_barrier_create(p.muster, "bench", NULL, 0, muster_after_ms(60000), &p.barrier),
             "muster_stream_barrier_create");
    return p;
}

static void enqueue(struct part *p, int rounds)
{
    for (int i = 0; i < rounds; i++)
        bench_ok(muster_stream_barrier_enqueue(p->barrier, p->stream), "muster_stream_barrier_enqueue");
}

static void go(struct part *p)
{
    bench_ok(muster_stream_barrier_free(p->barrier), "muster_stream_barrier_free");
    p->cuda->stream_destroy(p->stream);
    p->cuda->primary_release(p->device);
    muster_leave(p->muster);
}

static void run_member(const struct bench_job *job, const struct table *table, int rank, int rounds)
{
    struct part p = take_part(job, table, rank);
    struct bench_samples single, batched;
    char metric[32];
    uint64_t good;

    bench_samples_init(&single, (size_t)rounds);
    bench_samples_init(&batched, (size_t)rounds / BATCH + 1);
    enqueue(&p, BATCH);
    cuda_ok(p.cuda->stream_synchronize(p.stream), "cuStreamSynchronize");
    for (int i = 0; i < rounds; i++) {
        uint64_t start = bench_now_ns();

        enqueue(&p, 1);
        cuda_ok(p.cuda->stream_synchronize(p.stream), "cuStreamSynchronize");
        bench_add(&single, bench_now_ns() - start);
    }
    for (int i = 0; i <= rounds / BATCH; i++) {
        uint64_t start = bench_now_ns();

        enqueue(&p, BATCH);
        cuda_ok(p.cuda->stream_synchronize(p.stream), "cuStreamSynchronize");
        bench_add(&batched, bench_now_ns() - start);
    }
    bench_ok(muster_stream_barrier_status(p.barrier, &good), "muster_stream_barrier_status");
    if (good != (uint64_t)(BATCH + rounds + (rounds / BATCH + 1) * BATCH))
        bench_die("%" PRIu64 " rounds are sound, not all", good);
    go(&p);
    if (rank)
        return;
    snprintf(metric, sizeof(metric), "stream.n%u", job->config.num_tasks);
    bench_emit(metric, "muster", &single, 1.0, 1, 1);
    snprintf(metric, sizeof(metric), "stream.n%u.avg%d", job->config.num_tasks, BATCH);
    bench_emit(metric, "muster", &batched, 1.0, BATCH, BATCH);
}

static void run_survivor(const struct bench_job *job, struct table *table, int rank)
{
    struct part p = take_part(job, table, rank);

    enqueue(&p, 2); /* the second waits for the victim */
    table->seats[rank].waiting = 1;
    cuda_ok(p.cuda->stream_synchronize(p.stream), "cuStreamSynchronize");
    table->seats[rank].empty_ns = bench_now_ns();
    if (muster_stream_barrier_status(p.barrier, NULL) != MUSTER_UNAVAILABLE ||
        !strstr(muster_last_error(), "task 0 (pid"))
        bench_die("the death was not told: %s", muster_last_error());
    go(&p);
}

static void run_victim(const struct bench_job *job, struct table *table)
{
    struct part p = take_part(job, table, 0);

    enqueue(&p, 1);
    cuda_ok(p.cuda->stream_synchronize(p.stream), "cuStreamSynchronize");
    table->seats[0].waiting = 1;
    for (;;)
        pause();
}

static void measure(struct table *table, int processes, int rounds)
{
    pid_t pids[MUSTER_STREAM_SIZE_MAX] = {0};
    struct bench_job job;

    bench_job_init(&job, "stream", (uint32_t)processes);
    for (int rank = 0; rank < processes; rank++) {
        pids[rank] = bench_fork(LIMIT_S);
        if (pids[rank] == 0) {
            run_member(&job, table, rank, rounds);
            exit(0);
        }
    }
    for (int rank = 0; rank < processes; rank++)
        bench_reap(pids[rank], "a member");
    bench_job_remove();
}

static void kill_once(struct table *table, int processes, int round, struct bench_samples *samples)
{
    uint64_t start, limit = bench_now_ns() + HUNG_LIMIT;
    pid_t pids[MUSTER_STREAM_SIZE_MAX] = {0};
    struct bench_job job;
    char tag[32];

    memset(table->seats, 0, sizeof(table->seats));
    snprintf(tag, sizeof(tag), "stream-death-%d", round);
    bench_job_init(&job, tag, (uint32_t)processes);
    for (int rank = 0; rank < processes; rank++) {
        pids[rank] = bench_fork(LIMIT_S);
        if (pids[rank] == 0) {
            if (rank == 0)
                run_victim(&job, table);
            run_survivor(&job, table, rank);
            exit(0);
        }
    }
    for (int rank = 0; rank < processes; rank++)
        while (!table->seats[rank].waiting) {
            if (waitpid(pids[rank], NULL, WNOHANG) || bench_now_ns() > limit)
                bench_die("a member did not come to wait");
            usleep(500);
        }
    usleep(SETTLED_NS / 1000);
    start = bench_now_ns();
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    for (int rank = 1; rank < processes; rank++) {
        bench_reap(pids[rank], "a survivor");
        bench_add(samples, table->seats[rank].empty_ns - start);
    }
    bench_job_remove();
}

int main(int argc, char **argv)
{
    struct table *table = bench_shared(sizeof(*table));
    struct bench_samples deaths;
    int processes, rounds, kills;
    pid_t pid;

    if (argc != 4)
        bench_die("usage: stream PROCESSES ROUNDS KILLS");
    processes = (int)bench_number(argv[1], 2, MUSTER_STREAM_SIZE_MAX);
    rounds = (int)bench_number(argv[2], 1, 10000000);
    kills = (int)bench_number(argv[3], 0, 1000);
    pid = bench_fork(LIMIT_S);
    if (pid == 0) {
        probe(table);
        exit(0);
    }
    bench_reap(pid, "the probe of CUDA");
    if (table->reason[0]) {
        bench_emit_fact("stream barrier", "not measured: %s", table->reason);
        return 0;
    }
    bench_emit_fact("stream barrier", "%d processes on %d of %s, driver of CUDA %d.%d%s", processes, table->gpus,
                    table->gpu, table->driver / 1000, table->driver % 1000 / 10,
                    processes > table->gpus ? "; processes share a GPU: their figures are time slices" : "");
    measure(table, processes, rounds);
    bench_samples_init(&deaths, (size_t)(kills + 1) * (size_t)processes);
    for (int round = 0; round < kills; round++)
        kill_once(table, processes, round, &deaths);
    if (deaths.count)
        bench_emit("stream.death", "muster", &deaths, 1.0, 1, 1);
    return 0;
}
