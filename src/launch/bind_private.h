/*
 * launch/bind_private.h: what the files behind launch/bind.h share.
 */
#ifndef MU_LAUNCH_BIND_PRIVATE_H
#define MU_LAUNCH_BIND_PRIVATE_H

#include "base/cpus.h"
#include "launch/bind.h"

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

#endif
