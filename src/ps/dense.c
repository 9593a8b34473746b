/*
 * ps/dense.c: push, set and wait of dense tensors, shard by shard.
 *
 * A push that is applied at once, or that ends its round, holds what it reads (a bundle of its own, `held`), makes the
 * new values and state, and commits. One that its round keeps makes an object of its numbers, and commits the shard
 * with one more. Where another commit came first, what was made of the old values goes; a push's own object stays.
 */
#include "ps/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "segment/cluster.h"
#include "segment/wait.h"
#include "segment/work.h"

enum muster_status mu_ps_refuse_kind(const struct muster_ps *ps, bool wants_rows)
{
    if (!ps)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no tensor is given");
    if ((ps->config.rows != 0) == wants_rows)
        return MUSTER_OK;
    return mu_fail(MUSTER_INVALID_ARGUMENT,
                   wants_rows ? "tensor %s is dense: it has no rows by key" : "tensor %s is a table: ask for its rows",
                   ps->name);
}

/* A push on its way into a shard. */
struct pushing {
    struct muster_ps *ps;
    struct mu_ctx *ctx;
    uint32_t shard;
    const uint8_t *data;      /* the shard's part */
    const void *const *parts; /* instead: what replaces the shard's; NULL: it stays */
    uint64_t replaced_steps;
    uint64_t round; /* that it is of */
    uint64_t own;   /* a bundle with the push as an object; 0: not made */
    struct ps_shard *was;
};

/* The round that a push of this task is of now. */
static uint64_t round_of(const struct pushing *p)
{
    const struct ps_shard *s = p->was;
    uint64_t round = s->version, task = (uint64_t)p->ps->m->task_id;

    for (bool again = true; again;) { /* a round for each push that is kept, at most */
        uint32_t all = 0, mine = 0;

        for (uint32_t i = 0; i < s->num_kept; i++)
            if (s->kept[i].round == round) {
                all++;
                mine += s->kept[i].task == task;
            }
        again = mine || all >= p->ps->config.pushers;
        round += again;
    }
    return round;
}

static uint32_t kept_of(const struct ps_shard *s, uint64_t round)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->num_kept; i++)
        n += s->kept[i].round == round;
    return n;
}

/* Hold an object in a bundle of this thread's, and see its bytes. NOT_FOUND, without a sentence that counts: it is
 * gone, and so the shard has changed. */
static enum muster_status part_hold(struct pushing *p, uint64_t bundle, uint32_t i, uint64_t ref, const void **ret)
{
    enum muster_status status = mu_bundle_hold(p->ctx, bundle, i, ref);
    struct mu_object o;

    if (!status)
        status = mu_object_look(p->ps->seg, ref, p->ctx->scratch, &o);
    if (status)
        return status;
    *ret = mu_object_bytes(p->ps->seg, &o, false);
    return *ret ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no address space for tensor %s", p->ps->name);
}

/* The pushes of the open round, the last one this one, and all of the shard's parts, held. */
static enum muster_status inputs_hold(struct pushing *p, uint64_t held, struct ps_step *step, const void **pushes)
{
    uint32_t parts = 1 + p->ps->states, n = 0;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < parts; i++)
        status = part_hold(p, held, i, p->was->parts[i], &step->from[i]);
    for (uint32_t i = 0; !status && !p->parts && i < p->was->num_kept; i++)
        if (p->was->kept[i].round == p->was->version) {
            status = part_hold(p, held, parts + i, p->was->pushes[i], &pushes[n]);
            n++;
        }
    pushes[n] = p->data;
    step->pushes = pushes;
    step->num_pushes = n + 1;
    return status;
}

/* The same of small parts, which lie in blocks, and one push: copied out, which is quicker than a hold. */
static enum muster_status inputs_copy(struct pushing *p, uint64_t (*small)[PS_SMALL / 8], struct ps_step *step,
                                      const void **pushes)
{
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i <= p->ps->states; i++) {
        status = mu_ps_part_copy(p->ps, p->ctx, p->was->parts[i], ps_shard_bytes(p->ps, p->shard), small[i]);
        step->from[i] = small[i];
    }
    pushes[0] = p->data;
    step->pushes = pushes;
    step->num_pushes = 1;
    return status;
}

