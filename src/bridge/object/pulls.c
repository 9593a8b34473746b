/*
 * bridge/object/pulls.c: all objects of other hosts that are brought here: what tasks ask, and what turns do.
 *
 * Nobody but the processes that want it holds a replica: when it is gone, so is the pull, at its next step or at the
 * sweep, which looks at some replicas at a time and takes out the cells of those that are gone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bridge/object/objects.h"

#define SWEEP_NS 500000000u
enum { MOVING_MAX = 4, SWEEP_BUCKETS = 256 };

static bool pull_is_of(const struct mu_pull *p, uint32_t home)
{
    return home == MU_EVERY_HOST || home == mu_pull_home(p);
}

/* ---- what this host's tasks ask ---- */

static void pull_fail_lost(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    char text[160], name[80];

    snprintf(text, sizeof text, "%s is lost", mu_core_host_name(core, mu_pull_home(p), name));
    if (!core->leader && core->peers[0].state == MU_PEER_LOST && mu_pull_home(p))
        snprintf(text, sizeof text, "the leader is lost, by which %s is reached", name);
    mu_pull_fail(core, ctx, p, MUSTER_UNAVAILABLE, p->o.task, text);
}

static void pull_ask(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    if (core->peers[core->leader ? mu_pull_home(p) : 0].state == MU_PEER_LOST)
        pull_fail_lost(core, ctx, p);
    else
        mu_pull_say(core, MU_SAY_WANT, p);
}

/* All that are not done, and of this home; those in hand may go meanwhile. */
static void pulls_each(struct mu_core *core, struct mu_ctx *ctx, uint32_t home,
                       void (*fn)(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p))
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_pull *p, *next;

    for (uint32_t i = 0; t->num_pulls && i < MU_OBJECT_BUCKETS; i++)
        for (p = t->pulls[i]; p; p = next) {
            next = p->next;
            if (p->state != MU_PULL_DONE && pull_is_of(p, home))
                fn(core, ctx, p);
        }
}

struct finding {
    struct mu_dispatch *t;
    bool failed;
};

static void cell_take(void *arg, uint64_t ref, uint64_t local)
{
    struct finding *f = arg;

    f->failed |= !mu_pull_find(f->t, ref) && !mu_pull_add(f->t, ref, local);
}

/* What an agent before this one left of it. */
static void pull_resume(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    struct mu_object o;

    if (mu_object_peek(ctx->seg, p->local, ctx->scratch, &o))
        mu_pull_end(core, ctx, p);
    else if (!mu_object_is_open(o.state))
        mu_pull_become(mu_dispatch_of(core), p, MU_PULL_DONE);
    else
        pull_ask(core, ctx, p);
}

/* The replicas that an agent before this one knew. */
static bool pulls_start(struct mu_core *core, struct mu_ctx *ctx)
{
    struct finding f = {mu_dispatch_of(core), false};

    if (f.t->is_started)
        return true;
    if (mu_remote_replica_walk(ctx, cell_take, &f) || f.failed)
        return false;
    f.t->is_started = true;
    pulls_each(core, ctx, MU_EVERY_HOST, pull_resume);
    return true;
}

static enum muster_status pull_want(struct mu_core *core, struct mu_ctx *ctx, uint64_t ref, uint64_t local,
                                    uint64_t *ret_local)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_pull *p = mu_pull_find(t, ref);
    enum muster_status status;

    if (p && mu_pull_lives(ctx, p)) {
        *ret_local = p->local;
        return MUSTER_OK;
    }
    if (p)
        mu_pull_end(core, ctx, p);
    *ret_local = local;
    status = mu_remote_replica_put(ctx, ref, local);
    if (status)
        return status;
    p = mu_pull_add(t, ref, local);
    if (!p) {
        mu_remote_replica_forget(ctx, ref);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an object of another host");
    }
    pull_ask(core, ctx, p);
    return MUSTER_OK;
}

