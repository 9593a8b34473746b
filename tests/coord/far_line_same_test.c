/* tests/coord/far_line_same_test.c: line_test.c, at the engine of a host that is not the leader's. */
#define COUNTER_FAR
#include "line_test.c"
