/*
 * launch/bind_private.h: what the files behind launch/bind.h share.
 */
#ifndef MU_LAUNCH_BIND_PRIVATE_H
#define MU_LAUNCH_BIND_PRIVATE_H

#include "launch/bind.h"

#define MU_CPUS_MAX (1u << 20) /* no kernel counts further; what claims more is damaged */

/* A hardware thread that may be used, and the parts of the machine that it lies in (-1: in no such part). */
struct mu_launch_thread {
    unsigned cpu; /* the kernel's number */
    int part[MU_NUM_PARTS];
};

/* All of a machine: its threads in the order of the tree, so that those of a core are neighbours. */
struct mu_launch_machine {
    struct mu_launch_thread *threads;
    size_t num_threads;
    size_t set_size; /* bytes of a set that holds every cpu and every number of a part */
    const char *foreign;
};

/* ---- bind_set.c -------------------------------------------------------------------------------------------------- */

/* NULL: no memory. Freed with CPU_FREE(). */
cpu_set_t *mu_launch_set_new(size_t size);
/* "0-3,8"; "" when empty. malloc()ed; NULL: no memory. */
char *mu_launch_set_list(const cpu_set_t *set, size_t size);
/* Adds a list in the kernel's form. 0; 1: some do not fit into the set; -1: that is no list. */
int mu_launch_set_parse(const char *list, cpu_set_t *set, size_t size);
/* What the calling thread may use, as sched_getaffinity() says: malloc()ed, of any size. -1: errno says why. */
int mu_launch_set_allowed(cpu_set_t **ret_set, size_t *ret_size);
/* The value of Cpus_allowed_list in a status file of /proc: malloc()ed; NULL: errno says why. */
char *mu_launch_set_of(const char *path);

#endif
