/* tests/desk/far_watch_same_test.c: watch_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "watch_test.c"
