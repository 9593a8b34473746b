/*
 * kernel/registry.c: the table of ops as TensorFlow's lists: OpDefs and KernelDefs, written once from the rows' words.
 */
#include "kernel/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

static struct {
    struct mu_pack ops, kernels;
    Mu__Graph__OpList *list;
} lists;

static unsigned letter_type(char letter)
{
    switch (letter) {
    case 'f': return MU_FLOAT;
    case 'd': return MU_DOUBLE;
    case 'i': return MU_INT32;
    case 'l': return MU_INT64;
    case 'b': return MU_BOOL;
    case 's': return MU_STRING;
    default: return MU_RESOURCE;
    }
}

static void field_number(struct mu_pack *to, unsigned field, uint64_t number)
{
    mu_pack_var(to, field << 3);
    mu_pack_var(to, number);
}

static void field_bytes(struct mu_pack *to, unsigned field, const void *bytes, size_t len)
{
    mu_pack_var(to, field << 3 | 2);
    mu_pack_var(to, len);
    mu_pack_raw(to, bytes, len);
}

/* What was written to `part`, which is empty again. */
static void field_part(struct mu_pack *to, unsigned field, struct mu_pack *part)
{
    field_bytes(to, field, part->bytes, part->len);
    to->failed = to->failed || part->failed;
    mu_pack_reset(part);
}

/* "name:&T", "name:N*T", "name:*T", "name:f" */
static void arg_write(struct mu_pack *op, struct mu_pack *arg, unsigned field, const char *word, size_t len)
{
    const char *colon = memchr(word, ':', len), *type = colon + 1, *end = word + len;
    const char *star = memchr(type, '*', (size_t)(end - type));

    field_bytes(arg, 1, word, (size_t)(colon - word));
    if (star == type) {
        field_bytes(arg, 6, star + 1, (size_t)(end - star - 1));
        field_part(op, field, arg);
        return;
    }
    if (*type == '&') {
        field_number(arg, 16, 1);
        type++;
    }
    if (star) {
        field_bytes(arg, 5, type, (size_t)(star - type));
        type = star + 1;
    }
    if (end - type == 1 && *type >= 'a')
        field_number(arg, 3, letter_type(*type));
    else
        field_bytes(arg, 4, type, (size_t)(end - type));
    field_part(op, field, arg);
}

static void args_write(struct mu_pack *op, struct mu_pack *arg, unsigned field, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");

        arg_write(op, arg, field, words, len);
        words += len + (words[len] == ' ');
    }
}

/* One word of a row's attributes. */
struct attr_words {
    const char *name, *kind, *types, *initial, *least; /* NULL: none */
    size_t name_len, kind_len, types_len, initial_len;
};

/* The next word; NULL: there is none. */
static const char *attr_words_read(const char *at, struct attr_words *ret)
{
    size_t len = strcspn(at, " ");
    const char *end = at + len;

    *ret = (struct attr_words){.name = at};
    if (*at == 0)
        return NULL;
    ret->name_len = strcspn(at, ":");
    ret->kind = at + ret->name_len + 1;
    ret->kind_len = strcspn(ret->kind, "{=> ");
    at = ret->kind + ret->kind_len;
    if (at < end && *at == '{') {
        ret->types = at + 1;
        ret->types_len = strcspn(ret->types, "}");
        at = ret->types + ret->types_len + 1;
    }
    if (at < end && *at == '=') {
        ret->initial = at + 1;
        ret->initial_len = (size_t)(end - ret->initial);
    } else if (at < end && *at == '>') {
        ret->least = at + 1;
    }
    return end + (*end == ' ');
}

static void attr_write(struct mu_pack *op, struct mu_pack *attr, struct mu_pack *value, const struct attr_words *words)
{
    field_bytes(attr, 1, words->name, words->name_len);
    field_bytes(attr, 2, words->kind, words->kind_len);
    if (words->initial) {
        if (memcmp(words->kind, "type", 4) == 0)
            field_number(value, 6, letter_type(*words->initial));
        else if (memcmp(words->kind, "list", 4) == 0)
            field_bytes(value, 1, "", 0);
        else if (memcmp(words->kind, "bool", 4) == 0)
            field_number(value, 5, (uint64_t)(*words->initial == '1'));
        else if (memcmp(words->kind, "int", 3) == 0)
            field_number(value, 3, (uint64_t)strtoll(words->initial, NULL, 10));
        else if (memcmp(words->kind, "shape", 5) == 0)
            field_bytes(value, 7, "\x18\x01", 2); /* of unknown rank */
        else
            field_bytes(value, 2, words->initial, words->initial_len);
        field_part(attr, 3, value);
    }
    if (words->least) {
        field_number(attr, 5, 1);
        field_number(attr, 6, (uint64_t)strtoll(words->least, NULL, 10));
    }
    field_part(op, 4, attr);
}

