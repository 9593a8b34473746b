/*
 * scavengers.c: one writer that died at any access, and two scavengers at once, beside a writer that lives.
 *
 * Stands for: mu_scavenge() and all below it in src/segment/scavenge.c.
 *
 * The victim overwrites the object's value and dies; then two scavengers find it, while another writer takes the blocks
 * that the first of them frees. In the end ownership equals reachability, and the dead one's slot is free, once.
 *
 * RUN short ok    -DONE                                   : one scavenger and a writer; death anywhere
 * RUN short ok    -DNO_WRITER                             : two scavengers alone; death anywhere
 * RUN full  ok    -DDIES=OWNED_FILLED                     : two scavengers and a writer; the block is OWNED
 * RUN full  ok    -DDIES=UNCOMMITTED                      : the block is LIVE, not yet committed
 * RUN full  ok    -DDIES=COMMITTED                        : committed, the old block not yet freed
 * RUN full  ok    -DDIES=FREED                            : all done but the clearing of the intent
 * RUN short reach -DNO_WRITER -DREACH                     : either scavenger may finish
 * RUN short freed -DDIES=OWNED_FILLED -DBREAK_SWEEP_BY_STORE : blocks are swept without comparing what was seen
 * RUN short freed -DDIES=COMMITTED -DBREAK_UNDO_ANY_GENERATION : the scavenger frees the block at any generation
 */
#define MODEL_SLOTS 4u
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

static void *scavenger(void *arg)
{
    (void)arg;
    become(1);
    return (void *)(uintptr_t)mu_scavenge(own(), NULL, NULL);
}

static void *writer(void *arg)
{
    (void)arg;
    become(2);
    put(20);
    return NULL;
}

int main(void)
{
    pthread_t v, s, w;
    void *died, *first = NULL;
    uint32_t second;

    become(MAIN);
    pthread_create(&v, NULL, victim, NULL);
    kill_owner(0);
    pthread_join(v, &died);
#ifndef ONE
    pthread_create(&s, NULL, scavenger, NULL);
#endif
#ifndef NO_WRITER
    pthread_create(&w, NULL, writer, NULL);
#endif
    second = mu_scavenge(own(), NULL, NULL);
#ifndef ONE
    pthread_join(s, &first);
#endif
#ifndef NO_WRITER
    pthread_join(w, NULL);
#endif
#ifdef REACH
    MUST(reach, !first);
#endif
    MUST(slot, (uintptr_t)first + second == (died ? 1 : 0));
    get();
    audit();
    return 0;
}
