/*
 * ps/config.c: what a tensor may be. A configuration is packed, so that two can be compared, and the head has it so.
 */
#include "ps/private.h"

#include <string.h>

#include "base/error.h"

static const uint32_t widths[] = {
    [MUSTER_PS_FLOAT] = 4, [MUSTER_PS_DOUBLE] = 8, [MUSTER_PS_INT32] = 4, [MUSTER_PS_INT64] = 8};
static const uint32_t states[] = {
    [MUSTER_PS_ADD] = 0, [MUSTER_PS_SGD] = 0, [MUSTER_PS_MOMENTUM] = 1, [MUSTER_PS_ADAM] = 2};

enum muster_status mu_ps_config_refuse(const char *name, const char *why)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "tensor %s: %s", name, why);
}

static enum muster_status config_check_numbers(const char *name, const struct muster_ps_config *c)
{
    bool real = c->type == MUSTER_PS_FLOAT || c->type == MUSTER_PS_DOUBLE;

    if ((uint32_t)c->type > MUSTER_PS_INT64 || (uint32_t)c->optimizer > MUSTER_PS_ADAM)
        return mu_ps_config_refuse(name, "no such type of numbers, or no such optimizer");
    if (c->optimizer != MUSTER_PS_ADD && !real)
        return mu_ps_config_refuse(name, "integers have no optimizer: pushes are added");
    if (c->optimizer != MUSTER_PS_ADD && !(c->rate >= 0 && c->rate < 1e300))
        return mu_ps_config_refuse(name, "the optimizer's rate is a number from 0 on");
    if (c->optimizer >= MUSTER_PS_MOMENTUM && !(c->momentum >= 0 && c->momentum < 1))
        return mu_ps_config_refuse(name, "momentum, or beta1, is a number from 0 to below 1");
    if (c->optimizer == MUSTER_PS_ADAM && !(c->beta2 >= 0 && c->beta2 < 1 && c->epsilon >= 0 && c->epsilon < 1e300))
        return mu_ps_config_refuse(name, "beta2 is a number from 0 to below 1, and epsilon one from 0 on");
    return MUSTER_OK;
}

enum muster_status mu_ps_config_check(const char *name, const struct muster_ps_config *c, uint64_t *ret_count)
{
    uint64_t count = 1;

    if (c->num_dims > MUSTER_PS_DIMS_MAX)
        return mu_ps_config_refuse(name, "it has at most 8 dimensions");
    for (uint32_t i = 0; i < c->num_dims; i++)
        if (!c->dims[i] || __builtin_mul_overflow(count, c->dims[i], &count) || count > 1ull << 40)
            return mu_ps_config_refuse(name, "a dimension is 0, or it has more than 2^40 numbers");
    *ret_count = count;
    if (c->flags & ~MUSTER_PS_AVERAGE)
        return mu_ps_config_refuse(name, "unknown flags");
    if (c->shards > MUSTER_PS_SHARDS_MAX || c->shards > count)
        return mu_ps_config_refuse(name, "it has at most 256 shards, each of a number at least");
    if (c->pushers > MUSTER_PS_KEPT_MAX || (uint64_t)c->pushers * ((uint64_t)c->staleness + 1) > MUSTER_PS_KEPT_MAX)
        return mu_ps_config_refuse(name, "a shard keeps at most 1024 pushes: pushers * (staleness + 1)");
    if (!c->pushers && (c->staleness || c->flags & MUSTER_PS_AVERAGE))
        return mu_ps_config_refuse(name, "without rounds (pushers) there is no staleness and nothing to average");
    if (c->rows && (c->pushers || c->shards > 1))
        return mu_ps_config_refuse(name, "a table has neither rounds nor shards");
    if (c->rows > MUSTER_PS_ROWS_MAX)
        return mu_ps_config_refuse(name, "a table has at most 2^28 rows");
    if (!c->rows)
        return config_check_numbers(name, c);
    if ((uint32_t)c->type <= MUSTER_PS_INT64 && count > MUSTER_PS_ROW_MAX / widths[c->type])
        return mu_ps_config_refuse(name, "a row has at most 16384 bytes");
    return config_check_numbers(name, c);
}

void mu_ps_config_pack(struct muster_ps_config *to, const struct muster_ps_config *c)
{
    memset(to, 0, sizeof *to);
    to->type = c->type;
    to->num_dims = c->num_dims;
    memcpy(to->dims, c->dims, c->num_dims * sizeof *c->dims);
    to->rows = c->rows;
    to->shards = c->shards ? c->shards : 1;
    to->pushers = c->pushers;
    to->staleness = c->staleness;
    to->flags = c->flags;
    to->optimizer = c->optimizer;
    if (c->optimizer >= MUSTER_PS_MOMENTUM)
        to->momentum = c->momentum;
    if (c->optimizer == MUSTER_PS_ADAM) {
        to->beta2 = c->beta2;
        to->epsilon = c->epsilon;
    }
}

const char *mu_ps_config_difference(const struct muster_ps_config *a, const struct muster_ps_config *b)
{
    if (a->type != b->type)
        return "type of numbers";
    if (a->num_dims != b->num_dims || memcmp(a->dims, b->dims, sizeof a->dims) != 0)
        return "shape";
    if (a->rows != b->rows)
        return "number of rows";
    if (a->shards != b->shards)
        return "number of shards";
    if (a->pushers != b->pushers || a->staleness != b->staleness || a->flags != b->flags)
        return "rounds";
    return memcmp(a, b, sizeof *a) != 0 ? "optimizer" : NULL;
}

void mu_ps_config_apply(struct muster_ps *ps, const struct muster_ps_config *packed, uint64_t count)
{
    ps->config = *packed;
    ps->count = count;
    ps->width = widths[packed->type];
    ps->states = states[packed->optimizer];
    if (packed->rows)
        mu_ps_table_plan(ps);
}
