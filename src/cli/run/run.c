/*
 * cli/run/run.c: `muster run`, and the options of a job for `muster agent`, too: from words to agent/agent.h, which
 * does the work.
 */
#include "cli/run/run.h"
#include "cli/run/checkpoint.h"
#include "cli/run/elastic.h"
#include "cli/run/mindspore.h"
#include "cli/run/ray.h"
#include "cli/run/tf.h"
#include "cli/run/tcpstore.h"
#include "cli/run/workers.h"

#include <stdlib.h>
#include <string.h>

#include "agent/metrics/address.h"
#include "cli/run/grpc.h"
#include "cli/status/picture.h"
#include "base/words.h"
#include "segment/format.h"

#define TRACE_EVENTS     4096u
#define TRACE_EVENTS_MAX (1u << 20)

#define MU_GPUS_PER_TASK_MAX 1024u

int mu_cli_take_end(const struct mu_cli_call *call, struct mu_agent_options *options)
{
    char why[200];
    size_t answer = 0;
    int code = mu_cli_duration(call, MU_OPT_TIMEOUT, &options->timeout_ns);

    if (!code)
        code = mu_cli_duration(call, MU_OPT_GRACE, &options->grace_ns);
    if (!code)
        code = mu_cli_word(call, MU_OPT_KILL_ON_FAIL, &answer);
    options->keep_going = answer == 1;
    /* JAX's or TensorFlow's tasks are to go on without the one that fails, unless something else is said of failures.
     */
    if (options->grpc && options->grpc->recoverable && !call->values[MU_OPT_KILL_ON_FAIL] &&
        !call->values[MU_OPT_RESTARTS])
        options->keep_going = 1;
    options->metrics = call->values[MU_OPT_METRICS];
    if (!code && options->metrics &&
        mu_metrics_address_parse(options->metrics, &(struct mu_metrics_address){0}, why, sizeof why))
        code = mu_cli_usage(call, "--metrics: %s", why);
    return code;
}

static MU_WORDS(stdin_word, "all", "none")

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

static MU_WORDS(policy_word, "job", "task")

    static int take_restarts(struct mu_cli_call *call, struct mu_agent_options *options)
{
    const char *policy = call->values[MU_OPT_RESTART_POLICY];
    size_t index = 0;
    uint64_t restarts = 0;
    int code = mu_cli_unsigned(call, MU_OPT_RESTARTS, 1000000, &restarts);

    options->restarts = (uint32_t)restarts;
    if (!code)
        code = mu_cli_duration(call, MU_OPT_RESTART_DELAY, &options->restart_delay_ns);
    if (!code)
        code = mu_cli_word(call, MU_OPT_RESTART_POLICY, &index);
    if (code)
        return code;
    options->restart_tasks = index == 1;
    if ((policy || call->values[MU_OPT_RESTART_DELAY]) && !restarts)
        return mu_cli_usage(call, "--restart-%s needs --restarts N", policy ? "policy" : "delay");
    return 0;
}

MU_WORDS(mu_cli_report_form, "table", "json")

static int take_report(struct mu_cli_call *call, struct mu_agent_options *options)
{
    size_t index = 0;
    int code = mu_cli_word(call, MU_OPT_REPORT_BINDINGS, &index);

    if (!code && call->values[MU_OPT_REPORT_BINDINGS])
        options->report_bindings = index == 1 ? MU_AGENT_REPORT_JSON : MU_AGENT_REPORT_TABLE;
    return code;
}

/* Before the commands are counted: -n gpu is so many tasks. */
static int take_gpus(struct mu_cli_call *call, struct mu_cli_apps *apps)
{
    const char *per_task = call->values[MU_OPT_GPUS_PER_TASK], *bind_to = call->values[MU_OPT_BIND_TO];
    uint64_t number = 0;

    if ((per_task || call->values[MU_OPT_GPU_VISIBILITY]) && (!bind_to || strncmp(bind_to, "gpu", 3) != 0))
        return mu_cli_usage(call, "--%s needs --bind-to gpu", per_task ? "gpus-per-task" : "gpu-visibility");
    if (per_task && (mu_cli_parse_unsigned(per_task, MU_GPUS_PER_TASK_MAX, &number) || number == 0))
        return mu_cli_wrong(call, MU_OPT_GPUS_PER_TASK, per_task, "is no number of GPUs from 1 to %u",
                            MU_GPUS_PER_TASK_MAX);
    apps->gpus_per_task = (uint32_t)number;
    return 0;
}

