/*
 * bridge/barrier/mirror.c: how the leader's barriers are seen on the other hosts, by status, top, metrics and
 * muster_barrier_list().
 *
 * For people: late by 50 ms or by what the number of bytes demands, never on a barrier's way. It is late by a second
 * where the caller that made the change was stopped before it rang. The leader's agent compares the cells' words with
 * those of its last look, and sends the newer barriers. The others' agents put them into their own cells, where no task
 * of theirs looks. Times travel as durations. A host that comes (again) forgets what it had, and gets all barriers that
 * wait, and of those that have ended as many as are cheap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bridge/barrier/barrier_ops.h"

#define PERIOD_NS   50000000u
#define SELDOM_NS   1000000000u  /* while nobody rings and nothing comes */
#define BYTE_NS     125u         /* 8 MB/s at most, to all hosts together */
#define FRAME_BYTES (1u << 20)   /* no more entries after so much */
#define ENDED_BYTES (256u << 10) /* of barriers that have ended, to a host that comes */
enum { FORGET = 1 };             /* flags of a frame */
enum { PASSED = 1, ALL = 2 };    /* of an entry */
#define NEVER UINT64_MAX

bool mu_mirror_init(struct mu_core *core, struct barrier_mirror *s)
{
    s->words = calloc(core->seg->num_cells, sizeof *s->words);
    s->versions = calloc(core->seg->num_cells, sizeof *s->versions);
    return s->words && s->versions;
}

void mu_mirror_done(struct barrier_mirror *s)
{
    free(s->words);
    free(s->versions);
}

static bool is_shared(void *arg, const char *key, uint32_t key_len)
{
    char id[MUSTER_BARRIER_ID_MAX + 1];

    (void)arg;
    if (key_len < 2 || key_len > sizeof id || key[0] != 'B')
        return false;
    memcpy(id, key + 1, key_len - 1);
    id[key_len - 1] = 0;
    return !mu_barrier_is_hosts(id);
}

/* ---- the leader: entries ---- */

static void barrier_row_pack(struct mu_pack *p, const char *id, uint32_t len, const struct mu_barrier *b, uint64_t now)
{
    uint8_t bits = 0;

    mu_pack_blob(p, id, len);
    mu_pack_u8(p, (uint8_t)((b->h.passed ? PASSED : 0) | (b->ids ? 0 : ALL)));
    mu_pack_u32(p, b->h.code);
    mu_pack_u64(p, b->h.counter);
    mu_pack_u64(p, b->h.since && b->h.since < now ? now - b->h.since : 0);
    mu_pack_u64(p, b->h.deadline == NEVER ? NEVER : b->h.deadline > now ? b->h.deadline - now : 0);
    mu_pack_u32(p, b->h.first);
    mu_pack_text(p, b->text);
    mu_pack_u32(p, b->h.num);
    for (uint32_t i = 0; b->ids && i < b->h.num; i++)
        mu_pack_u32(p, b->ids[i]);
    for (uint32_t i = 0; i < b->h.num; i++) {
        bits |= (uint8_t)((b->marks[i] & MU_MARK_ARRIVED ? 1u : 0u) << (i % 8));
        if (i % 8 == 7 || i + 1 == b->h.num) {
            mu_pack_u8(p, bits);
            bits = 0;
        }
    }
}

/* A walk that packs: to one host, or to all that are up. */
struct showing {
    struct mu_core *core;
    struct mu_pack p;
    uint64_t now, newer; /* only versions above this one */
    uint64_t version;    /* the highest that was met */
    size_t sent;
    uint32_t host; /* 0: to all */
    bool waiting, ended;
};

static void rows_flush(struct showing *w)
{
    struct mu_core *core = w->core;

    for (uint32_t h = w->host ? w->host : 1; !w->p.failed && h < (w->host ? w->host + 1 : core->num_hosts); h++)
        if (core->peers[h].state == MU_PEER_UP) {
            mu_core_send(core, h, MU_FRAME_MEETING, w->p.bytes, w->p.len);
            w->sent += w->p.len;
        }
    mu_pack_reset(&w->p);
    mu_pack_u8(&w->p, 0);
}

