/*
 * ray/methods.c: the methods of /Scheduler/: each reads its request, asks the scheduler, and writes its reply.
 *
 * In the messages of this protocol a number that is 0 is left out, and 0 is an id: so an absent one is that.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ray/ray.pb-c.h"
#include "ray/wire.h"
#include "rpc/codec.h"

enum { NUMBER = 0, BYTES = 2 }; /* kinds of fields */

static const char *const not_text[] = {"obj", "exported", "error_message", NULL};

struct ray_method {
    const ProtobufCMessageDescriptor *request;
    /* The reply, where it is made at once; else a refusal. */
    enum muster_status (*answer)(struct mu_ray_service *s, const ProtobufCMessage *request, struct mu_pack *reply);
    /* Or all of it. */
    void (*take)(struct mu_ray_service *s, struct mu_rpc_call *call, const ProtobufCMessage *request, const void *body,
                 size_t len);
};

static struct mu_ray_text text_of(ProtobufCBinaryData bytes)
{
    return (struct mu_ray_text){bytes.len ? (const char *)bytes.data : "", bytes.len};
}

static void reply_number(struct mu_pack *p, unsigned field, uint64_t value)
{
    if (!value)
        return;
    mu_pack_var(p, field << 3 | NUMBER);
    mu_pack_var(p, value);
}

static void reply_text(struct mu_pack *p, unsigned field, const char *text)
{
    mu_pack_var(p, field << 3 | BYTES);
    mu_pack_var(p, strlen(text));
    mu_pack_raw(p, text, strlen(text));
}

static void call_refuse(struct mu_rpc_call *call, enum muster_status status)
{
    mu_rpc_refuse(call, status, muster_last_error(), NULL, 0);
}

static void call_answer(struct mu_rpc_call *call, struct mu_pack *reply)
{
    if (reply->failed)
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for the reply", NULL, 0);
    else
        mu_rpc_answer(call, reply->bytes ? (const void *)reply->bytes : "", reply->len);
    mu_pack_done(reply);
}

/*
 * A connection stands for the worker that registered by it. Where one speaks for two, or one worker by two, nobody can
 * tell for which of them a request changes references.
 */
static void caller_note(struct mu_ray_service *s, struct mu_rpc_call *call, uint64_t worker)
{
    void **own = mu_rpc_conn_data(mu_rpc_conn_of(call));

    if ((uintptr_t)*own == worker + 1)
        return;
    mu_ray_distrust(s->sched, worker);
    if (*own)
        mu_ray_distrust(s->sched, (uintptr_t)*own - 1);
}

static void caller_register(struct mu_ray_service *s, struct mu_rpc_call *call, uint64_t worker)
{
    void **own = mu_rpc_conn_data(mu_rpc_conn_of(call));

    if (*own)
        caller_note(s, call, worker);
    else
        *own = (void *)(uintptr_t)(worker + 1);
}

void mu_ray_caller_left(void *arg, struct mu_rpc_conn *conn, const char *why)
{
    struct mu_ray_service *s = arg;
    void **own = mu_rpc_conn_data(conn);

    (void)why;
    if (*own && s->sched)
        mu_ray_worker_left(s->sched, (uintptr_t)*own - 1);
    *own = NULL;
}

/* In these requests the first field is the worker that asks. */
static bool names_caller(const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(request->descriptor, 1);

    return field && strcmp(field->name, "workerid") == 0;
}
_Static_assert(offsetof(Mu__Ray__PutObjRequest, workerid) == offsetof(Mu__Ray__RegisterFunctionRequest, workerid) &&
                   offsetof(Mu__Ray__PutObjRequest, workerid) == offsetof(Mu__Ray__SubmitTaskRequest, workerid) &&
                   offsetof(Mu__Ray__PutObjRequest, workerid) == offsetof(Mu__Ray__RequestObjRequest, workerid) &&
                   offsetof(Mu__Ray__PutObjRequest, workerid) == offsetof(Mu__Ray__ReadyForNewTaskRequest, workerid),
               "ray_begin() reads the worker of them all in one place");

