/*
 * launch/guard/guard.c: what keeps a killed launcher from leaving anything behind: the launcher's side of it.
 *
 * The guard is a process of its own, made before the launcher has anything large in its memory, in its own session,
 * holding a pidfd of the launcher and a table that they share (guard.h). It sleeps until the kernel says that the
 * launcher is dead; what it does then is in guard/watch.c. A launcher that ends by itself has cleaned up by then and
 * kills the guard; one that lost its guard starts another.
 *
 * For all its life but the end the guard has one thing to do, sleep. So where there is one, a program of a few system
 * calls does that, mu-guard (plugins/guard.c): begun in the launcher's memory, as tasks are (spawn.c), it is on its
 * way to exec while the launcher goes on, has two pages, and execs this executable when its work begins: the very file
 * that the launcher is, by a descriptor, whatever has become of its name. Else the launcher is forked: that takes 0.1
 * ms of its time, as much again when pages are copied that both have, and as much at its end. An executable that libc
 * has to set up would take 0.7 ms of a processor.
 */
#include "launch/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "launch/process/raw.h"

#define PROGRAM_STACK 8192 /* system calls take less than a page */
#define PROGRAM_FILES 32   /* the least limit: it starts with six open, and a loader and its work take some more */
#define ASIDE         10   /* a descriptor above those that the guard is to have */

struct mu_launch_guard {
    struct mu_guard_table *table;
    size_t table_size;
    int table_fd, launcher_fd;
    struct mu_launch_env env;
    pid_t pid;
    int pidfd, settled;
    char program[4096]; /* the program that sleeps for it; "": there is none, or one has ended: it may not be let */
    char *words[3];
    /* not 0 from guard_program_begin() until the kernel, having done with the child's stores, clears it; read by
     * mu_launch_await_word() */
    _Atomic uint32_t on_its_way;
    _Alignas(16) char stack[PROGRAM_STACK];
};

/* ---- a guard that is exec'ed --------------------------------------------------------------------------------------
 */

/* 0, or a negative errno. */
MU_RAW_ON_CHILD_STACK static long put_in_order(const struct mu_launch_guard *guard)
{
    const int sources[2] = {guard->table_fd, guard->launcher_fd};
    long aside[3], null_fd, exe_fd, rc = 0;

    null_fd = mu_raw(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    exe_fd = mu_raw(SYS_openat, AT_FDCWD, "/proc/self/exe", O_PATH, 0);
    if (null_fd < 0 || exe_fd < 0)
        return null_fd < 0 ? null_fd : exe_fd;
    for (int i = 0; i < 3 && rc >= 0; i++) /* out of the way first */
        rc = aside[i] = mu_raw(SYS_fcntl, i < 2 ? sources[i] : exe_fd, F_DUPFD, ASIDE, 0);
    for (int i = 0; i < 2 && rc >= 0; i++)
        rc = mu_raw(SYS_dup3, null_fd, i, 0, 0);
    for (int i = 0; i < 3 && rc >= 0; i++)
        rc = mu_raw(SYS_dup3, aside[i], MU_GUARD_TABLE_FD + i, 0, 0);
    if (rc >= 0)
        rc = mu_raw(SYS_close_range, MU_GUARD_EXE_FD + 1, ~0u, 0, 0);
    return rc;
}

/* In the launcher's memory until exec, with all signals blocked, also behind it: until its work begins. */
MU_RAW_ON_CHILD_STACK static int guard_program_main(void *arg)
{
    struct mu_launch_guard *guard = arg;

    mu_raw(SYS_setsid, 0, 0, 0, 0);
    mu_store32_release(&guard->table->beside_us, 0); /* release: pairs with mu_launch_await_word() */
    mu_raw(SYS_futex, &guard->table->beside_us, FUTEX_WAKE, 1, 0);
    if (put_in_order(guard) >= 0 && mu_raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &guard->table->files, NULL) >= 0) {
        mu_raw(SYS_chdir, "/", 0, 0, 0); /* else it would keep a file system busy: no more than that */
        mu_raw(SYS_execve, guard->program, guard->words, guard->env.vars, 0);
        /* What was found there cannot be executed. The segment may have its name by now: no moment without a guard. */
        mu_raw(SYS_execve, "/proc/self/exe", guard->words, guard->env.vars, 0);
    }
    mu_raw(SYS_exit_group, 127, 0, 0, 0);
    return 127;
}

/* Beside the executable, as in the build's folder; or as it is installed. Ours or root's, and nobody else may write it,
 * nor has a stranger put a link there: a command may lie where others may put a file beside it. */
