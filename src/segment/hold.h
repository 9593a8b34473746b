/*
 * segment/hold.h: objects of the tasks, and counted references to them that outlive no holder.
 *
 * An object is a word that names an immutable root (struct mu_object_root), which names its bytes. The root has a
 * count, and each reference that is counted has a record: a word, in a process's ledger, that holds the reference.
 * Count and record change together, also when the thread dies between: see hold.c.
 *
 * A record is changed by one thread at a time; it may be any thread that has a slot.
 */
#ifndef MU_SEGMENT_HOLD_H
#define MU_SEGMENT_HOLD_H

#include "segment/arena.h"
#include "segment/object.h"

#define MU_HOLD_MARKS_MAX 256u /* of one object: threads in the midst of counting a reference */

/* An object as one commit left it; what a change may write is what the next one is to leave. */
struct mu_object {
    uint64_t word; /* as read, for waiting */
    uint64_t ref;  /* its reference */
    uint64_t data; /* its MU_TYPE_BYTES or MU_TYPE_EXTENT block; 0: none */
    uint64_t bytes;
    uint64_t maker;
    uint32_t state; /* MU_OBJECT_WRITING, ... */
    uint32_t count;
    uint32_t meta;   /* bytes of metadata */
    uint32_t extent; /* + 1: first unit of the bytes; 0: they lie in the block */
    uint32_t task;   /* + 1: that made it */
    uint32_t code;   /* of an error */
    uint32_t num_marks;
    uint64_t waiting;      /* MU_WAITING(): calls */
    const uint64_t *marks; /* in the buffer that it was read into */
};

/* What a root says. False: it is none. */
bool mu_object_parse(const struct muster_segment *seg, const struct mu_root *root, struct mu_object *ret_object);

/* The status with its sentence: INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS. */
enum muster_status mu_object_say(const struct muster_segment *seg, uint64_t ref, enum muster_status status);

/* The object's word, or NULL where the reference cannot be one of this host's. */
mu_a64 *mu_object_word(const struct muster_segment *seg, uint64_t ref);

/*
 * Read the object. NOT_FOUND: it is gone, or never was; INVALID_ARGUMENT: no reference of this job's; DATA_LOSS. `body`
 * has room for MU_CHUNK / 8 words. Read without a hold it may be gone by the time it is looked at.
 */
enum muster_status mu_object_look(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                  struct mu_object *ret_object);

/* The same, but that it is gone is no sentence. */
enum muster_status mu_object_peek(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                  struct mu_object *ret_object);

/* The same, of whatever object the word of this index (below mu_objects_high()) names now. */
enum muster_status mu_object_at(const struct muster_segment *seg, uint32_t index, uint64_t *body,
                                struct mu_object *ret_object);

/* Its bytes, if it has any, behind which is its metadata: to write to, or read-only. NULL: there is no address space.
 */
uint8_t *mu_object_bytes(struct muster_segment *seg, const struct mu_object *object, bool writable);

/* Bytes and metadata, each from a multiple of 8 on. */
static inline uint64_t mu_object_whole(const struct mu_object *o)
{
    return (o->bytes + 7) / 8 * 8 + o->meta;
}

/* Before so many bytes, in a block. */
static inline uint64_t mu_object_pad(uint64_t whole)
{
    return whole <= MU_OBJECT_SMALL ? 0 : MU_OBJECT_PAD;
}

/*
 * A block for the object's bytes and metadata, of which there are some, OWNED by ctx: its data, and extent. Its
 * contents are garbage. RESOURCE_EXHAUSTED when heap or arena have none, OUT_OF_RANGE when none can be so large.
 */
enum muster_status mu_object_block(struct mu_ctx *ctx, struct mu_object *object);

/*
 * A new object, held by `record` (which must be 0) and with a count of 1. `object` says what it is but for its word,
 * reference and marks; its block of data, OWNED by ctx, is taken over, and freed where this fails.
 */
enum muster_status mu_hold_create(struct mu_ctx *ctx, mu_a64 *record, struct mu_object *object);

