/*
 * accel/nccl_remote.c: a communicator's record on a host that is not the leader's.
 *
 * Changes are asked for, one call each; the same call may be carried out twice, which changes nothing the second time
 * (nccl_record.h). Times go over as durations. What is looked at is the copy of the record that this host has, as of
 * any key: the leader is asked for it once, its changes come by themselves, and a new round begins when it may have
 * forgotten. In a copy the times are the leader's and mean nothing here: that an id has expired its agent says, by
 * making it FAILED.
 */
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_id.h"
#include "base/clock.h"
#include "kv/remote.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/remote.h"

#define ASK_NS  100000000u  /* in the course of a wait that is about to end: long enough for an answer to come */
#define STEP_NS 1000000000u /* the same for a step, which is made whether or not its answer is waited for */

/* ---- what goes over ---------------------------------------------------------------------------------------------- */

/*
 * MU_OP_NCCL_ID: step 1, generation 8, ranks 4, ids 4, rank 4, version 4, expiry 8, name (length 4); then the ids
 * (MADE) or the reason (FAIL, length 4).
 */
static void pack_request(struct mu_pack *p, const struct mu_nccl_call *call, const struct mu_nccl_act *act)
{
    const struct mu_nccl_asker *a = &call->asker;

    mu_pack_u8(p, act->step);
    mu_pack_u64(p, call->generation);
    mu_pack_u32(p, a->nranks);
    mu_pack_u32(p, a->nids);
    mu_pack_u32(p, a->rank);
    mu_pack_u32(p, (uint32_t)a->version);
    mu_pack_u64(p, a->expiry);
    mu_pack_text(p, call->name);
    if (act->step == MU_NCCL_MADE)
        mu_pack_raw(p, act->ids, (size_t)a->nids * MUSTER_NCCL_ID_BYTES);
    if (act->step == MU_NCCL_FAIL)
        mu_pack_text(p, act->reason);
}

/* Whether these steps can be by somebody with such a shape: ranks and ids are looked at where they count. */
static bool has_shape(const struct mu_nccl_asker *a)
{
    return a->nranks && a->nranks <= MUSTER_NCCL_RANKS_MAX && a->rank < a->nranks && a->nids && a->nids <= a->nranks &&
           a->nids <= MUSTER_NCCL_IDS_MAX && a->task >= 0;
}

bool mu_nccl_unpack_request(struct mu_unpack *u, char name[MUSTER_NCCL_NAME_MAX + 1], struct mu_nccl_asker *ret_asker,
                            uint64_t *ret_generation, struct mu_nccl_act *ret_act, char reason[120])
{
    struct mu_nccl_asker *a = ret_asker;
    uint8_t step = mu_unpack_u8(u);
    bool by_rank = step == MU_NCCL_REQUEST || step == MU_NCCL_CLAIM || step == MU_NCCL_MADE || step == MU_NCCL_FINISH ||
                   step == MU_NCCL_WITHDRAW;

    *ret_act = (struct mu_nccl_act){.step = (enum mu_nccl_step)step};
    *ret_generation = mu_unpack_u64(u);
    a->nranks = mu_unpack_u32(u);
    a->nids = mu_unpack_u32(u);
    a->rank = mu_unpack_u32(u);
    a->version = (int32_t)mu_unpack_u32(u);
    a->expiry = mu_unpack_u64(u);
    mu_unpack_text(u, name, MUSTER_NCCL_NAME_MAX + 1);
    if (u->failed || !name[0] || step > MU_NCCL_FINISH || (by_rank && !has_shape(a)))
        return false;
    if (!by_rank) /* the shape is not looked at, and must not be believed */
        a->nranks = a->nids = a->rank = 0;
    if (!*ret_generation && step != MU_NCCL_REQUEST && step != MU_NCCL_LOOK)
        return false;
    if (step == MU_NCCL_MADE)
        ret_act->ids = mu_unpack_raw(u, (size_t)a->nids * MUSTER_NCCL_ID_BYTES);
    if (step == MU_NCCL_FAIL) {
        mu_unpack_text(u, reason, 120);
        ret_act->reason = reason;
    }
    return mu_unpack_end(u);
}

