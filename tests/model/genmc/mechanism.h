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

#include "segment/heap.c"

#ifdef BREAK_NO_PUBLISH /* new blocks stay OWNED when they are committed */
#define mu_heap_publish(ctx, ref) ((void)(ref))
#endif
#include "segment/object.c"
#undef mu_heap_publish

#include "segment/pin.c"
#include "segment/slot.c"

#ifdef BREAK_BLIND_UNDO /* the scavenger frees what an intent names, reachable or not */
#define mu_object_reaches(seg, object, ref) false
#endif
#include "segment/scavenge.c"
#undef mu_object_reaches

#ifndef MODEL_SLOTS
#define MODEL_SLOTS 3u
#endif
extern int MODEL_RUN;
#define MAIN (MODEL_SLOTS - 1) /* main's own slot: it prepares, and cleans up at the end */

enum {
    WORDS_HEADER = MU_HEADER_SIZE / 8,
    WORDS_SLOTS = MODEL_SLOTS * sizeof(struct mu_slot) / 8,
    WORDS_CHUNKS = 8,
    WORDS_OBJECTS = 8,
    WORDS_HEAP = MODEL_BLOCKS * MU_GRANULE / 8,
};
/* 64-bit elements: the checker's start-up time grows with the square of their number. */
static uint64_t memory[WORDS_HEADER + WORDS_SLOTS + WORDS_CHUNKS + WORDS_OBJECTS + WORDS_HEAP];
#define OBJECT ((mu_a64 *)memory + WORDS_HEADER + WORDS_SLOTS + WORDS_CHUNKS)

/*
 * What is private to a thread lies in thread-local storage, which costs the checker no events. It knows scalars only
 * there, so each struct lies in one huge integer, of which every field must be written before it is read.
 */
#define PRIVATE(type, name)                                                                                            \
    static _Thread_local _ExtInt(sizeof(type) * 8) name##_bits;                                                        \
    static inline type *name(void)                                                                                     \
    {                                                                                                                  \
        return (type *)&name##_bits;                                                                                   \
    }
PRIVATE(struct mu_ctx, own)
PRIVATE(struct mu_txn, txn)
PRIVATE(struct mu_root, root)
/* the names at the end of the struct are left out: they are for people */
static _Thread_local _ExtInt(offsetof(struct muster_segment, job) * 8) seg_bits;
static inline struct muster_segment *view(void)
{
    return (struct muster_segment *)&seg_bits;
}

static _Atomic(int) doom;             /* bit per slot */
static _Thread_local uint32_t mortal; /* slot + 1 of a thread that may die */
static _Thread_local uint32_t tid;

uint32_t mu_sim_tid(void)
{
    return tid;
}

void mu_point(const volatile void *address)
{
    (void)address;
    if (!mortal || !(atomic_load_explicit(&doom, memory_order_relaxed) >> (mortal - 1) & 1))
        return;
    atomic_store_explicit(mu_slot_liveness(view(), mortal - 1), 0x40000000u, memory_order_release);
    pthread_exit(&doom);
}

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
    uint8_t *at = (uint8_t *)memory;

    view()->base = at;
    view()->fd = -1;
    view()->writable = true;
    view()->header = (struct mu_header *)at;
    view()->slots = (struct mu_slot *)(at += WORDS_HEADER * 8);
    view()->chunks = (mu_a32 *)(at += WORDS_SLOTS * 8);
    view()->buckets = (mu_a64 *)(at += WORDS_CHUNKS * 8);
    view()->cells = view()->buckets + 1;
    view()->events = view()->buckets + 2;
    view()->heap = at += WORDS_OBJECTS * 8;
    view()->num_tasks = view()->num_slots = MODEL_SLOTS;
    view()->num_chunks = view()->num_buckets = 1;
    view()->num_cells = view()->num_events = view()->num_system_chunks = 0;
}

/* The context of the slot's owner, as mu_slot_claim() and a first search for blocks leave it. */
static void become(uint32_t slot, uint16_t incarnation)
{
    struct mu_ctx *c = own();

    map();
    tid = slot + 1;
    c->seg = view();
    c->own = &view()->slots[slot];
    c->slot = slot;
    c->incarnation = incarnation;
    c->unclaimed = 1;
    for (int i = 0; i < 2; i++) {
        c->hints[i][0].head = c->hints[i][0].count = 0;
        c->hints[i][0].chunk = 1;
        c->hints[i][0].next = slot % MODEL_BLOCKS;
    }
}

/* main begins: every slot is claimed, by the production code, for the threads to come. */
static void prepare(void)
{
    map();
    mu_cas32(&view()->chunks[0], 0, 1);
    for (uint32_t i = 0; i < MODEL_SLOTS; i++) {
        tid = i + 1;
        assert(mu_slot_claim(view(), 0, own()) == MUSTER_OK && own()->slot == i);
    }
    become(MAIN, 0);
}

/* The value of the object: two words, always equal. False: no room. */
static bool put(uint64_t value)
{
    mu_a64 *body;

    mu_txn_begin(txn(), own(), OBJECT);
    do {
        assert(mu_txn_read(txn(), root()) != MU_READ_CORRUPT);
        if (mu_txn_root(txn(), MU_TYPE_PAGE, 0, 16, 0, &body)) {
            mu_txn_abort(txn());
            return false;
        }
        mu_store_relaxed(&body[0], value);
        mu_store_relaxed(&body[1], value);
    } while (mu_txn_commit(txn()) == MU_RETRY);
    return true;
}

/* The value, which must be whole; 0 when there is none. */
static uint64_t get(void)
{
    enum mu_read rc = mu_object_read(view(), OBJECT, own()->scratch, root());

    assert(rc != MU_READ_CORRUPT);
    if (rc == MU_READ_EMPTY)
        return 0;
    assert(root()->refs == 0 && root()->bytes == 16 && root()->body[0] == root()->body[1]);
    return root()->body[0];
}

/* How many references to the block there are: in the object, its root, and what that refers to. */
static uint32_t references_to(uint32_t index, uint32_t generation)
{
    uint64_t w = mu_load_acquire(OBJECT);

    (void)generation;
    return MU_WORD_INDEX(w) == index;
}

/* Nothing is in flight any more: a block is LIVE and referred to once, or FREE. */
static void audit(void)
{
    for (uint32_t i = 1; i <= MODEL_BLOCKS; i++) {
        uint64_t w = mu_load_acquire(&mu_heap_block(view(), i, NULL)->word);
        uint32_t n = references_to(i, MU_BLOCK_GENERATION(w));

        assert(MU_BLOCK_STATE(w) != MU_OWNED);
        assert(n == (MU_BLOCK_STATE(w) == MU_LIVE));
    }
}

#endif
