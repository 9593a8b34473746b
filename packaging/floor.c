/*
 * packaging/floor.c: what muster calls of glibc that glibc 2.28 does not have, for what is linked by floor.py.
 *
 * Each is hidden, does what glibc's own does, and keeps nothing. The kernel's struct stat is glibc's on the machines
 * that wheels are made for. Where the kernel has no such call it says ENOSYS, as it does to glibc's.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the layout of struct stat, and the calls that fill it, are only known for x86-64 and arm64"
#endif

#define LOCAL __attribute__((visibility("hidden")))

/* glibc 2.33: before, they were inline functions of its headers. */
LOCAL int fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

LOCAL int stat(const char *path, struct stat *st)
{
    return fstatat(AT_FDCWD, path, st, 0);
}

LOCAL int lstat(const char *path, struct stat *st)
{
    return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

LOCAL int fstat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

/* The names with 64, which the archives of libuv and others call: the same structure. */
LOCAL int stat64(const char *path, struct stat64 *st) __attribute__((alias("stat")));
LOCAL int lstat64(const char *path, struct stat64 *st) __attribute__((alias("lstat")));
LOCAL int fstat64(int fd, struct stat64 *st) __attribute__((alias("fstat")));
LOCAL int fstatat64(int dir, const char *path, struct stat64 *st, int flags) __attribute__((alias("fstatat")));

/* glibc 2.30 */
LOCAL pid_t gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* glibc 2.34 */
LOCAL int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

/* glibc 2.32. NULL: a signal without a name, SIGRTMIN for one. */
LOCAL const char *sigabbrev_np(int number)
{
#define NAME(name) [SIG##name] = #name
    static const char *const names[] = {
        NAME(HUP),  NAME(INT),  NAME(QUIT), NAME(ILL),  NAME(TRAP), NAME(ABRT),  NAME(BUS),    NAME(FPE),
        NAME(KILL), NAME(USR1), NAME(SEGV), NAME(USR2), NAME(PIPE), NAME(ALRM),  NAME(TERM),   NAME(STKFLT),
        NAME(CHLD), NAME(CONT), NAME(STOP), NAME(TSTP), NAME(TTIN), NAME(TTOU),  NAME(URG),    NAME(XCPU),
        NAME(XFSZ), NAME(PROF), NAME(POLL), NAME(PWR),  NAME(SYS),  NAME(WINCH), NAME(VTALRM),
    };
#undef NAME

    return number >= 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

/* glibc 2.30. The older sem_timedwait() knows the clock of the day alone, which may be set: so it is looked at. */
LOCAL int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *deadline)
{
    const struct timespec pause = {.tv_nsec = 50000};
    struct timespec now;

    while (sem_trywait(sem)) {
        if (errno != EAGAIN)
            return -1;
        if (clock_gettime(clock, &now))
            return -1;
        if (now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec)) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (nanosleep(&pause, NULL))
            return -1; /* EINTR, as sem_clockwait() says it */
    }
    return 0;
}
