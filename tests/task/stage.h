/*
 * tests/task/stage.h: real processes that do as they are told.
 *
 * The director (the test's process) forks players. A player runs one act after the other: a function of this very
 * program, with a few bytes of argument, sent through a pipe; its answer comes back through another. The director
 * itself is an observer of the job, so it sees everything without being a task. Nothing here is timed: whoever has to
 * wait for a state looks at the state until it is there, and gives up after a minute.
 *
 *     stage_open(2, NULL);
 *     stage_enter_all();
 *     stage_tell(0, act_barrier, &(struct barrier_act){"b"}, ...);     (or the short forms below)
 *     stage_until_waiting(0, "barrier b");
 *     assert_int_equal(stage_do(1, ...).status, MUSTER_OK);
 *     assert_int_equal(stage_hear(0).status, MUSTER_OK);
 *     stage_close();    players leave, exit 0; the audit is clean; the segment is gone
 */
#ifndef MUSTER_TEST_STAGE_H
#define MUSTER_TEST_STAGE_H

#include "test.h"

#include <stdbool.h>

#include <muster/muster.h>

#define STAGE_PLAYERS 80
#define STAGE_DATA    4096

struct reply {
    int status;      /* enum muster_status, or whatever the act returns */
    char text[1024]; /* muster_last_error() when status is not 0 */
    size_t len;
    uint8_t data[STAGE_DATA];
};

/* Runs in the player. Fills reply->data and len if it has more to say than a status. */
typedef int (*act_fn)(void *arg, struct reply *reply);

/* ---- the director ---- */

/* A job with `tasks` tasks; `config` may be NULL. The director joins as an observer: stage_observer. */
void stage_open(uint32_t tasks, const struct muster_segment_config *config);
extern struct muster *stage_observer;
extern char stage_job[64];

/* A new player, not joined to anything. Returns its number, counted from 0. */
int stage_player(void);
int stage_pid(int player);
/* A new player that joins as `task`; returns the player. */
int stage_enter(int32_t task, uint32_t flags);
/* Players 0 to num_tasks - 1 as tasks 0 to num_tasks - 1. */
void stage_enter_all(void);

void stage_tell(int player, act_fn act, const void *arg, size_t len);
struct reply stage_hear(int player);
/* Whether an answer is there already. */
bool stage_has_answered(int player);
struct reply stage_do(int player, act_fn act, const void *arg, size_t len);

/* Send the signal; when it ends the player, wait for its end: returns its wait status. */
int stage_kill(int player);
void stage_signal(int player, int signal);
/* Wait for its end: the wait status. */
int stage_end(int player);

/* Until the task waits in muster, in something whose description begins with `what`. */
void stage_until_waiting(int32_t task, const char *what);
/* Until the task is in this state; the observer does not scavenge. */
void stage_until_state(int32_t task, enum muster_task_state state);

struct muster_task_info stage_task(int32_t task);
/* The audit: fails the test with every problem printed. Dead slots are scavenged first. */
struct muster_audit stage_audit(void);

/*
 * Everybody leaves who can: living players leave and exit with 0, the dead are scavenged, the audit is clean, the
 * observer leaves, and nothing may be left in /dev/shm.
 */
void stage_close(void);
/* For teardown after a failed test: kill everybody, remove the segment. Safe to call always. */
int stage_strike(void);
#define STAGE_TEST(name) TEST_WITH(name, NULL, stage_strike)

/* ---- the players ---- */

extern struct muster *me; /* the player's handle, NULL when it has not joined */

struct join_act {
    int32_t task;
    uint32_t flags;
    uint64_t incarnation;
    uint64_t period_ns;
};
int act_join(void *join_act, struct reply *reply); /* answers {uint64_t incarnation} */
int act_observe(void *none, struct reply *reply);  /* joins as an observer */
int act_leave(void *none, struct reply *reply);

struct barrier_act {
    char id[64];
    uint64_t counter;
    int32_t tasks[64];
    uint32_t count;
    uint64_t timeout_ns;
    uint64_t patience_ns; /* 0: for ever */
};
int act_barrier(void *barrier_act, struct reply *reply);
struct cancel_act {
    char id[64];
    uint64_t counter;
};
int act_cancel(void *cancel_act, struct reply *reply);

struct report_act {
    int32_t task;
    enum muster_status code;
    char message[64];
};
int act_report(void *report_act, struct reply *reply);
int act_reset(void *int32_task, struct reply *reply);
int act_error_wait(void *none, struct reply *reply);      /* answers struct muster_error */
int act_kv_get(void *key_text, struct reply *reply);      /* for ever */
int act_kv_set(void *key_text, struct reply *reply);      /* the key is its own value */
int act_watch(void *uint64_version, struct reply *reply); /* answers {uint64_t version, struct muster_task_info...} */
struct alive_act {
    int32_t tasks[16];
    uint32_t count;
};
struct alive_answer {
    uint64_t count;
    int32_t tasks[16];
    uint64_t incarnations[16];
};
int act_alive(void *alive_act, struct reply *reply);
struct beat_act {
    int32_t task;
    uint64_t incarnation;
};
int act_beat(void *beat_act, struct reply *reply);

/* Short forms. */
struct reply do_barrier(int player, const char *id, uint64_t counter);
void tell_barrier(int player, const char *id, uint64_t counter);
struct reply do_text(int player, act_fn act, const char *text);
void tell_text(int player, act_fn act, const char *text);
struct reply do_plain(int player, act_fn act);
void tell_plain(int player, act_fn act);
struct reply do_report(int player, int32_t task, enum muster_status code, const char *message);

#define assert_status(reply, wanted) stage_assert_status((reply), (wanted), #reply, __FILE__, __LINE__)
void stage_assert_status(struct reply reply, int wanted, const char *what, const char *file, int line);
/* The text contains the part. */
#define assert_says(text, part) stage_assert_says((text), (part), __FILE__, __LINE__)
void stage_assert_says(const char *text, const char *part, const char *file, int line);

#endif
