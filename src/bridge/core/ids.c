/*
 * bridge/core/ids.c: NCCL's ids for tasks of other hosts.
 *
 * Each call is one step at a communicator's record (accel/nccl_record.h), made here with the code that the leader's own
 * tasks use. It needs no record of its own in the page: the communicator's record says which task did what to which
 * generation, so a step may be made twice. What is kept here is soft: until when the ids that other hosts were told of
 * are good, for they have no clock to see it by. An agent that starts reads it from the store.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_id.h"
#include "base/clock.h"
#include "bridge/core/modules.h"
#include "segment/cluster.h"

/* An id that not all ranks have. */
struct due {
    uint64_t at; /* CLOCK_MONOTONIC: then it expires */
    char name[MUSTER_NCCL_NAME_MAX + 1];
};

struct nccl_ids {
    struct due *dues;
    uint32_t count, capacity;
    uint64_t read_at; /* when the store is to be read: at first, and after there was no memory; UINT64_MAX: it was */
};
#define AGAIN_NS 1000000000u
#define SOON_NS  1000000u

static struct nccl_ids *ids_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_IDS);
}

static bool ids_init(struct mu_core *core, void **ret_state)
{
    struct nccl_ids *ids = calloc(1, sizeof *ids);

    *ret_state = ids;
    if (ids)
        ids->read_at = core->leader ? 0 : UINT64_MAX;
    return ids != NULL;
}

static void ids_done(struct mu_core *core)
{
    struct nccl_ids *ids = ids_of(core);

    free(ids->dues);
    free(ids);
}

/* ---- expiry ------------------------------------------------------------------------------------------------------ */

/* What the record in the call says now: when it expires, if it does. */
static void expiry_note(struct mu_core *core, const struct mu_nccl_call *call, const struct mu_nccl_act *act)
{
    struct nccl_ids *ids = ids_of(core);
    const struct mu_nccl_head *h = call->record.head;
    bool waits = act->there && !act->deletes && h->state == MUSTER_NCCL_READY && h->taken < h->nranks;
    uint32_t i = 0;

    while (i < ids->count && strcmp(ids->dues[i].name, call->name))
        i++;
    if (!waits) {
        if (i < ids->count)
            ids->dues[i] = ids->dues[--ids->count];
        return;
    }
    if (i == ids->capacity) {
        uint32_t n = ids->capacity ? ids->capacity * 2 : 8;
        struct due *more = realloc(ids->dues, n * sizeof *more);

        if (!more) {
            ids->read_at = core->now + AGAIN_NS;
            return;
        }
        ids->dues = more;
        ids->capacity = n;
    }
    ids->dues[i].at = h->expires > core->now ? h->expires : core->now + SOON_NS;
    snprintf(ids->dues[i].name, sizeof ids->dues[i].name, "%s", call->name);
    ids->count += i == ids->count;
}

static bool record_step(struct mu_core *core, struct mu_nccl_call *call, struct mu_nccl_act *act)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return false;
    status = mu_nccl_step_here(call, ctx, act);
    mu_exit(ctx);
    return !status;
}

/* It could not be said: the segment is full, perhaps. */
static void record_later(struct mu_core *core, const char *name)
{
    struct nccl_ids *ids = ids_of(core);

    for (uint32_t i = 0; i < ids->count; i++)
        if (!strcmp(ids->dues[i].name, name)) {
            ids->dues[i].at = core->now + AGAIN_NS;
            return;
        }
    ids->read_at = core->now + AGAIN_NS;
}

static void record_expire(struct mu_core *core, const char *of)
{
    struct mu_nccl_act act = {.step = MU_NCCL_EXPIRE};
    char name[MUSTER_NCCL_NAME_MAX + 1];
    struct mu_nccl_call call;

    snprintf(name, sizeof name, "%s", of); /* its place in the list may go */
    mu_nccl_call_make(&call, core->m, name);
    if (record_step(core, &call, &act))
        expiry_note(core, &call, &act);
    else
        record_later(core, name);
    mu_nccl_call_done(&call);
    if (act.accepted)
        mu_core_worked(core);
}

