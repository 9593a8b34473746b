/*
 * queue/queue.c: queues of messages: making, closing, and looking at them.
 *
 * A queue is a chain of objects, each of which holds the next one. The last is not sealed: it is the message to come.
 *
 *     the queue's object: head, lines           writer's anchor          reader's anchor
 *        │ anchor (a hint)                             │                        │
 *        └───────────────► message n ──► message n+1 ──► message n+2 ──► to be written (WRITING)
 *                          bundle {next, payload; number, bytes}
 *
 * To write is one commit: the WRITING object becomes SEALED with a bundle that holds its successor, which was created
 * in that very bundle before. So a message is written whole with the place of the next one, or not at all; readers wait
 * for it as for any object, by its word. A message goes when no process's anchor is before it, as counted references
 * go (segment/hold.c): whatever a dead writer or reader held, its ledger gives back. There is nothing to repair:
 *
 *   the writer dies before the commit   bundle and successor are the dead slot's, and the sweep ends them; the message
 *                                       to come is WRITING, and the reader that finds its writer's slot given up, or
 *                                       dead, says so. It looks in that order, so it loses no message.
 *   behind it                           the message is written. `written` and the hints of anchors are behind by one:
 *                                       they count nothing, and a dead writer's queue takes no reader.
 *   a reader dies                       its line has an owner that does not live: nobody waits for it, and the next
 *                                       reader that comes takes the line, by CAS.
 *   in the midst of coming              likewise: it has a line, and perhaps an anchor in its ledger.
 *
 * A line's position is written by its owner alone. A reader that comes takes the line first, then says a position that
 * is not above the anchor that it will take, then takes the anchor: so what it holds is never more than what its
 * position says, and the writer stays within its depth. A position is a hint of the flow, not the truth about
 * references.
 *
 * Anchors follow the position every 16 messages or 64 KiB, and before a sleep: the steps between touch no count.
 * tests/model/queue.pml has the chain, anchors, positions and deaths.
 */
#include <stdio.h>
#include <stdlib.h>

#include "queue/private.h"
#include "segment/cluster.h"
#include "sync/futex.h"

enum { DEFAULT_DEPTH = 64, DEFAULT_READERS = 64 };

/* ---- what all files need ---- */

static bool is_record_of(const struct mu_task_record *r, uint64_t maker)
{
    return r->slot && MU_OBJECT_MAKER(r->slot - 1, r->slot_incarnation) == maker;
}

const char *mu_mq_name(const struct muster_segment *seg, int32_t task, uint64_t maker, char name[MU_NAME_MAX])
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (task >= 0 && !mu_cluster_task(seg, (uint32_t)task, &r, NULL, &cluster) && is_record_of(&r, maker))
        mu_cluster_place(seg, (uint32_t)task, &r, name);
    else
        snprintf(name, MU_NAME_MAX, "%s", MU_LABEL(seg, task));
    return name;
}

enum muster_status mu_mq_is(const struct muster_queue *q, bool writes)
{
    if (q->writes == writes)
        return MUSTER_OK;
    return mu_fail(MUSTER_FAILED_PRECONDITION, "this end of queue 0x%016llx is %s", (unsigned long long)q->ref,
                   writes ? "a reader's" : "the writer's");
}

enum muster_status mu_mq_look(struct mu_ctx *ctx, uint64_t node, struct mu_object *o, struct mu_mq_written *ret_written)
{
    enum muster_status status = mu_object_peek(ctx->seg, node, ctx->scratch, o);
    const struct mu_mq_message *msg;
    const struct mu_bundle *b;

    if (status == MUSTER_NOT_FOUND)
        return mu_object_say(ctx->seg, node, status);
    if (status)
        return status;
    if (o->state != MU_OBJECT_SEALED)
        return MUSTER_FAILED_PRECONDITION;
    b = o->data & MU_REF_HOLDS ? mu_bundle_at(ctx->seg, o->data) : NULL;
    if (!b || b->count < 1 || b->count > 2 || o->bytes > MUSTER_QUEUE_INLINE_MAX ||
        !mu_bundle_is_sound(ctx->seg, o->data, (uint32_t)b->count, sizeof *msg + o->bytes))
        return mu_object_say(ctx->seg, node, MUSTER_DATA_LOSS);
    msg = (const struct mu_mq_message *)mu_bundle_data(ctx->seg, o->data);
    *ret_written = (struct mu_mq_written){.next = b->refs[0],
                                          .number = msg->number,
                                          .len = b->count == 2 ? msg->len : o->bytes,
                                          .payload = b->count == 2 ? b->refs[1] : 0,
                                          .data = o->data};
    return MUSTER_OK;
}

