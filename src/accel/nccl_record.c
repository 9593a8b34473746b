/*
 * accel/nccl_record.c: the states of a communicator's id. Each function is one edit of a private copy, which the caller
 * commits or not; what decides it (which tasks live, the time) is asked inside the edit.
 *
 * A generation is never brought back: a rank that finds it dead begins the next one, and a maker that comes too late
 * finds that it is the owner no longer. So two processes may both make ids, but only one's are ever handed out.
 */
#include "accel/nccl_record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "accel/nccl_library.h"

static_assert(sizeof(struct mu_nccl_head) == 200 && sizeof(struct mu_nccl_taker) == 16, "what peers read");

#define HISTORY 64u /* generations */

size_t mu_nccl_record_size(uint32_t nranks, uint32_t nids)
{
    return sizeof(struct mu_nccl_head) + (size_t)nranks * sizeof(struct mu_nccl_taker) +
           (size_t)nids * MUSTER_NCCL_ID_BYTES;
}

static void copy_place(struct mu_nccl_record *r, void *copy)
{
    r->head = copy;
    r->takers = (struct mu_nccl_taker *)(r->head + 1);
    r->ids = (char *)(r->takers + r->head->nranks);
}

bool mu_nccl_record_view(struct mu_nccl_record *r, void *copy, size_t len)
{
    struct mu_nccl_head *h = copy;

    if (len < sizeof *h || !h->nranks || h->nranks > MUSTER_NCCL_RANKS_MAX || !h->nids ||
        h->nids > MUSTER_NCCL_IDS_MAX || len != mu_nccl_record_size(h->nranks, h->nids) ||
        h->state < MUSTER_NCCL_MAKING || h->state > MUSTER_NCCL_FAILED || h->taken > h->nranks || h->done > h->nranks ||
        h->owner_rank >= h->nranks)
        return false;
    h->reason[sizeof h->reason - 1] = 0;
    copy_place(r, copy);
    return true;
}

/* `sound`: the one before was taken by all, and all of them are there. */
static enum mu_nccl_answer record_begin(struct mu_nccl_record *r, const struct mu_nccl_asker *a, bool sound)
{
    struct mu_nccl_head *h = r->head;

    h->history = h->history << 1 | sound;
    h->generation++;
    h->since = a->now;
    h->expires = 0;
    h->owner_incarnation = a->incarnation;
    h->owner_task = a->task;
    h->owner_rank = a->rank;
    h->owner_attempt = a->attempt;
    h->state = MUSTER_NCCL_MAKING;
    h->version = a->version;
    h->nranks = a->nranks;
    h->nids = a->nids;
    h->taken = h->done = 0;
    copy_place(r, h);
    memset(r->takers, 0, mu_nccl_record_size(a->nranks, a->nids) - sizeof *h);
    return MU_NCCL_MAKE;
}

void mu_nccl_first(struct mu_nccl_record *r, void *room, const struct mu_nccl_asker *a)
{
    r->head = room;
    record_begin(r, a, true);
}

static bool is_owner(const struct mu_nccl_head *h, const struct mu_nccl_asker *a)
{
    return h->owner_task == a->task && h->owner_incarnation == a->incarnation && h->owner_rank == a->rank;
}

static bool is_taker(const struct mu_nccl_taker *t, const struct mu_nccl_asker *a)
{
    return (t->flags & MU_NCCL_TAKEN) && t->task == a->task && t->incarnation == a->incarnation;
}

static void ids_take(struct mu_nccl_record *r, const struct mu_nccl_asker *a)
{
    r->takers[a->rank] = (struct mu_nccl_taker){a->incarnation, a->task, MU_NCCL_TAKEN | a->attempt << 8};
    r->head->taken++;
}

static const char *name_of(const struct mu_nccl_asker *a, int32_t task, char name[MU_NCCL_TASK_NAME])
{
    if (a->name)
        a->name(a->arg, task, name);
    else
        snprintf(name, MU_NCCL_TASK_NAME, "task %d", task);
    return name;
}

static bool record_has_expired(const struct mu_nccl_head *h, uint64_t now, char reason[120])
{
    if (h->taken == h->nranks || now < h->expires)
        return false;
    snprintf(reason, 120, "only %u of %u ranks had come when the id expired", h->taken, h->nranks);
    return true;
}

/* A rank that made or took it and is not there: the first that is lost, else the first that has left. */
struct gap {
    enum mu_nccl_presence how; /* MU_NCCL_HERE: none */
    int32_t task;
    uint32_t rank; /* UINT32_MAX: the maker */
};