static enum muster_status row_show(void *arg, const struct mu_item *item)
{
    struct showing *w = arg;
    struct mu_barrier b;

    if (item->version > w->version)
        w->version = item->version;
    if (item->version <= w->newer || !mu_barrier_decode(&b, item->value, item->len))
        return MUSTER_OK;
    if (b.h.passed ? w->ended : w->waiting)
        barrier_row_pack(&w->p, item->key + 1, item->key_len - 1, &b, w->now);
    mu_barrier_done(&b);
    if (w->p.len > FRAME_BYTES)
        rows_flush(w);
    return MUSTER_OK;
}

void mu_mirror_up(struct mu_core *core, uint32_t host)
{
    struct showing w = {.core = core, .now = mu_now(), .host = host, .waiting = true};
    struct mu_walk walk = {is_shared, row_show, &w, false};
    struct mu_table t = mu_table_cells(core->seg);
    struct mu_bucket_info info;

    mu_pack_u8(&w.p, FORGET);
    for (uint32_t i = 0; i <= t.mask; i++)
        mu_table_walk(&t, NULL, i, &walk, &info);
    w.waiting = false;
    w.ended = true;
    for (uint32_t i = 0, room = ENDED_BYTES; i <= t.mask && w.p.len < room && w.sent < room; i++)
        mu_table_walk(&t, NULL, i, &walk, &info);
    rows_flush(&w);
    mu_pack_done(&w.p);
}

static bool anybody_is_up(const struct mu_core *core)
{
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (core->peers[h].state == MU_PEER_UP)
            return true;
    return false;
}

void mu_mirror_look(struct mu_core *core)
{
    struct barrier_mirror *s = &mu_pending_ops_of(core)->mirror;
    struct showing w = {.core = core, .now = mu_now(), .waiting = true, .ended = true};
    struct mu_walk walk = {is_shared, row_show, &w, false};
    struct mu_table t = mu_table_cells(core->seg);

    if (!s->stale && core->is_calm && !core->worked && core->now < s->at + SELDOM_NS)
        return;
    if (core->now < s->at) {
        s->stale = true;
        return;
    }
    s->stale = false;
    if (!anybody_is_up(core))
        return;
    mu_pack_u8(&w.p, 0);
    for (uint32_t i = 0; i <= t.mask; i++) {
        struct mu_bucket_info info;

        /* relaxed: a sign of change; the walk acquires. Pairs with the commits there */
        if (!((mu_load_relaxed(&t.buckets[i]) ^ s->words[i]) & ~MU_WORD_S))
            continue;
        w.newer = w.version = s->versions[i];
        if (mu_table_walk(&t, NULL, i, &walk, &info))
            continue;
        s->words[i] = info.word;
        s->versions[i] = w.version;
    }
    if (w.p.len > 1)
        rows_flush(&w);
    mu_pack_done(&w.p);
    s->at = core->now + (w.sent * BYTE_NS > PERIOD_NS ? w.sent * BYTE_NS : PERIOD_NS);
}

/* ---- the others ---- */

static bool row_malformed(void)
{
    mu_fail(MUSTER_INVALID_ARGUMENT, "a barrier in it cannot be");
    return false;
}

