/*
 * session/inner_step.c: steps of muster's own kernels: they take turns in the loop, and wait for queues and each other.
 */
#include "session/inner_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"

#define TURN_NS  2000000u  /* of a step, then others have theirs */
#define TURNS_NS 10000000u /* of all steps, then the loop looks at its clients */

static void part_line(struct part *part)
{
    struct mu_inner *local = part->executor->local;

    if (part->is_in_line)
        return;
    part->is_in_line = true;
    part->line_prev = local->line_last;
    part->line_next = NULL;
    *(local->line_last ? &local->line_last->line_next : &local->line) = part;
    local->line_last = part;
    mu_inner_wake(local);
}

static void part_unline(struct part *part)
{
    struct mu_inner *local = part->executor->local;

    if (!part->is_in_line)
        return;
    part->is_in_line = false;
    *(part->line_prev ? &part->line_prev->line_next : &local->line) = part->line_next;
    *(part->line_next ? &part->line_next->line_prev : &local->line_last) = part->line_prev;
}

static void on_wake(void *arg)
{
    part_line(arg);
}

struct inner_work {
    uv_work_t work; /* first */
    struct mu_inner *local;
    struct mu_kernel_work *kernel;
};

static void job_run(uv_work_t *work)
{
    mu_kernel_work_run(((struct inner_work *)work)->kernel);
}

static void job_end(uv_work_t *work, int status)
{
    struct inner_work *job = (struct inner_work *)work;

    (void)status;
    job->local->works--;
    mu_kernel_work_end(job->kernel);
    mu_inner_close(job->local);
    free(job);
}

static bool on_offload(void *arg, struct mu_kernel_work *kernel)
{
    struct mu_inner *local = ((struct part *)arg)->executor->local;
    struct inner_work *job = malloc(sizeof *job);

    if (job) {
        job->local = local;
        job->kernel = kernel;
    }
    if (!job || uv_queue_work(local->loop, &job->work, job_run, job_end) != 0) {
        free(job);
        return false;
    }
    local->works++;
    return true;
}

static struct number **numbers_of(struct mu_inner *local, int64_t step)
{
    return &local->numbers[(uint64_t)step % MU_INNER_PLACES];
}

static struct number *number_find(struct mu_inner *local, int64_t step)
{
    struct number *number = *numbers_of(local, step);

    while (number && number->step != step)
        number = number->next;
    return number;
}

static struct number *number_make(struct mu_inner *local, int64_t step)
{
    struct number *number = number_find(local, step);

    if (number)
        return number;
    number = calloc(1, sizeof *number);
    if (!number || !(number->rendezvous = mu_rendezvous_new())) {
        free(number);
        return NULL;
    }
    number->step = step;
    MU_LIST_PUSH(*numbers_of(local, step), number);
    return number;
}

static struct part *part_make(struct number *number, struct local_executor *executor, const char *handle,
                              struct mu_kernel_graph *graph, struct mu_kernel_error *error)
{
    struct mu_kernel_step_options options = {graph, number->rendezvous, on_wake, on_offload, NULL};
    struct part *part = number->parts;

    while (part && (part->executor != executor || strcmp(part->graph, handle) != 0))
        part = part->next;
    if (part)
        return part;
    part = calloc(1, sizeof *part);
    options.arg = part;
    if (!part || !(part->step = mu_kernel_step_new(&options, error))) {
        free(part);
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
        return NULL;
    }
    part->number = number;
    part->executor = executor;
    snprintf(part->graph, sizeof part->graph, "%s", handle);
    MU_LIST_PUSH(number->parts, part);
    return part;
}

/* What the client feeds. */
static bool tensors_send(struct number *number, struct mu_kernel_memory *memory, const struct mu_executor_run *run,
                         struct mu_kernel_error *error)
{
    size_t spare = MU_TENSOR_SPARE;

    for (uint32_t k = 0; k < run->num_send; k++) {
        struct mu_tensor *tensor =
            mu_tensor_unpack(memory, run->send[k].tensor.at, run->send[k].tensor.len, &spare, error);
        bool good = tensor && mu_rendezvous_put(number->rendezvous, run->send[k].key, tensor, error);

        mu_tensor_drop(tensor);
        if (!good)
            return false;
    }
    return true;
}

static bool call_keys(struct mu_executor_call *call, const struct mu_executor_run *run)
{
    call->recv = calloc(run->num_recv + 1, sizeof *call->recv);
    if (!call->recv)
        return false;
    for (; call->num_recv < run->num_recv; call->num_recv++)
        if (!(call->recv[call->num_recv] = strdup(run->recv[call->num_recv])))
            return false;
    return true;
}

struct mu_executor_call *mu_inner_run(struct mu_executor *executor, const struct mu_executor_run *run,
                                      mu_executor_done *done, void *arg)
{
    struct local_executor *local = (struct local_executor *)executor;
    struct local_graph *graph = mu_inner_graph_find(executor, run->session, run->graph);
    struct mu_executor_call *call = mu_inner_call_new(local->local, done, arg);
    struct number *number = call && graph ? number_make(local->local, run->step) : NULL;
    struct part *part = NULL;

    if (!call)
        return NULL;
    call->is_partial = run->is_partial;
    call->is_last = run->is_last;
    if (!graph)
        mu_kernel_fail(&call->error, MUSTER_ABORTED, "Graph handle is not found: %s", run->graph);
    else if (!number || !call_keys(call, run))
        mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    else if (tensors_send(number, &local->local->memory, run, &call->error))
        part = part_make(number, local, run->graph, graph->graph, &call->error);
    if (!part)
        return mu_inner_call_answer(call);
    call->part = part;
    MU_QUEUE_APPEND(part->calls, part->calls_last, call);
    part_line(part);
    return call;
}

