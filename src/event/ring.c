/*
 * event/ring.c: numbered broadcast events.
 *
 * The ring is an array of object words. Event q lies in word q mod cap, and a word's tag counts the events that were
 * ever written there; so {word, tag} says which event it holds without reading it, and the sequence has no holes: event
 * q is sent by the CAS of its word from tag q / cap to q / cap + 1, and nobody tries q before q - 1 is there. There is
 * no ticket that a killed sender could take with it: the CAS is the sending. The tail is a hint that anyone may move
 * forward over events that are there. The replaced event is freed like any object's old root.
 *
 * In a job of several hosts the leader's ring gives the numbers. A task elsewhere asks the leader's agent to send for
 * it; the followers' rings are filled by their agents, under the same numbers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "event/ring.h"

#include "base/clock.h"
#include "base/pack.h"
#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/hosts.h"
#include "segment/object.h"
#include "segment/remote.h"
#include "segment/wait.h"

enum { RECORD_WORDS = sizeof(struct mu_event_record) / 8 };

static uint64_t wanted_tag(const struct muster_segment *seg, uint64_t sequence)
{
    return (sequence / seg->num_events) & MU_WORD_TAG_MASK;
}

static mu_a64 *word_of(const struct muster_segment *seg, uint64_t sequence)
{
    return &seg->events[sequence & (seg->num_events - 1)];
}

/* Is event `sequence` in its word (0), not yet there (-1), or replaced by a later one (1)? Tags wrap after 2^36. */
static int event_compare(const struct muster_segment *seg, uint64_t sequence, uint64_t word)
{
    uint64_t ahead = (MU_WORD_TAG(word) - wanted_tag(seg, sequence) - 1) & MU_WORD_TAG_MASK;

    if (!ahead)
        return 0;
    return ahead > MU_WORD_TAG_MASK / 2 ? -1 : 1;
}

static enum muster_status ring_corrupt(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: its events do not follow one another",
                   seg->job);
}

/*
 * The number of the next event: from the hint on, over all that are there; and move the hint. Tags that chase one
 * another round the ring, which no sender leaves, end the search after half a circle of tags: DATA_LOSS.
 */
enum muster_status mu_event_tail(struct muster_segment *seg, uint64_t *ret_tail)
{
    mu_a64 *hint = &seg->header->event_tail;
    uint64_t from = mu_load_acquire(hint), tail = from; /* acquire: pairs with the CAS below */

    while (tail - from <= (MU_WORD_TAG_MASK / 2) * seg->num_events) {
        uint64_t w = mu_load_acquire(word_of(seg, tail)); /* acquire: pairs with the commit CAS */
        int rc = event_compare(seg, tail, w);

        if (rc < 0) {
            if (tail != from && seg->writable)
                mu_cas(hint, from, tail); /* release half: a reader that starts from it finds all below it sent */
            *ret_tail = tail;
            return MUSTER_OK;
        }
        /* a hint that is rounds behind meets a later event in its place, and jumps there */
        tail += rc ? ((MU_WORD_TAG(w) - wanted_tag(seg, tail) - 1) & MU_WORD_TAG_MASK) * seg->num_events : 1;
    }
    return ring_corrupt(seg);
}

static enum muster_status record_fill(struct mu_txn *t, const struct mu_event_record *r, const void *payload,
                                      size_t len)
{
    uint64_t words[RECORD_WORDS];
    mu_a64 *body;
    enum muster_status status = mu_txn_root(t, MU_TYPE_EVENT, 0, sizeof *r + len, 0, &body);

    if (status)
        return status;
    memcpy(words, r, sizeof *r);
    mu_copy_in(body, words, RECORD_WORDS);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t v = 0;

        memcpy(&v, (const char *)payload + i, len - i < 8 ? len - i : 8);
        mu_store_relaxed(&body[RECORD_WORDS + i / 8], v); /* relaxed: the commit CAS publishes */
    }
    return MUSTER_OK;
}

/* What the word names is to be replaced: is it something that can be freed? */
static enum muster_status replacement_begin(struct mu_txn *t, struct mu_ctx *ctx, uint64_t sequence)
{
    mu_txn_begin(t, ctx, word_of(ctx->seg, sequence));
    t->seen = mu_load_acquire(t->word); /* acquire: pairs with the commit CAS */
    t->num_olds = MU_WORD_INDEX(t->seen) ? 1 : 0;
    if (MU_WORD_INDEX(t->seen) && !mu_heap_block(ctx->seg, MU_WORD_INDEX(t->seen), NULL))
        return ring_corrupt(ctx->seg);
    return MUSTER_OK;
}

enum muster_status mu_event_send(struct mu_ctx *ctx, struct mu_event_record *record, const void *payload, size_t len)
{
    struct muster_segment *seg = ctx->seg;
    enum mu_commit commit = MU_RETRY;
    enum muster_status status = MUSTER_OK;

