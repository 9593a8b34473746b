/*
 * schedule/worker.c: calls, from the thread that runs them.
 *
 * What a worker makes of a call stays its own until the call's end, which is one commit of the call's word: a death
 * before it leaves blocks that are OWNED, and the call to be run again, or to fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schedule/private.h"
#include "segment/slot.h"
#include "segment/wait.h"

enum { TEXT_MAX = 800 };

enum muster_status mu_schedule_maker(struct muster *m, uint64_t *ret_maker)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    *ret_maker = mu_ledger_maker(ledger);
    mu_ledger_unlock(ledger);
    return MUSTER_OK;
}

/* ---- its end ---- */

static void bundle_forget(struct muster_call *call)
{
    if (call->bundle) {
        mu_bundle_end(call->ctx, call->bundle);
        mu_bundle_finish(call->ctx);
    } else if (call->end.data) {
        mu_heap_discard(call->ctx, call->end.data);
    }
    call->bundle = call->end.data = 0;
}

/* The call becomes an error; where there is no memory for the text, an error without. */
static enum muster_status call_fail(struct muster_call *call, enum muster_status code, const char *text, size_t len,
                                    uint64_t detail)
{
    struct mu_object end;
    enum muster_status status;

    bundle_forget(call);
    status = mu_work_error(call->ctx, code, text, len, detail, &end);
    if (status)
        end = (struct mu_object){.state = MU_OBJECT_ERROR, .code = (uint32_t)code};
    status = mu_work_end(call->ctx, call->ref, call->which, &end);
    call->ctx->owes[call->which] = status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE;
    return status;
}

/* A call of this thread's that it could not end, not even as an error: it can now, or the thread takes no other. */
static enum muster_status call_settle(struct mu_ctx *ctx, uint32_t which)
{
    struct mu_object end = {.state = MU_OBJECT_ERROR, .code = MUSTER_RESOURCE_EXHAUSTED};
    uint64_t ref = mu_load_relaxed(&ctx->own->calls[which]); /* relaxed: our own */
    enum muster_status status;

    if (!ref)
        return MUSTER_OK;
    if (!which && ctx->keeps)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "this thread keeps what a call had: its process ends, and takes no other");
    if (!ctx->owes[which])
        return mu_fail(MUSTER_FAILED_PRECONDITION, "this thread runs a call, which must end first");
    status = mu_work_end(ctx, ref, which, &end);
    ctx->owes[which] = status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE;
    return ctx->owes[which] ? status : MUSTER_OK;
}

static enum muster_status result_sealed(struct mu_object *o, void *arg)
{
    (void)arg;
    if (o->state != MU_OBJECT_WRITING)
        return MUSTER_ALREADY_EXISTS;
    o->state = MU_OBJECT_SEALED;
    return MUSTER_OK;
}

/* All of several results are objects, and sealed. */
static enum muster_status results_seal(struct muster_call *call)
{
    enum muster_status status = MUSTER_OK;
    struct muster_object_room room;

    for (uint32_t i = 0; !status && i < call->num_results; i++) {
        struct mu_object o;

        if (!call->bundle || !mu_bundle_at(call->ctx->seg, call->bundle)->refs[i])
            status = mu_schedule_room(call, i, 0, 0, &room);
        if (status)
            break;
        if (mu_object_peek(call->ctx->seg, mu_bundle_at(call->ctx->seg, call->bundle)->refs[i], call->ctx->scratch,
                           &o) ||
            o.state != MU_OBJECT_WRITING || o.maker != call->maker)
            continue;
        status = mu_object_change(call->ctx, o.ref, 0, result_sealed, NULL, true);
        if (status == MUSTER_ALREADY_EXISTS)
            status = MUSTER_OK;
    }
    return status;
}

static enum muster_status call_done(struct muster_call *call)
{
    enum muster_status status = MUSTER_OK;
    struct mu_object end = call->end;

