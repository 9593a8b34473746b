/*
 * barrier/span.c: groups with members on several hosts: what a member does that members of one host need not.
 *
 * Members of a host wait for each other as ever, and for the proxy. The last of them to arrive rings the agent's bell;
 * the agent says so to the leader's, and when all hosts have, every agent lets its proxy arrive, with the data of the
 * other hosts' members laid into their areas before. So a barrier costs one look, one small frame each way, one store.
 *
 * Outcome. The word of the proxy on the leader's host is the verdict on the instance: a member that gives up there
 * closes it, or finds that it has arrived. On any other host a member that gives up closes the members that it can of
 * its own host, writes its wish into the proxy, and waits for the leader's word: the leader alone decides, and says the
 * same to all (model: spans.pml). Only a member that cannot hear the leader any more returns without knowing.
 *
 * Trust, with --latency. When but one host is missing the leader lets that one have the last word: its members then
 * need not wait for an answer. The verdict says so (MU_ARRIVED_TRUSTED), nobody closes it any more, and a member that
 * gives up on the leader's host does as those of other hosts do: a wish, and a wait for the trusted host's word. Two
 * hosts may trust each other at once, by what their members say to each other: shortcut.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/group.h"
#include "barrier/view.h"
#include "base/clock.h"
#include "segment/remote.h"
#include "segment/wait.h"
#include "sync/futex.h"

void mu_span_look(struct muster_group *g)
{
    const struct muster_segment *seg = g->muster->seg;

    if (!mu_is_bridged(seg))
        return;
    for (uint32_t i = 0; i < g->size && !g->spans; i++)
        g->spans = !mu_is_local_task(seg, g->members[i].task);
    g->follows = g->spans && mu_is_follower(seg);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static bool is_that(void *arg, uint32_t task)
{
    return *(const uint32_t *)arg == task;
}

/* We gave up before an answer came: the leader must know, for it may count on us by now. */
static void span_withdraw(struct muster_group *g, struct mu_ctx *ctx, enum muster_status why)
{
    struct mu_remote_call call = {
        .op = MU_OP_GROUP_CLOSE, .deadline = muster_after_ms(1000), .what = g->what, .kind = MU_WAIT_BARRIER};
    char sentence[512], text[MU_LIST_MAX];
    struct mu_answer answer;
    uint32_t there = 0, missing = 0;

    snprintf(sentence, sizeof sentence, "%s", muster_last_error());
    if (!mu_remote_call(g->muster, ctx, &call, &answer)) {
        there = mu_unpack_u32(&answer.body);
        missing = mu_unpack_u32(&answer.body);
    }
    mu_answer_done(&answer);
    if (why == MUSTER_DEADLINE_EXCEEDED && there && there < g->size)
        mu_fail(why, "group %s: %u of %u members came before the deadline; not there: %s", g->name, there, g->size,
                mu_cluster_list(g->muster->seg, is_that, &missing, text));
    else
        mu_fail(why, "%s", sentence);
}

/* The entry that the agent made before it handed the answer over. */
static enum muster_status span_entry_find(struct muster_group *g, struct mu_ctx *ctx, uint64_t generation)
{
    struct mu_group_entry r = {.size = g->size, .data_bytes = g->data_bytes, .members = g->members, .areas = g->areas};
    enum muster_status status;

    g->generation = generation | MU_GROUP_ENTRY_SPANS;
    mu_group_entry_key(&g->key, ctx->seg, g->name, g->generation);
    status = mu_group_entry_read(ctx->seg, ctx, &g->key, g->name, &r);
    g->proxy = r.proxy;
    if (status || (r.there == g->size && r.proxy && g->members[g->rank].incarnation == g->muster->incarnation))
        return status;
    memset(g->areas, 0, g->size * sizeof *g->areas);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: the segment of this host has no room for its %u members",
                   g->name, g->size);
}

enum muster_status mu_span_open(struct muster_group *g, struct mu_ctx *ctx, muster_deadline deadline)
{
    struct mu_pack p = {0};
    char what[96];
    struct mu_remote_call call = {
        .op = MU_OP_GROUP_OPEN, .request = &p, .deadline = deadline, .what = what, .kind = MU_WAIT_BARRIER};
    struct mu_answer answer;
    enum muster_status status;

    snprintf(what, sizeof what, MU_GROUP_BUILDS, g->name);
    mu_pack_text(&p, g->name);
    mu_pack_u32(&p, g->data_bytes);
    mu_pack_u32(&p, g->rank);
    mu_pack_u32(&p, g->size);
    for (uint32_t i = 0; i < g->size; i++)
        mu_pack_u32(&p, g->members[i].task);
    status = mu_remote_call(g->muster, ctx, &call, &answer);
    if (!status)
        status = span_entry_find(g, ctx, mu_unpack_u64(&answer.body));
    mu_answer_done(&answer);
    mu_pack_done(&p);
    if (status && status != MUSTER_DATA_LOSS && status != MUSTER_INVALID_ARGUMENT)
        span_withdraw(g, ctx, status);
    return status;
}

bool mu_span_waits(struct muster_group *g)
{
    const struct muster_segment *seg = g->muster->seg;

    g->waits = g->areas;
    g->num_waits = g->size;
    g->place = g->rank;
    if (!g->spans)
        return true;
    g->waits = calloc(seg->local_tasks + 1, sizeof *g->waits);
    if (!g->waits)
        return false;
    g->num_waits = 0;
    for (uint32_t i = 0; i < g->size; i++)
        if (mu_is_local_task(seg, g->members[i].task)) {
            if (i == g->rank)
                g->place = g->num_waits;
            g->waits[g->num_waits++] = g->areas[i];
        }
    g->waits[g->num_waits++] = g->proxy;
    return true;
}

