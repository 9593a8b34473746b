/*
 * bridge/object/loans.c: what other hosts want of this one: an object is held for them until they have its bytes.
 *
 * One reference for each host and object, in a bundle that a thread of this agent OWNs. A loan that waits for an object
 * to be sealed is a sleeper on its word: it sets S there, and the commit that finds S rings the bell. A turn compares
 * the words of those that wait with what was seen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/object/objects.h"
#include "segment/names.h"
#include "segment/work.h"

#define RECHECK_NS 100000000u  /* as every wait */
#define SPARES_NS  1000000000u /* how long they are kept for the next piece */

static struct mu_loan *loan_of(struct mu_dispatch *t, uint32_t host, uint64_t ref)
{
    struct mu_loan *l = t->loans[mu_dispatch_bucket(ref)];

    while (l && (l->ref != ref || l->host != host))
        l = l->next;
    return l;
}

static bool loan_is_of(const struct mu_loan *l, uint32_t host)
{
    return host == MU_EVERY_HOST || host == l->host;
}

/* ---- what is said ---- */

struct loan_news {
    uint8_t what;
    enum muster_status code;
    const struct mu_object *o; /* NULL: nothing is known of it */
    const char *text;
    size_t text_len;
    const uint8_t *bytes; /* that go with it; NULL: none */
    uint64_t len;
};

static void news_tell(struct mu_core *core, uint32_t host, uint64_t ref, const struct loan_news *n)
{
    struct mu_pack rest = {0};

    mu_pack_u8(&rest, n->what);
    mu_pack_u32(&rest, (uint32_t)n->code);
    mu_pack_u32(&rest, n->o ? n->o->task : 0);
    mu_pack_u64(&rest, n->what == MU_OBJECT_SEALED ? n->o->bytes : 0);
    mu_pack_u32(&rest, n->what == MU_OBJECT_SEALED ? n->o->meta : 0);
    mu_pack_blob(&rest, n->text, n->text_len < MU_OBJECT_TEXT ? n->text_len : MU_OBJECT_TEXT);
    if (n->bytes)
        mu_pack_raw(&rest, n->bytes, n->len);
    mu_dispatch_tell(core, MU_SAY_IS, host, ref, &rest, NULL);
    mu_pack_done(&rest);
}

/* There is no such object for the host, for the reason of the last error. */
static void tell_gone(struct mu_core *core, uint32_t host, uint64_t ref, enum muster_status code)
{
    const char *text = muster_last_error();

    news_tell(core, host, ref,
              &(struct loan_news){.what = MU_IS_GONE, .code = code, .text = text, .text_len = strlen(text)});
}

static void tell_error(struct mu_core *core, const struct mu_loan *l, const struct mu_object *o)
{
    struct loan_news n = {
        .what = MU_OBJECT_ERROR, .code = o->code ? (enum muster_status)o->code : MUSTER_UNKNOWN, .o = o};
    char text[MU_LABEL_MAX + 64];
    uint64_t detail;

    n.text = mu_work_error_text(core->seg, o, &n.text_len, &detail);
    if (!n.text_len) {
        snprintf(text, sizeof text, "%s ended before it was there",
                 o->task ? MU_LABEL(core->seg, o->task - 1) : "its producer");
        n.text = text;
        n.text_len = strlen(text);
    }
    news_tell(core, l->host, l->ref, &n);
}

/* ---- the list ---- */

static void loan_list(struct mu_dispatch *t, struct mu_loan *l)
{
    l->behind = NULL;
    l->before = t->last_loan;
    *(t->last_loan ? &t->last_loan->behind : &t->first_loan) = l;
    t->last_loan = l;
}

static void loan_unlist(struct mu_dispatch *t, struct mu_loan *l)
{
    *(l->before ? &l->before->behind : &t->first_loan) = l->behind;
    *(l->behind ? &l->behind->before : &t->last_loan) = l->before;
}

