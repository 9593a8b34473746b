/*
 * kernel/state.c: variables, by reference and by handle. A value that somebody else has is never changed in place.
 *
 * A change reads a variable's value and gives it another. A long one runs in another thread, on a value that it holds:
 * the loop takes its result only where the variable still has that value, and begins it again where another change or
 * an assignment came first.
 */
#include "kernel/private.h"

static void variable_set(struct mu_resource *variable, struct mu_tensor *value)
{
    mu_tensor_hold(value);
    mu_tensor_drop(variable->value);
    variable->value = value;
}

/* ---- a change ---------------------------------------------------------------------------------------------------- */

static struct mu_resource *handle_variable(struct mu_kernel_call *call);

/* What is added or subtracted; for a descent, times alpha. */
static const struct mu_tensor *change_by(const struct mu_kernel_call *call)
{
    return call->in[call->node->op->which == MU_DESCEND ? 2 : 1].tensor;
}

static bool change_fits(struct mu_kernel_call *call)
{
    const struct mu_tensor *value = call->change.from, *by = change_by(call), *alpha = call->in[1].tensor;
    char a[192], b[192];

    if (call->node->op->which == MU_DESCEND && alpha->count != 1)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "alpha is not a scalar");
    if (call->node->op->which == MU_DESCEND && alpha->dtype != by->dtype)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "alpha and delta have different types");
    if (value->dtype != by->dtype || !mu_dims_is_same(&value->shape, &by->shape))
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                              "%s variable has shape %s and the value has shape %s", call->change.variable->name,
                              mu_dims_text(&value->shape, a), mu_dims_text(&by->shape, b));
    return true;
}

bool mu_change_begin(struct mu_kernel_call *call)
{
    struct mu_change *change = &call->change;

    if (!change->variable) {
        bool by_ref = call->node->in_types[0] >= 100;
        struct mu_resource *variable = by_ref ? call->in[0].ref : handle_variable(call);

        if (!variable)
            return false;
        change->variable = mu_resource_hold(variable);
    }
    change->from = mu_tensor_hold(change->variable->value);
    return change_fits(call);
}

/* to[at…] = to[at…] op by */
static void change_range(const struct mu_kernel_call *call, struct mu_tensor *to, size_t at, size_t count)
{
    const struct mu_tensor *by = change_by(call), *alpha = call->in[1].tensor;

    if (call->node->op->which != MU_DESCEND)
        mu_numbers_change((enum mu_binary)call->node->op->which, to, by, at, count);
    else if (by->dtype == MU_FLOAT)
        for (size_t k = at; k < at + count; k++)
            to->f[k] -= alpha->f[0] * by->f[k];
    else
        for (size_t k = at; k < at + count; k++)
            to->d[k] -= alpha->d[0] * by->d[k];
}

enum mu_run mu_change_work(struct mu_kernel_call *call)
{
    const struct mu_tensor *from = call->change.from;
    struct mu_tensor *to = mu_tensor_new(from->memory, from->dtype, &from->shape, &call->error);

    call->change.to = to;
    for (size_t at = 0; to && at < to->count; at += MU_GLANCE) {
        size_t count = to->count - at < MU_GLANCE ? to->count - at : MU_GLANCE;

        if (mu_run_gives_up(call))
            return mu_run_give_up(call);
        mu_tensor_copy(to, at, from, at, count, &call->error);
        change_range(call, to, at, count);
    }
    return to ? MU_RUN_DONE : MU_RUN_FAILED;
}

bool mu_change_end(struct mu_kernel_call *call)
{
    struct mu_change *change = &call->change;

    if (change->variable->value != change->from)
        return false;
    mu_tensor_drop(change->variable->value);
    change->variable->value = change->to;
    change->to = NULL;
    if (call->node->num_outputs > 0)
        call->out[0].ref = mu_resource_hold(change->variable);
    return true;
}

void mu_change_again(struct mu_kernel_call *call)
{
    mu_tensor_drop(call->change.from);
    mu_tensor_drop(call->change.to);
    call->change.from = call->change.to = NULL;
}

void mu_change_drop(struct mu_kernel_call *call)
{
    mu_change_again(call);
    mu_resource_drop(call->change.variable);
    call->change.variable = NULL;
}

/* All of it at once; in place where nobody else sees the value. */
enum mu_run mu_run_change(struct mu_kernel_call *call)
{
    struct mu_tensor *from;

    if (!mu_change_begin(call))
        return MU_RUN_FAILED;
    from = call->change.from;
    if (from->holders == 2 && !from->base) {
        call->change.to = mu_tensor_hold(from);
        change_range(call, from, 0, from->count);
    } else if (mu_change_work(call) != MU_RUN_DONE) {
        return MU_RUN_FAILED;
    }
    mu_change_end(call);
    return MU_RUN_DONE;
}

/* ---- by reference ------------------------------------------------------------------------------------------------ */

static enum mu_run ref_done(struct mu_kernel_call *call, struct mu_resource *variable, bool good)
{
    if (!good)
        return MU_RUN_FAILED;
    if (call->node->num_outputs > 0)
        call->out[0].ref = mu_resource_hold(variable);
    return MU_RUN_DONE;
}

enum mu_run mu_run_variable(struct mu_kernel_call *call)
{
    char container[256], name[1024];
    struct mu_resource *variable = mu_resource_make(call->node->graph->home.shared, MU_RESOURCE_VARIABLE,
                                                    mu_resource_container(call->node, container),
                                                    mu_resource_name(call->node, name), &call->error);
    unsigned dtype = mu_attr_type(call->node, "dtype");

