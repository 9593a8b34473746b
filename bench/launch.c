/*
 * bench/launch.c: from a launcher's exec until the last of its ranks has begun, and until the launcher has exited.
 *
 * Each round starts the command, behind whose words stands the path of a file; rank i of the program stores there, in
 * the i-th 8 bytes, the time at which it was ready (CLOCK_MONOTONIC, which all processes of a machine share):
 * bench/peers/mpi_init.c behind MPI_Init. Prints METRIC and METRIC.whole.
 *
 * Usage: launch METRIC WHO ROUNDS RANKS COMMAND [ARGUMENT…]
 */
#include "measure.h"

#include <fcntl.h>
#include <spawn.h>

#define RANKS_MAX 1024

extern char **environ;

static char path[64];
static pid_t owner;

static void clean_up(void)
{
    if (getpid() == owner)
        unlink(path);
}

/* The file, as the program's ranks see it. */
static volatile uint64_t *open_stamps(void)
{
    void *memory;
    int fd;

    snprintf(path, sizeof(path), "/dev/shm/bench-%d-launch-XXXXXX", (int)getpid()); /* harness/machine.py */
    fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, RANKS_MAX * 8))
        bench_die("%s: %s", path, strerror(errno));
    owner = getpid();
    atexit(clean_up);
    memory = mmap(NULL, RANKS_MAX * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        bench_die("mmap: %s", strerror(errno));
    close(fd);
    return memory;
}

static pid_t start(char **command)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int rc;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
    if (rc)
        bench_die("%s: %s", command[0], strerror(rc));
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static uint64_t last_of(const volatile uint64_t *stamps, int ranks)
{
    uint64_t last = 0;

    for (int rank = 0; rank < ranks; rank++) {
        if (!stamps[rank])
            bench_die("rank %d was never ready", rank);
        last = stamps[rank] > last ? stamps[rank] : last;
    }
    return last;
}

int main(int argc, char **argv)
{
    struct bench_samples ready, whole;
    volatile uint64_t *stamps;
    char **command, metric[64];
    int rounds, ranks;

    if (argc < 6)
        bench_die("usage: launch METRIC WHO ROUNDS RANKS COMMAND [ARGUMENT...]");
    rounds = (int)bench_number(argv[3], 1, 10000);
    ranks = (int)bench_number(argv[4], 1, RANKS_MAX);
    alarm(170);
    stamps = open_stamps();
    command = calloc((size_t)argc - 3, sizeof *command);
    if (!command)
        bench_die("no memory");
    memcpy(command, argv + 5, (size_t)(argc - 5) * sizeof *command);
    command[argc - 5] = path;
    bench_samples_init(&ready, (size_t)rounds);
    bench_samples_init(&whole, (size_t)rounds);
    for (int round = -1; round < rounds; round++) { /* the first warms the caches */
        uint64_t began = bench_now_ns();

        memset((void *)stamps, 0, RANKS_MAX * 8);
        bench_reap(start(command), command[0]);
        if (round < 0)
            continue;
        bench_add(&whole, bench_now_ns() - began);
        bench_add(&ready, last_of(stamps, ranks) - began);
    }
    snprintf(metric, sizeof metric, "%s.whole", argv[1]);
    bench_emit(argv[1], argv[2], &ready, 1, 1, 1);
    bench_emit(metric, argv[2], &whole, 1, 1, 1);
    free(command);
    return 0;
}
