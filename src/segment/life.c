/*
 * segment/life.c: which tasks and slots live, and whether the job does.
 *
 * A slot lives by the kernel's word (slot.c), a task by its slots. A job is over when its state word says so: somebody
 * closed or removed it, or the last member that lived in it left.
 */
#include <string.h>

#include "base/process.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "segment/slot.h"

bool mu_cluster_main_alive(const struct muster_segment *seg, const struct mu_task_record *record)
{
    uint64_t w;

    if (!record->slot || record->slot > seg->num_slots)
        return false;
    w = mu_load_acquire(&seg->slots[record->slot - 1].word); /* acquire: pairs with the claim */
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == record->slot_incarnation &&
           !mu_slot_is_dead(seg, record->slot - 1, w);
}

bool mu_cluster_alive(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record)
{
    uint32_t high = mu_slot_high(seg);

    if (record->flags & MU_TASK_REMOTE) /* its own host's agent has the kernel's word */
        return record->state == MUSTER_TASK_CONNECTED;
    if (record->flags & MU_TASK_GUEST) /* the slot is its agent's */
        return record->state == MUSTER_TASK_CONNECTED && mu_cluster_main_alive(seg, record);
    if (!record->slot)
        return false;
    if (mu_cluster_main_alive(seg, record))
        return true;
    for (uint32_t i = 0; i < high; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) != MU_SLOT_LIVE || MU_SLOT_PID(w) != record->pid ||
            MU_SLOT_START(w) != (record->start & 0xffffffu))
            continue;
        /* relaxed: of the owner that the word names, or the next look says otherwise */
        if (mu_load_relaxed(&seg->slots[i].task) == (uint64_t)task + 1 && !mu_slot_is_dead(seg, i, w) &&
            !mu_slot_is_orphan(seg, i, w))
            return true;
    }
    return false;
}

/* Up to `most`: to ask whether there is anybody asks the kernel about one slot as a rule. *ret_pid is that of
 * the last one, and stays as it is where there is none. */
static uint32_t count_living(const struct muster_segment *seg, uint32_t most, uint32_t *ret_pid)
{
    uint32_t high = mu_slot_high(seg), live = 0;

    for (uint32_t i = 0; i < high && live < most; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) != MU_SLOT_LIVE || mu_slot_is_dead(seg, i, w) || mu_slot_is_orphan(seg, i, w))
            continue;
        if (ret_pid)
            *ret_pid = (uint32_t)MU_SLOT_PID(w);
        live++;
    }
    return live;
}

uint32_t mu_segment_live_slots(const struct muster_segment *seg)
{
    return count_living(seg, UINT32_MAX, NULL);
}

static bool maker_lives(const struct muster_segment *seg)
{
    return mu_process_start((pid_t)seg->header->creator_pid) == seg->header->creator_start;
}

uint32_t mu_segment_holder(const struct muster_segment *seg)
{
    uint32_t pid = seg->header->creator_pid;

    if (!seg->foreign && !maker_lives(seg))
        count_living(seg, 1, &pid);
    return pid;
}

/* Nobody can be using it any more: an earlier boot's, closed, or without a living slot or creator. */
bool mu_segment_is_stale(const struct muster_segment *seg)
{
    static const uint8_t unknown[16];
    uint8_t boot[16];
    bool is_known;

    mu_boot_id(boot);
    is_known = memcmp(boot, unknown, sizeof boot) != 0;
    if (is_known && memcmp(boot, seg->header->boot_id, sizeof boot))
        return true;
    if (mu_segment_is_closed(seg))
        return true;
    if (!is_known) /* /proc is not here: nothing can be said of a process either */
        return false;
    if (count_living(seg, 1, NULL))
        return false;
    if (seg->foreign)
        return false;
    return !maker_lives(seg);
}

void mu_segment_mark_closed(struct muster_segment *seg, uint32_t how)
{
    if (mu_segment_is_removed(seg))
        return;
    /* release: pairs with the acquire of joiners and waiters; what was done before comes before "closed" */
    mu_store32_release(&seg->header->state, how);
    mu_epoch_move(seg);
}

bool mu_segment_is_removed(const struct muster_segment *seg)
{
    return mu_load32_acquire(&seg->header->state) == MU_REMOVED; /* acquire: as in mu_segment_is_closed() */
}

enum muster_status mu_segment_say_closed(const struct muster_segment *seg, const char *what)
{
    const char *during = what[0] ? " while waiting for " : "";

    if (mu_segment_is_removed(seg))
        return mu_fail(MUSTER_CANCELLED, "the segment of job %s was removed by 'muster segment rm --force'%s%s",
                       seg->job, during, what);
    return mu_fail(MUSTER_CANCELLED, "job %s was closed%s%s", seg->job, during, what);
}

bool mu_segment_is_closed(const struct muster_segment *seg)
{
    /* acquire: pairs with mu_segment_mark_closed() and the CAS in mu_segment_last_out() */
    return MU_STATE(mu_load32_acquire(&seg->header->state)) == MU_CLOSED;
}

/*
 * Whether we were the last is found out as CLOSING: we say so, then look at the slots; a joiner takes its slot, then
 * looks at the state; each with a fence between, so one sees the other. A joiner that meets CLOSING gives its slot
 * back, finishes this in our stead, and joins anew; so a SIGKILL here delays nobody. CLOSING is taken back with another
 * count, so that a closer that was stopped half-way cannot close over members that came since.
 *
 * A process that takes it back, or finds its step forestalled, looks again: the member that it saw may have left
 * meanwhile, and have relied on it. A process that only finds CLOSING takes it back, too: else one that is stopped
 * while it joins would, after a closer's death, keep all others out.
 */
void mu_segment_last_out(struct muster_segment *seg)
{
    mu_a32 *state = &seg->header->state;

    if (seg->header->flags & MU_FLAG_KEPT)
        return;
    for (;;) {
        uint32_t w = mu_load32_acquire(state); /* acquire: as in mu_segment_is_closed() */

        if (MU_STATE(w) == MU_CLOSED)
            return;
        if (MU_STATE(w) == MU_OPEN) {
            if (count_living(seg, 1, NULL))
                return;
            mu_cas32(state, w, (w & ~3u) | MU_CLOSING); /* acq_rel: pairs with the joiner's look at the state */
            continue;
        }
        mu_fence_seq_cst(); /* pairs with the fence of a joiner between its claim and its look */
        if (count_living(seg, 1, NULL))
            mu_cas32(state, w, MU_STATE_NEXT(w) | MU_OPEN); /* release half: as below */
        else if (mu_cas32(state, w, MU_CLOSED))             /* release half: pairs with mu_segment_is_closed() */
            break;
    }
    mu_epoch_move(seg);
    mu_segment_unlink(seg);
}
