/* cli/run/tf.h: what `muster run` and `muster serve` say of TensorFlow's master, from words to agent/agent.h. */
#ifndef MU_CLI_RUN_TF_H
#define MU_CLI_RUN_TF_H

#include "agent/agent.h"
#include "cli/cli.h"

#define MU_CLI_TF_ADDRESS "127.0.0.1:2222" /* the port of TensorFlow's examples */

/* Take it. Without --tf-master options->tf stays NULL. 0, or 2 with a complaint printed. */
int mu_cli_take_tf(const struct mu_cli_call *call, struct mu_agent_tf *tf, struct mu_agent_options *options);

/* Of `muster run`, once all else is known: likewise. */
int mu_cli_check_tf(const struct mu_cli_call *call, const struct mu_agent_options *options);

#define MU_CLI_TF_OPTIONS                                                                                              \
    {MU_OPT_TF_MASTER, 0, "tf-master", "[=ADDR]", NULL, "be TensorFlow's master at ADDR (default 127.0.0.1:2222)"},    \
        {MU_OPT_TF_JOBS, 0, "tf-jobs", "LIST", NULL, "its tasks' names, as in ps:1,worker:2 (default: worker:N)"},     \
        {MU_OPT_LIBTENSORFLOW, 0,                                                                                      \
         "libtensorflow",      "PATH",                                                                                 \
         mu_cli_files,         "TensorFlow's library, or its package's folder (default: python3's)"},                  \
    {                                                                                                                  \
        MU_OPT_TF_INSECURE, 0, "tf-insecure", NULL, NULL, "serve it to other machines, too"                            \
    }

#endif
