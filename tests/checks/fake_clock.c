/*
 * tests/checks/fake_clock.c: a fake clock of the day, which jumps a day forth or back each time that it is read, or is
 * FAKE_CLOCK_SECONDS ahead where that is set. All other clocks are the kernel's. Loaded before libc by ours_test.py and
 * by bridge/clocks_test.py, into processes that must not care.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static int jumps;

static time_t jump(void)
{
    const char *ahead = getenv("FAKE_CLOCK_SECONDS");

    if (ahead)
        return strtol(ahead, NULL, 10);
    /* atomic: relaxed; which of the two it is does not matter */
    return __atomic_fetch_add(&jumps, 1, __ATOMIC_RELAXED) % 2 ? 86400 : -86400;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_time);

    if (!failed && clock == CLOCK_REALTIME)
        ret_time->tv_sec += jump();
    return failed;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret_time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_time)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
