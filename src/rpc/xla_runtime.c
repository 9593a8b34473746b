/*
 * rpc/xla_runtime.c: xla.DistributedRuntimeService, of the oldest clients, as a way to speak to the same engine.
 *
 * A node is a task, a client's number its incarnation, the session the service's incarnation. What differs from the
 * other dialects is done here: calls have deadlines of their own (a timer for each that waits); keys and ids are any
 * bytes, so that those which the store would write otherwise are stored as "xla.raw/" and their hexadecimal digits;
 * Shutdown does not name its caller, so that is known from the connection; a barrier that has ended may not be used
 * again; once a node has failed every call is told so. Errors have no payloads.
 */
#include "rpc/xla_runtime.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "rpc/devices.h"
#include "rpc/dialect.h"
#include "topology/message.h"

#define DIRECTORY "muster/grpc/topologies"
#define RAW       "xla.raw/"
enum {
    VERSION = 3,
    ENUMERATE_MS = 60 * 1000,
    ID_SIZE = 64,
    SHOWN = 256, /* bytes of a key in a sentence */
};
static const char *const not_text[] = {"value", "key", "barrier_id", "local_topology", NULL};

#define ASK(type, name)                                                                                                \
    const Mu__XlaRuntime__##type##Request *name = (const void *)request;                                               \
    struct mu_coord *coord = v->coord

/* ---- what every call shares -------------------------------------------------------------------------------------- */

/* What is refused once all nodes have shut down; of a life, the engine says what became of it. */
static bool needs_nodes(const ProtobufCMessage *request)
{
    return request->descriptor != &mu__xla_runtime__heartbeat_request__descriptor &&
           request->descriptor != &mu__xla_runtime__shutdown_request__descriptor;
}

/* Once a node has failed that is what every call is told. False: none has. */
static bool refuse_by_error(struct mu_visit *v)
{
    int32_t origin;
    const char *text = mu_coord_error(v->coord, &origin);

    if (!text)
        return false;
    mu_visit_fail(v, origin >= 0 ? MUSTER_ABORTED : MUSTER_DEADLINE_EXCEEDED, MU_PAYLOAD_NONE, "%s", text);
    return true;
}

/* A call that has waited ends with the engine's words; because of a node that has failed, ABORTED. */
static void refuse_waited(struct mu_visit *v)
{
    if (v->request.status != MUSTER_INTERNAL || !refuse_by_error(v))
        mu_visit_refuse(v);
}

/* The session is the first field of all requests but Connect's, in which the version stands there. */
static bool runtime_admit(struct mu_visit *v, const ProtobufCMessage *request)
{
    uint64_t session;

    if (request->descriptor == &mu__xla_runtime__connect_request__descriptor)
        return true;
    session = ((const Mu__XlaRuntime__HeartbeatRequest *)request)->session_id;
    if (session != mu_coord_incarnation(v->coord)) {
        mu_visit_fail(v, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_NONE,
                      "Session ID of the client, %" PRIu64
                      ", is not the one of this service: it has been started anew, "
                      "or the client has not connected",
                      session);
        return false;
    }
    if (refuse_by_error(v))
        return false;
    if (needs_nodes(request) && mu_coord_is_over(v->coord)) {
        mu_visit_fail(v, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_NONE,
                      "The service is closed: all nodes have shut down");
        return false;
    }
    return true;
}
_Static_assert(offsetof(Mu__XlaRuntime__HeartbeatRequest, session_id) ==
                       offsetof(Mu__XlaRuntime__EnumerateDevicesRequest, session_id) &&
                   offsetof(Mu__XlaRuntime__HeartbeatRequest, session_id) ==
                       offsetof(Mu__XlaRuntime__KeyValueGetRequest, session_id) &&
                   offsetof(Mu__XlaRuntime__HeartbeatRequest, session_id) ==
                       offsetof(Mu__XlaRuntime__KeyValueSetRequest, session_id) &&
                   offsetof(Mu__XlaRuntime__HeartbeatRequest, session_id) ==
                       offsetof(Mu__XlaRuntime__ShutdownRequest, session_id) &&
                   offsetof(Mu__XlaRuntime__HeartbeatRequest, session_id) ==
                       offsetof(Mu__XlaRuntime__WaitAtBarrierRequest, session_id),
               "runtime_admit() reads the session of them all in one place");

static uint64_t timeout_of(int32_t ms)
{
    return ms > 0 ? (uint64_t)ms : 0;
}

