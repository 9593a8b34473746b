/*
 * session/methods.c: the ten methods of MasterService: from a request to its reply, or to what makes it.
 *
 * TensorFlow's clients call /tensorflow.MasterService/; what protoc makes of its .proto calls
 * /tensorflow.grpc.MasterService/.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

/* NULL: it has been refused. */
static void *request_read(struct mu_rpc_call *call, const ProtobufCMessageDescriptor *kind, const void *body,
                          size_t len)
{
    struct mu_ss_error error = {0};
    void *request = mu_ss_message_read(kind, (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)body},
                                       "Unable to parse request", &error);

    if (error.status == MUSTER_INVALID_ARGUMENT)
        error.status = MUSTER_INTERNAL;
    if (!request)
        mu_ss_refuse(call, &error);
    return request;
}

static struct mu_master *service_of(struct mu_rpc_call *call)
{
    return mu_rpc_arg(call);
}

static struct mu_ss_session *session_said(struct mu_rpc_call *call, const char *handle)
{
    struct mu_ss_session *s = handle ? mu_ss_session_find(service_of(call), handle) : NULL;

    if (s)
        mu_ss_session_used(s, call);
    return s;
}

static void session_refuse(struct mu_rpc_call *call, enum muster_status status, const char *handle, const char *more)
{
    struct mu_ss_error error = {0};

    mu_ss_fail(&error, status, "Session %s is not found.%s", handle ? handle : "", more);
    mu_ss_refuse(call, &error);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static void create_session(struct mu_rpc_call *call, const void *body, size_t len)
{
    void *request = request_read(call, &mu__session__create_session_request__descriptor, body, len);

    if (request)
        mu_ss_session_create(service_of(call), call, request);
}

/* The graph grows, or stays as it is. The message becomes the graph's. */
static bool session_extend(struct mu_ss_session *s, Mu__Session__ExtendSessionRequest *r, struct mu_ss_error *error)
{
    uint32_t before = s->graph.num_nodes;
    Mu__Graph__GraphDef *def = r->graph_def;

    if (r->current_graph_version != s->graph.version)
        return mu_ss_fail(error, MUSTER_ABORTED, "Current version is %lld but caller expected %lld.",
                          (long long)s->graph.version, (long long)r->current_graph_version);
    if (def && def->n_node > 0 && !s->graph.ops)
        s->graph.ops = s->service->ops;
    if (def && def->n_node > 0 && !s->graph.ops)
        return mu_ss_fail(error, MUSTER_UNIMPLEMENTED,
                          "the ops of these executors are not known here: say where TensorFlow is by --libtensorflow, "
                          "or by MUSTER_LIBTENSORFLOW");
    if (def) {
        if (!mu_ss_graph_add(&s->graph, def, error))
            return false;
        r->graph_def = NULL;
        if (!mu_ss_place(s, before, error)) {
            r->graph_def = mu_ss_graph_cut(&s->graph, before);
            return false;
        }
    }
    s->graph.version++;
    return true;
}

static void extend_session(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__ExtendSessionRequest *r =
        request_read(call, &mu__session__extend_session_request__descriptor, body, len);
    Mu__Session__ExtendSessionResponse reply = MU__SESSION__EXTEND_SESSION_RESPONSE__INIT;
    struct mu_ss_session *s;
    struct mu_ss_error error = {0};

    if (!r)
        return;
    s = session_said(call, r->session_handle);
    if (!s) {
        session_refuse(call, MUSTER_ABORTED, r->session_handle, "");
    } else if (session_extend(s, r, &error)) {
        reply.has_new_graph_version = true;
        reply.new_graph_version = s->graph.version;
        mu_ss_answer(call, &reply.base);
    } else {
        mu_ss_refuse(call, &error);
    }
    mu__session__extend_session_request__free_unpacked(r, NULL);
}

static void close_session(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__CloseSessionRequest *r =
        request_read(call, &mu__session__close_session_request__descriptor, body, len);
    struct mu_ss_session *s;

    if (!r)
        return;
    s = session_said(call, r->session_handle);
    if (s) {
        s->service->num_closed++;
        mu_ss_session_end(s, MUSTER_CANCELLED, "Step was cancelled by an explicit call to `Session::Close()`.");
        mu_rpc_answer(call, "", 0);
    } else {
        session_refuse(call, MUSTER_ABORTED, r->session_handle, " Possibly, this master has restarted.");
    }
    mu__session__close_session_request__free_unpacked(r, NULL);
}

static void list_devices(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__ListDevicesRequest *r = request_read(call, &mu__session__list_devices_request__descriptor, body, len);
    struct mu_ss_session *s;

    if (!r)
        return;
    s = session_said(call, r->session_handle);
    if (s)
        mu_ss_devices_answer(call, s);
    else if (!r->session_handle || !r->session_handle[0])
        mu_ss_devices_list(service_of(call), call);
    else
        session_refuse(call, MUSTER_INVALID_ARGUMENT, r->session_handle, " Possibly, this master has restarted.");
    mu__session__list_devices_request__free_unpacked(r, NULL);
}

static void reset_all(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__ResetRequest *r = request_read(call, &mu__session__reset_request__descriptor, body, len);

    if (!r)
        return;
    mu_ss_reset(service_of(call), call, r);
    mu__session__reset_request__free_unpacked(r, NULL);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int64_t timeout_of(const struct mu_ss_session *s, const Mu__Session__RunOptions *o)
{
    if (o && o->timeout_in_ms > 0)
        return o->timeout_in_ms;
    return s->options && s->options->operation_timeout_in_ms > 0 ? s->options->operation_timeout_in_ms : 0;
}

/* What the request feeds and fetches, now that its subgraph is known. */
static bool run_take(struct mu_ss_step *step, const Mu__Session__RunStepRequest *r)
{
    const struct mu_ss_compiled *c = step->compiled;

    for (size_t i = 0; i < r->n_feed; i++) {
        uint32_t k = mu_ss_feed_find(c->feeds, c->num_feeds, r->feed[i]->name);

        if (!mu_ss_feed_check(&c->feeds[k], step->session->graph.nodes[c->feeds[k].node].def->name, r->feed[i]->tensor,
                              (uint32_t)i, &step->error))
            return false;
        mu_ss_step_feed(step, k, &r->feed[i]->tensor);
    }
    for (uint32_t i = 0; i < c->num_fetches; i++)
        if (!mu_ss_step_want(step, i))
            return false;
    return true;
}

static void run_whole(struct mu_ss_session *s, struct mu_rpc_call *call, Mu__Session__RunStepRequest *r)
{
    struct mu_ss_step *step = mu_ss_step_new(s, call, MU_SS_RUN, &r->base);
    struct mu_ss_want want = {.fetches = (const char *const *)r->fetch,
                              .targets = (const char *const *)r->target,
                              .num_fetches = (uint32_t)r->n_fetch,
                              .num_targets = (uint32_t)r->n_target,
                              .num_feeds = (uint32_t)r->n_feed};
    const char **feeds = malloc((r->n_feed + 1) * sizeof *feeds);
    struct mu_ss_error error = {0};

    if (!step || !feeds) {
        mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
        free(feeds);
        if (step) {
            mu_ss_step_abort(step, error.status, mu_ss_text(&error));
            mu_ss_error_clear(&error);
        } else {
            mu_ss_run_refuse(s->service, call, r, &error);
            mu__session__run_step_request__free_unpacked(r, NULL);
        }
        return;
    }
    for (size_t i = 0; i < r->n_feed; i++) {
        r->feed[i]->name = r->feed[i]->name ? r->feed[i]->name : strdup("");
        feeds[i] = r->feed[i]->name;
    }
    want.feeds = feeds;
    step->request_id = r->request_id;
    step->stores_errors = r->store_errors_in_response_body;
    step->options = r->options;
    if (timeout_of(s, r->options))
        step->until_ms = mu_ss_now() + (uint64_t)timeout_of(s, r->options);
    step->compiled = mu_ss_compile(s, &want, &step->error);
    if (step->compiled)
        run_take(step, r);
    free(feeds);
    mu_ss_step_begin(step);
}

static void run_step(struct mu_rpc_call *call, const void *body, size_t len)
{
    struct mu_master *service = service_of(call);
    Mu__Session__RunStepRequest *r = request_read(call, &mu__session__run_step_request__descriptor, body, len);
    struct mu_ss_error error = {0};
    struct mu_ss_session *s;

    if (!r)
        return;
    if (!mu_ss_request_new(service, call, r->request_id, "RunStep")) {
        mu__session__run_step_request__free_unpacked(r, NULL);
        return;
    }
    s = session_said(call, r->session_handle);
    if (!s) {
        mu_ss_fail(&error, MUSTER_ABORTED, "Session %s is not found.", r->session_handle ? r->session_handle : "");
        mu_ss_run_refuse(service, call, r, &error);
        mu__session__run_step_request__free_unpacked(r, NULL);
    } else if (r->partial_run_handle && r->partial_run_handle[0]) {
        mu_ss_partial_run(s, call, &r->base);
    } else {
        run_whole(s, call, r);
    }
}

/* The session of a request that makes or runs something; NULL: it has been answered, and freed. */
static struct mu_ss_session *session_for(struct mu_rpc_call *call, ProtobufCMessage *request, const char *handle,
                                         int64_t id, const char *method)
{
    struct mu_ss_session *s;

    if (!mu_ss_request_new(service_of(call), call, id, method)) {
        protobuf_c_message_free_unpacked(request, NULL);
        return NULL;
    }
    s = session_said(call, handle);
    if (!s) {
        session_refuse(call, MUSTER_ABORTED, handle, "");
        protobuf_c_message_free_unpacked(request, NULL);
    }
    return s;
}

static void partial_run_setup(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__PartialRunSetupRequest *r =
        request_read(call, &mu__session__partial_run_setup_request__descriptor, body, len);
    struct mu_ss_session *s =
        r ? session_for(call, &r->base, r->session_handle, r->request_id, "PartialRunSetup") : NULL;

    if (s)
        mu_ss_partial_setup(s, call, &r->base);
}

static void make_callable(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__MakeCallableRequest *r =
        request_read(call, &mu__session__make_callable_request__descriptor, body, len);
    struct mu_ss_session *s = r ? session_for(call, &r->base, r->session_handle, r->request_id, "MakeCallable") : NULL;

    if (s)
        mu_ss_callable_make(s, call, &r->base);
}

static void run_callable(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__RunCallableRequest *r = request_read(call, &mu__session__run_callable_request__descriptor, body, len);
    struct mu_ss_session *s = r ? session_for(call, &r->base, r->session_handle, r->request_id, "RunCallable") : NULL;

    if (s)
        mu_ss_callable_run(s, call, &r->base);
}

static void release_callable(struct mu_rpc_call *call, const void *body, size_t len)
{
    Mu__Session__ReleaseCallableRequest *r =
        request_read(call, &mu__session__release_callable_request__descriptor, body, len);
    struct mu_ss_session *s = r ? session_for(call, &r->base, r->session_handle, 0, "ReleaseCallable") : NULL;

    if (!s)
        return;
    mu_ss_callable_release(s, r->handle);
    mu__session__release_callable_request__free_unpacked(r, NULL);
    mu_rpc_answer(call, "", 0);
}

#define METHOD(name, function)                                                                                         \
    {.path = "/tensorflow.MasterService/" name, .begin = (function)},                                                  \
    {                                                                                                                  \
        .path = "/tensorflow.grpc.MasterService/" name, .begin = (function)                                            \
    }

const struct mu_rpc_method mu_ss_methods[] = {
    METHOD("CreateSession", create_session),
    METHOD("ExtendSession", extend_session),
    METHOD("PartialRunSetup", partial_run_setup),
    METHOD("RunStep", run_step),
    METHOD("CloseSession", close_session),
    METHOD("ListDevices", list_devices),
    METHOD("Reset", reset_all),
    METHOD("MakeCallable", make_callable),
    METHOD("RunCallable", run_callable),
    METHOD("ReleaseCallable", release_callable),
    {.path = "/muster.Sessions/List", .begin = mu_ss_people_list},
    {.path = "/muster.Sessions/Close", .begin = mu_ss_people_close},
    {0},
};
