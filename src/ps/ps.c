/*
 * ps/ps.c: tensors by name. A name is an entry of muster's own cells that says which object is the tensor's head; the
 * head holds the shards, and each process that has the tensor open holds the head. So a tensor goes with its last
 * holder, also where that one was killed; its name then names nobody, until the next tensor takes it.
 */
#include "ps/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/table.h"
#include "segment/wait.h"
#include "segment/work.h"

static enum muster_status name_check(const struct muster *m, const char *name)
{
    if (!name || !*name || strlen(name) > MUSTER_PS_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a tensor's name has 1 to %u bytes", MUSTER_PS_NAME_MAX);
    if (m && mu_is_bridged(m->seg))
        return mu_fail(MUSTER_UNIMPLEMENTED,
                       "tensor %s: job %s has several hosts, and tensors are shared by the tasks of one host only",
                       name, m->seg->job);
    return MUSTER_OK;
}

/* ---- handles ---- */

static struct muster_ps *ps_new(struct muster *m, const char *name)
{
    struct muster_ps *ps = calloc(1, sizeof *ps);

    if (!ps) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for tensor %s", name);
        return NULL;
    }
    ps->m = m;
    ps->seg = m->seg;
    snprintf(ps->name, sizeof ps->name, "%s", name);
    return ps;
}

/* What the head, which the process holds, says. */
static enum muster_status head_see(struct muster_ps *ps, struct mu_ctx *ctx)
{
    struct mu_object o, table;
    struct mu_ps_head *head;
    uint32_t count;
    uint64_t numbers;
    enum muster_status status = mu_object_look(ps->seg, ps->head, ctx->scratch, &o);

    if (status)
        return status;
    if (!mu_bundle_read(ps->seg, &o, 0, NULL, 0, &count) || !count || count > MUSTER_PS_SHARDS_MAX ||
        !mu_bundle_is_sound(ps->seg, o.data, count, sizeof *head + count * PS_TURN_WORDS * 8ull))
        return mu_object_say(ps->seg, ps->head, MUSTER_DATA_LOSS);
    head = (struct mu_ps_head *)mu_bundle_data(ps->seg, o.data);
    if (head->magic != PS_MAGIC || mu_ps_config_check(ps->name, &head->config, &numbers) ||
        head->config.shards != count)
        return mu_object_say(ps->seg, ps->head, MUSTER_DATA_LOSS);
    mu_ps_config_apply(ps, &head->config, numbers);
    ps->rate = &head->rate;
    ps->turns = (mu_a64 *)(head + 1);
    memcpy(ps->shards, mu_bundle_at(ps->seg, o.data)->refs, count * sizeof *ps->shards);
    if (!ps->config.rows)
        return MUSTER_OK;
    status = mu_object_look(ps->seg, ps->shards[0], ctx->scratch, &table);
    if (!status && table.bytes != mu_ps_table_bytes(ps))
        status = mu_object_say(ps->seg, ps->shards[0], MUSTER_DATA_LOSS);
    if (!status) {
        ps->table = mu_object_bytes(ps->seg, &table, true);
        status = ps->table ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for table %s", ps->name);
    }
    return status;
}

/* ---- names ---- */

static void name_key(struct mu_key *k, const struct muster_ps *ps)
{
    char key[MUSTER_PS_NAME_MAX + 1];
    size_t len = strlen(ps->name);

    key[0] = 'P';
    memcpy(key + 1, ps->name, len);
    mu_key_make(k, ps->seg, key, len + 1);
}

struct naming {
    uint64_t was, head; /* 0: the name is free */
};

static enum mu_verdict name_edit(struct mu_edit *e)
{
    const struct naming *n = e->arg;
    uint64_t there = 0;

    if (e->old && e->old_len == sizeof there)
        memcpy(&there, e->old, sizeof there);
    e->status = MUSTER_ALREADY_EXISTS;
    if (there != n->was)
        return MU_KEEP;
    if (!n->head)
        return there ? MU_DELETE : MU_KEEP;
    e->value = &n->head;
    e->len = sizeof n->head;
    return MU_PUT;
}

