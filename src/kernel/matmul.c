/*
 * kernel/matmul.c: products of matrices: by a BLAS that is opened when there is one, else by own loops.
 */
#include "kernel/private.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* CBLAS's */
#define AT_ONCE (1ull << 33) /* multiplications that a BLAS is given, which cannot be stopped: a second's, about */

static struct {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc);
} blas;

static void blas_open(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", "libcblas.so.3"};

    for (size_t k = 0; k < sizeof names / sizeof names[0] && !blas.dgemm; k++) {
        void *handle = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
        void *s = handle ? dlsym(handle, "cblas_sgemm") : NULL, *d = handle ? dlsym(handle, "cblas_dgemm") : NULL;

        if (s && d) {
            blas.sgemm = (__typeof__(blas.sgemm))s;
            blas.dgemm = (__typeof__(blas.dgemm))d;
        } else if (handle) {
            dlclose(handle);
        }
    }
}

/* a: m rows of k, where a_m and a_k are how far its elements are apart; likewise b. */
struct sizes {
    const struct mu_kernel_call *call;
    size_t m, n, k, a_m, a_k, b_k, b_n;
    bool ta, tb;
};

#define PRODUCT(name, type, plus)                                                                                      \
    static void name(const struct sizes *s, const type *a, const type *b, type *out)                                   \
    {                                                                                                                  \
        for (size_t i = 0; i < s->m && !mu_run_gives_up(s->call); i++)                                                 \
            for (size_t l = 0; l < s->k; l++) {                                                                        \
                type x = a[i * s->a_m + l * s->a_k];                                                                   \
                                                                                                                       \
                for (size_t j = 0; j < s->n; j++)                                                                      \
                    out[i * s->n + j] = (type)((plus)out[i * s->n + j] + (plus)x * (plus)b[l * s->b_k + j * s->b_n]);  \
            }                                                                                                          \
    }
PRODUCT(product_f, float, float)
PRODUCT(product_d, double, double)
PRODUCT(product_i, int32_t, uint32_t)
PRODUCT(product_l, int64_t, uint64_t)

static bool blas_multiply(const struct sizes *s, const struct mu_tensor *a, const struct mu_tensor *b,
                          struct mu_tensor *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int ta = s->ta ? TRANS : NO_TRANS, tb = s->tb ? TRANS : NO_TRANS;
    int lda = (int)a->shape.dim[1], ldb = (int)b->shape.dim[1], n = (int)s->n, k = (int)s->k;
    size_t rows;

    if ((out->dtype != MU_FLOAT && out->dtype != MU_DOUBLE) || out->count == 0 || s->k == 0 || s->m > INT_MAX ||
        s->n > INT_MAX || s->k > INT_MAX)
        return false;
    pthread_once(&once, blas_open);
    if (!blas.dgemm)
        return false;
    rows = AT_ONCE / s->n / s->k + 1;
    for (size_t i = 0; i < s->m && !mu_run_gives_up(s->call); i += rows) {
        int m = (int)(s->m - i < rows ? s->m - i : rows);

        if (out->dtype == MU_FLOAT)
            blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a->f + i * s->a_m, lda, b->f, ldb, 0, out->f + i * s->n, n);
        else
            blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a->d + i * s->a_m, lda, b->d, ldb, 0, out->d + i * s->n, n);
    }
    return true;
}

enum mu_run mu_run_matmul(struct mu_kernel_call *call)
{
    const struct mu_tensor *a = call->in[0].tensor, *b = call->in[1].tensor;
    struct sizes s = {
        .call = call, .ta = mu_attr_bool(call->node, "transpose_a"), .tb = mu_attr_bool(call->node, "transpose_b")};
    struct mu_dims shape = {.rank = 2};
    struct mu_tensor *out;
    char ta[192], tb[192];

    if (a->shape.rank != 2 || b->shape.rank != 2)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "In[0] and In[1] has different ndims: %s vs. %s",
                           mu_dims_text(&a->shape, ta), mu_dims_text(&b->shape, tb));
    if (a->shape.dim[!s.ta] != b->shape.dim[s.tb])
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: %s, In[1]: %s",
                           mu_dims_text(&a->shape, ta), mu_dims_text(&b->shape, tb));
    s.m = (size_t)a->shape.dim[s.ta];
    s.k = (size_t)a->shape.dim[!s.ta];
    s.n = (size_t)b->shape.dim[!s.tb];
    s.a_m = s.ta ? 1 : s.k;
    s.a_k = s.ta ? s.m : 1;
    s.b_k = s.tb ? 1 : s.n;
    s.b_n = s.tb ? s.k : 1;
    shape.dim[0] = (int64_t)s.m;
    shape.dim[1] = (int64_t)s.n;
    out = mu_run_output(call, 0, a->dtype, &shape);
    if (!out)
        return MU_RUN_FAILED;
    if (out->count == 0) /* its other side may be of any size */
        return MU_RUN_DONE;
    if (blas_multiply(&s, a, b, out))
        ;
    else if (a->dtype == MU_FLOAT)
        product_f(&s, a->f, b->f, out->f);
    else if (a->dtype == MU_DOUBLE)
        product_d(&s, a->d, b->d, out->d);
    else if (a->dtype == MU_INT32)
        product_i(&s, a->i, b->i, out->i);
    else
        product_l(&s, a->l, b->l, out->l);
    return mu_run_gives_up(call) ? mu_run_give_up(call) : MU_RUN_DONE;
}
