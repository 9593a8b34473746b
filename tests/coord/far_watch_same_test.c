/* tests/coord/far_watch_same_test.c: watch_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "watch_test.c"
