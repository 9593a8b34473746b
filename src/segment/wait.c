/*
 * segment/wait.c: the three-stage wait.
 *
 * Stage 1 spins for a few microseconds, stage 2 yields the processor some twenty times, stage 3 sleeps. Stage 1 is
 * skipped when the job has more tasks here than processors: the awaited one is then likely not running. Tasks may be
 * bound each to its own, by muster's launcher, which tells how many they are together, or by another, which does not:
 * then their processes are asked.
 *
 * No wake-up is lost: the sleepers bit is set by CAS in the very word that was looked at, so a commit in between makes
 * it fail, and one after it sees the bit; the commit that clears it wakes. A waker that dies between commit and wake
 * is made good by the scavenger, which moves the epoch; the epoch was read before the look, and the kernel compares it
 * again before sleeping. And in any case nobody sleeps longer than RECHECK_NS without looking again.
 */
#include "segment/wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/file.h"
#include "segment/stats.h"
#include "sync/futex.h"

#define RECHECK_NS 100000000u
#define SOME_NS    1000000u /* where more than can be slept on may end the wait */
#define POLL_NS    2000000u /* read-only: cannot ask to be woken */
/* A waiter that gets the processor back only after so long shares it with threads that compute: the scheduler gives
 * them slices, where threads that poll give it back soon. Once may be chance: so the first time counts for a little,
 * and more each time. */
#define CROWDED_NS      500000u
#define CROWDED_FIRST   16000000u
#define CROWDED_LONGEST 128000000u
#ifdef MU_SIM
enum { SPIN_NS = 4000, YIELDS = 2, REMOTE_YIELDS = 3 }; /* schedules are better spent elsewhere */
#else
enum { SPIN_NS = 4000, YIELDS = 20, REMOTE_YIELDS = 200 };
#endif

void (*_Atomic mu_wait_recheck)(struct mu_ctx *ctx);

uint32_t mu_wait_pauses(uint32_t ns)
{
    static _Atomic uint32_t per_us; /* relaxed, process-local, as all here: every thread measures about the same */
    uint32_t n = atomic_load_explicit(&per_us, memory_order_relaxed);

    if (!n) {
#ifdef MU_SIM
        n = 1;
#else
        enum { PAUSES = 256 };
        uint64_t best = UINT64_MAX;

        for (int i = 0; i < 8; i++) { /* the best of a few: an interrupt only makes it longer */
            uint64_t t = mu_now();

            for (int k = 0; k < PAUSES; k++)
                mu_pause();
            t = mu_now() - t;
            best = t < best ? t : best;
        }
        n = best ? (uint32_t)(PAUSES * 1000u / best) : PAUSES;
        n = n ? n : 1;
#endif
        /* process-local, relaxed: partner is the load above; a thread that misses it measures again and finds about the
         * same */
        atomic_store_explicit(&per_us, n, memory_order_relaxed);
    }
    return (uint32_t)((uint64_t)ns * n / 1000u) + 1;
}

#if defined(MU_SIM) || defined(MU_GENMC)
unsigned mu_wait_processors(const struct muster_segment *seg, uint32_t enough)
{
    (void)seg;
    (void)enough;
    return mu_processors();
}

/* Nothing is kept: a schedule takes the same steps alone and behind others. */
static bool are_apart(const struct muster_segment *seg)
{
    return mu_processors() >= seg->local_tasks;
}
#else
enum { IN_VAIN = 16, SETS = 16 }; /* a set of 1024 is refused where the kernel knows more */

