/*
 * coord/coord.h: the coordination engine ("the engine"): the coordination service for tasks that come in over the wire
 * ("wire clients"), in steps that never sleep: what each call means, over the segment's own barriers, keys, records and
 * errors, which the tasks of the C library share. Knows nothing of gRPC or protobuf: whatever serves a job's clients in
 * the loop, by whatever protocol, asks the one engine that its agent has.
 *
 * One thread: the loop's. Every request is a struct mu_coord_request that its dialect owns; it is answered by
 * `answered`, once, perhaps before the call that made it returns. The request may be freed, and other requests made or
 * dropped, within `answered`; the engine may not be freed there.
 *
 * In the engine's sentences a task is "task 2 (pid 4711 on host n1)", or "task 2" when it never registered. They are
 * bounded (below 4 KB) and may be cut within a character.
 */
#ifndef MU_COORD_COORD_H
#define MU_COORD_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <muster/kv.h>
#include <muster/task.h>

struct mu_account;
struct mu_blob;
struct mu_coord;
struct mu_lanes;

/*
 * Where the job has several hosts each has an engine, for its own tasks. Host 0's decides for all when the register
 * barrier and the shutdown barrier are over, and this is what they tell each other for that: each word comes once, and
 * in order.
 */
enum mu_coord_word {
    /* to host 0's */
    MU_WORD_COMES = 1,  /* the task is connected, and its registration waits for the others */
    MU_WORD_GOES = 2,   /* it does not wait any more */
    MU_WORD_LEAVES = 3, /* the task has called for the shutdown */
    /* from host 0's, to all */
    MU_WORD_REGISTERED = 16, /* all have registered, or that has failed */
    MU_WORD_LEFT = 17,       /* the same of the shutdown */
};
struct mu_coord_news {
    enum mu_coord_word word;
    uint32_t round;         /* of that barrier, by what its teller knows: of an earlier one all have been told */
    uint32_t task, attempt; /* which, and its how manieth registration; 0 from host 0's */
    enum muster_status code;
    const char *text;  /* of a failure; "" */
    const char *brief; /* what a record has room for of it; NULL: as `text` */
};

struct mu_coord_options {
    uv_loop_t *loop;
    struct muster *m;             /* an observer's handle, used in the loop's thread; outlives the engine */
    struct mu_lanes *lanes;       /* the bridge's, in a job of several hosts; outlives the engine. Else NULL */
    struct mu_account *account;   /* for what is held for clients; outlives the engine. NULL: bounds of its own */
    uint64_t register_timeout_ns; /* 0: an hour */
    uint64_t shutdown_timeout_ns; /* 0: no barrier */
    bool register_barrier;        /* a client that registers waits for all tasks */
    bool recoverable;             /* all wire clients are */
    bool reconnects;              /* a task in error because of silence may come again as another incarnation */
    /* A connection is gone without a poll on it: its task may come back within this; 0: while its process lives, where
     * that is known, and its heartbeats are not overdue. */
    uint64_t lost_ns;
    /* The process that the launcher started for the task, and will say how it ended; 0: none, or ended. May be NULL. */
    uint32_t (*pid_of)(void *arg, uint32_t task);
    /* Progress for people: which tasks are still missing, after say_ns of waiting (0: ten seconds), and then now and
     * again; about a task that stands out by its wait, sooner. `task`: that one; -1: none. May be NULL. */
    void (*said)(void *arg, int32_t task, const char *sentence);
    uint64_t say_ns;
    /* To the engine of that host, UINT32_MAX: to all others', where the job has others: it reaches mu_coord_told(). */
    void (*tell)(void *arg, uint32_t host, const struct mu_coord_news *news);
    void *arg;
};
enum muster_status mu_coord_open(const struct mu_coord_options *options, struct mu_coord **ret_coord);
const struct mu_coord_options *mu_coord_options(const struct mu_coord *coord); /* that it was opened with */
uint64_t
mu_coord_incarnation(const struct mu_coord *coord); /* of the service: the job's run, the same after an adoption */
uint32_t mu_coord_num_tasks(const struct mu_coord *coord);
/* Its registration waits for the others. */
bool mu_coord_is_registering(const struct mu_coord *coord, int32_t task);
/* Every task has been there, and has left or failed for good: nobody is connected, nobody waits to be. */
bool mu_coord_is_over(const struct mu_coord *coord);
/* The job is in error: its first error that counts, as pollers are told it. NULL: it is well. *ret_origin: the
 * task that it came from; -1: none. Good until the engine is asked again. */
