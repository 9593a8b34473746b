/*
 * coord/private.h: what the engine's files share.
 *
 *   coord/coord.c     open, stop, free; the table of features
 *   coord/look.c      the look at everything that may have changed, what is due
 *   coord/tasks.c     the tasks, and words for them
 *   coord/pending.c   pending requests: where, how many, how they are answered
 *   coord/line.c      connections, and tasks that are lost with them
 *   coord/kv.c        keys: changes and reads
 *   coord/key_wait.c  gets that wait for their key
 *   coord/work.c      what takes more than one turn: deletes, listings
 *   coord/barrier.c   named barriers
 *   coord/alive.c     which tasks are alive
 *   coord/watch.c     the tasks' states
 *   coord/register.c  registering and its barrier; leaving
 *   coord/shutdown.c  the shutdown barrier
 *   coord/generation.c  what goes when all wire clients have shut down
 *   coord/hosts.c     the same two for the wire clients of several hosts
 *   coord/error.c     errors, polls for them; heartbeats
 *   coord/remote*.c   what a host that is not the leader's asks the leader for (coord/remote.h)
 *
 * Every public call ends with mu_coord_deliver(), and none is inside mu_enter() when it calls back: so `answered` may
 * do as it likes. Until then those that have an answer are in the list `ready`.
 */
#ifndef MU_COORD_PRIVATE_H
#define MU_COORD_PRIVATE_H

#include "base/account.h"
#include "base/blob.h"
#include "bridge/barrier/pending.h"
#include "kv/key.h"
#include "coord/coord.h"
#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/hosts.h"
#include "segment/remote.h"

/* ---- pending requests: coord/pending.c ---- */

struct mu_coord_pending_list {
    struct mu_coord_pending *first, *last;
    uint32_t count;
};

struct mu_coord_pending {
    struct mu_coord_request *request;
    struct mu_coord_pending_list *list;
    struct mu_coord_pending *prev, *next; /* there, in the order in which they came */
    struct mu_line *line;
    struct mu_coord_pending *line_prev, *line_next;
    size_t bytes;   /* that count against its line */
    bool is_remote; /* it has a call to the leader */
    int32_t task;
    void *at; /* what it waits for: a key wait, something pending, a piece of work */
    /* Its client has given it up: it is in no list any more. NULL: nothing to be done. */
    void (*dropped)(struct mu_coord *coord, struct mu_coord_pending *p);
    struct mu_coord_pending *older; /* of a call to a barrier: its task's next one that waits */
    union {
        struct mu_pending_call pending; /* at a barrier of this host's segment, or a liveness query */
        struct {
            uint64_t incarnation;
            bool recoverable;
        };                /* of a registration */
        uint64_t version; /* that a watcher has seen */
        bool late;        /* of a get: it came when its fetch was under way (coord/remote_fetch.c) */
    };
    /* of an answer that is ready */
    char *text;
    void *owned[2]; /* freed with it */
    struct mu_blob *shared;
};

/* mu_coord_drop() of what waits, wherever its request leads by now. */
void mu_coord_pending_drop(struct mu_coord *coord, struct mu_coord_pending *p);
/* The request waits, there. NULL, RESOURCE_EXHAUSTED, with a sentence: its line or the service has too many of them. */
struct mu_coord_pending *mu_coord_pending_new(struct mu_coord *coord, struct mu_coord_request *request,
                                              struct mu_coord_pending_list *list, size_t bytes);
/* It has its answer, which mu_coord_deliver() delivers. The text is copied; may be NULL. It is in no list but `ready`.
 */
void mu_coord_pending_answer(struct mu_coord *coord, struct mu_coord_pending *p, enum muster_status status,
                             unsigned payload, const char *text);
void mu_coord_deliver(struct mu_coord *coord);
/* What a refusal carries that is about a key's value: to clients, an error of the service's own. Others carry nothing.
 */
static inline unsigned mu_coord_key_payload(enum muster_status status)
{
    return status == MUSTER_NOT_FOUND || status == MUSTER_FAILED_PRECONDITION ? MU_PAYLOAD_SERVICE : MU_PAYLOAD_NONE;
}
/* What a change of a key has come to, besides its status. */
void mu_coord_result(struct mu_coord_request *request, enum mu_op op, uint64_t result);

