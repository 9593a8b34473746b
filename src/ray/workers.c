/*
 * ray/workers.c: workers, drivers and stores: how they come, what all workers are told, how they go.
 *
 * What drivers export is a log. A worker is told all of it, in its order, at its first request for a task, and what
 * comes later as it comes: each export once, in one order for all.
 */
#include "ray/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "bridge/link/address.h"

enum { PORTS = 65536 - MU_RAY_PORT };

enum muster_status mu_ray_worker_find(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_worker **ret_worker)
{
    if (id >= s->num_workers)
        return mu_fail(MUSTER_NOT_FOUND, "there is no worker %" PRIu64 ": %u have registered", id, s->num_workers);
    if (s->workers[id]->state == MU_RAY_GONE)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "worker %" PRIu64 " is gone: %s; register again", id,
                       s->workers[id]->why);
    *ret_worker = s->workers[id];
    return MUSTER_OK;
}

enum muster_status mu_ray_worker_store_check(const struct mu_ray_sched *s, const struct mu_ray_worker *w)
{
    if (s->stores[w->store]->is_gone)
        return mu_fail(MUSTER_UNAVAILABLE, "the object store of worker %u at %s is gone: register again", w->id,
                       s->stores[w->store]->address);
    return MUSTER_OK;
}

const char *mu_ray_worker_address(const struct mu_ray_sched *s, uint32_t worker)
{
    return s->workers[worker]->state == MU_RAY_GONE ? NULL : s->workers[worker]->address;
}

const char *mu_ray_store_address(const struct mu_ray_sched *s, uint32_t store)
{
    return s->stores[store]->is_gone ? NULL : s->stores[store]->address;
}

struct mu_ray_worker *mu_ray_holder(const struct mu_ray_sched *s, uint64_t by)
{
    return by < s->num_workers && s->workers[by]->has_ledger ? s->workers[by] : NULL;
}

enum muster_status mu_ray_holder_check(const struct mu_ray_sched *s, uint64_t by)
{
    if (by < s->num_workers && s->workers[by]->is_lost)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "worker %" PRIu64 " was given up, and its references were dropped: %s", by, s->workers[by]->why);
    return MUSTER_OK;
}

void mu_ray_worker_left(struct mu_ray_sched *s, uint64_t worker)
{
    struct mu_ray_worker *w = mu_ray_holder(s, worker);

    if (!w || w->state != MU_RAY_GONE)
        return;
    mu_ray_ledger_release(s, w, "KillWorkers ended its worker");
    mu_ray_settle(s);
}

void mu_ray_distrust(struct mu_ray_sched *s, uint64_t worker)
{
    if (worker < s->num_workers)
        mu_ray_ledger_end(s->workers[worker]);
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

/* The store at that address or, where none is given, the one on that host that came last. NULL: there is none. */
static struct mu_ray_store *store_choose(const struct mu_ray_sched *s, struct mu_ray_text ip,
                                         struct mu_ray_text address, uint32_t *ret_id)
{
    for (uint32_t i = s->num_stores; i-- > 0;) {
        struct mu_ray_store *store = s->stores[i];
        const char *has = address.len ? store->address : store->host;
        struct mu_ray_text wanted = address.len ? address : ip;

        if (!store->is_gone && strlen(has) == wanted.len && memcmp(has, wanted.text, wanted.len) == 0) {
            *ret_id = i;
            return store;
        }
    }
    return NULL;
}

/* The text as an address; false: it is none. */
static bool address_take(struct mu_ray_text text, char *to, size_t size, struct mu_link_name *ret_name)
{
    if (text.len == 0 || text.len >= size || memchr(text.text, 0, text.len))
        return false;
    memcpy(to, text.text, text.len);
    to[text.len] = 0;
    return !mu_link_name_parse(to, ret_name) && ret_name->host[0] && strcmp(ret_name->port, "0") != 0;
}

/* Where worker `id` of that host listens; false: that is no host. */
static bool worker_address(struct mu_ray_text ip, uint32_t id, char *to, size_t size)
{
    bool is_v6 = ip.len && memchr(ip.text, ':', ip.len) && ip.text[0] != '[';
    struct mu_link_name name;
    char text[300];
    int len = snprintf(text, sizeof text, is_v6 ? "[%.*s]:%u" : "%.*s:%u", (int)(ip.len < 260 ? ip.len : 260),
                       ip.text ? ip.text : "", MU_RAY_PORT + id % PORTS);

    return ip.len > 0 && ip.len < 256 && address_take((struct mu_ray_text){text, (size_t)len}, to, size, &name);
}

enum muster_status mu_ray_register_worker(struct mu_ray_sched *s, struct mu_ray_text ip, struct mu_ray_text store,
                                          bool is_driver, struct mu_ray_worker_ids *ret_ids)
{
    struct mu_ray_worker *w;
    struct mu_ray_store *own;
    enum muster_status status;
    uint32_t store_id = 0;
    char address[sizeof w->address];

    if (!worker_address(ip, s->num_workers, address, sizeof address))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "node_ip_address is no address of a host");
    own = store_choose(s, ip, store, &store_id);
    if (!own)
        return mu_fail(MUSTER_UNAVAILABLE, "no object store %s has registered: %.*s",
                       store.len ? "at that address" : "on that host", (int)(store.len ? store.len : ip.len),
                       store.len ? store.text : ip.text);
    status = mu_ray_take(s, sizeof *w);
    w = status ? NULL : calloc(1, sizeof *w);
    if (!status && (!w || !mu_ray_grow(&s->workers, sizeof(void *), s->num_workers + 1, &s->room_workers))) {
        free(w);
        mu_ray_give(s, sizeof *w);
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another worker");
    }
    if (status)
        return status;
    w->id = s->num_workers;
    w->store = store_id;
    w->is_driver = is_driver;
    w->has_ledger = !is_driver; /* a driver's end is not known for certain: its connection may come again */
    snprintf(w->address, sizeof w->address, "%s", address);
    s->workers[s->num_workers++] = w;
    *ret_ids = (struct mu_ray_worker_ids){w->id, store_id, w->address, own->address};
    return MUSTER_OK;
}