const char *mu_coord_error(struct mu_coord *coord, int32_t *ret_origin);
/* How often all wire clients had shut down: what they had written has gone. */
uint64_t mu_coord_generation(const struct mu_coord *coord);
/* The task that waits in the shutdown while most others do not, as host 0's engine knows; -1: none. */
int32_t mu_coord_waits_alone(const struct mu_coord *coord);
/* The task has called for the shutdown, which is not over. */
bool mu_coord_is_leaving(const struct mu_coord *coord, int32_t task);
/* Something has changed outside, as the end of a process: look at all that waits, now. Outside of every muster call. */
void mu_coord_look(struct mu_coord *coord);
/* The engine of that host tells. What it has no right to say is not heard. */
void mu_coord_told(struct mu_coord *coord, uint32_t host, const struct mu_coord_news *news);
/*
 * Tasks that are servers themselves are told of errors by a call, unless they poll: `report` makes it, when the job's
 * first error that counts has come, for each wire client that is connected here. False: there is no way to that task.
 * origin: as of a request. mu_coord_untold() says that a call failed: then its task learns as those do to which there
 * is no way.
 */
struct mu_coord_report {
    int32_t task, origin;
    uint64_t incarnation; /* of the task */
    enum muster_status code;
    const char *text;
    bool reported;
};
void mu_coord_report_by(struct mu_coord *coord, bool (*report)(void *arg, const struct mu_coord_report *report),
                        void *arg);
void mu_coord_untold(struct mu_coord *coord, int32_t task, uint64_t incarnation);
/* Answers everything that waits. From then on every request is refused. */
void mu_coord_stop(struct mu_coord *coord);
/* Stops it, and closes its handles: the memory goes when the loop has run once more. All lines have hung up. */
void mu_coord_free(struct mu_coord *coord);

/* A client's connection. pid: of its peer, 0 when that is not known; name: for people. NULL: no memory. */
struct mu_line;
struct mu_line *mu_coord_line(struct mu_coord *coord, uint32_t pid, const char *name);
/* So many of its requests may wait, of so many bytes: for a client that asks more in one call than the lines of gRPC
 * may. */
void mu_coord_line_may(struct mu_line *line, uint32_t requests, size_t bytes);
/*
 * It is gone; its requests have been dropped, or are now. Tasks that spoke through it are lost: at once, when they
 * polled for errors here or, their processes unknown, the job has failed; else when they do not come back on another
 * line (lost_ns). why: "closed by its peer".
 */
void mu_coord_hang_up(struct mu_line *line, const char *why);

enum { /* what an error carries besides its sentence */
       MU_PAYLOAD_NONE = 0,
       MU_PAYLOAD_SERVICE = 1, /* CoordinationServiceError: `origin`, and `reported` if that is a task */
       MU_PAYLOAD_BARRIER = 2, /* CoordinationServiceError without origin, BarrierError{barrier_id, counter} */
};

