/*
 * schedule/resource.c: what a job has for calls besides workers, in words, and what a call asks for of it.
 *
 * Amounts and leases are in the pool (segment/lease.h). The units' names, which change only when a resource is offered,
 * are a cell for each resource, "u" and its name; they are written before the pool is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schedule/private.h"
#include "segment/lease.h"
#include "segment/table.h"

#define AMOUNT_MAX 1e9

static_assert(MUSTER_RESOURCES_MAX == MU_POOL_KINDS && MUSTER_RESOURCE_NAME_MAX + 1 == MU_POOL_NAME &&
                  MUSTER_RESOURCE_UNITS_MAX == MU_POOL_UNITS,
              "the pool has room");

static bool name_is_sound(const char *name)
{
    size_t len = name ? strnlen(name, MUSTER_RESOURCE_NAME_MAX + 1) : 0;

    return len && len <= MUSTER_RESOURCE_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:") == len;
}

static enum muster_status name_refuse(void)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "a resource's name is 1 to %u letters, digits, and \"_-.:\"",
                   MUSTER_RESOURCE_NAME_MAX);
}

/* In ten-thousandths; false: no amount can be so. */
static bool amount_scale(double amount, uint64_t *ret)
{
    if (!(amount >= 0) || amount > AMOUNT_MAX)
        return false;
    *ret = (uint64_t)(amount * MU_POOL_SCALE + 0.5);
    return true;
}

static double amount_of(const struct mu_pool_kind *kind, uint64_t amount)
{
    return kind->has_units ? __builtin_popcountll(amount) : (double)amount / MU_POOL_SCALE;
}

/* ---- units ---- */

static void units_key(struct mu_key *k, const struct muster_segment *seg, const char *name)
{
    char key[MUSTER_RESOURCE_NAME_MAX + 2] = {'u'};
    size_t len = strlen(name);

    memcpy(key + 1, name, len);
    mu_key_make(k, seg, key, len + 1);
}

/* The text; "": there is none. */
static enum muster_status units_read(struct muster_segment *seg, struct mu_ctx *ctx, const char *name,
                                     char text[MUSTER_RESOURCE_TEXT])
{
    struct mu_table t = mu_table_cells(seg);
    struct mu_found found;
    struct mu_key k;
    enum muster_status status;

    units_key(&k, seg, name);
    status = mu_table_get(&t, ctx, &k, text, MUSTER_RESOURCE_TEXT - 1, &found);
    text[!status && found.version && found.len < MUSTER_RESOURCE_TEXT ? found.len : 0] = 0;
    return status;
}

/* Of all names those of the set. */
static void units_choose(char text[MUSTER_RESOURCE_TEXT], uint64_t set)
{
    char *to = text, *from = text;

    for (uint32_t i = 0; i < MU_POOL_UNITS && *from; i++) {
        size_t len = strcspn(from, ",");

        if (set >> i & 1) {
            if (to != text)
                *to++ = ',';
            memmove(to, from, len);
            to += len;
        }
        from += len + (from[len] == ',');
    }
    *to = 0;
}

/* How many names; 0: it is no list of names. */
static uint32_t units_count(const char *text)
{
    size_t len = strnlen(text, MUSTER_RESOURCE_TEXT);
    uint32_t count = 0;

    if (len == MUSTER_RESOURCE_TEXT)
        return 0;
    for (const char *at = text;; at++) {
        size_t one = strcspn(at, ",");

        if (!one || ++count > MU_POOL_UNITS)
            return 0;
        at += one;
        if (!*at)
            return count;
    }
}

struct units_offer {
    const char *name, *text;
};

/* A lease says its units by their places, so a place never gets another name. Fewer units keep the names of all. */
static enum mu_verdict units_put(struct mu_edit *e)
{
    const struct units_offer *offer = e->arg;
    const char *old = e->version ? e->old : "", *text = offer->text;
    size_t old_len = e->version ? e->old_len : 0, len = strlen(text), both = old_len < len ? old_len : len;

    if (old_len &&
        (memcmp(old, text, both) != 0 || (len > both && text[both] != ',') || (old_len > both && old[both] != ','))) {
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION,
                            "resource %s has units %.*s: others can be offered behind these, not in their place",
                            offer->name, (int)(old_len < 200 ? old_len : 200), old);
        return MU_KEEP;
    }
    if (old_len >= len)
        return MU_KEEP;
    e->value = text;
    e->len = len;
    return MU_PUT;
}

