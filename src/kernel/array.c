/*
 * kernel/array.c: kernels of elements that change their places.
 */
#include "kernel/private.h"

/* The result's elements in order: where each is in the input. */
struct places {
    size_t first;
    ptrdiff_t steps[MU_TENSOR_DIMS]; /* with each of the result's dimensions */
    int64_t turns[MU_TENSOR_DIMS];   /* and after so many of them it begins again; 0: never */
};

static bool places_copy(struct mu_kernel_call *call, const struct places *p)
{
    const struct mu_tensor *in = call->in[0].tensor;
    struct mu_tensor *out = call->out[0].tensor;
    int64_t at[MU_TENSOR_DIMS] = {0};
    ptrdiff_t from = (ptrdiff_t)p->first;

    for (size_t to = 0; to < out->count; to++) {
        if (to % MU_GLANCE == 0 && mu_run_gives_up(call)) {
            mu_run_give_up(call);
            return false;
        }
        if (!mu_tensor_copy(out, to, in, (size_t)from, 1, &call->error))
            return false;
        for (uint32_t k = out->shape.rank; k-- > 0;) {
            int64_t turn = p->turns[k] ? at[k] % p->turns[k] : at[k];

            if (++at[k] < out->shape.dim[k]) {
                from += p->turns[k] && turn + 1 == p->turns[k] ? -p->steps[k] * turn : p->steps[k];
                break;
            }
            from -= p->steps[k] * turn;
            at[k] = 0;
        }
    }
    return true;
}

static enum mu_run places_give(struct mu_kernel_call *call, const struct mu_dims *shape, const struct places *p)
{
    if (!mu_run_output(call, 0, call->in[0].tensor->dtype, shape))
        return MU_RUN_FAILED;
    return places_copy(call, p) ? MU_RUN_DONE : MU_RUN_FAILED;
}

/* How far apart a dimension's elements are. */
static void shape_steps(const struct mu_dims *shape, ptrdiff_t steps[MU_TENSOR_DIMS])
{
    ptrdiff_t step = 1;

    for (uint32_t k = shape->rank; k-- > 0; step *= (ptrdiff_t)shape->dim[k])
        steps[k] = step;
}

enum mu_run mu_run_tile(struct mu_kernel_call *call)
{
    const struct mu_dims *in = &call->in[0].tensor->shape;
    struct mu_dims shape = {.rank = in->rank};
    struct places p = {0};
    int64_t by[MU_TENSOR_DIMS];
    uint32_t count = 0;

    if (!mu_run_numbers(call, 1, "multiples", MU_TENSOR_DIMS, by, &count) || count != in->rank)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Expected multiples argument to be a vector of length %u but got length %u", in->rank,
                           count);
    shape_steps(in, p.steps);
    for (uint32_t k = 0; k < in->rank; k++) {
        if (by[k] < 0 || __builtin_mul_overflow(by[k], in->dim[k], &shape.dim[k]))
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Expected multiples[%u] >= 0, but got %lld", k,
                               (long long)by[k]);
        p.turns[k] = in->dim[k];
    }
    return places_give(call, &shape, &p);
}

enum mu_run mu_run_transpose(struct mu_kernel_call *call)
{
    const struct mu_dims *in = &call->in[0].tensor->shape;
    struct mu_dims shape = {.rank = in->rank};
    struct places p = {0};
    ptrdiff_t steps[MU_TENSOR_DIMS];
    int64_t perm[MU_TENSOR_DIMS];
    bool is_there[MU_TENSOR_DIMS] = {0};
    uint32_t count;

    if (!mu_run_numbers(call, 1, "perm", MU_TENSOR_DIMS, perm, &count) || count != in->rank)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "transpose expects a vector of size %u", in->rank);
    shape_steps(in, steps);
    for (uint32_t k = 0; k < in->rank; k++) {
        int64_t from = perm[k] < 0 ? perm[k] + in->rank : perm[k];

        if (from < 0 || from >= (int64_t)in->rank || is_there[from])
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "%lld is missing from, or out of range in, perm",
                               (long long)from);
        is_there[from] = true;
        shape.dim[k] = in->dim[from];
        p.steps[k] = steps[from];
    }
    return places_give(call, &shape, &p);
}

/* begin:end:step of one dimension, as Python has it: where it begins, and how many. */
static int64_t slice_range(int64_t *begin, int64_t end, int64_t step, int64_t dim, bool has_begin, bool has_end)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;

    *begin = !has_begin ? (step > 0 ? low : high) : *begin < 0 ? *begin + dim : *begin;
    end = !has_end ? (step > 0 ? high : low) : end < 0 ? end + dim : end;
    *begin = *begin < low ? low : *begin > high ? high : *begin;
    end = end < low ? low : end > high ? high : end;
    if (step > 0)
        return end > *begin ? (end - *begin - 1) / step + 1 : 0;
    return *begin > end ? (*begin - end - 1) / -step + 1 : 0;
}

