/* tests/coord/far_abuse_same_test.c: abuse_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "abuse_test.c"
