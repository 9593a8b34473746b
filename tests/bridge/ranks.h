/*
 * tests/bridge/ranks.h: ranks of communicators on several hosts, as acts of a cast (cast.h). Their library is FAKE: it
 * makes ids behind which nobody listens, so that no libnccl is needed, and can be stopped while it makes one.
 */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include "cast.h"

/* What a rank is told besides: how its fake library behaves. STOPS: it says RANK_STOPPED, and goes on when it is told
 * anything. INIT: a communicator, too, which is up at once or NEVER_UP. LONELY: its root is on loopback, LISTENS or
 * not. */
enum { STOPS = 1, FAILS = 2, OTHER_VERSION = 4, NEVER_UP = 8, INIT = 16, LONELY = 32, LISTENS = 64 };
#define RANK_STOPPED 4711u

/* As rank a->rank of a->count, under the name a->id; timeout_ns: until it expires. r->number, bytes: generation, id. */
void rank_take(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd);
/* Of generation a->counter. */
void rank_check(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd);
void rank_abandon(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd);
/* r->number: generation; count: taken; tasks: state, owner; incarnations: since, and now. */
void rank_get(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd);

/* ---- the director: four tasks, each the rank of its number under the name "world" where nothing else is said ---- */

#define TWO_HOSTS   (&(struct hosts_config){.tasks = {2, 2}, .timeout_ns = 600000000000u})
#define THREE_HOSTS (&(struct hosts_config){.tasks = {2, 1, 1}, .timeout_ns = 600000000000u})
/* Each test with the maker on the leader's host, and on another. */
extern const uint32_t makers[2];
/* Of the others one on this host, of two. */
uint32_t other_than(uint32_t maker, uint32_t host);

void enter_all(uint32_t flags);
struct cast_act act_of(cast_fn fn, const char *name, uint64_t generation);
struct cast_act taking(const char *name, uint32_t nranks, uint32_t rank, uint32_t mode);
void tell_take(uint32_t task, uint32_t nranks, uint32_t mode);
struct cast_reply do_take(uint32_t task, uint32_t nranks, uint32_t mode);
struct cast_reply do_fn(uint32_t task, cast_fn fn, uint64_t generation);
/* It makes the id, and is stopped there; and goes on. */
void stop_maker(uint32_t task, uint32_t nranks, uint32_t mode);
void go_on(uint32_t task);
/* id NULL: any. */
void assert_has(struct cast_reply r, uint64_t generation, const char *id);
/* It knows who makes the id, and sleeps until that is done; of another host than the leader's it is the first one. */
void until_it_waits(uint32_t task);

#endif
