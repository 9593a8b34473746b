/*
 * tests/coord/pair.h: guests of several hosts: each host has an agent's core (tests/bridge/hosts.h), lanes, and an
 * engine; all engines are on one loop, counter.h's. A guest's number is its task's, and its calls go to the engine of
 * its host. Tasks of the C library are players of the cast (tests/bridge/cast.h): those that are to be there are
 * entered before the engines are opened.
 *
 *     pair_open(&(struct hosts_config){.tasks = {2, 2}}, NULL);
 *     pair_as(3);                                   guest 3: what do_get() and the like ask next goes to its engine
 *     a = do_get(3, "k");
 *     ...
 *     pair_close();                                 and every segment is audited
 */
#ifndef MUSTER_TEST_PAIR_H
#define MUSTER_TEST_PAIR_H

#include "cast.h"
#undef assert_status /* the stage has its own, of replies */
#undef assert_says
#include "counter.h"

extern struct mu_coord *pair_coords[HOSTS_MAX];
extern struct mu_lanes *pair_lanes[HOSTS_MAX];

/* Hosts alone; cast_enter() as one likes, then pair_begin(). */
void pair_begin(const struct mu_coord_options *options);
void pair_open(const struct hosts_config *config, const struct mu_coord_options *options);
void pair_close(void);
/* One host's engine and lanes go, with their agent; and others come, with another one. */
void pair_coord_closes(uint32_t host);
void pair_coord_opens(uint32_t host, const struct mu_coord_options *options);
int pair_strike(void); /* teardown after a failed test */

/* The guest, for ask(): its engine is `engine` from now on. */
int pair_as(int guest);
/* What the player answers, while the loop runs. */
struct cast_reply pair_hear(uint32_t task);
struct cast_reply pair_do(uint32_t task, const struct cast_act *act);
/* Every guest but those that the cast plays is registered. */
void pair_register_all(void);
#define PAIR_TEST(name) TEST_WITH(name, NULL, pair_strike)

#endif
