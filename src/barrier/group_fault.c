/*
 * barrier/group_fault.c: which members of a group are missing or lost, and the sentence for an instance that failed.
 */
#include <stdio.h>

#include "barrier/group.h"
#include "segment/members.h"

/* In error, gone, or another process by now. */
static bool is_lost(const struct muster_group *g, const struct mu_group_member *m, const struct mu_task_record *r)
{
    if (r->state == MUSTER_TASK_CONNECTED && r->incarnation == m->incarnation)
        return false;
    /* of another host's the record may not have come here yet */
    return !g->follows || mu_is_local_task(g->muster->seg, m->task) || r->attempt >= MU_MEMBER_CALL_OF(m->flags);
}

/* What speaks against a member, the worst first. */
enum fault { IN_ERROR, LEFT, NOT_ARRIVED, FAULTS };

static enum fault fault_of(struct muster_group *g, uint32_t rank, uint64_t instance, const struct mu_task_record *r)
{
    if (is_lost(g, &g->members[rank], r))
        return r->state == MUSTER_TASK_DISCONNECTED ? LEFT : IN_ERROR;
    return mu_has_arrived(mu_span_word(g, rank), instance) ? FAULTS : NOT_ARRIVED;
}

/* Up to three names: first the members that are lost, had they arrived or not, then those that had not arrived. */
static void name_culprits(struct muster_group *g, uint64_t instance, char *text, size_t size)
{
    struct muster_segment *seg = g->muster->seg;
    uint32_t named = 0;
    size_t n = 0;

    text[0] = 0;
    for (uint32_t k = 0; k < FAULTS * g->size && named < 4 && n < size; k++) {
        uint32_t i = k % g->size;
        struct mu_task_record r;
        struct mu_cluster cluster;
        char name[MU_NAME_MAX], why[MU_TEXT_MAX] = "";

        if (mu_cluster_task(seg, g->members[i].task, &r, why, &cluster) ||
            fault_of(g, i, instance, &r) != (enum fault)(k / g->size))
            continue;
        mu_cluster_name(seg, g->members[i].task, &r, name, sizeof name);
        if (named++ == 3)
            n += (size_t)snprintf(text + n, size - n, "; and others");
        else if (k / g->size == NOT_ARRIVED)
            n += (size_t)snprintf(text + n, size - n, "%s%s had not arrived", n ? "; " : "", name);
        else
            n += (size_t)snprintf(text + n, size - n, "%s%s is lost: %s", n ? "; " : "", name,
                                  why[0]                             ? why
                                  : r.state == MUSTER_TASK_CONNECTED ? "it is another process by now"
                                                                     : "it left");
    }
}

/* A member has said that it is ready for a change: it makes no step of this epoch any more. */
static bool is_left(const struct muster_group *g)
{
    struct mu_membership_copy c;
    bool left = mu_membership_read(g->muster->seg, &c) == MUSTER_OK && mu_membership_count(&c, MU_IS_READY) > 0;

    mu_membership_done(&c);
    return left;
}

bool mu_group_is_past(struct muster_group *g)
{
    struct mu_members h;
    uint64_t word;

    /* relaxed: pairs with the commit of the membership; an epoch's end wakes the waiters besides */
    if (!g->members_epoch || mu_word_same(mu_load_relaxed(&g->muster->seg->header->members), g->members_word) ||
        mu_membership_look(g->muster->seg, &h, &word))
        return false;
    if (h.epoch != g->members_epoch || (h.phase != MUSTER_PHASE_STEADY && is_left(g)))
        return true;
    g->members_word = word;
    return false;
}

const char *mu_group_say_past(const struct muster_group *g, char text[MU_LIST_MAX])
{
    unsigned long long own = g->members_epoch;
    struct mu_members h;
    uint64_t word;

    text[0] = 0;
    if (!own || mu_membership_look(g->muster->seg, &h, &word))
        return text;
    if (h.epoch != own)
        snprintf(text, MU_LIST_MAX, "it is of epoch %llu, and the job is in epoch %llu%s%s: make its successor", own,
                 (unsigned long long)h.epoch, h.text[0] ? ", for " : "", h.text);
    else if (h.phase != MUSTER_PHASE_STEADY)
        snprintf(text, MU_LIST_MAX, "it is of epoch %llu, which members have left for change %llu", own,
                 (unsigned long long)h.change);
    return text;
}

/*
 * The sentence for a failed instance: which member, and why. The code is that of the first closed: the same for all
 * members. In a group that spans hosts, that of the proxy, which is last.
 */
enum muster_status mu_group_report(struct muster_group *g, uint64_t instance)
{
    char names[512], past[MU_LIST_MAX];
    bool timeout = false, unknown = false;

    for (uint32_t i = g->spans ? g->num_waits - 1 : 0; i < g->num_waits; i++) {
        uint64_t w = mu_load_acquire(&g->waits[i]->arrived); /* acquire: as in mu_area_close() */

        if (mu_is_closed_at(w, instance)) {
            timeout = w & MU_ARRIVED_TIMEOUT;
            unknown = w & MU_ARRIVED_TRUSTED;
            break;
        }
    }
    name_culprits(g, instance, names, sizeof names);
    g->failed = true;
    if (!timeout && mu_group_say_past(g, past)[0])
        return mu_fail(MUSTER_UNAVAILABLE, "group %s failed at its instance %llu: %s", g->name,
                       (unsigned long long)instance, past);
    return mu_fail(timeout ? MUSTER_DEADLINE_EXCEEDED : MUSTER_UNAVAILABLE,
                   "group %s failed at its instance %llu: %s%s", g->name, (unsigned long long)instance, names,
                   unknown ? "; that host had the last word, and may have let its members pass" : "");
}

/*
 * Is any member lost: in error, gone, or another process by now? Looks only when the epoch has moved since the last
 * look that found nothing: every change of a task's record moves it.
 */
bool mu_group_has_lost(struct muster_group *g, uint32_t epoch)
{
    struct muster_segment *seg = g->muster->seg;

    if (g->looked && g->epoch == epoch)
        return false;
    if (mu_group_is_past(g))
        return true;
    for (uint32_t i = 0; i < g->size; i++) {
        struct mu_task_record r;
        struct mu_cluster cluster;

        if (mu_cluster_task(seg, g->members[i].task, &r, NULL, &cluster))
            continue;
        if (is_lost(g, &g->members[i], &r))
            return true;
    }
    g->looked = true;
    g->epoch = epoch;
    return false;
}

enum muster_status muster_group_missing(struct muster_group *group, int32_t *ret_task_ids, size_t capacity,
                                        size_t *ret_count)
{
    uint64_t instance;
    size_t n = 0;
    enum muster_status status;

    if (!group)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the group is NULL");
    status = mu_enter_read(group->muster); /* after leaving the areas are not there any more */
    if (status)
        return status;
    instance = atomic_load_explicit(&group->instance, memory_order_relaxed) + 1; /* process-local: only a look */
    for (uint32_t i = 0; i < group->size; i++) {
        if (mu_has_arrived(mu_span_word(group, i), instance))
            continue;
        if (n < capacity)
            ret_task_ids[n] = (int32_t)group->members[i].task;
        n++;
    }
    *ret_count = n;
    mu_exit_read();
    return MUSTER_OK;
}
