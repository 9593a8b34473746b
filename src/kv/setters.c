/*
 * kv/setters.c: which tasks could still set the key that is waited for.
 *
 * Any task may, and so may any other thread of the waiter's process, its children, the processes beside it in its task,
 * and any other process that has opened the segment. So a wait is hopeless only when all other tasks are over, nobody
 * but the launcher holds a slot, and the waiter is the task's first process, with one thread and without children. What
 * cannot be known, a command that somebody is about to type, does not keep it waiting.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "kv/setters.h"
#include "segment/cluster.h"
#include "segment/slot.h"

/* The caller is all that there is of its task. */
static bool is_whole_task(const struct muster_segment *seg)
{
    siginfo_t info;

    return getppid() == (pid_t)seg->header->creator_pid && mu_is_alone() &&
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD;
}

/* Somebody else may write: neither the caller nor the launcher. */
static bool has_other_writer(const struct muster_segment *seg)
{
    uint32_t high = mu_slot_high(seg), own = (uint32_t)getpid();

    for (uint32_t i = 0; i < high; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_PID(w) != own && MU_SLOT_PID(w) != seg->header->creator_pid &&
            !mu_slot_is_dead(seg, i, w))
            return true;
    }
    return false;
}

enum muster_status mu_setters_look(struct muster *m, const char *what)
{
    const struct muster_segment *seg = m->seg;
    struct mu_cluster cluster;
    struct mu_task_record r;
    int64_t own;
    char text[MU_LIST_MAX];
    enum muster_status status = mu_cluster_look(seg, &cluster);

    if (status || !cluster.root.ended || cluster.root.ended + 1 < seg->num_tasks)
        return status;
    own = mu_cluster_own(m);
    if (own < 0 || own >= seg->num_tasks || seg->num_tasks == 1)
        return MUSTER_OK;
    status = mu_cluster_task(seg, (uint32_t)own, &r, NULL, &cluster);
    if (status || mu_cluster_is_over(&r) || cluster.root.ended + 1 != seg->num_tasks)
        return status; /* it is another one that lives */
    if (!is_whole_task(seg) || has_other_writer(seg))
        return MUSTER_OK;
    return mu_fail(MUSTER_UNAVAILABLE, "%s: nobody is left who could set it: %s", what, mu_cluster_others(m, text));
}
