/*
 * session/cut.c: the nodes that are made when a graph is cut into parts, and the memory that they lie in.
 */
#include "session/cut.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *mu_ss_arena_take(struct mu_ss_cutting *cut, size_t size)
{
    struct mu_ss_chunk *chunk = calloc(1, sizeof *chunk + size);

    if (!chunk) {
        cut->is_exhausted = true;
        return NULL;
    }
    chunk->next = cut->chunks;
    cut->chunks = chunk;
    return chunk->bytes;
}

char *mu_ss_arena_print(struct mu_ss_cutting *cut, const char *format, ...)
{
    va_list args, again;
    char *text;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    text = mu_ss_arena_take(cut, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

/* ---- nodes that are made ----------------------------------------------------------------------------------------- */

int32_t mu_ss_part_for(struct mu_ss_cutting *cut, int32_t device)
{
    uint32_t member = (uint32_t)(cut->s->devices[device].member - cut->s->members);

    if (cut->part_of[member] < 0) {
        cut->part_of[member] = (int32_t)cut->c->num_parts;
        cut->c->parts[cut->c->num_parts++].member = &cut->s->members[member];
    }
    return cut->part_of[member];
}

void mu_ss_node_put(struct mu_ss_cutting *cut, int32_t device, Mu__Graph__NodeDef *node)
{
    struct mu_ss_part_nodes *p = &cut->nodes[mu_ss_part_for(cut, device)];

    if (!node || !mu_ss_grow(&p->all, sizeof *p->all, p->count + 1, &p->room))
        cut->is_exhausted = true;
    else
        p->all[p->count++] = node;
}

struct made {
    Mu__Graph__NodeDef node;
    Mu__Graph__AttrEntry *entries[8], entry[8];
    Mu__Graph__AttrValue values[8];
    char *input[1];
};

static struct made *node_make(struct mu_ss_cutting *cut, char *name, const char *op, int32_t device, char *input)
{
    struct made *m = mu_ss_arena_take(cut, sizeof *m);

    if (!m)
        return NULL;
    mu__graph__node_def__init(&m->node);
    m->node.name = name;
    m->node.op = (char *)(uintptr_t)op;
    m->node.device = cut->s->devices[device].name;
    m->node.attr = m->entries;
    m->input[0] = input;
    m->node.input = m->input;
    m->node.n_input = input != NULL;
    return m;
}

static Mu__Graph__AttrValue *attr_make(struct made *m, const char *key, Mu__Graph__AttrValue__ValueCase kind)
{
    size_t i = m->node.n_attr++;

    mu__graph__attr_entry__init(&m->entry[i]);
    mu__graph__attr_value__init(&m->values[i]);
    m->entry[i].key = (char *)(uintptr_t)key;
    m->entry[i].value = &m->values[i];
    m->entries[i] = &m->entry[i];
    m->values[i].value_case = kind;
    return &m->values[i];
}

static void attr_text(struct made *m, const char *key, const char *text)
{
    attr_make(m, key, MU__GRAPH__ATTR_VALUE__VALUE_S)->s =
        (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

void mu_ss_transfer_make(struct mu_ss_cutting *cut, bool is_send, char *name, char *input, uint32_t type, int32_t from,
                         int32_t to, const char *tensor, bool is_client)
{
    struct made *m = name ? node_make(cut, name, is_send ? "_Send" : "_Recv", is_send ? from : to, input) : NULL;

    if (!m || !tensor) {
        cut->is_exhausted = true;
        return;
    }
    attr_make(m, is_send ? "T" : "tensor_type", MU__GRAPH__ATTR_VALUE__VALUE_TYPE)->type =
        (Mu__Graph__DataType)(type % MU_SS_REF);
    attr_text(m, "tensor_name", tensor);
    attr_text(m, "send_device", cut->s->devices[from].name);
    attr_make(m, "send_device_incarnation", MU__GRAPH__ATTR_VALUE__VALUE_I)->i =
        (int64_t)cut->s->devices[from].incarnation;
    attr_text(m, "recv_device", cut->s->devices[to].name);
    attr_make(m, "client_terminated", MU__GRAPH__ATTR_VALUE__VALUE_B)->b = is_client;
    mu_ss_node_put(cut, is_send ? from : to, &m->node);
}

char *mu_ss_signal_make(struct mu_ss_cutting *cut, const struct mu_ss_source *from, uint32_t edge)
{
    char *name = mu_ss_arena_print(cut, "_ctrl_e%u", edge);
    struct made *m =
        name ? node_make(cut, name, "Const", from->device, mu_ss_arena_print(cut, "^%s", from->name)) : NULL;
    Mu__Graph__TensorProto *t = m ? mu_ss_arena_take(cut, sizeof *t) : NULL;
    Mu__Graph__TensorShapeProto *shape = t ? mu_ss_arena_take(cut, sizeof *shape) : NULL;

    if (!shape)
        return NULL;
    mu__graph__tensor_proto__init(t);
    mu__graph__tensor_shape_proto__init(shape);
    t->has_dtype = true;
    t->dtype = MU__GRAPH__DATA_TYPE__DT_FLOAT;
    t->tensor_shape = shape;
    attr_make(m, "dtype", MU__GRAPH__ATTR_VALUE__VALUE_TYPE)->type = MU__GRAPH__DATA_TYPE__DT_FLOAT;
    attr_make(m, "value", MU__GRAPH__ATTR_VALUE__VALUE_TENSOR)->tensor = t;
    mu_ss_node_put(cut, from->device, &m->node);
    return name;
}