static enum muster_status resource_offer(struct mu_ctx *ctx, const char *name, double amount, const char *units)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct units_offer offer = {.name = name, .text = units};
    struct mu_edit e = {.arg = &offer, .ref_at = -1};
    enum muster_status status = MUSTER_OK;
    uint32_t count = units ? units_count(units) : 0;
    struct mu_key k;
    uint64_t total;

    if (!name_is_sound(name))
        return name_refuse();
    if (units && !count)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "units of resource %s are 1 to %u names with commas between them, of %u bytes", name,
                       MU_POOL_UNITS, MUSTER_RESOURCE_TEXT - 1);
    if (!units && !amount_scale(amount, &total))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "an amount of resource %s is a number from 0 to %.0f", name,
                       AMOUNT_MAX);
    if (units) {
        total = count == 64 ? UINT64_MAX : (1ull << count) - 1;
        units_key(&k, ctx->seg, name);
        status = mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, units_put, &e, NULL);
    }
    if (!status)
        status = mu_lease_offer(ctx, name, total, units != NULL);
    if (!status)
        mu_lease_rescan(ctx->seg); /* what is parked may have it now */
    return status;
}

enum muster_status muster_resource_offer(struct muster *muster, const char *name, double amount, const char *units)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = resource_offer(ctx, name, amount, units);
    mu_exit(ctx);
    return status;
}

/* ---- what is asked for ---- */

static uint32_t kind_find(const struct mu_pool *p, const char *name)
{
    uint32_t at = 0;

    while (at < p->num_kinds && strncmp(p->kinds[at].name, name, MU_POOL_NAME) != 0)
        at++;
    return at;
}

/* Of one resource; *ret_ask 0: nothing. */
static enum muster_status ask_make(const struct muster_segment *seg, const struct mu_pool *p,
                                   const struct muster_resource *r, uint64_t *ret_ask)
{
    uint32_t at;
    uint64_t amount;

    *ret_ask = 0;
    if (!name_is_sound(r->name))
        return name_refuse();
    at = kind_find(p, r->name);
    if (!amount_scale(r->amount, &amount))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "an amount of resource %s is a number from 0 to %.0f", r->name,
                       AMOUNT_MAX);
    if (!amount)
        return MUSTER_OK;
    if (at == p->num_kinds)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "the call asks for %.10g of resource %s, of which job %s has none",
                       r->amount, r->name, seg->job);
    if (p->kinds[at].has_units && amount % MU_POOL_SCALE)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "resource %s is lent whole: a call cannot have %.10g of it", r->name,
                       r->amount);
    if (amount_of(&p->kinds[at], p->kinds[at].total) < r->amount)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "the call asks for %.10g of resource %s, of which job %s has %.10g",
                       r->amount, r->name, seg->job, amount_of(&p->kinds[at], p->kinds[at].total));
    *ret_ask = MU_ASK(at, p->kinds[at].has_units ? amount / MU_POOL_SCALE : amount);
    return MUSTER_OK;
}

enum muster_status mu_schedule_asks(struct muster *m, struct mu_ctx *ctx, const struct muster_submit_options *options,
                                    uint64_t asks[MU_POOL_KINDS], uint32_t *ret_count)
{
    enum muster_status status;
    struct mu_pool *p;
    uint32_t kinds = 0;
    uint64_t ask;

    *ret_count = 0;
    if (!options->num_resources)
        return MUSTER_OK;
    if (options->place)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a call for a place asks for no resources");
    p = calloc(1, sizeof *p);
    if (!p)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the job's resources");
    status = mu_lease_look(m->seg, ctx, p);
    for (uint32_t i = 0; !status && i < options->num_resources; i++) {
        status = ask_make(m->seg, p, &options->resources[i], &ask);
        if (status || !ask)
            continue;
        if (kinds >> MU_ASK_KIND(ask) & 1)
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "a call asks for resource %s twice", options->resources[i].name);
        else
            asks[(*ret_count)++] = ask;
        kinds |= 1u << MU_ASK_KIND(ask);
    }
    free(p);
    return status;
}

enum muster_status mu_schedule_lease(struct mu_ctx *ctx, uint64_t call)
{
    struct mu_asks asks;
    enum muster_status status;

    if (!mu_lease_asks(ctx, call, &asks))
        return MUSTER_NOT_FOUND;
    if (asks.deadline && asks.deadline <= mu_now()) /* it will be an error */
        return MUSTER_OK;
    status = mu_lease_take(ctx, call, &asks);
    return status == MUSTER_ALREADY_EXISTS ? MUSTER_NOT_FOUND : status;
}

