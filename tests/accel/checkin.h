/*
 * tests/accel/checkin.h: ranks' check-in at a real root of libnccl, emulated: what ncclCommInitRank sends first, and
 * what the root answers. It proves that an id is of use without a GPU. Known for NCCL 2.28 to 2.32.
 */
#ifndef TEST_ACCEL_CHECKIN_H
#define TEST_ACCEL_CHECKIN_H

#include <stdbool.h>
#include <stdint.h>

/* Opens libnccl as muster does; prints why it cannot, or makes no ids here, and ends the process with status 77. */
int test_nccl_required(void);

/* Whether this version's check-in is known. */
bool test_checkin_known(int version);

/*
 * Check in as one rank of `nranks` at the root of this id, and receive what the root says of the next rank, which must
 * be what that one has said. Blocks until the next one has come. 0, or the number of the step that failed.
 */
int test_check_in(const void *id, int version, uint32_t rank, uint32_t nranks);

/* 0 when a connection to the root is accepted by the kernel, else errno. */
int test_connect_root(const void *id);

/* Threads and open descriptors of this process. */
struct test_use {
    unsigned threads, fds;
};
struct test_use test_use(void);
/* Until they are no more than these, looking for ten seconds at most; what they are then. */
struct test_use test_use_settles(struct test_use most);

#endif
