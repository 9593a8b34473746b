/*
 * bridge/member/epochs.c: the leader's membership in every host's segment.
 *
 * The leader's segment has it, and its rules are applied there alone: this agent applies them where the records of
 * other hosts' tasks have changed, or the time of a change is over, so that it goes on though no task of the leader's
 * host looks. Each other host has a mirror, the same block in the same place, which its agent replaces by one commit:
 * so its tasks read, wait and find a group's epoch past as the leader's do. What is remembered of a peer is the word
 * that it was told; a new connection is told anew. Times travel as durations.
 *
 * A host that is lost needs nothing of its own: its tasks' records are in error (bridge/member/loss.c), and what
 * follows from that is an epoch like any other.
 */
#include <stdlib.h>
#include <string.h>

#include "bridge/core/modules.h"
#include "segment/members.h"
#include "task/change.h"

struct epochs {
    uint64_t *told;    /* by peer: the word; 0: nothing */
    uint64_t cluster;  /* the records' word when the rules were applied */
    uint64_t deadline; /* of the pending change; UINT64_MAX: none */
    uint64_t seen;     /* the word of the last look */
    struct mu_pack frame;
    uint64_t packed; /* the word that it is of; 0: none */
};

static struct epochs *epochs_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_EPOCHS);
}

static bool epochs_init(struct mu_core *core, void **ret_state)
{
    struct epochs *e = calloc(1, sizeof *e);

    *ret_state = e;
    if (!e)
        return false;
    e->deadline = UINT64_MAX;
    e->told = calloc(core->num_hosts, sizeof *e->told);
    return e->told != NULL;
}

static void epochs_done(struct mu_core *core)
{
    struct epochs *e = epochs_of(core);

    mu_pack_done(&e->frame);
    free(e->told);
    free(e);
}

static uint64_t word_now(const struct mu_core *core)
{
    return mu_load_acquire(&core->seg->header->members) & ~MU_WORD_S; /* acquire: pairs with the commit CAS */
}

/* ---- the leader -------------------------------------------------------------------------------------------------- */

static void epochs_up(struct mu_core *core, uint32_t host)
{
    if (!core->leader)
        return;
    epochs_of(core)->told[host] = 0;
    mu_core_want(core, host);
}

/* What follows from other hosts' records, and from the clock. */
static void rules_apply(struct mu_core *core)
{
    struct epochs *e = epochs_of(core);
    uint64_t records = mu_load_acquire(&core->seg->header->cluster); /* acquire: as mu_cluster_look() */
    struct mu_members h;
    struct mu_ctx *ctx;
    uint64_t word;

    if (mu_word_same(records, e->cluster) && core->now < e->deadline)
        return;
    if (mu_enter(core->m, &ctx))
        return;
    e->cluster = records;
    mu_membership_follow(ctx);
    mu_exit(ctx);
    if (!mu_membership_look(core->seg, &h, &word))
        e->deadline = h.phase == MUSTER_PHASE_STEADY ? UINT64_MAX : h.deadline;
}

static void epochs_look(struct mu_core *core)
{
    struct epochs *e = epochs_of(core);
    struct mu_members h;
    uint64_t word;

    if (!core->leader || !mu_membership_exist(core->seg))
        return;
    rules_apply(core);
    if (word_now(core) == e->seen || mu_membership_look(core->seg, &h, &word))
        return;
    e->seen = word & ~MU_WORD_S;
    e->deadline = h.phase == MUSTER_PHASE_STEADY ? UINT64_MAX : h.deadline;
    for (uint32_t i = 1; i < core->num_hosts; i++)
        mu_core_want(core, i);
}

static void membership_pack(struct mu_pack *p, const struct mu_membership_copy *c, uint64_t now)
{
    const struct mu_members *h = &c->head;

    mu_pack_reset(p);
    mu_pack_u64(p, h->epoch);
    mu_pack_u64(p, h->change);
    mu_pack_u64(p, h->phase == MUSTER_PHASE_STEADY ? 0 : h->deadline > now ? h->deadline - now : 1);
    mu_pack_u64(p, now > h->since ? now - h->since : 0);
    mu_pack_u32(p, h->phase);
    mu_pack_u32(p, h->outcome);
    mu_pack_u32(p, h->count);
    mu_pack_u32(p, h->least);
    mu_pack_u32(p, h->most);
    mu_pack_u32(p, h->flags);
    mu_pack_text(p, h->text);
    for (uint32_t i = 0; i < MU_ROLES_MAX; i++)
        mu_pack_text(p, h->roles[i]);
    for (uint32_t i = 0; i < h->count; i++) {
        mu_pack_u16(p, c->rows[i].rank);
        mu_pack_u16(p, c->rows[i].next);
        mu_pack_u8(p, c->rows[i].role);
        mu_pack_u8(p, c->rows[i].flags);
        mu_pack_u16(p, c->rows[i].attempt);
    }
}

