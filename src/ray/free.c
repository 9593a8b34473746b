/*
 * ray/free.c: counts that go, objects that are freed with what they contain, objects that will never be made, and tasks
 * that can therefore never run.
 *
 * Each of these leads to the others, over chains of any length. So nothing is done where it is found out: groups and
 * tasks are marked and listed, and mu_ray_settle() works the lists off.
 */
#include "ray/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

static void group_doom(struct mu_ray_sched *s, struct mu_ray_object *root, uint64_t id)
{
    if (root->total > 0 || root->is_doomed)
        return;
    root->is_doomed = true;
    root->doomed_next = s->doomed;
    s->doomed = id;
}

void mu_ray_drop(struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id), *root;

    if (!o || o->is_freed || o->count == 0) /* somebody dropped what was not theirs */
        return;
    root = mu_ray_root(s, id);
    o->count--;
    root->total--;
    group_doom(s, root, id);
}

void mu_ray_drop_producer(struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);

    if (!o || o->is_freed || !o->has_producer)
        return;
    o->has_producer = false;
    if (o->producer != UINT32_MAX)
        mu_ray_ledger_add(s->workers[o->producer], id, -1);
    mu_ray_drop(s, id);
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

static void object_free(struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id);

    for (uint32_t i = 0; i < o->num_places; i++)
        if (o->places[i].state == MU_RAY_HERE && !s->stores[o->places[i].store]->is_gone)
            mu_ray_send(s, &(struct mu_ray_call){.kind = MU_RAY_FREE, .peer = o->places[i].store, .object = id});
    for (uint32_t i = 0; i < o->num_contained; i++)
        mu_ray_drop(s, o->contained[i]);
    mu_ray_give(s, o->num_contained * sizeof *o->contained);
    free(o->places);
    free(o->contained);
    o->places = NULL;
    o->contained = NULL;
    o->num_places = o->num_contained = 0;
    o->is_freed = true;
}

/* Nothing waits for it any more: a count would have kept it. */
static void waits_end(struct mu_ray_sched *s, struct mu_ray_object *root)
{
    while (root->first_wait) {
        struct mu_ray_wait *wait = root->first_wait;

        wait->is_waiting = false;
        MU_QUEUE_DROP(root->first_wait, root->last_wait, wait);
        if (wait->task)
            mu_ray_give_up(s, wait->task,
                           "an argument was freed before it was there: somebody dropped a reference "
                           "that was another's");
        else
            free(wait);
    }
    while (root->notes) {
        struct mu_ray_note *note = root->notes;

        root->notes = note->next;
        free(note);
    }
    free(root->why);
    root->why = NULL;
}

static void group_free(struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *root = mu_ray_root(s, id);
    uint64_t size = root->size, at = id;

    root->is_doomed = false;
    if (root->total > 0)
        return;
    waits_end(s, root);
    for (uint64_t i = 0; i < size; i++) {
        uint64_t next = mu_ray_object_at(s, at)->next;

        object_free(s, at);
        mu_ray_page_settle(s, at);
        at = next;
    }
}

/* ---- what is lost, and given up ---------------------------------------------------------------------------------- */

void mu_ray_lose(struct mu_ray_sched *s, uint64_t id, const char *why)
{
    struct mu_ray_object *o = mu_ray_object_at(s, id), *root;

    if (!o || o->is_freed)
        return;
    root = mu_ray_root(s, id);
    root->is_lost = true;
    if (!root->why)
        root->why = strdup(why);
    for (struct mu_ray_wait *wait = root->first_wait, *next; wait; wait = next) {
        next = wait->next;
        if (wait->task)
            mu_ray_give_up(s, wait->task, "an argument is lost: %s", why);
    }
}

void mu_ray_give_up(struct mu_ray_sched *s, struct mu_ray_task *t, const char *format, ...)
{
    char why[512];
    va_list args;

    if (t->state == MU_RAY_ENDED)
        return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    mu_ray_task_unqueue(s, t);
    t->state = MU_RAY_ENDED;
    t->why = strdup(why);
    t->next = s->given_up;
    s->given_up = t;
}

static void task_abandon(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    const char *why = t->why ? t->why : "an argument is lost";
    char words[600];

    for (uint32_t i = 0; i < t->num_args; i++) {
        if (t->waits[i].is_waiting)
            mu_ray_wait_end(s, &t->waits[i]);
        mu_ray_drop(s, t->waits[i].object); /* the submitter's, which its worker would have dropped */
    }
    for (uint32_t i = 0; i < t->nested.count; i++)
        mu_ray_drop(s, t->nested.all[i]);
    mu_ray_task_fail(s, t, "", (struct mu_ray_text){why, strlen(why)});
    snprintf(words, sizeof words, "its task %.100s did not run: %s", t->function->name, why);
    for (uint64_t i = 0; i < t->num_results; i++) {
        mu_ray_lose(s, t->first_result + i, words);
        mu_ray_drop(s, t->first_result + i); /* the worker's */
        mu_ray_drop_producer(s, t->first_result + i);
    }
    mu_ray_task_end(s, t);
}

void mu_ray_settle(struct mu_ray_sched *s)
{
    while (s->given_up || s->doomed != MU_RAY_NIL)
        if (s->given_up) {
            struct mu_ray_task *t = s->given_up;

            s->given_up = t->next;
            task_abandon(s, t);
        } else {
            uint64_t id = s->doomed;
            struct mu_ray_object *root = mu_ray_root(s, id);

            s->doomed = root->doomed_next;
            group_free(s, id);
        }
}