/* The commands' own variables may not say otherwise, and other jobs of ours should not have the same GPUs. */
static int check_gpus(struct mu_cli_call *call, struct mu_cli_job *job)
{
    const struct mu_cli_apps *apps = &job->apps;
    uint32_t first = 0, end = job->first_task + job->local_tasks;
    char why[400];

    for (uint32_t i = 0; i < apps->count; first += apps->list[i++].num_tasks) {
        uint32_t from = first > job->first_task ? first : job->first_task, to = first + apps->list[i].num_tasks;

        to = to < end ? to : end; /* those of them that are here */
        if (from < to &&
            mu_launch_gpu_check_env(job->plan, from - job->first_task, to - from, apps->list[i].env, why, sizeof why))
            return mu_cli_usage(call, "%s", why);
    }
    if (!apps->dry_run)
        mu_launch_gpu_users(job->plan, getenv("MUSTER_RUN_ID"), &job->plan->notes);
    return 0;
}

MU_WORDS(mu_cli_visibility, "all", "own")

static int make_plan(struct mu_cli_call *call, struct mu_cli_apps *apps, struct mu_launch_binding *binding,
                     uint32_t num_tasks, struct mu_launch_plan **ret_plan)
{
    size_t index = 0;
    char why[400];
    int code = mu_cli_word(call, MU_OPT_GPU_VISIBILITY, &index);

    if (code)
        return code;
    binding->gpus_per_task = apps->gpus_per_task;
    if (call->values[MU_OPT_GPU_VISIBILITY])
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

/* What -n gpu has found, where no plan by GPUs says it. */
static void say_gpu_notes(const struct mu_cli_call *call, const struct mu_cli_job *job)
{
    for (unsigned i = 0; job->apps.gpus && i < job->apps.gpus->notes.count; i++)
        fprintf(stderr, "%s: %s\n", call->path, job->apps.gpus->notes.text[i]);
}

static int take_binding(struct mu_cli_call *call, struct mu_cli_job *job)
{
    struct mu_agent_options *options = &job->options;
    struct mu_launch_binding binding;
    char why[200];
    int code = take_report(call, options);

    if (code)
        return code;
    if (mu_launch_binding_parse(call->values[MU_OPT_BIND_TO], call->values[MU_OPT_MAP_BY], &binding, why, sizeof why))
        return mu_cli_usage(call, "%s", why);
    if (!binding.to_gpus)
        say_gpu_notes(call, job);
    if (!options->report_bindings && !call->values[MU_OPT_BIND_TO] && !call->values[MU_OPT_MAP_BY])
        return 0;
    if (job->local_tasks == 0) {
        options->report_bindings = MU_AGENT_REPORT_NONE;
        return 0;
    }
    code = make_plan(call, &job->apps, &binding, job->local_tasks, &job->plan);
    if (code)
        return code;
    options->plan = job->plan;
    code = mu_cli_refuse_foreign(&job->apps, call);
    if (!code && binding.to_gpus)
        code = check_gpus(call, job);
    if (code)
        return code;
    if (job->plan->note[0])
        fprintf(stderr, "%s: %s\n", call->path, job->plan->note);
    for (unsigned i = 0; i < job->plan->notes.count; i++)
        fprintf(stderr, "%s: %s\n", call->path, job->plan->notes.text[i]);
    return 0;
}

void mu_cli_say_who(struct muster *muster, FILE *out)
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
        return mu_cli_wrong(call, MU_OPT_TRACE, text, "is no number of events from 1 to %u", TRACE_EVENTS_MAX);
    *ret_events = (uint32_t)events;
    return 0;
}

