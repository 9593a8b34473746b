/*
 * cli/doctor/kernel.c: the kernel's features, each tried as muster uses it, and its clocks.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* One feature: ok, or what its lack means, with the kernel that has it. */
static void feature_tell(struct mu_doctor_page *page, int error, enum mu_doctor_mark mark, const char *name,
                         const char *needs, const char *what, const char *lack)
{
    char why[320];

    if (!error)
        mu_doctor_say(page, MU_DOCTOR_OK, name, NULL, "%s", what);
    else
        mu_doctor_say(page, mark, name, mu_doctor_why_refused(needs, why), "%s: %s", strerror(error), lack);
}

/* The kernel looks at the word before it sleeps: EAGAIN is the right answer. */
static int try_futex_waitv(void)
{
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } waiter;
    uint32_t word = 1;

    memset(&waiter, 0, sizeof waiter);
    waiter.address = (uint64_t)(uintptr_t)&word;
    waiter.flags = 2; /* FUTEX_32 */
    if (syscall(SYS_futex_waitv, &waiter, 1u, 0u, NULL, CLOCK_MONOTONIC) == 0 || errno == EAGAIN)
        return 0;
    return errno;
}

static int try_pidfd_open(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0), error = errno;

    if (fd < 0)
        return error;
    error = syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) ? errno : 0;
    close(fd);
    return error;
}

static int clone_child(void *arg)
{
    (void)arg;
    return 7;
}

/* A process is started as the tasks are. */
static int try_clone(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int pidfd = -1, error = 0;
    siginfo_t info = {.si_status = 0};

    if (clone(clone_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, NULL, &pidfd) < 0)
        return errno;
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED))
        error = errno;
    else if (info.si_status != 7)
        error = EPROTO;
    close(pidfd);
    return error;
}

