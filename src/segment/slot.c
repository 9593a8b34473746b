/*
 * segment/slot.c: claiming, releasing and the testimony of death.
 *
 * Invariant: a slot in state LIVE has had its liveness mutex locked, before it became LIVE, by the thread that claimed
 * it, and only that thread unlocks it, after the slot is no longer LIVE. So a LIVE slot with a mutex word that names no
 * owner is dead, by the kernel's word alone: the kernel clears the owner of every robust futex of a thread that ends,
 * is killed or execs. The mutex is only ever try-locked, and only when its slot is FREE: no process waits for
 * another's.
 *
 * A SIGKILL before the claiming CAS leaves a FREE slot with a dead mutex: the next claimer takes it over
 * (EOWNERDEAD). After it: a dead slot, scavenged. In the release, after the CAS: FREE with a dead mutex again. A FREE
 * slot may be locked for long, by a thread of a process that has left the job: it cannot be claimed until the thread
 * ends. Under the seeded scheduler there is one thread only, so the mutex word is written directly, as the kernel
 * would.
 */
#include "segment/slot.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"
#include "segment/file.h"
#include "segment/robust.h"
#include "segment/trace.h"
#include "sync/futex.h"

#define TID_MASK FUTEX_TID_MASK

mu_a32 *mu_slot_liveness(const struct muster_segment *seg, uint32_t slot)
{
    /* The futex word lies first: asserted for glibc, and looked at in libc_is_known(). */
    return (mu_a32 *)&seg->slots[slot].liveness;
}

bool mu_slot_is_dead(const struct muster_segment *seg, uint32_t slot, uint64_t word)
{
    if (MU_SLOT_STATE(word) != MU_SLOT_LIVE)
        return false;
    /* acquire: pairs with the kernel's write at death, or with the unlock of a release that already freed the slot;
     * in the second case the caller's CAS from `word` fails */
    return (mu_load32_acquire(mu_slot_liveness(seg, slot)) & TID_MASK) == 0;
}

mu_a64 *mu_slot_object(const struct muster_segment *seg, uint64_t offset)
{
    uint64_t buckets = mu_offset_of(seg, seg->buckets), cells = mu_offset_of(seg, seg->cells);
    uint64_t events = mu_offset_of(seg, seg->events);
    uint64_t objects = mu_offset_of(seg, seg->objects);
    bool known = offset == offsetof(struct mu_header, cluster) || offset == offsetof(struct mu_header, members) ||
                 (offset >= objects && offset < objects + mu_objects_high(seg) * 8ull) ||
                 (offset >= buckets && offset < buckets + seg->num_buckets * 8ull) ||
                 (offset >= cells && offset < cells + seg->num_cells * 8ull) ||
                 (offset >= events && offset < events + seg->num_events * 8ull);

    return known && offset % 8 == 0 ? (mu_a64 *)(seg->base + offset) : NULL;
}

static void raise_high(struct muster_segment *seg, uint32_t slot)
{
    uint32_t high;

    do
        high = mu_load32_acquire(&seg->header->slots_high); /* acquire: as in mu_slot_high() */
    while (high <= slot && !mu_cas32(&seg->header->slots_high, high, slot + 1));
}

#if defined(MU_SIM) || defined(MU_GENMC)
/* The scheduler's threads are coroutines of one kernel thread: "locking" writes the owner, as the kernel would see it.
 */
uint32_t mu_sim_tid(void);
uint32_t mu_sim_pid(void); /* of several such threads */

static bool liveness_lock(struct muster_segment *seg, uint32_t slot)
{
    mu_a32 *w = mu_slot_liveness(seg, slot);
    uint32_t seen = mu_load32_acquire(w); /* acquire: stands for the mutex */

    return !(seen & TID_MASK) && mu_cas32(w, seen, mu_sim_tid());
}

static void liveness_unlock(struct muster_segment *seg, uint32_t slot)
{
    mu_store32_release(mu_slot_liveness(seg, slot), 0); /* release: stands for the mutex */
}

bool mu_slot_is_orphan(const struct muster_segment *seg, uint32_t slot, uint64_t word)
{
    (void)seg;
    (void)slot;
    (void)word;
    return false; /* nobody execs here */
}

