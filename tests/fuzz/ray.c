/*
 * tests/fuzz/ray.c: the scheduler of Ray's protocol before peers that say anything in any order. The oracle is what
 * stores and workers know, and what of the state must hold behind every request.
 */
#include "ray.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ray/private.h"

enum { STEP_BYTES = 6, STORES = 6, WORKERS = 12, OBJECTS = 400, IDS = 24 };

struct ray_world {
    struct mu_ray_sched *s;
    const uint8_t *at; /* the operands of a step */
    size_t left;
    struct ray_sum *sum;
    uint8_t has[STORES][OBJECTS], coming[STORES][OBJECTS], told[STORES][OBJECTS];
    bool is_busy[WORKERS];
};

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "Ray's scheduler: %s\n", what);
    abort();
}

static uint8_t next(struct ray_world *w)
{
    return w->left ? w->left--, *w->at++ : 0;
}

/* A worker, or one that is not there. */
static uint32_t worker(struct ray_world *w)
{
    return next(w) % (w->s->num_workers + 1) % WORKERS;
}

static uint32_t store(struct ray_world *w)
{
    return next(w) % (w->s->num_stores + 1) % STORES;
}

/* One of the newest objects, or one that is not there. */
static uint64_t object(struct ray_world *w)
{
    uint64_t count = w->s->num_objects, back = next(w) % IDS;

    return back < count ? count - 1 - back : count + back;
}

/* ---- what peers are told ---- */

static void on_call(void *arg, const struct mu_ray_call *call)
{
    struct ray_world *w = arg;
    uint64_t id = call->object;

    if (id >= OBJECTS || call->target >= OBJECTS)
        return;
    switch (call->kind) {
    case MU_RAY_EXECUTE:
        must(!w->is_busy[call->peer], "a worker has two tasks");
        w->is_busy[call->peer] = true;
        w->sum->executed++;
        break;
    case MU_RAY_DELIVER:
        must(!w->has[call->peer][id], "a store is to fetch what it has");
        w->coming[call->peer][id] = 1;
        w->sum->delivered++;
        break;
    case MU_RAY_ALIAS:
        must(w->has[call->peer][call->target], "a store is told of an alias before it has the object");
        must(!w->told[call->peer][id]++, "a store is told of an alias twice");
        w->sum->aliased++;
        break;
    case MU_RAY_FREE:
        must(w->has[call->peer][id], "a store is to free what it does not have");
        w->has[call->peer][id] = 0;
        w->sum->freed++;
        break;
    default: break;
    }
}

/* ---- what must hold ---- */

static void group_check(const struct mu_ray_sched *s, uint64_t id)
{
    const struct mu_ray_object *root = mu_ray_object_at(s, id);
    uint64_t total = 0, size = 0, at = id;

    do {
        const struct mu_ray_object *o = mu_ray_object_at(s, at);

        must(!o->is_freed && mu_ray_root(s, at) == root, "a group has members of another");
        must(o->target == MU_RAY_NIL || o->target == at || mu_ray_root(s, o->target) == root, "a target is elsewhere");
        must(o->target != at || root->canonical == at, "a canonical id is not its group's");
        total += o->count;
        size++;
        at = o->next;
    } while (at != id);
    must(total == root->total && size == root->size, "a group's sum is wrong");
    must(total > 0, "an object without references is not freed");
    must(!root->is_doomed &&
             (root->canonical == MU_RAY_NIL || mu_ray_object_at(s, root->canonical)->target == root->canonical),
         "a group is not settled");
    for (const struct mu_ray_wait *wait = root->first_wait; wait; wait = wait->next) {
        struct mu_ray_object *canonical;

        must(mu_ray_root(s, wait->object) == root && (!wait->task || wait->is_waiting), "a waiter waits elsewhere");
        must(!mu_ray_is_ready(s, wait->object, &canonical), "a waiter waits for what is there");
        must(!wait->task || !root->is_lost, "a task waits for what is lost");
    }
}

