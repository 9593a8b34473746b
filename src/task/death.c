/*
 * task/death.c: being told of deaths by the kernel, for agents.
 *
 * The liveness word of every slot is a robust futex: at a thread's death the kernel clears the owner, sets OWNER_DIED
 * and, if the waiters bit is set, wakes one sleeper. The watcher sets that bit in every living slot's word and sleeps
 * on up to 126 of them, the epoch and slots_high (claims) at once, in turns of a few milliseconds when there are more.
 * It wakes about 0.15 ms after a SIGKILL, long before the process's memory is torn down. Threads of its own process are
 * left out: they are not killed without it. One that ends and keeps its slot is found at the next look.
 */
#include <linux/futex.h>

#include "base/clock.h"
#include "segment/file.h"
#include "segment/slot.h"
#include "segment/wait.h"
#include "sync/futex.h"
#include "task/task.h"

enum { WORDS = 126 };
#define TURN_NS  2000000u   /* a turn, when there are more slots than one sleep can watch */
#define SLEEP_NS 100000000u /* I3; a new slot is noticed after this at the latest, and nothing is missed for longer */

enum muster_status muster_scavenge(struct muster *muster, size_t *ret_deaths)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);
    uint32_t n;

    if (status)
        return status;
    for (uint32_t i = 0; i < mu_slot_high(muster->seg); i++)
        mu_slot_settle(muster->seg, i);
    n = mu_task_scavenge(ctx);
    if (ret_deaths)
        *ret_deaths = n;
    mu_exit(ctx);
    return MUSTER_OK;
}

/* Collect living slots' words from *next on, with the waiters bit set. False: one has died since the caller looked. */
static bool liveness_collect(const struct mu_ctx *ctx, uint32_t *next, mu_a32 **words, uint32_t *values, size_t *ret_n)
{
    struct muster_segment *seg = ctx->seg;
    uint32_t self = MU_SLOT_PID(mu_load_acquire(&ctx->own->word));  /* acquire: of no consequence, it is our own */
    uint64_t namespace = mu_load_relaxed(&ctx->own->pid_namespace); /* relaxed: likewise */
    uint32_t high = mu_slot_high(seg), looked;
    size_t n = 0;

    for (looked = 0; looked < high && n < WORDS; looked++) {
        uint32_t i = *next < high ? *next : 0, v;
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */
        mu_a32 *word = mu_slot_liveness(seg, i);

        *next = i + 1;
        if (MU_SLOT_STATE(w) != MU_SLOT_LIVE)
            continue;
        /* relaxed: of this owner or of its successor; the process is ours only if the pid is */
        if (MU_SLOT_PID(w) == self && mu_load_relaxed(&seg->slots[i].pid_namespace) == namespace)
            continue;
        v = mu_load32_acquire(word); /* acquire: pairs with the kernel's write */
        /* of a dead one: the kernel has written there, and wakes nobody that sleeps on that */
        if (!(v & FUTEX_TID_MASK))
            return false;
        /* the owner's unlock, or the kernel at its death, then wakes us; where the CAS fails the word has changed,
         * and unless to just this value, the kernel will refuse to sleep on it */
        if (!(v & FUTEX_WAITERS))
            mu_cas32(word, v, v | FUTEX_WAITERS);
        words[n] = word;
        values[n++] = v | FUTEX_WAITERS;
    }
    *ret_n = n;
    return true;
}

enum muster_status mu_death_wait(struct muster *muster, muster_deadline deadline, size_t *ret_deaths)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);
    uint32_t next = 0, deaths = 0;

    if (status)
        return status;
    for (;;) {
        struct muster_segment *seg = muster->seg;
        mu_a32 *words[WORDS + 2];
        uint32_t values[WORDS + 2], high = mu_load32_acquire(&seg->header->slots_high); /* acquire: as mu_slot_high() */
        uint32_t epoch = mu_load32_acquire(&seg->header->epoch);                        /* acquire: as wait.c */
        uint64_t until;
        size_t n;

        deaths = mu_task_scavenge(ctx);
        if (deaths)
            break;
        if (mu_load32_acquire(&muster->interrupt)) /* acquire: pairs with muster_interrupt() */
            status = mu_fail(MUSTER_CANCELLED, "interrupted while waiting for deaths");
        else if (mu_segment_is_closed(seg))
            status = mu_segment_say_closed(seg, "");
        else if (deadline <= mu_now())
            status = MUSTER_DEADLINE_EXCEEDED;
        if (status)
            break;
        if (!liveness_collect(ctx, &next, words, values, &n))
            continue;
        until = mu_now() + (high > WORDS ? TURN_NS : SLEEP_NS);
        words[n] = &seg->header->slots_high;
        values[n++] = high;
        words[n] = &seg->header->epoch;
        values[n++] = epoch;
        mu_futex_wait_any(words, values, n, until < deadline ? until : deadline);
    }
    if (ret_deaths)
        *ret_deaths = deaths;
    mu_exit(ctx);
    return status;
}

enum muster_status muster_death_wait(struct muster *muster, muster_deadline deadline, size_t *ret_deaths)
{
    enum muster_status status = mu_death_wait(muster, deadline, ret_deaths);

    if (status == MUSTER_DEADLINE_EXCEEDED)
        mu_fail(status, "nobody died before the deadline");
    return status;
}
