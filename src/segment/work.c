/*
 * segment/work.c: what becomes of a call, commit by commit.
 *
 *   WAITING ──► QUEUED ──► RUNNING ──► SEALED, ALIAS, MANY, ERROR
 *      │           │  ◄───────┘ its worker died, and it may be run again
 *      └───────────┴──► ERROR: cancelled, too late
 *   PLACED ──► RUNNING ──► ...
 *
 * Each arrow is one commit of the call's word, and its results are there with the last one. Between commits a call is
 * in no thread's hands but while it RUNs.
 *
 * Linearization of readiness: all arguments were seen sealed, and sealed they stay. A call that WAITs is in the chain
 * of one argument that is open: the call names the next one (its `bytes`), the argument's root the first. The right to
 * put it into a chain is one thread's: the submitter's, then that of the thread that ended the argument, which
 * takes the chain with it. When that thread dies, the right is lost, and a rescan sees to the call instead
 * (work_dead.c): it queues what is ready, and marks the argument (MU_WAITING_ALL), so that its end asks for another
 * rescan. A chain that a call has left is broken there, and asks for one, too.
 */
#include "segment/work.h"

#include <string.h>

#include "segment/lease.h"

static enum muster_status not_now(void)
{
    return MUSTER_ALREADY_EXISTS; /* without a sentence: the caller looks again */
}

enum mu_work_readiness mu_work_look(struct mu_ctx *ctx, uint64_t ref, uint32_t state, struct mu_object *ret_open)
{
    const struct muster_segment *seg = ctx->seg;
    uint64_t refs[MU_CALL_REFS_MAX], shape[3];
    uint32_t count = 0, arguments;
    struct mu_object o;

    for (;;) {
        if (mu_object_peek(seg, ref, ctx->scratch, &o) || o.state != state)
            return MU_WORK_ELSEWHERE;
        if (mu_bundle_read(seg, &o, 0, refs, 0, &count) && count <= MU_CALL_REFS_MAX &&
            mu_bundle_read(seg, &o, count, shape, 3, &count) && mu_bundle_read(seg, &o, 0, refs, count, &count))
            break;
        if (mu_word_same(mu_recheck(mu_object_word(seg, ref)), o.word))
            return MU_WORK_ELSEWHERE; /* corrupt */
    }
    arguments = MU_CALL_REFS(shape[2]);
    for (uint32_t i = 0; i < count && i < arguments; i++)
        if (!mu_object_resolve(seg, refs[i], ctx->scratch, ret_open) && mu_object_is_open(ret_open->state))
            return MU_WORK_BLOCKED;
    return MU_WORK_READY;
}

static enum muster_status call_queued(struct mu_object *o, void *arg)
{
    (void)arg;
    if (o->state != MU_OBJECT_CALL_WAITING)
        return not_now();
    o->state = MU_OBJECT_CALL_QUEUED;
    o->bytes = 0;
    return MUSTER_OK;
}

struct link {
    uint32_t state;   /* of the call, */
    uint64_t next;    /* before which it is put, in the chain of the object */
    uint64_t waiting; /* that then begins with this */
};

static enum muster_status call_names_next(struct mu_object *o, void *arg)
{
    const struct link *l = arg;

    if (o->state != l->state)
        return not_now();
    o->bytes = MU_WAITING(l->next);
    return MUSTER_OK;
}

static enum muster_status object_names_call(struct mu_object *o, void *arg)
{
    const struct link *l = arg;

    if (!mu_object_is_open(o->state) || o->waiting != l->next)
        return not_now();
    o->waiting = l->waiting | (o->waiting & MU_WAITING_ALL);
    return MUSTER_OK;
}