/*
 * The answer: 1 answer, 1 flags; and if there is a record: generation 8, state 4, version 4, ranks 4, ids 4, taken 4,
 * done 4, owner 4, its rank 4, since (ns ago) 8, expires (in ns) 8, holder of the asker's rank 4 (task + 1; 0: none),
 * reason (length 4), and to ranks that may claim them, or have, the ids.
 */
enum { ACCEPTED = 1, THERE = 2, IDS = 4 };

void mu_nccl_pack_answer(struct mu_pack *p, const struct mu_nccl_call *call, const struct mu_nccl_act *act)
{
    const struct mu_nccl_head *h = call->record.head;
    bool ids = act->there && act->answer == MU_NCCL_THERE;
    uint64_t now = call->asker.now;
    const struct mu_nccl_taker *t;

    mu_pack_u8(p, (uint8_t)act->answer);
    mu_pack_u8(p, (act->accepted ? ACCEPTED : 0) | (act->there ? THERE : 0) | (ids ? IDS : 0));
    if (!act->there)
        return;
    t = call->asker.rank < h->nranks ? &call->record.takers[call->asker.rank] : NULL;
    mu_pack_u64(p, h->generation);
    mu_pack_u32(p, h->state);
    mu_pack_u32(p, (uint32_t)h->version);
    mu_pack_u32(p, h->nranks);
    mu_pack_u32(p, h->nids);
    mu_pack_u32(p, h->taken);
    mu_pack_u32(p, h->done);
    mu_pack_u32(p, (uint32_t)h->owner_task);
    mu_pack_u32(p, h->owner_rank);
    mu_pack_u64(p, now - h->since);
    mu_pack_u64(p, h->expires > now ? h->expires - now : 0);
    mu_pack_u32(p, t && t->flags & MU_NCCL_TAKEN ? (uint32_t)t->task + 1 : 0);
    mu_pack_text(p, h->reason);
    if (ids)
        mu_pack_raw(p, call->record.ids, (size_t)h->nids * MUSTER_NCCL_ID_BYTES);
}

