/* cli/run/ray.h: what `muster run` and `muster serve` say of Ray's protocol of 2016, from words to agent/agent.h. */
#ifndef MU_CLI_RUN_RAY_H
#define MU_CLI_RUN_RAY_H

#include "agent/agent.h"
#include "cli/cli.h"

#define MU_CLI_RAY_ADDRESS "127.0.0.1:10001" /* the first port of that system's schedulers */

/* Take it. Without --ray options->ray stays NULL. 0, or 2 with a complaint printed. */
int mu_cli_take_ray(const struct mu_cli_call *call, struct mu_agent_ray *ray, struct mu_agent_options *options);

#define MU_CLI_RAY_OPTIONS                                                                                             \
    {MU_OPT_RAY, 0,    "ray",                                                                                          \
     "[=ADDR]",  NULL, "be the scheduler of Ray's protocol of 2016 at ADDR (default 127.0.0.1:10001)"},                \
    {                                                                                                                  \
        MU_OPT_RAY_INSECURE, 0, "ray-insecure", NULL, NULL, "serve it to other machines, too"                          \
    }

#endif
