/*
 * kernel/shape.c: kernels of shapes, and those that hand on what they get.
 */
#include "kernel/private.h"

#include <stdio.h>
#include <string.h>

enum mu_run mu_run_noop(struct mu_kernel_call *call)
{
    (void)call;
    return MU_RUN_DONE;
}

enum mu_run mu_run_const(struct mu_kernel_call *call)
{
    call->out[0].tensor = mu_tensor_hold(call->node->value);
    return MU_RUN_DONE;
}

enum mu_run mu_run_identity(struct mu_kernel_call *call)
{
    call->out[0].tensor = mu_tensor_hold(call->in[0].tensor);
    return MU_RUN_DONE;
}

enum mu_run mu_run_unfed(struct mu_kernel_call *call)
{
    struct mu_dims shape;
    bool has_shape = mu_attr_shape(call->node, "shape", &shape) && shape.rank > 0;
    char text[192];

    return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                       "You must feed a value for placeholder tensor '%s' with dtype %s%s%s", call->node->def->name,
                       mu_dtype_name(call->node->out_types[0]), has_shape ? " and shape " : "",
                       has_shape ? mu_dims_text(&shape, text) : "");
}

static void element_text(const struct mu_tensor *t, size_t k, char *text, size_t size)
{
    if (t->dtype == MU_STRING)
        snprintf(text, size, "%s%.*s", k ? " " : "", (int)(t->s[k].len < 200 ? t->s[k].len : 200),
                 (char *)t->s[k].bytes);
    else if (t->dtype == MU_FLOAT || t->dtype == MU_DOUBLE)
        snprintf(text, size, "%s%.6g", k ? " " : "", t->dtype == MU_FLOAT ? (double)t->f[k] : t->d[k]);
    else
        snprintf(text, size, "%s%lld", k ? " " : "",
                 t->dtype == MU_INT32   ? (long long)t->i[k]
                 : t->dtype == MU_INT64 ? (long long)t->l[k]
                                        : t->b[k]);
}

enum mu_run mu_run_assert(struct mu_kernel_call *call)
{
    int64_t most = mu_attr_int(call->node, "summarize");
    char text[700] = "";
    size_t at = 0;

    if (call->in[0].tensor->count != 1)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "In[0] should be a scalar");
    if (call->in[0].tensor->b[0])
        return MU_RUN_DONE;
    for (uint32_t i = 1; i < call->node->num_inputs; i++) {
        const struct mu_tensor *t = call->in[i].tensor;

        at += (size_t)snprintf(text + at, sizeof text - at, " [");
        for (size_t k = 0; k < t->count && (most < 0 || k < (size_t)most) && at + 260 < sizeof text; k++) {
            element_text(t, k, text + at, sizeof text - at);
            at += strlen(text + at);
        }
        if (at + 260 >= sizeof text)
            break;
        at += (size_t)snprintf(text + at, sizeof text - at, "]");
    }
    return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "assertion failed:%s", text);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Numbers as a vector of an output's type, or as a scalar. */
static enum mu_run numbers_give(struct mu_kernel_call *call, uint32_t output, const int64_t *numbers, uint32_t count,
                                uint32_t rank)
{
    unsigned dtype = call->node->out_types[output];
    struct mu_dims shape = {.rank = rank, .dim = {count}};
    struct mu_tensor *out = mu_run_output(call, output, dtype, &shape);

    if (!out)
        return MU_RUN_FAILED;
    for (uint32_t k = 0; k < count; k++) {
        if (dtype == MU_INT32 && numbers[k] > INT32_MAX)
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Shape output type is 32-bit but shape is larger");
        if (dtype == MU_INT32)
            out->i[k] = (int32_t)numbers[k];
        else
            out->l[k] = numbers[k];
    }
    return MU_RUN_DONE;
}

enum mu_run mu_run_shape(struct mu_kernel_call *call)
{
    const struct mu_dims *shape = &call->in[0].tensor->shape;

    return numbers_give(call, 0, shape->dim, shape->rank, 1);
}

enum mu_run mu_run_rank(struct mu_kernel_call *call)
{
    int64_t rank = call->in[0].tensor->shape.rank;

    return numbers_give(call, 0, &rank, 1, 0);
}

enum mu_run mu_run_size(struct mu_kernel_call *call)
{
    int64_t count = (int64_t)call->in[0].tensor->count;

    return numbers_give(call, 0, &count, 1, 0);
}

static enum mu_run view_give(struct mu_kernel_call *call, const struct mu_dims *shape)
{
    call->out[0].tensor = mu_tensor_view(call->in[0].tensor, shape, &call->error);
    return call->out[0].tensor ? MU_RUN_DONE : MU_RUN_FAILED;
}