void mu_work_advance(struct mu_ctx *ctx, uint64_t ref)
{
    for (;;) {
        struct link l = {.state = MU_OBJECT_CALL_WAITING, .waiting = MU_WAITING(ref)};
        struct mu_object open;
        enum mu_work_readiness readiness = mu_work_look(ctx, ref, MU_OBJECT_CALL_WAITING, &open);
        enum muster_status status;

        if (readiness == MU_WORK_ELSEWHERE)
            return;
        if (readiness == MU_WORK_READY) {
            status = mu_object_change_quietly(ctx, ref, call_queued, NULL);
            if (!status)
                mu_queue_put(ctx->seg, ref);
            else if (status != MUSTER_ALREADY_EXISTS)
                mu_work_rescan(ctx->seg);
            return;
        }
        l.next = open.waiting;
        status = mu_object_change_quietly(ctx, ref, call_names_next, &l);
        if (status == MUSTER_ALREADY_EXISTS)
            return;
        if (!status)
            status = mu_object_change_quietly(ctx, open.ref, object_names_call, &l);
        if (!status)
            return;
        if (status != MUSTER_ALREADY_EXISTS && status != MUSTER_NOT_FOUND) {
            mu_work_rescan(ctx->seg);
            return;
        }
    }
}

/* Its place is an error: so is the call, of the same producer. */
static enum muster_status call_displaced(struct mu_object *o, void *arg)
{
    const struct mu_object *end = arg;

    if (o->state != MU_OBJECT_CALL_PLACED)
        return not_now();
    o->state = MU_OBJECT_ERROR;
    o->task = end->task;
    o->maker = end->maker;
    o->code = end->code;
    o->data = end->data;
    o->bytes = end->bytes;
    o->meta = end->data ? 0 : MU_ENDED_SERVING;
    return MUSTER_OK;
}

static void call_fails_with_place(struct mu_ctx *ctx, uint64_t ref, uint64_t place)
{
    struct mu_object end = {.state = MU_OBJECT_ERROR, .code = MUSTER_NOT_FOUND}, o;
    char text[1024];
    size_t len = 0;
    uint64_t detail;

    if (!mu_object_peek(ctx->seg, place, ctx->scratch, &o) && o.state == MU_OBJECT_ERROR) {
        const char *said = mu_work_error_text(ctx->seg, &o, &len, &detail); /* the call holds the place */

        len = len < sizeof text ? len : sizeof text;
        if (len)
            memcpy(text, said, len);
        end.code = o.code;
        end.task = o.task;
        end.maker = o.maker;
    }
    end.bytes = len;
    if (len && !mu_object_block(ctx, &end))
        memcpy(mu_object_bytes(ctx->seg, &end, true), text, len);
    if (!end.data)
        end.bytes = 0;
    if (mu_object_change(ctx, ref, end.data, call_displaced, &end, true) == MUSTER_RESOURCE_EXHAUSTED)
        mu_work_rescan(ctx->seg);
}

uint64_t mu_work_place_of(struct mu_ctx *ctx, uint64_t ref)
{
    const struct muster_segment *seg = ctx->seg;
    struct mu_object o;
    uint64_t place = 0;
    uint32_t count = 0;

    do
        if (mu_object_peek(seg, ref, ctx->scratch, &o) || o.state != MU_OBJECT_CALL_PLACED)
            return 0;
    while (!(mu_bundle_read(seg, &o, 0, &place, 0, &count) && count &&
             mu_bundle_read(seg, &o, count - 1, &place, 1, &count)) &&
           !mu_word_same(mu_recheck(mu_object_word(seg, ref)), o.word));
    return place;
}

void mu_work_place(struct mu_ctx *ctx, uint64_t ref, uint64_t place)
{
    for (;;) {
        struct link l = {.state = MU_OBJECT_CALL_PLACED, .waiting = MU_WAITING(ref)};
        struct mu_object o;
        enum muster_status status = mu_object_peek(ctx->seg, place, ctx->scratch, &o);

        if (status || !mu_object_is_open(o.state)) {
            call_fails_with_place(ctx, ref, place);
            return;
        }
        l.next = o.waiting;
        if (MU_WAITING(o.waiting)) /* the call is new, and names none */
            status = mu_object_change_quietly(ctx, ref, call_names_next, &l);
        if (status == MUSTER_ALREADY_EXISTS)
            return;
        if (!status) /* its worker sleeps on the place */
            status = mu_object_change(ctx, place, 0, object_names_call, &l, true);
        if (!status)
            return;
        if (status != MUSTER_ALREADY_EXISTS && status != MUSTER_NOT_FOUND) {
            mu_work_rescan(ctx->seg);
            return;
        }
    }
}

