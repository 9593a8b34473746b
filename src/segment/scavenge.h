/* segment/scavenge.h: cleaning up after the dead. */
#ifndef MU_SEGMENT_SCAVENGE_H
#define MU_SEGMENT_SCAVENGE_H

#include "segment/segment.h"

struct mu_death {
    uint32_t slot;
    uint64_t slot_word; /* marked DEAD */
    uint64_t task_word; /* the id of the owner's task, + 1; 0: no task */
    bool is_known;      /* an earlier look marked the slot */
};

/* Called at each look at a dead slot, after the slot is marked and before its memory is reclaimed: set errors, wake. */
typedef void (*mu_death_fn)(void *arg, struct mu_ctx *ctx, const struct mu_death *death);

/*
 * Find dead slots and clean up after each. Idempotent; any number may run at once, and any may die in it. Never blocks.
 * Returns how many slots this call finished. ctx must hold a slot.
 */
uint32_t mu_scavenge(struct mu_ctx *ctx, mu_death_fn on_death, void *arg);

/*
 * The same for the slots of one process that the kernel reported dead by pidfd or wait, where its task is known
 * (`task_word`: its id + 1). Its liveness words are believed first; where they still name an owner (a program may ruin
 * its robust list), the report is, for slots of that pid, that task and our pid namespace: in another one the number is
 * somebody else's.
 */
uint32_t mu_scavenge_process(struct mu_ctx *ctx, uint32_t pid, uint64_t task_word, mu_death_fn on_death, void *arg);

/*
 * Without a slot: clean up after dead holders of the reserved slots. They are nobody's tasks, so there is no error to
 * set, and freeing needs no slot.
 */
void mu_scavenge_reserved(struct muster_segment *seg);

#endif
