/*
 * bench/task.c: what taking part in a job costs: heartbeat, join and leave, the audit, memory.
 *
 *   heartbeat        muster_heartbeat(), the mean of 64 a sample; beside it getppid(), the cheapest system call
 *   attach           muster_join() of a task into a segment that another process holds, without heartbeat thread;
 *                    attach.thread is the same with it, attach.leave is muster_leave()
 *   audit            muster_segment_check() of OBJECTS keys in as many buckets
 *   memory.empty     bytes committed of a segment for 8 tasks in which nobody but an observer has joined
 *   memory.task      bytes that each further task costs: its share of the tables (segments for 8 and for 1,032 tasks
 *                    compared) and the live blocks of its record (64 processes that joined)
 *
 * Usage: task SECONDS OBJECTS
 */
#include "job.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BATCH  64
#define JOINED 64

static void row_heartbeat(double seconds, double tick_ns)
{
    struct bench_samples samples, calls;
    struct bench_job job;
    struct muster *muster;
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);

    bench_job_init(&job, "heartbeat", 1);
    muster = bench_job_join(&job, 0, MUSTER_JOIN_NO_HEARTBEAT);
    bench_samples_init(&samples, 1u << 18);
    bench_samples_init(&calls, 1u << 18);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();
        for (int i = 0; i < BATCH; i++)
            if (muster_heartbeat(muster) != MUSTER_OK)
                bench_die("muster_heartbeat: %s", muster_last_error());
        bench_add(&samples, bench_ticks() - start);
        start = bench_ticks();
        for (int i = 0; i < BATCH; i++)
            syscall(SYS_getppid);
        bench_add(&calls, bench_ticks() - start);
    }
    bench_emit("heartbeat", "muster", &samples, tick_ns, BATCH, BATCH);
    bench_emit("heartbeat", "getppid", &calls, tick_ns, BATCH, BATCH);
    bench_samples_free(&samples);
    bench_samples_free(&calls);
    bench_ok(muster_leave(muster), "muster_leave");
    bench_job_remove();
}

static void attach_in_child(const struct bench_job *job, const char *metric, uint32_t flags, int rounds, double tick_ns)
{
    struct bench_samples join, leave;
    pid_t child = bench_fork(60);

    if (child) {
        bench_reap(child, "the joining task");
        return;
    }
    bench_samples_init(&join, (size_t)rounds);
    bench_samples_init(&leave, (size_t)rounds);
    for (int i = 0; i < rounds; i++) {
        uint64_t start = bench_ticks(), joined;
        struct muster *muster = bench_job_join(job, 1, flags);
        joined = bench_ticks();
        bench_ok(muster_leave(muster), "muster_leave");
        bench_add(&leave, bench_ticks() - joined);
        bench_add(&join, joined - start);
    }
    bench_emit(metric, "muster", &join, tick_ns, 1, 1);
    if (flags & MUSTER_JOIN_NO_HEARTBEAT)
        bench_emit("attach.leave", "muster", &leave, tick_ns, 1, 1);
    _exit(0);
}

static void row_attach(int rounds, double tick_ns)
{
    struct bench_job job;
    struct muster *muster;

    bench_job_init(&job, "attach", 2);
    muster = bench_job_join(&job, 0, MUSTER_JOIN_NO_HEARTBEAT);
    attach_in_child(&job, "attach", MUSTER_JOIN_NO_HEARTBEAT, rounds, tick_ns);
    attach_in_child(&job, "attach.thread", 0, rounds, tick_ns);
    bench_ok(muster_leave(muster), "muster_leave");
    bench_job_remove();
}

static void row_audit(uint32_t objects, double tick_ns)
{
    struct bench_samples samples;
    struct muster_audit audit;
    struct bench_job job;
    struct muster *muster;
    char key[32];

    bench_job_init(&job, "audit", 1);
    job.config.num_buckets = objects;
    job.config.heap_bytes = UINT64_C(2) << 30;
    muster = bench_job_join(&job, 0, MUSTER_JOIN_NO_HEARTBEAT);
    for (uint32_t i = 0; i < objects; i++) {
        snprintf(key, sizeof(key), "object/%" PRIu32, i);
        bench_ok(muster_kv_set(muster, key, MUSTER_NTS, key, 8, NULL), "muster_kv_set");
    }
    bench_samples_init(&samples, 20);
    while (!bench_samples_full(&samples)) {
        uint64_t start = bench_ticks();
        bench_ok(muster_segment_check(muster_segment_of(muster), NULL, NULL, &audit), "muster_segment_check");
        bench_add(&samples, bench_ticks() - start);
        if (audit.problems || audit.keys != objects)
            bench_die("the audit found %" PRIu64 " keys and %" PRIu64 " problems", audit.keys, audit.problems);
    }
    bench_emit_fact("audit", "%" PRIu64 " keys in %" PRIu64 " live blocks of %" PRIu64 " MiB", audit.keys,
                    audit.blocks_live, audit.bytes_live >> 20);
    bench_emit("audit", "muster", &samples, tick_ns, 1, 1);
    bench_ok(muster_leave(muster), "muster_leave");
    bench_job_remove();
}

