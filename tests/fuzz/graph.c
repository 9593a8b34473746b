/*
 * tests/fuzz/graph.c: any bytes as graphs and tensors, and any program as a graph of muster's own ops.
 */
#include "graph.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/private.h"

#define NODES 40u

struct output {
    char name[24];
    unsigned type;
};
struct program {
    const uint8_t *at, *end;
    Mu__Graph__GraphDef graph;
    Mu__Graph__NodeDef *nodes[NODES];
    struct output outputs[NODES * 4];
    unsigned num_outputs;
};

static void *fresh(size_t size)
{
    void *at = calloc(1, size);

    assert(at);
    return at;
}

static unsigned next(struct program *p)
{
    return p->at < p->end ? *p->at++ : 0;
}

static Mu__Graph__TensorShapeProto *shape_draw(struct program *p)
{
    Mu__Graph__TensorShapeProto *shape = fresh(sizeof *shape);
    unsigned bits = next(p);

    mu__graph__tensor_shape_proto__init(shape);
    shape->dim = fresh(4 * sizeof *shape->dim);
    for (unsigned rank = bits & 3; shape->n_dim < rank; bits >>= 2) {
        Mu__Graph__Dim *dim = fresh(sizeof *dim);

        mu__graph__dim__init(dim);
        dim->has_size = true;
        dim->size = (int64_t)((bits >> 2 & 3) == 3 ? 1 + (bits >> 6) * 5 : bits >> 2 & 3);
        shape->dim[shape->n_dim++] = dim;
    }
    return shape;
}

static Mu__Graph__TensorProto *tensor_draw(struct program *p, unsigned type)
{
    static const int32_t numbers[] = {0, 1, 2, 3, -1, -2, 7, INT32_MAX, INT32_MIN, 100};
    Mu__Graph__TensorProto *t = fresh(sizeof *t);
    unsigned bits = next(p);

    mu__graph__tensor_proto__init(t);
    t->has_dtype = true;
    t->dtype = (Mu__Graph__DataType)type;
    t->tensor_shape = shape_draw(p);
    t->int_val = fresh(2 * sizeof *t->int_val);
    t->int64_val = fresh(2 * sizeof *t->int64_val);
    t->float_val = fresh(2 * sizeof *t->float_val);
    t->n_int_val = t->n_int64_val = t->n_float_val = 2;
    for (unsigned k = 0; k < 2; k++, bits >>= 4) {
        t->int_val[k] = numbers[bits % 10];
        t->int64_val[k] = numbers[bits % 10] == INT32_MIN ? INT64_MIN : numbers[bits % 10];
        t->float_val[k] = (float)numbers[bits % 10] / 2;
    }
    return t;
}

static unsigned type_draw(unsigned bits)
{
    static const unsigned types[] = {MU_FLOAT, MU_INT32, MU_DOUBLE, MU_INT64, MU_BOOL, MU_STRING, MU_FLOAT, MU_INT32};

    return types[bits & 7];
}

