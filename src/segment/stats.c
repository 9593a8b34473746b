/*
 * segment/stats.c: the counts of a job's threads: writing the rarer ones, and adding all up.
 *
 * Invariant: a count is written by the slot's owner alone, and never falls while the slot is of one task: a thread that
 * claims a slot whose last owner was of its task goes on from what it finds (slot.c prefers such slots, then ones that
 * were never used). So no count needs an atomic addition, a commit or a scavenger. A SIGKILL between load and store
 * loses that one event. When a slot passes to another task its counts are cleared before its task word is written:
 * killed in between, it leaves a slot of the old task with some counts gone, as they were about to be.
 */
#include "segment/stats.h"

#include <string.h>

#include <muster/stats.h>

#include "segment/handle.h"
#include "segment/slot.h"

static_assert(MUSTER_STATS_BUCKETS == MU_WAIT_BUCKETS, "the buckets are those of the segment");

enum { SHORTEST_BITS = 11 }; /* MUSTER_STATS_BOUND_NS(0) */

static unsigned bucket_of(uint64_t ns)
{
    unsigned bits = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
    unsigned bucket = bits > SHORTEST_BITS ? bits - SHORTEST_BITS : 0;

    return bucket < MU_WAIT_BUCKETS ? bucket : MU_WAIT_BUCKETS - 1;
}

void mu_count_barrier_wait(struct mu_slot *own, uint64_t ns)
{
    mu_a32 *bucket = &own->barrier_waits[bucket_of(ns)];

    mu_store32_relaxed(bucket, mu_load32_relaxed(bucket) + 1); /* relaxed: as mu_count() */
    mu_count(&own->barrier_wait_ns, ns);
}

void mu_counts_clear(struct mu_slot *slot)
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

/* relaxed, as all here: each word alone is right; pairs with mu_count() */
static void sum(const struct mu_slot *s, struct muster_stats *t)
{
    t->kv_writes += mu_load_relaxed(&s->kv_writes);
    t->kv_waits += mu_load_relaxed(&s->kv_waits);
    t->kv_wait_ns += mu_load_relaxed(&s->kv_wait_ns);
    t->named_barriers += mu_load_relaxed(&s->named_barriers);
    t->group_barriers += mu_load_relaxed(&s->group_barriers);
    t->barrier_wait_ns += mu_load_relaxed(&s->barrier_wait_ns);
    for (unsigned i = 0; i < MU_WAIT_BUCKETS; i++) {
        uint64_t n = mu_load32_relaxed(&s->barrier_waits[i]);

        t->barrier_wait_buckets[i] += n;
        t->barrier_waits += n;
    }
    t->other_waits += mu_load_relaxed(&s->other_waits);
    t->deaths += mu_load_relaxed(&s->deaths);
    t->burials += mu_load_relaxed(&s->burials);
    t->slots++;
}

enum muster_status muster_stats_get(struct muster *muster, int32_t task_id, struct muster_stats *ret_stats)
{
    enum muster_status status = mu_enter_read(muster);
    struct muster_stats total = {0};
    const struct muster_segment *seg;

    if (status)
        return status;
    seg = muster->seg;
    if (task_id < -1 || (task_id >= 0 && (uint32_t)task_id >= seg->num_tasks))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "task %d; job %s has tasks 0 to %u, and -1 means all", task_id,
                         seg->job, seg->num_tasks - 1);
    for (uint32_t i = 0, high = mu_slot_high(seg); !status && i < high; i++)
        /* relaxed: a slot that changes hands meanwhile counts for its old or its new task */
        if (task_id < 0 || mu_load_relaxed(&seg->slots[i].task) == (uint64_t)task_id + 1)
            sum(&seg->slots[i], &total);
    mu_exit_read();
    if (!status)
        *ret_stats = total;
    return status;
}
