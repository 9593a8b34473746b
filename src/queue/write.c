/*
 * queue/write.c: the writer's end: waiting for readers, and writing messages. What a death leaves stands in queue.c.
 *
 * The writer looks at its readers' lines when, by what it saw last, it is its depth ahead; it sleeps on the position of
 * the slowest, and is woken when that one has read half of what is between them.
 */
#include <stdio.h>

#include "queue/private.h"
#include "segment/cluster.h"
#include "segment/work.h"

/* ---- readers ---- */

enum muster_status muster_queue_wait(struct muster_queue *queue, uint32_t readers, muster_deadline deadline)
{
    enum muster_status status = mu_mq_is(queue, true);
    char what[MU_MQ_WHAT_MAX];
    uint64_t position, owner;
    uint32_t there = 0;
    struct mu_ctx *ctx;
    struct mu_wait w;
    bool blocks;

    if (!status && readers > queue->num_lines)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "%u readers of a queue that may have %u", readers, queue->num_lines);
    if (!status)
        status = mu_enter(queue->m, &ctx);
    if (status)
        return status;
    blocks = mu_crew_block(ctx);
    snprintf(what, sizeof what, "%u readers of queue 0x%016llx", readers, (unsigned long long)queue->ref);
    mu_wait_begin(&w, ctx->seg, ctx, deadline, what);
    while (!status) {
        struct mu_object o;

        mu_wait_look(&w);
        status = mu_object_look(ctx->seg, queue->ref, ctx->scratch, &o);
        mu_mq_slowest(queue, &position, &owner, &there);
        if (status || there >= readers)
            break;
        status = mu_cluster_error(ctx->seg, what);
        if (!status)
            status = mu_wait_on(&w, mu_object_word(ctx->seg, queue->ref), o.word);
    }
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        mu_fail(status, "the deadline passed while waiting for %s: there are %u", what, there);
    mu_exit(ctx);
    return status;
}

/* So many messages must all readers have read before one of `len` bytes may be written. */
static uint64_t readers_need(const struct muster_queue *q, size_t len)
{
    uint64_t written = q->number - 1, need = q->number > q->depth ? q->number - q->depth : 0;

    if (!q->max_bytes)
        return need;
    need = need < q->floor ? q->floor : need;
    while (need < written && q->total - q->before[(need + 1) % (q->depth + 1)] + len > q->max_bytes)
        need++;
    return need;
}

static enum muster_status readers_late(struct muster_queue *q, uint64_t owner, uint64_t number)
{
    char name[MU_NAME_MAX];

    mu_mq_name(q->m->seg, MU_MQ_TASK(owner), (uint32_t)owner, name);
    return mu_fail(
        MUSTER_DEADLINE_EXCEEDED,
        "the deadline passed while waiting for a reader of queue 0x%016llx: %s has read %llu of %llu messages",
        (unsigned long long)q->ref, name, (unsigned long long)number, (unsigned long long)q->number - 1);
}

/* Wait until all readers have read `need` messages. */
static enum muster_status readers_await(struct muster_queue *q, uint64_t need, muster_deadline deadline)
{
    uint64_t written = q->number - 1, position = 0, number = 0, owner = 0;
    enum muster_status status = MUSTER_OK;
    char what[MU_MQ_WHAT_MAX];
    bool blocks = false, waits = false;
    struct mu_mq_line *line;
    struct mu_ctx *ctx;
    struct mu_wait w;
    uint32_t readers;

    status = mu_enter(q->m, &ctx);
    if (status)
        return status;
    snprintf(what, sizeof what, "the readers of queue 0x%016llx", (unsigned long long)q->ref);
    mu_wait_begin(&w, ctx->seg, ctx, deadline, what);
    while (!status) {
        mu_wait_look(&w);
        line = mu_mq_slowest(q, &position, &owner, &readers);
        number = MU_MQ_NUMBER(position);
        q->floor = number < written ? number : written;
        if (!line || number >= need)
            break;
        blocks = blocks || mu_crew_block(ctx);
        status = waits ? mu_cluster_error(ctx->seg, what) : MUSTER_OK;
        waits = true;
        /* release: ahead of the mark that mu_wait_on() leaves in the position; pairs with mu_mq_position() */
        mu_store_release(&q->head->wake_at, need + (written - need) / 2);
        mu_fence_seq_cst(); /* seq_cst: ahead of the last look at the position; pairs with mu_mq_position() */
        if (!status)
            status = mu_wait_on(&w, &line->position, position);
    }
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        readers_late(q, owner, number);
    mu_exit(ctx);
    return status;
}

/* ---- messages ---- */

struct message {
    struct muster_queue *q;
    const void *data; /* of one that lies in the queue */
    size_t len;
    muster_object payload; /* the object that it is, or 0 */
    uint64_t bundle;
    struct mu_object next;
};

static enum muster_status message_sealed(struct mu_object *o, void *arg)
{
    const struct message *g = arg;

    if (o->state != MU_OBJECT_WRITING)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "queue 0x%016llx has been ended by another",
                       (unsigned long long)g->q->ref);
    o->state = MU_OBJECT_SEALED;
    o->data = g->bundle;
    o->bytes = g->payload ? 0 : g->len;
    return MUSTER_OK;
}

