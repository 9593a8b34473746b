/*
 * muster/schedule.h: functions that are called in other tasks of the host, over objects in shared memory.
 *
 * One task exports a function: a name, and what a worker needs in order to run it. Any task submits calls of it. A
 * call's results are objects that exist from the submission on, so they may be handed on, waited for and be arguments
 * of further calls at once. Workers are tasks that take calls, one after the other, and run them. (A call is what the
 * 2016 Scheduler named a task; a task of muster is a process.)
 *
 * A call runs when all of its arguments are there. If one of these is an error, the call does not run: its results
 * are errors that name the argument, with the same code and detail. A call is run once. If its worker dies in the
 * middle, it is run again as often as its function or the submission allows, else its results become errors that name
 * the worker. No other call is touched by that death. Workers join with MUSTER_JOIN_WORKER, or as tasks with
 * MUSTER_JOIN_RECOVERABLE: any other task's death is an error of the whole job. ('muster worker', and 'muster run
 * --workers', are workers for C functions. How one of the latter ended stands in the key "muster/workers/PID" some
 * milliseconds later.)
 *
 * A place is a queue that one worker serves, in order: what has state, an actor, is a place. When its worker dies or
 * closes it, its calls become errors.
 *
 * Objects hold what they name: a call holds its arguments until it has ended, a result that forwards another object
 * holds that one. Counts stay right when a process is killed at any instruction.
 *
 * All calls are thread-safe but those on one struct muster_call, which belongs to the thread that took it. None
 * blocks but those with a deadline, and muster_submit() with arguments of another host, which waits for this host's
 * agent. Functions and calls belong to their host; arguments may be objects of any, which are brought before the call
 * runs. (RPCs: ExportFunction, SubmitTask,
 * ReadyForNewTask, ExecuteTask, AliasObjectIDs.)
 */
#ifndef MUSTER_SCHEDULE_H
#define MUSTER_SCHEDULE_H

#include <muster/object.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions ---- */

typedef uint64_t muster_function; /* one version of a function; 0: none */

#define MUSTER_FUNCTION_LIBRARY  1u  /* `library` and `symbol`: muster_worker_run() opens and calls it */
#define MUSTER_FUNCTION_IMAGE    2u  /* `code` is a shared library's bytes, `symbol` is in it: likewise */
#define MUSTER_FUNCTION_OWN      16u /* this kind and those above are the languages': `code` means what they say */
#define MUSTER_FUNCTION_NAME_MAX 255u
#define MUSTER_RESULTS_MAX       64u   /* of one function */
#define MUSTER_ARGUMENTS_MAX     256u  /* of one call */
#define MUSTER_INLINE_MAX        4096u /* bytes of arguments that lie in the call; others become objects */
#define MUSTER_RETRIES_MAX       250u

struct muster_function_text {
    const char *name;
    uint32_t kind;
    uint32_t num_results; /* 0: a call has one result all the same, without bytes: that it has ended */
    uint32_t max_retries; /* how often a call is run again after a worker's death */
    const char *library;  /* path, or NULL: the worker's own program; at most 1023 bytes */
    const char *symbol;   /* at most 255 bytes, or NULL */
    const void *code;     /* copied */
    size_t code_len;
};

/*
 * Add a function, or another version of one, to the job's log of functions. Calls run the version with which they were
 * submitted. It stays for as long as the segment does. (ExportFunction)
 */
MUSTER_API enum muster_status muster_function_export(struct muster *muster, const struct muster_function_text *text,
                                                     muster_function *ret_function);

/* The newest version of the name. MUSTER_NOT_FOUND: there is none; see muster_function_wait().
 * MUSTER_INVALID_ARGUMENT: no function can have the name. */
MUSTER_API enum muster_status muster_function_find(struct muster *muster, const char *name,
                                                   muster_function *ret_function);
/* The same, waiting until there is one. */
MUSTER_API enum muster_status muster_function_wait(struct muster *muster, const char *name, muster_deadline deadline,
                                                   muster_function *ret_function);