/* The store would keep it as it is: text without empty parts, which is not one of ours. */
static bool key_is_plain(ProtobufCBinaryData key)
{
    const uint8_t *k = key.data;

    if (!key.len || k[0] == '/' || k[key.len - 1] == '/' || memchr(k, 0, key.len) || memmem(k, key.len, "//", 2) ||
        !mu_is_utf8(k, key.len))
        return false;
    return key.len < strlen(RAW) || memcmp(k, RAW, strlen(RAW)) != 0;
}

/* Its name is what the bytes are stored as. False: the visit has ended. */
static bool stored_name(struct mu_visit *v, ProtobufCBinaryData key)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = strlen(RAW);

    if (key_is_plain(key))
        return mu_visit_name(v, key);
    v->name = malloc(at + 2 * key.len + 1);
    if (!v->name) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for another call");
        return false;
    }
    memcpy(v->name, RAW, at);
    for (size_t i = 0; i < key.len; i++) {
        v->name[at++] = digits[key.data[i] >> 4];
        v->name[at++] = digits[key.data[i] & 15];
    }
    v->name[at] = 0;
    v->name_len = at;
    return true;
}

/* Notes the node that speaks on this connection, for the call that does not say it. Without memory it stays unknown. */
static void node_remember(struct mu_visit *v, int32_t node)
{
    struct mu_caller *c = mu_visit_caller(v);
    int32_t *more;

    for (size_t i = c->num_nodes; i-- > 0;)
        if (c->nodes[i] == node)
            return;
    more = node >= 0 && (uint32_t)node < mu_coord_num_tasks(v->coord)
               ? reallocarray(c->nodes, c->num_nodes + 1, sizeof *more)
               : NULL;
    if (!more)
        return;
    c->nodes = more;
    c->nodes[c->num_nodes++] = node;
}

/* ---- Connect ----------------------------------------------------------------------------------------------------- */

static void on_runtime_connected(struct mu_visit *v)
{
    Mu__XlaRuntime__ConnectResponse r = MU__XLA_RUNTIME__CONNECT_RESPONSE__INIT;

    if (v->request.status == MUSTER_ALREADY_EXISTS) { /* another client of this node came while this one waited */
        mu_visit_fail(v, MUSTER_ABORTED, MU_PAYLOAD_NONE, "Duplicate node ID %d", v->task);
        return;
    }
    if (v->request.status) {
        mu_visit_refuse(v);
        return;
    }
    r.session_id = mu_coord_incarnation(v->coord);
    mu_visit_answer(v, &r.base);
}

static void connect_is_late(struct mu_visit *v)
{
    mu_visit_fail(v, MUSTER_DEADLINE_EXCEEDED, MU_PAYLOAD_NONE,
                  "Timed out after the time that the client gave: not all of the %u nodes have connected",
                  mu_coord_num_tasks(v->coord));
}

/* Another client of this node has connected, all have: it stays, and this one is late. On a host that is not the
 * leader's a client that waits for the others is connected, too. */
static bool is_taken(struct mu_visit *v, int32_t node, uint64_t client)
{
    struct muster_task_info info;

    return !mu_coord_is_registering(v->coord, node) && !muster_task_get(v->service->m, node, &info) &&
           info.state == MUSTER_TASK_CONNECTED && info.incarnation != client;
}

static void ask_connect(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Connect, q);

    if (q->protocol_version != VERSION) {
        mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_NONE, "Invalid protocol version %d; this is version %d",
                      q->protocol_version, VERSION);
    } else if (q->node_id < 0) {
        mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_NONE, "Invalid node ID %d", q->node_id);
    } else if ((uint32_t)q->node_id >= mu_coord_num_tasks(coord)) {
        mu_visit_fail(v, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_NONE, "Invalid node ID %d: the nodes are 0 to %u",
                      q->node_id, mu_coord_num_tasks(coord) - 1);
    } else if (is_taken(v, q->node_id, q->client_id)) {
        mu_visit_fail(v, MUSTER_ABORTED, MU_PAYLOAD_NONE,
                      "Connect() called when system is not initializing: node %d has connected", q->node_id);
    } else if (mu_visit_until(v, timeout_of(q->timeout_milliseconds), connect_is_late)) {
        node_remember(v, q->node_id);
        v->task = q->node_id;
        v->next = on_runtime_connected;
        mu_coord_register(coord, &v->request, q->node_id, q->client_id, false);
    }
}

