/*
 * full.c: a heap that was searched in vain, and a block that is freed.
 *
 * Stands for: search_all() in src/segment/heap.c, mu_heap_free_word() in src/segment/heap.h, dead_slot_finish() in
 * src/segment/scavenge.c.
 *
 * One block is the object's; another, of the next class, is the freer's: what a search of everything alone finds. A
 * seeker wants a small one, and again when it has been told that the freer is done. The first search may or may not be
 * in vain; the second call must not answer from memory what is no longer true. A freer that dies is done when it has
 * been cleaned up after.
 *
 * RUN short ok        -                          : one seeker
 * RUN short ok        -DTWO_SEEKERS              : two, of whom one gets it
 * RUN short ok        -DDEAD_FREER               : the freer may die at any access
 * RUN short reach     -DREACH                    : a search is in vain
 * RUN short forgotten -DBREAK_WEAK_FULL_FENCE    : no fence between the bit and the search
 * RUN short forgotten -DBREAK_WEAK_FREE          : no sequentially consistent look after the free
 * RUN short forgotten -DBREAK_FREE_UNTOLD        : who frees tells nobody
 * RUN short forgotten -DDEAD_FREER -DBREAK_SCAVENGER_UNTOLD : who cleans up tells nobody
 */
#ifdef TWO_SEEKERS
#define MODEL_SLOTS 4u
#else
#define MODEL_SLOTS 3u
#endif
#define MODEL_BLOCKS  2u
#define MODEL_CLASSES 2u
#define MODEL_CHUNKS  2u
#include "shm_layout/layout.h"
#define FREER       0
#define FIRST_VALUE 9
#define MODEL_IMAGE                                                                                                    \
    [AT_OBJECTS] = MU_WORD(1, 1), [AT_HEAP] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),                                         \
    [AT_HEAP + 1] = MU_META(VALUE_WORDS * 8, 0, MU_TYPE_PAGE), [AT_HEAP + 2] = FIRST_VALUE,                            \
    [AT_HEAP + BLOCK_WORDS] = MU_BLOCK_WORD(0, 0, 1, MU_LIVE),                                                         \
    [AT_HEAP + 2 * BLOCK_WORDS] = MU_BLOCK_WORD(0, 0, FREER, MU_OWNED)
#include "mechanism.h"

static _Atomic(int) freed;

static void *freer(void *arg)
{
    (void)arg;
    become(FREER);
#ifdef DEAD_FREER
    mortal = FREER + 1;
#endif
    mu_heap_discard(own(), MU_REF(0, 3));
    mortal = 0;
#ifndef DEAD_FREER
    atomic_store_explicit(&freed, 1, memory_order_release);
#endif
    return NULL;
}

static bool wants_one(void)
{
    struct mu_block *b;
    uint64_t ref;

    return mu_heap_alloc(own(), 8, 0, &ref, &b) == MUSTER_OK;
}

enum { GOT = 1, REFUSED = 2 };

static int seek(uint32_t slot)
{
    become(slot);
    if (wants_one())
        return GOT;
#ifdef REACH
    MUST(reach, !own()->dry[0]);
#endif
    if (!atomic_load_explicit(&freed, memory_order_acquire))
        return 0;
    return wants_one() ? GOT : REFUSED;
}

static void *seeker(void *arg)
{
    return (void *)(uintptr_t)seek((uint32_t)(uintptr_t)arg);
}

int main(void)
{
    void *first, *second = NULL;
    pthread_t f, s, s2;

    become(MAIN);
    pthread_create(&f, NULL, freer, NULL);
    pthread_create(&s, NULL, seeker, (void *)1);
#ifdef TWO_SEEKERS
    pthread_create(&s2, NULL, seeker, (void *)2);
#endif
#ifdef DEAD_FREER
    kill_owner(FREER);
    pthread_join(f, NULL);
    mu_scavenge(own(), NULL, NULL);
    atomic_store_explicit(&freed, 1, memory_order_release);
#else
    pthread_join(f, NULL);
#endif
    pthread_join(s, &first);
#ifdef TWO_SEEKERS
    pthread_join(s2, &second);
#endif
    MUST(forgotten, (uintptr_t)first != REFUSED || (uintptr_t)second == GOT);
    MUST(forgotten, (uintptr_t)second != REFUSED || (uintptr_t)first == GOT);
    MUST(twice, (uintptr_t)first != GOT || (uintptr_t)second != GOT);
    return 0;
}
