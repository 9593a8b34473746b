/*
 * demo.c: the main job in small. Four processes meet, tell each other what the node has, hand an NCCL unique id round,
 * synchronise 200,000 times, and learn of a killed peer.
 *
 * The job's status is that of its killed task, 128 + 9, and nothing else will do:
 * run: "$MUSTER" run -n 4 --kill-on-fail=no -- "$EXAMPLE" 2>/dev/null; [ $? -eq 137 ]
 */
#define _GNU_SOURCE
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

enum { BARRIERS = 200000, VICTIM = 2 };

static struct muster *job;
static int rank, size;

static void check(enum muster_status status)
{
    if (status)
        errx(1, "task %d: %s: %s", rank, muster_status_name(status), muster_last_error());
}

/* Lines of different tasks come in rank order: each prints in its turn, between barriers. */
static void in_turn(struct muster_group *all, const char *line)
{
    for (int i = 0; i < size; i++) {
        if (i == rank) {
            fputs(line, stdout);
            fflush(stdout);
        }
        check(muster_group_barrier(all, MUSTER_FOREVER));
    }
}

static void affinity(char *text, size_t n)
{
    cpu_set_t set;
    size_t at = 0;

    text[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    for (int c = 0; c < CPU_SETSIZE && at < n; c++)
        if (CPU_ISSET(c, &set))
            at += (size_t)snprintf(text + at, n - at, "%s%d", at ? "," : "", c);
}

static void publish(void)
{
    char key[64], value[512], host[64] = "", cpus[300];

    gethostname(host, sizeof host - 1);
    affinity(cpus, sizeof cpus);
    snprintf(key, sizeof key, "/demo/task/%d", rank);
    snprintf(value, sizeof value, "host %s  pid %d  CPUs %s", host, (int)getpid(), cpus);
    check(muster_kv_set(job, key, MUSTER_NTS, value, MUSTER_NTS, NULL));
}

static void show_tasks(void)
{
    struct muster_kv_list *list;

    check(muster_kv_get_dir(job, "/demo/task", MUSTER_NTS, &list));
    for (size_t i = 0; i < list->count; i++)
        printf("%s: %s\n", list->entries[i].key, (const char *)list->entries[i].value);
    muster_kv_list_free(list);
    fflush(stdout);
}

/* Whether all tasks hold the same bytes; ends the demo where not. The bytes' fingerprint. */
static uint64_t compare(struct muster_group *all, const char *what, const void *bytes, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325u, *sums = calloc((size_t)size, sizeof *sums);

    if (!sums)
        errx(1, "no memory");
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    check(muster_group_allgather(all, &sum, sizeof sum, sums, MUSTER_FOREVER));
    for (int i = 0; i < size; i++)
        if (sums[i] != sum)
            errx(1, "task %d has another %s than task %d", i, what, rank);
    free(sums);
    return sum;
}

/* "NV6 to all others", "NV2 to 1, SYS to 2" */
static void show_links(const struct muster_topology *node, size_t index)
{
    char first[16] = "", name[16];
    size_t count = muster_topology_num_devices(node), alike = 0;

    for (size_t i = 0; i < count; i++) {
        muster_link_name(muster_topology_link(node, index, i), name, sizeof name);
        if (i != index && !*first)
            memcpy(first, name, sizeof first);
        alike += i != index && strcmp(name, first) == 0;
    }
    if (count > 2 && alike == count - 1) {
        printf("; %s to all others", first);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (i != index)
            printf("%s %s to %zu", i == (index == 0) ? ";" : ",",
                   muster_link_name(muster_topology_link(node, index, i), name, sizeof name), i);
}

static void show_device(const struct muster_topology *node, size_t index)
{
    static const char *const kinds[] = {"CPU", "GPU", "GPU part"};
    const struct muster_device *device = muster_topology_device(node, index);

    printf("device %zu: %s", index, kinds[device->kind]);
    if (*device->pci)
        printf(" at %s", device->pci);
    if (*device->name)
        printf(", %s", device->name);
    if (device->memory_bytes)
        printf(", %.1f GiB", (double)device->memory_bytes / (1 << 30));
    if (device->numa_node >= 0)
        printf(", NUMA node %d", device->numa_node);
    if (*device->cpus)
        printf(", CPUs %s", device->cpus);
    show_links(node, index);
    putchar('\n');
}

/* Each task tells what it sees of the node, and all get the same global topology, with the devices numbered. */
static void exchange_topology(struct muster_group *all)
{
    struct muster_topology *node;
    struct muster_local mine = {.process_id = rank};
    void *local, *global;
    size_t local_size, global_size;
    uint64_t sum;

    check(muster_topology_get(job, &node));
    check(muster_topology_local(node, &mine, MUSTER_FORM_XLA, &local, &local_size));
    check(muster_topology_exchange(job, "demo", MUSTER_FORM_XLA, local, local_size, MUSTER_FOREVER, &global,
                                   &global_size));
    sum = compare(all, "global topology", global, global_size);
    for (size_t i = 0; rank == 0 && i < muster_topology_num_devices(node); i++)
        show_device(node, i);
    if (rank == 0)
        printf(
            "topology: %d of %d tasks gave theirs, and hold the same global one of %zu bytes (fingerprint %016llx)\n",
            size, size, global_size, (unsigned long long)sum);
    fflush(stdout);
    free(local);
    free(global);
    muster_topology_free(node);
}

/* The first task that asks makes an id, the others receive it through the segment; each shows that it has the same. */
static void hand_round_nccl_id(struct muster_group *all)
{
    struct muster_nccl_info info;
    char id[MUSTER_NCCL_ID_BYTES];
    uint64_t generation, sum;
    int version;

    if (muster_nccl_version(&version)) { /* for all alike: they are on one node */
        if (rank == 0)
            printf("NCCL: %s\n", muster_last_error());
        return;
    }
    check(muster_nccl_unique_id(job, "demo", (uint32_t)size, (uint32_t)rank, NULL, MUSTER_FOREVER, id, &generation));
    sum = compare(all, "NCCL id", id, sizeof id);
    check(muster_nccl_get(job, "demo", &info));
    if (rank == 0)
        printf(
            "NCCL %d.%d.%d: task %d made a unique id, %u of %d tasks hold the same %zu bytes (fingerprint %016llx)\n",
            version / 10000, version / 100 % 100, version % 100, info.owner_task, info.taken, size, sizeof id,
            (unsigned long long)sum);
    fflush(stdout);
    check(muster_group_barrier(all, MUSTER_FOREVER));
    check(muster_nccl_abandon(job, "demo", generation, "no communicator is made of it here"));
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void time_barriers(struct muster_group *all)
{
    uint32_t *ns = malloc(BARRIERS * sizeof *ns);
    uint64_t start, last;

    if (!ns)
        errx(1, "no memory");
    check(muster_group_barrier(all, MUSTER_FOREVER));
    start = last = muster_now_ns();
    for (int i = 0; i < BARRIERS; i++) {
        uint64_t now;

        check(muster_group_barrier(all, MUSTER_FOREVER));
        now = muster_now_ns();
        ns[i] = (uint32_t)(now - last);
        last = now;
    }
    qsort(ns, BARRIERS, sizeof *ns, by_value);
    if (rank == 0)
        printf("%d group barriers of %d tasks on %ld processors in %.2f s: p50 %.2f us, p99 %.2f us\n", BARRIERS, size,
               sysconf(_SC_NPROCESSORS_ONLN), (double)(last - start) / 1e9, ns[BARRIERS / 2] / 1e3,
               ns[BARRIERS / 100 * 99] / 1e3);
    fflush(stdout);
    free(ns);
}

int main(void)
{
    struct muster_group *all;
    struct muster_error error;
    uint64_t killed, learned;

    check(muster_join(NULL, &job));
    rank = muster_task_id(job);
    size = (int)muster_num_tasks(job);
    if (size <= VICTIM)
        errx(2, "start it with at least %d tasks: muster run -n 4 -- demo", VICTIM + 1);
    check(muster_group_create(job, "demo", NULL, 0, 0, MUSTER_FOREVER, &all));
    publish();
    check(muster_group_barrier(all, MUSTER_FOREVER));
    if (rank == 0)
        show_tasks();
    exchange_topology(all);
    hand_round_nccl_id(all);
    time_barriers(all);
    if (rank == VICTIM)
        printf("task %d (pid %d) now kills itself with SIGKILL\n", rank, (int)getpid());
    in_turn(all, "");
    if (rank == VICTIM) {
        killed = muster_now_ns();
        check(muster_kv_set(job, "/demo/killed", MUSTER_NTS, &killed, sizeof killed, NULL));
        raise(SIGKILL);
    }
    if (muster_group_barrier(all, MUSTER_FOREVER) == MUSTER_OK) /* the victim never comes: this must fail */
        errx(1, "task %d: the barrier passed without task %d", rank, VICTIM);
    learned = muster_now_ns();
    check(muster_error_wait(job, MUSTER_FOREVER, &error));
    check(muster_kv_get(job, "/demo/killed", MUSTER_NTS, 0, &killed, sizeof killed, NULL, NULL));
    printf("task %d learned after %llu us that task %d (pid %u) had died\n", rank,
           (unsigned long long)(learned - killed) / 1000, error.task_id, error.pid);
    muster_group_free(all);
    check(muster_leave(job));
    return error.task_id == VICTIM ? 0 : 1;
}
