/*
 * rpc/dialect.h: what the three dialects share (private to the room): a call's way from its bytes to the engine, and
 * back.
 *
 *   xla_coordination.c   xla.coordination.CoordinationService
 *   tsl_coordination.c   tensorflow.CoordinationService;  tsl_jobs.c: its names of tasks;  tsl_devices.c: its devices;
 *                        tsl_report.c: the call that the service makes
 *   xla_runtime.c        xla.DistributedRuntimeService
 *   keys.c               the calls to the store of both CoordinationServices
 *   devices.c            many local topologies into one;  gather.c: what all have told, once for all
 *
 * A dialect is a table of methods. A method reads one request, asks the engine, and writes what the engine has said.
 * Each request is a visit: it ends with its answer, or when nobody waits for that any more.
 */
#ifndef MU_RPC_DIALECT_H
#define MU_RPC_DIALECT_H

#include "rpc/codec.h"
#include "coord/coord.h"
#include "rpc/server.h"
#include "rpc/service.h"
#include "rpc/tsl_jobs.h"

/* What protobuf-c has read, as two arguments; never NULL. */
#define MU_BYTES(b) ((b).len ? (const char *)(b).data : ""), (b).len

struct mu_visit;

struct mu_dialect {
    const char *const *not_text; /* as of mu_codec_read() */
    /* Whether the request is for this service at all; else it has been refused. NULL: any is. */
    bool (*admit)(struct mu_visit *visit, const ProtobufCMessage *request);
    /* The CoordinationServiceError of this dialect for the visit's request. NULL: errors have no payloads. */
    enum muster_status (*error)(struct mu_visit *visit, const struct mu_codec_payload *more, size_t count,
                                void **ret_bytes, size_t *ret_size);
};

/* mu_rpc_method.data */
struct mu_method {
    const struct mu_dialect *dialect;
    const ProtobufCMessageDescriptor *request;
    size_t key, more; /* of a call to the store: where in it the key, or the entry, and the other field lie */
    /* The request is the caller's. May end the visit. */
    void (*ask)(struct mu_visit *visit, const ProtobufCMessage *request);
    /* The engine has said OK: mu_visit_answer(). */
    void (*reply)(struct mu_visit *visit);
};
#define MU_METHOD(service, name, dialect, kind, key, more, ask, reply, islong)                                         \
    {                                                                                                                  \
        .path = "/" service "/" name, .begin = mu_visit_begin, .is_long = islong, .data = &(const struct mu_method)    \
        {                                                                                                              \
            dialect, kind, key, more, ask, reply                                                                       \
        }                                                                                                              \
    }
extern const struct mu_rpc_method mu_xla_coordination[], mu_tsl_coordination[],
    mu_xla_runtime[]; /* each ends with {0} */

struct mu_visit {
    struct mu_coord_request request; /* first: on_visit_answered() gets it */
    struct mu_service *service;
    struct mu_coord *coord;
    struct mu_rpc_call *call;
    const struct mu_method *method;
    /* The engine has answered, whatever it said; instead of reply and refusal. For methods of several calls. */
    void (*next)(struct mu_visit *visit);
    int32_t task; /* the caller, where that is needed later */
    char *name;   /* a copy of the key, or of the job, where that is needed later; malloc()ed */
    size_t name_len;
    struct mu_visit_timer *timer;
    struct mu_gather *gather; /* where it waits; NULL: nowhere */
    struct mu_visit *gather_next;
};

#define MU_CODES (MUSTER_DATA_LOSS + 1)

/* A connection: mu_rpc_conn_data(). */
struct mu_caller {
    struct mu_line *line;
    /* Of xla.DistributedRuntimeService: the nodes of the clients that speak on it, of one process; the last one last.
     */
    int32_t *nodes;
    size_t num_nodes;
};

/* An answer made of all keys of a directory, the same for all callers: gather.c. */
struct mu_gather {
    const char *directory;
    enum muster_status (*make)(const struct muster_kv_entry *entries, size_t count, uint64_t incarnation,
                               void **ret_bytes, size_t *ret_size);
    void *answer; /* once it is made */
    size_t len;
    uint64_t generation;             /* of the engine's, that it is of */
    struct mu_visit *lister, *first; /* the visit that is at it; the waiters for that */
};