static bool libc_is_known(void)
{
    return true;
}

static uint64_t pid_namespace(const struct muster_segment *seg)
{
    (void)seg;
    return 0;
}

static uint32_t thread_identity(const struct muster_segment *seg, uint32_t *start)
{
    (void)seg;
    *start = 0;
#ifdef MU_SIM
    return mu_sim_pid();
#else
    return mu_sim_tid();
#endif
}
#else
#ifdef __GLIBC__
_Static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0 && sizeof((pthread_mutex_t){0}.__data.__lock) == 4,
               "the kernel's word is the first of a mutex");
#endif

/* Deaths are seen by the word that the kernel clears: once in a process it is looked at where libc keeps that. */
static bool libc_is_known(void)
{
    static _Atomic int known; /* process-local: 0: nobody has looked; 1: it is; 2: it is not */
    pthread_mutexattr_t attr;
    pthread_mutex_t probe;
    uint32_t word = 0;

    /* relaxed, process-local */
    if (!atomic_load_explicit(&known, memory_order_relaxed) && pthread_mutexattr_init(&attr) == 0) {
        pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        if (pthread_mutex_init(&probe, &attr) == 0 && pthread_mutex_lock(&probe) == 0) {
            memcpy(&word, &probe, sizeof word);
            pthread_mutex_unlock(&probe);
            pthread_mutex_destroy(&probe);
        }
        pthread_mutexattr_destroy(&attr);
        /* relaxed, process-local: every thread that looks finds the same */
        atomic_store_explicit(&known, (word & TID_MASK) == (uint32_t)gettid() ? 1 : 2, memory_order_relaxed);
    }
    return atomic_load_explicit(&known, memory_order_relaxed) == 1; /* relaxed, process-local */
}

/* libc believes what a mutex says of its own kind, and aborts on some: only the kind that we made is let near it. */
static bool is_our_kind(const pthread_mutex_t *m)
{
#ifdef __GLIBC__
    pthread_mutexattr_t attr;
    pthread_mutex_t ours;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&ours, &attr);
    pthread_mutexattr_destroy(&attr);
    return m->__data.__kind == ours.__data.__kind;
#else
    (void)m;
    return true;
#endif
}

bool mu_slot_is_orphan(const struct muster_segment *seg, uint32_t slot, uint64_t word)
{
    /* acquire: as in mu_slot_is_dead(); relaxed: of the word's owner, or the word has moved on */
    uint32_t owner = mu_load32_acquire(mu_slot_liveness(seg, slot)) & TID_MASK;
    uint64_t namespace = mu_load_relaxed(&seg->slots[slot].pid_namespace);

    /* which namespace we are in costs five times as much to ask, and matters only when no such thread is to be found */
    return MU_SLOT_STATE(word) == MU_SLOT_LIVE && owner && namespace &&
           syscall(SYS_tgkill, (pid_t)MU_SLOT_PID(word), (pid_t)owner, 0) && errno == ESRCH &&
           namespace == mu_namespace("pid");
}

static uint64_t pid_namespace(const struct muster_segment *seg)
{
    return seg->maker == (uint32_t)getpid() ? seg->maker_namespace : mu_namespace("pid");
}

static bool liveness_lock(struct muster_segment *seg, uint32_t slot)
{
    pthread_mutex_t *m = &seg->slots[slot].liveness;
    int rc = is_our_kind(m) ? pthread_mutex_trylock(m) : EINVAL;

    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(m);
    return rc == 0;
}

static void liveness_unlock(struct muster_segment *seg, uint32_t slot)
{
    pthread_mutex_t *m = &seg->slots[slot].liveness;

    if (is_our_kind(m) && mu_robust_mend(m))
        pthread_mutex_unlock(m);
    else
        mu_segment_ref(seg); /* locked, and on libc's list, until the thread ends: so the mapping stays */
}

static uint32_t thread_identity(const struct muster_segment *seg, uint32_t *start)
{
    uint32_t pid = (uint32_t)getpid();

    *start = (uint32_t)(seg->maker == pid ? seg->maker_start : mu_process_start((pid_t)pid));
    return pid;
}
#endif