void mu_work_walk(struct mu_ctx *ctx, uint64_t waiting)
{
    uint64_t host = MU_OBJECT_REF(ctx->seg->host, 0, 0), left = ctx->seg->num_objects;

    if (waiting & MU_WAITING_ALL)
        mu_work_rescan(ctx->seg);
    for (waiting = MU_WAITING(waiting); waiting && left; left--) {
        uint64_t ref = host | waiting, place;
        struct mu_object o;

        if (mu_object_peek(ctx->seg, ref, ctx->scratch, &o) ||
            (o.state != MU_OBJECT_CALL_WAITING && o.state != MU_OBJECT_CALL_PLACED)) {
            mu_work_rescan(ctx->seg); /* it has left the chain, which goes on behind it */
            return;
        }
        waiting = MU_WAITING(o.bytes);
        if (o.state == MU_OBJECT_CALL_WAITING)
            mu_work_advance(ctx, ref);
        else if ((place = mu_work_place_of(ctx, ref)) != 0)
            call_fails_with_place(ctx, ref, place);
    }
}

uint64_t mu_work_recheck(struct mu_ctx *ctx, uint64_t ref, uint32_t state)
{
    uint64_t place;
    struct mu_object o;

    if (state == MU_OBJECT_CALL_PLACED) {
        place = mu_work_place_of(ctx, ref);
        if (!place)
            return 0;
        if (!mu_object_peek(ctx->seg, place, ctx->scratch, &o) && mu_object_is_open(o.state))
            return place;
        call_fails_with_place(ctx, ref, place);
        return 0;
    }
    switch (mu_work_look(ctx, ref, state, &o)) {
    case MU_WORK_BLOCKED: return o.ref;
    case MU_WORK_READY: /* it needs no chain */ mu_work_advance(ctx, ref); return 0;
    default: return 0;
    }
}

/* ---- running ---- */

struct claim {
    uint32_t state, task;
    uint64_t maker, runner;
};

static enum muster_status call_claimed(struct mu_object *o, void *arg)
{
    const struct claim *c = arg;

    if (o->state != c->state)
        return not_now();
    o->state = MU_OBJECT_CALL_RUNNING;
    o->bytes = c->runner;
    o->maker = c->maker;
    o->task = c->task;
    return MUSTER_OK;
}

enum muster_status mu_work_claim(struct mu_ctx *ctx, uint64_t ref, uint32_t state, uint32_t which, uint64_t maker,
                                 uint32_t task)
{
    struct claim c = {state, task, maker, MU_OBJECT_MAKER(ctx->slot, ctx->incarnation)};
    enum muster_status status;

    mu_store_release(&ctx->own->calls[which], ref); /* release: before the claim; pairs with mu_work_bury() */
    status = mu_object_change_quietly(ctx, ref, call_claimed, &c);
    if (status) {
        mu_store_release(&ctx->own->calls[which], 0); /* release: likewise */
        if (!which && mu_lease_ended(ctx))
            mu_lease_rescan(ctx->seg);
    }
    return status == MUSTER_ALREADY_EXISTS ? MUSTER_NOT_FOUND : status;
}

struct work_ending {
    uint64_t runner; /* 0: it must not have been begun */
    struct mu_object end;
};

static enum muster_status call_ended(struct mu_object *o, void *arg)
{
    const struct work_ending *e = arg;

    if (e->runner ? o->state != MU_OBJECT_CALL_RUNNING || o->bytes != e->runner
                  : o->state < MU_OBJECT_CALL_WAITING || o->state > MU_OBJECT_CALL_QUEUED)
        return not_now();
    o->state = e->end.state;
    o->code = e->end.code;
    o->data = e->end.data;
    o->extent = e->end.extent;
    o->bytes = e->end.bytes;
    o->meta = e->end.meta;
    return MUSTER_OK;
}

