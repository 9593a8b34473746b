/*
 * bridge/call/dispatch.c: carrying calls out: the leader those of all hosts, every agent those that are for itself.
 *
 * A soft table {host, slot} -> {number, what became of it, answer} knows calls that are sent again. A number below the
 * table's is a stray and nothing is done; a new one ends what was kept for the one before. An agent that was itself
 * restarted has an empty table: it carries such a call out anew, and what the call's first commit left in its page
 * tells that it was done (struct mu_done). So a call that changes something must leave a record, unless doing it twice
 * is the same as once. Records go when the caller's host says that the answer is in its segment.
 *
 * Answers above KEPT_MAX bytes are not kept: only calls that change nothing give such, and they are carried out again.
 */
#include "bridge/call/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- carrying out ------------------------------------------------------------------------------------------------ */

static const struct mu_op_kind *op_kind_of(const struct mu_core_tables *tables, uint32_t op)
{
    for (size_t i = 0; i < tables->num_ops; i++)
        if ((uint32_t)tables->ops[i].op == op)
            return &tables->ops[i];
    return NULL;
}

/* The slot's entry; NULL: there is none. */
static struct call_entry *find_entry(const struct host_calls *h, uint32_t slot)
{
    const struct entries *t = &h->slots[MU_SLOT_TABLE(slot)];

    return MU_SLOT_PLACE(slot) < t->count ? &t->at[MU_SLOT_PLACE(slot)] : NULL;
}

/* The same, made when there is none; NULL: no memory. */
static struct call_entry *entry_of(struct host_calls *h, uint32_t slot)
{
    struct entries *t = &h->slots[MU_SLOT_TABLE(slot)];
    uint32_t n = t->count ? t->count : 16;
    struct call_entry *more;

    if (MU_SLOT_PLACE(slot) < t->count)
        return &t->at[MU_SLOT_PLACE(slot)];
    while (n <= MU_SLOT_PLACE(slot))
        n *= 2;
    more = realloc(t->at, n * sizeof *more);
    if (!more)
        return NULL;
    memset(more + t->count, 0, (n - t->count) * sizeof *more);
    t->at = more;
    t->count = n;
    return &more[MU_SLOT_PLACE(slot)];
}

void mu_free_entries(struct host_calls *h)
{
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < h->slots[i].count; k++)
            free(h->slots[i].at[k].answer);
        free(h->slots[i].at);
        h->slots[i] = (struct entries){0};
    }
}

static void drop_answer(struct host_calls *h, struct call_entry *e)
{
    free(e->answer);
    e->answer = NULL;
    e->len = 0;
    h->unsettled -= e->unsettled;
    e->unsettled = 0;
}

/* What becomes of the call; and how many of its host's are open, for people. */
static void entry_become(struct mu_core *core, uint32_t host, struct call_entry *e, enum call_fate fate)
{
    struct host_calls *h = mu_calls_of_host(core, host);

    if (core->leader && (fate == OPEN) != (e->fate == OPEN)) {
        h->open += fate == OPEN ? 1 : -1u;
        mu_store_relaxed(&core->seg->hosts[host].asking, h->open); /* relaxed: a figure; pairs with mu_host_look() */
    }
    e->fate = fate;
}

/* The slot asks something else, or nothing any more. */
static void entry_go_on(struct mu_core *core, uint32_t host, uint32_t slot, struct call_entry *e, uint64_t number)
{
    const struct mu_op_kind *kind = e->fate == OPEN ? op_kind_of(core->tables, e->op) : NULL;
    uint64_t before = e->number;

    drop_answer(mu_calls_of_host(core, host), e);
    e->number = number;
    entry_become(core, host, e, SETTLED);
    if (kind && kind->abandoned)
        kind->abandoned(core, host, slot, before);
}

void mu_dispatch_end(struct mu_core *core, uint32_t slot, uint64_t number)
{
    struct host_calls *h = mu_calls_of_host(core, core->host);
    struct call_entry *e = find_entry(h, slot);

    if (e && e->number <= number && e->fate == OPEN)
        entry_go_on(core, core->host, slot, e, number);
}

