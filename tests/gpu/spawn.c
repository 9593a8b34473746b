/* tests/gpu/spawn.c: a program that is run with a limit, and what it wrote. */
#include "gpu.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double whole_end = 1e18;

void gpu_limit(double seconds)
{
    whole_end = seconds_now() + seconds;
}

double gpu_seconds_left(void)
{
    return whole_end - seconds_now();
}

/* The environment with `more` in front: the first of two is what getenv() finds, and a shell takes the last. */
static char **environment_with(const char *const more[])
{
    size_t count = 0, n = 0;
    char **all;

    while (environ[count])
        count++;
    for (size_t i = 0; more && more[i]; i++)
        n++;
    all = calloc(count + n + 1, sizeof *all);
    if (!all)
        abort();
    n = 0;
    for (size_t i = 0; more && more[i]; i++)
        all[n++] = (char *)more[i];
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(environ[i], "=") + 1;
        bool is_replaced = false;

        for (size_t k = 0; more && more[k]; k++)
            is_replaced = is_replaced || strncmp(more[k], environ[i], len) == 0;
        if (!is_replaced)
            all[n++] = environ[i];
    }
    return all;
}

/* Once more what is there; false at its end. What exceeds the buffer is read and dropped. */
static bool output_read(int fd, char *text, size_t *len)
{
    char rest[4096];
    size_t room = GPU_OUTPUT_MAX - *len;
    ssize_t n = room ? read(fd, text + *len, room) : read(fd, rest, sizeof rest);

    if (n > 0 && room)
        *len += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct gpu_run gpu_run(const char *const argv[], const char *const env[], int limit_s)
{
    struct gpu_run run = {.status = -1, .out = calloc(1, GPU_OUTPUT_MAX + 1), .err = calloc(1, GPU_OUTPUT_MAX + 1)};
    char **all = environment_with(env);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    double start = seconds_now(), end = start + limit_s < whole_end ? start + limit_s : whole_end;
    size_t len[2] = {0, 0};
    int out[2], err[2], status = 0, rc;
    pid_t pid;

    if (!run.out || !run.err || pipe2(out, 0) || pipe2(err, 0))
        abort();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, out[i]);
        posix_spawn_file_actions_addclose(&actions, err[i]);
    }
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    rc = posix_spawnp(&pid, argv[0], &actions, &attributes, (char **)argv, all);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(all);
    close(out[1]);
    close(err[1]);
    if (rc) {
        snprintf(run.err, GPU_OUTPUT_MAX, "%s cannot be started: %s", argv[0], strerror(rc));
    } else {
        struct pollfd fds[2] = {{.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}};

        while (fds[0].fd >= 0 || fds[1].fd >= 0) {
            double left = end - seconds_now();

            if (left <= 0 && !run.is_late) {
                run.is_late = true;
                kill(-pid, SIGKILL);
                end += 5; /* a descendant in another group may hold the pipes: no longer than this */
            } else if (left <= 0) {
                break;
            }
            if (poll(fds, 2, left > 0 ? (int)(left * 1000) + 1 : 1) <= 0)
                continue;
            if (fds[0].revents && !output_read(out[0], run.out, &len[0]))
                fds[0].fd = -1;
            if (fds[1].revents && !output_read(err[0], run.err, &len[1]))
                fds[1].fd = -1;
        }
        if (!run.is_late)
            while (waitpid(pid, &status, WNOHANG) == 0 && seconds_now() < end)
                usleep(1000); /* sleep: it has closed its output, and ends or is ended */
        if (run.is_late || seconds_now() >= end) {
            kill(-pid, SIGKILL);
            for (int i = 0; i < 5000 && waitpid(pid, &status, WNOHANG) == 0; i++)
                usleep(1000); /* sleep: a process that a sick driver keeps cannot be killed, and is left */
        }
        run.status = status_of(status);
    }
    close(out[0]);
    close(err[0]);
    run.seconds = seconds_now() - start;
    return run;
}

void gpu_run_free(struct gpu_run *run)
{
    free(run->out);
    free(run->err);
}
