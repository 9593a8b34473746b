/*
 * cli/run/hosts.c: `muster run --hosts`: which hosts, which tasks on each, and what their agents are told.
 *
 * The others read the same command line (cli/run/agent.c), so what is said here goes for every host, and is only
 * refused where it cannot.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run.h"

static int hosts_refuse_others(struct mu_cli_call *call)
{
    static const enum mu_cli_option_id need[] = {MU_OPT_RSH, MU_OPT_ADDRESS, MU_OPT_JOIN_TIMEOUT, MU_OPT_LATENCY};

    for (size_t i = 0; i < sizeof need / sizeof need[0]; i++)
        for (const struct mu_cli_option *option = call->verb->options; call->values[need[i]] && option->name; option++)
            if (option->id == need[i])
                return mu_cli_usage(call, "--%s needs --hosts or --hostfile", option->name);
    return 0;
}

/* What cannot be had on several hosts. */
static int hosts_refuse(struct mu_cli_call *call)
{
    const char *job = call->values[MU_OPT_JOB];

    if (job && strlen(job) > 190)
        return mu_cli_usage(call, "with --hosts a job's name has at most 190 characters");
    return 0;
}

/* A name or an IPv4 address, or an IPv6 address as it is: nothing with a port, brackets or a blank. */
static bool is_bare_address(const char *text)
{
    const char *colon = strchr(text, ':');

    return *text && !strpbrk(text, "[] \t/") && (!colon || strchr(colon + 1, ':'));
}

int mu_cli_hosts_take(struct mu_cli_call *call, struct mu_cli_job *job, struct mu_cli_hosts *hosts)
{
    const char *list = call->values[MU_OPT_HOSTS], *file = call->values[MU_OPT_HOSTFILE];
    char why[400];
    int code;

    if (!list && !file)
        return hosts_refuse_others(call);
    if ((code = hosts_refuse(call)))
        return code;
    if (list && mu_launch_hosts_parse(&hosts->list, list, why, sizeof why))
        return mu_cli_usage(call, "--hosts: %s", why);
    if (file && mu_launch_hosts_read(&hosts->list, file, why, sizeof why))
        return mu_cli_usage(call, "--hostfile: %s", why);
    hosts->hosts = (struct mu_agent_hosts){
        .list = &hosts->list,
        .rsh = call->values[MU_OPT_RSH],
        .address = call->values[MU_OPT_ADDRESS],
        .name = hosts->here,
        .join_timeout_ns = MU_AGENT_JOIN_TIMEOUT_NS,
        .latency = call->values[MU_OPT_LATENCY] != NULL,
        .orders = &hosts->orders,
    };
    if (hosts->hosts.address && !is_bare_address(hosts->hosts.address))
        return mu_cli_usage(call, "--address: '%s' is not a name or an address alone; the port is the kernel's choice",
                            hosts->hosts.address);
    if (hosts->hosts.rsh && !hosts->hosts.rsh[strspn(hosts->hosts.rsh, " \t")])
        return mu_cli_usage(call, "--rsh is empty: say a command such as ssh");
    code = mu_cli_duration(call, MU_OPT_HEARTBEAT_TIMEOUT, &hosts->hosts.heartbeat_timeout_ns);
    if (code)
        return code;
    gethostname(hosts->here, sizeof hosts->here - 1);
    for (uint32_t i = 0; i < hosts->list.count; i++)
        job->apps.by_default += hosts->list.list[i].slots;
    job->hosts = hosts;
    return mu_cli_duration(call, MU_OPT_JOIN_TIMEOUT, &hosts->hosts.join_timeout_ns);
}

int mu_cli_hosts_place(struct mu_cli_call *call, struct mu_cli_job *job)
{
    struct mu_cli_hosts *hosts = job->hosts;
    char why[400];

    if (mu_launch_hosts_place(&hosts->list, hosts->here, mu_cli_most_tasks(job), why, sizeof why))
        return mu_cli_usage(call, "%s", why);
    if (hosts->list.count == 1) /* this one, alone */
        return 0;
    hosts->hosts.nodes = hosts->list.count;
    hosts->hosts.tasks_here = job->local_tasks = hosts->list.list[0].tasks;
    mu_agent_find_master(&hosts->hosts, hosts->orders.master, sizeof hosts->orders.master);
    job->options.hosts = &hosts->hosts;
    return 0;
}

int mu_cli_hosts_finish(struct mu_cli_call *call, struct mu_cli_hosts *hosts)
{
    char why[400];
    int given = mu_launch_key_given(hosts->hosts.key, why, sizeof why);

    if (given < 0) {
        fprintf(stderr, "%s: %s\n", call->path, why);
        return MU_AGENT_EXIT_FAILED;
    }
    if (given > 0)
        mu_launch_key_make(hosts->hosts.key);
    if (!getcwd(hosts->directory, sizeof hosts->directory))
        snprintf(hosts->directory, sizeof hosts->directory, "/");
    hosts->orders.directory = hosts->directory;
    hosts->orders.words = call->words;
    hosts->orders.env = environ;
    return 0;
}

void mu_cli_hosts_done(struct mu_cli_hosts *hosts)
{
    mu_launch_hosts_done(&hosts->list);
    explicit_bzero(hosts->hosts.key, sizeof hosts->hosts.key);
}
