/*
 * session/inner.c: muster's own kernels as executors of sessions: their sessions and graphs, calls and answers.
 */
#include "session/inner_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/list.h"
#include "base/utf8.h"

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void on_idle(uv_idle_t *idle);

void mu_inner_wake(struct mu_inner *local)
{
    uv_idle_start(&local->idle, on_idle);
}

struct mu_executor_call *mu_inner_call_new(struct mu_inner *local, mu_executor_done *done, void *arg)
{
    struct mu_executor_call *call = calloc(1, sizeof *call);

    if (call) {
        call->local = local;
        call->done = done;
        call->arg = arg;
    }
    return call;
}

void mu_inner_call_free(struct mu_executor_call *call)
{
    for (uint32_t k = 0; k < call->num_recv && call->recv; k++)
        free(call->recv[k]);
    free(call->recv);
    free(call);
}

/* It is answered in its turn: with its error, or with what it has. */
struct mu_executor_call *mu_inner_call_answer(struct mu_executor_call *call)
{
    MU_QUEUE_APPEND(call->local->answers, call->local->answers_last, call);
    mu_inner_wake(call->local);
    return call;
}

/* It goes into messages as UTF-8, and may have bytes of a client's, or have been cut within a character. */
static void text_mend(char *text)
{
    const char *end = text + strlen(text);

    for (size_t n; text < end; text += n) {
        n = mu_utf8_length(text, (size_t)(end - text));
        if (n == 0) {
            *text = '?';
            n = 1;
        }
    }
}

void mu_inner_call_end(struct mu_executor_call *call, struct mu_executor_answer *answer)
{
    text_mend(call->error.text);
    answer->status = call->error.status;
    answer->text = call->error.text;
    if (call->done)
        call->done(call->arg, answer);
    mu_inner_call_free(call);
}

static void answers_give(struct mu_inner *local)
{
    while (local->answers) {
        struct mu_executor_call *call = local->answers;
        struct mu_executor_answer answer = {
            .graph = call->graph, .devices = &call->device, .num_devices = call->device.len > 0};

        MU_QUEUE_DROP(local->answers, local->answers_last, call);
        mu_inner_call_end(call, &answer);
    }
}

/* ---- sessions and graphs ----------------------------------------------------------------------------------------- */

static struct local_session *inner_session_find(struct mu_executor *executor, const char *name)
{
    struct local_session *session = ((struct local_executor *)executor)->sessions;

    while (session && strcmp(session->name, name) != 0)
        session = session->next;
    return session;
}

static struct local_graph *graph_find(struct local_session *session, const char *handle)
{
    struct local_graph *graph = session ? session->graphs : NULL;

    while (graph && strcmp(graph->handle, handle) != 0)
        graph = graph->next;
    return graph;
}

struct local_graph *mu_inner_graph_find(struct mu_executor *executor, const char *session, const char *graph)
{
    return graph_find(inner_session_find(executor, session), graph);
}

static void graph_free(struct local_session *session, struct local_graph *graph)
{
    MU_LIST_DROP(session->graphs, graph);
    mu_kernel_graph_drop(graph->graph);
    free(graph->bytes);
    free(graph);
}

static void session_free(struct local_executor *executor, struct local_session *session)
{
    MU_LIST_DROP(executor->sessions, session);
    while (session->graphs)
        graph_free(session, session->graphs);
    mu_resources_free(session->own);
    mu_resources_free(session->isolated);
    free(session);
}

static bool local_lists(struct mu_executor *executor, struct mu_executor_bytes *ret_ops,
                        struct mu_executor_bytes *ret_kernels)
{
    struct mu_kernel_lists lists;

    (void)executor;
    if (!mu_kernel_lists(&lists))
        return false;
    *ret_ops = (struct mu_executor_bytes){lists.ops, lists.ops_len};
    *ret_kernels = (struct mu_executor_bytes){lists.kernels, lists.kernels_len};
    return true;
}

static struct mu_executor_call *local_devices(struct mu_executor *executor, mu_executor_done *done, void *arg)
{
    struct mu_executor_call *call = mu_inner_call_new(mu_inner_of(executor), done, arg);

    if (!call)
        return NULL;
    call->device = ((struct local_executor *)executor)->device;
    return mu_inner_call_answer(call);
}

