/*
 * kernel/queue.c: FIFO queues: what is given waits in order, and so do those that take and those that find it full.
 *
 * Each attempt is a wait, put behind those that came before it; then as many as can be ended are. A closed queue takes
 * nothing new; what was waiting to give still gives, unless it is cancelled; what takes fails when nothing is left.
 */
#include "kernel/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define SHAPES_MAX 64u /* components of a queue */

struct tuple {
    struct tuple *next;
    struct mu_tensor *tensors[];
};

struct mu_fifo {
    struct mu_resource *resource; /* that it is of */
    struct tuple *first, **last;
    size_t size, capacity;
    struct mu_kernel_wait *givers, *givers_last, *takers, *takers_last;
    uint32_t num_types;
    uint8_t types[SHAPES_MAX];
    bool has_shape[SHAPES_MAX], is_closed;
    struct mu_dims shapes[SHAPES_MAX];
};

static void tuple_free(struct mu_fifo *queue, struct tuple *tuple)
{
    for (uint32_t k = 0; k < queue->num_types; k++)
        mu_tensor_drop(tuple->tensors[k]);
    free(tuple);
}

static void waits_fail(struct mu_kernel_wait **first, struct mu_kernel_wait **last, enum muster_status status,
                       const char *text)
{
    while (*first) {
        struct mu_kernel_wait *wait = *first;

        MU_QUEUE_DROP(*first, *last, wait);
        mu_kernel_wait_end(wait, false, status, text);
    }
}

void mu_fifo_free(struct mu_fifo *queue)
{
    if (!queue)
        return;
    waits_fail(&queue->givers, &queue->givers_last, MUSTER_CANCELLED, "Enqueue operation was cancelled");
    waits_fail(&queue->takers, &queue->takers_last, MUSTER_CANCELLED, "Dequeue operation was cancelled");
    while (queue->first) {
        struct tuple *tuple = queue->first;

        queue->first = tuple->next;
        tuple_free(queue, tuple);
    }
    free(queue);
}

static struct tuple *queue_take(struct mu_fifo *queue)
{
    struct tuple *tuple = queue->first;

    queue->first = tuple->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->size--;
    return tuple;
}