/* Answer now a request that does not wait. The text is the caller's. */
void mu_coord_answer(struct mu_coord_request *request, enum muster_status status, unsigned payload, const char *text);
/* The same with the sentence of the last failed call. */
void mu_coord_fail(struct mu_coord_request *request, enum muster_status status, unsigned payload);
/* OK, or the same. */
void mu_coord_complete(struct mu_coord_request *request, enum muster_status status, unsigned payload);
/* The error is the task's. */
void mu_coord_fail_of(struct mu_coord_request *request, enum muster_status status, int32_t task);
/* The engine has stopped: the request has been answered. */
bool mu_coord_refuses(struct mu_coord *coord, struct mu_coord_request *request);

/* ---- the engine ---- */

#define MU_COORD_TEXT 4096u /* the longest sentence */

/* What it knows of a task besides its record. */
struct mu_coord_task {
    struct mu_line *line;      /* through which it spoke last; NULL: none, or that has hung up */
    struct mu_line *poll_line; /* on which it polled for errors last, if it still waits or has given up */
    uint64_t spoke;            /* the incarnation that did */
    uint64_t lost_at;          /* its line is gone: when it is lost with it; 0: not */
    char *lost_why;
    uint32_t lost_pid; /* not while this process lives; 0: whether one does or not */
    struct mu_coord_pending *poll, *registering, *leaving; /* its requests of these kinds that wait */
    struct mu_coord_pending *meets;                        /* its calls to barriers that wait, the latest first */
    bool left;                                             /* it has called for the shutdown, which is not over */
    bool is_told;                                          /* of the job's error, by a call, */
    uint64_t told;                                         /* and which incarnation of it is */
    /* at host 0, of another host's task, and at which registration it did the two */
    bool comes; /* its registration waits */
    uint32_t comes_attempt, left_attempt;
    uint32_t calls; /* to the leader, that have a name (coord/remote_barrier.c) */
};

/* An error as pollers are told it. */
struct mu_coord_error {
    bool is;
    enum muster_status code;
    int32_t origin;
    bool reported;
    char text[MU_COORD_TEXT];
};

struct mu_process_watch;
struct mu_line {
    struct mu_coord *coord;
    struct mu_line *prev, *next;
    struct mu_coord_pending *pending; /* its requests that wait */
    uint32_t count, remote;           /* remote: of those that have a call to the leader */
    size_t bytes;
    uint32_t most;     /* requests that may wait, */
    size_t most_bytes; /* and bytes of theirs */
    bool speaks;       /* for a task, or has: tasks point to it */
    uint32_t pid;
    struct mu_process_watch *ear; /* NULL: nothing is heard of its process */
    char name[64];
};

/* A version of a key is one value for ever, so it need not be read out again while somebody has it. */
#define MU_VALUES      16u
#define MU_VALUE_LEAST 4096u /* bytes: of a shorter one a copy costs less than to look */
struct mu_value {
    uint64_t hash, version;
    struct mu_blob *blob; /* its seat */
};

struct mu_coord_remote;
struct mu_key_wait_spot;
struct mu_work;
struct mu_listener;

/*
 * A feature of the engine: its row, by which the engine calls it. Features call the engine's own files, coord/look.c,
 * coord/tasks.c and coord/pending.c, and these call features through the rows alone. Any function may be NULL.
 */
struct mu_coord_feature {
    enum muster_status (*open)(struct mu_coord *coord);
    /* The tasks' states have changed: again, until no look has changed them; and once then. Outside of mu_enter(). */
    void (*look_tasks)(struct mu_coord *coord, const struct mu_cluster_root *root);
    void (*looked)(struct mu_coord *coord);
    /* Somebody has changed something else, or may have. Outside of mu_enter(). */
    void (*look)(struct mu_coord *coord);
    /* When something is due, of mu_now(), UINT64_MAX: nothing is; and it may be now. Outside of mu_enter(). */
    uint64_t (*next)(const struct mu_coord *coord);
    void (*due)(struct mu_coord *coord, uint64_t now);
    /* Every 100 ms while somebody waits. */
    void (*beat)(struct mu_coord *coord);
    /* What another host's engine says, if it is one of these: bits by enum mu_coord_word. */
    uint32_t words;
    void (*told)(struct mu_coord *coord, const struct mu_coord_news *news);
    /* All that wait are answered. */
    void (*stop)(struct mu_coord *coord);
};
/* All of them, in the table in coord/coord.c. */
extern const struct mu_coord_feature mu_remote_feature, mu_watchers_feature, mu_errors_feature, mu_registering_feature,
    mu_leaving_feature, mu_generation_feature, mu_lines_feature, mu_calls_feature, mu_work_feature,
    mu_key_waits_feature, mu_key_fetches_feature;

