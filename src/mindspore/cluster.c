/*
 * mindspore/cluster.c: the members of a cluster: ranks, deaths, the end.
 *
 *   STARTING ──all are registered──► READY ──all have finished──► EXIT ──the last connection has gone──► STARTING
 *                                    │  ▲ │                        ▲
 *                          one is lost  │ scaling (scale.c)        │ all that are left have finished
 *                                    ▼  │ ▼                        │
 *                               NODE_TIMEOUT ──────────────────────┘
 *
 * A rank belongs to one member of its role. A member that was lost keeps its rank until it comes again, by its id, or
 * until another of its role comes in its place. A member is lost when its connection ends: the others are told at once,
 * by the answer to a beat that they have not sent yet.
 */
#include "mindspore/private.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

void mu_ms_say(const struct mu_ms_cluster *c, const char *format, ...)
{
    char sentence[MU_MS_SENTENCE];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    c->out.said(c->out.arg, sentence);
}

const char *mu_ms_state_name(Mu__Ms__State state)
{
    switch (state) {
    case MU__MS__STATE__STARTING: return "ClUSTER_STARTING"; /* its letters are those of the protocol */
    case MU__MS__STATE__READY: return "CLUSTER_READY";
    case MU__MS__STATE__EXIT: return "CLUSTER_EXIT";
    case MU__MS__STATE__NODE_TIMEOUT: return "NODE_TIMEOUT";
    case MU__MS__STATE__SCALING_OUT: return "CLUSTER_SCALE_OUT";
    case MU__MS__STATE__SCALING_IN: return "CLUSTER_SCALE_IN";
    default: return "";
    }
}

const char *mu_ms_role_name(Mu__Ms__Role role)
{
    return role == MU__MS__ROLE__WORKER ? "WORKER" : "SERVER";
}

static const char *role_word(Mu__Ms__Role role)
{
    return role == MU__MS__ROLE__WORKER ? "worker" : "server";
}

bool mu_ms_is_scaling(const struct mu_ms_cluster *c)
{
    return c->state == MU__MS__STATE__SCALING_OUT || c->state == MU__MS__STATE__SCALING_IN;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

struct mu_ms_node *mu_ms_cluster_find(const struct mu_ms_cluster *c, const char *id)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (strcmp(n->id, id) == 0)
            return n;
    return NULL;
}

uint32_t mu_ms_cluster_count(const struct mu_ms_cluster *c, Mu__Ms__Role role)
{
    uint32_t count = 0;

    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        count += n->role == role && !n->is_leaving && (n->is_finished || (n->is_alive && n->is_registered));
    return count;
}

bool mu_ms_is_whole(const struct mu_ms_cluster *c)
{
    return mu_ms_cluster_count(c, MU__MS__ROLE__SERVER) == c->want[MU__MS__ROLE__SERVER] &&
           mu_ms_cluster_count(c, MU__MS__ROLE__WORKER) == c->want[MU__MS__ROLE__WORKER];
}

static uint32_t members_count(const struct mu_ms_cluster *c, Mu__Ms__Role role)
{
    uint32_t count = 0;

    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        count += n->role == role && !n->is_leaving;
    return count;
}

void mu_ms_missing(const struct mu_ms_cluster *c, char *text, size_t size)
{
    size_t at = 0;

    text[0] = 0;
    for (const struct mu_ms_node *n = c->nodes; n && at + MU_MS_NAME_MAX < size; n = n->next)
        if (!n->is_leaving && (!n->is_alive || !n->is_registered))
            at += (size_t)snprintf(text + at, size - at, "%s%s %u (%.60s)", at ? ", " : "", role_word(n->role), n->rank,
                                   n->id);
    for (int role = 0; role < 2 && at + MU_MS_NAME_MAX < size; role++) {
        uint32_t members = members_count(c, (Mu__Ms__Role)role);

        if (members < c->want[role])
            at += (size_t)snprintf(text + at, size - at, "%s%u of %u %s", at ? ", " : "", c->want[role] - members,
                                   c->want[role], role == MU__MS__ROLE__WORKER ? "workers" : "servers");
    }
}

void mu_ms_node_drop(struct mu_ms_cluster *c, struct mu_ms_node *node)
{
    MU_LIST_DROP(c->nodes, node);
    c->out.gone(c->out.arg, node);
    free(node);
}

uint32_t mu_ms_rank_choose(const bool *taken, uint32_t count, uint32_t claim)
{
    uint32_t rank = 0;

    if (claim < count && !taken[claim])
        return claim;
    while (rank < count && taken[rank])
        rank++;
    return rank < count ? rank : MU_MS_NO_RANK;
}

