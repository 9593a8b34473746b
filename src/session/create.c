/*
 * session/create.c: a session from its request to its reply, and its end.
 *
 * Its executors are asked for their devices, the graph is checked and placed, then each executor is told of the
 * session. An executor that does not answer in time is named. A session ends by its client, by Reset, by people, with
 * its last client, or with the service; one of which an executor is gone stays until then, and says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/private.h"

static void session_release(struct mu_ss_session *s)
{
    for (uint32_t i = 0; i < s->num_members; i++)
        if (s->members[i].call)
            s->members[i].executor->kind->cancel(s->members[i].call);
    mu_ss_partials_clear(s);
    mu_ss_callables_clear(s);
    mu_ss_cache_clear(s);
    mu_ss_graph_clear(&s->graph);
    for (uint32_t i = 0; i < s->num_devices; i++) {
        free(s->devices[i].name);
        free(s->devices[i].attributes);
    }
    free(s->devices);
    free(s->members);
    free(s->conns);
    free(s->broken);
    mu_ss_error_clear(&s->last_error);
    if (s->options)
        mu__session__config__free_unpacked(s->options, NULL);
    free(s->config.data);
    if (s->request)
        mu__session__create_session_request__free_unpacked(s->request, NULL);
    free(s);
}

void mu_ss_session_end(struct mu_ss_session *s, enum muster_status status, const char *why)
{
    struct mu_master *service = s->service;
    struct mu_ss_error error = {0};

    while (s->steps)
        mu_ss_step_abort(s->steps, status, why);
    if (s->call) {
        mu_ss_fail(&error, status, "%s", why);
        mu_ss_refuse(s->call, &error);
    }
    mu_ss_partials_clear(s);
    mu_ss_callables_clear(s);
    mu_ss_cache_clear(s);
    for (uint32_t i = 0; i < s->num_members; i++) {
        struct mu_executor *executor = s->members[i].executor;

        if (s->members[i].is_created && !executor->is_gone)
            executor->kind->delete_session(executor, s->handle);
    }
    MU_LIST_DROP(service->sessions, s);
    service->num_sessions--;
    session_release(s);
}

struct mu_ss_session *mu_ss_session_find(const struct mu_master *service, const char *handle)
{
    struct mu_ss_session *s = service->sessions;

    while (s && (s->state != MU_SS_OPEN || strcmp(s->handle, handle) != 0))
        s = s->next;
    return s;
}

void mu_ss_session_used(struct mu_ss_session *s, struct mu_rpc_call *call)
{
    struct mu_rpc_conn *conn = mu_rpc_conn_of(call);

    s->used_ms = mu_ss_now();
    for (uint32_t i = 0; i < s->num_conns; i++)
        if (s->conns[i] == conn)
            return;
    if (mu_ss_grow(&s->conns, sizeof *s->conns, s->num_conns + 1, &s->room_conns))
        s->conns[s->num_conns++] = conn;
}

/* ---- CreateSession ----------------------------------------------------------------------------------------------- */

static void create_fail(struct mu_ss_session *s, struct mu_ss_error *error)
{
    struct mu_rpc_call *call = s->call;

    s->call = NULL;
    if (call)
        mu_ss_refuse(call, error);
    mu_ss_error_clear(error);
    mu_ss_session_end(s, MUSTER_ABORTED, "it could not be created");
}

void mu_ss_session_break(struct mu_ss_session *s, const struct mu_executor *executor, const char *why)
{
    struct mu_ss_error error = {0};
    char name[300];
    bool is_member = false;

    for (uint32_t i = 0; i < s->num_members; i++)
        is_member = is_member || (s->members[i].executor == executor &&
                                  (s->members[i].is_created || (executor->is_gone && !s->members[i].is_out)));
    if (!is_member || s->broken)
        return;
    mu_executor_name(executor, name, sizeof name);
    if (s->state != MU_SS_OPEN) {
        mu_ss_fail(&error, MUSTER_ABORTED, "CreateSession: %s is gone: %s", name, why);
        create_fail(s, &error);
        return;
    }
    if (asprintf(&s->broken, "%s is gone: %s. The session's variables there are lost: create a new one", name, why) < 0)
        s->broken = strdup("a task of the session is gone");
    while (s->steps && s->broken)
        mu_ss_step_abort(s->steps, MUSTER_UNAVAILABLE, s->broken);
}

static void on_create_left(void *arg)
{
    struct mu_ss_session *s = arg;

    s->call = NULL;
    mu_ss_session_end(s, MUSTER_CANCELLED, "its client does not wait for it any more");
}

/* The session's filters have the executor. */
static bool session_has(const struct mu_ss_session *s, const struct mu_executor *executor)
{
    return !s->options || mu_ss_filter_has(s->options->device_filters, s->options->n_device_filters, executor);
}

