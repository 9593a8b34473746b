/*
 * queue/open.c: a reader comes: it takes a line, says a position, holds the writer's anchor, and walks from there to
 * the message that is to come. What a death leaves in between stands in queue.c.
 */
#include <stdlib.h>

#include "queue/private.h"
#include "segment/cluster.h"

static enum muster_status queue_foreign(const struct muster_queue *q)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "object 0x%016llx is no queue", (unsigned long long)q->ref);
}

static enum muster_status queue_ended(const struct muster_queue *q)
{
    char name[MU_NAME_MAX];

    return mu_fail(MUSTER_OUT_OF_RANGE, "queue 0x%016llx has ended: its writer, %s, has closed it, or is gone",
                   (unsigned long long)q->ref, mu_mq_name(q->m->seg, q->task, q->maker, name));
}

/* What the object says; it is held by this process. */
static enum muster_status queue_find(struct muster_queue *q, struct mu_ctx *ctx)
{
    struct mu_object o;
    enum muster_status status = mu_object_look(ctx->seg, q->ref, ctx->scratch, &o);
    uint64_t lines;

    if (status)
        return status;
    q->maker = o.maker;
    q->task = (int32_t)o.task - 1;
    if (o.state == MU_OBJECT_ERROR && !o.bytes)
        return queue_ended(q);
    if (o.state != MU_OBJECT_WRITING || !o.data || o.extent || o.bytes < mu_mq_bytes(1))
        return queue_foreign(q);
    mu_mq_place(q, mu_object_bytes(ctx->seg, &o, true));
    /* acquire: pairs with queue_make() */
    if (mu_load_acquire((mu_a64 *)&q->head->magic) != MU_MQ_MAGIC)
        return queue_foreign(q);
    lines = q->head->num_lines;
    if (!lines || lines > MUSTER_QUEUE_READERS_MAX || mu_mq_bytes((uint32_t)lines) != o.bytes)
        return mu_object_say(ctx->seg, q->ref, MUSTER_DATA_LOSS);
    q->num_lines = (uint32_t)lines;
    q->depth = q->head->depth;
    return MUSTER_OK;
}

static enum muster_status line_claim(struct muster_queue *q, uint64_t own)
{
    for (uint32_t i = 0; i < q->num_lines; i++) {
        struct mu_mq_line *line = &q->lines[i];
        uint64_t owner = mu_load_acquire(&line->owner), high; /* acquire: pairs with line_leave(), and the CAS below */

        /* acq_rel: of two that come, and of two that find the same one dead, one has it; pairs with mu_mq_slowest() */
        if ((owner && mu_mq_lives(q->m->seg, (uint32_t)owner)) || !mu_cas(&line->owner, owner, own))
            continue;
        q->line = line;
        high = mu_load_relaxed(&q->head->high); /* relaxed: the CAS looks again */
        while (high < i + 1)                    /* acq_rel: pairs with mu_mq_slowest() */
            if (mu_cas_seen(&q->head->high, &high, i + 1))
                break;
        return MUSTER_OK;
    }
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "queue 0x%016llx has all of the %u readers that it may have",
                   (unsigned long long)q->ref, q->num_lines);
}

static enum muster_status anchor_none(struct muster_queue *q, enum muster_status status)
{
    q->anchor = 0;
    return status;
}

/* Hold what the writer says that its anchor is. The writer may have gone on meanwhile; then again. */
static enum muster_status anchor_take(struct muster_queue *q)
{
    enum muster_status status;
    uint64_t last = 0;

