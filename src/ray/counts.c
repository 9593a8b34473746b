/*
 * ray/counts.c: requests about objects: references, aliases, what they contain, where they are.
 */
#include "ray/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum muster_status mu_ray_put(struct mu_ray_sched *s, uint64_t worker, uint64_t *ret_object)
{
    struct mu_ray_worker *w;
    enum muster_status status = mu_ray_worker_find(s, worker, &w);

    if (!status)
        status = mu_ray_worker_store_check(s, w);
    if (!status)
        status = mu_ray_object_new(s, 1, 1, ret_object);
    if (!status) {
        mu_ray_object_at(s, *ret_object)->producer = w->id;
        mu_ray_ledger_add(w, *ret_object, 1);
    }
    if (!status)
        mu_ray_operation_add(
            s, &(struct mu_ray_operation){.kind = MU_RAY_OP_PUT, .creator = mu_ray_creator(w), .object = *ret_object});
    return status;
}

enum muster_status mu_ray_request(struct mu_ray_sched *s, uint64_t worker, uint64_t object)
{
    struct mu_ray_worker *w;
    struct mu_ray_object *o, *canonical, *root;
    struct mu_ray_wait *wait = NULL;
    enum muster_status status = mu_ray_worker_find(s, worker, &w);

    if (!status)
        status = mu_ray_object_find(s, object, &o);
    if (status)
        return status;
    root = mu_ray_root(s, object);
    if (root->is_lost)
        return mu_fail(MUSTER_DATA_LOSS, "object %" PRIu64 " is lost: %s", object,
                       root->why ? root->why : "its maker is gone");
    status = mu_ray_worker_store_check(s, w);
    if (status)
        return status;
    if (!mu_ray_is_ready(s, object, &canonical)) {
        wait = malloc(sizeof *wait);
        if (!wait)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another request");
        *wait = (struct mu_ray_wait){.object = object, .store = w->store};
        mu_ray_wait_for(s, wait);
    } else {
        mu_ray_bring(s, object, w->store);
    }
    mu_ray_operation_add(
        s, &(struct mu_ray_operation){.kind = MU_RAY_OP_GET, .creator = mu_ray_creator(w), .object = object});
    return MUSTER_OK;
}

enum muster_status mu_ray_alias(struct mu_ray_sched *s, uint64_t alias, uint64_t target)
{
    struct mu_ray_object *a, *t, *canonical;
    enum muster_status status = mu_ray_object_find(s, alias, &a);

    if (!status)
        status = mu_ray_object_find(s, target, &t);
    if (status)
        return status;
    if (alias == target)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "object %" PRIu64 " cannot be an alias of itself", alias);
    if (a->target != MU_RAY_NIL)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object %" PRIu64 " %s", alias,
                       a->target == alias ? "is at a store: it cannot become an alias" : "is an alias already");
    if (mu_ray_root(s, alias) == mu_ray_root(s, target))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "object %" PRIu64 " is an alias of object %" PRIu64 ": not the other "
                       "way round, too",
                       target, alias);
    a->target = target;
    mu_ray_unite(s, alias, target);
    if (mu_ray_is_ready(s, alias, &canonical))
        mu_ray_wake(s, alias);
    else if (mu_ray_root(s, alias)->is_lost)
        mu_ray_lose(s, alias, "it is an alias of a lost one");
    mu_ray_drop_producer(s, alias);
    mu_ray_settle(s);
    return MUSTER_OK;
}

static enum muster_status ready_check(const struct mu_ray_sched *s, uint64_t object, uint64_t store,
                                      struct mu_ray_object **ret_object)
{
    enum muster_status status = mu_ray_object_find(s, object, ret_object);

    if (status)
        return status;
    if (store >= s->num_stores)
        return mu_fail(MUSTER_NOT_FOUND, "there is no store %" PRIu64 ": %u have registered", store, s->num_stores);
    if (s->stores[store]->is_gone)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "store %" PRIu64 " at %s was given up, or another has its address",
                       store, s->stores[store]->address);
    if ((*ret_object)->target != MU_RAY_NIL && (*ret_object)->target != object)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object %" PRIu64 " is an alias of object %" PRIu64, object,
                       (*ret_object)->target);
    if (mu_ray_is_at(*ret_object, (uint32_t)store))
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object %" PRIu64 " is at store %" PRIu64 " already", object, store);
    return MUSTER_OK;
}

