/*
 * rpc/tsl_report.c: ReportErrorToTask, the one call of tensorflow.CoordinationService that the service makes.
 *
 * TensorFlow's own service knows its workers by the cluster that it is part of, and calls each that is connected when
 * one fails. Here the engine says what to tell which wire client that does not poll. An error of the service itself
 * comes from a task of the job "coordination_service", as TensorFlow's says it.
 */
#include "rpc/tsl_report.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/tsl_coordination.pb-c.h"
#include "rpc/worker.h"
#include "segment/handle.h"
#include "topology/message.h"

static bool service_report(void *arg, const struct mu_coord_report *what)
{
    Mu__TslCoordination__ReportErrorToTaskRequest q = MU__TSL_COORDINATION__REPORT_ERROR_TO_TASK_REQUEST__INIT;
    Mu__TslCoordination__CoordinationServiceError error = MU__TSL_COORDINATION__COORDINATION_SERVICE_ERROR__INIT;
    Mu__TslCoordination__CoordinatedTask source = MU__TSL_COORDINATION__COORDINATED_TASK__INIT;
    struct mu_service *s = arg;
    const struct mu_job *job = what->origin >= 0 ? mu_jobs_of(&s->jobs, what->origin) : NULL;
    const char *name = job ? job->name : "coordination_service";
    size_t size;
    void *bytes;
    bool is_begun;

    source.job_name = mu_reply_bytes(name, strlen(name));
    source.task_id = job ? what->origin - job->first : 0;
    error.is_reported_error = what->reported;
    error.source_task = &source;
    q.error_code = (int32_t)what->code;
    q.error_message = mu_reply_text(what->text);
    q.error_payload = &error;
    if (mu_message_pack(&q.base, &bytes, &size))
        return false;
    is_begun = mu_workers_call(s->workers, (uint32_t)what->task, what->incarnation,
                               "/tensorflow.CoordinationService/ReportErrorToTask", bytes, size);
    free(bytes);
    return is_begun;
}

static void on_client_ended(void *arg, uint32_t task, uint64_t incarnation, bool well)
{
    struct mu_service *s = arg;

    if (!well)
        mu_coord_untold(s->coord, (int32_t)task, incarnation);
}

static void on_report_said(void *arg, const char *sentence)
{
    const struct mu_service *s = arg;
    const struct mu_coord_options *coord = mu_coord_options(s->coord);

    if (coord->said)
        coord->said(coord->arg, -1, sentence);
}

enum muster_status mu_reports_begin(struct mu_service *s, const struct mu_service_options *o)
{
    const struct mu_workers_options options = {
        .loop = s->loop,
        .addresses = o->workers,
        .seg = s->m->seg,
        .time_ns = o->workers_ns,
        .num_tasks = mu_coord_num_tasks(s->coord),
        .ended = on_client_ended,
        .said = on_report_said,
        .arg = s,
    };
    enum muster_status status = mu_workers_open(&options, &s->workers);

    if (!status)
        mu_coord_report_by(s->coord, service_report, s);
    return status;
}

void mu_reports_end(struct mu_service *s)
{
    mu_coord_report_by(s->coord, NULL, NULL);
    mu_workers_close(s->workers);
    s->workers = NULL;
}
