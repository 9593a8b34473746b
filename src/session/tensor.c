/*
 * session/tensor.c: whether the bytes that a client feeds are a tensor of the type that is wanted. Its values are not
 * read; what says how many they are is.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/graph.pb-c.h"
#include "session/private.h"

enum { DIMS_MAX = 254, CONTENT = 4, SHAPE_MAX = 64 << 10 /* bytes of its message */ };
#define ELEMENTS_MAX (1ull << 40)

struct tensor_look {
    uint64_t type, elements;
    bool has_shape;
    const uint8_t *content;
    size_t content_len;
};

static const uint8_t *varint_read(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        value |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80)) {
            *ret = value;
            return at;
        }
    }
    return NULL;
}

static bool shape_look(const uint8_t *bytes, size_t len, struct tensor_look *t)
{
    Mu__Graph__TensorShapeProto *shape =
        len <= SHAPE_MAX ? mu__graph__tensor_shape_proto__unpack(NULL, len, bytes) : NULL;
    bool is_well = shape && !shape->unknown_rank && shape->n_dim <= DIMS_MAX;

    t->elements = 1;
    for (size_t i = 0; is_well && i < shape->n_dim; i++) {
        int64_t size = shape->dim[i]->size;

        is_well = size >= 0 && (size == 0 || t->elements <= ELEMENTS_MAX / (uint64_t)size);
        t->elements *= is_well ? (uint64_t)size : 0;
    }
    if (shape)
        mu__graph__tensor_shape_proto__free_unpacked(shape, NULL);
    return is_well;
}

/* Fields other than these are skipped. False: these bytes are no message. */
static bool tensor_look(const uint8_t *at, size_t len, struct tensor_look *t)
{
    const uint8_t *end = at + len;

    t->elements = 1;
    while (at < end) {
        uint64_t tag, value = 0;

        at = varint_read(at, end, &tag);
        if (!at || tag >> 3 == 0)
            return false;
        if ((tag & 7) == 0) {
            at = varint_read(at, end, &value);
        } else if ((tag & 7) == 1 || (tag & 7) == 5) {
            value = (tag & 7) == 1 ? 8 : 4;
            at = (uint64_t)(end - at) >= value ? at + value : NULL;
        } else if ((tag & 7) == 2) {
            at = varint_read(at, end, &value);
            if (!at || (uint64_t)(end - at) < value)
                return false;
            if (tag >> 3 == 2 && !shape_look(at, value, t))
                return false;
            if (tag >> 3 == CONTENT) {
                t->content = at;
                t->content_len = value;
            }
            at += value;
        } else {
            return false;
        }
        if (!at)
            return false;
        if (tag == (1 << 3))
            t->type = value;
    }
    return true;
}

/* Bytes of an element; 0: they differ. */
static size_t element_size(uint64_t type)
{
    static const uint8_t sizes[] = {0, 4, 8, 4, 1, 2, 1, 0, 8, 8, 1, 1, 1, 4, 2, 2, 2, 2, 16, 2, 0, 0, 4, 8};

    return type < sizeof sizes ? sizes[type] : 0;
}

/* Strings: as many lengths, then all their bytes. */
static bool strings_fit(const struct tensor_look *t)
{
    const uint8_t *at = t->content, *end = t->content + t->content_len;
    uint64_t total = 0, len;

    for (uint64_t i = 0; i < t->elements; i++) {
        at = varint_read(at, end, &len);
        if (!at || len > t->content_len)
            return false;
        total += len;
        if (total > t->content_len)
            return false;
    }
    return (uint64_t)(end - at) == total;
}

static bool content_fits(const struct tensor_look *t)
{
    if (!t->content_len)
        return true;
    if (t->type == MU__GRAPH__DATA_TYPE__DT_STRING)
        return strings_fit(t);
    return !element_size(t->type) || t->content_len == t->elements * element_size(t->type);
}

bool mu_ss_feed_check(const struct mu_ss_feed *feed, const char *node, ProtobufCBinaryData tensor, uint32_t number,
                      struct mu_ss_error *error)
{
    struct tensor_look t = {0};

    if (!tensor_look(tensor.data, tensor.len, &t) || t.type == 0 || t.type >= MU_SS_REF || !content_fits(&t))
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "Invalid TensorProto for feed value %u", number);
    if (t.type != feed->type)
        return mu_ss_fail(error, MUSTER_INTERNAL,
                          "Output 0 of type %s does not match declared output type %s for node {{node _recv_%s_%d}}",
                          mu_ss_type_name((uint32_t)t.type), mu_ss_type_name(feed->type), node, feed->output);
    return true;
}