enum muster_status mu_ray_object_ready(struct mu_ray_sched *s, uint64_t object, uint64_t store)
{
    struct mu_ray_object *o, *root;
    struct mu_ray_place *place;
    enum muster_status status = ready_check(s, object, store, &o);
    bool was_coming;

    if (status)
        return status;
    place = mu_ray_place_of(o, (uint32_t)store);
    was_coming = place != NULL;
    if (place)
        place->state = MU_RAY_HERE;
    else if (!mu_ray_place_add(o, (uint32_t)store, MU_RAY_HERE))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another place of object %" PRIu64, object);
    o->target = object;
    root = mu_ray_root(s, object);
    root->canonical = object;
    root->is_lost = false; /* it was told too late to be believed lost */
    free(root->why);
    root->why = NULL;
    mu_ray_arrived(s, object, (uint32_t)store);
    mu_ray_wake(s, object);
    mu_ray_drop_producer(s, object);
    if (was_coming)
        mu_ray_drop(s, object);
    mu_ray_settle(s);
    return MUSTER_OK;
}

/* ---- references -------------------------------------------------------------------------------------------------- */

static enum muster_status ids_check(const struct mu_ray_sched *s, const uint64_t *ids, size_t count)
{
    struct mu_ray_object *o;
    enum muster_status status = MUSTER_OK;

    for (size_t i = 0; !status && i < count; i++)
        status = mu_ray_object_find(s, ids[i], &o);
    return status;
}

enum muster_status mu_ray_increment(struct mu_ray_sched *s, uint64_t by, const uint64_t *ids, size_t count)
{
    struct mu_ray_worker *w = mu_ray_holder(s, by);
    enum muster_status status = mu_ray_holder_check(s, by);

    if (!status)
        status = ids_check(s, ids, count);
    if (!status && count == 0)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the request names no object");
    for (size_t i = 0; !status && i < count; i++) {
        mu_ray_object_at(s, ids[i])->count++;
        mu_ray_root(s, ids[i])->total++;
        if (w)
            mu_ray_ledger_add(w, ids[i], 1);
    }
    return status;
}

/* All of them or, where one has not so many, none. */
enum muster_status mu_ray_decrement(struct mu_ray_sched *s, uint64_t by, const uint64_t *ids, size_t count)
{
    struct mu_ray_worker *w = mu_ray_holder(s, by);
    enum muster_status status = mu_ray_holder_check(s, by);
    size_t taken = 0;

    if (!status)
        status = ids_check(s, ids, count);
    if (!status && count == 0)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the request names no object");
    for (; !status && taken < count; taken += !status) {
        struct mu_ray_object *o = mu_ray_object_at(s, ids[taken]);

        if (o->count == 0)
            status = mu_fail(MUSTER_FAILED_PRECONDITION,
                             "object %" PRIu64 " has no reference that could be dropped: "
                             "what holds it are its aliases, or the request names it too "
                             "often",
                             ids[taken]);
        else
            o->count--;
    }
    while (taken > 0) { /* they were taken on trial */
        mu_ray_object_at(s, ids[--taken])->count++;
        if (!status && w)
            mu_ray_ledger_add(w, ids[taken], -1);
        if (!status)
            mu_ray_drop(s, ids[taken]);
    }
    mu_ray_settle(s);
    return status;
}

enum muster_status mu_ray_contain(struct mu_ray_sched *s, uint64_t by, uint64_t object, const uint64_t *ids,
                                  size_t count)
{
    struct mu_ray_worker *w = mu_ray_holder(s, by);
    struct mu_ray_object *o;
    enum muster_status status = mu_ray_holder_check(s, by);
    uint64_t *contained;

    if (count == 0 && object < s->num_objects)
        return MUSTER_OK;
    if (!status)
        status = mu_ray_object_find(s, object, &o);
    if (!status)
        status = ids_check(s, ids, count);
    if (!status && o->num_contained > 0)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "what object %" PRIu64 " contains has been said", object);
    if (!status && count > UINT32_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "an object contains at most %u others", UINT32_MAX);
    if (!status)
        status = mu_ray_take(s, count * sizeof *contained);
    if (status)
        return status;
    contained = malloc(count * sizeof *contained);
    if (!contained) {
        mu_ray_give(s, count * sizeof *contained);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for what object %" PRIu64 " contains", object);
    }
    memcpy(contained, ids, count * sizeof *contained);
    o->contained = contained;
    o->num_contained = (uint32_t)count;
    for (size_t i = 0; w && i < count; i++)
        mu_ray_ledger_add(w, ids[i], -1); /* they are the container's now */
    return MUSTER_OK;
}
