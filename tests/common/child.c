/*
 * tests/common/child.c: processes of a test. A child dies with its parent (PDEATHSIG), whatever happens to either.
 */
#include "child.h"

#include <muster/status.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t test_fork(int (*fn)(void *arg), void *arg)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    _exit(fn(arg));
}

int test_reap(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int test_in_child(int (*fn)(void *arg), void *arg)
{
    return test_reap(test_fork(fn, arg));
}

void test_check(int ok, const char *condition, const char *file, int line)
{
    if (ok)
        return;
    printf("%s:%d: process %d: not so: %s (last error: %s)\n", file, line, (int)getpid(), condition,
           muster_last_error());
    fflush(stdout);
    _exit(1);
}

int test_gate_open(struct test_gate *g)
{
    return pipe(g->to_child) || pipe(g->to_parent) ? -1 : 0;
}

void test_gate_close(struct test_gate *g)
{
    for (int i = 0; i < 2; i++) {
        close(g->to_child[i]);
        close(g->to_parent[i]);
    }
}

static void put(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(1);
}

static void take(int fd)
{
    char c;

    if (read(fd, &c, 1) != 1)
        _exit(1);
}

void test_gate_arrive(struct test_gate *g)
{
    put(g->to_parent[1]);
}

void test_gate_await(struct test_gate *g)
{
    take(g->to_parent[0]);
}

void test_gate_release(struct test_gate *g)
{
    put(g->to_child[1]);
}

void test_gate_pass(struct test_gate *g)
{
    take(g->to_child[0]);
}

void test_until_asleep(pid_t pid)
{
    char path[64], text[512];

    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    for (;;) {
        struct timespec pause = {.tv_nsec = 1000000};
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        long number;

        if (f)
            fclose(f);
        text[n] = 0;
        number = strtol(text, NULL, 10);
        if (!n || number == SYS_futex || number == 449) /* gone; asleep; in futex_waitv, which older headers lack */
            return;
        nanosleep(&pause, NULL); /* sleep: between looks at /proc, which nobody can be woken by */
    }
}