/* The names in one bucket of the store, each a counted run. */
static bool bucket_wants(void *arg, const char *key, uint32_t len)
{
    const size_t before = sizeof MU_NCCL_KEYS - 1;

    (void)arg;
    return len > before && len <= before + MUSTER_NCCL_NAME_MAX && !memcmp(key, MU_NCCL_KEYS, before);
}

static enum muster_status name_take(void *arg, const struct mu_item *item)
{
    mu_pack_blob(arg, item->key, item->key_len);
    return MUSTER_OK;
}

static void read_store(struct mu_core *core)
{
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_pack names = {0};
    struct mu_walk w = {.wants = bucket_wants, .visit = name_take, .arg = &names, .lengths_only = true};
    struct mu_bucket_info info;
    struct mu_unpack u;

    ids_of(core)->read_at = UINT64_MAX;
    for (uint32_t b = 0; b <= t.mask; b++)
        if (mu_table_walk(&t, NULL, b, &w, &info))
            ids_of(core)->read_at = core->now + AGAIN_NS;
    if (names.failed)
        ids_of(core)->read_at = core->now + AGAIN_NS;
    u = mu_unpack_of(names.bytes, names.len);
    while (u.left && !u.failed) {
        char name[MUSTER_NCCL_NAME_MAX + 1];
        size_t len;
        const char *key = mu_unpack_blob(&u, MU_KEY_MAX, &len);

        if (!key)
            break;
        snprintf(name, sizeof name, "%.*s", (int)(len - sizeof MU_NCCL_KEYS + 1), key + sizeof MU_NCCL_KEYS - 1);
        record_expire(core, name);
    }
    mu_pack_done(&names);
}

static void ids_look(struct mu_core *core)
{
    struct nccl_ids *ids = ids_of(core);

    if (core->now >= ids->read_at)
        read_store(core);
    for (uint32_t i = ids->count; i-- > 0;)
        if (i < ids->count && core->now >= ids->dues[i].at)
            record_expire(core, ids->dues[i].name);
}

static uint64_t ids_next(struct mu_core *core)
{
    const struct nccl_ids *ids = ids_of(core);
    uint64_t next = ids->read_at;

    for (uint32_t i = 0; i < ids->count; i++)
        next = ids->dues[i].at < next ? ids->dues[i].at : next;
    return next;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

bool mu_op_nccl_id(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    struct mu_nccl_asker asker = {.task = (int32_t)r->task - 1};
    char name[MUSTER_NCCL_NAME_MAX + 1], reason[120];
    struct mu_nccl_act act;
    struct mu_nccl_call call;
    struct mu_pack p = {0};
    struct mu_ctx *ctx;
    uint64_t generation;
    enum muster_status status;

    if (!mu_nccl_unpack_request(&u, name, &asker, &generation, &act, reason)) {
        mu_call_answer(core, r->host, r->slot, r->number, MUSTER_INVALID_ARGUMENT, "the call is not well formed", NULL,
                       0);
        return true;
    }
    mu_nccl_call_make(&call, core->m, name);
    asker.incarnation = r->incarnation;
    asker.attempt = r->attempt & MU_NCCL_ATTEMPT_MASK;
    asker.claims = true;
    asker.resent = r->resent;
    asker.presence = call.asker.presence;
    asker.name = call.asker.name;
    asker.arg = &call;
    call.asker = asker;
    call.generation = generation;
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_nccl_step_here(&call, ctx, &act);
        mu_exit(ctx);
    }
    if (!status) {
        expiry_note(core, &call, &act);
        mu_nccl_pack_answer(&p, &call, &act);
        if (p.failed)
            status = mu_nccl_no_memory(&call);
    }
    mu_call_answer(core, r->host, r->slot, r->number, status, NULL, p.bytes, status ? 0 : p.len);
    mu_pack_done(&p);
    mu_nccl_call_done(&call);
    return true;
}

const struct mu_module mu_module_ids = {
    .name = "ids", .init = ids_init, .done = ids_done, .look = ids_look, .next = ids_next};
