/* cli/run/workers.h: what `muster run` says of workers, from words to agent/agent.h. */
#ifndef MU_CLI_RUN_WORKERS_H
#define MU_CLI_RUN_WORKERS_H

#include "agent/agent.h"
#include "cli/cli.h"

#include <muster/schedule.h>

enum { MU_CLI_WORKER_WORDS = 64 };

struct mu_cli_workers {
    char *text; /* the command's words, malloc()ed */
    char *argv[MU_CLI_WORKER_WORDS + 1];
    char *names, units[MUSTER_RESOURCE_TEXT]; /* of the resources, malloc()ed; of GPU */
    struct mu_agent_resource resources[MUSTER_RESOURCES_MAX];
};

/* Take them; `workers` lives as long as the options. 0, or 2 with a complaint printed. */
int mu_cli_take_workers(const struct mu_cli_call *call, struct mu_cli_workers *workers,
                        struct mu_agent_options *options);

void mu_cli_workers_done(struct mu_cli_workers *workers);

#define MU_CLI_WORKERS_OPTIONS                                                                                         \
    {MU_OPT_WORKERS, 0, "workers", "N", NULL, "start N workers beside the tasks, which run what these call"},          \
        {MU_OPT_WORKER_RESOURCES,                                                                                      \
         0,                                                                                                            \
         "resources",                                                                                                  \
         "LIST",                                                                                                       \
         NULL,                                                                                                         \
         "what calls in workers may ask for: 'GPU=2,disk=1.5' (default 'CPU=N', of N workers)"},                       \
    {                                                                                                                  \
        MU_OPT_WORKER_COMMAND, 0, "worker-command", "CMD", mu_cli_commands,                                            \
            "what a worker is (default 'muster worker'; of Python 'python3 -m muster.worker')"                         \
    }

#endif
