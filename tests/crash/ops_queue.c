/*
 * tests/crash/ops_queue.c: operations on queues of messages.
 *
 * Before each, `victims` is a queue that the victim writes and the peer reads, with two messages, one of them long; and
 * `peers` one that the peer writes and the victim reads, with three, of which the victim has read none. After the death
 * the peer reads what the victim had written, in order and whole, and then that it is gone; it writes more than its
 * queue is deep, a third comes and reads; and when both have closed theirs no object is left.
 */
#include <stdio.h>
#include <string.h>

#include <muster/queue.h>

#include "object/holding.h"
#include "ops_kv.h"

enum { LONG = 70000, DEPTH = 3 };

static struct muster_queue *victims, *peers, *by_victim, *by_peer;
static muster_object victims_ref, peers_ref;
static unsigned before;       /* messages in `victims` */
static uint8_t another[LONG]; /* the next one */

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

static void must(enum muster_status status, const char *what)
{
    if (status)
        crash_bad("%s: %s", what, muster_last_error());
}

static enum muster_status write_one(struct muster_queue *q, size_t len, unsigned number)
{
    static uint8_t bytes[LONG];

    crash_fill(bytes, len, number);
    return muster_queue_write(q, bytes, len, 0);
}

static void check_one(const struct muster_queue_message *m)
{
    static uint8_t bytes[LONG];

    if (m->len != 20 && m->len != QUEUE_OBJECT && m->len != LONG) {
        crash_bad("message %llu has %zu bytes", (unsigned long long)m->number, m->len);
        return;
    }
    crash_fill(bytes, m->len, (unsigned)m->number);
    if (memcmp(bytes, m->data, m->len) != 0)
        crash_bad("message %llu is torn", (unsigned long long)m->number);
}

void queue_setup(const struct op *op)
{
    struct muster_queue_options few = {.depth = DEPTH, .readers = 3}, many = {.depth = 32, .readers = 3};

    must(muster_queue_create(world.m[VICTIM], &many, &victims, &victims_ref), "setup of a queue");
    must(muster_queue_create(world.m[PEER], &few, &peers, &peers_ref), "setup of a queue");
    must(muster_queue_open(world.m[PEER], victims_ref, &by_peer), "setup of a reader");
    must(muster_queue_open(world.m[VICTIM], peers_ref, &by_victim), "setup of a reader");
    must(write_one(victims, LONG, 1), "setup of a message");
    must(write_one(victims, 20, 2), "setup of a message");
    must(write_one(peers, 20, 1), "setup of a message");
    must(write_one(peers, LONG, 2), "setup of a message");
    must(write_one(peers, 20, 3), "setup of a message");
    before = 2;
    crash_fill(another, op->size, before + 1);
}

/* The writer's anchor follows with the next message. */
void queue_setup_anchor(const struct op *op)
{
    queue_setup(op);
    while (before < 17)
        must(write_one(victims, 20, ++before), "setup of a message");
    crash_fill(another, op->size, before + 1);
}

/* The victim has read the long one: its anchor follows with the next message. */
void queue_setup_read(const struct op *op)
{
    struct muster_queue_message m;

    queue_setup(op);
    must(muster_queue_read(by_victim, 0, &m), "setup of a read");
    must(muster_queue_read(by_victim, 0, &m), "setup of a read");
}

void queue_write(const struct op *op)
{
    note(muster_queue_write(victims, another, op->size, 0));
}

void queue_publish(const struct op *op)
{
    void *room;
    enum muster_status status = muster_queue_reserve(victims, op->size, 0, &room);

    if (!status) {
        mu_holding_copy_in(room, another, op->size); /* in words, as muster_queue_write() does it: each is an image */
        status = muster_queue_publish(victims);
    }
    note(status);
}

void queue_read(const struct op *op)
{
    struct muster_queue_message m;

    (void)op;
    note(muster_queue_read(by_victim, 0, &m));
}

