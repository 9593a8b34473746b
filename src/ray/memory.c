/*
 * ray/memory.c: the memory of the scheduler, which is bounded as a whole, and what it says to people and to peers.
 *
 * What a request needs is taken before it changes anything. What a cascade needs beyond that are a few bytes for each
 * store that an object is to go to; without memory for these the delivery is left out, and people are told.
 */
#include "ray/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define MEMORY ((size_t)1 << 30)

enum muster_status mu_ray_take(struct mu_ray_sched *s, size_t bytes)
{
    size_t most = s->o.memory ? s->o.memory : MEMORY;

    if (bytes > most || s->held > most - bytes)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "the scheduler holds %zu bytes of at most %zu: drop references to objects, or begin another",
                       s->held, most);
    s->held += bytes;
    return MUSTER_OK;
}

void mu_ray_give(struct mu_ray_sched *s, size_t bytes)
{
    s->held -= bytes;
}

bool mu_ray_grow(void *array, size_t element, size_t needed, uint32_t *room)
{
    void **at = array;
    size_t more = *room ? *room : 8;
    void *grown;

    if (needed <= *room)
        return true;
    while (more < needed)
        more *= 2;
    grown = more <= UINT32_MAX ? reallocarray(*at, more, element) : NULL;
    if (!grown)
        return false;
    *at = grown;
    *room = (uint32_t)more;
    return true;
}

void mu_ray_say(struct mu_ray_sched *s, const char *format, ...)
{
    char sentence[1024];
    va_list args;

    if (!s->o.said)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    s->o.said(s->o.arg, sentence);
}

void mu_ray_send(struct mu_ray_sched *s, const struct mu_ray_call *call)
{
    s->o.call(s->o.arg, call);
}
