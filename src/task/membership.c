/*
 * task/membership.c: the public calls on a membership: reading it, and waiting. Taking part in a change: task/change.c.
 *
 * A waiter looks at the head alone. What follows from a death or the deadline it commits itself: when the segment's
 * epoch has moved, and when the change's time is over. The steps of a change wake by the object's word; saying `ready`
 * or `done` wakes nobody, unless it was the last, or the first: groups of the epoch wait for that one in vain from then
 * on (barrier/group_fault.c).
 */
#include "task/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/hosts.h"
#include "segment/wait.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void membership_head(const struct mu_members *h, uint64_t word, struct muster_membership *m)
{
    m->epoch = h->epoch;
    m->change = h->change;
    m->phase = (enum muster_phase)h->phase;
    m->outcome = (enum muster_outcome)h->outcome;
    m->capacity = h->count;
    m->least = h->least;
    m->most = h->most;
    m->deadline = h->phase == MUSTER_PHASE_STEADY ? 0 : h->deadline;
    m->since_ns = h->since;
    m->version = word & ~MU_WORD_S;
    memcpy(m->text, h->text, sizeof m->text);
}
_Static_assert(sizeof(((struct muster_membership *)0)->text) == MU_MEMBERS_TEXT, "a copy");

static void membership_fill(const struct mu_membership_copy *c, int32_t task, struct muster_membership *m)
{
    const struct mu_member_row *own = task >= 0 && (uint32_t)task < c->head.count ? &c->rows[task] : NULL;

    memset(m, 0, sizeof *m);
    membership_head(&c->head, c->word, m);
    m->size = mu_membership_count(c, MU_IS_MEMBER);
    m->role = m->rank = -1;
    if (!own || !(own->flags & MU_IS_MEMBER))
        return;
    m->role = own->role;
    m->rank = own->rank;
    for (uint32_t i = 0; i < c->head.count; i++)
        m->role_size += c->rows[i].role == own->role && c->rows[i].flags & MU_IS_MEMBER;
}

static int member_order(const void *a, const void *b)
{
    const struct muster_member *x = a, *y = b;
    uint32_t p = x->rank < 0 ? UINT32_MAX : (uint32_t)x->rank, q = y->rank < 0 ? UINT32_MAX : (uint32_t)y->rank;

    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    if (p != q)
        return p < q ? -1 : 1;
    return x->next_rank < y->next_rank ? -1 : x->next_rank > y->next_rank;
}

static enum muster_status members_list(const struct mu_membership_copy *c, struct muster_member *ret_members,
                                       size_t capacity, size_t *ret_count)
{
    struct muster_member *all = calloc(c->head.count, sizeof *all);
    size_t n = 0;

    if (!all)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list %u members", c->head.count);
    for (uint32_t i = 0; i < c->head.count; i++) {
        const struct mu_member_row *row = &c->rows[i];

        if (!(row->flags & (MU_IS_MEMBER | MU_IS_NEXT)))
            continue;
        all[n] = (struct muster_member){.task_id = (int32_t)i,
                                        .role = row->role,
                                        .flags = row->flags,
                                        .rank = row->flags & MU_IS_MEMBER ? row->rank : -1,
                                        .next_rank = row->flags & MU_IS_NEXT ? row->next : -1};
        memcpy(all[n++].role_name, c->head.roles[row->role], MU_ROLE_NAME_MAX);
    }
    qsort(all, n, sizeof *all, member_order);
    if (ret_members)
        memcpy(ret_members, all, (n < capacity ? n : capacity) * sizeof *all);
    *ret_count = n;
    free(all);
    return MUSTER_OK;
}
_Static_assert(MU_IS_MEMBER == MUSTER_MEMBER_IN && MU_IS_NEXT == MUSTER_MEMBER_NEXT &&
                   MU_IS_READY == MUSTER_MEMBER_READY && MU_IS_DONE == MUSTER_MEMBER_DONE,
               "as the header says");

enum muster_status muster_membership_read(struct muster *muster, struct muster_membership *ret_membership,
                                          struct muster_member *ret_members, size_t capacity, size_t *ret_count)
{
    enum muster_status status = mu_enter_read(muster);
    struct mu_membership_copy c;
    size_t count = 0;

    if (status)
        return status;
    status = mu_membership_read(muster->seg, &c);
    if (!status && (ret_count || ret_members))
        status = members_list(&c, ret_members, capacity, &count);
    if (!status)
        membership_fill(&c, muster->task_id, ret_membership);
    if (!status && ret_count)
        *ret_count = count;
    mu_membership_done(&c);
    mu_exit_read();
    return status;
}

static bool is_other(const struct muster_membership *known, const struct muster_membership *m)
{
    return m->epoch != known->epoch || m->change != known->change || m->phase != known->phase;
}

static bool is_moved(const struct muster_membership *known, const struct mu_members *h)
{
    struct muster_membership m;

    membership_head(h, 0, &m);
    return is_other(known, &m);
}

