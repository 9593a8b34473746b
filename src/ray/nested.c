/*
 * ray/nested.c: the ids of objects in a value (Obj), which its sender has counted, and its receiver drops.
 *
 * A value is its owners' otherwise. One field after the other is read; a field that may have ids in it is entered
 * instead of skipped, and its end is put on a stack.
 */
#include "ray/private.h"

#include <stdlib.h>

enum { DEPTH = 64, NUMBER = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 };

enum nested_kind { SKIPPED, VALUE, LIST, DICT, ENTRY, ARRAY, ID };

/* What that field of such a message is. */
static enum nested_kind field_kind(enum nested_kind in, uint64_t field)
{
    static const enum nested_kind of_value[] = {[4] = LIST, [5] = ARRAY, [7] = LIST, [8] = DICT, [11] = ID};

    switch (in) {
    case VALUE: return field < sizeof of_value / sizeof *of_value ? of_value[field] : SKIPPED;
    case LIST: return field == 1 ? VALUE : SKIPPED;
    case DICT: return field == 1 ? ENTRY : SKIPPED;
    case ENTRY: return field == 1 || field == 2 ? VALUE : SKIPPED;
    case ARRAY: return field == 7 ? ID : SKIPPED;
    case SKIPPED:
    case ID: break;
    }
    return SKIPPED;
}

/* An id that is freed, or was never given out, has no count to hand over. */
static bool id_add(const struct mu_ray_sched *s, struct mu_ray_ids *to, uint64_t id)
{
    const struct mu_ray_object *o = mu_ray_object_at(s, id);

    if (!o || o->is_freed)
        return true;
    if (to->count >= MU_RAY_ARGS_MAX || !mu_ray_grow(&to->all, sizeof *to->all, to->count + 1, &to->room))
        return false;
    to->all[to->count++] = id;
    return true;
}

/* A message {1: id}, where an absent one is 0; or packed ids. */
static bool ids_read(const struct mu_ray_sched *s, const void *bytes, size_t len, bool is_packed, struct mu_ray_ids *to)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);

    if (!is_packed) {
        bool is_there = len > 0 && mu_unpack_var(&u) == (1 << 3 | NUMBER);
        uint64_t id = is_there ? mu_unpack_var(&u) : 0;

        return mu_unpack_end(&u) && id_add(s, to, id);
    }
    while (u.left && !u.failed)
        if (!id_add(s, to, mu_unpack_var(&u)))
            return false;
    return !u.failed;
}

/* A field that is no message. */
static void field_skip(struct mu_unpack *u, unsigned wire)
{
    if (wire == EIGHT_BYTES || wire == FOUR_BYTES)
        mu_unpack_raw(u, wire == EIGHT_BYTES ? 8 : 4);
    else
        u->failed = true;
}

bool mu_ray_nested(const struct mu_ray_sched *s, const void *value, size_t len, struct mu_ray_ids *to)
{
    struct mu_unpack u = mu_unpack_of(value, len);
    struct {
        enum nested_kind kind;
        size_t left; /* behind its end */
    } stack[DEPTH] = {{VALUE, 0}};
    unsigned depth = 0;

    while (!u.failed) {
        enum nested_kind in = stack[depth].kind, kind;
        uint64_t tag, number;
        const void *bytes;

        if (u.left <= stack[depth].left) {
            if (u.left < stack[depth].left) /* a field that ends behind the message that it is in */
                return false;
            if (depth-- == 0)
                return true;
            continue;
        }
        tag = mu_unpack_var(&u);
        kind = field_kind(in, tag >> 3);
        if ((tag & 7) != BYTES && (tag & 7) != NUMBER) {
            field_skip(&u, tag & 7);
            continue;
        }
        number = mu_unpack_var(&u); /* or the length */
        if ((tag & 7) == NUMBER) {
            if (in == ARRAY && kind == ID && !u.failed && !id_add(s, to, number))
                return false;
            continue;
        }
        if (u.failed || number > u.left - stack[depth].left || (kind != SKIPPED && kind != ID && depth + 1 == DEPTH))
            return false;
        if (kind == SKIPPED || kind == ID) {
            bytes = mu_unpack_raw(&u, number);
            if (kind == ID && !ids_read(s, bytes, number, in == ARRAY, to))
                return false;
        } else {
            stack[++depth].kind = kind;
            stack[depth].left = u.left - number;
        }
    }
    return false;
}
