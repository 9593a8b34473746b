/*
 * session/reset.c: Reset: all sessions are closed, then the executors forget what their containers hold.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "session/private.h"

struct reset_part {
    struct mu_ss_reset *reset;
    struct mu_executor *executor;
    struct mu_executor_call *call;
};

struct mu_ss_reset {
    struct mu_ss_reset *next, *prev;
    struct mu_master *service;
    struct mu_rpc_call *call; /* NULL: nobody waits for it */
    uint32_t num_parts, num_left;
    struct mu_ss_error error;
    struct reset_part parts[];
};

static void reset_free(struct mu_ss_reset *r)
{
    MU_LIST_DROP(r->service->resets, r);
    for (uint32_t i = 0; i < r->num_parts; i++)
        if (r->parts[i].call)
            r->parts[i].executor->kind->cancel(r->parts[i].call);
    mu_ss_error_clear(&r->error);
    free(r);
}

static void reset_done(struct mu_ss_reset *r)
{
    if (r->call && r->error.status)
        mu_ss_refuse(r->call, &r->error);
    else if (r->call)
        mu_rpc_answer(r->call, "", 0);
    reset_free(r);
}

static void on_reset_left(void *arg)
{
    struct mu_ss_reset *r = arg;

    r->call = NULL; /* what was begun goes on */
}

static void on_part_reset(void *arg, const struct mu_executor_answer *a)
{
    struct reset_part *part = arg;
    struct mu_ss_reset *r = part->reset;
    char name[300];

    part->call = NULL;
    if (a->status) {
        mu_executor_name(part->executor, name, sizeof name);
        mu_ss_fail(&r->error, MUSTER_ABORTED, "Reset: %s: %s", name, a->text);
    }
    if (--r->num_left == 0)
        reset_done(r);
}

void mu_ss_resets_end(struct mu_master *service)
{
    while (service->resets) {
        struct mu_ss_reset *r = service->resets;

        mu_ss_fail(&r->error, MUSTER_ABORTED, "the master ends");
        reset_done(r);
    }
}

void mu_ss_reset(struct mu_master *service, struct mu_rpc_call *call, Mu__Session__ResetRequest *request)
{
    const struct mu_master_options *o = &service->o;
    struct mu_ss_reset *r = calloc(1, sizeof *r + o->num_executors * sizeof r->parts[0]);
    struct mu_ss_error error = {0};

    for (size_t i = 0; i < request->n_device_filters; i++) {
        struct mu_ss_spec spec;

        if (!mu_ss_spec_read(request->device_filters[i], &spec))
            mu_ss_fail(&error, MUSTER_INVALID_ARGUMENT, "Malformed device filter '%s'", request->device_filters[i]);
    }
    if (!r)
        mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a reset");
    if (error.status) {
        free(r);
        mu_ss_refuse(call, &error);
        return;
    }
    service->num_reset += service->num_sessions;
    while (service->sessions)
        mu_ss_session_end(service->sessions, MUSTER_ABORTED, "Session was closed by a Reset of its master.");
    r->service = service;
    r->call = call;
    MU_LIST_PUSH(service->resets, r);
    mu_rpc_wait(call, on_reset_left, r);
    r->num_left = 1;
    for (uint32_t i = 0; i < o->num_executors; i++) {
        struct mu_executor *e = o->executors[i];
        struct reset_part *part = &r->parts[r->num_parts];

        if (!e || e->is_gone || !mu_ss_filter_has(request->device_filters, request->n_device_filters, e))
            continue;
        *part = (struct reset_part){.reset = r, .executor = e};
        r->num_parts++;
        part->call = e->kind->cleanup_all(e, (const char *const *)request->container, (uint32_t)request->n_container,
                                          on_part_reset, part);
        r->num_left += part->call != NULL;
    }
    if (--r->num_left == 0)
        reset_done(r);
}
