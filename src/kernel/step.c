/*
 * kernel/step.c: one step of a graph: each node runs once, when what it needs is there.
 *
 * A node that has its inputs is ready; ready nodes run in turn. Then it is done, has failed, or waits: for a queue,
 * a tensor from elsewhere, or its kernel in another thread. What waits does not hold up the rest. An output is let go
 * when the last node that needs it has run. After the first error no further node runs; the step is done when nothing
 * of it runs elsewhere.
 */
#include "kernel/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"

#define TRIES_MAX 8u         /* of a change in another thread; then it is made in the loop */
#define LONG_COST (1u << 20) /* elements, about: what takes longer is handed to another thread */

struct mu_kernel_step {
    struct mu_kernel_step_options options;
    struct mu_kernel_graph *graph;
    uint32_t *left;                 /* of each node: inputs that are not there */
    uint32_t *slot_left;            /* of each slot: nodes that will read it */
    struct mu_kernel_value *values; /* of each slot */
    uint32_t *ready, first, last;   /* a queue; each node is in it once */
    uint32_t num_done, num_works;
    struct mu_kernel_wait *waits;
    struct mu_kernel_work *works;
    struct mu_kernel_error error;
    bool is_running, is_over; /* over: nothing of it is held any more */
};

struct mu_kernel_work {
    struct mu_kernel_work *next, *prev; /* of its step's */
    struct mu_kernel_call call;
    _Atomic bool gives_up;
    enum mu_run is;
    uint32_t tries; /* that came to nothing: another change was first */
};

static void value_drop(struct mu_kernel_value *value)
{
    mu_tensor_drop(value->tensor);
    mu_resource_drop(value->ref);
    *value = (struct mu_kernel_value){0};
}

static void node_ready(struct mu_kernel_step *step, uint32_t at)
{
    step->ready[step->last++] = at;
}

static void node_done(struct mu_kernel_step *step, uint32_t at)
{
    const struct mu_kernel_node *node = &step->graph->nodes[at];

    step->num_done++;
    for (uint32_t k = 0; k < node->num_inputs; k++) {
        uint32_t slot = step->graph->nodes[node->inputs[k].node].first_slot + node->inputs[k].output;

        if (--step->slot_left[slot] == 0)
            value_drop(&step->values[slot]);
    }
    for (uint32_t k = 0; k < node->num_outputs; k++)
        if (step->slot_left[node->first_slot + k] == 0)
            value_drop(&step->values[node->first_slot + k]);
    for (uint32_t k = 0; k < node->num_users; k++)
        if (--step->left[node->users[k]] == 0)
            node_ready(step, node->users[k]);
}

