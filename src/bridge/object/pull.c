/*
 * bridge/object/pull.c: one object of another host, brought into a replica here.
 *
 * Pieces come in order, into memory that is OWNED by a thread of this agent until one commit gives it to the replica
 * and seals it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/object/objects.h"
#include "object/holding.h"

#define FULL_NS  2000000000u /* without memory for an object, before it is an error */
#define AGAIN_NS 20000000u

struct mu_pull *mu_pull_find(struct mu_dispatch *t, uint64_t ref)
{
    struct mu_pull *p = t->pulls[mu_dispatch_bucket(ref)];

    while (p && p->ref != ref)
        p = p->next;
    return p;
}

/* ---- the lists ---- */

static void pull_list(struct mu_dispatch *t, struct mu_pull *p)
{
    p->behind = NULL;
    p->before = t->last;
    *(t->last ? &t->last->behind : &t->first) = p;
    t->last = p;
}

static void pull_unlist(struct mu_dispatch *t, struct mu_pull *p)
{
    *(p->before ? &p->before->behind : &t->first) = p->behind;
    *(p->behind ? &p->behind->before : &t->last) = p->before;
}

void mu_pull_become(struct mu_dispatch *t, struct mu_pull *p, enum mu_pull_state state)
{
    t->moving += (state == MU_PULL_MOVES) - (p->state == MU_PULL_MOVES);
    if (state == MU_PULL_WAITS && p->state != MU_PULL_WAITS)
        pull_list(t, p);
    else if (state != MU_PULL_WAITS && p->state == MU_PULL_WAITS)
        pull_unlist(t, p);
    p->state = state;
}

struct mu_pull *mu_pull_add(struct mu_dispatch *t, uint64_t ref, uint64_t local)
{
    struct mu_pull *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->ref = ref;
    p->local = local;
    p->next = t->pulls[mu_dispatch_bucket(ref)];
    t->pulls[mu_dispatch_bucket(ref)] = p;
    t->num_pulls++;
    return p;
}

/* ---- memory, and the commit ---- */

/* What has come is thrown away. */
void mu_pull_discard(struct mu_ctx *ctx, struct mu_pull *p)
{
    if (p->o.data && mu_heap_inherit(ctx, p->o.data))
        mu_heap_discard(ctx, p->o.data);
    p->o.data = p->o.extent = 0;
    p->have = p->said = 0;
}

void mu_pull_say(struct mu_core *core, enum mu_dispatch_said what, const struct mu_pull *p)
{
    mu_dispatch_tell(core, what, mu_pull_home(p), p->ref, NULL, NULL);
}

/* The replica is gone, or nobody can be told what stands for the reference. */
void mu_pull_end(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_pull **at = &t->pulls[mu_dispatch_bucket(p->ref)];

    if (p->state != MU_PULL_DONE)
        mu_pull_say(core, MU_SAY_END, p);
    mu_pull_discard(ctx, p);
    mu_pull_become(t, p, MU_PULL_DONE);
    mu_remote_replica_forget(
        ctx, p->ref); /* where it fails the cell names what is gone, until the next agent's first look */
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    t->num_pulls--;
    free(p);
}

bool mu_pull_lives(struct mu_ctx *ctx, const struct mu_pull *p)
{
    struct mu_object o;

    return mu_object_peek(ctx->seg, p->local, ctx->scratch, &o) != MUSTER_NOT_FOUND;
}

static enum muster_status replica_sealed(struct mu_object *o, void *arg)
{
    const struct mu_object *come = arg;

    if (o->state != MU_OBJECT_WRITING || o->maker != MU_OBJECT_REMOTE)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016" PRIx64 " is no open replica", o->ref);
    o->state = come->state;
    o->code = come->code;
    o->task = come->task;
    o->data = come->data;
    o->extent = come->extent;
    o->bytes = come->bytes;
    o->meta = come->meta;
    return MUSTER_OK;
}

