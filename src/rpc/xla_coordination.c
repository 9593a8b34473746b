/*
 * rpc/xla_coordination.c: xla.coordination.CoordinationService, what XLA and JAX speak today.
 *
 * Tasks are bare numbers. Every request but RegisterTask says of which incarnation of the service its client has heard:
 * one that means another is told so, with the present one, and its client gives up.
 */
#include "rpc/xla_coordination.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>

#include "rpc/dialect.h"

#define ASK(type, name)                                                                                                \
    const Mu__XlaCoordination__##type##Request *name = (const void *)request;                                          \
    struct mu_coord *coord = v->coord

static const char *const not_text[] = {"value", NULL};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static enum muster_status xla_error(struct mu_visit *v, const struct mu_codec_payload *more, size_t count,
                                    void **ret_bytes, size_t *ret_size)
{
    Mu__XlaCoordination__CoordinationServiceError e = MU__XLA_COORDINATION__COORDINATION_SERVICE_ERROR__INIT;

    if (v->request.payload == MU_PAYLOAD_SERVICE && v->request.origin >= 0) {
        e.is_reported_error = v->request.reported;
        e.source_task_id = v->request.origin;
    }
    return mu_reply_payloads(&e.base, more, count, ret_bytes, ret_size);
}

static void refuse_stranger(struct mu_visit *v, uint64_t requested)
{
    Mu__XlaCoordination__CoordinationServiceError e = MU__XLA_COORDINATION__COORDINATION_SERVICE_ERROR__INIT;
    Mu__XlaCoordination__ServiceMismatchError mismatch = MU__XLA_COORDINATION__SERVICE_MISMATCH_ERROR__INIT;
    struct mu_codec_payload more = {"ServiceMismatchError", &mismatch.base};
    uint64_t own = mu_coord_incarnation(v->coord);
    char text[256];
    void *details = NULL;
    size_t len = 0;

    mismatch.service_incarnation = own;
    snprintf(text, sizeof text,
             "The client meant the wrong service incarnation: requested %" PRIu64 ", currently %" PRIu64
             ". The service has been started anew since the client registered, or it is another job's.",
             requested, own);
    mu_reply_payloads(&e.base, &more, 1, &details, &len);
    mu_visit_refuse_with(v, MUSTER_INTERNAL, text, details, len);
    free(details);
}

static bool xla_admit(struct mu_visit *v, const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(request->descriptor, 1);
    const Mu__XlaCoordination__Incarnations *said;
    uint64_t requested;

    if (!field) /* RegisterTask */
        return true;
    said = *(Mu__XlaCoordination__Incarnations *const *)((const char *)request + field->offset);
    requested = said ? said->service_incarnation : 0;
    if (requested == mu_coord_incarnation(v->coord))
        return true;
    refuse_stranger(v, requested);
    return false;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void xla_ask_register(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(RegisterTask, q);

    mu_coord_register(coord, &v->request, q->source_task_id, q->incarnation, false);
}

static void xla_ask_heartbeat(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Heartbeat, q);

    mu_coord_heartbeat(coord, &v->request, q->source_task_id, q->incarnation);
}

static void xla_ask_poll(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(PollForError, q);

    mu_coord_poll_error(coord, &v->request, q->source_task_id);
}

static void xla_ask_report(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(ReportErrorToService, q);

    mu_coord_report_error(coord, &v->request, q->source_task_id, q->error_code, MU_BYTES(q->error_message));
}

static void xla_ask_shutdown(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(ShutdownTask, q);

    mu_coord_shutdown(coord, &v->request, q->source_task_id);
}

static void xla_ask_watch(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(WatchTasks, q);

    mu_coord_watch(coord, &v->request, q->version_number);
}

static void xla_ask_alive(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(GetAliveTasks, q);

    mu_coord_alive(coord, &v->request, q->requesting_task_id, q->task_ids, q->n_task_ids);
}

static void xla_reply_alive(struct mu_visit *v)
{
    Mu__XlaCoordination__GetAliveTasksResponse r = MU__XLA_COORDINATION__GET_ALIVE_TASKS_RESPONSE__INIT;

    r.n_alive_task_ids = r.n_incarnations = v->request.num_alive;
    r.alive_task_ids = (int32_t *)(uintptr_t)v->request.alive;
    r.incarnations = (uint64_t *)(uintptr_t)v->request.incarnations;
    mu_visit_answer(v, &r.base);
}

/* A task's row, with the room for its error. */
struct xla_row {
    Mu__XlaCoordination__TaskInfo info;
    Mu__XlaCoordination__CoordinationServiceError error;
};

