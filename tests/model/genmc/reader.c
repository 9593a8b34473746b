/*
 * reader.c: an optimistic reader, and a writer that reuses blocks at once.
 *
 * Stands for: mu_object_read() in src/segment/object.c, mu_recheck() in src/sync/shm.h, the release fence in
 * mu_heap_alloc() in src/segment/heap.c, and the commit.
 *
 * Values are of two words. There are two blocks, so that each overwrite fills the block that held the last value but
 * one, which the reader may still be copying. What the reader returns was whole, and the values that it sees come in
 * the order of the commits.
 *
 * RUN short ok    -                            : two overwrites, one read
 * RUN full  ok    -DREADS=2                    : two overwrites, two reads
 * RUN full  ok    -DWRITES=3                   : three overwrites, one read
 * RUN short reach -DREACH                      : the last value can be read
 * RUN short torn  -DBREAK_NO_RELEASE_FENCE     : a recycled block is filled without a fence
 * RUN short torn  -DBREAK_NO_ACQUIRE_FENCE     : the second look is not ordered behind the copy
 * RUN short torn  -DBREAK_NO_RECHECK           : there is no second look
 */
#define MODEL_BLOCKS 2u
#define MODEL_SLOTS  2u
#define VALUE_WORDS  2
#ifndef READS
#define READS 1
#endif
#ifndef WRITES
#define WRITES 2
#endif
#include "mechanism.h"

static void *reader(void *arg)
{
    uint64_t last = 0;

    (void)arg;
    become(0);
    for (int i = 0; i < READS; i++) {
        uint64_t value = get();

        MUST(order, value >= last && value >= FIRST_VALUE && value <= FIRST_VALUE + WRITES);
        MUST(torn, value - FIRST_VALUE == MU_WORD_TAG(root()->word) - 1);
        last = value;
    }
#ifdef REACH
    MUST(reach, last != FIRST_VALUE + WRITES);
#endif
    return NULL;
}

int main(void)
{
    pthread_t r;

    become(MAIN);
    pthread_create(&r, NULL, reader, NULL);
    for (int i = 1; i <= WRITES; i++)
        put(FIRST_VALUE + i);
    pthread_join(r, NULL);
    audit();
    return 0;
}