struct muster_function_info {
    muster_function function;
    uint64_t number; /* in the log: 1, 2, 3, ... */
    uint32_t kind, num_results, max_retries;
    int32_t task;       /* that exported it */
    muster_object code; /* may be got like any object; 0: none */
    char name[MUSTER_FUNCTION_NAME_MAX + 1];
    char symbol[256];
    char library[1024];
};
MUSTER_API enum muster_status muster_function_info(struct muster *muster, muster_function function,
                                                   struct muster_function_info *ret_info);

/*
 * The log in order: all functions with a number above `after`, from the lowest on; stops when `visit` returns
 * non-zero. A worker that passes the last number it has seen sees each function once, in order.
 */
MUSTER_API enum muster_status muster_function_list(struct muster *muster, uint64_t after,
                                                   int (*visit)(void *arg, const struct muster_function_info *info),
                                                   void *arg);

/* ---- resources ---- */

#define MUSTER_RESOURCES_MAX      8u    /* of a job */
#define MUSTER_RESOURCE_NAME_MAX  31u   /* letters, digits, and any of "_-.:" */
#define MUSTER_RESOURCE_UNITS_MAX 64u   /* of one resource */
#define MUSTER_RESOURCE_TEXT      2048u /* the units of one, with commas between them, and a NUL */

/*
 * The job has so much of something that calls may ask for (see struct muster_submit_options), and what one has while it
 * runs no other has. `amount`: to four decimals, at most 10^9; with `units`, such as "0,1" or the UUIDs of GPUs, it has
 * each of these, and `amount` is not looked at. A resource that is there already gets the new amount; what is lent
 * stays lent. It stays for as long as the segment does. MUSTER_INVALID_ARGUMENT; MUSTER_FAILED_PRECONDITION: it was
 * offered with units, and now without, or the reverse, or with others in their place (more may follow them, or the last
 * ones go); MUSTER_RESOURCE_EXHAUSTED.
 */
MUSTER_API enum muster_status muster_resource_offer(struct muster *muster, const char *name, double amount,
                                                    const char *units);

struct muster_resource {
    const char *name;
    double amount; /* to four decimals; of one with units a whole number */
};

struct muster_resource_look {
    char name[MUSTER_RESOURCE_NAME_MAX + 1];
    double total, lent;
    char units[MUSTER_RESOURCE_TEXT]; /* all of them; "": it has none */
};
/* Stops when `visit` returns non-zero. Read-only handles, too. */
MUSTER_API enum muster_status muster_resource_list(struct muster *muster,
                                                   int (*visit)(void *arg, const struct muster_resource_look *look),
                                                   void *arg);

struct muster_lease_look {
    muster_object call; /* its first result */
    uint32_t pid;       /* of the process that runs it */
    double amount;
    char name[MUSTER_RESOURCE_NAME_MAX + 1];
    char units[MUSTER_RESOURCE_TEXT];
};
/* What running calls have, a look a call and resource. */
MUSTER_API enum muster_status
muster_lease_list(struct muster *muster, int (*visit)(void *arg, const struct muster_lease_look *look), void *arg);

/* ---- submission ---- */

/* An object, where `object` is not 0, which becomes the call's to hold, too; else bytes, which are copied. */
struct muster_argument {
    muster_object object;
    const void *data;
    size_t len;
};

struct muster_submit_options {
    muster_deadline deadline; /* 0: none. A call that no worker has begun by then becomes an error */
    int32_t max_retries;      /* -1: the function's. A place's calls are never run again */
    muster_object place;      /* 0: any worker */
    /*
     * What the call has while it runs, from when a worker takes it until it has ended or its worker has died, also
     * while it waits for other calls. It waits until all of it is free; calls that ask for less may come first. A call
     * for a place asks for nothing: what serves the place has what it needs.
     */
    const struct muster_resource *resources;
    uint32_t num_resources;
};

/*
 * Submit a call. Its results are held by this process, each once: ret_results has room for the function's num_results,
 * or for 1. `options` may be NULL. MUSTER_RESOURCE_EXHAUSTED: the segment is full; MUSTER_NOT_FOUND: an argument or
 * the place is gone; MUSTER_INVALID_ARGUMENT (also: `place` is none); MUSTER_OUT_OF_RANGE: an argument is larger than
 * the job has room for; MUSTER_FAILED_PRECONDITION: it asks for more than the job has. Nothing is submitted then.
 */