static struct gap find_gap(const struct mu_nccl_record *r, const struct mu_nccl_asker *a)
{
    const struct mu_nccl_head *h = r->head;
    struct gap gap = {a->presence(a->arg, h->owner_task, h->owner_incarnation, h->owner_attempt), h->owner_task,
                      UINT32_MAX};

    for (uint32_t i = 0; i < h->nranks && gap.how != MU_NCCL_LOST; i++) {
        const struct mu_nccl_taker *t = &r->takers[i];
        enum mu_nccl_presence p = MU_NCCL_HERE;

        if (t->flags & MU_NCCL_TAKEN)
            p = a->presence(a->arg, t->task, t->incarnation, MU_NCCL_ATTEMPT(t->flags));
        if (p == MU_NCCL_LOST || (p == MU_NCCL_LEFT && gap.how == MU_NCCL_HERE))
            gap = (struct gap){p, t->task, i};
    }
    return gap;
}

/* Of a generation that is READY: the first reason why it can no longer be used. */
static bool is_broken(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, char reason[120])
{
    struct gap gap = find_gap(r, a);
    char name[MU_NCCL_TASK_NAME], role[20] = "made the id";

    if (gap.how == MU_NCCL_LEFT && r->head->done) /* once one rank is through, all have checked in: that does no harm */
        gap.how = MU_NCCL_HERE;
    if (gap.how == MU_NCCL_LEFT) /* perhaps because of a death that came while we looked: that is the reason then */
        gap = find_gap(r, a);
    if (gap.how == MU_NCCL_HERE)
        return record_has_expired(r->head, a->now, reason);
    if (gap.rank != UINT32_MAX)
        snprintf(role, sizeof role, "is rank %u", gap.rank);
    snprintf(reason, 120, "%s, which %s, %s", name_of(a, gap.task, name), role,
             gap.how == MU_NCCL_LOST ? "is dead or in error" : "has left the job");
    return true;
}

static enum mu_nccl_answer ask_ready(struct mu_nccl_record *r, const struct mu_nccl_asker *a)
{
    struct mu_nccl_head *h = r->head;
    struct mu_nccl_taker *t;

    if (is_broken(r, a, h->reason)) /* also when all have taken it: waiters for the lost one must be told */
        return record_begin(r, a, false);
    if (h->taken == h->nranks)
        return record_begin(r, a, true);
    if (h->nranks != a->nranks || h->nids != a->nids)
        return MU_NCCL_OTHER_COUNT;
    t = &r->takers[a->rank];
    if (t->flags & MU_NCCL_TAKEN)
        return t->task == a->task && t->incarnation == a->incarnation ? MU_NCCL_TWICE : MU_NCCL_CLAIMED;
    if (h->version != a->version) {
        char ours[MU_NCCL_VERSION_TEXT], theirs[MU_NCCL_VERSION_TEXT];

        snprintf(h->reason, sizeof h->reason, "task %d has NCCL %s, but the id was made by task %d with %s", a->task,
                 mu_nccl_version_text(a->version, ours), h->owner_task, mu_nccl_version_text(h->version, theirs));
        h->state = MUSTER_NCCL_FAILED;
        h->since = a->now;
        return MU_NCCL_OTHER_VERSION;
    }
    if (a->claims)
        return MU_NCCL_THERE;
    ids_take(r, a);
    return MU_NCCL_TAKE;
}

/* Whether the asker took this generation by an earlier sending of what it asks now. */
static bool took_before(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation)
{
    const struct mu_nccl_head *h = r->head;
    uint64_t age = h->generation - generation;

    if (!a->resent || h->generation < generation)
        return false;
    if (!age)
        return h->state == MUSTER_NCCL_READY && a->rank < h->nranks && is_taker(&r->takers[a->rank], a);
    return age <= HISTORY && (h->history >> (age - 1) & 1); /* all had taken it, so the asker had */
}

enum mu_nccl_answer mu_nccl_claim(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation)
{
    struct mu_nccl_head *h = r->head;
    char reason[120];

    if (took_before(r, a, generation))
        return MU_NCCL_TAKE;
    if (h->generation != generation || h->state != MUSTER_NCCL_READY || a->rank >= h->nranks || is_broken(r, a, reason))
        return MU_NCCL_AGAIN;
    if (r->takers[a->rank].flags & MU_NCCL_TAKEN)
        return MU_NCCL_CLAIMED;
    ids_take(r, a);
    return MU_NCCL_TAKE;
}

