/*
 * reuse.c: a dead writer's slot is claimed again while a slow scavenger is still at work.
 *
 * Stands for: mu_slot_claim() in src/segment/slot.c, mu_scavenge() in src/segment/scavenge.c.
 *
 * The victim dies in an overwrite. Two scavengers clean up after it; the quicker one then claims the slot
 * that became free, the victim's, and overwrites the value with it. The slower one must take nothing of that for the
 * dead one's: not its blocks, not its intent.
 *
 * RUN short ok    -DDIES=OWNED_FILLED                     : the victim's block is OWNED
 * RUN full  ok    -DDIES=UNCOMMITTED                      : the block is LIVE, not yet committed
 * RUN full  ok    -DDIES=COMMITTED                        : committed, the old block not yet freed
 * RUN short ok    -DDIES=FREED                            : all done but the clearing of the intent
 * RUN full  ok    -DDIES=OWNED_FILLED -DCROWDED           : the slower one then wants the same block
 * RUN short reach -DDIES=OWNED_FILLED -DREACH             : the slot is claimed while the other scavenger is at work
 * RUN short freed -DDIES=OWNED_FILLED -DCROWDED -DBREAK_SWEEP_ANY_INCARNATION : the sweep does not compare incarnations
 * RUN short freed -DDIES=OWNED_FILLED -DBREAK_SAME_DEATH_UNCHECKED : the intent is believed without a second look at
 * the slot
 */
#define MODEL_SLOTS 3u
#ifdef CROWDED
#define MODEL_BLOCKS 2u
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

static void *next_owner(void *arg)
{
    (void)arg;
    become(1);
    mu_scavenge(own(), NULL, NULL);
    tid = 9;
    if (mu_slot_claim(view(), 0, own()))
        return NULL; /* the other scavenger is not done */
    MUST(slot, own()->slot == 0 && own()->incarnation == 1);
    return put_once(20) == MU_COMMITTED ? &tid : NULL;
}

int main(void)
{
    pthread_t v, n;
    void *died, *claimed;
    uint32_t finished;

    become(MAIN);
    pthread_create(&v, NULL, victim, NULL);
    pthread_join(v, &died);
    pthread_create(&n, NULL, next_owner, NULL);
    finished = mu_scavenge(own(), NULL, NULL);
#ifdef CROWDED
    put_once(30);
#endif
    pthread_join(n, &claimed);
#ifdef REACH
    MUST(reach, !claimed || finished);
#endif
    (void)finished;
    MUST(lost, get() == 30 || !claimed || get() == 20);
    audit();
    return 0;
}
