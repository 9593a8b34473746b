/*
 * cli/run/tcpstore.c: what `muster run`, `muster agent` and `muster serve` say of PyTorch's store.
 */
#include "cli/run/tcpstore.h"

#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"

/* What the user wants of every launch. NULL: nothing. */
static const char *tcpstore_always(void)
{
    static const char *const no[] = {"", "0", "no"}, *const yes[] = {"1", "yes"};
    const char *text = getenv("MUSTER_TCPSTORE");

    for (size_t i = 0; text && i < sizeof no / sizeof no[0]; i++)
        if (strcmp(text, no[i]) == 0)
            return NULL;
    for (size_t i = 0; text && i < sizeof yes / sizeof yes[0]; i++)
        if (strcmp(text, yes[i]) == 0)
            return "";
    return text;
}

int mu_cli_take_tcpstore(const struct mu_cli_call *call, struct mu_agent_tcpstore *store,
                         struct mu_agent_options *options)
{
    const char *address = call->values[MU_OPT_TCPSTORE];
    int insecure = call->values[MU_OPT_TCPSTORE_INSECURE] != NULL;

    if (!address && call->verb->is_command)
        address = tcpstore_always();
    if (!address)
        return insecure ? mu_cli_usage(call, "--tcpstore-insecure needs --tcpstore") : 0;
    *store = (struct mu_agent_tcpstore){.address = *address ? address : MU_CLI_TCPSTORE_ADDRESS, .insecure = insecure};
    options->tcpstore = store;
    return 0;
}

int mu_cli_check_tcpstore(const struct mu_cli_call *call, const struct mu_agent_options *options)
{
    for (uint32_t i = 0; options->tcpstore && i < options->num_apps; i++)
        for (char *const *env = options->apps[i].env; env && *env; env++)
            if (mu_launch_env_is_stores(*env, strcspn(*env, "=")))
                return mu_cli_usage(call,
                                    "--tcpstore and --env %.*s exclude each other: the launcher says where the "
                                    "store is",
                                    (int)strcspn(*env, "="), *env);
    return 0;
}