bool mu_slot_settle(struct muster_segment *seg, uint32_t slot)
{
    mu_a32 *liveness = mu_slot_liveness(seg, slot);
    uint64_t w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim */
    uint32_t seen = mu_load32_acquire(liveness);          /* acquire: as in mu_slot_is_dead() */

    if (!mu_slot_is_orphan(seg, slot, w) || mu_recheck(&seg->slots[slot].word) != w)
        return false;
    /* acq_rel: nothing of the dead one's is in flight; pairs with the looks in mu_slot_is_dead() */
    if (!mu_cas32(liveness, seen, (seen & FUTEX_WAITERS) | FUTEX_OWNER_DIED))
        return false;
    mu_futex_wake32(liveness);
    return true;
}

/* The slot passes to another task's thread. */
static void counts_clear(struct mu_slot *slot)
{
    mu_a64 *const counts[] = {&slot->group_barriers, &slot->kv_writes,       &slot->named_barriers,
                              &slot->deaths,         &slot->burials,         &slot->kv_waits,
                              &slot->kv_wait_ns,     &slot->barrier_wait_ns, &slot->other_waits};

    /* relaxed, as all here: the slot is ours by its mutex, and the claiming CAS follows */
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        mu_store_relaxed(counts[i], 0);
    for (unsigned i = 0; i < MU_WAIT_BUCKETS; i++)
        mu_store32_relaxed(&slot->barrier_waits[i], 0);
}

/* What the slot's last owner left in its private lines; we hold the mutex and the slot is FREE, so nobody else cares.
 */
static void slot_clean(const struct muster_segment *seg, struct mu_slot *s, uint64_t task)
{
    /* relaxed, as all here: the claiming CAS publishes them */
    if (mu_load_relaxed(&s->task) != task) {
        counts_clear(s);
        mu_store_relaxed(&s->task, task);
    }
    mu_store_relaxed(&s->act, 0);
    /* the numbers go on: marks and claims of any owner are told apart by them */
    mu_store_relaxed(&s->op, MU_HOLD_OP(MU_HOLD_OP_NUMBER(mu_load_relaxed(&s->op)), MU_HOLD_NONE));
    mu_store_relaxed(&s->member, 0);
    /* no heir of an earlier death is taken for one of this owner's, however many owners came between */
    mu_store_relaxed(&s->heir, MU_HEIR(MU_SLOT_INCARNATION(mu_load_relaxed(&s->word)), MU_HEIR_NOBODY, 0));
    mu_store_relaxed(&s->failed, 0);
    mu_store_relaxed(&s->worker, 0);
    mu_store_relaxed(&s->calls[0], 0);
    mu_store_relaxed(&s->calls[1], 0);
    mu_store_relaxed(&s->ledger, MU_LEDGER_NONE(MU_SLOT_INCARNATION(mu_load_relaxed(&s->word))));
    mu_store_relaxed(&s->pin, 0);
    mu_store_relaxed(&s->pin_object, 0);
    mu_store_relaxed(&s->heartbeat, 0);
    mu_store_relaxed(&s->pid_namespace, pid_namespace(seg));
    mu_store_relaxed(&s->wait_since, 0);
}

/* The task's own of before, with its counts, or one that was never claimed: nobody's counts are lost. */
static bool slot_suits(const struct muster_segment *seg, uint32_t slot, uint32_t high, uint64_t task)
{
    /* relaxed: only a preference; under the slot's mutex nobody else can claim it, and so change it */
    return slot >= high || mu_load_relaxed(&seg->slots[slot].task) == task;
}

