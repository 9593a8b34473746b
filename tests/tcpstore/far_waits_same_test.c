/* tests/tcpstore/far_waits_same_test.c: waits_test.c, at the server of a host that is not the leader's. */
#define COUNTER_FAR
#include "waits_test.c"