enum mu_run mu_run_slice(struct mu_kernel_call *call)
{
    const struct mu_kernel_node *node = call->node;
    const struct mu_dims *in = &call->in[0].tensor->shape;
    int64_t ranges[3][32], masks[5], dim = 0;
    static const char *const names[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"};
    uint32_t count[3], named = 0, kept;
    ptrdiff_t steps[MU_TENSOR_DIMS];
    struct mu_dims shape = {0};
    struct places p = {0};

    for (uint32_t k = 0; k < 5; k++)
        masks[k] = mu_attr_int(node, names[k]);
    for (uint32_t k = 0; k < 3; k++)
        if (!mu_run_numbers(call, 1 + k, "begin, end and strides", 32, ranges[k], &count[k]) || count[k] != count[0])
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                               "Expected begin, end, and strides to be 1D equal size tensors");
    for (uint32_t k = 0; k < count[0]; k++)
        named += !(masks[2] >> k & 1) && !(masks[3] >> k & 1);
    if (named > in->rank)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Index out of range using input dim %u; input has only %u dims", in->rank, in->rank);
    kept = in->rank - named; /* what an ellipsis, or the end, stands for */
    shape_steps(in, steps);
    for (uint32_t k = 0; k <= count[0]; k++) {
        bool is_end = k == count[0], is_ellipsis = is_end || masks[2] >> k & 1, shrinks = !is_end && masks[4] >> k & 1;
        int64_t begin = is_end ? 0 : ranges[0][k], end = is_end ? 0 : ranges[1][k], step = is_end ? 1 : ranges[2][k], n;

        if (shape.rank + (is_ellipsis ? kept : 1) > MU_TENSOR_DIMS)
            return mu_run_fail(call, MUSTER_UNIMPLEMENTED, "more than %u dimensions", MU_TENSOR_DIMS);
        if (is_ellipsis) {
            for (; kept > 0; kept--, dim++) {
                shape.dim[shape.rank] = in->dim[dim];
                p.steps[shape.rank++] = steps[dim];
            }
            continue;
        }
        if (masks[3] >> k & 1) {
            shape.dim[shape.rank++] = 1;
            continue;
        }
        if (step == 0 || step == INT64_MIN)
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "strides[%u] must be non-zero", k);
        if (shrinks) {
            int64_t at = begin < 0 ? begin + in->dim[dim] : begin;

            if (at < 0 || at >= in->dim[dim])
                return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "slice index %lld of dimension %lld out of bounds.",
                                   (long long)begin, (long long)dim);
            p.first += (size_t)(at * steps[dim++]);
            continue;
        }
        n = slice_range(&begin, end, step, in->dim[dim], !(masks[0] >> k & 1), !(masks[1] >> k & 1));
        shape.dim[shape.rank] = n;
        if (n > 0)
            p.first += (size_t)(begin * steps[dim]);
        p.steps[shape.rank++] = (ptrdiff_t)(n > 1 ? step * steps[dim] : 0);
        dim++;
    }
    return places_give(call, &shape, &p);
}

enum mu_run mu_run_fill(struct mu_kernel_call *call)
{
    const struct mu_tensor *value = call->in[1].tensor;
    struct mu_dims shape = {0};
    struct mu_tensor *out;

    if (value->count != 1 || value->shape.rank > 0)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "value must be a scalar");
    if (!mu_run_numbers(call, 0, "dims", MU_TENSOR_DIMS, shape.dim, &shape.rank))
        return MU_RUN_FAILED;
    out = mu_run_output(call, 0, value->dtype, &shape);
    for (size_t k = 0; out && k < out->count; k++)
        if (!mu_tensor_copy(out, k, value, 0, 1, &call->error))
            return MU_RUN_FAILED;
    return out ? MU_RUN_DONE : MU_RUN_FAILED;
}

enum mu_run mu_run_pack(struct mu_kernel_call *call)
{
    const struct mu_dims *in = &call->in[0].tensor->shape;
    uint32_t num = call->node->num_inputs;
    struct mu_dims shape = {.rank = in->rank + 1};
    int64_t axis = mu_attr_int(call->node, "axis");
    size_t before = 1, behind = 1;

