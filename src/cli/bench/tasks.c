/*
 * cli/bench/tasks.c: the tasks of a private job, and what they measure.
 *
 * Each row has a job of its own in a memfd, which tasks find by an inherited descriptor, so that a bench that is killed
 * leaves nothing. Task i sits on processor i modulo those allowed. Tasks agree to stop by the number of a barrier that
 * rank 0 writes before it arrives there: a task that reads it behind that barrier or earlier stops at the same one.
 */
#include "cli/bench/bench.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "cli/cli.h"

static volatile sig_atomic_t interrupted;

static void on_bench_signal(int number)
{
    interrupted = number;
}

int mu_bench_interrupted(void)
{
    return interrupted;
}

void mu_bench_catch_signals(void)
{
    mu_cli_catch(on_bench_signal);
}

int mu_bench_fail(struct mu_bench_table *table, const char *format, ...)
{
    va_list args;

    if (table->why[0]) /* the first is the cause */
        return MU_CLI_EXIT_FAILURE;
    va_start(args, format);
    vsnprintf(table->why, sizeof table->why, format, args);
    va_end(args);
    return MU_CLI_EXIT_FAILURE;
}

void mu_bench_add(struct mu_bench_table *table, uint64_t ticks)
{
    if (table->count < MU_BENCH_SAMPLES_MAX)
        table->ticks[table->count++] = ticks;
}

static bool is_over(const struct mu_bench_task *task)
{
    return bench_now_ns() >= task->end_ns || task->table->count >= MU_BENCH_SAMPLES_MAX;
}

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != MUSTER_OK)                                                                                       \
            return mu_bench_fail(task->table, "%s", muster_last_error());                                              \
    } while (0)

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Back-to-back barriers of either kind; the period at rank 0. The first hundred samples are the warm-up. */
static int bench_barriers(struct mu_bench_task *task, unsigned batch, int named)
{
    struct mu_bench_table *table = task->table;
    uint64_t previous = bench_ticks(), now;

    for (uint64_t i = 1;; i++) {
        if (task->rank == 0 && i > 200 && is_over(task))
            table->stop_at = i;
        for (unsigned k = 0; k < batch; k++) {
            if (named)
                CHECK(
                    muster_barrier_wait(task->muster, "bench", i - 1, NULL, 0, UINT64_C(60000000000), MUSTER_FOREVER));
            else
                CHECK(muster_group_barrier(task->group, MUSTER_FOREVER));
        }
        now = bench_ticks();
        if (task->rank == 0 && i > 100)
            mu_bench_add(table, now - previous);
        previous = now;
        if (table->stop_at == i)
            return 0;
    }
}

static int group_barrier(struct mu_bench_task *task, unsigned batch)
{
    return bench_barriers(task, batch, 0);
}

static int named_barrier(struct mu_bench_task *task, unsigned batch)
{
    return bench_barriers(task, batch, 1);
}

static int bench_get(struct mu_bench_task *task, unsigned batch)
{
    char value[64] = "value";
    size_t len;

    CHECK(muster_kv_set(task->muster, "hot", MUSTER_NTS, value, sizeof value, NULL));
    for (unsigned i = 0; i < 200 || !is_over(task); i++) {
        uint64_t start = bench_ticks();

        for (unsigned k = 0; k < batch; k++)
            CHECK(muster_kv_try_get(task->muster, "hot", 3, value, sizeof value, &len, NULL));
        if (i >= 100)
            mu_bench_add(task->table, bench_ticks() - start);
    }
    return 0;
}

static int bench_set(struct mu_bench_task *task, unsigned batch)
{
    char value[64] = "value";

    for (unsigned i = 0; i < 200 || !is_over(task); i++) {
        uint64_t start = bench_ticks();

        for (unsigned k = 0; k < batch; k++) {
            value[0] = (char)(i + k);
            CHECK(muster_kv_set(task->muster, "hot", 3, value, sizeof value, NULL));
        }
        if (i >= 100)
            mu_bench_add(task->table, bench_ticks() - start);
    }
    return 0;
}