static void attr_draw(struct program *p, Mu__Graph__NodeDef *node, const Mu__Graph__AttrDef *def, unsigned bits)
{
    Mu__Graph__AttrEntry *entry = fresh(sizeof *entry);
    Mu__Graph__AttrValue *v = fresh(sizeof *v);

    mu__graph__attr_entry__init(entry);
    mu__graph__attr_value__init(v);
    entry->key = strdup(def->name);
    entry->value = v;
    node->attr[node->n_attr++] = entry;
    if (strcmp(def->type, "type") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TYPE;
        v->type =
            (Mu__Graph__DataType)type_draw(def->name[0] == 'T' && def->name[1] ? (bits >> 3 & 3 ? 1u : 3u) : bits);
    } else if (strcmp(def->type, "int") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_I;
        v->i = strcmp(def->name, "N") == 0 ? 1 + (int)(bits >> 3 & 1) : (int)(bits >> 3 & 7) - 1;
    } else if (strcmp(def->type, "bool") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_B;
        v->b = bits >> 4 & 1;
    } else if (strcmp(def->type, "shape") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_SHAPE;
        v->shape = shape_draw(p);
    } else if (strcmp(def->type, "tensor") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
        v->tensor = tensor_draw(p, type_draw(bits));
    } else if (strcmp(def->type, "list(type)") == 0) {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_LIST;
        v->list = fresh(sizeof *v->list);
        mu__graph__list_value__init(v->list);
        v->list->type = fresh(sizeof *v->list->type);
        v->list->n_type = 1;
        v->list->type[0] = (Mu__Graph__DataType)type_draw(bits);
    } else {
        v->value_case =
            strncmp(def->type, "list", 4) == 0 ? MU__GRAPH__ATTR_VALUE__VALUE_LIST : MU__GRAPH__ATTR_VALUE__VALUE_S;
        if (v->value_case == MU__GRAPH__ATTR_VALUE__VALUE_LIST) {
            v->list = fresh(sizeof *v->list);
            mu__graph__list_value__init(v->list);
        } else {
            v->s.data = (uint8_t *)strdup("q");
            v->s.len = bits >> 5 & 1;
        }
    }
}

static unsigned arg_type(const Mu__Graph__NodeDef *node, const Mu__Graph__OpDef *op, const Mu__Graph__ArgDef *arg)
{
    const Mu__Graph__AttrValue *list = arg->type_list_attr ? mu_attr_find(node, op, arg->type_list_attr) : NULL;
    unsigned type = list             ? (unsigned)list->list->type[0]
                    : arg->type_attr ? (unsigned)mu_attr_find(node, op, arg->type_attr)->type
                                     : (unsigned)arg->type;

    return type + (arg->is_ref ? 100 : 0);
}

/* One of the outputs of this type, from the latest; "": there is none. */
static const char *output_draw(const struct program *p, unsigned type, unsigned skip)
{
    const char *found = "";

    for (unsigned k = p->num_outputs; k-- > 0;)
        if (p->outputs[k].type == type || p->outputs[k].type == type + 100) {
            found = p->outputs[k].name;
            if (skip-- == 0)
                break;
        }
    return found;
}

static void node_draw(struct program *p)
{
    unsigned draw = next(p), bits = next(p), from = next(p);
    unsigned at = draw % 3 ? draw % mu_num_kops : (unsigned)mu_kop_find("Const"); /* what most need */
    const Mu__Graph__OpDef *op = mu_kop_def((int)at);
    Mu__Graph__NodeDef *node = fresh(sizeof *node);
    unsigned number = (unsigned)p->graph.n_node;
    const char *attr;
    bool fits;

    mu__graph__node_def__init(node);
    node->attr = fresh(16 * sizeof *node->attr);
    node->input = fresh(8 * sizeof *node->input);
    node->name = fresh(16);
    snprintf(node->name, 16, "n%u", number);
    node->op = strdup(op->name);
    for (size_t k = 0; k < op->n_attr; k++)
        attr_draw(p, node, op->attr[k], bits);
    fits = mu_kop_takes((int)at, node, &attr);
    for (size_t k = 0; k < op->n_input_arg; k++) {
        const Mu__Graph__ArgDef *arg = op->input_arg[k];
        int64_t n = arg->number_attr ? mu_attr_find(node, op, arg->number_attr)->i : 1;

        for (; n > 0; n--, from = from >> 2 | from << 6) {
            const char *input = output_draw(p, arg_type(node, op, arg), from & 3);

            fits = fits && *input;
            node->input[node->n_input++] = strdup(input);
        }
    }
    if (!fits) { /* a graph of what is refused would be refused as a whole */
        mu__graph__node_def__free_unpacked(node, NULL);
        return;
    }
    for (size_t k = 0; k < op->n_output_arg; k++, p->num_outputs++) {
        snprintf(p->outputs[p->num_outputs].name, sizeof p->outputs[0].name, "n%u:%zu", number, k);
        p->outputs[p->num_outputs].type = arg_type(node, op, op->output_arg[k]);
    }
    p->nodes[p->graph.n_node++] = node;
}