enum muster_status mu_ray_register_store(struct mu_ray_sched *s, struct mu_ray_text address, uint32_t *ret_store)
{
    struct mu_ray_store *store;
    struct mu_link_name name;
    enum muster_status status;
    char text[sizeof store->address];

    if (!address_take(address, text, sizeof text, &name))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "objstore_address is no HOST:PORT at which a store could listen");
    status = mu_ray_take(s, sizeof *store);
    store = status ? NULL : calloc(1, sizeof *store);
    if (!status && (!store || !mu_ray_grow(&s->stores, sizeof(void *), s->num_stores + 1, &s->room_stores))) {
        free(store);
        mu_ray_give(s, sizeof *store);
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another store");
    }
    if (status)
        return status;
    for (uint32_t i = 0; i < s->num_stores; i++)
        if (!s->stores[i]->is_gone && strcmp(s->stores[i]->address, text) == 0)
            mu_ray_store_lost(s, i, "another store has registered with its address");
    snprintf(store->address, sizeof store->address, "%s", text);
    snprintf(store->host, sizeof store->host, "%s", name.host);
    *ret_store = s->num_stores;
    s->stores[s->num_stores++] = store;
    return MUSTER_OK;
}

/* ---- what workers are told --------------------------------------------------------------------------------------- */

static void export_send(struct mu_ray_sched *s, const struct mu_ray_export *e, struct mu_ray_worker *w)
{
    w->importing++;
    mu_ray_send(s, &(struct mu_ray_call){.kind = e->is_variable ? MU_RAY_IMPORT_VARIABLE : MU_RAY_IMPORT_FUNCTION,
                                         .peer = w->id,
                                         .body = e->body});
}

void mu_ray_worker_equip(struct mu_ray_sched *s, struct mu_ray_worker *w)
{
    w->is_initialized = true;
    for (uint32_t i = 0; i < s->num_exports; i++)
        export_send(s, &s->exports[i], w);
}

void mu_ray_import_done(struct mu_ray_sched *s, uint32_t worker)
{
    struct mu_ray_worker *w = s->workers[worker];

    if (w->importing > 0 && --w->importing == 0)
        mu_ray_worker_offer(s, w);
    mu_ray_settle(s);
}

enum muster_status mu_ray_export(struct mu_ray_sched *s, bool is_variable, const void *body, size_t len)
{
    enum muster_status status = mu_ray_take(s, sizeof(struct mu_ray_export) + sizeof(struct mu_blob) + len);
    struct mu_blob *blob = status ? NULL : mu_blob_new(len);

    if (status)
        return status;
    if (!blob || !mu_ray_grow(&s->exports, sizeof *s->exports, s->num_exports + 1, &s->room_exports)) {
        mu_blob_drop(blob);
        mu_ray_give(s, sizeof(struct mu_ray_export) + sizeof(struct mu_blob) + len);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another export");
    }
    memcpy(blob->bytes, body, len);
    s->exports[s->num_exports++] = (struct mu_ray_export){is_variable, blob};
    for (uint32_t i = 0; i < s->num_workers; i++)
        if (s->workers[i]->is_initialized && s->workers[i]->state != MU_RAY_GONE)
            export_send(s, &s->exports[s->num_exports - 1], s->workers[i]);
    return MUSTER_OK;
}