static uint32_t rank_free(const struct mu_ms_cluster *c, Mu__Ms__Role role, uint32_t claim)
{
    bool taken[MU_MS_NODES_MAX] = {false};

    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->role == role && n->rank < MU_MS_NODES_MAX)
            taken[n->rank] = true;
    return mu_ms_rank_choose(taken, c->want[role], claim);
}

/* A lost one, of a role; another one of that role comes in its place. */
static struct mu_ms_node *lost_find(const struct mu_ms_cluster *c, Mu__Ms__Role role)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->role == role && !n->is_alive && !n->is_leaving && !n->is_finished)
            return n;
    return NULL;
}

static struct mu_ms_node *node_new(struct mu_ms_cluster *c, const struct mu_ms_register *r, const char **ret_why)
{
    struct mu_ms_node *lost = lost_find(c, r->role), *node;
    uint32_t rank = lost ? lost->rank : rank_free(c, r->role, r->claim);

    *ret_why = "all nodes of its role are there";
    if (rank == MU_MS_NO_RANK || (!lost && members_count(c, r->role) >= c->want[r->role]))
        return NULL;
    *ret_why = "there is no memory for it";
    node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    if (lost) {
        mu_ms_say(c, "MindSpore: %.60s comes in the place of %.60s, as %s %u", r->id, lost->id, role_word(r->role),
                  rank);
        mu_ms_node_drop(c, lost);
    }
    snprintf(node->id, sizeof node->id, "%s", r->id);
    node->role = r->role;
    node->rank = node->next_rank = rank;
    MU_LIST_PUSH(c->nodes, node);
    return node;
}

/* The last one of a cluster that has ended has gone: the next cluster may come. */
static void begin_anew(struct mu_ms_cluster *c)
{
    while (c->nodes)
        mu_ms_node_drop(c, c->nodes);
    memcpy(c->want, c->wanted_first, sizeof c->want);
    c->state = MU__MS__STATE__STARTING;
}

static bool is_anybody_there(const struct mu_ms_cluster *c)
{
    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->conn)
            return true;
    return false;
}

static bool is_address(const char *ip)
{
    struct in6_addr address;

    return inet_pton(AF_INET, ip, &address) == 1 || inet_pton(AF_INET6, ip, &address) == 1;
}

static const char *register_check(const struct mu_ms_cluster *c, const struct mu_ms_register *r,
                                  const struct mu_ms_node *node, const struct mu_ms_conn *conn)
{
    if (!r->id[0] || strlen(r->id) > MU_MS_NAME_MAX)
        return "a node's id has 1 to 255 bytes";
    if (r->role != MU__MS__ROLE__SERVER && r->role != MU__MS__ROLE__WORKER)
        return "a node is a server or a worker";
    if (strlen(r->ip) >= sizeof node->ip || !is_address(r->ip) || r->port == 0 || r->port > 65535)
        return "its address is none";
    if (c->state == MU__MS__STATE__EXIT)
        return "the cluster is about to end";
    if (node && node->role != r->role)
        return "a node of another role has its id";
    if (node && node->is_alive && node->conn && node->conn != conn)
        return "a node with its id is there";
    if (node && node->is_finished && node->conn != conn) /* on its own it may register again, within a scaling */
        return "it has finished";
    return NULL;
}

