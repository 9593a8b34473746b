/*
 * mindspore/scale.c: a cluster gets more servers, or fewer.
 *
 *   asked for ──► all old members are told ──► they register again, new ones come ──► all have the outcome (metadata)
 *             ──► each says that it is done ──► all are told so: READY
 *
 * Until the outcome is told a scaling can go back: then the outcome is the cluster as it was, for those that have
 * registered again; the others have not moved. It goes back when its time is over, and when an old member is lost.
 * Ranks of the servers that stay keep their order. Sets of one scaling belong to it alone: they are flags of the nodes,
 * which the next one clears.
 */
#include "mindspore/private.h"

#include <stdio.h>
#include <string.h>

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static void scale_begin(struct mu_ms_cluster *c, Mu__Ms__State state, uint64_t now)
{
    c->state = c->scaling = state;
    c->is_told = c->is_changed = false;
    c->until_ns = now + c->scale_ns;
    for (struct mu_ms_node *n = c->nodes; n; n = n->next) {
        n->is_old = n->is_behind = true;
        n->is_late = false;
        n->is_registered = n->is_asked = false;
        n->heard_ns = now;
    }
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        mu_ms_tell_scale(c, n);
}

const char *mu_ms_scale_out(struct mu_ms_cluster *c, int64_t workers, int64_t servers, uint64_t now)
{
    if (c->state != MU__MS__STATE__READY)
        return "The cluster is not ready.";
    if (workers < 0 || servers < 0)
        return "The value should not be less than 0.";
    if (workers > 0)
        return "The Worker does not currently support scale out.";
    if (servers == 0)
        return "The server_num should be larger than 0.";
    if (servers > (int64_t)(MU_MS_NODES_MAX - c->want[0] - c->want[1]))
        return "The cluster would be larger than 4096 nodes.";
    memcpy(c->wanted_before, c->want, sizeof c->want);
    c->want[MU__MS__ROLE__SERVER] += (uint32_t)servers;
    scale_begin(c, MU__MS__STATE__SCALING_OUT, now);
    return NULL;
}

static const char *leaving_check(const struct mu_ms_cluster *c, char *const *ids, size_t count)
{
    static _Thread_local char text[MU_MS_SENTENCE];

    if (c->state != MU__MS__STATE__READY)
        return "The cluster is not ready.";
    if (count == 0)
        return "The node ids should not be empty.";
    for (size_t i = 0; i < count; i++) {
        const struct mu_ms_node *n = mu_ms_cluster_find(c, ids[i]);

        text[0] = 0;
        if (!n)
            snprintf(text, sizeof text, "The node id:%.255s is illegal.", ids[i]);
        else if (n->role == MU__MS__ROLE__WORKER)
            snprintf(text, sizeof text, "The node id:%.255s is the role of worker, should not be scale in.", ids[i]);
        else if (n->rank == 0)
            snprintf(text, sizeof text, "The node id:%.255s is rank 0 of server, should not be scale in.", ids[i]);
        for (size_t j = 0; j < i && !text[0]; j++)
            if (strcmp(ids[j], ids[i]) == 0)
                snprintf(text, sizeof text, "The node id:%.255s is there twice.", ids[i]);
        if (text[0])
            return text;
    }
    return NULL;
}

/* In the order that they have now. */
static void ranks_close_up(struct mu_ms_cluster *c)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next) {
        n->next_rank = n->rank;
        for (const struct mu_ms_node *o = c->nodes; o; o = o->next)
            n->next_rank -= o->is_leaving && o->role == n->role && o->rank < n->rank;
    }
}

const char *mu_ms_scale_in(struct mu_ms_cluster *c, char *const *ids, size_t count, uint64_t now)
{
    const char *why = leaving_check(c, ids, count);

    if (why)
        return why;
    memcpy(c->wanted_before, c->want, sizeof c->want);
    for (size_t i = 0; i < count; i++)
        mu_ms_cluster_find(c, ids[i])->is_leaving = true;
    c->want[MU__MS__ROLE__SERVER] -= (uint32_t)count;
    ranks_close_up(c);
    scale_begin(c, MU__MS__STATE__SCALING_IN, now);
    return NULL;
}

/* ---- the outcome ------------------------------------------------------------------------------------------------- */

static void leavers_drop(struct mu_ms_cluster *c)
{
    for (struct mu_ms_node *n = c->nodes, *next; n; n = next) {
        next = n->next;
        if (n->is_leaving && !n->is_alive)
            mu_ms_node_drop(c, n);
    }
}

