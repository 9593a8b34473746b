/*
 * ps/shard.c: one shard of a dense tensor: an object; its bundle names its values, the optimizer's state and the
 * pushes that its rounds keep. All of these are sealed objects, which never change: a push makes new ones, and one
 * commit of the shard's word (mu_object_change()) puts them in the place of the old.
 *
 * What a SIGKILL leaves: before the commit, blocks and a bundle that are OWNED by the dead slot, which the scavenger
 * frees, and the shard as it was; behind it the shard as it is to be, and an intent by which the scavenger frees what
 * was there before. Both are segment/hold.c's and segment/bundle.c's, and nothing here adds a state to theirs.
 */
#include "ps/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static bool tail_read(const struct muster_ps *ps, const struct mu_object *o, struct ps_shard *s)
{
    uint64_t words[PS_PARTS_MAX + MUSTER_PS_KEPT_MAX * 3 + PS_TAIL_WORDS];
    uint32_t parts = 1 + ps->states, refs, count;
    struct ps_tail tail;

    if (!mu_bundle_read(ps->seg, o, 0, words, 0, &refs) || refs < parts || refs - parts > MUSTER_PS_KEPT_MAX)
        return false;
    s->num_kept = refs - parts;
    count = refs + PS_TAIL_WORDS + 2 * s->num_kept;
    if (!mu_bundle_read(ps->seg, o, 0, words, count, &refs))
        return false;
    memcpy(&tail, words + refs, sizeof tail);
    if (tail.magic != PS_MAGIC)
        return false;
    s->version = tail.version;
    s->steps = tail.steps;
    memcpy(s->parts, words, parts * sizeof *words);
    memcpy(s->pushes, words + parts, s->num_kept * sizeof *words);
    memcpy(s->kept, words + refs + PS_TAIL_WORDS, s->num_kept * sizeof *s->kept);
    return true;
}

enum muster_status mu_ps_shard_read(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard, struct ps_shard *s)
{
    const mu_a64 *word = mu_object_word(ps->seg, ps->shards[shard]);
    enum muster_status status;
    struct mu_object o;

    s->ref = ps->shards[shard];
    do {
        status = mu_object_look(ps->seg, s->ref, ctx->scratch, &o);
        if (status) /* the head, which this process holds, holds the shard */
            return status == MUSTER_NOT_FOUND ? mu_object_say(ps->seg, s->ref, MUSTER_DATA_LOSS) : status;
        if (tail_read(ps, &o, s)) {
            s->word = o.word;
            s->data = o.data;
            return MUSTER_OK;
        }
    } while (!mu_word_same(mu_recheck(word), o.word));
    return mu_object_say(ps->seg, s->ref, MUSTER_DATA_LOSS);
}

enum muster_status mu_ps_shard_moved(const struct muster_ps *ps, const struct ps_shard *was)
{
    /* acquire: what was found gone went behind the commit that let it go; pairs with that commit's CAS */
    uint64_t word = mu_load_acquire(mu_object_word(ps->seg, was->ref));

    return mu_word_same(word, was->word) ? mu_object_say(ps->seg, was->ref, MUSTER_DATA_LOSS) : MUSTER_OK;
}

enum muster_status mu_ps_part_copy(const struct muster_ps *ps, struct mu_ctx *ctx, uint64_t ref, uint64_t bytes,
                                   uint64_t *words)
{
    struct mu_object o;

    if (mu_object_peek(ps->seg, ref, ctx->scratch, &o) || o.extent || o.bytes != bytes)
        return MUSTER_NOT_FOUND;
    mu_copy_out(words, (const mu_a64 *)mu_object_bytes(ps->seg, &o, true), (bytes + 7) / 8);
    return mu_word_same(mu_recheck(mu_object_word(ps->seg, ref)), o.word) ? MUSTER_OK : MUSTER_ABORTED;
}

/* ---- the next version ---- */

enum muster_status mu_ps_part_begin(struct mu_ctx *ctx, uint64_t bytes, struct ps_part *part)
{
    enum muster_status status;

    *part = (struct ps_part){.o = {.state = MU_OBJECT_SEALED, .bytes = bytes}};
    part->o.maker = MU_OBJECT_MAKER(ctx->slot, ctx->incarnation);
    status = mu_object_block(ctx, &part->o);
    if (status)
        return status;
    part->bytes = mu_object_bytes(ctx->seg, &part->o, true);
    if (part->bytes && !part->o.extent) { /* a reader of what the block was before may still copy it */
        part->target = part->bytes;
        part->bytes = malloc(bytes);
    }
    if (part->bytes)
        return MUSTER_OK;
    mu_heap_discard(ctx, part->o.data);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %llu bytes of a tensor", (unsigned long long)bytes);
}

enum muster_status mu_ps_part_done(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t bundle, uint32_t i,
                                   struct ps_part *part)
{
    part->o.task = (uint32_t)ps->m->task_id + 1;
    if (part->target) {
        mu_holding_copy_in(part->target, part->bytes, part->o.bytes);
        free(part->bytes);
    }
    part->bytes = NULL;
    return mu_hold_create(ctx, (mu_a64 *)&mu_bundle_at(ctx->seg, bundle)->refs[i], &part->o);
}

void mu_ps_part_drop(struct mu_ctx *ctx, struct ps_part *part)
{
    if (!part->bytes)
        return;
    mu_heap_discard(ctx, part->o.data);
    if (part->target)
        free(part->bytes);
    part->bytes = NULL;
}

enum muster_status mu_ps_bundle_new(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t num_kept,
                                    uint64_t *ret_bundle, struct ps_tail **ret_tail)
{
    enum muster_status status = mu_bundle_new(ctx, 1 + ps->states + num_kept,
                                              sizeof(struct ps_tail) + num_kept * sizeof(struct ps_kept), ret_bundle);

    if (!status)
        *ret_tail = (struct ps_tail *)mu_bundle_data(ctx->seg, *ret_bundle);
    return status;
}

void mu_ps_bundle_end(struct mu_ctx *ctx, uint64_t bundle)
{
    if (!bundle)
        return;
    mu_bundle_end(ctx, bundle);
    mu_bundle_finish(ctx);
}

struct replacing {
    uint64_t was, data;
};

static enum muster_status data_replaced(struct mu_object *o, void *arg)
{
    const struct replacing *r = arg;

    if (o->data != r->was)
        return MUSTER_ABORTED;
    o->data = r->data;
    return MUSTER_OK;
}

enum muster_status mu_ps_shard_commit(struct mu_ctx *ctx, const struct ps_shard *was, uint64_t data)
{
    struct replacing r = {was->data, data};

    return mu_object_change(ctx, was->ref, data, data_replaced, &r, true);
}