static int try_memfd(void)
{
    int fd = memfd_create("muster-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING), error = 0;

    if (fd < 0)
        return errno;
    if (ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        error = errno;
    close(fd);
    return error;
}

static _Noreturn void die_with_the_mutex(pthread_mutex_t *mutex, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_mutex_lock(mutex) == 0 && write(fd, "", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

/* A process that holds a robust mutex is killed; how long until another has it? 0 and the time, or an error. */
static int try_robust(pthread_mutex_t *mutex, uint64_t *ret_ns)
{
    struct timespec until;
    int ends[2], error;
    uint64_t start;
    pid_t child;
    char byte;

    if (pipe2(ends, O_CLOEXEC))
        return errno;
    child = fork();
    if (child == 0)
        die_with_the_mutex(mutex, ends[1]);
    close(ends[1]);
    if (child < 0 || read(ends[0], &byte, 1) != 1) {
        error = child < 0 ? errno : EPROTO;
        close(ends[0]);
        if (child > 0)
            waitpid(child, NULL, 0);
        return error;
    }
    close(ends[0]);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    start = muster_now_ns();
    kill(child, SIGKILL);
    error = pthread_mutex_timedlock(mutex, &until);
    *ret_ns = muster_now_ns() - start;
    waitpid(child, NULL, 0);
    return error == EOWNERDEAD ? 0 : error ? error : EPROTO;
}

static void robust_probe(struct mu_doctor_page *page)
{
    pthread_mutex_t *mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    uint64_t ns = 0;
    int error;

    if (mutex == MAP_FAILED)
        return;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    error = try_robust(mutex, &ns);
    if (error)
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "robust futexes",
                      "use a real Linux kernel: emulations of it (gVisor, WSL 1) may lack robust futexes",
                      "%s: a death would not be noticed", strerror(error));
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "robust futexes", NULL, "a killed owner was noticed after %.2f ms",
                      (double)ns / 1e6);
    munmap(mutex, sizeof *mutex);
}

void mu_doctor_kernel(struct mu_doctor_page *page)
{
    struct utsname name;

    if (uname(&name) == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "kernel", NULL, "%s %s on %s; each feature is tried below", name.sysname,
                      name.release, name.machine);
    feature_tell(page, try_futex_waitv(), MU_DOCTOR_NOTE, "futex_waitv", "use Linux 5.16 or newer",
                 "a sleeper waits for its word and for deaths at once",
                 "sleepers look again every millisecond instead");
    feature_tell(page, try_pidfd_open(), MU_DOCTOR_PROBLEM, "pidfd_open", "use Linux 5.4 or newer",
                 "processes are signalled without a race", "tasks cannot be supervised");
    feature_tell(page, try_clone(), MU_DOCTOR_PROBLEM, "clone", "use Linux 5.4 or newer",
                 "a process was started and reaped by its pidfd", "tasks cannot be started");
    feature_tell(page, try_memfd(), MU_DOCTOR_PROBLEM, "memfd", "use Linux 3.17 or newer",
                 "sealed; serves where /dev/shm does not", "the guard of 'muster run' cannot be started");
    feature_tell(page, syscall(SYS_close_range, ~0u, ~0u, 0u) ? errno : 0, MU_DOCTOR_NOTE, "close_range",
                 "use Linux 5.9 or newer", "the guard of 'muster run' keeps no descriptors",
                 "the guard of 'muster run' keeps its parent's descriptors open");
    feature_tell(page, prctl(PR_SET_CHILD_SUBREAPER, 1) ? errno : 0, MU_DOCTOR_NOTE, "subreaper",
                 "use Linux 3.4 or newer", "orphans come to the launcher",
                 "processes that tasks leave behind are not found");
    robust_probe(page);
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static double clock_ns(void)
{
    enum { CALLS = 20000 };
    double best = 1e9;

    for (int round = 0; round < 5; round++) {
        uint64_t start = muster_now_ns(), took;

        for (int i = 0; i < CALLS; i++)
            muster_now_ns();
        took = muster_now_ns() - start;
        if ((double)took / CALLS < best)
            best = (double)took / CALLS;
    }
    return best;
}

/* " word " in the line of flags that /proc/cpuinfo begins with. */
static bool has_flag(const char *cpuinfo, const char *word)
{
    const char *line = strstr(cpuinfo, "\nflags"), *end = line ? strchr(line + 1, '\n') : NULL;
    size_t len = strlen(word);

    for (const char *at = line; at && (at = strstr(at, word)) && (!end || at < end); at += len)
        if (at[-1] == ' ' && (at[len] == ' ' || at[len] == '\n'))
            return 1;
    return 0;
}

void mu_doctor_clock(struct mu_doctor_page *page)
{
    static char cpuinfo[16384];
    char source[64];
    double ns = clock_ns();

    if (mu_doctor_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source) < 0)
        snprintf(source, sizeof source, "an unknown source");
    if (ns > 200)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "clock",
                      "have the kernel use the time stamp counter: boot with tsc=reliable, or see why 'dmesg | grep "
                      "-i tsc' says it is unstable",
                      "clock_gettime takes %.0f ns (%s): a system call; short waits spin too long", ns, source);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "clock", NULL, "clock_gettime takes %.0f ns (%s)", ns, source);
    if (mu_doctor_read("/proc/cpuinfo", cpuinfo, sizeof cpuinfo) <= 0 || !has_flag(cpuinfo, "tsc"))
        return; /* not x86, or not to be seen: the clock above says what matters */
    if (has_flag(cpuinfo, "constant_tsc") && has_flag(cpuinfo, "nonstop_tsc"))
        mu_doctor_say(page, MU_DOCTOR_OK, "time stamp counter", NULL, "constant and never stopping");
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, "time stamp counter",
                      "in a virtual machine, pass the host's CPU through (for QEMU -cpu host,+invtsc)",
                      "%s: clocks may be slow",
                      has_flag(cpuinfo, "constant_tsc") ? "stops in sleep states" : "changes its pace");
}