/* What the segment would refuse is a wrong option, not a job that cannot be started. */
static int take_size(struct mu_cli_call *call, int option, const char *name, const char *range, uint64_t *ret_bytes)
{
    struct muster_segment_config config = {.num_tasks = 1};
    struct mu_header header;
    int code = mu_cli_size(call, option, ret_bytes);

    *(option == MU_OPT_HEAP ? &config.heap_bytes : &config.object_bytes) = *ret_bytes;
    if (!code && call->values[option] && *ret_bytes == 0) /* it would be the default's sign */
        return mu_cli_usage(call, "--%s 0: %s is possible", name, range);
    if (code || !call->values[option] || mu_format_plan("any", &config, &header) == MUSTER_OK)
        return code;
    return mu_cli_usage(call, "--%s %s: %s", name, call->values[option], muster_last_error());
}

static int take_threads(const struct mu_cli_call *call, uint32_t tasks, uint32_t *ret_threads)
{
    const char *text = call->values[MU_OPT_THREADS];
    uint32_t most = tasks ? (MU_SLOTS_MAX - mu_format_slots(0, 0)) / tasks : MU_SLOTS_MAX;
    uint64_t threads = 0;

    most = most > 2 ? most - 1 : 1; /* one slot of each is its heartbeat's */

    if (text && (mu_cli_parse_unsigned(text, most, &threads) || threads == 0))
        return mu_cli_wrong(call, MU_OPT_THREADS, text, "is no number of threads from 1 to %u, the most for %u task%s",
                            most, tasks, tasks == 1 ? "" : "s");
    *ret_threads = (uint32_t)threads;
    return 0;
}

/* Less would not hold a short value beside its copy. */
static int take_client_memory(const struct mu_cli_call *call, uint64_t *ret_bytes)
{
    int code = mu_cli_size(call, MU_OPT_CLIENT_MEMORY, ret_bytes);

    if (!code && call->values[MU_OPT_CLIENT_MEMORY] && (*ret_bytes < 1u << 20 || *ret_bytes > 1ull << 40))
        return mu_cli_usage(call, "--client-memory %s: 1 MiB to 1 TiB is possible", call->values[MU_OPT_CLIENT_MEMORY]);
    return code;
}

int mu_cli_take_segment(struct mu_cli_call *call, uint32_t local_tasks, struct mu_agent_options *options)
{
    int code;

    if (options->job && !mu_cli_valid_job(options->job))
        return mu_cli_no_job_name(call, options->job);
    code = mu_cli_duration(call, MU_OPT_HEARTBEAT_TIMEOUT, &options->heartbeat_timeout_ns);
    if (!code)
        code = take_size(call, MU_OPT_HEAP, "heap", "1 MiB to 8 GiB", &options->heap_bytes);
    if (!code)
        code = take_size(call, MU_OPT_OBJECTS, "objects", "16 KiB to 16 TiB", &options->object_bytes);
    if (!code)
        code = take_threads(call, local_tasks, &options->threads);
    if (!code)
        code = take_client_memory(call, &options->client_bytes);
    return code ? code : take_trace(call, &options->trace_events);
}

MU_WORDS(mu_cli_mpi_way, "auto", "pmi1", "port", "pmix", "none")

static int run_take_mpi(struct mu_cli_call *call, struct mu_agent_options *options)
{
    size_t index = options->elastic && options->elastic->live ? MU_AGENT_MPI_NONE : MU_AGENT_MPI_AUTO;
    int code = mu_cli_word(call, MU_OPT_MPI, &index);

    options->mpi = (enum mu_agent_mpi)index;
    return code;
}

static int run_take_options(struct mu_cli_call *call, uint32_t local_tasks, struct mu_agent_options *options)
{
    int code = mu_cli_take_segment(call, local_tasks, options);

    if (!code)
        code = mu_cli_take_end(call, options);
    if (!code)
        code = take_stdin(call, options->num_tasks, &options->stdin_to);
    if (!code)
        code = take_restarts(call, options);
    if (!code)
        code = run_take_mpi(call, options);
    return code ? code : mu_cli_take_output(call, options);
}

