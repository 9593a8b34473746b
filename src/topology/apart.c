/*
 * topology/apart.c: a child that asks a vendor's library, and its answers.
 *
 * Each record goes through a pipe behind a header that names its owner and length: a library that writes to descriptors
 * which are not its own cannot be mistaken for an answer. The last header stands alone and says that all has been told.
 * The child is ended as soon as that is read, the time is over or the pipe is closed; by its pidfd, for a thread that
 * waits for all children of this process may have reaped it. A thread of ours may hold a lock of the loader's while we
 * fork: then the child hangs, and that is a silence like any other.
 */
#include "topology/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/status.h>

#define MAGIC      0x74726170u /* "part" */
#define REAP_MS    1000
#define STATUS_END 0u

struct header {
    uint32_t magic, size; /* 0: the end */
};

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void send_all(int fd, const void *bytes, size_t size)
{
    ssize_t n;

    do
        n = write(fd, bytes, size);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)size)
        _exit(1); /* nobody listens */
}

void mu_apart_tell(const struct mu_apart_pipe *pipe, const void *record)
{
    char whole[sizeof(struct header) + MU_APART_RECORD_MAX];
    struct header header = {MAGIC, (uint32_t)pipe->record_size};

    memcpy(whole, &header, sizeof header);
    memcpy(whole + sizeof header, record, pipe->record_size);
    send_all(pipe->fd, whole, sizeof header + pipe->record_size);
}

static void be_quiet(int keep)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) { /* libraries may be talkative */
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
    }
    if (keep > 3)
        close_range(3, (unsigned)keep - 1, 0);
    close_range((unsigned)keep + 1, ~0u, 0);
}

static _Noreturn void child_main(void (*tell)(const struct mu_apart_pipe *pipe, void *arg), void *arg,
                                 struct mu_apart_pipe pipe, pid_t parent)
{
    struct header end = {MAGIC, STATUS_END};
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    for (int number = 1; number < SIGRTMIN; number++) /* the caller's handlers are not for us to run */
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (pipe.fd <= 2) /* the caller has closed one of those, and the pipe got its number */
        pipe.fd = fcntl(pipe.fd, F_DUPFD_CLOEXEC, 3);
    be_quiet(pipe.fd);
    tell(&pipe, arg);
    send_all(pipe.fd, &end, sizeof end);
    _exit(0);
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

static int ms_left(uint64_t until)
{
    uint64_t now = muster_now_ns();

    return now >= until ? 0 : (int)((until - now) / 1000000) + 1;
}

/* 1: `size` bytes have come. 0: the pipe is closed. -1: the time is over. */
static int pipe_receive(int fd, char *to, size_t size, uint64_t until)
{
    size_t len = 0;

    while (len < size) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&pfd, 1, ms_left(until)) <= 0) {
            if (ms_left(until) == 0)
                return -1;
            continue;
        }
        n = read(fd, to + len, size - len);
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        len += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

/* 2: all has been told; 0, -1 as above; -2: these are no records. */
static int take_all(int fd, size_t record_size, unsigned limit_ms, void (*take)(const void *record, void *arg),
                    void *arg)
{
    _Alignas(max_align_t) char record[MU_APART_RECORD_MAX];
    uint64_t limit_ns = limit_ms * 1000000ull, end = muster_after_ns(limit_ns * MU_APART_LIMITS);
    struct header header;
    int rc;

    for (;;) {
        uint64_t until = muster_after_ns(limit_ns);

        if (until > end)
            until = end;
        rc = pipe_receive(fd, (char *)&header, sizeof header, until);
        if (rc < 1)
            return rc;
        if (header.magic != MAGIC || (header.size != STATUS_END && header.size != record_size))
            return -2;
        if (header.size == STATUS_END)
            return 2;
        rc = pipe_receive(fd, record, record_size, until);
        if (rc < 1)
            return rc;
        take(record, arg);
    }
}

/* How the child has ended; -1: not known. It is ended if it has not by itself. */
static int child_end(pid_t child, int pidfd, int at_once)
{
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    uint64_t until = muster_after_ns(REAP_MS * 1000000ull);
    int status = -1;

    if (pidfd >= 0 && (at_once || poll(&pfd, 1, REAP_MS) != 1))
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    while (pidfd >= 0 && poll(&pfd, 1, ms_left(until)) < 0 && errno == EINTR)
        ;
    if (waitpid(child, &status, WNOHANG) != child)
        status = -1;
    if (pidfd >= 0)
        close(pidfd);
    return status;
}

static void say_why(int rc, int status, unsigned limit_ms, char *why, size_t size)
{
    if (rc == -1)
        snprintf(why, size, "no answer within %u s", (limit_ms + 999) / 1000);
    else if (rc == -2)
        snprintf(why, size, "something else than an answer was told");
    else if (status != -1 && WIFSIGNALED(status))
        snprintf(why, size, "asking it kills the process: signal %d (%s)", WTERMSIG(status),
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    else
        snprintf(why, size, "asking it ends the process");
}

int mu_apart(void (*tell)(const struct mu_apart_pipe *pipe, void *arg), void (*take)(const void *record, void *arg),
             void *arg, size_t record_size, unsigned limit_ms, char *ret_why, size_t size)
{
    pid_t parent = getpid(), child;
    int fds[2], pidfd, rc, status;

    if (record_size > MU_APART_RECORD_MAX || pipe2(fds, O_CLOEXEC)) {
        snprintf(ret_why, size, "no pipe: %s", strerror(record_size > MU_APART_RECORD_MAX ? E2BIG : errno));
        return -1;
    }
    child = fork();
    if (child == 0)
        child_main(tell, arg, (struct mu_apart_pipe){fds[1], record_size}, parent);
    close(fds[1]);
    if (child < 0) {
        snprintf(ret_why, size, "no process: %s", strerror(errno));
        close(fds[0]);
        return -1;
    }
    pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    rc = take_all(fds[0], record_size, limit_ms, take, arg);
    close(fds[0]);
    status = child_end(child, pidfd, rc != 0);
    if (rc == 2)
        return 0;
    say_why(rc, status, limit_ms, ret_why, size);
    return rc == 0 ? MU_APART_DIED : -1;
}
