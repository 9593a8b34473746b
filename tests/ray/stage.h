/* tests/ray/stage.h: a scheduler without a wire: what it says to workers and stores is text in a log. */
#ifndef TEST_RAY_STAGE_H
#define TEST_RAY_STAGE_H

#include "cm.h"

#include "ray/sched.h"

/* The scheduler of a test, with nobody registered; sched_end() frees it. */
extern struct mu_ray_sched *sched;
int sched_begin(void);
int sched_end(void);
#define SCHED_TEST(name) TEST_WITH(name, sched_begin, sched_end)

/* Names are registered as they come: the store "a" on host 10.0.0.1, "b" on host 10.0.0.2, "c" on 10.0.0.3. */
void stores_begin(uint32_t count);
/* A driver, or a worker that has asked for a task, on the host of that store. */
uint32_t driver_new(uint32_t store);
uint32_t worker_new(uint32_t store);
void function_new(uint32_t worker, const char *name, uint64_t returns);
/* A task of driver or worker `by`; arguments: "17 5": ids, "=": by value. Its first result. */
uint64_t submit(uint32_t by, const char *name, const char *arguments);
enum muster_status submit_status(uint32_t by, const char *name, const char *arguments);
uint64_t put(uint32_t by);
void ready(uint64_t object, uint64_t store);
void increment(uint64_t object);
void drop(uint64_t object);
/* It has answered so many imports. */
void imported(uint32_t worker, int count);
void ended(uint32_t worker);
void ended_badly(uint32_t worker, const char *words);
/* UINT64_MAX: it is freed. */
uint64_t count_of(uint64_t object);

/* What has been said since the last look: "execute 1 f; deliver b 4 from a; alias b 5=4; free a 4; import 1; die 1". */
void assert_said(const char *expected);

#endif