void mu_dispatch_out(struct mu_core *core, const struct mu_request *r)
{
    struct host_calls *h = mu_calls_of_host(core, r->host);
    const struct mu_op_kind *kind = op_kind_of(core->tables, r->op);
    struct call_entry *e = entry_of(h, r->slot);

    if (!e) { /* no memory: the caller's host asks again */
        mu_call_later(core, r->host, r->slot, r->number);
        return;
    }
    if (r->number < e->number || (r->number == e->number && (e->fate == OPEN || e->fate == SETTLED)))
        return; /* a stray; or under way */
    if (r->number == e->number && e->fate == ANSWERED && e->answer) {
        mu_core_send(core, r->host, MU_FRAME_ANSWER, e->answer, e->len);
        return;
    }
    entry_go_on(core, r->host, r->slot, e, r->number);
    e->op = r->op;
    entry_become(core, r->host, e, OPEN);
    if (kind)
        kind->fn(core, r);
    else
        mu_call_answer(core, r->host, r->slot, r->number, MUSTER_UNIMPLEMENTED,
                       "this version of muster does not know the call", NULL, 0);
    mu_core_worked(core);
}

void mu_call_later(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    struct call_entry *e = find_entry(mu_calls_of_host(core, host), slot);
    struct mu_pack p = {0};

    if (e && e->number == number)
        entry_become(core, host, e, UNKNOWN);
    if (host == core->host) {
        mu_asked_later(core, slot);
        return;
    }
    mu_pack_u32(&p, slot);
    mu_pack_u64(&p, number);
    mu_pack_u8(&p, 1);
    mu_pack_u32(&p, 0);
    mu_pack_u32(&p, 0);
    if (!p.failed)
        mu_core_send(core, host, MU_FRAME_ANSWER, p.bytes, p.len);
    mu_pack_done(&p);
}

enum muster_status mu_hand_over(struct mu_core *core, uint32_t slot, uint64_t number, enum muster_status status,
                                const char *text, const void *body, size_t len)
{
    struct mu_ctx *ctx;
    enum muster_status failed = mu_handle_context(core->m, &ctx); /* perhaps within a call: no mu_enter() */

    if (!failed)
        failed = mu_remote_answer(ctx, slot, number, status, text, body, len);
    mu_core_worked(core);
    return failed;
}

static void answer_own(struct mu_core *core, struct call_entry *e, uint32_t slot, enum muster_status status,
                       const char *text, const void *body, size_t len)
{
    if (mu_hand_over(core, slot, e->number, status, text, body, len)) {
        mu_call_later(core, core->host, slot, e->number); /* no room for it now: carried out again */
        return;
    }
    entry_become(core, core->host, e, SETTLED);
    mu_asked_settle(core, slot, e->number);
}

/* It is read on another host, which may have the room that is lacking here. */
static const char *with_place(const struct mu_core *core, const char *text, char *words, size_t size)
{
    char name[64];

    mu_host_name(core->seg, core->host, name, sizeof name);
    snprintf(words, size, "on host %s, which leads the job: %s", name, text);
    return words;
}

/* Whether so long an answer can go to the other host now; where it is to be asked for again, that has been said. */
static bool may_answer(struct mu_core *core, uint32_t host, const struct call_entry *e, uint32_t slot, size_t len)
{
    const struct host_calls *h = mu_calls_of_host(core, host);

    if (len <= KEPT_MAX || !h->unsettled || h->unsettled + len <= WINDOW)
        return true;
    mu_call_later(core, host, slot, e->number); /* a peer's queue is bounded: when it has taken the others */
    return false;
}

/* The call is answered with so much; what goes before that. */
static void begin_answer(struct mu_core *core, uint32_t host, struct call_entry *e, uint32_t slot, size_t len,
                         enum muster_status status, const char *text, struct mu_pack *p)
{
    mu_pack_u32(p, slot);
    mu_pack_u64(p, e->number);
    mu_pack_u8(p, 0);
    mu_pack_u32(p, status);
    mu_pack_text(p, text);
    entry_become(core, host, e, ANSWERED);
    e->unsettled = len;
    mu_calls_of_host(core, host)->unsettled += len;
}

