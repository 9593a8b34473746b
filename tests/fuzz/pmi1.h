/* tests/fuzz/pmi1.h: what the fuzz target of the PMI-1 server and its short form share. */
#ifndef TEST_PMI1_H
#define TEST_PMI1_H

#include <stddef.h>
#include <stdint.h>

struct pmi1_sum {
    unsigned answers, aborts, closed;
};

/*
 * The bytes as what a task of two says, in pieces of a length that depends on them, with its end at the end. abort()
 * when an answer is no line of PMI-1, or the other task is not served any more.
 */
void pmi1_try(const uint8_t *data, size_t size, struct pmi1_sum *sum);

/* What MPICH says from MPI_Init to MPI_Finalize: a seed. Returns the length. */
size_t pmi1_session(uint8_t *to, size_t size);

#endif
