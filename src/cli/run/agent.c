/*
 * cli/run/agent.c: `muster agent`: this host's part of a job that somebody else starts on each of its hosts, by rsh or
 * by a launcher of its own; or a job that has survived its launcher.
 *
 * The agent of node 0 leads. Which node this is, and where node 0 is, is said by options or known from the launcher's
 * variables (launch/nodes.c). Under `muster run --hosts` the leader sends the whole command line of the job, and what
 * is to be run is read from that as the leader read it; else each agent has its command on its own line.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/elastic.h"
#include "cli/run/grpc.h"
#include "cli/run/run.h"
#include "cli/run/tcpstore.h"

#define HOSTS_FILE "/etc/hosts"
#define LOOK_MS    50

struct agent {
    struct mu_launch_node node;
    struct mu_agent_hosts hosts;
    struct mu_agent_orders orders;
    struct mu_agent_grpc grpc;
    struct mu_agent_tcpstore store;
    struct mu_agent_elastic elastic;
    char leader[300];
};

static int agent_fail(const struct mu_cli_call *call, const char *why)
{
    fprintf(stderr, "%s: ", call->path);
    mu_cli_print_line(stderr, why);
    putc('\n', stderr);
    return MU_AGENT_EXIT_FAILED;
}

/* ---- which host this is ------------------------------------------------------------------------------------------ */

static int take_place(struct mu_cli_call *call, struct agent *agent)
{
    const char *join = call->values[MU_OPT_JOIN];
    struct mu_launch_node *node = &agent->node;
    uint64_t number = node->node, nodes = node->nodes;
    int code = mu_cli_unsigned(call, MU_OPT_NODE_ID, MU_LAUNCH_HOSTS_MAX - 1, &number);

    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_NODES, MU_LAUNCH_HOSTS_MAX, &nodes);
    if (code)
        return code;
    if (!node->launcher && (!join || !call->values[MU_OPT_NODE_ID] || !call->values[MU_OPT_NODES]))
        return mu_cli_usage(call,
                            "say --join LEADER --node-id I --nodes H, or start it by Slurm, Open MPI, hydra or as "
                            "an indexed job of Kubernetes; or --adopt JOB");
    if (nodes == 0 || number >= nodes)
        return mu_cli_usage(call, "--node-id %llu is no node of %llu: they count from 0", (unsigned long long)number,
                            (unsigned long long)nodes);
    node->node = (uint32_t)number;
    node->nodes = (uint32_t)nodes;
    if (join)
        snprintf(node->leader, sizeof node->leader, "%s", join);
    if (!node->leader[0] && !node->file[0] && nodes > 1)
        return mu_cli_usage(call, "%s does not say where node 0 is: say --join HOST:PORT on all of them",
                            node->launcher);
    if (node->agents > 1) {
        fprintf(stderr, "%s: %s has started %u agents on this node: start one on each, and say -n %u here\n",
                call->path, node->launcher, node->agents, node->agents);
        return MU_AGENT_EXIT_FAILED;
    }
    return 0;
}

static int find_place(struct mu_cli_call *call, struct agent *agent)
{
    static char *const nothing[] = {NULL};
    char why[600];

    /* Where all is said there is nothing to be known. */
    if (mu_launch_node_find(call->values[MU_OPT_NODE_ID] && call->values[MU_OPT_NODES] ? nothing : environ, HOSTS_FILE,
                            &agent->node, why, sizeof why))
        return agent_fail(call, why);
    return take_place(call, agent);
}

/* The key: by --key-file, by the environment, else this user's, which the leader makes and the others wait for. */
static int take_key(struct mu_cli_call *call, struct agent *agent)
{
    const char *file = call->values[MU_OPT_KEY_FILE];
    uint8_t *key = agent->hosts.key;
    uint64_t until = muster_after_ns(agent->hosts.join_timeout_ns);
    char why[600];
    int rc;

    if (file)
        return mu_launch_key_read(file, key, why, sizeof why) ? agent_fail(call, why) : 0;
    rc = mu_launch_key_given(key, why, sizeof why);
    while (rc > 0 && (rc = mu_launch_key_of_user(agent->node.node == 0, key, why, sizeof why)) > 0) {
        if (muster_now_ns() >= until)
            return agent_fail(
                call, "there is no ~/.muster/key, which node 0's agent makes: the home folder must be shared, or "
                      "the key be given by MUSTER_KEY or MUSTER_KEY_FILE");
        poll(NULL, 0, LOOK_MS);
        rc = 1;
    }
    return rc ? agent_fail(call, why) : 0;
}

