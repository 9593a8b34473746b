/*
 * bridge/kv/copies.c: keys of the leader's on the followers: what each of them must know before it hears anything else.
 *
 * A host that has asked for a key wants to know when it changes (bridge/kv/subscription.h). The word of a key's bucket
 * says whether it has: there is no log of changes that could overflow, and nothing that a dead writer could have left
 * out. In every turn in which anything is to be sent, the words of all watched buckets are compared with those seen
 * last; of what changed the values are taken; then all words are looked at once more, and the keys of buckets that
 * changed meanwhile are sent as GONE. So the batch, with what the follower has besides, is the state at one moment,
 * which is after everything that was decided to be sent behind it (I10). tests/model/copies.pml and interest.pml are
 * about this.
 *
 * A batch is the same for all hosts, and made for all of them at once. A host that has been spoken to in this turn gets
 * it in the next, ahead of the next batch: the one is the state before the other.
 *
 * What a host has not taken yet is bounded: values for which there is no room go as GONE, and again when there is.
 */
#include "bridge/kv/copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool copies_init(struct mu_core *core, void **ret_state)
{
    struct mu_copies *c = calloc(1, sizeof *c);

    *ret_state = c;
    if (!c)
        return false;
    if (!core->leader) {
        c->replica = mu_replica_new(core);
        return c->replica != NULL;
    }
    c->out = calloc(core->num_hosts, sizeof *c->out);
    return mu_subscription_init(&c->in, core->seg->num_buckets, core->num_hosts) && c->out;
}

static void copies_done(struct mu_core *core)
{
    struct mu_copies *c = mu_copies_of(core);

    mu_replica_free(c->replica);
    for (uint32_t i = 0; c->out && i < core->num_hosts; i++) {
        mu_batch_done(&c->out[i]);
    }
    mu_subscription_done(&c->in);
    mu_pack_done(&c->taken);
    free(c->out);
    free(c);
}

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static bool change_is_wanted(const struct mu_wanted *k, uint64_t version)
{
    for (uint32_t i = 0; i < k->count; i++)
        if (k->wants[i].sent != version)
            return true;
    return false;
}

/* The value of a key in a wanted version, read once for all hosts. A long one is never copied again on its way.
 */
static void take_value(struct mu_core *core, struct mu_ctx *ctx, const struct mu_key *k, struct mu_wanted *w,
                       struct mu_found *f)
{
    struct mu_copies *c = mu_copies_of(core);
    struct mu_table t = mu_table_kv(core->seg);
    size_t size = f->len;
    uint8_t small[MU_SLICE_MIN];

    if (size > mu_slice_min) {
        w->blob = mu_blob_new(size);
        if (!w->blob)
            return;
    }
    if (mu_table_get(&t, ctx, k, w->blob ? w->blob->bytes : small, size, f))
        return;
    w->version = f->version;
    if (!f->version || f->len > size) /* another meanwhile: its bucket is late */
        return;
    w->at = c->taken.len;
    w->len = f->len;
    if (!w->blob)
        mu_pack_raw(&c->taken, small, f->len);
    c->taken_bytes += f->len;
    w->taken = !c->taken.failed;
}

/* The key's version and, if a host lacks it and it is not too large, its value. */
static void take_key(struct mu_core *core, struct mu_ctx *ctx, struct mu_wanted *w)
{
    struct mu_copies *c = mu_copies_of(core);
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_found f;
    struct mu_key k;

    mu_key_make(&k, core->seg, w->key, w->key_len);
    w->taken = false;
    w->version = 0;
    /* unreadable is as good as gone: a caller is told why */
    if (mu_table_get(&t, ctx, &k, NULL, 0, &f) || !f.version)
        return;
    w->version = f.version;
    if (f.len <= MU_COPY_MAX && change_is_wanted(w, f.version) && c->taken_bytes <= MU_COPIES_ROOM)
        take_value(core, ctx, &k, w, &f);
}

/* What was taken is on its way to all hosts that want it. */
static void forget_taken(struct mu_copies *c)
{
    for (uint32_t i = 0; i < c->in.count; i++)
        for (struct mu_wanted *k = c->in.watched[i].touched ? c->in.watched[i].keys : NULL; k; k = k->next) {
            mu_blob_drop(k->blob);
            k->blob = NULL;
        }
    c->taken_bytes = 0;
    mu_core_trim(&c->taken);
}

