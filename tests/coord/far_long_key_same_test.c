/* tests/coord/far_long_key_same_test.c: long_key_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "long_key_test.c"
