/*
 * kernel/attr.c: what a node says of itself, or what its op says where the node says nothing.
 */
#include "kernel/private.h"

#include <string.h>

const Mu__Graph__AttrValue *mu_attr_find(const Mu__Graph__NodeDef *def, const Mu__Graph__OpDef *op, const char *name)
{
    for (size_t k = 0; k < def->n_attr; k++)
        if (def->attr[k]->key && def->attr[k]->value && strcmp(def->attr[k]->key, name) == 0)
            return def->attr[k]->value;
    for (size_t k = 0; k < op->n_attr; k++)
        if (strcmp(op->attr[k]->name, name) == 0)
            return op->attr[k]->default_value;
    return NULL;
}

static const Mu__Graph__AttrValue *node_attr(const struct mu_kernel_node *node, const char *name)
{
    return mu_attr_find(node->def, node->op_def, name);
}

unsigned mu_attr_type(const struct mu_kernel_node *node, const char *name)
{
    return node_attr(node, name)->type;
}

int64_t mu_attr_int(const struct mu_kernel_node *node, const char *name)
{
    return node_attr(node, name)->i;
}

bool mu_attr_bool(const struct mu_kernel_node *node, const char *name)
{
    return node_attr(node, name)->b;
}

ProtobufCBinaryData mu_attr_bytes(const struct mu_kernel_node *node, const char *name)
{
    return node_attr(node, name)->s;
}

const Mu__Graph__ListValue *mu_attr_list(const struct mu_kernel_node *node, const char *name)
{
    return node_attr(node, name)->list;
}

bool mu_attr_shape(const struct mu_kernel_node *node, const char *name, struct mu_dims *ret_shape)
{
    return mu_dims_read(node_attr(node, name)->shape, ret_shape);
}

static const struct attr_kind {
    const char *name;
    Mu__Graph__AttrValue__ValueCase is;
} kinds[] = {
    {"type", MU__GRAPH__ATTR_VALUE__VALUE_TYPE},   {"int", MU__GRAPH__ATTR_VALUE__VALUE_I},
    {"bool", MU__GRAPH__ATTR_VALUE__VALUE_B},      {"string", MU__GRAPH__ATTR_VALUE__VALUE_S},
    {"shape", MU__GRAPH__ATTR_VALUE__VALUE_SHAPE}, {"tensor", MU__GRAPH__ATTR_VALUE__VALUE_TENSOR},
    {"float", MU__GRAPH__ATTR_VALUE__VALUE_F},     {"list", MU__GRAPH__ATTR_VALUE__VALUE_LIST},
};

static bool attr_is(const Mu__Graph__AttrValue *value, const char *type)
{
    size_t len = strcspn(type, "(");

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (strlen(kinds[k].name) == len && memcmp(kinds[k].name, type, len) == 0)
            return value->value_case == kinds[k].is;
    return false;
}

bool mu_attrs_check(const Mu__Graph__NodeDef *def, const Mu__Graph__OpDef *op, struct mu_kernel_error *error)
{
    for (size_t k = 0; k < op->n_attr; k++) {
        const Mu__Graph__AttrDef *attr = op->attr[k];
        const Mu__Graph__AttrValue *value = mu_attr_find(def, op, attr->name);
        int64_t has;

        if (!value)
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                                  "NodeDef missing attr '%s' from Op<name=%s>; NodeDef: {{node %s}}", attr->name,
                                  op->name, def->name);
        if (!attr_is(value, attr->type))
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                                  "AttrValue of '%s' is not of type '%s'; NodeDef: {{node %s}}", attr->name, attr->type,
                                  def->name);
        if (!attr->has_minimum)
            continue;
        has = strcmp(attr->type, "int") == 0 ? value->i : (int64_t)value->list->n_type;
        if (has < attr->minimum)
            return mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT,
                                  "Value for attr '%s' of %lld must be at least minimum %lld; NodeDef: {{node %s}}",
                                  attr->name, (long long)has, (long long)attr->minimum, def->name);
    }
    return true;
}