unsigned mu_wait_processors(const struct muster_segment *seg, uint32_t enough)
{
    static _Atomic uint64_t own_namespace; /* process-local, relaxed: the first threads that ask find the same */
    unsigned own = mu_processors(), all;
    uint32_t high = own < enough ? mu_slot_high(seg) : 0, last = 0;
    cpu_set_t sets[SETS], theirs[SETS];
    uint64_t namespace;

    if (!high || sched_getaffinity(0, sizeof sets, sets))
        return own;
    /* process-local, relaxed, like the store: see above */
    namespace = atomic_load_explicit(&own_namespace, memory_order_relaxed);
    if (!namespace) {
        namespace = mu_namespace("pid");
        atomic_store_explicit(&own_namespace, namespace, memory_order_relaxed);
    }
    all = (unsigned)CPU_COUNT_S(sizeof sets, sets);
    for (uint32_t i = 0, vain = 0; namespace && i < high && all < enough && vain < IN_VAIN; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */
        uint32_t pid = MU_SLOT_PID(w);
        unsigned before = all;

        /* relaxed: of this owner or of its successor, and a wrong guess costs some time of spinning, or of sleeping.
         * Observers, and the agent, have processors that no task has */
        if (MU_SLOT_STATE(w) != MU_SLOT_LIVE || pid == last || !mu_load_relaxed(&seg->slots[i].task) ||
            mu_load_relaxed(&seg->slots[i].pid_namespace) != namespace)
            continue;
        last = pid;
        if (sched_getaffinity((pid_t)pid, sizeof theirs, theirs))
            continue;
        CPU_OR_S(sizeof sets, sets, sets, theirs);
        all = (unsigned)CPU_COUNT_S(sizeof sets, sets);
        vain = all > before ? 0 : vain + 1;
    }
    return all > own ? all : own;
}

/* Whether all tasks of this host may run at once. Asked once a thread, and again while more come. */
static bool are_apart(const struct muster_segment *seg)
{
    static _Thread_local struct {
        const struct muster_segment *seg;
        uint64_t run; /* its memory may be another's by now */
        uint32_t high;
        unsigned processors;
    } last;

    if (last.seg == seg && last.run == seg->header->run_id[0] &&
        (last.processors >= seg->local_tasks || last.high == mu_slot_high(seg)))
        return last.processors >= seg->local_tasks;
    last.seg = seg;
    last.run = seg->header->run_id[0];
    last.high = mu_slot_high(seg);
    last.processors = mu_wait_processors(seg, seg->local_tasks);
    return last.processors >= seg->local_tasks;
}
#endif

void mu_wait_begin(struct mu_wait *w, struct muster_segment *seg, struct mu_ctx *ctx, muster_deadline deadline,
                   const char *what)
{
    memset(w, 0, sizeof *w);
    w->seg = seg;
    w->ctx = ctx;
    w->deadline = deadline;
    w->interrupt = ctx ? ctx->interrupt : NULL;
    w->what = what;
    w->spins = MU_WAIT_UNCHOSEN;
    w->yields = YIELDS;
}

/* Process-local: until when, and for how long. A wrong guess costs a wake-up, or once in a while a slice. */
static _Atomic uint64_t crowded_until, crowded_for;

bool mu_wait_is_crowded(void)
{
#ifdef MU_SIM
    return false;
#else
    uint64_t until =
        atomic_load_explicit(&crowded_until, memory_order_relaxed); /* process-local: with crowd_note()'s store */

    return until && mu_now() < until;
#endif
}

/* process-local, relaxed, all of them: partners are these lines and the load above; threads may mix their guesses */
static void crowd_note(uint64_t now)
{
    uint64_t until = atomic_load_explicit(&crowded_until, memory_order_relaxed);
    uint64_t period = atomic_load_explicit(&crowded_for, memory_order_relaxed);

    if (now > until + 8 * period)
        period = CROWDED_FIRST;
    else if (now > until && period < CROWDED_LONGEST)
        period *= 2;
    /* relaxed, process-local: with the load of crowded_for above; a guess of its own, nothing is published by it */
    atomic_store_explicit(&crowded_for, period, memory_order_relaxed);
    /* relaxed, process-local: with the loads of crowded_until here and in mu_wait_is_crowded(); likewise */
    atomic_store_explicit(&crowded_until, now + period, memory_order_relaxed);
}

bool mu_wait_yield(void)
{
    uint64_t before = mu_now(), after;

    mu_yield();
    after = mu_now();
    if (after - before > CROWDED_NS)
        crowd_note(after);
    return !mu_wait_is_crowded();
}

