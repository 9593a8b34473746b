/* tests/tcpstore/far_calls_same_test.c: calls_test.c, at the server of a host that is not the leader's. */
#define COUNTER_FAR
#include "calls_test.c"
