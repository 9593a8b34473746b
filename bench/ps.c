/*
 * bench/ps.c: tensors that tasks push to and pull from, beside memcpy.
 *
 *   ps.dense.BYTES.nN   muster: a push of so many bytes of floats, added, and a pull, while N - 1 others do the same to
 *                       the same tensor; muster-view: a view instead of the pull; memcpy: the same bytes there and
 *                       back, in turn with the first
 *   ps.sparse.nN        the same of 4,096 rows of 64 floats of a table of as many
 *
 * Usage: ps PUSHERS SECONDS MOST      (for each row; bytes of the largest)
 */
#include <stdbool.h>

#include "job.h"

enum { MIB = 1 << 20, PUSHERS_MAX = 64, ROWS = 4096, NUMBERS = 64 };

static const size_t sizes[] = {4, 4096, 65536, MIB, 4 * MIB, 16 * MIB, 64 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static struct {
    struct muster *muster;
    struct bench_job job;
    int pushers, rank;
    double seconds, tick_ns;
    float *from, *to;
    size_t most;
    volatile uint32_t *over; /* the row that has ended, for all */
} room;

static void meet(const char *name)
{
    bench_ok(
        muster_barrier_wait(room.muster, name, MUSTER_BARRIER_NEXT, NULL, 0, UINT64_C(60000000000), MUSTER_FOREVER),
        "muster_barrier_wait");
}

static void emit(const char *metric, const char *who, struct bench_samples *samples)
{
    if (room.rank == 0)
        bench_emit(metric, who, samples, room.tick_ns, 1, 1);
    bench_samples_free(samples);
}

/* The first process times; the others go on until it has. */
static void row(const char *metric, const char *who, size_t bytes, void (*push_pull)(struct muster_ps *ps),
                struct muster_ps *ps)
{
    static uint32_t number;
    bool copies_too = strcmp(who, "muster-view") != 0;
    struct bench_samples calls, copies;
    uint64_t end;

    bench_samples_init(&calls, 1u << 18);
    bench_samples_init(&copies, 1u << 18);
    number++;
    push_pull(ps); /* the next ones have the pages */
    push_pull(ps);
    meet("row");
    end = bench_now_ns() + (uint64_t)(room.seconds * 1e9);
    while (room.rank ? *room.over < number : bench_goes_on(&calls, end)) {
        uint64_t start = bench_ticks();

        push_pull(ps);
        bench_add(&calls, bench_ticks() - start);
        if (room.rank || !copies_too)
            continue;
        start = bench_ticks();
        memcpy(room.to, room.from, bytes);
        __asm__ volatile("" ::"r"(room.to) : "memory");
        memcpy(room.from, room.to, bytes);
        __asm__ volatile("" ::"r"(room.from) : "memory");
        bench_add(&copies, bench_ticks() - start);
    }
    if (room.rank == 0)
        *room.over = number;
    emit(metric, who, &calls);
    if (copies_too)
        emit(metric, "memcpy", &copies);
    else
        bench_samples_free(&copies);
    meet("row ended");
}

static void dense(struct muster_ps *ps)
{
    bench_ok(muster_ps_push(ps, room.from, MUSTER_FOREVER, NULL), "muster_ps_push");
    bench_ok(muster_ps_pull(ps, room.to, NULL), "muster_ps_pull");
}

static void dense_view(struct muster_ps *ps)
{
    struct muster_object_view view;

    bench_ok(muster_ps_push(ps, room.from, MUSTER_FOREVER, NULL), "muster_ps_push");
    bench_ok(muster_ps_view(ps, 0, &view, NULL, NULL), "muster_ps_view");
    muster_object_unview(room.muster, &view, 1);
}

static void sparse(struct muster_ps *ps)
{
    static uint64_t keys[ROWS];

    for (uint64_t i = 0; !keys[1] && i < ROWS; i++)
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    bench_ok(muster_ps_rows_push(ps, keys, ROWS, room.from, NULL), "muster_ps_rows_push");
    bench_ok(muster_ps_rows_pull(ps, keys, ROWS, room.to, NULL), "muster_ps_rows_pull");
}

static void rows_of(int rank)
{
    struct muster_ps_config c = {.num_dims = 1};
    struct muster_ps *ps;
    char metric[64];

    room.rank = rank;
    room.from = malloc(room.most);
    room.to = malloc(room.most);
    if (!room.from || !room.to)
        bench_die("no memory");
    memset(room.from, 0, room.most);
    memset(room.to, 0, room.most);
    room.muster = bench_job_join(&room.job, rank, 0);
    for (uint32_t i = 0; i <= SIZES; i++) {
        if (i < SIZES && sizes[i] > room.most)
            continue;
        c.rows = i == SIZES ? ROWS : 0;
        c.dims[0] = i == SIZES ? NUMBERS : sizes[i] / sizeof(float);
        snprintf(metric, sizeof(metric), "ps.dense.%zu.n%d", i < SIZES ? sizes[i] : 0, room.pushers);
        if (i == SIZES)
            snprintf(metric, sizeof(metric), "ps.sparse.n%d", room.pushers);
        bench_ok(muster_ps_create(room.muster, metric, &c, NULL, &ps), "muster_ps_create");
        row(metric, "muster", i < SIZES ? sizes[i] : ROWS * NUMBERS * sizeof(float), i < SIZES ? dense : sparse, ps);
        if (i < SIZES)
            row(metric, "muster-view", sizes[i], dense_view, ps);
        muster_ps_close(ps);
    }
    bench_ok(muster_leave(room.muster), "muster_leave");
}

int main(int argc, char **argv)
{
    pid_t pids[PUSHERS_MAX];

    if (argc != 4)
        bench_die("usage: ps PUSHERS SECONDS MOST");
    room.pushers = (int)bench_number(argv[1], 1, PUSHERS_MAX);
    room.seconds = bench_number(argv[2], 0, 3600);
    room.most = (size_t)bench_number(argv[3], MIB, 64 * MIB);
    room.tick_ns = bench_tick_ns();
    room.over = bench_shared(4096);
    bench_job_init(&room.job, "ps", (uint32_t)room.pushers);
    room.job.config.object_bytes = UINT64_C(2) << 30;
    for (int i = 1; i < room.pushers; i++) {
        pids[i] = bench_fork(300);
        if (!pids[i]) {
            rows_of(i);
            _exit(0);
        }
    }
    rows_of(0);
    for (int i = 1; i < room.pushers; i++)
        bench_reap(pids[i], "a pusher");
    return 0;
}