static void giver_end(struct mu_fifo *queue, struct mu_kernel_wait *wait)
{
    struct tuple *tuple = malloc(sizeof *tuple + queue->num_types * sizeof tuple->tensors[0]);

    MU_QUEUE_DROP(queue->givers, queue->givers_last, wait);
    if (!tuple) {
        mu_kernel_wait_end(wait, false, MUSTER_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    tuple->next = NULL;
    for (uint32_t k = 0; k < queue->num_types; k++) {
        tuple->tensors[k] = wait->tensors[k];
        wait->tensors[k] = NULL;
    }
    *queue->last = tuple;
    queue->last = &tuple->next;
    queue->size++;
    mu_kernel_wait_end(wait, false, MUSTER_OK, "");
}

static void taker_end(struct mu_fifo *queue, struct mu_kernel_wait *wait)
{
    struct tuple *tuple = queue_take(queue);

    MU_QUEUE_DROP(queue->takers, queue->takers_last, wait);
    for (uint32_t k = 0; k < queue->num_types; k++) {
        wait->tensors[k] = tuple->tensors[k];
        tuple->tensors[k] = NULL;
    }
    tuple_free(queue, tuple);
    mu_kernel_wait_end(wait, true, MUSTER_OK, "");
}

/* Ends what can be ended. */
static void queue_settle(struct mu_fifo *queue)
{
    char text[1200];

    for (;;)
        if (queue->givers && queue->size < queue->capacity)
            giver_end(queue, queue->givers);
        else if (queue->takers && queue->size > 0)
            taker_end(queue, queue->takers);
        else
            break;
    if (!queue->is_closed || queue->givers || queue->size > 0)
        return;
    snprintf(text, sizeof text, "FIFOQueue '%s' is closed and has insufficient elements (requested 1, current size 0)",
             queue->resource->name);
    waits_fail(&queue->takers, &queue->takers_last, MUSTER_OUT_OF_RANGE, text);
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

static bool queue_make(struct mu_kernel_call *call, struct mu_resource *resource)
{
    const Mu__Graph__ListValue *types = mu_attr_list(call->node, "component_types");
    const Mu__Graph__ListValue *shapes = mu_attr_list(call->node, "shapes");
    int64_t capacity = mu_attr_int(call->node, "capacity");
    struct mu_fifo *queue = calloc(1, sizeof *queue);

    if (!queue)
        return mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a queue");
    queue->resource = resource;
    queue->last = &queue->first;
    queue->capacity = capacity < 0 ? SIZE_MAX : (size_t)capacity;
    queue->num_types = (uint32_t)types->n_type;
    for (uint32_t k = 0; k < queue->num_types; k++) {
        queue->types[k] = (uint8_t)types->type[k];
        queue->has_shape[k] = k < shapes->n_shape && mu_dims_read(shapes->shape[k], &queue->shapes[k]);
    }
    resource->queue = queue;
    return true;
}

/* Of the same components as the one that is there. */
static bool queue_matches(struct mu_kernel_call *call, const struct mu_fifo *queue, const char *name)
{
    const Mu__Graph__ListValue *types = mu_attr_list(call->node, "component_types");
    int64_t capacity = mu_attr_int(call->node, "capacity");
    bool same = types->n_type == queue->num_types;

    for (uint32_t k = 0; same && k < queue->num_types; k++)
        same = (uint8_t)types->type[k] == queue->types[k];
    if (!same)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                              "Shared queue '%s' has component types that are not the requested component types.",
                              name);
    if ((capacity < 0 ? SIZE_MAX : (size_t)capacity) == queue->capacity)
        return true;
    return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                          "Shared queue '%s' has capacity %lld but requested capacity was %lld.", name,
                          (long long)queue->capacity, (long long)capacity);
}

/* A queue without a name is its session's alone. */
enum mu_run mu_run_fifo(struct mu_kernel_call *call)
{
    const struct mu_kernel_home *home = &call->node->graph->home;
    bool is_own = mu_attr_bytes(call->node, "shared_name").len == 0;
    char container[256], name[1024];
    const char *in = mu_resource_container(call->node, container), *called = mu_resource_name(call->node, name);
    struct mu_resource *resource;

    if (mu_attr_list(call->node, "component_types")->n_type > SHAPES_MAX)
        return mu_run_fail(call, MUSTER_UNIMPLEMENTED, "muster's own queues have %u components at most", SHAPES_MAX);
    resource = mu_resource_make(is_own ? home->own : home->shared, MU_RESOURCE_QUEUE, in, called, &call->error);
    if (!resource || !(resource->queue ? queue_matches(call, resource->queue, called) : queue_make(call, resource)))
        return MU_RUN_FAILED;
    return mu_run_handle(call, is_own, in, called);
}

static void giver_let_go(struct mu_kernel_wait *wait)
{
    struct mu_fifo *queue = wait->owner;

    MU_QUEUE_DROP(queue->givers, queue->givers_last, wait);
}

static void taker_let_go(struct mu_kernel_wait *wait)
{
    struct mu_fifo *queue = wait->owner;

    MU_QUEUE_DROP(queue->takers, queue->takers_last, wait);
}

static bool component_check(struct mu_kernel_call *call, const struct mu_fifo *queue, uint32_t k,
                            const struct mu_tensor *tensor)
{
    char wants[192], has[192];
    bool fits = tensor->shape.rank == queue->shapes[k].rank;

    for (uint32_t d = 0; fits && d < tensor->shape.rank; d++)
        fits = queue->shapes[k].dim[d] < 0 || queue->shapes[k].dim[d] == tensor->shape.dim[d];
    if (tensor->dtype != queue->types[k])
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                              "Type mismatch in tuple component %u. Expected %s, got %s", k,
                              mu_dtype_name(queue->types[k]), mu_dtype_name(tensor->dtype));
    if (queue->has_shape[k] && !fits)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                              "Shape mismatch in tuple component %u. Expected %s, got %s", k,
                              mu_dims_text(&queue->shapes[k], wants), mu_dims_text(&tensor->shape, has));
    return true;
}

