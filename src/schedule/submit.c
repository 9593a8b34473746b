/*
 * schedule/submit.c: calls, from their submitters.
 *
 * A submission makes the call's bundle, which holds the arguments that are objects, and creates the call with it: one
 * commit. Several results are objects of their own that name the call; the call then waits, in no queue, until they are
 * made. What follows the last commit, its place in the queue or in chains, is repeated after a death by others.
 */
#include <string.h>

#include "base/clock.h"
#include "schedule/private.h"
#include "segment/hosts.h"

struct submission {
    const struct muster_argument *arguments;
    uint32_t count;
    uint64_t function, place, deadline;
    uint32_t num_results, retries, num_asks;
    uint64_t asks[MU_POOL_KINDS]; /* MU_ASK() */
    uint32_t refs;                /* of objects, the place's not */
    size_t inline_len;            /* of those that lie in the call, each up to a multiple of 8 */
    unsigned char is_ref[MUSTER_ARGUMENTS_MAX];
};

static size_t bytes_up(size_t n)
{
    return (n + 7) / 8 * 8;
}

static void submission_measure(struct submission *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct muster_argument *a = &s->arguments[i];

        s->is_ref[i] = a->object || a->len > MUSTER_INLINE_MAX || s->inline_len + bytes_up(a->len) > MUSTER_INLINE_MAX;
        if (s->is_ref[i])
            s->refs++;
        else
            s->inline_len += bytes_up(a->len);
    }
}

/* Bytes that are too many for the call: an object that its bundle alone holds. */
static enum muster_status argument_put(struct mu_ctx *ctx, uint64_t data, uint32_t at, const struct muster_argument *a,
                                       uint64_t maker, int32_t task)
{
    struct mu_object o = {.state = MU_OBJECT_SEALED, .bytes = a->len, .maker = maker, .task = (uint32_t)task + 1};
    enum muster_status status = mu_object_block(ctx, &o);
    uint8_t *to;

    if (status)
        return status;
    to = mu_object_bytes(ctx->seg, &o, true);
    if (!to) {
        mu_heap_discard(ctx, o.data);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for a large argument");
    }
    mu_holding_copy_in(to, a->data, a->len);
    return mu_hold_create(ctx, (mu_a64 *)&mu_bundle_at(ctx->seg, data)->refs[at], &o);
}

/* Held by the call: a place, or what one has become that was closed. */
static enum muster_status place_hold(struct mu_ctx *ctx, uint64_t data, uint32_t at, uint64_t place)
{
    struct mu_object o;
    enum muster_status status = mu_bundle_hold(ctx, data, at, place);

    if (!status)
        status = mu_object_look(ctx->seg, place, ctx->scratch, &o);
    if (!status && o.state != MU_OBJECT_PLACE && o.state != MU_OBJECT_ERROR)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "object 0x%016llx is no place", (unsigned long long)place);
    return status;
}

/* The bundle; *ret_waits: an argument is not there. */
static enum muster_status bundle_make(struct muster *m, struct mu_ctx *ctx, const struct submission *s, uint64_t maker,
                                      uint64_t *ret_data, bool *ret_waits)
{
    uint32_t holds = s->refs + (s->place != 0), at = 0;
    uint32_t words = 3 + s->count + (s->place || s->num_asks) + s->num_asks;
    size_t offset = sizeof(struct mu_bundle) + holds * 8ull + words * 8ull;
    enum muster_status status = mu_bundle_new(ctx, holds, words * 8ull + s->inline_len, ret_data);
    uint64_t *to, *body;
    struct mu_object o;

    *ret_waits = false;
    if (status)
        return status;
    to = mu_bundle_data(m->seg, *ret_data);
    body = (uint64_t *)mu_bundle_at(m->seg, *ret_data);
    to[0] = s->function;
    to[1] = s->deadline;
    to[2] = MU_CALL_SHAPE(s->count, s->num_results, s->refs, s->num_asks, s->place != 0);
    if (s->place || s->num_asks)
        to[3 + s->count] = mu_now();
    for (uint32_t i = 0; i < s->num_asks; i++)
        to[4 + s->count + i] = s->asks[i];
    for (uint32_t i = 0; !status && i < s->count; i++) {
        const struct muster_argument *a = &s->arguments[i];

        if (!s->is_ref[i]) {
            to[3 + i] = MU_ARGUMENT(offset, a->len);
            mu_holding_copy_in((uint8_t *)body + offset, a->data, a->len);
            offset += bytes_up(a->len);
            continue;
        }
        to[3 + i] = MU_ARGUMENT_REF(at);
        if (!a->object)
            status = argument_put(ctx, *ret_data, at, a, maker, m->task_id);
        else if (!(status = mu_bundle_hold(ctx, *ret_data, at, a->object)))
            status = mu_object_resolve(m->seg, a->object, ctx->scratch, &o);
        *ret_waits |= !status && a->object && mu_object_is_open(o.state);
        at++;
    }
    if (!status && s->place)
        status = place_hold(ctx, *ret_data, at, s->place);
    if (status) {
        mu_bundle_end(ctx, *ret_data);
        mu_bundle_finish(ctx);
    }
    return status;
}

