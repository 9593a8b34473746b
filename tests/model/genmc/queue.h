/*
 * queue.h: the kernel's queue of a futex, for one sleeper. It compares the word and queues under one lock, which a wake
 * takes too; there is no timer and no spurious wake: who misses its wake sleeps for ever.
 */
#ifndef MODEL_QUEUE_H
#define MODEL_QUEUE_H

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static bool queued;
static _Atomic(int) woken;

/* With the lock, which is given back: sleep when the words were as expected, else go on at once. */
static void queue_or_go(bool same)
{
#ifdef BREAK_KERNEL_SEES_NOTHING
    same = true;
#endif
    queued = same;
    pthread_mutex_unlock(&queue);
    if (!same)
        return;
#ifdef REACH
    MUST(reach, false);
#endif
    __VERIFIER_loop_begin();
    for (;;) {
        int now;

        __VERIFIER_spin_start();
        now = atomic_load_explicit(&woken, memory_order_acquire); /* acquire: pairs with queue_wake() */
        __VERIFIER_spin_end(now);
        if (now)
            break;
    }
    atomic_store_explicit(&woken, 0, memory_order_relaxed); /* relaxed: partner is the load above, its own thread's */
}

static void queue_wake(void)
{
    pthread_mutex_lock(&queue);
    if (queued) {
        queued = false;
        atomic_store_explicit(&woken, 1, memory_order_release); /* release: pairs with queue_or_go() */
    }
    pthread_mutex_unlock(&queue);
}

#endif
