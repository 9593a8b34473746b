/*
 * bench/queue.c: a queue of messages, one writer and so many readers, each a process.
 *
 *   queue.N.BYTES   a message that N readers read, with the writer up to 64 ahead: time a message, over 64 of them
 *
 * Usage: queue SECONDS      (for each row)
 */
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

enum { MIB = 1 << 20, BATCH = 64, READERS_MAX = 8 };

static struct bench_job job;
static double seconds, tick_ns;

static void reader_run(int task)
{
    struct muster *m = bench_job_join(&job, task, MUSTER_JOIN_RECOVERABLE);
    struct muster_queue_message message;
    struct muster_queue *q;
    char text[32] = "";
    enum muster_status status;
    uint64_t sum = 0;

    bench_ok(muster_kv_get(m, "queue", MUSTER_NTS, muster_after_ms(60000), text, sizeof(text) - 1, NULL, NULL),
             "muster_kv_get");
    bench_ok(muster_queue_open(m, strtoull(text, NULL, 10), &q), "muster_queue_open");
    while (!(status = muster_queue_read(q, muster_after_ms(60000), &message)))
        sum += message.len;
    if (status != MUSTER_OUT_OF_RANGE)
        bench_die("muster_queue_read: %s", muster_last_error());
    bench_ok(muster_queue_close(q), "muster_queue_close");
    bench_ok(muster_leave(m), "muster_leave");
    exit(sum == 0);
}

static void row(int readers, size_t bytes)
{
    struct bench_samples samples;
    struct muster_queue *q;
    struct muster *m;
    muster_object ref;
    char text[64];
    char *from = malloc(bytes);
    pid_t children[READERS_MAX];
    uint64_t end;

    bench_job_init(&job, "queue", READERS_MAX + 1);
    for (int i = 0; i < readers; i++) {
        children[i] = fork();
        if (!children[i])
            reader_run(i + 1);
    }
    m = bench_job_join(&job, 0, MUSTER_JOIN_RECOVERABLE);
    if (!from)
        bench_die("no memory");
    memset(from, 1, bytes);
    bench_ok(muster_queue_create(m, NULL, &q, &ref), "muster_queue_create");
    snprintf(text, sizeof(text), "%llu", (unsigned long long)ref);
    bench_ok(muster_kv_set(m, "queue", MUSTER_NTS, text, strlen(text), NULL), "muster_kv_set");
    bench_ok(muster_queue_wait(q, (uint32_t)readers, muster_after_ms(60000)), "muster_queue_wait");
    bench_samples_init(&samples, 1u << 16);
    end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < BATCH; i++)
            bench_ok(muster_queue_write(q, from, bytes, muster_after_ms(60000)), "muster_queue_write");
        bench_add(&samples, bench_ticks() - start);
    }
    bench_ok(muster_queue_close(q), "muster_queue_close");
    for (int i = 0; i < readers; i++)
        waitpid(children[i], NULL, 0);
    bench_ok(muster_leave(m), "muster_leave");
    snprintf(text, sizeof(text), "queue.%d.%zu", readers, bytes);
    bench_emit(text, "muster", &samples, tick_ns, BATCH, BATCH);
    bench_samples_free(&samples);
    free(from);
}

int main(int argc, char **argv)
{
    static const int readers[] = {1, 4, READERS_MAX};

    if (argc != 2)
        bench_die("usage: queue SECONDS");
    seconds = strtod(argv[1], NULL);
    tick_ns = bench_tick_ns();
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        row(readers[i], 20);
        row(readers[i], MIB);
    }
    return 0;
}
