/*
 * session/remote.c: an executor that is a server of TensorFlow's WorkerService: what a call of session/executor.h is on
 * the wire, and what its answer means.
 *
 * A server that is silent while a step runs there is asked for its status: steps may be long, and a process that is
 * stopped must not be waited for. Errors of steps come in the answer's body, as the master of TensorFlow asks for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "rpc/stub.h"
#include "session/direct.h"
#include "session/private.h"

enum { REACH_MS = 10000, ANSWER_MS = 30000, PROBE_MS = 5000, SILENT_MS = 10000 };
#define PATH(name) "/tensorflow.WorkerService/" name

struct remote {
    struct mu_executor executor; /* first */
    struct mu_stub *stub;
    struct mu_direct *direct; /* NULL: it has no channel */
    struct mu_remote_options o;
    uv_timer_t timer;
    char *address, *job;
    struct remote_call *calls;
    struct mu_stub_call *probe;
    uint64_t probed_ms;
    uint32_t num_runs;
    bool was_there;
};

/* One that is for a mu_executor_done. */
struct remote_call {
    struct remote_call *next, *prev;
    struct remote *remote;
    struct mu_stub_call *wire;
    struct mu_direct_call *direct; /* instead of wire */
    struct mu_direct_way *way;     /* of a graph that is being registered */
    bool (*read)(struct remote_call *call, const void *bytes, size_t len);
    bool is_run;
    mu_executor_done *done;
    void *arg;
};

