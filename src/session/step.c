/*
 * session/step.c: a step, from its dispatch to its answer.
 *
 * All parts are run at once, with one number. The first error that is no consequence of another's ends the step: the
 * other parts are cancelled. One that may be a consequence (ABORTED, CANCELLED) waits a second for its cause. Whatever
 * the end, each part's executor is told that nothing of the step is wanted any more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/list.h"
#include "session/private.h"

enum { CAUSE_MS = 1000 };

int64_t mu_ss_random_id(void)
{
    uint64_t id = 0;

    while (!id) {
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            id = uv_hrtime() * 0x9e3779b97f4a7c15ull;
        id >>= 8; /* steps have 56 bits, as TensorFlow's */
    }
    return (int64_t)id;
}

/* Its client does not wait any more. */
static void on_step_left(void *arg)
{
    struct mu_ss_step *step = arg;

    step->call = NULL;
    mu_ss_step_abort(step, MUSTER_CANCELLED, "its client does not wait for it any more");
}

struct mu_ss_step *mu_ss_step_new(struct mu_ss_session *s, struct mu_rpc_call *call, enum mu_ss_step_kind kind,
                                  ProtobufCMessage *request)
{
    struct mu_ss_step *step = calloc(1, sizeof *step);

    if (!step)
        return NULL;
    step->session = s;
    step->call = call;
    step->kind = kind;
    step->request = request;
    step->id = mu_ss_random_id();
    MU_LIST_PUSH(s->steps, step);
    mu_rpc_wait(call, on_step_left, step);
    return step;
}

void mu_ss_step_free(struct mu_ss_step *step)
{
    struct mu_ss_session *s = step->session;

    MU_LIST_DROP(s->steps, step);
    if (step->compiled && step->compiled->waiting)
        MU_CHAIN_DROP(step->compiled->waiting, step, after);
    for (uint32_t i = 0; step->tensors && i < step->compiled->num_fetches; i++)
        free(step->tensors[i].bytes);
    for (uint32_t i = 0; i < step->num_graphs; i++)
        free(step->graphs[i].bytes);
    free(step->graphs);
    free(step->stats.bytes);
    free(step->costs.bytes);
    free(step->tensors);
    free(step->wants);
    free(step->feeds);
    free(step->running);
    mu_ss_error_clear(&step->error);
    mu_ss_compiled_release(step->compiled);
    mu_ss_callable_drop(step->callable);
    if (step->request)
        protobuf_c_message_free_unpacked(step->request, NULL);
    free(step);
}

/* ---- what is fed and fetched ------------------------------------------------------------------------------------- */

uint32_t mu_ss_feed_find(const struct mu_ss_feed *all, uint32_t count, const char *name)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(all[middle].name, name);

        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return UINT32_MAX;
}

