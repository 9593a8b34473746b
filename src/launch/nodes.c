/*
 * launch/nodes.c: which node this is in a job that another launcher has started, from that launcher's variables.
 *
 * Each launcher is a row: the variable that it is known by, and those that say which node this is, how many there are,
 * how many processes it started here and which of them this one is. One agent a node leads that node's tasks; where the
 * launcher counts processes and not nodes, each node must have as many, and neighbours in number must be neighbours.
 * Where node 0 can be reached is known from the list of nodes (Slurm), from what a pod is called (Kubernetes), or from
 * a file in the user's home folder, which the nodes of such clusters share, named after the job. docs/HOSTS.md has the
 * same table for people.
 *
 * Nothing here looks at anything but the variables and that file.
 */
#include "launch/hosts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The ports that are derived from a job's number: below those that the kernel gives out by itself. */
#define PORT_FIRST 20000u
#define PORT_COUNT 12000u
#define POD_PORT   21717u /* a pod has an address of its own */

struct found {
    char *const *env;
    struct mu_launch_node *node;
    const char *hosts_file;
    char *why;
    size_t size;
};

static const char *variable_value(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static int variable_refuse(const struct found *found, const char *variable)
{
    const char *is = variable_value(found->env, variable);

    if (is)
        snprintf(found->why, found->size, "%s: %s=%.60s is not what it should be", found->node->launcher, variable, is);
    else
        snprintf(found->why, found->size, "%s: %s is not set", found->node->launcher, variable);
    return -1;
}

static int leader_of_slurm(const struct found *found);
static int leader_of_kubernetes(const struct found *found);
static int leader_of_mpirun(const struct found *found);
static int leader_of_hydra(const struct found *found);

/* The first row that fits counts: mpirun and mpiexec start their processes through Slurm where there is one. */
static const struct launcher {
    const char *name;
    const char *known_by[2];    /* all of these; NULL: one will do */
    const char *node, *nodes;   /* numbers of nodes; NULL: to be had from ... */
    const char *rank, *size;    /* ... those of processes */
    const char *agent, *agents; /* which process of this node, and of how many; NULL: the only one */
    int (*leader)(const struct found *found);
} launchers[] = {
    {"Open MPI",
     {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK"},
     NULL,
     NULL,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     leader_of_mpirun},
    {"hydra",
     {"PMI_RANK", "MPI_LOCALRANKID"},
     NULL,
     NULL,
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     leader_of_hydra},
    {"Slurm",
     {"SLURM_STEP_ID", NULL},
     "SLURM_NODEID",
     "SLURM_STEP_NUM_NODES",
     NULL,
     NULL,
     "SLURM_LOCALID",
     NULL,
     leader_of_slurm},
    {"Kubernetes",
     {"JOB_COMPLETION_INDEX", NULL},
     "JOB_COMPLETION_INDEX",
     "MUSTER_NODES",
     NULL,
     NULL,
     NULL,
     NULL,
     leader_of_kubernetes},
};
#define NUM_LAUNCHERS (sizeof launchers / sizeof launchers[0])

#define COUNT_MAX (1u << 20) /* of nodes, and of processes */

/* 0, or -1 with the reason. */
static int variable_number(const struct found *found, const char *variable, uint32_t least, uint32_t most,
                           uint32_t *ret_number)
{
    const char *text = variable_value(found->env, variable);
    unsigned long number;
    char *end;

    if (!text || !isdigit((unsigned char)*text))
        return variable_refuse(found, variable);
    number = strtoul(text, &end, 10);
    if (*end || number < least || number > most)
        return variable_refuse(found, variable);
    *ret_number = (uint32_t)number;
    return 0;
}

/* ---- where node 0 is --------------------------------------------------------------------------------------------- */

/* The nodes of a step share a list of their names; the port is the job's number's. Slurm's own steps have the numbers
 * from 4294967290 on: of salloc's shell, of a batch script. */
static int leader_of_slurm(const struct found *found)
{
    const char *list = variable_value(found->env, "SLURM_STEP_NODELIST"),
               *per_node = variable_value(found->env, "SLURM_STEP_TASKS_PER_NODE");
    const char *job = variable_value(found->env, "SLURM_JOB_ID"), *own = variable_value(found->env, "SLURMD_NODENAME");
    struct mu_launch_node *node = found->node;
    char name[256];
    uint32_t step;

    if (!list || mu_launch_slurm_host(list, 0, name, sizeof name))
        return variable_refuse(found, "SLURM_STEP_NODELIST");
    node->agents = per_node ? mu_launch_slurm_count(per_node, node->node) : 0;
    if (node->agents == 0)
        return variable_refuse(found, "SLURM_STEP_TASKS_PER_NODE");
    if (!job || variable_number(found, "SLURM_STEP_ID", 0, UINT32_MAX, &step))
        return variable_refuse(found, job ? "SLURM_STEP_ID" : "SLURM_JOB_ID");
    snprintf(node->leader, sizeof node->leader, "%s:%lu", name,
             PORT_FIRST + (strtoul(job, NULL, 10) * 61 + step) % PORT_COUNT);
    if (own)
        snprintf(node->name, sizeof node->name, "%s", own);
    return 0;
}

/*
 * A pod of an indexed job is called JOB-INDEX and, where the job has a headless service, JOB-INDEX.SERVICE.…, as its
 * own line of /etc/hosts says: so is the first, with another index.
 */
static int leader_of_kubernetes(const struct found *found)
{
    const char *own = variable_value(found->env, "HOSTNAME");
    struct mu_launch_node *node = found->node;
    FILE *file = fopen(found->hosts_file, "re");
    char line[1024], suffix[16], *save, *word, *domain = NULL;
    size_t own_len = own ? strlen(own) : 0;
    int suffix_len = snprintf(suffix, sizeof suffix, "-%u", node->node);

    while (file && own_len && !domain && fgets(line, sizeof line, file))
        for (word = strtok_r(line, " \t\r\n", &save); word && *word != '#' && !domain;
             word = strtok_r(NULL, " \t\r\n", &save))
            if (strncmp(word, own, own_len) == 0 && word[own_len] == '.')
                domain = word + own_len;
    if (file)
        fclose(file);
    if (!own || (int)own_len <= suffix_len || strcmp(own + own_len - suffix_len, suffix) != 0)
        return variable_refuse(found, "HOSTNAME");
    snprintf(node->name, sizeof node->name, "%s", own);
    if (domain || node->nodes == 1) {
        snprintf(node->leader, sizeof node->leader, "%.*s-0%s:%u", (int)own_len - suffix_len, own, domain ? domain : "",
                 POD_PORT);
        return 0;
    }
    snprintf(found->why, found->size,
             "Kubernetes: %s has no domain in %s, so the others cannot be found: the job needs a headless service, and "
             "its pods this service's name as their subdomain",
             own, found->hosts_file);
    return -1;
}

/* The job's name space is its alone: so is a file of this name. */
static int leader_of_mpirun(const struct found *found)
{
    const char *space = variable_value(found->env, "PMIX_NAMESPACE");
    char *at = found->node->file;

    snprintf(at, sizeof found->node->file, "leader-%s", space);
    for (; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-@", *at))
            *at = '_';
    return 0;
}

/* It tells its processes of each other through PMI alone. */
static int leader_of_hydra(const struct found *found)
{
    (void)found;
    return 0;
}

/* ---- which node this is ------------------------------------------------------------------------------------------ */

/* By the numbers of processes: each node has as many, neighbours in number. */
static int find_by_rank(const struct found *found, const struct launcher *launcher)
{
    struct mu_launch_node *node = found->node;
    uint32_t rank, size;

    if (variable_number(found, launcher->rank, 0, COUNT_MAX, &rank) ||
        variable_number(found, launcher->size, 1, COUNT_MAX, &size))
        return -1;
    if (rank >= size || size % node->agents || rank % node->agents != node->agent) {
        snprintf(found->why, found->size,
                 "%s: process %u of %u is number %u of %u on its node: start one process on each node, or as many on "
                 "each, filled one after the other",
                 launcher->name, rank, size, node->agent, node->agents);
        return -1;
    }
    node->node = rank / node->agents;
    node->nodes = size / node->agents;
    return 0;
}

/* A launcher inside a task of muster has that task's PMI-1 in its environment: it is no process of hydra's. */
static bool is_ours(char *const *env)
{
    const char *rank = variable_value(env, "PMI_RANK"), *task = variable_value(env, "MUSTER_TASK_ID");

    return rank && task && strcmp(rank, task) == 0 && variable_value(env, "MUSTER_RUN_ID") &&
           !variable_value(env, "HYDI_CONTROL_FD");
}

int mu_launch_node_find(char *const *env, const char *hosts_file, struct mu_launch_node *ret_node, char *ret_why,
                        size_t size)
{
    struct found found = {env, ret_node, hosts_file, ret_why, size};
    const struct launcher *it = NULL;

    *ret_node = (struct mu_launch_node){.agents = 1};
    for (size_t i = 0; i < NUM_LAUNCHERS && !it; i++)
        if (variable_value(env, launchers[i].known_by[0]) &&
            (!launchers[i].known_by[1] || variable_value(env, launchers[i].known_by[1])) &&
            !(launchers[i].leader == leader_of_hydra && is_ours(env)))
            it = &launchers[i];
    if (!it)
        return 0;
    ret_node->launcher = it->name;
    if ((it->agent && variable_number(&found, it->agent, 0, COUNT_MAX, &ret_node->agent)) ||
        (it->agents && variable_number(&found, it->agents, 1, COUNT_MAX, &ret_node->agents)))
        return -1;
    if (it->node ? variable_number(&found, it->nodes, 1, COUNT_MAX, &ret_node->nodes) ||
                       variable_number(&found, it->node, 0, COUNT_MAX, &ret_node->node)
                 : find_by_rank(&found, it))
        return -1;
    if (ret_node->node >= ret_node->nodes)
        return variable_refuse(&found, it->node);
    return it->leader(&found);
}
