/* tests/desk/far_abuse_same_test.c: abuse_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "abuse_test.c"