static void ray_begin(struct mu_rpc_call *call, const void *body, size_t len)
{
    const struct ray_method *method = mu_rpc_method_of(call)->data;
    struct mu_ray_service *s = mu_rpc_arg(call);
    struct mu_pack reply = {.bytes = NULL};
    ProtobufCMessage *request;
    enum muster_status status = mu_codec_read(method->request, not_text, body, len, &request);

    if (status) {
        call_refuse(call, status);
        return;
    }
    if (names_caller(request))
        caller_note(s, call, ((const Mu__Ray__PutObjRequest *)request)->workerid);
    s->caller = (uint64_t)(uintptr_t)*mu_rpc_conn_data(mu_rpc_conn_of(call)) - 1; /* NIL: none */
    if (method->take) {
        method->take(s, call, request, body, len);
    } else {
        status = method->answer(s, request, &reply);
        if (status) {
            call_refuse(call, status);
            mu_pack_done(&reply);
        } else {
            call_answer(call, &reply);
        }
    }
    mu_codec_free(request);
    mu_ray_calls_settle(s);
}

/* ---- workers and stores ------------------------------------------------------------------------------------------ */

bool mu_ray_register_try(struct mu_ray_visit *v)
{
    struct mu_ray_text ip = {v->texts, v->ip_len}, store = {v->texts + v->ip_len, v->store_len};
    struct mu_ray_worker_ids ids;
    struct mu_pack reply = {.bytes = NULL};
    enum muster_status status = mu_ray_register_worker(v->service->sched, ip, store, v->is_driver, &ids);

    if (status == MUSTER_UNAVAILABLE)
        return false;
    if (status) {
        call_refuse(v->call, status);
        return true;
    }
    caller_register(v->service, v->call, ids.worker);
    reply_number(&reply, 1, ids.worker);
    reply_number(&reply, 2, ids.store);
    reply_text(&reply, 3, ids.address);
    reply_text(&reply, 4, ids.store_address);
    call_answer(v->call, &reply);
    return true;
}

static void take_register_worker(struct mu_ray_service *s, struct mu_rpc_call *call, const ProtobufCMessage *request,
                                 const void *body, size_t len)
{
    const Mu__Ray__RegisterWorkerRequest *q = (const void *)request;
    struct mu_ray_text ip = text_of(q->node_ip_address), store = text_of(q->objstore_address);
    struct mu_ray_visit *v = mu_ray_visit_new(s, call);

    (void)body;
    (void)len;
    if (!v)
        return;
    v->texts = malloc(ip.len + store.len + 1);
    if (!v->texts) {
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for another worker", NULL, 0);
        mu_ray_visit_free(v);
        return;
    }
    memcpy(v->texts, ip.text, ip.len);
    memcpy(v->texts + ip.len, store.text, store.len);
    v->is_registration = true;
    v->is_driver = q->has_is_driver && q->is_driver;
    v->ip_len = ip.len;
    v->store_len = store.len;
    if (mu_ray_register_try(v))
        mu_ray_visit_free(v);
    else
        mu_ray_visit_wait(v, 3000);
}

static enum muster_status answer_register_store(struct mu_ray_service *s, const ProtobufCMessage *request,
                                                struct mu_pack *reply)
{
    const Mu__Ray__RegisterObjStoreRequest *q = (const void *)request;
    enum muster_status status;
    uint32_t id = 0;

    status = mu_ray_register_store(s->sched, text_of(q->objstore_address), &id);
    reply_number(reply, 1, id);
    if (!status)
        mu_ray_calls_watch(s, id);
    for (struct mu_ray_visit *v = s->visits, *next; !status && v; v = next) {
        next = v->next;
        if (v->is_registration && mu_ray_register_try(v))
            mu_ray_visit_free(v);
    }
    return status;
}

