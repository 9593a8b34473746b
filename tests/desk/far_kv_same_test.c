/* tests/desk/far_kv_same_test.c: kv_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "kv_test.c"
