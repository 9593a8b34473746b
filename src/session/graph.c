/*
 * session/graph.c: a graph that grows by messages. Nodes are found by name, and refer to the messages that they came
 * in, which are kept. What cannot be added leaves the graph as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

enum { GRAPH_EDGES_MAX = 1 << 24 }; /* a few bytes may say a million of them */

static uint64_t name_hash(const char *name, size_t len)
{
    uint64_t h = 1469598103934665603ull;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)name[i]) * 1099511628211ull;
    return h ^ h >> 29;
}

static uint32_t *slot_find(const struct mu_ss_graph *g, const char *name, size_t len)
{
    uint32_t at = (uint32_t)name_hash(name, len) & (g->table_size - 1);

    for (; g->table[at]; at = (at + 1) & (g->table_size - 1)) {
        const char *other = g->nodes[g->table[at] - 1].def->name;

        if (strlen(other) == len && memcmp(other, name, len) == 0) /* the name may have zero bytes */
            break;
    }
    return &g->table[at];
}

struct mu_ss_node *mu_ss_graph_find(const struct mu_ss_graph *g, const char *name, size_t len)
{
    uint32_t found = g->table_size ? *slot_find(g, name, len) : 0;

    return found ? &g->nodes[found - 1] : NULL;
}

/* Of all nodes that there are; the table is at most half full. */
static bool table_make(struct mu_ss_graph *g, size_t nodes)
{
    uint32_t size = 64;
    uint32_t *table;

    if (nodes * 2 <= g->table_size)
        return true;
    while (size < nodes * 2)
        size *= 2;
    table = calloc(size, sizeof *table);
    if (!table)
        return false;
    free(g->table);
    g->table = table;
    g->table_size = size;
    for (uint32_t i = 0; i < g->num_nodes; i++)
        *slot_find(g, g->nodes[i].def->name, strlen(g->nodes[i].def->name)) = i + 1;
    return true;
}

static void node_clear(struct mu_ss_node *n)
{
    free(n->inputs);
    free(n->in_types);
    free(n->out_types);
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

/* FunctionDefLibrary is a list of FunctionDefs (1), each of which begins with its signature (1): both are walked here,
 * for what is within them is not ours to read. */
static const Mu__Graph__OpDef *function_find(const struct mu_ss_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->num_libraries; i++) {
        const Mu__Session__Library *library = (const Mu__Session__Library *)g->libraries[i];

        for (size_t k = 0; k < library->n_function; k++)
            if (library->function[k]->signature && library->function[k]->signature->name &&
                strcmp(library->function[k]->signature->name, name) == 0)
                return library->function[k]->signature;
    }
    return NULL;
}

static bool library_add(struct mu_ss_graph *g, const Mu__Graph__GraphDef *def, struct mu_ss_error *error)
{
    Mu__Session__Library *library;

    if (!def->has_library || def->library.len == 0)
        return true;
    library = mu_ss_message_read(&mu__session__library__descriptor, def->library,
                                 "the graph's library of functions is damaged", error);
    if (!library)
        return false;
    if (!mu_ss_grow(&g->libraries, sizeof *g->libraries, g->num_libraries + 1, &g->room_libraries)) {
        mu__session__library__free_unpacked(library, NULL);
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    }
    g->libraries[g->num_libraries++] = &library->base;
    return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static bool node_add(struct mu_ss_graph *g, Mu__Graph__NodeDef *def, uint32_t before, struct mu_ss_error *error)
{
    struct mu_ss_node n = {.def = def, .device = -1}, *other;
    size_t len = strlen(def->name);

    other = mu_ss_graph_find(g, def->name, len);
    if (other && other - g->nodes < before)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "GraphDef argument to Extend includes node '%s', which was created by a previous call to "
                          "Create or Extend in this session.",
                          def->name);
    if (other)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s' is not unique", def->name);
    n.op = mu_ss_op_find(g->ops, def->op);
    if (!n.op) {
        n.op = function_find(g, def->op);
        n.is_function = n.op != NULL;
    }
    if (!n.op && g->ops->remedy)
        return mu_ss_fail(error, MUSTER_UNIMPLEMENTED, "Op type not registered '%s' in binary running on this host: %s",
                          def->op, g->ops->remedy);
    if (!n.op)
        return mu_ss_fail(error, MUSTER_NOT_FOUND,
                          "Op type not registered '%s' in binary running on this job's executors. Make sure the Op and "
                          "Kernel are registered in the binary running in this process.",
                          def->op);
    if (!mu_ss_types(n.op, def, false, &n.in_types, &n.num_in, error) ||
        !mu_ss_types(n.op, def, true, &n.out_types, &n.num_out, error)) {
        node_clear(&n);
        return false;
    }
    if (n.num_in + n.num_out > GRAPH_EDGES_MAX - g->num_edges) {
        node_clear(&n);
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED,
                          "the graph has too many edges: with node '%s' its inputs and outputs are more than %d",
                          def->name, GRAPH_EDGES_MAX);
    }
    g->num_edges += n.num_in + n.num_out;
    g->nodes[g->num_nodes] = n;
    *slot_find(g, def->name, len) = ++g->num_nodes;
    return true;
}