    if (call->num_results > 1)
        status = results_seal(call);
    if (status)
        return call_fail(call, status, muster_last_error(), strnlen(muster_last_error(), TEXT_MAX), 0);
    end.state = MU_OBJECT_SEALED;
    if (call->bundle) {
        end.state = call->num_results > 1 ? MU_OBJECT_MANY : MU_OBJECT_ALIAS;
        end.data = call->bundle;
    }
    call->bundle = call->end.data = 0;
    status = mu_work_end(call->ctx, call->ref, call->which, &end);
    if (status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE) /* the room for them is given back */
        return call_fail(call, status, muster_last_error(), strnlen(muster_last_error(), TEXT_MAX), 0);
    return status;
}

enum muster_status muster_call_done(struct muster_call *call)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status) {
        free(call);
        return status;
    }
    status = call_done(call);
    mu_schedule_leave(call, status);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_call_fail(struct muster_call *call, enum muster_status code, const char *text,
                                    muster_object detail)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status) {
        free(call);
        return status;
    }
    if (code <= MUSTER_OK || code > MUSTER_DATA_LOSS)
        code = MUSTER_UNKNOWN;
    if (!text || !*text)
        text = muster_status_name(code);
    status = call_fail(call, code, text, strnlen(text, TEXT_MAX), detail);
    mu_schedule_leave(call, code);
    mu_exit(ctx);
    return status;
}

/* ---- its begin ---- */

/* The first argument that is an error; true: there is one, and the call has ended with it. */
static bool argument_failed(struct muster_call *call)
{
    struct muster_segment *seg = call->ctx->seg;
    uint32_t refs = MU_CALL_REFS(call->spec->shape);

    for (uint32_t i = 0; refs && i < call->num_arguments; i++) {
        uint64_t a = call->spec->arguments[i], detail;
        char text[TEXT_MAX];
        struct mu_object o;
        const char *said;
        size_t len;
        int n;

        if (!MU_ARGUMENT_IS_REF(a) ||
            mu_object_resolve(seg, mu_bundle_at(seg, call->data)->refs[MU_ARGUMENT_AT(a)], call->ctx->scratch, &o) ||
            o.state != MU_OBJECT_ERROR)
            continue;
        said = mu_work_error_text(seg, &o, &len, &detail);
        n = snprintf(text, sizeof text, "argument %u, object 0x%016llx, is an error: %.*s", i,
                     (unsigned long long)o.ref, len ? (int)len : 29, len ? said : "its producer ended before it.");
        call_fail(call, o.code ? (enum muster_status)o.code : MUSTER_UNKNOWN, text,
                  n < (int)sizeof text ? (size_t)n : sizeof text - 1, detail);
        return true;
    }
    return false;
}

/* Whether the bundle is what the call's shape says: it was read from memory that others can write. */
static bool spec_is_sound(const struct muster_segment *seg, uint64_t data)
{
    const struct mu_call_data *spec;
    uint32_t limit, refs, arguments;
    const struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(data), &limit);
    uint64_t count = b ? mu_load_relaxed(&b->body[1]) : 0; /* relaxed: constant while the call lasts */

    if (!b || count > MU_CALL_REFS_MAX || !mu_bundle_is_sound(seg, data, (uint32_t)count, sizeof *spec))
        return false;
    spec = (const struct mu_call_data *)mu_bundle_data(seg, data);
    refs = MU_CALL_REFS(spec->shape);
    arguments = MU_CALL_ARGUMENTS(spec->shape);
    if (refs + MU_CALL_PLACED(spec->shape) != count || arguments > MUSTER_ARGUMENTS_MAX ||
        MU_CALL_RESULTS(spec->shape) > MUSTER_RESULTS_MAX || MU_CALL_ASKS(spec->shape) > MU_POOL_KINDS ||
        !mu_bundle_is_sound(seg, data, (uint32_t)count, sizeof *spec + arguments * 8ull))
        return false;
    for (uint32_t i = 0; i < arguments; i++) {
        uint64_t a = spec->arguments[i];

        if (MU_ARGUMENT_IS_REF(a) ? MU_ARGUMENT_AT(a) >= refs
                                  : (uint64_t)MU_ARGUMENT_AT(a) + MU_ARGUMENT_LEN(a) > limit - MU_BLOCK_HEADER)
            return false;
    }
    return true;
}