/* Where node 0 has written down that it is. */
static int find_leader(struct mu_cli_call *call, struct agent *agent)
{
    uint64_t until = muster_after_ns(agent->hosts.join_timeout_ns);
    char path[4096], why[4400];

    agent->hosts.address = agent->node.leader[0] ? agent->node.leader : NULL;
    agent->hosts.file = agent->node.leader[0] ? NULL : agent->node.file;
    if (agent->node.leader[0] || agent->node.node == 0)
        return 0;
    if (mu_launch_home_file(agent->node.file, path, sizeof path, why, sizeof why))
        return agent_fail(call, why);
    for (;;) {
        FILE *file = fopen(path, "re");
        int found = file && fgets(agent->leader, sizeof agent->leader, file) && strchr(agent->leader, '\n');

        if (file)
            fclose(file);
        if (found)
            break;
        if (muster_now_ns() >= until) {
            snprintf(why, sizeof why,
                     "node 0 has not said in %s where it is: the home folder must be shared, or say "
                     "--join HOST:PORT",
                     path);
            return agent_fail(call, why);
        }
        poll(NULL, 0, LOOK_MS);
    }
    agent->leader[strcspn(agent->leader, "\n")] = 0;
    agent->hosts.address = agent->leader;
    return 0;
}

/* How many tasks there are here must be known before the leader is told. */
static int agent_take_number(struct mu_cli_call *call, struct agent *agent, struct mu_cli_job *job)
{
    const char *text = call->values[MU_OPT_NUM];
    uint64_t number = 1;
    char why[400];

    agent->hosts.tasks_here = 1;
    if (text && mu_launch_is_count(text))
        return mu_launch_count(text, &job->apps.machine, &job->apps.gpus, &agent->hosts.tasks_here, why, sizeof why)
                   ? agent_fail(call, why)
                   : 0;
    if (text && (mu_cli_parse_unsigned(text, MU_LAUNCH_SLOTS_MAX, &number) || number == 0))
        return mu_cli_wrong(call, MU_OPT_NUM, text, "is no number of tasks from 1 to %u", MU_LAUNCH_SLOTS_MAX);
    agent->hosts.tasks_here = (uint32_t)number;
    return 0;
}

static int take_hosts(struct mu_cli_call *call, struct agent *agent, struct mu_cli_job *job)
{
    const char *file = call->values[MU_OPT_KEY_FILE];
    int code = find_place(call, agent);

    agent->hosts = (struct mu_agent_hosts){.node = agent->node.node,
                                           .nodes = agent->node.nodes,
                                           .name = call->values[MU_OPT_HOST_NAME],
                                           .join_timeout_ns = MU_AGENT_JOIN_TIMEOUT_NS,
                                           .latency = call->values[MU_OPT_LATENCY] != NULL,
                                           .watches_stdin = file && strcmp(file, "-") == 0,
                                           .orders = &agent->orders};
    if (!agent->hosts.name && agent->node.name[0])
        agent->hosts.name = agent->node.name;
    if (!code)
        code = mu_cli_duration(call, MU_OPT_JOIN_TIMEOUT, &agent->hosts.join_timeout_ns);
    if (!code)
        code = mu_cli_duration(call, MU_OPT_HEARTBEAT_TIMEOUT, &agent->hosts.heartbeat_timeout_ns);
    if (!code)
        code = agent_take_number(call, agent, job);
    if (!code && agent->node.nodes > 1)
        code = take_key(call, agent);
    return code || agent->node.nodes == 1 ? code : find_leader(call, agent);
}

/* ---- a follower under `muster run` --------------------------------------------------------------------------------
 */