/* False: corrupt, and each reader is told so; or there is no memory. */
static bool frame_refresh(struct mu_core *core)
{
    struct epochs *e = epochs_of(core);
    struct mu_membership_copy c;
    bool good = mu_membership_read(core->seg, &c) == MUSTER_OK;

    if (good && e->packed != (c.word & ~MU_WORD_S)) {
        membership_pack(&e->frame, &c, core->now);
        e->packed = c.word & ~MU_WORD_S;
    }
    mu_membership_done(&c);
    return good;
}

static void epochs_front(struct mu_core *core, uint32_t host)
{
    struct epochs *e = epochs_of(core);

    if (!core->leader || !mu_membership_exist(core->seg) || e->told[host] == word_now(core) || !frame_refresh(core) ||
        e->told[host] == e->packed)
        return;
    if (e->frame.failed) {
        core->peers[host].front.failed = true;
        e->packed = 0;
        return;
    }
    mu_core_send_front(core, host, MU_FRAME_MEMBERSHIP, e->frame.bytes, e->frame.len);
    e->told[host] = e->packed;
}

static uint64_t epochs_next(struct mu_core *core)
{
    return epochs_of(core)->deadline;
}

/* A task of another host says something of a change: as those of this host do. */
bool mu_op_membership(struct mu_core *core, const struct mu_request *r)
{
    struct mu_pack answer = {0};
    uint64_t change = 0;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (!status) {
        status = mu_task_change_take(ctx, r, &change);
        mu_exit(ctx);
    }
    mu_pack_u64(&answer, change);
    if (!status && answer.failed)
        status = MUSTER_RESOURCE_EXHAUSTED;
    mu_core_worked(core);
    mu_call_answer(core, r->host, r->slot, r->number, status, NULL, answer.bytes, status ? 0 : answer.len);
    mu_pack_done(&answer);
    return true;
}

/* ---- another host ------------------------------------------------------------------------------------------------ */

static void head_take(struct mu_unpack *u, struct mu_members *h, uint64_t now)
{
    uint64_t left, age;

    h->epoch = mu_unpack_u64(u);
    h->change = mu_unpack_u64(u);
    left = mu_unpack_u64(u);
    age = mu_unpack_u64(u);
    h->deadline = !left ? 0 : left > UINT64_MAX - 1 - now ? UINT64_MAX - 1 : now + left;
    h->since = age < now ? now - age : 0;
    h->phase = mu_unpack_u32(u);
    h->outcome = mu_unpack_u32(u);
    h->count = mu_unpack_u32(u);
    h->least = mu_unpack_u32(u);
    h->most = mu_unpack_u32(u);
    h->flags = mu_unpack_u32(u);
    mu_unpack_text(u, h->text, sizeof h->text);
    for (uint32_t i = 0; i < MU_ROLES_MAX; i++)
        mu_unpack_text(u, h->roles[i], sizeof h->roles[i]);
}

static void rows_take(struct mu_unpack *u, struct mu_membership_copy *c)
{
    for (uint32_t i = 0; i < c->head.count; i++) {
        c->rows[i].rank = mu_unpack_u16(u);
        c->rows[i].next = mu_unpack_u16(u);
        c->rows[i].role = mu_unpack_u8(u);
        c->rows[i].flags = mu_unpack_u8(u);
        c->rows[i].attempt = mu_unpack_u16(u);
    }
}

bool mu_take_membership(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct mu_membership_copy c = {.word = 0};
    enum muster_status status;
    struct mu_ctx *ctx;

    (void)host;
    head_take(u, &c.head, core->now);
    if (u->failed || c.head.count != core->seg->num_tasks || c.head.count > MU_MEMBERS_MAX) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "a membership of %u tasks", c.head.count);
        return false;
    }
    c.rows = calloc(c.head.count, sizeof *c.rows);
    status = c.rows ? mu_enter(core->m, &ctx) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the membership");
    if (!status) {
        rows_take(u, &c);
        status = mu_unpack_end(u) ? mu_membership_mirror(ctx, &c)
                                  : mu_fail(MUSTER_INVALID_ARGUMENT, "the membership has another number of rows");
        mu_exit(ctx);
    }
    mu_membership_done(&c);
    return !status;
}

const struct mu_module mu_module_epochs = {.name = "epochs",
                                           .init = epochs_init,
                                           .done = epochs_done,
                                           .up = epochs_up,
                                           .look = epochs_look,
                                           .front = epochs_front,
                                           .next = epochs_next};
