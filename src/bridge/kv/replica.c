/*
 * bridge/kv/replica.c: the copies that a follower holds.
 *
 * Its table of keys has nothing else in it. A batch first takes out the copies of all keys that it names, then puts its
 * values there: in between they are not there, and a reader asks the leader. A batch of one value is written over
 * the old one. A batch that is cut by this agent's death is no harm: nothing new is there before all that is old has
 * gone. With a new connection everything goes first: the leader remembers nothing of what it sent before.
 *
 * What is held is bounded. The copies that have been there longest without a change make room; the leader is told ahead
 * of anything that may be asked because of it, and which version it was: it may have sent a newer one meanwhile.
 */
#include "bridge/kv/copies.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "bridge/core/listener.h"

struct copy {
    struct copy *next;          /* of the same hash */
    struct copy *older, *newer; /* by when they came, or changed */
    uint64_t hash, version;
    size_t len;
    uint32_t key_len;
    char key[];
};

struct mu_replica {
    struct copy **heads;
    uint32_t mask, count, most;
    size_t bytes, most_bytes;
    struct copy *oldest, *newest;
    uint64_t taken, reported; /* bytes of COPIES on this connection */
};

struct mu_replica *mu_replica_new(struct mu_core *core)
{
    struct mu_replica *h = calloc(1, sizeof *h);
    size_t quarter = core->seg->num_chunks * (size_t)MU_CHUNK / 4;

    if (!h)
        return NULL;
    h->most = MU_REPLICA_MAX;
    h->most_bytes = quarter < MU_REPLICA_BYTES_MAX ? quarter : MU_REPLICA_BYTES_MAX;
    h->mask = 1023;
    h->heads = calloc(h->mask + 1, sizeof(struct copy *));
    if (h->heads)
        return h;
    free(h);
    return NULL;
}

void mu_copies_bound(struct mu_core *core, uint32_t most, size_t most_bytes)
{
    struct mu_replica *h = mu_copies_of(core)->replica;

    h->most = most;
    h->most_bytes = most_bytes;
}

/* ---- what is held ------------------------------------------------------------------------------------------------ */

static size_t copy_cost(const struct copy *c)
{
    return sizeof *c + c->key_len + c->len;
}

static struct copy *copy_find(const struct mu_replica *h, const struct mu_key *k)
{
    struct copy *c = h->heads[k->hash >> 20 & h->mask];

    while (c && (c->hash != k->hash || c->key_len != k->len || memcmp(c->key, k->words, k->len)))
        c = c->next;
    return c;
}

static void leave_row(struct mu_replica *h, struct copy *c)
{
    *(c->older ? &c->older->newer : &h->oldest) = c->newer;
    *(c->newer ? &c->newer->older : &h->newest) = c->older;
}

static void join_row(struct mu_replica *h, struct copy *c)
{
    c->older = h->newest;
    c->newer = NULL;
    *(h->newest ? &h->newest->newer : &h->oldest) = c;
    h->newest = c;
}

static void copy_drop(struct mu_replica *h, struct copy *c)
{
    MU_CHAIN_DROP(h->heads[c->hash >> 20 & h->mask], c, next);
    leave_row(h, c);
    h->bytes -= copy_cost(c);
    h->count--;
    free(c);
}

/* More rows when they get long; where there is no memory for that they stay long. */
static void rows_widen(struct mu_replica *h)
{
    uint32_t mask = h->mask * 2 + 1;
    struct copy **heads = h->count > h->mask ? calloc(mask + 1, sizeof *heads) : NULL;

    if (!heads)
        return;
    for (struct copy *c = h->oldest; c; c = c->newer) {
        struct copy **at = &heads[c->hash >> 20 & mask];

        c->next = *at;
        *at = c;
    }
    free(h->heads);
    h->heads = heads;
    h->mask = mask;
}

/* The key's entry, now the newest one. NULL: no memory. */
static struct copy *copy_keep(struct mu_replica *h, const struct mu_key *k)
{
    struct copy *c = copy_find(h, k);

    if (c) {
        leave_row(h, c);
        join_row(h, c);
        return c;
    }
    rows_widen(h);
    c = calloc(1, sizeof *c + k->len);
    if (!c)
        return NULL;
    c->hash = k->hash;
    c->key_len = k->len;
    memcpy(c->key, k->words, k->len);
    c->next = h->heads[k->hash >> 20 & h->mask];
    h->heads[k->hash >> 20 & h->mask] = c;
    join_row(h, c);
    h->count++;
    h->bytes += copy_cost(c);
    return c;
}

void mu_replica_free(struct mu_replica *replica)
{
    if (!replica)
        return;
    while (replica->oldest)
        copy_drop(replica, replica->oldest);
    free(replica->heads);
    free(replica);
}

