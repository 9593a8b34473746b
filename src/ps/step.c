/*
 * ps/step.c: what pushes make of values: their sum, and the optimizer. Element by element, in the order in which the
 * pushes are given.
 */
#include "ps/private.h"

#include <string.h>

enum { PIECE = 1024 /* numbers that are summed at a time */ };

struct factors {
    double rate, momentum, beta2, epsilon, root; /* root: of Adam's second correction */
};

static double power_of(double x, uint64_t n)
{
    double p = 1;

    for (; n; n >>= 1, x *= x)
        if (n & 1)
            p *= x;
    return p;
}

static struct factors factors_of(const struct ps_step *s)
{
    const struct muster_ps_config *c = &s->ps->config;
    struct factors f = {s->rate, c->momentum, c->beta2, c->epsilon, 1};

    if (c->optimizer == MUSTER_PS_ADAM) {
        f.rate /= 1 - power_of(c->momentum, s->steps);
        f.root = __builtin_sqrt(1 - power_of(c->beta2, s->steps));
    }
    return f;
}

#define STEPS_OF_REAL(T, ROOT)                                                                                         \
    static void T##_sgd(T *to, const T *from, const T *g, const struct factors *f, size_t n)                           \
    {                                                                                                                  \
        T rate = (T)f->rate;                                                                                           \
                                                                                                                       \
        for (size_t i = 0; i < n; i++)                                                                                 \
            to[i] = from[i] - rate * g[i];                                                                             \
    }                                                                                                                  \
    static void T##_momentum(T *to, T *m, const T *from, const T *was, const T *g, const struct factors *f, size_t n)  \
    {                                                                                                                  \
        T rate = (T)f->rate, momentum = (T)f->momentum;                                                                \
                                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T next = momentum * was[i] + g[i];                                                                         \
                                                                                                                       \
            m[i] = next;                                                                                               \
            to[i] = from[i] - rate * next;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void T##_adam(const struct ps_step *s, size_t at, const T *g, const struct factors *f, size_t n)            \
    {                                                                                                                  \
        const T *from = (const T *)s->from[0] + at, *m = (const T *)s->from[1] + at, *v = (const T *)s->from[2] + at;  \
        T *to = (T *)s->to[0] + at, *to_m = (T *)s->to[1] + at, *to_v = (T *)s->to[2] + at;                            \
        T rate = (T)f->rate, b1 = (T)f->momentum, b2 = (T)f->beta2, eps = (T)f->epsilon, root = (T)f->root;            \
                                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T first = b1 * m[i] + (1 - b1) * g[i], second = b2 * v[i] + (1 - b2) * g[i] * g[i];                        \
                                                                                                                       \
            to_m[i] = first;                                                                                           \
            to_v[i] = second;                                                                                          \
            to[i] = from[i] - rate * first / (ROOT(second) / root + eps);                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void T##_apply(const struct ps_step *s, size_t at, const T *g, const struct factors *f, size_t n)           \
    {                                                                                                                  \
        const T *from = (const T *)s->from[0] + at;                                                                    \
        T *to = (T *)s->to[0] + at;                                                                                    \
                                                                                                                       \
        if (s->ps->config.optimizer == MUSTER_PS_ADAM)                                                                 \
            T##_adam(s, at, g, f, n);                                                                                  \
        else if (s->ps->config.optimizer == MUSTER_PS_MOMENTUM)                                                        \
            T##_momentum(to, (T *)s->to[1] + at, from, (const T *)s->from[1] + at, g, f, n);                           \
        else if (s->ps->config.optimizer == MUSTER_PS_SGD)                                                             \
            T##_sgd(to, from, g, f, n);                                                                                \
        else                                                                                                           \
            T##_add(to, from, g, n);                                                                                   \
    }                                                                                                                  \
    static void T##_scale(T *sum, const T *from, uint32_t pushes, size_t n)                                            \
    {                                                                                                                  \
        T factor = (T)1 / (T)pushes;                                                                                   \
                                                                                                                       \
        for (size_t i = 0; i < n; i++)                                                                                 \
            sum[i] = from[i] * factor;                                                                                 \
    }

#define STEPS_OF_INTEGER(T)                                                                                            \
    static void T##_apply(const struct ps_step *s, size_t at, const T *g, const struct factors *f, size_t n)           \
    {                                                                                                                  \
        (void)f;                                                                                                       \
        T##_add((T *)s->to[0] + at, (const T *)s->from[0] + at, g, n);                                                 \
    }                                                                                                                  \
    static void T##_scale(T *sum, const T *from, uint32_t pushes, size_t n)                                            \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            sum[i] = from[i] / (T)pushes;                                                                              \
    }

/* Unsigned types add integers without overflow. */
#define ADD(T, WRAPS)                                                                                                  \
    static void T##_add(T *to, const T *from, const T *g, size_t n)                                                    \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            to[i] = (T)((WRAPS)from[i] + (WRAPS)g[i]);                                                                 \
    }

#define STEP(T)                                                                                                        \
    static void T##_step(const struct ps_step *s, size_t count)                                                        \
    {                                                                                                                  \
        bool averages = (s->ps->config.flags & MUSTER_PS_AVERAGE) && s->num_pushes > 1;                                \
        struct factors f = factors_of(s);                                                                              \
        T sum[PIECE];                                                                                                  \
                                                                                                                       \
        for (size_t at = 0, n; at < count; at += n) {                                                                  \
            const T *g = (const T *)s->pushes[0] + at;                                                                 \
                                                                                                                       \
            n = count - at < PIECE ? count - at : PIECE;                                                               \
            for (uint32_t i = 1; i < s->num_pushes; i++, g = sum)                                                      \
                T##_add(sum, g, (const T *)s->pushes[i] + at, n);                                                      \
            if (averages)                                                                                              \
                T##_scale(sum, g, s->num_pushes, n);                                                                   \
            T##_apply(s, at, g, &f, n);                                                                                \
        }                                                                                                              \
    }

ADD(float, float)
ADD(double, double)
ADD(int32_t, uint32_t)
ADD(int64_t, uint64_t)
STEPS_OF_REAL(float, __builtin_sqrtf)
STEPS_OF_REAL(double, __builtin_sqrt)
STEPS_OF_INTEGER(int32_t)
STEPS_OF_INTEGER(int64_t)
STEP(float)
STEP(double)
STEP(int32_t)
STEP(int64_t)

void mu_ps_step(const struct ps_step *s, uint64_t count)
{
    static void (*const steps[])(const struct ps_step *, size_t) = {
        [MUSTER_PS_FLOAT] = float_step,
        [MUSTER_PS_DOUBLE] = double_step,
        [MUSTER_PS_INT32] = int32_t_step,
        [MUSTER_PS_INT64] = int64_t_step,
    };

    if (s->sets) {
        memmove(s->to[0], s->pushes[0], count * s->ps->width);
        for (uint32_t i = 1; i <= s->ps->states; i++)
            if (s->to[i] != s->from[i])
                memcpy(s->to[i], s->from[i], count * s->ps->width);
        return;
    }
    steps[s->ps->config.type](s, count);
}
