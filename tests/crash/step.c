/*
 * tests/crash/step.c: ptrace: stepping a process, and copying it where it stands.
 *
 * A copy is made by letting the stopped process execute a clone system call of ours, from its own text, with its
 * registers put back afterwards; the copy then executes an mmap, which gives it a world of its own. CLONE_PARENT makes
 * it our child, so that we can wait for it.
 */
#include "step.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum { QUIET = 8 };     /* after so many steps without a write it runs on to the next */
enum { VEIL_OPEN = 2 }; /* pages that it may be in without a stop */

bool step_start(struct stepper *s, void (*fn)(void *arg), void *arg)
{
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE;
    int status;

    *s = (struct stepper){.pid = _Fork()};
    if (!s->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        raise(SIGSTOP);
        fn(arg);
        _exit(0);
    }
    if (s->pid < 0 || waitpid(s->pid, &status, 0) != s->pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, s->pid, NULL, (void *)options)) {
        printf("single-stepping is not allowed here: %s\n", strerror(errno));
        return false;
    }
    return true;
}

static void explain(struct stepper *s, int status)
{
    s->ended = true;
    if (WIFSIGNALED(status))
        crash_bad("the stepped process was killed by signal %d after %llu steps", WTERMSIG(status),
                  (unsigned long long)s->steps);
    else if (WEXITSTATUS(status))
        crash_bad("the stepped process exited with %d", WEXITSTATUS(status));
}

bool step_one(struct stepper *s)
{
    long sig = 0;
    int status;

    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, s->pid, NULL, (void *)sig) || waitpid(s->pid, &status, __WALL) != s->pid) {
            crash_bad("ptrace: %s", strerror(errno));
            s->ended = true;
            return false;
        }
        if (!WIFSTOPPED(status)) {
            explain(s, status);
            return false;
        }
        if (WSTOPSIG(status) == SIGTRAP)
            break;
        sig = WSTOPSIG(status);
    }
    s->steps++;
    board->steps++;
    return true;
}

static void reap(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
        continue;
}

void step_kill(struct stepper *s)
{
    if (!s->ended)
        reap(s->pid);
    s->ended = true;
}

void step_finish(pid_t copy)
{
    long sig = 0;
    int status;

    alarm(60); /* the default action ends us, and PTRACE_O_EXITKILL the copy: a hang is a failure */
    for (;;) {
        if (ptrace(PTRACE_CONT, copy, NULL, (void *)sig) || waitpid(copy, &status, __WALL) != copy) {
            crash_bad("ptrace: %s", strerror(errno));
            break;
        }
        if (!WIFSTOPPED(status)) {
            if (WIFSIGNALED(status))
                crash_bad("the resumed process was killed by signal %d", WTERMSIG(status));
            else if (WEXITSTATUS(status))
                crash_bad("the resumed process exited with %d", WEXITSTATUS(status));
            break;
        }
        sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    }
    alarm(0);
}

#ifdef __x86_64__
__asm__(".text\n.globl crash_syscall\ncrash_syscall:\n syscall\n nop\n nop\n");
extern const char crash_syscall[];

const char *step_clone_refused(void)
{
    return NULL;
}

static bool wait_stop(pid_t pid, int *event)
{
    int status;

    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        return false;
    *event = status >> 16;
    return true;
}

/* Let the stopped process execute a system call and put its registers back; its result, or -1. */
static long long inject(pid_t pid, long number, unsigned long long a, unsigned long long b, unsigned long long c,
                        unsigned long long d, unsigned long long e)
{
    struct user_regs_struct saved, r;
    int event;

    if (ptrace(PTRACE_GETREGS, pid, NULL, &saved))
        return -1;
    r = saved;
    r.rip = (uintptr_t)crash_syscall;
    r.orig_rax = (unsigned long long)-1;
    r.rax = (unsigned long long)number;
    r.rdi = a;
    r.rsi = b;
    r.rdx = c;
    r.r10 = d;
    r.r8 = e;
    r.r9 = 0;
    if (ptrace(PTRACE_SETREGS, pid, NULL, &r) || ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) ||
        !wait_stop(pid, &event) || ptrace(PTRACE_GETREGS, pid, NULL, &r) || ptrace(PTRACE_SETREGS, pid, NULL, &saved))
        return -1;
    return (long long)r.rax;
}

/* The copy maps its world. */
static bool give_world(pid_t copy, const struct user_regs_struct *saved, void *where, size_t size, int fd)
{
    if (inject(copy, SYS_mmap, (uintptr_t)where, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               (unsigned long long)fd) != (long long)(uintptr_t)where)
        return false;
    return ptrace(PTRACE_SETREGS, copy, NULL, saved) == 0;
}

static bool protect(pid_t pid, uintptr_t where, size_t size, int how)
{
    if (!inject(pid, SYS_mprotect, where, size, (unsigned long long)how, 0, 0))
        return true;
    crash_bad("memory cannot be protected in the stepped process: %s", strerror(errno));
    return false;
}

static bool shut(struct stepper *s)
{
    s->num_open = s->quiet = 0;
    return protect(s->pid, (uintptr_t)s->where, s->size, PROT_READ);
}

