/*
 * session/private.h: what the files of the room share.
 *
 *   service.c    its making and its end; the clock; executors that go
 *   error.c      why not, and how that is answered
 *   methods.c    one function for each method: from its request to its reply
 *   create.c     a session from its request to its reply, and its end
 *   graph.c      a graph that grows: nodes by name, versions
 *   check.c      what a node must be before it is taken
 *   names.c      names of nodes, tensors and devices
 *   ops.c        which ops and kernels there are, and the types of a node's edges
 *   place.c      which device a node is on
 *   prune.c      what of a graph a step needs
 *   partition.c  that, as a graph a task; cut.c: the nodes that are made for it
 *   cache.c      such subgraphs, by their exact key
 *   tensor.c     whether what is fed is a tensor
 *   reset.c      Reset
 *   step.c       a step from its dispatch to its answer
 *   partial.c    steps that come in parts
 *   callable.c   steps that are described once
 *   replies.c    request ids, and the replies that are kept for them
 *   people.c     which sessions there are, for people
 *   remote.c     the executors that are servers of WorkerService
 *   direct.h     a way past gRPC to those that are muster's own
 *
 * A graph knows neither sockets nor executors. All text that a client gets is TensorFlow's where programs look at it.
 */
#ifndef MU_SESSION_PRIVATE_H
#define MU_SESSION_PRIVATE_H

#include <uv.h>

#include "base/account.h"
#include "kernel/graph.pb-c.h"
#include "rpc/server.h"
#include "session/executor.h"
#include "session/master.pb-c.h"
#include "session/session.h"

