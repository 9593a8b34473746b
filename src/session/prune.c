/*
 * session/prune.c: what of a graph a step needs: backwards from what it fetches and runs, to what is fed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

static bool no_memory(struct mu_ss_error *error)
{
    return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step's part of the graph");
}

void mu_ss_subgraph_clear(struct mu_ss_subgraph *sub)
{
    free(sub->is_needed);
    free(sub->is_fed);
    free(sub->feeds);
    free(sub->sources);
    free(sub->fetches);
    free(sub->is_used);
    free(sub->order);
    *sub = (struct mu_ss_subgraph){0};
}

static bool is_placeholder(const struct mu_ss_node *n)
{
    return strcmp(n->def->op, "Placeholder") == 0 || strcmp(n->def->op, "PlaceholderV2") == 0;
}

static int at_compare(const struct mu_ss_at *a, const struct mu_ss_at *b)
{
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (a->output > b->output) - (a->output < b->output);
}

static int order_compare(const void *a, const void *b, void *feeds)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = at_compare(&((const struct mu_ss_at *)feeds)[x], &((const struct mu_ss_at *)feeds)[y]);

    return order ? order : (x > y) - (x < y);
}

/* Feeds are found by halves from now on. */
static bool feeds_order(struct mu_ss_subgraph *sub)
{
    uint32_t all = sub->num_feeds + sub->num_connected;

    sub->order = malloc((all + 1) * sizeof *sub->order);
    for (uint32_t i = 0; sub->order && i < all; i++)
        sub->order[i] = i;
    if (sub->order)
        qsort_r(sub->order, all, sizeof *sub->order, order_compare, sub->feeds);
    return sub->order != NULL;
}

/* The number of the feed of this tensor; of the control edge of a Placeholder tensor, one of any output. -1: none. */
static int32_t order_find(const struct mu_ss_graph *g, const struct mu_ss_subgraph *sub, const struct mu_ss_at *at)
{
    uint32_t low = 0, all = sub->num_feeds + sub->num_connected, high = all;
    const struct mu_ss_at *found;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (at_compare(&sub->feeds[sub->order[middle]], at) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == all)
        return -1;
    found = &sub->feeds[sub->order[low]];
    if (found->node != at->node ||
        (found->output != at->output && (at->output >= 0 || !is_placeholder(&g->nodes[at->node]))))
        return -1;
    return (int32_t)sub->order[low];
}

int32_t mu_ss_feed_of(const struct mu_ss_graph *g, const struct mu_ss_subgraph *sub, struct mu_ss_at *at)
{
    for (uint32_t times = 0; times <= sub->num_connected; times++) {
        int32_t i = sub->is_fed[at->node] ? order_find(g, sub, at) : -1;

        if (i < (int32_t)sub->num_feeds)
            return i;
        *at = (struct mu_ss_at){sub->sources[(uint32_t)i - sub->num_feeds].node,
                                at->output < 0 ? -1 : sub->sources[(uint32_t)i - sub->num_feeds].output};
    }
    return -1;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool feed_find(const struct mu_ss_graph *g, const char *name, struct mu_ss_at *at, struct mu_ss_error *error)
{
    struct mu_ss_endpoint e;
    const struct mu_ss_node *n = mu_ss_tensor_read(name, &e) ? mu_ss_graph_find(g, e.name, e.len) : NULL;

    if (!n)
        return mu_ss_fail(error, MUSTER_NOT_FOUND, "FeedInputs: unable to find feed output %s", name);
    if ((uint32_t)e.output >= n->num_out)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "FeedInputs: %s should have output index < %u", name,
                          n->num_out);
    *at = (struct mu_ss_at){(uint32_t)(n - g->nodes), e.output};
    return true;
}

static bool fetch_find(const struct mu_ss_graph *g, const char *name, struct mu_ss_at *at, struct mu_ss_error *error)
{
    struct mu_ss_endpoint e;
    const struct mu_ss_node *n = mu_ss_tensor_read(name, &e) ? mu_ss_graph_find(g, e.name, e.len) : NULL;

    if (!n)
        return mu_ss_fail(error, MUSTER_NOT_FOUND, "FetchOutputs node %s: not found", name);
    if (n->num_out == 0)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "Tried to fetch data for '%s', which produces no output.  To run to a node but not fetch any "
                          "data, pass '%s' as an argument to the 'target_node_names' argument of the Session::Run API.",
                          name, name);
    if ((uint32_t)e.output >= n->num_out)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "FetchOutputs %s: output index too large, must be < %u", name,
                          n->num_out);
    *at = (struct mu_ss_at){(uint32_t)(n - g->nodes), e.output};
    return true;
}

