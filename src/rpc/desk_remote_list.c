/*
 * rpc/desk_remote_list.c: listings, on a host that is not the leader's: pages, each of a call (kv/remote.h), and values
 * that are too long for a page, each of calls of its own. They belong together when all of them are of the same keys
 * and versions; when they are not, the listing begins anew, as one does that is taken from the table itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/remote.h"
#include "kv/snapshot.h"
#include "rpc/desk_remote.h"

enum { TRIES = 50 };

struct listing {
    struct mu_desk_call call;
    struct mu_snapshot s;
    uint64_t fingerprint, total; /* of the first page */
    uint32_t tries;
    size_t at;      /* the entries before have their values, */
    uint64_t from;  /* and this one so much of it */
    size_t counted; /* bytes that it takes, among all calls' */
    char prefix[MUSTER_KEY_MAX + 2];
};

static void listing_freed(struct mu_desk_call *call)
{
    struct listing *l = (struct listing *)call;

    call->desk->remote->bytes -= l->counted;
    mu_snapshot_done(&l->s);
}

static void page_came(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body);
static void value_came(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body);

static enum muster_status ask_page(struct listing *l)
{
    const struct muster_kv_entry *last = l->s.count ? &l->s.entries[l->s.count - 1] : NULL;
    struct mu_pack request = {0};

    mu_pack_blob(&request, l->prefix, l->s.prefix_len);
    mu_pack_blob(&request, last ? l->s.bytes + (uintptr_t)last->key : "", last ? last->key_len : 0);
    mu_pack_u32(&request, MU_LISTED_CUT);
    l->call.answered = page_came;
    return mu_desk_call_make(l->call.desk, &l->call, MU_OP_KV_DIR, &request);
}

static enum muster_status ask_value(struct listing *l)
{
    const struct muster_kv_entry *e = &l->s.entries[l->at];
    struct mu_pack request = {0};

    mu_pack_u8(&request, MU_READ_WHOLE);
    mu_pack_u64(&request, l->from);
    mu_pack_blob(&request, l->s.bytes + (uintptr_t)e->key, e->key_len);
    l->call.answered = value_came;
    return mu_desk_call_make(l->call.desk, &l->call, MU_OP_KV_GET, &request);
}

static void finish(struct listing *l)
{
    struct mu_parked *p = l->call.p;

    mu_snapshot_sort(&l->s);
    p->ask->entries = l->s.entries;
    p->ask->num_entries = l->s.count;
    p->owned[0] = l->s.entries;
    p->owned[1] = l->s.bytes;
    memset(&l->s, 0, sizeof l->s);
    mu_desk_call_done(&l->call, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
}

static enum muster_status begin_anew(struct listing *l)
{
    if (++l->tries == TRIES)
        return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot: %d tries", TRIES);
    l->s.count = l->s.used = 0;
    l->at = l->from = 0;
    return ask_page(l);
}

/* The next of what is missing; or all is there. */
static enum muster_status go_on(struct listing *l)
{
    while (l->at < l->s.count && l->s.entries[l->at].value_len <= MU_LISTED_MAX)
        l->at++;
    if (l->at < l->s.count)
        return ask_value(l);
    if (l->s.count < l->total)
        return ask_page(l);
    finish(l);
    return MUSTER_OK;
}

/* What it takes is counted, as remote as there is room besides what others take. */
static enum muster_status count_bytes(struct listing *l)
{
    struct mu_desk_remote *remote = l->call.desk->remote;
    size_t others = remote->bytes - l->counted, bytes = l->s.size + l->s.capacity * sizeof *l->s.entries;

    if (others && others + bytes > MU_DESK_REMOTE_BYTES)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: too much comes from the leader at a time: 512 MiB are the most",
                       l->call.what);
    remote->bytes = others + bytes;
    l->counted = bytes;
    return MUSTER_OK;
}

static enum muster_status take_entries(struct listing *l, struct mu_unpack *u, uint32_t n)
{
    enum muster_status status = MUSTER_OK;

    while (n-- && !status) {
        uint64_t version = mu_unpack_u64(u), len = mu_unpack_u64(u);
        size_t key_len;
        const char *key = mu_unpack_blob(u, MUSTER_KEY_MAX, &key_len);
        const void *value = len <= MU_LISTED_MAX ? mu_unpack_raw(u, len) : NULL;

        if (u->failed || !key_len || len > MUSTER_VALUE_MAX)
            return mu_desk_call_malformed(&l->call);
        status = mu_snapshot_add(&l->s, key, key_len, value, len, version);
        if (!status)
            status = count_bytes(l);
    }
    return status;
}

