/* tests/desk/far_barrier_same_test.c: barrier_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "barrier_test.c"
