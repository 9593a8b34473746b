/* tests/barrier/named.h: named barriers as the players of the stage use them. */
#ifndef TEST_NAMED_H
#define TEST_NAMED_H

#include "stage.h"

/* The player's whole call, with the barrier's timeout and its own patience (0: none, for ever). */
struct reply named_wait(int player, const char *id, uint64_t counter, uint64_t timeout_ns, uint64_t patience_ns);

/* Players 0 to tasks - 1 pass the instance. */
void named_pass(const char *id, uint64_t counter, int tasks);

/* What is told of the barrier; fails the test when there is none. */
struct muster_barrier_info named_info(const char *id);

#endif
