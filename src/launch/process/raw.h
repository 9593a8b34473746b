/*
 * launch/process/raw.h: system calls for a process that shares the memory, and so the errno, of another that runs.
 *
 * libc's wrappers report failures in errno, which lies in memory that belongs to the thread that made the child: both
 * would write it at once. These return the kernel's answer, a negative errno for a failure, and touch nothing. Where
 * they are not written for the machine, MU_RAW_IS_APART is 0: libc makes the calls, and the maker must sleep meanwhile.
 */
#ifndef MU_LAUNCH_PROCESS_RAW_H
#define MU_LAUNCH_PROCESS_RAW_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A function on a stack that is left by exec, never by return: sanitizers must not keep notes about its frames. */
#define MU_RAW_ON_CHILD_STACK __attribute__((no_sanitize_address, no_sanitize_thread))

#if defined(__x86_64__) && !defined(__ILP32__)
#define MU_RAW_IS_APART 1
MU_RAW_ON_CHILD_STACK static inline long mu_raw4(long number, long a, long b, long c, long d)
{
    register long fourth __asm__("r10") = d;
    long answer;

    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return answer;
}
#elif defined(__aarch64__) && !defined(__ILP32__)
#define MU_RAW_IS_APART 1
MU_RAW_ON_CHILD_STACK static inline long mu_raw4(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                     x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#define MU_RAW_IS_APART 0
MU_RAW_ON_CHILD_STACK static inline long mu_raw4(long number, long a, long b, long c, long d)
{
    long answer = syscall(number, a, b, c, d);

    return answer < 0 ? -errno : answer;
}
#endif

/* Arguments are numbers or pointers: (long) fits both. */
#define mu_raw(number, a, b, c, d) mu_raw4((number), (long)(a), (long)(b), (long)(c), (long)(d))

#endif