bool mu_op_object_pull(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    uint64_t ref = mu_unpack_u64(&u), local = mu_unpack_u64(&u);
    struct mu_pack answer = {0};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (!status) {
        if (!mu_unpack_end(&u) || !mu_ref_is_remote(core->seg, ref) || mu_ref_is_remote(core->seg, local))
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "object 0x%016" PRIx64 " is no other host's", ref);
        else if (!pulls_start(core, ctx))
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for objects of other hosts");
        else
            status = pull_want(core, ctx, ref, local, &local);
        mu_exit(ctx);
    }
    mu_pack_u64(&answer, local);
    if (answer.failed)
        mu_call_later(core, r->host, r->slot, r->number);
    else
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, answer.bytes, status ? 0 : answer.len);
    mu_pack_done(&answer);
    return true;
}

/* ---- hosts that come and go ---- */

static void pull_say_want(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    (void)ctx;
    mu_pull_say(core, MU_SAY_WANT, p);
}

void mu_pulls_again(struct mu_core *core, uint32_t home)
{
    pulls_each(core, NULL, home, pull_say_want);
}

void mu_pulls_lost(struct mu_core *core, uint32_t home)
{
    struct mu_ctx *ctx;

    if (!mu_dispatch_of(core)->num_pulls || mu_enter(core->m, &ctx))
        return;
    pulls_each(core, ctx, home, pull_fail_lost);
    mu_exit(ctx);
}

/* ---- turns ---- */

/* Some of the replicas: those that are gone are forgotten. */
static void pulls_sweep(struct mu_core *core, struct mu_ctx *ctx)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_pull *p, *next;

    for (int i = 0; i < SWEEP_BUCKETS; i++) {
        t->sweep_bucket = (t->sweep_bucket + 1) % MU_OBJECT_BUCKETS;
        for (p = t->pulls[t->sweep_bucket]; p; p = next) {
            next = p->next;
            if (!mu_pull_lives(ctx, p))
                mu_pull_end(core, ctx, p);
        }
    }
    t->sweep_at = core->now + SWEEP_NS;
}

static void pull_look(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    struct mu_dispatch *t = mu_dispatch_of(core);

    if (core->now < p->try_at || t->moving >= MOVING_MAX)
        return;
    if (!mu_pull_lives(ctx, p)) {
        mu_pull_end(core, ctx, p);
        return;
    }
    if (mu_pull_begin(core, ctx, p))
        mu_pull_go(core, p, true);
}

void mu_pulls_look(struct mu_core *core)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    bool sweeps = t->num_pulls && core->now >= t->sweep_at;
    struct mu_pull *p, *behind;
    struct mu_ctx *ctx;

    if ((t->is_started && !t->first && !sweeps) || mu_enter(core->m, &ctx))
        return;
    pulls_start(core, ctx);
    for (p = t->first; p; p = behind) {
        behind = p->behind;
        pull_look(core, ctx, p);
    }
    if (sweeps)
        pulls_sweep(core, ctx);
    mu_exit(ctx);
}

uint64_t mu_pulls_next(struct mu_core *core)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    uint64_t next = t->num_pulls ? t->sweep_at : UINT64_MAX;

    for (const struct mu_pull *p = t->moving < MOVING_MAX ? t->first : NULL; p; p = p->behind)
        if (p->try_at < next)
            next = p->try_at;
    return next;
}

void mu_pulls_done(struct mu_core *core)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_ctx *ctx = NULL;

    if (t->num_pulls && mu_enter(core->m, &ctx))
        ctx = NULL;
    for (uint32_t i = 0; i < MU_OBJECT_BUCKETS; i++)
        while (t->pulls[i]) {
            struct mu_pull *p = t->pulls[i];

            t->pulls[i] = p->next;
            if (ctx)
                mu_pull_discard(ctx, p);
            free(p);
        }
    if (ctx)
        mu_exit(ctx);
}