static bool feed_add(struct mu_ss_subgraph *sub, uint32_t i, const char *name, const struct mu_ss_graph *g,
                     struct mu_ss_error *error)
{
    struct mu_ss_at *at = &sub->feeds[i];

    if (!feed_find(g, name, at, error))
        return false;
    sub->is_fed[at->node] = true;
    return true;
}

static bool feeds_are_once(const struct mu_ss_want *want, const struct mu_ss_subgraph *sub, struct mu_ss_error *error)
{
    for (uint32_t i = 1; i < sub->num_feeds + sub->num_connected; i++) {
        uint32_t feed = sub->order[i];

        if (at_compare(&sub->feeds[sub->order[i - 1]], &sub->feeds[feed]) == 0)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Endpoint \"%s\" fed more than once.",
                              feed < want->num_feeds ? want->feeds[feed]
                                                     : want->connections[feed - want->num_feeds]->to_tensor);
    }
    return true;
}

static bool feeds_find(const struct mu_ss_graph *g, const struct mu_ss_want *want, struct mu_ss_subgraph *sub,
                       struct mu_ss_error *error)
{
    for (uint32_t i = 0; i < want->num_feeds; i++)
        if (!feed_add(sub, i, want->feeds[i], g, error))
            return false;
    for (uint32_t i = 0; i < want->num_connections; i++) {
        const Mu__Session__TensorConnection *c = want->connections[i];

        if (!c->from_tensor || !c->to_tensor)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "a connection of tensors without two names");
        if (!fetch_find(g, c->from_tensor, &sub->sources[i], error) ||
            !feed_add(sub, want->num_feeds + i, c->to_tensor, g, error))
            return false;
        if (g->nodes[sub->sources[i].node].out_types[sub->sources[i].output] % MU_SS_REF !=
            g->nodes[sub->feeds[want->num_feeds + i].node].out_types[sub->feeds[want->num_feeds + i].output] %
                MU_SS_REF)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "the connection of %s to %s is of two types",
                              c->from_tensor, c->to_tensor);
    }
    return feeds_order(sub) ? feeds_are_once(want, sub, error) : no_memory(error);
}

/* ---- backwards --------------------------------------------------------------------------------------------------- */

struct backward {
    const struct mu_ss_graph *g;
    struct mu_ss_subgraph *sub;
    uint32_t *stack;
    uint32_t depth;
    const bool *given; /* by feed; NULL: all are */
    int32_t wanting;   /* a feed that is needed and not given; -1: none so far */
};

static void walk_to(struct backward *w, uint32_t node)
{
    if (!w->sub->is_needed[node]) {
        w->sub->is_needed[node] = true;
        w->stack[w->depth++] = node; /* each once: there is room */
    }
}

static void walk_edge(struct backward *w, struct mu_ss_at at)
{
    int32_t feed = mu_ss_feed_of(w->g, w->sub, &at);

    if (feed >= 0) {
        w->sub->is_used[feed] = true;
        if (w->given && !w->given[feed])
            w->wanting = feed;
    } else {
        walk_to(w, at.node);
    }
}

static bool walk_all(struct backward *w, struct mu_ss_error *error)
{
    while (w->depth > 0) {
        const struct mu_ss_node *n = &w->g->nodes[w->stack[--w->depth]];

        if (n->num_data < n->num_in)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Incomplete graph, missing %u inputs for %s",
                              n->num_in - n->num_data, n->def->name);
        for (uint32_t i = 0; i < n->num_inputs; i++)
            walk_edge(w, (struct mu_ss_at){n->inputs[i].node, n->inputs[i].output});
    }
    return true;
}

/* "b:0" as a target is the node b. */
static bool targets_walk(struct backward *w, const struct mu_ss_want *want, struct mu_ss_error *error)
{
    char missing[2048];
    size_t n = 0;

    missing[0] = 0;
    for (uint32_t i = 0; i < want->num_targets; i++) {
        struct mu_ss_endpoint e;
        const char *name = want->targets[i];
        const struct mu_ss_node *node = mu_ss_tensor_read(name, &e) ? mu_ss_graph_find(w->g, e.name, e.len) : NULL;

        if (node)
            walk_to(w, (uint32_t)(node - w->g->nodes));
        else if (n < sizeof missing)
            n += (size_t)snprintf(missing + n, sizeof missing - n, "%s ", name);
    }
    return !n || mu_ss_fail(error, MUSTER_NOT_FOUND, "PruneForTargets: Some target nodes not found: %s", missing);
}

