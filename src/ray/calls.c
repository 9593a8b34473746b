/*
 * ray/calls.c: what the scheduler says to workers and stores.
 *
 * Each is called by one connection, in the order in which the scheduler speaks, one call after the other; so a worker
 * has its exports before its first task, and a store has an object before it is told of its aliases. Nothing else keeps
 * one peer's calls behind another's.
 */
#include "ray/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    CALLS_MAX = 1 << 20, /* that wait for one peer; what is freed comes on top */
};
enum { NUMBER = 0, BYTES = 2, KIND_BITS = 3 }; /* kinds of fields; of a call's tag, under an import's number */
_Static_assert(MU_RAY_KINDS <= 1 << KIND_BITS, "a tag holds a kind");

static const struct {
    const char *path;
    bool to_worker;
} kinds[MU_RAY_KINDS] = {
    [MU_RAY_EXECUTE] = {"/WorkerService/ExecuteTask", true},
    [MU_RAY_IMPORT_FUNCTION] = {"/WorkerService/ImportFunction", true},
    [MU_RAY_IMPORT_VARIABLE] = {"/WorkerService/ImportReusableVariable", true},
    [MU_RAY_DIE] = {"/WorkerService/Die", true},
    [MU_RAY_DELIVER] = {"/ObjStore/StartDelivery", false},
    [MU_RAY_ALIAS] = {"/ObjStore/NotifyAlias", false},
    [MU_RAY_FREE] = {"/ObjStore/DeallocateObject", false},
};

static void field_number(struct mu_pack *p, unsigned field, uint64_t value)
{
    if (!value) /* which readers take an absent one for */
        return;
    mu_pack_var(p, field << 3 | NUMBER);
    mu_pack_var(p, value);
}