static void created_answer(struct mu_ss_session *s)
{
    Mu__Session__CreateSessionResponse reply = MU__SESSION__CREATE_SESSION_RESPONSE__INIT;
    struct mu_rpc_call *call = s->call;

    s->state = MU_SS_OPEN;
    s->until_ms = 0;
    s->call = NULL;
    s->service->num_created++;
    mu__session__create_session_request__free_unpacked(s->request, NULL);
    s->request = NULL;
    reply.session_handle = s->handle;
    mu_ss_answer(call, &reply.base);
}

static void on_member_created(void *arg, const struct mu_executor_answer *a)
{
    struct mu_ss_member *m = arg;
    struct mu_ss_session *s = m->session;
    struct mu_ss_error error = {0};
    char name[300];

    m->call = NULL;
    if (a->status) {
        mu_executor_name(m->executor, name, sizeof name);
        mu_ss_fail(&error, a->is_lost ? MUSTER_ABORTED : a->status, "CreateSession: %s: %s", name, a->text);
        create_fail(s, &error);
        return;
    }
    m->is_created = true;
    if (--s->num_asked == 0)
        created_answer(s);
}

static void members_create(struct mu_ss_session *s)
{
    struct mu_ss_error error = {0};

    s->state = MU_SS_CREATING;
    s->num_asked = s->num_members;
    for (uint32_t i = 0; i < s->num_members && !error.status; i++) {
        struct mu_ss_member *m = &s->members[i];
        struct mu_executor_session session = {.session = s->handle,
                                              .is_isolated = s->options && s->options->isolate_session_state};
        void *def = mu_ss_server_def(s, m, &session.server.len);

        session.server.at = def;
        if (def)
            m->call = m->executor->kind->create_session(m->executor, &session, on_member_created, m);
        if (!m->call)
            mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session");
        free(def);
    }
    if (error.status)
        create_fail(s, &error);
}

static int devices_compare(const void *a, const void *b)
{
    const struct mu_ss_device *x = a, *y = b;
    bool x_is_cpu = strcmp(x->type, "CPU") == 0, y_is_cpu = strcmp(y->type, "CPU") == 0;

    return x_is_cpu != y_is_cpu ? x_is_cpu - y_is_cpu : strcmp(x->name, y->name);
}

void mu_ss_devices_answer(struct mu_rpc_call *call, const struct mu_ss_session *s)
{
    Mu__Session__ListDevicesResponse reply = MU__SESSION__LIST_DEVICES_RESPONSE__INIT;
    ProtobufCBinaryData *all = calloc(s->num_devices + 1, sizeof *all);

    for (uint32_t i = 0; all && i < s->num_devices; i++)
        all[reply.n_local_device++] = (ProtobufCBinaryData){s->devices[i].len, s->devices[i].attributes};
    reply.local_device = all;
    mu_ss_answer(call, &reply.base);
    free(all);
}

/* Those go that the filters leave out, now that they have said which task they are. No call is under way. */
static void members_drop(struct mu_ss_session *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->num_members; i++) {
        if (s->members[i].is_out)
            continue;
        for (uint32_t k = 0; k < s->num_devices; k++)
            if (s->devices[k].member == &s->members[i])
                s->devices[k].member = &s->members[n];
        s->members[n++] = s->members[i];
    }
    s->num_members = n;
}

/* All devices are there: the graph is checked and placed. */
static void members_asked(struct mu_ss_session *s)
{
    struct mu_master *service = s->service;
    struct mu_ss_error error = {0};
    Mu__Graph__GraphDef *def = s->request ? s->request->graph_def : NULL;

    members_drop(s);
    if (s->num_devices && !s->awaits_ops)
        qsort(s->devices, s->num_devices, sizeof *s->devices, devices_compare);
    if (s->is_listing) {
        mu_ss_devices_answer(s->call, s);
        s->call = NULL;
        mu_ss_session_end(s, MUSTER_OK, "");
        return;
    }
    s->graph.ops = service->ops;
    s->awaits_ops = def && def->n_node > 0 && !service->ops && service->o.awaits_ops;
    if (s->awaits_ops)
        return; /* until they are known, or its time is over */
    if (def && def->n_node > 0 && !service->ops)
        mu_ss_fail(&error, MUSTER_UNIMPLEMENTED, "the ops of these executors are not known here: %s",
                   service->no_ops ? service->no_ops
                                   : "say where TensorFlow is by --libtensorflow, or by MUSTER_LIBTENSORFLOW");
    else if (def && mu_ss_graph_add(&s->graph, def, &error))
        s->request->graph_def = NULL;
    if (!error.status && mu_ss_place(s, 0, &error))
        members_create(s);
    else
        create_fail(s, &error);
}

void mu_ss_session_ops(struct mu_ss_session *s)
{
    if (s->awaits_ops)
        members_asked(s);
}

