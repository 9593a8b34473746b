/* tests/coord/far_kv_same_test.c: kv_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "kv_test.c"
