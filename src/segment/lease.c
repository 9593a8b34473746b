/*
 * segment/lease.c: see lease.h.
 */
#include "segment/lease.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/table.h"
#include "segment/work.h"

#define LOOK_AGAIN_NS 100000000ull /* at what there was no memory for */

static void pool_key(struct mu_key *k, const struct muster_segment *seg)
{
    mu_key_make(k, seg, "L", 1);
}

static size_t pool_bytes(const struct mu_pool *p)
{
    return offsetof(struct mu_pool, leases) + p->num_leases * sizeof p->leases[0];
}

/* What was copied of the cell. */
static bool pool_is_sound(const struct mu_pool *p, size_t len)
{
    return len >= offsetof(struct mu_pool, leases) && p->num_kinds <= MU_POOL_KINDS &&
           p->num_leases <= MU_POOL_LEASES && len == pool_bytes(p);
}

static enum muster_status pool_corrupt(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt at its resources", seg->job);
}

static bool lease_counts(const struct muster_segment *seg, const struct mu_pool_lease *l)
{
    uint32_t slot = (uint32_t)(l->runner >> 16) - 1;
    uint64_t w;

    if (slot >= seg->num_slots)
        return false;
    w = mu_load_acquire(&seg->slots[slot].word); /* acquire, both: pair with the claims, of the slot and of the call */
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == (uint16_t)l->runner &&
           mu_load_acquire(&seg->slots[slot].calls[0]) == l->call;
}

/* Only the leases that count; `but` (0: none) has none that does. */
static void pool_prune(const struct muster_segment *seg, struct mu_pool *p, uint64_t but)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->num_leases; i++)
        if (p->leases[i].runner != but && lease_counts(seg, &p->leases[i]))
            p->leases[kept++] = p->leases[i];
    p->num_leases = kept;
}

uint64_t mu_lease_lent(const struct mu_pool *p, uint32_t kind)
{
    uint64_t lent = 0;

    for (uint32_t i = 0; i < p->num_leases; i++)
        lent = p->kinds[kind].has_units ? lent | p->leases[i].amounts[kind] : lent + p->leases[i].amounts[kind];
    return lent;
}

/* A lease of what is asked for, behind the others. False: there is not so much. */
static bool pool_lend(struct mu_pool *p, uint64_t call, uint64_t runner, const struct mu_asks *asks)
{
    struct mu_pool_lease l = {.call = call, .runner = runner};

    if (p->num_leases == MU_POOL_LEASES)
        return false;
    for (uint32_t k = 0; k < p->num_kinds; k++) {
        uint64_t lent = mu_lease_lent(p, k), free = p->kinds[k].total & ~lent;

        if (!p->kinds[k].has_units) {
            if (lent + asks->amounts[k] > p->kinds[k].total && asks->amounts[k])
                return false;
            l.amounts[k] = asks->amounts[k];
            continue;
        }
        for (uint64_t left = asks->amounts[k]; left; left--, free &= free - 1) {
            if (!free)
                return false;
            l.amounts[k] |= free & -free;
        }
    }
    p->leases[p->num_leases++] = l;
    return true;
}

static bool asks_read(const struct muster_segment *seg, const struct mu_object *o, struct mu_asks *ret)
{
    uint64_t data[3], words[1 + MU_POOL_KINDS];
    uint32_t count, asks;

    if (!mu_bundle_read(seg, o, 0, data, 0, &count) || count > MU_CALL_REFS_MAX ||
        !mu_bundle_read(seg, o, count, data, 3, &count))
        return false;
    asks = MU_CALL_ASKS(data[2]);
    if (!asks || asks > MU_POOL_KINDS ||
        !mu_bundle_read(seg, o, count + 3 + MU_CALL_ARGUMENTS(data[2]), words, 1 + asks, &count))
        return false;
    ret->since = words[0];
    ret->deadline = data[1];
    for (uint32_t i = 1; i <= asks; i++)
        if (MU_ASK_KIND(words[i]) < MU_POOL_KINDS)
            ret->amounts[MU_ASK_KIND(words[i])] = MU_ASK_AMOUNT(words[i]);
    return true;
}