static struct mu_executor_call *local_create_session(struct mu_executor *executor,
                                                     const struct mu_executor_session *asked, mu_executor_done *done,
                                                     void *arg)
{
    struct local_executor *local = (struct local_executor *)executor;
    struct mu_executor_call *call = mu_inner_call_new(local->local, done, arg);
    size_t size = strlen(asked->session) + 1;
    struct local_session *session = calloc(1, sizeof *session + size);

    if (session) {
        memcpy(session->name, asked->session, size);
        session->own = mu_resources_new();
        session->isolated = asked->is_isolated ? mu_resources_new() : NULL;
        MU_LIST_PUSH(local->sessions, session);
    }
    if (session && (!session->own || (asked->is_isolated && !session->isolated))) {
        session_free(local, session);
        session = NULL;
    }
    if (!session && call)
        mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a session");
    return call ? mu_inner_call_answer(call) : NULL;
}

static void local_delete_session(struct mu_executor *executor, const char *name)
{
    struct local_session *session = inner_session_find(executor, name);

    if (!session)
        return;
    /* Steps that still run have the session's queues: they are to end first. */
    for (struct local_graph *graph = session->graphs; graph; graph = graph->next)
        mu_inner_graph_cancel(mu_inner_of(executor), graph->handle);
    session_free((struct local_executor *)executor, session);
}

static struct mu_executor_call *local_register(struct mu_executor *executor, const struct mu_executor_graph *asked,
                                               mu_executor_done *done, void *arg)
{
    struct local_executor *local = (struct local_executor *)executor;
    struct local_session *session = inner_session_find(executor, asked->session);
    struct mu_executor_call *call = mu_inner_call_new(local->local, done, arg);
    struct local_graph *graph = calloc(1, sizeof *graph);

    if (call && session && graph) {
        struct mu_kernel_home home = {&local->local->memory, session->isolated ? session->isolated : local->shared,
                                      session->own, executor->job};

        graph->graph = mu_kernel_graph_new(&home, asked->graph.at, asked->graph.len, &call->error);
        graph->bytes = graph->graph ? malloc(asked->graph.len + 1) : NULL;
    }
    if (call && !session)
        mu_kernel_fail(&call->error, MUSTER_ABORTED, "Session handle is not found: %s", asked->session);
    if (graph && graph->bytes) {
        memcpy(graph->bytes, asked->graph.at, asked->graph.len);
        graph->len = asked->graph.len;
        snprintf(graph->handle, sizeof graph->handle, "%016llx", (unsigned long long)++local->local->graphs);
        snprintf(call->graph, sizeof call->graph, "%s", graph->handle);
        MU_LIST_PUSH(session->graphs, graph);
        return mu_inner_call_answer(call);
    }
    if (graph)
        mu_kernel_graph_drop(graph->graph);
    free(graph);
    if (call)
        mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a graph");
    return call ? mu_inner_call_answer(call) : NULL;
}

static void local_deregister(struct mu_executor *executor, const char *name, const char *handle,
                             struct mu_direct_way *way)
{
    struct local_session *session = inner_session_find(executor, name);
    struct local_graph *graph = graph_find(session, handle);

    (void)way;
    if (graph)
        graph_free(session, graph);
}

static struct mu_executor_call *local_cleanup_all(struct mu_executor *executor, const char *const *containers,
                                                  uint32_t count, mu_executor_done *done, void *arg)
{
    struct local_executor *local = (struct local_executor *)executor;
    struct mu_executor_call *call = mu_inner_call_new(local->local, done, arg);

    if (count == 0)
        mu_resources_clear(local->shared, executor->job);
    for (uint32_t k = 0; k < count; k++)
        mu_resources_clear(local->shared, containers[k]);
    return call ? mu_inner_call_answer(call) : NULL;
}

/* One turn: what is to be answered, and as many parts as are in the line now. */
static void on_idle(uv_idle_t *idle)
{
    struct mu_inner *local = idle->data;
    uint32_t count = 0;

    for (const struct part *part = local->line; part; part = part->line_next)
        count++;
    answers_give(local);
    mu_inner_line_run(local, count);
    if (!local->line && !local->answers)
        uv_idle_stop(&local->idle);
}

/* ---- executors --------------------------------------------------------------------------------------------------- */