/* The message's nodes, as far as they go. */
static bool nodes_add(struct mu_ss_graph *g, Mu__Graph__GraphDef *def, uint32_t before, struct mu_ss_error *error)
{
    if (!library_add(g, def, error))
        return false;
    if (def->n_node > UINT32_MAX / 4 - g->num_nodes ||
        !mu_ss_grow(&g->nodes, sizeof *g->nodes, g->num_nodes + def->n_node, &g->room_nodes) ||
        !table_make(g, g->num_nodes + def->n_node))
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    for (size_t i = 0; i < def->n_node; i++)
        if (!node_add(g, def->node[i], before, error))
            return false;
    return mu_ss_check_inputs(g, before, error) && mu_ss_check_cycles(g, before, error);
}

static void nodes_cut(struct mu_ss_graph *g, uint32_t count)
{
    for (uint32_t i = count; i < g->num_nodes; i++) {
        g->num_edges -= g->nodes[i].num_in + g->nodes[i].num_out;
        node_clear(&g->nodes[i]);
    }
    g->num_nodes = count;
    if (g->table_size)
        memset(g->table, 0, g->table_size * sizeof *g->table);
    for (uint32_t i = 0; i < count; i++)
        *slot_find(g, g->nodes[i].def->name, strlen(g->nodes[i].def->name)) = i + 1;
}

static void libraries_cut(struct mu_ss_graph *g, uint32_t count)
{
    while (g->num_libraries > count)
        mu__session__library__free_unpacked((Mu__Session__Library *)g->libraries[--g->num_libraries], NULL);
}

static void versions_add(struct mu_ss_graph *g, const Mu__Graph__VersionDef *v)
{
    if (v && v->producer > g->producer)
        g->producer = v->producer;
    if (v && v->min_consumer > g->min_consumer)
        g->min_consumer = v->min_consumer;
}

bool mu_ss_graph_add(struct mu_ss_graph *g, Mu__Graph__GraphDef *def, struct mu_ss_error *error)
{
    uint32_t nodes = g->num_nodes, libraries = g->num_libraries;

    if (!mu_ss_check_syntax(def, error))
        return false;
    if (!mu_ss_grow(&g->messages, sizeof *g->messages, g->num_messages + 1, &g->room_messages))
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    if (!nodes_add(g, def, nodes, error)) {
        nodes_cut(g, nodes);
        libraries_cut(g, libraries);
        return false;
    }
    g->messages[g->num_messages++] = def;
    g->bytes += protobuf_c_message_get_packed_size(&def->base);
    versions_add(g, def->versions);
    return true;
}

Mu__Graph__GraphDef *mu_ss_graph_cut(struct mu_ss_graph *g, uint32_t num_nodes)
{
    Mu__Graph__GraphDef *def = g->messages[--g->num_messages];

    g->bytes -= protobuf_c_message_get_packed_size(&def->base);
    g->producer = g->min_consumer = 0;
    for (uint32_t i = 0; i < g->num_messages; i++)
        versions_add(g, g->messages[i]->versions);
    nodes_cut(g, num_nodes);
    if (def->has_library && def->library.len > 0)
        libraries_cut(g, g->num_libraries - 1);
    return def;
}

void mu_ss_graph_clear(struct mu_ss_graph *g)
{
    for (uint32_t i = 0; i < g->num_nodes; i++)
        node_clear(&g->nodes[i]);
    libraries_cut(g, 0);
    for (uint32_t i = 0; i < g->num_messages; i++)
        mu__graph__graph_def__free_unpacked(g->messages[i], NULL);
    free(g->nodes);
    free(g->table);
    free(g->messages);
    free(g->libraries);
    *g = (struct mu_ss_graph){0};
}
