/*
 * session/check.c: what a graph must be before it is taken: legal names, nodes that are there, edges of one type, no
 * cycle but a loop's. So executors never see anything else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

/* The version of graphs that TensorFlow 2.21 has; what demands a newer consumer is refused as there. */
#define GRAPH_VERSION 2474

static bool node_check_syntax(const Mu__Graph__NodeDef *n, struct mu_ss_error *error)
{
    bool has_control = false;
    struct mu_ss_endpoint e;

    if (!n->name || !mu_ss_name_is_legal(n->name))
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Illegal op name '%s'", n->name ? n->name : "");
    if (!n->op || !n->op[0])
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s' does not specify an operation", n->name);
    for (size_t i = 0; i < n->n_input; i++) {
        if (!mu_ss_input_read(n->input[i], &e))
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Illegal op input name '%s'", n->input[i]);
        if (has_control && e.output >= 0)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                              "Node '%s': All control inputs must follow all data inputs", n->name);
        has_control = e.output < 0;
    }
    for (size_t i = 0; i < n->n_attr; i++)
        if (!n->attr[i]->key || !n->attr[i]->value)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s' has an attribute without a name or a value",
                              n->name);
    return true;
}

bool mu_ss_check_syntax(const Mu__Graph__GraphDef *def, struct mu_ss_error *error)
{
    if (def->versions && def->versions->min_consumer > GRAPH_VERSION)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "GraphDef min consumer version %d above current version %d for TensorFlow 2.21.0.  Please "
                          "upgrade TensorFlow.",
                          def->versions->min_consumer, GRAPH_VERSION);
    for (size_t i = 0; i < def->n_node; i++)
        if (!node_check_syntax(def->node[i], error))
            return false;
    return true;
}

/* A tensor of one type may go where the other is wanted. A reference is a value, too. */
static bool types_agree(uint32_t from, uint32_t to)
{
    return from == to || (from >= MU_SS_REF && from - MU_SS_REF == to);
}

static bool input_check(struct mu_ss_graph *g, struct mu_ss_node *n, uint32_t i, struct mu_ss_error *error)
{
    const char *name = n->def->name, *input = n->def->input[i];
    struct mu_ss_endpoint e;
    struct mu_ss_node *from;

    mu_ss_input_read(input, &e);
    from = mu_ss_graph_find(g, e.name, e.len);
    if (!from)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s': Unknown input node '%s'", name, input);
    n->inputs[i] = (struct mu_ss_input){(uint32_t)(from - g->nodes), e.output};
    if (e.output < 0)
        return true;
    if ((uint32_t)e.output >= from->num_out)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "Node '%s': Connecting to invalid output %d of source node %s which has %u outputs.", name,
                          e.output, from->def->name, from->num_out);
    if (i >= n->num_in)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s': Expected %u inputs, and it has more", name,
                          n->num_in);
    if (!types_agree(from->out_types[e.output], n->in_types[i]))
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "Input %u of node %s was passed %s from %s:%d incompatible with expected %s.", i, name,
                          mu_ss_type_name(from->out_types[e.output]), from->def->name, e.output,
                          mu_ss_type_name(n->in_types[i]));
    n->num_data = i + 1;
    return true;
}

bool mu_ss_check_inputs(struct mu_ss_graph *g, uint32_t first, struct mu_ss_error *error)
{
    for (uint32_t k = first; k < g->num_nodes; k++) {
        struct mu_ss_node *n = &g->nodes[k];

        n->num_inputs = (uint32_t)n->def->n_input;
        n->inputs = calloc(n->num_inputs + 1, sizeof *n->inputs);
        if (!n->inputs)
            return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
        for (uint32_t i = 0; i < n->num_inputs; i++)
            if (!input_check(g, n, i, error))
                return false;
    }
    return true;
}

static bool is_op(const struct mu_ss_node *n, const char *op, const char *ref)
{
    return strcmp(n->def->op, op) == 0 || strcmp(n->def->op, ref) == 0;
}

/* The edge that closes a loop. */
static bool is_back_edge(const struct mu_ss_node *from, const struct mu_ss_node *to)
{
    return is_op(to, "Merge", "RefMerge") && is_op(from, "NextIteration", "RefNextIteration");
}

/* The nodes from `first` on: no older one refers to them, so a cycle is among them. */
struct order {
    const struct mu_ss_graph *g;
    uint32_t first, count;
    uint32_t *waits, *firsts, *outs, *ready; /* by node, from first on */
};

static bool edge_counts(const struct order *o, uint32_t node, uint32_t input)
{
    const struct mu_ss_node *n = &o->g->nodes[node], *from = &o->g->nodes[n->inputs[input].node];

    return n->inputs[input].node >= o->first && !is_back_edge(from, n);
}

static void order_edges(struct order *o, void (*edge)(struct order *o, uint32_t from, uint32_t to))
{
    for (uint32_t i = o->first; i < o->first + o->count; i++)
        for (uint32_t k = 0; k < o->g->nodes[i].num_inputs; k++)
            if (edge_counts(o, i, k))
                edge(o, o->g->nodes[i].inputs[k].node - o->first, i - o->first);
}

static void edge_count(struct order *o, uint32_t from, uint32_t to)
{
    o->firsts[from]++;
    o->waits[to]++;
}

static void edge_put(struct order *o, uint32_t from, uint32_t to)
{
    o->outs[--o->firsts[from]] = to;
}

/* Take away nodes of which all inputs are taken away, until none is left. */
static uint32_t nodes_take_away(struct order *o)
{
    uint32_t num_ready = 0, done = 0, total = 0;

    order_edges(o, edge_count);
    for (uint32_t i = 0; i < o->count; i++) /* where each one's edges end; then they are put in front of that */
        o->firsts[i] = total += o->firsts[i];
    o->firsts[o->count] = total;
    order_edges(o, edge_put);
    for (uint32_t i = 0; i < o->count; i++)
        if (!o->waits[i])
            o->ready[num_ready++] = i;
    for (; done < num_ready; done++)
        for (uint32_t k = o->firsts[o->ready[done]]; k < o->firsts[o->ready[done] + 1]; k++)
            if (--o->waits[o->outs[k]] == 0)
                o->ready[num_ready++] = o->outs[k];
    return done;
}

bool mu_ss_check_cycles(const struct mu_ss_graph *g, uint32_t first, struct mu_ss_error *error)
{
    struct order o = {.g = g, .first = first, .count = g->num_nodes - first};
    size_t edges = 0;
    uint32_t *all, done;

    for (uint32_t i = first; i < g->num_nodes; i++)
        edges += g->nodes[i].num_inputs;
    all = calloc(3 * ((size_t)o.count + 1) + edges, sizeof *all);
    if (!all)
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    o.waits = all;
    o.firsts = all + o.count;
    o.ready = o.firsts + o.count + 1;
    o.outs = o.ready + o.count;
    done = nodes_take_away(&o);
    free(all);
    return done == o.count || mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "%u nodes in a cycle", o.count - done);
}