/* The name, which names `was`, names `head`. ALREADY_EXISTS: it names another by now. */
static enum muster_status name_set(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t was, uint64_t head)
{
    struct mu_table t = mu_table_cells(ps->seg);
    struct naming n = {was, head};
    struct mu_edit e = {.arg = &n, .ref_at = -1};
    struct mu_key k;

    name_key(&k, ps);
    return mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, name_edit, &e, NULL);
}

/* Which head the name names; 0: none. */
static enum muster_status name_get(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t *ret_head,
                                   struct mu_found *ret_found)
{
    struct mu_table t = mu_table_cells(ps->seg);
    enum muster_status status;
    struct mu_key k;

    *ret_head = 0;
    name_key(&k, ps);
    status = mu_table_get(&t, ctx, &k, ret_head, sizeof *ret_head, ret_found);
    if (!status && (!ret_found->version || ret_found->len != sizeof *ret_head))
        *ret_head = 0;
    return status;
}

static void head_drop(struct muster_ps *ps, struct mu_ctx *ctx)
{
    struct mu_ledger *ledger;
    struct mu_holding *h;
    struct mu_object o;
    char kept[MU_SENTENCE_MAX];

    mu_error_keep(kept);
    if (ps->head && !mu_ledger_lock(ps->m, &ledger)) {
        h = mu_ledger_find(ledger, ps->head);
        if (h && h->refs) {
            h->refs--;
            mu_holding_let_go(ledger, ctx, h);
        }
        mu_ledger_unlock(ledger);
        if (mu_object_peek(ps->seg, ps->head, ctx->scratch, &o) == MUSTER_NOT_FOUND)
            name_set(ps, ctx, ps->head, 0);
    }
    mu_error_restore(kept);
}

/* Hold the head that the name names. NOT_FOUND: there is no such tensor; *ret_was: what the name says. */
static enum muster_status head_hold(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t *ret_was,
                                    struct mu_found *ret_found)
{
    struct mu_ledger *ledger;
    struct mu_holding *h;
    enum muster_status status = name_get(ps, ctx, ret_was, ret_found);

    if (status || !*ret_was)
        return status ? status : MUSTER_NOT_FOUND;
    status = mu_ledger_lock(ps->m, &ledger);
    if (status)
        return status;
    status = mu_holding_find(ledger, ctx, *ret_was, &h);
    if (!status)
        h->refs++;
    mu_ledger_unlock(ledger);
    if (status)
        return status;
    ps->head = *ret_was;
    status = head_see(ps, ctx);
    if (status)
        head_drop(ps, ctx);
    return status;
}

/* ---- making one ---- */

/* An object with a bundle, in the i-th place of another. */
static enum muster_status object_of(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t data, uint64_t bundle,
                                    uint32_t i)
{
    struct mu_object o = {.state = MU_OBJECT_SEALED, .data = data, .task = (uint32_t)ps->m->task_id + 1};

    o.maker = MU_OBJECT_MAKER(ctx->slot, ctx->incarnation);
    return mu_hold_create(ctx, (mu_a64 *)&mu_bundle_at(ctx->seg, bundle)->refs[i], &o);
}

static enum muster_status shard_make(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t head, uint32_t shard,
                                     const uint8_t *initial)
{
    uint64_t bytes = ps_shard_bytes(ps, shard), bundle = 0;
    struct ps_tail *tail = NULL;
    struct ps_part part;
    enum muster_status status = mu_ps_bundle_new(ps, ctx, 0, &bundle, &tail);

    if (!status)
        *tail = (struct ps_tail){.magic = PS_MAGIC};
    for (uint32_t i = 0; !status && i <= ps->states; i++) {
        status = mu_ps_part_begin(ctx, bytes, &part);
        if (status)
            break;
        if (!i && initial)
            memcpy(part.bytes, initial + ps_first(ps, shard) * ps->width, bytes);
        else
            memset(part.bytes, 0, bytes);
        status = mu_ps_part_done(ps, ctx, bundle, i, &part);
    }
    if (!status)
        return object_of(ps, ctx, bundle, head, shard);
    mu_ps_bundle_end(ctx, bundle);
    return status;
}

