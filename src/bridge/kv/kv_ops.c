/*
 * bridge/kv/kv_ops.c: changes of keys that tasks of other hosts ask the leader for.
 *
 * Request: the key (counted bytes), a number (the version that is expected, or what is added), and the value, which is
 * all the rest. Answer: one number (version, sum, length, keys deleted). Each commit leaves the call's record in its
 * page (kv/change.h), so that a leader's agent that was restarted knows it again.
 *
 * A delete looks at every bucket and may have any number of keys to take out, so it is done in pieces, and ends where
 * it is when its caller asks something else, or is dead. A turn has time for one piece, however many hosts ask. So
 * other calls wait for no more than that, and one host's deletions do not hold up another's.
 */
#include <stdlib.h>
#include <string.h>

#include "bridge/call/calls.h"
#include "bridge/core/listener.h"
#include "kv/change.h"

static void left_record(void *arg, uint32_t bucket)
{
    mu_call_left_record(arg, bucket);
}

/* The key as a peer sends it: made once more, so that none gets in that no task here could make. */
static enum muster_status read_key(struct mu_core *core, struct mu_unpack *u, enum mu_op op, struct mu_key *k,
                                   const struct mu_key **ret_key)
{
    size_t len;
    const char *key = mu_unpack_blob(u, MU_KEY_MAX, &len);

    *ret_key = NULL;
    if (!key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the call's key is not well formed");
    if (!len && op == MU_OP_KV_DELETE)
        return MUSTER_OK;
    *ret_key = k;
    if (!mu_kv_key(core->seg, key, len, k))
        return MUSTER_OK;
    if (!len || mu_kv_is_own(key))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the call's key is not well formed");
    mu_key_make(k, core->seg, key, len); /* a wire client's (coord/key.c) */
    return MUSTER_OK;
}

/* What the call says; the key into *k. */
static enum muster_status unpack_change(struct mu_core *core, const struct mu_request *r, struct mu_key *k,
                                        struct mu_kv_change *c)
{
    struct mu_unpack u = r->body;
    enum muster_status status = read_key(core, &u, c->op, k, &c->key);

    c->number = mu_unpack_u64(&u);
    c->value = u.at;
    c->len = u.left;
    if (!status && (u.failed || c->len > MU_VALUE_MAX))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the call is not well formed");
    return status;
}

/* False: it is to be asked again. */
static bool kv_call_answer(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number,
                           enum muster_status status, uint64_t result)
{
    if (status == MUSTER_UNAVAILABLE) {
        mu_call_later(core, host, slot, number);
        return false;
    }
    mu_call_answer(core, host, slot, number, status, NULL, &result, sizeof result);
    return true;
}

bool mu_op_kv_change(struct mu_core *core, const struct mu_request *r)
{
    struct mu_done done = {.id = (uint64_t)r->host * MU_FRAME_SLOTS + r->slot, .number = r->number};
    struct mu_kv_behalf behalf = {
        .done = &done, .resent = r->resent, .forget = mu_call_is_settled, .left_record = left_record, .arg = core};
    struct mu_kv_change c = {.op = (enum mu_op)r->op, .behalf = &behalf, .client = MU_SLOT_TABLE(r->slot) == 1};
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = unpack_change(core, r, &k, &c);

    if (!status)
        status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_kv_change(core->seg, ctx, &c);
        mu_exit(ctx);
        mu_core_listener_changed(core);
    }
    return kv_call_answer(core, r->host, r->slot, r->number, status, c.result);
}

/* ---- deletes: in pieces, between which others have their turn ---------------------------------------------------- */

struct deletion {
    struct deletion *next;
    uint32_t host, slot;
    struct mu_key key;
    struct mu_done done;
    struct mu_kv_behalf behalf;
    struct mu_kv_change change;
    struct mu_kv_tree tree;
    void *value; /* of the change */
};

static void deletion_drop(struct deletion *d)
{
    mu_kv_tree_done(&d->tree);
    free(d->value);
    free(d);
}

