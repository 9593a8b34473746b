/*
 * bench/topology.c: the tasks of a node ask for hwloc's tree at once, until the last has it.
 *
 *   topology.N  muster: the first loads, the others map what it loaded; hwloc: each loads for itself
 *
 * Opening the library is part of both. This process stands for the launcher: its memfd has the name of that one's. The
 * machine's size decides: on two processors a load takes some ms, on a node with hundreds it takes seconds.
 *
 * Usage: topology TASKS ROUNDS
 */
#include "job.h"

#include <hwloc.h>
#include <muster/topology.h>

static void be_task(struct bench_job *job, int task, int shared, int ready, int go)
{
    struct muster *muster = bench_job_join(job, task, MUSTER_JOIN_NO_HEARTBEAT);
    struct hwloc_topology *topology;
    char byte = 0;

    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0) /* until the parent closes its end */
        bench_die("no parent");
    bench_ok(muster_topology_hwloc(shared ? muster : NULL, &topology), "muster_topology_hwloc");
    if (write(ready, &byte, 1) != 1)
        bench_die("no parent");
    bench_ok(muster_leave(muster), "muster_leave");
    _exit(0);
}

static uint64_t run_round(struct bench_job *job, int tasks, int shared)
{
    int ready[2], go[2], memfd = memfd_create("muster-topology", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    pid_t *children = calloc((size_t)tasks, sizeof *children);
    char path[64], byte;
    uint64_t start;

    if (memfd < 0 || pipe(ready) || pipe(go) || !children)
        bench_die("%s", strerror(errno));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), memfd);
    setenv("MUSTER_TOPOLOGY", path, 1);
    for (int i = 0; i < tasks; i++) {
        children[i] = bench_fork(60);
        if (children[i] == 0) {
            close(go[1]);
            be_task(job, i, shared, ready[1], go[0]);
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
    close(memfd);
    close(ready[0]);
    close(go[0]);
    return start;
}

int main(int argc, char **argv)
{
    struct bench_samples samples[2];
    struct bench_job job;
    struct muster *holder;
    char metric[32];
    double tick_ns;
    int tasks, rounds;

    if (argc != 3)
        bench_die("usage: topology TASKS ROUNDS");
    tasks = (int)bench_number(argv[1], 1, 1024);
    rounds = (int)bench_number(argv[2], 1, 10000);
    tick_ns = bench_tick_ns();
    bench_job_init(&job, "topology", (uint32_t)tasks);
    holder = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_HEARTBEAT);
    for (int i = 0; i < 2; i++)
        bench_samples_init(&samples[i], (size_t)rounds);
    for (int round = 0; round < rounds; round++)
        for (int shared = 0; shared < 2; shared++)
            bench_add(&samples[shared], run_round(&job, tasks, shared));
    snprintf(metric, sizeof metric, "topology.%d", tasks);
    bench_emit(metric, "hwloc", &samples[0], tick_ns, 1, 1);
    bench_emit(metric, "muster", &samples[1], tick_ns, 1, 1);
    bench_ok(muster_leave(holder), "muster_leave");
    return 0;
}
