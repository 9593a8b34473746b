/*
 * sleep.c: a sleeper, and a writer that may die between its commit and its wake.
 *
 * Stands for: mu_wait_look() and mu_wait_on() in src/segment/wait.c, the wake in mu_commit_try() in
 * src/segment/commit.h, mu_epoch_move() in src/segment/segment.c.
 *
 * The waiter waits until the object's value is no longer the first; the writer changes it once. There is no recheck
 * timer and no spurious wake: who misses its wake sleeps for ever. The kernel compares both words and queues the
 * sleeper under one lock, which a wake takes too. When the writer dies, the scavenger's epoch must wake the sleeper;
 * whether the value was changed is then for it to see.
 *
 * With QUIET the waiter waits for ten more, and a third thread adds one, quietly (mu_txn_commit_quietly()): it wakes
 * nobody, and leaves the sleeper to the writer.
 *
 * RUN short ok    -                             : the waiter is woken, or does not sleep
 * RUN short ok    -DDEAD_WRITER                 : the writer may die at any access
 * RUN short reach -DREACH                       : the waiter does sleep
 * RUN short reach -DDEAD_WRITER -DREACH_DEATH   : the writer does die
 * RUN short hang  -DBREAK_NO_WAKE               : the commit does not wake
 * RUN short hang  -DBREAK_KERNEL_SEES_NOTHING   : the word is not compared when the sleeper is queued
 * RUN short hang  -DDEAD_WRITER -DBREAK_NO_EPOCH : a death does not move the epoch
 * RUN short ok    -DQUIET                       : the waiter is woken, whatever is committed quietly before, or after
 * RUN short reach -DQUIET -DREACH               : the waiter does sleep
 * RUN short hang  -DQUIET -DBREAK_QUIET_CLEARS  : a quiet commit takes the sign of the sleeper out
 * RUN short hang  -DQUIET -DBREAK_ALL_QUIET     : what is waited for is committed quietly
 */
#define MODEL_FUTEX
#include "mechanism.h"

#include <genmc.h>

#include "segment/wait.c"

PRIVATE(struct mu_wait, waiting, sizeof(struct mu_wait))

#include "queue.h"

void mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, muster_deadline deadline)
{
    (void)deadline;
    pthread_mutex_lock(&queue);
    queue_or_go((uint32_t)atomic_load_explicit(word, memory_order_relaxed) == value &&
                atomic_load_explicit(epoch, memory_order_relaxed) == seen);
}

void mu_futex_wake(mu_a64 *word)
{
    (void)word;
    mu_point(NULL);
#ifdef BREAK_QUIET_CLEARS /* it is a commit that has cleared S, and wakes nobody */
    if (own()->slot == MAIN)
        return;
#endif
    queue_wake();
}

void mu_futex_wake32(mu_a32 *word)
{
    (void)word;
    mu_point(NULL);
    queue_wake();
}

bool mu_segment_is_closed(const struct muster_segment *segment)
{
    (void)segment;
    return false;
}

enum muster_status mu_segment_say_closed(const struct muster_segment *segment, const char *what)
{
    (void)segment;
    (void)what;
    return MUSTER_CANCELLED;
}

bool mu_segment_is_whole(const struct muster_segment *segment)
{
    (void)segment;
    return true;
}

/* The writer is known to be dead: its wait ends, as a wait does for a task in error. */
static _Atomic(int) in_error;

#ifdef QUIET
#ifdef BREAK_QUIET_CLEARS
#define mu_txn_commit_quietly(txn) mu_txn_commit(txn)
#endif
static void add(uint64_t more, bool quietly)
{
    enum mu_commit commit = MU_RETRY;

    while (commit == MU_RETRY) {
        uint64_t value = get() + more;
        mu_a64 *body;

        mu_txn_begin(txn(), own(), OBJECT);
        txn()->seen = root()->word;
        txn()->num_olds = 1;
        if (!mu_txn_root(txn(), MU_TYPE_PAGE, 0, VALUE_WORDS * 8, 0, &body)) {
            for (uint32_t i = 0; i < VALUE_WORDS; i++)
                mu_store_relaxed(&body[i], value);
            commit = quietly ? mu_txn_commit_quietly(txn()) : mu_txn_commit(txn());
        }
        if (commit == MU_RETRY)
            mu_txn_abort(txn());
    }
}
#endif

static void *waiter(void *arg)
{
    struct mu_wait *w = waiting();

    (void)arg;
    become(0);
    w->seg = view();
    w->ctx = own();
    w->interrupt = NULL;
    w->deadline = MUSTER_FOREVER;
    w->spins = w->yields = 0; /* spinning and yielding only look again */
    w->told = w->looked = true;
    for (;;) {
        uint64_t seen;

        mu_wait_look(w);
#ifdef QUIET
        if (get() >= 10)
            break;
        seen = root()->word;
#else
        seen = mu_load_acquire(OBJECT);
        if (MU_WORD_TAG(seen) != 1)
            break;
#endif
        if (atomic_load_explicit(&in_error, memory_order_relaxed))
            return NULL;
        MUST(status, mu_wait_on(w, OBJECT, seen) == MUSTER_OK);
    }
#ifndef QUIET
    MUST(lost, get() == 10);
#endif
    return NULL;
}

static void *writer(void *arg)
{
    (void)arg;
    become(1);
#ifdef DEAD_WRITER
    mortal = 2;
#endif
#ifndef QUIET
    put(10);
#elif defined(BREAK_ALL_QUIET)
    add(10, true);
#else
    add(10, false);
#endif
    mortal = 0;
    return NULL;
}

static void on_death(void *arg, struct mu_ctx *ctx, const struct mu_death *death)
{
    (void)arg, (void)ctx, (void)death;
    atomic_store_explicit(&in_error, 1, memory_order_relaxed);
}

int main(void)
{
    pthread_t s, w;
    void *died = NULL;

    become(MAIN);
    pthread_create(&s, NULL, waiter, NULL);
    pthread_create(&w, NULL, writer, NULL);
#ifdef DEAD_WRITER
    kill_owner(1);
#endif
#ifdef QUIET
    add(1, true);
#endif
    pthread_join(w, &died);
#ifdef REACH_DEATH
    MUST(reach, !died);
#endif
    (void)died;
    mu_scavenge(own(), on_death, NULL);
    pthread_join(s, NULL);
    audit();
    return 0;
}
