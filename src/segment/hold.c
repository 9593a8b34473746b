/*
 * segment/hold.c: objects of the tasks, and counted references to them.
 *
 * Invariant: an object's count is the number of records that hold it, where a record that is claimed counts as its
 * operation's mark says. Linearization: take, drop and every change at the CAS of the object's word (mu_txn_commit()).
 *
 * Count and record are two words. So the commit that changes the count leaves a mark in the root, {slot, number of the
 * operation}, and the record is claimed for the same operation from before that commit until after it:
 *
 *   op_begin()      the slot: what is changed, then the number and the kind of the operation (release)
 *   claim           the record: 0 or the reference -> {slot, number}
 *   object_edit()   the commit: count and mark in one root
 *   the record      what it is from now on
 *   op_end()        the slot: no operation
 *
 * What a SIGKILL leaves, and how mu_hold_resolve() repairs it, before the scavenger frees the slot:
 *   before the claim    the record as it was                    nothing
 *   behind it           a claim, and no mark                    the record as it was
 *   behind the commit   a claim, and the mark                   the record as it is to be
 *   the same, of the last reference: the object is gone         the record is 0
 *   behind the record   nothing but a stale mark                the next commit leaves it out
 * Each commit leaves out the marks of operations that have ended and of slots that are FREE: an operation that has
 * ended stays so, since numbers are never used again. The mark of a dead slot stays until that slot is finished.
 * tests/model/hold.pml has the counts, the records, the marks and the heir.
 */
#include "segment/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "segment/bundle.h"
#include "segment/work.h"
#include "segment/slot.h"

enum {
    SCAN = 64,     /* words looked at in a row, */
    PLACES = 4,    /* at so many places, before more are committed */
    PATIENCE = 256 /* times that a change is tried again, yielding, where there is no memory */
};

/* ---- marks and operations ---- */

/* Whether the operation of the mark may still be looked for. */
static bool mark_stands(const struct muster_segment *seg, uint64_t mark)
{
    uint32_t slot = MU_HOLD_SLOT(mark);
    uint64_t op;

    if (slot >= seg->num_slots)
        return false;
    /* acquire, both: pair with the claim and the release of the slot, and with op_begin() and op_end(). Read early they
     * may say that it stands; that it does not stays true. */
    if (MU_SLOT_STATE(mu_load_acquire(&seg->slots[slot].word)) == MU_SLOT_FREE)
        return false;
    op = mu_load_acquire(&seg->slots[slot].op);
    return MU_HOLD_KIND(op) != MU_HOLD_NONE && MU_HOLD_MARK(slot, MU_HOLD_OP_NUMBER(op)) == mark;
}

static uint64_t op_begin(struct mu_ctx *ctx, uint32_t kind, uint64_t ref, const mu_a64 *record)
{
    struct mu_slot *own = ctx->own;
    uint64_t number = MU_HOLD_OP_NUMBER(mu_load_relaxed(&own->op)) + 1; /* relaxed, as all here: our own words */

    if (!(number & MU_HOLD_BITS)) /* so that no claim is 0 */
        number++;
    mu_store_relaxed(&own->op_object, ref);
    mu_store_relaxed(&own->op_record, mu_offset_of(ctx->seg, record));
    /* release: pairs with the acquire in mu_hold_resolve(), which reads the others behind it */
    mu_store_release(&own->op, MU_HOLD_OP(number, kind));
    return number;
}

static void op_end(struct mu_ctx *ctx)
{
    uint64_t op = mu_load_relaxed(&ctx->own->op); /* relaxed: our own */

    /* release: the record is what it is to be when no operation is found; pairs with mark_stands() */
    mu_store_release(&ctx->own->op, MU_HOLD_OP(MU_HOLD_OP_NUMBER(op), MU_HOLD_NONE));
}

/* ---- commits ---- */

/* The root that says what `o` says, with the marks that stand and `mark`, if it is not 0. */
static enum muster_status root_write(struct mu_txn *t, const struct mu_object *o, uint64_t mark, uint32_t flags)
{
    const struct muster_segment *seg = t->ctx->seg;
    uint64_t stand[MU_HOLD_MARKS_MAX + 1];
    uint32_t n = 0;
    enum muster_status status;
    mu_a64 *body;

