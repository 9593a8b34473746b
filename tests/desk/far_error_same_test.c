/* tests/desk/far_error_same_test.c: error_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "error_test.c"
