/*
 * plugins/guard.c: mu-guard, which sleeps for a launcher's guard until the guard's work begins.
 *
 * It is exec'ed by src/launch/guard/guard.c, with these descriptors and all signals blocked: 2, 3 the guard's table, 4
 * a pidfd of the launcher, 5 the launcher's executable. When the launcher is dead it execs that one, with its own words
 * and environment, and is the guard that does the work (src/launch/guard/watch.c). It makes three system calls and
 * nothing else, so it has no libc, which would take longer to be set up than a short job takes: two pages, and 0.1 ms
 * of a processor from exec to sleep.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <time.h>

#include "launch/process/raw.h"

#define EXE_PATH    "/proc/self/fd/5"
#define LAUNCHER_FD 4
#define PAUSE_NS    10000000
#define TRIES       3000 /* 30 s: the machine may have no memory or no processes for anybody when a launcher is killed */

static const char stranger[] = "mu-guard: this is started by 'muster run' and 'muster agent', for themselves alone\n";

static const char vain[] = "mu-guard: the launcher was killed, and its executable cannot be started to clean up "
                           "('muster segment list' and 'muster doctor' show what it left)\n";

__attribute__((noreturn)) static void end(int status)
{
    for (;;)
        mu_raw(SYS_exit_group, status, 0, 0, 0);
}

/* What the kernel puts on the stack: the number of words, the words, NULL, the environment, NULL. */
__attribute__((noreturn, used)) static void guard_main(char **stack)
{
    char **words = stack + 1, **environment = words + (intptr_t)stack[0] + 1;
    struct pollfd launcher = {.fd = LAUNCHER_FD, .events = POLLIN};
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    long rc;

    do
        rc = mu_raw(SYS_ppoll, &launcher, 1, NULL, NULL);
    while (rc == 0 || rc == -EINTR);
    if (rc < 0) /* the launcher has lost this guard, and forks one */
        end(1);
    if (launcher.revents & POLLNVAL) { /* nobody's guard: somebody is curious */
        mu_raw(SYS_write, 2, stranger, sizeof stranger - 1, 0);
        end(2);
    }
    for (int i = 0; i < TRIES; i++) {
        mu_raw(SYS_execve, EXE_PATH, words, environment, 0);
        mu_raw(SYS_nanosleep, &pause, NULL, 0, 0);
    }
    mu_raw(SYS_write, 2, vain, sizeof vain - 1, 0);
    end(1);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall guard_main\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tbl guard_main\n");
#endif