/* What the kernel has allocated, not only what the segment says of itself. */
static uint64_t committed(struct muster *muster)
{
    struct muster_segment_info info;
    struct stat status;

    bench_ok(muster_segment_info(muster_segment_of(muster), &info), "muster_segment_info");
    if (fstat(muster_segment_fd(muster_segment_of(muster)), &status))
        bench_die("fstat: %s", strerror(errno));
    return (uint64_t)status.st_blocks * 512 > info.committed_bytes ? (uint64_t)status.st_blocks * 512
                                                                   : info.committed_bytes;
}

static uint64_t committed_when_empty(uint32_t num_tasks)
{
    struct bench_job job;
    struct muster *muster;
    uint64_t bytes;

    bench_job_init(&job, "empty", num_tasks);
    muster = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER);
    bytes = committed(muster);
    bench_ok(muster_leave(muster), "muster_leave");
    bench_job_remove();
    return bytes;
}

/* One of the tasks: joins when a byte says so, and stays until the other pipe is closed. */
static void stay_joined(const struct bench_job *job, int task, int go, int end, volatile uint32_t *joined)
{
    struct muster *muster;
    char byte;

    if (read(go, &byte, 1) != 1)
        return;
    muster = bench_job_join(job, task, 0);
    __atomic_fetch_add(joined, 1, __ATOMIC_SEQ_CST);
    if (read(end, &byte, 1) > 0)
        bench_die("nobody writes into the second pipe");
    muster_leave(muster);
}

/* Bytes of live blocks that a joined task keeps. */
static double block_bytes_of_a_task(void)
{
    volatile uint32_t *joined = bench_shared(sizeof(uint32_t));
    struct muster_audit before, after;
    struct bench_job job;
    struct muster *muster;
    int go[2], end[2];
    pid_t children[JOINED];

    bench_job_init(&job, "tasks", JOINED);
    if (pipe(go) || pipe(end))
        bench_die("pipe: %s", strerror(errno));
    for (int task = 0; task < JOINED; task++) {
        children[task] = bench_fork(60);
        if (children[task] == 0) {
            close(go[1]);
            close(end[1]);
            stay_joined(&job, task, go[0], end[0], joined);
            _exit(0);
        }
    }
    muster = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER);
    bench_ok(muster_segment_check(muster_segment_of(muster), NULL, NULL, &before), "muster_segment_check");
    for (uint32_t i = 0; i < JOINED; i++) {
        if (write(go[1], "j", 1) != 1)
            bench_die("write: %s", strerror(errno));
        while (__atomic_load_n(joined, __ATOMIC_SEQ_CST) == i)
            usleep(200);
    }
    bench_ok(muster_segment_check(muster_segment_of(muster), NULL, NULL, &after), "muster_segment_check");
    close(go[1]);
    close(end[1]);
    for (int task = 0; task < JOINED; task++)
        bench_reap(children[task], "a task");
    close(go[0]);
    close(end[0]);
    bench_ok(muster_leave(muster), "muster_leave");
    bench_job_remove();
    return (double)(after.bytes_live - before.bytes_live) / JOINED;
}

static void rows_memory(void)
{
    uint64_t few = committed_when_empty(8), many = committed_when_empty(1032);
    double table = ((double)many - (double)few) / 1024, blocks = block_bytes_of_a_task();

    bench_emit_value("memory.empty", "muster", (double)few, "bytes");
    bench_emit_value("memory.task", "muster", table + blocks, "bytes");
    bench_emit_fact("memory.task", "%.0f bytes of tables and %.0f bytes of live blocks", table, blocks);
}

int main(int argc, char **argv)
{
    struct bench_cpus cpus;
    double seconds, tick_ns;
    uint32_t objects;

    if (argc != 3)
        bench_die("usage: task SECONDS OBJECTS");
    seconds = bench_number(argv[1], 0.001, 60);
    objects = (uint32_t)bench_number(argv[2], 1, 1 << 22);
    alarm(180);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    row_heartbeat(seconds, tick_ns);
    row_attach(seconds < 0.2 ? 50 : 500, tick_ns);
    bench_unpin(&cpus); /* a large segment is audited by two threads */
    row_audit(objects, tick_ns);
    bench_pin(&cpus, 0);
    rows_memory();
    return 0;
}