static int bench_beat(struct mu_bench_task *task, unsigned batch)
{
    for (unsigned i = 0; i < 200 || !is_over(task); i++) {
        uint64_t start = bench_ticks();

        for (unsigned k = 0; k < batch; k++)
            CHECK(muster_heartbeat(task->muster));
        if (i >= 100)
            mu_bench_add(task->table, bench_ticks() - start);
    }
    return 0;
}

/* Rank 1 waits for a key since 300 us, so it sleeps; rank 0 sets it. From before the set to the reader's return. */
static int waiting_get(struct mu_bench_task *task, unsigned batch)
{
    static const struct timespec asleep = {.tv_nsec = 300000};
    struct mu_bench_table *table = task->table;
    uint64_t start = 0;
    char key[32], value[8];
    size_t len;

    (void)batch;
    for (uint64_t i = 1;; i++) {
        snprintf(key, sizeof key, "wait/%" PRIu64, i % 64);
        if (task->rank == 0 && i > 20 && is_over(task))
            table->stop_at = i;
        CHECK(muster_group_barrier(task->group, MUSTER_FOREVER));
        if (task->rank == 0) {
            nanosleep(&asleep, NULL);
            start = bench_ticks();
            CHECK(muster_kv_set(task->muster, key, MUSTER_NTS, "x", 1, NULL));
        } else {
            CHECK(muster_kv_get(task->muster, key, MUSTER_NTS, MUSTER_FOREVER, value, sizeof value, &len, NULL));
            table->returned_at = bench_ticks();
        }
        CHECK(muster_group_barrier(task->group, MUSTER_FOREVER));
        if (task->rank == 0) {
            if (i > 10 && table->returned_at > start)
                mu_bench_add(table, table->returned_at - start);
            CHECK(muster_kv_delete(task->muster, key, MUSTER_NTS, NULL));
        }
        if (table->stop_at == i)
            return 0;
    }
}

/* Task 1 joins and leaves again and again, beside task 0, which is this process too. */
static int bench_attach(struct mu_bench_task *task, unsigned batch)
{
    (void)batch;
    for (unsigned i = 0; i < 30 || !is_over(task); i++) {
        struct muster_options options;
        struct muster *second;
        uint64_t start;

        muster_options_init(&options);
        options.task_id = 1;
        options.flags = MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
        start = bench_ticks();
        CHECK(muster_join(&options, &second));
        if (i >= 10)
            mu_bench_add(task->table, bench_ticks() - start);
        CHECK(muster_leave(second));
    }
    return 0;
}

/* Names and figures are what --only, --json and the manual page call them. */
const struct mu_bench_row mu_bench_rows[] = {
    {"group-barrier", "barrier of a group, back to back", 16, mu_bench_run_tasks, group_barrier, 0},
    {"named-barrier", "named barrier, back to back", 1, mu_bench_run_tasks, named_barrier, 0},
    {"kv-get", "get of 64 bytes, one key", 64, mu_bench_run_tasks, bench_get, 1},
    {"kv-set", "overwrite of 64 bytes, one key", 64, mu_bench_run_tasks, bench_set, 1},
    {"kv-wait", "set, to a sleeping reader's return", 1, mu_bench_run_tasks, waiting_get, 2},
    {"heartbeat", "one heartbeat", 64, mu_bench_run_tasks, bench_beat, 1},
    {"attach", "a task joins a job that is there", 1, mu_bench_run_tasks, bench_attach, 1},
    {"death", "SIGKILL of a task, to a peer's return", 1, mu_bench_death, NULL, 2},
    {"launch", "'muster run' of 'true', to its end", 1, mu_bench_launch, NULL, 0},
    {"launch-spawn", "the same by posix_spawn", 1, mu_bench_spawn, NULL, 0},
    {NULL, NULL, 0, NULL, NULL, 0},
};

/* ---- processes --------------------------------------------------------------------------------------------------- */

