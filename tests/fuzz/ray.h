/* tests/fuzz/ray.h: what the fuzz target of Ray's scheduler and its short form share. */
#ifndef TEST_FUZZ_RAY_H
#define TEST_FUZZ_RAY_H

#include <stddef.h>
#include <stdint.h>

/* A step of the program is six bytes: what it is, by the remainder of the first, and which ids it names. */
enum ray_step {
    RAY_DRIVER,
    RAY_WORKER,
    RAY_STORE,
    RAY_FUNCTION,
    RAY_PUT,
    RAY_MADE, /* a store has an object that is put, or is a result */
    RAY_ALIAS,
    RAY_CONTAIN,
    RAY_INCREMENT,
    RAY_DECREMENT,
    RAY_REQUEST,
    RAY_SUBMIT,
    RAY_ENDED,
    RAY_ARRIVED, /* a delivery that was asked for */
    RAY_EXPORT,
    RAY_IMPORTED,
    RAY_KILL,
    RAY_WORKER_LOST,
    RAY_STORE_LOST,
    RAY_STEPS
};

struct ray_sum {
    unsigned done, refused, executed, delivered, freed, aliased;
};

/* The bytes as a program of requests, any of which may be wrong. abort() when the scheduler's state is not sound after
 * one, or when it says to a store or worker what that cannot do. */
void ray_try(const uint8_t *data, size_t size, struct ray_sum *sum);

#endif