struct mu_service {
    struct mu_rpc *rpc;
    struct mu_coord *coord;
    uv_loop_t *loop;
    struct muster *m;
    struct mu_rpc_method *methods; /* all dialects' */
    uint64_t (*ended)[MU_CODES];   /* calls of each of them, by the code that they ended with */
    uint32_t num_visits;           /* that have not */
    struct mu_jobs jobs;
    struct mu_gather devices, topology; /* WaitForAllTasks; EnumerateDevices */
    struct mu_workers *workers;         /* for ReportErrorToTask; NULL: nobody is called */
    void (*stopped)(void *arg);
    void *arg;
};

void mu_visit_begin(struct mu_rpc_call *call, const void *body, size_t len);
struct mu_caller *mu_visit_caller(struct mu_visit *visit);
/* The connection is gone. */
void mu_caller_gone(void *arg, struct mu_rpc_conn *conn, const char *why);

/* Each of these ends the visit. */
void mu_visit_answer(struct mu_visit *visit, const ProtobufCMessage *message);
void mu_visit_answer_bytes(struct mu_visit *visit, const void *bytes, size_t len);
/* As mu_rpc_answer_with(). */
void mu_visit_answer_with(struct mu_visit *visit, const void *head, size_t len, const struct mu_slice *tail);
/* As the request to the engine says: status, text and payload. */
void mu_visit_refuse(struct mu_visit *visit);
void mu_visit_refuse_with(struct mu_visit *visit, enum muster_status status, const char *text, const void *details,
                          size_t len);
/* In words of our own. */
void mu_visit_fail(struct mu_visit *visit, enum muster_status status, unsigned payload, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ask the engine anew, within `next`. */
struct mu_coord_request *mu_visit_again(struct mu_visit *visit, void (*next)(struct mu_visit *visit));
/* Keep a copy of these bytes as its name; false: no memory, and the visit has ended. */
bool mu_visit_name(struct mu_visit *visit, ProtobufCBinaryData bytes);
/* `late` is called unless the engine has answered by then; its request has been dropped. False: no memory, as above. */
bool mu_visit_until(struct mu_visit *visit, uint64_t ms, void (*late)(struct mu_visit *visit));

/* Answer the visit with it, now or when it has been made. */
void mu_gather_answer(struct mu_gather *gather, struct mu_visit *visit);
/* The visit that waits there has ended. */
void mu_gather_left(struct mu_visit *visit);
extern const struct mu_gather mu_tsl_devices, mu_xla_topology; /* as they begin */

/* keys.c: calls that differ only in where their requests' fields lie. */
void mu_visit_insert(struct mu_visit *visit, const ProtobufCMessage *request);
void mu_visit_get(struct mu_visit *visit, const ProtobufCMessage *request);
void mu_visit_try(struct mu_visit *visit, const ProtobufCMessage *request);
void mu_visit_increment(struct mu_visit *visit, const ProtobufCMessage *request);
void mu_visit_dir(struct mu_visit *visit, const ProtobufCMessage *request);
void mu_visit_delete(struct mu_visit *visit, const ProtobufCMessage *request);

/* Answers that have the same bytes in several dialects. */
void mu_reply_empty(struct mu_visit *visit);
void mu_reply_incarnation(struct mu_visit *visit); /* 1: fixed64, the service's */
void mu_reply_counter(struct mu_visit *visit);     /* 1: int64, the barrier's */
void mu_reply_entry(struct mu_visit *visit);       /* 1: KeyValueEntry: its name, the request's value */
/* The request's value, long and not copied, behind `len` bytes of the answer and its own key and length. */
void mu_reply_value(struct mu_visit *visit, const void *head, size_t len, unsigned field);
void mu_reply_directory(struct mu_visit *visit);                         /* what the request has written, with: */
size_t mu_write_entry(const struct muster_kv_entry *entry, uint8_t *to); /* 2: repeated KeyValueEntry */

/* The beginning of a sentence that is UTF-8: what clients' readers take. */
ProtobufCBinaryData mu_reply_text(const char *text);
static inline ProtobufCBinaryData mu_reply_bytes(const void *data, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)data};
}
/* enum TaskState: how clients number it. */
int mu_reply_state(enum muster_task_state state);
/* Payload CoordinationServiceError with these further ones, as of mu_dialect.error. */
enum muster_status mu_reply_payloads(const ProtobufCMessage *service_error, const struct mu_codec_payload *more,
                                     size_t count, void **ret_bytes, size_t *ret_size);

#endif
