/*
 * kernel/tensor.c: tensors in memory.
 */
#include "kernel/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mu_kernel_fail(struct mu_kernel_error *error, enum muster_status status, const char *format, ...)
{
    va_list args;

    if (error->status != MUSTER_OK)
        return false;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}

static const struct dtype {
    const char *name;
    uint8_t size;
} dtypes[24] = {
    [1] = {"float", 4},    [2] = {"double", 8},      [3] = {"int32", 4},   [4] = {"uint8", 0},
    [5] = {"int16", 0},    [6] = {"int8", 0},        [7] = {"string", 16}, [8] = {"complex64", 0},
    [9] = {"int64", 8},    [10] = {"bool", 1},       [11] = {"qint8", 0},  [12] = {"quint8", 0},
    [13] = {"qint32", 0},  [14] = {"bfloat16", 0},   [15] = {"qint16", 0}, [16] = {"quint16", 0},
    [17] = {"uint16", 0},  [18] = {"complex128", 0}, [19] = {"half", 0},   [20] = {"resource", 16},
    [21] = {"variant", 0}, [22] = {"uint32", 0},     [23] = {"uint64", 0},
};
static const char *const refs[24] = {
    [1] = "float_ref", [2] = "double_ref", [3] = "int32_ref", [7] = "string_ref", [9] = "int64_ref", [10] = "bool_ref",
};
_Static_assert(sizeof(struct mu_kernel_string) == 16, "a string's place in a tensor");

size_t mu_dtype_size(unsigned dtype)
{
    return dtype < 24 ? dtypes[dtype].size : 0;
}

const char *mu_dtype_name(unsigned dtype)
{
    const char *name = NULL;

    if (dtype < 24)
        name = dtypes[dtype].name;
    else if (dtype >= 100 && dtype < 124)
        name = refs[dtype - 100];
    return name ? name : "?";
}

bool mu_dims_count(const struct mu_dims *shape, size_t *ret_count)
{
    int64_t count = 1;

    /* A dimension of 0 makes all of it empty, whatever the others are, which TensorFlow refuses, too. */
    for (uint32_t k = 0; k < shape->rank; k++)
        if (shape->dim[k] < 0 || __builtin_mul_overflow(count, shape->dim[k], &count))
            return false;
    *ret_count = (size_t)count;
    return true;
}

bool mu_dims_is_same(const struct mu_dims *a, const struct mu_dims *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

const char *mu_dims_text(const struct mu_dims *shape, char text[192])
{
    size_t at = (size_t)snprintf(text, 192, "[");

    for (uint32_t k = 0; k < shape->rank; k++)
        at += (size_t)(shape->dim[k] < 0
                           ? snprintf(text + at, 192 - at, "%s?", k ? "," : "")
                           : snprintf(text + at, 192 - at, "%s%lld", k ? "," : "", (long long)shape->dim[k]));
    snprintf(text + at, 192 - at, "]");
    return text;
}

bool mu_dims_read(const Mu__Graph__TensorShapeProto *proto, struct mu_dims *ret_shape)
{
    *ret_shape = (struct mu_dims){0};
    if (!proto)
        return true;
    if (proto->unknown_rank || proto->n_dim > MU_TENSOR_DIMS)
        return false;
    ret_shape->rank = (uint32_t)proto->n_dim;
    for (size_t k = 0; k < proto->n_dim; k++)
        ret_shape->dim[k] = proto->dim[k]->size;
    return true;
}

static bool memory_take(struct mu_kernel_memory *memory, size_t bytes)
{
    /* process-local, relaxed: a count alone, which mu_tensor_drop() changes, too; nothing is ordered by it */
    size_t held = atomic_fetch_add_explicit(&memory->held, bytes, memory_order_relaxed);

    if (held <= memory->most && bytes <= memory->most - held)
        return true;
    /* process-local, relaxed: as above; mu_tensor_drop() */
    atomic_fetch_sub_explicit(&memory->held, bytes, memory_order_relaxed);
    return false;
}

static void memory_give(struct mu_kernel_memory *memory, size_t bytes)
{
    atomic_fetch_sub_explicit(&memory->held, bytes, memory_order_relaxed); /* process-local: memory_take() */
}

struct mu_tensor *mu_tensor_new(struct mu_kernel_memory *memory, unsigned dtype, const struct mu_dims *shape,
                                struct mu_kernel_error *error)
{
    size_t size = mu_dtype_size(dtype), count, bytes;
    struct mu_tensor *tensor;
    char text[192];

    if (size == 0) {
        mu_kernel_fail(error, MUSTER_UNIMPLEMENTED,
                       "muster's own kernels have no tensors of type %s; with TensorFlow's there are: --libtensorflow",
                       mu_dtype_name(dtype));
        return NULL;
    }
    if (!mu_dims_count(shape, &count) || __builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "a tensor of shape %s has too many elements",
                       mu_dims_text(shape, text));
        return NULL;
    }
    bytes += sizeof *tensor;
    if (!memory_take(memory, bytes)) {
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED,
                       "OOM when allocating tensor with shape%s and type %s: %zu bytes are the most that all may have",
                       mu_dims_text(shape, text), mu_dtype_name(dtype), memory->most);
        return NULL;
    }
    tensor = calloc(1, sizeof *tensor);
    if (tensor)
        tensor->data = calloc(count ? count : 1, size);
    if (!tensor || !tensor->data) {
        free(tensor);
        memory_give(memory, bytes);
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "OOM when allocating tensor with shape%s and type %s",
                       mu_dims_text(shape, text), mu_dtype_name(dtype));
        return NULL;
    }
    tensor->holders = 1;
    tensor->dtype = (uint8_t)dtype;
    tensor->shape = *shape;
    tensor->count = count;
    tensor->bytes = bytes;
    tensor->memory = memory;
    return tensor;
}

