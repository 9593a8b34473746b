/*
 * muster/queue.h: a queue of messages in shared memory, from one writer to any number of readers of the same host, each
 * of which gets every message.
 *
 * A message has any length, and never changes once it is written. Readers see the very bytes that the writer wrote. A
 * reader that waits sleeps, and so does a writer: neither polls. The queue is named by a reference of 64 bits, like an
 * object's, which may travel by any way, a key, a pipe, an object.
 *
 * The writer is at most `depth` messages, and `max_bytes` bytes, ahead of the slowest reader, and waits for that one up
 * to its deadline; then the error names it. A reader that dies, leaves or closes its end is waited for no more. Readers
 * may come at any time: they get what is written from then on. What is written while there is no reader goes.
 *
 * A writer that dies ends the readers' waits by name, once they have read what it had written. A reader that is stopped
 * keeps the messages that it has not read, and the writer, for as long as it lives: a writer that shall go on without
 * it closes the queue and makes another, or kills that task.
 *
 * Calls on one struct muster_queue are made by one thread at a time. None blocks but those with a deadline. A queue is
 * closed before its process leaves the job. Only tasks and workers have queues, and sentences and struct
 * muster_queue_info name a worker by -1; as MUSTER_JOIN_RECOVERABLE the death of a task ends no other's waits than
 * those for it. (Semantics: the message queues between the processes of inference engines.)
 */
#ifndef MUSTER_QUEUE_H
#define MUSTER_QUEUE_H

#include <muster/object.h>

#ifdef __cplusplus
extern "C" {
#endif

struct muster_queue; /* one end of a queue */

#define MUSTER_QUEUE_INLINE_MAX  4096u  /* bytes of a message that lie in the queue; a longer one is an object */
#define MUSTER_QUEUE_DEPTH_MAX   65536u /* messages */
#define MUSTER_QUEUE_READERS_MAX 256u   /* at a time */

struct muster_queue_options {
    uint32_t depth;     /* 0: 64 */
    uint32_t readers;   /* the most at a time; 0: 64 */
    uint64_t max_bytes; /* of messages that some reader has not read; one message alone may have more. 0: any */
};

/* A new queue, of which the caller is the writer; `options` may be NULL. *ret_reference is what readers open. */
MUSTER_API enum muster_status muster_queue_create(struct muster *muster, const struct muster_queue_options *options,
                                                  struct muster_queue **ret_queue, muster_object *ret_reference);

/*
 * Become a reader of what is written from now on. MUSTER_NOT_FOUND: the queue is gone; MUSTER_INVALID_ARGUMENT: the
 * reference is no queue's; MUSTER_OUT_OF_RANGE: its writer has closed it, or is gone; MUSTER_RESOURCE_EXHAUSTED: it has
 * as many readers as it may have.
 */
MUSTER_API enum muster_status muster_queue_open(struct muster *muster, muster_object reference,
                                                struct muster_queue **ret_queue);

/*
 * Give the end back; its last message is no longer valid. When the writer closes its end, readers find the end of the
 * queue behind the last message. `queue` is gone, whatever is returned; NULL is allowed, and does nothing.
 */
MUSTER_API enum muster_status muster_queue_close(struct muster_queue *queue);

/* ---- the writer ---- */

/* Wait until the queue has at least so many readers. MUSTER_DEADLINE_EXCEEDED: the text says how many there are;
 * MUSTER_INVALID_ARGUMENT: more than the queue may have. (wait_until_ready) */
MUSTER_API enum muster_status muster_queue_wait(struct muster_queue *queue, uint32_t readers, muster_deadline deadline);

/*
 * Write a message: a copy of these bytes. MUSTER_DEADLINE_EXCEEDED: the slowest reader, which the text names, has not
 * read enough; MUSTER_RESOURCE_EXHAUSTED: there was no room by the deadline; MUSTER_OUT_OF_RANGE: larger than the job
 * has room for; MUSTER_UNAVAILABLE: a task is in error; MUSTER_CANCELLED: interrupted, or the job was closed.
 */
MUSTER_API enum muster_status muster_queue_write(struct muster_queue *queue, const void *data, size_t len,
                                                 muster_deadline deadline);

/*
 * The same without a copy: room for a message, which the caller fills, and muster_queue_publish() writes. The errors of
 * muster_queue_write(). Room that was not published is given back by the next call of this, of muster_queue_write(), or
 * of muster_queue_close().
 */
MUSTER_API enum muster_status muster_queue_reserve(struct muster_queue *queue, size_t len, muster_deadline deadline,
                                                   void **ret_data);
/* MUSTER_FAILED_PRECONDITION: no room was reserved; MUSTER_RESOURCE_EXHAUSTED as muster_queue_write(), by the deadline
 * of the reservation, which stands: try again. */
MUSTER_API enum muster_status muster_queue_publish(struct muster_queue *queue);

/* ---- a reader ---- */

/* A message, read-only. */
struct muster_queue_message {
    const void *data; /* valid until the next muster_queue_read() or muster_queue_close() */
    size_t len;
    uint64_t number;      /* 1, 2, 3, ... since the queue was made */
    muster_object object; /* which the bytes are: a view of it, by muster_object_get() before the next message is read,
                             lasts longer. 0: they lie in the queue */
};

/*
 * The next message; the one before is given back. MUSTER_OUT_OF_RANGE: there are no more, the writer has closed the
 * queue; MUSTER_UNAVAILABLE: the writer, which the text names, is gone or in error, or another task is;
 * MUSTER_DEADLINE_EXCEEDED (a deadline that has passed asks without waiting), MUSTER_CANCELLED.
 */
MUSTER_API enum muster_status muster_queue_read(struct muster_queue *queue, muster_deadline deadline,
                                                struct muster_queue_message *ret_message);

/* ---- looking ---- */

struct muster_queue_info {
    muster_object reference;
    uint64_t written; /* messages */
    uint64_t slowest; /* that the slowest reader has read; `written` when there is none */
    uint32_t readers;
    int32_t slowest_task; /* -1: no reader */
    int32_t writer_task;
};
/* Never blocks. */
MUSTER_API enum muster_status muster_queue_info(const struct muster_queue *queue, struct muster_queue_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
