/* cli/run/elastic.h: what `muster run` says of a job with a number of tasks that changes. */
#ifndef MU_CLI_RUN_ELASTIC_H
#define MU_CLI_RUN_ELASTIC_H

#include "cli/run/run.h"

/* Take it. Without --elastic: options->elastic stays NULL. 0, or 2 with a complaint printed. */
int mu_cli_take_elastic(const struct mu_cli_call *call, struct mu_agent_elastic *elastic,
                        struct mu_agent_options *options);
/* With the commands known: they have as many tasks as such a job may have. */
int mu_cli_check_elastic(const struct mu_cli_call *call, const struct mu_agent_options *options,
                         struct mu_cli_apps *apps);

extern mu_cli_words mu_cli_on_failure;

#define MU_CLI_ELASTIC_OPTIONS                                                                                         \
    {MU_OPT_ELASTIC, 0, "elastic", "MIN:MAX", NULL, "a lost task does not end the job, nor does 'muster scale'"},      \
        {MU_OPT_LIVE, 0,    "live",                                                                                    \
         NULL,        NULL, "with --elastic: programs wait for each epoch, and those that stay run on"},               \
    {                                                                                                                  \
        MU_OPT_ON_FAILURE, 0, "on-failure", "WHAT", mu_cli_on_failure,                                                 \
            "with --elastic, of a lost task: shrink (default), replace, restart, end"                                  \
    }

#endif
