/*
 * coord/pending.c: pending requests: where, how many, and how they are answered.
 *
 * Each is in the list of what it waits for and in that of its line. One that has its answer moves to the engine's
 * `ready` list, with everything that the answer points to, and mu_coord_deliver() empties that: outside of every look,
 * so that an owner that is called back may make and drop requests. Pending requests are counted, for each line and in
 * all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/private.h"

#include "base/list.h"

#define REQUESTS_OF_ALL 1000000u     /* of all lines, that may wait, */
#define BYTES_OF_ALL    (512u << 20) /* and bytes of theirs */

/* ---- lists ---- */

static void pending_unlink(struct mu_coord_pending *p)
{
    struct mu_coord_pending_list *l = p->list;

    MU_QUEUE_DROP(l->first, l->last, p);
    l->count--;
    p->list = NULL;
    p->prev = p->next = NULL;
}

static void pending_append(struct mu_coord_pending_list *l, struct mu_coord_pending *p)
{
    p->list = l;
    MU_QUEUE_APPEND(l->first, l->last, p);
    l->count++;
}

static void leave_line(struct mu_coord_pending *p)
{
    struct mu_line *line = p->line;

    if (!line)
        return;
    *(p->line_prev ? &p->line_prev->line_next : &line->pending) = p->line_next;
    if (p->line_next)
        p->line_next->line_prev = p->line_prev;
    line->count--;
    line->remote -= p->is_remote;
    line->bytes -= p->bytes;
    p->line = NULL;
}

static void join_line(struct mu_coord_pending *p, struct mu_line *line)
{
    p->line = line;
    if (!line)
        return;
    p->line_prev = NULL;
    p->line_next = line->pending;
    if (p->line_next)
        p->line_next->line_prev = p;
    line->pending = p;
    line->count++;
    line->bytes += p->bytes;
}

/* ---- coming ---- */

/* Else it is counted. */
static bool is_too_much(const struct mu_coord *coord, const struct mu_coord_request *request, size_t bytes)
{
    const struct mu_line *line = request->line;

    if (line && (line->count >= line->most || line->bytes + bytes > line->most_bytes))
        mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                "too many calls of this connection wait: %u of them, or %zu MiB, are the most", line->most,
                line->most_bytes >> 20);
    else if (coord->num_pending >= REQUESTS_OF_ALL || coord->pending_bytes + bytes > BYTES_OF_ALL)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                "too many calls of this job wait: 1000000 of them, or 512 MiB, are the most");
    else if (coord->o.account && !mu_account_take(coord->o.account, line ? line->bytes : 0, bytes))
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "too much is held already for clients: %zu MiB are the most",
                coord->o.account->most >> 20);
    else
        return false;
    return true;
}

struct mu_coord_pending *mu_coord_pending_new(struct mu_coord *coord, struct mu_coord_request *request,
                                              struct mu_coord_pending_list *list, size_t bytes)
{
    struct mu_coord_pending *p;

    if (is_too_much(coord, request, bytes + sizeof *p))
        return NULL;
    p = calloc(1, sizeof *p);
    if (!p) {
        if (coord->o.account)
            mu_account_give(coord->o.account, bytes + sizeof *p);
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call that waits");
        return NULL;
    }
    p->request = request;
    p->task = -1;
    p->bytes = bytes + sizeof *p;
    request->pending = p;
    pending_append(list, p);
    join_line(p, request->line);
    coord->num_pending++;
    coord->pending_bytes += p->bytes;
    mu_coord_watch_bell(coord);
    return p;
}

/* ---- answers ---- */

static void request_fill(struct mu_coord_request *request, enum muster_status status, unsigned payload,
                         const char *text)
{
    request->status = status;
    request->payload = status ? payload : MU_PAYLOAD_NONE;
    request->origin = -1;
    request->reported = false;
    request->text = text ? text : "";
}

void mu_coord_answer(struct mu_coord_request *request, enum muster_status status, unsigned payload, const char *text)
{
    request_fill(request, status, payload, text);
    request->answered(request);
}

void mu_coord_fail(struct mu_coord_request *request, enum muster_status status, unsigned payload)
{
    char text[MU_COORD_TEXT];

    snprintf(text, sizeof text, "%s", muster_last_error());
    mu_coord_answer(request, status, payload, text);
}

void mu_coord_complete(struct mu_coord_request *request, enum muster_status status, unsigned payload)
{
    if (status)
        mu_coord_fail(request, status, payload);
    else
        mu_coord_answer(request, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
}

void mu_coord_fail_of(struct mu_coord_request *request, enum muster_status status, int32_t task)
{
    char text[MU_COORD_TEXT];

    snprintf(text, sizeof text, "%s", muster_last_error());
    request_fill(request, status, MU_PAYLOAD_SERVICE, text);
    request->origin = task;
    request->answered(request);
}

void mu_coord_result(struct mu_coord_request *request, enum mu_op op, uint64_t result)
{
    if (op == MU_OP_KV_COMPARE_AND_SET)
        request->version = (int64_t)result;
    else if (op == MU_OP_KV_APPEND || op == MU_OP_KV_DELETE)
        request->counter = (int64_t)result;
}

bool mu_coord_refuses(struct mu_coord *coord, struct mu_coord_request *request)
{
    request->pending = NULL;
    request->blob = NULL;
    if (coord->stopped)
        mu_coord_answer(request, MUSTER_INTERNAL, MU_PAYLOAD_NONE, "Coordination service has been shut down.");
    return coord->stopped;
}

/* It does not wait any more. */
static void pending_uncount(struct mu_coord *coord, struct mu_coord_pending *p)
{
    pending_unlink(p);
    coord->num_pending--;
    coord->pending_bytes -= p->bytes;
    if (coord->o.account)
        mu_account_give(coord->o.account, p->bytes);
    leave_line(p);
}

void mu_coord_pending_answer(struct mu_coord *coord, struct mu_coord_pending *p, enum muster_status status,
                             unsigned payload, const char *text)
{
    pending_uncount(coord, p);
    pending_append(&coord->ready, p);
    p->text = text ? strdup(text) : NULL;
    request_fill(p->request, status, payload, p->text);
}

static void pending_free(struct mu_coord_pending *p)
{
    mu_blob_drop(p->shared);
    free(p->owned[0]);
    free(p->owned[1]);
    free(p->text);
    free(p);
}

void mu_coord_deliver(struct mu_coord *coord)
{
    struct mu_coord_pending *p;

    if (coord->delivering)
        return;
    coord->delivering = true;
    while ((p = coord->ready.first)) {
        pending_unlink(p);
        p->request->pending = NULL;
        p->request->answered(p->request);
        pending_free(p);
    }
    coord->delivering = false;
}

void mu_coord_pending_drop(struct mu_coord *coord, struct mu_coord_pending *p)
{
    if (p->request->pending == p)
        p->request->pending = NULL;
    if (p->list == &coord->ready) {
        pending_unlink(p);
    } else {
        pending_uncount(coord, p);
        if (p->dropped)
            p->dropped(coord, p);
    }
    pending_free(p);
    mu_coord_deliver(coord);
}

void mu_coord_drop(struct mu_coord *coord, struct mu_coord_request *request)
{
    if (request->pending)
        mu_coord_pending_drop(coord, request->pending);
}
