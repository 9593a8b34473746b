/*
 * ray/private.h: what the files of the scheduler share.
 *
 *   sched.c      its making and its end
 *   memory.c     how much it holds, and what it says
 *   objects.c    ids and the pages that they lie in; aliases: groups of ids that are one object
 *   places.c     where objects are: deliveries, and aliases that stores are told
 *   ready.c      which worker takes which task
 *   functions.c  functions by name
 *   tasks.c      submission, history, the end of a task
 *   free.c       counts that go; what is freed, lost and given up
 *   ledger.c     which references a worker holds
 *   nested.c     ids in values
 *   counts.c     requests about objects
 *   workers.c    workers and stores: registration, exports, death
 *   info.c       replies about all of it
 *   service.c, methods.c, calls.c   the wire: ray/service.h
 *
 * A group is the ids that aliases have made one object: a tree of targets with one end, which becomes the canonical id.
 * Its root (by union-find, in names.c) has what is of the whole group. Groups only ever grow, and are freed as a whole,
 * when the counts of all members are 0.
 */
#ifndef MU_RAY_PRIVATE_H
#define MU_RAY_PRIVATE_H

#include "ray/sched.h"

enum {
    MU_RAY_PAGE = 1024,          /* objects that are allocated together */
    MU_RAY_HISTORY = 65536,      /* operations that are remembered */
    MU_RAY_FAILURES = 4096,      /* tasks that have failed, likewise */
    MU_RAY_PORT = 40000,         /* of worker 0 */
    MU_RAY_RETURNS_MAX = 65536,  /* of a function */
    MU_RAY_ARGS_MAX = 1 << 20,   /* of a task */
    MU_RAY_WORDS_MAX = 64 << 10, /* of an error message */
    MU_RAY_BUCKETS = 256,        /* of functions, by name */
};

/* What waits for an object: a task, or a store that is to have it (task NULL). */
struct mu_ray_wait {
    struct mu_ray_wait *next, *prev;
    struct mu_ray_task *task;
    uint64_t object; /* the name by which it is wanted */
    uint32_t store;
    bool is_waiting; /* in the list of that object's group */
};

enum mu_ray_place_state {
    MU_RAY_HERE,
    MU_RAY_COMING, /* a delivery has begun; it holds a count */
    MU_RAY_TOLD,   /* of an alias: the store knows it */
    MU_RAY_TO_TELL /* it is told when the object is there */
};
struct mu_ray_place {
    uint32_t store;
    enum mu_ray_place_state state;
};

struct mu_ray_note {
    struct mu_ray_note *next;
    uint64_t alias;
    uint32_t store;
};

struct mu_ray_object {
    uint64_t count;
    uint64_t target;       /* itself: it is canonical; NIL: nobody has said */
    uint64_t parent, next; /* union-find; the members of a group, in a ring */
    struct mu_ray_place *places;
    uint64_t *contained;
    uint32_t num_places, num_contained;
    uint32_t producer;           /* the worker that puts it, or runs its task; UINT32_MAX: none does */
    bool is_freed, has_producer; /* has_producer: a count is its producer's */
    /* of a root */
    bool is_lost, is_doomed; /* is_doomed: about to be freed */
    uint64_t total, size;    /* counts of all members; their number */
    uint64_t canonical;
    uint64_t doomed_next;
    struct mu_ray_wait *first_wait, *last_wait;
    struct mu_ray_note *notes;
    char *why; /* it is lost; NULL: no memory for the words */
};

struct mu_ray_page {
    uint32_t live;
    struct mu_ray_object objects[MU_RAY_PAGE];
};

/* Ids in the values of a task's arguments: a count of each is handed on with the task, as those of arguments are. */
struct mu_ray_ids {
    uint64_t *all;
    uint32_t count, room;
};

enum mu_ray_task_state { MU_RAY_WAITING, MU_RAY_READY, MU_RAY_RUNNING, MU_RAY_ENDED };

struct mu_ray_task {
    struct mu_ray_task *next, *prev; /* of the queue; next: of those that are given up */
    uint64_t operation;
    struct mu_ray_function *function;
    struct mu_blob *body; /* the request ExecuteTask, and the Operation of the graph: field 1 of both */
    enum mu_ray_task_state state;
    uint32_t missing; /* arguments that are not ready */
    bool is_kept;     /* by the history */
    uint64_t first_result, num_results;
    size_t bytes;
    char *why; /* it is given up */
    struct mu_ray_ids nested;
    uint32_t num_args;
    struct mu_ray_wait waits[]; /* one for each argument by id; object: the argument */
};

struct mu_ray_operation {
    enum { MU_RAY_OP_NONE, MU_RAY_OP_TASK, MU_RAY_OP_PUT, MU_RAY_OP_GET } kind;
    uint64_t creator;
    union {
        uint64_t object;
        struct mu_ray_task *task;
    };
};