static enum muster_status table_make(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t head)
{
    struct ps_part part;
    uint64_t bytes = mu_ps_table_bytes(ps);
    enum muster_status status;

    if (!bytes)
        return mu_fail(MUSTER_OUT_OF_RANGE, "table %s would have more than 2^44 bytes", ps->name);
    status = mu_ps_part_begin(ctx, bytes, &part);
    if (status)
        return status;
    mu_ps_table_clear(ps, part.bytes);
    return mu_ps_part_done(ps, ctx, head, 0, &part);
}

/* The tensor as a head that this process holds. */
static enum muster_status head_make(struct muster_ps *ps, struct mu_ctx *ctx, const uint8_t *initial, double rate)
{
    uint32_t count = ps->config.shards;
    struct mu_ledger *ledger;
    struct mu_holding *h;
    struct mu_ps_head *head;
    struct mu_object o = {.state = MU_OBJECT_SEALED, .task = (uint32_t)ps->m->task_id + 1};
    enum muster_status status = mu_bundle_new(ctx, count, sizeof *head + count * PS_TURN_WORDS * 8ull, &o.data);

    if (status)
        return status;
    head = (struct mu_ps_head *)mu_bundle_data(ctx->seg, o.data);
    memset(head, 0, sizeof *head + count * PS_TURN_WORDS * 8ull);
    head->magic = PS_MAGIC;
    head->config = ps->config;
    memcpy((void *)&head->rate, &rate, sizeof rate);
    for (uint32_t i = 0; !status && i < count; i++)
        status = ps->config.rows ? table_make(ps, ctx, o.data) : shard_make(ps, ctx, o.data, i, initial);
    if (!status)
        status = mu_ledger_lock(ps->m, &ledger);
    if (status) {
        mu_ps_bundle_end(ctx, o.data);
        return status;
    }
    status = mu_holding_new(ledger, ctx, &o, false, &h);
    mu_ledger_unlock(ledger);
    if (!status)
        ps->head = o.ref;
    return status ? status : head_see(ps, ctx);
}

static enum muster_status ps_make(struct muster_ps *ps, struct mu_ctx *ctx, const struct muster_ps_config *packed,
                                  uint64_t count, const void *initial, double rate)
{
    for (;;) {
        struct mu_found found;
        const char *difference;
        uint64_t was;
        enum muster_status status = head_hold(ps, ctx, &was, &found);

        if (!status) {
            difference = mu_ps_config_difference(&ps->config, packed);
            if (!difference)
                return MUSTER_OK;
            head_drop(ps, ctx);
            return mu_fail(MUSTER_FAILED_PRECONDITION, "tensor %s is there already, with another %s", ps->name,
                           difference);
        }
        if (status != MUSTER_NOT_FOUND)
            return status;
        mu_ps_config_apply(ps, packed, count);
        status = head_make(ps, ctx, initial, rate);
        if (!status)
            status = name_set(ps, ctx, was, ps->head);
        if (!status)
            return MUSTER_OK;
        head_drop(ps, ctx);
        ps->head = 0;
        if (status != MUSTER_ALREADY_EXISTS) /* another was quicker: that one's it is */
            return status;
    }
}

enum muster_status muster_ps_create(struct muster *muster, const char *name, const struct muster_ps_config *config,
                                    const void *initial, struct muster_ps **ret_ps)
{
    enum muster_status status = name_check(muster, name);
    struct muster_ps_config packed;
    struct muster_ps *ps;
    struct mu_ctx *ctx;
    uint64_t count = 0;

    if (!status)
        status = mu_ps_config_check(name, config, &count);
    if (!status && config->rows && initial)
        status = mu_ps_config_refuse(name, "a table begins without rows");
    if (!status)
        status = mu_enter(muster, &ctx);
    if (status)
        return status;
    mu_ps_config_pack(&packed, config);
    ps = ps_new(muster, name);
    status = ps ? ps_make(ps, ctx, &packed, count, initial, config->rate) : MUSTER_RESOURCE_EXHAUSTED;
    mu_exit(ctx);
    if (status)
        free(ps);
    else
        *ret_ps = ps;
    return status;
}

