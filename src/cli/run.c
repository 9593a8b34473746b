/*
 * cli/run.c: `muster run` and `muster agent`: from words to agent/agent.h, which does the work.
 *
 * "muster run [OPTION]... COMMAND... : [-n N] [--env K=V] [--chdir DIR] COMMAND...": a lone ':' with something behind
 * it begins another command, whose tasks follow in number. What is said before the first command holds for all, but -n;
 * what is said behind a ':' for that command alone.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/metrics_address.h"
#include "cli/picture.h"
#include "launch/bind.h"
#include "launch/gpu.h"
#include "launch/launch.h"
#include "segment/format.h"

#define GRACE_NS         5000000000ull
#define RESTART_DELAY_NS 1000000000ull
#define TRACE_EVENTS     4096u
#define TRACE_EVENTS_MAX (1u << 20)

#define MU_GPUS_PER_TASK_MAX 1024u

/* ---- the commands of a job -------------------------------------------------------------------------------------- */

struct apps {
    struct mu_agent_app *list;
    struct mu_cli_call **calls; /* of the commands behind a ':', whose words they hold */
    uint32_t num_calls;
    uint32_t count, num_tasks;
    struct mu_launch_machine *machine; /* loaded when first needed */
    struct mu_launch_gpus *gpus;       /* the same */
    uint32_t gpus_per_task;            /* 0: not given */
    int dry_run;
};

static int check_env(const struct mu_cli_call *call, char *const *env)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');

        if (!equals || equals == *env)
            return mu_cli_usage(call, "'%s' is not NAME=VALUE", *env);
        if (mu_launch_env_is_ours(*env, (size_t)(equals - *env)))
            return mu_cli_usage(call, "%.*s is set by muster itself", (int)(equals - *env), *env);
    }
    return 0;
}

/* Two lists of words as one, malloc()ed; the words themselves are shared. */
static char **joined(char *const *first, char *const *second)
{
    size_t count = 0, n = 0;
    char **all;

    for (char *const *at = first; *at; at++)
        count++;
    for (char *const *at = second; at && *at; at++)
        count++;
    all = calloc(count + 1, sizeof *all);
    if (!all)
        abort();
    for (char *const *at = first; *at; at++)
        all[n++] = *at;
    for (char *const *at = second; at && *at; at++)
        all[n++] = *at;
    return all;
}

/* A machine that hwloc is shown instead of this one. */
static int refuse_foreign(const struct apps *apps, const struct mu_cli_call *call)
{
    const char *foreign = apps->machine ? mu_launch_machine_foreign(apps->machine) : NULL;

    if (!foreign && apps->gpus)
        foreign = apps->gpus->foreign;

    if (!foreign || apps->dry_run)
        return 0;
    return mu_cli_usage(call, "%s shows another machine than this one: only --dry-run can use it", foreign);
}

static int no_number(const struct mu_cli_call *call, const char *text)
{
    static const char *const words[] = {"auto", "gpu", "core", "l3", "numa", "package", "hwthread"};
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT];

    mu_cli_guess_start(&guess, text, strlen(text));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        mu_cli_guess_see(&guess, words[i]);
    return mu_cli_usage(
        call, "'%.300s' is no number of tasks from 1 to %u, nor auto, gpu, core, l3, numa, package, hwthread%s", text,
        MU_AGENT_TASKS_MAX, mu_cli_did_you_mean(&guess, "'", "'", meant));
}

static int counts_gpus(const char *text)
{
    return strcmp(text, "gpu") == 0 || strcmp(text, "auto") == 0;
}

static int take_number(const struct mu_cli_call *call, struct apps *apps, uint32_t *ret_number)
{
    const char *text = call->values[MU_OPT_NUM];
    uint64_t number = 1;
    char why[400];

    if (text && mu_launch_is_count(text)) {
        if (mu_launch_count(text, &apps->machine, &apps->gpus, ret_number, why, sizeof why) == 0) {
            if (apps->gpus_per_task && counts_gpus(text) && apps->gpus && apps->gpus->count >= apps->gpus_per_task)
                *ret_number /= apps->gpus_per_task;
            return refuse_foreign(apps, call);
        }
        fprintf(stderr, "%s: -n %s: %s\n", call->path, text, why);
        return MU_AGENT_EXIT_FAILED;
    }
    if (text && (mu_cli_parse_unsigned(text, MU_AGENT_TASKS_MAX, &number) || number == 0))
        return no_number(call, text);
    *ret_number = (uint32_t)number;
    return 0;
}