/* The bundle, in it the next message's object, and the commit. RESOURCE_EXHAUSTED: nothing is changed. */
static enum muster_status message_commit(struct mu_ctx *ctx, void *arg)
{
    struct message *g = arg;
    struct muster_queue *q = g->q;
    size_t bytes = g->payload ? 0 : g->len;
    enum muster_status status =
        mu_bundle_new(ctx, g->payload ? 2 : 1, sizeof(struct mu_mq_message) + bytes, &g->bundle);
    struct mu_mq_message *msg;

    if (status)
        return status;
    msg = (struct mu_mq_message *)mu_bundle_data(ctx->seg, g->bundle);
    mu_store_relaxed((mu_a64 *)&msg->number, q->number); /* relaxed, both: the commit publishes them */
    mu_store_relaxed((mu_a64 *)&msg->len, g->len);
    mu_holding_copy_in((uint8_t *)msg->bytes, g->data, bytes);
    g->next = (struct mu_object){.state = MU_OBJECT_WRITING, .task = (uint32_t)q->task + 1, .maker = q->maker};
    status = mu_hold_create(ctx, (mu_a64 *)&mu_bundle_at(ctx->seg, g->bundle)->refs[0], &g->next);
    if (!status && g->payload)
        status = mu_bundle_hold(ctx, g->bundle, 1, g->payload);
    if (!status)
        return mu_object_change(ctx, q->node, g->bundle, message_sealed, g, true);
    mu_bundle_end(ctx, g->bundle);
    mu_bundle_finish(ctx);
    return status;
}

/* It is written: what is private follows. */
static void message_count(struct muster_queue *q, const struct message *g)
{
    q->node = g->next.ref;
    q->number++;
    q->total += g->len;
    q->before[q->number % (q->depth + 1)] = q->total;
    q->anchor_bytes += g->len;
    mu_store_release(&q->head->written, q->number - 1); /* release: pairs with muster_queue_info() */
    if (q->number - q->anchor_number >= MU_MQ_ANCHOR_EVERY || q->anchor_bytes >= MU_MQ_ANCHOR_BYTES)
        mu_mq_anchor(q);
}

static enum muster_status message_write(struct muster_queue *q, struct message *g, muster_deadline deadline)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(q->m, &ctx);

    if (status)
        return status;
    status = mu_room_wait(ctx, sizeof(struct mu_mq_message) + 4 * 8 + (g->payload ? 0 : g->len), deadline,
                          message_commit, g);
    mu_exit(ctx);
    if (!status)
        message_count(q, g);
    return status;
}

/* The readers are near enough for a message of this length. */
static enum muster_status flow_await(struct muster_queue *q, size_t len, muster_deadline deadline)
{
    uint64_t need = readers_need(q, len);

    return need <= q->floor ? MUSTER_OK : readers_await(q, need, deadline);
}

enum muster_status muster_queue_write(struct muster_queue *queue, const void *data, size_t len,
                                      muster_deadline deadline)
{
    struct message g = {.q = queue, .data = data, .len = len};
    enum muster_status status = mu_mq_is(queue, true);

    if (!status) {
        mu_mq_unreserve(queue);
        status = flow_await(queue, len, deadline);
    }
    if (!status && len > MUSTER_QUEUE_INLINE_MAX)
        status = muster_object_put(queue->m, data, len, NULL, 0, deadline, &g.payload);
    if (!status)
        status = message_write(queue, &g, deadline);
    if (g.payload) {
        char kept[MU_SENTENCE_MAX];

        mu_error_keep(kept);
        muster_object_drop(queue->m, &g.payload, 1);
        mu_error_restore(kept);
    }
    return status;
}

void mu_mq_unreserve(struct muster_queue *q)
{
    if (q->payload)
        muster_object_drop(q->m, &q->payload, 1);
    q->payload = 0;
    q->reserved = false;
}

enum muster_status muster_queue_reserve(struct muster_queue *queue, size_t len, muster_deadline deadline,
                                        void **ret_data)
{
    struct muster_object_room room = {.data = queue->small};
    enum muster_status status = mu_mq_is(queue, true);

    if (!status) {
        mu_mq_unreserve(queue);
        status = flow_await(queue, len, deadline);
    }
    if (!status && len > MUSTER_QUEUE_INLINE_MAX)
        status = muster_object_create(queue->m, len, 0, deadline, &queue->payload, &room);
    if (status)
        return status;
    queue->reserved = true;
    queue->len = len;
    queue->deadline = deadline;
    *ret_data = room.data;
    return MUSTER_OK;
}

enum muster_status muster_queue_publish(struct muster_queue *queue)
{
    struct message g = {.q = queue, .data = queue->small, .len = queue->len, .payload = queue->payload};
    enum muster_status status = mu_mq_is(queue, true);
    struct muster_object_info info;

    if (!status && !queue->reserved)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "no room for a message is reserved in queue 0x%016llx",
                         (unsigned long long)queue->ref);
    if (!status && g.payload) { /* sealed already by a call that found no room then */
        status = muster_object_info(queue->m, g.payload, &info);
        if (!status && !info.sealed)
            status = muster_object_seal(queue->m, g.payload);
    }
    if (!status)
        status = message_write(queue, &g, queue->deadline);
    if (!status)
        mu_mq_unreserve(queue);
    return status;
}
