/*
 * kernel/proto.c: tensors as TensorFlow's messages.
 *
 * A message has its elements as they lie in memory (tensor_content), or as numbers: of fewer the last one is repeated,
 * more are left out, of none all are zero. Strings lie as their lengths, as varints, then all their bytes. What a
 * message says of its size is compared with what may be held, and with what it carries, before anything is taken for
 * it.
 */
#include "kernel/tensor.h"

#include <stdlib.h>
#include <string.h>

static bool varint_read(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;

        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static unsigned varint_size(uint64_t value)
{
    unsigned size = 1;

    for (; value > 127; value >>= 7)
        size++;
    return size;
}

static uint8_t *varint_write(uint8_t *at, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *at++ = (uint8_t)(value | 128);
    *at++ = (uint8_t)value;
    return at;
}

/* False: they are not as many, or are shorter or longer than they say. */
static bool strings_decode(struct mu_tensor *tensor, const uint8_t *at, size_t len, struct mu_kernel_error *error)
{
    const uint8_t *lengths = at, *end = at + len, *bytes;
    uint64_t n;

    for (size_t k = 0; k < tensor->count; k++)
        if (!varint_read(&at, end, &n))
            return false;
    bytes = at;
    for (size_t k = 0; k < tensor->count; k++) {
        if (!varint_read(&lengths, end, &n) || n > (size_t)(end - bytes) ||
            !mu_tensor_string_set(tensor, k, bytes, (size_t)n, error))
            return false;
        bytes += n;
    }
    return bytes == end;
}

static bool content_decode(struct mu_tensor *tensor, const ProtobufCBinaryData *content, struct mu_kernel_error *error)
{
    if (tensor->dtype == MU_STRING)
        return strings_decode(tensor, content->data, content->len, error);
    if (content->len != tensor->count * mu_dtype_size(tensor->dtype))
        return false;
    memcpy(tensor->data, content->data, content->len);
    if (tensor->dtype == MU_BOOL)
        for (size_t k = 0; k < tensor->count; k++)
            tensor->b[k] = tensor->b[k] != 0;
    return true;
}

/* As many as there are, then the last one again. */
static bool numbers_decode(struct mu_tensor *tensor, const Mu__Graph__TensorProto *proto, struct mu_kernel_error *error)
{
    size_t have = 0, count = tensor->count;

#define NUMBERS(type, member, list)                                                                                    \
    case type:                                                                                                         \
        have = proto->n_##list;                                                                                        \
        for (size_t k = 0; k < count && have > 0; k++)                                                                 \
            tensor->member[k] = proto->list[k < have ? k : have - 1];                                                  \
        return true;

    switch (tensor->dtype) {
        NUMBERS(MU_FLOAT, f, float_val)
        NUMBERS(MU_DOUBLE, d, double_val)
        NUMBERS(MU_INT32, i, int_val)
        NUMBERS(MU_INT64, l, int64_val)
    case MU_BOOL:
        have = proto->n_bool_val;
        for (size_t k = 0; k < count && have > 0; k++)
            tensor->b[k] = proto->bool_val[k < have ? k : have - 1] != 0;
        return true;
    default:
        have = proto->n_string_val;
        for (size_t k = 0; k < count && have > 0; k++) {
            const ProtobufCBinaryData *s = &proto->string_val[k < have ? k : have - 1];

            if (!mu_tensor_string_set(tensor, k, s->data, s->len, error))
                return false;
        }
        return true;
    }
#undef NUMBERS
}

/* How many elements the message has one by one. */
static size_t values_count(const Mu__Graph__TensorProto *proto, unsigned dtype)
{
    switch (dtype) {
    case MU_FLOAT: return proto->n_float_val;
    case MU_DOUBLE: return proto->n_double_val;
    case MU_INT32: return proto->n_int_val;
    case MU_INT64: return proto->n_int64_val;
    case MU_BOOL: return proto->n_bool_val;
    default: return proto->n_string_val;
    }
}

/* Takes what the message does not carry from what is left for such. */
static bool spare_take(const Mu__Graph__TensorProto *proto, unsigned dtype, const struct mu_dims *shape, size_t count,
                       size_t *spare, struct mu_kernel_error *error)
{
    size_t have = values_count(proto, dtype), each = mu_dtype_size(dtype), bytes;
    char text[192];

    if (proto->tensor_content.len > 0 || have >= count)
        return true;
    if (dtype == MU_STRING && have > 0)
        each += mu_string_cost(proto->string_val[have - 1].len);
    if (__builtin_mul_overflow(count - have, each, &bytes) || bytes > SIZE_MAX / 4)
        return true; /* no tensor is so large */
    if (bytes > *spare)
        return mu_kernel_fail(
            error, MUSTER_RESOURCE_EXHAUSTED,
            "a tensor of shape %s and type %s is said by %zu values: a request's tensors may be %u MiB "
            "larger than the request. The op Fill makes such tensors",
            mu_dims_text(shape, text), mu_dtype_name(dtype), have, MU_TENSOR_SPARE >> 20);
    *spare -= bytes;
    return true;
}

struct mu_tensor *mu_tensor_decode(struct mu_kernel_memory *memory, const Mu__Graph__TensorProto *proto, size_t *spare,
                                   struct mu_kernel_error *error)
{
    struct mu_tensor *tensor;
    struct mu_dims shape;
    size_t count, len = proto->tensor_content.len, size;
    unsigned dtype = (unsigned)proto->dtype;
    bool good;

    if (!mu_dims_read(proto->tensor_shape, &shape) || !mu_dims_count(&shape, &count)) {
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor whose shape is none, or has more than %u dimensions",
                       MU_TENSOR_DIMS);
        return NULL;
    }
    if (dtype == MU_RESOURCE || dtype > 23 || dtype == 0) {
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor of type %d cannot be read", (int)dtype);
        return NULL;
    }
    /* Content says how much there is: look at it before room is made. */
    size = mu_dtype_size(dtype);
    if (len > 0 && size > 0 && (dtype == MU_STRING ? count > len : len % size || count != len / size)) {
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor of %zu elements has %zu bytes of content", count, len);
        return NULL;
    }
    if (size > 0 && !spare_take(proto, dtype, &shape, count, spare, error))
        return NULL;
    tensor = mu_tensor_new(memory, dtype, &shape, error);
    if (!tensor)
        return NULL;
    good = len > 0 ? content_decode(tensor, &proto->tensor_content, error) : numbers_decode(tensor, proto, error);
    if (good)
        return tensor;
    mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor's content is not as long as its shape says");
    mu_tensor_drop(tensor);
    return NULL;
}