static void guard_program_find(struct mu_launch_guard *guard)
{
    static const char *const places[] = {MU_LAUNCH_GUARD_NAME, "../lib/muster/" MU_LAUNCH_GUARD_NAME};
    char self[sizeof guard->program - 64] = "", *slash;
    struct stat st, exe = {0};

    if (MU_RAW_IS_APART && stat("/proc/self/exe", &exe) == 0)
        mu_command_path(self, sizeof self);
    slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        snprintf(guard->program, sizeof guard->program, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (mu_is_beside(guard->program, (size_t)(slash - self), exe.st_uid) && stat(guard->program, &st) == 0 &&
            S_ISREG(st.st_mode) && !(st.st_mode & (S_IWGRP | S_IWOTH)) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
            access(guard->program, X_OK) == 0)
            return;
    }
    guard->program[0] = 0;
}

/* The pid; -1: there is no such program, or no such way of starting one. */
static pid_t guard_program_begin(struct mu_launch_guard *guard)
{
    static char name[] = MU_LAUNCH_GUARD_NAME;
    sigset_t all, before;
    pid_t pid;

    if (!guard->program[0])
        return -1;
    guard->words[0] = name;
    guard->words[1] = guard->table->job;
    /* relaxed, process-local: the child does not read it, and clone() is a barrier to the kernel */
    atomic_store_explicit(&guard->on_its_way, 1, memory_order_relaxed);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid =
        clone(guard_program_main, guard->stack + PROGRAM_STACK, CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD,
              guard, &guard->pidfd, NULL, &guard->on_its_way);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) /* relaxed, process-local: there is no child */
        atomic_store_explicit(&guard->on_its_way, 0, memory_order_relaxed);
    return pid;
}

/* ---- either -------------------------------------------------------------------------------------------------------
 */

static int guard_start(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure)
{
    pid_t pid;

    /* relaxed: the child that clears it is made below, and clone() and fork() are barriers to the kernel */
    mu_store32_relaxed(&guard->table->beside_us, 1);
    pid = guard_program_begin(guard);
    guard->pid = pid > 0 ? pid : 0;
    if (pid > 0)
        return 0;
    pid = fork(); /* libc's: it sees to it that the child can allocate memory, whatever our threads are doing */
    if (pid == 0)
        _exit(mu_guard_forked(guard->table, guard->table_fd, guard->launcher_fd, guard->env.vars));
    if (pid < 0) {
        *ret_failure = (struct mu_launch_failure){"fork", errno};
        return -1;
    }
    guard->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (guard->pidfd < 0) {
        *ret_failure = (struct mu_launch_failure){"pidfd_open", errno};
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return -1;
    }
    guard->pid = pid;
    return 0;
}

void mu_launch_guard_reap(struct mu_launch_guard *guard)
{
    siginfo_t info;

    if (!guard->pid)
        return;
    while (waitid(P_PIDFD, (id_t)guard->pidfd, &info, WEXITED) && errno == EINTR)
        ;
    close(guard->pidfd);
    guard->pid = 0;
    guard->program[0] = 0; /* whatever ended it: the next is forked */
    /* relaxed, process-local: a core dump leaves it, on old kernels */
    atomic_store_explicit(&guard->on_its_way, 0, memory_order_relaxed);
}

void mu_launch_guard_await(struct mu_launch_guard *guard)
{
    if (guard && guard->pid)
        mu_launch_await_word(&guard->table->beside_us, guard->pid);
}