/* Count another reference, of `record`, which must be 0. Its errors are those of mu_object_look(). */
enum muster_status mu_hold_take(struct mu_ctx *ctx, mu_a64 *record, uint64_t ref);

/*
 * The record holds the object no more; the drop of the last reference frees the object. `maker`, not 0: the maker
 * is gone, and an object of this maker's that is not sealed becomes an error. UNAVAILABLE, RESOURCE_EXHAUSTED: not
 * now, also after a while where `patient`, and the record stays; DATA_LOSS: the record does not hold the object.
 */
enum muster_status mu_hold_drop(struct mu_ctx *ctx, mu_a64 *record, uint64_t ref, uint64_t maker, bool patient);

/*
 * Change an object, as a rule one that the caller holds, by a callback on a private copy. `data`: 0, or a block (OWNED
 * by ctx, taken over, and freed where this fails) that the callback makes the object's. What the callback returns ends
 * the change without a commit unless it is MUSTER_OK. All that wait are woken.
 */
typedef enum muster_status (*mu_object_fn)(struct mu_object *object, void *arg);
enum muster_status mu_object_change(struct mu_ctx *ctx, uint64_t ref, uint64_t data, mu_object_fn fn, void *arg,
                                    bool patient);

/* The same, for changes that nobody waits for. */
enum muster_status mu_object_change_quietly(struct mu_ctx *ctx, uint64_t ref, mu_object_fn fn, void *arg);

/* Nobody can have a view of it yet. */
static inline bool mu_object_is_open(uint32_t state)
{
    return state == MU_OBJECT_WRITING || (state >= MU_OBJECT_CALL_WAITING && state <= MU_OBJECT_CALL_RUNNING) ||
           state == MU_OBJECT_PLACE;
}

/*
 * Copy words of the bundle of an object that was just read: from the i-th reference on (count and data behind them are
 * words, too). *ret_count: its references. False: it has fewer, or the object has changed meanwhile.
 */
bool mu_bundle_read(const struct muster_segment *seg, const struct mu_object *o, uint32_t i, uint64_t *words,
                    uint32_t count, uint32_t *ret_count);

/*
 * The object that a reference stands for in the end: through aliases, and to a call's single results. It may be open
 * still; its reference is that of the object to wait for. The errors of mu_object_peek().
 */
enum muster_status mu_object_resolve(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                     struct mu_object *ret_object);

/* The maker is gone: of an object of its that is not sealed make an error. False: it is none such. */
bool mu_object_orphan(struct mu_object *object, uint64_t maker);

/* For the scavenger. What the dead slot was changing is changed, or not: its record says which from now on. False: the
 * slot is not that death any more. */
bool mu_hold_resolve(struct muster_segment *seg, uint32_t slot, uint64_t dead);
/* Whether this thread is the one that may: the heir of the dead slot, from now on until it dies. */
bool mu_hold_inherit(struct mu_ctx *ctx, uint32_t slot, uint64_t dead);
/* Drop what the dead slot's ledger holds, as its heir: some thousands of records at a time. False: something of it is
 * left, for another call, and so is the slot. */
bool mu_hold_empty(struct mu_ctx *ctx, uint32_t slot, uint64_t dead);

/* A walk over the blocks of a slot's ledger. It ends, also where blocks name one another in circles. */
struct mu_ledger_walk {
    const struct muster_segment *seg;
    uint64_t block, left;
    uint32_t slot;
    uint16_t incarnation;
};
void mu_ledger_walk(struct mu_ledger_walk *walk, const struct muster_segment *seg, uint32_t slot, uint16_t incarnation);
/* The next block's records, and how many; NULL: no more. */
mu_a64 *mu_ledger_next(struct mu_ledger_walk *walk, uint32_t *ret_count);

/* The records of a ledger block, and how many; NULL: it is none of this slot's. */
mu_a64 *mu_ledger_records(const struct muster_segment *seg, uint64_t ref, uint32_t slot, uint16_t incarnation,
                          uint32_t *ret_count, uint64_t *ret_before);

#endif