/* Not on its way any more: what is asked for next says from where. */
static void loan_rest(struct mu_dispatch *t, struct mu_loan *l)
{
    t->borrowers[l->host].on_the_way -= l->sent - l->taken;
    l->sent = l->taken = 0;
    t->going -= l->goes;
    l->goes = false;
}

static void bundle_discard(struct mu_ctx *ctx, uint64_t bundle)
{
    if (!mu_heap_inherit(ctx, bundle))
        return;
    mu_bundle_end(ctx, bundle);
    mu_bundle_finish(ctx);
}

static void loan_free(struct mu_core *core, struct mu_ctx *ctx, struct mu_loan *l)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan **at = &t->loans[mu_dispatch_bucket(l->ref)];

    loan_rest(t, l);
    bundle_discard(ctx, l->bundle);
    loan_unlist(t, l);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    t->borrowers[l->host].loans--;
    t->num_loans--;
    free(l);
}

static enum muster_status loan_add(struct mu_core *core, struct mu_ctx *ctx, uint32_t host, uint64_t ref,
                                   struct mu_loan **ret_loan)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan *l = NULL;
    enum muster_status status;
    uint64_t bundle;
    char name[80];

    if (t->borrowers[host].loans >= MU_LOANS_MAX)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s waits for %u objects of this one already",
                       mu_core_host_name(core, host, name), MU_LOANS_MAX);
    status = mu_bundle_new(ctx, 1, 0, &bundle);
    if (status)
        return status;
    status = mu_bundle_hold(ctx, bundle, 0, ref);
    if (!status && !(l = calloc(1, sizeof *l)))
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an object that another host wants");
    if (status) {
        char kept[MU_SENTENCE_MAX];

        mu_error_keep(kept);
        mu_bundle_end(ctx, bundle);
        mu_bundle_finish(ctx);
        mu_error_restore(kept);
        return status;
    }
    l->ref = ref;
    l->host = host;
    l->bundle = bundle;
    l->next = t->loans[mu_dispatch_bucket(ref)];
    t->loans[mu_dispatch_bucket(ref)] = l;
    loan_list(t, l);
    t->borrowers[host].loans++;
    t->num_loans++;
    *ret_loan = l;
    return MUSTER_OK;
}

/* ---- until it is there ---- */

static void tell_sealed(struct mu_core *core, struct mu_loan *l, const struct mu_object *o)
{
    struct mu_object shown = *o;
    struct loan_news n = {.what = MU_OBJECT_SEALED, .o = &shown};
    bool plain = o->state == MU_OBJECT_SEALED && o->data && !(o->data & MU_REF_HOLDS) && (o->bytes || o->meta);

    l->bytes = plain ? mu_object_bytes(core->seg, o, false) : NULL;
    if (plain && !l->bytes) { /* no address space */
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "its host has no address space for views of objects");
        tell_gone(core, l->host, l->ref, MUSTER_RESOURCE_EXHAUSTED);
        return;
    }
    if (!plain)
        shown.bytes = shown.meta = 0;
    l->whole = plain ? mu_object_whole(o) : 0;
    if (l->whole && l->whole <= MU_IS_BYTES) {
        n.bytes = l->bytes;
        n.len = l->whole;
    }
    news_tell(core, l->host, l->ref, &n);
}