struct mu_tensor *mu_tensor_view(struct mu_tensor *tensor, const struct mu_dims *shape, struct mu_kernel_error *error)
{
    struct mu_tensor *view = calloc(1, sizeof *view);

    if (!view) {
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    *view = *tensor;
    view->holders = 1;
    view->bytes = 0;
    view->shape = *shape;
    view->base = mu_tensor_hold(tensor->base ? tensor->base : tensor);
    return view;
}

struct mu_tensor *mu_tensor_hold(struct mu_tensor *tensor)
{
    tensor->holders++;
    return tensor;
}

static bool dtype_is_string(unsigned dtype)
{
    return dtype == MU_STRING || dtype == MU_RESOURCE;
}

/* An allocation takes some more than it is asked for. */
size_t mu_string_cost(size_t len)
{
    return len > 0 ? len + 32 : 0;
}

void mu_tensor_drop(struct mu_tensor *tensor)
{
    while (tensor && --tensor->holders == 0) {
        struct mu_tensor *base = tensor->base;
        size_t bytes = tensor->bytes;

        if (!base) {
            if (dtype_is_string(tensor->dtype))
                for (size_t k = 0; k < tensor->count; k++) {
                    bytes += mu_string_cost(tensor->s[k].len);
                    free(tensor->s[k].bytes);
                }
            free(tensor->data);
            memory_give(tensor->memory, bytes);
        }
        free(tensor);
        tensor = base;
    }
}

bool mu_tensor_string_set(struct mu_tensor *tensor, size_t at, const void *bytes, size_t len,
                          struct mu_kernel_error *error)
{
    struct mu_kernel_string *s = &tensor->s[at];

    if (len == 0)
        return true;
    if (!memory_take(tensor->memory, mu_string_cost(len)))
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "OOM when allocating a string of %zu bytes", len);
    s->bytes = malloc(len);
    if (!s->bytes) {
        memory_give(tensor->memory, mu_string_cost(len));
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "OOM when allocating a string of %zu bytes", len);
    }
    memcpy(s->bytes, bytes, len);
    s->len = len;
    return true;
}

bool mu_tensor_copy(struct mu_tensor *to, size_t at, const struct mu_tensor *from, size_t from_at, size_t count,
                    struct mu_kernel_error *error)
{
    size_t size = mu_dtype_size(to->dtype);

    if (!dtype_is_string(to->dtype)) {
        if (count > 0)
            memcpy((uint8_t *)to->data + at * size, (const uint8_t *)from->data + from_at * size, count * size);
        return true;
    }
    for (size_t k = 0; k < count; k++)
        if (!mu_tensor_string_set(to, at + k, from->s[from_at + k].bytes, from->s[from_at + k].len, error))
            return false;
    return true;
}
