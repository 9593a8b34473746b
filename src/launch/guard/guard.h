/*
 * launch/guard/guard.h: what the launcher, its guard and an adopter of the job know of each other.
 *
 * The table is written by the launcher alone and read by the guard only after the launcher's death, which the kernel
 * reports after every store of the dead; so plain stores do (volatile: the compiler shall not put them off). An adopter
 * holds a lock of the table's file, which its death releases; `over` is the one word that it writes.
 */
#ifndef MU_LAUNCH_GUARD_GUARD_H
#define MU_LAUNCH_GUARD_GUARD_H

#include <stdatomic.h>

#include "base/unix_socket.h"
#include "launch/launch.h"
#include "sync/shm.h"

/* A Unix socket of the launcher's; "": none. */
struct mu_guard_socket {
    char path[MU_UNIX_PATH_MAX];
    dev_t device;
    ino_t file; /* 0: it is being made */
};

struct mu_guard_table {
    char directory[4096]; /* in which the sockets' paths begin. First: a page that most jobs never touch */
    pid_t launcher, session;
    uint32_t num_tasks, num_commands;
    int survive;         /* the tasks are to outlive the launcher */
    sigset_t mask;       /* the guard's */
    struct rlimit files; /* the guard's RLIMIT_NOFILE */
    char job[208], run_id[40];
    struct mu_launch_role part;
    dev_t device;     /* of the segment's file, before that has a name */
    ino_t file;       /* 0: there is none */
    char folder[256]; /* of the launcher's, that goes with it; "": none */
    struct mu_guard_socket sockets[MU_LAUNCH_SOCKETS];
    volatile int has_part; /* set after it, cleared before */
    volatile int over;     /* an adopter has cleaned up */
    /* not 0 until the guard, in a session of its own, clears it (is_apart(), guard_program_main()); read by
     * mu_launch_await_word() */
    mu_a32 beside_us;
    volatile pid_t groups[]; /* of the tasks, then of the commands that start other hosts */
};

static inline size_t mu_guard_table_size(uint32_t num_tasks, uint32_t num_commands)
{
    return sizeof(struct mu_guard_table) + ((size_t)num_tasks + num_commands) * sizeof(pid_t);
}

/* All of a table's file, NULL: it is none. */
struct mu_guard_table *mu_guard_map(int table_fd);
/* The lock of the agent that has adopted the job: F_WRLCK or F_UNLCK. 0, or -1: another one has it. */
int mu_guard_lock(int table_fd, int type);

/* The guard's life, in a process of its own, forked from the launcher: its exit status. `environment`: as it is to be
 * shown. */
int mu_guard_forked(struct mu_guard_table *table, int table_fd, int launcher_fd, char **environment);

/* spawn.c: until a child has cleared the word, or the kernel has: that it does when the child lets go of our memory, by
 * exec or by its end (CLONE_CHILD_CLEARTID). Or until the child has ended. */
void mu_launch_await_word(mu_a32 *word, pid_t pid);

/* The descriptors of a guard that was exec'ed: also what plugins/guard.c goes by. */
enum { MU_GUARD_TABLE_FD = 3, MU_GUARD_LAUNCHER_FD = 4, MU_GUARD_EXE_FD = 5 };

#endif
