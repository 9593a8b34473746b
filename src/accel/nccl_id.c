/*
 * accel/nccl_id.c: an id for each communicator, by name and generation, through one record of the segment.
 *
 * A rank asks by a change of the record: it takes the ids, or becomes their maker, or must wait for another rank that
 * is. libnccl is called outside of any change and of any muster call, then a second change hands out what was made.
 * Between the two the maker may die, or be taken for dead: the next rank that asks begins another generation, and the
 * second change of the late one finds so, and its roots end. Roots of this process are looked after at each call and
 * when it leaves.
 */
#include "accel/nccl_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_roots.h"
#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/hosts.h"

#define EXPIRY_NS    600000000000u
#define STATE_NS     1000000000u /* for an answer about what can be seen at once on one host */
#define TAKE_BACK_NS 1000000000u /* for each step of taking back what may have been done */

/* A step by itself, of one call. */
static enum muster_status call_step(struct mu_nccl_call *call, struct mu_nccl_act *act, muster_deadline deadline)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    status = mu_nccl_step(call, ctx, act, deadline);
    mu_exit(ctx);
    return status;
}

/* ---- roots of this process --------------------------------------------------------------------------------------- */

static struct mu_nccl_root_key root_key(const struct mu_nccl_call *call)
{
    struct mu_nccl_root_key key = {.handle = call->m->id, .generation = call->generation};

    snprintf(key.name, sizeof key.name, "%s", call->name);
    return key;
}

struct judging {
    struct muster *m;
    struct mu_ctx *ctx;
    bool leaving; /* then what not all have taken is dead */
};

/* Within a call: the generation of a root of ours. */
static bool is_dead(void *arg, const struct mu_nccl_root_key *key)
{
    const struct judging *j = arg;
    struct mu_nccl_call *call = malloc(sizeof *call); /* large: it holds a key */
    char reason[120];
    uint64_t word;
    bool there = false, dead = false;

    if (!call)
        return false;
    mu_nccl_call_make(call, j->m, key->name);
    if (!mu_nccl_look(call, j->ctx, NULL, &word, &there) && there)
        dead = mu_nccl_is_dead(&call->record, &call->asker, key->generation, reason) ||
               (j->leaving && call->record.head->generation == key->generation &&
                call->record.head->taken < call->record.head->nranks);
    mu_nccl_call_done(call);
    free(call);
    return dead;
}

static void caller_leave(struct muster *m)
{
    struct judging j = {.m = m, .leaving = true};

    if (mu_is_follower(m->seg) && mu_handle_context(m, &j.ctx))
        return;
    mu_nccl_roots_reap(m->id, is_dead, &j);
}

enum muster_status mu_nccl_look_after_roots(struct muster *m)
{
    struct judging j = {.m = m};
    enum muster_status status;

    if (mu_is_follower(m->seg)) {
        status = mu_enter_wait(m, &j.ctx);
        if (status)
            return status;
        mu_nccl_roots_reap(m->id, is_dead, &j);
        mu_exit(j.ctx);
        return MUSTER_OK;
    }
    status = mu_enter_read(m);
    if (status)
        return status;
    mu_nccl_roots_reap(m->id, is_dead, &j);
    mu_exit_read();
    return MUSTER_OK;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static enum muster_status call_refuse(struct mu_nccl_call *call, enum mu_nccl_answer answer)
{
    const struct mu_nccl_head *h = call->record.head;
    const struct mu_nccl_asker *a = &call->asker;
    char ours[MU_NCCL_VERSION_TEXT], theirs[MU_NCCL_VERSION_TEXT];

    switch (answer) {
    case MU_NCCL_TWICE:
        return mu_fail(MUSTER_ALREADY_EXISTS,
                       "%s: rank %u has taken generation %" PRIu64
                       " already, and %u of %u ranks have not: an id is for "
                       "one communicator; give it up first (muster_nccl_abandon) if that one failed",
                       call->what, a->rank, h->generation, h->nranks - h->taken, h->nranks);
    case MU_NCCL_CLAIMED:
        return mu_fail(MUSTER_ALREADY_EXISTS,
                       "%s: task %d has taken generation %" PRIu64 " as rank %u; task %d says it is "
                       "that rank, too",
                       call->what, call->record.takers[a->rank].task, h->generation, a->rank, a->task);
    case MU_NCCL_OTHER_COUNT:
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: %u ranks and %u ids here; task %d, rank %u, said %u and %u",
                       call->what, a->nranks, a->nids, h->owner_task, h->owner_rank, h->nranks, h->nids);
    default:
        return mu_fail(
            MUSTER_FAILED_PRECONDITION,
            "%s: this libnccl is version %s (%s), that of task %d, which made the id, is %s: all ranks need the "
            "same",
            call->what, mu_nccl_version_text(a->version, ours), call->nccl->path, h->owner_task,
            mu_nccl_version_text(h->version, theirs));
    }
}

