/*
 * cli/run/serve.c: `muster serve`: the coordination service, PyTorch's store, schedulers of MindSpore and Ray, for
 * tasks that somebody else starts, on any host.
 */
#include <string.h>
#include <unistd.h>

#include "agent/hosts/hosts.h"
#include "cli/run/grpc.h"
#include "cli/run/mindspore.h"
#include "cli/run/ray.h"
#include "cli/run/run.h"
#include "cli/run/tcpstore.h"
#include "cli/run/tf.h"

static int print_json;
static const struct mu_cli_call *serving;

/* The first lines of stdout, for the program that starts the clients. */
static void ready_lines_print(const char *job, const struct mu_agent_addresses *at)
{
    struct mu_cli_json json;

    if (print_json) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "job", job);
        if (at->grpc)
            mu_cli_json_text(&json, "address", at->grpc);
        if (at->tcpstore)
            mu_cli_json_text(&json, "tcpstore", at->tcpstore);
        if (at->mindspore)
            mu_cli_json_text(&json, "mindspore", at->mindspore);
        if (at->ray)
            mu_cli_json_text(&json, "ray", at->ray);
        if (at->tf)
            mu_cli_json_text(&json, "tf", at->tf);
        mu_cli_json_unsigned(&json, "pid", (uint64_t)getpid());
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        if (at->grpc)
            puts(at->grpc);
        if (at->tcpstore)
            puts(at->tcpstore);
        if (at->mindspore)
            puts(at->mindspore);
        if (at->ray)
            puts(at->ray);
        if (at->tf)
            puts(at->tf);
    }
    mu_cli_finish(serving, 0);
}

/* "worker:2,ps:1": what the service reads; here only whether it is as many as --tasks, which then need not be said. */
static int count_jobs(const struct mu_cli_call *call, const char *jobs, uint64_t *ret_count)
{
    const char *at = jobs;
    uint64_t number;

    *ret_count = 0;
    for (;;) {
        size_t len = strcspn(at, ","), name = strcspn(at, ":,");
        char digits[16] = "";

        if (name < len && len - name - 1 < sizeof digits)
            memcpy(digits, at + name + 1, len - name - 1);
        if (name == 0 || mu_cli_parse_unsigned(digits, MU_AGENT_TASKS_MAX, &number) || number == 0)
            return mu_cli_usage(call, "--jobs reads NAME:TASKS,..., as in worker:2,ps:1, not '%.60s'", jobs);
        *ret_count += number;
        if (!at[len])
            return 0;
        at += len + 1;
    }
}

/* is_free: no client of what is served needs a number in the job. */
static int serve_take_tasks(const struct mu_cli_call *call, const char *jobs, bool is_free, uint32_t *ret_tasks)
{
    const char *text = call->values[MU_OPT_TASKS];
    uint64_t number = is_free, counted = 0;
    int code = jobs ? count_jobs(call, jobs, &counted) : 0;

    if (code)
        return code;
    if (!text && !jobs && !is_free)
        return mu_cli_usage(call, "say --tasks N: no client tells how many there are");
    if (text && (mu_cli_parse_unsigned(text, MU_AGENT_TASKS_MAX, &number) || number == 0))
        return mu_cli_wrong(call, MU_OPT_TASKS, text, "is no number of tasks from 1 to %u", MU_AGENT_TASKS_MAX);
    if (text && jobs && number != counted)
        return mu_cli_usage(call, "--tasks %llu, but --jobs %s are %llu", (unsigned long long)number, jobs,
                            (unsigned long long)counted);
    number = text || is_free ? number : counted;
    if (number > MU_AGENT_TASKS_MAX)
        return mu_cli_usage(call, "--jobs %s are more than %u tasks", jobs, MU_AGENT_TASKS_MAX);
    *ret_tasks = (uint32_t)number;
    return 0;
}