bool mu_lease_asks(struct mu_ctx *ctx, uint64_t call, struct mu_asks *ret)
{
    struct mu_object o;

    do {
        *ret = (struct mu_asks){.since = 0};
        if (mu_object_peek(ctx->seg, call, ctx->scratch, &o) || o.state != MU_OBJECT_CALL_QUEUED)
            return false;
    } while (!asks_read(ctx->seg, &o, ret) && !mu_word_same(mu_recheck(mu_object_word(ctx->seg, call)), o.word));
    return true;
}

enum muster_status mu_lease_look(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_pool *ret)
{
    struct mu_table t = mu_table_cells(seg);
    struct mu_found found;
    struct mu_key k;
    enum muster_status status;

    pool_key(&k, seg);
    ret->num_kinds = ret->num_leases = 0;
    ret->parks = 0;
    status = mu_table_get(&t, ctx, &k, ret, sizeof *ret, &found);
    if (status || !found.version)
        return status;
    if (found.len > sizeof *ret || !pool_is_sound(ret, found.len))
        return pool_corrupt(seg);
    pool_prune(seg, ret, 0);
    return MUSTER_OK;
}

/* ---- changes ---- */

struct pooling {
    struct muster_segment *seg;
    struct mu_pool *pool; /* the copy that is written */
    const char *name;     /* offered */
    uint64_t total, call, runner, parks;
    const struct mu_asks *asks;
    bool has_units, is_lent;
};

/* The copy; an empty pool where there is none. */
static bool pool_take(struct mu_edit *e)
{
    struct pooling *c = e->arg;

    c->pool->num_kinds = c->pool->num_leases = 0;
    c->pool->parks = 0;
    if (!e->version)
        return true;
    if (e->old_len <= sizeof *c->pool)
        memcpy(c->pool, e->old, e->old_len);
    if (e->old_len <= sizeof *c->pool && pool_is_sound(c->pool, e->old_len))
        return true;
    e->status = pool_corrupt(c->seg);
    return false;
}

static enum mu_verdict pool_put(struct mu_edit *e)
{
    struct pooling *c = e->arg;

    e->value = c->pool;
    e->len = pool_bytes(c->pool);
    return MU_PUT;
}

static enum muster_status pool_edit(struct mu_ctx *ctx, mu_edit_fn fn, struct pooling *c)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_edit e = {.arg = c, .ref_at = -1};
    enum muster_status status;
    struct mu_key k;

    c->seg = ctx->seg;
    c->pool = calloc(1, sizeof *c->pool);
    if (!c->pool)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the job's resources");
    pool_key(&k, ctx->seg);
    status = mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, fn, &e, NULL);
    free(c->pool);
    return status;
}

static enum mu_verdict kind_offered(struct mu_edit *e)
{
    struct pooling *c = e->arg;
    struct mu_pool_kind *kind;
    uint32_t at = 0;

    if (!pool_take(e))
        return MU_KEEP;
    while (at < c->pool->num_kinds && strncmp(c->pool->kinds[at].name, c->name, MU_POOL_NAME) != 0)
        at++;
    if (at == MU_POOL_KINDS) {
        e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "job %s has %u resources; more it cannot have", c->seg->job,
                            MU_POOL_KINDS);
        return MU_KEEP;
    }
    kind = &c->pool->kinds[at];
    if (at < c->pool->num_kinds && kind->has_units != c->has_units) {
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION, "resource %s of job %s %s units", c->name, c->seg->job,
                            kind->has_units ? "has" : "has no");
        return MU_KEEP;
    }
    if (at == c->pool->num_kinds) {
        c->pool->num_kinds++;
        memset(kind, 0, sizeof *kind);
        memcpy(kind->name, c->name, strlen(c->name));
    }
    kind->total = c->total;
    kind->has_units = c->has_units;
    return pool_put(e);
}

enum muster_status mu_lease_offer(struct mu_ctx *ctx, const char *name, uint64_t total, bool has_units)
{
    struct pooling c = {.name = name, .total = total, .has_units = has_units};

    return pool_edit(ctx, kind_offered, &c);
}