static uint64_t word_of(const struct mu_core *core, const struct mu_watched *w)
{
    return mu_load_acquire(&core->seg->buckets[w->bucket]); /* acquire: pairs with the commit CAS */
}

/* First look: true when anything is to be said. */
static bool take_changes(struct mu_core *core, struct mu_ctx *ctx)
{
    struct mu_subscription *in = &mu_copies_of(core)->in;
    bool any = false;

    for (uint32_t i = 0; i < in->count; i++) {
        struct mu_watched *w = &in->watched[i];
        uint64_t word = word_of(core, w);

        w->late = false;
        w->touched = w->again || !mu_word_same(word, w->seen);
        if (!w->touched)
            continue;
        any = true;
        w->seen = word; /* before the values: what comes after it is seen by the next look */
        w->again = false;
        for (struct mu_wanted *k = w->keys; k; k = k->next)
            take_key(core, ctx, k);
    }
    return any;
}

static void look_again(struct mu_core *core)
{
    struct mu_subscription *in = &mu_copies_of(core)->in;

    for (uint32_t i = 0; i < in->count; i++) {
        struct mu_watched *w = &in->watched[i];

        if (!mu_word_same(word_of(core, w), w->seen))
            w->touched = w->late = true;
    }
}

/* ---- saying ------------------------------------------------------------------------------------------------------ */

static void say_change(struct mu_copies *c, struct mu_watched *w, const struct mu_wanted *k, struct mu_want *want)
{
    struct mu_outgoing *o = &c->out[want->host];
    bool was_bare = want->bare;

    if (w->late) {
        mu_batch_gone(o, k, want); /* and what is there now with the next turn */
        w->again = true;
    } else if (want->sent == k->version) {
        return;
    } else if (k->taken && mu_batch_has_room(o, k)) {
        mu_batch_value(c, o, k, want);
        return;
    } else {
        mu_batch_gone(o, k, want);
        w->again |= k->taken; /* when there is room */
        if (k->version && !k->taken && want->waits) {
            want->sent = k->version;
            want->bare = true;
            o->anew = true; /* too large for a copy: its waiters ask */
        }
    }
    o->anew |= was_bare && want->waits; /* no copy goes that would wake anybody */
}

/* The key is gone, they know it, and none of them waits. */
static bool is_settled(void *arg, const struct mu_wanted *k, const struct mu_want *want)
{
    (void)arg;
    return !k->version && !want->sent && !want->waits;
}

static void say_bucket(struct mu_copies *c, struct mu_watched *w)
{
    for (struct mu_wanted *k = w->keys; k; k = k->next)
        for (uint32_t i = 0; i < k->count; i++)
            say_change(c, w, k, &k->wants[i]);
}

static void changes_collect(struct mu_core *core)
{
    struct mu_copies *c = mu_copies_of(core);
    struct mu_ctx *ctx;
    bool any;

    mu_pack_reset(&c->taken);
    if (mu_enter(core->m, &ctx)) { /* then nobody may hear anything */
        for (uint32_t h = 1; h < core->num_hosts; h++)
            core->peers[h].ahead.failed |= c->in.shares[h].keys != 0;
        return;
    }
    any = take_changes(core, ctx);
    mu_exit(ctx);
    if (any) {
        c->collections++;
        look_again(core);
        for (uint32_t i = 0; i < c->in.count; i++)
            if (c->in.watched[i].touched)
                say_bucket(c, &c->in.watched[i]);
        for (uint32_t i = 0; i < c->in.count;) {
            struct mu_watched *w = &c->in.watched[i];
            uint32_t count = c->in.count;

            if (w->touched && !w->late)
                mu_subscription_drop_in(&c->in, w->bucket, is_settled, NULL);
            if (count == c->in.count)
                i++;
        }
    }
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (c->out[h].num_items || c->out[h].anew)
            mu_batch_send(core, h);
    if (any)
        forget_taken(c);
}

/* ---- calls and frames -------------------------------------------------------------------------------------------- */

static bool is_wanted_by(const struct mu_watched *w, uint32_t host)
{
    for (const struct mu_wanted *k = w->keys; k; k = k->next)
        for (uint32_t i = 0; i < k->count; i++)
            if (k->wants[i].host == host)
                return true;
    return false;
}

uint64_t mu_copies_collections(struct mu_core *core)
{
    return mu_copies_of(core)->collections;
}

