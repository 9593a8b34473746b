/*
 * kernel/element.c: kernels that go element by element, and how two shapes become one.
 *
 * A row is a run of elements along the last dimension, of which an operand is either stepped through or stays. Whole
 * numbers wrap around as they do in TensorFlow.
 */
#include "kernel/private.h"

#include <math.h>
#include <string.h>

/* `n` elements; a's and b's step is 0 or 1. False: a division by zero. */
typedef bool row_fn(size_t n, const void *a, size_t a_step, const void *b, size_t b_step, void *out);

#define ROW(name, type, to, expr)                                                                                      \
    static bool name(size_t n, const void *va, size_t as, const void *vb, size_t bs, void *vo)                         \
    {                                                                                                                  \
        const type *pa = va, *pb = vb;                                                                                 \
        to *out = vo;                                                                                                  \
                                                                                                                       \
        for (size_t k = 0; k < n; k++) {                                                                               \
            type a = pa[k * as], b = pb[k * bs];                                                                       \
                                                                                                                       \
            out[k] = (to)(expr);                                                                                       \
        }                                                                                                              \
        return true;                                                                                                   \
    }
#define ROW_DIVIDES(name, type, unsigned_type, expr)                                                                   \
    static bool name(size_t n, const void *va, size_t as, const void *vb, size_t bs, void *vo)                         \
    {                                                                                                                  \
        const type *pa = va, *pb = vb;                                                                                 \
        type *out = vo;                                                                                                \
                                                                                                                       \
        for (size_t k = 0; k < n; k++) {                                                                               \
            type a = pa[k * as], b = pb[k * bs];                                                                       \
                                                                                                                       \
            if (b == 0)                                                                                                \
                return false;                                                                                          \
            if (b == -1) { /* the least number has no opposite */                                                      \
                a = (type)((unsigned_type)0 - (unsigned_type)a);                                                       \
                b = 1;                                                                                                 \
            }                                                                                                          \
            out[k] = (type)(expr);                                                                                     \
        }                                                                                                              \
        return true;                                                                                                   \
    }

static double power_real(double a, double b)
{
    return pow(a, b);
}

/* 0 of what is negative but for 1 and -1, as a division has it. */
static int64_t power_whole(int64_t a, int64_t b)
{
    uint64_t result = 1, by = (uint64_t)a;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b > 0; b >>= 1) {
        if (b & 1)
            result *= by;
        by *= by;
    }
    return (int64_t)result;
}

