/*
 * task/alive.h: the query which tasks of a set are alive, in steps that never sleep: for an agent that asks on behalf
 * of a task of another host, and for the task itself (alive.c), which sleeps between them.
 *
 *     mu_alive_begin(&a, seg, ctx, task_ids, count);
 *     for (;;) {
 *         mu_alive_step(&a, calls, n);     one commit: calls those that have not called, answers those that it can
 *         mu_alive_read(&a);               a.instance, a.word: on which to wait while a call's instance is open
 *     }
 *     mu_alive_done(&a);
 */
#ifndef MU_TASK_ALIVE_H
#define MU_TASK_ALIVE_H

#include "segment/steps.h"
#include "segment/table.h"

#define MU_ALIVE_NONE UINT32_MAX /* a call without a name */

/*
 * The set is the key of its cell: its tasks' numbers behind an 'A', or, of more than MU_ALIVE_LIST of them, a map of
 * bits behind an 'a', to the last one that is set. So a set has one key, and a key one set.
 */
#define MU_ALIVE_LIST    1000u
#define MU_ALIVE_MAX     8192u /* tasks of a set: as many as a job has */
#define MU_ALIVE_KEY_MAX (MU_ALIVE_LIST * 4 + 1)
uint32_t mu_alive_key(const int32_t *ids, uint32_t count, char ret_key[MU_ALIVE_KEY_MAX]); /* sorted, unique */
/* The same backwards; room for MU_ALIVE_MAX. */
uint32_t mu_alive_set(const char *key, uint32_t len, int32_t *ret_ids);

struct mu_alive_call {
    uint32_t task;
    uint32_t name; /* the process's count of its calls, 15 bits, or MU_ALIVE_NONE: it is not made again */
    bool again;    /* it may have been made before, under this name */
    /* the answer */
    bool called, answered;
    uint32_t place;    /* of the task in the set: once called, */
    uint64_t instance; /* and this */
};

struct mu_alive {
    struct muster_segment *seg;
    struct mu_ctx *ctx;
    int32_t *ids; /* sorted, unique */
    uint32_t count;
    struct mu_task_record *records;
    uint8_t *value;
    size_t len;
    uint64_t instance, word;
    struct mu_key key;
};
/* Checks the list. To be ended with mu_alive_done(), also when it failed. */
enum muster_status mu_alive_begin(struct mu_alive *a, struct muster_segment *seg, struct mu_ctx *ctx,
                                  const int32_t *task_ids, size_t count);
void mu_alive_done(struct mu_alive *a);
/* The task's place in the set; -1: it is not among them. */
int mu_alive_find(const struct mu_alive *a, uint32_t task);

/* Every call is of a task of the set. Those answered share the answer that the value holds then. */
enum muster_status mu_alive_step(struct mu_alive *a, struct mu_alive_call *const *calls, uint32_t count);
enum muster_status mu_alive_read(struct mu_alive *a);
/* In the answer: the incarnation of the set's i-th task; 0: it was not alive. */
uint64_t mu_alive_incarnation(const struct mu_alive *a, uint32_t i);
/* The set's i-th task is in the answer. Only the incarnation 0 looks as if it were not: its record tells. */
bool mu_alive_is_in(const struct mu_alive *a, uint32_t i);

/* The same by the leader (segment/steps.h). Request: the call's name 4, count 4, so many ids 4. Answer: count 4, of
 * those alive, each: id 4, incarnation 8. */
struct mu_alive_remote {
    struct mu_steps steps;
    uint32_t count;
    int32_t *ids;           /* sorted; in the memory of */
    uint64_t *incarnations; /* malloc()ed */
};
void mu_alive_remote_begin(struct mu_alive_remote *r, const struct mu_alive *a, uint32_t name);

#endif