    for (uint32_t i = 0; i < o->num_marks && n < MU_HOLD_MARKS_MAX; i++)
        if (mark_stands(seg, o->marks[i]))
            stand[n++] = o->marks[i];
    if (n == MU_HOLD_MARKS_MAX) /* that many threads are in the middle of theirs: those that end make room */
        return mu_fail(MUSTER_UNAVAILABLE, "object 0x%016llx is changed by too many at once",
                       (unsigned long long)o->ref);
    if (mark)
        stand[n++] = mark;
    status = mu_txn_root(t, MU_TYPE_OBJECT, 1, sizeof(struct mu_object_root) + n * 8ull, flags, &body);
    if (status)
        return status;
    /* relaxed, as all here: the commit's CAS publishes them */
    mu_store_relaxed(&body[0], o->data);
    mu_store_relaxed(&body[1], o->ref);
    mu_store_relaxed(&body[2], MU_OBJECT_STATE(o->count, n, o->state));
    mu_store_relaxed(&body[3], o->bytes);
    mu_store_relaxed(&body[4], MU_OBJECT_ABOUT(o->meta, o->task, o->code));
    mu_store_relaxed(&body[5], MU_OBJECT_MADE(o->extent, o->maker));
    mu_store_relaxed(&body[6], o->waiting);
    for (uint32_t i = 0; i < n; i++)
        mu_store_relaxed(&body[7 + i], stand[i]);
    return MUSTER_OK;
}

static void word_hint(struct mu_ctx *ctx, uint64_t ref)
{
    if (ctx->objects.count < MU_HINTS) {
        ctx->objects.ring[(ctx->objects.head + ctx->objects.count) % MU_HINTS] = MU_OBJECT_INDEX(ref);
        ctx->objects.count++;
    }
}

struct edit {
    int count;      /* by so many more references */
    uint64_t mark;  /* of the own operation; 0: none */
    uint64_t fresh; /* a block of bytes that `fn` makes the object's; 0: none */
    bool wakes;
    uint64_t *waiting; /* gets the calls that waited for the object, if it is open no more */
    uint32_t flags;    /* MU_HEAP_RESERVE: also in a full heap */
    mu_object_fn fn;   /* NULL: nothing else changes */
    void *arg;
};

/* Whether it goes with its last reference: a call lasts until it has ended, a function, and their log, for ever. */
static bool object_goes(const struct muster_segment *seg, const struct mu_object *o)
{
    return !o->count && !(o->state >= MU_OBJECT_CALL_WAITING && o->state <= MU_OBJECT_CALL_RUNNING) &&
           mu_load_acquire(&seg->header->functions) != o->ref; /* acquire: pairs with the CAS of the first export */
}

/* One commit of an object. At a count of 0 it goes, with its bytes. */
static enum muster_status object_edit(struct mu_ctx *ctx, uint64_t ref, const struct edit *e)
{
    mu_a64 *word = mu_object_word(ctx->seg, ref);
    enum muster_status status = MUSTER_OK;
    struct mu_object o = {0};
    uint32_t units = 0, start = 0; /* that it had in the arena */
    bool goes = false;
    uint64_t waiting = 0, old;
    struct mu_txn t;

    mu_txn_begin(&t, ctx, word ? word : ctx->seg->objects);
    t.unpinned = true;
    if (e->fresh)
        mu_txn_new(&t, e->fresh);
    if (!word)
        status = mu_object_say(ctx->seg, ref, MUSTER_INVALID_ARGUMENT);
    while (!status) {
        struct mu_root root;
        enum mu_read rc = mu_txn_read(&t, &root);
        bool was_open;

        if (rc == MU_READ_CORRUPT || (rc == MU_READ_OK && !mu_object_parse(ctx->seg, &root, &o)))
            status = mu_object_say(ctx->seg, ref, MUSTER_DATA_LOSS);
        else if (rc == MU_READ_EMPTY || o.ref != ref || (e->count < 0 && !o.count))
            status = mu_object_say(ctx->seg, ref, MUSTER_NOT_FOUND);
        if (status)
            break;
        old = o.data;
        start = o.extent;
        units = start ? mu_arena_units(mu_object_whole(&o)) : 0;
        was_open = mu_object_is_open(o.state);
        o.count += (uint32_t)e->count;
        status = e->fn ? e->fn(&o, e->arg) : MUSTER_OK;
        if (status)
            break;
        waiting = was_open && !mu_object_is_open(o.state) ? o.waiting : 0;
        if (waiting)
            o.waiting = 0;
        goes = object_goes(ctx->seg, &o);
        if (goes)
            mu_txn_no_root(&t);
        else
            status = root_write(&t, &o, e->mark, e->flags);
        if (old && (goes || o.data != old))
            mu_txn_old(&t, old);
        if (goes && e->fresh) /* nobody waits for it any more: published, and freed as what was there before */
            mu_txn_old(&t, e->fresh);
        if (!status && (e->wakes || !t.news[0] ? mu_txn_commit(&t) : mu_txn_commit_quietly(&t)) == MU_COMMITTED)
            break;
    }
    if (status)
        mu_txn_abort(&t);
    else if (goes)
        word_hint(ctx, ref);
    mu_txn_ring(&t);
    if (!status && units && (goes || o.extent != start))
        mu_arena_freed(ctx, start - 1, units);
    if (!status && e->waiting)
        *e->waiting = waiting;
    return status;
}