void mu_inner_part_free(struct part *part)
{
    struct mu_inner *local = part->executor->local;

    part_unline(part);
    if (part->is_dropped)
        MU_LIST_DROP(local->dropped, part);
    mu_kernel_step_free(part->step);
    free(part);
}

/* ---- answers of steps -------------------------------------------------------------------------------------------- */

static bool call_has_all(const struct mu_executor_call *call)
{
    for (uint32_t k = 0; k < call->num_recv; k++)
        if (!mu_rendezvous_has(call->part->number->rendezvous, call->recv[k]))
            return false;
    return true;
}

/* Its tensors as messages, which are good while the answer is given. */
static void call_give(struct mu_executor_call *call)
{
    uint32_t count = call->num_recv;
    struct mu_executor_tensor *tensors = calloc(count + 1, sizeof *tensors);
    struct mu_executor_answer answer = {.tensors = tensors};

    if (!tensors)
        mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for an answer");
    for (uint32_t k = 0; k < count && call->error.status == MUSTER_OK; k++) {
        struct mu_tensor *tensor = mu_rendezvous_take(call->part->number->rendezvous, call->recv[k]);

        tensors[k].key = call->recv[k];
        if (tensor)
            tensors[k].tensor.at = mu_tensor_encode(tensor, &tensors[k].tensor.len, &call->error);
        else
            mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "%.500s was asked for twice", call->recv[k]);
        mu_tensor_drop(tensor);
    }
    answer.num_tensors = call->error.status == MUSTER_OK ? count : 0;
    mu_inner_call_end(call, &answer);
    for (uint32_t k = 0; tensors && k < count; k++)
        free((void *)tensors[k].tensor.at);
    free(tensors);
}

/* Answers those of a part's calls that can be. Each may be followed by anything, even by the part's end. */
static void part_settle(struct part *part)
{
    const struct mu_kernel_error *error = mu_kernel_step_error(part->step);

    for (struct mu_executor_call *call = part->calls; call && !part->is_dropped;) {
        bool waits = !call->is_partial || call->is_last; /* for the step's end */

        if (error->status == MUSTER_OK && ((waits && !part->is_done) || (!part->is_done && !call_has_all(call)))) {
            call = call->next;
            continue;
        }
        MU_QUEUE_DROP(part->calls, part->calls_last, call);
        if (error->status != MUSTER_OK)
            call->error = *error;
        else if (!call_has_all(call))
            mu_kernel_fail(&call->error, MUSTER_INTERNAL, "a tensor that is fetched was never sent");
        call_give(call);
        call = part->calls;
    }
}

static void part_end_if_dropped(struct part *part)
{
    if (part->is_dropped && mu_kernel_step_is_idle(part->step))
        mu_inner_part_free(part);
}

static void inner_part_run(struct part *part)
{
    enum mu_step_state is;

    part->is_busy = true;
    is = mu_kernel_step_run(part->step, TURN_NS);
    part->is_done = is == MU_STEP_DONE;
    if (is == MU_STEP_MORE)
        part_line(part);
    part_settle(part);
    part->is_busy = false;
    part_end_if_dropped(part);
}

static void part_drop(struct part *part)
{
    struct mu_inner *local = part->executor->local;

    MU_LIST_DROP(part->number->parts, part);
    MU_LIST_PUSH(local->dropped, part);
    part->is_dropped = true;
    mu_kernel_step_cancel(part->step, MUSTER_CANCELLED, "Step was cancelled");
    while (part->calls) {
        struct mu_executor_call *call = part->calls;

        MU_QUEUE_DROP(part->calls, part->calls_last, call);
        call->part = NULL;
        mu_kernel_fail(&call->error, MUSTER_CANCELLED, "Step was cancelled");
        mu_inner_call_answer(call);
    }
    if (!part->is_busy)
        part_end_if_dropped(part);
}

static void number_drop(struct mu_inner *local, struct number *number)
{
    MU_LIST_DROP(*numbers_of(local, number->step), number);
    while (number->parts)
        part_drop(number->parts);
    mu_rendezvous_drop(number->rendezvous);
    free(number);
}

void mu_inner_cleanup(struct mu_executor *executor, int64_t step)
{
    struct number *number = number_find(mu_inner_of(executor), step);

    if (number)
        number_drop(mu_inner_of(executor), number);
}

void mu_inner_cancel(struct mu_executor_call *call)
{
    struct part *part = call->part;

    if (part) {
        MU_QUEUE_DROP(part->calls, part->calls_last, call);
        mu_kernel_step_cancel(part->step, MUSTER_CANCELLED, "Step was cancelled");
        part_line(part);
    } else {
        MU_QUEUE_DROP(call->local->answers, call->local->answers_last, call);
    }
    mu_inner_call_free(call);
}

void mu_inner_line_run(struct mu_inner *local, uint32_t count)
{
    uint64_t until = mu_now() + TURNS_NS;

    while (local->line && count-- > 0 && mu_now() < until) {
        struct part *part = local->line;

        part_unline(part);
        inner_part_run(part);
    }
}

void mu_inner_graph_cancel(struct mu_inner *local, const char *graph)
{
    for (uint32_t k = 0; k < MU_INNER_PLACES; k++)
        for (struct number *number = local->numbers[k]; number; number = number->next)
            for (struct part *part = number->parts; part; part = part->next)
                if (strcmp(part->graph, graph) == 0) {
                    mu_kernel_step_cancel(part->step, MUSTER_CANCELLED, "its session is closed");
                    part_line(part);
                }
}

void mu_inner_steps_free(struct mu_inner *local)
{
    for (uint32_t k = 0; k < MU_INNER_PLACES; k++)
        while (local->numbers[k])
            number_drop(local, local->numbers[k]);
}