enum muster_status muster_call_keep(struct muster_call *call)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    if (call->which)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "a call of a place has no resources to keep");
    else
        ctx->keeps = ctx->leased;
    mu_exit(ctx);
    return status;
}

/* ---- looks ---- */

enum muster_status muster_call_resource(const struct muster_call *call, const char *name, double *ret_amount,
                                        char *ret_units)
{
    struct mu_pool *p = calloc(1, sizeof *p);
    char text[MUSTER_RESOURCE_TEXT] = "";
    enum muster_status status;
    double amount = 0;
    struct mu_ctx *ctx;

    if (!p)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the job's resources");
    status = mu_enter(call->m, &ctx);
    if (status) {
        free(p);
        return status;
    }
    status = name_is_sound(name) ? mu_lease_look(ctx->seg, ctx, p) : name_refuse();
    for (uint32_t i = 0; !status && i < p->num_leases; i++) {
        uint32_t at = kind_find(p, name);

        if (at == p->num_kinds || p->leases[i].call != call->ref || !p->leases[i].amounts[at])
            continue;
        amount = amount_of(&p->kinds[at], p->leases[i].amounts[at]);
        if (p->kinds[at].has_units) {
            status = units_read(ctx->seg, ctx, name, text);
            units_choose(text, p->leases[i].amounts[at]);
        }
    }
    mu_exit(ctx);
    free(p);
    if (!status && ret_amount)
        *ret_amount = amount;
    if (!status && ret_units)
        memcpy(ret_units, text, strlen(text) + 1);
    return status;
}

static enum muster_status pool_copy(struct muster *m, struct mu_pool **ret)
{
    enum muster_status status = mu_enter_read(m);

    *ret = NULL;
    if (status)
        return status;
    *ret = calloc(1, sizeof **ret);
    status = *ret ? mu_lease_look(m->seg, NULL, *ret) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a look");
    if (!status)
        return MUSTER_OK;
    mu_exit_read();
    free(*ret);
    return status;
}

enum muster_status muster_resource_list(struct muster *muster,
                                        int (*visit)(void *arg, const struct muster_resource_look *look), void *arg)
{
    struct mu_pool *p;
    enum muster_status status = pool_copy(muster, &p);

    if (status)
        return status;
    for (uint32_t k = 0; k < p->num_kinds; k++) {
        struct muster_resource_look look = {.total = amount_of(&p->kinds[k], p->kinds[k].total),
                                            .lent = amount_of(&p->kinds[k], mu_lease_lent(p, k))};

        memcpy(look.name, p->kinds[k].name, MUSTER_RESOURCE_NAME_MAX);
        if (p->kinds[k].has_units) {
            units_read(muster->seg, NULL, look.name, look.units);
            units_choose(look.units, p->kinds[k].total);
        }
        if (visit(arg, &look))
            break;
    }
    mu_exit_read();
    free(p);
    return MUSTER_OK;
}

enum muster_status muster_lease_list(struct muster *muster,
                                     int (*visit)(void *arg, const struct muster_lease_look *look), void *arg)
{
    struct mu_pool *p;
    enum muster_status status = pool_copy(muster, &p);
    bool stop = false;

    if (status)
        return status;
    for (uint32_t i = 0; i < p->num_leases * MU_POOL_KINDS && !stop; i++) {
        const struct mu_pool_lease *l = &p->leases[i / MU_POOL_KINDS];
        uint32_t k = i % MU_POOL_KINDS, slot = (uint32_t)(l->runner >> 16) - 1;
        struct muster_lease_look look = {.call = l->call};

        if (k >= p->num_kinds || !l->amounts[k])
            continue;
        /* acquire: pairs with the claim. The lease counted a moment ago, so the slot is one */
        look.pid = MU_SLOT_PID(mu_load_acquire(&muster->seg->slots[slot].word));
        look.amount = amount_of(&p->kinds[k], l->amounts[k]);
        memcpy(look.name, p->kinds[k].name, MUSTER_RESOURCE_NAME_MAX);
        if (p->kinds[k].has_units) {
            units_read(muster->seg, NULL, look.name, look.units);
            units_choose(look.units, l->amounts[k]);
        }
        stop = visit(arg, &look) != 0;
    }
    mu_exit_read();
    free(p);
    return MUSTER_OK;
}