/* ---- their end --------------------------------------------------------------------------------------------------- */

static void worker_gone(struct mu_ray_sched *s, struct mu_ray_worker *w, const char *why)
{
    if (w->state == MU_RAY_IDLE)
        MU_QUEUE_DROP(s->idle, s->idle_last, w);
    w->state = MU_RAY_GONE;
    snprintf(w->why, sizeof w->why, "%s", why);
}

void mu_ray_kill_workers(struct mu_ray_sched *s, bool *ret_success)
{
    *ret_success = s->num_queued == 0 && s->num_running == 0;
    if (!*ret_success)
        return;
    while (s->idle) {
        struct mu_ray_worker *w = s->idle;

        mu_ray_send(s, &(struct mu_ray_call){.kind = MU_RAY_DIE, .peer = w->id}); /* while it has an address */
        worker_gone(s, w, "KillWorkers ended it");
    }
    mu_ray_functions_clear(s);
}

/* The task had begun: what it had made already is there. */
static void task_break(struct mu_ray_sched *s, struct mu_ray_worker *w, const char *why)
{
    struct mu_ray_task *t = w->task;
    char words[600];

    w->task = NULL;
    s->num_running--;
    snprintf(words, sizeof words, "worker %u at %s, which ran task %.100s, is gone: %s", w->id, w->address,
             t->function->name, why);
    mu_ray_task_fail(s, t, w->address, (struct mu_ray_text){words, strlen(words)});
    for (uint64_t i = 0; i < t->num_results; i++) {
        struct mu_ray_object *o = mu_ray_object_at(s, t->first_result + i);

        if (!o || o->is_freed || !o->has_producer)
            continue;
        mu_ray_lose(s, t->first_result + i, words);
        mu_ray_drop_producer(s, t->first_result + i);
    }
    mu_ray_task_end(s, t);
}

void mu_ray_worker_lost(struct mu_ray_sched *s, uint32_t worker, bool has_task, const char *why)
{
    struct mu_ray_worker *w = s->workers[worker];
    bool was_running = w->task && has_task;

    if (w->state == MU_RAY_GONE)
        return;
    mu_ray_say(s, "ray: worker %u at %s is gone%s: %s", w->id, w->address,
               was_running ? ", and its task has failed" : "", why);
    worker_gone(s, w, why);
    w->is_lost = true;
    mu_ray_function_forget_worker(s, worker);
    if (was_running)
        task_break(s, w, why);
    else if (w->task)
        mu_ray_task_requeue(s, w);
    mu_ray_ledger_release(s, w, why);
    mu_ray_settle(s);
}

/* Tasks that were ready may not be any more. */
static void queue_look_lost(struct mu_ray_sched *s)
{
    for (struct mu_ray_task *t = s->queue, *next; t; t = next) {
        next = t->next;
        mu_ray_task_look(s, t);
    }
}

void mu_ray_store_lost(struct mu_ray_sched *s, uint32_t store, const char *why)
{
    char words[600];

    if (s->stores[store]->is_gone)
        return;
    s->stores[store]->is_gone = true;
    mu_ray_say(s, "ray: the object store at %s is gone, and with it what no other has: %s", s->stores[store]->address,
               why);
    snprintf(words, sizeof words, "the object store at %s is gone: %s", s->stores[store]->address, why);
    for (uint64_t id = 0; id < s->num_objects; id++) {
        struct mu_ray_object *o = mu_ray_object_at(s, id);
        bool drop;

        if (!o || o->is_freed)
            continue;
        if (mu_ray_place_gone(s, id, store, &drop))
            mu_ray_lose(s, id, words);
        if (drop)
            mu_ray_drop(s, id);
    }
    queue_look_lost(s);
    mu_ray_settle(s);
    for (uint32_t i = 0; i < s->num_workers; i++) /* what they would be given could not come to them */
        if (s->workers[i]->store == store && !s->workers[i]->is_driver)
            mu_ray_worker_lost(s, i, true, words);
}

void mu_ray_workers_close(struct mu_ray_sched *s)
{
    for (uint32_t i = 0; i < s->num_workers; i++) {
        mu_ray_ledger_end(s->workers[i]);
        free(s->workers[i]);
    }
    for (uint32_t i = 0; i < s->num_stores; i++)
        free(s->stores[i]);
    for (uint32_t i = 0; i < s->num_exports; i++)
        mu_blob_drop(s->exports[i].body);
    free(s->workers);
    free(s->stores);
    free(s->exports);
}
