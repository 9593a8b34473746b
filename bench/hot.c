/*
 * bench/hot.c: one operation so many times, and nothing else that is counted: for tools that count instructions and
 * system calls (harness/counted.py). They run it twice, with more and with fewer operations, and take the difference.
 *
 *   get, set          muster_kv_try_get(), muster_kv_set() of one key, 64 bytes
 *   get-any, set-any  the same of 10,000 keys, in turn
 *   insert            muster_kv_insert() of a new key
 *   increment         muster_kv_increment() of one key
 *   group, named      a group barrier, a named barrier, of two tasks: the arrival of the last, who waits for nobody
 *   named-alone       a named barrier of one task
 *   parked            muster_kv_get() of a key that another task sets when the caller sleeps
 *   heartbeat         muster_heartbeat()
 *
 * Usage: hot OPERATION COUNT
 */
#include "job.h"
#include "keys.h"

#include <stdatomic.h>

enum { KEYS = 10000, SETTLED_US = 1000 };

static struct {
    struct muster *muster;
    struct muster_group *group;
    _Atomic uint64_t *arrived; /* shared: how often the other task has come */
    uint64_t turn;
    char value[BENCH_VALUE_LEN];
} hot;

static void get_number(uint32_t number)
{
    char key[BENCH_KEY_ROOM];
    size_t len;

    bench_key(key, number);
    bench_ok(muster_kv_try_get(hot.muster, key, BENCH_KEY_LEN, hot.value, sizeof(hot.value), &len, NULL), "get");
}

static void set_number(uint32_t number)
{
    char key[BENCH_KEY_ROOM];

    bench_key(key, number);
    bench_ok(muster_kv_set(hot.muster, key, BENCH_KEY_LEN, hot.value, sizeof(hot.value), NULL), "set");
}

static void get(void)
{
    get_number(0);
}

static void set(void)
{
    set_number(0);
}

static void get_any(void)
{
    get_number((uint32_t)(hot.turn++ * 7919 % KEYS));
}

static void set_any(void)
{
    set_number((uint32_t)(hot.turn++ * 7919 % KEYS));
}

static void insert(void)
{
    char key[BENCH_KEY_ROOM];

    bench_key(key, KEYS + (uint32_t)hot.turn++);
    bench_ok(muster_kv_insert(hot.muster, key, BENCH_KEY_LEN, hot.value, sizeof(hot.value)), "insert");
}

static void increment(void)
{
    int64_t sum;

    bench_ok(muster_kv_increment(hot.muster, "counter", 7, 1, &sum), "increment");
}

static void heartbeat(void)
{
    bench_ok(muster_heartbeat(hot.muster), "heartbeat");
}

static void named_alone(void)
{
    int32_t self = muster_task_id(hot.muster);

    bench_ok(muster_barrier_wait(hot.muster, "alone", MUSTER_BARRIER_NEXT, &self, 1, 0, MUSTER_FOREVER), "named");
}

/* The other task is a while before us; then it waits, and we do not. */
static void await_other(void)
{
    if (muster_task_id(hot.muster)) {
        atomic_fetch_add(hot.arrived, 1); /* seq_cst: nothing hangs on it */
        return;
    }
    for (hot.turn++; atomic_load(hot.arrived) < hot.turn;)
        usleep(100);
    usleep(SETTLED_US);
}

static void group(void)
{
    await_other();
    bench_ok(muster_group_barrier(hot.group, muster_after_ms(60000)), "group");
}

static void named(void)
{
    await_other();
    bench_ok(muster_barrier_wait(hot.muster, "pair", MUSTER_BARRIER_NEXT, NULL, 0, 0, muster_after_ms(60000)), "named");
}

/* Here it is the first task that waits: the other sets the key when that has slept for a while. */
static void parked(void)
{
    char key[BENCH_KEY_ROOM];
    size_t len;

    bench_key(key, KEYS + (uint32_t)hot.turn++);
    if (muster_task_id(hot.muster) == 0) {
        atomic_fetch_add(hot.arrived, 1);
        bench_ok(muster_kv_get(hot.muster, key, BENCH_KEY_LEN, muster_after_ms(60000), hot.value, sizeof(hot.value),
                               &len, NULL),
                 "parked");
        return;
    }
    while (atomic_load(hot.arrived) < hot.turn)
        usleep(100);
    usleep(SETTLED_US);
    bench_ok(muster_kv_set(hot.muster, key, BENCH_KEY_LEN, hot.value, sizeof(hot.value), NULL), "set");
}

static const struct {
    const char *name;
    void (*run)(void);
    int of_two, of_group;
} operations[] = {
    {"get", get, 0, 0},
    {"set", set, 0, 0},
    {"get-any", get_any, 0, 0},
    {"set-any", set_any, 0, 0},
    {"insert", insert, 0, 0},
    {"increment", increment, 0, 0},
    {"group", group, 1, 1},
    {"named", named, 1, 0},
    {"named-alone", named_alone, 0, 0},
    {"parked", parked, 1, 0},
    {"heartbeat", heartbeat, 0, 0},
};

static void run_task(const struct bench_job *job, const struct bench_cpus *cpus, int rank, size_t which, uint64_t count)
{
    hot.muster = bench_job_join(job, rank, MUSTER_JOIN_NO_HEARTBEAT);
    bench_pin(cpus, rank);
    bench_value(hot.value, 7);
    for (uint32_t number = 0; number < KEYS && !operations[which].of_two; number++)
        set_number(number);
    if (operations[which].of_group)
        bench_ok(muster_group_create(hot.muster, "pair", NULL, 0, 0, muster_after_ms(60000), &hot.group), "group");
    for (uint64_t i = 0; i < count; i++)
        operations[which].run();
    muster_group_free(hot.group);
    bench_ok(muster_leave(hot.muster), "muster_leave");
}

int main(int argc, char **argv)
{
    size_t which = 0, known = sizeof(operations) / sizeof(*operations);
    struct bench_cpus cpus;
    struct bench_job job;
    uint64_t count;
    pid_t child;

    while (argc == 3 && which < known && strcmp(operations[which].name, argv[1]) != 0)
        which++;
    if (argc != 3 || which == known)
        bench_die("usage: hot OPERATION COUNT");
    count = (uint64_t)bench_number(argv[2], 1, 1e7);
    alarm(120);
    bench_cpus_read(&cpus);
    hot.arrived = bench_shared(BENCH_LINE);
    bench_job_init(&job, "hot", operations[which].of_two ? 2 : 1);
    child = operations[which].of_two ? bench_fork(120) : -1;
    run_task(&job, &cpus, child == 0, which, count);
    if (child == 0)
        _exit(0);
    if (child > 0)
        bench_reap(child, "the other task");
    return 0;
}
