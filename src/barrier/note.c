/*
 * barrier/note.c: what is written into the trace at barriers: which task comes, to which instance, and how it leaves.
 *
 * An entry is timed at the call, but written once the instance is known; a task killed in between has not come.
 */
#include <string.h>

#include "barrier/call.h"
#include "barrier/group.h"
#include "segment/trace.h"

void mu_barrier_call_note_entry(const struct mu_named *n, const struct mu_call *c, uint64_t came)
{
    uint32_t name = mu_trace_name(n->ctx, n->key.hash, n->id, strlen(n->id));

    mu_trace_note(n->ctx, came, MU_TRACE_NAMED_ENTER, MUSTER_OK, name, n->key.hash, c->counter);
}

void mu_barrier_call_note_exit(const struct mu_named *n, const struct mu_call *c, enum muster_status status)
{
    uint32_t name;

    if (status == MUSTER_DATA_LOSS) /* truncated: the ring may be gone */
        return;
    name = mu_trace_name(n->ctx, n->key.hash, n->id, strlen(n->id));
    mu_trace_note(n->ctx, mu_trace_now(n->ctx), MU_TRACE_NAMED_LEAVE, status, name, n->key.hash, c->counter);
}

void mu_group_note(struct muster_group *g, enum mu_trace_kind kind, uint64_t instance, enum muster_status status)
{
    struct mu_ctx *ctx = mu_handle_peek(g->muster);
    uint64_t now;

    if ((!ctx && mu_handle_context(g->muster, &ctx)) || !mu_is_traced(ctx) || status == MUSTER_DATA_LOSS)
        return;
    now = mu_trace_now(ctx);
    mu_trace_note(ctx, now, kind, status, mu_trace_name(ctx, g->key.hash, g->name, strlen(g->name)), g->key.hash,
                  instance);
}