static void queue_check(const struct mu_ray_sched *s)
{
    uint64_t queued = 0, ready = 0, running = 0, last = 0, in_heaps = 0;

    for (const struct mu_ray_task *t = s->queue; t; t = t->next) {
        uint32_t missing = 0;

        for (uint32_t i = 0; i < t->num_args; i++)
            missing += t->waits[i].is_waiting;
        must(t->state == (missing ? MU_RAY_WAITING : MU_RAY_READY) && missing == t->missing, "a task waits wrongly");
        must(!queued || t->operation > last, "the queue is out of order");
        last = t->operation;
        queued++;
        ready += t->state == MU_RAY_READY;
        for (const struct mu_ray_worker *w = s->idle; w; w = w->next)
            must(t->state != MU_RAY_READY || !mu_ray_knows(t->function, w->id) || w->importing,
                 "a worker is idle that could run a task");
    }
    for (const struct mu_ray_function *f = s->active; f; f = f->active_next) {
        must(f->is_active && f->num_ready > 0, "a function is active without tasks");
        in_heaps += f->num_ready;
    }
    for (uint32_t i = 0; i < s->num_workers; i++) {
        must((s->workers[i]->task != NULL) == (s->workers[i]->state == MU_RAY_BUSY), "a worker is busy without a task");
        running += s->workers[i]->task != NULL;
    }
    must(queued == s->num_queued && ready == in_heaps && running == s->num_running, "tasks are counted wrongly");
}

static void world_check(struct ray_world *w)
{
    for (uint64_t id = 0; id < w->s->num_objects; id++) {
        const struct mu_ray_object *o = mu_ray_object_at(w->s, id);

        if (o && !o->is_freed && o->parent == id)
            group_check(w->s, id);
    }
    queue_check(w->s);
}

/* ---- what comes ---- */

#define TEXT(t) ((struct mu_ray_text){t, strlen(t)})

static enum muster_status request_submit(struct ray_world *w)
{
    struct mu_ray_value values[3] = {{.id = 0}};
    uint64_t by = worker(w), first, count;
    size_t num = next(w) % 4;
    bool is_registered;

    for (size_t i = 0; i < num; i++)
        values[i].id = object(w);
    for (size_t i = 0; i < num; i++)
        mu_ray_increment(w->s, worker(w), &values[i].id, 1); /* as clients do; of none it is refused */
    return mu_ray_submit(w->s, by, TEXT(next(w) % 2 ? "f" : "g"), values, num, &is_registered, &first, &count);
}

static enum muster_status object_came(struct ray_world *w, uint64_t id, uint64_t at)
{
    enum muster_status status = mu_ray_object_ready(w->s, id, at);

    if (!status && id < OBJECTS) {
        const struct mu_ray_object *o = mu_ray_object_at(w->s, id);

        w->coming[at][id] = 0;
        must(w->has[at][id] || (o && o->is_freed) || !o, "an object came, and its store was not told so before");
    }
    return status;
}

/* The store has it before it says so: it may be told to free it at once. */
static enum muster_status store_says(struct ray_world *w, uint64_t id, uint64_t at)
{
    enum muster_status status;

    if (id >= OBJECTS || at >= STORES || w->has[at][id])
        return MUSTER_FAILED_PRECONDITION;
    w->has[at][id] = 1;
    status = object_came(w, id, at);
    if (status)
        w->has[at][id] = 0;
    return status;
}

static enum muster_status delivery_end(struct ray_world *w)
{
    uint32_t to = store(w);

    for (uint64_t id = 0; id < OBJECTS; id++)
        if (w->coming[to][id])
            return store_says(w, id, to);
    return MUSTER_NOT_FOUND;
}

static enum muster_status worker_comes(struct ray_world *w, bool is_driver)
{
    struct mu_ray_worker_ids ids;
    enum muster_status status;
    char ip[16];

    snprintf(ip, sizeof ip, "10.0.0.%u", next(w) % STORES);
    if (w->s->num_workers == WORKERS)
        return MUSTER_OK;
    status = mu_ray_register_worker(w->s, TEXT(ip), TEXT(""), is_driver, &ids);
    if (!status && !is_driver)
        status = mu_ray_ready_for_task(w->s, ids.worker, NULL);
    return status;
}

static enum muster_status store_comes(struct ray_world *w)
{
    char address[32];
    uint32_t id;