/* The new parts, in the bundle `next`. */
static enum muster_status parts_make(struct pushing *p, uint64_t next, struct ps_step *step)
{
    uint64_t bytes = ps_shard_bytes(p->ps, p->shard);
    struct ps_part made[PS_PARTS_MAX] = {{.bytes = NULL}};
    uint32_t parts = 1 + p->ps->states;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < parts; i++) {
        status = mu_ps_part_begin(p->ctx, bytes, &made[i]);
        step->to[i] = made[i].bytes;
    }
    if (!status && p->parts)
        for (uint32_t i = 0; i < parts; i++)
            memcpy(step->to[i], p->parts[i] ? p->parts[i] : step->from[i], bytes);
    else if (!status)
        mu_ps_step(step, bytes / p->ps->width);
    for (uint32_t i = 0; !status && i < parts; i++)
        status = mu_ps_part_done(p->ps, p->ctx, next, i, &made[i]);
    for (uint32_t i = 0; i < parts; i++)
        mu_ps_part_drop(p->ctx, &made[i]);
    return status;
}

/* The pushes that stay: those of rounds that are open still, from place `first` of the bundle on. */
static enum muster_status kept_copy(struct pushing *p, uint64_t next, struct ps_kept *kept, bool ends_round)
{
    uint32_t n = 0;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < p->was->num_kept; i++) {
        if (ends_round && p->was->kept[i].round == p->was->version)
            continue;
        status = mu_bundle_hold(p->ctx, next, 1 + p->ps->states + n, p->was->pushes[i]);
        kept[n++] = p->was->kept[i];
    }
    return status;
}

/* Apply it, with what its round keeps, or replace the parts. */
static enum muster_status push_apply(struct pushing *p)
{
    const void *pushes[MUSTER_PS_KEPT_MAX + 1];
    bool ends_round = !p->parts && p->ps->config.pushers;
    uint32_t stay = p->was->num_kept - (ends_round ? kept_of(p->was, p->was->version) : 0);
    struct ps_step step = {.ps = p->ps, .steps = p->was->steps + 1};
    uint64_t held = 0, next = 0, bits = mu_load_relaxed(p->ps->rate); /* relaxed: a number of its own */
    bool copies = ps_shard_bytes(p->ps, p->shard) <= PS_SMALL && stay == p->was->num_kept;
    uint64_t small[PS_PARTS_MAX][PS_SMALL / 8];
    struct ps_tail *tail = NULL;
    enum muster_status status =
        copies ? MUSTER_OK : mu_bundle_new(p->ctx, 1 + p->ps->states + p->was->num_kept, 0, &held);

    memcpy(&step.rate, &bits, sizeof bits);
    if (!status)
        status = mu_ps_bundle_new(p->ps, p->ctx, stay, &next, &tail);
    if (!status)
        status = copies ? inputs_copy(p, small, &step, pushes) : inputs_hold(p, held, &step, pushes);
    if (!status)
        status = parts_make(p, next, &step);
    if (!status)
        status = kept_copy(p, next, tail->kept, ends_round);
    if (!status) {
        uint64_t steps = !p->parts                         ? step.steps
                         : p->replaced_steps == UINT64_MAX ? p->was->steps /* of the state that stays */
                                                           : p->replaced_steps;

        *tail = (struct ps_tail){PS_MAGIC, p->was->version + 1, steps};
        for (uint32_t i = 0; p->parts && i < stay; i++) /* the rounds are counted by versions */
            tail->kept[i].round++;
        status = mu_ps_shard_commit(p->ctx, p->was, next);
        next = 0;
    }
    mu_ps_bundle_end(p->ctx, next);
    mu_ps_bundle_end(p->ctx, held);
    return status;
}

/* Keep it for its round. */
static enum muster_status push_keep(struct pushing *p)
{
    uint32_t parts = 1 + p->ps->states, n = p->was->num_kept;
    uint64_t next = 0;
    struct ps_tail *tail = NULL;
    enum muster_status status = mu_ps_bundle_new(p->ps, p->ctx, n + 1, &next, &tail);

