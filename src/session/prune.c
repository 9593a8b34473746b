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
    *sub = (struct mu_ss_subgraph){0};
}

static bool is_placeholder(const struct mu_ss_node *n)
{
    return strcmp(n->def->op, "Placeholder") == 0 || strcmp(n->def->op, "PlaceholderV2") == 0;
}

int32_t mu_ss_feed_of(const struct mu_ss_graph *g, const struct mu_ss_subgraph *sub, struct mu_ss_at *at)
{
    for (uint32_t times = 0; times <= sub->num_connected; times++) {
        uint32_t i = 0, all = sub->num_feeds + sub->num_connected;

        if (!sub->is_fed[at->node])
            return -1;
        while (i < all &&
               (sub->feeds[i].node != at->node ||
                (sub->feeds[i].output != at->output && (at->output >= 0 || !is_placeholder(&g->nodes[at->node])))))
            i++;
        if (i == all)
            return -1;
        if (i < sub->num_feeds)
            return (int32_t)i;
        *at = (struct mu_ss_at){sub->sources[i - sub->num_feeds].node,
                                at->output < 0 ? -1 : sub->sources[i - sub->num_feeds].output};
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
    for (uint32_t k = 0; sub->is_fed[at->node] && k < i; k++)
        if (sub->feeds[k].node == at->node && sub->feeds[k].output == at->output)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Endpoint \"%s\" fed more than once.", name);
    sub->is_fed[at->node] = true;
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
    return true;
}

/* ---- backwards --------------------------------------------------------------------------------------------------- */

struct backward {
    const struct mu_ss_graph *g;
    struct mu_ss_subgraph *sub;
    uint32_t *stack;
    uint32_t depth;
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

    if (feed >= 0)
        w->sub->is_used[feed] = true;
    else
        walk_to(w, at.node);
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
    struct backward w = {.g = g, .sub = sub};
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

static const char *wanting_find(const struct mu_ss_graph *g, const struct mu_ss_compiled *c, uint32_t fetch,
                                const bool *given, struct mu_ss_subgraph *sub)
{
    struct backward w = {.g = g, .sub = sub, .stack = malloc((g->num_nodes + 1) * sizeof *w.stack)};
    struct mu_ss_error ignored = {0};
    const char *wanting = NULL;

    if (!w.stack)
        return "memory";
    for (uint32_t i = 0; i < c->num_feeds; i++) {
        sub->feeds[i] = (struct mu_ss_at){c->feeds[i].node, c->feeds[i].output};
        sub->is_fed[c->feeds[i].node] = true;
    }
    walk_edge(&w, (struct mu_ss_at){c->fetches[fetch].node, c->fetches[fetch].output});
    if (!walk_all(&w, &ignored))
        wanting = "a node that it wants for";
    mu_ss_error_clear(&ignored);
    for (uint32_t i = 0; i < c->num_feeds && !wanting; i++)
        if (sub->is_used[i] && !given[i])
            wanting = c->feeds[i].name;
    free(w.stack);
    return wanting;
}

const char *mu_ss_wanting(const struct mu_ss_graph *g, const struct mu_ss_compiled *c, uint32_t fetch,
                          const bool *given)
{
    struct mu_ss_subgraph sub = {.num_feeds = c->num_feeds};
    const char *wanting = "memory";

    sub.is_needed = calloc(g->num_nodes + 1, sizeof *sub.is_needed);
    sub.is_fed = calloc(g->num_nodes + 1, sizeof *sub.is_fed);
    sub.feeds = calloc(c->num_feeds + 1, sizeof *sub.feeds);
    sub.is_used = calloc(c->num_feeds + 1, sizeof *sub.is_used);
    if (sub.is_needed && sub.is_fed && sub.feeds && sub.is_used)
        wanting = wanting_find(g, c, fetch, given, &sub);
    mu_ss_subgraph_clear(&sub);
    return wanting;
}