static const struct mu_executor_kind local_kind = {
    .name = "muster's own kernels",
    .remedy =
        "muster's own kernels are few; TensorFlow's run under 'muster run --tf-master', found by --libtensorflow, "
        "or elsewhere, by --tf-workers",
    .lists = local_lists,
    .devices = local_devices,
    .create_session = local_create_session,
    .delete_session = local_delete_session,
    .register_graph = local_register,
    .deregister_graph = local_deregister,
    .run = mu_inner_run,
    .cleanup = mu_inner_cleanup,
    .cleanup_all = local_cleanup_all,
    .cancel = mu_inner_cancel,
};

struct mu_inner *mu_inner_new(uv_loop_t *loop, size_t memory)
{
    struct mu_inner *local = calloc(1, sizeof *local);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    if (!local)
        return NULL;
    local->loop = loop;
    local->memory.most = memory ? memory : pages > 0 ? (size_t)pages / 2 * (size_t)page : (size_t)1 << 30;
    uv_idle_init(loop, &local->idle);
    uv_unref((uv_handle_t *)&local->idle);
    local->idle.data = local;
    return local;
}

/* Its DeviceAttributes: a processor, with a number that no other one has had. */
static bool device_make(struct local_executor *executor)
{
    Mu__Graph__DeviceAttributes device = MU__GRAPH__DEVICE_ATTRIBUTES__INIT;
    uint8_t *bytes;

    if (getrandom(&device.incarnation, sizeof device.incarnation, 0) != (ssize_t)sizeof device.incarnation)
        return false;
    if (asprintf(&executor->device_name, "/job:%s/replica:0/task:%u/device:CPU:0", executor->base.job,
                 executor->base.task) < 0)
        return false;
    device.name = executor->device_name;
    device.device_type = (char *)"CPU";
    device.has_memory_limit = device.has_incarnation = device.has_xla_global_id = true;
    device.memory_limit = (int64_t)executor->local->memory.most;
    device.incarnation |= 1;
    device.xla_global_id = -1;
    bytes = malloc(mu__graph__device_attributes__get_packed_size(&device));
    if (!bytes)
        return false;
    executor->device.len = mu__graph__device_attributes__pack(&device, bytes);
    executor->device.at = bytes;
    return true;
}

static void executor_free(struct local_executor *executor)
{
    while (executor->sessions)
        session_free(executor, executor->sessions);
    mu_resources_free(executor->shared);
    free((void *)executor->device.at);
    free(executor->device_name);
    free((char *)executor->base.job);
    free(executor);
}

struct mu_executor *mu_inner_executor(struct mu_inner *local, const char *job, uint32_t task)
{
    struct local_executor *executor = calloc(1, sizeof *executor);

    if (!executor)
        return NULL;
    executor->base = (struct mu_executor){.kind = &local_kind, .job = strdup(job), .task = task, .address = ""};
    executor->local = local;
    executor->shared = mu_resources_new();
    if (!executor->base.job || !executor->shared || !device_make(executor)) {
        executor_free(executor);
        return NULL;
    }
    executor->next = local->executors;
    local->executors = executor;
    return &executor->base;
}

static void on_closed(uv_handle_t *handle)
{
    struct mu_inner *local = handle->data;
    void (*stopped)(void *arg) = local->stopped;
    void *arg = local->arg;

    while (local->executors) {
        struct local_executor *executor = local->executors;

        local->executors = executor->next;
        executor_free(executor);
    }
    free(local);
    if (stopped)
        stopped(arg);
}

/* When nothing runs in other threads any more. */
void mu_inner_close(struct mu_inner *local)
{
    if (!local->is_freed || local->works > 0 || local->is_closed)
        return;
    local->is_closed = true;
    while (local->dropped)
        mu_inner_part_free(local->dropped);
    uv_close((uv_handle_t *)&local->idle, on_closed);
}

void mu_inner_free(struct mu_inner *local, void (*stopped)(void *arg), void *arg)
{
    local->stopped = stopped;
    local->arg = arg;
    mu_inner_steps_free(local);
    while (local->answers) {
        struct mu_executor_call *call = local->answers;

        MU_QUEUE_DROP(local->answers, local->answers_last, call);
        mu_inner_call_free(call);
    }
    local->is_freed = true;
    mu_inner_close(local);
}