/* The answer to a page or a value has come to this. */
static void settle(struct listing *l, enum muster_status status)
{
    if (status == MUSTER_ABORTED && l->tries < TRIES)
        status = begin_anew(l);
    if (status)
        mu_desk_call_done(&l->call, status, MU_PAYLOAD_NONE, muster_last_error());
}

static void page_came(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct listing *l = (struct listing *)call;
    uint64_t fingerprint = mu_unpack_u64(body), total = mu_unpack_u64(body);
    uint32_t n = mu_unpack_u32(body);
    bool same = !l->s.count || (fingerprint == l->fingerprint && total == l->total);

    if (status)
        mu_fail(status, "%s", text);
    else if (same && (body->failed || n > total - l->s.count || (!n && l->s.count < total)))
        status = mu_desk_call_malformed(call);
    else if (!same)
        status = mu_fail(MUSTER_ABORTED, "the keys have changed");
    l->fingerprint = fingerprint;
    l->total = total;
    if (!status)
        status = take_entries(l, body, n);
    if (!status)
        status = go_on(l);
    if (status)
        settle(l, status);
}

static void value_came(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct listing *l = (struct listing *)call;
    const struct muster_kv_entry *e = &l->s.entries[l->at];
    uint8_t what = mu_unpack_u8(body);
    uint64_t version = mu_unpack_u64(body), len = mu_unpack_u64(body);

    if (status) {
        mu_fail(status, "%s", text);
    } else if (body->failed || what > MU_READ_VALUE) {
        status = mu_desk_call_malformed(call);
    } else if (what != MU_READ_VALUE || version != e->version || len != e->value_len) {
        status = mu_fail(MUSTER_ABORTED, "the keys have changed");
    } else if (!body->left || body->left > len - l->from) {
        status = mu_desk_call_malformed(call);
    } else {
        memcpy(l->s.bytes + (uintptr_t)e->value + l->from, body->at, body->left);
        l->from += body->left;
        l->at += l->from == len;
        l->from = l->from == len ? 0 : l->from;
        status = go_on(l);
    }
    if (status)
        settle(l, status);
}

void mu_desk_remote_list(struct mu_desk *desk, struct mu_ask *ask, const char *prefix, size_t prefix_len)
{
    struct listing *l = calloc(1, sizeof *l);
    struct mu_pack request = {0};

    if (!l) {
        mu_desk_answer(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a listing");
        return;
    }
    memcpy(l->prefix, prefix, prefix_len);
    l->s.prefix = l->prefix;
    l->s.prefix_len = prefix_len;
    l->s.of = MU_SNAPSHOT_VALUES;
    l->call.answered = page_came;
    l->call.freed = listing_freed;
    snprintf(l->call.what, sizeof l->call.what, "the keys below \"%.120s\"", l->prefix);
    mu_pack_blob(&request, prefix, prefix_len);
    mu_pack_blob(&request, "", 0);
    mu_pack_u32(&request, MU_LISTED_CUT);
    mu_desk_call_park(desk, ask, &desk->remote->asks, &l->call, MU_OP_KV_DIR, &request, sizeof *l);
}

/* The leader counts. */
static void number_came(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    uint64_t number = mu_unpack_u64(body);

    if (!status && !mu_unpack_end(body)) {
        status = mu_desk_call_malformed(call);
        text = muster_last_error();
    }
    call->p->ask->counter = status ? 0 : (int64_t)number;
    mu_desk_call_done(call, status, MU_PAYLOAD_NONE, text);
}

void mu_desk_remote_count(struct mu_desk *desk, struct mu_ask *ask, const char *prefix, size_t prefix_len)
{
    struct mu_desk_call *call = calloc(1, sizeof *call);
    struct mu_pack request = {0};

    if (!call) {
        mu_desk_answer(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a call to the leader");
        return;
    }
    call->answered = number_came;
    snprintf(call->what, sizeof call->what, "the keys below \"%.*s\"", (int)(prefix_len < 120 ? prefix_len : 120),
             prefix);
    mu_pack_blob(&request, prefix, prefix_len);
    mu_desk_call_park(desk, ask, &desk->remote->asks, call, MU_OP_KV_COUNT, &request, 0);
}