static struct remote *remote_of(struct mu_executor *executor)
{
    return (struct remote *)executor;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void call_free(struct remote_call *call)
{
    MU_LIST_DROP(call->remote->calls, call);
    call->remote->num_runs -= call->is_run;
    mu_direct_way_drop(call->way);
    free(call);
}

static void call_end(struct remote_call *call, const struct mu_executor_answer *answer)
{
    mu_executor_done *done = call->done;
    void *arg = call->arg;

    call_free(call);
    if (done)
        done(arg, answer);
}

static void on_remote_answer(void *arg, const struct mu_stub_answer *a)
{
    struct remote_call *call = arg;

    call->wire = NULL;
    call->remote->was_there = call->remote->was_there || !a->is_lost;
    if (a->status) {
        call_end(call, &(struct mu_executor_answer){.status = a->status, .text = a->text, .is_lost = a->is_lost});
    } else if (!call->read) {
        call_end(call, &(struct mu_executor_answer){.text = ""});
    } else if (!call->read(call, a->bytes, a->len)) {
        call_end(call, &(struct mu_executor_answer){.status = MUSTER_INTERNAL, .text = "its answer cannot be read"});
    }
}

static void *message_pack(const ProtobufCMessage *message, size_t *ret_len)
{
    void *bytes;

    *ret_len = protobuf_c_message_get_packed_size(message);
    bytes = malloc(*ret_len + 1);
    if (bytes)
        protobuf_c_message_pack(message, bytes);
    return bytes;
}

struct how {
    const char *path;
    bool (*read)(struct remote_call *call, const void *bytes, size_t len);
    uint64_t reach_ms, timeout_ms;
    bool is_run;
};

static struct mu_executor_call *remote_call(struct mu_executor *executor, const struct how *how,
                                            const ProtobufCMessage *message, mu_executor_done *done, void *arg)
{
    struct remote *r = remote_of(executor);
    struct remote_call *call = calloc(1, sizeof *call);
    size_t len;
    void *bytes = message_pack(message, &len);

    if (!call || !bytes) {
        free(call);
        free(bytes);
        return NULL;
    }
    *call = (struct remote_call){.remote = r, .read = how->read, .is_run = how->is_run, .done = done, .arg = arg};
    MU_LIST_PUSH(r->calls, call);
    r->num_runs += how->is_run;
    call->wire = mu_stub_call(r->stub, how->path, bytes, len, how->reach_ms, how->timeout_ms, on_remote_answer, call);
    if (call->wire)
        return (struct mu_executor_call *)call;
    call_free(call);
    return NULL;
}

/* Its answer is wanted no more. */
static void remote_stop(struct remote_call *call)
{
    if (call->direct)
        mu_direct_cancel(call->direct);
    else
        mu_stub_cancel(call->wire);
}

static void remote_cancel(struct mu_executor_call *opaque)
{
    struct remote_call *call = (struct remote_call *)opaque;

    remote_stop(call);
    call_free(call);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* "/job:ps/replica:0/task:0/device:CPU:0": which task a server is that was not told. */
static void name_take(struct remote *r, struct mu_executor_bytes device)
{
    Mu__Graph__DeviceAttributes *a = mu__graph__device_attributes__unpack(NULL, device.len, device.at);
    struct mu_ss_spec spec;

    if (a && a->name && mu_ss_spec_read(a->name, &spec) && spec.job[0]) {
        char *job = strdup(spec.job);

        if (job) {
            free(r->job);
            r->job = job;
            r->executor.job = job;
            r->executor.task = spec.task < 0 ? 0 : (uint32_t)spec.task;
            r->executor.is_nameless = false;
        }
    }
    if (a)
        mu__graph__device_attributes__free_unpacked(a, NULL);
}

static bool devices_read(struct remote_call *call, const void *bytes, size_t len)
{
    Mu__Session__GetStatusResponse *m = mu__session__get_status_response__unpack(NULL, len, bytes);
    struct mu_executor_bytes *all = m ? calloc(m->n_device_attributes + 1, sizeof *all) : NULL;
    struct mu_executor_answer a = {.text = "", .devices = all};

    for (size_t i = 0; all && i < m->n_device_attributes; i++)
        all[a.num_devices++] = (struct mu_executor_bytes){m->device_attributes[i].data, m->device_attributes[i].len};
    if (a.num_devices && !call->remote->o.job)
        name_take(call->remote, all[0]);
    if (all)
        call_end(call, &a);
    free(all);
    if (m)
        mu__session__get_status_response__free_unpacked(m, NULL);
    return all != NULL;
}

static struct mu_executor_call *remote_devices(struct mu_executor *executor, mu_executor_done *done, void *arg)
{
    static const struct how how = {PATH("GetStatus"), devices_read, REACH_MS, ANSWER_MS, false};
    Mu__Session__CloseSessionRequest none = MU__SESSION__CLOSE_SESSION_REQUEST__INIT; /* no fields */

    return remote_call(executor, &how, &none.base, done, arg);
}

static struct mu_executor_call *remote_create(struct mu_executor *executor, const struct mu_executor_session *session,
                                              mu_executor_done *done, void *arg)
{
    static const struct how how = {PATH("CreateWorkerSession"), NULL, REACH_MS, ANSWER_MS, false};
    Mu__Session__CreateWorkerSessionRequest m = MU__SESSION__CREATE_WORKER_SESSION_REQUEST__INIT;

    m.session_handle = (char *)(uintptr_t)session->session;
    m.has_server_def = remote_of(executor)->o.job != NULL; /* others have a cluster of their own */
    m.server_def = (ProtobufCBinaryData){session->server.len, (uint8_t *)(uintptr_t)session->server.at};
    m.has_isolate_session_state = session->is_isolated;
    m.isolate_session_state = session->is_isolated;
    return remote_call(executor, &how, &m.base, done, arg);
}

static void remote_delete(struct mu_executor *executor, const char *session)
{
    static const struct how how = {PATH("DeleteWorkerSession"), NULL, 0, ANSWER_MS, false};
    Mu__Session__DeleteWorkerSessionRequest m = MU__SESSION__DELETE_WORKER_SESSION_REQUEST__INIT;

    m.session_handle = (char *)(uintptr_t)session;
    remote_call(executor, &how, &m.base, NULL, NULL);
}

static struct mu_executor_call *remote_cleanup_all(struct mu_executor *executor, const char *const *containers,
                                                   uint32_t count, mu_executor_done *done, void *arg)
{
    static const struct how how = {PATH("CleanupAll"), NULL, REACH_MS, ANSWER_MS, false};
    Mu__Session__CleanupAllRequest m = MU__SESSION__CLEANUP_ALL_REQUEST__INIT;

    m.container = (char **)(uintptr_t)containers;
    m.n_container = count;
    return remote_call(executor, &how, &m.base, done, arg);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static bool graph_read(struct remote_call *call, const void *bytes, size_t len)
{
    Mu__Session__RegisterGraphResponse *m = mu__session__register_graph_response__unpack(NULL, len, bytes);
    struct mu_executor_answer a;

    if (!m)
        return false;
    a = (struct mu_executor_answer){.text = "", .graph = m->graph_handle ? m->graph_handle : "", .way = call->way};
    call->way = NULL;
    call_end(call, &a);
    mu__session__register_graph_response__free_unpacked(m, NULL);
    return true;
}

static struct mu_executor_call *remote_register(struct mu_executor *executor, const struct mu_executor_graph *graph,
                                                mu_executor_done *done, void *arg)
{
    static const struct how how = {PATH("RegisterGraph"), graph_read, 0, 0, true};
    Mu__Session__RegisterGraphRequest m = MU__SESSION__REGISTER_GRAPH_REQUEST__INIT;
    struct remote_call *call;

    m.session_handle = (char *)(uintptr_t)graph->session;
    m.has_graph_def = m.has_graph_options = m.has_debug_options = m.has_config_proto = true;
    m.graph_def = (ProtobufCBinaryData){graph->graph.len, (uint8_t *)(uintptr_t)graph->graph.at};
    m.graph_options = (ProtobufCBinaryData){graph->graph_options.len, (uint8_t *)(uintptr_t)graph->graph_options.at};
    m.config_proto = (ProtobufCBinaryData){graph->config.len, (uint8_t *)(uintptr_t)graph->config.at};
    m.has_create_worker_session_called = m.create_worker_session_called = true;
    call = (struct remote_call *)remote_call(executor, &how, &m.base, done, arg);
    if (call && graph->is_whole)
        call->way = mu_direct_way_new(remote_of(executor)->direct, graph);
    return (struct mu_executor_call *)call;
}

static void remote_deregister(struct mu_executor *executor, const char *session, const char *graph,
                              struct mu_direct_way *way)
{
    static const struct how how = {PATH("DeregisterGraph"), NULL, 0, ANSWER_MS, false};
    Mu__Session__DeregisterGraphRequest m = MU__SESSION__DEREGISTER_GRAPH_REQUEST__INIT;

    m.session_handle = (char *)(uintptr_t)session;
    mu_direct_way_drop(way);
    m.graph_handle = (char *)(uintptr_t)graph;
    m.has_create_worker_session_called = m.create_worker_session_called = true;
    remote_call(executor, &how, &m.base, NULL, NULL);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void run_end(struct remote_call *call, const Mu__Session__RunGraphResponse *m,
                    struct mu_executor_tensor *tensors, struct mu_executor_bytes *graphs)
{
    struct mu_executor_answer a = {.text = "", .tensors = tensors, .graphs = graphs};

    if (m->status_code) {
        a.status = m->status_code <= MUSTER_DATA_LOSS && m->status_code > 0 ? (enum muster_status)m->status_code
                                                                            : MUSTER_UNKNOWN;
        a.text = m->status_error_message ? m->status_error_message : "";
    }
    for (size_t i = 0; i < m->n_recv; i++)
        tensors[a.num_tensors++] = (struct mu_executor_tensor){m->recv[i]->name ? m->recv[i]->name : "",
                                                               {m->recv[i]->tensor.data, m->recv[i]->tensor.len}};
    for (size_t i = 0; i < m->n_partition_graph; i++)
        graphs[a.num_graphs++] = (struct mu_executor_bytes){m->partition_graph[i].data, m->partition_graph[i].len};
    a.step_stats = (struct mu_executor_bytes){m->step_stats.data, m->step_stats.len};
    a.cost_graph = (struct mu_executor_bytes){m->cost_graph.data, m->cost_graph.len};
    call_end(call, &a);
}

static bool run_read(struct remote_call *call, const void *bytes, size_t len)
{
    Mu__Session__RunGraphResponse *m = mu__session__run_graph_response__unpack(NULL, len, bytes);
    struct mu_executor_tensor *tensors = m ? calloc(m->n_recv + 1, sizeof *tensors) : NULL;
    struct mu_executor_bytes *graphs = m ? calloc(m->n_partition_graph + 1, sizeof *graphs) : NULL;
    bool is_read = tensors && graphs;

    if (is_read)
        run_end(call, m, tensors, graphs);
    free(tensors);
    free(graphs);
    if (m)
        mu__session__run_graph_response__free_unpacked(m, NULL);
    return is_read;
}

static void on_direct_answer(void *arg, const struct mu_executor_answer *answer)
{
    struct remote_call *call = arg;

    call->direct = NULL;
    call_end(call, answer);
}

/* Past gRPC. NULL: not this one. */
static struct mu_executor_call *way_run(struct remote *r, const struct mu_executor_run *run, mu_executor_done *done,
                                        void *arg)
{
    struct remote_call *call = run->way ? calloc(1, sizeof *call) : NULL;

    if (!call)
        return NULL;
    *call = (struct remote_call){.remote = r, .is_run = true, .done = done, .arg = arg};
    call->direct = mu_direct_run(run->way, run, on_direct_answer, call);
    if (!call->direct) {
        free(call);
        return NULL;
    }
    MU_LIST_PUSH(r->calls, call);
    r->num_runs++;
    return (struct mu_executor_call *)call;
}

static struct mu_executor_call *remote_run(struct mu_executor *executor, const struct mu_executor_run *run,
                                           mu_executor_done *done, void *arg)
{
    static const struct how how = {PATH("RunGraph"), run_read, 0, 0, true};
    Mu__Session__RunGraphRequest m = MU__SESSION__RUN_GRAPH_REQUEST__INIT;
    Mu__Session__NamedTensor *each = calloc(run->num_send + 1, sizeof *each);
    Mu__Session__NamedTensor **all = calloc(run->num_send + 1, sizeof *all);
    struct mu_executor_call *call = way_run(remote_of(executor), run, done, arg);

    for (uint32_t i = 0; !call && each && all && i < run->num_send; i++) {
        mu__session__named_tensor__init(&each[i]);
        each[i].name = (char *)(uintptr_t)run->send[i].key;
        each[i].has_tensor = true;
        each[i].tensor = (ProtobufCBinaryData){run->send[i].tensor.len, (uint8_t *)(uintptr_t)run->send[i].tensor.at};
        all[m.n_send++] = &each[i];
    }
    m.send = all;
    m.graph_handle = (char *)(uintptr_t)run->graph;
    m.session_handle = (char *)(uintptr_t)run->session;
    m.has_step_id = m.has_exec_opts = m.has_store_errors_in_response_body = m.has_create_worker_session_called = true;
    m.step_id = run->step;
    m.exec_opts = (ProtobufCBinaryData){run->options.len, (uint8_t *)(uintptr_t)run->options.at};
    m.store_errors_in_response_body = m.create_worker_session_called = true;
    m.has_is_partial = m.is_partial = run->is_partial;
    m.has_is_last_partial_run = m.is_last_partial_run = run->is_last;
    m.recv_key = (char **)(uintptr_t)run->recv;
    m.n_recv_key = run->num_recv;
    if (!call && each && all)
        call = remote_call(executor, &how, &m.base, done, arg);
    free(each);
    free(all);
    return call;
}

static void remote_cleanup(struct mu_executor *executor, int64_t step)
{
    static const struct how how = {PATH("CleanupGraph"), NULL, 0, ANSWER_MS, false};
    Mu__Session__CleanupGraphRequest m = MU__SESSION__CLEANUP_GRAPH_REQUEST__INIT;

    m.has_step_id = true;
    m.step_id = step;
    remote_call(executor, &how, &m.base, NULL, NULL);
}

/* ---- whether it is there ----------------------------------------------------------------------------------------- */

static void remote_lost(struct remote *r, const char *why)
{
    r->was_there = false;
    if (r->o.lost)
        r->o.lost(r->o.arg, &r->executor, why);
}

static void on_stub_lost(void *arg, const char *why)
{
    remote_lost(arg, why);
}

static void on_probe_answer(void *arg, const struct mu_stub_answer *a)
{
    struct remote *r = arg;

    r->probe = NULL;
    if (a->status == MUSTER_DEADLINE_EXCEEDED) {
        while (r->calls) {
            struct remote_call *call = r->calls;

            remote_stop(call);
            call_end(call, &(struct mu_executor_answer){
                               .status = MUSTER_UNAVAILABLE, .text = "it does not answer any more", .is_lost = true});
        }
        remote_lost(r, "it does not answer any more");
    }
}

static void on_remote_timer(uv_timer_t *timer)
{
    struct remote *r = timer->data;
    void *bytes;

    if (!r->num_runs || r->probe)
        return;
    bytes = malloc(1);
    if (bytes)
        r->probe = mu_stub_call(r->stub, PATH("GetStatus"), bytes, 0, 0, SILENT_MS, on_probe_answer, r);
}

static const struct mu_executor_kind remote_kind = {
    .name = "a server of WorkerService",
    .devices = remote_devices,
    .create_session = remote_create,
    .delete_session = remote_delete,
    .register_graph = remote_register,
    .deregister_graph = remote_deregister,
    .run = remote_run,
    .cleanup = remote_cleanup,
    .cleanup_all = remote_cleanup_all,
    .cancel = remote_cancel,
};

static void on_remote_closed(uv_handle_t *handle)
{
    struct remote *r = handle->data;

    free(r->address);
    free(r->job);
    free(r);
}

enum muster_status mu_executor_remote_open(const struct mu_remote_options *options, struct mu_executor **ret_executor)
{
    struct remote *r = calloc(1, sizeof *r);
    enum muster_status status;
    char name[300];

    if (!r)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an executor");
    r->o = *options;
    r->address = strdup(options->address);
    r->job = strdup(options->job ? options->job : "worker");
    status = r->address && r->job ? mu_stub_open(options->loop, options->address, on_stub_lost, r, &r->stub)
                                  : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an executor");
    if (status) {
        free(r->address);
        free(r->job);
        free(r);
        return status;
    }
    r->executor = (struct mu_executor){&remote_kind, r->job, options->task, r->address, false, !options->job};
    mu_executor_name(&r->executor, name, sizeof name);
    if (options->channel)
        r->direct = mu_direct_open(options->loop, options->channel - 1, name);
    if (options->channel && !r->direct)
        close(options->channel - 1);
    uv_timer_init(options->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_remote_timer, PROBE_MS, PROBE_MS);
    uv_unref((uv_handle_t *)&r->timer);
    if (!options->job) /* it says which task it is before anybody asks */
        remote_devices(&r->executor, NULL, NULL);
    *ret_executor = &r->executor;
    return MUSTER_OK;
}

void mu_executor_remote_close(struct mu_executor *executor)
{
    struct remote *r = remote_of(executor);

    if (!executor)
        return;
    if (r->probe)
        mu_stub_cancel(r->probe);
    mu_direct_close(r->direct);
    mu_stub_close(r->stub); /* its calls are not done any more */
    while (r->calls)
        call_free(r->calls);
    uv_close((uv_handle_t *)&r->timer, on_remote_closed);
}
