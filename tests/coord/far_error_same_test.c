/* tests/coord/far_error_same_test.c: error_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "error_test.c"
