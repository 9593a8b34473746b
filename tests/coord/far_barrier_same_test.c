/* tests/coord/far_barrier_same_test.c: barrier_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "barrier_test.c"