void mu_wait_remote(struct mu_wait *w)
{
    w->remote = true;
    w->spins = 0;
    w->yields = mu_wait_is_crowded() ? 0 : REMOTE_YIELDS;
}

void mu_wait_look(struct mu_wait *w)
{
    /* acquire: pairs with mu_epoch_move(); the state that moved it is visible to the looks that follow */
    w->epoch = mu_load32_acquire(&w->seg->header->epoch);
}

static bool word_changed(const struct mu_wait *w, const mu_a64 *word, uint64_t seen)
{
    /* relaxed: only a reason to look again; the look itself acquires */
    return ((mu_load_relaxed(word) ^ seen) & ~MU_WORD_S) || mu_load32_relaxed(&w->seg->header->epoch) != w->epoch;
}

static void wait_tell(struct mu_wait *w)
{
    struct mu_slot *own = w->ctx->own;
    uint64_t text[12] = {0};

    if (w->told)
        return;
    snprintf((char *)text, sizeof text, "%s", w->what);
    mu_copy_in(own->wait_text, text, 12);
    /* release: the text comes first; pairs with the acquire of fill_waiting() in task/watch.c */
    w->since = mu_now();
    mu_store_release(&own->wait_since, w->since);
    w->told = true;
}

enum { SHORTEST_BITS = 11 }; /* MUSTER_STATS_BOUND_NS(0) */

static unsigned wait_bucket_of(uint64_t ns)
{
    unsigned bits = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
    unsigned bucket = bits > SHORTEST_BITS ? bits - SHORTEST_BITS : 0;

    return bucket < MU_WAIT_BUCKETS ? bucket : MU_WAIT_BUCKETS - 1;
}

/* One that slept for so long. */
static void count_barrier_wait(struct mu_slot *own, uint64_t ns)
{
    mu_a32 *bucket = &own->barrier_waits[wait_bucket_of(ns)];

    mu_store32_relaxed(bucket, mu_load32_relaxed(bucket) + 1); /* relaxed: as mu_count() */
    mu_count(&own->barrier_wait_ns, ns);
}

static void wait_count(struct mu_slot *own, enum mu_wait_kind kind, uint64_t ns)
{
    if (kind == MU_WAIT_BARRIER) {
        count_barrier_wait(own, ns);
    } else if (kind == MU_WAIT_KEY) {
        mu_count(&own->kv_waits, 1);
        mu_count(&own->kv_wait_ns, ns);
    } else {
        mu_count(&own->other_waits, 1);
    }
}

void mu_wait_end(struct mu_wait *w)
{
    if (!w->told)
        return;
    mu_store_release(&w->ctx->own->wait_since, 0); /* release: as in wait_tell() */
    wait_count(w->ctx->own, w->kind, mu_now() - w->since);
}

static enum muster_status wait_truncated(struct mu_wait *w)
{
    w->told = false; /* the slot may be gone */
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s was truncated while in use", w->seg->job);
}

static enum muster_status wait_ended(struct mu_wait *w)
{
    struct muster_segment *seg = w->seg;

    if (w->interrupt && mu_load32_acquire(w->interrupt)) /* acquire: pairs with the handler */
        return mu_fail(MUSTER_CANCELLED, "interrupted while waiting for %s", w->what);
    if (mu_segment_is_closed(seg))
        return mu_segment_say_closed(seg, w->what);
    return mu_segment_is_whole(seg) ? MUSTER_OK : wait_truncated(w);
}

/* The recheck that a sleep of RECHECK_NS ends with. */
static enum muster_status wait_recheck(struct mu_wait *w, uint64_t until)
{
    void (*recheck)(struct mu_ctx * ctx);

    if (mu_now() < until)
        return MUSTER_OK;
    if (!mu_segment_is_whole(w->seg)) /* before anything there is touched again */
        return wait_truncated(w);
    recheck = mu_wait_recheck; /* into a local: gcc calls through an atomic pointer without an atomic load */
    if (w->ctx && recheck)
        recheck(w->ctx);
    return MUSTER_OK;
}