/* ---- in the table ------------------------------------------------------------------------------------------------ */

static enum mu_verdict delete_it(struct mu_edit *e)
{
    e->status = MUSTER_OK;
    return e->version ? MU_DELETE : MU_KEEP;
}

static enum muster_status delete_copy(struct mu_core *core, struct mu_ctx *ctx, const struct mu_key *k)
{
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_edit e = {0};

    return mu_table_edit(&t, ctx, k, 0, delete_it, &e, NULL);
}

static enum mu_verdict copy_put_it(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

/* The keys of a bucket, to be deleted. */
static enum muster_status note_key(void *arg, const struct mu_item *item)
{
    mu_pack_blob(arg, item->key, item->key_len);
    return MUSTER_OK;
}

static enum muster_status empty_bucket(struct mu_core *core, struct mu_ctx *ctx, uint32_t bucket, struct mu_pack *keys)
{
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_walk w = {.visit = note_key, .arg = keys, .lengths_only = true};
    struct mu_bucket_info info;
    struct mu_unpack u;
    enum muster_status status;

    mu_pack_reset(keys);
    status = mu_table_walk(&t, ctx, bucket, &w, &info);
    if (keys->failed)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to drop copies");
    u = mu_unpack_of(keys->bytes, keys->len);
    while (!status && u.left) {
        size_t len;
        const void *key = mu_unpack_blob(&u, MU_KEY_MAX, &len);
        struct mu_key k;

        mu_key_make(&k, core->seg, key, len);
        status = delete_copy(core, ctx, &k);
    }
    return status;
}

void mu_replica_up(struct mu_core *core, struct mu_replica *replica)
{
    struct mu_pack keys = {0};
    struct mu_ctx *ctx = NULL;
    enum muster_status status = mu_enter(core->m, &ctx);

    while (replica->oldest)
        copy_drop(replica, replica->oldest);
    replica->taken = replica->reported = 0;
    for (uint32_t b = 0; !status && b < core->seg->num_buckets; b++)
        if (MU_WORD_INDEX(mu_load_acquire(&core->seg->buckets[b]))) /* acquire: pairs with the commit CAS */
            status = empty_bucket(core, ctx, b, &keys);
    mu_pack_done(&keys);
    if (ctx)
        mu_exit(ctx);
    if (status) /* with old copies here no frame may be taken; perhaps it goes when it comes again */
        core->wire.drop(core->wire.arg, 0, muster_last_error());
}

/* ---- making room ------------------------------------------------------------------------------------------------- */

static void send_report(struct mu_core *core, struct mu_pack *p)
{
    struct mu_replica *h = mu_copies_of(core)->replica;

    h->reported = h->taken;
    mu_core_send(core, 0, MU_FRAME_FORGET, p->bytes, p->len);
    if (p->failed)
        core->peers[0].tail.failed = true;
    mu_pack_reset(p);
}

static void begin_report(const struct mu_replica *h, struct mu_pack *p)
{
    if (!p->len)
        mu_pack_u64(p, h->taken);
}

/* Drops the oldest copies, until so much is left: told first, deleted then; and all waiters for keys ask again. */
static enum muster_status make_room(struct mu_core *core, struct mu_ctx *ctx, uint32_t most, size_t most_bytes)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    struct mu_pack p = {0};
    enum muster_status status = MUSTER_OK;
    uint32_t left = h->count;
    size_t bytes = h->bytes;
    struct mu_key k;

    for (struct copy *c = h->oldest; c && (left > most || bytes > most_bytes); c = c->newer) {
        begin_report(h, &p);
        mu_pack_u64(&p, c->version);
        mu_pack_blob(&p, c->key, c->key_len);
        left--;
        bytes -= copy_cost(c);
        if (p.len > MU_COPIES_CUT)
            send_report(core, &p);
    }
    if (p.len)
        send_report(core, &p);
    mu_pack_done(&p);
    while (h->oldest && h->count > left && !status) {
        mu_key_make(&k, core->seg, h->oldest->key, h->oldest->key_len);
        status = delete_copy(core, ctx, &k);
        copy_drop(h, h->oldest);
    }
    mu_host_bridge_say(ctx, mu_host_bridge_state(core->seg));
    return status;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

struct item {
    uint8_t kind;
    uint64_t version;
    const void *key, *value;
    size_t key_len, len;
};

static bool next_item(struct mu_unpack *u, struct item *i)
{
    i->kind = mu_unpack_u8(u);
    i->version = mu_unpack_u64(u);
    i->key = mu_unpack_blob(u, MU_KEY_MAX, &i->key_len);
    i->value = mu_unpack_blob(u, MU_COPY_MAX, &i->len);
    return !u->failed && i->key_len && i->kind <= MU_COPY_VALUE &&
           (i->kind == MU_COPY_VALUE ? i->version != 0 : !i->version && !i->len);
}

/* All of its items, looked at before any is acted upon. */
static bool is_well_formed(struct mu_unpack u, uint32_t count)
{
    struct item i;

    for (uint32_t n = 0; n < count; n++)
        if (!next_item(&u, &i))
            return false;
    return mu_unpack_end(&u);
}

static enum muster_status copies_invalidate(struct mu_core *core, struct mu_ctx *ctx, struct mu_unpack u)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    enum muster_status status = MUSTER_OK;
    struct item i;
    struct mu_key k;

    while (!status && u.left && next_item(&u, &i)) {
        struct copy *c;

        mu_key_make(&k, core->seg, i.key, i.key_len);
        c = copy_find(h, &k);
        if (!c)
            continue;
        status = delete_copy(core, ctx, &k);
        if (!status)
            copy_drop(h, c);
    }
    return status;
}