/* The record as told, in the caller's room: without the takers, but for the caller's rank. */
static bool unpack_record(struct mu_nccl_call *call, struct mu_unpack *u, bool ids)
{
    struct mu_nccl_head head = {0}, *h = &head;
    uint64_t now = mu_now();
    uint32_t taker;
    size_t size;

    h->generation = mu_unpack_u64(u);
    h->state = mu_unpack_u32(u);
    h->version = (int32_t)mu_unpack_u32(u);
    h->nranks = mu_unpack_u32(u);
    h->nids = mu_unpack_u32(u);
    h->taken = mu_unpack_u32(u);
    h->done = mu_unpack_u32(u);
    h->owner_task = (int32_t)mu_unpack_u32(u);
    h->owner_rank = mu_unpack_u32(u);
    h->since = now - mu_unpack_u64(u);
    h->expires = now + mu_unpack_u64(u);
    taker = mu_unpack_u32(u);
    mu_unpack_text(u, h->reason, sizeof h->reason);
    if (u->failed || h->nranks > MUSTER_NCCL_RANKS_MAX || h->nids > MUSTER_NCCL_IDS_MAX)
        return false;
    size = mu_nccl_record_size(h->nranks, h->nids);
    if (!mu_nccl_make_room(call, size))
        return false;
    memset(call->room, 0, size);
    memcpy(call->room, h, sizeof *h);
    if (!mu_nccl_record_view(&call->record, call->room, size))
        return false;
    if (taker && call->asker.rank < h->nranks)
        call->record.takers[call->asker.rank] =
            (struct mu_nccl_taker){.task = (int32_t)(taker - 1), .flags = MU_NCCL_TAKEN};
    if (ids) {
        const void *from = mu_unpack_raw(u, (size_t)h->nids * MUSTER_NCCL_ID_BYTES);

        if (from)
            memcpy(call->record.ids, from, (size_t)h->nids * MUSTER_NCCL_ID_BYTES);
    }
    return mu_unpack_end(u);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* What ends the wait for an answer: an error of a task, where that ends waiting. */
static enum muster_status job_error(void *arg)
{
    const struct mu_nccl_call *call = arg;

    return mu_cluster_error(call->m->seg, call->what);
}

enum muster_status mu_nccl_step_remote(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act,
                                       muster_deadline deadline)
{
    struct mu_pack request = {0};
    struct mu_remote_call c = {
        .op = MU_OP_NCCL_ID, .request = &request, .deadline = deadline, .what = call->what, .arg = call};
    struct mu_answer answer;
    uint8_t flags;
    enum muster_status status;

    c.undisturbed = act->takes_back;
    if (!act->takes_back && (act->step == MU_NCCL_REQUEST || act->step == MU_NCCL_CLAIM || act->step == MU_NCCL_LOOK))
        c.ends = job_error; /* the others only tell, also of an error */
    if ((act->step == MU_NCCL_REQUEST || act->step == MU_NCCL_CLAIM) && deadline < mu_now() + STEP_NS)
        c.deadline = mu_now() + STEP_NS;
    act->there = act->changed = act->accepted = act->deletes = false;
    act->answer = MU_NCCL_AGAIN;
    call->asked = false;
    pack_request(&request, call, act);
    status = mu_remote_call(call->m, ctx, &c, &answer);
    mu_pack_done(&request);
    call->unsure = status != MUSTER_OK;
    if (!status) {
        act->answer = (enum mu_nccl_answer)mu_unpack_u8(&answer.body);
        flags = mu_unpack_u8(&answer.body);
        act->accepted = flags & ACCEPTED;
        act->there = flags & THERE;
        if (answer.body.failed || (uint32_t)act->answer > MU_NCCL_OTHER_VERSION || (flags & IDS && !act->there) ||
            (act->there ? !unpack_record(call, &answer.body, flags & IDS) : answer.body.left != 0))
            status = mu_fail(MUSTER_DATA_LOSS, "the leader's answer about %s is not well formed", call->what);
    }
    if (act->there)
        act->generation = call->record.head->generation;
    mu_answer_done(&answer);
    return status;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* The leader is asked, and tells this host of changes from now on. A wait is interrupted for it. */
static enum muster_status read_remote(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w,
                                      struct mu_kv_read *r)
{
    uint64_t least = mu_now() + ASK_NS;
    struct mu_wait was;
    enum muster_status status;

    if (!w)
        return mu_kv_read_run(call->m, ctx, r, 0);
    was = *w;
    mu_wait_end(w); /* asking is a wait of its own */
    status = mu_kv_read_run(call->m, ctx, r, was.deadline > least ? was.deadline : least);
    mu_wait_begin(w, was.seg, ctx, was.deadline, was.what);
    w->interrupt = was.interrupt;
    w->epoch = was.epoch; /* what happened since the look is not slept through */
    return status;
}

/* Where a record goes that comes with the answer. */
static enum muster_status record_room(struct mu_kv_read *r)
{
    struct mu_nccl_call *call = r->arg;

    if (!mu_nccl_make_room(call, r->len))
        return mu_nccl_no_memory(call);
    r->to = (uint8_t *)call->room;
    return MUSTER_OK;
}

enum muster_status mu_nccl_read_remote(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w,
                                       uint64_t *ret_word, bool *ret_there)
{
    struct mu_kv_read r = {.key = call->key.words, .key_len = call->key.len, .room = record_room, .arg = call};
    uint64_t word;
    uint8_t flags = MU_READ_WAITS;
    enum muster_status status;

    do {
        uint32_t round = mu_host_bridge_round(call->m->seg);

        status = mu_nccl_read_here(call, ctx, &word, ret_there);
        *ret_word = word;
        if (!status && *ret_there)
            call->asked = false;
        if (status || *ret_there)
            break;
        if (call->asked && call->round == round) {
            *ret_there = call->told;
            break;
        }
        mu_kv_read_begin(&r, flags);
        status = read_remote(call, ctx, w, &r);
        if (!status && r.what == MU_READ_VALUE && !mu_nccl_record_view(&call->record, call->room, r.len))
            status = mu_nccl_corrupt(call);
        if (!status && r.what != MU_READ_COPIED) {
            call->asked = true;
            call->round = round;
            *ret_there = call->told = r.what == MU_READ_VALUE;
        }
        flags |= MU_READ_WHOLE; /* the copy went as fast as it had come */
    } while (!status && r.what == MU_READ_COPIED);
    call->asker.now = 0; /* the leader's clock is not ours */
    return status;
}