/* Its answer comes when the workers have what it sends to them. */
static void take_imports(struct mu_ray_service *s, struct mu_rpc_call *call, const ProtobufCMessage *request,
                         const void *body, size_t len)
{
    const ProtobufCMessageDescriptor *kind = request->descriptor;
    const Mu__Ray__ReadyForNewTaskRequest *q = (const void *)request;
    struct mu_ray_visit *v = mu_ray_visit_new(s, call);
    struct mu_ray_outcome outcome;
    enum muster_status status;

    if (!v)
        return;
    s->current = v;
    if (kind == &mu__ray__export_request__descriptor) {
        bool is_variable = strcmp(mu_rpc_method_of(call)->path, "/Scheduler/ExportReusableVariable") == 0;

        status = mu_ray_export(s->sched, is_variable, body, len);
    } else {
        const Mu__Ray__PreviousTaskInfo *info = q->previous_task_info;

        v->is_worker = true;
        if (info)
            outcome =
                (struct mu_ray_outcome){info->has_task_succeeded && info->task_succeeded, text_of(info->error_message)};
        status = mu_ray_ready_for_task(s->sched, q->workerid, info ? &outcome : NULL);
    }
    s->current = NULL;
    if (!status) {
        mu_ray_visit_go(v);
        return;
    }
    call_refuse(call, status);
    mu_ray_visit_free(v);
}

static enum muster_status answer_kill(struct mu_ray_service *s, const ProtobufCMessage *request, struct mu_pack *reply)
{
    bool success;

    (void)request;
    mu_ray_kill_workers(s->sched, &success);
    reply_number(reply, 1, success);
    return MUSTER_OK;
}

/* ---- functions and tasks ----------------------------------------------------------------------------------------- */

static enum muster_status answer_register_function(struct mu_ray_service *s, const ProtobufCMessage *request,
                                                   struct mu_pack *reply)
{
    const Mu__Ray__RegisterFunctionRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_register_function(s->sched, q->workerid, text_of(q->fnname), q->num_return_vals);
}

static enum muster_status answer_submit(struct mu_ray_service *s, const ProtobufCMessage *request,
                                        struct mu_pack *reply)
{
    const Mu__Ray__SubmitTaskRequest *q = (const void *)request;
    struct mu_pack results = {.bytes = NULL};
    struct mu_ray_value *args;
    enum muster_status status;
    bool is_registered = false;
    uint64_t first = 0, count = 0;

    if (!q->task)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the request has no task");
    args = calloc(q->task->n_arg + 1, sizeof *args);
    if (!args)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the task's arguments");
    for (size_t i = 0; i < q->task->n_arg; i++) {
        const Mu__Ray__Value *v = q->task->arg[i];

        args[i] = (struct mu_ray_value){v->id, v->has_obj ? (v->obj.len ? (const void *)v->obj.data : "") : NULL,
                                        v->has_obj ? v->obj.len : 0};
    }
    status = mu_ray_submit(s->sched, q->workerid, text_of(q->task->name), args, q->task->n_arg, &is_registered, &first,
                           &count);
    free(args);
    for (uint64_t i = 0; !status && i < count; i++)
        mu_pack_var(&results, first + i);
    if (!status && count) {
        mu_pack_var(reply, 1 << 3 | BYTES);
        mu_pack_var(reply, results.len);
        mu_pack_raw(reply, results.bytes, results.len);
    }
    reply->failed = reply->failed || results.failed;
    mu_pack_done(&results);
    reply_number(reply, 2, is_registered);
    return status;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static enum muster_status answer_put(struct mu_ray_service *s, const ProtobufCMessage *request, struct mu_pack *reply)
{
    const Mu__Ray__PutObjRequest *q = (const void *)request;
    uint64_t id = 0;
    enum muster_status status = mu_ray_put(s->sched, q->workerid, &id);

    reply_number(reply, 1, id);
    return status;
}

static enum muster_status answer_request(struct mu_ray_service *s, const ProtobufCMessage *request,
                                         struct mu_pack *reply)
{
    const Mu__Ray__RequestObjRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_request(s->sched, q->workerid, q->objectid);
}

static enum muster_status answer_alias(struct mu_ray_service *s, const ProtobufCMessage *request, struct mu_pack *reply)
{
    const Mu__Ray__AliasObjectIdsRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_alias(s->sched, q->alias_objectid, q->target_objectid);
}

static enum muster_status answer_ready(struct mu_ray_service *s, const ProtobufCMessage *request, struct mu_pack *reply)
{
    const Mu__Ray__ObjReadyRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_object_ready(s->sched, q->objectid, q->objstoreid);
}

static enum muster_status answer_increment(struct mu_ray_service *s, const ProtobufCMessage *request,
                                           struct mu_pack *reply)
{
    const Mu__Ray__ChangeCountsRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_increment(s->sched, s->caller, q->objectid, q->n_objectid);
}

static enum muster_status answer_decrement(struct mu_ray_service *s, const ProtobufCMessage *request,
                                           struct mu_pack *reply)
{
    const Mu__Ray__ChangeCountsRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_decrement(s->sched, s->caller, q->objectid, q->n_objectid);
}

static enum muster_status answer_increment_one(struct mu_ray_service *s, const ProtobufCMessage *request,
                                               struct mu_pack *reply)
{
    const Mu__Ray__ChangeCountRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_increment(s->sched, s->caller, &q->objectid, 1);
}

static enum muster_status answer_decrement_one(struct mu_ray_service *s, const ProtobufCMessage *request,
                                               struct mu_pack *reply)
{
    const Mu__Ray__ChangeCountRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_decrement(s->sched, s->caller, &q->objectid, 1);
}

static enum muster_status answer_contain(struct mu_ray_service *s, const ProtobufCMessage *request,
                                         struct mu_pack *reply)
{
    const Mu__Ray__AddContainedRequest *q = (const void *)request;

