/*
 * session/ops.c: the registries of an executor: which ops and kernels there are; and the types of a node's edges, which
 * follow from its op and its attributes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

enum { EDGES_MAX = 1 << 20 }; /* of one node, in one direction */

static int ops_compare(const void *a, const void *b)
{
    return strcmp((*(const Mu__Graph__OpDef *const *)a)->name, (*(const Mu__Graph__OpDef *const *)b)->name);
}

static int kernels_compare(const void *a, const void *b)
{
    return strcmp((*(const Mu__Graph__KernelDef *const *)a)->op, (*(const Mu__Graph__KernelDef *const *)b)->op);
}

static bool ops_sort(struct mu_ss_ops *ops)
{
    ops->ops = malloc((ops->list->n_op + 1) * sizeof *ops->ops);
    ops->kernels = malloc((ops->kernel_list->n_kernel + 1) * sizeof *ops->kernels);
    if (!ops->ops || !ops->kernels)
        return false;
    for (size_t i = 0; i < ops->list->n_op; i++)
        if (ops->list->op[i]->name)
            ops->ops[ops->num_ops++] = ops->list->op[i];
    for (size_t i = 0; i < ops->kernel_list->n_kernel; i++)
        if (ops->kernel_list->kernel[i]->op && ops->kernel_list->kernel[i]->device_type)
            ops->kernels[ops->num_kernels++] = ops->kernel_list->kernel[i];
    qsort(ops->ops, ops->num_ops, sizeof *ops->ops, ops_compare);
    qsort(ops->kernels, ops->num_kernels, sizeof *ops->kernels, kernels_compare);
    return true;
}

struct mu_ss_ops *mu_ss_ops_new(struct mu_executor_bytes list, struct mu_executor_bytes kernels)
{
    struct mu_ss_ops *ops = calloc(1, sizeof *ops);

    if (!ops)
        return NULL;
    ops->list = mu__graph__op_list__unpack(NULL, list.len, list.at);
    ops->kernel_list = mu__graph__kernel_list__unpack(NULL, kernels.len, kernels.at);
    if (ops->list && ops->kernel_list && ops_sort(ops) && ops->num_ops > 0)
        return ops;
    mu_ss_ops_free(ops);
    return NULL;
}

void mu_ss_ops_free(struct mu_ss_ops *ops)
{
    if (!ops)
        return;
    if (ops->list)
        mu__graph__op_list__free_unpacked(ops->list, NULL);
    if (ops->kernel_list)
        mu__graph__kernel_list__free_unpacked(ops->kernel_list, NULL);
    free(ops->ops);
    free(ops->kernels);
    free(ops);
}