/* With the node's name behind it, by which clients find the op. */
static void step_fail(struct mu_kernel_step *step, uint32_t at, const struct mu_kernel_error *error)
{
    if (step->error.status == MUSTER_OK)
        mu_kernel_fail(&step->error, error->status, "%.760s\n\t [[{{node %.200s}}]]", error->text,
                       step->graph->nodes[at].def->name);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

static struct mu_kernel_wait *wait_begin(struct mu_kernel_call *call, void *owner,
                                         void (*let_go)(struct mu_kernel_wait *wait), uint32_t num_tensors)
{
    struct mu_kernel_wait *wait = calloc(1, sizeof *wait + num_tensors * sizeof(struct mu_tensor *));

    if (!wait) {
        mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    wait->waiting = call->waiting;
    wait->node = call->node;
    wait->step = call->step;
    wait->at = call->at;
    wait->owner = owner;
    wait->let_go = let_go;
    wait->tensors = (struct mu_tensor **)(wait + 1);
    wait->num_tensors = num_tensors;
    wait->step_next = call->step->waits;
    if (wait->step_next)
        wait->step_next->step_prev = wait;
    call->step->waits = wait;
    return wait;
}

static void wait_free(struct mu_kernel_wait *wait)
{
    if (wait->step_next)
        wait->step_next->step_prev = wait->step_prev;
    *(wait->step_prev ? &wait->step_prev->step_next : &wait->step->waits) = wait->step_next;
    for (uint32_t k = 0; k < wait->num_tensors; k++)
        mu_tensor_drop(wait->tensors[k]);
    free(wait);
}

static void wait_end(struct mu_kernel_wait *wait, bool gives, enum muster_status status, const char *text)
{
    struct mu_kernel_step *step = wait->step;
    uint32_t first = step->graph->nodes[wait->at].first_slot;

    if (status == MUSTER_OK) {
        for (uint32_t k = 0; gives && k < wait->num_tensors; k++) {
            step->values[first + k].tensor = wait->tensors[k];
            wait->tensors[k] = NULL;
        }
        node_done(step, wait->at);
    } else {
        struct mu_kernel_error error = {.status = MUSTER_OK};

        mu_kernel_fail(&error, status, "%s", text);
        step_fail(step, wait->at, &error);
    }
    wait_free(wait);
    if (!step->is_running)
        step->options.wake(step->options.arg);
}

static void waits_let_go(struct mu_kernel_step *step)
{
    for (struct mu_kernel_work *work = step->works; work; work = work->next)
        /* process-local, relaxed: a hint for mu_run_gives_up() */
        atomic_store_explicit(&work->gives_up, true, memory_order_relaxed);
    while (step->waits) {
        struct mu_kernel_wait *wait = step->waits;

        wait->let_go(wait);
        wait_free(wait);
    }
}

static const struct mu_kernel_waiting step_waiting = {wait_begin, wait_end};

/* ---- a node's run ------------------------------------------------------------------------------------------------ */

/* What a call took: its inputs' holds, and the outputs that have not been handed over. */
static void call_done(struct mu_kernel_call *call)
{
    for (uint32_t k = 0; call->in && k < call->node->num_inputs; k++)
        value_drop(&call->in[k]);
    for (uint32_t k = 0; call->out && k < call->node->num_outputs; k++)
        value_drop(&call->out[k]);
    mu_change_drop(call);
    free(call->in);
    call->in = call->out = NULL;
}

/* A variable that is read as a tensor is read now. */
static bool call_input(struct mu_kernel_call *call, uint32_t k)
{
    const struct mu_kernel_node *node = call->node;
    const struct mu_kernel_node *from = &node->graph->nodes[node->inputs[k].node];
    const struct mu_kernel_value *value = &call->step->values[from->first_slot + node->inputs[k].output];
    bool by_ref = node->in_types[k] >= 100;

    if (by_ref)
        call->in[k].ref = mu_resource_hold(value->ref);
    if (value->ref && !value->ref->value && !(node->op->flags & MU_OP_UNINIT && by_ref))
        return mu_kernel_fail(&call->error, MUSTER_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                              value->ref->name);
    if (!by_ref)
        call->in[k].tensor = mu_tensor_hold(value->ref ? value->ref->value : value->tensor);
    return true;
}

static bool call_make(struct mu_kernel_step *step, uint32_t at, struct mu_kernel_call *call)
{
    struct mu_kernel_node *node = &step->graph->nodes[at];

    *call = (struct mu_kernel_call){.node = node,
                                    .step = step,
                                    .waiting = &step_waiting,
                                    .rendezvous = step->options.rendezvous,
                                    .at = at,
                                    .serial = node->serial++};
    call->in = calloc(node->num_inputs + node->num_outputs + 1, sizeof *call->in);
    if (!call->in)
        return mu_kernel_fail(&call->error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
    call->out = call->in + node->num_inputs;
    for (uint32_t k = 0; k < node->num_inputs; k++)
        if (!call_input(call, k))
            return false;
    return true;
}

static void call_end(struct mu_kernel_call *call, enum mu_run is)
{
    struct mu_kernel_step *step = call->step;

    if (is == MU_RUN_DONE)
        for (uint32_t k = 0; k < call->node->num_outputs; k++) {
            step->values[call->node->first_slot + k] = call->out[k];
            call->out[k] = (struct mu_kernel_value){0};
        }
    if (is == MU_RUN_DONE)
        node_done(step, call->at);
    else if (is == MU_RUN_FAILED)
        step_fail(step, call->at, &call->error);
    call_done(call);
}

/* To another thread. False: it is to run here. */
static bool call_offload(struct mu_kernel_call *call, uint32_t tries)
{
    struct mu_kernel_step *step = call->step;
    bool changes = call->node->op->flags & MU_OP_CHANGE;
    struct mu_kernel_work *work;

    if (!step->options.offload || tries > TRIES_MAX || !(changes || call->node->op->flags & MU_OP_PURE) ||
        mu_kernel_cost(call) < LONG_COST)
        return false;
    work = malloc(sizeof *work);
    if (!work || (changes && !mu_change_begin(call))) {
        mu_change_again(call);
        free(work);
        return false;
    }
    *work = (struct mu_kernel_work){.call = *call, .tries = tries};
    work->call.gives_up = &work->gives_up;
    step->num_works++;
    MU_LIST_PUSH(step->works, work);
    if (step->options.offload(step->options.arg, work))
        return true;
    MU_LIST_DROP(step->works, work);
    step->num_works--;
    mu_change_again(call);
    free(work);
    return false;
}

static void node_run(struct mu_kernel_step *step, uint32_t at)
{
    struct mu_kernel_call call;

    if (!call_make(step, at, &call))
        call_end(&call, MU_RUN_FAILED);
    else if (!call_offload(&call, 0))
        call_end(&call, call.node->op->run(&call));
}

void mu_kernel_work_run(struct mu_kernel_work *work)
{
    struct mu_kernel_call *call = &work->call;

    if (mu_run_gives_up(call))
        work->is = mu_run_give_up(call);
    else
        work->is = call->node->op->flags & MU_OP_CHANGE ? mu_change_work(call) : call->node->op->run(call);
}

/* Another change of its variable came first. */
static void change_again(struct mu_kernel_call *call, uint32_t tries)
{
    mu_change_again(call);
    if (call->step->error.status != MUSTER_OK)
        call_end(call, mu_run_give_up(call));
    else if (!call_offload(call, tries))
        call_end(call, call->node->op->run(call));
}

void mu_kernel_work_end(struct mu_kernel_work *work)
{
    struct mu_kernel_step *step = work->call.step;

    step->num_works--;
    MU_LIST_DROP(step->works, work);
    work->call.gives_up = NULL;
    if (work->is == MU_RUN_DONE && work->call.node->op->flags & MU_OP_CHANGE && !mu_change_end(&work->call))
        change_again(&work->call, work->tries + 1);
    else
        call_end(&work->call, work->is);
    free(work);
    step->options.wake(step->options.arg);
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

struct mu_kernel_step *mu_kernel_step_new(const struct mu_kernel_step_options *options, struct mu_kernel_error *error)
{
    struct mu_kernel_graph *graph = options->graph;
    struct mu_kernel_step *step = calloc(1, sizeof *step);

    if (step) {
        step->left = calloc(2 * (size_t)graph->num_nodes + graph->num_slots + 1, sizeof *step->left);
        step->values = calloc(graph->num_slots + 1, sizeof *step->values);
    }
    if (!step || !step->left || !step->values) {
        if (step) {
            free(step->left);
            free(step->values);
        }
        free(step);
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
        return NULL;
    }
    step->options = *options;
    step->graph = graph;
    graph->holders++;
    if (options->rendezvous)
        mu_rendezvous_hold(options->rendezvous);
    step->ready = step->left + graph->num_nodes;
    step->slot_left = step->ready + graph->num_nodes;
    for (uint32_t k = 0; k < graph->num_nodes; k++) {
        const struct mu_kernel_node *node = &graph->nodes[k];

        step->left[k] = node->num_inputs + node->num_controls;
        if (node->num_outputs > 0)
            memcpy(step->slot_left + node->first_slot, node->slot_users, node->num_outputs * sizeof *node->slot_users);
        if (step->left[k] == 0)
            node_ready(step, k);
    }
    return step;
}

enum mu_step_state mu_kernel_step_run(struct mu_kernel_step *step, uint64_t for_ns)
{
    uint64_t until = mu_now() + for_ns;

    step->is_running = true;
    while (step->error.status == MUSTER_OK && step->first < step->last) {
        node_run(step, step->ready[step->first++]);
        if (step->first < step->last && mu_now() >= until)
            break;
    }
    step->is_running = false;
    if (step->error.status != MUSTER_OK)
        waits_let_go(step);
    else if (step->first < step->last)
        return MU_STEP_MORE;
    else if (step->num_done < step->graph->num_nodes)
        return MU_STEP_WAITS;
    if (step->num_works > 0)
        return MU_STEP_WAITS;
    for (uint32_t k = 0; !step->is_over && k < step->graph->num_slots; k++)
        value_drop(&step->values[k]);
    step->is_over = true;
    return MU_STEP_DONE;
}

void mu_kernel_step_cancel(struct mu_kernel_step *step, enum muster_status status, const char *text)
{
    mu_kernel_fail(&step->error, status, "%s", text);
    waits_let_go(step);
}

const struct mu_kernel_error *mu_kernel_step_error(const struct mu_kernel_step *step)
{
    return &step->error;
}

bool mu_kernel_step_is_idle(const struct mu_kernel_step *step)
{
    return step->num_works == 0;
}

void mu_kernel_step_free(struct mu_kernel_step *step)
{
    waits_let_go(step);
    for (uint32_t k = 0; k < step->graph->num_slots; k++)
        value_drop(&step->values[k]);
    mu_kernel_graph_drop(step->graph);
    mu_rendezvous_drop(step->options.rendezvous);
    free(step->left);
    free(step->values);
    free(step);
}
