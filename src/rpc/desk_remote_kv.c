/*
 * rpc/desk_remote_kv.c: keys, on a host that is not the leader's.
 *
 * A change is one call, and is made also when its client goes away meanwhile, so no delete ends half way; of others,
 * which are whole or not there, no more than 1024 at once. A key of which there is no copy here is asked for by one
 * call as well, however many guests want it: a wish (desk_wishes.c) has one question, which is asked, or waits for its
 * turn, or rests: then the leader has said that there is no such key, and will send it when it comes, until a new round
 * of the bridge begins. What it sends is found as what others write is found. A value that is too large for a copy
 * comes in the answer, in pieces of one version.
 *
 * An answer serves those who had asked before the question was: who comes later may know of something newer, and is
 * asked for anew, with all others who have come meanwhile.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/remote.h"
#include "rpc/desk_remote.h"
#include "segment/hosts.h"
#include "segment/stats.h"

enum {
    ASKING_MOST = 256,    /* questions at a time */
    LINGERING_MOST = 1024 /* changes that nobody waits for, but deletes */
};
#define LINE_BYTES (1u << 20) /* of a value that count against its line: what is large counts against all lines' */

/* ---- changes ---- */

struct change {
    struct mu_desk_call call;
    uint64_t sum;
    char text[24];
};

static void changed(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct change *c = (struct change *)call;
    uint64_t result = mu_unpack_u64(body); /* also of a comparison that failed */
    struct mu_ask *ask = call->p ? call->p->ask : NULL;
    char exists[200];
    struct mu_ctx *ctx;

    if (!ask) { /* its client has gone */
        call->desk->remote->lingering--;
        mu_desk_call_free(call);
        return;
    }
    mu_desk_result(ask, c->call.lane.op, result);
    if (!status && !mu_unpack_end(body)) {
        status = mu_desk_call_malformed(call);
        text = muster_last_error();
    }
    if (status == MUSTER_ALREADY_EXISTS) {
        snprintf(exists, sizeof exists, "%s already exists.", call->what); /* with the period: clients match it */
        text = exists;
    }
    if (!status && !mu_enter(call->desk->m, &ctx)) {
        mu_count(&ctx->own->kv_writes, 1);
        mu_exit(ctx);
    }
    if (!status && c->call.lane.op == MU_OP_KV_INCREMENT) {
        ask->len = (size_t)snprintf(c->text, sizeof c->text, "%" PRId64, (int64_t)result);
        ask->value = call->p->owned[0] = strdup(c->text);
        if (!ask->value) {
            status = MUSTER_RESOURCE_EXHAUSTED;
            text = "no memory for a sum";
        }
    }
    mu_desk_call_done(call, status, MU_PAYLOAD_NONE, text);
}

static void change_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_desk_call *call = p->at;

    call->p = NULL;
    if (call->lane.op == MU_OP_KV_DELETE || desk->remote->lingering < LINGERING_MOST) {
        desk->remote->lingering++;
        return;
    }
    mu_desk_call_end(call);
    mu_desk_call_free(call);
}