bool mu_nccl_is_maker_lost(const struct mu_nccl_record *r, const struct mu_nccl_asker *a)
{
    const struct mu_nccl_head *h = r->head;

    return h->state == MUSTER_NCCL_MAKING && !is_owner(h, a) &&
           a->presence(a->arg, h->owner_task, h->owner_incarnation, h->owner_attempt) == MU_NCCL_LOST;
}

enum mu_nccl_answer mu_nccl_request(struct mu_nccl_record *r, const struct mu_nccl_asker *a)
{
    struct mu_nccl_head *h = r->head;

    if (h->state == MUSTER_NCCL_FAILED)
        return record_begin(r, a, false);
    if (h->state == MUSTER_NCCL_READY)
        return ask_ready(r, a);
    if (is_owner(h, a)) /* an earlier call of ours that could not even say that it had failed */
        return a->resent ? MU_NCCL_MAKE : record_begin(r, a, false);
    if (a->presence(a->arg, h->owner_task, h->owner_incarnation, h->owner_attempt) != MU_NCCL_HERE) {
        char name[MU_NCCL_TASK_NAME];

        snprintf(h->reason, sizeof h->reason, "%s was lost while it made the id", name_of(a, h->owner_task, name));
        return record_begin(r, a, false);
    }
    return h->nranks == a->nranks && h->nids == a->nids ? MU_NCCL_WAIT : MU_NCCL_OTHER_COUNT;
}

bool mu_nccl_is_maker(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation)
{
    return r->head->generation == generation && r->head->state == MUSTER_NCCL_MAKING && is_owner(r->head, a);
}

bool mu_nccl_made(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation, const char *ids)
{
    struct mu_nccl_head *h = r->head;

    if (a->nids != h->nids)
        return false;
    if (!mu_nccl_is_maker(r, a, generation))
        return took_before(r, a, generation);
    memcpy(r->ids, ids, (size_t)h->nids * MUSTER_NCCL_ID_BYTES);
    ids_take(r, a);
    h->state = MUSTER_NCCL_READY;
    h->since = a->now;
    h->expires = a->now + a->expiry < a->now ? UINT64_MAX : a->now + a->expiry;
    return true;
}

bool mu_nccl_fail(struct mu_nccl_record *r, uint64_t generation, uint64_t now, const char *reason)
{
    struct mu_nccl_head *h = r->head;

    if ((generation && h->generation != generation) || h->state == MUSTER_NCCL_FAILED)
        return false;
    h->state = MUSTER_NCCL_FAILED;
    h->since = now;
    snprintf(h->reason, sizeof h->reason, "%s", reason);
    return true;
}

bool mu_nccl_expire(struct mu_nccl_record *r, uint64_t now)
{
    struct mu_nccl_head *h = r->head;

    if (h->state != MUSTER_NCCL_READY || !record_has_expired(h, now, h->reason))
        return false;
    h->state = MUSTER_NCCL_FAILED;
    h->since = now;
    return true;
}

bool mu_nccl_has_died(const struct mu_nccl_record *r)
{
    uint64_t before = r->head->generation - 1, known = before < HISTORY ? (1ull << before) - 1 : UINT64_MAX;

    return (r->head->history & known) != known;
}

bool mu_nccl_done(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation)
{
    struct mu_nccl_head *h = r->head;

    if (h->generation != generation || h->state != MUSTER_NCCL_READY || a->rank >= h->nranks ||
        !is_taker(&r->takers[a->rank], a) || (r->takers[a->rank].flags & MU_NCCL_DONE))
        return false;
    r->takers[a->rank].flags |= MU_NCCL_DONE;
    h->done++;
    return true;
}

bool mu_nccl_is_dead(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation,
                     char reason[120])
{
    const struct mu_nccl_head *h = r->head;

    if (h->generation < generation) /* all were done with it, and the name began anew */
        return false;
    if (h->generation > generation) {
        uint64_t age = h->generation - generation;

        if (age > HISTORY || h->history >> (age - 1) & 1)
            return false;
        snprintf(reason, 120, "generation %" PRIu64 " has begun: %.70s", h->generation, h->reason);
        return true;
    }
    if (h->state == MUSTER_NCCL_FAILED) {
        memcpy(reason, h->reason, 120);
        return true;
    }
    return h->state == MUSTER_NCCL_READY && is_broken(r, a, reason);
}
