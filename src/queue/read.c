/*
 * queue/read.c: a reader's end. Between two anchors a message costs a look at its object and a store to the own line.
 *
 * Whether the writer is gone is asked before the look at the message: what it had written by then is found.
 */
#include <stdio.h>

#include "queue/private.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "segment/work.h"

/* The writer is in error, though it lives. */
static bool writer_failed(const struct muster_queue *q, char *text)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    return !mu_cluster_task(q->m->seg, (uint32_t)q->task, &r, text, &cluster) && r.state == MUSTER_TASK_ERROR &&
           r.slot && MU_OBJECT_MAKER(r.slot - 1, r.slot_incarnation) == q->maker;
}

static enum muster_status writer_gone(const struct muster_queue *q)
{
    char name[MU_NAME_MAX];

    return mu_fail(MUSTER_UNAVAILABLE, "queue 0x%016llx has no writer any more: %s is gone; %llu messages were read",
                   (unsigned long long)q->ref, mu_mq_name(q->m->seg, q->task, q->maker, name),
                   (unsigned long long)q->number - 1);
}

static enum muster_status writer_closed(const struct muster_queue *q)
{
    return mu_fail(MUSTER_OUT_OF_RANGE, "queue 0x%016llx has ended: its writer closed it; %llu messages were read",
                   (unsigned long long)q->ref, (unsigned long long)q->number - 1);
}

/* That the writer is gone, or its queue; MUSTER_OK: it may still write. */
static enum muster_status writer_look(struct muster_queue *q, struct mu_ctx *ctx)
{
    char name[MU_NAME_MAX], text[MU_TEXT_MAX] = "";
    struct mu_object o;
    enum muster_status status;

    if (writer_failed(q, text))
        return mu_fail(MUSTER_UNAVAILABLE,
                       "queue 0x%016llx has no writer any more: %s is in error: %.400s; "
                       "%llu messages were read",
                       (unsigned long long)q->ref, mu_mq_name(q->m->seg, q->task, q->maker, name), text,
                       (unsigned long long)q->number - 1);
    if (!mu_mq_lives(q->m->seg, q->maker))
        return writer_gone(q);
    status = mu_object_look(ctx->seg, q->ref, ctx->scratch, &o);
    return !status && o.state != MU_OBJECT_WRITING ? writer_closed(q) : status;
}

/* What lies in the queue is seen by the mapping that nobody can write to. */
static const void *inline_bytes(struct muster_segment *seg, uint64_t data)
{
    const struct mu_mq_message *msg = (const struct mu_mq_message *)mu_bundle_data(seg, data);
    const uint8_t *base = mu_segment_map(seg, &seg->views, 0, seg->size, false);

    if (!base)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for views of the messages of job %s", seg->job);
    return base ? base + mu_offset_of(seg, msg->bytes) : NULL;
}

static enum muster_status message_show(struct muster_queue *q, struct mu_ctx *ctx, const struct mu_mq_written *w,
                                       struct muster_queue_message *ret_message)
{
    struct muster_object_view view = {0};
    enum muster_status status = MUSTER_OK;
    struct mu_object o;

    if (w->payload) {
        status = mu_object_look(ctx->seg, w->payload, ctx->scratch, &o);
        if (!status)
            status = mu_holding_show(ctx->seg, w->payload, &o, &view);
        if (!status && view.len != w->len)
            status = mu_object_say(ctx->seg, q->ref, MUSTER_DATA_LOSS);
    } else {
        view.data = w->len ? inline_bytes(ctx->seg, w->data) : NULL;
        if (w->len && !view.data)
            status = MUSTER_RESOURCE_EXHAUSTED;
    }
    if (status)
        return status;
    *ret_message =
        (struct muster_queue_message){.data = view.data, .len = w->len, .number = w->number, .object = w->payload};
    q->node = w->next;
    q->number = w->number + 1;
    q->anchor_bytes += w->len;
    q->shows = true;
    return MUSTER_OK;
}

/* The message before has been read. */
static void message_pass(struct muster_queue *q)
{
    if (!q->shows)
        return;
    q->shows = false;
    mu_mq_position(q, q->number - 1);
    if (q->number - q->anchor_number >= MU_MQ_ANCHOR_EVERY || q->anchor_bytes >= MU_MQ_ANCHOR_BYTES)
        mu_mq_anchor(q);
}

/* The message, if it is there, as *ret_message; what the chain says of its end. FAILED_PRECONDITION: not yet. */
static enum muster_status message_look(struct muster_queue *q, struct mu_ctx *ctx, struct mu_object *o,
                                       struct muster_queue_message *ret_message)
{
    struct mu_mq_written written;
    enum muster_status status = mu_mq_look(ctx, q->node, o, &written);

    if (!status)
        return message_show(q, ctx, &written, ret_message);
    if (status != MUSTER_FAILED_PRECONDITION || o->state == MU_OBJECT_WRITING)
        return status;
    if (o->state == MU_OBJECT_ERROR && o->code == MUSTER_OUT_OF_RANGE)
        return writer_closed(q);
    return o->state == MU_OBJECT_ERROR ? writer_gone(q) : mu_object_say(ctx->seg, q->node, MUSTER_DATA_LOSS);
}

static enum muster_status message_await(struct muster_queue *q, struct mu_ctx *ctx, muster_deadline deadline,
                                        struct muster_queue_message *ret_message)
{
    enum muster_status status = MUSTER_OK, ended = MUSTER_OK;
    char what[MU_MQ_WHAT_MAX], kept[MU_SENTENCE_MAX];
    bool blocks = mu_crew_block(ctx);
    struct mu_wait w;

    snprintf(what, sizeof what, "message %llu of queue 0x%016llx", (unsigned long long)q->number,
             (unsigned long long)q->ref);
    mu_wait_begin(&w, ctx->seg, ctx, deadline, what);
    for (;;) {
        struct mu_object o;

        mu_wait_look(&w);
        ended = writer_look(q, ctx);
        mu_error_keep(kept);
        status = message_look(q, ctx, &o, ret_message);
        if (status != MUSTER_FAILED_PRECONDITION)
            break;
        status = ended ? ended : mu_cluster_error(ctx->seg, what);
        if (ended)
            mu_error_restore(kept);
        if (!status)
            status = mu_wait_on(&w, mu_object_word(ctx->seg, q->node), o.word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    return status;
}

enum muster_status muster_queue_read(struct muster_queue *queue, muster_deadline deadline,
                                     struct muster_queue_message *ret_message)
{
    enum muster_status status = mu_mq_is(queue, false);
    struct mu_object o;
    struct mu_ctx *ctx;

    if (status)
        return status;
    if (mu_handle_is_ours(queue->m)) /* else mu_enter() says it */
        message_pass(queue);
    status = mu_enter(queue->m, &ctx);
    if (status)
        return status;
    status = message_look(queue, ctx, &o, ret_message);
    mu_exit(ctx);
    if (status != MUSTER_FAILED_PRECONDITION)
        return status;
    mu_mq_anchor(queue); /* a sleeper keeps nothing that it has read */
    status = mu_enter(queue->m, &ctx);
    if (status)
        return status;
    status = message_await(queue, ctx, deadline, ret_message);
    mu_exit(ctx);
    return status;
}