void queue_create(const struct op *op)
{
    struct muster_queue *q;
    muster_object ref;

    (void)op;
    note(muster_queue_create(world.m[VICTIM], NULL, &q, &ref));
}

void queue_open(const struct op *op)
{
    struct muster_queue *q;

    (void)op;
    note(muster_queue_open(world.m[VICTIM], peers_ref, &q));
}

void queue_close(const struct op *op)
{
    note(muster_queue_close(op->size ? victims : by_victim));
}

/* ---- afterwards ---- */

static void read_all(void)
{
    struct muster_queue_message m;
    enum muster_status status;
    unsigned last = 0;

    while ((status = muster_queue_read(by_peer, 0, &m)) == MUSTER_OK) {
        if (m.number != last + 1)
            crash_bad("message %llu follows %u", (unsigned long long)m.number, last);
        check_one(&m);
        last = (unsigned)m.number;
    }
    if (last < before || last > before + 1)
        crash_bad("%u messages of %u were read", last, before);
    if (status != MUSTER_UNAVAILABLE && status != MUSTER_OUT_OF_RANGE)
        crash_bad("a queue whose writer died says: %s", muster_last_error());
}

static int count_one(void *arg, const struct muster_object_info *info)
{
    (void)info;
    ++*(unsigned *)arg;
    return 0;
}

void queue_after(const struct op *op)
{
    struct muster_queue *third = NULL, *none = NULL;
    struct muster_queue_message m;
    unsigned left = 0;

    (void)op;
    read_all();
    for (unsigned i = 0; i <= DEPTH; i++)
        must(write_one(peers, 20, 4 + i), "a message that nobody alive waits for");
    must(muster_queue_open(world.m[THIRD], peers_ref, &third), "a reader that comes afterwards");
    must(write_one(peers, LONG, 5 + DEPTH), "a message");
    must(muster_queue_read(third, 0, &m), "read by the one that came");
    check_one(&m);
    must(muster_queue_close(third), "close by a reader");
    if (!muster_queue_open(world.m[THIRD], victims_ref, &none))
        crash_bad("a queue is opened whose writer is dead");
    must(muster_queue_close(by_peer), "close by a reader");
    must(muster_queue_close(peers), "close by a writer");
    muster_object_list(world.m[PEER], count_one, &left);
    if (left)
        crash_bad("%u objects are left", left);
}

/* What the peer may read of the victim's, in a line; nothing where there is no queue. */
void crash_see_queues(char *text, size_t size)
{
    struct muster_queue_info info;

    *text = 0;
    if (!by_peer)
        return;
    if (muster_queue_info(by_peer, &info))
        return crash_bad("a queue: %s", muster_last_error());
    snprintf(text, size, "queue: %llu messages\n", (unsigned long long)info.written);
}

/* ---- meanwhile ---- */

/* Another queue, from its making to its end. */
void queue_in_churn(const struct op *op)
{
    struct muster_queue *q = NULL, *r = NULL;
    struct muster_queue_message m;
    enum muster_status status;
    muster_object ref;

    (void)op;
    status = muster_queue_create(world.m[PEER], NULL, &q, &ref);
    if (!status)
        status = muster_queue_open(world.m[PEER], ref, &r);
    if (!status)
        status = write_one(q, 20, 1);
    if (!status)
        status = muster_queue_read(r, 0, &m);
    if (!status)
        check_one(&m);
    if (r)
        must(muster_queue_close(r), "close by a reader");
    if (q)
        must(muster_queue_close(q), "close by a writer");
    board->outcome[1].status = status;
}

void queue_in_read(const struct op *op)
{
    struct muster_queue_message m;

    (void)op;
    board->outcome[1].status = muster_queue_read(by_peer, 0, &m);
    if (!board->outcome[1].status)
        check_one(&m);
}

void queue_in_open(const struct op *op)
{
    struct muster_queue *q = NULL;

    (void)op;
    if (!muster_queue_open(world.m[PEER], victims_ref, &q))
        muster_queue_close(q);
    board->outcome[1].status = 0;
}
