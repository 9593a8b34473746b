/*
 * ray/places.c: where objects are, and how they come to where they are wanted.
 *
 * A store is told once to fetch an object, however many want it there; a count keeps the object until it says that it
 * has it. A store is told once of an alias, when it has the canonical object, and only where that alias is wanted.
 */
#include "ray/private.h"

#include <inttypes.h>
#include <stdlib.h>

struct mu_ray_place *mu_ray_place_of(const struct mu_ray_object *o, uint32_t store)
{
    for (uint32_t i = 0; i < o->num_places; i++)
        if (o->places[i].store == store)
            return &o->places[i];
    return NULL;
}

bool mu_ray_is_at(const struct mu_ray_object *o, uint32_t store)
{
    const struct mu_ray_place *place = mu_ray_place_of(o, store);

    return place && place->state == MU_RAY_HERE;
}

bool mu_ray_place_add(struct mu_ray_object *o, uint32_t store, enum mu_ray_place_state state)
{
    struct mu_ray_place *more = reallocarray(o->places, o->num_places + 1, sizeof *more);

    if (!more)
        return false;
    o->places = more;
    more[o->num_places++] = (struct mu_ray_place){store, state};
    return true;
}

/* The address of a store that has it; NULL: none has. */
static const char *holder_of(const struct mu_ray_sched *s, const struct mu_ray_object *o)
{
    for (uint32_t i = 0; i < o->num_places; i++)
        if (o->places[i].state == MU_RAY_HERE)
            return s->stores[o->places[i].store]->address;
    return NULL;
}

static void delivery_send(struct mu_ray_sched *s, uint64_t canonical, uint32_t store)
{
    const char *from = holder_of(s, mu_ray_object_at(s, canonical));

    if (from)
        mu_ray_send(s,
                    &(struct mu_ray_call){.kind = MU_RAY_DELIVER, .peer = store, .object = canonical, .address = from});
}

static void alias_send(struct mu_ray_sched *s, uint64_t alias, uint64_t canonical, uint32_t store)
{
    mu_ray_send(s, &(struct mu_ray_call){.kind = MU_RAY_ALIAS, .peer = store, .object = alias, .target = canonical});
}

/* The store is to know that name, once. */
static void alias_bring(struct mu_ray_sched *s, uint64_t alias, uint64_t canonical, uint32_t store)
{
    struct mu_ray_object *o = mu_ray_object_at(s, alias), *root = mu_ray_root(s, alias);
    bool is_there = mu_ray_is_at(mu_ray_object_at(s, canonical), store);
    struct mu_ray_note *note;

    if (mu_ray_place_of(o, store))
        return;
    note = is_there ? NULL : malloc(sizeof *note);
    if ((!is_there && !note) || !mu_ray_place_add(o, store, is_there ? MU_RAY_TOLD : MU_RAY_TO_TELL)) {
        free(note);
        mu_ray_say(s, "no memory to tell the store at %s of object %" PRIu64, s->stores[store]->address, alias);
        return;
    }
    if (is_there) {
        alias_send(s, alias, canonical, store);
        return;
    }
    *note = (struct mu_ray_note){root->notes, alias, store};
    root->notes = note;
}

void mu_ray_bring(struct mu_ray_sched *s, uint64_t id, uint32_t store)
{
    struct mu_ray_object *root = mu_ray_root(s, id), *o = mu_ray_object_at(s, root->canonical);
    uint64_t canonical = root->canonical;

    if (s->stores[store]->is_gone)
        return;
    if (!mu_ray_place_of(o, store)) {
        if (!mu_ray_place_add(o, store, MU_RAY_COMING)) {
            mu_ray_say(s, "no memory to bring object %" PRIu64 " to the store at %s", canonical,
                       s->stores[store]->address);
            return;
        }
        o->count++;
        root->total++;
        delivery_send(s, canonical, store);
    }
    if (id != canonical)
        alias_bring(s, id, canonical, store);
}

void mu_ray_arrived(struct mu_ray_sched *s, uint64_t canonical, uint32_t store)
{
    struct mu_ray_note **at = &mu_ray_root(s, canonical)->notes;

    while (*at) {
        struct mu_ray_note *note = *at;

        if (note->store != store) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        mu_ray_place_of(mu_ray_object_at(s, note->alias), store)->state = MU_RAY_TOLD;
        alias_send(s, note->alias, canonical, store);
        free(note);
    }
}

static void place_drop(struct mu_ray_object *o, struct mu_ray_place *place)
{
    *place = o->places[--o->num_places];
}

static void notes_drop(struct mu_ray_object *root, uint32_t store)
{
    for (struct mu_ray_note **at = &root->notes; *at;) {
        struct mu_ray_note *note = *at;

        if (note->store == store) {
            *at = note->next;
            free(note);
        } else {
            at = &note->next;
        }
    }
}

bool mu_ray_place_gone(struct mu_ray_sched *s, uint64_t id, uint32_t store, bool *ret_drop)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);
    struct mu_ray_place *place = mu_ray_place_of(o, store);
    bool was_here = place && place->state == MU_RAY_HERE;

    *ret_drop = place && place->state == MU_RAY_COMING;
    notes_drop(mu_ray_root(s, id), store);
    if (place)
        place_drop(o, place);
    if (!was_here)
        return false;
    if (!holder_of(s, o))
        return true;
    for (uint32_t i = 0; i < o->num_places; i++) /* it may have been on its way from there */
        if (o->places[i].state == MU_RAY_COMING)
            delivery_send(s, id, o->places[i].store);
    return false;
}