struct mu_ray_function {
    struct mu_ray_function *next;                      /* in its bucket */
    struct mu_ray_function *active_next, *active_prev; /* of those that have ready tasks */
    uint64_t num_returns;
    uint64_t *workers; /* a bit each */
    uint32_t num_words;
    struct mu_ray_task **heap; /* ready tasks, the oldest first */
    size_t num_ready, num_queued;
    uint32_t room;
    bool is_active;
    size_t len;
    char name[];
};

struct mu_ray_ledger {
    struct mu_ray_owed *owed;
    uint32_t count, room;
};

enum mu_ray_worker_state { MU_RAY_REGISTERED, MU_RAY_IDLE, MU_RAY_BUSY, MU_RAY_GONE };

struct mu_ray_worker {
    struct mu_ray_worker *next, *prev; /* of those that are idle, the longest first */
    uint32_t id, store;
    enum mu_ray_worker_state state;
    uint32_t importing; /* exports that it has been sent, and has not answered: it gets no task meanwhile */
    bool is_driver, is_initialized, is_lost, has_ledger; /* is_initialized: it has all exports */
    struct mu_ray_task *task;
    struct mu_ray_ledger ledger;
    char address[300];
    char why[200]; /* it is gone */
};

struct mu_ray_store {
    char address[280], host[256];
    bool is_gone;
};

struct mu_ray_export {
    bool is_variable;
    struct mu_blob *body;
};

struct mu_ray_failure {
    uint64_t operation;
    char *function, *address, *words; /* one allocation, at `function` */
};

struct mu_ray_sched {
    struct mu_ray_options o;
    size_t held;

    struct mu_ray_page **pages; /* NULL: all of its objects are freed */
    uint64_t num_objects, live_objects;
    uint32_t num_pages, room_pages;
    uint64_t doomed; /* groups that are to be freed; NIL: none */

    struct mu_ray_operation *operations; /* the last MU_RAY_HISTORY, in a ring */
    uint64_t num_operations;

    struct mu_ray_function *buckets[MU_RAY_BUCKETS];
    struct mu_ray_function *active;
    struct mu_ray_task *queue, *queue_last; /* not begun, in the order of submission */
    struct mu_ray_task *given_up;
    uint64_t num_queued, num_running, num_succeeded, num_failed;
    uint64_t forgotten;   /* operations below this one have been looked at, to forget ended tasks */
    size_t history_bytes; /* of tasks that have ended, and are kept */

    struct mu_ray_failure *failures; /* a ring */

    struct mu_ray_worker **workers;
    uint32_t num_workers, room_workers;
    struct mu_ray_worker *idle, *idle_last;
    struct mu_ray_store **stores;
    uint32_t num_stores, room_stores;
    struct mu_ray_export *exports;
    uint32_t num_exports, room_exports;
};

