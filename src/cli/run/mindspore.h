/* cli/run/mindspore.h: what `muster run` and `muster serve` say of MindSpore's scheduler, from words to agent/agent.h.
 */
#ifndef MU_CLI_RUN_MINDSPORE_H
#define MU_CLI_RUN_MINDSPORE_H

#include "agent/agent.h"
#include "cli/cli.h"

#define MU_CLI_MINDSPORE_ADDRESS "127.0.0.1:0"
#define MU_CLI_MINDSPORE_REST    "127.0.0.1:11202"

/* Take it. Without --mindspore: options->mindspore stays NULL. 0, or 2 with a complaint printed. */
int mu_cli_take_mindspore(const struct mu_cli_call *call, struct mu_agent_mindspore *mindspore,
                          struct mu_agent_options *options);
/* How many nodes MindSpore's own variables say; 0: they do not. */
uint32_t mu_cli_mindspore_tasks(void);
/* With the number of tasks known; a command's own variables may not say where else the scheduler is. */
int mu_cli_check_mindspore(const struct mu_cli_call *call, const struct mu_agent_options *options);

#define MU_CLI_MINDSPORE_OPTIONS                                                                                       \
    {MU_OPT_MINDSPORE, 0,    "mindspore",                                                                              \
     "[=ADDR]",        NULL, "serve MindSpore's scheduler at ADDR, as in :8118 (default 127.0.0.1:0)"},                \
        {MU_OPT_SERVERS, 0, "servers", "S", NULL, "with --mindspore: the first S tasks are servers (default 0)"},      \
        {MU_OPT_MINDSPORE_REST,                                                                                        \
         0,                                                                                                            \
         "mindspore-rest",                                                                                             \
         "[=ADDR]",                                                                                                    \
         NULL,                                                                                                         \
         "serve its paths of HTTP there, too (default 127.0.0.1:11202)"},                                              \
        {MU_OPT_MINDSPORE_SCALING,                                                                                     \
         0,                                                                                                            \
         "mindspore-scale-timeout",                                                                                    \
         "D",                                                                                                          \
         NULL,                                                                                                         \
         "a scaling that is not done by then goes back (default 1m)"},                                                 \
        {MU_OPT_MINDSPORE_DIALECT, 0,                                                                                  \
         "mindspore-dialect",      "WHAT",                                                                             \
         mu_cli_mindspore_dialect, "RPC0's of MindSpore to 2.7.0: old, since 2.7.2: new; auto (default)"},             \
    {                                                                                                                  \
        MU_OPT_MINDSPORE_INSECURE, 0, "mindspore-insecure", NULL, NULL, "serve it to other machines, too"              \
    }

extern mu_cli_words mu_cli_mindspore_dialect;

#endif