struct mu_coord_request {
    void (*answered)(struct mu_coord_request *request);
    /* get_dir: an entry of the answer as its client gets it, and how many bytes that are; `to` NULL: only these. So a
     * long answer is made in pieces, too: it is `value` and `len` then, and there are no entries. May be NULL. */
    size_t (*write)(const struct muster_kv_entry *entry, uint8_t *to);
    struct mu_line *line; /* may be NULL */
    bool heeds_errors;    /* get: it ends, ABORTED, when the job is in error */
    /* get, try_get: whether it is there is all that is asked: there is no value. And: the value may have what the
     * account keeps. */
    bool is_bare, is_favoured;
    /* The answer. What it points to is the engine's, until `answered` returns. */
    enum muster_status status;
    const char *text; /* of an error */
    unsigned payload;
    int32_t origin; /* the task that the error came from; -1: none */
    bool reported;  /* by that task itself, with ReportErrorToService */
    const char *barrier_id;
    /* Of a barrier: the service's instance, with OK and with MU_PAYLOAD_BARRIER. append: the length then; delete: how
     * many keys went; count: how many there are. */
    int64_t counter;
    bool replayed;                         /* of a barrier: the instance had ended before the call came */
    size_t head;                           /* the engine's: bytes in front of the key's value that are not shown */
    const void *value;                     /* get, try_get, increment; get_dir with `write` */
    size_t len;                            /* also of a value for which there was no room: RESOURCE_EXHAUSTED */
    struct mu_blob *blob;                  /* where that value begins: its holder need not copy it. NULL: nowhere */
    const struct muster_kv_entry *entries; /* get_dir: sorted by key */
    size_t num_entries;
    const struct muster_task_info *tasks; /* watch, state */
    size_t num_tasks;
    /* watch; -1: the service has stopped. get, try_get: the value's; compare_and_set: the one that is there then, 0:
     * none
     */
    int64_t version;
    const int32_t *alive; /* sorted */
    const uint64_t *incarnations;
    size_t num_alive;
    /* the engine's: where it waits */
    struct mu_coord_pending *pending;
};
/* Its client waits no more: it will not be answered. Allowed also when it has been. */
void mu_coord_drop(struct mu_coord *coord, struct mu_coord_request *request);

/* Each RPC. Task ids and counters are as they came, unchecked; keys and ids are bytes, which need no NUL. */
void mu_coord_register(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, uint64_t incarnation,
                       bool recoverable);
void mu_coord_heartbeat(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, uint64_t incarnation);
void mu_coord_poll_error(struct mu_coord *coord, struct mu_coord_request *request, int32_t task);
void mu_coord_report_error(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, int32_t code,
                           const char *text, size_t len);
void mu_coord_shutdown(struct mu_coord *coord, struct mu_coord_request *request, int32_t task);
void mu_coord_reset(struct mu_coord *coord, struct mu_coord_request *request, int32_t task);
/* version: -1 and older ones than the present answer at once. */
void mu_coord_watch(struct mu_coord *coord, struct mu_coord_request *request, int64_t version);
void mu_coord_state(struct mu_coord *coord, struct mu_coord_request *request, const int32_t *tasks, size_t count);
void mu_coord_alive(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const int32_t *tasks,
                    size_t count);

void mu_coord_insert(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                     const void *value, size_t len, bool overwrite);
void mu_coord_get(struct mu_coord *coord, struct mu_coord_request *request, const char *key,
                  size_t key_len); /* waits until it is there */
void mu_coord_try_get(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len);
void mu_coord_increment(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                        int64_t by);
/* expected: the version; 0: absent. ABORTED: it is another. */
void mu_coord_compare_and_set(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                              uint64_t expected, const void *value, size_t len);
void mu_coord_append(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                     const void *value, size_t len);
void mu_coord_get_dir(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len);
/* The client's key and value of a stored entry. */
void mu_coord_entry(const struct muster_kv_entry *stored, struct muster_kv_entry *ret_entry);
void mu_coord_count(struct mu_coord *coord, struct mu_coord_request *request, const char *key,
                    size_t key_len); /* below it */
/* That key alone, at one instant: `counter` says whether it was there. */
void mu_coord_erase(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len);
void mu_coord_delete(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len);

/* count 0: all tasks. */
void mu_coord_barrier(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                      size_t id_len, int64_t timeout_ms, const int32_t *tasks, size_t count, int64_t counter);
void mu_coord_cancel(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                     size_t id_len, int64_t counter);

#endif
