/*
 * kernel/graph.c: a graph, checked and compiled: nodes by number, edges both ways, the slots of all outputs.
 *
 * Everything is checked before a step may run: names, attributes, types of edges, cycles. A graph is then never
 * changed, but for the count of each node's runs.
 */
#include "kernel/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (1u << 20)

/* Nodes by name. */
struct node_names {
    uint32_t *at; /* the node's number + 1 */
    uint32_t mask;
    const Mu__Graph__GraphDef *def;
};

static uint32_t name_hash(const char *name, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t k = 0; k < len; k++)
        h = (h ^ (unsigned char)name[k]) * 16777619u;
    return h;
}

static uint32_t *names_place(const struct node_names *names, const char *name, size_t len)
{
    uint32_t at = name_hash(name, len) & names->mask;

    for (; names->at[at]; at = (at + 1) & names->mask) {
        const char *there = names->def->node[names->at[at] - 1]->name;

        if (strlen(there) == len && memcmp(there, name, len) == 0)
            break;
    }
    return &names->at[at];
}

static bool names_make(struct node_names *names, const Mu__Graph__GraphDef *def, struct mu_kernel_error *error)
{
    uint32_t size = 16;

    if (def->n_node > NODES_MAX)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "a graph of %zu nodes; %u are the most that are taken",
                              def->n_node, NODES_MAX);
    while (size < 2 * def->n_node)
        size *= 2;
    names->at = calloc(size, sizeof *names->at);
    if (!names->at)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    names->mask = size - 1;
    names->def = def;
    for (uint32_t k = 0; k < def->n_node; k++) {
        uint32_t *place;

        if (!def->node[k]->name || !*def->node[k]->name || !def->node[k]->op)
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a node without a name, or without an op");
        place = names_place(names, def->node[k]->name, strlen(def->node[k]->name));
        if (*place)
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s' is not unique", def->node[k]->name);
        *place = k + 1;
    }
    return true;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* The types of arguments, or their number alone where `types` is NULL. -1: more than an edge's number can say. */
static int64_t args_types(const struct mu_kernel_node *node, Mu__Graph__ArgDef *const *args, size_t count,
                          uint8_t *types)
{
    int64_t at = 0;

    for (size_t k = 0; k < count; k++) {
        const Mu__Graph__ArgDef *arg = args[k];
        const Mu__Graph__ListValue *list = arg->type_list_attr ? mu_attr_list(node, arg->type_list_attr) : NULL;
        int64_t n = list ? (int64_t)list->n_type : arg->number_attr ? mu_attr_int(node, arg->number_attr) : 1;

        if (n < 0 || n > (int64_t)NODES_MAX || at > (int64_t)NODES_MAX)
            return -1;
        for (int64_t t = 0; t < n && types; t++)
            types[at + t] = (uint8_t)((arg->is_ref ? 100 : 0) + (list             ? (unsigned)list->type[t]
                                                                 : arg->type_attr ? mu_attr_type(node, arg->type_attr)
                                                                                  : (unsigned)arg->type));
        at += n;
    }
    return at;
}

static bool node_types(struct mu_kernel_node *node, struct mu_kernel_error *error)
{
    int64_t in = args_types(node, node->op_def->input_arg, node->op_def->n_input_arg, NULL);
    int64_t out = args_types(node, node->op_def->output_arg, node->op_def->n_output_arg, NULL);

    if (in < 0 || out < 0)
        return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s' has too many inputs or outputs",
                              node->def->name);
    node->in_types = malloc((size_t)in + 1);
    node->out_types = malloc((size_t)out + 1);
    node->slot_users = calloc((size_t)out + 1, sizeof *node->slot_users);
    if (!node->in_types || !node->out_types || !node->slot_users)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    args_types(node, node->op_def->input_arg, node->op_def->n_input_arg, node->in_types);
    args_types(node, node->op_def->output_arg, node->op_def->n_output_arg, node->out_types);
    node->num_inputs = (uint32_t)in;
    node->num_outputs = (uint32_t)out;
    return true;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* "a", "a:1", "^a". False: it is none of a node that is there. */
static bool edge_read(const struct node_names *names, const char *input, struct mu_kernel_edge *ret, bool *ret_control)
{
    const char *colon;
    unsigned long output = 0;
    char *end;

    *ret_control = *input == '^';
    input += *ret_control;
    colon = *ret_control ? NULL : strrchr(input, ':');
    if (colon) {
        output = strtoul(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || output > NODES_MAX)
            return false;
    }
    ret->node = *names_place(names, input, colon ? (size_t)(colon - input) : strlen(input));
    ret->output = (uint32_t)output;
    return ret->node-- > 0;
}

