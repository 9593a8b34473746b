/*
 * coord/remote_kv.c: changes and listings of keys, on a host that is not the leader's.
 *
 * A change is made also when its client goes away meanwhile, so no delete ends half way; of others, which are whole or
 * not there, no more than 1024 at once. A listing ends with its client.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/remote.h"
#include "coord/remote.h"
#include "segment/stats.h"

enum { LINGERING_MOST = 1024 /* changes that nobody waits for, but deletes */ };
#define LINE_BYTES (1u << 20) /* of a value that count against its line: what is large counts against all lines' */

/* ---- changes ---- */

struct change {
    struct mu_coord_call call;
    struct mu_kv_remote_change remote;
    enum mu_op op;
};

static void count_write(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    if (mu_enter(coord->m, &ctx))
        return;
    mu_count(&ctx->own->kv_writes, 1);
    mu_exit(ctx);
}

static void change_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    struct change *c = (struct change *)call;
    struct mu_coord_request *request = call->p ? call->p->request : NULL;
    char words[200];

    if (!request) { /* its client has gone */
        call->coord->remote->lingering--;
        mu_coord_call_free(call);
        return;
    }
    mu_coord_result(request, c->op, c->remote.result);
    if (status == MUSTER_ALREADY_EXISTS) {
        snprintf(words, sizeof words, "%s already exists.", call->steps->about); /* with the period: clients match it */
        text = words;
    }
    if (!status)
        count_write(call->coord);
    if (!status && c->op == MU_OP_KV_INCREMENT) {
        request->len = (size_t)snprintf(words, sizeof words, "%" PRId64, (int64_t)c->remote.result);
        request->value = call->p->owned[0] = strdup(words);
        if (!request->value) {
            status = MUSTER_RESOURCE_EXHAUSTED;
            text = "no memory for a sum";
        }
    }
    mu_coord_call_done(call, status, mu_coord_key_payload(status), text);
}

static void change_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct change *c = p->at;

    c->call.p = NULL;
    if (c->op == MU_OP_KV_DELETE || coord->remote->lingering < LINGERING_MOST) {
        coord->remote->lingering++;
        return;
    }
    mu_coord_call_end(&c->call);
    mu_coord_call_free(&c->call);
}

void mu_coord_remote_change(struct mu_coord *coord, struct mu_coord_request *request, enum mu_op op,
                            const struct mu_key *k, uint64_t number, const void *value, size_t len)
{
    struct change *c = mu_coord_call_new(request, sizeof *c, change_ended);

    if (!c)
        return;
    c->op = op;
    mu_kv_change_begin(&c->remote, op, k, number, value, len);
    if (mu_coord_call_begin(coord, request, &coord->remote->requests, &c->call, len < LINE_BYTES ? len : LINE_BYTES))
        c->call.p->dropped = change_dropped;
}

/* ---- listings ---- */

struct remote_listing {
    struct mu_coord_call call;
    struct mu_kv_remote_list remote;
    char *path;
    size_t path_len;
};

static void listing_freed(struct mu_coord_call *call)
{
    free(((struct remote_listing *)call)->path);
    mu_kv_list_done(&((struct remote_listing *)call)->remote);
}

static enum muster_status listing_hold(struct mu_kv_remote_list *list, size_t bytes)
{
    return mu_coord_call_hold(list->arg, bytes);
}

static void listing_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    struct remote_listing *l = (struct remote_listing *)call;
    struct mu_snapshot *s = &l->remote.s;
    struct mu_coord_pending *p = call->p;

    if (!status) {
        mu_snapshot_sort(s);
        p->request->entries = s->entries;
        p->request->num_entries = mu_coord_below(s->entries, s->count, l->path, l->path_len);
        p->owned[0] = s->entries;
        p->owned[1] = s->bytes;
        memset(s, 0, sizeof *s);
    }
    mu_coord_call_done(call, status, MU_PAYLOAD_NONE, text);
}

void mu_coord_remote_list(struct mu_coord *coord, struct mu_coord_request *request, char *path, size_t len)
{
    struct remote_listing *l = mu_coord_call_new(request, sizeof *l, listing_ended);

    if (!l) {
        free(path);
        return;
    }
    l->path = path;
    l->path_len = len;
    l->call.freed = listing_freed;
    l->remote.s = (struct mu_snapshot){.prefix = path, .prefix_len = mu_coord_listed(len)};
    l->remote.hold = listing_hold;
    l->remote.arg = &l->call;
    mu_kv_list_begin(&l->remote);
    mu_coord_call_begin(coord, request, &coord->remote->requests, &l->call, sizeof *l + len);
}

struct counting {
    struct mu_coord_call call;
    struct mu_kv_remote_count remote;
};

static void counting_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    call->p->request->counter = status ? 0 : (int64_t)((struct counting *)call)->remote.count;
    mu_coord_call_done(call, status, MU_PAYLOAD_NONE, text);
}

void mu_coord_remote_count(struct mu_coord *coord, struct mu_coord_request *request, const char *prefix,
                           size_t prefix_len)
{
    struct counting *c = mu_coord_call_new(request, sizeof *c, counting_ended);

    if (!c)
        return;
    mu_kv_count_begin(&c->remote, prefix, prefix_len);
    mu_coord_call_begin(coord, request, &coord->remote->requests, &c->call, 0);
}
