/*
 * session/partial.c: steps that come in parts: set up with all that will be fed and fetched, then run in several calls.
 *
 * A call that is refused before it is run changes nothing, but for a tensor that is none, which ends the run, as an
 * error of the run does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/private.h"

static void partial_free(struct mu_ss_session *s, struct mu_ss_partial *p)
{
    MU_LIST_DROP(s->partials, p);
    mu_ss_compiled_release(p->compiled);
    free(p->fed);
    free(p->fetched);
    free(p);
}

static void partial_drop(struct mu_ss_session *s, struct mu_ss_partial *p)
{
    for (uint32_t i = 0; p->has_run && i < p->compiled->num_parts; i++) {
        struct mu_executor *executor = p->compiled->parts[i].member->executor;

        executor->kind->cleanup(executor, p->step);
    }
    partial_free(s, p);
}

void mu_ss_partials_clear(struct mu_ss_session *s)
{
    while (s->partials)
        partial_drop(s, s->partials);
}

/* ---- set up ------------------------------------------------------------------------------------------------------ */

void mu_ss_partial_setup(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request)
{
    const Mu__Session__PartialRunSetupRequest *r = (const Mu__Session__PartialRunSetupRequest *)request;
    const struct mu_ss_want want = {.feeds = (const char *const *)r->feed,
                                    .fetches = (const char *const *)r->fetch,
                                    .targets = (const char *const *)r->target,
                                    .num_feeds = (uint32_t)r->n_feed,
                                    .num_fetches = (uint32_t)r->n_fetch,
                                    .num_targets = (uint32_t)r->n_target};
    struct mu_ss_step *step = mu_ss_step_new(s, call, MU_SS_SETUP, request);
    struct mu_ss_error error = {0};

    if (!step) {
        protobuf_c_message_free_unpacked(request, NULL);
        mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
        mu_ss_refuse(call, &error);
        return;
    }
    step->request_id = r->request_id;
    step->setup = s->next_partial++; /* one that fails has used its number up */
    step->compiled = mu_ss_compile(s, &want, &step->error);
    mu_ss_step_begin(step);
}

/* The subgraph is registered: there is a handle. */
void mu_ss_partial_ready(struct mu_ss_step *step)
{
    Mu__Session__PartialRunSetupResponse reply = MU__SESSION__PARTIAL_RUN_SETUP_RESPONSE__INIT;
    struct mu_ss_session *s = step->session;
    struct mu_ss_compiled *c = step->compiled;
    struct mu_ss_partial *p = calloc(1, sizeof *p);
    char handle[32];

    if (p) {
        p->fed = calloc(c->num_feeds + 1, sizeof *p->fed);
        p->fetched = calloc(c->num_fetches + 1, sizeof *p->fetched);
    }
    if (!p || !p->fed || !p->fetched) {
        if (p)
            free(p->fed);
        free(p);
        mu_ss_step_abort(step, MUSTER_RESOURCE_EXHAUSTED, "no memory for a partial run");
        return;
    }
    p->handle = step->setup;
    p->step = mu_ss_random_id();
    p->compiled = c;
    p->left = c->num_feeds + c->num_fetches;
    c->users++;
    MU_LIST_PUSH(s->partials, p);
    snprintf(handle, sizeof handle, "%lld", (long long)p->handle);
    reply.partial_run_handle = handle;
    mu_ss_request_answer(s->service, step->call, step->request_id, &reply.base);
    mu_ss_step_free(step);
}

/* ---- a part ------------------------------------------------------------------------------------------------------ */

static struct mu_ss_partial *partial_find(const struct mu_ss_session *s, const char *handle)
{
    char text[32];

    for (struct mu_ss_partial *p = s->partials; p; p = p->next) {
        snprintf(text, sizeof text, "%lld", (long long)p->handle);
        if (strcmp(text, handle) == 0)
            return p;
    }
    return NULL;
}

static bool feeds_check(const struct mu_ss_partial *p, const Mu__Session__RunStepRequest *r, struct mu_ss_error *error)
{
    for (size_t i = 0; i < r->n_feed; i++) {
        const char *name = r->feed[i]->name ? r->feed[i]->name : "";
        uint32_t k = mu_ss_feed_find(p->compiled->feeds, p->compiled->num_feeds, name);

        if (k == UINT32_MAX)
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "The feed %s was not specified in partial_run_setup.",
                              name);
        if (p->fed[k])
            return mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "The feed %s has already been fed.", name);
    }
    return true;
}