MUSTER_API enum muster_status muster_submit(struct muster *muster, muster_function function,
                                            const struct muster_argument *arguments, size_t count,
                                            const struct muster_submit_options *options, muster_object *ret_results);

/*
 * A call that no worker has begun becomes an error of MUSTER_CANCELLED; `result` is any of its results.
 * MUSTER_FAILED_PRECONDITION: it runs, or has ended, or the object is no call's.
 */
MUSTER_API enum muster_status muster_call_cancel(struct muster *muster, muster_object result);

/*
 * What an error carries beside its text: an object, which this process then holds once more, such as a pickled
 * exception. MUSTER_NOT_FOUND: it carries none; MUSTER_FAILED_PRECONDITION: the object is no error.
 */
MUSTER_API enum muster_status muster_object_detail(struct muster *muster, muster_object object,
                                                   muster_object *ret_detail);

/* ---- workers ---- */

struct muster_call;

/*
 * Take a call: of a place that this process has opened, in the order of submission; with 0 any that is for no place.
 * The call is this thread's until it ends by muster_call_done() or muster_call_fail(); a thread has one at a time, but
 * for a place's, which it may take while it runs another: so a call that serves a place never ends, and its worker is
 * counted as blocked meanwhile. A thread counts as a worker from its first call of this on.
 * MUSTER_DEADLINE_EXCEEDED, MUSTER_CANCELLED (interrupted, or the job was closed).
 */
MUSTER_API enum muster_status muster_worker_next(struct muster *muster, muster_object place, muster_deadline deadline,
                                                 struct muster_call **ret_call);

struct muster_call_info {
    muster_function function;
    muster_object result; /* the first one */
    uint32_t num_arguments, num_results;
    uint32_t retries_left;
    int32_t task; /* that submitted it; -1: a worker */
    muster_object place;
};
MUSTER_API void muster_call_get(const struct muster_call *call, struct muster_call_info *ret_info);

/* A view of an argument, valid until the call ends; it is not given back. Its object is 0 where the bytes lie in the
 * call. MUSTER_OUT_OF_RANGE: there is no such argument. */
MUSTER_API enum muster_status muster_call_argument(const struct muster_call *call, uint32_t i,
                                                   struct muster_object_view *ret_view);

/* What the call has of a resource: 0: nothing; and the units' names, with commas between them ("": none), such as
 * CUDA_VISIBLE_DEVICES wants them: room for MUSTER_RESOURCE_TEXT bytes. Either may be NULL. */
MUSTER_API enum muster_status muster_call_resource(const struct muster_call *call, const char *name, double *ret_amount,
                                                   char *ret_units);

/*
 * The call keeps its resources when it has ended: they are lent again when this thread's process has ended or execs, or
 * the thread has left the job. For a process that cannot let go of a GPU which it has used. The thread takes no further
 * call (MUSTER_FAILED_PRECONDITION). Of a call without resources: nothing changes. Not of a call of a place.
 */
MUSTER_API enum muster_status muster_call_keep(struct muster_call *call);

/* Room for the i-th result, which the worker fills before it says that the call is done. Once a result.
 * MUSTER_RESOURCE_EXHAUSTED, MUSTER_OUT_OF_RANGE as muster_object_create(). */
MUSTER_API enum muster_status muster_call_result(struct muster_call *call, uint32_t i, size_t len, size_t meta_len,
                                                 struct muster_object_room *ret_room);

/* The i-th result is that object: another call's result, or one that the worker made. Its holder keeps its own hold.
 * (AliasObjectIDs) */
MUSTER_API enum muster_status muster_call_forward(struct muster_call *call, uint32_t i, muster_object object);

/*
 * The call has ended, and its results are what the worker made of them, all at one instant; one that it did not make
 * has no bytes. `call` is gone, whatever is returned: MUSTER_RESOURCE_EXHAUSTED: the segment was so full that the
 * results are errors.
 */
MUSTER_API enum muster_status muster_call_done(struct muster_call *call);

/* The call has ended, and its results are errors of this code and text (at most 800 bytes), with an object beside
 * (0: none); the caller keeps its own hold of that. `call` is gone. */
