/*
 * tests/coords/coords.h: an engine on each of several hosts, on one libuv loop, over real segments and agents
 * (tests/bridge/hosts.h), and guests at them; beside those, tasks of the C library (tests/bridge/cast.h).
 *
 * A guest's number is its task, and its engine that of the task's host. What the engines tell each other comes by a
 * list that coords_turn() empties, or that is held. Nothing happens in the loop but within coords_await(), which is
 * bounded.
 *
 *     coords_open(&(struct hosts_config){.tasks = {1, 1}}, &options);
 *     a = do_register(1);
 *     assert_waits(a);
 *     b = do_register(0);
 *     assert_answer(a, MUSTER_OK, NULL);
 *     coords_close();
 */
#ifndef MUSTER_TEST_COORDS_H
#define MUSTER_TEST_COORDS_H

#include "cast.h"

#include "coord/coord.h"

/* An ask, and a copy of its answer. Kept until coords_close(). */
struct asked {
    struct mu_coord_request ask;
    bool answered;
    struct asked *next;
    char text[8192];
};

extern struct mu_coord *coords[HOSTS_MAX];

/* Of the options the loop, the handle and `tell` are filled in here. */
void coords_open(const struct hosts_config *config, const struct mu_coord_options *options);
void coords_close(void);
int coords_strike(void); /* teardown after a failed test */

/* What the engines say to each other stays on its way, or comes now. */
void coords_hold(bool hold);
/* As if the engine of that host had said it. */
void coords_say(uint32_t from, const struct mu_coord_news *news);
/* Run what the loop has to do now. */
void coords_turn(void);
/* What the engines have said to each other comes; then the loop turns until it is so: await() of test.h. */
#define coords_await(condition, ...)                                                                                   \
    do {                                                                                                               \
        coords_tell_all();                                                                                             \
        await_by(coords_step(), condition, __VA_ARGS__);                                                               \
    } while (0)
void coords_tell_all(void);
void coords_step(void);

void hang_up(uint32_t guest);
struct asked *do_register(uint32_t guest, uint64_t incarnation);
struct asked *do_register_at(uint32_t host,
                             uint32_t guest); /* at that host's engine, whose the guest is not, perhaps */
/* The task of the job's first error, as that host sees it; -1: the job is well. */
int32_t coords_first_error(uint32_t host);
struct asked *do_shutdown(uint32_t guest);
struct asked *do_poll(uint32_t guest);
struct asked *do_report_error(uint32_t guest, const char *text);
struct asked *do_reset(uint32_t guest);
/* A guest's incarnation is usually this. */
#define INCARNATION(guest) (0x1000u + (uint64_t)(guest))
/* The state of a task as that host's segment has it. */
enum muster_task_state state_at(uint32_t host, uint32_t task);
void until_state_at(uint32_t host, uint32_t task, enum muster_task_state state);

#define assert_waits(a)                coords_waits((a), __FILE__, __LINE__)
#define assert_answer(a, status, part) coords_answer((a), (status), (part), __FILE__, __LINE__)
void coords_waits(struct asked *a, const char *file, int line);
/* It is answered, now or soon, with this status, and a text that contains the part, unless that is NULL. */
void coords_answer(struct asked *a, enum muster_status status, const char *part, const char *file, int line);

#define COORDS_TEST(name) TEST_WITH(name, NULL, coords_strike)

#endif
