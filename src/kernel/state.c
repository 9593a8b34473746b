/*
 * kernel/state.c: variables, by reference and by handle. A value that somebody else has is never changed in place.
 */
#include "kernel/private.h"

static bool variable_set(struct mu_kernel_call *call, struct mu_resource *variable, struct mu_tensor *value)
{
    (void)call;
    mu_tensor_hold(value);
    mu_tensor_drop(variable->value);
    variable->value = value;
    return true;
}

/* variable = variable op by */
static bool variable_change(struct mu_kernel_call *call, struct mu_resource *variable, enum mu_binary what,
                            const struct mu_tensor *by)
{
    struct mu_tensor *value = variable->value, *copy;
    char a[192], b[192];

    if (value->dtype != by->dtype || !mu_dims_is_same(&value->shape, &by->shape))
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT,
                              "%s variable has shape %s and the value has shape %s", variable->name,
                              mu_dims_text(&value->shape, a), mu_dims_text(&by->shape, b));
    if (mu_tensor_is_alone(value))
        return mu_numbers_change(what, value, by, &call->error);
    copy = mu_tensor_new(value->memory, value->dtype, &value->shape, &call->error);
    if (!copy)
        return false;
    mu_tensor_copy(copy, 0, value, 0, value->count, &call->error);
    mu_numbers_change(what, copy, by, &call->error);
    mu_tensor_drop(value);
    variable->value = copy;
    return true;
}

/* variable -= alpha * delta */
static bool variable_descend(struct mu_kernel_call *call, struct mu_resource *variable, const struct mu_tensor *alpha,
                             const struct mu_tensor *delta)
{
    struct mu_tensor *by;
    bool good;

    if (alpha->count != 1)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "alpha is not a scalar");
    if (alpha->dtype != delta->dtype)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "alpha and delta have different types");
    by = mu_tensor_new(delta->memory, delta->dtype, &delta->shape, &call->error);
    if (!by)
        return false;
    for (size_t k = 0; k < by->count; k++)
        if (by->dtype == MU_FLOAT)
            by->f[k] = alpha->f[0] * delta->f[k];
        else
            by->d[k] = alpha->d[0] * delta->d[k];
    good = variable_change(call, variable, MU_SUB, by);
    mu_tensor_drop(by);
    return good;
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
    return ref_done(call, variable, variable_set(call, variable, value));
}

enum mu_run mu_run_assign_change(struct mu_kernel_call *call)
{
    struct mu_resource *variable = call->in[0].ref;

    return ref_done(call, variable,
                    variable_change(call, variable, (enum mu_binary)call->node->op->which, call->in[1].tensor));
}

enum mu_run mu_run_descend(struct mu_kernel_call *call)
{
    struct mu_resource *variable = call->in[0].ref;

    return ref_done(call, variable, variable_descend(call, variable, call->in[1].tensor, call->in[2].tensor));
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
    variable_set(call, variable, value);
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

enum mu_run mu_run_var_change(struct mu_kernel_call *call)
{
    struct mu_resource *variable = handle_variable(call);

    return variable && variable_change(call, variable, (enum mu_binary)call->node->op->which, call->in[1].tensor)
               ? MU_RUN_DONE
               : MU_RUN_FAILED;
}

enum mu_run mu_run_var_descend(struct mu_kernel_call *call)
{
    struct mu_resource *variable = handle_variable(call);

    return variable && variable_descend(call, variable, call->in[1].tensor, call->in[2].tensor) ? MU_RUN_DONE
                                                                                                : MU_RUN_FAILED;
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
