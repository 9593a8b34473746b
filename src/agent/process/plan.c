/*
 * agent/process/plan.c: --dry-run: what would be started, with what.
 */
#include "agent/private.h"
#include "agent/serve/mindspore.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number of the host that it runs on, and its name. */
static uint32_t host_of(const struct mu_agent_options *options, uint32_t task_id, char *name, size_t size)
{
    const struct mu_launch_hosts *list = options->hosts ? options->hosts->list : NULL;
    uint32_t first = 0, host = 0;

    if (!list) {
        name[0] = 0;
        gethostname(name, size - 1);
        return 0;
    }
    while (task_id - first >= list->list[host].tasks)
        first += list->list[host++].tasks;
    snprintf(name, size, "%s", list->list[host].name);
    return host;
}

static void print_places(const struct mu_agent *agent, uint32_t task_id, FILE *out)
{
    const struct mu_launch_plan *plan = agent->options->plan;

    if (plan && mu_launch_plan_place(plan, task_id)->bound)
        fprintf(out, "    on processors %s: %s\n", mu_launch_plan_place(plan, task_id)->list,
                mu_launch_plan_place(plan, task_id)->where);
    if (plan)
        mu_launch_gpu_print(plan, task_id, out);
}

/* 0, or -1 with the reason said. */
static int print_variables(struct mu_agent *agent, uint32_t task_id, uint32_t app, FILE *out)
{
    const struct mu_launch_plan *plan = agent->options->plan;
    struct mu_agent_gift gift = {.vars = {NULL}};
    char **vars;

    if (mu_agent_imagine_mpi(agent, task_id, app, &gift))
        return -1;
    mu_agent_mindspore_gift(agent, task_id, &gift);
    vars = mu_launch_env_task(&agent->launching.envs[app], task_id, 0,
                              plan ? mu_launch_plan_place(plan, task_id)->env : NULL, gift.pmix ? gift.pmix : gift.vars,
                              gift.served);
    if (vars)
        mu_launch_env_print(&agent->launching.envs[app], vars, out);
    else
        mu_agent_say("out of memory");
    free(gift.pmix);
    free(vars);
    return vars ? 0 : -1;
}

/* 0, or -1 with the reason said. */
static int print_task(struct mu_agent *agent, uint32_t task_id, FILE *out)
{
    const struct mu_agent_options *options = agent->options;
    uint32_t app = 0, host_id;
    uint32_t before = 0;
    const struct mu_agent_app *it;
    char host[256];

    while (task_id >= before + options->apps[app].num_tasks)
        before += options->apps[app++].num_tasks;
    it = &options->apps[app];
    host_id = host_of(options, task_id, host, sizeof host);
    fprintf(out, "task %u on %s:", task_id, host);
    for (char *const *word = it->argv; *word; word++) {
        putc(' ', out);
        mu_agent_print_word(*word, out);
    }
    putc('\n', out);
    if (host_id == 0)
        print_places(agent, task_id, out);
    if (it->directory)
        fprintf(out, "    in %s\n", it->directory);
    for (int stream = 1; options->output && stream <= 2; stream++) {
        const char *at = strrchr(host, '@'); /* behind the user */
        struct mu_launch_file file = {agent->job, at ? at + 1 : host, task_id, 0, stream};
        char *path = mu_launch_files_path(options->output, &file);

        fprintf(out, "    %s to %s\n", stream == 1 ? "stdout" : "stderr", path ? path : "?");
        free(path);
    }
    for (char *const *var = it->env; var && *var; var++)
        fprintf(out, "    %s\n", *var);
    return host_id > 0 ? 0 : print_variables(agent, task_id, app, out); /* elsewhere its own agent makes them */
}

static void print_hosts(const struct mu_agent_options *options, FILE *out)
{
    const struct mu_launch_hosts *list = options->hosts ? options->hosts->list : NULL;
    uint32_t first = 0;

    for (uint32_t i = 0; list && i < list->count; first += list->list[i++].tasks)
        if (list->list[i].tasks == 0)
            fprintf(out, "host %u, %s, leads, and has no tasks\n", i, list->list[i].name);
        else if (list->list[i].tasks == 1)
            fprintf(out, "host %u, %s%s task %u\n", i, list->list[i].name, i == 0 ? ", leads:" : ":", first);
        else
            fprintf(out, "host %u, %s%s tasks %u to %u\n", i, list->list[i].name, i == 0 ? ", leads:" : ":", first,
                    first + list->list[i].tasks - 1);
}

/* As when they are started, but for what is not known before. */
static int make_environments(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    char way[160] = "";
    size_t len;
    const struct mu_agent_served served = {.grpc = options->grpc ? way : NULL,
                                           .tcpstore = options->tcpstore ? options->tcpstore->address : NULL,
                                           .mpi = options->mpi != MU_AGENT_MPI_NONE};

    if (options->grpc)
        mu_agent_find_way(options->grpc->address, way, sizeof way);
    len = strlen(way);
    if (len > 2 && strcmp(way + len - 2, ":0") == 0)
        snprintf(way + len - 1, sizeof way - len + 1, "<a port>");
    snprintf(agent->segment_text, sizeof agent->segment_text, "<the segment>");
    snprintf(agent->topology_text, sizeof agent->topology_text, "<hwloc's tree>");
    if (options->hosts && mu_launch_free_ports(options->hosts->orders->ports, 2, 1))
        options->hosts->orders->ports[0] = 0;
    agent->launching.envs = calloc(options->num_apps, sizeof *agent->launching.envs);
    if (!agent->launching.envs) {
        mu_agent_say("out of memory");
        return -1;
    }
    return mu_agent_make_environments(agent, &served);
}

int mu_agent_dry_run(const struct mu_agent_options *options, FILE *out)
{
    struct mu_agent agent;
    int code = 0;

    if (mu_agent_init(&agent, options, mu_components))
        return MU_AGENT_EXIT_FAILED;
    mu_agent_name_job(&agent);
    fprintf(out, "job %s: %u task%s; nothing is started\n", agent.job, options->num_tasks,
            options->num_tasks == 1 ? "" : "s");
    print_hosts(options, out);
    if (options->report_bindings)
        mu_agent_print_bindings(&agent, out);
    if (mu_agent_foresee_mpi(&agent) || make_environments(&agent))
        code = MU_AGENT_EXIT_FAILED;
    for (uint32_t i = 0; code == 0 && i < options->num_tasks; i++)
        if (print_task(&agent, i, out))
            code = MU_AGENT_EXIT_FAILED;
    for (uint32_t app = 0; agent.launching.envs && app < options->num_apps; app++)
        mu_launch_env_done(&agent.launching.envs[app]);
    free(agent.launching.envs);
    mu_components_free(&agent);
    return code;
}
