/* barrier/group.h: a group's private side, shared by group.c (meeting, leaving) and collective.c (the fast path). */
#ifndef MU_BARRIER_GROUP_H
#define MU_BARRIER_GROUP_H

#include <muster/group.h>

#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/table.h"

struct muster_group {
    struct muster *muster;
    struct mu_area *mine;
    uint32_t rank, size;
    uint32_t data_bytes;
    uint32_t spins;
    _Atomic uint64_t instance; /* the last one passed; process-local */
    bool failed;
    bool traced; /* each barrier is noted */
    bool looked; /* at epoch `epoch` no member was lost */
    uint32_t epoch;
    uint64_t generation;
    struct mu_key key; /* of the entry */
    char name[MUSTER_GROUP_NAME_MAX + 1];
    char what[MUSTER_GROUP_NAME_MAX + 16]; /* for status: "group NAME" */
    struct mu_group_member *members;
    struct mu_area **areas; /* in rank order */
};

/* When traced: that we come to the instance, or go from it. */
void mu_group_note(struct muster_group *g, enum mu_trace_kind kind, uint64_t instance, enum muster_status status);

/* Close what has not arrived at the instance, self included when asked; true when anybody is closed: the instance
 * failed. */
bool mu_group_close(struct muster_group *g, uint64_t instance, uint64_t reason);

#endif