struct mu_coord {
    struct mu_coord_options o;
    const struct mu_coord_feature *const *features; /* up to a NULL */
    struct muster *m;
    struct muster_segment *seg;
    uint32_t num_tasks;
    uint64_t incarnation; /* asked for with every call */
    struct mu_coord_task *tasks;
    struct mu_line *lines;
    struct mu_coord_pending_list ready;
    uint32_t num_pending; /* all but those in `ready` */
    size_t pending_bytes;
    bool stopped, delivering;

    struct mu_listener *listener; /* NULL: the job has no bell for us */
    uv_async_t bell;
    bool armed;
    uv_timer_t timer, recheck;
    uint64_t timer_at; /* of mu_now(); UINT64_MAX: it does not run */
    uv_idle_t idle;
    uint32_t closing; /* handles that are not closed yet */
    uint64_t version; /* of the job's state, when last looked at */

    struct mu_coord_remote *remote;               /* NULL: the leader's engine, or the only one */
    struct mu_key_wait_spot **spots, *first_spot; /* by bucket */
    struct mu_value values[MU_VALUES];            /* long ones that are on their way to clients, by hash */
    struct mu_coord_pending_list work;            /* requests that wait for it: */
    struct mu_work *first_work, *last_work;
    uint32_t num_works, work_turn;
    struct mu_pending_table pending;    /* what lies in our segment: barriers, sets of liveness queries; */
    struct mu_coord_pending_list calls; /* the calls to those */
    struct mu_blob *alive;              /* the answer of this look at such a set, */
    uint64_t alive_instance;            /* to that instance of it; NULL: none */

    struct mu_coord_pending_list registering;
    uint32_t coming; /* tasks that wait likewise at other hosts' engines */
    bool registered; /* that barrier has passed, once */
    uint64_t register_until, say_at;
    uint64_t register_version; /* of the job's state in which so many tasks were */
    uint32_t connected, register_round;
    int32_t first_to_register;

    struct mu_coord_pending_list leaving;
    uint64_t leave_until;               /* UINT64_MAX: nobody has called */
    uint64_t leave_say_at, leave_since; /* when the missing are to be told; the first call */
    uint64_t leave_version;
    uint32_t not_done, leave_round;
    int32_t first_to_leave;
    bool leaving_failed;
    bool leave_passes; /* host 0's engine has said so */
    char leaving_text[MU_COORD_TEXT];

    struct mu_coord_pending_list watchers;

    bool lived;          /* a wire client was connected since the last generation ended */
    uint32_t stayed;     /* which, at the last look */
    uint64_t generation; /* how many have ended */

    struct mu_coord_pending_list polls;
    bool polled; /* somebody has, ever */
    struct mu_coord_error error;
    uint64_t word_until; /* until when the job's error is not told, for host 0's word of it comes; UINT64_MAX: none
                         does; 0: it has not come */
    bool (*call_task)(void *arg, const struct mu_coord_report *report); /* NULL: none is called */
    void *call_arg;
    int32_t report_of; /* the whole of what was reported last: the record keeps its beginning */
    char report[2048];
    uint64_t lost_next; /* when the first is lost */
};

/* ---- looking: coord/look.c ---- */

/* Its timers, and the bell, which is heard from mu_coord_listen() on. */
enum muster_status mu_coord_handles_open(struct mu_coord *coord);
void mu_coord_listen(struct mu_coord *coord);
void mu_coord_listen_stop(struct mu_coord *coord);
/* Something waits: what others change is looked at. */
void mu_coord_watch_bell(struct mu_coord *coord);
/* Something is due at that moment of mu_now(). */
void mu_coord_due(struct mu_coord *coord, uint64_t at);
/* Look at everything that hangs on the tasks' states, if they have changed; or in any case. Outside of mu_enter(). */
void mu_coord_look_tasks(struct mu_coord *coord);
void mu_coord_look_at_tasks(struct mu_coord *coord);

/* ---- tasks: coord/tasks.c ---- */