static void message_of(struct mu_pack *p, const struct mu_ray_call *call)
{
    if (call->body)
        mu_pack_raw(p, call->body->bytes, call->body->len);
    if (call->kind == MU_RAY_DELIVER) {
        mu_pack_var(p, 1 << 3 | BYTES);
        mu_pack_var(p, strlen(call->address));
        mu_pack_raw(p, call->address, strlen(call->address));
        field_number(p, 2, call->object);
    } else if (call->kind == MU_RAY_ALIAS || call->kind == MU_RAY_FREE) {
        field_number(p, 1, call->object);
        field_number(p, 2, call->target);
    }
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static struct mu_ray_peer *peer_of(struct mu_ray_service *s, bool is_worker, uint32_t id)
{
    struct mu_ray_peers *peers = is_worker ? &s->workers : &s->stores;
    uint32_t before = peers->room;

    if (id >= peers->room) {
        uint32_t room = id + 64;
        struct mu_ray_peer **more = reallocarray(peers->all, room, sizeof(struct mu_ray_peer *));

        if (!more)
            return NULL;
        memset(more + before, 0, (room - before) * sizeof(struct mu_ray_peer *));
        peers->all = more;
        peers->room = room;
    }
    if (!peers->all[id]) {
        peers->all[id] = calloc(1, sizeof(struct mu_ray_peer));
        if (peers->all[id])
            *peers->all[id] = (struct mu_ray_peer){.service = s, .is_worker = is_worker, .id = id};
    }
    return peers->all[id];
}

static void peer_break(struct mu_ray_peer *peer, const char *why)
{
    peer->is_broken = peer->service->has_broken = true;
    snprintf(peer->why, sizeof peer->why, "%s", why);
}

/* The worker that this import is for is awaited by the request that makes it. */
static void import_note(struct mu_ray_service *s, uint32_t worker)
{
    struct mu_ray_visit *v = s->current;

    s->num_imports++;
    if (!v || s->workers.all[worker]->is_late)
        return;
    if (v->num_imports == 0 || v->imports[v->num_imports - 1].worker != worker) {
        if (v->num_imports == v->room_imports) {
            uint32_t room = v->room_imports ? 2 * v->room_imports : 8;
            struct mu_ray_import *more = reallocarray(v->imports, room, sizeof *more);

            if (!more)
                return; /* that one is not awaited */
            v->imports = more;
            v->room_imports = room;
        }
        v->num_imports++;
    }
    v->imports[v->num_imports - 1] = (struct mu_ray_import){worker, s->num_imports};
}

void mu_ray_calls_make(void *service, const struct mu_ray_call *call)
{
    struct mu_ray_service *s = service;
    bool to_worker = kinds[call->kind].to_worker;
    struct mu_ray_peer *peer = peer_of(s, to_worker, call->peer);
    const char *address =
        to_worker ? mu_ray_worker_address(s->sched, call->peer) : mu_ray_store_address(s->sched, call->peer);
    struct mu_pack message = {.bytes = NULL};
    uint64_t tag = call->kind;

    if (!peer || peer->is_broken || (!peer->callee && !address))
        return;
    if (!peer->callee && mu_callee_new(s->callees, address, peer, &peer->callee)) {
        peer_break(peer, muster_last_error());
        return;
    }
    if (call->kind == MU_RAY_IMPORT_FUNCTION || call->kind == MU_RAY_IMPORT_VARIABLE) {
        import_note(s, call->peer);
        tag |= s->num_imports << KIND_BITS;
    }
    message_of(&message, call);
    peer->num_calls += call->kind != MU_RAY_FREE;
    peer->is_wanted = peer->is_wanted || call->kind != MU_RAY_FREE;
    if (call->kind == MU_RAY_EXECUTE)
        peer->until_execute = peer->num_calls;
    if ((message.failed || peer->num_calls > CALLS_MAX ||
         !mu_callee_call(peer->callee, tag, kinds[call->kind].path, message.bytes, message.len)) &&
        call->kind != MU_RAY_FREE) /* a store may have more than it needs */
        peer_break(peer, "no memory for calls to it, or too many wait");
    mu_pack_done(&message);
    if (call->kind == MU_RAY_DIE && !peer->is_broken) {
        mu_callee_close(peer->callee);
        peer->callee = NULL;
        mu_ray_import_lost(s, call->peer, "KillWorkers ended it");
    }
}

void mu_ray_calls_watch(struct mu_ray_service *s, uint32_t store)
{
    struct mu_ray_peer *peer = peer_of(s, false, store);
    const char *address = mu_ray_store_address(s->sched, store);

    if (peer && address && !mu_callee_new(s->callees, address, peer, &peer->callee))
        mu_callee_watch(peer->callee);
}

void mu_ray_calls_late(struct mu_ray_service *s, uint32_t worker)
{
    s->workers.all[worker]->is_late = true;
}

static void peer_lost(struct mu_ray_peer *peer, bool has_task, const char *why)
{
    struct mu_ray_service *s = peer->service;
    char words[300];

    snprintf(words, sizeof words, "%s", why);
    if (peer->callee)
        mu_callee_close(peer->callee);
    peer->callee = NULL;
    if (peer->is_worker) {
        mu_ray_import_lost(s, peer->id, words);
        mu_ray_worker_lost(s->sched, peer->id, has_task, words);
    } else {
        mu_ray_store_lost(s->sched, peer->id, words);
    }
}

static void peers_settle(struct mu_ray_peers *peers)
{
    for (uint32_t i = 0; i < peers->room; i++)
        if (peers->all[i] && peers->all[i]->is_broken && peers->all[i]->callee)
            peer_lost(peers->all[i], peers->all[i]->until_execute == 0, peers->all[i]->why);
}

void mu_ray_calls_settle(struct mu_ray_service *s)
{
    while (s->has_broken) { /* a lost peer's tasks may break another */
        s->has_broken = false;
        peers_settle(&s->workers);
        peers_settle(&s->stores);
    }
}

/* ---- what becomes of them ---------------------------------------------------------------------------------------- */

static void on_call_answered(void *arg, struct mu_callee *callee, uint64_t tag, const char *why)
{
    struct mu_ray_service *s = arg;
    struct mu_ray_peer *peer = mu_callee_owner(callee);
    enum mu_ray_kind kind = tag & ((1 << KIND_BITS) - 1);
    char sentence[500];

    peer->num_calls -= kind != MU_RAY_FREE;
    peer->is_late = false;
    if (peer->until_execute > 0)
        peer->until_execute--;
    if (why && s->o.said) {
        snprintf(sentence, sizeof sentence, "ray: %s %u does not take %s: %s", peer->is_worker ? "worker" : "store",
                 peer->id, kinds[kind].path, why);
        s->o.said(s->o.arg, sentence);
    }
    if (kind == MU_RAY_IMPORT_FUNCTION || kind == MU_RAY_IMPORT_VARIABLE) {
        mu_ray_imported(s, peer->id, tag >> KIND_BITS);
        mu_ray_import_done(s->sched, peer->id);
    }
    if (kind == MU_RAY_EXECUTE && why)
        peer_lost(peer, true, why);
    mu_ray_calls_settle(s);
}

static void on_callee_lost(void *arg, struct mu_callee *callee, bool was_said, const char *why)
{
    struct mu_ray_peer *peer = mu_callee_owner(callee);

    if (!peer->is_wanted && !mu_callee_was_there(callee)) { /* a store that has nothing that it could free */
        mu_callee_close(callee);
        peer->callee = NULL;
        return;
    }
    peer_lost(peer, peer->until_execute == 0 || (peer->until_execute == 1 && was_said), why);
    mu_ray_calls_settle(arg);
}

enum muster_status mu_ray_calls_open(struct mu_ray_service *s)
{
    const struct mu_callees_options options = {
        .loop = s->o.loop,
        .reach_ms = s->o.reach_ms,
        .answer_ms = s->o.answer_ms,
        .answered = on_call_answered,
        .lost = on_callee_lost,
        .arg = s,
    };

    return mu_callees_open(&options, &s->callees);
}

static void peers_close(struct mu_ray_peers *peers)
{
    for (uint32_t i = 0; i < peers->room; i++)
        free(peers->all[i]);
    free(peers->all);
    *peers = (struct mu_ray_peers){.all = NULL};
}

void mu_ray_calls_close(struct mu_ray_service *s)
{
    mu_callees_close(s->callees);
    s->callees = NULL;
    peers_close(&s->workers);
    peers_close(&s->stores);
}
