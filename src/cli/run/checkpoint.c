/*
 * cli/run/checkpoint.c: what `muster run` says of checkpoints on a disk.
 */
#include "cli/run/checkpoint.h"

int mu_cli_take_checkpoint(const struct mu_cli_call *call, struct mu_agent_checkpoint *checkpoint,
                           struct mu_agent_options *options)
{
    uint64_t every = MU_AGENT_CHECKPOINT_EVERY, keep = MU_AGENT_CHECKPOINT_KEEP;
    int code = mu_cli_unsigned(call, MU_OPT_CHECKPOINT_EVERY, MU_AGENT_CHECKPOINT_EVERY_MAX, &every);

    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_CHECKPOINT_KEEP, MU_AGENT_CHECKPOINT_KEEP_MAX, &keep);
    if (code)
        return code;
    checkpoint->dir = call->values[MU_OPT_CHECKPOINT_DIR];
    if (!checkpoint->dir && (call->values[MU_OPT_CHECKPOINT_EVERY] || call->values[MU_OPT_CHECKPOINT_KEEP]))
        return mu_cli_usage(call, "--checkpoint-%s needs --checkpoint-dir DIR",
                            call->values[MU_OPT_CHECKPOINT_EVERY] ? "every" : "keep");
    if (!checkpoint->dir)
        return 0;
    if (!*checkpoint->dir || !every || !keep)
        return mu_cli_usage(call, "--checkpoint-%s",
                            !*checkpoint->dir ? "dir is empty: say a folder"
                            : !every          ? "every 0: 1 is each generation"
                                              : "keep 0: 1 keeps the newest");
    if (call->values[MU_OPT_HOSTS] || call->values[MU_OPT_HOSTFILE])
        return mu_cli_usage(call, "--checkpoint-dir and --hosts exclude each other: each host has only the parts of "
                                  "its own tasks, and a generation on a disk has all of them");
    if (call->values[MU_OPT_LIVE])
        return mu_cli_usage(call,
                            "--checkpoint-dir and --live exclude each other: a checkpoint is of a fixed number of "
                            "ranks, and a live job has none");
    checkpoint->every = (uint32_t)every;
    checkpoint->keep = (uint32_t)keep;
    options->checkpoint = checkpoint;
    return 0;
}