static inline bool mu_coord_has(const struct mu_coord *coord, int32_t task)
{
    return task >= 0 && (uint32_t)task < coord->num_tasks;
}
/* A task's record, and its error's text (may be NULL); zeros when it cannot be read. */
void mu_coord_record(const struct mu_coord *coord, int32_t task, struct mu_task_record *ret_record, char *text);
static inline bool mu_coord_is_recoverable(const struct mu_task_record *r)
{
    return r->flags & MU_TASK_RECOVERABLE;
}
/* What people call it: "task 2 (pid 4711 on host n1)". */
void mu_coord_name(const struct mu_coord *coord, int32_t task, char *name, size_t size);
/* The call is for a task of another host, which has another engine: INVALID_ARGUMENT, with a sentence. */
enum muster_status mu_coord_refuse_other(const struct mu_coord *coord, int32_t task);
/* The words for a barrier of the engine's own when its time is over: `there` tells the tasks that have come. */
typedef bool (*mu_there_fn)(const struct mu_coord *coord, uint32_t task);
void mu_coord_words_of_timeout(const struct mu_coord *coord, const char *id, mu_there_fn there, int32_t first,
                               char *text, size_t size);
/* "task 2, task 5 (pid 4711 on host n1)": two at most of those that are missing, each after `between`. How many. */
uint32_t mu_coord_name_missing(const struct mu_coord *coord, mu_there_fn there, const char *between, char *text,
                               size_t size);
/* Tells people the missing tasks, if any; and that the task `waits` (-1: none) stands out. When to say it again. */
uint64_t mu_coord_say_missing(struct mu_coord *coord, mu_there_fn there, const char *what, int32_t waits, uint64_t now);

/* ---- keys: coord/key.c ---- */

#define MU_WIRE_KEY_MAX (1u << 20) /* bytes of a key or a barrier's id, of a client's */
/* What lies in front of the value of a key that is longer than the store's. */
struct mu_coord_head {
    char *key; /* malloc()ed; NULL: nothing */
    size_t len;
};
/* The store's name of a client's key; *ret_head is set, and its key to be freed, whatever comes of it. */
enum muster_status mu_coord_key(struct mu_coord *coord, const char *key, size_t len, struct mu_key *ret_key,
                                struct mu_coord_head *ret_head);
size_t mu_coord_head_bytes(const struct mu_coord_head *head);
/* The head and the value: malloc()ed. */
void *mu_coord_head_join(const struct mu_coord_head *head, const void *value, size_t len);
/* As mu_kv_directory(), of a client's: malloc()ed, NULL where it fails. */
enum muster_status mu_coord_directory(const char *key, size_t len, char **ret_path, size_t *ret_len);
/* What a listing is asked for: names in the store have no more of a longer path, */
static inline size_t mu_coord_listed(size_t len)
{
    return len < MU_KV_LONG_BEGINS ? len : MU_KV_LONG_BEGINS;
}
/* and those entries alone are kept that are below it. How many. */
size_t mu_coord_below(struct muster_kv_entry *entries, size_t count, const char *path, size_t len);
/* A barrier's id in no more bytes than MUSTER_BARRIER_ID_MAX, without a NUL. */
void mu_coord_id(const char *id, size_t len, char text[MUSTER_BARRIER_ID_MAX + 1]);

/* ---- key waits: coord/key_wait.c ---- */

struct mu_key_fetch;
/* A key, and all requests for it. */
struct mu_key_wait {
    struct mu_key_wait *next, *prev; /* of its spot */
    struct mu_key_wait_spot *spot;
    struct mu_coord_pending_list requests; /* gets that wait for it, in the order in which they came */
    struct mu_coord_pending_list tries;    /* gets that ask whether it is there, on a follower's host */
    struct mu_key_fetch *fetch;            /* its fetch from the leader (coord/remote_fetch.c) */
    uint64_t hash;
    uint32_t len;
    char key[];
};
/* A bucket where something is waited for. */
struct mu_key_wait_spot {
    struct mu_key_wait_spot *prev, *next;
    struct mu_key_wait *waits;
    uint32_t bucket;
    uint64_t word; /* in which none of the waits' keys was there */
};

/* The key was not there when its bucket's word was this. */
enum muster_status mu_coord_key_wait_add(struct mu_coord *coord, struct mu_coord_request *request,
                                         const struct mu_key *k, uint64_t word, bool waits);
