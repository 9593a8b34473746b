/*
 * kernel/call.c: what a kernel says of its run: an error, an output; and the small numbers that it is given.
 */
#include "kernel/private.h"

#include <stdarg.h>
#include <stdio.h>

enum mu_run mu_run_fail(struct mu_kernel_call *call, enum muster_status status, const char *format, ...)
{
    char text[sizeof call->error.text];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mu_kernel_fail(&call->error, status, "%s", text);
    return MU_RUN_FAILED;
}

enum mu_run mu_run_give_up(struct mu_kernel_call *call)
{
    return mu_run_fail(call, MUSTER_CANCELLED, "Step was cancelled");
}

struct mu_tensor *mu_run_output(struct mu_kernel_call *call, uint32_t output, unsigned dtype,
                                const struct mu_dims *shape)
{
    call->out[output].tensor = mu_tensor_new(call->node->graph->home.memory, dtype, shape, &call->error);
    return call->out[output].tensor;
}

bool mu_run_numbers(struct mu_kernel_call *call, uint32_t input, const char *what, uint32_t most, int64_t *ret,
                    uint32_t *ret_count)
{
    const struct mu_tensor *tensor = call->in[input].tensor;

    if (tensor->shape.rank > 1 || tensor->count > most)
        return mu_kernel_fail(&call->error, MUSTER_INVALID_ARGUMENT, "%s must be a vector of %u elements at most", what,
                              most);
    for (size_t k = 0; k < tensor->count; k++)
        ret[k] = tensor->dtype == MU_INT32 ? tensor->i[k] : tensor->l[k];
    *ret_count = (uint32_t)tensor->count;
    return true;
}
