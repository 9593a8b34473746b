/*
 * segment/cluster.h: the task records: one object, a root that refers to blocks of records.
 *
 * Reading is for every room; changing them is the task room's, through mu_cluster_edit().
 */
#ifndef MU_SEGMENT_CLUSTER_H
#define MU_SEGMENT_CLUSTER_H

#include "segment/names.h"
#include <muster/task.h>

#include "segment/object.h"

#define MU_TEXT_MAX  256u
#define MU_DOING_MAX 96u

struct mu_cluster {
    uint64_t word; /* of the object, for waiting */
    struct mu_cluster_root root;
};

/* In an error that every task learns of. */
static inline bool mu_cluster_is_propagated(const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_ERROR && !(r->flags & MU_TASK_RECOVERABLE);
}

/* Its process has ended, none is to be started in its place, and nobody speaks for it: it will do nothing more. */
static inline bool mu_cluster_is_over(const struct mu_task_record *r)
{
    return (r->flags & MU_TASK_ENDED) && r->state != MUSTER_TASK_CONNECTED;
}

/* The root's numbers alone: cheap enough for every miss of a wait. Zeros when no task ever registered. */
enum muster_status mu_cluster_look(const struct muster_segment *seg, struct mu_cluster *ret_cluster);

/* One record and its error message ("" without), both of one instant. */
enum muster_status mu_cluster_task(const struct muster_segment *seg, uint32_t task, struct mu_task_record *ret_record,
                                   char text[MU_TEXT_MAX], struct mu_cluster *ret_cluster);

/* All records of one instant, in id order; `visit` is called for each task, after the whole was read. */
enum muster_status mu_cluster_all(const struct muster_segment *seg, struct mu_task_record *ret_records,
                                  char (*ret_texts)[MU_TEXT_MAX], struct mu_cluster *ret_cluster);

/* Those of a run of tasks alone; seg's own, so that no number is out of range. */
enum muster_status mu_cluster_run(const struct muster_segment *seg, uint32_t first, uint32_t count,
                                  struct mu_task_record *ret_records, char (*ret_texts)[MU_TEXT_MAX],
                                  struct mu_cluster *ret_cluster);

/*
 * Change one record: `fn` gets a copy, changes it and returns MU_PUT-like true, or false with *ret_status set to leave
 * it. `text` may be replaced (it is kept otherwise; "" removes it). The version moves and the counters of errors are
 * kept right by the same commit; then the epoch moves, which wakes every waiter that may need the task.
 */
struct mu_task_change {
    uint32_t task;
    uint32_t index; /* in the list of tasks, of mu_cluster_edit_many() */
    struct mu_task_record record;
    char text[MU_TEXT_MAX];
    void *arg;
    enum muster_status status; /* returned when fn declines */
};
typedef bool (*mu_task_fn)(struct mu_task_change *change);
enum muster_status mu_cluster_edit(struct mu_ctx *ctx, uint32_t task, mu_task_fn fn, void *arg);

/*
 * The same for each of these tasks, in ascending order, by as few commits as may be: one takes what changes in a block
 * of records, with two messages at most. A record that `fn` declines stays as it is, and its status is not heard of.
 */
enum muster_status mu_cluster_edit_many(struct mu_ctx *ctx, const uint32_t *tasks, uint32_t count, mu_task_fn fn,
                                        void *arg);

/*
 * In a job of several hosts: which error was the first is the leader's to say. Nothing happens when the task is not in
 * one that counts here.
 */
enum muster_status mu_cluster_set_first(struct mu_ctx *ctx, uint32_t task);

/*
 * Whether the process behind the task's record lives, by the kernel's word: its main slot is held, or, when the thread
 * that held it has ended, any slot of the same process. Of a task on another host: whether it is connected, as that
 * host's agent says. Of a wire client (task/client.h): whether it is connected, and its agent's slot held.
 */
bool mu_cluster_alive(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record);
/* The main slot alone: what tells a process from what it was before an exec. */
bool mu_cluster_main_alive(const struct muster_segment *seg, const struct mu_task_record *record);

/* "task 2 (pid 4711 on host n1)" */
void mu_cluster_name(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record, char *name,
                     size_t size);

/* The same, and "task 2 (on host n1)" where no process is known. */
void mu_cluster_place(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record,
                      char name[MU_NAME_MAX]);

/* Of a task that is over: "has ended (exited with status 0) without joining". Returns `text`. */
const char *mu_cluster_end(const struct mu_task_record *record, char text[MU_DOING_MAX]);

/* In a few words: "running", "dead", "in error", "has left", "never joined", or as mu_cluster_end(). */
const char *mu_cluster_doing(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record,
                             char text[MU_DOING_MAX]);

/*
 * "task 1 (pid 4711 on host n1): running; task 2 (on host n1): never joined; ...": of the tasks that `picks` picks,
 * three at most, those that are over last. Returns `text`, "" when there are none.
 */
#define MU_LIST_MAX (3 * (MU_NAME_MAX + MU_DOING_MAX) + 16)
typedef bool (*mu_task_pick)(void *arg, uint32_t task);
const char *mu_cluster_list(const struct muster_segment *seg, mu_task_pick picks, void *arg, char text[MU_LIST_MAX]);

/* The task that a waiter is part of: the handle's, or an observer's by its environment; -1: none. */
struct muster;
int64_t mu_cluster_own(const struct muster *m);
/* The list of all tasks but that one. Returns `text`. */
const char *mu_cluster_others(const struct muster *m, char text[MU_LIST_MAX]);
/* DEADLINE_EXCEEDED; behind the last sentence, those others: "...; who could set it: task 1 (...): running". */
enum muster_status mu_cluster_say_others(const struct muster *m, const char *which);

/*
 * The first propagated error as a status with its sentence: UNAVAILABLE, "<doing>: task 2 (...) is in error: ...".
 * MUSTER_OK when there is none.
 */
enum muster_status mu_cluster_error(const struct muster_segment *seg, const char *doing);

#endif
