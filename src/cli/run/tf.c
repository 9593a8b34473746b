/*
 * cli/run/tf.c: what `muster run` and `muster serve` say of TensorFlow's master.
 */
#include "cli/run/tf.h"

#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* Whether the name at `job` stands before it in `list`, too. */
static int job_is_repeated(const char *list, const char *job, size_t len)
{
    for (; list < job; list += strcspn(list, ",") + 1)
        if (strncmp(list, job, len) == 0 && list[len] == ':')
            return 1;
    return 0;
}

/* "ps:1,worker:2": names of TensorFlow's jobs, each once, with numbers. */
static int jobs_are_well(const char *list)
{
    uint64_t number;

    for (const char *job = list;;) {
        size_t len = strcspn(job, ","), name = strspn(job, NAME_CHARACTERS);
        char digits[16] = "";

        if (job[name] == ':' && len - name - 1 < sizeof digits)
            memcpy(digits, job + name + 1, len - name - 1);
        if (name == 0 || name > 100 || strchr("0123456789_", job[0]) || job_is_repeated(list, job, name) ||
            mu_cli_parse_unsigned(digits, MU_AGENT_TASKS_MAX, &number) || number == 0)
            return 0;
        if (!job[len])
            return 1;
        job += len + 1;
    }
}

int mu_cli_take_tf(const struct mu_cli_call *call, struct mu_agent_tf *tf, struct mu_agent_options *options)
{
    static const enum mu_cli_option_id others[] = {MU_OPT_TF_JOBS, MU_OPT_LIBTENSORFLOW, MU_OPT_TF_WORKERS,
                                                   MU_OPT_TF_INSECURE};
    const char *address = call->values[MU_OPT_TF_MASTER];

    for (size_t i = 0; !address && i < sizeof others / sizeof others[0]; i++)
        for (const struct mu_cli_option *o = call->verb->options; call->values[others[i]] && o->name; o++)
            if (o->id == others[i])
                return mu_cli_usage(call, "--%s needs --tf-master", o->name);
    if (!address)
        return 0;
    *tf = (struct mu_agent_tf){
        .address = *address ? address : MU_CLI_TF_ADDRESS,
        .workers = call->values[MU_OPT_TF_WORKERS],
        .jobs = call->values[MU_OPT_TF_JOBS],
        .libtensorflow = call->values[MU_OPT_LIBTENSORFLOW],
        .insecure = call->values[MU_OPT_TF_INSECURE] != NULL,
    };
    if (tf->libtensorflow && strcmp(tf->libtensorflow, "none") == 0)
        tf->own_kernels = 1;
    if (tf->jobs && !jobs_are_well(tf->jobs))
        return mu_cli_usage(
            call,
            "--tf-jobs reads NAME:TASKS,..., as in ps:1,worker:2, each name once, of letters, digits and "
            "_, not '%.60s'",
            tf->jobs);
    if (tf->workers && !*tf->workers)
        return mu_cli_usage(call, "--tf-workers wants HOST:PORT,... of TensorFlow's servers");
    if (tf->workers && tf->own_kernels)
        return mu_cli_usage(call, "--tf-workers and --libtensorflow none exclude each other: muster's own kernels run "
                                  "where there are no servers");
    options->tf = tf;
    return 0;
}

int mu_cli_check_tf(const struct mu_cli_call *call, const struct mu_agent_options *options)
{
    if (options->tf && options->survive)
        return mu_cli_usage(call, "--survive and --tf-master exclude each other: the master ends with the launcher");
    if (options->tf && options->hosts)
        return mu_cli_usage(call, "--tf-master is for one host; for several say 'muster serve --tf-master "
                                  "--tf-workers', with a 'muster executor' on each");
    return 0;
}