/* A worker looks at parked calls no later than this. */
static void look_at_least(struct muster_segment *seg, uint64_t deadline)
{
    mu_a64 *at = &seg->header->look_at;
    uint64_t seen = mu_load_relaxed(at); /* relaxed: the CAS decides, and the callers fence */

    while ((!seen || deadline < seen) && !mu_cas_seen(at, &seen, deadline)) /* acq_rel: pairs with mu_lease_asked() */
        ;
}

static enum mu_verdict lease_taken(struct mu_edit *e)
{
    struct pooling *c = e->arg;

    if (!pool_take(e))
        return MU_KEEP;
    pool_prune(c->seg, c->pool, c->runner);
    c->is_lent = pool_lend(c->pool, c->call, c->runner, c->asks);
    c->pool->parks += !c->is_lent;
    return pool_put(e);
}

/* Whether it could be had now. */
static bool pool_fits(struct mu_ctx *ctx, const struct pooling *c)
{
    struct mu_pool *p = calloc(1, sizeof *p);
    bool fits = p && !mu_lease_look(ctx->seg, ctx, p) && pool_lend(p, c->call, c->runner, c->asks);

    free(p);
    return fits;
}

enum muster_status mu_lease_take(struct mu_ctx *ctx, uint64_t call, const struct mu_asks *asks)
{
    struct pooling c = {.call = call, .runner = MU_OBJECT_MAKER(ctx->slot, ctx->incarnation), .asks = asks};
    enum muster_status status;

    mu_store_release(&ctx->own->calls[0], call); /* release: before the lease; pairs with lease_counts() */
    do {
        status = pool_edit(ctx, lease_taken, &c);
        mu_fence_seq_cst(); /* counted as parked, then the look at the leases; pairs with mu_lease_ended() */
    } while (!status && !c.is_lent && pool_fits(ctx, &c));
    if (!status && !c.is_lent && asks->deadline)
        look_at_least(ctx->seg, asks->deadline);
    ctx->leased = !status && c.is_lent;
    if (!ctx->leased)
        mu_store_release(&ctx->own->calls[0], 0); /* release: likewise */
    return status || c.is_lent ? status : MUSTER_ALREADY_EXISTS;
}

bool mu_lease_ended(struct mu_ctx *ctx)
{
    struct mu_pool *p;
    char kept[MU_SENTENCE_MAX];
    bool parked;

    if (!ctx->leased)
        return false;
    ctx->leased = false;
    mu_fence_seq_cst(); /* the call is not named any more, then the look at the count; pairs with mu_lease_take() */
    mu_error_keep(kept);
    p = calloc(1, sizeof *p);
    parked = !p || mu_lease_look(ctx->seg, ctx, p) || p->parks;
    mu_error_restore(kept);
    free(p);
    return parked;
}

/* ---- looks at what is parked ---- */

void mu_lease_rescan(struct muster_segment *seg)
{
    if (!mu_load32_acquire(&seg->header->queue_there)) /* acquire: pairs with mu_queue_commit() */
        return;
    mu_work_ask(seg, MU_RESCAN_PARKED);
    mu_crew_wake(seg);
}

bool mu_lease_asked(struct muster_segment *seg)
{
    uint64_t at = mu_load_acquire(&seg->header->look_at); /* acquire: pairs with look_at_least() */
    bool asked = mu_work_answer(seg, MU_RESCAN_PARKED);

    if (at && at <= mu_now())
        asked |= mu_cas(&seg->header->look_at, at, 0); /* acq_rel: one does it; the look sets it again */
    if (asked)
        mu_fence_seq_cst(); /* look_at is 0, then the look at calls; pairs with mu_lease_take() */
    return asked;
}

enum { LOOK_SHAPES = 16 };

/* Of the calls that could each have now what they ask for: the oldest, and those that ask for different things. */
struct parked_look {
    struct mu_pool pool;
    uint64_t oldest;
    struct mu_asks asks;
    uint32_t fit, num_shapes; /* num_shapes LOOK_SHAPES + 1: there are more */
    struct parked_shape {
        uint64_t amounts[MU_POOL_KINDS];
        uint32_t count;
    } shapes[LOOK_SHAPES];
};