static bool fetches_check(const struct mu_ss_session *s, const struct mu_ss_partial *p,
                          const Mu__Session__RunStepRequest *r, struct mu_ss_error *error)
{
    const struct mu_ss_compiled *c = p->compiled;
    uint32_t *fetches = malloc((r->n_fetch + 1) * sizeof *fetches), at;
    bool *given = malloc(c->num_feeds + 1), is_well = true;
    const char *wanting;

    if (!given || !fetches) {
        free(given);
        free(fetches);
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    }
    memcpy(given, p->fed, c->num_feeds);
    for (size_t i = 0; i < r->n_feed; i++)
        given[mu_ss_feed_find(c->feeds, c->num_feeds, r->feed[i]->name)] = true;
    for (size_t i = 0; i < r->n_fetch && is_well; i++) {
        uint32_t k = fetches[i] = mu_ss_feed_find(c->fetches, c->num_fetches, r->fetch[i]);

        if (k == UINT32_MAX)
            is_well = mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "The fetch %s was not specified in partial_run_setup.",
                                 r->fetch[i]);
        else if (p->fetched[k])
            is_well = mu_ss_fail(error, MUSTER_INVALID_ARGUMENT, "The fetch %s has already been fetched.", r->fetch[i]);
    }
    wanting = is_well ? mu_ss_wanting(&s->graph, c, fetches, (uint32_t)r->n_fetch, given, &at) : NULL;
    if (wanting)
        is_well = mu_ss_fail(error, MUSTER_INVALID_ARGUMENT,
                             "Fetch %s can't be computed from the feeds that have been fed so far: it wants %s",
                             r->fetch[at], wanting);
    free(given);
    free(fetches);
    return is_well;
}

/* What is given and wanted in this call; a tensor that is none, or given twice, ends the run. */
static bool part_take(struct mu_ss_step *step, struct mu_ss_partial *p, const Mu__Session__RunStepRequest *r)
{
    const struct mu_ss_compiled *c = p->compiled;

    for (size_t i = 0; i < r->n_feed; i++) {
        uint32_t k = mu_ss_feed_find(c->feeds, c->num_feeds, r->feed[i]->name);

        if (p->fed[k])
            return mu_ss_fail(&step->error, MUSTER_INVALID_ARGUMENT, "Duplicated feeds: %s", r->feed[i]->name);
        if (!mu_ss_feed_check(&c->feeds[k], step->session->graph.nodes[c->feeds[k].node].def->name, r->feed[i]->tensor,
                              (uint32_t)i, &step->error))
            return false;
        p->fed[k] = true;
        p->left--;
        mu_ss_step_feed(step, k, &r->feed[i]->tensor);
    }
    for (size_t i = 0; i < r->n_fetch; i++) {
        uint32_t k = mu_ss_feed_find(c->fetches, c->num_fetches, r->fetch[i]);

        p->left -= !p->fetched[k];
        p->fetched[k] = true;
        if (!mu_ss_step_want(step, k))
            return false;
    }
    return !step->error.status;
}

void mu_ss_partial_run(struct mu_ss_session *s, struct mu_rpc_call *call, ProtobufCMessage *request)
{
    const Mu__Session__RunStepRequest *r = (const Mu__Session__RunStepRequest *)request;
    struct mu_ss_partial *p = partial_find(s, r->partial_run_handle);
    struct mu_ss_error error = {0};
    struct mu_ss_step *step = NULL;

    if (!p)
        mu_ss_fail(&error, MUSTER_INVALID_ARGUMENT, "Must run PartialRunSetup before performing partial runs");
    else if (p->is_running)
        mu_ss_fail(&error, MUSTER_FAILED_PRECONDITION, "another call of this partial run is not over yet");
    else if (feeds_check(p, r, &error) && fetches_check(s, p, r, &error))
        step = mu_ss_step_new(s, call, MU_SS_PARTIAL, request);
    if (!step) {
        if (!error.status)
            mu_ss_fail(&error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
        mu_ss_run_refuse(s->service, call, r, &error);
        protobuf_c_message_free_unpacked(request, NULL);
        return;
    }
    step->id = p->step;
    step->request_id = r->request_id;
    step->stores_errors = r->store_errors_in_response_body;
    step->options = r->options;
    if (r->options && r->options->timeout_in_ms > 0)
        step->until_ms = mu_ss_now() + (uint64_t)r->options->timeout_in_ms;
    step->partial = p;
    step->compiled = p->compiled;
    p->compiled->users++;
    p->is_running = p->has_run = true;
    part_take(step, p, r);
    step->is_last = p->left == 0;
    mu_ss_step_begin(step);
}

void mu_ss_partial_done(struct mu_ss_step *step)
{
    struct mu_ss_partial *p = step->partial;

    p->is_running = false;
    if (step->error.status || step->is_last)
        partial_drop(step->session, p);
}
