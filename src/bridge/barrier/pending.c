/*
 * bridge/barrier/pending.c: the table of what is pending.
 */
#include "bridge/barrier/pending.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "segment/object.h"

enum { CHAINS = 1024 };

bool mu_pending_open(struct mu_pending_table *t, struct muster *m)
{
    t->m = m;
    mu_named_begin(&t->named, m->seg, NULL, "-");
    t->chains = calloc(CHAINS, sizeof(struct mu_pending *));
    return t->chains != NULL;
}

void mu_pending_close(struct mu_pending_table *t)
{
    while (t->list)
        mu_pending_drop(t, t->list);
    free(t->chains);
    t->chains = NULL;
    mu_named_done(&t->named);
}

static struct mu_pending **chain_of(const struct mu_pending_table *t, const char *key, uint32_t len)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)key[i]) * 16777619u;
    return &t->chains[h % CHAINS];
}

struct mu_pending *mu_pending_find(const struct mu_pending_table *t, const char *key, uint32_t len)
{
    struct mu_pending *p = *chain_of(t, key, len);

    while (p && (p->key_len != len || memcmp(p->key, key, len) != 0))
        p = p->chain;
    return p;
}

struct mu_pending *mu_pending_of(struct mu_pending_table *t, const char *key, uint32_t len)
{
    struct mu_table cells = mu_table_cells(t->m->seg);
    struct mu_pending *p = mu_pending_find(t, key, len), **chain = chain_of(t, key, len);
    struct mu_key k;

    if (p)
        return p;
    p = calloc(1, sizeof *p + len + 1);
    if (!p)
        return NULL;
    memcpy(p->key, key, len);
    p->key_len = len;
    mu_key_make(&k, t->m->seg, key, len);
    p->bucket = mu_table_bucket(&cells, &k);
    p->checked = p->look_at = UINT64_MAX;
    p->chain = *chain;
    *chain = p;
    MU_LIST_PUSH(t->list, p);
    return p;
}

void mu_pending_drop(struct mu_pending_table *t, struct mu_pending *p)
{
    struct mu_pending **at = chain_of(t, p->key, p->key_len);

    if (p->first)
        return;
    MU_CHAIN_DROP(*at, p, chain);
    MU_LIST_DROP(t->list, p);
    free(p);
}

static size_t bytes_of(const struct mu_pending_call *c)
{
    return mu_pending_is_barrier(c->at) && c->call.ids ? c->call.num * sizeof *c->call.ids : 0;
}

void mu_pending_add(struct mu_pending *p, struct mu_pending_call *c)
{
    c->at = p;
    MU_QUEUE_APPEND(p->first, p->last, c);
    p->waiting += c->here;
    p->arriving += !c->here;
    p->bytes += bytes_of(c);
}

void mu_pending_remove(struct mu_pending_call *c)
{
    struct mu_pending *p = c->at;

    MU_QUEUE_DROP(p->first, p->last, c);
    p->waiting -= c->here;
    p->arriving -= !c->here;
    p->bytes -= bytes_of(c);
    if (p->payer == c)
        p->payer = NULL;
}

static bool pending_is_due(const struct mu_pending *p, uint64_t now, uint64_t version)
{
    /* relaxed: only a reason to look, which acquires; pairs with the commits there */
    return p->arriving || now >= p->look_at || version != p->version ||
           !mu_word_same(mu_load_relaxed(p->bucket), p->word);
}

void mu_pending_look_due(struct mu_pending_table *t, uint64_t now, uint64_t version)
{
    struct mu_ctx *ctx = NULL;
    enum muster_status status = MUSTER_OK;

    for (struct mu_pending *p = t->list, *next; p; p = next) {
        next = p->next;
        if (p->first && pending_is_due(p, now, version)) {
            if (!ctx && !status)
                status = mu_enter(t->m, &ctx);
            if (status)
                p->look_at = now + MU_PENDING_OUT_NS;
            else
                mu_pending_look(t, ctx, p, now, NULL);
        }
        mu_pending_drop(t, p);
    }
    if (ctx)
        mu_exit(ctx);
}

uint64_t mu_pending_next(const struct mu_pending_table *t)
{
    uint64_t at = UINT64_MAX;

    for (const struct mu_pending *p = t->list; p; p = p->next)
        at = p->look_at < at ? p->look_at : at;
    return at;
}
