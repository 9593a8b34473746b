/*
 * coord/parked.c: asks that wait: where, how many, and how they are answered.
 *
 * Each is in the list of what it waits for and in that of its line. One that has its answer moves to the engine's
 * `ready` list, with everything that the answer points to, and mu_coord_deliver() empties that: outside of every look,
 * so that whoever is called back may make and drop asks. What waits is counted, for each line and in all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/private.h"

#define ASKS_OF_ALL  1000000u     /* of all lines, that may wait, */
#define BYTES_OF_ALL (512u << 20) /* and bytes of theirs */

/* ---- lists ---- */

static void unlink_parked(struct mu_parked *p)
{
    struct mu_parked_list *l = p->list;

    *(p->prev ? &p->prev->next : &l->first) = p->next;
    *(p->next ? &p->next->prev : &l->last) = p->prev;
    l->count--;
    p->list = NULL;
    p->prev = p->next = NULL;
}

static void append(struct mu_parked_list *l, struct mu_parked *p)
{
    p->list = l;
    p->prev = l->last;
    p->next = NULL;
    *(l->last ? &l->last->next : &l->first) = p;
    l->last = p;
    l->count++;
}

static void leave_line(struct mu_parked *p)
{
    struct mu_line *line = p->line;

    if (!line)
        return;
    *(p->line_prev ? &p->line_prev->line_next : &line->parked) = p->line_next;
    if (p->line_next)
        p->line_next->line_prev = p->line_prev;
    line->count--;
    line->remote -= p->is_remote;
    line->bytes -= p->bytes;
    p->line = NULL;
}

static void join_line(struct mu_parked *p, struct mu_line *line)
{
    p->line = line;
    if (!line)
        return;
    p->line_prev = NULL;
    p->line_next = line->parked;
    if (p->line_next)
        p->line_next->line_prev = p;
    line->parked = p;
    line->count++;
    line->bytes += p->bytes;
}

/* ---- coming ---- */

/* Else it is counted. */
static bool is_too_much(const struct mu_coord *coord, const struct mu_ask *ask, size_t bytes)
{
    const struct mu_line *line = ask->line;

    if (line && (line->count >= line->most || line->bytes + bytes > line->most_bytes))
        mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                "too many calls of this connection wait: %u of them, or %zu MiB, are the most", line->most,
                line->most_bytes >> 20);
    else if (coord->num_parked >= ASKS_OF_ALL || coord->parked_bytes + bytes > BYTES_OF_ALL)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                "too many calls of this job wait: 1000000 of them, or 512 MiB, are the most");
    else if (coord->o.account && !mu_account_take(coord->o.account, line ? line->bytes : 0, bytes))
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "too much is held already for clients: %zu MiB are the most",
                coord->o.account->most >> 20);
    else
        return false;
    return true;
}

struct mu_parked *mu_coord_park(struct mu_coord *coord, struct mu_ask *ask, struct mu_parked_list *list, size_t bytes)
{
    struct mu_parked *p;

    if (is_too_much(coord, ask, bytes + sizeof *p))
        return NULL;
    p = calloc(1, sizeof *p);
    if (!p) {
        if (coord->o.account)
            mu_account_give(coord->o.account, bytes + sizeof *p);
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call that waits");
        return NULL;
    }
    p->ask = ask;
    p->task = -1;
    p->bytes = bytes + sizeof *p;
    ask->parked = p;
    append(list, p);
    join_line(p, ask->line);
    coord->num_parked++;
    coord->parked_bytes += p->bytes;
    mu_coord_watch_bell(coord);
    return p;
}

/* ---- answers ---- */

static void fill(struct mu_ask *ask, enum muster_status status, unsigned payload, const char *text)
{
    ask->status = status;
    ask->payload = status ? payload : MU_PAYLOAD_NONE;
    ask->origin = -1;
    ask->reported = false;
    ask->text = text ? text : "";
}

void mu_coord_answer(struct mu_ask *ask, enum muster_status status, unsigned payload, const char *text)
{
    fill(ask, status, payload, text);
    ask->answered(ask);
}

void mu_coord_fail(struct mu_ask *ask, enum muster_status status, unsigned payload)
{
    char text[MU_COORD_TEXT];

    snprintf(text, sizeof text, "%s", muster_last_error());
    mu_coord_answer(ask, status, payload, text);
}

void mu_coord_fail_of(struct mu_ask *ask, enum muster_status status, int32_t task)
{
    char text[MU_COORD_TEXT];

    snprintf(text, sizeof text, "%s", muster_last_error());
    fill(ask, status, MU_PAYLOAD_SERVICE, text);
    ask->origin = task;
    ask->answered(ask);
}

void mu_coord_result(struct mu_ask *ask, enum mu_op op, uint64_t result)
{
    if (op == MU_OP_KV_COMPARE_AND_SET)
        ask->version = (int64_t)result;
    else if (op == MU_OP_KV_APPEND || op == MU_OP_KV_DELETE)
        ask->counter = (int64_t)result;
}

bool mu_coord_refuses(struct mu_coord *coord, struct mu_ask *ask)
{
    ask->parked = NULL;
    ask->blob = NULL;
    if (coord->stopped)
        mu_coord_answer(ask, MUSTER_INTERNAL, MU_PAYLOAD_NONE, "Coordination service has been shut down.");
    return coord->stopped;
}

/* It does not wait any more. */
static void uncount(struct mu_coord *coord, struct mu_parked *p)
{
    unlink_parked(p);
    coord->num_parked--;
    coord->parked_bytes -= p->bytes;
    if (coord->o.account)
        mu_account_give(coord->o.account, p->bytes);
    leave_line(p);
}

void mu_parked_answer(struct mu_coord *coord, struct mu_parked *p, enum muster_status status, unsigned payload,
                      const char *text)
{
    uncount(coord, p);
    append(&coord->ready, p);
    p->text = text ? strdup(text) : NULL;
    fill(p->ask, status, payload, p->text);
}

static void free_parked(struct mu_parked *p)
{
    mu_blob_drop(p->shared);
    free(p->owned[0]);
    free(p->owned[1]);
    free(p->text);
    free(p);
}

void mu_coord_deliver(struct mu_coord *coord)
{
    struct mu_parked *p;

    if (coord->delivering)
        return;
    coord->delivering = true;
    while ((p = coord->ready.first)) {
        unlink_parked(p);
        p->ask->parked = NULL;
        p->ask->answered(p->ask);
        free_parked(p);
    }
    coord->delivering = false;
}

void mu_coord_drop_parked(struct mu_coord *coord, struct mu_parked *p)
{
    if (p->ask->parked == p)
        p->ask->parked = NULL;
    if (p->list == &coord->ready) {
        unlink_parked(p);
    } else {
        uncount(coord, p);
        if (p->dropped)
            p->dropped(coord, p);
    }
    free_parked(p);
    mu_coord_deliver(coord);
}

void mu_coord_drop(struct mu_coord *coord, struct mu_ask *ask)
{
    if (ask->parked)
        mu_coord_drop_parked(coord, ask->parked);
}
