/* segment/slot.h: slots: one a writing thread; whether it lives is read from the liveness mutex. */
#ifndef MU_SEGMENT_SLOT_H
#define MU_SEGMENT_SLOT_H

#include "segment/segment.h"

/*
 * Claim a slot for the calling thread and fill *ctx (owned by the caller; 70 KiB). `task` goes into the slot's task
 * word. Slots that a thread of the task has had before come first, then those never claimed: so counts stay with their
 * task. RESOURCE_EXHAUSTED when none is free.
 */
enum muster_status mu_slot_claim(struct muster_segment *seg, uint64_t task, struct mu_ctx *ctx);

/* What is said where none is free: RESOURCE_EXHAUSTED. */
enum muster_status mu_slot_none_free(const struct muster_segment *seg);

/* One of the slots kept for cleaning up, as an observer's; false when they are held, too. */
bool mu_slot_claim_reserved(struct muster_segment *seg, struct mu_ctx *ctx);

/* Give it back; only by the thread that claimed it. Nothing may be in flight. */
void mu_slot_release(struct mu_ctx *ctx);

/*
 * The same in two steps, for another thread of the process that is in no call: anybody may free the slot (its liveness
 * mutex stays locked, so nobody can claim it yet); the thread itself unlocks it later, or the kernel at its end. Slots
 * that are not held any more are left alone.
 */
void mu_slot_free(struct mu_ctx *ctx);
void mu_slot_unlock(struct mu_ctx *ctx);

/* Whether the context's thread lives and holds its slot. It may have ended unseen, and the slot be another's by now. */
bool mu_slot_is_held(const struct mu_ctx *ctx);

/*
 * Whether the slot, with its word read as `word`, is dead by the kernel's testimony: LIVE, and nobody holds its
 * liveness mutex.
 */
bool mu_slot_is_dead(const struct muster_segment *seg, uint32_t slot, uint64_t word);

/*
 * Whether the slot's owner is gone though its liveness word names it: the kernel forgets the words of a thread, not the
 * first of its process, that calls exec. No such thread, in the same pid namespace, is the kernel's word, too. System
 * calls: for rare looks.
 */
bool mu_slot_is_orphan(const struct muster_segment *seg, uint32_t slot, uint64_t word);

/* If it is, write its death into the liveness word, as the kernel would have: from then on it is dead for everybody. */
bool mu_slot_settle(struct muster_segment *seg, uint32_t slot);

/* The futex word inside the liveness mutex: owner's thread id, 0x80000000 waiters, 0x40000000 owner died. */
mu_a32 *mu_slot_liveness(const struct muster_segment *seg, uint32_t slot);

/* The object word at an offset taken from shared memory, or NULL when no object can be there. */
mu_a64 *mu_slot_object(const struct muster_segment *seg, uint64_t offset);

#endif