    (void)reply;
    return mu_ray_contain(s->sched, s->caller, q->objectid, q->contained_objectid, q->n_contained_objectid);
}

/* ---- what is looked at ------------------------------------------------------------------------------------------- */

static enum muster_status answer_scheduler_info(struct mu_ray_service *s, const ProtobufCMessage *request,
                                                struct mu_pack *reply)
{
    (void)request;
    return mu_ray_scheduler_info(s->sched, reply);
}

static enum muster_status answer_task_info(struct mu_ray_service *s, const ProtobufCMessage *request,
                                           struct mu_pack *reply)
{
    (void)request;
    return mu_ray_task_info(s->sched, reply);
}

#define ANY(name, kind, answer, take, islong)                                                                          \
    {                                                                                                                  \
        .path = "/Scheduler/" name, .begin = ray_begin, .is_long = islong, .data = &(const struct ray_method)          \
        {                                                                                                              \
            &mu__ray__##kind##_request__descriptor, answer, take                                                       \
        }                                                                                                              \
    }
#define NOW(name, kind, answer)  ANY(name, kind, answer, NULL, false)
#define LATER(name, kind, take)  ANY(name, kind, NULL, take, false)
#define LONG(name, kind, answer) ANY(name, kind, answer, NULL, true)

const struct mu_rpc_method mu_ray_methods[] = {
    LATER("RegisterWorker", register_worker, take_register_worker),
    NOW("RegisterObjStore", register_obj_store, answer_register_store),
    NOW("RegisterFunction", register_function, answer_register_function),
    NOW("SubmitTask", submit_task, answer_submit),
    NOW("IncrementCount", change_count, answer_increment_one),
    NOW("DecrementCount", change_count, answer_decrement_one),
    NOW("PutObj", put_obj, answer_put),
    NOW("RequestObj", request_obj, answer_request),
    NOW("AliasObjectIDs", alias_object_ids, answer_alias),
    NOW("ObjReady", obj_ready, answer_ready),
    NOW("IncrementRefCount", change_counts, answer_increment),
    NOW("DecrementRefCount", change_counts, answer_decrement),
    NOW("AddContainedObjectIDs", add_contained, answer_contain),
    LATER("ReadyForNewTask", ready_for_new_task, take_imports),
    LONG("SchedulerInfo", empty, answer_scheduler_info),
    LONG("TaskInfo", empty, answer_task_info),
    NOW("KillWorkers", empty, answer_kill),
    LATER("ExportFunction", export, take_imports),
    LATER("ExportReusableVariable", export, take_imports),
    {0},
};