    snprintf(address, sizeof address, "10.0.0.%u:20001", next(w) % STORES);
    return w->s->num_stores < STORES ? mu_ray_register_store(w->s, TEXT(address), &id) : MUSTER_OK;
}

static enum muster_status task_ended(struct ray_world *w)
{
    struct mu_ray_outcome outcome = {.succeeded = next(w) % 2, .words = {"words", 5}};
    uint32_t id = worker(w);
    bool was_busy = w->is_busy[id];
    enum muster_status status;

    w->is_busy[id] = false; /* the next one may come at once */
    status = mu_ray_ready_for_task(w->s, id, next(w) % 4 ? &outcome : NULL);
    if (status)
        w->is_busy[id] = was_busy;
    return status;
}

static enum muster_status objects_step(struct ray_world *w, enum ray_step step)
{
    uint64_t ids[2], id;

    switch (step) {
    case RAY_PUT: return mu_ray_put(w->s, worker(w), &id);
    case RAY_MADE: id = object(w); return store_says(w, id, store(w));
    case RAY_ALIAS: id = object(w); return mu_ray_alias(w->s, id, object(w));
    case RAY_CONTAIN:
        id = object(w);
        ids[0] = object(w);
        ids[1] = object(w);
        if (mu_ray_increment(w->s, worker(w), ids, 2))
            return MUSTER_NOT_FOUND;
        return mu_ray_contain(w->s, worker(w), id, ids, 2);
    case RAY_INCREMENT: ids[0] = object(w); return mu_ray_increment(w->s, worker(w), ids, 1);
    case RAY_DECREMENT:
        ids[0] = object(w);
        ids[1] = object(w);
        return mu_ray_decrement(w->s, worker(w), ids, 1 + next(w) % 2);
    case RAY_REQUEST: id = object(w); return mu_ray_request(w->s, worker(w), id);
    default: return delivery_end(w);
    }
}

static enum muster_status peers_step(struct ray_world *w, enum ray_step step)
{
    uint32_t peer;
    bool success;

    switch (step) {
    case RAY_DRIVER:
    case RAY_WORKER: return worker_comes(w, step == RAY_DRIVER);
    case RAY_STORE: return store_comes(w);
    case RAY_FUNCTION:
        peer = worker(w);
        return mu_ray_register_function(w->s, peer, TEXT(next(w) % 2 ? "f" : "g"), next(w) % 3);
    case RAY_SUBMIT: return request_submit(w);
    case RAY_ENDED: return task_ended(w);
    case RAY_EXPORT: return mu_ray_export(w->s, next(w) % 2, "e", 1);
    case RAY_IMPORTED:
        peer = worker(w);
        while (peer < w->s->num_workers && w->s->workers[peer]->importing)
            mu_ray_import_done(w->s, peer);
        return MUSTER_OK;
    case RAY_KILL: mu_ray_kill_workers(w->s, &success); return MUSTER_OK;
    case RAY_WORKER_LOST:
        peer = worker(w);
        if (peer < w->s->num_workers)
            mu_ray_worker_lost(w->s, peer, next(w) % 2, "it is lost");
        return MUSTER_OK;
    default:
        peer = store(w);
        if (peer < w->s->num_stores)
            mu_ray_store_lost(w->s, peer, "it is lost");
        return MUSTER_OK;
    }
}

void ray_try(const uint8_t *data, size_t size, struct ray_sum *sum)
{
    struct ray_world w = {.sum = sum};
    const struct mu_ray_options options = {.call = on_call, .arg = &w};

    w.s = mu_ray_open(&options);
    must(w.s != NULL, "no memory");
    for (; size >= STEP_BYTES && w.s->num_objects < OBJECTS - 8; data += STEP_BYTES, size -= STEP_BYTES) {
        enum ray_step step = data[0] % RAY_STEPS;
        bool is_about_objects = (step >= RAY_PUT && step <= RAY_REQUEST) || step == RAY_ARRIVED;

        w.at = data + 1;
        w.left = STEP_BYTES - 1;
        ++*((is_about_objects ? objects_step(&w, step) : peers_step(&w, step)) ? &sum->refused : &sum->done);
        world_check(&w);
    }
    mu_ray_close(w.s);
}