int mu_cli_job_take(struct mu_cli_call *call, struct mu_cli_job *job,
                    int (*place)(struct mu_cli_call *call, struct mu_cli_job *job))
{
    struct mu_agent_options *options = &job->options;
    int code;

    options->job = options->job ? options->job : call->values[MU_OPT_JOB];
    options->label = call->values[MU_OPT_LABEL] != NULL;
    options->pty = call->values[MU_OPT_PTY] != NULL;
    options->memfd = call->values[MU_OPT_MEMFD] != NULL;
    options->survive = call->values[MU_OPT_SURVIVE] != NULL;
    options->grace_ns = MU_CLI_GRACE_NS;
    options->restart_delay_ns = MU_CLI_RESTART_DELAY_NS;
    options->report = mu_cli_say_who;
    code = take_gpus(call, &job->apps);
    code = code ? code : mu_cli_take_apps(call, &job->apps);
    code = code ? code : mu_cli_check_elastic(call, options, &job->apps);
    options->apps = job->apps.list;
    options->num_apps = job->apps.count;
    options->num_tasks = job->local_tasks = job->apps.num_tasks;
    code = code ? code : mu_cli_check_tcpstore(call, options);
    code = code ? code : mu_cli_check_mindspore(call, options);
    code = code ? code : mu_cli_check_tf(call, options);
    code = code || !place ? code : place(call, job);
    if (!code)
        code = run_take_options(call, options->elastic ? options->elastic->most : job->local_tasks, options);
    return code ? code : take_binding(call, job);
}

void mu_cli_job_done(struct mu_cli_job *job)
{
    mu_launch_plan_free(job->plan);
    mu_cli_free_apps(&job->apps);
}

static int run_run(struct mu_cli_call *call)
{
    struct mu_cli_job job = {.apps.dry_run = call->values[MU_OPT_DRY_RUN] != NULL};
    struct mu_cli_hosts hosts = {.orders.attempt = 0};
    struct mu_agent_grpc grpc = {.address = NULL};
    struct mu_agent_tcpstore store = {.address = NULL};
    struct mu_agent_ray ray = {.address = NULL};
    struct mu_agent_mindspore mindspore = {.address = NULL};
    struct mu_cli_workers workers = {.text = NULL};
    struct mu_agent_tf tf = {.address = NULL};
    struct mu_agent_elastic elastic = {.least = 0};
    struct mu_agent_checkpoint checkpoint = {.dir = NULL};
    int code = mu_cli_take_elastic(call, &elastic, &job.options);

    code = code ? code : mu_cli_take_grpc(call, &grpc, &job.options);
    code = code ? code : mu_cli_take_tcpstore(call, &store, &job.options);
    code = code ? code : mu_cli_take_ray(call, &ray, &job.options);
    code = code ? code : mu_cli_take_mindspore(call, &mindspore, &job.options);
    code = code ? code : mu_cli_take_workers(call, &workers, &job.options);
    code = code ? code : mu_cli_take_tf(call, &tf, &job.options);
    code = code ? code : mu_cli_take_checkpoint(call, &checkpoint, &job.options);
    code = code ? code : mu_cli_hosts_take(call, &job, &hosts);
    if (!code)
        code = mu_cli_job_take(call, &job, job.hosts ? mu_cli_hosts_place : NULL);
    if (!code && job.options.hosts && !job.apps.dry_run)
        code = mu_cli_hosts_finish(call, &hosts);
    if (!code)
        code =
            job.apps.dry_run ? mu_cli_finish(call, mu_agent_dry_run(&job.options, stdout)) : mu_agent_run(&job.options);
    mu_cli_job_done(&job);
    mu_cli_hosts_done(&hosts);
    mu_cli_workers_done(&workers);
    return code;
}

