/*
 * overwrite.c: a writer that may die at any access, and one that survives.
 *
 * Stands for: mu_txn_root(), mu_txn_commit() and mu_txn_abort() in src/segment/object.c, mu_heap_alloc(),
 * mu_heap_publish() and mu_heap_free() in src/segment/heap.c, mu_scavenge() in src/segment/scavenge.c.
 *
 * The victim tries once to replace the object's value; the survivor replaces it once, or twice, so that the blocks that
 * it freed are taken again while the victim still holds what it read. When the kernel has reported the death, the
 * victim's slot is scavenged, twice, while the survivor goes on. In the end ownership equals reachability, and the tag
 * has counted every commit.
 *
 * RUN short ok    -                                   : one overwrite each
 * RUN full  ok    -DPUTS=2                            : the survivor overwrites twice
 * RUN short reach -DREACH                             : the victim does die
 * RUN short leak  -DBREAK_NO_INTENT                   : the writer does not say what it is about to do
 * RUN short freed -DBREAK_NO_PUBLISH                  : blocks are committed while still OWNED
 * RUN short freed -DBREAK_UNDO_REACHABLE              : the scavenger frees what the object names
 * RUN short freed -DPUTS=2 -DBREAK_UNDO_ANY_GENERATION : the scavenger frees the block at any generation
 * RUN short freed -DPUTS=2 -DBREAK_NO_SECOND_LOOK     : the old root's generation is not confirmed by the object's word
 */
#ifndef PUTS
#define PUTS 1
#endif
#include "mechanism.h"

static void *victim(void *arg)
{
    (void)arg;
    become(0);
    mortal = 1;
    put_once(10);
    mortal = 0;
    return NULL;
}

static void *survivor(void *arg)
{
    (void)arg;
    become(1);
    for (int i = 0; i < PUTS; i++)
        put(20 + i);
    return NULL;
}

int main(void)
{
    pthread_t v, s;
    void *died;
    uint64_t value;

    become(MAIN);
    pthread_create(&v, NULL, victim, NULL);
    pthread_create(&s, NULL, survivor, NULL);
    kill_owner(0);
    pthread_join(v, &died);
    mu_scavenge(own(), NULL, NULL);
    mu_scavenge(own(), NULL, NULL);
    pthread_join(s, NULL);
#ifdef REACH
    MUST(reach, !died);
#endif
    value = get();
    MUST(lost, value == 10 || value == 20 + PUTS - 1);
    MUST(lost, MU_WORD_TAG(root()->word) >= 1 + PUTS && MU_WORD_TAG(root()->word) <= 2 + PUTS);
    audit();
    return 0;
}