static void scale_end_if_done(struct mu_ms_cluster *c, uint64_t now)
{
    if (!c->is_told)
        return;
    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_asked)
            return;
    mu_ms_tell(c, c->scaling == MU__MS__STATE__SCALING_OUT ? MU__MS__COMMAND__SCALE_OUT_DONE
                                                           : MU__MS__COMMAND__SCALE_IN_DONE);
    leavers_drop(c);
    c->state = mu_ms_is_whole(c) && !c->is_changed ? MU__MS__STATE__READY : MU__MS__STATE__NODE_TIMEOUT;
    c->is_changed = false;
    mu_ms_tell_beat(c);
    mu_ms_cluster_go_on(c, now); /* one that has come again meanwhile is told of to all */
    mu_ms_cluster_end_if_finished(c);
}

static void outcome_tell_one(struct mu_ms_cluster *c, struct mu_ms_node *node)
{
    node->is_behind = node->is_late = false;
    mu_ms_tell_metadata(c, node, c->scaling);
}

/* Those that leave hear it first: they take it as their end. */
static void outcome_tell(struct mu_ms_cluster *c, uint64_t now)
{
    c->is_told = true;
    c->until_ns = now + c->scale_ns;
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_leaving)
            outcome_tell_one(c, n);
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (!n->is_leaving && n->is_registered && n->is_alive) {
            n->is_asked = true;
            outcome_tell_one(c, n);
        }
}

/* A member that registers again when the outcome has been told already. */
void mu_ms_scale_catch_up(struct mu_ms_cluster *c)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_late) {
            n->is_asked = mu_ms_is_scaling(c);
            outcome_tell_one(c, n);
        }
}

void mu_ms_scale_go_on(struct mu_ms_cluster *c, uint64_t now)
{
    if (c->is_told)
        return;
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (!n->is_leaving)
            n->rank = n->next_rank;
    c->scalings++;
    outcome_tell(c, now);
}

void mu_ms_scale_done(struct mu_ms_cluster *c, struct mu_ms_node *node, uint64_t now)
{
    node->is_asked = false;
    if (mu_ms_is_scaling(c))
        scale_end_if_done(c, now);
    else if (!node->is_leaving) /* it was late */
        c->out.push(c->out.arg, node,
                    c->scaling == MU__MS__STATE__SCALING_IN ? MU__MS__COMMAND__SCALE_IN_DONE
                                                            : MU__MS__COMMAND__SCALE_OUT_DONE,
                    "", 0);
}

/* ---- the way back ------------------------------------------------------------------------------------------------ */

static void newcomers_drop(struct mu_ms_cluster *c)
{
    for (struct mu_ms_node *n = c->nodes, *next; n; n = next) {
        next = n->next;
        if (!n->is_old)
            mu_ms_node_drop(c, n);
    }
}

void mu_ms_scale_back(struct mu_ms_cluster *c, const char *why, uint64_t now)
{
    if (c->is_told) { /* there is no way back: those that are left go on */
        scale_end_if_done(c, now);
        return;
    }
    mu_ms_say(c, "MindSpore: the cluster stays as it was, with %u servers: %.400s",
              c->wanted_before[MU__MS__ROLE__SERVER], why);
    memcpy(c->want, c->wanted_before, sizeof c->want);
    newcomers_drop(c);
    for (struct mu_ms_node *n = c->nodes; n; n = n->next) {
        n->next_rank = n->rank;
        n->is_leaving = false; /* it waits, and is not told: that would be its end. It may be asked to leave again */
    }
    outcome_tell(c, now);
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        n->is_registered = n->is_alive;
    scale_end_if_done(c, now);
}

static struct mu_ms_node *asked_find(const struct mu_ms_cluster *c)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_asked)
            return n;
    return NULL;
}

void mu_ms_scale_late(struct mu_ms_cluster *c, uint64_t now)
{
    struct mu_ms_node *asked;
    char missing[MU_MS_SENTENCE / 2], why[MU_MS_SENTENCE];

    if (!c->is_told) {
        mu_ms_missing(c, missing, sizeof missing);
        snprintf(why, sizeof why,
                 "within %llu s there did not come: %s. Nodes that train with parameter servers do not scale",
                 (unsigned long long)(c->scale_ns / 1000000000), missing);
        mu_ms_scale_back(c, why, now);
        return;
    }
    snprintf(why, sizeof why, "has not said within %llu s that it is done with the scaling",
             (unsigned long long)(c->scale_ns / 1000000000));
    c->until_ns = now + c->scale_ns;
    while (mu_ms_is_scaling(c) && (asked = asked_find(c)))
        mu_ms_cluster_lost(c, asked, why, now);
}