void mu_call_answer(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number, enum muster_status status,
                    const char *text, const void *body, size_t len)
{
    struct call_entry *e = find_entry(mu_calls_of_host(core, host), slot);
    struct mu_pack p = {0};
    char words[1024];

    if (!e || e->number != number || e->fate != OPEN)
        return;
    if (!text)
        text = status ? muster_last_error() : "";
    if (host == core->host) {
        answer_own(core, e, slot, status, text, body, len);
        return;
    }
    if (status == MUSTER_RESOURCE_EXHAUSTED)
        text = with_place(core, text, words, sizeof words);
    if (len > WINDOW - KEPT_MAX) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "the answer is %zu bytes long; %zu is the most", len, WINDOW - KEPT_MAX);
        mu_call_answer(core, host, slot, number, MUSTER_RESOURCE_EXHAUSTED, NULL, NULL, 0);
        return;
    }
    if (!may_answer(core, host, e, slot, len))
        return;
    begin_answer(core, host, e, slot, len, status, status ? text : "", &p);
    mu_core_send_parts(core, host, MU_FRAME_ANSWER, p.bytes, p.len, body, len);
    if (p.len + len <= KEPT_MAX) {
        mu_pack_raw(&p, body, len);
        e->len = p.len;
        e->answer = p.failed ? NULL : p.bytes;
        p.bytes = p.failed ? p.bytes : NULL;
    }
    mu_pack_done(&p);
}

void mu_call_answer_slice(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number,
                          const struct mu_pack *head, const struct mu_slice *body)
{
    struct call_entry *e = find_entry(mu_calls_of_host(core, host), slot);
    struct mu_pack p = {0};

    if (head->failed) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an answer of %zu bytes", body->len);
        mu_call_answer(core, host, slot, number, MUSTER_RESOURCE_EXHAUSTED, NULL, NULL, 0);
        return;
    }
    if (host == core->host || body->len <= KEPT_MAX) {
        mu_pack_raw(&p, head->bytes, head->len);
        mu_pack_raw(&p, mu_slice_bytes(body), body->len);
        mu_call_answer(core, host, slot, number, p.failed ? MUSTER_RESOURCE_EXHAUSTED : MUSTER_OK,
                       p.failed ? "no memory for an answer" : NULL, p.bytes, p.failed ? 0 : p.len);
    } else if (e && e->number == number && e->fate == OPEN && may_answer(core, host, e, slot, head->len + body->len)) {
        begin_answer(core, host, e, slot, head->len + body->len, MUSTER_OK, "", &p);
        mu_pack_raw(&p, head->bytes, head->len);
        mu_core_send_slice(core, host, MU_FRAME_ANSWER, p.bytes, p.len, body);
        core->peers[host].tail.failed |= p.failed;
    }
    mu_pack_done(&p);
}

bool mu_op_sync(struct mu_core *core, const struct mu_request *r)
{
    /* what was committed before is ahead of this answer, because every answer's copies are */
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_OK, NULL, NULL, 0);
    return true;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

bool mu_call_is_settled(void *arg, uint64_t id, uint64_t number)
{
    struct mu_core *core = arg;
    uint64_t host = id / MU_FRAME_SLOTS, slot = id % MU_FRAME_SLOTS;
    const struct host_calls *h = host < core->num_hosts ? mu_calls_of_host(core, (uint32_t)host) : NULL;
    const struct call_entry *e;

    if (!h || h->lost)
        return true;
    if (slot >= h->gone_from && number <= h->gone)
        return true;
    e = find_entry(h, (uint32_t)slot);
    if (!e)
        return false; /* not heard of since this agent started */
    return number < e->number || (number == e->number && e->fate == SETTLED);
}

void mu_call_left_record(struct mu_core *core, uint32_t bucket)
{
    struct calls *c = mu_calls_of(core);

    c->records[bucket / 64] |= 1ull << (bucket % 64);
    c->any_record = true;
}