static void graph_run(struct mu_kernel_home *home, const uint8_t *bytes, size_t len, struct graph_sum *sum)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_kernel_step_options options = {.graph = mu_kernel_graph_new(home, bytes, len, &error)};
    enum mu_step_state is = MU_STEP_MORE;
    struct mu_kernel_step *step;

    if (!options.graph) {
        assert(error.status != MUSTER_OK && error.text[0]);
        sum->refused++;
        return;
    }
    sum->taken++;
    sum->nodes += options.graph->num_nodes;
    options.rendezvous = mu_rendezvous_new();
    step = mu_kernel_step_new(&options, &error);
    assert(step && options.rendezvous);
    while (is == MU_STEP_MORE)
        is = mu_kernel_step_run(step, 1000000);
    if (is == MU_STEP_WAITS) {
        sum->waited++;
        mu_kernel_step_cancel(step, MUSTER_CANCELLED, "");
        is = mu_kernel_step_run(step, 1000000);
    }
    assert(is == MU_STEP_DONE);
    sum->failed += mu_kernel_step_error(step)->status != MUSTER_OK;
    sum->done += mu_kernel_step_error(step)->status == MUSTER_OK;
    mu_kernel_step_free(step);
    mu_rendezvous_drop(options.rendezvous);
    mu_kernel_graph_drop(options.graph);
}

static void program_run(struct mu_kernel_home *home, const uint8_t *data, size_t size, struct graph_sum *sum)
{
    struct program *p = fresh(sizeof *p);
    uint8_t *bytes;
    size_t len;

    p->at = data;
    p->end = data + size;
    mu__graph__graph_def__init(&p->graph);
    p->graph.node = p->nodes;
    while (p->at < p->end && p->graph.n_node < NODES)
        node_draw(p);
    len = mu__graph__graph_def__get_packed_size(&p->graph);
    bytes = fresh(len + 1);
    mu__graph__graph_def__pack(&p->graph, bytes);
    graph_run(home, bytes, len, sum);
    free(bytes);
    for (size_t k = 0; k < p->graph.n_node; k++)
        mu__graph__node_def__free_unpacked(p->nodes[k], NULL);
    free(p);
}

static void tensor_run(struct mu_kernel_memory *memory, const uint8_t *data, size_t size, struct graph_sum *sum)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    size_t spare = MU_TENSOR_SPARE;
    struct mu_tensor *tensor = mu_tensor_unpack(memory, data, size, &spare, &error), *again;
    uint8_t *bytes;
    size_t len;

    if (!tensor) {
        assert(error.status != MUSTER_OK);
        return;
    }
    bytes = mu_tensor_encode(tensor, &len, &error);
    assert(bytes);
    again = mu_tensor_unpack(memory, bytes, len, &spare, &error);
    assert(again && again->count == tensor->count && mu_dims_is_same(&again->shape, &tensor->shape));
    sum->tensors++;
    free(bytes);
    mu_tensor_drop(again);
    mu_tensor_drop(tensor);
}

void graph_try(const uint8_t *data, size_t size, struct graph_sum *sum)
{
    struct mu_kernel_memory memory = {.most = 1u << 20};
    struct mu_kernel_home home = {&memory, mu_resources_new(), mu_resources_new(), "local"};

    if (size > 0 && data[0] == 0)
        graph_run(&home, data + 1, size - 1, sum);
    else if (size > 0 && data[0] == 1)
        tensor_run(&memory, data + 1, size - 1, sum);
    else if (size > 0)
        program_run(&home, data + 1, size - 1, sum);
    mu_resources_free(home.shared);
    mu_resources_free(home.own);
    assert(memory.held == 0);
}