bool mu_mq_anchor(struct muster_queue *q)
{
    char kept[MU_SENTENCE_MAX];
    bool done;

    if (q->anchor == q->node)
        return true;
    mu_error_keep(kept);
    done = !muster_object_retain(q->m, &q->node, 1, NULL);
    if (done) {
        if (q->writes) {
            /* release, all: a reader that sees the anchor sees its number; the floor is not above what the anchor is */
            mu_store_release(&q->head->anchor_next, q->number);
            mu_store_release(&q->head->anchor, q->node);
            mu_store_release(&q->head->floor, q->number - 1);
        }
        muster_object_drop(q->m, &q->anchor, 1);
        q->anchor = q->node;
        q->anchor_number = q->number;
        q->anchor_bytes = 0;
    }
    mu_error_restore(kept);
    return done;
}

struct mu_mq_line *mu_mq_slowest(const struct muster_queue *q, uint64_t *ret_position, uint64_t *ret_owner,
                                 uint32_t *ret_readers)
{
    uint64_t high = mu_load_acquire(&q->head->high); /* acquire: pairs with line_claim() */
    struct mu_mq_line *slowest = NULL;

    *ret_position = MU_MQ_POSITION(MU_MQ_LEFT);
    *ret_readers = 0;
    for (uint64_t i = 0; i < high && i < q->num_lines; i++) {
        uint64_t owner = mu_load_acquire(&q->lines[i].owner);       /* acquire: pairs with line_claim() */
        uint64_t position = mu_load_acquire(&q->lines[i].position); /* acquire: pairs with mu_mq_position() */

        if (!owner || !mu_mq_lives(q->m->seg, (uint32_t)owner))
            continue;
        *ret_readers += mu_load_acquire(&q->lines[i].ready) == owner; /* acquire: pairs with line_ready() */
        if (MU_MQ_NUMBER(position) < MU_MQ_NUMBER(*ret_position)) {
            *ret_position = position;
            *ret_owner = owner;
            slowest = &q->lines[i];
        }
    }
    return slowest;
}

void mu_mq_position(struct muster_queue *q, uint64_t number)
{
    mu_a64 *word = &q->line->position;
    uint64_t seen = mu_load_relaxed(word), next; /* relaxed: the CAS looks again */

    do {
        next = MU_MQ_POSITION(number);
        /* acquire: the writer's mark comes behind `wake_at`; pairs with the store in readers_await() */
        if ((seen & MU_WORD_S) && number < mu_load_acquire(&q->head->wake_at))
            next |= MU_WORD_S;
        /* acq_rel: what was read is read; pairs with mu_mq_slowest() */
    } while (!mu_cas_seen(word, &seen, next));
    if (next & MU_WORD_S) {
        /* seq_cst: `wake_at` falls under a mark of an earlier sleep; pairs with the fence in readers_await(): the
         * writer sees this position before it sleeps, or its `wake_at` is seen here */
        mu_fence_seq_cst();
        if (number < mu_load_acquire(&q->head->wake_at)) /* acquire: as above */
            return;
    }
    if (seen & MU_WORD_S)
        mu_futex_wake(word);
}

/* ---- making one ---- */

struct muster_queue *mu_mq_new(struct muster *m, bool writes)
{
    struct muster_queue *q = calloc(1, sizeof *q);

    if (!q)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a queue");
    else
        *q = (struct muster_queue){.m = m, .writes = writes, .number = 1};
    return q;
}

static void queue_free(struct muster_queue *q)
{
    free(q->before);
    free(q->small);
    free(q);
}

/* The first message to come, held by this process: the chain's beginning. */
static enum muster_status chain_begin(struct muster_queue *q)
{
    struct mu_object o = {.state = MU_OBJECT_WRITING, .task = (uint32_t)q->task + 1};
    struct mu_ledger *ledger;
    struct mu_holding *h;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(q->m, &ctx);

    if (status)
        return status;
    status = mu_ledger_lock(q->m, &ledger);
    if (!status) {
        q->maker = mu_ledger_maker(ledger);
        status = mu_holding_new(ledger, ctx, &o, false, &h);
        mu_ledger_unlock(ledger);
    }
    mu_exit(ctx);
    if (!status)
        q->node = q->anchor = o.ref;
    q->anchor_number = q->number;
    return status;
}

/* The object that the queue is: nobody has its reference yet. */
static enum muster_status queue_make(struct muster_queue *q, uint32_t lines)
{
    struct muster_object_room room;
    enum muster_status status = muster_object_create(q->m, mu_mq_bytes(lines), 0, 0, &q->ref, &room);

    if (status)
        return status;
    q->num_lines = lines;
    mu_mq_place(q, room.data);
    for (size_t i = 0; i < (mu_mq_bytes(lines) - MU_LINE) / 8; i++)
        mu_store_relaxed((mu_a64 *)q->head + i, 0); /* relaxed: a reader of what was there before may copy it still */
    q->head->num_lines = lines;
    q->head->depth = q->depth;
    q->head->max_bytes = q->max_bytes;
    mu_store_relaxed(&q->head->anchor_next, 1); /* relaxed, both: the magic publishes them */
    mu_store_relaxed(&q->head->anchor, q->anchor);
    mu_store_release((mu_a64 *)&q->head->magic, MU_MQ_MAGIC); /* release: pairs with queue_find() */
    return MUSTER_OK;
}

