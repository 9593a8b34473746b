/*
 * session/tensor.c: whether the bytes that a client feeds are a tensor of the type that is wanted. Its values are not
 * read; what says how many they are is.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/graph.pb-c.h"
#include "session/direct.h"
#include "session/private.h"

enum { DIMS_MAX = 254, CONTENT = 4, SHAPE_MAX = 64 << 10 /* bytes of its message */ };
#define ELEMENTS_MAX (1ull << 40)

struct tensor_look {
    uint64_t type, elements;
    uint32_t num_dims;
    int64_t dims[MU_DIRECT_DIMS]; /* the first ones */
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
    t->num_dims = is_well ? (uint32_t)shape->n_dim : 0;
    for (size_t i = 0; is_well && i < shape->n_dim; i++) {
        int64_t size = shape->dim[i]->size;

        if (i < MU_DIRECT_DIMS)
            t->dims[i] = size;
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
    return !mu_direct_element(t->type) || t->content_len == t->elements * mu_direct_element(t->type);
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

bool mu_ss_tensor_plain(struct mu_executor_bytes bytes, struct mu_direct_tensor *ret,
                        struct mu_executor_bytes *ret_content)
{
    struct tensor_look t = {0};

    if (!tensor_look(bytes.at, bytes.len, &t) || t.num_dims > MU_DIRECT_DIMS)
        return false;
    *ret = (struct mu_direct_tensor){.type = (uint32_t)t.type, .num_dims = t.num_dims, .bytes = t.content_len};
    memcpy(ret->dims, t.dims, sizeof t.dims);
    *ret_content = (struct mu_executor_bytes){t.content, t.content_len};
    return mu_direct_tensor_is_well(ret);
}
