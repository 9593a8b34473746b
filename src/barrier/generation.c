/*
 * barrier/generation.c: which of the groups of a name is the current one: the version of the entry that has this name.
 */
#include "barrier/generation.h"

#include <stdio.h>

#include <muster/group.h>

static void name_key(struct mu_key *k, const struct muster_segment *seg, const char *name)
{
    char bytes[MUSTER_GROUP_NAME_MAX + 2];
    int n = snprintf(bytes, sizeof bytes, "N%s", name);

    mu_key_make(k, seg, bytes, (size_t)n);
}

struct turn {
    uint64_t from, now; /* 0: there is no entry; now: as it was found */
    bool ends;
};

static enum mu_verdict take_turn(struct mu_edit *e)
{
    struct turn *t = e->arg;

    e->status = MUSTER_OK;
    e->value = "";
    e->len = 0;
    t->now = e->version;
    if (e->version != t->from)
        return MU_KEEP;
    return t->ends ? MU_DELETE : MU_PUT;
}

static enum muster_status generation_turn(struct mu_ctx *ctx, const char *name, struct turn *t, uint64_t *ret_version)
{
    struct mu_table table = mu_table_cells(ctx->seg);
    struct mu_edit e = {.arg = t};
    struct mu_key k;

    name_key(&k, ctx->seg, name);
    return mu_table_edit(&table, ctx, &k, 0, take_turn, &e, ret_version);
}

enum muster_status mu_generation_now(struct mu_ctx *ctx, const char *name, uint64_t *ret_generation)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_found f;
    struct mu_key k;
    enum muster_status status;

    name_key(&k, ctx->seg, name);
    status = mu_table_get(&t, ctx, &k, NULL, 0, &f);
    *ret_generation = status ? 0 : f.version;
    return status;
}

enum muster_status mu_generation_begin(struct mu_ctx *ctx, const char *name, uint64_t *ret_generation)
{
    struct turn t = {0};
    enum muster_status status = mu_generation_now(ctx, name, ret_generation);

    if (status || *ret_generation)
        return status;
    status = generation_turn(ctx, name, &t, ret_generation);
    if (t.now)
        *ret_generation = t.now;
    return status;
}

enum muster_status mu_generation_move_on(struct mu_ctx *ctx, const char *name, uint64_t from)
{
    struct turn t = {.from = from};

    return generation_turn(ctx, name, &t, NULL);
}

enum muster_status mu_generation_end(struct mu_ctx *ctx, const char *name, uint64_t from)
{
    struct turn t = {.from = from, .ends = true};

    return generation_turn(ctx, name, &t, NULL);
}