struct mu_tensor *mu_tensor_unpack(struct mu_kernel_memory *memory, const void *bytes, size_t len, size_t *spare,
                                   struct mu_kernel_error *error)
{
    Mu__Graph__TensorProto *proto = mu__graph__tensor_proto__unpack(NULL, len, bytes);
    struct mu_tensor *tensor = NULL;

    if (proto)
        tensor = mu_tensor_decode(memory, proto, spare, error);
    else
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor's message cannot be read");
    if (proto)
        mu__graph__tensor_proto__free_unpacked(proto, NULL);
    return tensor;
}

/* ---- and back ---------------------------------------------------------------------------------------------------- */

static size_t content_size(const struct mu_tensor *tensor)
{
    size_t size = tensor->count * mu_dtype_size(tensor->dtype);

    if (tensor->dtype != MU_STRING)
        return size;
    size = 0;
    for (size_t k = 0; k < tensor->count; k++)
        size += varint_size(tensor->s[k].len) + tensor->s[k].len;
    return size;
}

static uint8_t *content_write(uint8_t *at, const struct mu_tensor *tensor, size_t size)
{
    if (tensor->dtype != MU_STRING) {
        memcpy(at, tensor->data, size);
        return at + size;
    }
    for (size_t k = 0; k < tensor->count; k++)
        at = varint_write(at, tensor->s[k].len);
    for (size_t k = 0; k < tensor->count; k++)
        if (tensor->s[k].len > 0) {
            memcpy(at, tensor->s[k].bytes, tensor->s[k].len);
            at += tensor->s[k].len;
        }
    return at;
}

uint8_t *mu_tensor_encode(const struct mu_tensor *tensor, size_t *ret_len, struct mu_kernel_error *error)
{
    size_t size = content_size(tensor);
    uint8_t shape[MU_TENSOR_DIMS * 16], *to = shape, *bytes, *at;

    if (tensor->dtype == MU_RESOURCE) {
        mu_kernel_fail(error, MUSTER_UNIMPLEMENTED, "the handle of a variable or a queue cannot leave its executor");
        return NULL;
    }
    for (uint32_t k = 0; k < tensor->shape.rank; k++) { /* a dim: its size, 0 left out */
        uint64_t dim = (uint64_t)tensor->shape.dim[k];

        *to++ = 0x12;
        *to++ = (uint8_t)(dim ? 1 + varint_size(dim) : 0);
        if (dim) {
            *to++ = 0x08;
            to = varint_write(to, dim);
        }
    }
    bytes = malloc(size + sizeof shape + 32);
    if (!bytes) {
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu bytes of a tensor", size);
        return NULL;
    }
    at = bytes;
    *at++ = 0x08;
    *at++ = tensor->dtype;
    *at++ = 0x12;
    at = varint_write(at, (uint64_t)(to - shape));
    memcpy(at, shape, (size_t)(to - shape));
    at += to - shape;
    if (size > 0) {
        *at++ = 0x22;
        at = varint_write(at, size);
        at = content_write(at, tensor, size);
    }
    *ret_len = (size_t)(at - bytes);
    return bytes;
}