/* The single results of a call that has several: the call itself is the first. */
static enum muster_status parts_make(struct mu_ledger *ledger, struct mu_ctx *ctx, uint64_t call, uint32_t task,
                                     uint32_t count, muster_object *ret_results)
{
    for (uint32_t i = 1; i < count; i++) {
        struct mu_object o = {.state = MU_OBJECT_PART, .bytes = i, .task = task};
        struct mu_holding *h;
        enum muster_status status = mu_bundle_new(ctx, 1, 0, &o.data);

        if (!status) {
            status = mu_bundle_hold(ctx, o.data, 0, call);
            if (status) {
                mu_bundle_end(ctx, o.data);
                mu_bundle_finish(ctx);
            }
        }
        if (!status)
            status = mu_holding_new(ledger, ctx, &o, false, &h);
        if (status)
            return status;
        ret_results[i] = o.ref;
    }
    return MUSTER_OK;
}

static enum muster_status call_submit(struct muster *m, struct mu_ctx *ctx, const struct submission *s,
                                      muster_object *ret_results)
{
    struct mu_object o = {.task = (uint32_t)m->task_id + 1, .code = s->place ? 0 : s->retries, .meta = s->num_asks};
    struct mu_ledger *ledger;
    struct mu_holding *h;
    bool waits;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    status = bundle_make(m, ctx, s, mu_ledger_maker(ledger), &o.data, &waits);
    waits |= s->num_results > 1;
    o.state = waits ? MU_OBJECT_CALL_WAITING : MU_OBJECT_CALL_QUEUED;
    if (s->place)
        o.state = MU_OBJECT_CALL_PLACED;
    if (!status)
        status = mu_holding_new(ledger, ctx, &o, false, &h);
    if (!status) {
        ret_results[0] = o.ref;
        status = parts_make(ledger, ctx, o.ref, o.task, s->num_results, ret_results);
        if (status) { /* nobody has it yet */
            mu_work_cancel(ctx, o.ref, &(struct mu_object){.state = MU_OBJECT_ERROR, .code = MUSTER_CANCELLED});
            mu_holding_forget(ledger, ctx, ret_results, s->num_results);
        }
    }
    mu_ledger_unlock(ledger);
    if (status)
        return status;
    if (s->place)
        mu_work_place(ctx, o.ref, s->place);
    else if (waits)
        mu_work_advance(ctx, o.ref);
    else
        mu_queue_put(m->seg, o.ref);
    return MUSTER_OK;
}

static enum muster_status call_begin(struct muster *m, struct mu_ctx *ctx, struct submission *s,
                                     const struct muster_submit_options *options, muster_object *ret_results)
{
    struct mu_function_shape shape;
    enum muster_status status = mu_function_shape(m, ctx, s->function, &shape);

    if (!status)
        status = mu_queue_commit(m->seg);
    if (status)
        return status;
    submission_measure(s);
    s->num_results = shape.num_results;
    s->retries = shape.max_retries;
    if (options) {
        s->deadline = options->deadline;
        s->place = options->place;
        if (options->max_retries >= 0)
            s->retries = options->max_retries < (int32_t)MUSTER_RETRIES_MAX ? (uint32_t)options->max_retries
                                                                            : MUSTER_RETRIES_MAX;
        status = mu_schedule_asks(m, ctx, options, s->asks, &s->num_asks);
        if (status)
            return status;
    }
    memset(ret_results, 0, (s->num_results ? s->num_results : 1) * sizeof *ret_results);
    return call_submit(m, ctx, s, ret_results);
}

