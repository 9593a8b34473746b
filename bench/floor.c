/*
 * bench/floor.c: the least that a launcher by posix_spawn can be: N copies of a command are started and reaped, and
 * nothing else is done. As a launcher is, it is measured with its own exec and exit (bench/spawn.c).
 *
 * With `guard` it has a second process beside it, as muster has: forked before the copies are started, asleep until
 * the first one is dead, killed and reaped behind them. It does nothing, so it is a limit, not a launcher.
 *
 * Usage: floor [guard] COPIES COMMAND [ARGUMENT…]
 */
#include "measure.h"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;

static pid_t start_guard(void)
{
    struct pollfd launcher = {.fd = (int)syscall(SYS_pidfd_open, getpid(), 0), .events = POLLIN};
    pid_t guard = fork();

    if (guard < 0 || launcher.fd < 0)
        bench_die("guard: %s", strerror(errno));
    if (guard == 0) {
        poll(&launcher, 1, -1);
        _exit(0);
    }
    return guard;
}

int main(int argc, char **argv)
{
    int guarded = argc > 1 && strcmp(argv[1], "guard") == 0, copies;
    char **command = argv + 2 + guarded;
    pid_t children[64], guard = 0;

    if (argc < 3 + guarded)
        bench_die("usage: floor [guard] COPIES COMMAND [ARGUMENT...]");
    copies = (int)bench_number(argv[1 + guarded], 1, 64);
    alarm(120);
    if (guarded)
        guard = start_guard();
    for (int i = 0; i < copies; i++) {
        int rc = posix_spawnp(&children[i], command[0], NULL, NULL, command, environ);

        if (rc)
            bench_die("%s: %s", command[0], strerror(rc));
    }
    for (int i = 0; i < copies; i++)
        bench_reap(children[i], command[0]);
    if (guarded) {
        kill(guard, SIGKILL);
        waitpid(guard, NULL, 0);
    }
    return 0;
}
