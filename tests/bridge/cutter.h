/* tests/bridge/cutter.h: a relay between a follower and its leader, whose connections break where the test says. */
#ifndef TEST_CUTTER_H
#define TEST_CUTTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cutter;
/* Listens at *address; each connection to it makes one to the leader's. Without threads: cutter_turn() does the work.
 */
struct cutter *cutter_new(const char *leader, char address[64]);
void cutter_free(struct cutter *c);
/* Passes on what there is; true: it did something. Sleeps for at most `ms` when there is nothing. */
bool cutter_turn(struct cutter *c, int ms);
/* The connection breaks when so many bytes have passed to the leader, or from it; SIZE_MAX: it does not. */
void cutter_limit(struct cutter *c, size_t to_leader, size_t from_leader, bool reset);
/* All that are there break now. */
void cutter_cut(struct cutter *c, bool reset);
/* So many bytes passed over the last connection, each way. */
void cutter_passed(const struct cutter *c, size_t *ret_to_leader, size_t *ret_from_leader);
/* How many connections broke at their limit. */
unsigned cutter_cuts(const struct cutter *c);
/* Nothing passes any more, and nothing breaks: as when a cable is pulled. */
void cutter_hold(struct cutter *c, bool hold);

#endif