/* For the sweep: whether any record stays. */
struct sweep {
    struct mu_core *core;
    bool stays;
};

static bool settled_or_stays(void *arg, uint64_t id, uint64_t number)
{
    struct sweep *s = arg;
    bool settled = mu_call_is_settled(s->core, id, number);

    s->stays |= !settled;
    return settled;
}

/* Records are taken out by the edits that come by; where none does, by this. */
void mu_sweep_records(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_ctx *ctx;
    uint32_t most = SWEEP_BUCKETS, b = c->sweep_from;
    bool any = b != 0;

    if (!c->any_record || mu_enter(core->m, &ctx))
        return;
    for (; most && b < c->num_buckets; b++) {
        struct sweep s = {core, false};
        struct mu_key k;

        if (!(c->records[b / 64] >> (b % 64) & 1))
            continue;
        any = true;
        most--;
        k.hash = (uint64_t)b << 20;
        if (mu_table_forget(&t, ctx, &k, settled_or_stays, &s) == MUSTER_OK && !s.stays)
            c->records[b / 64] &= ~(1ull << (b % 64));
    }
    mu_exit(ctx);
    c->sweep_from = b < c->num_buckets ? b : 0;
    c->any_record = any;
}

void mu_forget_host(struct mu_core *core, uint32_t host)
{
    struct host_calls *h = mu_calls_of_host(core, host);

    for (uint32_t i = 0; i < MU_FRAME_SLOTS; i++) {
        struct call_entry *e = find_entry(h, i);

        if (e)
            entry_go_on(core, host, i, e, e->number);
    }
    mu_free_entries(h);
    *h = (struct host_calls){.lost = true};
}

/* ---- the leader's frames ----------------------------------------------------------------------------------------- */

bool mu_take_call(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct mu_request r = {.host = host};

    r.slot = mu_unpack_u32(u);
    r.number = mu_unpack_u64(u);
    r.op = mu_unpack_u32(u);
    r.task = mu_unpack_u32(u);
    r.flags = mu_unpack_u32(u);
    r.attempt = mu_unpack_u32(u);
    r.incarnation = mu_unpack_u64(u);
    r.resent = mu_unpack_u8(u) != 0;
    r.body = *u;
    if (u->failed || r.slot >= MU_FRAME_SLOTS || !r.number || !r.op || r.op >= MU_OP_LOCAL) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "call %u of slot %u cannot be", r.op, r.slot);
        return false;
    }
    if (r.task && (r.task > core->seg->num_tasks || mu_host_of(core->seg, r.task - 1) != host)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "task %u is not one of its own", r.task - 1);
        return false;
    }
    mu_dispatch_out(core, &r);
    return true;
}

/* The lanes of an agent that is no more, or does not ask any more. */
static void settle_from(struct mu_core *core, uint32_t host, uint32_t first, uint64_t number)
{
    struct host_calls *h = mu_calls_of_host(core, host);

    h->gone_from = first;
    h->gone = number > h->gone ? number : h->gone;
    for (uint32_t i = first; i < MU_FRAME_SLOTS; i++) {
        struct call_entry *e = find_entry(h, i);

        if (e && e->number && number >= e->number)
            entry_go_on(core, host, i, e, e->number);
    }
}

bool mu_take_ack(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct host_calls *h = mu_calls_of_host(core, host);

    while (!u->failed && u->left) {
        uint32_t said = mu_unpack_u32(u), slot = said & ~MU_ACK_FROM;
        uint64_t number = mu_unpack_u64(u);
        struct call_entry *e = u->failed || said >= MU_FRAME_SLOTS ? NULL : entry_of(h, slot);

        if (u->failed || slot >= MU_FRAME_SLOTS) {
            mu_fail(MUSTER_INVALID_ARGUMENT, "slot %u cannot be", slot);
            return false;
        }
        if (said & MU_ACK_FROM)
            settle_from(core, host, slot, number);
        else if (e && number >= e->number)
            entry_go_on(core, host, slot, e, number);
    }
    return true;
}