static enum muster_status options_check(const struct muster_queue_options *o)
{
    if (o->depth > MUSTER_QUEUE_DEPTH_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a queue of %u messages; %u are the most", o->depth,
                       MUSTER_QUEUE_DEPTH_MAX);
    if (o->readers > MUSTER_QUEUE_READERS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a queue with %u readers; %u are the most", o->readers,
                       MUSTER_QUEUE_READERS_MAX);
    return MUSTER_OK;
}

enum muster_status muster_queue_create(struct muster *muster, const struct muster_queue_options *options,
                                       struct muster_queue **ret_queue, muster_object *ret_reference)
{
    struct muster_queue_options o = options ? *options : (struct muster_queue_options){0};
    enum muster_status status = options_check(&o);
    struct muster_queue *q = status ? NULL : mu_mq_new(muster, true);

    if (!q)
        return status ? status : MUSTER_RESOURCE_EXHAUSTED;
    q->task = muster ? muster->task_id : -1;
    q->depth = o.depth ? o.depth : DEFAULT_DEPTH;
    q->max_bytes = o.max_bytes;
    q->before = calloc(q->depth + 1, sizeof *q->before);
    q->small = malloc(MUSTER_QUEUE_INLINE_MAX);
    if (!q->before || !q->small)
        status =
            mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a queue of %llu messages", (unsigned long long)q->depth);
    if (!status)
        status = chain_begin(q);
    if (!status)
        status = queue_make(q, o.readers ? o.readers : DEFAULT_READERS);
    if (status) {
        if (q->anchor)
            muster_object_drop(muster, &q->anchor, 1);
        queue_free(q);
        return status;
    }
    *ret_queue = q;
    *ret_reference = q->ref;
    return MUSTER_OK;
}

/* ---- its end ---- */

static void line_leave(struct muster_queue *q)
{
    if (!q->line)
        return;
    mu_mq_position(q, MU_MQ_LEFT);
    mu_store_relaxed(&q->line->ready, 0); /* relaxed: the release of the owner orders it */
    mu_store_release(&q->line->owner, 0); /* release: behind the position; pairs with line_claim() */
    q->line = NULL;
}

static enum muster_status chain_ends(struct mu_object *o, void *arg)
{
    (void)arg;
    if (o->state != MU_OBJECT_WRITING)
        return MUSTER_ALREADY_EXISTS;
    o->state = MU_OBJECT_ERROR;
    o->code = MUSTER_OUT_OF_RANGE;
    return MUSTER_OK;
}

/* Where there is no room for that, the queue's object, dropped unsealed, says it. */
static void chain_end(struct muster_queue *q)
{
    struct mu_ctx *ctx;

    if (mu_enter(q->m, &ctx))
        return;
    mu_object_change(ctx, q->node, 0, chain_ends, NULL, true);
    mu_exit(ctx);
}

enum muster_status muster_queue_close(struct muster_queue *queue)
{
    enum muster_status status = MUSTER_OK;

    if (!queue)
        return MUSTER_OK;
    if (!mu_handle_is_ours(queue->m)) { /* a child's copy of its parent's end, which stays */
        queue_free(queue);
        return MUSTER_OK;
    }
    if (queue->writes) {
        mu_mq_unreserve(queue);
        mu_store_release(&queue->head->anchor, 0); /* release: pairs with anchor_take() */
        chain_end(queue);
    } else {
        line_leave(queue);
    }
    if (queue->anchor)
        status = muster_object_drop(queue->m, &queue->anchor, 1);
    if (!status)
        status = muster_object_drop(queue->m, &queue->ref, 1);
    queue_free(queue);
    return status;
}

enum muster_status muster_queue_info(const struct muster_queue *queue, struct muster_queue_info *ret_info)
{
    enum muster_status status = mu_enter_read(queue->m);
    uint64_t owner = 0, position;

    if (status)
        return status;
    *ret_info = (struct muster_queue_info){.reference = queue->ref, .slowest_task = -1, .writer_task = queue->task};
    ret_info->written = mu_load_acquire(&queue->head->written); /* acquire: pairs with the store behind a message */
    if (mu_mq_slowest(queue, &position, &owner, &ret_info->readers))
        ret_info->slowest_task = MU_MQ_TASK(owner);
    ret_info->slowest = MU_MQ_NUMBER(position);
    if (ret_info->slowest > ret_info->written)
        ret_info->slowest = ret_info->written;
    mu_exit_read();
    return MUSTER_OK;
}
