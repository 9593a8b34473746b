/*
 * segment/ledger.h: the objects that a process holds.
 *
 * A process holds an object once, however many of its references and views name it: those are counted here, in private
 * memory, under one lock. What the others need to know lies in the segment: a record for each object, in blocks that
 * are OWNED by the task's main slot. When the process dies, one scavenger drops what its records hold.
 */
#ifndef MU_SEGMENT_LEDGER_H
#define MU_SEGMENT_LEDGER_H

#include "segment/handle.h"
#include "segment/hold.h"

/* An object that this process holds. */
struct mu_holding {
    uint64_t ref; /* 0: the place is empty */
    mu_a64 *record;
    uint32_t refs, views;
    const uint8_t *bytes; /* not NULL: it is sealed, and these are its bytes, not to be written through */
    uint64_t num_bytes;
    uint32_t num_meta;
    uint32_t state; /* MU_OBJECT_WRITING until it is known to be sealed */
    uint32_t code;
    bool made; /* by this process: not sealed by it, it becomes an error */
};

/*
 * Lock the handle's ledger, which is made at the first call. FAILED_PRECONDITION when the handle is no task's. Within
 * its lock the calls below may be made; a thread that holds it waits for nobody.
 */
enum muster_status mu_ledger_lock(struct muster *m, struct mu_ledger **ret_ledger);
void mu_ledger_unlock(struct mu_ledger *ledger);

/* NULL: this process does not hold it. Valid until the next call of add, remove, or unlock. */
struct mu_holding *mu_ledger_find(struct mu_ledger *ledger, uint64_t ref);

/* A record that is 0; and one that was not used after all. */
enum muster_status mu_ledger_record(struct mu_ledger *ledger, struct mu_ctx *ctx, mu_a64 **ret_record);
void mu_ledger_put_record(struct mu_ledger *ledger, mu_a64 *record);

/* The record holds `ref` now; there is room, from mu_ledger_record() on. */
struct mu_holding *mu_ledger_add(struct mu_ledger *ledger, uint64_t ref, mu_a64 *record);
/* It holds nothing any more. */
void mu_ledger_remove(struct mu_ledger *ledger, struct mu_holding *held);

/* An object that nobody here uses any more could not be dropped; and one such, to try again, or NULL. */
void mu_ledger_linger(struct mu_ledger *ledger);
struct mu_holding *mu_ledger_lingerer(struct mu_ledger *ledger);

/* The maker, as roots name it: its death makes the unsealed objects of this process errors. */
uint64_t mu_ledger_maker(const struct mu_ledger *ledger);

/* The process leaves: drop everything. */
void mu_ledger_close(struct muster *m);

#endif