static enum muster_status ps_await(struct muster_ps *ps, struct mu_ctx *ctx, muster_deadline deadline)
{
    struct mu_table t = mu_table_cells(ps->seg);
    char what[MUSTER_PS_NAME_MAX + 16];
    enum muster_status status;
    struct mu_found found;
    struct mu_key k;
    struct mu_wait w;
    uint64_t was;
    bool blocks = mu_crew_block(ctx);

    name_key(&k, ps);
    snprintf(what, sizeof what, "tensor %s", ps->name);
    mu_wait_begin(&w, ps->seg, ctx, deadline, what);
    do {
        mu_wait_look(&w);
        status = head_hold(ps, ctx, &was, &found);
        if (status != MUSTER_NOT_FOUND)
            break;
        status = mu_cluster_error(ps->seg, what);
        if (!status)
            status = mu_wait_on(&w, mu_table_bucket(&t, &k), found.word);
    } while (!status);
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    return status;
}

enum muster_status muster_ps_open(struct muster *muster, const char *name, muster_deadline deadline,
                                  struct muster_ps **ret_ps)
{
    enum muster_status status = name_check(muster, name);
    struct muster_ps *ps;
    struct mu_ctx *ctx;

    if (!status)
        status = mu_enter(muster, &ctx);
    if (status)
        return status;
    ps = ps_new(muster, name);
    status = ps ? ps_await(ps, ctx, deadline) : MUSTER_RESOURCE_EXHAUSTED;
    mu_exit(ctx);
    if (status)
        free(ps);
    else
        *ret_ps = ps;
    return status;
}

void muster_ps_close(struct muster_ps *ps)
{
    struct mu_ctx *ctx;

    if (!ps)
        return;
    if (!mu_enter(ps->m, &ctx)) {
        head_drop(ps, ctx);
        mu_exit(ctx);
    }
    free(ps);
}

/* ---- what it is ---- */

static double rate_of(const struct muster_ps *ps)
{
    uint64_t bits = mu_load_relaxed(ps->rate); /* relaxed: a number of its own */
    double rate;

    memcpy(&rate, &bits, sizeof rate);
    return rate;
}

enum muster_status muster_ps_info(struct muster_ps *ps, struct muster_ps_info *ret_info)
{
    struct mu_ctx *ctx;
    enum muster_status status = ps ? mu_enter(ps->m, &ctx) : mu_fail(MUSTER_INVALID_ARGUMENT, "no tensor is given");

    if (status)
        return status;
    *ret_info = (struct muster_ps_info){.config = ps->config, .count = ps->count, .bytes = ps->count * ps->width};
    ret_info->config.rate = rate_of(ps);
    if (ps->config.rows)
        ret_info->rows = mu_ps_table_rows(ps);
    for (uint32_t i = 0; !status && !ps->config.rows && i < ps->config.shards; i++) {
        struct ps_shard s;

        status = mu_ps_shard_read(ps, ctx, i, &s);
        if (status || (i && s.version >= ret_info->version))
            continue;
        ret_info->version = s.version;
        ret_info->steps = s.steps;
        ret_info->kept = s.num_kept;
    }
    mu_exit(ctx);
    return status;
}

enum muster_status muster_ps_set_rate(struct muster_ps *ps, double rate)
{
    struct mu_ctx *ctx;
    uint64_t bits;
    enum muster_status status = ps ? mu_enter(ps->m, &ctx) : mu_fail(MUSTER_INVALID_ARGUMENT, "no tensor is given");

    if (status)
        return status;
    memcpy(&bits, &rate, sizeof bits);
    if (!(rate >= 0 && rate < 1e300))
        status = mu_ps_config_refuse(ps->name, "the optimizer's rate is a number from 0 on");
    else
        mu_store_release(ps->rate, bits); /* release: a number of its own; pairs with push_apply()'s load */
    mu_exit(ctx);
    return status;
}
