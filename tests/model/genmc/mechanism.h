/*
 * mechanism.h: the production source of the one mechanism in one translation unit, and the small world around it.
 *
 * The .c files of src/segment are included as they are, over src/sync/shm.h with MU_GENMC. What GenMC cannot run is
 * replaced by the headers in standin/. Here are the segment (one array of words), a slot and a context for each thread,
 * the kernel (deaths, and the liveness word that it writes), and the audit that ends every harness.
 *
 * Death. GenMC explores every value that a load may return, so a victim that looks at `doom` before each access dies
 * before each access in some execution. Its last act is the kernel's: the liveness word says that the owner died, with
 * release, as the kernel's compare-and-swap at a thread's end has it. pthread_exit() then ends the thread alone.
 *
 * BREAK_... macros drop one rule of the production code, here or in standin/: such a run must fail.
 */
#ifndef MODEL_MECHANISM_H
#define MODEL_MECHANISM_H

#include <assert.h>
#include <pthread.h>
#include <stdint.h>

/* A violated one is an "Assertion violation" that ends in !"what". */
#define MUST(what, condition) assert((condition) || !#what)

#include "sync/shm.h"
#ifdef BREAK_WEAK_FULL_FENCE
#define mu_fence_seq_cst() ((void)0)
#endif
#ifdef BREAK_WEAK_FREE
#define mu_load_seq_cst(p) mu_load_acquire(p)
#endif
#ifdef BREAK_FREE_UNTOLD
#define mu_load_seq_cst(p) ((void)(p), 0ull)
#endif
#include "segment/heap.c"
#ifdef BREAK_WEAK_FULL_FENCE
#undef mu_fence_seq_cst
#endif
#undef mu_load_seq_cst

/* ---- commit.h, object.c ---- */
#include "segment/pin.h"
#include "sync/futex.h"
#ifdef BREAK_NO_PUBLISH /* the victim commits blocks that are still OWNED */
static _Thread_local uint32_t mortal;
#define mu_heap_publish(ctx, ref) (mortal ? (void)(ref) : (mu_heap_publish)(ctx, ref))
#endif
#ifdef BREAK_NO_INTENT /* nothing is written into the slot */
#define mu_store_release(p, v) ((void)(p), (void)(v))
#endif
#ifdef BREAK_NO_SECOND_LOOK /* the old root's generation is recorded without a second look at the object */
#undef mu_recheck
#define mu_recheck(p) seen
#endif
#ifdef BREAK_FREER_IGNORES_PINS
#define mu_pin_others(seg, ref, except) false
#endif
#ifdef BREAK_NO_WAKE
#define mu_futex_wake(word) ((void)(word))
#endif
#ifdef BREAK_COMMIT_BLIND /* a commit does not care what came since it was begun */
#include "segment/object.h"
#define mu_word_same(a, b) ((void)(a), (void)(b), true)
#endif
#include "segment/commit.h"
#undef mu_word_same
#undef mu_futex_wake
#undef mu_heap_publish
#undef mu_store_release
#ifdef BREAK_NO_SECOND_LOOK
#undef mu_recheck
#endif
#undef mu_pin_others
#ifdef BREAK_NO_RECHECK /* what was copied counts, whatever the word is by now */
#define mu_word_same(a, b) ((void)(a), (void)(b), true)
#endif
#include "segment/object.c"
#undef mu_word_same

/* ---- pin.c ---- */
#ifdef BREAK_PIN_NO_SECOND_LOOK /* pinned without looking whether the object still has the block */
#undef mu_recheck
#define mu_recheck(p) seen
#endif
#ifdef BREAK_UNPIN_FREES_NOTHING
#define mu_object_reaches(seg, object, ref) true
#endif
#include "segment/pin.c"
#ifdef BREAK_PIN_NO_SECOND_LOOK
#undef mu_recheck
#endif
#undef mu_object_reaches

#include "segment/slot.c"

