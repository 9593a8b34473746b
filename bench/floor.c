/*
 * bench/floor.c: the least that a launcher can be: N copies of a command are started and reaped, and nothing else is
 * done. As a launcher is, it is measured with its own exec and exit (bench/spawn.c).
 *
 * They are started by posix_spawn, which waits until each has exec'ed; or, with `clone`, as muster starts its tasks: in
 * this program's memory, each on a stack of its own, while the next is made.
 *
 * With `guard` it has a second process beside it, as muster has: forked before the copies are started, asleep until
 * the first one is dead, killed and reaped behind them. It does nothing, so it is a limit, not a launcher.
 *
 * Usage: floor [clone] [guard] COPIES COMMAND [ARGUMENT…]
 */
#include "measure.h"

#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
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

/* Where the command is: as a shell, once for all copies. */
static const char *find(const char *name)
{
    static char file[4096];
    const char *path = getenv("PATH");

    for (const char *at = path ? path : "/usr/bin:/bin", *end; !strchr(name, '/'); at = end + 1) {
        end = strchrnul(at, ':');
        snprintf(file, sizeof file, "%.*s/%s", (int)(end - at), at, name);
        if (access(file, X_OK) == 0)
            return file;
        if (!*end)
            bench_die("%s: not found", name);
    }
    return name;
}

struct copy {
    const char *file;
    char **command;
};

/* Beside us, in our memory, until exec: no libc, but for the wrappers of two system calls. */
static int run_copy(void *arg)
{
    const struct copy *copy = arg;

    execve(copy->file, copy->command, environ);
    _exit(127);
}

static void clone_all(pid_t *children, int copies, char **command)
{
    enum { STACK = 8192 };
    struct copy copy = {find(command[0]), command};
    char *stacks = mmap(NULL, (size_t)copies * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stacks == MAP_FAILED)
        bench_die("mmap: %s", strerror(errno));
    for (int i = 0; i < copies; i++) {
        children[i] = clone(run_copy, stacks + (size_t)(i + 1) * STACK, CLONE_VM | SIGCHLD, &copy);
        if (children[i] < 0)
            bench_die("clone: %s", strerror(errno));
    }
    for (int i = 0; i < copies; i++)
        bench_reap(children[i], command[0]);
}

static void spawn_all(pid_t *children, int copies, char **command)
{
    for (int i = 0; i < copies; i++) {
        int rc = posix_spawnp(&children[i], command[0], NULL, NULL, command, environ);

        if (rc)
            bench_die("%s: %s", command[0], strerror(rc));
    }
    for (int i = 0; i < copies; i++)
        bench_reap(children[i], command[0]);
}

int main(int argc, char **argv)
{
    int cloned = argc > 1 && strcmp(argv[1], "clone") == 0;
    int guarded = argc > 1 + cloned && strcmp(argv[1 + cloned], "guard") == 0, copies;
    char **command = argv + 2 + cloned + guarded;
    pid_t children[64], guard = 0;

    if (argc < 3 + cloned + guarded)
        bench_die("usage: floor [clone] [guard] COPIES COMMAND [ARGUMENT...]");
    copies = (int)bench_number(argv[1 + cloned + guarded], 1, 64);
    alarm(120);
    if (guarded)
        guard = start_guard();
    if (cloned)
        clone_all(children, copies, command);
    else
        spawn_all(children, copies, command);
    if (guarded) {
        kill(guard, SIGKILL);
        waitpid(guard, NULL, 0);
    }
    return 0;
}
