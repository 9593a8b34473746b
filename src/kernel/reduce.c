/*
 * kernel/reduce.c: sums and their like over some dimensions. They are summed up in double, or int64.
 */
#include "kernel/private.h"

#include <math.h>

struct reduction {
    const struct mu_tensor *in;
    struct mu_tensor *sum;        /* MU_DOUBLE or MU_INT64 */
    size_t steps[MU_TENSOR_DIMS]; /* of the sum, with each dimension of the input: 0 where it is reduced */
    enum mu_reduction what;
};

static bool axes_read(struct mu_kernel_call *call, bool is_reduced[MU_TENSOR_DIMS])
{
    const struct mu_dims *shape = &call->in[0].tensor->shape;
    int64_t axes[64];
    uint32_t count;

    if (!mu_run_numbers(call, 1, "reduction_indices", 64, axes, &count))
        return false;
    for (uint32_t k = 0; k < count; k++) {
        int64_t at = axes[k] < 0 ? axes[k] + shape->rank : axes[k];

        if (at < 0 || at >= (int64_t)shape->rank)
            return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                                  "Invalid reduction dimension (%lld for input with %u dimension(s)",
                                  (long long)axes[k], shape->rank);
        if (is_reduced[at])
            return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                                  "Invalid reduction arguments: Axes contains duplicate dimension: %lld",
                                  (long long)at);
        is_reduced[at] = true;
    }
    return true;
}

static double real_at(const struct mu_tensor *t, size_t k)
{
    return t->dtype == MU_FLOAT ? (double)t->f[k] : t->d[k];
}

static int64_t whole_at(const struct mu_tensor *t, size_t k)
{
    return t->dtype == MU_INT32 ? t->i[k] : t->dtype == MU_INT64 ? t->l[k] : t->b[k];
}

static void reduce_one(const struct reduction *r, size_t from, size_t to)
{
    if (r->sum->dtype == MU_DOUBLE) {
        double x = real_at(r->in, from), *sum = &r->sum->d[to];

        if (r->what == MU_SUM || r->what == MU_MEAN)
            *sum += x;
        else if (r->what == MU_PROD)
            *sum *= x;
        else if (x != x || (r->what == MU_MAX ? x > *sum : x < *sum))
            *sum = x;
    } else {
        int64_t x = whole_at(r->in, from), *sum = &r->sum->l[to];

        if (r->what == MU_SUM || r->what == MU_MEAN)
            *sum = (int64_t)((uint64_t)*sum + (uint64_t)x);
        else if (r->what == MU_PROD)
            *sum = (int64_t)((uint64_t)*sum * (uint64_t)x);
        else if (r->what == MU_MAX || r->what == MU_ANY ? x > *sum : x < *sum)
            *sum = x;
    }
}

static void reduce_all(const struct mu_kernel_call *call, const struct reduction *r)
{
    const struct mu_dims *shape = &r->in->shape;
    int64_t at[MU_TENSOR_DIMS] = {0};
    size_t to = 0;

    for (size_t from = 0; from < r->in->count && !(from % MU_GLANCE == 0 && mu_run_gives_up(call)); from++) {
        reduce_one(r, from, to);
        for (uint32_t k = shape->rank; k-- > 0;) {
            to += r->steps[k];
            if (++at[k] < shape->dim[k])
                break;
            to -= r->steps[k] * (size_t)at[k];
            at[k] = 0;
        }
    }
}

/* What nothing is added to. */
static void sum_begin(const struct reduction *r)
{
    enum mu_reduction what = r->what;

    for (size_t k = 0; k < r->sum->count; k++)
        if (r->sum->dtype == MU_DOUBLE)
            r->sum->d[k] = what == MU_PROD ? 1 : what == MU_MAX ? -INFINITY : what == MU_MIN ? INFINITY : 0;
        else if (what == MU_PROD || what == MU_ALL)
            r->sum->l[k] = 1;
        else if (what == MU_MAX)
            r->sum->l[k] = r->in->dtype == MU_INT32 ? INT32_MIN : INT64_MIN;
        else if (what == MU_MIN)
            r->sum->l[k] = r->in->dtype == MU_INT32 ? INT32_MAX : INT64_MAX;
}

static void sum_end(const struct reduction *r, struct mu_tensor *out)
{
    size_t n = out->count ? r->in->count / out->count : 0; /* elements of each sum */

    for (size_t k = 0; k < out->count; k++) {
        double d = r->sum->dtype == MU_DOUBLE ? r->sum->d[k] : 0;
        int64_t l = r->sum->dtype == MU_INT64 ? r->sum->l[k] : 0;

        if (r->what == MU_MEAN) {
            d /= (double)n;
            l = n ? l / (int64_t)n : 0;
        }
        if (out->dtype == MU_FLOAT)
            out->f[k] = (float)d;
        else if (out->dtype == MU_DOUBLE)
            out->d[k] = d;
        else if (out->dtype == MU_INT32)
            out->i[k] = (int32_t)l;
        else if (out->dtype == MU_INT64)
            out->l[k] = l;
        else
            out->b[k] = (uint8_t)l;
    }
}

enum mu_run mu_run_reduce(struct mu_kernel_call *call)
{
    const struct mu_tensor *in = call->in[0].tensor;
    bool is_reduced[MU_TENSOR_DIMS] = {0}, keeps, is_real = in->dtype == MU_FLOAT || in->dtype == MU_DOUBLE;
    struct reduction r = {.in = in, .what = (enum mu_reduction)call->node->op->which};
    struct mu_dims shape = {0};
    struct mu_tensor *out;
    size_t step = 1;

    if (!axes_read(call, is_reduced))
        return MU_RUN_FAILED;
    keeps = mu_attr_bool(call->node, "keep_dims");
    for (uint32_t k = 0; k < in->shape.rank; k++)
        if (!is_reduced[k])
            shape.dim[shape.rank++] = in->shape.dim[k];
        else if (keeps)
            shape.dim[shape.rank++] = 1;
    for (uint32_t k = in->shape.rank; k-- > 0;)
        if (!is_reduced[k]) {
            r.steps[k] = step;
            step *= (size_t)in->shape.dim[k];
        }
    out = mu_run_output(call, 0, in->dtype, &shape);
    r.sum = out ? mu_tensor_new(in->memory, is_real ? MU_DOUBLE : MU_INT64, &shape, &call->error) : NULL;
    if (!r.sum)
        return MU_RUN_FAILED;
    sum_begin(&r);
    reduce_all(call, &r);
    sum_end(&r, out);
    mu_tensor_drop(r.sum);
    return mu_run_gives_up(call) ? mu_run_give_up(call) : MU_RUN_DONE;
}
