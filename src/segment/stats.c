/*
 * segment/stats.c: adds up the counts of a job's threads.
 *
 * Invariant: a count is written by the slot's owner alone, and never falls while the slot is of one task: a thread that
 * claims a slot of its task's last owner goes on from what it finds (slot.c prefers such slots, then ones that were
 * never used). So no count needs an atomic addition, a commit or a scavenger. A SIGKILL between load and store
 * loses that one event. When a slot passes to another task its counts are cleared before its task word is written:
 * killed in between, it leaves a slot of the old task with some counts gone, as they were about to be.
 */
#include "segment/stats.h"

#include <muster/stats.h>

#include "segment/handle.h"

static_assert(MUSTER_STATS_BUCKETS == MU_WAIT_BUCKETS, "the buckets are those of the segment");

/* relaxed, as all here: each word alone is right; pairs with mu_count() */
static void slot_sum(const struct mu_slot *s, struct muster_stats *t)
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
            slot_sum(&seg->slots[i], &total);
    mu_exit_read();
    if (!status)
        *ret_stats = total;
    return status;
}