    while (!status && commit == MU_RETRY) {
        struct mu_txn t;

        status = mu_event_tail(seg, &record->sequence);
        if (!status)
            status = replacement_begin(&t, ctx, record->sequence);
        if (status)
            break;
        if (MU_WORD_TAG(t.seen) != wanted_tag(seg, record->sequence)) {
            if (event_compare(seg, record->sequence, t.seen) < 0)
                status = ring_corrupt(seg); /* the one a round before is missing: nobody will ever send it */
            continue;                       /* else sent by another meanwhile */
        }
        status = record_fill(&t, record, payload, len);
        if (!status)
            commit = mu_txn_commit(&t);
        if (commit == MU_RETRY)
            mu_txn_abort(&t);
    }
    if (status)
        return status;
    mu_cas(&seg->header->event_tail, record->sequence, record->sequence + 1); /* release half: as in mu_event_tail() */
    mu_bell_ring(seg);
    return MUSTER_OK;
}

enum muster_status mu_event_place(struct mu_ctx *ctx, const struct mu_event_record *record, const void *payload,
                                  size_t len)
{
    enum mu_commit commit = MU_RETRY;
    enum muster_status status = MUSTER_OK;

    while (!status && commit == MU_RETRY) {
        struct mu_txn t;

        status = replacement_begin(&t, ctx, record->sequence);
        if (status || event_compare(ctx->seg, record->sequence, t.seen) >= 0)
            break;
        status = record_fill(&t, record, payload, len);
        if (!status)
            commit = mu_txn_commit_as(&t, wanted_tag(ctx->seg, record->sequence) + 1);
        if (commit == MU_RETRY)
            mu_txn_abort(&t);
    }
    if (commit == MU_COMMITTED) /* release half: as in mu_event_tail() */
        mu_cas(&ctx->seg->header->event_tail, record->sequence, record->sequence + 1);
    return status;
}

/*
 * By the leader. The request says what the ring here will get next, too: the event's number, if it is sent at all, is
 * not below that, so where to look for one that may have been sent before is known.
 */
static enum muster_status send_there(struct muster *m, struct mu_ctx *ctx, const struct mu_event_record *record,
                                     const void *payload, size_t len, uint64_t *ret_sequence)
{
    struct mu_pack request = {0};
    struct mu_remote_call call = {.op = MU_OP_EVENT_SEND,
                                  .request = &request,
                                  .deadline = MUSTER_FOREVER,
                                  .what = "the leader to send an event",
                                  .kind = MU_WAIT_OTHER};
    struct mu_answer answer = {0};
    uint64_t tail;
    enum muster_status status = mu_event_tail(m->seg, &tail);

    if (status)
        return status;
    mu_pack_u64(&request, tail);
    mu_pack_u32(&request, record->type);
    mu_pack_blob(&request, payload, len);
    status = mu_remote_call(m, ctx, &call, &answer);
    if (!status)
        *ret_sequence = mu_unpack_u64(&answer.body);
    mu_answer_done(&answer);
    mu_pack_done(&request);
    return status;
}

enum muster_status muster_event_send(struct muster *muster, uint32_t type, const void *payload, size_t len,
                                     uint64_t *ret_sequence)
{
    struct mu_event_record record = {.type = type};
    struct mu_ctx *ctx;
    enum muster_status status;

    if (len == MUSTER_NTS)
        len = payload ? strlen(payload) : 0;
    if (len > MUSTER_EVENT_MAX || (!payload && len))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "an event's payload of %zu bytes; %u is the most", len,
                       MUSTER_EVENT_MAX);
    status = mu_enter(muster, &ctx);
    if (status)
        return status;
    record.task = (uint32_t)(muster->task_id + 1);
    record.time_ns = mu_now();
    if (mu_is_follower(muster->seg))
        status = send_there(muster, ctx, &record, payload, len, &record.sequence);
    else
        status = mu_event_send(ctx, &record, payload, len);
    if (!status && ret_sequence)
        *ret_sequence = record.sequence;
    mu_exit(ctx);
    return status;
}

enum muster_status muster_event_next(struct muster *muster, uint64_t *ret_sequence)
{
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    status = mu_event_tail(muster->seg, ret_sequence);
    mu_exit_read();
    return status;
}