const char *mu_ms_cluster_register(struct mu_ms_cluster *c, const struct mu_ms_register *r, struct mu_ms_conn *conn,
                                   uint64_t now, struct mu_ms_node **ret_node)
{
    struct mu_ms_node *node;
    const char *why;

    if (c->state != MU__MS__STATE__STARTING && !is_anybody_there(c))
        begin_anew(c);
    node = mu_ms_cluster_find(c, r->id);
    why = register_check(c, r, node, conn);
    if (why)
        return why;
    if (!node)
        node = node_new(c, r, &why);
    if (!node)
        return why;
    node->is_late = node->is_behind && (c->is_told || !mu_ms_is_scaling(c));
    c->is_changed |= !node->is_alive && mu_ms_is_scaling(c) && c->is_told;
    snprintf(node->ip, sizeof node->ip, "%s", r->ip);
    node->port = r->port;
    node->conn = conn;
    node->is_untold = false;
    node->is_alive = node->is_registered = true;
    node->heard_ns = now;
    *ret_node = node;
    return NULL;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

void mu_ms_cluster_go_on(struct mu_ms_cluster *c, uint64_t now)
{
    Mu__Ms__State before = c->state;

    mu_ms_scale_catch_up(c);
    if (!mu_ms_is_whole(c))
        return;
    if (mu_ms_is_scaling(c)) {
        mu_ms_scale_go_on(c, now);
        return;
    }
    if (before != MU__MS__STATE__STARTING && before != MU__MS__STATE__NODE_TIMEOUT)
        return;
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        mu_ms_tell_metadata(c, n, before);
    c->state = MU__MS__STATE__READY;
    if (before == MU__MS__STATE__NODE_TIMEOUT) /* or their sends fail until they beat again */
        mu_ms_tell_beat(c);
}

void mu_ms_cluster_beat(struct mu_ms_cluster *c, struct mu_ms_node *node, struct mu_ms_conn *conn, uint64_t now)
{
    node->heard_ns = now;
    if (!node->conn) /* its connection broke, and this is the next */
        node->conn = conn;
    if (node->is_alive || node->conn != conn)
        return;
    mu_ms_say(c, "MindSpore: %.60s is heard again", node->id);
    node->is_alive = node->is_registered = true;
    mu_ms_cluster_go_on(c, now);
}

/* All that are left have finished: the end. Nobody is waited for: a node that ends at once has no time to acknowledge.
 */
void mu_ms_cluster_end_if_finished(struct mu_ms_cluster *c)
{
    uint32_t finished = 0, members = 0, lost = 0;

    for (const struct mu_ms_node *n = c->nodes; n; n = n->next) {
        members += !n->is_leaving;
        finished += n->is_finished && !n->is_leaving;
        lost += !n->is_leaving && !n->is_finished && !n->is_alive;
    }
    if (c->state == MU__MS__STATE__EXIT || finished == 0 || finished + lost < members ||
        members < c->want[0] + c->want[1])
        return;
    c->state = MU__MS__STATE__EXIT;
    c->is_over = true;
    mu_ms_tell(c, MU__MS__COMMAND__FINISH);
}

void mu_ms_cluster_finish(struct mu_ms_cluster *c, struct mu_ms_node *node)
{
    if (c->state == MU__MS__STATE__EXIT)
        return;
    node->is_finished = true;
    mu_ms_cluster_end_if_finished(c);
}

void mu_ms_cluster_event(struct mu_ms_cluster *c, uint32_t event)
{
    mu_ms_tell_event(c, event);
}

static void node_mourn(struct mu_ms_cluster *c, struct mu_ms_node *node, const char *why, uint64_t now)
{
    char sentence[MU_MS_SENTENCE];

    snprintf(sentence, sizeof sentence, "%s %u (%.60s) %s", role_word(node->role), node->rank, node->id, why);
    mu_ms_say(c, "MindSpore: %s", sentence);
    node->is_alive = node->is_registered = node->is_behind = false;
    if (mu_ms_is_scaling(c))
        mu_ms_scale_back(c, sentence, now);
    if (!mu_ms_is_scaling(c))
        c->state = MU__MS__STATE__NODE_TIMEOUT;
    mu_ms_tell_beat(c);
    mu_ms_cluster_end_if_finished(c);
}

void mu_ms_cluster_lost(struct mu_ms_cluster *c, struct mu_ms_node *node, const char *why, uint64_t now)
{
    bool was_there = node->is_alive;

    node->conn = NULL;
    node->is_asked = false;
    if (c->state == MU__MS__STATE__EXIT) {
        node->is_alive = false;
        if (!is_anybody_there(c))
            begin_anew(c);
    } else if (node->is_leaving && !c->is_told) {
        node->is_alive = false; /* it may be wanted again */
    } else if (node->is_leaving || c->state == MU__MS__STATE__STARTING ||
               (mu_ms_is_scaling(c) && !node->is_old && !c->is_told)) {
        mu_ms_node_drop(c, node); /* its place is free */
    } else if (node->is_finished) {
        node->is_alive = false;
        if (mu_ms_is_scaling(c) && c->is_told)
            mu_ms_scale_back(c, why, now);
    } else if (was_there) {
        node_mourn(c, node, why, now);
    }
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* One that has finished may be silent, but not keep the end of a cluster from the next one. */
static struct mu_ms_node *silent_find(const struct mu_ms_cluster *c, uint64_t now)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_alive && (!n->is_finished || c->state == MU__MS__STATE__EXIT) &&
            (n->is_untold || (now > n->heard_ns && now - n->heard_ns > c->silence_ns)))
            return n;
    return NULL;
}

void mu_ms_cluster_tick(struct mu_ms_cluster *c, uint64_t now)
{
    struct mu_ms_node *silent;
    char why[64];

    snprintf(why, sizeof why, "has not been heard for %llu s", (unsigned long long)(c->silence_ns / 1000000000));
    while ((silent = silent_find(c, now)))
        mu_ms_cluster_lost(c, silent, silent->is_untold ? "cannot be told anything" : why, now);
    if (c->state == MU__MS__STATE__EXIT && !is_anybody_there(c))
        begin_anew(c);
    if (mu_ms_is_scaling(c) && now > c->until_ns)
        mu_ms_scale_late(c, now);
}

void mu_ms_cluster_free(struct mu_ms_cluster *c)
{
    while (c->nodes)
        mu_ms_node_drop(c, c->nodes);
}
