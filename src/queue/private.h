/* queue/private.h: what the files of this room share. */
#ifndef MU_QUEUE_PRIVATE_H
#define MU_QUEUE_PRIVATE_H

#include <muster/queue.h>

#include "object/holding.h"
#include "segment/bundle.h"
#include "segment/names.h"
#include "segment/wait.h"

enum {
    MU_MQ_WHAT_MAX = 64,
    /* messages, and their bytes, behind which an anchor follows */
    MU_MQ_ANCHOR_EVERY = 16,
    MU_MQ_ANCHOR_BYTES = 65536
};

/* One end. */
struct muster_queue {
    struct muster *m;
    bool writes;
    uint64_t ref; /* the queue's object, which this process holds */
    struct mu_mq_head *head;
    struct mu_mq_line *lines;
    uint32_t num_lines;
    uint64_t maker; /* the writer */
    int32_t task;   /* likewise */

    uint64_t node;   /* the next message's object: to be written, or read */
    uint64_t number; /* its number, from 1 on */
    uint64_t anchor; /* what this process holds of the chain: `node`, or a message before it */
    uint64_t anchor_number;
    uint64_t anchor_bytes; /* of the messages from the anchor on */

    /* the writer's */
    uint64_t depth, max_bytes;
    uint64_t floor;   /* messages that all have read, as far as is known */
    uint64_t total;   /* bytes of all messages */
    uint64_t *before; /* of depth + 1: bytes of the messages before the one of this number */
    bool reserved;
    muster_object payload; /* of what is reserved: an object, or */
    uint8_t *small;        /* MUSTER_QUEUE_INLINE_MAX bytes */
    size_t len;
    muster_deadline deadline;

    /* a reader's */
    struct mu_mq_line *line;
    bool shows; /* a message, the one before `node` */
};

/* Whether the owner of a line, or a maker, is a process that lives as the same member. */
static inline bool mu_mq_lives(const struct muster_segment *seg, uint64_t maker)
{
    uint32_t slot = (uint32_t)(maker >> 16) - 1;
    uint64_t w;

    if (slot >= seg->num_slots)
        return false;
    w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim, the release and the burial */
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == (uint16_t)maker;
}

/* Bytes of the queue's object. */
static inline size_t mu_mq_bytes(uint32_t lines)
{
    return MU_LINE + sizeof(struct mu_mq_head) + lines * sizeof(struct mu_mq_line);
}

/* Where head and lines lie, from the first byte of the object on: it begins at a multiple of 64. */
static inline void mu_mq_place(struct muster_queue *q, uint8_t *bytes)
{
    uint64_t offset = mu_offset_of(q->m->seg, bytes);

    q->head = (struct mu_mq_head *)(bytes + ((offset + MU_LINE - 1) / MU_LINE * MU_LINE - offset));
    q->lines = (struct mu_mq_line *)(q->head + 1);
}

struct muster_queue *mu_mq_new(struct muster *m, bool writes);

/* "task 2 (pid 4711 on host n1)", or, when another process is that task by now, "task 2". */
const char *mu_mq_name(const struct muster_segment *seg, int32_t task, uint64_t maker, char name[MU_NAME_MAX]);

/* Read a message's object. FAILED_PRECONDITION, without a sentence: it is not written. */
struct mu_mq_written {
    uint64_t next, number, len;
    uint64_t payload; /* the object that it is, or 0 */
    uint64_t data;    /* its bundle */
};
enum muster_status mu_mq_look(struct mu_ctx *ctx, uint64_t node, struct mu_object *ret_object,
                              struct mu_mq_written *ret_written);

/* Hold `node` instead of the anchor, if that can be had now. No call is under way. True: it is the anchor. */
bool mu_mq_anchor(struct muster_queue *q);

/* The slowest reader's line, or NULL, its position and owner; how many there are. */
struct mu_mq_line *mu_mq_slowest(const struct muster_queue *q, uint64_t *ret_position, uint64_t *ret_owner,
                                 uint32_t *ret_readers);

/* The reader has read so many messages; a writer that waits for that is woken. */
void mu_mq_position(struct muster_queue *q, uint64_t number);

/* This end is the writer's, or a reader's; else FAILED_PRECONDITION. */
enum muster_status mu_mq_is(const struct muster_queue *q, bool writes);

void mu_mq_unreserve(struct muster_queue *q);

#endif
