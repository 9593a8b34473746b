/*
 * rpc/service.c: the server and the dialects, put together before an engine, and taken apart.
 *
 * Stopping is in two steps: the engine answers all that waits; the server lets clients fetch their answers and closes
 * their connections, which hangs up their lines. Then the engine can go, which is its owner's.
 */
#include "rpc/service.h"

#include <stdlib.h>

#include "base/error.h"
#include "rpc/dialect.h"
#include "rpc/tsl_report.h"
#include "segment/handle.h"
#include "segment/names.h"

static const uint8_t described[] = {
#include "rpc/descriptors.inc"
};
static const struct mu_rpc_method *const tables[] = {mu_xla_coordination, mu_tsl_coordination, mu_xla_runtime};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* All dialects' methods, one behind the other. NULL: no memory. */
static struct mu_rpc_method *join_tables(size_t *ret_count)
{
    struct mu_rpc_method *all;
    size_t count = 0;

    for (size_t t = 0; t < TABLES; t++)
        for (size_t i = 0; tables[t][i].path; i++)
            count++;
    all = calloc(count + 1, sizeof *all);
    count = 0;
    for (size_t t = 0; all && t < TABLES; t++)
        for (size_t i = 0; tables[t][i].path; i++)
            all[count++] = tables[t][i];
    *ret_count = count;
    return all;
}

static void service_done(struct mu_service *s)
{
    mu_jobs_done(&s->jobs);
    free(s->methods);
    free(s->ended);
    free(s->devices.answer);
    free(s->topology.answer);
    free(s);
}

static void on_service_said(void *arg, const char *sentence)
{
    const struct mu_service *s = arg;
    const struct mu_coord_options *coord = mu_coord_options(s->coord);

    if (coord->said)
        coord->said(coord->arg, -1, sentence);
}

static enum muster_status open_parts(struct mu_service *s, const struct mu_service_options *o)
{
    struct mu_rpc_options server = {
        .loop = s->loop,
        .account = mu_coord_options(s->coord)->account,
        .address = o->address,
        .methods = s->methods,
        .arg = s,
        .described = described,
        .described_len = sizeof described,
        .tls = o->tls,
        .insecure = o->insecure,
        .any_user = o->any_user,
        .closed = mu_caller_gone,
        .said = on_service_said,
    };
    enum muster_status status = mu_jobs_init(&s->jobs, o->jobs, (int32_t)mu_coord_num_tasks(s->coord));

    if (!status && o->jobs)
        mu_names_set(s->m->seg, o->jobs);
    if (!status && o->workers)
        status = mu_reports_begin(s, o);
    if (!status)
        status = mu_rpc_start(&server, &s->rpc);
    if (status)
        mu_reports_end(s);
    return status;
}

enum muster_status mu_service_start(const struct mu_service_options *options, struct mu_service **ret_service)
{
    struct mu_service *s = calloc(1, sizeof *s);
    enum muster_status status;
    size_t count = 0;

    if (s)
        s->methods = join_tables(&count);
    if (s)
        s->ended = calloc(count + 1, sizeof *s->ended);
    if (!s || !s->methods || !s->ended) {
        if (s)
            service_done(s);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the coordination service");
    }
    s->coord = options->coord;
    s->loop = mu_coord_options(s->coord)->loop;
    s->m = mu_coord_options(s->coord)->m;
    s->devices = mu_tsl_devices;
    s->topology = mu_xla_topology;
    status = open_parts(s, options);
    if (status) {
        service_done(s);
        return status;
    }
    *ret_service = s;
    return MUSTER_OK;
}

const char *mu_service_address(const struct mu_service *s)
{
    return mu_rpc_address(s->rpc);
}

void mu_service_stats(const struct mu_service *s, struct mu_service_stats *ret_stats)
{
    *ret_stats = (struct mu_service_stats){.connections = mu_rpc_connections(s->rpc), .parked = s->num_visits};
}

void mu_service_calls(const struct mu_service *s,
                      void (*row)(void *arg, const char *method, const char *code, uint64_t count), void *arg)
{
    for (size_t i = 0; s->methods[i].path; i++)
        for (unsigned code = 0; code < MU_CODES; code++)
            if (s->ended[i][code])
                row(arg, s->methods[i].path + 1, muster_status_name((enum muster_status)code), s->ended[i][code]);
}

static void server_stopped(void *arg)
{
    struct mu_service *s = arg;
    void (*stopped)(void *arg) = s->stopped;
    void *for_stopped = s->arg;

    service_done(s);
    if (stopped)
        stopped(for_stopped);
}

void mu_service_stop(struct mu_service *s, uint64_t grace_ns, void (*stopped)(void *arg), void *arg)
{
    s->stopped = stopped;
    s->arg = arg;
    mu_reports_end(s);
    mu_coord_stop(s->coord);
    mu_rpc_stop(s->rpc, grace_ns, server_stopped);
}
