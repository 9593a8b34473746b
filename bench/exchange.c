/*
 * bench/exchange.c: the tasks of a job exchange the topologies of 8 devices each, all at once, until the last has it.
 *
 *   exchange.N  muster: muster_topology_exchange(), where the last who comes makes the global topology; gather: as
 * XLA's clients do it, over the same store: task 0 waits for all locals, makes it, the others wait for it; each: every
 * task waits for all locals and makes it for itself
 *
 * Usage: exchange TASKS ROUNDS
 */
#include "job.h"

#include <muster/topology.h>

enum way { WAY_MUSTER, WAY_GATHER, WAY_EACH, WAYS };
static const char *const names[WAYS] = {"muster", "gather", "each"};

/* What a node of eight H100 in an NVLink fabric tells, about as long as it is in truth: 8 times 130 bytes. */
static size_t make_local(int task, uint8_t bytes[2048])
{
    static const char device[] = "\x12\x15NVIDIA H100 80GB HBM3\x1a\x12NVIDIA Corporation\x32\x03\x39.0\x38\x84\x01"
                                 "\x62\x26\x30\x31\x32\x33\x34\x35\x36\x37-89ab-cdef-0123-456789abcdef/1"
                                 "\x68\x80\x98\x0e\x70\x01\x78\x80\x80\x80\x80\xc0\x02";
    uint8_t *p = bytes;

    *p++ = 0x08;
    if (task > 127)
        *p++ = (uint8_t)(0x80 | (task & 127));
    *p++ = (uint8_t)(task > 127 ? task >> 7 : task);
    p += snprintf((char *)p, 64,
                  "\x12\x24"
                  "6a6b2f3c-0000-4000-8000-%012d",
                  task / 8);
    for (int i = 0; i < 8; i++) {
        *p++ = 0x1a;
        *p++ = (uint8_t)(sizeof device - 1 + 2);
        *p++ = 0x08;
        *p++ = (uint8_t)i;
        memcpy(p, device, sizeof device - 1);
        p += sizeof device - 1;
    }
    return (size_t)(p - bytes);
}

/* All locals from the store, and what they make. */
static void *make_global(struct muster *muster, size_t *ret_size)
{
    uint32_t n = muster_num_tasks(muster);
    void **locals = calloc(n, sizeof *locals), *global;
    size_t *sizes = calloc(n, sizeof *sizes);
    char key[64];

    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "local_topology/%u", i);
        bench_ok(muster_kv_get_alloc(muster, key, MUSTER_NTS, MUSTER_FOREVER, &locals[i], &sizes[i], NULL), key);
    }
    bench_ok(muster_topology_global(MUSTER_FORM_XLA, (const void *const *)locals, sizes, n, &global, ret_size),
             "global");
    for (uint32_t i = 0; i < n; i++)
        free(locals[i]);
    free(locals);
    free(sizes);
    return global;
}

static void exchange(struct muster *muster, int task, enum way way)
{
    uint8_t local[2048];
    size_t size = make_local(task, local);
    char key[64];
    void *global;

    if (way == WAY_MUSTER) {
        bench_ok(muster_topology_exchange(muster, NULL, MUSTER_FORM_XLA, local, size, MUSTER_FOREVER, &global, &size),
                 "muster_topology_exchange");
        free(global);
        return;
    }
    snprintf(key, sizeof key, "local_topology/%d", task);
    bench_ok(muster_kv_insert(muster, key, MUSTER_NTS, local, size), key);
    if (way == WAY_EACH || task == 0) {
        global = make_global(muster, &size);
        if (way == WAY_GATHER)
            bench_ok(muster_kv_insert(muster, "global_topology", MUSTER_NTS, global, size), "insert");
    } else {
        bench_ok(muster_kv_get_alloc(muster, "global_topology", MUSTER_NTS, MUSTER_FOREVER, &global, &size, NULL),
                 "get");
    }
    free(global);
}

static void be_task(struct bench_job *job, int task, enum way way, int ready, int go)
{
    struct muster *muster = bench_job_join(job, task, MUSTER_JOIN_NO_HEARTBEAT);
    char byte = 0;

    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0) /* until the parent closes its end */
        bench_die("no parent");
    exchange(muster, task, way);
    if (write(ready, &byte, 1) != 1)
        bench_die("no parent");
    bench_ok(muster_leave(muster), "muster_leave");
    _exit(0);
}

static uint64_t run_round(int tasks, enum way way, int round)
{
    pid_t *children = calloc((size_t)tasks, sizeof *children);
    struct bench_job job;
    struct muster *holder;
    int ready[2], go[2];
    char tag[32], byte;
    uint64_t start;

    if (pipe(ready) || pipe(go) || !children)
        bench_die("%s", strerror(errno));
    snprintf(tag, sizeof tag, "exchange-%s-%d", names[way], round);
    bench_job_init(&job, tag, (uint32_t)tasks);
    holder = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_HEARTBEAT);
    for (int i = 0; i < tasks; i++) {
        children[i] = bench_fork(60);
        if (children[i] == 0) {
            close(go[1]);
            be_task(&job, i, way, ready[1], go[0]);
        }
    }
    close(ready[1]);
    for (int i = 0; i < tasks; i++)
        if (read(ready[0], &byte, 1) != 1)
            bench_die("a task did not join");
    start = bench_ticks();
    close(go[1]);
    for (int i = 0; i < tasks; i++)
        if (read(ready[0], &byte, 1) != 1)
            bench_die("a task has no topology");
    start = bench_ticks() - start;
    for (int i = 0; i < tasks; i++)
        bench_reap(children[i], "a task");
    free(children);
    close(ready[0]);
    close(go[0]);
    bench_ok(muster_leave(holder), "muster_leave");
    return start;
}

int main(int argc, char **argv)
{
    struct bench_samples samples[WAYS];
    char metric[32];
    double tick_ns;
    int tasks, rounds;

    if (argc != 3)
        bench_die("usage: exchange TASKS ROUNDS");
    tasks = (int)bench_number(argv[1], 1, 1024);
    rounds = (int)bench_number(argv[2], 1, 10000);
    tick_ns = bench_tick_ns();
    for (int way = 0; way < WAYS; way++)
        bench_samples_init(&samples[way], (size_t)rounds);
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++)
            bench_add(&samples[way], run_round(tasks, (enum way)way, round));
    snprintf(metric, sizeof metric, "exchange.%d", tasks);
    for (int way = 0; way < WAYS; way++)
        bench_emit(metric, names[way], &samples[way], tick_ns, 1, 1);
    return 0;
}