static bool device_add(struct mu_ss_session *s, struct mu_ss_member *m, struct mu_executor_bytes bytes)
{
    Mu__Graph__DeviceAttributes *a = mu__graph__device_attributes__unpack(NULL, bytes.len, bytes.at);
    struct mu_ss_device *d;
    bool is_added = false;

    if (a && a->name && mu_ss_grow(&s->devices, sizeof *s->devices, s->num_devices + 1, &s->room_devices)) {
        const char *device = strstr(a->name, "/device:");

        d = &s->devices[s->num_devices];
        *d = (struct mu_ss_device){.member = m, .incarnation = a->incarnation, .len = bytes.len};
        snprintf(d->type, sizeof d->type, "%s", a->device_type ? a->device_type : "CPU");
        if (asprintf(&d->name, "/job:%s/replica:0/task:%u%s", m->executor->job, m->executor->task,
                     device ? device : "/device:CPU:0") < 0)
            d->name = NULL;
        free(a->name);
        a->name = d->name ? strdup(d->name) : NULL;
        a->incarnation = a->incarnation ? a->incarnation : 1;
        a->has_incarnation = true;
        d->len = mu__graph__device_attributes__get_packed_size(a);
        d->attributes = malloc(d->len + 1);
        is_added = d->name && a->name && d->attributes && mu_ss_spec_read(d->name, &d->spec);
        if (d->attributes)
            mu__graph__device_attributes__pack(a, d->attributes);
        s->num_devices++;
    }
    if (a)
        mu__graph__device_attributes__free_unpacked(a, NULL);
    return is_added;
}

static void on_member_devices(void *arg, const struct mu_executor_answer *a)
{
    struct mu_ss_member *m = arg;
    struct mu_ss_session *s = m->session;
    struct mu_ss_error error = {0};
    char name[300];

    m->call = NULL;
    mu_executor_name(m->executor, name, sizeof name);
    if (a->status) {
        mu_ss_fail(&error, a->status == MUSTER_DEADLINE_EXCEEDED ? MUSTER_DEADLINE_EXCEEDED : MUSTER_UNAVAILABLE,
                   "CreateSession: %s at %s does not answer: %s", name, m->executor->address, a->text);
        if (error.status == MUSTER_UNAVAILABLE)
            error.status = MUSTER_ABORTED; /* a client would say it ten times more */
    }
    m->is_out = !session_has(s, m->executor);
    for (uint32_t i = 0; !a->status && !m->is_out && i < a->num_devices && !error.status; i++)
        if (!device_add(s, m, a->devices[i]))
            mu_ss_fail(&error, MUSTER_INTERNAL, "CreateSession: a device of %s has no name", name);
    if (error.status) {
        create_fail(s, &error);
        return;
    }
    m->is_there = true;
    if (--s->num_asked == 0)
        members_asked(s);
}

static void members_ask(struct mu_ss_session *s)
{
    struct mu_ss_error error = {0};

    s->num_asked = s->num_members;
    if (s->num_members == 0)
        mu_ss_fail(&error, MUSTER_FAILED_PRECONDITION, "No devices are registered");
    for (uint32_t i = 0; i < s->num_members && !error.status; i++) {
        struct mu_ss_member *m = &s->members[i];

        m->call = m->executor->kind->devices(m->executor, on_member_devices, m);
        if (!m->call)
            mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session");
    }
    if (error.status)
        create_fail(s, &error);
}

static bool config_take(struct mu_ss_session *s, struct mu_ss_error *error)
{
    const Mu__Session__CreateSessionRequest *r = s->request;

    if (r->graph_def && !mu_ss_check_syntax(r->graph_def, error))
        return false;
    if (!r->has_config || !r->config.len)
        return true;
    s->options =
        mu_ss_message_read(&mu__session__config__descriptor, r->config, "the session's ConfigProto is damaged", error);
    s->config.data = malloc(r->config.len);
    if (!s->options || !s->config.data)
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session's ConfigProto");
    memcpy(s->config.data, r->config.data, r->config.len);
    s->config.len = r->config.len;
    if (s->options->use_per_session_threads || s->options->n_session_inter_op_thread_pool)
        return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                          "Distributed session does not support session thread pool options.");
    if (s->options->cluster_def && s->options->cluster_def->n_job)
        return mu_ss_fail(error, MUSTER_UNIMPLEMENTED,
                          "a session with a cluster_def of its own is not served: its tasks are the job's");
    return true;
}