/* What the object is now: told, unless it is open; then this sleeps on its word. */
static void loan_look(struct mu_core *core, struct mu_ctx *ctx, struct mu_loan *l)
{
    enum muster_status status;
    struct mu_object o;

    do {
        status = mu_object_resolve(core->seg, l->ref, ctx->scratch, &o);
        if (status || !mu_object_is_open(o.state))
            break;
        l->word = mu_object_word(core->seg, o.ref);
        l->seen = o.word | MU_WORD_S;
        /* the sleepers bit goes into exactly what was looked at; pairs with the commit CAS that clears it, and rings */
    } while (!(o.word & MU_WORD_S) && !mu_cas(l->word, o.word, l->seen));
    if (!status && mu_object_is_open(o.state)) {
        if (l->says_open)
            news_tell(core, l->host, l->ref, &(struct loan_news){.what = MU_IS_OPEN, .o = &o});
        l->says_open = false;
        return;
    }
    l->told = true;
    if (status) {
        if (status == MUSTER_NOT_FOUND)
            mu_object_say(core->seg, l->ref, status);
        tell_gone(core, l->host, l->ref, status);
    } else if (o.state == MU_OBJECT_ERROR) {
        tell_error(core, l, &o);
    } else {
        tell_sealed(core, l, &o);
    }
}

void mu_loan_want(struct mu_core *core, uint32_t host, uint64_t ref)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan *l = loan_of(t, host, ref);
    enum muster_status status;
    struct mu_ctx *ctx;

    status = mu_enter(core->m, &ctx);
    if (status) {
        tell_gone(core, host, ref, status);
        return;
    }
    if (l)
        loan_rest(t, l);
    else
        status = loan_add(core, ctx, host, ref, &l);
    if (status) {
        tell_gone(core, host, ref, status);
    } else {
        l->told = false;
        loan_look(core, ctx, l);
    }
    mu_exit(ctx);
}

bool mu_loan_go(struct mu_core *core, uint32_t host, uint64_t ref, struct mu_unpack *u)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan *l = loan_of(t, host, ref);
    uint64_t taken = mu_unpack_u64(u);
    bool anew = mu_unpack_u8(u);

    if (!mu_unpack_end(u)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "it does not say how much has come");
        return false;
    }
    if (!l || !l->told || !l->bytes || taken > l->whole)
        return true; /* of before an agent or a connection was another */
    if (anew) {
        loan_rest(t, l);
        l->sent = l->taken = taken;
        l->goes = true;
        t->going++;
    } else if (!l->goes || taken < l->taken) {
        return true; /* likewise */
    }
    if (taken > l->sent) { /* what was on its way before it began anew has come */
        t->borrowers[host].on_the_way += taken - l->sent;
        l->sent = taken;
    }
    t->borrowers[host].on_the_way -= taken - l->taken;
    l->taken = taken;
    return true;
}

void mu_loan_end(struct mu_core *core, uint32_t host, uint64_t ref)
{
    struct mu_loan *l = loan_of(mu_dispatch_of(core), host, ref);
    struct mu_ctx *ctx;

    if (!l || mu_enter(core->m, &ctx)) /* without a slot it goes with the agent */
        return;
    loan_free(core, ctx, l);
    mu_exit(ctx);
}

/* ---- hosts that come and go ---- */

/* It is said anew, so that a host that does not want it any more says so. */
void mu_loans_again(struct mu_core *core, uint32_t host)
{
    struct mu_dispatch *t = mu_dispatch_of(core);

    for (struct mu_loan *l = t->first_loan; l; l = l->behind)
        if (loan_is_of(l, host)) {
            loan_rest(t, l);
            l->told = false;
            l->says_open = true;
            l->seen = 0;
        }
}

void mu_loans_lost(struct mu_core *core, uint32_t host)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan *l, *behind;
    struct mu_ctx *ctx;

    if (!t->first_loan || mu_enter(core->m, &ctx))
        return;
    for (l = t->first_loan; l; l = behind) {
        behind = l->behind;
        if (loan_is_of(l, host))
            loan_free(core, ctx, l);
    }
    mu_exit(ctx);
}

/* ---- turns ---- */

/* How much may be on the way to each host: what there is for all, shared by those that take something. */
static uint64_t share_of(const struct mu_core *core, const struct mu_dispatch *t)
{
    uint32_t hosts = 0;
    uint64_t share;

    for (uint32_t i = 0; i < core->num_hosts; i++)
        hosts += t->borrowers[i].loans > 0;
    share = MU_LOAN_BYTES / (hosts ? hosts : 1);
    if (share > MU_PULL_WINDOW * 4)
        share = MU_PULL_WINDOW * 4;
    return share < MU_LOAN_LEAST ? MU_LOAN_LEAST : share;
}