static int serve_run(struct mu_cli_call *call)
{
    struct mu_agent_grpc grpc = {.address = NULL};
    struct mu_agent_tcpstore store = {.address = NULL};
    struct mu_agent_ray ray = {.address = NULL};
    struct mu_agent_mindspore mindspore = {.address = NULL};
    struct mu_agent_tf tf = {.address = NULL};
    struct mu_agent_options options = {.job = call->values[MU_OPT_JOB], .stdin_to = MU_AGENT_STDIN_NONE};
    int code;

    code = mu_cli_take_grpc(call, &grpc, &options);
    grpc.jobs = call->values[MU_OPT_JOBS];
    grpc.once = call->values[MU_OPT_ONCE] != NULL;
    if (!code)
        code = mu_cli_take_tcpstore(call, &store, &options);
    if (!code)
        code = mu_cli_take_mindspore(call, &mindspore, &options);
    mindspore.once = grpc.once && !options.grpc;
    if (!code)
        code = mu_cli_take_ray(call, &ray, &options);
    if (!code)
        code = mu_cli_take_tf(call, &tf, &options);
    if (!code && !options.grpc && (grpc.jobs || (grpc.once && !options.mindspore)))
        code = mu_cli_usage(call, "--%s with --%s needs --grpc: it is about that", grpc.jobs ? "jobs" : "once",
                            options.tcpstore    ? "tcpstore"
                            : options.mindspore ? "mindspore"
                                                : "ray");
    if (!code && options.mindspore && !call->values[MU_OPT_TASKS] && mu_cli_mindspore_tasks())
        options.num_tasks = mu_cli_mindspore_tasks();
    else if (!code)
        code = serve_take_tasks(call, grpc.jobs,
                                (options.ray || options.tf) && !options.grpc && !options.tcpstore && !options.mindspore,
                                &options.num_tasks);
    if (!code)
        code = mu_cli_check_mindspore(call, &options);
    tf.own_kernels = !tf.workers;
    if (!code)
        code = mu_cli_take_segment(call, options.num_tasks, &options);
    if (!code)
        code = mu_cli_take_end(call, &options); /* the metrics' address */
    if (code)
        return code;
    print_json = call->values[MU_OPT_JSON] != NULL;
    serving = call;
    mu_agent_call_me("muster serve");
    return mu_agent_serve(&options, ready_lines_print);
}

static const struct mu_cli_option serve_options[] = {
    {MU_OPT_TASKS, 'n', "tasks", "N", NULL, "how many tasks the job has"},
    {MU_OPT_JOBS, 0, "jobs", "LIST", NULL, "the names of TensorFlow's jobs, as in worker:2,ps:1"},
    {MU_OPT_GRPC, 0, "grpc", "ADDR", NULL,
     "serve at ADDR, as in :4711, 10.0.0.1:4711, unix:PATH (default 127.0.0.1:0)"},
    {MU_OPT_JOB, 0, "job", "NAME", NULL, "name the job (default: serve-<pid>-<random>)"},
    {MU_OPT_ONCE, 0, "once", NULL, NULL, "end when all tasks have shut down"},
    MU_CLI_GRPC_OPTIONS,
    MU_CLI_TCPSTORE_OPTIONS,
    MU_CLI_RAY_OPTIONS,
    MU_CLI_MINDSPORE_OPTIONS,
    MU_CLI_TF_OPTIONS,
    {MU_OPT_TF_WORKERS, 0, "tf-workers", "LIST", NULL, "the servers that it drives, at HOST:PORT,..."},
    MU_CLI_METRICS,
    MU_CLI_SEGMENT_OPTIONS,
    MU_CLI_JSON,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_serve = {
    .name = "serve",
    .operands = "",
    .summary =
        "Serve JAX's and TensorFlow's coordination, PyTorch's store, schedulers of MindSpore and Ray, to tasks that "
        "others start",
    .options = serve_options,
    .run = serve_run,
};
