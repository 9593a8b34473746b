/*
 * ray/objects.c: ids of objects, the pages that they lie in, and the groups that aliases make of them.
 *
 * Ids are never used again, so what is kept for them must shrink by itself: a page goes when all its objects are freed,
 * and then only their being freed is known.
 */
#include "ray/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"

struct mu_ray_object *mu_ray_object_at(const struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_page *page = id < s->num_objects ? s->pages[id / MU_RAY_PAGE] : NULL;

    return page ? &page->objects[id % MU_RAY_PAGE] : NULL;
}

enum muster_status mu_ray_object_find(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_object **ret_object)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);

    if (id >= s->num_objects)
        return mu_fail(MUSTER_NOT_FOUND, "there is no object %" PRIu64 ": %" PRIu64 " have been made", id,
                       s->num_objects);
    if (!o || o->is_freed)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object %" PRIu64 " is freed: nobody held a reference to it", id);
    *ret_object = o;
    return MUSTER_OK;
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static void page_drop(struct mu_ray_sched *s, uint64_t page)
{
    free(s->pages[page]);
    s->pages[page] = NULL;
    mu_ray_give(s, sizeof(struct mu_ray_page));
}

/* Pages for that many objects. */
static enum muster_status pages_need(struct mu_ray_sched *s, uint64_t objects)
{
    uint64_t needed = (objects + MU_RAY_PAGE - 1) / MU_RAY_PAGE;
    uint32_t before = s->num_pages;
    enum muster_status status = MUSTER_OK;

    if (!mu_ray_grow(&s->pages, sizeof *s->pages, needed, &s->room_pages))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another object");
    while (!status && s->num_pages < needed) {
        status = mu_ray_take(s, sizeof(struct mu_ray_page));
        if (status)
            break;
        s->pages[s->num_pages] = calloc(1, sizeof(struct mu_ray_page));
        if (s->pages[s->num_pages]) {
            s->num_pages++;
        } else {
            mu_ray_give(s, sizeof(struct mu_ray_page));
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another object");
        }
    }
    while (status && s->num_pages > before)
        page_drop(s, --s->num_pages);
    return status;
}

enum muster_status mu_ray_object_new(struct mu_ray_sched *s, uint64_t number, uint64_t count, uint64_t *ret_first)
{
    enum muster_status status = pages_need(s, s->num_objects + number);

    if (status)
        return status;
    *ret_first = s->num_objects;
    for (uint64_t i = 0; i < number; i++) {
        uint64_t id = s->num_objects++;
        struct mu_ray_page *page = s->pages[id / MU_RAY_PAGE];

        page->objects[id % MU_RAY_PAGE] = (struct mu_ray_object){
            .count = count,
            .target = MU_RAY_NIL,
            .parent = id,
            .next = id,
            .producer = UINT32_MAX,
            .has_producer = true,
            .total = count,
            .size = 1,
            .canonical = MU_RAY_NIL,
            .doomed_next = MU_RAY_NIL,
        };
        page->live++;
        s->live_objects++;
    }
    return MUSTER_OK;
}

void mu_ray_page_settle(struct mu_ray_sched *s, uint64_t id)
{
    uint64_t page = id / MU_RAY_PAGE;

    s->live_objects--;
    if (--s->pages[page]->live == 0 && (page + 1) * MU_RAY_PAGE <= s->num_objects)
        page_drop(s, page);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static uint64_t root_of(const struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);

    while (o->parent != id) {
        struct mu_ray_object *above = mu_ray_object_at(s, o->parent);

        o->parent = above->parent; /* so the way is half as long the next time */
        id = o->parent;
        o = mu_ray_object_at(s, id);
    }
    return id;
}

struct mu_ray_object *mu_ray_root(const struct mu_ray_sched *s, uint64_t id)
{
    return mu_ray_object_at(s, root_of(s, id));
}

void mu_ray_unite(struct mu_ray_sched *s, uint64_t alias, uint64_t target)
{
    uint64_t a = root_of(s, alias), b = root_of(s, target), next;
    struct mu_ray_object *of_alias = mu_ray_object_at(s, a), *of_target = mu_ray_object_at(s, b);
    struct mu_ray_object *into, *from;
    struct mu_ray_note **last;

    if (mu_ray_object_at(s, a)->size < mu_ray_object_at(s, b)->size) {
        uint64_t c = a;

        a = b;
        b = c;
    }
    into = mu_ray_object_at(s, a);
    from = mu_ray_object_at(s, b);
    from->parent = a;
    into->total += from->total;
    into->size += from->size;
    if (into->canonical == MU_RAY_NIL)
        into->canonical = from->canonical;
    next = into->next;
    into->next = from->next;
    from->next = next;
    while (from->first_wait) {
        struct mu_ray_wait *wait = from->first_wait;

        MU_QUEUE_DROP(from->first_wait, from->last_wait, wait);
        MU_QUEUE_APPEND(into->first_wait, into->last_wait, wait);
    }
    for (last = &into->notes; *last; last = &(*last)->next)
        ;
    *last = from->notes;
    from->notes = NULL;
    free(of_alias->why); /* an alias that was lost has been made after all */
    of_alias->why = NULL;
    into->is_lost = of_target->is_lost;
    into->why = of_target->why;
    if (from == of_target)
        from->why = NULL;
}

bool mu_ray_is_ready(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_object **ret_canonical)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);
    uint64_t canonical = o && !o->is_freed ? mu_ray_root(s, id)->canonical : MU_RAY_NIL;

    o = canonical != MU_RAY_NIL ? mu_ray_object_at(s, canonical) : NULL;
    *ret_canonical = o;
    for (uint32_t i = 0; o && i < o->num_places; i++)
        if (o->places[i].state == MU_RAY_HERE)
            return true;
    return false;
}

/* ---- what waits for them ----------------------------------------------------------------------------------------- */

void mu_ray_wait_for(struct mu_ray_sched *s, struct mu_ray_wait *wait)
{
    struct mu_ray_object *root = mu_ray_root(s, wait->object);

    wait->is_waiting = true;
    MU_QUEUE_APPEND(root->first_wait, root->last_wait, wait);
}

void mu_ray_wait_end(struct mu_ray_sched *s, struct mu_ray_wait *wait)
{
    struct mu_ray_object *root = mu_ray_root(s, wait->object);

    wait->is_waiting = false;
    MU_QUEUE_DROP(root->first_wait, root->last_wait, wait);
}

static void object_close(struct mu_ray_object *o)
{
    while (o->first_wait) {
        struct mu_ray_wait *wait = o->first_wait;

        o->first_wait = wait->next;
        if (!wait->task)
            free(wait);
    }
    while (o->notes) {
        struct mu_ray_note *note = o->notes;

        o->notes = note->next;
        free(note);
    }
    free(o->places);
    free(o->contained);
    free(o->why);
}

void mu_ray_objects_close(struct mu_ray_sched *s)
{
    for (uint32_t i = 0; i < s->num_pages; i++) {
        for (uint32_t k = 0; s->pages[i] && k < MU_RAY_PAGE; k++)
            object_close(&s->pages[i]->objects[k]);
        free(s->pages[i]);
    }
    free(s->pages);
}