int mu_launch_guard_settle(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure)
{
    siginfo_t info = {.si_pid = 0};

    if (!guard->pid || !guard->program[0] || guard->settled)
        return 0;
    guard->settled = 1;
    mu_launch_await_word(&guard->on_its_way, guard->pid);
    if (waitid(P_PIDFD, (id_t)guard->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
        return 0;
    mu_launch_guard_reap(guard);
    return mu_launch_guard_restart(guard, ret_failure);
}

static void guard_release(struct mu_launch_guard *guard)
{
    if (guard->table)
        munmap(guard->table, guard->table_size);
    if (guard->table_fd >= 0)
        close(guard->table_fd);
    if (guard->launcher_fd >= 0)
        close(guard->launcher_fd);
    mu_launch_env_done(&guard->env);
    free(guard);
}

int mu_launch_guard_start(const struct mu_launch_guarded *guarded, struct mu_launch_guard **ret_guard,
                          struct mu_launch_failure *ret_failure)
{
    struct mu_launch_guard *guard = calloc(1, sizeof *guard);

    *ret_failure = (struct mu_launch_failure){"guard", ENOMEM};
    if (!guard)
        return -1;
    guard->table_fd = guard->launcher_fd = -1;
    if (mu_launch_env_init(&guard->env, environ, NULL)) {
        guard_release(guard);
        return -1;
    }
    guard->table_size = mu_guard_table_size(guarded->num_tasks, guarded->num_commands);
    guard->launcher_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    guard->table_fd = memfd_create("mu-guard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (!mu_process_may_have(guard->table_size))
        errno = EFBIG;
    else if (guard->launcher_fd >= 0 && guard->table_fd >= 0 &&
             ftruncate(guard->table_fd, (off_t)guard->table_size) == 0)
        guard->table = mmap(NULL, guard->table_size, PROT_READ | PROT_WRITE, MAP_SHARED, guard->table_fd, 0);
    if (guard->table && guard->table != MAP_FAILED) /* an adopter of the job maps it, too */
        fcntl(guard->table_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (!guard->table || guard->table == MAP_FAILED) {
        ret_failure->error = errno;
        guard->table = NULL;
        guard_release(guard);
        return -1;
    }
    guard->table->launcher = getpid();
    guard->table->session = getsid(0);
    guard->table->num_tasks = guarded->num_tasks;
    guard->table->num_commands = guarded->num_commands;
    guard->table->survive = guarded->survive;
    guard->table->mask = guarded->mask;
    guard->table->files = guarded->files;
    snprintf(guard->table->job, sizeof guard->table->job, "%s", guarded->job);
    snprintf(guard->table->run_id, sizeof guard->table->run_id, "%s", guarded->run_id);
    if (guarded->files.rlim_cur >= PROGRAM_FILES)
        guard_program_find(guard);
    if (guard_start(guard, ret_failure)) {
        guard_release(guard);
        return -1;
    }
    *ret_guard = guard;
    return 0;
}

void mu_launch_guard_task(struct mu_launch_guard *guard, uint32_t task_id, pid_t group)
{
    guard->table->groups[task_id] = group;
}

void mu_launch_guard_command(struct mu_launch_guard *guard, uint32_t host, pid_t group)
{
    guard->table->groups[guard->table->num_tasks + host] = group;
}

void mu_launch_guard_part(struct mu_launch_guard *guard, const struct mu_launch_role *part)
{
    if (!guard)
        return;
    guard->table->has_part = 0;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: the compiler's order alone; our death is between us and
                                                  the reader */
    if (!part)
        return;
    guard->table->part = *part;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: likewise */
    guard->table->has_part = 1;
}

pid_t mu_launch_guard_pid(const struct mu_launch_guard *guard)
{
    return guard ? guard->pid : 0;
}

/* Half a name is none, where we are killed in it. */
static void put_name(char *name, const char *text)
{
    name[0] = 0;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: as in mu_launch_guard_part() */
    if (text[0])
        memcpy(name + 1, text + 1, strlen(text));
    atomic_signal_fence(memory_order_seq_cst); /* process-local: likewise */
    name[0] = text[0];
}

void mu_launch_guard_folder(struct mu_launch_guard *guard, const char *path)
{
    if (guard)
        put_name(guard->table->folder, path && strlen(path) < sizeof guard->table->folder ? path : "");
}

void mu_launch_guard_segment(struct mu_launch_guard *guard, dev_t device, ino_t file)
{
    if (!guard)
        return;
    guard->table->device = device;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: as in mu_launch_guard_part() */
    guard->table->file = file;
}

void mu_launch_guard_socket(struct mu_launch_guard *guard, enum mu_launch_socket which, const char *address, int made)
{
    const char *path = address && strncmp(address, "unix:", 5) == 0 ? address + 5 : "";
    struct mu_guard_socket *at;
    struct stat st = {.st_ino = 0};

    if (!guard)
        return;
    at = &guard->table->sockets[which];
    put_name(at->path, "");
    if (!path[0] || strlen(path) >= sizeof at->path || (made && lstat(path, &st)))
        return;
    if (!getcwd(guard->table->directory, sizeof guard->table->directory))
        guard->table->directory[0] = 0;
    at->device = st.st_dev;
    at->file = st.st_ino;
    put_name(at->path, path);
}

int mu_launch_guard_restart(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure)
{
    int rc = guard_start(guard, ret_failure);

    mu_launch_guard_await(guard); /* there is a segment to remove, so it is not to die with our process group */
    return rc;
}

void mu_launch_guard_dismiss(struct mu_launch_guard *guard)
{
    if (guard && guard->pid)
        syscall(SYS_pidfd_send_signal, guard->pidfd, SIGKILL, NULL, 0);
}

void mu_launch_guard_free(struct mu_launch_guard *guard)
{
    if (!guard)
        return;
    mu_launch_guard_reap(guard);
    guard_release(guard);
}