/* ---- EnumerateDevices -------------------------------------------------------------------------------------------- */

static enum muster_status runtime_devices_make(const struct muster_kv_entry *entries, size_t count,
                                               uint64_t incarnation, void **ret_bytes, size_t *ret_size)
{
    Mu__XlaRuntime__EnumerateDevicesResponse r = MU__XLA_RUNTIME__ENUMERATE_DEVICES_RESPONSE__INIT;
    ProtobufCBinaryData *locals = calloc(count + 1, sizeof *locals);
    enum muster_status status;
    void *topology = NULL;

    (void)incarnation;
    if (!locals)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the topologies of %zu nodes", count);
    for (size_t i = 0; i < count; i++)
        locals[i] = mu_reply_bytes(entries[i].value, entries[i].value_len);
    status = mu_devices_global(locals, count, &topology, &r.global_topology.len);
    r.global_topology.data = topology;
    if (!status)
        status = mu_message_pack(&r.base, ret_bytes, ret_size);
    free(topology);
    free(locals);
    return status;
}

const struct mu_gather mu_xla_topology = {.directory = DIRECTORY, .make = runtime_devices_make};

static void on_runtime_devices_met(struct mu_visit *v)
{
    if (v->request.status)
        refuse_waited(v);
    else
        mu_gather_answer(&v->service->topology, v);
}

static void on_runtime_devices_told(struct mu_visit *v)
{
    char id[ID_SIZE];
    int len;

    if (v->request.status && v->request.status != MUSTER_ALREADY_EXISTS) { /* what was told first stands */
        mu_visit_refuse(v);
        return;
    }
    free(v->name); /* the topology, which the engine has now */
    v->name = NULL;
    len = snprintf(id, sizeof id, "EnumerateDevices::%" PRIu64, mu_coord_incarnation(v->coord));
    mu_coord_barrier(v->coord, mu_visit_again(v, on_runtime_devices_met), v->task, id, (size_t)len, ENUMERATE_MS, NULL,
                     0, 0);
}

/* The pieces of the topology, put together; its node. False: the visit has ended. */
static bool local_topology(struct mu_visit *v, const Mu__XlaRuntime__EnumerateDevicesRequest *q)
{
    ProtobufCMessage *node;
    size_t size = 0, at = 0;

    for (size_t i = 0; i < q->n_local_topology; i++)
        size += q->local_topology[i].len;
    v->name = malloc(size + 1);
    if (!v->name) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for a topology");
        return false;
    }
    for (size_t i = 0; i < q->n_local_topology; i++) {
        if (q->local_topology[i].len)
            memcpy(v->name + at, q->local_topology[i].data, q->local_topology[i].len);
        at += q->local_topology[i].len;
    }
    v->name_len = size;
    if (mu_codec_read(&mu__xla_runtime__node__descriptor, not_text, v->name, size, &node)) {
        mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_NONE, "the local topology: %s", muster_last_error());
        return false;
    }
    v->task = ((const Mu__XlaRuntime__Node *)node)->node_id;
    mu_codec_free(node);
    return true;
}

static void runtime_ask_devices(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(EnumerateDevices, q);
    char key[ID_SIZE];
    int len;

    if (!local_topology(v, q))
        return;
    if (v->task < 0 || (uint32_t)v->task >= mu_coord_num_tasks(coord)) {
        mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_NONE, "Invalid node ID %d: the nodes are 0 to %u", v->task,
                      mu_coord_num_tasks(coord) - 1);
        return;
    }
    len = snprintf(key, sizeof key, DIRECTORY "/%010" PRId32, v->task); /* sorted as the nodes are */
    v->next = on_runtime_devices_told;
    mu_coord_insert(coord, &v->request, key, (size_t)len, v->name, v->name_len, false);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void reply_get(struct mu_visit *v)
{
    Mu__XlaRuntime__KeyValueGetResponse r = MU__XLA_RUNTIME__KEY_VALUE_GET_RESPONSE__INIT;

    if (v->request.blob && v->request.len > 0) {
        mu_reply_value(v, NULL, 0, 2);
        return;
    }
    r.value = mu_reply_bytes(v->request.value, v->request.len);
    mu_visit_answer(v, &r.base);
}

/* As it is stored: no byte of it is no text. */
static void get_is_late(struct mu_visit *v)
{
    mu_visit_fail(v, MUSTER_NOT_FOUND, MU_PAYLOAD_NONE, "%.*s", (int)mu_utf8_cut(v->name, v->name_len, SHOWN), v->name);
}

