/*
 * rpc/tsl_coordination.c: tensorflow.CoordinationService, of TensorFlow, and of JAX until 0.9.
 *
 * Tasks are a job and an index there. Clients are answered in the names that they use: those of their request, where
 * the service was not told of jobs. Of the calls only ReportErrorToTask is not served: it is one that the service
 * makes (tsl_report.c).
 */
#include "rpc/tsl_coordination.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/dialect.h"
#include "rpc/tsl_devices.h"

typedef Mu__TslCoordination__CoordinatedTask named_task;

static const char *const not_text[] = {"value", "devices", NULL};
static const named_task no_task = MU__TSL_COORDINATION__COORDINATED_TASK__INIT;

#define ASK(type, name)                                                                                                \
    const Mu__TslCoordination__##type##Request *name = (const void *)request;                                          \
    struct mu_coord *coord = v->coord

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void refuse_name(struct mu_visit *v)
{
    mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE, "%s", muster_last_error());
}

/* The caller's number, and the name of its job for the answer. False: the visit has ended. */
static bool caller_names(struct mu_visit *v, const named_task *source, int32_t *ret_task)
{
    const named_task *t = source ? source : &no_task;

    if (mu_jobs_find(&v->service->jobs, t->job_name.data, t->job_name.len, t->task_id, ret_task)) {
        refuse_name(v);
        return false;
    }
    return mu_visit_name(v, t->job_name);
}

/* The numbers of a list; malloc()ed. NULL: the visit has ended. */
static int32_t *list_numbers(struct mu_visit *v, named_task *const *list, size_t count)
{
    int32_t *tasks = calloc(count + 1, sizeof *tasks);

    if (!tasks)
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for %zu tasks", count);
    for (size_t i = 0; tasks && i < count; i++)
        if (mu_jobs_find(&v->service->jobs, list[i]->job_name.data, list[i]->job_name.len, list[i]->task_id,
                         &tasks[i])) {
            refuse_name(v);
            free(tasks);
            return NULL;
        }
    return tasks;
}

/* As a client of this visit calls the task. */
static void give_name(struct mu_visit *v, int32_t number, named_task *ret_task)
{
    const struct mu_jobs *jobs = &v->service->jobs;
    const struct mu_job *job = mu_jobs_of(jobs, number);

    mu__tsl_coordination__coordinated_task__init(ret_task);
    ret_task->task_id = job ? number - job->first : number;
    if (job && !jobs->is_any)
        ret_task->job_name = mu_reply_bytes(job->name, strlen(job->name));
    else
        ret_task->job_name = mu_reply_bytes(v->name, v->name_len);
}