/* The call's bytes are somebody else's by the next turn. */
static enum muster_status keep_value(struct deletion *d)
{
    if (!d->change.len)
        return MUSTER_OK;
    d->value = malloc(d->change.len);
    if (!d->value)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a directory's name of %zu bytes", d->change.len);
    d->change.value = memcpy(d->value, d->change.value, d->change.len);
    return MUSTER_OK;
}

/* A piece. True: it has ended, was answered, and is gone. */
static bool deletion_go_on(struct mu_core *core, struct deletion *d)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (!status) {
        bool ended = mu_kv_delete_piece(core->seg, ctx, &d->tree, DELETE_PIECE, &status);

        mu_exit(ctx);
        mu_core_listener_changed(core);
        if (!ended)
            return false;
    }
    kv_call_answer(core, d->host, d->slot, d->done.number, status, d->change.result);
    deletion_drop(d);
    return true;
}

static void deletion_append(struct calls *c, struct deletion *d)
{
    struct deletion **end = &c->deletions;

    while (*end)
        end = &(*end)->next;
    d->next = NULL;
    *end = d;
}

bool mu_op_kv_delete(struct mu_core *core, const struct mu_request *r)
{
    struct calls *c = mu_calls_of(core);
    struct deletion *d = calloc(1, sizeof *d);
    enum muster_status status;

    if (!d) {
        mu_call_later(core, r->host, r->slot, r->number);
        return false;
    }
    d->host = r->host;
    d->slot = r->slot;
    d->done = (struct mu_done){.id = (uint64_t)r->host * MU_FRAME_SLOTS + r->slot, .number = r->number};
    d->behalf = (struct mu_kv_behalf){
        .done = &d->done, .resent = r->resent, .forget = mu_call_is_settled, .left_record = left_record, .arg = core};
    d->change = (struct mu_kv_change){.op = MU_OP_KV_DELETE, .behalf = &d->behalf};
    d->tree.change = &d->change;
    status = unpack_change(core, r, &d->key, &d->change);
    if (!status)
        status = keep_value(d);
    if (status) {
        deletion_drop(d);
        return kv_call_answer(core, r->host, r->slot, r->number, status, 0);
    }
    if (!c->deletions && core->now > c->deleted_at) { /* the only one, and this turn's piece: it may end at once */
        c->deleted_at = core->now;
        if (deletion_go_on(core, d))
            return true;
    }
    deletion_append(c, d);
    if (c->delete_at == UINT64_MAX)
        c->delete_at = core->now;
    return false;
}

/* How many hosts come before this one, after the last that had its turn. */
static uint32_t hosts_before(const struct mu_core *core, const struct calls *c, const struct deletion *d)
{
    return (d->host + core->num_hosts - c->delete_of - 1) % core->num_hosts;
}

/* Hosts take turns, and so do the deletions of one. */
static struct deletion *take_next(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);
    struct deletion **next = &c->deletions, *d;

    for (struct deletion **at = &c->deletions; *at; at = &(*at)->next)
        if (hosts_before(core, c, *at) < hosts_before(core, c, *next))
            next = at;
    d = *next;
    *next = d->next;
    c->delete_of = d->host;
    return d;
}

void mu_deletions_look(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);
    struct deletion *d;

    if (!c->deletions || core->now < c->delete_at)
        return;
    c->deleted_at = core->now;
    d = take_next(core);
    if (!deletion_go_on(core, d))
        deletion_append(c, d);
    /* not in this turn's next, but when the link has had its own */
    c->delete_at = c->deletions ? core->now + 1 : UINT64_MAX;
}

/* Its caller asks something else, or nothing: what has not gone stays. */
void mu_deletion_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    for (struct deletion **at = &mu_calls_of(core)->deletions; *at; at = &(*at)->next)
        if ((*at)->host == host && (*at)->slot == slot && (*at)->done.number == number) {
            struct deletion *d = *at;

            *at = d->next;
            deletion_drop(d);
            return;
        }
}

void mu_deletions_done(struct calls *c)
{
    while (c->deletions) {
        struct deletion *d = c->deletions;

        c->deletions = d->next;
        deletion_drop(d);
    }
}
