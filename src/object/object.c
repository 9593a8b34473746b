/*
 * object/object.c: creating, sealing, holding and dropping objects. The mechanism is segment/hold.c's: each call here
 * is one commit of the object's word, and what the process counts for itself lies in its ledger (segment/ledger.h).
 */
#include <string.h>

#include "object/holding.h"
#include "segment/bundle.h"
#include "segment/replica.h"

enum { TEXT_MAX = 800 /* what fits a sentence, behind the name of the task */ };

/* What a sealed object shows, kept so that the next get need not look. */
static enum muster_status held_show(struct muster_segment *seg, struct mu_holding *h, const struct mu_object *o)
{
    static const uint8_t nothing[1];
    bool plain = o->data && !(o->data & MU_REF_HOLDS) && (o->bytes || o->meta);
    const uint8_t *bytes = plain ? mu_object_bytes(seg, o, false) : nothing;

    if (!bytes)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for views of the objects of job %s", seg->job);
    h->num_bytes = plain ? o->bytes : 0;
    h->num_meta = plain ? o->meta : 0;
    h->code = o->code;
    h->state = o->state;
    h->bytes = bytes;
    return MUSTER_OK;
}

enum muster_status mu_holding_show(struct muster_segment *seg, uint64_t ref, const struct mu_object *o,
                                   struct muster_object_view *ret_view)
{
    struct mu_holding h = {0};
    enum muster_status status = held_show(seg, &h, o);

    if (status)
        return status;
    *ret_view = (struct muster_object_view){.object = ref, .len = h.num_bytes, .meta_len = h.num_meta};
    if (h.num_bytes)
        ret_view->data = h.bytes;
    if (h.num_meta)
        ret_view->meta = h.bytes + (h.num_bytes + 7) / 8 * 8;
    return MUSTER_OK;
}

enum muster_status mu_holding_look(struct mu_ctx *ctx, struct mu_holding *h, struct mu_object *ret_object)
{
    enum muster_status status = mu_object_resolve(ctx->seg, h->ref, ctx->scratch, ret_object);

    if (status == MUSTER_NOT_FOUND)
        return mu_object_say(ctx->seg, h->ref, status);
    return status || mu_object_is_open(ret_object->state) ? status : held_show(ctx->seg, h, ret_object);
}

enum muster_status mu_holding_find(struct mu_ledger *ledger, struct mu_ctx *ctx, uint64_t ref,
                                   struct mu_holding **ret_held)
{
    enum muster_status status;
    mu_a64 *record = NULL;

    *ret_held = mu_ledger_find(ledger, ref);
    if (*ret_held)
        return MUSTER_OK;
    status = mu_ledger_record(ledger, ctx, &record);
    if (status)
        return status;
    status = mu_hold_take(ctx, record, ref);
    if (status)
        mu_ledger_put_record(ledger, record);
    else
        *ret_held = mu_ledger_add(ledger, ref, record);
    return status;
}

/* False: in a segment so full that not even the reserve is left; it is tried again by a later call, or at the end. */
static bool held_drop(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_holding *h, bool patient)
{
    enum muster_status status =
        mu_hold_drop(ctx, h->record, h->ref, h->made && !h->bytes ? mu_ledger_maker(ledger) : 0, patient);

    if (status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE) {
        mu_ledger_linger(ledger);
        return false;
    }
    mu_ledger_remove(ledger, h);
    return true;
}

void mu_holding_let_go(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_holding *h)
{
    char kept[MU_SENTENCE_MAX];

    if (h->refs || h->views)
        return;
    mu_error_keep(kept);
    /* it may make room for one that could not be dropped before */
    if (held_drop(ledger, ctx, h, true) && (h = mu_ledger_lingerer(ledger)) != NULL)
        held_drop(ledger, ctx, h, false);
    mu_error_restore(kept);
}

void mu_holding_forget(struct mu_ledger *ledger, struct mu_ctx *ctx, const muster_object *objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mu_holding *h = objects[i] ? mu_ledger_find(ledger, objects[i]) : NULL;

        if (h) {
            h->refs--;
            mu_holding_let_go(ledger, ctx, h);
        }
    }
}

/* Data that was to be an object's; 0: none. */
static void object_discard(struct mu_ctx *ctx, uint64_t data)
{
    if (data & MU_REF_HOLDS) {
        mu_bundle_end(ctx, data);
        mu_bundle_finish(ctx);
    } else if (data) {
        mu_heap_discard(ctx, data);
    }
}

enum muster_status mu_holding_new(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_object *o, bool made,
                                  struct mu_holding **ret_held)
{
    enum muster_status status;
    mu_a64 *record = NULL;
    struct mu_holding *h;