enum muster_status mu_schedule_begin(struct muster *m, struct mu_ctx *ctx, const struct mu_object *o, uint32_t which,
                                     uint64_t maker, struct muster_call **ret_call)
{
    struct muster_call *call, none = {.m = m, .ctx = ctx, .ref = o->ref, .which = which};

    *ret_call = NULL;
    if (!spec_is_sound(m->seg, o->data)) {
        call_fail(&none, MUSTER_DATA_LOSS, "it is corrupt", 13, 0);
        return mu_object_say(m->seg, o->ref, MUSTER_DATA_LOSS);
    }
    call = malloc(sizeof *call);
    if (!call)
        call = &none;
    *call = (struct muster_call){.m = m, .ctx = ctx, .ref = o->ref, .data = o->data, .which = which, .maker = maker};
    call->spec = (const struct mu_call_data *)mu_bundle_data(m->seg, o->data);
    mu_schedule_enter(call);
    call->num_arguments = MU_CALL_ARGUMENTS(call->spec->shape);
    call->num_results = MU_CALL_RESULTS(call->spec->shape);
    call->retries = o->code;
    call->task = (int32_t)o->task - 1;
    if (MU_CALL_PLACED(call->spec->shape))
        call->place = mu_bundle_at(m->seg, o->data)->refs[MU_CALL_REFS(call->spec->shape)];
    if (call == &none) {
        call_fail(call, MUSTER_RESOURCE_EXHAUSTED, "its worker had no memory", 24, 0);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call");
    }
    if (call->spec->deadline && call->spec->deadline <= mu_now())
        call_fail(call, MUSTER_DEADLINE_EXCEEDED, MU_WORK_LATE, sizeof MU_WORK_LATE - 1, 0);
    else if (!argument_failed(call))
        *ret_call = call;
    if (!*ret_call)
        free(call);
    return MUSTER_OK;
}

/* ---- taking one ---- */

static enum muster_status call_next(struct muster *m, struct mu_ctx *ctx, muster_object place, muster_deadline deadline,
                                    struct muster_call **ret_call)
{
    uint64_t maker;
    enum muster_status status = mu_schedule_maker(m, &maker);

    if (!status)
        status = mu_queue_commit(m->seg);
    if (!status)
        status = call_settle(ctx, place ? 1 : 0);
    if (status)
        return status;
    if (!mu_load_relaxed(&ctx->own->worker)) /* relaxed: our own */
        mu_crew_say(ctx, MU_WORKER_FREE);
    if (!place)
        return mu_schedule_next(m, ctx, maker, deadline, ret_call);
    mu_crew_block(ctx); /* a call that it runs: until that ends it takes no others */
    return mu_place_next(m, ctx, place, deadline, maker, ret_call);
}

enum muster_status muster_worker_next(struct muster *muster, muster_object place, muster_deadline deadline,
                                      struct muster_call **ret_call)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = call_next(muster, ctx, place, deadline, ret_call);
    mu_exit(ctx);
    return status;
}

/* ---- in the midst of one ---- */

void muster_call_get(const struct muster_call *call, struct muster_call_info *ret_info)
{
    *ret_info = (struct muster_call_info){.function = call->spec->function,
                                          .result = call->ref,
                                          .num_arguments = call->num_arguments,
                                          .num_results = call->num_results,
                                          .retries_left = call->retries,
                                          .task = call->task,
                                          .place = call->place};
}

static enum muster_status argument_view(const struct muster_call *call, uint64_t ref,
                                        struct muster_object_view *ret_view)
{
    const struct muster_segment *seg = call->ctx->seg;
    struct mu_object o;
    enum muster_status status = mu_object_resolve(seg, ref, call->ctx->scratch, &o);

    if (status)
        return status;
    if (o.state != MU_OBJECT_SEALED)
        return mu_fail(MUSTER_INTERNAL, "argument 0x%016llx is not sealed", (unsigned long long)ref);
    return mu_holding_show(call->m->seg, ref, &o, ret_view);
}

