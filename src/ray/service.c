/*
 * ray/service.c: the server of /Scheduler/, put together with the scheduler and the calls to its peers; and the calls
 * that are not answered at once.
 *
 * A visit ends when it is answered, when its client does not wait any more, or at its time: then a registration
 * takes another store of its host or is refused, and an import is answered as if all workers had taken it, for those
 * that have not will be told, or are given up.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "ray/wire.h"

enum { LOOK_MS = 50, IMPORT_MS = 3000 };

static uint64_t visit_now(void)
{
    return mu_now() / 1000000;
}

/* ---- visits ------------------------------------------------------------------------------------------------------ */

struct mu_ray_visit *mu_ray_visit_new(struct mu_ray_service *s, struct mu_rpc_call *call)
{
    struct mu_ray_visit *v = calloc(1, sizeof *v);

    if (!v) {
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "the scheduler has no memory for another call", NULL, 0);
        return NULL;
    }
    v->service = s;
    v->call = call;
    return v;
}

void mu_ray_visit_free(struct mu_ray_visit *v)
{
    struct mu_ray_service *s = v->service;

    if (v->until_ms)
        MU_QUEUE_DROP(s->visits, s->last_visit, v);
    if (!s->visits && v->until_ms)
        uv_timer_stop(&s->timer);
    free(v->imports);
    free(v->texts);
    free(v);
}

/* Its client does not wait any more. */
static void on_visit_left(void *arg)
{
    mu_ray_visit_free(arg);
}

void mu_ray_visit_wait(struct mu_ray_visit *v, uint64_t ms)
{
    struct mu_ray_service *s = v->service;

    v->until_ms = visit_now() + ms;
    MU_QUEUE_APPEND(s->visits, s->last_visit, v);
    mu_rpc_wait(v->call, on_visit_left, v);
    if (!uv_is_active((uv_handle_t *)&s->timer))
        uv_timer_again(&s->timer);
}

static void visit_answer(struct mu_ray_visit *v)
{
    mu_rpc_answer(v->call, "", 0);
    mu_ray_visit_free(v);
}

void mu_ray_visit_go(struct mu_ray_visit *v)
{
    if (v->num_imports == 0)
        visit_answer(v);
    else
        mu_ray_visit_wait(v, IMPORT_MS);
}

static bool import_drop(struct mu_ray_visit *v, uint32_t i)
{
    v->imports[i] = v->imports[--v->num_imports];
    return v->num_imports == 0;
}

void mu_ray_imported(struct mu_ray_service *s, uint32_t worker, uint64_t number)
{
    for (struct mu_ray_visit *v = s->visits, *next; v; v = next) {
        next = v->next;
        for (uint32_t i = 0; i < v->num_imports; i++) {
            if (v->imports[i].worker != worker)
                continue;
            v->until_ms = visit_now() + IMPORT_MS; /* it has not fallen silent */
            if (v->imports[i].number == number && import_drop(v, i))
                visit_answer(v);
            break; /* there is one of each worker */
        }
    }
}

void mu_ray_import_lost(struct mu_ray_service *s, uint32_t worker, const char *why)
{
    for (struct mu_ray_visit *v = s->visits, *next; v; v = next) {
        next = v->next;
        for (uint32_t i = 0; i < v->num_imports; i++) {
            bool was_last;

            if (v->imports[i].worker != worker)
                continue;
            was_last = import_drop(v, i);
            if (v->is_worker) {
                mu_rpc_refuse(v->call, MUSTER_UNAVAILABLE, why, NULL, 0);
                mu_ray_visit_free(v);
            } else if (was_last) {
                visit_answer(v);
            }
            break; /* there is one of each worker */
        }
    }
}

static void visit_is_late(struct mu_ray_visit *v)
{
    bool is_named;

    for (uint32_t i = 0; i < v->num_imports; i++)
        mu_ray_calls_late(v->service, v->imports[i].worker);
    if (!v->is_registration) {
        visit_answer(v);
        return;
    }
    is_named = v->store_len > 0;
    v->store_len = 0;
    if (is_named && mu_ray_register_try(v)) {
        mu_ray_visit_free(v);
        return;
    }
    mu_rpc_refuse(v->call, MUSTER_UNAVAILABLE,
                  is_named ? "no object store at that address has registered within 3 s"
                           : "no object store on that host has registered within 3 s",
                  NULL, 0);
    mu_ray_visit_free(v);
}

static void on_visit_timer(uv_timer_t *timer)
{
    struct mu_ray_service *s = timer->data;
    uint64_t now = visit_now();

    for (struct mu_ray_visit *v = s->visits, *next; v; v = next) {
        next = v->next;
        if (now >= v->until_ms)
            visit_is_late(v);
    }
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static void on_ray_said(void *arg, const char *sentence)
{
    const struct mu_ray_service *s = arg;

    if (s->o.said)
        s->o.said(s->o.arg, sentence);
}

static void on_ray_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* What has been opened; its memory goes with the timer. */
static void service_close(struct mu_ray_service *s)
{
    mu_ray_calls_close(s);
    mu_ray_close(s->sched);
    s->sched = NULL;
    uv_close((uv_handle_t *)&s->timer, on_ray_timer_closed);
}

enum muster_status mu_ray_service_start(const struct mu_ray_service_options *options,
                                        struct mu_ray_service **ret_service)
{
    struct mu_ray_service *s = calloc(1, sizeof *s);
    const struct mu_ray_options sched = {.call = mu_ray_calls_make, .said = on_ray_said, .arg = s};
    const struct mu_rpc_options server = {
        .loop = options->loop,
        .address = options->address,
        .methods = mu_ray_methods,
        .arg = s,
        .insecure = options->insecure,
        .insecure_option = "--ray-insecure",
        .any_user = options->any_user,
        .closed = mu_ray_caller_left,
        .said = on_ray_said,
        .account = options->account,
    };
    enum muster_status status;

    if (!s)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the scheduler");
    s->o = *options;
    uv_timer_init(options->loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_visit_timer, LOOK_MS, LOOK_MS);
    uv_timer_stop(&s->timer); /* it knows how often: uv_timer_again() */
    uv_unref((uv_handle_t *)&s->timer);
    s->sched = mu_ray_open(&sched);
    status = s->sched ? mu_ray_calls_open(s) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the scheduler");
    if (!status)
        status = mu_rpc_start(&server, &s->rpc);
    if (status) {
        service_close(s);
        return status;
    }
    *ret_service = s;
    return MUSTER_OK;
}

const char *mu_ray_service_address(const struct mu_ray_service *s)
{
    return mu_rpc_address(s->rpc);
}

void mu_ray_service_stats(const struct mu_ray_service *s, struct mu_ray_stats *ret_stats)
{
    mu_ray_stats(s->sched, ret_stats);
}

static void ray_server_stopped(void *arg)
{
    struct mu_ray_service *s = arg;
    void (*stopped)(void *arg) = s->stopped;
    void *stopped_arg = s->stopped_arg;

    service_close(s);
    if (stopped)
        stopped(stopped_arg);
}

void mu_ray_service_stop(struct mu_ray_service *s, uint64_t grace_ns, void (*stopped)(void *arg), void *arg)
{
    s->stopped = stopped;
    s->stopped_arg = arg;
    while (s->visits) {
        mu_rpc_refuse(s->visits->call, MUSTER_UNAVAILABLE, "the scheduler ends", NULL, 0);
        mu_ray_visit_free(s->visits);
    }
    mu_rpc_stop(s->rpc, grace_ns, ray_server_stopped);
}