static enum mu_verdict mirror_put_it(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

/* What is known of it, into its cell. A failure (no room) leaves what was known before. */
static void mirror_put(struct mu_core *core, struct mu_ctx *ctx, const char *id, const struct mu_barrier *b)
{
    struct mu_table t = mu_table_cells(core->seg);
    char key[MUSTER_BARRIER_ID_MAX + 2];
    struct mu_edit e = {0};
    struct mu_key k;
    void *value;

    snprintf(key, sizeof key, "B%s", id);
    mu_key_make(&k, core->seg, key, strlen(key));
    value = mu_barrier_encode(b, &e.len);
    e.value = value;
    if (value)
        mu_table_edit(&t, ctx, &k, 0, mirror_put_it, &e, NULL);
    free(value);
}

static bool take_participants(struct mu_core *core, struct mu_unpack *u, struct mu_barrier *b, bool all)
{
    uint32_t num = mu_unpack_u32(u), tasks = core->seg->num_tasks, *ids = NULL;
    const uint8_t *bits;
    bool well;

    if (u->failed || num > tasks || (!all && u->left / 4 < num))
        return false;
    ids = all ? NULL : malloc((num + 1ul) * sizeof *ids);
    well = all || ids;
    for (uint32_t i = 0; i < num && ids && well; i++) {
        ids[i] = mu_unpack_u32(u);
        well = ids[i] < tasks && (!i || ids[i] > ids[i - 1]);
    }
    bits = mu_unpack_raw(u, (num + 7) / 8);
    well = well && bits && mu_barrier_participants(b, ids, num, all);
    for (uint32_t i = 0; i < num && well; i++)
        b->marks[i] = bits[i / 8] >> (i % 8) & 1 ? MU_MARK_ARRIVED : 0;
    free(ids);
    return well;
}

static bool take_barrier(struct mu_core *core, struct mu_ctx *ctx, struct mu_unpack *u)
{
    char id[MUSTER_BARRIER_ID_MAX + 1];
    struct mu_barrier b = {0};
    uint64_t now = mu_now(), ago, left;
    uint8_t flags;
    bool well;

    mu_unpack_text(u, id, sizeof id);
    flags = mu_unpack_u8(u);
    b.h.code = mu_unpack_u32(u);
    b.h.counter = mu_unpack_u64(u);
    ago = mu_unpack_u64(u);
    left = mu_unpack_u64(u);
    b.h.first = mu_unpack_u32(u);
    mu_unpack_text(u, b.text, sizeof b.text);
    b.h.passed = flags & PASSED;
    b.h.since = ago < now ? now - ago : 1;
    b.h.deadline = left < NEVER - now ? now + left : NEVER;
    if (u->failed || !id[0] || mu_barrier_is_hosts(id) || flags > (PASSED | ALL) || b.h.code > MUSTER_DATA_LOSS)
        return row_malformed();
    well = take_participants(core, u, &b, flags & ALL);
    if (well)
        mirror_put(core, ctx, id, &b);
    mu_barrier_done(&b);
    return well ? true : row_malformed();
}

struct barrier_ids {
    char (*ids)[MUSTER_BARRIER_ID_MAX + 2];
    size_t count;
};

static enum muster_status id_gather(void *arg, const struct mu_item *item)
{
    struct barrier_ids *g = arg;
    void *more = realloc(g->ids, (g->count + 1) * sizeof *g->ids);

    if (!more)
        return MUSTER_OK; /* one that is shown for too long */
    g->ids = more;
    memcpy(g->ids[g->count], item->key, item->key_len);
    g->ids[g->count++][item->key_len] = 0;
    return MUSTER_OK;
}

static enum mu_verdict remove_it(struct mu_edit *e)
{
    e->status = MUSTER_OK;
    return e->version ? MU_DELETE : MU_KEEP;
}

static void forget_all(struct mu_core *core, struct mu_ctx *ctx)
{
    struct mu_table t = mu_table_cells(core->seg);
    struct barrier_ids g = {0};
    struct mu_walk walk = {is_shared, id_gather, &g, true};
    struct mu_bucket_info info;

    for (uint32_t i = 0; i <= t.mask; i++)
        mu_table_walk(&t, ctx, i, &walk, &info);
    for (size_t i = 0; i < g.count; i++) {
        struct mu_edit e = {0};
        struct mu_key k;

        mu_key_make(&k, core->seg, g.ids[i], strlen(g.ids[i]));
        mu_table_edit(&t, ctx, &k, 0, remove_it, &e, NULL);
    }
    free(g.ids);
}

bool mu_take_meeting(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    uint8_t flags = mu_unpack_u8(u);
    struct mu_ctx *ctx;
    bool well = true;

    (void)host;
    if (flags > FORGET)
        return row_malformed();
    if (mu_enter(core->m, &ctx))
        return true; /* no slot now: nobody sees it */
    if (flags & FORGET)
        forget_all(core, ctx);
    while (well && u->left)
        well = take_barrier(core, ctx, u);
    mu_exit(ctx);
    return well;
}