enum muster_status muster_call_argument(const struct muster_call *call, uint32_t i, struct muster_object_view *ret_view)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);
    struct mu_bundle *b;
    uint64_t a;

    if (status)
        return status;
    b = mu_bundle_at(ctx->seg, call->data);
    a = i < call->num_arguments ? call->spec->arguments[i] : 0;
    if (i >= call->num_arguments)
        status = mu_fail(MUSTER_OUT_OF_RANGE, "argument %u of %u", i, call->num_arguments);
    else if (MU_ARGUMENT_IS_REF(a))
        status = argument_view(call, b->refs[MU_ARGUMENT_AT(a)], ret_view);
    else
        *ret_view =
            (struct muster_object_view){.data = (const uint8_t *)b + MU_ARGUMENT_AT(a), .len = MU_ARGUMENT_LEN(a)};
    mu_exit(ctx);
    return status;
}

/* Where the i-th result's reference goes, if it has none; the bundle is made with the first. */
static enum muster_status result_record(struct muster_call *call, uint32_t i, uint64_t **ret_record)
{
    uint32_t count = call->num_results ? call->num_results : 1;
    enum muster_status status = MUSTER_OK;

    if (i >= count)
        return mu_fail(MUSTER_OUT_OF_RANGE, "result %u of %u", i, count);
    if (call->end.data) /* the single one */
        return mu_fail(MUSTER_FAILED_PRECONDITION, "result %u is made already", i);
    if (!call->bundle)
        status = mu_bundle_new(call->ctx, count, 0, &call->bundle);
    if (status)
        return status;
    *ret_record = &mu_bundle_at(call->ctx->seg, call->bundle)->refs[i];
    return **ret_record ? mu_fail(MUSTER_FAILED_PRECONDITION, "result %u is made already", i) : MUSTER_OK;
}

enum muster_status mu_schedule_room(struct muster_call *call, uint32_t i, size_t len, size_t meta_len,
                                    struct muster_object_room *ret_room)
{
    struct mu_object o = {.state = MU_OBJECT_WRITING,
                          .bytes = len,
                          .meta = (uint32_t)meta_len,
                          .maker = call->maker,
                          .task = (uint32_t)call->m->task_id + 1};
    enum muster_status status = MUSTER_OK;
    uint64_t *record = NULL;
    uint8_t *bytes;

    if (meta_len > UINT32_MAX)
        return mu_fail(MUSTER_OUT_OF_RANGE, "a result with %zu bytes of metadata; %u are the most", meta_len,
                       UINT32_MAX);
    if (call->num_results > 1)
        status = result_record(call, i, &record);
    else if (i)
        status = mu_fail(MUSTER_OUT_OF_RANGE, "result %u of 1", i);
    else if (call->bundle || call->end.data)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "result %u is made already", i);
    if (!status && (len || meta_len))
        status = mu_object_block(call->ctx, &o);
    if (status)
        return status;
    bytes = o.data ? mu_object_bytes(call->ctx->seg, &o, true) : NULL;
    if (o.data && !bytes) {
        mu_heap_discard(call->ctx, o.data);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for a large result");
    }
    *ret_room = (struct muster_object_room){NULL, len, NULL, meta_len};
    if (len)
        ret_room->data = bytes;
    if (meta_len)
        ret_room->meta = bytes + (len + 7) / 8 * 8;
    if (record)
        return mu_hold_create(call->ctx, (mu_a64 *)record, &o);
    call->end = (struct mu_object){.data = o.data, .extent = o.extent, .bytes = len, .meta = (uint32_t)meta_len};
    return MUSTER_OK;
}

enum muster_status muster_call_result(struct muster_call *call, uint32_t i, size_t len, size_t meta_len,
                                      struct muster_object_room *ret_room)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    status = mu_schedule_room(call, i, len, meta_len, ret_room);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_call_forward(struct muster_call *call, uint32_t i, muster_object object)
{
    struct mu_ctx *ctx;
    uint64_t *record;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    status = object == call->ref ? mu_fail(MUSTER_INVALID_ARGUMENT, "a call cannot be its own result")
                                 : result_record(call, i, &record);
    if (!status) {
        status = mu_hold_take(ctx, (mu_a64 *)record, object);
        if (status && call->num_results <= 1)
            bundle_forget(call); /* it forwards nothing */
    }
    mu_exit(ctx);
    return status;
}
