/*
 * ray/ledger.c: which references a worker holds, so that they do not outlive it.
 *
 * A request that changes counts does not say for which worker; the wire knows by its connection, as long as each worker
 * has one of its own. What goes from hand to hand is known: a task brings its worker the references that were counted
 * for its arguments and results, a submission takes those of the arguments from the caller and gives it one for each
 * result, a container takes those of its contents. A worker about which anything else is possible has no ledger.
 *
 * A table of ids and numbers with open addressing; an id with 0 is not in it.
 */
#include "ray/private.h"

#include <stdlib.h>

struct mu_ray_owed {
    uint64_t id;
    int64_t number; /* 0: the place is empty */
};

static uint32_t ledger_place(const struct mu_ray_ledger *l, uint64_t id)
{
    uint32_t at = (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (l->room - 1);

    while (l->owed[at].number && l->owed[at].id != id)
        at = (at + 1) & (l->room - 1);
    return at;
}

/* False: no memory. */
static bool ledger_grow(struct mu_ray_ledger *l)
{
    struct mu_ray_ledger more = {.room = l->room ? 2 * l->room : 16, .count = l->count};

    more.owed = calloc(more.room, sizeof *more.owed);
    if (!more.owed)
        return false;
    for (uint32_t i = 0; i < l->room; i++)
        if (l->owed[i].number)
            more.owed[ledger_place(&more, l->owed[i].id)] = l->owed[i];
    free(l->owed);
    *l = more;
    return true;
}

/* What stands behind an emptied place moves up, where its own place is not behind that. */
static void ledger_close_up(struct mu_ray_ledger *l, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & (l->room - 1); l->owed[at].number; at = (at + 1) & (l->room - 1)) {
        uint32_t own = (uint32_t)((l->owed[at].id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (l->room - 1);

        if (((at - own) & (l->room - 1)) < ((at - hole) & (l->room - 1)))
            continue;
        l->owed[hole] = l->owed[at];
        l->owed[at].number = 0;
        hole = at;
    }
}

void mu_ray_ledger_add(struct mu_ray_worker *w, uint64_t id, int64_t number)
{
    struct mu_ray_ledger *l = &w->ledger;
    uint32_t at;

    if (!w->has_ledger)
        return;
    if (2 * (l->count + 1) > l->room && !ledger_grow(l)) {
        mu_ray_ledger_end(w);
        return;
    }
    at = ledger_place(l, id);
    l->count += l->owed[at].number == 0;
    l->owed[at].id = id;
    l->owed[at].number += number;
    if (l->owed[at].number)
        return;
    l->count--;
    ledger_close_up(l, at);
}

void mu_ray_ledger_end(struct mu_ray_worker *w)
{
    free(w->ledger.owed);
    w->ledger = (struct mu_ray_ledger){.owed = NULL};
    w->has_ledger = false;
}

void mu_ray_ledger_release(struct mu_ray_sched *s, struct mu_ray_worker *w, const char *why)
{
    struct mu_ray_ledger l = w->ledger;

    w->ledger = (struct mu_ray_ledger){.owed = NULL};
    w->has_ledger = false;
    for (uint32_t i = 0; i < l.room; i++) {
        const struct mu_ray_object *o = l.owed[i].number ? mu_ray_object_at(s, l.owed[i].id) : NULL;

        if (!o || o->is_freed)
            continue;
        if (o->has_producer && o->producer == w->id) {
            mu_ray_lose(s, l.owed[i].id, why);
            mu_ray_drop_producer(s, l.owed[i].id);
            l.owed[i].number--;
        }
        for (; l.owed[i].number > 0; l.owed[i].number--)
            mu_ray_drop(s, l.owed[i].id);
    }
    free(l.owed);
}