    for (uint32_t i = 0; !status && i < parts; i++)
        status = mu_bundle_hold(p->ctx, next, i, p->was->parts[i]);
    if (!status)
        status = kept_copy(p, next, tail->kept, false);
    if (!status)
        status = mu_bundle_hold(p->ctx, next, parts + n, mu_bundle_at(p->ctx->seg, p->own)->refs[0]);
    if (!status) {
        *tail = (struct ps_tail){PS_MAGIC, p->was->version, p->was->steps};
        tail->kept[n] = (struct ps_kept){p->round, (uint64_t)p->ps->m->task_id};
        status = mu_ps_shard_commit(p->ctx, p->was, next);
        next = 0;
    }
    mu_ps_bundle_end(p->ctx, next);
    return status;
}

/* The push as an object of its own, in a bundle of this thread's. */
static enum muster_status own_make(struct pushing *p)
{
    uint64_t bytes = ps_shard_bytes(p->ps, p->shard);
    struct ps_part part = {.bytes = NULL};
    enum muster_status status = mu_bundle_new(p->ctx, 1, 0, &p->own);

    if (!status)
        status = mu_ps_part_begin(p->ctx, bytes, &part);
    if (status)
        return status;
    memcpy(part.bytes, p->data, bytes);
    return mu_ps_part_done(p->ps, p->ctx, p->own, 0, &part);
}

/* ---- waiting ---- */

static enum muster_status say_late(const struct muster_ps *ps, const struct ps_shard *s, const char *what)
{
    char tasks[256] = "";
    uint32_t n = kept_of(s, s->version);

    for (uint32_t i = 0; i < s->num_kept; i++)
        if (s->kept[i].round == s->version) {
            size_t at = strlen(tasks);

            snprintf(tasks + at, sizeof tasks - at, "%s%llu", at ? ", " : ", of the tasks ",
                     (unsigned long long)s->kept[i].task);
        }
    if (!ps->config.pushers)
        return mu_fail(MUSTER_DEADLINE_EXCEEDED, "the deadline passed while waiting for %s: it is at version %llu",
                       what, (unsigned long long)s->version);
    return mu_fail(MUSTER_DEADLINE_EXCEEDED,
                   "the deadline passed while waiting for %s: round %llu has %u of %u pushes%s", what,
                   (unsigned long long)s->version + 1, n, ps->config.pushers, tasks);
}

/* Wait until the shard has this version. */
static enum muster_status version_await(struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard, uint64_t version,
                                        muster_deadline deadline, struct ps_shard *s)
{
    char what[MUSTER_PS_NAME_MAX + 64];
    enum muster_status status = mu_ps_shard_read(ps, ctx, shard, s);
    struct mu_wait w;
    bool blocks;

    if (status || s->version >= version)
        return status;
    blocks = mu_crew_block(ctx);
    snprintf(what, sizeof what, "version %llu of tensor %s", (unsigned long long)version, ps->name);
    mu_wait_begin(&w, ps->seg, ctx, deadline, what);
    while (!status) {
        mu_wait_look(&w);
        status = mu_ps_shard_read(ps, ctx, shard, s);
        if (status || s->version >= version)
            break;
        status = mu_cluster_error(ps->seg, what);
        if (!status)
            status = mu_wait_on(&w, mu_object_word(ps->seg, s->ref), s->word);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            status = say_late(ps, s, what);
    }
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    return status;
}

/* ---- pushes ---- */

/* One try, with the turn. ABORTED, NOT_FOUND: another commit came first; UNAVAILABLE: its round is too far ahead. */
static enum muster_status push_try(struct pushing *p)
{
    uint32_t pushers = p->ps->config.pushers;
    enum muster_status status = mu_ps_shard_read(p->ps, p->ctx, p->shard, p->was);

    if (status || p->parts || !pushers)
        return status ? status : push_apply(p);
    p->round = round_of(p);
    if (p->round > p->was->version + p->ps->config.staleness)
        return MUSTER_OUT_OF_RANGE;
    if (p->round == p->was->version && kept_of(p->was, p->round) == pushers - 1)
        return push_apply(p);
    return p->own ? push_keep(p) : MUSTER_ABORTED;
}

/* Whether the push is one that its round keeps, as far as can be told: then its object is made without the turn. */
static enum muster_status own_prepare(struct pushing *p)
{
    enum muster_status status;

