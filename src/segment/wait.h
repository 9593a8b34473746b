/*
 * segment/wait.h: waiting for a word to change: spin, yield, sleep.
 *
 *     mu_wait_begin(&w, seg, ctx, deadline, "key /a");
 *     for (;;) {
 *         mu_wait_look(&w);
 *         ... look at the object (its word: seen) and at whatever ends the wait; return if there is an answer
 *         status = mu_wait_on(&w, word, seen);
 *         if (status) break;
 *     }
 *     mu_wait_end(&w);
 */
#ifndef MU_SEGMENT_WAIT_H
#define MU_SEGMENT_WAIT_H

#include "segment/segment.h"

/* As what the wait is counted, when it slept. */
enum mu_wait_kind { MU_WAIT_OTHER, MU_WAIT_KEY, MU_WAIT_BARRIER };

#define MU_WAIT_UNCHOSEN UINT32_MAX
struct mu_wait {
    struct muster_segment *seg;
    struct mu_ctx *ctx; /* NULL: read-only; the wait polls */
    muster_deadline deadline;
    const mu_a32 *interrupt; /* of the process's handle: the context's, or set by a waiter without one; may be NULL */
    const char *what;        /* for people: "barrier epoch-7"; NUL-terminated, lives as long as the wait */
    uint32_t epoch;
    uint32_t spins, yields; /* left; 0 skips the stage. The first mu_wait_on() chooses the spins where nobody has */
    bool told;              /* the slot says where it sleeps */
    uint64_t since;         /* then: since when */
    enum mu_wait_kind kind; /* MU_WAIT_OTHER unless set after mu_wait_begin() */
    bool remote;            /* see mu_wait_remote() */
    bool looked;            /* past the first look: the deadline may end it */
    uint64_t recheck_at;    /* of a wait for any of some words: when the dead are looked for next */
};

void mu_wait_begin(struct mu_wait *w, struct muster_segment *seg, struct mu_ctx *ctx, muster_deadline deadline,
                   const char *what);

/* What is awaited comes over the network, by an agent: the second stage lasts about as long as that takes. Where others
 * want the processor for longer than that there is none. */
void mu_wait_remote(struct mu_wait *w);
/* Yield while something from another host is awaited. False: somebody kept the processor for so long that to sleep, and
 * be woken, is quicker: now and for a while, in which mu_wait_is_crowded(). */
bool mu_wait_yield(void);
bool mu_wait_is_crowded(void);

/* Note the epoch. Comes before every look at the state: what happens after it cannot be slept through. */
void mu_wait_look(struct mu_wait *w);

/*
 * The state, read when the word was `seen`, gives no answer: wait until the word or the epoch changes. MUSTER_OK: look
 * again (also when nothing happened). DEADLINE_EXCEEDED, CANCELLED (interrupted, closed), DATA_LOSS (truncated).
 */
enum muster_status mu_wait_on(struct mu_wait *w, mu_a64 *word, uint64_t seen);

/* Whether there was time to wait: the deadline had not passed at the first look. */
static inline bool mu_wait_has_begun(const struct mu_wait *w)
{
    return w->looked && w->spins != MU_WAIT_UNCHOSEN;
}

/*
 * The same for any of `count` words, at most MU_WAIT_ANY, without spinning; the context is there. `all`: nothing else
 * can end the wait; else it ends after a millisecond.
 */
#define MU_WAIT_ANY 126u
enum muster_status mu_wait_on_any(struct mu_wait *w, mu_a64 *const *words, const uint64_t *seen, uint32_t count,
                                  bool all);

void mu_wait_end(struct mu_wait *w);

/* Pauses that take about `ns` nanoseconds on this processor. */
uint32_t mu_wait_pauses(uint32_t ns);

/*
 * Processors that the tasks of this host share: those that the calling thread may use, or that the launcher told of, or
 * those of all tasks' processes that have joined, whichever is more. The search ends at `enough`, and where process
 * after process adds none.
 */
unsigned mu_wait_processors(const struct muster_segment *seg, uint32_t enough);

/* Called by waiters at each recheck (100 ms): somebody may be dead. Set by the task room at every join, to the same. */
extern void (*_Atomic mu_wait_recheck)(struct mu_ctx *ctx);

#endif