/* ---- an instance ------------------------------------------------------------------------------------------------- */

uint64_t mu_span_word(const struct muster_group *g, uint32_t rank)
{
    uint64_t w =
        mu_load_acquire(&g->areas[rank]->arrived); /* acquire: pairs with member_arrive(), closers and the agent */
    uint64_t p;

    if (!g->spans || mu_is_local_task(g->muster->seg, g->members[rank].task))
        return w;
    p = mu_load_acquire(&g->proxy->arrived); /* acquire: likewise */
    if (p & MU_ARRIVED_CLOSED)
        p = MU_ARRIVED(MU_ARRIVED_INSTANCE(p) - 1);
    return mu_has_arrived(w, MU_ARRIVED_INSTANCE(p)) ? w : p;
}

void mu_span_arrived(struct muster_group *g, uint64_t instance)
{
    uint32_t others = 0, members = g->num_waits - 1;

    mu_shortcut_look(g);
    /* seq_cst: our arrival comes before our look at the others'; of the last two at least one sees both */
    mu_fence_seq_cst();
    for (uint32_t i = 0; i < members; i++)
        /* acquire: pairs with member_arrive() */
        others += i != g->place && mu_has_arrived(mu_load_acquire(&g->waits[i]->arrived), instance);
    if ((!others || others == members - 1) &&
        !mu_shortcut_covers(g, instance)) /* the first: a wait begins; the last: all of this host are there */
        mu_bell_ring_always(g->muster->seg);
}

void mu_span_wish(struct muster_group *g, uint64_t instance, uint64_t reason)
{
    mu_a64 *wish = &g->proxy->wish;
    uint64_t w = mu_load_relaxed(wish); /* relaxed: the CAS decides */
    uint64_t p = MU_ARRIVED_TRUSTED;

    if (!g->follows) {                           /* the leader's proxy may be closed by anybody here */
        p = mu_load_acquire(&g->proxy->arrived); /* acquire: as in mu_area_close() */
        if (!(p & MU_ARRIVED_CLOSED) && MU_ARRIVED_INSTANCE(p) + 1 == instance)
            p = mu_area_close(&g->proxy->arrived, instance, reason);
    }
    while (mu_is_trusted(p) && MU_ARRIVED_INSTANCE(w) < instance)
        if (mu_cas_seen(wish, &w, MU_ARRIVED(instance) | reason)) /* pairs with the agent's look at wishes */
            break;
    mu_bell_ring_always(g->muster->seg);
}

/* The host that has the last word: the leader's, or the one that it trusts. */
static uint32_t decider_of(const struct muster_group *g)
{
    /* relaxed: a reader that has seen TRUSTED sees it; for another instance it is a name in a sentence */
    uint64_t host = g->follows ? 0 : mu_load_relaxed(&g->proxy->keeper);

    return host < g->muster->seg->num_hosts ? (uint32_t)host : 0;
}

/* Whether it can be heard. */
static enum mu_bridge_state leader_reach(const struct muster_group *g)
{
    struct muster_segment *seg = g->muster->seg;
    enum mu_bridge_state state = mu_host_bridge_state(seg);

    if (state == MU_BRIDGE_UP && !mu_host_bridge_agent_lives(seg))
        state = MU_BRIDGE_DOWN;
    if (state == MU_BRIDGE_UP && !g->follows)
        /* relaxed: a word that the agent writes; of a host that is lost it says so in the verdict */
        state = mu_load_relaxed(&seg->hosts[decider_of(g)].state) == MU_HOST_UP ? MU_BRIDGE_UP : MU_BRIDGE_DOWN;
    return state;
}

static enum muster_status outcome_unknown(struct muster_group *g, uint64_t instance, enum mu_bridge_state state)
{
    char name[64];

    mu_host_name(g->muster->seg, decider_of(g), name, sizeof name);
    return mu_fail(MUSTER_UNAVAILABLE, "group %s: how its instance %llu ended is not known here: %s, host %s, is %s",
                   g->name, (unsigned long long)instance, g->follows ? "the leader" : "who had the last word", name,
                   state == MU_BRIDGE_LOST ? "lost" : "out of reach");
}

enum muster_status mu_span_verdict(struct muster_group *g, uint64_t instance, uint64_t reason, muster_deadline deadline,
                                   bool *ret_known)
{
    struct muster_segment *seg = g->muster->seg;
    struct mu_wait w;
    struct mu_ctx *ctx;
    enum muster_status status = MUSTER_OK;

    if (mu_handle_context(g->muster, &ctx))
        ctx = NULL;
    *ret_known = false;
    mu_span_wish(g, instance, reason);
    mu_wait_begin(&w, seg, ctx, MUSTER_FOREVER, g->what);
    w.interrupt = NULL; /* the interrupt has had it give up: that is this */
    w.kind = MU_WAIT_BARRIER;
    while (!status) {
        enum mu_bridge_state state;
        uint64_t p;

        mu_wait_look(&w);
        state = leader_reach(g);
        p = mu_load_acquire(&g->proxy->arrived); /* acquire: pairs with the agent's CAS */
        *ret_known = mu_has_arrived(p, instance) || mu_is_closed_at(p, instance);
        if (*ret_known) {
            status = mu_is_closed_at(p, instance) ? MUSTER_UNAVAILABLE : MUSTER_OK;
            break;
        }
        if (state == MU_BRIDGE_LOST || (state == MU_BRIDGE_DOWN && deadline <= mu_now()))
            status = outcome_unknown(g, instance, state);
        else
            status = mu_wait_on(&w, &g->proxy->arrived, p);
    }
    mu_wait_end(&w);
    return status;
}
