/* barrier/state.h: a named barrier's whole state, as one value. */
#ifndef MU_BARRIER_STATE_H
#define MU_BARRIER_STATE_H

#include <muster/barrier.h>

#include "segment/cluster.h"
#include "segment/table.h"

#define MU_BARRIER_TEXT 768u
struct mu_barrier {
    struct mu_barrier_head h;
    uint32_t *ids; /* sorted; NULL when all */
    uint32_t *marks;
    char text[MU_BARRIER_TEXT];
};

/* Decode a value; false when it is not one. Room for ids and marks is allocated: mu_barrier_done(). */
bool mu_barrier_decode(struct mu_barrier *b, const void *value, size_t len);
/* Encode into malloc()ed memory. NULL: no memory. */
void *mu_barrier_encode(const struct mu_barrier *b, size_t *ret_len);
void mu_barrier_done(struct mu_barrier *b);

/* Set the participants. False: no memory. */
bool mu_barrier_participants(struct mu_barrier *b, const uint32_t *ids, uint32_t num, bool all);

static inline uint32_t mu_barrier_id(const struct mu_barrier *b, uint32_t i)
{
    return b->ids ? b->ids[i] : i;
}

/*
 * A call's instance, in a sentence. Clients of the wire count with a sign: their numbers below 0, which no instance
 * has, are handed on as one less than they are (above INT64_MAX then), for as itself -1 is MUSTER_BARRIER_NEXT.
 */
static inline int64_t mu_barrier_number(uint64_t counter)
{
    return counter > INT64_MAX ? (int64_t)counter + 1 : (int64_t)counter;
}

/* The participant's place, or -1. */
int32_t mu_barrier_find(const struct mu_barrier *b, uint32_t task);
uint32_t mu_barrier_arrived(const struct mu_barrier *b);

/*
 * Whether it differs from what it was, which is well formed, in new arrivals alone, at an instance that goes on: no
 * waiter in it has an answer by them.
 */
bool mu_barrier_has_only_more(const struct mu_barrier *b, const void *before);

/* End the instance. */
void mu_barrier_end(struct mu_barrier *b, enum muster_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
