/*
 * cli/run/ray.c: what `muster run` and `muster serve` say of Ray's protocol of 2016.
 */
#include "cli/run/ray.h"

int mu_cli_take_ray(const struct mu_cli_call *call, struct mu_agent_ray *ray, struct mu_agent_options *options)
{
    const char *address = call->values[MU_OPT_RAY];
    int insecure = call->values[MU_OPT_RAY_INSECURE] != NULL;

    if (!address)
        return insecure ? mu_cli_usage(call, "--ray-insecure needs --ray") : 0;
    *ray = (struct mu_agent_ray){.address = *address ? address : MU_CLI_RAY_ADDRESS, .insecure = insecure};
    options->ray = ray;
    return 0;
}