    status = mu_ledger_record(ledger, ctx, &record);
    if (status) {
        object_discard(ctx, o->data);
        return status;
    }
    if (!o->maker)
        o->maker = mu_ledger_maker(ledger);
    status = mu_hold_create(ctx, record, o);
    if (status) {
        mu_ledger_put_record(ledger, record);
        return status;
    }
    h = mu_ledger_add(ledger, o->ref, record);
    h->refs = 1;
    h->made = made;
    if (o->state == MU_OBJECT_SEALED)
        held_show(ctx->seg, h, o); /* refused: the next get asks again */
    *ret_held = h;
    return MUSTER_OK;
}

/* The same; its block, if it has one, is taken over. */
static enum muster_status object_add(struct muster *m, struct mu_ctx *ctx, struct mu_object *o)
{
    struct mu_ledger *ledger;
    struct mu_holding *h;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status) {
        if (o->data)
            mu_heap_discard(ctx, o->data);
        return status;
    }
    status = mu_holding_new(ledger, ctx, o, true, &h);
    mu_ledger_unlock(ledger);
    return status;
}

/* The object is as large as that, and these are its bytes, to write to; NULL where it has none. */
static enum muster_status room_for(struct muster *m, struct mu_ctx *ctx, size_t len, size_t meta_len,
                                   struct mu_object *ret_object, uint8_t **ret_bytes)
{
    enum muster_status status;

    *ret_bytes = NULL;
    if (meta_len > UINT32_MAX)
        return mu_fail(MUSTER_OUT_OF_RANGE, "an object with %zu bytes of metadata; %u are the most", meta_len,
                       UINT32_MAX);
    *ret_object = (struct mu_object){.bytes = len, .meta = (uint32_t)meta_len, .task = (uint32_t)m->task_id + 1};
    if (!len && !meta_len)
        return MUSTER_OK;
    status = mu_object_block(ctx, ret_object);
    if (status)
        return status;
    *ret_bytes = mu_object_bytes(m->seg, ret_object, true);
    if (*ret_bytes)
        return MUSTER_OK;
    mu_heap_discard(ctx, ret_object->data);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for the large objects of job %s", m->seg->job);
}

/* With the object's metadata behind the bytes. */
static uint8_t *meta_of(uint8_t *bytes, const struct mu_object *o)
{
    return bytes + (o->bytes + 7) / 8 * 8;
}

/*
 * Into a block that nobody else has yet: the commit publishes its bytes. By words, for a reader of what the block was
 * before may still copy it, and throw the copy away. `to` begins at a multiple of 8.
 */
void mu_holding_copy_in(uint8_t *to, const void *from, size_t len)
{
    const uint8_t *bytes = from;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;

        memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
        mu_store_relaxed((mu_a64 *)(to + i), word); /* relaxed: the commit's CAS publishes it */
    }
}

/* What is to be made; `data` and `meta` of one that is put. */
struct making {
    struct muster *m;
    const void *data, *meta;
    size_t len, meta_len;
    uint32_t state;
    struct mu_object o;
    uint8_t *bytes;
};

static enum muster_status object_make(struct mu_ctx *ctx, void *arg)
{
    struct making *k = arg;
    enum muster_status status = room_for(k->m, ctx, k->len, k->meta_len, &k->o, &k->bytes);

    if (status)
        return status;
    if (k->state == MU_OBJECT_SEALED && k->o.extent) {
        /* units: a reader of what was there before held it, and does not any more */
        if (k->len)
            memcpy(k->bytes, k->data, k->len);
        if (k->meta_len)
            memcpy(meta_of(k->bytes, &k->o), k->meta, k->meta_len);
    } else if (k->state == MU_OBJECT_SEALED && k->bytes) {
        mu_holding_copy_in(k->bytes, k->data, k->len);
        mu_holding_copy_in(meta_of(k->bytes, &k->o), k->meta, k->meta_len);
    }
    k->o.state = k->state;
    return object_add(k->m, ctx, &k->o);
}

static enum muster_status object_await(struct making *k, muster_deadline deadline, muster_object *ret_object)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(k->m, &ctx);

    if (status)
        return status;
    status = mu_room_wait(ctx, k->len + (uint64_t)k->meta_len, deadline, object_make, k);
    mu_exit(ctx);
    *ret_object = status ? 0 : k->o.ref;
    return status;
}

enum muster_status muster_object_create(struct muster *muster, size_t len, size_t meta_len, muster_deadline deadline,
                                        muster_object *ret_object, struct muster_object_room *ret_room)
{
    struct making k = {.m = muster, .len = len, .meta_len = meta_len, .state = MU_OBJECT_WRITING};
    enum muster_status status = object_await(&k, deadline, ret_object);

    if (status)
        return status;
    *ret_room = (struct muster_object_room){NULL, len, NULL, meta_len};
    if (len)
        ret_room->data = k.bytes;
    if (meta_len)
        ret_room->meta = meta_of(k.bytes, &k.o);
    return MUSTER_OK;
}