    axis = axis < 0 ? axis + in->rank + 1 : axis;
    if (axis < 0 || axis > (int64_t)in->rank || in->rank == MU_TENSOR_DIMS)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "axis = %lld not in [%d, %u)", (long long)axis,
                           -(int)in->rank - 1, in->rank + 1);
    for (uint32_t k = 0; k < shape.rank; k++) {
        shape.dim[k] = k < axis ? in->dim[k] : k == axis ? num : in->dim[k - 1];
        before *= k < axis ? (size_t)in->dim[k] : 1;
        behind *= k > axis ? (size_t)in->dim[k - 1] : 1;
    }
    for (uint32_t i = 1; i < num; i++)
        if (!mu_dims_is_same(&call->in[i].tensor->shape, in))
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Shapes of all inputs must match");
    if (!mu_run_output(call, 0, call->in[0].tensor->dtype, &shape))
        return MU_RUN_FAILED;
    if (call->out[0].tensor->count == 0) /* other dimensions may be of any size */
        return MU_RUN_DONE;
    for (size_t b = 0; b < before; b++)
        for (uint32_t i = 0; i < num; i++)
            if (!mu_tensor_copy(call->out[0].tensor, (b * num + i) * behind, call->in[i].tensor, b * behind, behind,
                                &call->error))
                return MU_RUN_FAILED;
    return MU_RUN_DONE;
}

/* params[:, indices, :] along an axis. */
enum mu_run mu_run_gather(struct mu_kernel_call *call)
{
    const struct mu_tensor *in = call->in[0].tensor, *at = call->in[1].tensor;
    struct mu_dims shape = {0};
    size_t before = 1, behind = 1;
    uint32_t count;
    int64_t axis;

    if (!mu_run_numbers(call, 2, "axis", 1, &axis, &count) || count != 1 || mu_attr_int(call->node, "batch_dims") != 0)
        return mu_run_fail(call, MUSTER_UNIMPLEMENTED, "axis must be scalar, and batch_dims 0");
    axis = axis < 0 ? axis + in->shape.rank : axis;
    if (axis < 0 || axis >= (int64_t)in->shape.rank || in->shape.rank - 1 + at->shape.rank > MU_TENSOR_DIMS)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Expected axis in the range [-%u, %u), but got %lld",
                           in->shape.rank, in->shape.rank, (long long)axis);
    for (uint32_t k = 0; k < in->shape.rank; k++) {
        before *= k < axis ? (size_t)in->shape.dim[k] : 1;
        behind *= k > axis ? (size_t)in->shape.dim[k] : 1;
        if (k != axis)
            shape.dim[shape.rank++] = in->shape.dim[k];
        for (uint32_t i = 0; k == axis && i < at->shape.rank; i++)
            shape.dim[shape.rank++] = at->shape.dim[i];
    }
    if (!mu_run_output(call, 0, in->dtype, &shape))
        return MU_RUN_FAILED;
    if (call->out[0].tensor->count == 0 && at->count == 0)
        return MU_RUN_DONE;
    for (size_t b = 0; b < before; b++)
        for (size_t i = 0; i < at->count; i++) {
            int64_t from = at->dtype == MU_INT32 ? at->i[i] : at->l[i];

            if (from < 0 || from >= in->shape.dim[axis])
                return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "indices[%zu] = %lld is not in [0, %lld)", i,
                                   (long long)from, (long long)in->shape.dim[axis]);
            if (!mu_tensor_copy(call->out[0].tensor, (b * at->count + i) * behind, in,
                                (b * (size_t)in->shape.dim[axis] + (size_t)from) * behind, behind, &call->error))
                return MU_RUN_FAILED;
        }
    return MU_RUN_DONE;
}

/* The condition is a scalar, of the same shape, or a vector for the first dimension. */
enum mu_run mu_run_select(struct mu_kernel_call *call)
{
    const struct mu_tensor *is = call->in[0].tensor, *t = call->in[1].tensor, *e = call->in[2].tensor;
    bool by_row = is->shape.rank == 1 && t->shape.rank > 0 && is->shape.dim[0] == t->shape.dim[0];
    struct mu_tensor *out;
    size_t each;

    if (!mu_dims_is_same(&t->shape, &e->shape) ||
        !(is->shape.rank == 0 || by_row || mu_dims_is_same(&is->shape, &t->shape)))
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "'then' and 'else' must have the same size, and the condition fit");
    out = mu_run_output(call, 0, t->dtype, &t->shape);
    each = is->count ? t->count / is->count : 0;
    for (size_t k = 0; out && k < is->count; k++)
        if (!mu_tensor_copy(out, k * each, is->b[k] ? t : e, k * each, each, &call->error))
            return MU_RUN_FAILED;
    return out ? MU_RUN_DONE : MU_RUN_FAILED;
}