/* `any`: also one that does not suit. */
static bool claim_one(struct muster_segment *seg, uint32_t slot, uint64_t task, bool any, struct mu_ctx *ctx)
{
    struct mu_slot *s = &seg->slots[slot];
    uint64_t w = mu_load_acquire(&s->word); /* acquire: pairs with the scavenger's or the releaser's last CAS */
    uint32_t pid, start;

    if (MU_SLOT_STATE(w) != MU_SLOT_FREE || !liveness_lock(seg, slot))
        return false;
    w = mu_load_acquire(&s->word); /* again, under the mutex: another may have claimed it and died, or left */
    if (MU_SLOT_STATE(w) != MU_SLOT_FREE || (!any && !slot_suits(seg, slot, mu_slot_high(seg), task))) {
        liveness_unlock(seg, slot);
        return false;
    }
    raise_high(seg, slot);
    slot_clean(seg, s, task);
    pid = thread_identity(seg, &start);
    /* acq_rel: releases the cleaned lines to scavengers */
    if (!mu_cas(&s->word, w, MU_SLOT_WORD(start, pid, MU_SLOT_INCARNATION(w), MU_SLOT_LIVE))) {
        liveness_unlock(seg, slot);
        return false;
    }
    ctx->seg = seg;
    ctx->own = s;
    ctx->slot = slot;
    ctx->incarnation = MU_SLOT_INCARNATION(w);
    if (seg->trace)
        mu_trace_open(ctx);
    return true;
}

enum muster_status mu_slot_none_free(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                   "all %u slots of job %s are taken: every thread that writes needs one (start the job with "
                   "'muster run --threads N' for N threads in each task; a segment of your own: more num_slots)",
                   seg->num_slots - seg->reserved_slots, seg->job);
}

enum muster_status mu_slot_claim(struct muster_segment *seg, uint64_t task, struct mu_ctx *ctx)
{
    uint32_t count = seg->num_slots - seg->reserved_slots, high = mu_slot_high(seg);

    if (!libc_is_known())
        return mu_fail(MUSTER_UNIMPLEMENTED, "this libc does not keep the kernel's word first in a mutex, by which "
                                             "deaths are seen: muster needs glibc");
    memset(ctx, 0, offsetof(struct mu_ctx, scratch));
    for (uint32_t i = 0; i < count; i++)
        if (slot_suits(seg, i, high, task) && claim_one(seg, i, task, false, ctx))
            return MUSTER_OK;
    for (uint32_t i = 0; i < count; i++)
        if (claim_one(seg, i, task, true, ctx))
            return MUSTER_OK;
    return mu_slot_none_free(seg);
}

bool mu_slot_claim_reserved(struct muster_segment *seg, struct mu_ctx *ctx)
{
    memset(ctx, 0, offsetof(struct mu_ctx, scratch));
    for (uint32_t i = seg->num_slots - seg->reserved_slots; i < seg->num_slots; i++)
        if (claim_one(seg, i, 0, true, ctx))
            return true;
    return false;
}

static bool is_held(const struct mu_ctx *ctx, uint64_t w)
{
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == ctx->incarnation &&
           !mu_slot_is_dead(ctx->seg, ctx->slot, w);
}

bool mu_slot_is_held(const struct mu_ctx *ctx)
{
    return is_held(ctx, mu_load_acquire(&ctx->own->word)); /* acquire: as below */
}

void mu_slot_free(struct mu_ctx *ctx)
{
    struct mu_slot *s = ctx->own;
    uint64_t w = mu_load_acquire(&s->word); /* acquire: nobody else changes it while its thread lives */

    if (!is_held(ctx, w))
        return;
    /* acq_rel: of this and a first block of a ledger one comes too late; pairs with ledger_extend(). What its process
     * still holds is left to the scavenger. */
    mu_cas(&s->ledger, MU_LEDGER_NONE(ctx->incarnation), MU_LEDGER_CLOSED(ctx->incarnation));
    if (!MU_LEDGER_IS_BLOCK(mu_load_acquire(&s->ledger))) /* acquire: pairs with ledger_extend() */
        /* acq_rel: all that was done with it comes before the slot's next owner */
        mu_cas(&s->word, w, MU_SLOT_WORD(0, 0, MU_SLOT_INCARNATION(w) + 1, MU_SLOT_FREE));
    else
        mu_cas(&s->word, w, (w & ~3ull) | MU_SLOT_DEAD); /* acq_rel: likewise */
}

void mu_slot_unlock(struct mu_ctx *ctx)
{
    liveness_unlock(ctx->seg, ctx->slot);
    ctx->own = NULL;
}

void mu_slot_release(struct mu_ctx *ctx)
{
    mu_slot_free(ctx);
    mu_slot_unlock(ctx);
}