    if (p->own || p->parts || !p->ps->config.pushers)
        return MUSTER_OK;
    status = mu_ps_shard_read(p->ps, p->ctx, p->shard, p->was);
    if (status || (kept_of(p->was, p->was->version) == p->ps->config.pushers - 1 && round_of(p) == p->was->version))
        return status;
    return own_make(p);
}

static enum muster_status shard_push(struct pushing *p, muster_deadline deadline, uint64_t *ret_version)
{
    enum muster_status status;
    struct ps_turn turn;
    char kept[MU_SENTENCE_MAX];

    mu_error_keep(kept);
    for (;;) {
        status = own_prepare(p);
        if (!status)
            status = mu_ps_turn_take(p->ps, p->ctx, p->shard, deadline, &turn);
        if (status)
            break;
        status = push_try(p);
        mu_ps_turn_give(&turn);
        if (status == MUSTER_OUT_OF_RANGE)
            status = version_await(p->ps, p->ctx, p->shard, p->round - p->ps->config.staleness, deadline, p->was);
        else if (status == MUSTER_NOT_FOUND)
            status = mu_ps_shard_moved(p->ps, p->was);
        else if (status != MUSTER_ABORTED)
            break;
        if (status && status != MUSTER_ABORTED)
            break;
    }
    mu_ps_bundle_end(p->ctx, p->own);
    if (status)
        return status;
    mu_error_restore(kept);
    if (ret_version)
        *ret_version = p->ps->config.pushers && !p->parts ? p->round + 1 : p->was->version + 1;
    return MUSTER_OK;
}

enum muster_status mu_ps_shard_replace(struct muster_ps *ps, uint32_t shard, const void *const *parts, uint64_t steps,
                                       uint64_t *ret_version)
{
    struct ps_shard was;
    struct pushing p = {.ps = ps, .shard = shard, .parts = parts, .replaced_steps = steps, .was = &was};
    enum muster_status status = mu_enter(ps->m, &p.ctx);

    if (status)
        return status;
    status = shard_push(&p, MUSTER_FOREVER, ret_version);
    mu_exit(p.ctx);
    return status;
}

enum muster_status muster_ps_push(struct muster_ps *ps, const void *data, muster_deadline deadline,
                                  uint64_t *ret_version)
{
    enum muster_status status = mu_ps_refuse_kind(ps, false);

    if (!status && ps->config.pushers && ps->m->task_id < 0)
        status = mu_fail(MUSTER_FAILED_PRECONDITION,
                         "tensor %s: a round counts one push of each task, and this process, a worker or an observer, "
                         "has no task's number: join as a task, or make the tensor without rounds (pushers = 0)",
                         ps->name);
    for (uint32_t i = 0; !status && i < ps->config.shards; i++) {
        const uint8_t *part = (const uint8_t *)data + ps_first(ps, i) * ps->width;
        struct ps_shard was;
        struct pushing p = {.ps = ps, .shard = i, .data = part, .was = &was};

        status = mu_enter(ps->m, &p.ctx);
        if (status)
            break;
        status = shard_push(&p, deadline, ret_version);
        mu_exit(p.ctx);
    }
    return status;
}

enum muster_status muster_ps_set(struct muster_ps *ps, const void *data, uint64_t *ret_version)
{
    enum muster_status status = mu_ps_refuse_kind(ps, false);

    for (uint32_t i = 0; !status && i < ps->config.shards; i++) {
        const void *parts[PS_PARTS_MAX] = {(const uint8_t *)data + ps_first(ps, i) * ps->width};

        status = mu_ps_shard_replace(ps, i, parts, UINT64_MAX, ret_version);
    }
    return status;
}

enum muster_status muster_ps_wait(struct muster_ps *ps, uint64_t version, muster_deadline deadline,
                                  uint64_t *ret_version)
{
    enum muster_status status = mu_ps_refuse_kind(ps, false);
    uint64_t lowest = UINT64_MAX;
    struct mu_ctx *ctx;

    if (!status)
        status = mu_enter(ps->m, &ctx);
    if (status)
        return status;
    for (uint32_t i = 0; !status && i < ps->config.shards; i++) {
        struct ps_shard s;

        status = version_await(ps, ctx, i, version, deadline, &s);
        lowest = !status && s.version < lowest ? s.version : lowest;
    }
    mu_exit(ctx);
    if (!status && ret_version)
        *ret_version = lowest;
    return status;
}