enum mu_run mu_run_enqueue(struct mu_kernel_call *call)
{
    struct mu_resource *resource = mu_run_resource(call, 0, MU_RESOURCE_QUEUE);
    struct mu_fifo *queue = resource ? resource->queue : NULL;
    struct mu_kernel_wait *wait;

    if (!queue)
        return MU_RUN_FAILED;
    if (call->node->num_inputs - 1 != queue->num_types)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Expected %u components, got %u", queue->num_types,
                           call->node->num_inputs - 1);
    if (queue->is_closed)
        return mu_run_fail(call, MUSTER_CANCELLED, "FIFOQueue '%s' is closed.", resource->name);
    for (uint32_t k = 0; k < queue->num_types; k++)
        if (!component_check(call, queue, k, call->in[1 + k].tensor))
            return MU_RUN_FAILED;
    wait = mu_kernel_wait_new(call, queue, giver_let_go, queue->num_types);
    if (!wait)
        return MU_RUN_FAILED;
    for (uint32_t k = 0; k < queue->num_types; k++)
        wait->tensors[k] = mu_tensor_hold(call->in[1 + k].tensor);
    MU_QUEUE_APPEND(queue->givers, queue->givers_last, wait);
    queue_settle(queue);
    return MU_RUN_WAITS;
}

enum mu_run mu_run_dequeue(struct mu_kernel_call *call)
{
    struct mu_resource *resource = mu_run_resource(call, 0, MU_RESOURCE_QUEUE);
    struct mu_fifo *queue = resource ? resource->queue : NULL;
    struct mu_kernel_wait *wait;
    bool same;

    if (!queue)
        return MU_RUN_FAILED;
    same = call->node->num_outputs == queue->num_types;
    for (uint32_t k = 0; same && k < queue->num_types; k++)
        same = call->node->out_types[k] == queue->types[k];
    if (!same)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "the components of FIFOQueue '%s' have other types than they are to be dequeued as",
                           resource->name);
    wait = mu_kernel_wait_new(call, queue, taker_let_go, queue->num_types);
    if (!wait)
        return MU_RUN_FAILED;
    MU_QUEUE_APPEND(queue->takers, queue->takers_last, wait);
    queue_settle(queue);
    return MU_RUN_WAITS;
}

enum mu_run mu_run_queue_close(struct mu_kernel_call *call)
{
    struct mu_resource *resource = mu_run_resource(call, 0, MU_RESOURCE_QUEUE);
    struct mu_fifo *queue = resource ? resource->queue : NULL;
    bool cancels = mu_attr_bool(call->node, "cancel_pending_enqueues");

    if (!queue)
        return MU_RUN_FAILED;
    if (queue->is_closed && !cancels)
        return mu_run_fail(call, MUSTER_CANCELLED, "FIFOQueue '%s' is already closed.", resource->name);
    queue->is_closed = true;
    if (cancels)
        waits_fail(&queue->givers, &queue->givers_last, MUSTER_CANCELLED, "Enqueue operation was cancelled");
    queue_settle(queue);
    return MU_RUN_DONE;
}

enum mu_run mu_run_queue_size(struct mu_kernel_call *call)
{
    struct mu_resource *resource = mu_run_resource(call, 0, MU_RESOURCE_QUEUE);
    struct mu_dims scalar = {0};

    if (!resource || !resource->queue || !mu_run_output(call, 0, MU_INT32, &scalar))
        return MU_RUN_FAILED;
    call->out[0].tensor->i[0] = (int32_t)resource->queue->size;
    return MU_RUN_DONE;
}

enum mu_run mu_run_queue_is_closed(struct mu_kernel_call *call)
{
    struct mu_resource *resource = mu_run_resource(call, 0, MU_RESOURCE_QUEUE);
    struct mu_dims scalar = {0};

    if (!resource || !resource->queue || !mu_run_output(call, 0, MU_BOOL, &scalar))
        return MU_RUN_FAILED;
    call->out[0].tensor->b[0] = resource->queue->is_closed;
    return MU_RUN_DONE;
}