/* The root is written anew where it still lies in that block. */
static enum muster_status root_moves(struct mu_object *o, void *arg)
{
    return MU_WORD_INDEX(o->word) == *(const uint32_t *)arg ? MUSTER_OK : MUSTER_ALREADY_EXISTS;
}

/*
 * Roots in blocks of the reserve are written anew elsewhere: what was freed meanwhile makes room. Where others were
 * quicker they stay until an object is dropped or changed, or the reserve is wanted, the next time.
 */
static void reserve_leave(struct mu_ctx *ctx)
{
    const struct muster_segment *seg = ctx->seg;

    for (uint32_t c = seg->num_system_chunks; c-- > 0;) {
        uint32_t index = c * MU_CHUNK_GRANULES + 1;
        struct mu_block *b = mu_heap_block(seg, index, NULL);
        char kept[MU_SENTENCE_MAX];
        uint64_t ref;

        if (!b || !mu_heap_is_reserve(seg, MU_REF(0, index)))
            break;
        /* relaxed, all: looks at what may be another's; the edit asks the object's own word */
        if (MU_BLOCK_STATE(mu_load_relaxed(&b->word)) != MU_LIVE ||
            MU_META_TYPE(mu_load_relaxed(&b->meta)) != MU_TYPE_OBJECT)
            continue;
        mu_error_keep(kept);
        ref = mu_load_relaxed(&b->body[1]); /* relaxed: likewise */
        object_edit(ctx, ref, &(struct edit){.fn = root_moves, .arg = &index});
        mu_error_restore(kept);
    }
}

/*
 * An edit that is tried again: at once when the reserve was full of roots that could lie elsewhere; up to `patience`
 * times where others have the reserve for a moment, or where as many threads as a root has marks for are in the midst
 * of theirs, each of which makes room when it is done.
 */
static enum muster_status object_edit_patiently(struct mu_ctx *ctx, uint64_t ref, const struct edit *e, int patience)
{
    bool left = false;

    for (;;) {
        enum muster_status status = object_edit(ctx, ref, e);

        if (e->fresh || !(status == MUSTER_UNAVAILABLE || (status == MUSTER_RESOURCE_EXHAUSTED && e->flags)))
            return status; /* `fresh` is taken over by the first try */
        if (status == MUSTER_RESOURCE_EXHAUSTED && !left) {
            left = true;
            reserve_leave(ctx);
        } else if (patience-- > 0) {
            mu_yield();
        } else {
            return status;
        }
    }
}

/* What a change leaves to be done behind it: bundles that the thread took, and calls that waited. */
static void object_settle(struct mu_ctx *ctx, uint64_t waiting)
{
    if (ctx->ended)
        mu_bundle_finish(ctx);
    if (waiting)
        mu_work_walk(ctx, waiting);
}

enum muster_status mu_object_change(struct mu_ctx *ctx, uint64_t ref, uint64_t data, mu_object_fn fn, void *arg,
                                    bool patient)
{
    uint64_t waiting = 0;
    struct edit e = {.fresh = data, .wakes = true, .waiting = &waiting, .flags = MU_HEAP_RESERVE, .fn = fn, .arg = arg};
    char kept[MU_SENTENCE_MAX];
    enum muster_status status;

    mu_error_keep(kept);
    status = object_edit_patiently(ctx, ref, &e, patient ? PATIENCE : 0);
    if (!status)
        mu_error_restore(kept);
    object_settle(ctx, waiting);
    if (!status)
        reserve_leave(ctx);
    return status;
}