void mu_ss_step_feed(struct mu_ss_step *step, uint32_t feed, const ProtobufCBinaryData *tensor)
{
    if (!step->feeds)
        step->feeds = calloc(step->compiled->num_feeds + 1, sizeof *step->feeds);
    if (step->feeds)
        step->feeds[feed] = tensor;
    else
        mu_ss_fail(&step->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
}

bool mu_ss_step_want(struct mu_ss_step *step, uint32_t fetch)
{
    if (!step->wants) {
        step->wants = calloc(step->compiled->num_fetches + 1, sizeof *step->wants);
        step->tensors = calloc(step->compiled->num_fetches + 1, sizeof *step->tensors);
    }
    if (!step->wants || !step->tensors)
        return mu_ss_fail(&step->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    step->wants[fetch] = true;
    return true;
}

static bool tensor_copy(struct mu_ss_tensor *to, const void *bytes, size_t len)
{
    void *copy = realloc(to->bytes, to->len + len + 1);

    if (!copy)
        return false;
    to->bytes = copy;
    memcpy((char *)copy + to->len, len ? bytes : "", len);
    to->len += len;
    return true;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void metadata_fill(struct mu_ss_step *step, Mu__Session__RunMetadata *m, ProtobufCBinaryData *graphs)
{
    m->has_step_stats = step->stats.len > 0;
    m->step_stats = (ProtobufCBinaryData){step->stats.len, step->stats.bytes};
    m->has_cost_graph = step->costs.len > 0;
    m->cost_graph = (ProtobufCBinaryData){step->costs.len, step->costs.bytes};
    for (uint32_t i = 0; i < step->num_graphs; i++)
        graphs[i] = (ProtobufCBinaryData){step->graphs[i].len, step->graphs[i].bytes};
    m->n_partition_graphs = graphs ? step->num_graphs : 0;
    m->partition_graphs = graphs;
}

/* malloc()ed. */
static void *run_reply(struct mu_ss_step *step, size_t *ret_len)
{
    Mu__Session__RunStepResponse r = MU__SESSION__RUN_STEP_RESPONSE__INIT;
    Mu__Session__RunMetadata metadata = MU__SESSION__RUN_METADATA__INIT;
    uint32_t count = step->compiled ? step->compiled->num_fetches : 0;
    Mu__Session__NamedTensor *each = calloc(count + 1, sizeof *each), **all = calloc(count + 1, sizeof *all);
    ProtobufCBinaryData *graphs = calloc(step->num_graphs + 1, sizeof *graphs);
    void *reply = NULL;

    for (uint32_t i = 0; each && all && !step->error.status && i < count; i++) {
        if (!step->wants || !step->wants[i])
            continue;
        mu__session__named_tensor__init(&each[i]);
        each[i].name = step->compiled->fetches[i].name;
        each[i].has_tensor = true;
        each[i].tensor = (ProtobufCBinaryData){step->tensors[i].len, step->tensors[i].bytes};
        all[r.n_tensor++] = &each[i];
    }
    r.tensor = all;
    metadata_fill(step, &metadata, graphs);
    if (step->kind == MU_SS_RUN || step->is_last || step->error.status)
        r.metadata = &metadata;
    if (step->error.status) {
        r.has_status_code = true;
        r.status_code = (int32_t)step->error.status;
        r.status_error_message = (char *)(uintptr_t)mu_ss_text(&step->error);
    }
    *ret_len = mu__session__run_step_response__get_packed_size(&r);
    if (each && all && graphs)
        reply = malloc(*ret_len + 1);
    if (reply)
        mu__session__run_step_response__pack(&r, reply);
    free(graphs);
    free(each);
    free(all);
    return reply;
}

static void *callable_reply(struct mu_ss_step *step, size_t *ret_len)
{
    Mu__Session__RunCallableResponse r = MU__SESSION__RUN_CALLABLE_RESPONSE__INIT;
    Mu__Session__RunMetadata metadata = MU__SESSION__RUN_METADATA__INIT;
    const Mu__Session__CallableOptions *options =
        ((const Mu__Session__MakeCallableRequest *)step->callable->request)->options;
    ProtobufCBinaryData *all = calloc(options->n_fetch + 1, sizeof *all);
    void *reply = NULL;

    for (size_t i = 0; all && i < options->n_fetch; i++) {
        uint32_t k = mu_ss_feed_find(step->compiled->fetches, step->compiled->num_fetches, options->fetch[i]);

        all[r.n_fetch++] = (ProtobufCBinaryData){step->tensors[k].len, step->tensors[k].bytes};
    }
    r.fetch = all;
    metadata_fill(step, &metadata, NULL);
    r.metadata = &metadata;
    *ret_len = mu__session__run_callable_response__get_packed_size(&r);
    if (all)
        reply = malloc(*ret_len + 1);
    if (reply)
        mu__session__run_callable_response__pack(&r, reply);
    free(all);
    return reply;
}

static void step_answer(struct mu_ss_step *step)
{
    struct mu_master *service = step->session->service;
    bool is_refused = step->error.status && !step->stores_errors;
    /* A client says a request again that was UNAVAILABLE, and would never read why. */
    enum muster_status refusal = step->error.status == MUSTER_UNAVAILABLE ? MUSTER_ABORTED : step->error.status;
    struct mu_rpc_call *call = step->call;
    void *reply = NULL;
    size_t len = 0;

    step->call = NULL;
    if (!is_refused)
        reply = step->kind == MU_SS_CALLABLE ? callable_reply(step, &len) : run_reply(step, &len);
    if (call) /* of one that has no caller any more the reply says only that */
        mu_ss_request_done(service, step->request_id, reply, len);
    if (call && reply)
        mu_rpc_answer(call, reply, len);
    else if (call)
        mu_rpc_refuse(call, is_refused ? refusal : MUSTER_RESOURCE_EXHAUSTED,
                      is_refused ? mu_ss_text(&step->error) : "no memory for the reply", NULL, 0);
    free(reply);
}

static void step_end(struct mu_ss_step *step)
{
    struct mu_ss_session *s = step->session;
    bool is_over = step->kind != MU_SS_PARTIAL || step->is_last || step->error.status;

    step->is_ending = true;
    s->num_steps++;
    s->service->num_steps++;
    for (uint32_t i = 0; i < step->num_running; i++) {
        struct mu_ss_running *r = &step->running[i];
        struct mu_executor *executor = r->part->member->executor;

        if (r->call)
            executor->kind->cancel(r->call);
        r->call = NULL;
        if (is_over && !r->is_clean)
            executor->kind->cleanup(executor, step->id);
    }
    if (step->error.status) {
        s->service->num_failed++;
        mu_ss_error_clear(&s->last_error);
        mu_ss_fail(&s->last_error, step->error.status, "%.300s", mu_ss_text(&step->error));
    }
    if (step->partial)
        mu_ss_partial_done(step);
    step_answer(step);
    mu_ss_step_free(step);
}

void mu_ss_step_abort(struct mu_ss_step *step, enum muster_status status, const char *text)
{
    if (step->is_ending)
        return;
    mu_ss_error_clear(&step->error);
    mu_ss_fail(&step->error, status, "%s", text);
    step_end(step);
}

void mu_ss_step_tick(struct mu_ss_step *step, uint64_t now)
{
    if (step->until_ms && now >= step->until_ms)
        mu_ss_step_abort(step, MUSTER_DEADLINE_EXCEEDED, "Timed out waiting for notification");
    else if (step->derived_until_ms && now >= step->derived_until_ms)
        step_end(step);
}

/* ---- its parts --------------------------------------------------------------------------------------------------- */

/* Where this key, or the next higher one, begins among the fetches in order of their keys. */
static uint32_t key_find(const struct mu_ss_compiled *c, const char *key)
{
    uint32_t low = 0, high = c->num_fetches;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(c->fetches[c->by_key[middle]].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool answer_tensors(struct mu_ss_step *step, const struct mu_executor_answer *a)
{
    const struct mu_ss_compiled *c = step->compiled;

    for (uint32_t i = 0; i < a->num_tensors; i++)
        for (uint32_t k = key_find(c, a->tensors[i].key); /* several names may be one tensor */
             k < c->num_fetches && strcmp(c->fetches[c->by_key[k]].key, a->tensors[i].key) == 0; k++) {
            uint32_t f = c->by_key[k];

            if (!step->wants[f] || step->tensors[f].bytes)
                continue;
            if (a->buffers && a->buffers[i]) {
                step->tensors[f] = (struct mu_ss_tensor){a->buffers[i], a->tensors[i].tensor.len};
                a->buffers[i] = NULL;
            } else if (!tensor_copy(&step->tensors[f], a->tensors[i].tensor.at, a->tensors[i].tensor.len)) {
                return false;
            }
        }
    return true;
}

static bool answer_take(struct mu_ss_step *step, const struct mu_executor_answer *a)
{
    struct mu_ss_tensor *graphs;

    if (a->num_tensors && step->wants && !answer_tensors(step, a))
        return false;
    if (!tensor_copy(&step->stats, a->step_stats.at, a->step_stats.len) ||
        !tensor_copy(&step->costs, a->cost_graph.at, a->cost_graph.len))
        return false;
    if (!a->num_graphs)
        return true;
    graphs = realloc(step->graphs, (step->num_graphs + a->num_graphs) * sizeof *graphs);
    if (!graphs)
        return false;
    step->graphs = graphs;
    for (uint32_t i = 0; i < a->num_graphs; i++) {
        graphs[step->num_graphs] = (struct mu_ss_tensor){NULL, 0};
        if (!tensor_copy(&graphs[step->num_graphs], a->graphs[i].at, a->graphs[i].len))
            return false;
        step->num_graphs++;
    }
    return true;
}

/* All parts are done: is all there that was asked for? */
static void step_complete(struct mu_ss_step *step)
{
    const struct mu_ss_compiled *c = step->compiled;

    for (uint32_t i = 0; !step->error.status && step->wants && i < c->num_fetches; i++)
        if (step->wants[i] && !step->tensors[i].bytes)
            mu_ss_fail(&step->error, MUSTER_INTERNAL, "no executor gave a value for %s", c->fetches[i].name);
    step_end(step);
}

static void on_part_done(void *arg, const struct mu_executor_answer *a)
{
    struct mu_ss_running *r = arg;
    struct mu_ss_step *step = r->step;
    bool may_follow = a->status == MUSTER_ABORTED || a->status == MUSTER_CANCELLED;
    char name[300];

    r->call = NULL;
    r->is_clean = a->is_clean;
    step->session->service->num_direct += a->is_clean;
    step->num_left--;
    if (a->status) {
        mu_executor_name(r->part->member->executor, name, sizeof name);
        if (!may_follow)
            mu_ss_error_clear(&step->error);
        mu_ss_fail(&step->error, a->status, a->is_lost ? "%s is gone: %s" : "From %s:\n%s", name, a->text);
    } else if (!answer_take(step, a)) {
        mu_ss_fail(&step->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for what the step fetches");
    }
    if (step->num_left == 0)
        step_complete(step);
    else if (step->error.status && step->error.status != MUSTER_ABORTED && step->error.status != MUSTER_CANCELLED)
        step_end(step);
    else if (step->error.status && !step->derived_until_ms)
        step->derived_until_ms = mu_ss_now() + CAUSE_MS;
}

/* The options of this step's executors. Its length; at most 16 bytes. */
static size_t options_pack(const struct mu_ss_step *step, uint8_t *to)
{
    Mu__Session__ExecutorOpts o = MU__SESSION__EXECUTOR_OPTS__INIT;

    o.has_record_timeline = o.record_timeline = step->options && step->options->trace_level > 0;
    o.has_record_partition_graphs = o.record_partition_graphs = step->options && step->options->output_partition_graphs;
    o.has_report_tensor_allocations_upon_oom = o.report_tensor_allocations_upon_oom =
        step->options && step->options->report_tensor_allocations_upon_oom;
    return mu__session__executor_opts__pack(&o, to);
}

static bool part_dispatch(struct mu_ss_step *step, uint32_t number, struct mu_executor_tensor *send, const char **recv,
                          bool *is_asked)
{
    struct mu_ss_compiled *c = step->compiled;
    struct mu_ss_running *r = &step->running[number];
    struct mu_executor *executor = c->parts[number].member->executor;
    uint8_t options[16];
    struct mu_executor_run run = {.session = step->session->handle,
                                  .graph = c->parts[number].graph,
                                  .way = c->parts[number].way,
                                  .step = step->id,
                                  .send = send,
                                  .recv = recv,
                                  .is_partial = step->kind == MU_SS_PARTIAL,
                                  .is_last = step->is_last};

    for (uint32_t i = 0; step->feeds && i < c->num_feeds; i++)
        if (step->feeds[i] && c->feeds[i].key && c->feeds[i].part == number)
            send[run.num_send++] =
                (struct mu_executor_tensor){c->feeds[i].key, {step->feeds[i]->data, step->feeds[i]->len}};
    for (uint32_t i = 0; step->wants && i < c->num_fetches; i++) {
        if (!step->wants[i] || c->fetches[i].part != number || is_asked[c->fetches[i].first])
            continue;
        is_asked[c->fetches[i].first] = true;
        recv[run.num_recv++] = c->fetches[i].key;
    }
    run.options = (struct mu_executor_bytes){options, options_pack(step, options)};
    r->step = step;
    r->part = &c->parts[number];
    r->call = executor->kind->run(executor, &run, on_part_done, r);
    step->num_running++;
    step->num_left += r->call != NULL;
    return r->call != NULL;
}

static void step_dispatch(struct mu_ss_step *step)
{
    struct mu_ss_compiled *c = step->compiled;
    struct mu_executor_tensor *send = calloc(c->num_feeds + 1, sizeof *send);
    const char **recv = calloc(c->num_fetches + 1, sizeof *recv);
    bool *is_asked = calloc(c->num_fetches + 1, sizeof *is_asked);

    step->has_begun = true;
    step->running = calloc(c->num_parts + 1, sizeof *step->running);
    if (!send || !recv || !is_asked || !step->running)
        mu_ss_fail(&step->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    for (uint32_t i = 0; i < c->num_parts && !step->error.status; i++)
        if (!part_dispatch(step, i, send, recv, is_asked))
            mu_ss_fail(&step->error, MUSTER_RESOURCE_EXHAUSTED, "no memory to run a step");
    free(send);
    free((void *)recv);
    free(is_asked);
    if (step->error.status || step->num_left == 0)
        step_end(step);
}

void mu_ss_step_ready(struct mu_ss_step *step)
{
    const struct mu_ss_error *e = &step->compiled->error;

    if (e->status)
        mu_ss_step_abort(step, e->status, mu_ss_text(e));
    else if (step->kind == MU_SS_SETUP)
        mu_ss_partial_ready(step);
    else if (step->kind == MU_SS_MAKE)
        mu_ss_callable_ready(step);
    else
        step_dispatch(step);
}

void mu_ss_step_begin(struct mu_ss_step *step)
{
    struct mu_ss_compiled *c = step->compiled;

    if (step->session->broken) {
        mu_ss_step_abort(step, MUSTER_ABORTED, step->session->broken);
        return;
    }
    if (step->error.status) {
        step_end(step);
        return;
    }
    if (c->state == MU_SS_READY) {
        mu_ss_step_ready(step);
        return;
    }
    step->after = c->waiting;
    c->waiting = step;
    if (c->state == MU_SS_COMPILED)
        mu_ss_compiled_register(c);
}