static bool edge_check(const struct mu_kernel_node *node, uint32_t k, struct mu_kernel_error *error)
{
    const struct mu_kernel_edge *edge = &node->inputs[k];
    const struct mu_kernel_node *from = &node->graph->nodes[edge->node];
    unsigned has, wants = node->in_types[k];

    if (edge->output >= from->num_outputs)
        return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                              "Node '%s': Connecting to invalid output %u of source node %s which has %u outputs.",
                              node->def->name, edge->output, from->def->name, from->num_outputs);
    has = from->out_types[edge->output];
    if (has == wants || has == wants + 100)
        return true;
    return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                          "Input %u of node %s was passed %s from %s:%u incompatible with expected %s.", k,
                          node->def->name, mu_dtype_name(has), from->def->name, edge->output, mu_dtype_name(wants));
}

static bool node_edges(struct mu_kernel_node *node, const struct node_names *names, struct mu_kernel_error *error)
{
    const Mu__Graph__NodeDef *def = node->def;
    uint32_t data = 0;
    bool control = false;

    node->inputs = calloc(def->n_input + 1, sizeof *node->inputs);
    if (!node->inputs)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    for (size_t k = 0; k < def->n_input; k++) {
        bool was = control;

        if (!edge_read(names, def->input[k], &node->inputs[k], &control))
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "Node '%s': Unknown input node '%s'", def->name,
                                  def->input[k]);
        if (was && !control)
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                                  "Node '%s': All control inputs must follow all data inputs", def->name);
        data += !control;
    }
    if (data != node->num_inputs)
        return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                              data < node->num_inputs ? "Incomplete graph, missing %u inputs for %s"
                                                      : "%u inputs too many for %s",
                              data < node->num_inputs ? node->num_inputs - data : data - node->num_inputs, def->name);
    node->num_controls = (uint32_t)def->n_input - data;
    for (uint32_t k = 0; k < def->n_input; k++) {
        struct mu_kernel_node *from = &node->graph->nodes[node->inputs[k].node];

        if (k < data && !edge_check(node, k, error))
            return false;
        if (k < data)
            from->slot_users[node->inputs[k].output]++;
        from->num_users++;
    }
    return true;
}

static bool graph_users(struct mu_kernel_graph *graph, struct mu_kernel_error *error)
{
    for (uint32_t k = 0; k < graph->num_nodes; k++) {
        struct mu_kernel_node *node = &graph->nodes[k];

        node->users = malloc((node->num_users + 1) * sizeof *node->users);
        if (!node->users)
            return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
        node->num_users = 0;
    }
    for (uint32_t k = 0; k < graph->num_nodes; k++)
        for (uint32_t e = 0; e < graph->nodes[k].num_inputs + graph->nodes[k].num_controls; e++) {
            struct mu_kernel_node *from = &graph->nodes[graph->nodes[k].inputs[e].node];

            from->users[from->num_users++] = k;
        }
    return true;
}

/* Takes away nodes that have their inputs, until none is left. */
static bool graph_has_no_cycle(const struct mu_kernel_graph *graph, struct mu_kernel_error *error)
{
    uint32_t *left = malloc((graph->num_nodes + 1) * sizeof *left);
    uint32_t *ready = malloc((graph->num_nodes + 1) * sizeof *ready), first = 0, last = 0;

    if (left && ready) {
        for (uint32_t k = 0; k < graph->num_nodes; k++) {
            left[k] = graph->nodes[k].num_inputs + graph->nodes[k].num_controls;
            if (left[k] == 0)
                ready[last++] = k;
        }
        for (; first < last; first++)
            for (uint32_t u = 0; u < graph->nodes[ready[first]].num_users; u++)
                if (--left[graph->nodes[ready[first]].users[u]] == 0)
                    ready[last++] = graph->nodes[ready[first]].users[u];
        if (last < graph->num_nodes)
            mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "%u nodes in a cycle", graph->num_nodes - last);
    } else {
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    }
    free(left);
    free(ready);
    return error->status == MUSTER_OK;
}

/* ---- what single ops have ---------------------------------------------------------------------------------------- */

/* A constant is decoded once, and its message let go. */
static bool node_constant(struct mu_kernel_node *node, struct mu_kernel_error *error)
{
    Mu__Graph__AttrValue *attr = (Mu__Graph__AttrValue *)mu_attr_find(node->def, node->op_def, "value");

    node->value = mu_tensor_decode(node->graph->home.memory, attr->tensor, &node->graph->spare, error);
    if (!node->value)
        return false;
    if (node->value->dtype != mu_attr_type(node, "dtype"))
        return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "Constant '%s' of type %s has a value of type %s",
                              node->def->name, mu_dtype_name(mu_attr_type(node, "dtype")),
                              mu_dtype_name(node->value->dtype));
    mu__graph__tensor_proto__free_unpacked(attr->tensor, NULL);
    attr->tensor = NULL;
    attr->value_case = MU__GRAPH__ATTR_VALUE__VALUE__NOT_SET;
    return true;
}