/* ---- scavenge.c ---- */
#ifdef BREAK_UNDO_REACHABLE /* what an intent names is freed, reachable or not */
#define mu_object_reaches(seg, object, ref) false
#endif
#ifdef BREAK_UNDO_ANY_GENERATION /* and whatever generation it has by now */
#define mu_heap_free(seg, ctx, ref) model_free_any(seg, ref)
static void model_free_any(struct muster_segment *seg, uint64_t ref)
{
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);
    uint64_t w = mu_load_acquire(&b->word);

    if (MU_BLOCK_STATE(w) == MU_LIVE)
        mu_cas(&b->word, w, MU_BLOCK_WORD(MU_BLOCK_GENERATION(w) + 1, 0, 0, MU_FREE));
}
#endif
#ifdef BREAK_SWEEP_ANY_INCARNATION
#undef MU_BLOCK_INCARNATION
#define MU_BLOCK_INCARNATION(w) incarnation
#endif
#ifdef BREAK_SWEEP_BY_STORE /* what is OWNED by the dead becomes free, whatever it is by now */
static bool model_in_heap(const mu_a64 *p);
#define mu_cas(p, seen, next) (model_in_heap(p) ? (mu_store_release(p, next), true) : (mu_cas)(p, seen, next))
#endif
#ifdef BREAK_SAME_DEATH_UNCHECKED /* whoever owns the slot by now, its intent is taken for the dead one's */
#define mu_recheck(p) dead
#endif
#ifdef BREAK_UNDO_IGNORES_PINS
#define mu_pin_others(seg, ref, except) false
#endif
#ifdef BREAK_DEAD_PIN_LEFT
#define mu_pin_settle(seg, ctx, object, ref, except) ((void)0)
#endif
#ifdef BREAK_SCAVENGER_UNTOLD
#define mu_heap_tell(seg, class_index) ((void)0)
#endif
#ifdef BREAK_NO_EPOCH
#define mu_futex_wake32(word)   ((void)(word))
#define mu_fetch_add32(word, n) ((void)(word), (void)(n))
#endif
#include "segment/segment.c"
#include "segment/scavenge.c"
#undef mu_futex_wake32
#undef mu_fetch_add32
#undef mu_cas
#undef mu_heap_tell
#undef mu_object_reaches
#undef mu_heap_free
#ifdef BREAK_SWEEP_BY_STORE /* what is OWNED by the dead becomes free, whatever it is by now */
#define mu_cas(p, seen, next)                                                                                          \
    (MU_BLOCK_STATE(seen) == MU_OWNED ? (mu_store_release(p, next), true) : (mu_cas)(p, seen, next))
#endif
#ifdef BREAK_SAME_DEATH_UNCHECKED
#undef mu_recheck
#endif
#undef mu_pin_others
#undef mu_pin_settle

#ifndef MODEL_SLOTS
#define MODEL_SLOTS 3u
#endif
#ifndef VALUE_WORDS
#define VALUE_WORDS 1
#endif
#ifndef MODEL_EVENTS
#define MODEL_EVENTS 2u /* words of the ring: one or two */
#endif
#ifdef MODEL_MARK
int MODEL_MARK; /* so that run.sh knows what GenMC left in /tmp. Not "used": that would upset GenMC's addresses. */
#endif
#ifndef MODEL_CHUNKS
#define MODEL_CHUNKS 1u /* one or two: the second of the second class */
#endif
#define MAIN (MODEL_SLOTS - 1) /* main's own slot: it prepares, and cleans up at the end */

/* Words of the segment's sections, and where they start. */
enum {
    AT_SLOTS = MU_HEADER_SIZE / 8,
    SLOT_WORDS = sizeof(struct mu_slot) / 8,
    AT_CHUNKS = AT_SLOTS + MODEL_SLOTS * SLOT_WORDS,
    AT_OBJECTS = AT_CHUNKS + 1,
    AT_HEAP = AT_OBJECTS + 4,
    BLOCK_WORDS = MU_GRANULE / 8,
    SEGMENT_WORDS = AT_HEAP + MODEL_CHUNKS * MODEL_BLOCKS * BLOCK_WORDS,
};

/*
 * The segment, as the claiming of every slot and a first commit leave it: the object's value is FIRST_VALUE, in
 * block 1. 64-bit elements: the checker's start-up time grows with the square of their number. Whoever makes it in main
 * instead makes every execution longer.
 */
#ifndef MODEL_IMAGE
#define FIRST_VALUE 9
#define MODEL_IMAGE                                                                                                    \
    [AT_OBJECTS] = MU_WORD(1, 1), [AT_HEAP] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),                                         \
    [AT_HEAP + 1] = MU_META(VALUE_WORDS * 8, 0, MU_TYPE_PAGE), [AT_HEAP + 2] = FIRST_VALUE,                            \
    [AT_HEAP + 3] = FIRST_VALUE
#endif
#define LIVE_SLOT(i)                                                                                                   \
    [AT_SLOTS + (i)*SLOT_WORDS] = MU_SLOT_WORD(0, (i) + 1, 0, MU_SLOT_LIVE),                                           \
                [AT_SLOTS + (i)*SLOT_WORDS + offsetof(struct mu_slot, liveness) / 8] = (i) + 1