/* All of it has come: the commit. The pull may be gone behind it. */
static void pull_commit(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    enum muster_status status;

    if (p->o.data && !mu_heap_inherit(ctx, p->o.data))
        p->o.data = 0; /* not this agent's any more: its segment is another's to mend */
    status = mu_object_change(ctx, p->local, p->o.data, replica_sealed, &p->o, false);
    p->o.data = p->o.extent = 0; /* the replica's, or freed */
    p->have = p->said = 0;
    if (status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE) { /* no room for a root: from the start */
        mu_pull_become(t, p, MU_PULL_WAITS);
        p->try_at = core->now + AGAIN_NS;
        return;
    }
    mu_pull_say(core, MU_SAY_END, p);
    mu_pull_become(t, p, MU_PULL_DONE);
    if (status) /* gone, or no replica of ours */
        mu_pull_end(core, ctx, p);
}

/* It will not come. */
void mu_pull_fail(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p, enum muster_status code, uint32_t task,
                  const char *text)
{
    size_t len = strnlen(text, MU_OBJECT_TEXT);

    mu_pull_discard(ctx, p);
    p->o = (struct mu_object){.state = MU_OBJECT_ERROR, .code = (uint32_t)code, .task = task, .bytes = len};
    if (len && !mu_object_block(ctx, &p->o))
        mu_holding_copy_in(mu_object_bytes(ctx->seg, &p->o, true), text, len);
    if (!p->o.data)
        p->o.bytes = 0;
    pull_commit(core, ctx, p);
}

static void pull_fail_full(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p, enum muster_status code)
{
    char text[MU_OBJECT_TEXT + 1], name[80];

    snprintf(text, sizeof text, "%s has no room for it: %s", mu_core_host_name(core, core->host, name),
             muster_last_error());
    mu_pull_fail(core, ctx, p, code, p->o.task, text);
}

/* Memory for it, if that is there and it is its turn; what comes next is asked for, or it is there already. False: not
 * yet, or it is an error, and may be gone. */
bool mu_pull_begin(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    enum muster_status status = MUSTER_OK;

    p->try_at = core->now + AGAIN_NS;
    if (p->o.state == MU_OBJECT_ERROR) { /* there was no room even for that; its words are lost */
        p->o.bytes = 0;
        pull_commit(core, ctx, p);
        return false;
    }
    if (p->whole)
        status = mu_object_block(ctx, &p->o);
    if (!status && p->whole && !mu_object_bytes(ctx->seg, &p->o, true)) {
        mu_pull_discard(ctx, p);
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for large objects");
    }
    if (status == MUSTER_RESOURCE_EXHAUSTED && !p->full_at)
        p->full_at = core->now;
    if (status == MUSTER_RESOURCE_EXHAUSTED && core->now - p->full_at < FULL_NS)
        return false;
    if (status) {
        pull_fail_full(core, ctx, p, status);
        return false;
    }
    p->full_at = 0;
    p->have = p->said = 0;
    mu_pull_become(t, p, MU_PULL_MOVES);
    return true;
}

/* `anew`: nothing is on its way that counts. */
void mu_pull_go(struct mu_core *core, struct mu_pull *p, bool anew)
{
    struct mu_pack rest = {0};

    p->said = p->have;
    mu_pack_u64(&rest, p->have);
    mu_pack_u8(&rest, anew);
    mu_dispatch_tell(core, MU_SAY_GO, mu_pull_home(p), p->ref, &rest, NULL);
    mu_pack_done(&rest);
}

/* The next bytes of it. The last ones seal it. */
static void pull_write(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p, const uint8_t *bytes, size_t len)
{
    uint8_t *to = mu_object_bytes(ctx->seg, &p->o, true);

    if (p->o.extent)
        memcpy(to + p->have, bytes, len);
    else /* a block: in one piece */
        mu_holding_copy_in(to, bytes, len);
    p->have += len;
    if (p->have == p->whole)
        pull_commit(core, ctx, p);
    else /* each piece: what may be on the way can be as small as one */
        mu_pull_go(core, p, false);
}

/* ---- what the home says ---- */