static void xla_row_fill(struct xla_row *row, const struct muster_task_info *info)
{
    mu__xla_coordination__task_info__init(&row->info);
    row->info.task_id = info->task_id;
    row->info.state = (Mu__XlaCoordination__TaskState)mu_reply_state(info->state);
    row->info.incarnation = info->incarnation;
    if (info->state != MUSTER_TASK_ERROR)
        return;
    mu__xla_coordination__coordination_service_error__init(&row->error);
    row->error.source_task_id = info->task_id;
    row->info.error_payload = &row->error;
    row->info.error_code = (int32_t)info->error;
    row->info.error_message = mu_reply_text(info->message);
}

static void xla_reply_watch(struct mu_visit *v)
{
    Mu__XlaCoordination__WatchTasksResponse r = MU__XLA_COORDINATION__WATCH_TASKS_RESPONSE__INIT;
    size_t count = v->request.num_tasks;
    struct xla_row *rows = calloc(count + 1, sizeof *rows);
    Mu__XlaCoordination__TaskInfo **each = calloc(count + 1, sizeof *each);

    for (size_t i = 0; rows && each && i < count; i++) {
        xla_row_fill(&rows[i], &v->request.tasks[i]);
        each[i] = &rows[i].info;
    }
    r.n_task_state = count;
    r.task_state = each;
    r.version_number = v->request.version;
    if (rows && each)
        mu_visit_answer(v, &r.base);
    else
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for %zu tasks", count);
    free(rows);
    free(each);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static void xla_ask_barrier(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Barrier, q);

    mu_coord_barrier(coord, &v->request, q->source_task_id, MU_BYTES(q->barrier_id), q->barrier_timeout_in_ms,
                     q->task_ids, q->n_task_ids, q->counter);
}

static void xla_ask_cancel(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(CancelBarrier, q);

    mu_coord_cancel(coord, &v->request, q->source_task_id, MU_BYTES(q->barrier_id), q->counter);
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static const struct mu_dialect dialect = {.not_text = not_text, .admit = xla_admit, .error = xla_error};

#define ANY(name, kind, key, more, ask, reply, islong)                                                                 \
    MU_METHOD("xla.coordination.CoordinationService", name, &dialect,                                                  \
              &mu__xla_coordination__##kind##_request__descriptor, key, more, ask, reply, islong)
#define METHOD(name, kind, ask, reply) ANY(name, kind, 0, 0, ask, reply, false)
#define LONG(name, kind, ask, reply)   ANY(name, kind, 0, 0, ask, reply, true) /* its answer may be */
#define KEY(name, kind, key, more, ask, reply, islong)                                                                 \
    ANY(#name, kind, offsetof(Mu__XlaCoordination__##name##Request, key),                                              \
        offsetof(Mu__XlaCoordination__##name##Request, more), ask, reply, islong)

const struct mu_rpc_method mu_xla_coordination[] = {
    METHOD("RegisterTask", register_task, xla_ask_register, mu_reply_incarnation),
    METHOD("Heartbeat", heartbeat, xla_ask_heartbeat, mu_reply_incarnation),
    METHOD("PollForError", poll_for_error, xla_ask_poll, mu_reply_empty),
    METHOD("ReportErrorToService", report_error_to_service, xla_ask_report, mu_reply_empty),
    METHOD("ShutdownTask", shutdown_task, xla_ask_shutdown, mu_reply_empty),
    LONG("WatchTasks", watch_tasks, xla_ask_watch, xla_reply_watch),
    METHOD("GetAliveTasks", get_alive_tasks, xla_ask_alive, xla_reply_alive),
    KEY(InsertKeyValue, insert_key_value, kv, allow_overwrite, mu_visit_insert, mu_reply_empty, false),
    KEY(GetKeyValue, get_key_value, key, key, mu_visit_get, mu_reply_entry, true),
    KEY(TryGetKeyValue, try_get_key_value, key, key, mu_visit_try, mu_reply_entry, true),
    KEY(IncrementKeyValue, increment_key_value, key, increment, mu_visit_increment, mu_reply_entry, false),
    KEY(GetKeyValueDir, get_key_value_dir, directory_key, directory_key, mu_visit_dir, mu_reply_directory, true),
    KEY(DeleteKeyValue, delete_key_value, key, key, mu_visit_delete, mu_reply_empty, false),
    METHOD("Barrier", barrier, xla_ask_barrier, mu_reply_counter),
    METHOD("CancelBarrier", cancel_barrier, xla_ask_cancel, mu_reply_empty),
    {0},
};