/* Its own variables, those of the leader over them. */
static int take_variables(char *const *env)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        char *name = equals ? strndup(*env, (size_t)(equals - *env)) : NULL;

        if (!name || setenv(name, equals + 1, 1)) {
            free(name);
            return -1;
        }
        free(name);
    }
    unsetenv("MUSTER_KEY");
    return 0;
}

/* The tasks of all hosts are known by now. */
static int place_led(struct mu_cli_call *call, struct mu_cli_job *job)
{
    const struct mu_agent_hosts *hosts = job->options.hosts;

    if (mu_cli_most_tasks(job) != hosts->orders->num_tasks) {
        fprintf(stderr, "%s: the leader's command line has %u tasks, and its hosts have %u\n", call->path,
                mu_cli_most_tasks(job), hosts->orders->num_tasks);
        return MU_AGENT_EXIT_FAILED;
    }
    job->first_task = hosts->orders->first_task;
    job->local_tasks = hosts->tasks_here;
    return 0;
}

static int takes_input(const struct mu_cli_job *job)
{
    int32_t to = job->options.stdin_to;

    return to == MU_AGENT_STDIN_ALL || (to >= 0 && (uint32_t)to - job->first_task < job->local_tasks);
}

static int run_led(struct mu_cli_call *call, struct agent *agent, struct mu_cli_job *job)
{
    struct mu_cli_call words = {.verb = &mu_cli_run};
    int count = 0, code;

    snprintf(words.path, sizeof words.path, "%.20s (host %.30s)", call->path,
             agent->hosts.name ? agent->hosts.name : "?");
    while (agent->orders.words[count])
        count++;
    if (take_variables(agent->orders.env))
        return agent_fail(call, "out of memory");
    if (chdir(agent->orders.directory)) {
        fprintf(stderr, "%s: the job was started in %s: %m\n", words.path, agent->orders.directory);
        return MU_AGENT_EXIT_FAILED;
    }
    job->options.hosts = &agent->hosts;
    job->options.job = agent->orders.job;
    job->apps.by_default = agent->orders.num_tasks;
    code = mu_cli_parse(&words, count, agent->orders.words);
    if (!code)
        code = mu_cli_take_elastic(&words, &agent->elastic, &job->options);
    if (!code)
        code = mu_cli_take_grpc(&words, &agent->grpc, &job->options);
    if (!code)
        code = mu_cli_take_tcpstore(&words, &agent->store, &job->options);
    if (!code)
        code = mu_cli_job_take(&words, job, place_led);
    job->options.metrics = NULL;
    agent->hosts.watches_stdin &= !takes_input(job);
    memcpy(agent->hosts.colour, agent->orders.colour, sizeof agent->hosts.colour);
    if (!code)
        code = mu_agent_run(&job->options);
    free(words.operands);
    free(words.env);
    return code;
}

/* ---- the verb -----------------------------------------------------------------------------------------------------
 */

static int place_own(struct mu_cli_call *call, struct mu_cli_job *job)
{
    const struct mu_agent_hosts *hosts = job->options.hosts;

    (void)call;
    if (hosts->node > 0) {
        job->options.num_tasks = hosts->orders->num_tasks;
        job->first_task = hosts->orders->first_task;
    }
    return 0;
}

/* Its command is on its own line. */
static int run_own(struct mu_cli_call *call, struct agent *agent, struct mu_cli_job *job)
{
    int code;

    if (call->count == 0)
        return mu_cli_usage(call, "a command is missing: the leader has none for it");
    if (agent->node.nodes > 1)
        job->options.hosts = &agent->hosts;
    if (agent->hosts.node > 0)
        job->options.job = agent->orders.job;
    else
        mu_agent_find_master(&agent->hosts, agent->orders.master, sizeof agent->orders.master);
    code = mu_cli_take_grpc(call, &agent->grpc, &job->options);
    if (!code)
        code = mu_cli_take_tcpstore(call, &agent->store, &job->options);
    if (!code)
        code = mu_cli_job_take(call, job, job->options.hosts ? place_own : NULL);
    if (!code && job->apps.count > 1)
        code = mu_cli_usage(call, "an agent has one command: ':' is for 'muster run'");
    return code ? code : mu_agent_run(&job->options);
}