/* ---- memory.c ---- */
/* RESOURCE_EXHAUSTED: it would hold more than it may. */
enum muster_status mu_ray_take(struct mu_ray_sched *s, size_t bytes);
void mu_ray_give(struct mu_ray_sched *s, size_t bytes);
/* `array` is the address of a pointer; that many elements fit, or false: no memory. */
bool mu_ray_grow(void *array, size_t element, size_t needed, uint32_t *room);
void mu_ray_say(struct mu_ray_sched *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mu_ray_send(struct mu_ray_sched *s, const struct mu_ray_call *call);

/* ---- objects.c ---- */
struct mu_ray_object *mu_ray_object_at(const struct mu_ray_sched *s, uint64_t id); /* NULL: none, or freed long ago */
/* NOT_FOUND, FAILED_PRECONDITION: it is freed. */
enum muster_status mu_ray_object_find(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_object **ret_object);
/* So many objects, each with such a count; their producer has one of each. */
enum muster_status mu_ray_object_new(struct mu_ray_sched *s, uint64_t number, uint64_t count, uint64_t *ret_first);
void mu_ray_page_settle(struct mu_ray_sched *s, uint64_t id); /* that object is freed: perhaps its page is done */
/* Of an id that is not freed. */
struct mu_ray_object *mu_ray_root(const struct mu_ray_sched *s, uint64_t id);
/* Two groups become one, which is lost where the target's is. */
void mu_ray_unite(struct mu_ray_sched *s, uint64_t alias, uint64_t target);
/* The object can be had: it is not freed, and its canonical id is known, and is at a store. */
bool mu_ray_is_ready(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_object **ret_canonical);
void mu_ray_wait_for(struct mu_ray_sched *s, struct mu_ray_wait *wait);
void mu_ray_wait_end(struct mu_ray_sched *s, struct mu_ray_wait *wait);
void mu_ray_objects_close(struct mu_ray_sched *s);

/* ---- places.c ---- */
struct mu_ray_place *mu_ray_place_of(const struct mu_ray_object *o, uint32_t store);
bool mu_ray_is_at(const struct mu_ray_object *o, uint32_t store);
/* False: no memory. */
bool mu_ray_place_add(struct mu_ray_object *o, uint32_t store, enum mu_ray_place_state state);
/* The store is to have what this id names, by that name, as soon as it can be had. */
void mu_ray_bring(struct mu_ray_sched *s, uint64_t id, uint32_t store);
/* It has it now: tell it the names that are wanted there. */
void mu_ray_arrived(struct mu_ray_sched *s, uint64_t canonical, uint32_t store);
/* The place's store is gone: a delivery from it or to it is begun anew or forgotten. True: it was the last one. */
bool mu_ray_place_gone(struct mu_ray_sched *s, uint64_t id, uint32_t store, bool *ret_drop);

/* ---- ready.c ---- */
bool mu_ray_knows(const struct mu_ray_function *f, uint32_t worker);
/* All that waits for this object, which is ready, goes on. */
void mu_ray_wake(struct mu_ray_sched *s, uint64_t id);
/* False: an argument is freed or lost, and the task is given up. */
bool mu_ray_task_look(struct mu_ray_sched *s, struct mu_ray_task *t);
void mu_ray_task_ready(struct mu_ray_sched *s, struct mu_ray_task *t);
void mu_ray_worker_idle(struct mu_ray_sched *s, struct mu_ray_worker *w);  /* it has become so */
void mu_ray_worker_offer(struct mu_ray_sched *s, struct mu_ray_worker *w); /* it may do more than before */
/* The worker never heard of its task: another one gets it. */
void mu_ray_task_requeue(struct mu_ray_sched *s, struct mu_ray_worker *w);
/* It is not begun, and goes out of the queue. */
void mu_ray_task_unqueue(struct mu_ray_sched *s, struct mu_ray_task *t);

/* ---- functions.c ---- */
struct mu_ray_function *mu_ray_function_find(const struct mu_ray_sched *s, struct mu_ray_text name);
void mu_ray_functions_clear(struct mu_ray_sched *s);
void mu_ray_function_forget_worker(struct mu_ray_sched *s, uint32_t worker);

/* ---- tasks.c ---- */
void mu_ray_operation_add(struct mu_ray_sched *s, const struct mu_ray_operation *operation);
/* NULL: it is forgotten. */
const struct mu_ray_operation *mu_ray_operation_at(const struct mu_ray_sched *s, uint64_t id);
/* What the worker does is its cause. */
uint64_t mu_ray_creator(const struct mu_ray_worker *w);
void mu_ray_task_fail(struct mu_ray_sched *s, const struct mu_ray_task *t, const char *address,
                      struct mu_ray_text words);
void mu_ray_task_end(struct mu_ray_sched *s, struct mu_ray_task *t); /* it is freed, unless the history has it */
void mu_ray_tasks_close(struct mu_ray_sched *s);

/* ---- free.c ---- */
void mu_ray_drop(struct mu_ray_sched *s, uint64_t id);          /* a count of it */
void mu_ray_drop_producer(struct mu_ray_sched *s, uint64_t id); /* if there is one */
/* It will not be made: tasks that wait for it are given up. Nothing happens to one that is freed. */
void mu_ray_lose(struct mu_ray_sched *s, uint64_t id, const char *why);
/* It can never run. */
void mu_ray_give_up(struct mu_ray_sched *s, struct mu_ray_task *t, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of each request: free what has no count any more, end what was given up. */
void mu_ray_settle(struct mu_ray_sched *s);

/* ---- ledger.c ---- */
/* The worker has so many references more. */
void mu_ray_ledger_add(struct mu_ray_worker *w, uint64_t id, int64_t number);
void mu_ray_ledger_end(struct mu_ray_worker *w); /* nothing is known of it any more */
/* The worker is gone: they are dropped, and what it would have made is lost. */
void mu_ray_ledger_release(struct mu_ray_sched *s, struct mu_ray_worker *w, const char *why);

/* ---- nested.c ---- */
/* The ids in the value that are not freed, appended. False: it cannot be read, or there are too many. */
bool mu_ray_nested(const struct mu_ray_sched *s, const void *value, size_t len, struct mu_ray_ids *to);

/* ---- workers.c ---- */
/* The worker that a connection stands for; NULL: none that has a ledger. */
struct mu_ray_worker *mu_ray_holder(const struct mu_ray_sched *s, uint64_t by);
/* FAILED_PRECONDITION: it was lost, and holds nothing. */
enum muster_status mu_ray_holder_check(const struct mu_ray_sched *s, uint64_t by);
/* NOT_FOUND, FAILED_PRECONDITION: it is gone. */
enum muster_status mu_ray_worker_find(const struct mu_ray_sched *s, uint64_t id, struct mu_ray_worker **ret_worker);
/* UNAVAILABLE: its store is gone. */
enum muster_status mu_ray_worker_store_check(const struct mu_ray_sched *s, const struct mu_ray_worker *w);
void mu_ray_worker_equip(struct mu_ray_sched *s, struct mu_ray_worker *w); /* with all exports */
void mu_ray_workers_close(struct mu_ray_sched *s);

#endif
