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
static struct muster_segment seg;
static struct mu_ctx ctx[MODEL_SLOTS];
static mu_a64 *object;

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
    atomic_store_explicit(mu_slot_liveness(&seg, mortal - 1), 0x40000000u, memory_order_release);
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

/* Become the owner of slot `slot`: its context is as after a first search. */
static void claim(uint32_t slot)
{
    tid = slot + 1;
    assert(mu_slot_claim(&seg, 0, &ctx[slot]) == MUSTER_OK);
    assert(ctx[slot].slot == slot);
    first_chunk(&ctx[slot], &ctx[slot].hints[0][0], 0, false);
}

static void prepare(void)
{
    uint8_t *at = (uint8_t *)memory;

    seg.base = at;
    seg.fd = -1;
    seg.writable = true;
    seg.header = (struct mu_header *)at;
    seg.slots = (struct mu_slot *)(at += WORDS_HEADER * 8);
    seg.chunks = (mu_a32 *)(at += WORDS_SLOTS * 8);
    seg.buckets = (mu_a64 *)(at += WORDS_CHUNKS * 8);
    seg.heap = at += WORDS_OBJECTS * 8;
    seg.num_slots = MODEL_SLOTS;
    seg.num_chunks = 1;
    seg.num_buckets = 1;
    object = &seg.buckets[0];
    mu_cas32(&seg.chunks[0], 0, chunk_word(0, false));
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        claim(i);
}

/* The value of an object: two words, always equal. */
static bool put(struct mu_ctx *c, uint64_t value)
{
    struct mu_txn t;
    struct mu_root r;
    mu_a64 *body;

    mu_txn_begin(&t, c, object);
    do {
        assert(mu_txn_read(&t, &r) != MU_READ_CORRUPT);
        if (mu_txn_root(&t, MU_TYPE_PAGE, 0, 16, 0, &body)) {
            mu_txn_abort(&t);
            return false;
        }
        mu_store_relaxed(&body[0], value);
        mu_store_relaxed(&body[1], value);
    } while (mu_txn_commit(&t) == MU_RETRY);
    return true;
}

/* The value, which must be whole; 0 when there is none. */
static uint64_t get(struct mu_ctx *c)
{
    struct mu_root r;
    enum mu_read rc = mu_object_read(&seg, object, c->scratch, &r);

    assert(rc != MU_READ_CORRUPT);
    if (rc == MU_READ_EMPTY)
        return 0;
    assert(r.refs == 0 && r.bytes == 16 && r.body[0] == r.body[1]);
    return r.body[0];
}

static struct mu_block *nth_block(uint32_t i)
{
    return block_at(&seg, i + 1);
}

/* How many references to the block there are, in the object, its root, and what that refers to. */
static uint32_t references_to(uint32_t index, uint32_t generation)
{
    uint64_t w = mu_load_acquire(object);
    uint32_t n = MU_WORD_INDEX(w) == index;
    struct mu_block *b = block_at(&seg, MU_WORD_INDEX(w));

    (void)generation;
    return n;
}

/* Nothing is in flight any more: a block is LIVE and referred to once, or FREE. */
static void audit(void)
{
    for (uint32_t i = 0; i < MODEL_BLOCKS; i++) {
        uint64_t w = mu_load_acquire(&nth_block(i)->word);
        uint32_t n = references_to(i + 1, MU_BLOCK_GENERATION(w));

        assert(MU_BLOCK_STATE(w) != MU_OWNED);
        if (MU_BLOCK_STATE(w) == MU_LIVE)
            assert(n == 1);
        else
            assert(n == 0);
    }
}

#endif