/* An attempt of the job; where the leader has said that this host stays, another follows. */
static int run_attempt(struct mu_cli_call *call, struct agent *agent, struct mu_cli_job *job)
{
    int code = 0;

    if (agent->node.nodes > 1 && agent->node.node > 0)
        code = mu_agent_come(&agent->hosts, call->values[MU_OPT_JOB]);
    if (code)
        agent->hosts.stays = 0;
    if (!code && agent->orders.words && call->count > 0)
        code = mu_cli_usage(call, "the leader has a command for this host: say none here");
    if (!code)
        code = agent->orders.words ? run_led(call, agent, job) : run_own(call, agent, job);
    return code;
}

static int agent_join(struct mu_cli_call *call)
{
    struct agent agent = {.leader = ""};
    struct mu_cli_job job = {.apps.num_tasks = 0};
    char name[120], host[256];
    int code;

    if (call->values[MU_OPT_ADOPT])
        return mu_cli_usage(call, "--adopt and a command exclude each other");
    code = take_hosts(call, &agent, &job);
    if (code) {
        mu_cli_job_done(&job);
        return code;
    }
    snprintf(host, sizeof host, "%s", agent.hosts.name ? agent.hosts.name : "");
    if (!agent.hosts.name)
        gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "muster agent (host %.80s)", host);
    mu_agent_call_me(name);
    /* The leader has the command, so it is a 'muster run', which calls others when it listens. */
    agent.hosts.is_called = call->count == 0;
    code = run_attempt(call, &agent, &job);
    while (agent.hosts.stays) {
        mu_cli_job_done(&job);
        mu_agent_orders_done(&agent.orders);
        job = (struct mu_cli_job){.apps.num_tasks = 0};
        code = run_attempt(call, &agent, &job);
    }
    mu_agent_go(&agent.hosts);
    mu_cli_job_done(&job);
    mu_agent_orders_done(&agent.orders);
    return code;
}

/* What the tasks are, and how the hosts of the job meet, has been decided. */
static int agent_refuse_others(const struct mu_cli_call *call)
{
    static const enum mu_cli_option_id apply[] = {MU_OPT_ADOPT, MU_OPT_TIMEOUT, MU_OPT_KILL_ON_FAIL, MU_OPT_GRACE,
                                                  MU_OPT_METRICS};

    for (const struct mu_cli_option *option = call->verb->options; option->name; option++) {
        int applies = 0;

        for (size_t i = 0; i < sizeof apply / sizeof apply[0]; i++)
            applies |= option->id == apply[i];
        if (!applies && call->values[option->id])
            return mu_cli_usage(call, "--adopt and --%s exclude each other", option->name);
    }
    return 0;
}

static int agent_adopt(struct mu_cli_call *call)
{
    struct mu_agent_options options = {
        .grace_ns = MU_CLI_GRACE_NS, .stdin_to = MU_AGENT_STDIN_NONE, .report = mu_cli_say_who};
    struct muster_segment *segment;
    enum muster_status status;
    char job[208];
    int code = agent_refuse_others(call);

    if (code)
        return code;
    if (!mu_cli_valid_job(call->values[MU_OPT_ADOPT]))
        return mu_cli_wrong(call, MU_OPT_ADOPT, call->values[MU_OPT_ADOPT], "is no job name");
    snprintf(job, sizeof job, "%s", call->values[MU_OPT_ADOPT]);
    code = mu_cli_take_end(call, &options);
    if (code)
        return code;
    status = muster_segment_open(job, &segment);
    if (status == MUSTER_OK)
        muster_segment_close(segment);
    else if (!mu_cli_find_part(call, job, sizeof job) && status == MUSTER_NOT_FOUND) {
        mu_cli_no_job(call, job);
        return MU_AGENT_EXIT_FAILED;
    }
    return mu_agent_adopt(job, &options);
}

static int agent_run(struct mu_cli_call *call)
{
    return call->values[MU_OPT_ADOPT] && call->count == 0 ? agent_adopt(call) : agent_join(call);
}