enum muster_status muster_object_put(struct muster *muster, const void *data, size_t len, const void *meta,
                                     size_t meta_len, muster_deadline deadline, muster_object *ret_object)
{
    struct making k = {
        .m = muster, .data = data, .meta = meta, .len = len, .meta_len = meta_len, .state = MU_OBJECT_SEALED};

    return object_await(&k, deadline, ret_object);
}

/* ---- the end of writing ---- */

struct object_ending {
    uint64_t maker;
    uint32_t state, code;
    struct mu_object text; /* of an error: its data and bytes */
};

static enum muster_status object_end(struct mu_object *o, void *arg)
{
    const struct object_ending *e = arg;

    if (o->state != MU_OBJECT_WRITING)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is sealed already", (unsigned long long)o->ref);
    if (o->maker != e->maker)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is task %u's to seal", (unsigned long long)o->ref,
                       o->task - 1);
    o->state = e->state;
    if (e->state == MU_OBJECT_SEALED)
        return MUSTER_OK;
    o->code = e->code;
    o->data = e->text.data;
    o->extent = e->text.extent;
    o->bytes = e->text.bytes;
    o->meta = 0;
    return MUSTER_OK;
}

static enum muster_status end_writing(struct muster *m, struct mu_ctx *ctx, uint64_t ref, struct object_ending *e)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (!status) {
        e->maker = mu_ledger_maker(ledger);
        if (!mu_ledger_find(ledger, ref))
            status = mu_fail(MUSTER_FAILED_PRECONDITION, "this process does not hold object 0x%016llx",
                             (unsigned long long)ref);
        mu_ledger_unlock(ledger);
    }
    if (status) {
        if (e->text.data)
            mu_heap_discard(ctx, e->text.data);
        return status;
    }
    return mu_object_change(ctx, ref, e->text.data, object_end, e, true);
}

enum muster_status muster_object_seal(struct muster *muster, muster_object object)
{
    struct object_ending e = {.state = MU_OBJECT_SEALED};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_here_only(muster, object);
    if (!status)
        status = end_writing(muster, ctx, object, &e);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_object_fail(struct muster *muster, muster_object object, enum muster_status code,
                                      const char *text)
{
    struct object_ending e = {.state = MU_OBJECT_ERROR, .code = (uint32_t)code};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (!text || !*text)
        text = muster_status_name(code);
    e.text.bytes = strnlen(text, TEXT_MAX);
    if (code <= MUSTER_OK || code > MUSTER_DATA_LOSS)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "%d is no error: seal the object instead", (int)code);
    if (!status)
        status = mu_here_only(muster, object);
    if (!status)
        status = mu_object_block(ctx, &e.text);
    if (!status) {
        mu_holding_copy_in(mu_object_bytes(muster->seg, &e.text, true), text, e.text.bytes);
        status = end_writing(muster, ctx, object, &e);
    }
    mu_exit(ctx);
    return status;
}

/* ---- references ---- */

static enum muster_status object_retain(struct muster *m, struct mu_ctx *ctx, const muster_object *objects,
                                        size_t count, size_t *ret_at)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);
    struct mu_holding *h;
    size_t i;

    if (status)
        return status;
    for (i = 0; i < count; i++) {
        status = mu_holding_find(ledger, ctx, objects[i], &h);
        if (status)
            break;
        h->refs++;
    }
    if (status) {
        if (ret_at)
            *ret_at = i;
        mu_holding_forget(ledger, ctx, objects, i);
    }
    mu_ledger_unlock(ledger);
    return status;
}

enum muster_status muster_object_retain(struct muster *muster, const muster_object *objects, size_t count,
                                        size_t *ret_at)
{
    struct mu_here here;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_here_begin(muster, ctx, objects, count, MUSTER_FOREVER, &here, ret_at);
    if (!status) {
        status = object_retain(muster, ctx, here.local, count, ret_at);
        mu_here_end(muster, ctx, &here);
    }
    mu_exit(ctx);
    return status;
}

static enum muster_status object_drop(struct muster *m, struct mu_ctx *ctx, const muster_object *objects, size_t count)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        struct mu_holding *h = objects[i] ? mu_ledger_find(ledger, mu_here_of(m, ctx, objects[i])) : NULL;

        if (h && h->refs) {
            h->refs--;
            mu_holding_let_go(ledger, ctx, h);
        } else if (objects[i]) {
            status = mu_fail(MUSTER_NOT_FOUND, "this process has no reference to object 0x%016llx to drop",
                             (unsigned long long)objects[i]);
        }
    }
    mu_ledger_unlock(ledger);
    return status;
}

enum muster_status muster_object_drop(struct muster *muster, const muster_object *objects, size_t count)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = object_drop(muster, ctx, objects, count);
    mu_exit(ctx);
    return status;
}