/* Add the command that `call` holds; `common`: the call of the whole job. Its argv ends at the ':' or the end. */
static int add_app(struct apps *apps, const struct mu_cli_call *common, const struct mu_cli_call *call, char **argv)
{
    struct mu_agent_app *app;
    int code;

    if (!argv[0] || strcmp(argv[0], ":") == 0)
        return mu_cli_usage(common, "at a ':' a command is missing");

    apps->list = realloc(apps->list, (apps->count + 1) * sizeof *apps->list);
    if (!apps->list)
        abort();
    app = &apps->list[apps->count++];
    *app = (struct mu_agent_app){.argv = argv, .directory = common->values[MU_OPT_CHDIR]};
    if (call->values[MU_OPT_CHDIR])
        app->directory = call->values[MU_OPT_CHDIR];
    code = take_number(call, apps, &app->num_tasks);
    if (!code)
        code = check_env(call, call->env);
    if (code)
        return code;
    app->env = joined(common->env, call == common ? NULL : call->env);
    apps->num_tasks += app->num_tasks;
    if (apps->num_tasks > MU_AGENT_TASKS_MAX)
        return mu_cli_usage(common, "%u tasks are too many: %u at most", apps->num_tasks, MU_AGENT_TASKS_MAX);
    return 0;
}

/* The ':' that ends this command and begins another; or its end. "\:" stands for a plain ':'. */
static char **end_of_command(char **argv)
{
    char **at = argv;

    for (; *at; at++) {
        if (strcmp(*at, ":") == 0 && at[1] && at > argv)
            return at;
        if (strcmp(*at, "\\:") == 0)
            ++*at;
    }
    return at;
}

static void free_apps(struct apps *apps)
{
    for (uint32_t i = 0; i < apps->count; i++)
        free((void *)apps->list[i].env);
    for (uint32_t i = 0; i < apps->num_calls; i++) {
        free(apps->calls[i]->operands);
        free(apps->calls[i]->env);
        free(apps->calls[i]);
    }
    mu_launch_machine_free(apps->machine);
    mu_launch_gpus_free(apps->gpus);
    free(apps->calls);
    free(apps->list);
}