static void runtime_ask_get(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(KeyValueGet, q);

    if (stored_name(v, q->key) && mu_visit_until(v, timeout_of(q->timeout_milliseconds), get_is_late)) {
        v->request.heeds_errors = true;
        mu_coord_get(coord, &v->request, v->name, v->name_len);
    }
}

static void ask_set(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(KeyValueSet, q);

    if (stored_name(v, q->key))
        mu_coord_insert(coord, &v->request, v->name, v->name_len, MU_BYTES(q->value), true);
}

/* ---- life, and barriers ------------------------------------------------------------------------------------------ */

/* The request does not say of which client's life it tells: of the node's present one. */
static void runtime_ask_heartbeat(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Heartbeat, q);
    struct muster_task_info info = {.incarnation = 0};

    if (q->node_id >= 0 && (uint32_t)q->node_id < mu_coord_num_tasks(coord)) {
        node_remember(v, q->node_id);
        if (muster_task_get(v->service->m, q->node_id, &info)) {
            mu_visit_fail(v, MUSTER_INTERNAL, MU_PAYLOAD_NONE, "%s", muster_last_error());
            return;
        }
    }
    mu_coord_heartbeat(coord, &v->request, q->node_id, info.incarnation);
}

static void on_client_left(struct mu_visit *v)
{
    if (v->request.status)
        refuse_waited(v);
    else
        mu_reply_empty(v);
}

/*
 * The caller, which clients leave out. The clients of one process share a connection, and each calls once: so it
 * is one that has not called yet. When all have, it is the last one's, again.
 */
static int32_t leaver_of(struct mu_visit *v, int32_t said)
{
    const struct mu_caller *c = mu_visit_caller(v);
    size_t i = 0;

    if (said || !c->num_nodes)
        return said;
    while (i + 1 < c->num_nodes && mu_coord_is_leaving(v->coord, c->nodes[i]))
        i++;
    return c->nodes[i];
}

static void runtime_ask_shutdown(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Shutdown, q);

    v->next = on_client_left;
    mu_coord_shutdown(coord, &v->request, leaver_of(v, q->node_id));
}

static void on_barrier_passed(struct mu_visit *v)
{
    if (v->request.replayed)
        mu_visit_fail(v, MUSTER_FAILED_PRECONDITION, MU_PAYLOAD_NONE,
                      "Barrier %.*s has been used, and has ended: give "
                      "the next one an id of its own",
                      (int)mu_utf8_cut(v->name, v->name_len, SHOWN), v->name);
    else if (v->request.status)
        refuse_waited(v);
    else
        mu_reply_empty(v);
}

static void runtime_ask_barrier(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(WaitAtBarrier, q);

    if (!stored_name(v, q->barrier_id))
        return;
    node_remember(v, q->node_id);
    v->next = on_barrier_passed;
    mu_coord_barrier(coord, &v->request, q->node_id, v->name, v->name_len, (int64_t)timeout_of(q->timeout_milliseconds),
                     NULL, 0, 0);
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static const struct mu_dialect dialect = {.not_text = not_text, .admit = runtime_admit};

#define ANY(name, kind, ask, reply, islong)                                                                            \
    MU_METHOD("xla.DistributedRuntimeService", name, &dialect, &mu__xla_runtime__##kind##_request__descriptor, 0, 0,   \
              ask, reply, islong)
#define METHOD(name, kind, ask, reply) ANY(name, kind, ask, reply, false)
#define LONG(name, kind, ask, reply)   ANY(name, kind, ask, reply, true) /* its answer may be */

const struct mu_rpc_method mu_xla_runtime[] = {
    METHOD("Connect", connect, ask_connect, mu_reply_empty),
    LONG("EnumerateDevices", enumerate_devices, runtime_ask_devices, mu_reply_empty),
    METHOD("Heartbeat", heartbeat, runtime_ask_heartbeat, mu_reply_empty),
    METHOD("Shutdown", shutdown, runtime_ask_shutdown, mu_reply_empty),
    LONG("KeyValueGet", key_value_get, runtime_ask_get, reply_get),
    METHOD("KeyValueSet", key_value_set, ask_set, mu_reply_empty),
    METHOD("WaitAtBarrier", wait_at_barrier, runtime_ask_barrier, mu_reply_empty),
    {0},
};