void mu_desk_remote_change(struct mu_desk *desk, struct mu_ask *ask, enum mu_op op, const struct mu_key *k,
                           uint64_t number, const void *value, size_t len)
{
    struct change *c = calloc(1, sizeof *c);
    struct mu_pack request = {0};

    if (!c) {
        mu_desk_answer(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a call to the leader");
        return;
    }
    c->call.answered = changed;
    snprintf(c->call.what, sizeof c->call.what, "key %.*s", MU_KEY_SHOWN(k));
    mu_pack_blob(&request, k->words, k->len);
    mu_pack_u64(&request, number);
    mu_pack_raw(&request, value, len);
    if (mu_desk_call_park(desk, ask, &desk->remote->asks, &c->call, op, &request, len < LINE_BYTES ? len : LINE_BYTES))
        c->call.p->dropped = change_dropped;
}

/* ---- questions ---- */

struct mu_key_fetch {
    struct mu_desk_call call;
    struct mu_wish *wish;
    struct mu_key_fetch *prev, *next; /* in the queue */
    bool queued;
    bool rests;     /* there is no such key, and the leader knows that somebody here waits for it, */
    uint32_t round; /* in this round */
    uint8_t flags;
    /* a value that comes in pieces */
    struct mu_shared *value;
    uint64_t from, version;
};

const size_t mu_key_fetch_bytes = sizeof(struct mu_key_fetch);

static void enqueue(struct mu_desk_remote *remote, struct mu_key_fetch *q)
{
    if (q->queued || q->call.open)
        return;
    q->queued = true;
    q->rests = false;
    q->prev = remote->queue_end;
    q->next = NULL;
    *(remote->queue_end ? &remote->queue_end->next : &remote->queue) = q;
    remote->queue_end = q;
}

static void dequeue(struct mu_desk_remote *remote, struct mu_key_fetch *q)
{
    if (!q->queued)
        return;
    *(q->prev ? &q->prev->next : &remote->queue) = q->next;
    *(q->next ? &q->next->prev : &remote->queue_end) = q->prev;
    q->queued = false;
}

static void drop_value(struct mu_desk_remote *remote, struct mu_key_fetch *q)
{
    remote->bytes -= q->value ? q->value->len : 0;
    mu_shared_unref(q->value);
    q->value = NULL;
    q->from = 0;
}

void mu_key_fetch_drop(struct mu_desk *desk, struct mu_key_fetch *q)
{
    if (!q)
        return;
    desk->remote->asking -= q->call.open;
    mu_desk_call_end(&q->call);
    dequeue(desk->remote, q);
    drop_value(desk->remote, q);
    free(q);
}

/* ---- answers to those who wish ---- */

static void fail_list(struct mu_desk *desk, struct mu_parked_list *l, enum muster_status status, const char *text)
{
    while (l->first)
        mu_parked_answer(desk, l->first, status, MU_PAYLOAD_NONE, text);
}

/* All of them; the wish is gone. */
static void fail_wish(struct mu_desk *desk, struct mu_wish *w, enum muster_status status, const char *text)
{
    fail_list(desk, &w->asks, status, text);
    fail_list(desk, &w->tries, status, text);
    mu_wish_drop(desk, w);
}

/* Those who wait for it know of the key as they called it. */
static void deny(struct mu_desk *desk, struct mu_parked *p)
{
    char text[1100];

    snprintf(text, sizeof text, "Config key %s not found.", p->owned[0] ? (char *)p->owned[0] : "");
    mu_parked_answer(desk, p, MUSTER_NOT_FOUND, MU_PAYLOAD_NONE, text);
}

static void deny_tries(struct mu_desk *desk, struct mu_wish *w)
{
    for (struct mu_parked *p = w->tries.first, *next; p; p = next) {
        next = p->next;
        if (!p->late)
            deny(desk, p);
    }
}

static void give(struct mu_desk *desk, struct mu_parked_list *l, struct mu_shared *value)
{
    for (struct mu_parked *p = l->first, *next; p; p = next) {
        next = p->next;
        if (!p->late)
            mu_wish_grant(desk, p, value);
    }
}

/* ---- asking ---- */

static enum muster_status put(struct mu_desk *desk, struct mu_key_fetch *q)
{
    struct mu_wish *w = q->wish;
    struct mu_pack request = {0};
    enum muster_status status;

    mu_pack_u8(&request, q->flags);
    mu_pack_u64(&request, q->from);
    mu_pack_blob(&request, w->key, w->len);
    status = mu_desk_call_make(desk, &q->call, MU_OP_KV_GET, &request);
    desk->remote->asking += !status;
    return status;
}

/* From the beginning; the round first: what is forgotten after it begins another. */
static enum muster_status begin(struct mu_desk *desk, struct mu_key_fetch *q)
{
    struct mu_wish *w = q->wish;

    drop_value(desk->remote, q);
    q->round = mu_bridge_round(desk->seg);
    q->flags = (uint8_t)((q->flags & MU_READ_WHOLE) | (w->asks.count ? MU_READ_WAITS : 0));
    for (struct mu_parked *p = w->asks.first; p; p = p->next)
        p->late = false;
    for (struct mu_parked *p = w->tries.first; p; p = p->next)
        p->late = false;
    return put(desk, q);
}

void mu_key_fetches_go(struct mu_desk *desk)
{
    struct mu_desk_remote *remote = desk->remote;
    char text[MU_DESK_TEXT];

    while (remote->queue && remote->asking < ASKING_MOST) {
        struct mu_key_fetch *q = remote->queue;
        enum muster_status status;

        dequeue(remote, q);
        status = begin(desk, q);
        if (status == MUSTER_RESOURCE_EXHAUSTED) { /* no lane, or no memory: at the next look, 100 ms later at most */
            enqueue(remote, q);
            return;
        }
        if (status) {
            snprintf(text, sizeof text, "%s", muster_last_error());
            fail_wish(desk, q->wish, status, text);
        }
    }
}

/* ---- what the leader says ---- */

/* There is no such key. */
static void absent(struct mu_desk *desk, struct mu_key_fetch *q)
{
    struct mu_wish *w = q->wish;

    drop_value(desk->remote, q);
    deny_tries(desk, w);
    if (!w->asks.count && !w->tries.count) {
        mu_wish_drop(desk, w);
        return;
    }
    q->rests = !w->tries.count && (q->flags & MU_READ_WAITS) && q->round == mu_bridge_round(desk->seg);
    q->flags = 0;
    if (!q->rests)
        enqueue(desk->remote, q);
}

/* There is a copy of it here; unless that went as fast as it came. */
static void copied(struct mu_desk *desk, struct mu_key_fetch *q)
{
    if (mu_wish_look(desk, q->wish))
        return;
    q->flags |= MU_READ_WHOLE;
    enqueue(desk->remote, q);
}

/* All of it is here. */
static void complete(struct mu_desk *desk, struct mu_key_fetch *q)
{
    struct mu_wish *w = q->wish;

    give(desk, &w->asks, q->value);
    give(desk, &w->tries, q->value);
    drop_value(desk->remote, q);
    if (!w->asks.count && !w->tries.count) {
        mu_wish_drop(desk, w);
    } else {
        q->flags = 0;
        enqueue(desk->remote, q);
    }
}

/* Room for a value of so many bytes. False: it is asked for again, when others are done. */
static bool make_room(struct mu_desk *desk, struct mu_key_fetch *q, size_t len)
{
    struct mu_desk_remote *remote = desk->remote;

    if (remote->bytes && remote->bytes + len > MU_DESK_REMOTE_BYTES)
        return false;
    q->value = mu_shared_new(len);
    remote->bytes += q->value ? len : 0;
    return q->value != NULL;
}

/* A piece of the value. */
static enum muster_status take_piece(struct mu_desk *desk, struct mu_key_fetch *q, uint64_t version, uint64_t len,
                                     const struct mu_unpack *body)
{
    if (q->value && (q->version != version || q->value->len != len)) {
        drop_value(desk->remote, q); /* it changed between two pieces: from the beginning */
        q->flags |= MU_READ_WHOLE;
        return put(desk, q);
    }
    if (!q->value && !make_room(desk, q, len)) {
        enqueue(desk->remote, q);
        return MUSTER_OK;
    }
    if (body->left > len - q->from || (!body->left && q->from < len))
        return mu_desk_call_malformed(&q->call);
    q->version = q->value->version = version;
    memcpy(q->value->bytes + q->from, body->at, body->left);
    q->from += body->left;
    if (q->from < len) {
        q->flags |= MU_READ_WHOLE;
        return put(desk, q);
    }
    complete(desk, q);
    return MUSTER_OK;
}

static void told(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct mu_key_fetch *q = (struct mu_key_fetch *)call;
    struct mu_desk *desk = call->desk;
    struct mu_wish *w = q->wish;
    uint8_t what = mu_unpack_u8(body);
    uint64_t version = mu_unpack_u64(body), len = mu_unpack_u64(body);
    char words[MU_DESK_TEXT];

    desk->remote->asking--;
    if (!status && (body->failed || what > MU_READ_VALUE || len > MUSTER_VALUE_MAX))
        status = mu_desk_call_malformed(call);
    else if (!status && what == MU_READ_ABSENT)
        absent(desk, q);
    else if (!status && what == MU_READ_COPIED)
        copied(desk, q);
    else if (!status)
        status = take_piece(desk, q, version, len, body);
    else
        mu_fail(status, "%s", text);
    if (!status)
        return;
    snprintf(words, sizeof words, "%s", muster_last_error());
    fail_wish(desk, w, status, words);
}

/* ---- wishes ---- */

void mu_key_fetch_want(struct mu_desk *desk, struct mu_wish *w, struct mu_parked *p)
{
    struct mu_key_fetch *q = w->fetch;

    if (!q) {
        q = calloc(1, sizeof *q);
        if (!q) {
            fail_wish(desk, w, MUSTER_RESOURCE_EXHAUSTED, "no memory for a question about a key");
            return;
        }
        q->wish = w;
        q->call.answered = told;
        snprintf(q->call.what, sizeof q->call.what, "key %.*s", (int)(w->len < 120 ? w->len : 120), w->key);
        w->fetch = q;
    }
    if (q->call.open)
        p->late = true;
    else if (!q->rests || p->list == &w->tries)
        enqueue(desk->remote, q);
    mu_key_fetches_go(desk);
}

void mu_key_fetches_fail(struct mu_desk *desk, enum muster_status status, const char *text)
{
    char words[MU_DESK_TEXT];

    while (desk->first_spot) {
        struct mu_wish *w = desk->first_spot->wishes;

        snprintf(words, sizeof words, "key %.*s: %s", (int)(w->len < 120 ? w->len : 120), w->key, text);
        fail_wish(desk, w, status, words);
    }
}

void mu_key_fetches_renew(struct mu_desk *desk)
{
    for (const struct mu_wish_spot *s = desk->first_spot; s; s = s->next)
        for (const struct mu_wish *w = s->wishes; w; w = w->next)
            if (w->fetch && w->fetch->rests)
                enqueue(desk->remote, w->fetch);
}