bool step_guard(struct stepper *s, void *where, size_t size)
{
    s->where = where;
    s->size = size;
    return shut(s);
}

/* The process stopped by a SIGSEGV: if it wanted to write to a guarded page, let it. */
static bool let_in(struct stepper *s)
{
    siginfo_t info;
    uint8_t *at;

    if (ptrace(PTRACE_GETSIGINFO, s->pid, NULL, &info))
        return false;
    at = info.si_addr;
    if (at < s->where || at >= s->where + s->size)
        return false; /* its own fault: the signal is delivered and ends it */
    if (s->num_open == STEP_OPEN_MAX && !shut(s))
        return false;
    s->open[s->num_open] = (uint32_t)((size_t)(at - s->where) / 4096);
    return protect(s->pid, (uintptr_t)s->where + 4096ull * s->open[s->num_open++], 4096, PROT_READ | PROT_WRITE);
}

/* Resume, by one instruction or on and on. Its stop's signal; -1: it has ended (a complaint when not well). */
static int resume(struct stepper *s, bool one, long sig)
{
    int status;

    if (ptrace(one ? PTRACE_SINGLESTEP : PTRACE_CONT, s->pid, NULL, (void *)sig) ||
        waitpid(s->pid, &status, __WALL) != s->pid) {
        crash_bad("ptrace: %s", strerror(errno));
        s->ended = true;
        return -1;
    }
    if (WIFSTOPPED(status))
        return WSTOPSIG(status);
    explain(s, status);
    return -1;
}

static void count_step(struct stepper *s)
{
    s->steps++;
    board->steps++;
}

bool step_on(struct stepper *s)
{
    int sig = 0;

    if (s->quiet >= QUIET && !shut(s))
        return false;
    while ((sig = resume(s, s->num_open, sig)) != SIGTRAP) {
        if (sig < 0)
            return false;
        if (sig == SIGSEGV && let_in(s))
            sig = 0;
    }
    s->quiet++;
    count_step(s);
    return true;
}

bool step_veil(struct stepper *s, void *where, size_t size)
{
    s->where = where;
    s->size = size;
    s->num_open = 0;
    return protect(s->pid, (uintptr_t)where, size, PROT_NONE);
}

bool step_touch(struct stepper *s, bool one)
{
    int sig = 0;

    while ((sig = resume(s, one, sig)) != SIGTRAP) {
        if (sig < 0)
            return false;
        if (sig != SIGSEGV)
            continue;
        if (!let_in(s))
            continue;
        if (s->num_open > VEIL_OPEN) { /* the one opened first goes; an instruction may need several */
            if (!protect(s->pid, (uintptr_t)s->where + 4096ull * s->open[0], 4096, PROT_NONE))
                return false;
            memmove(s->open, s->open + 1, --s->num_open * sizeof s->open[0]);
        }
        s->touches++;
        return true;
    }
    count_step(s);
    return true;
}

void step_wrote(struct stepper *s)
{
    s->quiet = 0;
}

pid_t step_clone(struct stepper *s, void *where, size_t size, int fd)
{
    struct user_regs_struct saved, r;
    unsigned long message = 0;
    int event = 0;
    pid_t copy;

    if (ptrace(PTRACE_GETREGS, s->pid, NULL, &saved)) {
        crash_bad("ptrace: %s", strerror(errno));
        return 0;
    }
    r = saved;
    r.rip = (uintptr_t)crash_syscall;
    r.orig_rax = (unsigned long long)-1;
    r.rax = SYS_clone;
    r.rdi = CLONE_PARENT | SIGCHLD;
    r.rsi = r.rdx = r.r10 = r.r8 = 0;
    if (ptrace(PTRACE_SETREGS, s->pid, NULL, &r) || ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL) ||
        !wait_stop(s->pid, &event) || !event || ptrace(PTRACE_GETEVENTMSG, s->pid, NULL, &message)) {
        crash_bad("the process cannot be copied where it stands: %s", strerror(errno));
        return 0;
    }
    copy = (pid_t)message;
    if (!wait_stop(copy, &event) || ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL) || !wait_stop(s->pid, &event) ||
        ptrace(PTRACE_SETREGS, s->pid, NULL, &saved) || !give_world(copy, &saved, where, size, fd)) {
        crash_bad("the copy cannot be given its world: %s", strerror(errno));
        return 0;
    }
    return copy;
}
#else
const char *step_clone_refused(void)
{
    return "copying a stopped process is written for x86-64 only";
}

pid_t step_clone(struct stepper *s, void *where, size_t size, int fd)
{
    (void)s, (void)where, (void)size, (void)fd;
    return 0;
}

bool step_guard(struct stepper *s, void *where, size_t size)
{
    (void)s, (void)where, (void)size;
    return false;
}

bool step_on(struct stepper *s)
{
    (void)s;
    return false;
}

void step_wrote(struct stepper *s)
{
    (void)s;
}

bool step_veil(struct stepper *s, void *where, size_t size)
{
    (void)s, (void)where, (void)size;
    return false;
}

bool step_touch(struct stepper *s, bool one)
{
    (void)s, (void)one;
    return false;
}
#endif