void mu_coord_key_wait_drop(struct mu_coord *coord, struct mu_key_wait *w); /* nobody has it any more */
/* The value, to one of the requests for it. */
void mu_coord_key_wait_grant(struct mu_coord *coord, struct mu_coord_pending *p, struct mu_blob *value,
                             uint64_t version);
/* If it is there, all of them have it, and the wait is gone: true. Outside of mu_enter(). */
bool mu_coord_key_wait_look(struct mu_coord *coord, struct mu_key_wait *w);
/* The key was written here just now. */
void mu_coord_key_waits_written(struct mu_coord *coord, struct mu_ctx *ctx, const struct mu_key *k);
/* The job is in error: the gets that heed it end. */
void mu_coord_key_waits_fail(struct mu_coord *coord, const char *text);
/* The value; *ret is NULL when the key is absent. A long one is there once, for all requests while any has it. */
enum mu_coord_fetch_kind { MU_FETCH_VALUE, MU_FETCH_BARE, MU_FETCH_FAVOURED }; /* as of a request */
enum muster_status mu_coord_fetch(struct mu_coord *coord, struct mu_ctx *ctx, const struct mu_key *k,
                                  enum mu_coord_fetch_kind how, struct mu_found *ret_found, struct mu_blob **ret);
/* It is the request's answer. */
void mu_coord_point(struct mu_coord_request *request, struct mu_blob *value, uint64_t version);

/* ---- calls that are pending: coord/barrier.c, coord/alive.c ---- */
/* p waits at what is pending there. */
void mu_coord_pending_add(struct mu_coord_pending *p, struct mu_pending *at);
static inline struct mu_coord_pending *mu_coord_pending_of(struct mu_pending_call *c)
{
    return (struct mu_coord_pending *)((char *)c - offsetof(struct mu_coord_pending, pending));
}
/* coord/alive.c: as long as anybody waits there, somebody bears what a look takes. */
void mu_coord_alive_choose_payer(struct mu_coord *coord, struct mu_pending *at);
/* p, which asked which tasks of the set are alive, is answered. */
void mu_coord_alive_answered(struct mu_coord *coord, struct mu_coord_pending *p, const struct mu_pending_answer *a);

/* ---- wire clients: coord/register.c ---- */
/* Within mu_enter(). */
enum muster_status mu_coord_disconnect(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task);

/* ---- generations: coord/generation.c ---- */
/* All wire clients that were to have called for the shutdown. Outside of mu_enter(). */
void mu_coord_clients_gone(struct mu_coord *coord);

/* ---- several hosts: coord/hosts.c ---- */
/* Host 0's engine decides for this one. */
static inline bool mu_coord_follows(const struct mu_coord *coord)
{
    return mu_is_follower(coord->seg);
}
/* Somebody waits, here or at an engine that we decide for; or is to be called, and asks nothing. */
static inline bool mu_coord_awaits(const struct mu_coord *coord)
{
    return coord->num_pending || coord->coming || coord->leave_until != UINT64_MAX || coord->call_task;
}
static inline bool mu_coord_is_own(const struct mu_coord *coord, int32_t task)
{
    return mu_is_local_task(coord->seg, (uint32_t)task);
}
/* To host 0's engine: of the task, as its record is. */
void mu_coord_tell_of(struct mu_coord *coord, enum mu_coord_word word, uint32_t round, int32_t task);
/* To all: how it ended. */
void mu_coord_tell_all(struct mu_coord *coord, enum mu_coord_word word, uint32_t round, enum muster_status code,
                       const char *text, const char *brief);

/* ---- errors: coord/error.c ---- */
#define MU_COORD_CANNOT_REPORT "The task is not connected or already has an error."
/* An error of the service's own: told to pollers, and every wire client is in it, `first` (-1: none) before
 * all others. `brief` is what their records say. */
void mu_errors_say(struct mu_coord *coord, enum muster_status code, const char *text, const char *brief, int32_t first);
void mu_poll_cancel(struct mu_coord *coord, int32_t task, const char *text);

/* ---- lines: coord/line.c ---- */
/* The task spoke through it. */
void mu_line_speaks(struct mu_coord *coord, struct mu_line *line, int32_t task, uint64_t incarnation);
/* The job is in error now: a task without a line and without a known process has gone. */
void mu_lines_failed(struct mu_coord *coord);

#endif
