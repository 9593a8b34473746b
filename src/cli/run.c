/*
 * cli/run.c: `muster run`: from words to agent/agent.h, which does the work.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "launch/launch.h"

#define GRACE_NS 5000000000ull

/* --env applies to the launcher itself, from which the tasks inherit: so it also decides their PATH. */
static int take_env(struct mu_cli_call *call)
{
    for (char **env = call->env; *env; env++) {
        char *equals = strchr(*env, '=');

        if (!equals || equals == *env)
            return mu_cli_usage(call, "'%s' is not NAME=VALUE", *env);
        if (mu_launch_env_is_ours(*env, (size_t)(equals - *env)))
            return mu_cli_usage(call, "%.*s is set by muster itself", (int)(equals - *env), *env);
        if (putenv(*env))
            abort();
    }
    return 0;
}

static int take_kill_on_fail(struct mu_cli_call *call, int *ret_keep_going)
{
    const char *text = call->values[MU_OPT_KILL_ON_FAIL];

    if (!text || !*text || strcmp(text, "yes") == 0)
        return 0;
    if (strcmp(text, "no") != 0)
        return mu_cli_usage(call, "--kill-on-fail is yes or no, not '%s'", text);
    *ret_keep_going = 1;
    return 0;
}

static int run_run(struct mu_cli_call *call)
{
    struct mu_agent_options options = {
        .job = call->values[MU_OPT_JOB],
        .argv = call->operands,
        .directory = call->values[MU_OPT_CHDIR],
        .label = call->values[MU_OPT_LABEL] != NULL,
        .memfd = call->values[MU_OPT_MEMFD] != NULL,
        .grace_ns = GRACE_NS,
    };
    uint64_t num_tasks = 1;
    int code;

    if (options.job && !mu_cli_valid_job(options.job))
        return mu_cli_usage(call, "'%.60s%s' is no job name: 1 to 200 of A-Z a-z 0-9 . _ -, not beginning with '.'",
                            options.job, strlen(options.job) > 60 ? "..." : "");
    if (call->values[MU_OPT_NUM] &&
        (mu_cli_parse_unsigned(call->values[MU_OPT_NUM], MU_AGENT_TASKS_MAX, &num_tasks) || num_tasks == 0))
        return mu_cli_usage(call, "'%s' is no number of tasks from 1 to %u", call->values[MU_OPT_NUM],
                            MU_AGENT_TASKS_MAX);
    options.num_tasks = (uint32_t)num_tasks;
    code = mu_cli_duration(call, MU_OPT_TIMEOUT, &options.timeout_ns);
    if (!code)
        code = mu_cli_duration(call, MU_OPT_GRACE, &options.grace_ns);
    if (!code)
        code = mu_cli_duration(call, MU_OPT_HEARTBEAT_TIMEOUT, &options.heartbeat_timeout_ns);
    if (!code)
        code = mu_cli_size(call, MU_OPT_HEAP, &options.heap_bytes);
    if (!code)
        code = take_kill_on_fail(call, &options.keep_going);
    if (!code)
        code = take_env(call);
    return code ? code : mu_agent_run(&options);
}

static const struct mu_cli_option run_options[] = {
    {MU_OPT_NUM, 'n', "num-tasks", "N", "start N tasks, 1 to 4096 (default 1)"},
    {MU_OPT_JOB, 0, "job", "NAME", "name the job (default: run-<pid>-<random>)"},
    {MU_OPT_LABEL, 'l', "label", NULL, "put \"[task] \" before every line of output"},
    {MU_OPT_TIMEOUT, 0, "timeout", "D", "end the job after D, with status 124"},
    {MU_OPT_KILL_ON_FAIL, 0, "kill-on-fail", "[=no]", "a failing task ends the job at once (default), or does not"},
    {MU_OPT_GRACE, 0, "grace", "D", "from SIGTERM to SIGKILL when the job is ended (default 5s)"},
    {MU_OPT_ENV, 0, "env", "K=V", "set a variable for the tasks; may be repeated"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", "start the tasks in DIR"},
    {MU_OPT_HEAP, 0, "heap", "SIZE", "address space of the segment's heap (default 1G)"},
    {MU_OPT_HEARTBEAT_TIMEOUT, 0, "heartbeat-timeout", "D", "a task silent for D is in error (default 10s)"},
    {MU_OPT_MEMFD, 0, "memfd", NULL, "keep the segment in a memfd instead of /dev/shm"},
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_run = {
    .name = "run",
    .operands = "[--] COMMAND [ARGUMENT]...",
    .summary = "Run a job: start N tasks and supervise them to their end",
    .options = run_options,
    .min = 1,
    .max = -1,
    .is_command = 1,
    .run = run_run,
};
