/* tests/desk/far_line_same_test.c: line_test.c, at the desk of a host that is not the leader's. */
#define COUNTER_FAR
#include "line_test.c"