static void op_write(const struct mu_kop *row, struct mu_pack part[3])
{
    const char *at = row->attrs;
    struct attr_words words;

    field_bytes(&part[0], 1, row->name, strlen(row->name));
    args_write(&part[0], &part[1], 2, row->inputs);
    args_write(&part[0], &part[1], 3, row->outputs);
    while ((at = attr_words_read(at, &words)))
        attr_write(&part[0], &part[1], &part[2], &words);
    if (row->flags & MU_OP_AGGREGATE)
        field_number(&part[0], 16, 1);
    if (row->flags & MU_OP_STATEFUL)
        field_number(&part[0], 17, 1);
    if (row->flags & MU_OP_COMMUTATIVE)
        field_number(&part[0], 18, 1);
    if (row->flags & MU_OP_UNINIT)
        field_number(&part[0], 19, 1);
    field_part(&lists.ops, 1, &part[0]);
}

static void kernel_write(const struct mu_kop *row, struct mu_pack part[3])
{
    const char *at = row->attrs;
    struct attr_words words;

    field_bytes(&part[0], 1, row->name, strlen(row->name));
    field_bytes(&part[0], 2, "CPU", 3);
    while ((at = attr_words_read(at, &words))) {
        uint8_t types[8];

        if (!words.types || words.kind_len != 4) /* of a list of types TensorFlow's kernels say nothing */
            continue;
        for (size_t k = 0; k < words.types_len; k++)
            types[k] = (uint8_t)letter_type(words.types[k]);
        field_bytes(&part[2], 6, types, words.types_len); /* a ListValue, */
        field_part(&part[1], 1, &part[2]);                /* of an AttrValue, */
        mu_pack_raw(&part[2], part[1].bytes, part[1].len);
        mu_pack_reset(&part[1]);
        field_bytes(&part[1], 1, words.name, words.name_len); /* of a constraint */
        field_part(&part[1], 2, &part[2]);
        field_part(&part[0], 3, &part[1]);
    }
    field_part(&lists.kernels, 1, &part[0]);
}

static bool lists_make(void)
{
    struct mu_pack part[3] = {0};

    if (lists.list)
        return true;
    for (const struct mu_kop *row = mu_kops; row->name; row++) {
        op_write(row, part);
        kernel_write(row, part);
    }
    for (int k = 0; k < 3; k++)
        mu_pack_done(&part[k]);
    if (!lists.ops.failed && !lists.kernels.failed)
        lists.list = mu__graph__op_list__unpack(NULL, lists.ops.len, lists.ops.bytes);
    if (lists.list)
        return true;
    mu_pack_done(&lists.ops);
    mu_pack_done(&lists.kernels);
    return false;
}

__attribute__((destructor)) static void lists_free(void)
{
    if (lists.list)
        mu__graph__op_list__free_unpacked(lists.list, NULL);
    mu_pack_done(&lists.ops);
    mu_pack_done(&lists.kernels);
    lists.list = NULL;
}

bool mu_kernel_lists(struct mu_kernel_lists *ret_lists)
{
    if (!lists_make())
        return false;
    *ret_lists = (struct mu_kernel_lists){lists.ops.bytes, lists.kernels.bytes, lists.ops.len, lists.kernels.len};
    return true;
}

const Mu__Graph__OpDef *mu_kop_def(int op)
{
    return lists_make() ? lists.list->op[op] : NULL;
}

bool mu_kop_takes(int op, const Mu__Graph__NodeDef *node, const char **ret_attr)
{
    const Mu__Graph__OpDef *def = mu_kop_def(op);
    const char *at = mu_kops[op].attrs;
    struct attr_words words;

    for (size_t k = 0; (at = attr_words_read(at, &words)); k++) {
        const Mu__Graph__AttrValue *value = mu_attr_find(node, def, def->attr[k]->name);
        const Mu__Graph__DataType *types = words.kind_len == 4 ? &value->type : NULL;
        size_t count = types ? 1 : 0;

        if (!words.types)
            continue;
        if (!types) {
            types = value->list->type;
            count = value->list->n_type;
        }
        for (size_t t = 0; t < count; t++) {
            bool is_there = false;

            for (size_t l = 0; l < words.types_len; l++)
                is_there = is_there || letter_type(words.types[l]) == (unsigned)types[t];
            if (!is_there) {
                *ret_attr = def->attr[k]->name;
                return false;
            }
        }
    }
    return true;
}