size_t mu_copies_told(struct mu_core *core, uint32_t host, uint32_t *ret_buckets, uint64_t *ret_words, size_t most)
{
    const struct mu_subscription *in = &mu_copies_of(core)->in;
    size_t n = 0;

    if (!core->leader || !in->shares[host].keys)
        return 0;
    for (uint32_t i = 0; i < in->count; i++) {
        if (!is_wanted_by(&in->watched[i], host))
            continue;
        if (n == most)
            return SIZE_MAX;
        ret_buckets[n] = in->watched[i].bucket;
        ret_words[n++] = in->watched[i].seen;
    }
    return n;
}

uint64_t mu_copies_sent(struct mu_core *core, uint32_t host)
{
    return mu_copies_of(core)->out[host].sent;
}

struct forgotten {
    const void *key;
    size_t len;
    uint32_t host;
    uint64_t version, taken;
};

static bool is_forgotten(void *arg, const struct mu_wanted *k, const struct mu_want *want)
{
    const struct forgotten *g = arg;

    /* Another version, or none, is on its way to it: that it will hold. So may this one be, once more: it was said to
     * be gone when only its bucket had changed. Then the host has taken nothing yet of the batch that it is in. */
    return want->host == g->host && !want->bare && want->sent == g->version && want->at < g->taken &&
           k->key_len == g->len && !memcmp(k->key, g->key, g->len);
}

bool mu_take_forget(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct mu_copies *c = mu_copies_of(core);
    struct mu_outgoing *o = &c->out[host];
    struct mu_table t = mu_table_kv(core->seg);
    uint64_t taken = mu_unpack_u64(u);

    if (u->failed || taken > o->sent || taken < o->taken) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "it cannot have taken %" PRIu64 " bytes", taken);
        return false;
    }
    o->taken = taken;
    c->room = true;
    c->collections++; /* what it forgets it is not told any more */
    while (!u->failed && u->left) {
        struct forgotten g = {.host = host, .version = mu_unpack_u64(u), .taken = taken};
        struct mu_key k;

        g.key = mu_unpack_blob(u, MU_KEY_MAX, &g.len);
        if (u->failed || !g.len || !g.version) {
            mu_fail(MUSTER_INVALID_ARGUMENT, "it forgets no key");
            return false;
        }
        mu_key_make(&k, core->seg, g.key, g.len);
        mu_subscription_drop_in(&c->in, (uint32_t)(mu_table_bucket(&t, &k) - t.buckets), is_forgotten, &g);
    }
    return true;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static bool change_always(void *arg, const struct mu_wanted *k, const struct mu_want *want)
{
    (void)arg;
    (void)k;
    (void)want;
    return true;
}

static void forget_host(struct mu_core *core, uint32_t host)
{
    struct mu_copies *c = mu_copies_of(core);

    if (!core->leader)
        return;
    mu_subscription_drop(&c->in, host, change_always, NULL);
    c->out[host].sent = c->out[host].taken = 0;
    c->out[host].anew = false;
    c->collected = false; /* in the middle of a turn: others may be told of it, behind a batch of their own */
}

static void copies_up(struct mu_core *core, uint32_t host)
{
    forget_host(core, host);
    if (!core->leader)
        mu_replica_up(core, mu_copies_of(core)->replica);
}

static void copies_lost(struct mu_core *core, uint32_t host, const char *why)
{
    (void)why;
    forget_host(core, host);
}

/* Hosts that want a bucket that has changed are spoken to in this turn. */
static void copies_look(struct mu_core *core)
{
    struct mu_copies *c = mu_copies_of(core);

    if (!core->leader)
        return;
    c->collected = false;
    for (uint32_t i = 0; i < c->in.count; i++) {
        const struct mu_watched *w = &c->in.watched[i];

        if (!mu_word_same(word_of(core, w), w->seen) || (w->again && c->room))
            mu_core_want(core, w->keys->wants[0].host);
    }
    c->room = false;
}

static void copies_ahead(struct mu_core *core, uint32_t host)
{
    struct mu_copies *c = mu_copies_of(core);

    (void)host;
    if (!core->leader || c->collected)
        return;
    c->collected = true;
    changes_collect(core);
}

const struct mu_module mu_module_copies = {.name = "copies",
                                           .init = copies_init,
                                           .done = copies_done,
                                           .up = copies_up,
                                           .down = forget_host,
                                           .lost = copies_lost,
                                           .look = copies_look,
                                           .ahead = copies_ahead};