int muster_membership_changed(struct muster *muster, const struct muster_membership *known)
{
    struct mu_members h;
    uint64_t word;
    int changed;

    if (mu_enter_read(muster))
        return 0;
    /* relaxed: a hint; what it says is read again by what follows. Pairs with the commit CAS */
    changed = !mu_word_same(mu_load_relaxed(&muster->seg->header->members), known->version) &&
              mu_membership_look(muster->seg, &h, &word) == MUSTER_OK && is_moved(known, &h);
    mu_exit_read();
    return changed;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Until the head is another than the known one: MUSTER_OK. */
static enum muster_status members_await(struct muster *m, struct mu_ctx *ctx, const struct muster_membership *known,
                                        muster_deadline deadline)
{
    bool decides = ctx && !mu_is_follower(m->seg), looked = false;
    uint32_t epoch = 0;
    struct mu_members h;
    struct mu_wait w;
    uint64_t word;
    enum muster_status status;

    mu_wait_begin(&w, m->seg, ctx, deadline, "a change of the membership");
    w.interrupt = &m->interrupt;
    for (;;) {
        bool due;

        mu_wait_look(&w);
        status = mu_membership_look(m->seg, &h, &word);
        if (status || is_moved(known, &h))
            break;
        due = h.phase != MUSTER_PHASE_STEADY && mu_now() >= h.deadline;
        if (decides && (due || !looked || epoch != w.epoch)) {
            looked = true;
            epoch = w.epoch;
            status = mu_membership_edit(ctx, NULL, NULL);
            if (status)
                break;
            continue;
        }
        /* an observer that cannot roll back, and another host's task, wait for another to do it */
        w.deadline = decides && h.phase != MUSTER_PHASE_STEADY && h.deadline < deadline ? h.deadline : deadline;
        status = mu_wait_on(&w, &m->seg->header->members, word);
        if (status == MUSTER_DEADLINE_EXCEEDED && w.deadline != deadline)
            status = MUSTER_OK;
        if (status)
            break;
    }
    mu_wait_end(&w);
    return status;
}

static enum muster_status members_refresh(struct muster *m, struct muster_membership *known)
{
    struct mu_membership_copy c;
    enum muster_status status = mu_membership_read(m->seg, &c);

    if (!status)
        membership_fill(&c, m->task_id, known);
    mu_membership_done(&c);
    return status;
}

enum muster_status muster_membership_wait(struct muster *muster, struct muster_membership *known,
                                          muster_deadline deadline)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(muster, &ctx);

    if (status)
        return status;
    status = members_await(muster, ctx, known, deadline);
    if (!status)
        status = members_refresh(muster, known);
    mu_exit(ctx);
    return status;
}

/* ---- for launchers ----------------------------------------------------------------------------------------------- */

enum muster_status muster_membership_begin(struct muster *muster, uint32_t size, uint32_t least, uint32_t most,
                                           int shrinks)
{
    struct mu_membership_set set = {.size = size, .least = least, .most = most, .shrinks = shrinks != 0};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_membership_begin(ctx, &set);
    mu_exit(ctx);
    return status;
}

/* ---- the short way ----------------------------------------------------------------------------------------------- */

/* Whether there is anything that the caller does not know, and no change is pending. */
static bool is_next(const struct muster_membership *now, const struct muster_membership *seen)
{
    if (!now->epoch)
        return seen->rank >= 0;
    return seen->epoch > now->epoch || (seen->phase == MUSTER_PHASE_STEADY && is_other(now, seen));
}

/* One look of muster_membership_next(). True: *now is the answer. */
static bool next_look(struct muster *m, struct mu_ctx *ctx, struct muster_membership *now,
                      struct muster_membership *seen, enum muster_status *ret_status)
{
    struct mu_membership_copy c;
    uint8_t flags = 0;

    *ret_status = mu_membership_read(m->seg, &c);
    if (!*ret_status) {
        membership_fill(&c, m->task_id, seen);
        flags = m->task_id >= 0 ? c.rows[m->task_id].flags : 0;
    }
    mu_membership_done(&c);
    if (*ret_status)
        return true;
    if (is_next(now, seen)) {
        *now = *seen;
        return true;
    }
    if (seen->phase == MUSTER_PHASE_STEADY || !(flags & (MU_IS_MEMBER | MU_IS_NEXT)) || flags & MU_IS_DONE)
        return false;
    *ret_status = mu_task_change_say(m, ctx, seen->change, MU_IS_READY | MU_IS_DONE);
    if (*ret_status == MUSTER_ABORTED) /* it was rolled back meanwhile: the next look tells */
        *ret_status = MUSTER_OK;
    return *ret_status != MUSTER_OK;
}

enum muster_status muster_membership_next(struct muster *muster, struct muster_membership *now,
                                          muster_deadline deadline)
{
    struct muster_membership seen;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    while (!next_look(muster, ctx, now, &seen, &status)) {
        status = members_await(muster, ctx, &seen, deadline);
        if (status)
            break;
    }
    mu_exit(ctx);
    return status;
}