static enum muster_status tsl_error(struct mu_visit *v, const struct mu_codec_payload *more, size_t count,
                                    void **ret_bytes, size_t *ret_size)
{
    Mu__TslCoordination__CoordinationServiceError e = MU__TSL_COORDINATION__COORDINATION_SERVICE_ERROR__INIT;
    named_task source;

    if (v->request.payload == MU_PAYLOAD_SERVICE && v->request.origin >= 0) {
        give_name(v, v->request.origin, &source);
        e.is_reported_error = v->request.reported;
        e.source_task = &source;
    }
    return mu_reply_payloads(&e.base, more, count, ret_bytes, ret_size);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void tsl_ask_register(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(RegisterTask, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_register(coord, &v->request, task, q->incarnation, q->source_task && q->source_task->recoverable);
}

static void tsl_ask_heartbeat(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Heartbeat, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_heartbeat(coord, &v->request, task, q->incarnation);
}

static void tsl_ask_poll(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(PollForError, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_poll_error(coord, &v->request, task);
}

static void tsl_ask_report(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(ReportErrorToService, q);
    int32_t task;

    if (caller_names(v, q->error_origin, &task))
        mu_coord_report_error(coord, &v->request, task, q->error_code, MU_BYTES(q->error_message));
}

static void ask_report_to_task(struct mu_visit *v, const ProtobufCMessage *request)
{
    (void)request;
    mu_visit_fail(v, MUSTER_UNIMPLEMENTED, MU_PAYLOAD_NONE,
                  "ReportErrorToTask is for tasks that are servers, and this is the service: report to it with "
                  "ReportErrorToService, and learn of errors with PollForError");
}

static void tsl_ask_shutdown(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(ShutdownTask, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_shutdown(coord, &v->request, task);
}

static void ask_reset(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(ResetTask, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_reset(coord, &v->request, task);
}

static void tsl_ask_devices(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(WaitForAllTasks, q);
    int32_t task;

    if (!caller_names(v, q->source_task, &task))
        return;
    if (task < 0 || (uint32_t)task >= mu_coord_num_tasks(coord))
        mu_visit_fail(v, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE,
                      "Unexpected task (%d) that is not in the cluster waits for all tasks: they are 0 to %u", task,
                      mu_coord_num_tasks(coord) - 1);
    else
        mu_devices_wait(v, task, q);
}

static void ask_state(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(GetTaskState, q);
    int32_t *tasks = list_numbers(v, q->source_task, q->n_source_task);

    if (!tasks)
        return;
    /* they are usually of one job: its name serves for all */
    if (mu_visit_name(v, q->n_source_task ? q->source_task[0]->job_name : no_task.job_name))
        mu_coord_state(coord, &v->request, tasks, q->n_source_task);
    free(tasks);
}

static void ask_job(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(GetJobState, q);
    const struct mu_job *job = mu_jobs_named(&v->service->jobs, q->job_name.data, q->job_name.len);
    int32_t *tasks = job ? calloc((size_t)job->count, sizeof *tasks) : NULL;

    if (!job) {
        refuse_name(v);
    } else if (!tasks) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for %d tasks",
                      job->count);
    } else if (mu_visit_name(v, q->job_name)) {
        for (int32_t i = 0; i < job->count; i++)
            tasks[i] = job->first + i;
        mu_coord_state(coord, &v->request, tasks, (size_t)job->count);
    }
    free(tasks);
}

static void tsl_ask_watch(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(WatchJobState, q);
    const struct mu_job *job = mu_jobs_named(&v->service->jobs, q->job_name.data, q->job_name.len);

    if (!job) {
        refuse_name(v);
        return;
    }
    v->task = job->first; /* the answer is of that job alone */
    if (mu_visit_name(v, q->job_name))
        mu_coord_watch(coord, &v->request, q->version_number);
}

/* A task's row, with the room for its name and its error. */
struct tsl_row {
    Mu__TslCoordination__CoordinatedTaskStateInfo info;
    Mu__TslCoordination__CoordinationServiceError error;
    named_task name;
};

static void tsl_row_fill(struct mu_visit *v, struct tsl_row *row, const struct muster_task_info *info)
{
    mu__tsl_coordination__coordinated_task_state_info__init(&row->info);
    give_name(v, info->task_id, &row->name);
    row->name.recoverable = info->recoverable;
    row->info.task = &row->name;
    row->info.state = (Mu__TslCoordination__CoordinatedTaskState)mu_reply_state(info->state);
    row->info.incarnation = info->incarnation;
    if (info->state != MUSTER_TASK_ERROR)
        return;
    mu__tsl_coordination__coordination_service_error__init(&row->error);
    row->error.source_task = &row->name;
    row->info.error_payload = &row->error;
    row->info.error_code = (int32_t)info->error;
    row->info.error_message = mu_reply_text(info->message);
}

/* first and last: of the tasks that are told of. */
static void reply_states(struct mu_visit *v, int32_t first, int32_t last)
{
    Mu__TslCoordination__WatchJobStateResponse r = MU__TSL_COORDINATION__WATCH_JOB_STATE_RESPONSE__INIT;
    size_t count = v->request.num_tasks;
    struct tsl_row *rows = calloc(count + 1, sizeof *rows);
    Mu__TslCoordination__CoordinatedTaskStateInfo **each = calloc(count + 1, sizeof *each);

    for (size_t i = 0; rows && each && i < count; i++) {
        if (v->request.tasks[i].task_id < first || v->request.tasks[i].task_id > last)
            continue;
        tsl_row_fill(v, &rows[i], &v->request.tasks[i]);
        each[r.n_task_state++] = &rows[i].info;
    }
    r.task_state = each;
    r.version_number = v->request.version;
    if (rows && each)
        mu_visit_answer(v, &r.base);
    else
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for %zu tasks", count);
    free(rows);
    free(each);
}

/* GetTaskStateResponse and GetJobStateResponse are the same without the version. */
static void reply_state(struct mu_visit *v)
{
    v->request.version = 0;
    reply_states(v, 0, INT32_MAX);
}

static void tsl_reply_watch(struct mu_visit *v)
{
    const struct mu_job *job = mu_jobs_of(&v->service->jobs, v->task);

    reply_states(v, job->first, job->first + (job->count - 1));
}

static void tsl_ask_alive(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(GetAliveTasks, q);
    int32_t task, *tasks;

    if (!caller_names(v, q->requesting_task, &task))
        return;
    tasks = list_numbers(v, q->tasks, q->n_tasks);
    if (tasks)
        mu_coord_alive(coord, &v->request, task, tasks, q->n_tasks);
    free(tasks);
}

static void tsl_reply_alive(struct mu_visit *v)
{
    Mu__TslCoordination__GetAliveTasksResponse r = MU__TSL_COORDINATION__GET_ALIVE_TASKS_RESPONSE__INIT;
    size_t count = v->request.num_alive;
    named_task *tasks = calloc(count + 1, sizeof *tasks), **each = calloc(count + 1, sizeof *each);

    for (size_t i = 0; tasks && each && i < count; i++) {
        give_name(v, v->request.alive[i], &tasks[i]);
        each[i] = &tasks[i];
    }
    r.n_alive_tasks = r.n_incarnations = count;
    r.alive_tasks = each;
    r.incarnations = (uint64_t *)(uintptr_t)v->request.incarnations;
    if (tasks && each)
        mu_visit_answer(v, &r.base);
    else
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for %zu tasks", count);
    free(tasks);
    free(each);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static void tsl_ask_barrier(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(Barrier, q);
    int32_t task, *tasks;

    if (!caller_names(v, q->source_task, &task))
        return;
    tasks = list_numbers(v, q->tasks, q->n_tasks);
    if (tasks)
        mu_coord_barrier(coord, &v->request, task, MU_BYTES(q->barrier_id), q->barrier_timeout_in_ms, tasks, q->n_tasks,
                         q->counter);
    free(tasks);
}

static void tsl_ask_cancel(struct mu_visit *v, const ProtobufCMessage *request)
{
    ASK(CancelBarrier, q);
    int32_t task;

    if (caller_names(v, q->source_task, &task))
        mu_coord_cancel(coord, &v->request, task, MU_BYTES(q->barrier_id), q->counter);
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static const struct mu_dialect dialect = {.not_text = not_text, .error = tsl_error};

#define ANY(name, kind, key, more, ask, reply, islong)                                                                 \
    MU_METHOD("tensorflow.CoordinationService", name, &dialect, &mu__tsl_coordination__##kind##_request__descriptor,   \
              key, more, ask, reply, islong)
#define METHOD(name, kind, ask, reply) ANY(name, kind, 0, 0, ask, reply, false)
#define LONG(name, kind, ask, reply)   ANY(name, kind, 0, 0, ask, reply, true) /* its answer may be */
#define KEY(name, kind, key, more, ask, reply, islong)                                                                 \
    ANY(#name, kind, offsetof(Mu__TslCoordination__##name##Request, key),                                              \
        offsetof(Mu__TslCoordination__##name##Request, more), ask, reply, islong)

const struct mu_rpc_method mu_tsl_coordination[] = {
    METHOD("RegisterTask", register_task, tsl_ask_register, mu_reply_incarnation),
    METHOD("Heartbeat", heartbeat, tsl_ask_heartbeat, mu_reply_incarnation),
    LONG("WaitForAllTasks", wait_for_all_tasks, tsl_ask_devices, mu_reply_empty),
    METHOD("ShutdownTask", shutdown_task, tsl_ask_shutdown, mu_reply_empty),
    METHOD("ResetTask", reset_task, ask_reset, mu_reply_empty),
    METHOD("ReportErrorToTask", report_error_to_task, ask_report_to_task, mu_reply_empty),
    METHOD("ReportErrorToService", report_error_to_service, tsl_ask_report, mu_reply_empty),
    LONG("GetTaskState", get_task_state, ask_state, reply_state),
    LONG("GetJobState", get_job_state, ask_job, reply_state),
    LONG("WatchJobState", watch_job_state, tsl_ask_watch, tsl_reply_watch),
    KEY(InsertKeyValue, insert_key_value, kv, allow_overwrite, mu_visit_insert, mu_reply_empty, false),
    KEY(GetKeyValue, get_key_value, key, key, mu_visit_get, mu_reply_entry, true),
    KEY(TryGetKeyValue, try_get_key_value, key, key, mu_visit_try, mu_reply_entry, true),
    KEY(IncrementKeyValue, increment_key_value, key, increment, mu_visit_increment, mu_reply_entry, false),
    KEY(GetKeyValueDir, get_key_value_dir, directory_key, directory_key, mu_visit_dir, mu_reply_directory, true),
    KEY(DeleteKeyValue, delete_key_value, key, key, mu_visit_delete, mu_reply_empty, false),
    METHOD("Barrier", barrier, tsl_ask_barrier, mu_reply_counter),
    METHOD("CancelBarrier", cancel_barrier, tsl_ask_cancel, mu_reply_empty),
    METHOD("GetAliveTasks", get_alive_tasks, tsl_ask_alive, tsl_reply_alive),
    METHOD("PollForError", poll_for_error, tsl_ask_poll, mu_reply_empty),
    {0},
};