    for (;;) {
        struct mu_ctx *ctx;

        /* acquire: before the anchor, which is of the same number or later; pairs with mu_mq_anchor() */
        mu_mq_position(q, mu_load_acquire(&q->head->floor));
        q->anchor = mu_load_acquire(&q->head->anchor); /* acquire: likewise */
        if (!q->anchor)
            return queue_ended(q);
        status = muster_object_retain(q->m, &q->anchor, 1, NULL);
        if (!status)
            return MUSTER_OK;
        if (status != MUSTER_NOT_FOUND)
            return anchor_none(q, status);
        status = mu_enter(q->m, &ctx);
        if (status)
            return anchor_none(q, status);
        status = queue_find(q, ctx); /* its end ends this, too */
        /* a writer tells of the next anchor before it drops the last, unless it leaves */
        if (!status && (!mu_mq_lives(ctx->seg, q->maker) || q->anchor == last))
            status = queue_ended(q);
        mu_exit(ctx);
        if (status)
            return anchor_none(q, status);
        last = q->anchor;
        mu_yield();
    }
}

/* From the anchor to the message that is to come. */
static enum muster_status chain_walk(struct muster_queue *q, struct mu_ctx *ctx)
{
    /* acquire: the anchor's number, or, if the writer has gone on, another: then the anchor is written, and says its
     * own. Pairs with mu_mq_anchor() */
    uint64_t number = mu_load_acquire(&q->head->anchor_next);
    enum muster_status status;
    uint64_t left = ctx->seg->num_objects;
    struct mu_mq_written w;
    struct mu_object o;

    for (q->node = q->anchor; !(status = mu_mq_look(ctx, q->node, &o, &w)); q->node = w.next) {
        number = w.number + 1;
        if (!left--) /* a chain in a circle */
            return mu_object_say(ctx->seg, q->ref, MUSTER_DATA_LOSS);
    }
    q->number = number;
    if (status != MUSTER_FAILED_PRECONDITION)
        return status;
    return o.state == MU_OBJECT_WRITING ? MUSTER_OK : queue_ended(q);
}

static enum muster_status nothing_changes(struct mu_object *o, void *arg)
{
    (void)o;
    (void)arg;
    return MUSTER_OK;
}

/* The reader has its place in the chain, so it gets each message from here on. The word of a dead owner is never that
 * of the next one. */
static void line_ready(struct mu_mq_line *line)
{
    /* release: behind the position; pairs with mu_mq_slowest() */
    mu_store_release(&line->ready, mu_load_relaxed(&line->owner));
}

static enum muster_status reader_come(struct muster_queue *q)
{
    struct mu_ledger *ledger;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(q->m, &ctx);

    if (status)
        return status;
    status = queue_find(q, ctx);
    if (!status)
        status = mu_ledger_lock(q->m, &ledger);
    if (!status) {
        uint64_t own = MU_MQ_OWNER(q->m->task_id, mu_ledger_maker(ledger));

        mu_ledger_unlock(ledger);
        status = line_claim(q, own);
    }
    mu_exit(ctx);
    if (!status)
        status = anchor_take(q);
    if (!status)
        status = mu_enter(q->m, &ctx);
    if (status)
        return status;
    status = chain_walk(q, ctx);
    if (!status) {
        q->anchor_number = q->number;
        mu_mq_position(q, q->number - 1);
        line_ready(q->line);
        /* for a writer that waits for readers; at its end there is none */
        mu_object_change(ctx, q->ref, 0, nothing_changes, NULL, true);
    }
    mu_exit(ctx);
    if (!status)
        mu_mq_anchor(q);
    return status;
}

enum muster_status muster_queue_open(struct muster *muster, muster_object reference, struct muster_queue **ret_queue)
{
    struct muster_queue *q = mu_mq_new(muster, false);
    enum muster_status status = q ? muster_object_retain(muster, &reference, 1, NULL) : MUSTER_RESOURCE_EXHAUSTED;

    if (status) {
        free(q);
        return status;
    }
    q->ref = reference;
    status = reader_come(q);
    if (status) {
        char kept[MU_SENTENCE_MAX];

        mu_error_keep(kept);
        muster_queue_close(q);
        mu_error_restore(kept);
        return status;
    }
    *ret_queue = q;
    return MUSTER_OK;
}