static const struct mu_cli_option run_options[] = {
    {MU_OPT_NUM, 'n', "num-tasks", "N", mu_launch_count_word,
     "start N tasks (default 1), or one for each core, l3, numa, gpu; auto"},
    {MU_OPT_JOB, 0, "job", "NAME", NULL, "name the job (default: run-<pid>-<random>)"},
    {MU_OPT_LABEL, 'l', "label", NULL, NULL, "put \"[task] \" before every line of output"},
    {MU_OPT_PTY, 0, "pty", NULL, NULL, "give each task a terminal to write to: lines as they are done, colours"},
    {MU_OPT_OUTPUT, 0, "output", "TEMPLATE", mu_cli_files,
     "write output to files: {job} {rank} {host} {attempt} {stream}"},
    {MU_OPT_BIND_TO, 0, "bind-to", "WHAT", mu_launch_bind_to_word,
     "bind each task to a core, gpu, l3, numa, package, hwthread; none (default)"},
    {MU_OPT_MAP_BY, 0, "map-by", "WHAT", mu_launch_map_by_word,
     "spread the tasks over these in turn; slot: one after the other"},
    {MU_OPT_GPUS_PER_TASK, 0, "gpus-per-task", "K", NULL,
     "with --bind-to gpu: K for each task (default: all, divided)"},
    {MU_OPT_GPU_VISIBILITY, 0, "gpu-visibility", "WHO", mu_cli_visibility,
     "each task sees all GPUs of the job (default), or its own"},
    {MU_OPT_REPORT_BINDINGS, 0, "report-bindings", "[=json]", mu_cli_report_form,
     "say where each task runs, by the kernel's word"},
    {MU_OPT_HOSTS, 0, "hosts", "LIST", NULL, "run on these, as in a:8,b:8: names, and how many tasks each takes"},
    {MU_OPT_HOSTFILE, 0, "hostfile", "FILE", mu_cli_files, "the same by a file of Open MPI's or MPICH's form"},
    {MU_OPT_RSH, 0, "rsh", "CMD", mu_cli_commands, "start the other hosts' parts by CMD HOST COMMAND... (default ssh)"},
    {MU_OPT_ADDRESS, 0, "address", "ADDR", NULL, "where the other hosts find this one (default: as routing has it)"},
    {MU_OPT_JOIN_TIMEOUT, 0, "join-timeout", "D", NULL, "the other hosts must have come by then (default 1m)"},
    {MU_OPT_LATENCY, 0, "latency", NULL, NULL, "with --hosts: busy-wait while a task waits for another host"},
    {MU_OPT_STDIN, 0, "stdin", "WHO", stdin_word, "who gets standard input: a task (default 0), all, none"},
    MU_CLI_END_OPTIONS,
    {MU_OPT_RESTARTS, 0, "restarts", "N", NULL, "start again after a failure, N times at most"},
    {MU_OPT_RESTART_POLICY, 0, "restart-policy", "WHAT", policy_word,
     "what is started again: job (default), or the failing task"},
    {MU_OPT_RESTART_DELAY, 0, "restart-delay", "D", NULL, "before the first restart, doubled each time (default 1s)"},
    MU_CLI_ELASTIC_OPTIONS,
    MU_CLI_CHECKPOINT_OPTIONS,
    {MU_OPT_SURVIVE, 0, "survive", "[=D]", NULL, "the tasks outlive the launcher's death; see 'muster agent'"},
    MU_CLI_METRICS,
    {MU_OPT_GRPC, 0, "grpc", "[=ADDR]", NULL, "serve the coordination service of JAX and TensorFlow to the tasks"},
    MU_CLI_GRPC_OPTIONS,
    MU_CLI_TCPSTORE_OPTIONS,
    MU_CLI_RAY_OPTIONS,
    MU_CLI_MINDSPORE_OPTIONS,
    MU_CLI_WORKERS_OPTIONS,
    MU_CLI_TF_OPTIONS,
    MU_CLI_MPI,
    {MU_OPT_TRACE, 0, "trace", "[=EVENTS]", NULL, "keep the last events of each thread (4096) for 'muster trace'"},
    {MU_OPT_ENV, 0, "env", "K=V", NULL, "set a variable for the tasks; may be repeated"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", mu_cli_folders, "start the tasks in DIR"},
    {MU_OPT_DRY_RUN, 0, "dry-run", NULL, NULL, "say what would be started, and start nothing"},
    MU_CLI_SEGMENT_OPTIONS,
    {MU_OPT_MEMFD, 0, "memfd", NULL, NULL, "keep the segment in a memfd instead of /dev/shm"},
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
    .words = mu_cli_commands,
};