enum mu_run mu_run_reshape(struct mu_kernel_call *call)
{
    const struct mu_tensor *in = call->in[0].tensor;
    struct mu_dims shape = {0};
    int unknown = -1;
    size_t count;
    char text[192];

    if (!mu_run_numbers(call, 1, "sizes input", MU_TENSOR_DIMS, shape.dim, &shape.rank))
        return MU_RUN_FAILED;
    for (uint32_t k = 0; k < shape.rank; k++)
        if (shape.dim[k] == -1 && unknown < 0) {
            unknown = (int)k;
            shape.dim[k] = 1;
        } else if (shape.dim[k] < 0) {
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                               shape.dim[k] == -1 ? "Only one input size may be -1, not both %d and %u"
                                                  : "Size %d must be non-negative, not that of dimension %u",
                               shape.dim[k] == -1 ? unknown : (int)k, k);
        }
    if (!mu_dims_count(&shape, &count))
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Shape %s would have too many elements",
                           mu_dims_text(&shape, text));
    if (unknown >= 0 && count > 0 && in->count % count == 0) {
        shape.dim[unknown] = (int64_t)(in->count / count);
        count = in->count;
    }
    if (count != in->count)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Input to reshape is a tensor with %zu values, but the requested shape %s %zu", in->count,
                           unknown >= 0 ? "requires a multiple of" : "has", count);
    return view_give(call, &shape);
}

enum mu_run mu_run_expand(struct mu_kernel_call *call)
{
    const struct mu_dims *in = &call->in[0].tensor->shape;
    struct mu_dims shape = {.rank = in->rank + 1};
    uint32_t count;
    int64_t at;

    if (!mu_run_numbers(call, 1, "'dim'", 1, &at, &count) || count != 1 || in->rank == MU_TENSOR_DIMS)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Dimension to expand is no scalar, or one too many");
    at = at < 0 ? at + in->rank + 1 : at;
    if (at < 0 || at > (int64_t)in->rank)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Tried to expand dim index %lld for tensor with %u dimensions.", (long long)at, in->rank);
    for (uint32_t k = 0; k < shape.rank; k++)
        shape.dim[k] = k < at ? in->dim[k] : k == at ? 1 : in->dim[k - 1];
    return view_give(call, &shape);
}

enum mu_run mu_run_squeeze(struct mu_kernel_call *call)
{
    const struct mu_dims *in = &call->in[0].tensor->shape;
    const Mu__Graph__ListValue *dims = mu_attr_list(call->node, "squeeze_dims");
    bool drops[MU_TENSOR_DIMS];
    struct mu_dims shape = {0};

    for (uint32_t k = 0; k < in->rank; k++)
        drops[k] = dims->n_i == 0 && in->dim[k] == 1;
    for (size_t k = 0; k < dims->n_i; k++) {
        int64_t at = dims->i[k] < 0 ? dims->i[k] + in->rank : dims->i[k];

        if (at < 0 || at >= (int64_t)in->rank || in->dim[at] != 1)
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Can not squeeze dim[%lld], expected a dimension of 1",
                               (long long)at);
        drops[at] = true;
    }
    for (uint32_t k = 0; k < in->rank; k++)
        if (!drops[k])
            shape.dim[shape.rank++] = in->dim[k];
    return view_give(call, &shape);
}

/* Which dimensions of the two were broadcast, so that a gradient is summed over them. */
enum mu_run mu_run_broadcast_args(struct mu_kernel_call *call)
{
    struct mu_dims s[2] = {0}, both;
    int64_t sums[2][MU_TENSOR_DIMS];
    uint32_t counts[2] = {0};

    for (uint32_t i = 0; i < 2; i++)
        if (!mu_run_numbers(call, i, "In", MU_TENSOR_DIMS, s[i].dim, &s[i].rank))
            return MU_RUN_FAILED;
    if (!mu_dims_broadcast(&s[0], &s[1], &both))
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Incompatible shapes: they cannot be broadcast");
    for (uint32_t k = 0; k < both.rank; k++)
        for (int i = 0; i < 2; i++) {
            uint32_t missing = both.rank - s[i].rank;
            bool one = k < missing || s[i].dim[k - missing] == 1;

            /* Where both have one, both are summed over it, which changes nothing; TensorFlow says so, too. */
            if (one && !mu_dims_is_same(&s[0], &s[1]))
                sums[i][counts[i]++] = k;
        }
    return numbers_give(call, 0, sums[0], counts[0], 1) == MU_RUN_DONE ? numbers_give(call, 1, sums[1], counts[1], 1)
                                                                       : MU_RUN_FAILED;
}