int mu_bench_create(struct mu_bench *bench, uint32_t size, char job[64], struct muster_segment **ret_segment)
{
    struct muster_segment_config config = {.num_tasks = size, .memfd = 1, .heap_bytes = 64u << 20};

    snprintf(job, 64, "bench-%d", (int)getpid());
    if (muster_segment_create(job, &config, ret_segment) != MUSTER_OK)
        return mu_bench_fail(bench->table, "%s", muster_last_error());
    return 0;
}

static int task_main(struct mu_bench_task *task, const char *job, int fd,
                     int (*main)(struct mu_bench_task *task, unsigned batch), unsigned batch)
{
    int is_observer = task->rank >= task->size;
    struct muster_options options;
    char text[32];

    snprintf(text, sizeof text, "fd:%d", fd);
    setenv("MUSTER_SEGMENT", text, 1);
    setenv("MUSTER_JOB", job, 1);
    muster_options_init(&options);
    options.task_id = is_observer ? -1 : (int32_t)task->rank;
    options.flags = MUSTER_JOIN_NO_CREATE | (is_observer ? MUSTER_JOIN_OBSERVER : 0);
    CHECK(muster_join(&options, &task->muster));
    if (task->size > 1 && !is_observer)
        CHECK(muster_group_create(task->muster, "bench", NULL, 0, 0, MUSTER_FOREVER, &task->group));
    bench_pin(&task->bench->cpus, (int)task->rank); /* not before: a group spins by the processors that it sees */
    task->end_ns = bench_now_ns() + (uint64_t)(task->bench->seconds * 1e9);
    if (main(task, batch))
        return MU_CLI_EXIT_FAILURE;
    muster_group_free(task->group);
    CHECK(muster_leave(task->muster));
    return 0;
}

pid_t mu_bench_fork(struct mu_bench *bench, const char *job, int fd, uint32_t rank, uint32_t size,
                    int (*main)(struct mu_bench_task *task, unsigned batch), unsigned batch)
{
    struct mu_bench_task task = {.bench = bench, .table = bench->table, .rank = rank, .size = size};
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        mu_bench_fail(bench->table, "cannot start a task: %s", strerror(errno));
    if (pid != 0)
        return pid;
    mu_cli_catch(SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm((unsigned)bench->seconds * 10 + 60);
    _exit(task_main(&task, job, fd, main, batch));
}

int mu_bench_reap(struct mu_bench *bench, pid_t pid)
{
    struct pollfd pfd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int status;
    pid_t got;

    /* The signal may have come before we sleep: so it is never slept for long. */
    while ((got = waitpid(pid, &status, WNOHANG)) == 0) {
        if (interrupted)
            kill(pid, SIGKILL);
        poll(&pfd, 1, 20);
    }
    if (pfd.fd >= 0)
        close(pfd.fd);
    if (got < 0)
        return mu_bench_fail(bench->table, "waitpid: %s", strerror(errno));
    if (interrupted)
        return 128 + interrupted;
    if (WIFSIGNALED(status))
        return mu_bench_fail(bench->table, "a task died: %s", strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status))
        return mu_bench_fail(bench->table, "a task ended with status %d", WEXITSTATUS(status));
    return 0;
}

int mu_bench_run_tasks(struct mu_bench *bench, const struct mu_bench_row *row)
{
    uint32_t size = row->size ? row->size : bench->tasks, started = 0;
    struct muster_segment *segment;
    pid_t pids[MU_BENCH_TASKS_MAX];
    char job[64];
    int code = mu_bench_create(bench, size > 1 ? size : 2, job, &segment);

    if (code)
        return code;
    for (; started < size; started++) {
        pids[started] = mu_bench_fork(bench, job, muster_segment_fd(segment), started, size, row->task, row->batch);
        if (pids[started] < 0)
            break;
    }
    for (uint32_t i = 0; i < started; i++) {
        int ended;

        if (started < size)
            kill(pids[i], SIGKILL);
        ended = mu_bench_reap(bench, pids[i]);
        code = code ? code : ended;
    }
    if (started < size)
        code = MU_CLI_EXIT_FAILURE;
    muster_segment_close(segment);
    return code;
}