/* Each filter means one task, and an executor has said that it is that one. */
static bool filters_are_met(const struct mu_ss_session *s)
{
    const struct mu_master_options *o = &s->service->o;
    size_t met = 0;

    for (size_t i = 0; s->options && i < s->options->n_device_filters; i++) {
        struct mu_ss_spec spec;
        bool is_met = !mu_ss_spec_read(s->options->device_filters[i], &spec);

        for (uint32_t k = 0; !is_met && spec.job[0] && spec.task >= 0 && k < o->num_executors; k++)
            is_met = o->executors[k] && !o->executors[k]->is_nameless &&
                     mu_ss_filter_has(&s->options->device_filters[i], 1, o->executors[k]);
        met += is_met;
    }
    return s->options && met == s->options->n_device_filters && met > 0;
}

/* One that has not said which task it is is asked, unless the others are all that the filters mean. */
static bool members_choose(struct mu_ss_session *s)
{
    const struct mu_master_options *o = &s->service->o;
    bool is_met = filters_are_met(s);

    s->members = calloc(o->num_executors + 1, sizeof *s->members);
    for (uint32_t i = 0; s->members && i < o->num_executors; i++)
        if (o->executors[i] && !o->executors[i]->is_gone &&
            (o->executors[i]->is_nameless ? !is_met : session_has(s, o->executors[i])))
            s->members[s->num_members++] = (struct mu_ss_member){.executor = o->executors[i], .session = s};
    return s->members != NULL;
}

/* NULL: it has been refused, and the request is freed. */
static struct mu_ss_session *session_new(struct mu_master *service, struct mu_rpc_call *call,
                                         Mu__Session__CreateSessionRequest *request)
{
    struct mu_ss_session *s = calloc(1, sizeof *s);
    struct mu_ss_error error = {0};

    if (!s) {
        mu__session__create_session_request__free_unpacked(request, NULL);
        mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session");
        mu_ss_refuse(call, &error);
        return NULL;
    }
    s->service = service;
    s->request = request;
    s->call = call;
    s->since_ns = uv_hrtime();
    s->until_ms = mu_ss_now() + (service->o.create_ms ? service->o.create_ms : 30000);
    snprintf(s->handle, sizeof s->handle, "%08llx%08llx", (unsigned long long)mu_ss_random_id() & 0xffffffff,
             (unsigned long long)mu_ss_random_id() & 0xffffffff);
    snprintf(s->peer, sizeof s->peer, "%s", mu_rpc_peer_name(mu_rpc_conn_of(call)));
    MU_LIST_PUSH(service->sessions, s);
    service->num_sessions++;
    mu_rpc_wait(call, on_create_left, s);
    mu_ss_session_used(s, call);
    return s;
}

void mu_ss_session_create(struct mu_master *service, struct mu_rpc_call *call,
                          Mu__Session__CreateSessionRequest *request)
{
    struct mu_ss_session *s = session_new(service, call, request);
    struct mu_ss_error error = {0};

    if (!s)
        return;
    if (!config_take(s, &error) ||
        (!members_choose(s) && !mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session"))) {
        create_fail(s, &error);
        return;
    }
    if (s->options && s->options->operation_timeout_in_ms > 0) {
        uint64_t until = mu_ss_now() + (uint64_t)s->options->operation_timeout_in_ms;

        s->until_ms = until < s->until_ms ? until : s->until_ms;
    }
    members_ask(s);
}

void mu_ss_devices_list(struct mu_master *service, struct mu_rpc_call *call)
{
    struct mu_ss_session *s = session_new(service, call, NULL);
    struct mu_ss_error error = {0};

    if (!s)
        return;
    s->is_listing = true;
    if (members_choose(s)) {
        members_ask(s);
        return;
    }
    mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory to list devices");
    create_fail(s, &error);
}

static void create_is_late(struct mu_ss_session *s)
{
    struct mu_ss_error error = {0};
    char names[512];
    size_t n = 0;

    names[0] = 0;
    for (uint32_t i = 0; i < s->num_members && n < sizeof names; i++)
        if (s->members[i].call)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s/job:%s/replica:0/task:%u at %s", n ? ", " : "",
                                  s->members[i].executor->job, s->members[i].executor->task,
                                  s->members[i].executor->address);
    mu_ss_fail(&error, MUSTER_DEADLINE_EXCEEDED, "CreateSession: no answer in time from %s", names);
    create_fail(s, &error);
}

void mu_ss_session_tick(struct mu_ss_session *s, uint64_t now)
{
    const struct mu_master_options *o = &s->service->o;

    if (s->state != MU_SS_OPEN) {
        if (now >= s->until_ms)
            create_is_late(s);
        return;
    }
    for (struct mu_ss_step *step = s->steps, *next; step; step = next) {
        next = step->next;
        mu_ss_step_tick(step, now);
    }
    if (!s->num_conns && !s->steps && now >= s->used_ms + (o->idle_ms ? o->idle_ms : 60000)) {
        s->service->num_collected++;
        mu_ss_session_end(s, MUSTER_CANCELLED,
                          "Step was cancelled because the session was garbage collected due to inactivity.");
    }
}
