/*
 * session/service.c: the master's making and its end, and its clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "session/private.h"

enum { TICK_MS = 20, MESSAGE_MAX = 0x7fffffff };

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void on_session_timer(uv_timer_t *timer)
{
    struct mu_master *service = timer->data;
    uint64_t now = mu_ss_now();

    for (struct mu_ss_session *s = service->sessions, *next; s; s = next) {
        next = s->next;
        mu_ss_session_rate(s, now);
        mu_ss_session_tick(s, now);
    }
}

/* A client's connection is gone. */
static void on_session_conn(void *arg, struct mu_rpc_conn *conn, const char *why)
{
    struct mu_master *service = arg;

    (void)why;
    for (struct mu_ss_session *s = service->sessions; s; s = s->next)
        for (uint32_t i = 0; i < s->num_conns; i++)
            if (s->conns[i] == conn) {
                s->conns[i--] = s->conns[--s->num_conns];
                s->used_ms = mu_ss_now();
            }
}

static void on_session_said(void *arg, const char *sentence)
{
    const struct mu_master *service = arg;

    if (service->o.said)
        service->o.said(service->o.arg, sentence);
}

/* ---- opening and stopping ---------------------------------------------------------------------------------------- */

static void ops_ask(struct mu_master *service)
{
    for (uint32_t i = 0; i < service->o.num_executors && !service->ops; i++) {
        struct mu_executor *e = service->o.executors[i];
        struct mu_executor_bytes ops, kernels;

        if (e && e->kind->lists && e->kind->lists(e, &ops, &kernels))
            service->ops = mu_ss_ops_new(ops, kernels);
        if (service->ops)
            service->ops->remedy = e->kind->remedy;
    }
}

static void sessions_go_on(struct mu_master *service)
{
    service->o.awaits_ops = false;
    for (struct mu_ss_session *s = service->sessions, *next; s; s = next) {
        next = s->next;
        mu_ss_session_ops(s);
    }
}

bool mu_master_ops(struct mu_master *service, struct mu_executor_bytes ops, struct mu_executor_bytes kernels)
{
    if (!service->ops)
        service->ops = mu_ss_ops_new(ops, kernels);
    if (!service->ops)
        return false;
    sessions_go_on(service);
    return true;
}

void mu_master_no_ops(struct mu_master *service, const char *why)
{
    free(service->no_ops);
    service->no_ops = strdup(why);
    sessions_go_on(service);
}

static void on_session_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void service_close(struct mu_master *service)
{
    while (service->sessions)
        mu_ss_session_end(service->sessions, MUSTER_ABORTED, "the master ends");
    mu_ss_resets_end(service);
    mu_ss_replies_clear(&service->replies);
    mu_ss_ops_free(service->ops);
    free(service->no_ops);
    uv_close((uv_handle_t *)&service->timer, on_session_timer_closed);
}

enum muster_status mu_master_start(const struct mu_master_options *options, struct mu_master **ret_service)
{
    struct mu_master *service = calloc(1, sizeof *service);
    const struct mu_rpc_options server = {
        .loop = options->loop,
        .address = options->address,
        .methods = mu_ss_methods,
        .arg = service,
        .insecure = options->insecure,
        .insecure_option = "--tf-insecure",
        .any_user = options->any_user,
        .closed = on_session_conn,
        .said = on_session_said,
        .account = options->account,
        .message_max = MESSAGE_MAX,
        .held_max = 2 * (size_t)MESSAGE_MAX,
    };
    enum muster_status status;

    if (!service)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for sessions");
    service->o = *options;
    uv_timer_init(options->loop, &service->timer);
    service->timer.data = service;
    uv_timer_start(&service->timer, on_session_timer, TICK_MS, TICK_MS);
    uv_unref((uv_handle_t *)&service->timer);
    ops_ask(service);
    status = mu_rpc_start(&server, &service->rpc);
    if (status) {
        service_close(service);
        return status;
    }
    *ret_service = service;
    return MUSTER_OK;
}

const char *mu_master_address(const struct mu_master *service)
{
    return mu_rpc_address(service->rpc);
}

void mu_master_lost(struct mu_master *service, const struct mu_executor *executor, const char *why)
{
    for (struct mu_ss_session *s = service->sessions, *next; s; s = next) {
        next = s->next;
        mu_ss_session_break(s, executor, why);
    }
}

static void session_server_stopped(void *arg)
{
    struct mu_master *service = arg;
    void (*stopped)(void *arg) = service->stopped;
    void *stopped_arg = service->stopped_arg;

    service_close(service);
    if (stopped)
        stopped(stopped_arg);
}

void mu_master_stop(struct mu_master *service, void (*stopped)(void *arg), void *arg)
{
    if (!service) {
        stopped(arg);
        return;
    }
    service->stopped = stopped;
    service->stopped_arg = arg;
    while (service->sessions)
        mu_ss_session_end(service->sessions, MUSTER_ABORTED, "the master ends");
    mu_ss_resets_end(service);
    mu_rpc_stop(service->rpc, 100000000, session_server_stopped);
}