static enum muster_status sleep_on(struct mu_wait *w, mu_a64 *word, uint64_t seen)
{
    uint64_t now = mu_now(), until = now + (w->ctx ? RECHECK_NS : POLL_NS);
    enum muster_status status = wait_ended(w);

    if (status)
        return status;
    if (w->deadline <= now)
        return mu_fail(MUSTER_DEADLINE_EXCEEDED, "the deadline passed while waiting for %s", w->what);
    if (w->ctx) {
        wait_tell(w);
        /* the sleepers bit goes into exactly what was looked at; pairs with the commit CAS that clears it */
        if (!(seen & MU_WORD_S) && !mu_cas(word, seen, seen | MU_WORD_S))
            return MUSTER_OK;
        seen |= MU_WORD_S;
    }
    mu_futex_wait(word, (uint32_t)seen, &w->seg->header->epoch, w->epoch, until < w->deadline ? until : w->deadline);
    return wait_recheck(w, until);
}

/* A yield may take long where others compute: neither the deadline nor an interrupt waits for all of them. */
static bool is_over(const struct mu_wait *w)
{
    return (w->interrupt && mu_load32_acquire(w->interrupt)) || /* acquire: pairs with the handler */
           (w->deadline != MUSTER_FOREVER && w->deadline <= mu_now());
}

enum muster_status mu_wait_on(struct mu_wait *w, mu_a64 *word, uint64_t seen)
{
    if (!w->looked) { /* not before: most waits find what they wait for at once */
        w->looked = true;
        if (w->deadline != MUSTER_FOREVER && w->deadline <= mu_now())
            return mu_fail(MUSTER_DEADLINE_EXCEEDED, "the deadline passed while waiting for %s", w->what);
        if (w->spins == MU_WAIT_UNCHOSEN)
            w->spins = are_apart(w->seg) ? mu_wait_pauses(SPIN_NS) : 0;
    }
    while (w->spins) {
        w->spins--;
        mu_pause();
        if (word_changed(w, word, seen))
            return MUSTER_OK;
    }
    while (w->yields) {
        w->yields--;
        if (!w->remote)
            mu_yield();
        else if (!mu_wait_yield() || is_over(w))
            w->yields = 0; /* sleep_on() has the words */
        if (word_changed(w, word, seen))
            return MUSTER_OK;
    }
    return sleep_on(w, word, seen);
}

enum muster_status mu_wait_on_any(struct mu_wait *w, mu_a64 *const *words, const uint64_t *seen, uint32_t count,
                                  bool all)
{
    uint64_t now = mu_now(), until = now + (all ? RECHECK_NS : SOME_NS);
    mu_a32 *halves[MU_WAIT_ANY + 1];
    uint32_t values[MU_WAIT_ANY + 1];
    enum muster_status status = wait_ended(w);

    if (status)
        return status;
    if (w->deadline <= now)
        return mu_fail(MUSTER_DEADLINE_EXCEEDED, "the deadline passed while waiting for %s", w->what);
    wait_tell(w);
    for (uint32_t i = 0; i < count; i++) {
        /* the sleepers bit goes into exactly what was looked at; pairs with the commit CAS that clears it */
        if (!(seen[i] & MU_WORD_S) && !mu_cas(words[i], seen[i], seen[i] | MU_WORD_S))
            return MUSTER_OK;
        halves[i] = (mu_a32 *)words[i]; /* the low half: see mu_futex_wait() */
        values[i] = (uint32_t)(seen[i] | MU_WORD_S);
    }
    halves[count] = &w->seg->header->epoch;
    values[count] = w->epoch;
    if (!w->recheck_at)
        w->recheck_at = now + RECHECK_NS;
    if (until > w->recheck_at)
        until = w->recheck_at;
    mu_futex_wait_any(halves, values, count + 1, until < w->deadline ? until : w->deadline);
    status = wait_recheck(w, w->recheck_at);
    if (mu_now() >= w->recheck_at)
        w->recheck_at = 0;
    return status;
}