static void shape_count(struct parked_look *l, const uint64_t amounts[MU_POOL_KINDS])
{
    uint32_t at = 0;

    while (at < l->num_shapes && at < LOOK_SHAPES &&
           memcmp(l->shapes[at].amounts, amounts, sizeof l->shapes[at].amounts) != 0)
        at++;
    if (at < LOOK_SHAPES && at == l->num_shapes) {
        memcpy(l->shapes[at].amounts, amounts, sizeof l->shapes[at].amounts);
        l->shapes[at].count = 0;
        l->num_shapes++;
    }
    if (at < LOOK_SHAPES)
        l->shapes[at].count++;
    else
        l->num_shapes = LOOK_SHAPES + 1;
}

static void parked_note(struct parked_look *l, uint64_t call, const struct mu_asks *asks)
{
    if (!pool_lend(&l->pool, 0, 0, asks))
        return;
    l->pool.num_leases--; /* it was to see whether it fits alone */
    l->fit++;
    shape_count(l, asks->amounts);
    if (l->oldest && l->asks.since <= asks->since)
        return;
    l->oldest = call;
    l->asks = *asks;
}

/* Whether another one fits beside the oldest; where that is not known, it may. */
static bool parked_more(struct parked_look *l)
{
    if (l->num_shapes > LOOK_SHAPES)
        return l->fit > 1;
    pool_lend(&l->pool, l->oldest, 0, &l->asks);
    for (uint32_t i = 0; i < l->num_shapes; i++) {
        struct mu_asks asks = {.since = 0};

        memcpy(asks.amounts, l->shapes[i].amounts, sizeof asks.amounts);
        if (l->shapes[i].count > (memcmp(asks.amounts, l->asks.amounts, sizeof asks.amounts) == 0) &&
            pool_lend(&l->pool, 0, 0, &asks))
            return true;
    }
    return false;
}

static enum mu_verdict parks_cleared(struct mu_edit *e)
{
    struct pooling *c = e->arg;

    if (!pool_take(e) || c->pool->parks != c->parks)
        return MU_KEEP;
    c->pool->parks = 0;
    return pool_put(e);
}

static void parked_all(struct mu_ctx *ctx, struct parked_look *l)
{
    uint32_t high = mu_objects_high(ctx->seg);
    uint64_t now = mu_now();
    bool any = false;

    for (uint32_t i = 0; i < high; i++) {
        struct mu_object o;
        struct mu_asks asks;

        if (!MU_WORD_INDEX(mu_load_relaxed(&ctx->seg->objects[i])) || /* relaxed: a look */
            mu_object_at(ctx->seg, i, ctx->scratch, &o) || o.state != MU_OBJECT_CALL_QUEUED || !o.meta)
            continue;
        asks = (struct mu_asks){.since = 0};
        if (!(asks_read(ctx->seg, &o, &asks) && mu_word_same(mu_recheck(&ctx->seg->objects[i]), o.word)) &&
            !mu_lease_asks(ctx, o.ref, &asks)) /* it moved meanwhile */
            continue;
        any = true;
        if (asks.deadline && asks.deadline <= now && mu_work_expire(ctx, o.ref) == MUSTER_OK)
            continue;
        if (asks.deadline)
            look_at_least(ctx->seg, asks.deadline > now ? asks.deadline : now + LOOK_AGAIN_NS);
        parked_note(l, o.ref, &asks);
    }
    if (!any && l->pool.parks) /* none was while this looked: the count would have grown */
        pool_edit(ctx, parks_cleared, &(struct pooling){.parks = l->pool.parks});
}

uint64_t mu_lease_next(struct mu_ctx *ctx)
{
    struct parked_look *l = calloc(1, sizeof *l);
    char kept[MU_SENTENCE_MAX];
    uint64_t oldest = 0;

    mu_error_keep(kept);
    if (!l)
        look_at_least(ctx->seg, mu_now() + LOOK_AGAIN_NS);
    else if (!mu_lease_look(ctx->seg, ctx, &l->pool) && l->pool.num_kinds)
        parked_all(ctx, l);
    if (l && l->oldest) {
        oldest = l->oldest;
        if (parked_more(l))
            mu_lease_rescan(ctx->seg);
    }
    mu_error_restore(kept);
    free(l);
    return oldest;
}