enum muster_status mu_object_change_quietly(struct mu_ctx *ctx, uint64_t ref, mu_object_fn fn, void *arg)
{
    struct edit e = {.flags = MU_HEAP_RESERVE, .fn = fn, .arg = arg};
    enum muster_status status = object_edit_patiently(ctx, ref, &e, PATIENCE);

    if (!status)
        reserve_leave(ctx);
    return status;
}

/* ---- taking and dropping ---- */

enum muster_status mu_hold_take(struct mu_ctx *ctx, mu_a64 *record, uint64_t ref)
{
    uint64_t number = op_begin(ctx, MU_HOLD_TAKE, ref, record);
    struct edit e = {.count = 1, .mark = MU_HOLD_MARK(ctx->slot, number)};
    enum muster_status status;

    /* release: before the commit, for a scavenger that finds the mark; pairs with mu_hold_resolve() */
    mu_store_release(record, MU_HOLD_CLAIM(ctx->slot, number));
    status = object_edit_patiently(ctx, ref, &e, PATIENCE);
    /* release: pairs with the readers of the ledger in hold_dead.c */
    mu_store_release(record, status ? 0 : ref);
    op_end(ctx);
    return status;
}

bool mu_object_orphan(struct mu_object *o, uint64_t maker)
{
    if ((o->state != MU_OBJECT_WRITING && o->state != MU_OBJECT_PLACE) || o->maker != maker)
        return false;
    o->state = MU_OBJECT_ERROR;
    o->code = MUSTER_UNAVAILABLE;
    o->bytes = o->meta = 0; /* its block stays until the object goes: a thread of the maker's may still write there */
    return true;
}

static enum muster_status maker_is_gone(struct mu_object *o, void *arg)
{
    mu_object_orphan(o, *(const uint64_t *)arg);
    return MUSTER_OK;
}

enum muster_status mu_hold_drop(struct mu_ctx *ctx, mu_a64 *record, uint64_t ref, uint64_t maker, bool patient)
{
    uint64_t number = op_begin(ctx, MU_HOLD_DROP, ref, record), waiting = 0;
    struct edit e = {.count = -1,
                     .waiting = &waiting,
                     .mark = MU_HOLD_MARK(ctx->slot, number),
                     .wakes = maker != 0,
                     .flags = MU_HEAP_RESERVE,
                     .fn = maker ? maker_is_gone : NULL,
                     .arg = &maker};
    enum muster_status status = MUSTER_DATA_LOSS;

    /* acq_rel: pairs with the stores of the record */
    if (mu_cas(record, ref, MU_HOLD_CLAIM(ctx->slot, number))) {
        status = object_edit_patiently(ctx, ref, &e, patient ? PATIENCE : 0);
        /* release: as in mu_hold_take(). An object that is not there is held by nobody. */
        mu_store_release(record, status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE ? ref : 0);
    }
    op_end(ctx);
    object_settle(ctx, waiting);
    if (!status) /* not before: the root needs no mark any more, and is smaller by it */
        reserve_leave(ctx);
    return status;
}

/* ---- words ---- */

/* Commit another range of words; 0 or errno. A death in it leaves pages that are there next time. */
static int range_commit(struct muster_segment *seg, uint32_t high)
{
    off_t at = (off_t)(mu_offset_of(seg, seg->objects) + high * 8ull);
    int rc;

    if (high >= seg->num_objects)
        return ENOMEM;
    do
        rc = seg->fd < 0 ? 0 : fallocate(seg->fd, 0, at, MU_OBJECTS_RANGE * 8);
    while (rc && errno == EINTR);
    if (rc)
        return errno;
    /* release half: the pages are there before the words count; pairs with mu_objects_high(). Failed: another did it.
     */
    mu_cas32(&seg->header->objects_high, high, high + MU_OBJECTS_RANGE);
    return 0;
}

static bool word_is_free(const struct muster_segment *seg, uint32_t index)
{
    return !MU_WORD_INDEX(mu_load_relaxed(&seg->objects[index])); /* relaxed: the commit decides */
}

static bool word_scan(struct mu_ctx *ctx, uint32_t high, uint32_t words, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < words; i++) {
        uint32_t at = ctx->objects.next < high ? ctx->objects.next : 0;

        ctx->objects.next = at + 1;
        if (word_is_free(ctx->seg, at)) {
            *ret_index = at;
            return true;
        }
    }
    return false;
}