/* Room for a piece, where its bytes wait for the connection. New pages cost more than the copy. */
static struct mu_blob *piece_room(struct mu_core *core, uint64_t len)
{
    struct mu_dispatch *t = mu_dispatch_of(core);

    for (int i = 0; i < MU_DISPATCH_SPARES && len == MU_PIECE_BYTES; i++) {
        if (!t->spares[i])
            t->spares[i] = mu_blob_new(len);
        if (!t->spares[i] || t->spares[i]->holders > 1)
            continue;
        t->spares_end = core->now + SPARES_NS;
        return mu_blob_hold(t->spares[i]);
    }
    return mu_blob_new(len);
}

static void spares_drop(struct mu_dispatch *t)
{
    for (int i = 0; i < MU_DISPATCH_SPARES; i++) {
        mu_blob_drop(t->spares[i]);
        t->spares[i] = NULL;
    }
    t->spares_end = 0;
}

/* False: there was no memory. */
static bool piece_send(struct mu_core *core, struct mu_loan *l, uint64_t len)
{
    struct mu_slice body = {.blob = piece_room(core, len), .len = len};
    struct mu_pack rest = {0};

    if (!body.blob)
        return false;
    memcpy(body.blob->bytes, l->bytes + l->sent, len);
    mu_pack_u64(&rest, l->sent);
    mu_dispatch_tell(core, MU_SAY_PIECE, l->host, l->ref, &rest, &body);
    mu_blob_drop(body.blob);
    mu_pack_done(&rest);
    l->sent += len;
    mu_dispatch_of(core)->borrowers[l->host].on_the_way += len;
    return true;
}

static void loan_send(struct mu_core *core, struct mu_loan *l, uint64_t share)
{
    struct mu_borrower *b = &mu_dispatch_of(core)->borrowers[l->host];
    uint64_t most = share < MU_PIECE_BYTES ? share : MU_PIECE_BYTES;

    while (l->sent < l->whole) {
        uint64_t len = l->whole - l->sent < most ? l->whole - l->sent : most;

        if (l->sent + len - l->taken > MU_PULL_WINDOW || b->on_the_way + len > share || !piece_send(core, l, len))
            break;
    }
}

void mu_loans_look(struct mu_core *core)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    uint64_t share = t->going ? share_of(core, t) : 0;
    struct mu_ctx *ctx = NULL;

    if (t->spares_end && core->now >= t->spares_end)
        spares_drop(t);
    for (struct mu_loan *l = t->first_loan; l; l = l->behind) {
        if (l->goes)
            loan_send(core, l, share);
        /* acquire: pairs with the commit's CAS */
        if (l->told || (l->seen && mu_load_acquire(l->word) == l->seen))
            continue;
        if (!ctx && mu_enter(core->m, &ctx))
            return;
        loan_look(core, ctx, l);
    }
    if (ctx)
        mu_exit(ctx);
}

uint64_t mu_loans_next(struct mu_core *core)
{
    const struct mu_dispatch *t = mu_dispatch_of(core);

    return t->num_loans ? core->now + RECHECK_NS : t->spares_end ? t->spares_end : UINT64_MAX;
}

void mu_loans_done(struct mu_core *core)
{
    struct mu_dispatch *t = mu_dispatch_of(core);
    struct mu_loan *l, *behind;
    struct mu_ctx *ctx = NULL;

    spares_drop(t);
    if (t->first_loan && mu_enter(core->m, &ctx))
        ctx = NULL;
    for (l = t->first_loan; l; l = behind) {
        behind = l->behind;
        if (ctx)
            bundle_discard(ctx, l->bundle);
        free(l);
    }
    if (ctx)
        mu_exit(ctx);
}