static bool node_key(struct mu_kernel_node *node, struct mu_kernel_error *error)
{
    ProtobufCBinaryData from = mu_attr_bytes(node, "send_device"), to = mu_attr_bytes(node, "recv_device"),
                        name = mu_attr_bytes(node, "tensor_name");
    int len = asprintf(&node->key, "%.*s;%016llx;%.*s;%.*s;0:0", (int)from.len, (char *)from.data,
                       (unsigned long long)mu_attr_int(node, "send_device_incarnation"), (int)to.len, (char *)to.data,
                       (int)name.len, (char *)name.data);

    if (len >= 0)
        return true;
    node->key = NULL;
    return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
}

static bool node_read(struct mu_kernel_graph *graph, struct mu_kernel_node *node, const Mu__Graph__NodeDef *def,
                      struct mu_kernel_error *error)
{
    int op = mu_kop_find(def->op);
    const char *attr;

    node->def = def;
    node->graph = graph;
    if (op < 0)
        return mu_kernel_fail(
            error, MUSTER_NOT_FOUND,
            "Op type not registered '%s' among muster's own kernels; with TensorFlow's it is: start muster "
            "with --libtensorflow\n\t [[{{node %s}}]]",
            def->op, def->name);
    node->op = &mu_kops[op];
    node->op_def = mu_kop_def(op);
    if (!node->op_def)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    if (!mu_attrs_check(def, node->op_def, error))
        return false;
    if (!mu_kop_takes(op, def, &attr))
        return mu_kernel_fail(
            error, MUSTER_INVALID_ARGUMENT,
            "No OpKernel was registered to support Op '%s' with these attrs: muster's own kernel does "
            "not take this '%s'; with TensorFlow's there is one: --libtensorflow\n\t [[{{node %s}}]]",
            def->op, attr, def->name);
    if (!node_types(node, error))
        return false;
    node->first_slot = graph->num_slots;
    graph->num_slots += node->num_outputs;
    if (node->op->run == mu_run_const)
        return node_constant(node, error);
    if (node->op->run == mu_run_send || node->op->run == mu_run_recv)
        return node_key(node, error);
    return true;
}

static bool graph_compile(struct mu_kernel_graph *graph, struct mu_kernel_error *error)
{
    struct node_names names = {0};
    bool good = names_make(&names, graph->def, error);

    for (uint32_t k = 0; good && k < graph->num_nodes; k++)
        good = node_read(graph, &graph->nodes[k], graph->def->node[k], error);
    for (uint32_t k = 0; good && k < graph->num_nodes; k++)
        good = node_edges(&graph->nodes[k], &names, error);
    free(names.at);
    return good && graph_users(graph, error) && graph_has_no_cycle(graph, error);
}

struct mu_kernel_graph *mu_kernel_graph_new(const struct mu_kernel_home *home, const void *bytes, size_t len,
                                            struct mu_kernel_error *error)
{
    struct mu_kernel_graph *graph = calloc(1, sizeof *graph);

    if (!graph || !(graph->container = strdup(home->container))) {
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
        free(graph);
        return NULL;
    }
    graph->holders = 1;
    graph->spare = MU_TENSOR_SPARE;
    graph->home = *home;
    graph->home.container = graph->container;
    graph->def = mu__graph__graph_def__unpack(NULL, len, bytes);
    if (graph->def) {
        graph->nodes = calloc(graph->def->n_node + 1, sizeof *graph->nodes);
        graph->num_nodes = graph->nodes ? (uint32_t)graph->def->n_node : 0;
    }
    if (!graph->def)
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a graph's message cannot be read");
    else if (!graph->nodes)
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    else if (graph_compile(graph, error))
        return graph;
    mu_kernel_graph_drop(graph);
    return NULL;
}

void mu_kernel_graph_drop(struct mu_kernel_graph *graph)
{
    if (!graph || --graph->holders > 0)
        return;
    for (uint32_t k = 0; k < graph->num_nodes; k++) {
        struct mu_kernel_node *node = &graph->nodes[k];

        mu_tensor_drop(node->value);
        free(node->inputs);
        free(node->in_types);
        free(node->out_types);
        free(node->users);
        free(node->slot_users);
        free(node->key);
    }
    if (graph->def)
        mu__graph__graph_def__free_unpacked(graph->def, NULL);
    free(graph->nodes);
    free(graph->container);
    free(graph);
}
