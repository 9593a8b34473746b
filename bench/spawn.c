/*
 * bench/spawn.c: from nothing to the exit of N copies of a command: started by posix_spawn, or by a launcher.
 *
 * `spawn METRIC WHO ROUNDS COPIES COMMAND…` starts COPIES processes at once, waits for all, and takes the time. With
 * COPIES 8 and `true` it is the limit; with COPIES 1 and a launcher's command line it is that launcher, its own start
 * included.
 *
 * Usage: spawn METRIC WHO ROUNDS COPIES COMMAND [ARGUMENT…]
 */
#include "measure.h"

#include <fcntl.h>
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t actions;
    struct bench_samples samples;
    double tick_ns;
    int rounds, copies;

    if (argc < 6)
        bench_die("usage: spawn METRIC WHO ROUNDS COPIES COMMAND [ARGUMENT...]");
    rounds = (int)bench_number(argv[3], 1, 10000);
    copies = (int)bench_number(argv[4], 1, 64);
    alarm(120);
    tick_ns = bench_tick_ns();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bench_samples_init(&samples, (size_t)rounds);
    for (int round = -1; round < rounds; round++) { /* the first warms the caches */
        pid_t children[64];
        uint64_t start = bench_ticks();
        for (int i = 0; i < copies; i++) {
            int rc = posix_spawnp(&children[i], argv[5], &actions, NULL, argv + 5, environ);
            if (rc)
                bench_die("%s: %s", argv[5], strerror(rc));
        }
        for (int i = 0; i < copies; i++)
            bench_reap(children[i], argv[5]);
        if (round >= 0)
            bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(argv[1], argv[2], &samples, tick_ns, 1, 1);
    return 0;
}