static uint64_t memory[SEGMENT_WORDS] = {
    [offsetof(struct mu_header, slots_high) / 8] = MODEL_SLOTS,
    LIVE_SLOT(0),
    LIVE_SLOT(1),
#if MODEL_SLOTS > 2
    LIVE_SLOT(2),
#endif
#if MODEL_SLOTS > 3
    LIVE_SLOT(3),
#endif
#if MODEL_SLOTS > 4
    LIVE_SLOT(4),
#endif
    [AT_CHUNKS] = MODEL_CHUNKS == 1 ? 1 : 1 | 2ull << 32, /* class 0, class 1 */
    MODEL_IMAGE,
};
#define OBJECT ((mu_a64 *)memory + AT_OBJECTS)

#ifdef BREAK_SWEEP_BY_STORE
static bool model_in_heap(const mu_a64 *p)
{
    return p >= (const mu_a64 *)memory + AT_HEAP;
}
#endif

/*
 * What is private to a thread lies in thread-local storage, which costs the checker no events. It knows scalars and
 * vectors only there, so each struct lies in a vector, of which every word must be written before it is read. Copying
 * them costs time: a struct's tail that is not used is left out.
 */
#define PRIVATE(type, name, bytes)                                                                                     \
    static _Thread_local double __attribute__((nodebug, vector_size(((bytes) + 7) / 8 * 8))) name##_bytes;             \
    static inline type *name(void)                                                                                     \
    {                                                                                                                  \
        return (type *)&name##_bytes;                                                                                  \
    }
#ifndef MODEL_ROOT_WORDS
#define MODEL_ROOT_WORDS 2 /* the longest root, references included */
#endif
PRIVATE(struct muster_segment, view, offsetof(struct muster_segment, job))
PRIVATE(struct mu_ctx, own, offsetof(struct mu_ctx, scratch) + MODEL_ROOT_WORDS * 8)
PRIVATE(struct mu_txn, txn, sizeof(struct mu_txn))
PRIVATE(struct mu_root, root, sizeof(struct mu_root))

static _Atomic(int) doom;             /* bit per slot */
static _Thread_local uint32_t mortal; /* slot + 1 of a thread that may die */
static _Thread_local uint32_t tid;

uint32_t mu_sim_tid(void)
{
    return tid;
}

uint64_t mu_now(void)
{
    return 0;
}

static void die(void)
{
    atomic_store_explicit(mu_slot_liveness(view(), mortal - 1), 0x40000000u, memory_order_release);
    pthread_exit(&doom);
}

/* Where a victim's death at one place only is wanted, DIES is that place, in the course of a commit. */
enum {
    OWNED_FILLED = 1, /* the new root is OWNED and filled */
    RECORDING,        /* the intent is about to count */
    UNCOMMITTED,      /* the new root is LIVE, the intent names it; the CAS comes next */
    COMMITTED,        /* the CAS is done, nothing after it is */
    FREED             /* all is done, but the intent still stands */
};
#ifdef DIES
static _Thread_local int place;
void mu_point(const volatile void *address)
{
    const struct mu_slot *slot;

    if (!mortal)
        return;
    slot = &view()->slots[mortal - 1];
    if (place == 0 && address == (const void *)&slot->news[0])
        place = OWNED_FILLED;
    else if (place == OWNED_FILLED && address == (const void *)&slot->act)
        place = RECORDING;
    else if (place == RECORDING && address == (const void *)OBJECT)
        place = UNCOMMITTED;
    else if (place == UNCOMMITTED)
        place = COMMITTED;
    else if (place == COMMITTED && address == (const void *)&slot->act)
        place = FREED;
    if (place == DIES)
        die();
}
#else
void mu_point(const volatile void *address)
{
    (void)address;
    if (mortal && atomic_load_explicit(&doom, memory_order_relaxed) >> (mortal - 1) & 1)
        die();
}
#endif

/* At some moment of its life, the owner of the slot dies. */
static void kill_owner(uint32_t slot)
{
    atomic_fetch_or_explicit(&doom, 1 << slot, memory_order_relaxed);
}

#ifndef MODEL_FUTEX
void mu_futex_wake(mu_a64 *word)
{
    (void)word;
}

void mu_futex_wake32(mu_a32 *word)
{
    (void)word;
}
#endif