#define REAL_ROWS(letter, type, fl, fm)                                                                                \
    ROW(add_##letter, type, type, a + b)                                                                               \
    ROW(sub_##letter, type, type, a - b)                                                                               \
    ROW(mul_##letter, type, type, a *b)                                                                                \
    ROW(div_##letter, type, type, a / b)                                                                               \
    ROW(floordiv_##letter, type, type, fl(a / b))                                                                      \
    ROW(floormod_##letter, type, type, fm(a, b) != 0 && (fm(a, b) < 0) != (b < 0) ? fm(a, b) + b : fm(a, b))           \
    ROW(maximum_##letter, type, type, a < b || b != b ? b : a)                                                         \
    ROW(minimum_##letter, type, type, b < a || b != b ? b : a)                                                         \
    ROW(sqdiff_##letter, type, type, (a - b) * (a - b))                                                                \
    ROW(pow_##letter, type, type, power_real(a, b))
#define WHOLE_ROWS(letter, type, u)                                                                                    \
    ROW(add_##letter, type, type, (u)a + (u)b)                                                                         \
    ROW(sub_##letter, type, type, (u)a - (u)b)                                                                         \
    ROW(mul_##letter, type, type, (u)a *(u)b)                                                                          \
    ROW_DIVIDES(div_##letter, type, u, a / b)                                                                          \
    ROW_DIVIDES(floordiv_##letter, type, u, a / b - (a % b != 0 && (a < 0) != (b < 0)))                                \
    ROW_DIVIDES(floormod_##letter, type, u, b == 1 ? 0 : (a % b != 0 && (a < 0) != (b < 0)) ? a % b + b : a % b)       \
    ROW(maximum_##letter, type, type, a < b ? b : a)                                                                   \
    ROW(minimum_##letter, type, type, b < a ? b : a)                                                                   \
    ROW(sqdiff_##letter, type, type, ((u)a - (u)b) * ((u)a - (u)b))                                                    \
    ROW(pow_##letter, type, type, power_whole(a, b))
#define COMPARE_ROWS(letter, type)                                                                                     \
    ROW(equal_##letter, type, uint8_t, a == b)                                                                         \
    ROW(notequal_##letter, type, uint8_t, a != b)                                                                      \
    ROW(less_##letter, type, uint8_t, a < b)                                                                           \
    ROW(lessequal_##letter, type, uint8_t, a <= b)                                                                     \
    ROW(greater_##letter, type, uint8_t, a > b)                                                                        \
    ROW(greaterequal_##letter, type, uint8_t, a >= b)

REAL_ROWS(f, float, floorf, fmodf)
REAL_ROWS(d, double, floor, fmod)
WHOLE_ROWS(i, int32_t, uint32_t)
WHOLE_ROWS(l, int64_t, uint64_t)
COMPARE_ROWS(f, float)
COMPARE_ROWS(d, double)
COMPARE_ROWS(i, int32_t)
COMPARE_ROWS(l, int64_t)
ROW(equal_b, uint8_t, uint8_t, a == b)
ROW(notequal_b, uint8_t, uint8_t, a != b)
ROW(and_b, uint8_t, uint8_t, a &b)
ROW(or_b, uint8_t, uint8_t, a | b)

static bool string_is(const struct mu_kernel_string *a, const struct mu_kernel_string *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

#define STRING_ROW(name, is)                                                                                           \
    static bool name(size_t n, const void *va, size_t as, const void *vb, size_t bs, void *vo)                         \
    {                                                                                                                  \
        const struct mu_kernel_string *a = va, *b = vb;                                                                \
        uint8_t *out = vo;                                                                                             \
                                                                                                                       \
        for (size_t k = 0; k < n; k++)                                                                                 \
            out[k] = string_is(&a[k * as], &b[k * bs]) == (is);                                                        \
        return true;                                                                                                   \
    }
STRING_ROW(equal_s, true)
STRING_ROW(notequal_s, false)

#define FOUR(name)                                                                                                     \
    {                                                                                                                  \
        [MU_FLOAT] = name##_f, [MU_DOUBLE] = name##_d, [MU_INT32] = name##_i, [MU_INT64] = name##_l                    \
    }
static row_fn *const rows[][MU_BOOL + 1] = {
    [MU_ADD] = FOUR(add),
    [MU_SUB] = FOUR(sub),
    [MU_MUL] = FOUR(mul),
    [MU_DIV] = FOUR(div),
    [MU_FLOORDIV] = FOUR(floordiv),
    [MU_FLOORMOD] = FOUR(floormod),
    [MU_MAXIMUM] = FOUR(maximum),
    [MU_MINIMUM] = FOUR(minimum),
    [MU_SQDIFF] = FOUR(sqdiff),
    [MU_POW] = FOUR(pow),
    [MU_EQUAL] = {0, equal_f, equal_d, equal_i, 0, 0, 0, equal_s, 0, equal_l, equal_b},
    [MU_NOTEQUAL] = {0, notequal_f, notequal_d, notequal_i, 0, 0, 0, notequal_s, 0, notequal_l, notequal_b},
    [MU_LESS] = FOUR(less),
    [MU_LESSEQUAL] = FOUR(lessequal),
    [MU_GREATER] = FOUR(greater),
    [MU_GREATEREQUAL] = FOUR(greaterequal),
    [MU_AND] = {[MU_BOOL] = and_b},
    [MU_OR] = {[MU_BOOL] = or_b},
};

/* ---- two operands ------------------------------------------------------------------------------------------------ */

bool mu_dims_broadcast(const struct mu_dims *a, const struct mu_dims *b, struct mu_dims *ret_shape)
{
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;

    *ret_shape = (struct mu_dims){.rank = rank};
    for (uint32_t k = 0; k < rank; k++) { /* from the last dimension */
        int64_t da = k < a->rank ? a->dim[a->rank - 1 - k] : 1, db = k < b->rank ? b->dim[b->rank - 1 - k] : 1;

        if (da != db && da != 1 && db != 1)
            return false;
        ret_shape->dim[rank - 1 - k] = da == 1 ? db : da;
    }
    return true;
}

/* How far an operand's element moves with each of the result's dimensions: 0 where the operand has one alone. */
static void steps_of(const struct mu_dims *shape, const struct mu_dims *out, size_t steps[MU_TENSOR_DIMS])
{
    size_t step = 1;

    for (uint32_t k = 0; k < out->rank; k++) {
        uint32_t at = out->rank - 1 - k;
        int64_t dim = k < shape->rank ? shape->dim[shape->rank - 1 - k] : 1;

        steps[at] = dim == 1 ? 0 : step;
        step *= (size_t)dim;
    }
}

/* Each row of the result: where its operands' elements begin. */
struct walk {
    const struct mu_dims *out;
    size_t a_steps[MU_TENSOR_DIMS], b_steps[MU_TENSOR_DIMS], a, b;
    int64_t at[MU_TENSOR_DIMS];
};

static void walk_next(struct walk *w)
{
    for (uint32_t k = w->out->rank - 1; k-- > 0;) {
        w->a += w->a_steps[k];
        w->b += w->b_steps[k];
        if (++w->at[k] < w->out->dim[k])
            return;
        w->a -= w->a_steps[k] * (size_t)w->at[k];
        w->b -= w->b_steps[k] * (size_t)w->at[k];
        w->at[k] = 0;
    }
}

typedef bool walk_row(void *arg, size_t n, size_t a, size_t a_step, size_t b, size_t b_step, size_t out);

static bool walk_rows(const struct mu_tensor *a, const struct mu_tensor *b, const struct mu_tensor *out, walk_row *row,
                      void *arg)
{
    struct walk w = {.out = &out->shape};
    size_t n;

    if (out->count == 0)
        return true;
    if (a->count == out->count && b->count == out->count)
        return row(arg, out->count, 0, 1, 0, 1, 0);
    if (a->count == 1 || b->count == 1)
        return row(arg, out->count, 0, a->count != 1, 0, b->count != 1, 0);
    steps_of(&a->shape, &out->shape, w.a_steps);
    steps_of(&b->shape, &out->shape, w.b_steps);
    n = (size_t)out->shape.dim[out->shape.rank - 1];
    for (size_t at = 0; at < out->count; at += n) {
        if (!row(arg, n, w.a, w.a_steps[out->shape.rank - 1], w.b, w.b_steps[out->shape.rank - 1], at))
            return false;
        walk_next(&w);
    }
    return true;
}

struct binary {
    row_fn *row;
    const struct mu_tensor *a, *b;
    struct mu_tensor *out;
    struct mu_kernel_error *error;
};

static bool binary_row(void *arg, size_t n, size_t a, size_t a_step, size_t b, size_t b_step, size_t out)
{
    struct binary *f = arg;
    size_t size = mu_dtype_size(f->a->dtype);

    return f->row(n, (const uint8_t *)f->a->data + a * size, a_step, (const uint8_t *)f->b->data + b * size, b_step,
                  (uint8_t *)f->out->data + out * mu_dtype_size(f->out->dtype));
}

/* Strings are joined. */
static bool string_row(void *arg, size_t n, size_t a, size_t a_step, size_t b, size_t b_step, size_t out)
{
    struct binary *f = arg;

    for (size_t k = 0; k < n; k++) {
        const struct mu_kernel_string *sa = &f->a->s[a + k * a_step], *sb = &f->b->s[b + k * b_step];
        char *both = NULL;
        bool good;

        if (sa->len + sb->len == 0)
            continue;
        both = __builtin_malloc(sa->len + sb->len);
        if (!both)
            return mu_kernel_fail(f->error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
        if (sa->len > 0)
            memcpy(both, sa->bytes, sa->len);
        if (sb->len > 0)
            memcpy(both + sa->len, sb->bytes, sb->len);
        good = mu_tensor_string_set(f->out, out + k, both, sa->len + sb->len, f->error);
        __builtin_free(both);
        if (!good)
            return false;
    }
    return true;
}

enum mu_run mu_run_binary(struct mu_kernel_call *call)
{
    struct mu_tensor *a = call->in[0].tensor, *b = call->in[1].tensor;
    struct binary f = {.row = rows[call->node->op->which][a->dtype], .a = a, .b = b, .error = &call->error};
    struct mu_dims shape;
    char ta[192], tb[192];

    if (!mu_dims_broadcast(&a->shape, &b->shape, &shape))
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", mu_dims_text(&a->shape, ta),
                           mu_dims_text(&b->shape, tb));
    f.out = mu_run_output(call, 0, call->node->out_types[0], &shape);
    if (!f.out)
        return MU_RUN_FAILED;
    if (walk_rows(a, b, f.out, f.row ? binary_row : string_row, &f))
        return MU_RUN_DONE;
    return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Integer division by zero");
}

void mu_numbers_change(enum mu_binary what, struct mu_tensor *to, const struct mu_tensor *by, size_t at, size_t count)
{
    size_t size = mu_dtype_size(to->dtype);
    uint8_t *first = (uint8_t *)to->data + at * size;

    rows[what][to->dtype](count, first, 1, (const uint8_t *)by->data + at * size, 1, first);
}

enum mu_run mu_run_addn(struct mu_kernel_call *call)
{
    const struct mu_tensor *first = call->in[0].tensor;
    struct mu_tensor *out = mu_run_output(call, 0, first->dtype, &first->shape);

    if (!out)
        return MU_RUN_FAILED;
    mu_tensor_copy(out, 0, first, 0, first->count, &call->error);
    for (uint32_t k = 1; k < call->node->num_inputs; k++) {
        const struct mu_tensor *more = call->in[k].tensor;

        if (!mu_dims_is_same(&more->shape, &first->shape))
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                               "Inputs to operation %s of type AddN must have the same size and shape.",
                               call->node->def->name);
        mu_numbers_change(MU_ADD, out, more, 0, out->count);
    }
    return MU_RUN_DONE;
}

/* ---- one operand ------------------------------------------------------------------------------------------------- */

static void unary_real(enum mu_unary what, size_t n, const struct mu_tensor *in, struct mu_tensor *out)
{
#define CASE(code, expr_f, expr_d)                                                                                     \
    case code:                                                                                                         \
        if (in->dtype == MU_FLOAT) {                                                                                   \
            EACH_OF(float, f, expr_f)                                                                                  \
        } else {                                                                                                       \
            EACH_OF(double, d, expr_d)                                                                                 \
        }                                                                                                              \
        break;
#define EACH_OF(type, member, expr)                                                                                    \
    for (size_t k = 0; k < n; k++) {                                                                                   \
        type x = in->member[k];                                                                                        \
                                                                                                                       \
        out->member[k] = (type)(expr);                                                                                 \
    }
    switch (what) {
        CASE(MU_NEG, -x, -x)
        CASE(MU_SQUARE, x * x, x * x)
        CASE(MU_SQRT, sqrtf(x), sqrt(x))
        CASE(MU_RSQRT, 1 / sqrtf(x), 1 / sqrt(x))
        CASE(MU_EXP, expf(x), exp(x))
        CASE(MU_LOG, logf(x), log(x))
        CASE(MU_ABS, fabsf(x), fabs(x))
        CASE(MU_SIGN, x > 0 ? 1 : x < 0 ? -1 : x, x > 0 ? 1 : x < 0 ? -1 : x)
        CASE(MU_TANH, tanhf(x), tanh(x))
        CASE(MU_SIGMOID, 1 / (1 + expf(-x)), 1 / (1 + exp(-x)))
        CASE(MU_RELU, x > 0 || x != x ? x : 0, x > 0 || x != x ? x : 0)
        CASE(MU_RECIPROCAL, 1 / x, 1 / x)
        CASE(MU_FLOOR, floorf(x), floor(x))
    default: /* MU_ONES; zeros are there */
        if (in->dtype == MU_FLOAT) {
            EACH_OF(float, f, ((void)x, 1))
        } else {
            EACH_OF(double, d, ((void)x, 1))
        }
    }
#undef CASE
#undef EACH_OF
}

static int64_t unary_whole(enum mu_unary what, int64_t x)
{
    switch (what) {
    case MU_NEG: return (int64_t)(0 - (uint64_t)x);
    case MU_SQUARE: return (int64_t)((uint64_t)x * (uint64_t)x);
    case MU_ABS: return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case MU_SIGN: return (x > 0) - (x < 0);
    case MU_RELU: return x > 0 ? x : 0;
    case MU_NOT: return !x;
    default: return 1;
    }
}

enum mu_run mu_run_unary(struct mu_kernel_call *call)
{
    const struct mu_tensor *in = call->in[0].tensor;
    enum mu_unary what = (enum mu_unary)call->node->op->which;
    struct mu_tensor *out = mu_run_output(call, 0, in->dtype, &in->shape);

    if (!out)
        return MU_RUN_FAILED;
    if (what == MU_ZEROS)
        return MU_RUN_DONE;
    if (in->dtype == MU_FLOAT || in->dtype == MU_DOUBLE)
        unary_real(what, in->count, in, out);
    else
        for (size_t k = 0; k < in->count; k++)
            if (in->dtype == MU_INT32)
                out->i[k] = (int32_t)unary_whole(what, in->i[k]);
            else if (in->dtype == MU_INT64)
                out->l[k] = unary_whole(what, in->l[k]);
            else
                out->b[k] = (uint8_t)unary_whole(what, in->b[k]);
    return MU_RUN_DONE;
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

/* As x86 has it: what does not fit is the least number. */
static int64_t whole_of(double x, int64_t least)
{
    return x >= (double)least && x < -(double)least ? (int64_t)x : least;
}

static void cast_to(const struct mu_tensor *in, size_t k, struct mu_tensor *out)
{
    bool is_whole = in->dtype == MU_INT32 || in->dtype == MU_INT64 || in->dtype == MU_BOOL;
    int64_t whole = in->dtype == MU_INT32 ? in->i[k] : in->dtype == MU_INT64 ? in->l[k] : is_whole ? in->b[k] : 0;
    double real = is_whole ? (double)whole : in->dtype == MU_FLOAT ? (double)in->f[k] : in->d[k];

    switch (out->dtype) {
    case MU_FLOAT: out->f[k] = is_whole ? (float)whole : (float)real; break;
    case MU_DOUBLE: out->d[k] = real; break;
    case MU_INT32: out->i[k] = (int32_t)(is_whole ? whole : whole_of(real, INT32_MIN)); break;
    case MU_INT64: out->l[k] = is_whole ? whole : whole_of(real, INT64_MIN); break;
    default: out->b[k] = is_whole ? whole != 0 : real != 0;
    }
}

enum mu_run mu_run_cast(struct mu_kernel_call *call)
{
    const struct mu_tensor *in = call->in[0].tensor;
    struct mu_tensor *out = mu_run_output(call, 0, call->node->out_types[0], &in->shape);

    if (!out)
        return MU_RUN_FAILED;
    for (size_t k = 0; k < in->count; k++)
        cast_to(in, k, out);
    return MU_RUN_DONE;
}