struct pull_news {
    uint8_t what;
    uint32_t code, task, meta;
    uint64_t bytes;
    char text[MU_OBJECT_TEXT + 1];
};

static bool news_are_sound(const struct pull_news *n, const struct mu_unpack *u)
{
    const struct mu_object o = {.bytes = n->bytes, .meta = n->meta};

    if (u->failed || n->what > MU_OBJECT_ERROR || n->task > 65535 || n->code > MUSTER_DATA_LOSS ||
        n->bytes > (uint64_t)MU_UNITS_MAX * MU_UNIT || (u->left && u->left != mu_object_whole(&o)) ||
        (!n->code && (n->what == MU_IS_GONE || n->what == MU_OBJECT_ERROR))) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "an object cannot be so");
        return false;
    }
    return true;
}

/* It is sealed, and as large as that. */
static void pull_sealed(struct mu_core *core, struct mu_ctx *ctx, struct mu_pull *p, const struct pull_news *n,
                        const struct mu_unpack *u)
{
    struct mu_dispatch *t = mu_dispatch_of(core);

    if (p->state == MU_PULL_MOVES) { /* it goes on where it was */
        mu_pull_go(core, p, true);
        return;
    }
    p->o = (struct mu_object){.state = MU_OBJECT_SEALED, .bytes = n->bytes, .meta = n->meta, .task = n->task};
    p->whole = n->bytes || n->meta ? mu_object_whole(&p->o) : 0;
    mu_pull_become(t, p, MU_PULL_WAITS);
    p->try_at = 0;
    if (p->whole && !u->left) /* the next look has its turn */
        return;
    if (!mu_pull_begin(core, ctx, p)) /* no memory: its bytes are asked for later; or an error */
        return;
    if (p->whole)
        pull_write(core, ctx, p, u->at, u->left);
    else
        pull_commit(core, ctx, p);
}

bool mu_pull_take_is(struct mu_core *core, uint32_t home, uint64_t ref, struct mu_unpack *u)
{
    struct mu_pull *p = mu_pull_find(mu_dispatch_of(core), ref);
    struct pull_news n = {.what = mu_unpack_u8(u), .code = mu_unpack_u32(u), .task = mu_unpack_u32(u)};
    struct mu_ctx *ctx;

    n.bytes = mu_unpack_u64(u);
    n.meta = mu_unpack_u32(u);
    mu_unpack_text(u, n.text, sizeof n.text);
    if (!news_are_sound(&n, u))
        return false;
    if (!p || p->state == MU_PULL_DONE) {
        mu_dispatch_tell(core, MU_SAY_END, home, ref, NULL, NULL);
        return true;
    }
    if (n.what == MU_IS_OPEN || mu_enter(core->m, &ctx))
        return true;
    if (!mu_pull_lives(ctx, p))
        mu_pull_end(core, ctx, p);
    else if (n.what == MU_OBJECT_SEALED)
        pull_sealed(core, ctx, p, &n, u);
    else
        mu_pull_fail(core, ctx, p, (enum muster_status)n.code, n.task, n.text);
    mu_exit(ctx);
    return true;
}

bool mu_pull_take_piece(struct mu_core *core, uint64_t ref, struct mu_unpack *u)
{
    struct mu_pull *p = mu_pull_find(mu_dispatch_of(core), ref);
    uint64_t offset = mu_unpack_u64(u);
    struct mu_ctx *ctx;

    if (u->failed || !u->left) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "a piece without bytes");
        return false;
    }
    /* of an earlier connection, or of a pull that is gone: it is not wanted */
    if (!p || p->state != MU_PULL_MOVES || offset > p->have || p->have - offset >= u->left ||
        u->left > p->whole - offset || (!p->o.extent && u->left != p->whole) || mu_enter(core->m, &ctx))
        return true;
    mu_unpack_raw(u, p->have - offset); /* it has come before */
    if (!mu_pull_lives(ctx, p))
        mu_pull_end(core, ctx, p);
    else
        pull_write(core, ctx, p, u->at, u->left);
    mu_exit(ctx);
    return true;
}