enum muster_status mu_work_end(struct mu_ctx *ctx, uint64_t ref, uint32_t which, const struct mu_object *end)
{
    struct work_ending e = {MU_OBJECT_MAKER(ctx->slot, ctx->incarnation), *end};
    enum muster_status status = mu_object_change(ctx, ref, end->data, call_ended, &e, true);

    if (status == MUSTER_ALREADY_EXISTS)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "call 0x%016llx is another's by now", (unsigned long long)ref);
    if (status != MUSTER_RESOURCE_EXHAUSTED && status != MUSTER_UNAVAILABLE) {
        if (!which && ctx->keeps) /* its lease lasts until the slot's death */
            return status;
        mu_store_release(&ctx->own->calls[which], 0); /* release: behind its end; pairs with mu_work_bury() */
        if (!which && mu_lease_ended(ctx))
            mu_lease_rescan(ctx->seg);
    }
    return status;
}

enum muster_status mu_work_cancel(struct mu_ctx *ctx, uint64_t ref, const struct mu_object *end)
{
    struct work_ending e = {0, *end};
    enum muster_status status = mu_object_change(ctx, ref, end->data, call_ended, &e, true);

    return status == MUSTER_ALREADY_EXISTS
               ? mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is a call that runs or has ended, or none",
                         (unsigned long long)ref)
               : status;
}

enum muster_status mu_work_expire(struct mu_ctx *ctx, uint64_t ref)
{
    struct mu_object end;

    if (mu_work_error(ctx, MUSTER_DEADLINE_EXCEEDED, MU_WORK_LATE, sizeof MU_WORK_LATE - 1, 0, &end))
        end = (struct mu_object){.state = MU_OBJECT_ERROR, .code = MUSTER_DEADLINE_EXCEEDED};
    return mu_work_cancel(ctx, ref, &end);
}

/* ---- errors ---- */

enum muster_status mu_work_error(struct mu_ctx *ctx, enum muster_status code, const char *text, size_t len,
                                 uint64_t detail, struct mu_object *ret_end)
{
    enum muster_status status;
    uint8_t *to;

    *ret_end = (struct mu_object){.state = MU_OBJECT_ERROR, .code = (uint32_t)code, .bytes = len};
    if (!detail) {
        status = len ? mu_object_block(ctx, ret_end) : MUSTER_OK;
        to = status ? NULL : mu_object_bytes(ctx->seg, ret_end, true);
    } else {
        status = mu_bundle_new(ctx, 1, len, &ret_end->data);
        to = status ? NULL : (uint8_t *)mu_bundle_data(ctx->seg, ret_end->data);
        if (!status)
            status = mu_bundle_hold(ctx, ret_end->data, 0, detail);
        if (status && to) {
            mu_bundle_end(ctx, ret_end->data);
            mu_bundle_finish(ctx);
        }
    }
    if (status)
        return status;
    for (size_t i = 0; i < len; i += 8) { /* by words: see bytes_in() in object.c */
        uint64_t word = 0;

        memcpy(&word, text + i, len - i < 8 ? len - i : 8);
        mu_store_relaxed((mu_a64 *)(to + i), word); /* relaxed: the commit's CAS publishes it */
    }
    return MUSTER_OK;
}

const char *mu_work_error_text(struct muster_segment *seg, const struct mu_object *o, size_t *ret_len,
                               uint64_t *ret_detail)
{
    *ret_detail = 0;
    *ret_len = o->data && !o->extent ? o->bytes : 0;
    if (!(o->data & MU_REF_HOLDS))
        return *ret_len ? (const char *)mu_object_bytes(seg, o, true) : "";
    if (!mu_bundle_is_sound(seg, o->data, 1, o->bytes)) {
        *ret_len = 0;
        return "";
    }
    *ret_detail = mu_bundle_at(seg, o->data)->refs[0];
    return (const char *)mu_bundle_data(seg, o->data);
}
