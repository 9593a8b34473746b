/*
 * session/callable.c: steps that are described once, and then run with their feeds by place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/private.h"

void mu_ss_callable_drop(struct mu_ss_callable *c)
{
    if (!c || --c->holders > 0)
        return;
    mu_ss_compiled_release(c->compiled);
    protobuf_c_message_free_unpacked(c->request, NULL);
    free(c);
}

/* It has no handle any more. */
static void callable_forget(struct mu_ss_session *s, struct mu_ss_callable *c)
{
    MU_LIST_DROP(s->callables, c);
    mu_ss_callable_drop(c);
}

void mu_ss_callables_clear(struct mu_ss_session *s)
{
    while (s->callables)
        callable_forget(s, s->callables);
}

static struct mu_ss_callable *callable_find(const struct mu_ss_session *s, int64_t handle)
{
    struct mu_ss_callable *c = s->callables;

    while (c && c->handle != handle)
        c = c->next;
    return c;
}

static void callable_refuse(struct mu_rpc_call *call, ProtobufCMessage *request, struct mu_ss_error *error)
{
    protobuf_c_message_free_unpacked(request, NULL);
    if (!error->status)
        mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a callable");
    mu_ss_refuse(call, error);
}

void mu_ss_callable_make(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request)
{
    Mu__Session__MakeCallableRequest *r = (Mu__Session__MakeCallableRequest *)request;
    Mu__Session__CallableOptions *o = r->options;
    struct mu_ss_error error = {0};
    struct mu_ss_step *step = NULL;
    struct mu_ss_want want;

    if (!o)
        mu_ss_fail(&error, MUSTER_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
    else if (o->n_feed_devices || o->n_fetch_devices)
        mu_ss_fail(
            &error, MUSTER_UNIMPLEMENTED,
            "CallableOptions::feed_devices and CallableOptions::fetch_devices are not yet supported when using a "
            "remote session.");
    else
        step = mu_ss_step_new(s, call, MU_SS_MAKE, request);
    if (!step) {
        callable_refuse(call, request, &error);
        return;
    }
    want = (struct mu_ss_want){.feeds = (const char *const *)o->feed,
                               .fetches = (const char *const *)o->fetch,
                               .targets = (const char *const *)o->target,
                               .num_feeds = (uint32_t)o->n_feed,
                               .num_fetches = (uint32_t)o->n_fetch,
                               .num_targets = (uint32_t)o->n_target,
                               .connections = o->tensor_connection,
                               .num_connections = (uint32_t)o->n_tensor_connection};
    step->request_id = r->request_id;
    step->compiled = mu_ss_compile(s, &want, &step->error);
    mu_ss_step_begin(step);
}

void mu_ss_callable_ready(struct mu_ss_step *step)
{
    Mu__Session__MakeCallableResponse reply = MU__SESSION__MAKE_CALLABLE_RESPONSE__INIT;
    struct mu_ss_session *s = step->session;
    struct mu_ss_callable *c = calloc(1, sizeof *c);

    if (!c) {
        mu_ss_step_abort(step, MUSTER_RESOURCE_EXHAUSTED, "no memory for a callable");
        return;
    }
    c->handle = s->next_callable++;
    c->holders = 1;
    c->compiled = step->compiled;
    c->compiled->users++;
    c->request = step->request;
    step->request = NULL;
    MU_LIST_PUSH(s->callables, c);
    reply.has_handle = c->handle != 0; /* as proto3 has it: 0 is left out */
    reply.handle = c->handle;
    mu_ss_request_answer(s->service, step->call, step->request_id, &reply.base);
    mu_ss_step_free(step);
}

/* The tensors that come by place; what comes beyond is ignored. */
static bool feeds_take(struct mu_ss_step *step, const struct mu_ss_callable *c,
                       const Mu__Session__RunCallableRequest *r)
{
    const Mu__Session__CallableOptions *o = ((const Mu__Session__MakeCallableRequest *)c->request)->options;

    if (r->n_feed < o->n_feed)
        return mu_ss_fail(&step->error, MUSTER_INVALID_ARGUMENT, "Expected %zu feeds, and got %zu", o->n_feed,
                          r->n_feed);
    for (size_t i = 0; i < o->n_feed; i++) {
        uint32_t k = mu_ss_feed_find(c->compiled->feeds, c->compiled->num_feeds, o->feed[i]);
        const struct mu_ss_feed *feed = &c->compiled->feeds[k];

        if (!mu_ss_feed_check(feed, step->session->graph.nodes[feed->node].def->name, r->feed[i], (uint32_t)i,
                              &step->error))
            return false;
        mu_ss_step_feed(step, k, &r->feed[i]);
    }
    for (uint32_t i = 0; i < c->compiled->num_fetches; i++)
        if (!mu_ss_step_want(step, i))
            return false;
    return true;
}

void mu_ss_callable_run(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request)
{
    const Mu__Session__RunCallableRequest *r = (const Mu__Session__RunCallableRequest *)request;
    struct mu_ss_callable *c = callable_find(s, r->handle);
    struct mu_ss_error error = {0};
    struct mu_ss_step *step = NULL;
    const Mu__Session__RunOptions *options;

    if (!c && r->handle >= s->next_callable)
        mu_ss_fail(&error, MUSTER_INVALID_ARGUMENT, "No such callable handle: %lld", (long long)r->handle);
    else if (!c)
        mu_ss_fail(&error, MUSTER_INVALID_ARGUMENT, "Attempted to run callable after handle was released: %lld",
                   (long long)r->handle);
    else
        step = mu_ss_step_new(s, call, MU_SS_CALLABLE, request);
    if (!step) {
        callable_refuse(call, request, &error);
        return;
    }
    options = ((const Mu__Session__MakeCallableRequest *)c->request)->options->run_options;
    step->request_id = r->request_id;
    step->callable = c;
    c->holders++;
    step->compiled = c->compiled;
    c->compiled->users++;
    if (options && options->timeout_in_ms > 0)
        step->until_ms = mu_ss_now() + (uint64_t)options->timeout_in_ms;
    feeds_take(step, c, r);
    mu_ss_step_begin(step);
}

void mu_ss_callable_release(struct mu_ss_session *s, int64_t handle)
{
    struct mu_ss_callable *c = callable_find(s, handle);

    if (c)
        callable_forget(s, c);
}