/* With the replicas of arguments that are of other hosts, which are held until the call holds them. */
static enum muster_status call_begin_here(struct muster *m, struct mu_ctx *ctx, struct submission *s,
                                          const struct muster_submit_options *options, muster_object *ret_results)
{
    struct muster_argument arguments[MUSTER_ARGUMENTS_MAX];
    muster_object objects[MUSTER_ARGUMENTS_MAX];
    enum muster_status status;
    struct mu_here here;

    for (uint32_t i = 0; i < s->count; i++)
        objects[i] = s->arguments[i].object;
    status = mu_here_begin(m, ctx, objects, s->count, MUSTER_FOREVER, &here, NULL);
    if (status)
        return status;
    if (here.any) {
        memcpy(arguments, s->arguments, s->count * sizeof *arguments);
        for (uint32_t i = 0; i < s->count; i++)
            arguments[i].object = here.local[i];
        s->arguments = arguments;
    }
    status = call_begin(m, ctx, s, options, ret_results);
    mu_here_end(m, ctx, &here);
    return status;
}

enum muster_status muster_submit(struct muster *muster, muster_function function,
                                 const struct muster_argument *arguments, size_t count,
                                 const struct muster_submit_options *options, muster_object *ret_results)
{
    struct submission s;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    s.arguments = arguments;
    s.count = (uint32_t)count;
    s.function = function;
    s.place = s.deadline = 0;
    s.refs = s.num_asks = 0;
    s.inline_len = 0;
    status = count > MUSTER_ARGUMENTS_MAX
                 ? mu_fail(MUSTER_INVALID_ARGUMENT, "%zu arguments; %u are the most", count, MUSTER_ARGUMENTS_MAX)
             : mu_is_bridged(muster->seg) ? call_begin_here(muster, ctx, &s, options, ret_results)
                                          : call_begin(muster, ctx, &s, options, ret_results);
    mu_exit(ctx);
    return status;
}

/* ---- what others do to a call ---- */

/* The call of which the object is a result. */
static uint64_t call_of(struct mu_ctx *ctx, uint64_t result)
{
    struct mu_object o;
    uint64_t call;
    uint32_t count;

    return !mu_object_peek(ctx->seg, result, ctx->scratch, &o) && o.state == MU_OBJECT_PART &&
                   mu_bundle_read(ctx->seg, &o, 0, &call, 1, &count)
               ? call
               : result;
}

enum muster_status muster_call_cancel(struct muster *muster, muster_object result)
{
    static const char text[] = "it was cancelled";
    struct mu_object end;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_work_error(ctx, MUSTER_CANCELLED, text, sizeof text - 1, 0, &end);
    if (!status)
        status = mu_work_cancel(ctx, call_of(ctx, result), &end);
    mu_exit(ctx);
    return status;
}

static enum muster_status object_detail(struct muster *m, struct mu_ctx *ctx, uint64_t object, uint64_t *ret_detail)
{
    struct mu_ledger *ledger;
    struct mu_holding *outer, *h;
    struct mu_object o;
    size_t len;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    status = mu_holding_find(ledger, ctx, object, &outer);
    if (!status) {
        outer->views++; /* so that it stays meanwhile */
        status = mu_object_resolve(ctx->seg, object, ctx->scratch, &o);
        if (status == MUSTER_NOT_FOUND)
            mu_object_say(ctx->seg, object, status);
        if (!status && o.state != MU_OBJECT_ERROR)
            status = mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is no error", (unsigned long long)object);
        if (!status)
            mu_work_error_text(ctx->seg, &o, &len, ret_detail);
        if (!status && !*ret_detail)
            status = mu_fail(MUSTER_NOT_FOUND, "error 0x%016llx has no detail", (unsigned long long)object);
        if (!status)
            status = mu_holding_find(ledger, ctx, *ret_detail, &h);
        if (!status)
            h->refs++;
        outer = mu_ledger_find(ledger, object);
        outer->views--;
        mu_holding_let_go(ledger, ctx, outer);
    }
    mu_ledger_unlock(ledger);
    return status;
}

enum muster_status muster_object_detail(struct muster *muster, muster_object object, muster_object *ret_detail)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = object_detail(muster, ctx, object, ret_detail);
    mu_exit(ctx);
    return status;
}