static bool fetches_find(const struct mu_ss_graph *g, const struct mu_ss_want *want, struct mu_ss_subgraph *sub,
                         struct mu_ss_error *error)
{
    for (uint32_t i = 0; i < want->num_fetches; i++) {
        struct mu_ss_at at;

        if (!fetch_find(g, want->fetches[i], &sub->fetches[i], error))
            return false;
        at = sub->fetches[i];
        if (mu_ss_feed_of(g, sub, &at) >= 0)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "%s is both fed and fetched.", want->fetches[i]);
    }
    return true;
}

static bool subgraph_find(const struct mu_ss_graph *g, const struct mu_ss_want *want, struct mu_ss_subgraph *sub,
                          struct mu_ss_error *error)
{
    struct backward w = {.g = g, .sub = sub, .wanting = -1};
    bool is_found;

    if (!feeds_find(g, want, sub, error) || !fetches_find(g, want, sub, error))
        return false;
    if (want->num_fetches + want->num_targets == 0)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
    w.stack = malloc((g->num_nodes + 1) * sizeof *w.stack);
    if (!w.stack)
        return no_memory(error);
    for (uint32_t i = 0; i < want->num_fetches; i++)
        walk_edge(&w, sub->fetches[i]);
    is_found = targets_walk(&w, want, error) && walk_all(&w, error);
    free(w.stack);
    return is_found;
}

bool mu_ss_prune(const struct mu_ss_graph *g, const struct mu_ss_want *want, struct mu_ss_subgraph *sub,
                 struct mu_ss_error *error)
{
    uint32_t feeds = want->num_feeds + want->num_connections;

    *sub = (struct mu_ss_subgraph){
        .is_needed = calloc(g->num_nodes + 1, sizeof *sub->is_needed),
        .is_fed = calloc(g->num_nodes + 1, sizeof *sub->is_fed),
        .feeds = calloc(feeds + 1, sizeof *sub->feeds),
        .sources = calloc(want->num_connections + 1, sizeof *sub->sources),
        .fetches = calloc(want->num_fetches + 1, sizeof *sub->fetches),
        .is_used = calloc(feeds + 1, sizeof *sub->is_used),
        .num_feeds = want->num_feeds,
        .num_connected = want->num_connections,
        .num_fetches = want->num_fetches,
    };
    if (!sub->is_needed || !sub->is_fed || !sub->feeds || !sub->sources || !sub->fetches || !sub->is_used) {
        mu_ss_subgraph_clear(sub);
        return no_memory(error);
    }
    if (subgraph_find(g, want, sub, error))
        return true;
    mu_ss_subgraph_clear(sub);
    return false;
}

/* ---- partial runs ------------------------------------------------------------------------------------------------ */

/* What one fetch has needed is not looked at again for the next: all of it was given. */
static const char *wanting_find(struct backward *w, const struct mu_ss_compiled *c, const uint32_t *fetches,
                                uint32_t count, uint32_t *ret_at)
{
    struct mu_ss_error ignored = {0};
    const char *wanting = NULL;

    for (uint32_t i = 0; i < count && !wanting; i++) {
        const struct mu_ss_feed *fetch = &c->fetches[fetches[i]];

        *ret_at = i;
        walk_edge(w, (struct mu_ss_at){fetch->node, fetch->output});
        if (!walk_all(w, &ignored))
            wanting = "a node that it wants for";
        else if (w->wanting >= 0)
            wanting = c->feeds[w->wanting].name;
    }
    mu_ss_error_clear(&ignored);
    return wanting;
}

const char *mu_ss_wanting(const struct mu_ss_graph *g, const struct mu_ss_compiled *c, const uint32_t *fetches,
                          uint32_t count, const bool *given, uint32_t *ret_at)
{
    struct mu_ss_subgraph sub = {.num_feeds = c->num_feeds};
    struct backward w = {.g = g, .sub = &sub, .given = given, .wanting = -1};
    const char *wanting = "memory";

    *ret_at = 0;
    sub.is_needed = calloc(g->num_nodes + 1, sizeof *sub.is_needed);
    sub.is_fed = calloc(g->num_nodes + 1, sizeof *sub.is_fed);
    sub.feeds = calloc(c->num_feeds + 1, sizeof *sub.feeds);
    sub.is_used = calloc(c->num_feeds + 1, sizeof *sub.is_used);
    w.stack = malloc((g->num_nodes + 1) * sizeof *w.stack);
    for (uint32_t i = 0; sub.feeds && sub.is_fed && i < c->num_feeds; i++) {
        sub.feeds[i] = (struct mu_ss_at){c->feeds[i].node, c->feeds[i].output};
        sub.is_fed[c->feeds[i].node] = true;
    }
    if (sub.is_needed && sub.is_fed && sub.feeds && sub.is_used && w.stack && feeds_order(&sub))
        wanting = wanting_find(&w, c, fetches, count, ret_at);
    free(w.stack);
    mu_ss_subgraph_clear(&sub);
    return wanting;
}