static const struct mu_cli_option app_options[] = {
    {MU_OPT_NUM, 'n', "num-tasks", "N", "start N tasks of this command"},
    {MU_OPT_ENV, 0, "env", "K=V", "set a variable for them"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", "start them in DIR"},
    MU_CLI_END,
};

static const struct mu_cli_verb app_verb = {
    .name = "run", .operands = "", .options = app_options, .min = 1, .max = -1, .is_command = 1};

static int take_apps(const struct mu_cli_call *call, struct apps *apps)
{
    char **argv = call->operands, **end = end_of_command(argv);
    int more = *end != NULL, code;

    *end = NULL;
    code = add_app(apps, call, call, argv);
    while (!code && more) {
        struct mu_cli_call *next = calloc(1, sizeof *next);
        int argc = 0;

        apps->calls = realloc(apps->calls, (apps->num_calls + 1) * sizeof *apps->calls);
        if (!next || !apps->calls)
            abort();
        apps->calls[apps->num_calls++] = next;
        argv = end + 1;
        next->verb = &app_verb;
        snprintf(next->path, sizeof next->path, "%s", call->path);
        while (argv[argc])
            argc++;
        code = mu_cli_parse(next, argc, argv);
        if (code)
            break;
        if (next->count == 0)
            return mu_cli_usage(call, "at a ':' a command is missing");
        end = end_of_command(next->operands);
        more = *end != NULL;
        *end = NULL;
        code = add_app(apps, call, next, next->operands);
    }
    return code;
}

/* ---- the options of a job --------------------------------------------------------------------------------------- */

/* What run and agent have both: the timeout, the grace, whether a failure ends the job; the metrics' address. */
static int take_end(const struct mu_cli_call *call, struct mu_agent_options *options)
{
    static const char *const answers[] = {"yes", "no", NULL};
    char why[200];
    const char *text = call->values[MU_OPT_KILL_ON_FAIL];
    size_t answer = 0;
    int code = mu_cli_duration(call, MU_OPT_TIMEOUT, &options->timeout_ns);

    if (!code)
        code = mu_cli_duration(call, MU_OPT_GRACE, &options->grace_ns);
    if (!code && text && *text)
        code = mu_cli_choice(call, "--kill-on-fail", text, answers, &answer);
    options->keep_going = answer == 1;
    options->metrics = call->values[MU_OPT_METRICS];
    if (!code && options->metrics &&
        mu_metrics_address_parse(options->metrics, &(struct mu_metrics_address){0}, why, sizeof why))
        code = mu_cli_usage(call, "--metrics: %s", why);
    return code;
}

static int take_stdin(struct mu_cli_call *call, uint32_t num_tasks, int32_t *ret_to)
{
    const char *text = call->values[MU_OPT_STDIN];
    uint64_t task = 0;

    if (!text) {
        *ret_to = 0;
    } else if (strcmp(text, "none") == 0) {
        *ret_to = MU_AGENT_STDIN_NONE;
    } else if (strcmp(text, "all") == 0) {
        *ret_to = MU_AGENT_STDIN_ALL;
    } else {
        if (mu_cli_parse_unsigned(text, num_tasks - 1, &task))
            return mu_cli_usage(call, "--stdin is all, none or a task from 0 to %u, not '%s'", num_tasks - 1, text);
        *ret_to = (int32_t)task;
    }
    return 0;
}

static int take_restarts(struct mu_cli_call *call, struct mu_agent_options *options)
{
    static const char *const policies[] = {"job", "task", NULL};
    const char *policy = call->values[MU_OPT_RESTART_POLICY];
    size_t index = 0;
    uint64_t restarts = 0;
    int code = mu_cli_unsigned(call, MU_OPT_RESTARTS, 1000000, &restarts);

    options->restarts = (uint32_t)restarts;
    if (!code)
        code = mu_cli_duration(call, MU_OPT_RESTART_DELAY, &options->restart_delay_ns);
    if (code)
        return code;
    if (policy && (code = mu_cli_choice(call, "--restart-policy", policy, policies, &index)))
        return code;
    options->restart_tasks = index == 1;
    if ((policy || call->values[MU_OPT_RESTART_DELAY]) && !restarts)
        return mu_cli_usage(call, "--restart-%s needs --restarts N", policy ? "policy" : "delay");
    return 0;
}

static int take_output(struct mu_cli_call *call, struct mu_agent_options *options)
{
    char why[160];

    options->output = call->values[MU_OPT_OUTPUT];
    if (options->output && mu_launch_files_check(options->output, options->num_tasks, why, sizeof why))
        return mu_cli_usage(call, "--output %s: %s", options->output, why);
    if (options->survive && options->label)
        return mu_cli_usage(call, "--survive and --label exclude each other: labels are put on by the launcher, which "
                                  "the tasks may outlive (use --output)");
    if (options->survive && options->stdin_to == MU_AGENT_STDIN_ALL)
        return mu_cli_usage(call, "--survive and --stdin all exclude each other: it is copied by the launcher, which "
                                  "the tasks may outlive");
    if (options->survive && options->memfd)
        return mu_cli_usage(call,
                            "--survive and --memfd exclude each other: without a name nobody could adopt the job");
    return 0;
}

static int take_report(struct mu_cli_call *call, struct mu_agent_options *options)
{
    static const char *const forms[] = {"table", "json", NULL};
    const char *form = call->values[MU_OPT_REPORT_BINDINGS];
    size_t index = 0;
    int code = form && *form ? mu_cli_choice(call, "--report-bindings", form, forms, &index) : 0;

    if (!code && form)
        options->report_bindings = index == 1 ? MU_AGENT_REPORT_JSON : MU_AGENT_REPORT_TABLE;
    return code;
}

/* Before the commands are counted: -n gpu is so many tasks. */
static int take_gpus(struct mu_cli_call *call, struct apps *apps)
{
    const char *per_task = call->values[MU_OPT_GPUS_PER_TASK], *bind_to = call->values[MU_OPT_BIND_TO];
    uint64_t number = 0;

    if ((per_task || call->values[MU_OPT_GPU_VISIBILITY]) && (!bind_to || strncmp(bind_to, "gpu", 3) != 0))
        return mu_cli_usage(call, "--%s needs --bind-to gpu", per_task ? "gpus-per-task" : "gpu-visibility");
    if (per_task && (mu_cli_parse_unsigned(per_task, MU_GPUS_PER_TASK_MAX, &number) || number == 0))
        return mu_cli_usage(call, "'%.60s' is no number of GPUs from 1 to %u", per_task, MU_GPUS_PER_TASK_MAX);
    apps->gpus_per_task = (uint32_t)number;
    return 0;
}

/* The commands' own variables may not say otherwise, and other jobs of ours should not have the same GPUs. */
static int check_gpus(struct mu_cli_call *call, struct apps *apps, struct mu_launch_plan *plan)
{
    uint32_t first = 0;
    char why[400];

    for (uint32_t i = 0; i < apps->count; first += apps->list[i++].num_tasks)
        if (mu_launch_gpu_check_env(plan, first, apps->list[i].num_tasks, apps->list[i].env, why, sizeof why))
            return mu_cli_usage(call, "%s", why);
    if (!apps->dry_run)
        mu_launch_gpu_users(plan, getenv("MUSTER_RUN_ID"), &plan->notes);
    return 0;
}

static int make_plan(struct mu_cli_call *call, struct apps *apps, struct mu_launch_binding *binding, uint32_t num_tasks,
                     struct mu_launch_plan **ret_plan)
{
    static const char *const who[] = {"all", "own", NULL};
    const char *visibility = call->values[MU_OPT_GPU_VISIBILITY];
    size_t index = 0;
    char why[400];
    int code = visibility ? mu_cli_choice(call, "--gpu-visibility", visibility, who, &index) : 0;

    if (code)
        return code;
    binding->gpus_per_task = apps->gpus_per_task;
    if (visibility)
        binding->visibility = index ? MU_LAUNCH_SEES_OWN : MU_LAUNCH_SEES_ALL;
    if (!binding->to_gpus)
        code = mu_launch_plan_make(binding, num_tasks, &apps->machine, ret_plan, why, sizeof why);
    else if (apps->gpus || (code = mu_launch_gpus_load(NULL, environ, &apps->gpus, why, sizeof why)) == 0)
        code = mu_launch_gpu_plan_make(binding, num_tasks, &apps->machine, apps->gpus, ret_plan, why, sizeof why);
    if (code == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", call->path, why);
    return MU_AGENT_EXIT_FAILED;
}

static int take_binding(struct mu_cli_call *call, struct apps *apps, struct mu_agent_options *options,
                        struct mu_launch_plan **ret_plan)
{
    struct mu_launch_binding binding;
    char why[200];
    int code = take_report(call, options);

    if (code)
        return code;
    if (mu_launch_binding_parse(call->values[MU_OPT_BIND_TO], call->values[MU_OPT_MAP_BY], &binding, why, sizeof why))
        return mu_cli_usage(call, "%s", why);
    if (!options->report_bindings && !call->values[MU_OPT_BIND_TO] && !call->values[MU_OPT_MAP_BY])
        return 0;
    code = make_plan(call, apps, &binding, options->num_tasks, ret_plan);
    if (code)
        return code;
    options->plan = *ret_plan;
    code = refuse_foreign(apps, call);
    if (!code && binding.to_gpus)
        code = check_gpus(call, apps, *ret_plan);
    if (code)
        return code;
    if ((*ret_plan)->note[0])
        fprintf(stderr, "%s: %s\n", call->path, (*ret_plan)->note);
    for (unsigned i = 0; i < (*ret_plan)->notes.count; i++)
        fprintf(stderr, "%s: %s\n", call->path, (*ret_plan)->notes.text[i]);
    return 0;
}

/* What mu_agent_run() says at the timeout. */
static void report(struct muster *muster, FILE *out)
{
    if (mu_cli_report(muster, out) == MUSTER_OK)
        return;
    fputs("what its tasks do is not known: ", out);
    mu_cli_print_line(out, muster_last_error());
    putc('\n', out);
}

static int take_trace(struct mu_cli_call *call, uint32_t *ret_events)
{
    const char *text = call->values[MU_OPT_TRACE];
    uint64_t events = TRACE_EVENTS;

    if (!text)
        return 0;
    if (*text && (mu_cli_parse_unsigned(text, TRACE_EVENTS_MAX, &events) || events == 0))
        return mu_cli_usage(call, "'%s' is no number of events from 1 to %u", text, TRACE_EVENTS_MAX);
    *ret_events = (uint32_t)events;
    return 0;
}

/* What the segment would refuse is a wrong option, not a job that cannot be started. */
static int take_heap(struct mu_cli_call *call, uint64_t *ret_bytes)
{
    struct muster_segment_config config = {.num_tasks = 1};
    struct mu_header header;
    int code = mu_cli_size(call, MU_OPT_HEAP, ret_bytes);

    config.heap_bytes = *ret_bytes;
    if (code || !call->values[MU_OPT_HEAP] || mu_format_plan("any", &config, &header) == MUSTER_OK)
        return code;
    return mu_cli_usage(call, "--heap %s: %s", call->values[MU_OPT_HEAP], muster_last_error());
}

static int take_options(struct mu_cli_call *call, struct mu_agent_options *options)
{
    int code;

    if (options->job && !mu_cli_valid_job(options->job))
        return mu_cli_usage(call, "'%.60s%s' is no job name: 1 to 200 of A-Z a-z 0-9 . _ -, not beginning with '.'",
                            options->job, strlen(options->job) > 60 ? "..." : "");
    code = take_end(call, options);
    if (!code)
        code = mu_cli_duration(call, MU_OPT_HEARTBEAT_TIMEOUT, &options->heartbeat_timeout_ns);
    if (!code)
        code = take_heap(call, &options->heap_bytes);
    if (!code)
        code = take_trace(call, &options->trace_events);
    if (!code)
        code = take_stdin(call, options->num_tasks, &options->stdin_to);
    if (!code)
        code = take_restarts(call, options);
    return code ? code : take_output(call, options);
}

static int run_run(struct mu_cli_call *call)
{
    struct apps apps = {.dry_run = call->values[MU_OPT_DRY_RUN] != NULL};
    struct mu_launch_plan *plan = NULL;
    struct mu_agent_options options = {
        .job = call->values[MU_OPT_JOB],
        .label = call->values[MU_OPT_LABEL] != NULL,
        .memfd = call->values[MU_OPT_MEMFD] != NULL,
        .survive = call->values[MU_OPT_SURVIVE] != NULL,
        .grace_ns = GRACE_NS,
        .restart_delay_ns = RESTART_DELAY_NS,
        .report = report,
    };
    int code = take_gpus(call, &apps);

    if (!code)
        code = take_apps(call, &apps);
    options.apps = apps.list;
    options.num_apps = apps.count;
    options.num_tasks = apps.num_tasks;
    if (!code)
        code = take_options(call, &options);
    if (!code)
        code = take_binding(call, &apps, &options, &plan);
    if (!code) {
        code = call->values[MU_OPT_DRY_RUN] ? mu_cli_finish(call, mu_agent_dry_run(&options, stdout))
                                            : mu_agent_run(&options);
    }
    mu_launch_plan_free(plan);
    free_apps(&apps);
    return code;
}

/* What run and agent have both. */
#define END_OPTIONS                                                                                                    \
    {MU_OPT_TIMEOUT, 0, "timeout", "D", "after D say who does what, end the job, exit with 124"},                      \
        {MU_OPT_KILL_ON_FAIL, 0, "kill-on-fail", "[=no]",                                                              \
         "a failing task ends the job at once (default), or does not"},                                                \
    {                                                                                                                  \
        MU_OPT_GRACE, 0, "grace", "D", "from SIGTERM to SIGKILL when the job is ended (default 5s)"                    \
    }
#define METRICS_OPTION                                                                                                 \
    {                                                                                                                  \
        MU_OPT_METRICS, 0, "metrics", "ADDR", "serve the job's metrics to Prometheus at ADDR, as in :9464"             \
    }

static const struct mu_cli_option run_options[] = {
    {MU_OPT_NUM, 'n', "num-tasks", "N", "start N tasks (default 1), or one for each core, l3, numa, gpu; auto"},
    {MU_OPT_JOB, 0, "job", "NAME", "name the job (default: run-<pid>-<random>)"},
    {MU_OPT_LABEL, 'l', "label", NULL, "put \"[task] \" before every line of output"},
    {MU_OPT_OUTPUT, 0, "output", "TEMPLATE", "write output to files: {job} {rank} {host} {attempt} {stream}"},
    {MU_OPT_BIND_TO, 0, "bind-to", "WHAT",
     "bind each task to a core, gpu, l3, numa, package, hwthread; none (default)"},
    {MU_OPT_MAP_BY, 0, "map-by", "WHAT", "spread the tasks over these in turn; slot: one after the other"},
    {MU_OPT_GPUS_PER_TASK, 0, "gpus-per-task", "K", "with --bind-to gpu: K for each task (default: all, divided)"},
    {MU_OPT_GPU_VISIBILITY, 0, "gpu-visibility", "WHO", "each task sees all GPUs of the job (default), or its own"},
    {MU_OPT_REPORT_BINDINGS, 0, "report-bindings", "[=json]", "say where each task runs, by the kernel's word"},
    {MU_OPT_STDIN, 0, "stdin", "WHO", "who gets standard input: a task (default 0), all, none"},
    END_OPTIONS,
    {MU_OPT_RESTARTS, 0, "restarts", "N", "start again after a failure, N times at most"},
    {MU_OPT_RESTART_POLICY, 0, "restart-policy", "WHAT", "what is started again: job (default), or the failing task"},
    {MU_OPT_RESTART_DELAY, 0, "restart-delay", "D", "before the first restart, doubled each time (default 1s)"},
    {MU_OPT_SURVIVE, 0, "survive", NULL, "the tasks outlive the launcher's death; see 'muster agent'"},
    METRICS_OPTION,
    {MU_OPT_TRACE, 0, "trace", "[=EVENTS]", "keep the last events of each thread (4096) for 'muster trace'"},
    {MU_OPT_ENV, 0, "env", "K=V", "set a variable for the tasks; may be repeated"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", "start the tasks in DIR"},
    {MU_OPT_DRY_RUN, 0, "dry-run", NULL, "say what would be started, and start nothing"},
    {MU_OPT_HEAP, 0, "heap", "SIZE", "address space of the segment's heap (default 1G)"},
    {MU_OPT_HEARTBEAT_TIMEOUT, 0, "heartbeat-timeout", "D", "a task silent for D is in error (default 10s)"},
    {MU_OPT_MEMFD, 0, "memfd", NULL, "keep the segment in a memfd instead of /dev/shm"},
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_run = {
    .name = "run",
    .operands = "[--] COMMAND [ARGUMENT]... [: [-n N] COMMAND...]...",
    .summary = "Run a job: start N tasks and supervise them to their end",
    .options = run_options,
    .min = 1,
    .max = -1,
    .is_command = 1,
    .run = run_run,
};

/* ---- muster agent ----------------------------------------------------------------------------------------------- */

static int agent_run(struct mu_cli_call *call)
{
    struct mu_agent_options options = {.grace_ns = GRACE_NS, .stdin_to = MU_AGENT_STDIN_NONE, .report = report};
    const char *job = call->values[MU_OPT_ADOPT];
    int code;

    if (!job)
        return mu_cli_usage(call, "--adopt JOB is needed: a job started with 'muster run --survive'");
    if (!mu_cli_valid_job(job))
        return mu_cli_usage(call, "'%.60s' is no job name", job);
    code = take_end(call, &options);
    return code ? code : mu_agent_adopt(job, &options);
}

static const struct mu_cli_option agent_options[] = {
    {MU_OPT_ADOPT, 0, "adopt", "JOB", "supervise a job that has survived its launcher"},
    END_OPTIONS,
    METRICS_OPTION,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_agent = {
    .name = "agent",
    .operands = "",
    .summary = "Supervise a job's tasks on this machine: take over from a launcher that has died",
    .options = agent_options,
    .run = agent_run,
};