/* Some word that is free now: one that this thread freed, one near its last, one of a new range, any. */
static enum muster_status word_find(struct mu_ctx *ctx, uint32_t *ret_index)
{
    struct muster_segment *seg = ctx->seg;

    while (ctx->objects.count) {
        *ret_index = ctx->objects.ring[ctx->objects.head];
        ctx->objects.head = (ctx->objects.head + 1) % MU_HINTS;
        ctx->objects.count--;
        if (word_is_free(seg, *ret_index))
            return MUSTER_OK;
    }
    for (;;) {
        uint32_t high = mu_objects_high(seg);
        int rc;

        for (uint32_t i = 0; high && i < PLACES; i++) {
            if (word_scan(ctx, high, SCAN, ret_index))
                return MUSTER_OK;
            /* somewhere else, for each thread and time another place */
            ctx->objects.next = (ctx->objects.next + ctx->slot * SCAN + 1) * 0x9e3779b1u % high;
        }
        rc = range_commit(seg, high);
        if (!rc) { /* lines of its own in the new range for each thread */
            ctx->objects.next = high + ctx->slot * SCAN % MU_OBJECTS_RANGE;
            continue;
        }
        if (word_scan(ctx, high, high, ret_index))
            return MUSTER_OK;
        if (rc == ENOMEM)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "all %u objects that job %s can have are in use", high, seg->job);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "all %u objects of job %s are in use, and no room for more: %s", high,
                       seg->job, strerror(rc));
    }
}

enum muster_status mu_object_block(struct mu_ctx *ctx, struct mu_object *object)
{
    uint64_t whole = mu_object_whole(object), bytes = mu_object_pad(whole) + whole;
    enum muster_status status;
    struct mu_block *b;

    if (object->bytes > (uint64_t)MU_UNITS_MAX * MU_UNIT)
        return mu_fail(MUSTER_OUT_OF_RANGE, "an object of %llu bytes; %llu are the most",
                       (unsigned long long)object->bytes, (unsigned long long)MU_UNITS_MAX * MU_UNIT);
    object->extent = 0;
    if (bytes > MU_BODY_MAX) {
        status = mu_arena_take(ctx, whole, &object->data, &object->extent);
        object->extent += !status;
        return status;
    }
    status = mu_heap_alloc(ctx, bytes, 0, &object->data, &b);
    if (!status) /* relaxed: the commit's CAS publishes it */
        mu_store_relaxed(&b->meta, MU_META(bytes, 0, MU_TYPE_BYTES));
    return status;
}

/* The object's word must be empty. The generation is what the commit makes of the word's tag, but never 0. */
static enum mu_commit word_try(struct mu_txn *t, mu_a64 *record, uint32_t index, struct mu_object *o,
                               enum muster_status *status)
{
    struct mu_ctx *ctx = t->ctx;
    uint64_t number, tag;
    struct mu_root root;

    if (mu_txn_read(t, &root) != MU_READ_EMPTY)
        return MU_RETRY;
    mu_store_release(record, 0); /* release: no claim of an earlier number is left when the slot says the next one */
    tag = MU_WORD_TAG(root.word) + 1;
    if (!MU_OBJECT_GENERATION(tag))
        tag++;
    o->ref = MU_OBJECT_REF(ctx->seg->host, index, tag);
    o->count = 1;
    o->num_marks = 0;
    number = op_begin(ctx, MU_HOLD_TAKE, o->ref, record);
    /* release: as in mu_hold_take() */
    mu_store_release(record, MU_HOLD_CLAIM(ctx->slot, number));
    *status = root_write(t, o, MU_HOLD_MARK(ctx->slot, number), 0);
    return *status ? MU_COMMITTED : mu_txn_commit_as(t, tag);
}

enum muster_status mu_hold_create(struct mu_ctx *ctx, mu_a64 *record, struct mu_object *object)
{
    enum muster_status status = MUSTER_OK;
    uint32_t index = 0;
    struct mu_txn t;

    mu_txn_begin(&t, ctx, ctx->seg->objects);
    if (object->data)
        mu_txn_new(&t, object->data);
    do {
        status = word_find(ctx, &index);
        t.word = &ctx->seg->objects[index];
    } while (!status && word_try(&t, record, index, object, &status) == MU_RETRY);
    if (status)
        mu_txn_abort(&t);
    /* release: as in mu_hold_take() */
    mu_store_release(record, status ? 0 : object->ref);
    op_end(ctx);
    object_settle(ctx, 0);
    return status;
}
