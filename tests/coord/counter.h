/*
 * tests/coord/counter.h: guests at the engine, without a wire between: their asks, and what was answered.
 *
 * The director of the stage (tests/task/stage.h) has the engine on a libuv loop of its own, over the job's real
 * segment; players beside it are tasks of the C library. Nothing happens in the loop but within counter_await(), which
 * is bounded.
 *
 *     counter_open(2, NULL);
 *     struct mu_coord_request *get = ask(0);
 *     mu_coord_get(engine, get, "k", 1);
 *     assert_waits(get);
 *     ...
 *     assert_value(get, "v");
 *     counter_close();
 */
#ifndef MUSTER_TEST_COUNTER_H
#define MUSTER_TEST_COUNTER_H

#include "stage.h"

#include "coord/coord.h"

extern struct mu_coord *coord;
extern uv_loop_t counter_loop;

/* An ask, and a copy of its answer. Kept until counter_close(). */
struct asked {
    struct mu_coord_request ask;
    bool answered;
    struct asked *next;
    char text[8192];
    char *value;
    size_t len;
    char barrier_id[600];
    char *keys; /* of a listing, as clients see them, each with a newline behind it */
    struct muster_task_info *tasks;
    int32_t alive[64];
    uint64_t incarnations[64];
    unsigned order; /* the how manieth answer it was */
};

/* A job of so many tasks, and its engine; of `options` the loop and the handle are filled in here. May be NULL. */
void counter_open(uint32_t tasks, const struct mu_coord_options *options);
/* The same with a heartbeat timeout: a hundred seconds otherwise, so that nobody is too slow by chance. */
void counter_open_for(uint32_t tasks, const struct mu_coord_options *options, uint64_t heartbeat_ns);
/* A task of the C library, beside the guests: player 0 of the stage. It was forked before the engine had threads: a
 * child of a process with threads may find a lock of the sanitizer's held by one that it does not have. */
void counter_enter(int32_t task);
/* Guests' lines hang up, the engine goes, and the stage is closed: its audit is clean. */
void counter_close(void);
int counter_strike(void); /* teardown after a failed test */
/* The engine goes, and another comes in its place, as after an adoption. */
void counter_reopen(const struct mu_coord_options *options);

/* For who brings engines and hosts of his own (pair.h): the loop; all guests' lines hang up; its end. `engine` is then
 * the one that a guest's calls are for. */
void counter_begin_loop(uint32_t tasks);
void counter_hang_up(int guest); /* if it has a line */
void counter_hang_up_all(void);
void counter_end_loop(void);

/* A guest's line; made when first asked for. */
struct mu_line *line_of(int guest);
/* The same, of a process that is known. */
struct mu_line *line_of_process(int guest, uint32_t pid);
void hang_up(int guest, const char *why);

/* A new ask on the guest's line; without one when there are too many guests. */
struct asked *ask(int guest);

/* Run the loop until it is so: await() of test.h. */
#define counter_await(condition, ...) await_by(counter_step(), condition, __VA_ARGS__)
void counter_step(void);
void until_answered(struct asked *a);
/* A player's answer, while the loop runs. */
struct reply counter_hear(int player);
/* Run what the loop has to do now, and wait for nothing. */
void counter_turn(void);

#define assert_waits(a)                 counter_waits((a), __FILE__, __LINE__)
#define assert_answer(a, status)        counter_answer((a), (status), NULL, __FILE__, __LINE__)
#define assert_says_so(a, status, part) counter_answer((a), (status), (part), __FILE__, __LINE__)
#define assert_value(a, text)           counter_value((a), (text), __FILE__, __LINE__)
void counter_waits(struct asked *a, const char *file, int line);
/* It is answered, now or soon, with this status (and a text that contains the part). */
void counter_answer(struct asked *a, enum muster_status status, const char *part, const char *file, int line);
void counter_value(struct asked *a, const char *text, const char *file, int line);

/* Short forms of the calls, on the guest's line: the ask. */
struct asked *do_insert(int guest, const char *key, const char *value, bool overwrite);
struct asked *do_get(int guest, const char *key);
struct asked *do_try_get(int guest, const char *key);
struct asked *do_increment(int guest, const char *key, int64_t by);
struct asked *do_compare(int guest, const char *key, uint64_t expected, const char *value);
struct asked *do_append(int guest, const char *key, const char *value);
struct asked *do_list(int guest, const char *key);
struct asked *do_count(int guest, const char *key);
struct asked *do_delete(int guest, const char *key);
/* The guest's own number is its task. All tasks, a minute. */
struct asked *do_meet(int guest, const char *id, int64_t counter);
struct asked *do_meet_some(int guest, const char *id, int64_t counter, const int32_t *tasks, size_t count);
struct asked *do_meet_for(int guest, const char *id, int64_t counter, int64_t timeout_ms);
struct asked *do_cancel(int guest, const char *id, int64_t counter);

/* A guest's incarnation is usually INCARNATION(guest). */
#define INCARNATION(guest) (0x1000u + (uint64_t)(guest))
struct asked *do_register(int guest, uint64_t incarnation);
struct asked *do_register_recoverable(int guest, uint64_t incarnation);
struct asked *do_beat(int guest, uint64_t incarnation);
struct asked *do_poll(int guest);
struct asked *do_report_error(int guest, enum muster_status code, const char *text);
struct asked *do_shutdown(int guest);
struct asked *do_reset(int guest);
struct asked *do_watch(int guest, int64_t version);
struct asked *do_alive(int guest, const int32_t *tasks, size_t count);
/* Register them, from `first` on, without a barrier. */
void register_guests(int first, int count);
/* From now on it beats before every look for the silent. */
void counter_keep(int guest);
/* Until no heartbeat of the guest is accepted any more. */
void until_silent(int guest);

/*
 * A test file may be compiled once more, by another that includes it with COUNTER_FAR: then the engine is that of a
 * host which is not the leader's, where all tasks are; its clients cannot tell. Tests with players of the stage
 * are left out: those are NEAR_TESTs.
 */
void counter_open_far(uint32_t tasks, const struct mu_coord_options *options, uint64_t heartbeat_ns);
void counter_close_far(void);
int counter_strike_far(void);
void counter_near_alone(void);
extern bool counter_is_far; /* who waits does so at the leader, too */
/* The way to the leader breaks, now or after so many frames, or is there again; where there is one. */
void counter_disturb(uint32_t how, uint32_t frames);
#ifdef COUNTER_FAR
#define counter_open(tasks, options)         counter_open_far((tasks), (options), 100000000000u)
#define counter_open_for(tasks, options, ns) counter_open_far((tasks), (options), (ns))
#define counter_close()                      counter_close_far()
#define COORD_TEST(name)                     TEST_WITH(name, NULL, counter_strike_far)
#define NEAR_TEST(name)                      TEST_AS(name, counter_near_alone, NULL, NULL)
#pragma GCC diagnostic ignored "-Wunused-function"
#else
#define COORD_TEST(name) TEST_WITH(name, NULL, counter_strike)
#define NEAR_TEST(name)  COORD_TEST(name)
#endif

#endif
