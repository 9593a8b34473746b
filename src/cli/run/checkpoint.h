/* cli/run/checkpoint.h: checkpoints on a disk: `muster run`'s options. */
#ifndef MU_CLI_RUN_CHECKPOINT_H
#define MU_CLI_RUN_CHECKPOINT_H

#include "cli/run/run.h"

#define MU_CLI_CHECKPOINT_OPTIONS                                                                                      \
    {MU_OPT_CHECKPOINT_DIR, 0,                                                                                         \
     "checkpoint-dir",      "DIR",                                                                                     \
     mu_cli_folders,        "write checkpoints in memory to DIR, too, and read the newest back at the start"},         \
        {MU_OPT_CHECKPOINT_EVERY, 0, "checkpoint-every", "K", NULL, "write each K-th generation (default 1)"},         \
    {                                                                                                                  \
        MU_OPT_CHECKPOINT_KEEP, 0, "checkpoint-keep", "N", NULL, "keep the newest N of each name there (default 3)"    \
    }

/* What is said of it, and what is said wrongly: 0, or 2 with a complaint printed. */
int mu_cli_take_checkpoint(const struct mu_cli_call *call, struct mu_agent_checkpoint *checkpoint,
                           struct mu_agent_options *options);

#endif