static const struct mu_cli_option agent_options[] = {
    {MU_OPT_JOIN, 0, "join", "LEADER", NULL, "where node 0's agent is to be found, as in a:4711"},
    {MU_OPT_NODE_ID, 0, "node-id", "I", NULL, "which node this is, from 0: node 0's agent leads"},
    {MU_OPT_NODES, 0, "nodes", "H", NULL, "how many there are"},
    {MU_OPT_KEY_FILE, 0, "key-file", "FILE", mu_cli_files,
     "the job's key (default: $MUSTER_KEY, $MUSTER_KEY_FILE, ~/.muster/key)"},
    {MU_OPT_JOIN_TIMEOUT, 0, "join-timeout", "D", NULL, "all nodes must have come by then (default 1m)"},
    {MU_OPT_HOST_NAME, 0, "host-name", "NAME", NULL, "what this host is called in messages (default: its host name)"},
    {MU_OPT_LATENCY, 0, "latency", NULL, NULL, "busy-wait while a task waits for another host"},
    {MU_OPT_NUM, 'n', "num-tasks", "N", mu_launch_count_word,
     "start N tasks here (default 1), or one for each core, l3, numa, gpu; auto"},
    {MU_OPT_JOB, 0, "job", "NAME", NULL, "name the job, on node 0 (default: run-<pid>-<random>)"},
    {MU_OPT_LABEL, 'l', "label", NULL, NULL, "put \"[task] \" before every line of output"},
    {MU_OPT_PTY, 0, "pty", NULL, NULL, "give each task a terminal to write to: lines as they are done, colours"},
    {MU_OPT_OUTPUT, 0, "output", "TEMPLATE", mu_cli_files,
     "write output to files: {job} {rank} {host} {attempt} {stream}"},
    {MU_OPT_BIND_TO, 0, "bind-to", "WHAT", mu_launch_bind_to_word, "bind each task, as 'muster run' does it"},
    {MU_OPT_MAP_BY, 0, "map-by", "WHAT", mu_launch_map_by_word,
     "spread the tasks over these in turn; slot: one after the other"},
    {MU_OPT_GPUS_PER_TASK, 0, "gpus-per-task", "K", NULL,
     "with --bind-to gpu: K for each task (default: all, divided)"},
    {MU_OPT_GPU_VISIBILITY, 0, "gpu-visibility", "WHO", mu_cli_visibility,
     "each task sees all GPUs of the job (default), or its own"},
    {MU_OPT_REPORT_BINDINGS, 0, "report-bindings", "[=json]", mu_cli_report_form,
     "say where each task runs, by the kernel's word"},
    {MU_OPT_ENV, 0, "env", "K=V", NULL, "set a variable for the tasks; may be repeated"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", mu_cli_folders, "start the tasks in DIR"},
    {MU_OPT_HEAP, 0, "heap", "SIZE", NULL, "address space of the segments' heaps, on node 0 (default 1G)"},
    {MU_OPT_OBJECTS, 0, "objects", "SIZE", NULL,
     "address space for objects above 64 KiB, on node 0 (default: the machine's memory)"},
    {MU_OPT_THREADS, 0, "threads", "N", NULL, "how many threads of each task here may write at once (default 16)"},
    {MU_OPT_HEARTBEAT_TIMEOUT, 0, "heartbeat-timeout", "D", NULL,
     "a task or host silent for D is in error (default 10s)"},
    {MU_OPT_ADOPT, 0, "adopt", "JOB", mu_cli_jobs, "supervise a job that has survived its launcher"},
    MU_CLI_END_OPTIONS,
    MU_CLI_METRICS,
    {MU_OPT_GRPC, 0, "grpc", "[=ADDR]", NULL, "serve the coordination service of JAX and TensorFlow to the tasks here"},
    MU_CLI_GRPC_OPTIONS,
    MU_CLI_TCPSTORE_OPTIONS,
    MU_CLI_MPI,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_agent = {
    .name = "agent",
    .operands = "[--] [COMMAND [ARGUMENT]...]",
    .summary = "Run this host's part of a job of several, or take over from a launcher that has died",
    .options = agent_options,
    .min = 0,
    .max = -1,
    .is_command = 1,
    .run = agent_run,
    .words = mu_cli_commands,
};