/* Why not, in words of any length. */
struct mu_ss_error {
    enum muster_status status;
    char *text; /* malloc()ed; NULL: there was no memory for it */
};
/* The first error stays. False, always. */
bool mu_ss_fail(struct mu_ss_error *error, enum muster_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mu_ss_error_clear(struct mu_ss_error *error);
const char *mu_ss_text(const struct mu_ss_error *error);
/* A message of a client, with bounded memory. NULL: error says why; `damaged` where it is no such message. */
void *mu_ss_message_read(const ProtobufCMessageDescriptor *kind, ProtobufCBinaryData bytes, const char *damaged,
                         struct mu_ss_error *error);

/* ---- names.c ---- */
#define MU_SS_NAME_MAX 65535u

bool mu_ss_name_is_legal(const char *name);
/* "a", "a:1", "^a": the node's name is the first *ret_len bytes behind a '^'. output: -1: control. */
struct mu_ss_endpoint {
    const char *name;
    size_t len;
    int32_t output;
};
bool mu_ss_input_read(const char *input, struct mu_ss_endpoint *ret_endpoint);   /* of a node: legal */
bool mu_ss_tensor_read(const char *tensor, struct mu_ss_endpoint *ret_endpoint); /* of a feed, a fetch */

/* A device's name, of which any part may be missing: "" or -1. */
struct mu_ss_spec {
    char job[128], type[64];
    int replica, task, id;
};
bool mu_ss_spec_read(const char *name, struct mu_ss_spec *ret_spec);
bool mu_ss_spec_has(const struct mu_ss_spec *spec, const struct mu_ss_spec *device); /* the device is one of these */
bool mu_ss_filter_has(char *const *filters, size_t count, const struct mu_executor *executor);
/* What both say; false: they contradict each other, and *spec is as it was. */
bool mu_ss_spec_merge(struct mu_ss_spec *spec, const struct mu_ss_spec *other);
void mu_ss_spec_print(const struct mu_ss_spec *spec, char *text, size_t size);

/* ---- ops.c ---- */
struct mu_ss_ops {
    Mu__Graph__OpList *list;
    Mu__Graph__KernelList *kernel_list;
    const Mu__Graph__OpDef **ops; /* by name */
    const Mu__Graph__KernelDef **kernels;
    size_t num_ops, num_kernels;
    const char *remedy; /* where an op is missing; NULL: none */
};
/* NULL: these are no such lists. */
struct mu_ss_ops *mu_ss_ops_new(struct mu_executor_bytes ops, struct mu_executor_bytes kernels);
void mu_ss_ops_free(struct mu_ss_ops *ops);
const Mu__Graph__OpDef *mu_ss_op_find(const struct mu_ss_ops *ops, const char *name);
/* There is a kernel for this node on devices of that type; of any node, where there is none at all for its op. */
bool mu_ss_op_runs(const struct mu_ss_ops *ops, const Mu__Graph__NodeDef *node, const char *type);
bool mu_ss_op_has_kernels(const struct mu_ss_ops *ops, const char *op);
const Mu__Graph__AttrValue *mu_ss_attr(const Mu__Graph__NodeDef *node, const char *key);
const char *mu_ss_type_name(uint32_t type); /* "float", "int32_ref" */
#define MU_SS_REF 100u
/* malloc()ed types of the node's inputs, or outputs. */
bool mu_ss_types(const Mu__Graph__OpDef *op, const Mu__Graph__NodeDef *node, bool is_output, uint32_t **ret_types,
                 uint32_t *ret_count, struct mu_ss_error *error);

/* ---- graph.c ---- */
struct mu_ss_input {
    uint32_t node;
    int32_t output; /* -1: control */
};

struct mu_ss_node {
    Mu__Graph__NodeDef *def; /* of one of the graph's messages */
    const Mu__Graph__OpDef *op;
    bool is_function; /* op is one of the graph's library */
    struct mu_ss_input *inputs;
    uint32_t num_data, num_inputs; /* num_inputs: with controls */
    uint32_t *in_types, *out_types;
    uint32_t num_in, num_out;
    int32_t device; /* -1: not placed yet */
};

struct mu_ss_function {
    const Mu__Graph__OpDef *op;
};

struct mu_ss_graph {
    const struct mu_ss_ops *ops;
    struct mu_ss_node *nodes;
    uint32_t num_nodes, room_nodes;
    uint32_t num_edges; /* inputs and outputs of all nodes */
    uint32_t *table;    /* of numbers + 1, by name */
    uint32_t table_size;
    Mu__Graph__GraphDef **messages;
    uint32_t num_messages, room_messages;
    ProtobufCMessage **libraries; /* for their functions' signatures */
    uint32_t num_libraries, room_libraries;
    int32_t producer, min_consumer;
    int64_t version;
    size_t bytes; /* of its messages, as they came */
};

/* The nodes of this message are added, and the message becomes the graph's; or nothing happened, and it is still the
 * caller's. */
bool mu_ss_graph_add(struct mu_ss_graph *g, Mu__Graph__GraphDef *def, struct mu_ss_error *error);
/* Takes back what the last add gave, down to so many nodes; its message becomes the caller's again. */
Mu__Graph__GraphDef *mu_ss_graph_cut(struct mu_ss_graph *g, uint32_t num_nodes);
void mu_ss_graph_clear(struct mu_ss_graph *g);
struct mu_ss_node *mu_ss_graph_find(const struct mu_ss_graph *g, const char *name, size_t len);

/* ---- check.c ---- */
bool mu_ss_check_syntax(const Mu__Graph__GraphDef *def, struct mu_ss_error *error);
/* Of the nodes from `first` on, which are all in the table: their inputs. */
bool mu_ss_check_inputs(struct mu_ss_graph *g, uint32_t first, struct mu_ss_error *error);
bool mu_ss_check_cycles(const struct mu_ss_graph *g, uint32_t first, struct mu_ss_error *error);

/* ---- place.c ---- */
struct mu_ss_member;
struct mu_ss_device {
    char *name, type[64];
    struct mu_ss_spec spec;
    uint64_t incarnation;
    struct mu_ss_member *member;
    void *attributes; /* DeviceAttributes */
    size_t len;
};
struct mu_ss_session;
/* The graph's nodes from `first` on get a device. False: none of them is to be used. */
bool mu_ss_place(struct mu_ss_session *s, uint32_t first, struct mu_ss_error *error);

/* ---- prune.c, partition.c: a subgraph ---- */
struct mu_ss_want {
    const char *const *feeds, *const *fetches, *const *targets;
    uint32_t num_feeds, num_fetches, num_targets;
    Mu__Session__TensorConnection *const *connections;
    uint32_t num_connections;
};

struct mu_ss_feed {   /* or fetch */
    char *name, *key; /* as the client says it; of its rendezvous, NULL: nothing needs it */
    uint32_t node, type;
    int32_t output;
    uint32_t part;
    uint32_t first; /* a fetch of the same tensor, which may have several names: the same one for all of them */
};
struct mu_ss_part {
    struct mu_ss_compiled *compiled;
    struct mu_ss_member *member;
    char *graph; /* its handle there; NULL: it is not registered */
    struct mu_direct_way *way;
    struct mu_executor_call *call;
    void *bytes; /* its GraphDef, until it is registered */
    size_t len;
};

enum mu_ss_compiled_state { MU_SS_COMPILED, MU_SS_REGISTERING, MU_SS_READY, MU_SS_UNUSABLE };
struct mu_ss_step;
struct mu_ss_compiled {
    struct mu_ss_compiled *next, *prev; /* of the session's, the one used last first */
    struct mu_ss_session *session;
    enum mu_ss_compiled_state state;
    char *key;
    size_t key_len, bytes;
    uint64_t hash;
    uint32_t users;
    struct mu_ss_feed *feeds, *fetches;
    uint32_t num_feeds, num_fetches;
    uint32_t *by_key; /* the fetches' numbers, in order of their keys */
    struct mu_ss_part *parts;
    uint32_t num_parts, num_registering;
    struct mu_ss_step *waiting;
    struct mu_ss_error error;
    bool is_kept;  /* in the cache */
    bool is_whole; /* its one part may go a shorter way */
};

/* What a step needs. A feed stands for a tensor; a connection, too, and what it stands for comes from another one. */
struct mu_ss_at {
    uint32_t node;
    int32_t output;
};
struct mu_ss_subgraph {
    bool *is_needed; /* by node */
    bool *is_fed;    /* by node: one of its outputs */
    struct mu_ss_at *feeds, *sources, *fetches;
    uint32_t *order;                                /* the feeds' numbers, by node and output */
    bool *is_used;                                  /* by feed */
    uint32_t num_feeds, num_connected, num_fetches; /* connections stand behind the feeds */
};
bool mu_ss_prune(const struct mu_ss_graph *g, const struct mu_ss_want *want, struct mu_ss_subgraph *ret,
                 struct mu_ss_error *error);
void mu_ss_subgraph_clear(struct mu_ss_subgraph *sub);
/* Which feed stands for this edge, of a placeholder tensor for its control edges as well; -1: none. Where a
 * connection leads elsewhere, that is the edge then. */
int32_t mu_ss_feed_of(const struct mu_ss_graph *g, const struct mu_ss_subgraph *sub, struct mu_ss_at *at);
/* Whether fetches can be computed from the feeds of which `given` says that they have been given. NULL, or the name of
 * a feed that the fetch in place *ret_at wants for. */
const char *mu_ss_wanting(const struct mu_ss_graph *g, const struct mu_ss_compiled *c, const uint32_t *fetches,
                          uint32_t count, const bool *given, uint32_t *ret_at);
/* The only part of a step may be run by a session of the executor's own: there is no loop, no function and nothing that
 * waits, all is on the processor, what is fed and fetched are numbers, and what stays behind are variables. */
bool mu_ss_part_is_whole(const struct mu_ss_session *s, const bool *is_needed, const struct mu_ss_compiled *c);
bool mu_ss_partition(struct mu_ss_session *s, const struct mu_ss_want *want, const struct mu_ss_subgraph *sub,
                     struct mu_ss_compiled *c, struct mu_ss_error *error);

/* ---- cache.c ---- */
/* The subgraph, of which the caller is a user; it may not be registered yet. NULL: error. */
struct mu_ss_compiled *mu_ss_compile(struct mu_ss_session *s, const struct mu_ss_want *want, struct mu_ss_error *error);
void mu_ss_compiled_release(struct mu_ss_compiled *c);
void mu_ss_compiled_register(struct mu_ss_compiled *c);
void mu_ss_cache_clear(struct mu_ss_session *s);

/* ---- step.c ---- */
enum mu_ss_step_kind { MU_SS_RUN, MU_SS_PARTIAL, MU_SS_CALLABLE, MU_SS_SETUP, MU_SS_MAKE };
struct mu_ss_tensor {
    void *bytes; /* TensorProto; NULL: it has not come */
    size_t len;
};
struct mu_ss_running { /* a part of a step */
    struct mu_ss_step *step;
    struct mu_ss_part *part;
    struct mu_executor_call *call; /* NULL: it is done */
    bool is_clean;                 /* there is nothing that is to be cleaned up */
};
struct mu_ss_step {
    struct mu_ss_step *next, *prev; /* of the session's */
    struct mu_ss_step *after;       /* of those that wait for a subgraph */
    struct mu_ss_session *session;
    struct mu_ss_compiled *compiled;
    struct mu_rpc_call *call; /* NULL: nobody waits for it */
    enum mu_ss_step_kind kind;
    ProtobufCMessage *request; /* its tensors; NULL once they have been sent */
    int64_t id, request_id;
    uint64_t until_ms, derived_until_ms;
    bool stores_errors, has_begun, is_ending, is_last;
    bool wants_stats, wants_graphs;
    const Mu__Session__RunOptions *options; /* of the request */
    struct mu_ss_partial *partial;
    struct mu_ss_callable *callable;   /* held */
    int64_t setup;                     /* the number of a set-up: its partial run's handle */
    const ProtobufCBinaryData **feeds; /* by number of the subgraph's; NULL: not given */
    bool *wants;                       /* by fetch, with its tensor */
    struct mu_ss_tensor *tensors;
    struct mu_ss_running *running; /* a part each */
    uint32_t num_running, num_left;
    struct mu_ss_tensor stats, costs, *graphs;
    uint32_t num_graphs;
    struct mu_ss_error error;
};
struct mu_ss_step *mu_ss_step_new(struct mu_ss_session *s, struct mu_rpc_call *call, enum mu_ss_step_kind kind,
                                  ProtobufCMessage *request);
/* Its subgraph is set, and the tensors that are fed are checked: it goes on when that is registered. */
void mu_ss_step_begin(struct mu_ss_step *step);
void mu_ss_step_ready(struct mu_ss_step *step); /* it is, or cannot be */
/* It ends with this error, and its executors are told. */
void mu_ss_step_abort(struct mu_ss_step *step, enum muster_status status, const char *text);
void mu_ss_step_tick(struct mu_ss_step *step, uint64_t now);
/* The tensor may be what the feed is declared to be. */
bool mu_ss_feed_check(const struct mu_ss_feed *feed, const char *node, ProtobufCBinaryData tensor, uint32_t number,
                      struct mu_ss_error *error);
struct mu_direct_tensor;
/* The tensor's numbers lie in one piece: it is described. */
bool mu_ss_tensor_plain(struct mu_executor_bytes bytes, struct mu_direct_tensor *ret,
                        struct mu_executor_bytes *ret_content);
/* What is given for the subgraph's feed: of that name, or for a callable by place. */
void mu_ss_step_feed(struct mu_ss_step *step, uint32_t feed, const ProtobufCBinaryData *tensor);
/* This fetch is answered, under this name; in the subgraph's order. */
bool mu_ss_step_want(struct mu_ss_step *step, uint32_t fetch);
void mu_ss_step_free(struct mu_ss_step *step);
/* The number of what is so called among these, which are in order; UINT32_MAX: none. */
uint32_t mu_ss_feed_find(const struct mu_ss_feed *all, uint32_t count, const char *name);
/* The call is refused by the error, in the body where its client wants it there. */
void mu_ss_run_refuse(struct mu_master *service, struct mu_rpc_call *call, const Mu__Session__RunStepRequest *request,
                      struct mu_ss_error *error);
int64_t mu_ss_random_id(void);

/* ---- partial.c ---- */
struct mu_ss_partial {
    struct mu_ss_partial *next, *prev;
    int64_t handle, step;
    struct mu_ss_compiled *compiled;
    bool *fed, *fetched;
    uint32_t left; /* feeds and fetches that are to come */
    bool is_running, has_run;
};
void mu_ss_partial_setup(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request);
void mu_ss_partial_ready(struct mu_ss_step *step);
void mu_ss_partial_run(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request);
void mu_ss_partial_done(struct mu_ss_step *step);
void mu_ss_partials_clear(struct mu_ss_session *s);

/* ---- callable.c ---- */
struct mu_ss_callable {
    struct mu_ss_callable *next, *prev;
    int64_t handle;
    uint32_t holders; /* steps of it; the session, until it is released */
    struct mu_ss_compiled *compiled;
    ProtobufCMessage *request; /* MakeCallableRequest */
};
void mu_ss_callable_drop(struct mu_ss_callable *c); /* NULL is allowed */
void mu_ss_callable_make(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request);
void mu_ss_callable_ready(struct mu_ss_step *step);
void mu_ss_callable_run(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request);
void mu_ss_callable_release(struct mu_ss_session *s, int64_t handle);
void mu_ss_callables_clear(struct mu_ss_session *s);

/* ---- replies.c ---- */
#define MU_SS_REPLIES 10000u
struct mu_ss_reply {
    int64_t id; /* 0: none */
    const char *method;
    void *bytes; /* NULL: not kept, or not there yet */
    size_t len;
    bool is_there;
    uint32_t follows; /* the next one in its place, + 1 */
};
struct mu_ss_replies {
    struct mu_ss_reply *ring;
    uint32_t *places; /* by id: the first one there, + 1 */
    uint64_t secret;
    uint32_t next; /* the oldest, where the next request's goes */
    uint32_t drop; /* where the bytes are that are the next to be dropped */
    size_t held;
};
/* False: the call has been answered: with the reply that is kept, or with ABORTED. */
bool mu_ss_request_new(struct mu_master *service, struct mu_rpc_call *call, int64_t id, const char *method);
void mu_ss_request_done(struct mu_master *service, int64_t id, const void *reply, size_t len);
/* The same, and the call is answered. */
void mu_ss_request_answer(struct mu_master *service, struct mu_rpc_call *call, int64_t id,
                          const ProtobufCMessage *message);
void mu_ss_replies_clear(struct mu_ss_replies *replies);

/* ---- create.c ---- */
struct mu_ss_member {
    struct mu_executor *executor;
    struct mu_executor_call *call;
    struct mu_ss_session *session;
    bool is_there, is_created, is_out; /* is_out: the session's filters leave it out, as its name told */
    char why[200];
};

enum mu_ss_session_state { MU_SS_ASKING, MU_SS_CREATING, MU_SS_OPEN, MU_SS_ENDED };
struct mu_ss_session {
    struct mu_ss_session *next, *prev;
    struct mu_master *service;
    enum mu_ss_session_state state;
    bool awaits_ops; /* its executors have answered */
    bool is_listing; /* it is asked for its devices, and is no session */
    char handle[17];
    char peer[64];
    uint64_t since_ns, until_ms, used_ms;
    struct mu_rpc_call *call; /* CreateSession's */
    Mu__Session__CreateSessionRequest *request;
    ProtobufCBinaryData config; /* ConfigProto; of its own */
    Mu__Session__Config *options;
    struct mu_ss_graph graph;
    struct mu_ss_member *members;
    uint32_t num_members, num_asked;
    struct mu_ss_device *devices;
    uint32_t num_devices, room_devices;
    struct mu_ss_compiled *compiled;
    size_t compiled_bytes;
    uint32_t num_compiled;
    struct mu_ss_step *steps;
    struct mu_ss_partial *partials;
    struct mu_ss_callable *callables;
    int64_t next_partial, next_callable;
    uint64_t num_steps, rated_steps, rated_ms, rate; /* rate: steps in the last second */
    struct mu_rpc_conn **conns;                      /* by which it is used */
    uint32_t num_conns, room_conns;
    struct mu_ss_error last_error;
    char *broken; /* an executor of it is gone: why */
};
void mu_ss_session_create(struct mu_master *service, struct mu_rpc_call *call,
                          Mu__Session__CreateSessionRequest *request);
/* server_def.c: a ServerDef: the session's tasks, and which of them this one is. malloc()ed; NULL: no memory. */
void *mu_ss_server_def(const struct mu_ss_session *s, const struct mu_ss_member *own, size_t *ret_len);
/* ListDevices of no session. */
void mu_ss_devices_list(struct mu_master *service, struct mu_rpc_call *call);
void mu_ss_devices_answer(struct mu_rpc_call *call, const struct mu_ss_session *s);
/* Its steps end so; its executors are told. */
void mu_ss_session_end(struct mu_ss_session *s, enum muster_status status, const char *why);
void mu_ss_session_break(struct mu_ss_session *s, const struct mu_executor *executor, const char *why);
void mu_ss_session_used(struct mu_ss_session *s, struct mu_rpc_call *call);
/* The ops are known, or never will be: one that waits for them goes on. */
void mu_ss_session_ops(struct mu_ss_session *s);
void mu_ss_session_tick(struct mu_ss_session *s, uint64_t now);
struct mu_ss_session *mu_ss_session_find(const struct mu_master *service, const char *handle);

/* ---- reset.c ---- */
void mu_ss_reset(struct mu_master *service, struct mu_rpc_call *call, Mu__Session__ResetRequest *request);
void mu_ss_resets_end(struct mu_master *service);

/* ---- people.c ---- */
void mu_ss_people_list(struct mu_rpc_call *call, const void *body, size_t len);
void mu_ss_people_close(struct mu_rpc_call *call, const void *body, size_t len);
void mu_ss_session_rate(struct mu_ss_session *s, uint64_t now);

/* ---- methods.c ---- */
extern const struct mu_rpc_method mu_ss_methods[]; /* ends with {0} */
/* Refused with the error, which is cleared. */
void mu_ss_refuse(struct mu_rpc_call *call, struct mu_ss_error *error);
void mu_ss_answer(struct mu_rpc_call *call, const ProtobufCMessage *message);

/* ---- service.c ---- */
struct mu_master {
    struct mu_master_options o;
    struct mu_rpc *rpc;
    struct mu_ss_ops *ops; /* NULL: not known */
    char *no_ops;          /* why */
    struct mu_ss_session *sessions;
    uint32_t num_sessions;
    struct mu_ss_replies replies;
    struct mu_ss_reset *resets;
    uint64_t num_steps, num_direct, num_failed, num_created, num_closed, num_reset, num_collected;
    uv_timer_t timer;
    void (*stopped)(void *arg);
    void *stopped_arg;
};
static inline uint64_t mu_ss_now(void)
{
    return uv_hrtime() / 1000000;
}
/* False: no memory. */
bool mu_ss_grow(void *array, size_t element, size_t needed, uint32_t *room);

#endif