MUSTER_API enum muster_status muster_call_fail(struct muster_call *call, enum muster_status code, const char *text,
                                               muster_object detail);

/* A new place, served by one thread of this process at a time; held by this process once. */
MUSTER_API enum muster_status muster_place_open(struct muster *muster, muster_object *ret_place);
/* No more calls: those that are queued become errors of this code and text, and so does the place. */
MUSTER_API enum muster_status muster_place_close(struct muster *muster, muster_object place, enum muster_status code,
                                                 const char *text);

/*
 * What a C function is, kind LIBRARY or IMAGE: it takes arguments and gives results by the calls above, but ends
 * neither with them: MUSTER_OK is muster_call_done(), else muster_call_fail() with that code and
 * muster_last_error().
 */
typedef enum muster_status (*muster_function_body)(struct muster *muster, struct muster_call *call);

struct muster_worker_options {
    uint32_t max_threads;     /* of this process that run calls, while others are blocked in them; 0: 64 */
    muster_deadline deadline; /* 0: none: until the job is closed, or the handle interrupted */
};
/* Take and run C functions, in this thread, and in further ones while calls of this process are blocked. Calls of
 * other kinds are errors. `options` may be NULL. (the 2016 worker's main loop) */
MUSTER_API enum muster_status muster_worker_run(struct muster *muster, const struct muster_worker_options *options);

struct muster_workers_info {
    uint32_t workers; /* threads that have taken a call, or wait for one */
    uint32_t idle;    /* of these: wait for one of no place */
    uint32_t blocked; /* of these: in a call, and wait for an object there, or for a call of a place */
    uint32_t queued;  /* calls of no place that wait for a worker, roughly */
    uint64_t change;  /* moves when a worker comes, goes, blocks or goes on */
};
/* Never blocks. */
MUSTER_API enum muster_status muster_workers_get(struct muster *muster, struct muster_workers_info *ret_info);
/* The same, waiting until `change` is another. The owner of a pool starts another worker when workers - blocked
 * is below what it wants. */
MUSTER_API enum muster_status muster_workers_wait(struct muster *muster, uint64_t change, muster_deadline deadline,
                                                  struct muster_workers_info *ret_info);

/* ---- looks, for people and tools: nothing is held, and what is said may be over by then. Read-only handles, too ----
 */

enum muster_call_state {
    MUSTER_CALL_WAITING = 1, /* for an argument */
    MUSTER_CALL_QUEUED = 2,  /* for a worker */
    MUSTER_CALL_PLACED = 3,  /* for the worker of its place */
    MUSTER_CALL_RUNNING = 4,
    MUSTER_CALL_FAILED = 5, /* an object that is an error, a call's or another */
};

struct muster_call_look {
    muster_object result;
    enum muster_call_state state;
    muster_function function;                /* FAILED: 0, as its name is "" */
    char name[MUSTER_FUNCTION_NAME_MAX + 1]; /* of the function */
    int32_t task;                            /* that submitted it, or runs or ran it; -1: a worker */
    uint32_t pid;                            /* RUNNING: of the process that runs it */
    muster_object waits_for;                 /* WAITING: an argument; PLACED: the place */
    enum muster_status code;                 /* FAILED, as is the text */
    char text[256];
};
/* All that have not ended, and all errors; stops when `visit` returns non-zero. */
MUSTER_API enum muster_status muster_call_list(struct muster *muster,
                                               int (*visit)(void *arg, const struct muster_call_look *look), void *arg);
/* The call of which the object is the first result. MUSTER_NOT_FOUND: it has ended well, is gone, or is none. */
MUSTER_API enum muster_status muster_call_look_at(struct muster *muster, muster_object result,
                                                  struct muster_call_look *ret_look);

struct muster_worker_look {
    uint32_t pid;
    int32_t task; /* -1: it has no number */
    int idle, blocked;
    muster_object call; /* that it runs; 0: none */
};
/* Each thread that is a worker. */
MUSTER_API enum muster_status
muster_worker_list(struct muster *muster, int (*visit)(void *arg, const struct muster_worker_look *look), void *arg);

#ifdef __cplusplus
}
#endif
#endif
