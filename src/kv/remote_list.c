/*
 * kv/remote_list.c: all keys below a prefix as the leader has them, or how many they are.
 *
 * A page goes through this host's heap where a thread asks for it. When it finds no room there, a smaller one is asked
 * for, and all after it are as small; below MU_LISTED_LEAST it is the heap that lacks room for anything.
 */
#include <stdio.h>

#include "kv/remote.h"

enum { TRIES = 50 };

static void name_prefix(struct mu_steps *steps, const char *prefix, size_t len)
{
    snprintf(steps->about, sizeof steps->about, "the keys below \"%.*s\"", (int)(len < 120 ? len : 120), prefix);
}

/* ---- listing ---- */

static void list_ask_page(struct mu_kv_remote_list *l)
{
    const struct muster_kv_entry *last = l->s.count ? &l->s.entries[l->s.count - 1] : NULL;
    struct mu_pack *request = mu_steps_ask(&l->steps, MU_OP_KV_DIR);

    l->reads = false;
    mu_pack_blob(request, l->s.prefix, l->s.prefix_len);
    mu_pack_blob(request, last ? l->s.bytes + (uintptr_t)last->key : "", last ? last->key_len : 0);
    mu_pack_u32(request, l->s.room);
}

static enum muster_status list_changed(void)
{
    return mu_fail(MUSTER_ABORTED, "the keys have changed");
}

/* The value of the entry at l->at: it has its place already. */
static enum muster_status list_value_room(struct mu_kv_read *r)
{
    struct mu_kv_remote_list *l = r->arg;
    const struct muster_kv_entry *e = &l->s.entries[l->at];

    if (r->version != e->version || r->len != e->value_len)
        return list_changed();
    r->to = (uint8_t *)l->s.bytes + (uintptr_t)e->value;
    return MUSTER_OK;
}

static void list_ask_value(struct mu_kv_remote_list *l)
{
    const struct muster_kv_entry *e = &l->s.entries[l->at];

    l->reads = true;
    l->value.key = l->s.bytes + (uintptr_t)e->key;
    l->value.key_len = e->key_len;
    l->value.room = list_value_room;
    l->value.arg = l;
    l->value.steps.about[0] = 0;
    mu_kv_read_begin(&l->value, MU_READ_WHOLE);
    mu_steps_pass(&l->steps, &l->value.steps);
}

/* The next of what is missing; or all is there. */
static void list_go_on(struct mu_kv_remote_list *l)
{
    while (l->at < l->s.count && l->s.entries[l->at].value_len <= MU_LISTED_WITH(l->s.room))
        l->at++;
    if (l->at < l->s.count)
        list_ask_value(l);
    else if (l->s.count < l->total)
        list_ask_page(l);
}

static enum muster_status list_entries(struct mu_kv_remote_list *l, struct mu_unpack *u, uint32_t n)
{
    enum muster_status status = MUSTER_OK;

    while (n-- && !status) {
        uint64_t version = mu_unpack_u64(u), len = mu_unpack_u64(u);
        size_t key_len;
        const char *key = mu_unpack_blob(u, MUSTER_KEY_MAX, &key_len);
        const void *value = len <= MU_LISTED_WITH(l->s.room) ? mu_unpack_raw(u, len) : NULL;

        if (u->failed || !key_len || len > MUSTER_VALUE_MAX)
            return mu_steps_malformed(&l->steps);
        status = mu_snapshot_add(&l->s, key, key_len, value, len, version);
        if (!status && l->hold)
            status = l->hold(l, l->s.size + l->s.capacity * sizeof *l->s.entries);
    }
    return status;
}

static enum muster_status list_page(struct mu_kv_remote_list *l, struct mu_unpack *body)
{
    uint64_t fingerprint = mu_unpack_u64(body), total = mu_unpack_u64(body);
    uint32_t n = mu_unpack_u32(body);

    if (l->s.count && (fingerprint != l->fingerprint || total != l->total))
        return list_changed();
    if (body->failed || n > total - l->s.count || (!n && l->s.count < total))
        return mu_steps_malformed(&l->steps);
    l->fingerprint = fingerprint;
    l->total = total;
    return list_entries(l, body, n);
}

static enum muster_status list_value(struct mu_kv_remote_list *l, enum muster_status status, struct mu_unpack *body)
{
    struct mu_kv_read *r = &l->value;

    r->steps.op = MU_OP_NONE;
    status = r->steps.answer(&r->steps, status, body);
    if (!status && r->steps.op)
        mu_steps_pass(&l->steps, &r->steps);
    else if (!status && r->what != MU_READ_VALUE)
        return list_changed();
    else if (!status)
        l->at++;
    return status;
}

static enum muster_status list_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_kv_remote_list *l = (struct mu_kv_remote_list *)steps;

    if (!l->reads && status == MUSTER_RESOURCE_EXHAUSTED && l->s.room > MU_LISTED_LEAST) {
        l->s.room /= 8;
        list_ask_page(l);
        return MUSTER_OK;
    }
    if (l->reads)
        status = list_value(l, status, body);
    else if (!status)
        status = list_page(l, body);
    if (status == MUSTER_ABORTED && ++l->tries < TRIES) {
        l->s.count = l->s.used = l->at = 0;
        list_ask_page(l);
        return MUSTER_OK;
    }
    if (status == MUSTER_ABORTED)
        return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot: %d tries", TRIES);
    if (!status && !steps->op)
        list_go_on(l);
    return status;
}

void mu_kv_list_begin(struct mu_kv_remote_list *l)
{
    l->s.of = MU_SNAPSHOT_VALUES;
    l->s.room = MU_LISTED_CUT;
    l->steps.answer = list_answer;
    name_prefix(&l->steps, l->s.prefix, l->s.prefix_len);
    list_ask_page(l);
}

void mu_kv_list_done(struct mu_kv_remote_list *l)
{
    mu_steps_done(&l->value.steps);
    mu_steps_done(&l->steps);
    mu_snapshot_done(&l->s);
}

/* ---- counting ---- */

static enum muster_status count_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_kv_remote_count *c = (struct mu_kv_remote_count *)steps;

    c->count = mu_unpack_u64(body);
    return !status && !mu_unpack_end(body) ? mu_steps_malformed(steps) : status;
}

void mu_kv_count_begin(struct mu_kv_remote_count *c, const char *prefix, size_t prefix_len)
{
    mu_pack_blob(mu_steps_ask(&c->steps, MU_OP_KV_COUNT), prefix, prefix_len);
    c->steps.answer = count_answer;
    name_prefix(&c->steps, prefix, prefix_len);
}