static bool is_that(void *arg, uint32_t task)
{
    return *(const int32_t *)arg == (int32_t)task;
}

/* Until the maker of call->generation is through with it, or lost. */
static enum muster_status await_maker(struct mu_nccl_call *call, struct mu_ctx *ctx, muster_deadline deadline)
{
    const struct mu_nccl_head *h = call->record.head;
    struct mu_table t = mu_nccl_table(call);
    uint64_t since = h->since, word;
    int32_t maker = h->owner_task;
    enum muster_status status;
    struct mu_wait w;
    bool there, lives = true;

    mu_wait_begin(&w, call->m->seg, ctx, deadline, call->what);
    w.interrupt = &call->m->interrupt;
    for (;;) {
        mu_wait_look(&w);
        status = mu_cluster_error(call->m->seg, call->what);
        if (!status)
            status = mu_nccl_look(call, ctx, &w, &word, &there);
        h = call->record.head;
        if (status || !there || h->generation != call->generation || h->state != MUSTER_NCCL_MAKING)
            break;
        lives = mu_nccl_presence(call, h->owner_task, h->owner_incarnation, h->owner_attempt) == MU_NCCL_HERE;
        if (!lives)
            break;
        status = mu_wait_on(&w, mu_table_bucket(&t, &call->key), word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    if (!lives) /* what is asked next is asked when the job knows of it */
        mu_nccl_recheck(ctx);
    if (status == MUSTER_DEADLINE_EXCEEDED) {
        char text[MU_LIST_MAX];

        mu_cluster_list(call->m->seg, is_that, &maker, text);
        return mu_fail(status, "the deadline passed while waiting for %s; who makes it, for %.1f s now: %s", call->what,
                       (double)(mu_now() - since) / 1e9, text);
    }
    return status;
}

/* Until there is another answer than to wait, or to ask again. */
static enum muster_status ask_until_answered(struct mu_nccl_call *call, struct mu_ctx *ctx, muster_deadline deadline,
                                             enum mu_nccl_answer *ret_answer)
{
    for (;;) {
        struct mu_nccl_act act = {.step = MU_NCCL_REQUEST};
        enum muster_status status = mu_cluster_error(call->m->seg, call->what);

        if (!status)
            status = mu_nccl_step(call, ctx, &act, deadline);
        if (status)
            return status;
        *ret_answer = act.answer;
        call->generation = call->record.head->generation;
        if (act.answer == MU_NCCL_WAIT)
            status = await_maker(call, ctx, deadline);
        else if (act.answer != MU_NCCL_AGAIN)
            return MUSTER_OK;
        if (status)
            return status;
    }
}

/* Of another host: the ids are there, and are ours when the leader knows that we have them. */
static enum muster_status ids_claim(struct mu_nccl_call *call, struct mu_ctx *ctx, muster_deadline deadline,
                                    struct mu_nccl_id *ret_ids, enum mu_nccl_answer *ret_answer)
{
    struct mu_nccl_act act = {.step = MU_NCCL_CLAIM};
    enum muster_status status;

    memcpy(ret_ids, call->record.ids, (size_t)call->asker.nids * sizeof *ret_ids);
    status = mu_nccl_step(call, ctx, &act, deadline);
    *ret_answer = act.answer;
    if (!status && act.answer == MU_NCCL_AGAIN) /* without an answer it may be ours all the same */
        call->generation = 0;
    return status;
}

/*
 * A step of another host's got no answer, and may be made all the same. What follows it in the same slot replaces it,
 * or comes after it: so a look, of which the leader's answer says whether we own what is being made, and then a word
 * that we do not make it; of what we claimed, that we do not have it. Nobody then waits for us. The error is the
 * caller's.
 */
static enum muster_status take_back(struct mu_nccl_call *call, enum muster_status status, bool claimed)
{
    struct mu_nccl_act look = {.step = MU_NCCL_LOOK, .takes_back = true};
    struct mu_nccl_act fail = {.step = MU_NCCL_FAIL, .takes_back = true};
    const struct mu_nccl_head *h;
    char why[400], reason[120];

    snprintf(why, sizeof why, "%s", muster_last_error());
    mu_nccl_say(call, ": ", why, reason);
    fail.reason = reason;
    if (!claimed && !call_step(call, &look, mu_now() + TAKE_BACK_NS) && look.there) {
        h = call->record.head;
        claimed =
            h->state == MUSTER_NCCL_MAKING && h->owner_task == call->asker.task && h->owner_rank == call->asker.rank;
        call->generation = h->generation;
    }
    if (claimed)
        call_step(call, &fail, mu_now() + TAKE_BACK_NS);
    call->unsure = false;
    return mu_fail(status, "%s", why);
}

/* One look, or as many as it takes until the deadline. */
static enum muster_status get_answer(struct mu_nccl_call *call, muster_deadline deadline, struct mu_nccl_id *ret_ids,
                                     enum mu_nccl_answer *ret_answer)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(call->m, &ctx);
    bool claims = false;

    if (status)
        return status;
    call->unsure = false;
    do {
        claims = false;
        status = ask_until_answered(call, ctx, deadline, ret_answer);
        if (!status && *ret_answer == MU_NCCL_TAKE)
            memcpy(ret_ids, call->record.ids, (size_t)call->asker.nids * sizeof *ret_ids);
        if (!status && *ret_answer == MU_NCCL_THERE) {
            claims = true;
            status = ids_claim(call, ctx, deadline, ret_ids, ret_answer);
        }
    } while (!status && *ret_answer == MU_NCCL_AGAIN);
    mu_exit(ctx);
    return status && call->unsure ? take_back(call, status, claims) : status;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* We own call->generation. Outside of any muster call, for libnccl is foreign. */
static enum muster_status make_ids(struct mu_nccl_call *call, struct mu_nccl_id *ret_ids)
{
    struct mu_nccl_root_key key = root_key(call);
    uint64_t now = mu_now(), expires = now + call->asker.expiry < now ? UINT64_MAX : now + call->asker.expiry;
    enum muster_status made = mu_nccl_roots_make(call->nccl, &key, expires, call->asker.nids, ret_ids);
    struct mu_nccl_act act = {.step = made ? MU_NCCL_FAIL : MU_NCCL_MADE, .ids = ret_ids->bytes};
    struct mu_nccl_act withdraw = {.step = MU_NCCL_WITHDRAW};
    char reason[120];
    enum muster_status status;

    if (made) {
        mu_nccl_say(call, ": ", muster_last_error(), reason);
        act.reason = reason;
    }
    status = call_step(call, &act, MUSTER_FOREVER);
    if (status == MUSTER_RESOURCE_EXHAUSTED && call_step(call, &withdraw, MUSTER_FOREVER) == MUSTER_OK)
        status = mu_fail(status, "%s: the segment is full, so it cannot be handed out", call->what);
    if (made)
        return mu_fail(made, "%s: %s", call->what, reason);
    if (!status && act.accepted)
        return MUSTER_OK;
    if (call->unsure) /* its root stays until it is known that the generation is dead */
        return take_back(call, status, true);
    mu_nccl_roots_end(&key);
    return status ? status
                  : mu_fail(MUSTER_ABORTED, "%s: generation %" PRIu64 " was given up while this task made it: %s",
                            call->what, call->generation, act.there ? call->record.head->reason : "");
}

/* The root of an id listens where this host cannot reach it: NCCL would wait for ever, or talk to somebody else. */
static enum muster_status check_reach(struct mu_nccl_call *call, const struct mu_nccl_id *id)
{
    const struct mu_nccl_head *h = call->record.head;
    char address[MU_NCCL_ADDRESS], maker[MU_NCCL_TASK_NAME], own[MU_NCCL_TASK_NAME], reason[120];

    if (mu_is_local_task(call->m->seg, (uint32_t)h->owner_task) || !mu_nccl_is_out_of_reach(id))
        return MUSTER_OK;
    mu_nccl_id_address(id, address);
    mu_nccl_task_name(call, h->owner_task, maker);
    mu_nccl_task_name(call, call->asker.task, own);
    mu_nccl_say(call, " cannot reach ", address, reason);
    mu_nccl_give_up(call, reason);
    return mu_fail(MUSTER_FAILED_PRECONDITION,
                   "%s: its root, of %s, listens at %s, which %s cannot reach: set NCCL_SOCKET_IFNAME to the network "
                   "that the hosts share",
                   call->what, maker, address, own);
}

enum muster_status mu_nccl_take(struct mu_nccl_call *call, muster_deadline deadline, struct mu_nccl_id *ret_ids)
{
    enum mu_nccl_answer answer;
    enum muster_status status = mu_nccl_look_after_roots(call->m);

    if (!status)
        status = get_answer(call, deadline, ret_ids, &answer);
    if (status)
        return status;
    if (answer == MU_NCCL_MAKE)
        return make_ids(call, ret_ids);
    if (answer != MU_NCCL_TAKE)
        return call_refuse(call, answer);
    return call->shared ? check_reach(call, &ret_ids[0]) : MUSTER_OK;
}

/* ---- afterwards -------------------------------------------------------------------------------------------------- */

enum muster_status mu_nccl_watch(struct mu_nccl_call *call, uint64_t wait_ns)
{
    struct mu_table t = mu_nccl_table(call);
    struct mu_ctx *ctx = NULL;
    struct mu_wait w;
    char reason[120];
    uint64_t word;
    bool there;
    enum muster_status status = mu_enter_wait(call->m, &ctx);

    if (status)
        return status;
    mu_wait_begin(&w, call->m->seg, ctx, mu_now() + wait_ns, call->what);
    w.interrupt = &call->m->interrupt;
    do {
        mu_wait_look(&w);
        status = mu_cluster_error(call->m->seg, call->what);
        if (!status)
            status = mu_nccl_look(call, ctx, &w, &word, &there);
        if (!status && there && mu_nccl_is_dead(&call->record, &call->asker, call->generation, reason))
            status = mu_fail(MUSTER_ABORTED, "%s, generation %" PRIu64 ": %s", call->what, call->generation, reason);
        if (!status && wait_ns)
            status = mu_wait_on(&w, mu_table_bucket(&t, &call->key), word);
    } while (!status && wait_ns);
    mu_wait_end(&w);
    mu_exit(ctx);
    return status == MUSTER_DEADLINE_EXCEEDED ? MUSTER_OK : status; /* nothing is known against it */
}

enum muster_status mu_nccl_give_up(struct mu_nccl_call *call, const char *reason)
{
    struct mu_nccl_act look = {.step = MU_NCCL_LOOK}, act = {.step = MU_NCCL_FAIL, .reason = reason};
    struct mu_nccl_root_key key;
    enum muster_status status = MUSTER_OK;

    if (!call->generation && call->remote) { /* said twice, it must not hit the next one */
        status = call_step(call, &look, MUSTER_FOREVER);
        call->generation = look.generation;
        if (status || !call->generation)
            return status;
    }
    status = call_step(call, &act, MUSTER_FOREVER);
    if (!call->generation)
        call->generation = act.generation;
    key = root_key(call);
    mu_nccl_roots_end(&key);
    return status;
}

enum muster_status mu_nccl_finish(struct mu_nccl_call *call)
{
    struct mu_nccl_act act = {.step = MU_NCCL_FINISH};

    return call_step(call, &act, MUSTER_FOREVER);
}

enum muster_status mu_nccl_read(struct mu_nccl_call *call, bool *ret_there)
{
    struct mu_ctx *ctx;
    uint64_t word;
    enum muster_status status;

    if (call->remote) {
        status = mu_enter_wait(call->m, &ctx);
        if (status)
            return status;
        status = mu_nccl_look(call, ctx, NULL, &word, ret_there);
        mu_exit(ctx);
        return status;
    }
    status = mu_enter_read(call->m);
    if (status)
        return status;
    status = mu_nccl_read_here(call, NULL, &word, ret_there);
    mu_exit_read();
    return status;
}

enum muster_status mu_nccl_state(struct mu_nccl_call *call, bool *ret_there)
{
    struct mu_nccl_act look = {.step = MU_NCCL_LOOK};
    enum muster_status status;

    if (!call->remote)
        return mu_nccl_read(call, ret_there);
    status = call_step(call, &look, mu_now() + STATE_NS);
    *ret_there = look.there;
    return status;
}

bool mu_nccl_missing(struct mu_nccl_call *call, uint32_t flag, char *text, size_t size)
{
    uint32_t missing = 0, shown = 0;
    size_t at = 0;
    bool there = false;

    text[0] = 0;
    if (mu_nccl_read(call, &there)) {
        snprintf(text, size, "ranks that this host cannot name now");
        return false;
    }
    if (there && call->record.head->generation == call->generation)
        for (uint32_t i = 0; i < call->record.head->nranks; i++) {
            if (call->record.takers[i].flags & flag)
                continue;
            if (++missing <= 8 && at < size) {
                at += (size_t)snprintf(text + at, size - at, "%s%u", shown ? ", " : "rank ", i);
                shown++;
            }
        }
    if (missing > shown && at < size)
        snprintf(text + at, size - at, " and %u more", missing - shown);
    return missing > 0;
}

/* ---- the asking rank --------------------------------------------------------------------------------------------- */

static enum muster_status check_options(const struct muster_nccl_options *options)
{
    if (options && options->flags)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "there are no flags 0x%x of NCCL options", options->flags);
    return MUSTER_OK;
}

/* What a rank says of itself. */
enum muster_status mu_nccl_introduce(struct mu_nccl_call *call, const struct mu_nccl *nccl, uint32_t nranks,
                                     uint32_t rank, uint32_t count, const struct muster_nccl_options *options)
{
    enum muster_status status = check_options(options);

    if (status)
        return status;
    if (!nranks || nranks > MUSTER_NCCL_RANKS_MAX || rank >= nranks)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: rank %u of %u; there may be 1 to %u ranks, numbered from 0",
                       call->what, rank, nranks, MUSTER_NCCL_RANKS_MAX);
    if (!count || count > nranks || count > MUSTER_NCCL_IDS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: %u ids; there may be 1 to %u, and no more than ranks", call->what,
                       count, MUSTER_NCCL_IDS_MAX);
    if (call->m->task_id < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s: only tasks can be ranks, this process is an observer",
                       call->what);
    call->asker.nranks = nranks;
    call->asker.rank = rank;
    call->asker.nids = count;
    call->asker.expiry = options && options->expiry_ns ? options->expiry_ns : EXPIRY_NS;
    call->nccl = nccl;
    call->asker.version = nccl->version;
    call->m->at_leave = caller_leave;
    return MUSTER_OK;
}
