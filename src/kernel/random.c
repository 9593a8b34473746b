/*
 * kernel/random.c: random numbers: Philox 4x32-10, as TensorFlow has it, so that a seed gives the same numbers there.
 *
 * Each run of a node takes up where its last one ended. Without seeds the node's numbers are the system's.
 */
#include "kernel/private.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

struct philox {
    uint32_t counter[4], key[2], out[4];
    unsigned left; /* of out */
};

static void philox_round(uint32_t c[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ key[1],
                        (uint32_t)a};

    memcpy(c, next, sizeof next);
}

static uint32_t philox_next(struct philox *p)
{
    if (p->left == 0) {
        uint32_t key[2] = {p->key[0], p->key[1]};

        memcpy(p->out, p->counter, sizeof p->out);
        for (int k = 0; k < 10; k++, key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u)
            philox_round(p->out, key);
        for (int k = 0; k < 4 && ++p->counter[k] == 0; k++)
            ;
        p->left = 4;
    }
    return p->out[4 - p->left--];
}

static void philox_skip(struct philox *p, uint64_t count)
{
    uint64_t low = ((uint64_t)p->counter[1] << 32 | p->counter[0]) + count;

    if (low < count && ++p->counter[2] == 0)
        p->counter[3]++;
    p->counter[0] = (uint32_t)low;
    p->counter[1] = (uint32_t)(low >> 32);
}

static float uniform_float(uint32_t x)
{
    uint32_t bits = 0x3f800000u | (x & 0x7fffffu);
    float f;

    memcpy(&f, &bits, sizeof f);
    return f - 1;
}

static double uniform_double(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)0x3ff << 52 | (uint64_t)(high & 0xfffffu) << 32 | low;
    double d;

    memcpy(&d, &bits, sizeof d);
    return d - 1;
}

static double uniform_next(struct philox *p, bool is_float)
{
    uint32_t high = philox_next(p);

    return is_float ? (double)uniform_float(high) : uniform_double(high, philox_next(p));
}

/* Two at once, by Box and Muller. */
static void normal_pair(struct philox *p, bool is_float, double ret[2])
{
    double u = uniform_next(p, is_float), v = 2 * M_PI * uniform_next(p, is_float), r;

    if (u < 1.0e-7)
        u = 1.0e-7;
    r = sqrt(-2 * log(u));
    ret[0] = sin(v) * r;
    ret[1] = cos(v) * r;
}

static void number_set(struct mu_tensor *out, size_t k, double x)
{
    if (out->dtype == MU_FLOAT)
        out->f[k] = (float)x;
    else
        out->d[k] = x;
}

static void numbers_fill(struct philox *p, const struct mu_kernel_call *call, struct mu_tensor *out)
{
    enum mu_random what = (enum mu_random)call->node->op->which;
    bool is_float = out->dtype == MU_FLOAT;
    double pair[2];

    for (size_t k = 0; k < out->count && !(k % MU_GLANCE < 2 && mu_run_gives_up(call));) {
        if (what == MU_UNIFORM) {
            number_set(out, k++, uniform_next(p, is_float));
            continue;
        }
        normal_pair(p, is_float, pair);
        for (int i = 0; i < 2 && k < out->count; i++)
            if (what == MU_NORMAL || fabs(pair[i]) < 2)
                number_set(out, k++, pair[i]);
    }
}

enum mu_run mu_run_random(struct mu_kernel_call *call)
{
    uint64_t seed[2] = {(uint64_t)mu_attr_int(call->node, "seed"), (uint64_t)mu_attr_int(call->node, "seed2")};
    struct mu_dims shape = {0};
    struct philox p = {.left = 0};
    struct mu_tensor *out;
    bool is_seeded;

    if (!mu_run_numbers(call, 0, "shape", MU_TENSOR_DIMS, shape.dim, &shape.rank))
        return MU_RUN_FAILED;
    for (uint32_t k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Dimension %lld must be >= 0", (long long)shape.dim[k]);
    out = mu_run_output(call, 0, call->node->out_types[0], &shape);
    if (!out)
        return MU_RUN_FAILED;
    is_seeded = seed[0] != 0 || seed[1] != 0;
    if (!is_seeded && getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return mu_run_fail(call, MUSTER_INTERNAL, "the system has no random numbers");
    p.key[0] = (uint32_t)seed[0];
    p.key[1] = (uint32_t)(seed[0] >> 32);
    p.counter[2] = (uint32_t)seed[1];
    p.counter[3] = (uint32_t)(seed[1] >> 32);
    if (is_seeded)
        philox_skip(&p, call->serial * out->count * 64); /* TensorFlow keeps 256 numbers for each: 64 groups */
    numbers_fill(&p, call, out);
    return mu_run_gives_up(call) ? mu_run_give_up(call) : MU_RUN_DONE;
}
