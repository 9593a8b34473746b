/*
 * kernel/tensor.h: tensors: their values in memory, and as TensorFlow's messages.
 *
 * A tensor is never changed once another holder may see it; it is counted, and the count is for one thread: the loop's.
 * What a kernel makes in another thread (kernel/kernel.h) is handed over whole.
 */
#ifndef MU_KERNEL_TENSOR_H
#define MU_KERNEL_TENSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

#include "kernel/graph.pb-c.h"

#define MU_TENSOR_DIMS  8u
#define MU_TENSOR_SPARE (64u << 20) /* bytes that the tensors of a request may have which it does not carry */

/* Numbers of TensorFlow's DataType that are computed with. */
enum mu_dtype {
    MU_FLOAT = 1,
    MU_DOUBLE = 2,
    MU_INT32 = 3,
    MU_STRING = 7,
    MU_INT64 = 9,
    MU_BOOL = 10,
    MU_RESOURCE = 20, /* a string: container, NUL, name */
};

/* What all tensors of an executor may take. */
struct mu_kernel_memory {
    size_t most;
    _Atomic size_t held; /* a counter alone: kernels in another thread take, too */
};

struct mu_kernel_error {
    enum muster_status status;
    char text[1024];
};
/* The first one stays. False, always. */
bool mu_kernel_fail(struct mu_kernel_error *error, enum muster_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct mu_kernel_string {
    uint8_t *bytes; /* malloc()ed; NULL: "" */
    size_t len;
};

struct mu_dims {
    uint32_t rank;
    int64_t dim[MU_TENSOR_DIMS];
};

struct mu_tensor {
    uint32_t holders;
    uint8_t dtype;
    struct mu_dims shape;
    size_t count;           /* of elements */
    size_t bytes;           /* of its own, counted in memory */
    struct mu_tensor *base; /* held: the tensor that has these elements; NULL: itself */
    struct mu_kernel_memory *memory;
    union {
        void *data;
        float *f;
        double *d;
        int32_t *i;
        int64_t *l;
        uint8_t *b; /* 0 or 1 */
        struct mu_kernel_string *s;
    };
};

size_t mu_dtype_size(unsigned dtype);      /* 0: it is none that is computed with */
const char *mu_dtype_name(unsigned dtype); /* "float", "int32_ref", "?" */

/* False: the product overflows. */
bool mu_dims_count(const struct mu_dims *shape, size_t *ret_count);
bool mu_dims_is_same(const struct mu_dims *a, const struct mu_dims *b);
/* "[2,3]"; a dimension of -1 is "?". */
const char *mu_dims_text(const struct mu_dims *shape, char text[192]);
/* A message's shape; -1 is kept. False: unknown rank, or more dimensions than MU_TENSOR_DIMS. */
bool mu_dims_read(const Mu__Graph__TensorShapeProto *proto, struct mu_dims *ret_shape);

/* One holder; all zero. NULL: error says why. */
struct mu_tensor *mu_tensor_new(struct mu_kernel_memory *memory, unsigned dtype, const struct mu_dims *shape,
                                struct mu_kernel_error *error);
/* The same elements in another shape, of as many. */
struct mu_tensor *mu_tensor_view(struct mu_tensor *tensor, const struct mu_dims *shape, struct mu_kernel_error *error);
struct mu_tensor *mu_tensor_hold(struct mu_tensor *tensor);
void mu_tensor_drop(struct mu_tensor *tensor); /* NULL: nothing happens */
/* Nobody else sees its elements. */
static inline bool mu_tensor_is_alone(const struct mu_tensor *tensor)
{
    return tensor->holders == 1 && !tensor->base;
}
/* What a string of so many bytes takes beside its place in a tensor. */
size_t mu_string_cost(size_t len);
/* False: no memory. */
bool mu_tensor_string_set(struct mu_tensor *tensor, size_t at, const void *bytes, size_t len,
                          struct mu_kernel_error *error);
/* `count` elements. False: no memory. */
bool mu_tensor_copy(struct mu_tensor *to, size_t at, const struct mu_tensor *from, size_t from_at, size_t count,
                    struct mu_kernel_error *error);

/*
 * proto.c: NULL, or false: error says why. A few bytes may stand for many elements, which the caller's thread writes:
 * *spare says how many bytes of such it has left, and becomes less; it begins as MU_TENSOR_SPARE.
 */
struct mu_tensor *mu_tensor_decode(struct mu_kernel_memory *memory, const Mu__Graph__TensorProto *proto, size_t *spare,
                                   struct mu_kernel_error *error);
struct mu_tensor *mu_tensor_unpack(struct mu_kernel_memory *memory, const void *bytes, size_t len, size_t *spare,
                                   struct mu_kernel_error *error);
/* A TensorProto with tensor_content: malloc()ed. */
uint8_t *mu_tensor_encode(const struct mu_tensor *tensor, size_t *ret_len, struct mu_kernel_error *error);

#endif
