/*
 * kv/setters.c: who could still set the key that is waited for.
 *
 * Any task may, and so may any other thread of the waiter's process, its children, the processes beside it in its
 * task, and whoever else has opened the segment. So a wait is hopeless only when all other tasks are over, nobody but
 * the launcher holds a slot, and the waiter is the task's first process, with one thread and without children. What
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

/* Whose task the waiter is part of: the handle's, or, of an observer, the one whose environment it has; -1: no task's.
 */
static int64_t own_task(const struct muster *m)
{
    const char *text = m->task_id < 0 ? getenv("MUSTER_TASK_ID") : NULL;
    char *end = NULL;
    long task = text ? strtol(text, &end, 10) : m->task_id;

    return text && (end == text || *end) ? -1 : task;
}

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

static bool is_another(void *arg, uint32_t task)
{
    return *(const int64_t *)arg != task;
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
    own = own_task(m);
    if (own < 0 || own >= seg->num_tasks || seg->num_tasks == 1)
        return MUSTER_OK;
    status = mu_cluster_task(seg, (uint32_t)own, &r, NULL, &cluster);
    if (status || mu_task_is_over(&r) || cluster.root.ended + 1 != seg->num_tasks)
        return status; /* it is another one that lives */
    if (!is_whole_task(seg) || has_other_writer(seg))
        return MUSTER_OK;
    return mu_fail(MUSTER_UNAVAILABLE, "%s: nobody is left who could set it: %s", what,
                   mu_cluster_list(seg, is_another, &own, text));
}

enum muster_status mu_setters_name(struct muster *m)
{
    int64_t own = own_task(m);
    char text[MU_LIST_MAX];

    mu_cluster_list(m->seg, is_another, &own, text);
    return text[0] ? mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s; who could set it: %s", muster_last_error(), text)
                   : MUSTER_DEADLINE_EXCEEDED;
}
