/*
 * schedule/span.c: what a thread is told to be while it runs a call, and what the trace is told of it.
 *
 * A call is one event, noted at its end: so calls may lie within each other, and a death leaves none half noted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schedule/private.h"
#include "segment/slot.h"
#include "segment/trace.h"

void mu_schedule_enter(struct muster_call *call)
{
    call->function = call->spec->function;
    call->began = mu_is_traced(call->ctx) ? mu_now() : 0;
}

static void call_trace(const struct muster_call *call, enum muster_status status)
{
    struct mu_ctx *ctx = call->ctx;
    char name[64];

    mu_function_name(ctx->seg, call->function, ctx->scratch, name, sizeof name);
    mu_trace_note(ctx, mu_trace_now(ctx), MU_TRACE_CALL, status,
                  mu_trace_name(ctx, call->function, name, strcspn(name, "#")), call->ref, mu_now() - call->began);
}

void mu_schedule_leave(struct muster_call *call, enum muster_status status)
{
    struct mu_ctx *ctx = call->ctx;

    if (mu_is_traced(ctx) && call->began)
        call_trace(call, status);
    /* relaxed: our own. The worker is one that takes calls again, however it was blocked. */
    if (!call->which && mu_load_relaxed(&ctx->own->worker) == MU_WORKER(ctx->incarnation, MU_WORKER_BLOCKED))
        mu_crew_unblock(ctx);
    free(call);
}