    if (variable && variable->dtype == 0)
        variable->dtype = (uint8_t)dtype;
    if (variable && variable->dtype != dtype)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT, "Trying to access variable %s of type %s as one of type %s",
                           variable->name, mu_dtype_name(variable->dtype), mu_dtype_name(dtype));
    return ref_done(call, variable, variable != NULL);
}

enum mu_run mu_run_assign(struct mu_kernel_call *call)
{
    struct mu_resource *variable = call->in[0].ref;
    struct mu_tensor *value = call->in[1].tensor;
    const struct mu_kernel_node *from = &call->node->graph->nodes[call->node->inputs[0].node];
    struct mu_dims shape;
    char wants[192], has[192];

    /* The shape is the variable's own, as its node says it; without a rank anything fits. */
    if (mu_attr_bool(call->node, "validate_shape") && from->op->run == mu_run_variable &&
        mu_attr_shape(from, "shape", &shape)) {
        bool fits = shape.rank == value->shape.rank;

        for (uint32_t k = 0; fits && k < shape.rank; k++)
            fits = shape.dim[k] < 0 || shape.dim[k] == value->shape.dim[k];
        if (!fits)
            return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                               "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                               mu_dims_text(&shape, wants), mu_dims_text(&value->shape, has));
    }
    variable_set(variable, value);
    return ref_done(call, variable, true);
}

static enum mu_run is_initialized(struct mu_kernel_call *call, bool is)
{
    struct mu_dims scalar = {0};

    if (!mu_run_output(call, 0, MU_BOOL, &scalar))
        return MU_RUN_FAILED;
    call->out[0].tensor->b[0] = is;
    return MU_RUN_DONE;
}

enum mu_run mu_run_is_initialized(struct mu_kernel_call *call)
{
    return is_initialized(call, call->in[0].ref->value != NULL);
}

/* ---- by handle --------------------------------------------------------------------------------------------------- */

enum mu_run mu_run_var_handle(struct mu_kernel_call *call)
{
    char container[256], name[1024];

    return mu_run_handle(call, false, mu_resource_container(call->node, container), mu_resource_name(call->node, name));
}

static struct mu_resource *handle_variable(struct mu_kernel_call *call)
{
    struct mu_resource *variable = mu_run_resource(call, 0, MU_RESOURCE_VARIABLE);

    if (variable && !variable->value) {
        mu_run_fail(
            call, MUSTER_FAILED_PRECONDITION,
            "Error while reading resource variable %s from Container: %s. This could mean that the variable was "
            "uninitialized.",
            variable->name, variable->container);
        return NULL;
    }
    return variable;
}

enum mu_run mu_run_var_assign(struct mu_kernel_call *call)
{
    const char *container = (const char *)call->in[0].tensor->s[0].bytes + 1;
    const char *name = container + __builtin_strlen(container) + 1;
    struct mu_tensor *value = call->in[1].tensor;
    struct mu_resource *variable =
        mu_resource_make(call->node->graph->home.shared, MU_RESOURCE_VARIABLE, container, name, &call->error);

    if (!variable)
        return MU_RUN_FAILED;
    if (variable->dtype == 0)
        variable->dtype = value->dtype;
    if (variable->dtype != value->dtype)
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Trying to assign variable with wrong dtype. Expected %s got %s",
                           mu_dtype_name(variable->dtype), mu_dtype_name(value->dtype));
    variable_set(variable, value);
    return MU_RUN_DONE;
}

enum mu_run mu_run_var_read(struct mu_kernel_call *call)
{
    struct mu_resource *variable = handle_variable(call);

    if (!variable)
        return MU_RUN_FAILED;
    if (variable->value->dtype != call->node->out_types[0])
        return mu_run_fail(call, MUSTER_INVALID_ARGUMENT,
                           "Trying to read variable with wrong dtype. Expected %s got %s",
                           mu_dtype_name(call->node->out_types[0]), mu_dtype_name(variable->value->dtype));
    call->out[0].tensor = mu_tensor_hold(variable->value);
    return MU_RUN_DONE;
}

enum mu_run mu_run_var_is_initialized(struct mu_kernel_call *call)
{
    const struct mu_kernel_home *home = &call->node->graph->home;
    const struct mu_kernel_string *handle = &call->in[0].tensor->s[0];
    const char *container = (const char *)handle->bytes + 1, *name = container + __builtin_strlen(container) + 1;
    struct mu_resource *variable =
        mu_resource_find(handle->bytes[0] == 'o' ? home->own : home->shared, container, name);

    return is_initialized(call, variable && variable->kind == MU_RESOURCE_VARIABLE && variable->value);
}

enum mu_run mu_run_destroy(struct mu_kernel_call *call)
{
    const struct mu_kernel_home *home = &call->node->graph->home;
    const struct mu_kernel_string *handle = &call->in[0].tensor->s[0];
    const char *container = (const char *)handle->bytes + 1, *name = container + __builtin_strlen(container) + 1;
    struct mu_resource *resource =
        mu_resource_find(handle->bytes[0] == 'o' ? home->own : home->shared, container, name);

    if (!resource && !mu_attr_bool(call->node, "ignore_lookup_error"))
        return mu_run_fail(call, MUSTER_NOT_FOUND, "Resource %s/%s does not exist.", container, name);
    if (resource)
        mu_resource_forget(resource);
    return MU_RUN_DONE;
}