/* Copy the event out of its block: 1 done, 0 replaced meanwhile, -1 not well formed. */
static int copy_event(const struct muster_segment *seg, mu_a64 *word, uint64_t seen, struct mu_event_record *ret_record,
                      void *buffer, size_t capacity, size_t *ret_len)
{
    uint32_t limit;
    struct mu_block *b = mu_heap_block(seg, MU_WORD_INDEX(seen), &limit);
    uint64_t words[RECORD_WORDS], meta;
    size_t len = 0;
    bool sound = b != NULL;

    if (sound) {
        meta = mu_load_relaxed(&b->meta); /* relaxed: re-checked below */
        len = MU_META_BYTES(meta);
        sound = MU_META_TYPE(meta) == MU_TYPE_EVENT && len >= sizeof *ret_record && MU_BLOCK_HEADER + len <= limit;
    }
    if (sound) {
        len -= sizeof *ret_record;
        mu_copy_out(words, b->body, RECORD_WORDS);
        for (size_t i = 0; i < len && i < capacity; i += 8) {
            uint64_t v = mu_load_relaxed(&b->body[RECORD_WORDS + i / 8]); /* relaxed: re-checked below */
            size_t left = (len < capacity ? len : capacity) - i;

            memcpy((char *)buffer + i, &v, left < 8 ? left : 8);
        }
    }
    if (!mu_word_same(mu_recheck(word), seen))
        return 0;
    if (!sound)
        return -1;
    memcpy(ret_record, words, sizeof *ret_record);
    *ret_len = len;
    return ret_record->task <= seg->num_tasks ? 1 : -1; /* 0: an observer */
}

static enum muster_status event_malformed(const struct muster_segment *seg, uint64_t sequence)
{
    return mu_fail(MUSTER_DATA_LOSS, "event %" PRIu64 " of job %s is not well formed", sequence, seg->job);
}

enum muster_status mu_event_copy(const struct muster_segment *seg, uint64_t sequence,
                                 struct mu_event_record *ret_record, void *buffer, size_t *ret_len)
{
    mu_a64 *word = word_of(seg, sequence);

    for (;;) {
        uint64_t seen = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
        int rc = event_compare(seg, sequence, seen);

        if (rc)
            return rc < 0 ? MUSTER_NOT_FOUND : MUSTER_OUT_OF_RANGE;
        rc = copy_event(seg, word, seen, ret_record, buffer, MUSTER_EVENT_MAX, ret_len);
        if (rc)
            return rc < 0 || ret_record->sequence != sequence || *ret_len > MUSTER_EVENT_MAX
                       ? event_malformed(seg, sequence)
                       : MUSTER_OK;
    }
}

/* The reader was overtaken: how much is lost, and where it goes on. */
static enum muster_status reader_overrun(struct muster_segment *seg, uint64_t *position, uint64_t *ret_lost)
{
    uint64_t tail, oldest, lost;
    enum muster_status status = mu_event_tail(seg, &tail);

    if (status)
        return status;
    oldest = tail > seg->num_events ? tail - seg->num_events : 0;
    if (oldest <= *position) /* overtaken between our look and now, by less than a round */
        oldest = *position + 1;
    lost = oldest - *position;
    if (ret_lost)
        *ret_lost = lost;
    *position = oldest;
    return mu_fail(MUSTER_OUT_OF_RANGE, "%" PRIu64 " events were overwritten before they were read", lost);
}

static struct muster_event event_of(const struct mu_event_record *r, size_t len, uint64_t *position)
{
    ++*position;
    return (struct muster_event){
        .sequence = r->sequence, .time_ns = r->time_ns, .task_id = (int32_t)r->task - 1, .type = r->type, .len = len};
}

enum muster_status muster_event_read(struct muster *muster, uint64_t *position, muster_deadline deadline,
                                     struct muster_event *ret_event, void *buffer, size_t capacity, uint64_t *ret_lost)
{
    struct muster_segment *seg;
    struct mu_ctx *ctx;
    struct mu_wait w;
    char what[64];
    struct mu_event_record r;
    size_t len;
    enum muster_status status = mu_enter_wait(muster, &ctx);

    if (status)
        return status;
    seg = muster->seg;
    if (ret_lost)
        *ret_lost = 0;
    snprintf(what, sizeof what, "event %" PRIu64, *position);
    mu_wait_begin(&w, seg, ctx, deadline, what);
    w.interrupt = &muster->interrupt;
    for (;;) {
        mu_a64 *word = word_of(seg, *position);
        uint64_t seen;
        int rc;

        mu_wait_look(&w);
        seen = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
        rc = event_compare(seg, *position, seen);
        if (rc > 0) {
            status = reader_overrun(seg, position, ret_lost);
            break;
        }
        if (rc == 0) {
            rc = copy_event(seg, word, seen, &r, buffer, capacity, &len);
            if (!rc)
                continue;
            if (rc < 0 || r.sequence != *position)
                status = event_malformed(seg, *position);
            else
                *ret_event = event_of(&r, len, position);
            break;
        }
        status = mu_wait_on(&w, word, seen);
        if (status)
            break;
    }
    mu_wait_end(&w);
    if (status == MUSTER_DEADLINE_EXCEEDED && mu_wait_has_begun(&w)) /* not where one look was all that was wanted */
        status = mu_cluster_say_others(muster, "who could send it");
    mu_exit(ctx);
    return status;
}