/* This thread's view of the segment. */
static void map(void)
{
    struct muster_segment *seg = view();
    uint64_t *at = memory;

    seg->base = (uint8_t *)at;
    seg->fd = -1;
    seg->writable = true;
    seg->header = (struct mu_header *)at;
    seg->slots = (struct mu_slot *)(at + AT_SLOTS);
    seg->chunks = (mu_a32 *)(at + AT_CHUNKS);
    seg->buckets = OBJECT;
    seg->cells = OBJECT + 1;
    seg->events = OBJECT + 2;
    seg->heap = (uint8_t *)(at + AT_HEAP);
    seg->num_tasks = seg->num_slots = MODEL_SLOTS;
    seg->num_buckets = seg->num_cells = 1;
    seg->num_chunks = MODEL_CHUNKS;
    seg->num_events = MODEL_EVENTS;
    seg->num_system_chunks = 0;
}

/* Own the slot: its context is as mu_slot_claim() and a first search for blocks leave it. */
static void become(uint32_t slot)
{
    struct mu_ctx *c = own();

    map();
    tid = slot + 1;
    c->seg = view();
    c->own = &view()->slots[slot];
    c->slot = slot;
    c->incarnation = 0;
    c->unclaimed = MODEL_CHUNKS;
    c->dry[0] = 0;
    c->hints[0][0].head = c->hints[0][0].count = 0;
#if MODEL_CLASSES > 1
    c->hints[0][1].head = c->hints[0][1].count = 0;
    c->hints[0][1].chunk = 2;
    c->hints[0][1].next = 0;
#endif
    c->hints[0][0].chunk = 1;
    c->hints[0][0].next = (slot + 1) % MODEL_BLOCKS;
}

/*
 * One attempt to replace the object's value, of VALUE_WORDS equal words. Like an event, the new root does not depend on
 * the old one: what reading it adds is in reader.c.
 */
static enum mu_commit put_once(uint64_t value)
{
    mu_a64 *body;
    enum mu_commit commit = MU_RETRY;

    mu_txn_begin(txn(), own(), OBJECT);
    txn()->seen = mu_load_acquire(OBJECT);
    txn()->num_olds = 1;
    if (!mu_txn_root(txn(), MU_TYPE_PAGE, 0, VALUE_WORDS * 8, 0, &body)) {
        for (uint32_t i = 0; i < VALUE_WORDS; i++)
            mu_store_relaxed(&body[i], value);
        commit = mu_txn_commit(txn());
    }
    if (commit == MU_RETRY)
        mu_txn_abort(txn());
    return commit;
}

static void put(uint64_t value)
{
    while (put_once(value) == MU_RETRY) {
    }
}

/* The value, which must be whole; 0 when there is none. */
static uint64_t get(void)
{
    enum mu_read rc = mu_object_read(view(), OBJECT, own()->scratch, root());

    MUST(corrupt, rc != MU_READ_CORRUPT);
    if (rc == MU_READ_EMPTY)
        return 0;
    MUST(torn, root()->refs == 0 && root()->bytes == VALUE_WORDS * 8);
    for (uint32_t i = 1; i < VALUE_WORDS; i++)
        MUST(torn, root()->body[i] == root()->body[0]);
    return root()->body[0];
}

/* How many references to the block there are: in the object, and in its root where roots refer to blocks. */
static uint32_t references_to(uint32_t index, uint32_t generation)
{
    uint64_t w = mu_load_acquire(OBJECT);
    uint32_t n = MU_WORD_INDEX(w) == index;
#ifdef REFERENCES_FOLLOWED
    uint64_t ref = mu_load_relaxed(&mu_heap_block(view(), MU_WORD_INDEX(w), NULL)->body[0]);

    n += ref == MU_REF(generation, index);
#endif
    (void)generation;
    return n;
}

/* Nothing is in flight any more: a block is LIVE and referred to once, or FREE; and every slot is LIVE or FREE. */
static void audit(void)
{
    for (uint32_t i = 1; i <= MODEL_BLOCKS; i++) {
        uint64_t w = mu_load_acquire(&mu_heap_block(view(), i, NULL)->word);
        uint32_t n = references_to(i, MU_BLOCK_GENERATION(w)), live = MU_BLOCK_STATE(w) == MU_LIVE;

        MUST(leak, MU_BLOCK_STATE(w) != MU_OWNED && live <= n);
        MUST(freed, live >= n);
    }
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        MUST(slot, MU_SLOT_STATE(mu_load_acquire(&view()->slots[i].word)) != MU_SLOT_DEAD);
}

#endif