/* No room for it, not even with half of the others gone: it is not held, and the leader knows. */
static enum muster_status copy_refuse(struct mu_core *core, struct mu_ctx *ctx, const struct mu_key *k,
                                      const struct item *i)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    struct copy *c = copy_find(h, k);
    struct mu_pack p = {0};
    enum muster_status status;

    begin_report(h, &p);
    mu_pack_u64(&p, i->version);
    mu_pack_blob(&p, k->words, k->len);
    send_report(core, &p);
    mu_pack_done(&p);
    status = delete_copy(core, ctx, k);
    if (!status && c)
        copy_drop(h, c);
    mu_host_bridge_say(ctx, mu_host_bridge_state(core->seg));
    return status;
}

static enum muster_status copy_install(struct mu_core *core, struct mu_ctx *ctx, const struct item *i)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_edit e = {.value = i->value, .len = i->len, .version_as = i->version};
    enum muster_status status;
    struct copy *c;
    struct mu_key k;

    mu_key_make(&k, core->seg, i->key, i->key_len);
    status = mu_table_edit(&t, ctx, &k, 0, copy_put_it, &e, NULL);
    if (status == MUSTER_RESOURCE_EXHAUSTED && h->count) {
        status = make_room(core, ctx, h->count / 2, h->bytes);
        if (status) /* a copy is still there that the leader was told of: the connection ends, and all go */
            return status;
        e = (struct mu_edit){.value = i->value, .len = i->len, .version_as = i->version};
        status = mu_table_edit(&t, ctx, &k, 0, copy_put_it, &e, NULL);
    }
    c = status ? NULL : copy_keep(h, &k);
    if (!c)
        return status && status != MUSTER_RESOURCE_EXHAUSTED ? status : copy_refuse(core, ctx, &k, i);
    h->bytes += i->len - c->len;
    c->len = i->len;
    c->version = i->version;
    return MUSTER_OK;
}

static enum muster_status take_batch(struct mu_core *core, struct mu_ctx *ctx, struct mu_unpack u, uint8_t flags,
                                     uint32_t count)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    struct item i = {0};
    bool alone = count == 1 && u.left && *u.at == MU_COPY_VALUE;
    enum muster_status status = alone ? MUSTER_OK : copies_invalidate(core, ctx, u);

    while (!status && u.left && next_item(&u, &i))
        if (i.kind == MU_COPY_VALUE)
            status = copy_install(core, ctx, &i);
    if (!status && (h->count > h->most || h->bytes > h->most_bytes))
        status = make_room(core, ctx, h->most - h->most / 8, h->most_bytes - h->most_bytes / 8);
    if (flags & MU_COPIES_ANEW)
        mu_host_bridge_say(ctx, mu_host_bridge_state(core->seg));
    return status;
}

bool mu_take_copies(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct mu_replica *h = mu_copies_of(core)->replica;
    size_t bytes = u->left;
    uint8_t flags = mu_unpack_u8(u);
    uint32_t count = mu_unpack_u32(u);
    struct mu_pack p = {0};
    struct mu_ctx *ctx;
    enum muster_status status;

    (void)host;
    if (u->failed || (flags & ~MU_COPIES_ANEW) || !is_well_formed(*u, count)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "its items are damaged");
        return false;
    }
    status = mu_enter(core->m, &ctx);
    if (status)
        return false;
    h->taken += bytes;
    status = take_batch(core, ctx, *u, flags, count);
    mu_exit(ctx);
    mu_core_listener_changed(core);
    if (h->taken - h->reported >= MU_COPIES_REPORT) {
        begin_report(h, &p);
        send_report(core, &p);
        mu_pack_done(&p);
    }
    mu_core_worked(core);
    return !status;
}