const Mu__Graph__OpDef *mu_ss_op_find(const struct mu_ss_ops *ops, const char *name)
{
    Mu__Graph__OpDef key = {.name = (char *)(uintptr_t)name};
    const Mu__Graph__OpDef *at = &key;
    const Mu__Graph__OpDef **found = bsearch(&at, ops->ops, ops->num_ops, sizeof *ops->ops, ops_compare);

    return found ? *found : NULL;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* The first of an op's, or num_kernels. */
static size_t kernels_find(const struct mu_ss_ops *ops, const char *op)
{
    size_t low = 0, high = ops->num_kernels;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(ops->kernels[middle]->op, op) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool mu_ss_op_has_kernels(const struct mu_ss_ops *ops, const char *op)
{
    size_t i = kernels_find(ops, op);

    return i < ops->num_kernels && strcmp(ops->kernels[i]->op, op) == 0;
}

static bool type_is_among(int type, const Mu__Graph__AttrValue *allowed)
{
    if (!allowed || allowed->value_case != MU__GRAPH__ATTR_VALUE__VALUE_LIST)
        return true;
    for (size_t i = 0; i < allowed->list->n_type; i++)
        if ((int)allowed->list->type[i] == type)
            return true;
    return allowed->list->n_type == 0;
}

static bool constraint_holds(const Mu__Graph__NodeDef *node, const Mu__Graph__AttrConstraint *c)
{
    const Mu__Graph__AttrValue *value = c->name ? mu_ss_attr(node, c->name) : NULL;

    if (!value)
        return true; /* its op's default, or it is found out by the executor */
    if (value->value_case == MU__GRAPH__ATTR_VALUE__VALUE_TYPE)
        return type_is_among((int)value->type, c->allowed_values);
    if (value->value_case == MU__GRAPH__ATTR_VALUE__VALUE_LIST)
        for (size_t i = 0; i < value->list->n_type; i++)
            if (!type_is_among((int)value->list->type[i], c->allowed_values))
                return false;
    return true;
}

static bool kernel_serves(const Mu__Graph__KernelDef *kernel, const Mu__Graph__NodeDef *node, const char *type)
{
    if (strcmp(kernel->device_type, type) != 0 && strcmp(kernel->device_type, "DEFAULT") != 0)
        return false;
    for (size_t i = 0; i < kernel->n_constraint; i++)
        if (!constraint_holds(node, kernel->constraint[i]))
            return false;
    return true;
}

bool mu_ss_op_runs(const struct mu_ss_ops *ops, const Mu__Graph__NodeDef *node, const char *type)
{
    size_t i = kernels_find(ops, node->op);

    for (; i < ops->num_kernels && strcmp(ops->kernels[i]->op, node->op) == 0; i++)
        if (kernel_serves(ops->kernels[i], node, type))
            return true;
    return false;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

const Mu__Graph__AttrValue *mu_ss_attr(const Mu__Graph__NodeDef *node, const char *key)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (node->attr[i]->key && strcmp(node->attr[i]->key, key) == 0)
            return node->attr[i]->value;
    return NULL;
}

static const Mu__Graph__AttrValue *attr_of(const Mu__Graph__OpDef *op, const Mu__Graph__NodeDef *node, const char *key)
{
    const Mu__Graph__AttrValue *value = mu_ss_attr(node, key);

    for (size_t i = 0; !value && i < op->n_attr; i++)
        if (op->attr[i]->name && strcmp(op->attr[i]->name, key) == 0)
            value = op->attr[i]->default_value;
    return value;
}

const char *mu_ss_type_name(uint32_t type)
{
    static const char *const names[] = {"INVALID",    "float",  "double",    "int32",   "uint8",   "int16",
                                        "int8",       "string", "complex64", "int64",   "bool",    "qint8",
                                        "quint8",     "qint32", "bfloat16",  "qint16",  "quint16", "uint16",
                                        "complex128", "half",   "resource",  "variant", "uint32",  "uint64"};
    static const char *const refs[] = {"INVALID_ref",  "float_ref",   "double_ref", "int32_ref",      "uint8_ref",
                                       "int16_ref",    "int8_ref",    "string_ref", "complex64_ref",  "int64_ref",
                                       "bool_ref",     "qint8_ref",   "quint8_ref", "qint32_ref",     "bfloat16_ref",
                                       "qint16_ref",   "quint16_ref", "uint16_ref", "complex128_ref", "half_ref",
                                       "resource_ref", "variant_ref", "uint32_ref", "uint64_ref"};
    uint32_t base = type >= MU_SS_REF ? type - MU_SS_REF : type;

    if (base >= sizeof names / sizeof *names)
        return "unknown";
    return type >= MU_SS_REF ? refs[base] : names[base];
}

struct types {
    uint32_t *all;
    uint32_t count, room;
};

static bool types_add(struct types *t, uint32_t type, struct mu_ss_error *error)
{
    if (t->count >= EDGES_MAX)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "a node has more than %d edges", EDGES_MAX);
    if (!mu_ss_grow(&t->all, sizeof *t->all, t->count + 1, &t->room))
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    t->all[t->count++] = type;
    return true;
}

static bool attr_is_missing(const Mu__Graph__OpDef *op, const Mu__Graph__NodeDef *node, const char *attr,
                            struct mu_ss_error *error)
{
    return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                      "NodeDef missing attr '%s' from Op<name=%s>; NodeDef: {{node %s}}", attr, op->name, node->name);
}

static bool types_of_arg(struct types *t, const Mu__Graph__OpDef *op, const Mu__Graph__NodeDef *node,
                         const Mu__Graph__ArgDef *arg, struct mu_ss_error *error)
{
    const Mu__Graph__AttrValue *value;
    uint32_t type = arg->has_type ? (uint32_t)arg->type : 0;
    int64_t times = 1;

    if (arg->type_list_attr && arg->type_list_attr[0]) {
        value = attr_of(op, node, arg->type_list_attr);
        if (!value || value->value_case != MU__GRAPH__ATTR_VALUE__VALUE_LIST)
            return attr_is_missing(op, node, arg->type_list_attr, error);
        for (size_t i = 0; i < value->list->n_type; i++)
            if (!types_add(t, (uint32_t)value->list->type[i] + (arg->is_ref ? MU_SS_REF : 0), error))
                return false;
        return true;
    }
    if (arg->number_attr && arg->number_attr[0]) {
        value = attr_of(op, node, arg->number_attr);
        if (!value || value->value_case != MU__GRAPH__ATTR_VALUE__VALUE_I)
            return attr_is_missing(op, node, arg->number_attr, error);
        times = value->i;
        if (times < 0 || times > EDGES_MAX)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Value for attr '%s' of %lld must be at least minimum 0",
                              arg->number_attr, (long long)times);
    }
    if (arg->type_attr && arg->type_attr[0]) {
        value = attr_of(op, node, arg->type_attr);
        if (!value || value->value_case != MU__GRAPH__ATTR_VALUE__VALUE_TYPE)
            return attr_is_missing(op, node, arg->type_attr, error);
        type = (uint32_t)value->type;
    }
    for (int64_t i = 0; i < times; i++)
        if (!types_add(t, type + (arg->is_ref ? MU_SS_REF : 0), error))
            return false;
    return true;
}

bool mu_ss_types(const Mu__Graph__OpDef *op, const Mu__Graph__NodeDef *node, bool is_output, uint32_t **ret_types,
                 uint32_t *ret_count, struct mu_ss_error *error)
{
    size_t count = is_output ? op->n_output_arg : op->n_input_arg;
    struct types t = {0};

    for (size_t i = 0; i < count; i++)
        if (!types_of_arg(&t, op, node, is_output ? op->output_arg[i] : op->input_arg[i], error)) {
            free(t.all);
            return false;
        }
    *ret_types = t.all;
    *ret_count = t.count;
    return true;
}
