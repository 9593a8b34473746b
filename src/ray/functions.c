/*
 * ray/functions.c: functions by name, and which workers have them.
 */
#include "ray/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FUNCTION_NAME_MAX = 4096 };

static struct mu_ray_function **function_bucket(struct mu_ray_sched *s, struct mu_ray_text name)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.text[i]) * 16777619u;
    return &s->buckets[h % MU_RAY_BUCKETS];
}

struct mu_ray_function *mu_ray_function_find(const struct mu_ray_sched *s, struct mu_ray_text name)
{
    struct mu_ray_function *f = *function_bucket((struct mu_ray_sched *)(uintptr_t)s, name);

    while (f && (f->len != name.len || memcmp(f->name, name.text, name.len) != 0))
        f = f->next;
    return f;
}

static enum muster_status function_new(struct mu_ray_sched *s, struct mu_ray_text name,
                                       struct mu_ray_function **ret_function)
{
    enum muster_status status = mu_ray_take(s, sizeof **ret_function + name.len);
    struct mu_ray_function *f = status ? NULL : calloc(1, sizeof *f + name.len + 1), **bucket;

    if (status)
        return status;
    if (!f) {
        mu_ray_give(s, sizeof *f + name.len);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another function");
    }
    f->len = name.len;
    memcpy(f->name, name.text, name.len);
    bucket = function_bucket(s, name);
    f->next = *bucket;
    *bucket = f;
    *ret_function = f;
    return MUSTER_OK;
}

/* Room for that worker's bit. */
static bool function_widen(struct mu_ray_function *f, uint32_t worker)
{
    uint32_t words = worker / 64 + 1;
    uint64_t *more = words > f->num_words ? reallocarray(f->workers, words, sizeof *more) : f->workers;

    if (!more)
        return false;
    if (words > f->num_words) {
        memset(more + f->num_words, 0, (words - f->num_words) * sizeof *more);
        f->num_words = words;
    }
    f->workers = more;
    return true;
}

enum muster_status mu_ray_register_function(struct mu_ray_sched *s, uint64_t worker, struct mu_ray_text name,
                                            uint64_t num_returns)
{
    struct mu_ray_worker *w;
    enum muster_status status = mu_ray_worker_find(s, worker, &w);
    struct mu_ray_function *f;

    if (status)
        return status;
    if (name.len == 0 || name.len > FUNCTION_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a function's name has 1 to %d bytes, not %zu", FUNCTION_NAME_MAX,
                       name.len);
    if (num_returns > MU_RAY_RETURNS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a function returns at most %d values", MU_RAY_RETURNS_MAX);
    f = mu_ray_function_find(s, name);
    if (!f)
        status = function_new(s, name, &f);
    if (status)
        return status;
    if (!function_widen(f, w->id))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another worker of a function");
    f->num_returns = num_returns;
    f->workers[w->id / 64] |= UINT64_C(1) << w->id % 64;
    mu_ray_worker_offer(s, w);
    mu_ray_settle(s);
    return MUSTER_OK;
}

void mu_ray_function_forget_worker(struct mu_ray_sched *s, uint32_t worker)
{
    for (unsigned i = 0; i < MU_RAY_BUCKETS; i++)
        for (struct mu_ray_function *f = s->buckets[i]; f; f = f->next)
            if (mu_ray_knows(f, worker))
                f->workers[worker / 64] &= ~(UINT64_C(1) << worker % 64);
}

void mu_ray_functions_clear(struct mu_ray_sched *s)
{
    for (unsigned i = 0; i < MU_RAY_BUCKETS; i++)
        while (s->buckets[i]) {
            struct mu_ray_function *f = s->buckets[i];

            s->buckets[i] = f->next;
            mu_ray_give(s, sizeof *f + f->len);
            free(f->workers);
            free(f->heap);
            free(f);
        }
    s->active = NULL;
}
