/*
 * agent/mpi/folder.c: where Open MPI's tasks of this host put what they share, and any task why it fails.
 *
 * Open MPI 4.1 calls its files of shared memory (in /dev/shm) and its session's folder (in /tmp) by host, user and a
 * job's number of 15 bits, and leaves them where it is killed. Two jobs may have one number, and two hosts of one job
 * be one machine. So they go into a folder of this agent's, with a name that nobody can guess before it is there: made
 * once the tasks are on their way, and again, with words if it cannot be, when the first says that it is an MPI
 * program; removed when the attempt has ended, and by the guard when the agent is killed. What the user has set himself
 * counts. What MPICH 5's tasks share has a name in /dev/shm that only the job's number decides, and stays where they
 * are killed: the folder gets a link to it, and what such a link names goes with the folder. Tasks that fail leave
 * their exception there (error_file.c); where libpmix is served, in its folder.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/mpi/mpi.h"

/* Each is set to the folder; of windows (osc), too, which go elsewhere else. */
static const char *const names[MU_AGENT_MPI_PLACES] = {
    "OMPI_MCA_orte_tmpdir_base",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
    "PMIX_SYSTEM_TMPDIR", /* for unserved.c */
};

void mu_agent_name_mpi_places(struct mu_agent *agent)
{
    for (int i = 0; i < MU_AGENT_MPI_PLACES; i++)
        snprintf(mu_agent_mpi(agent)->places[i], sizeof mu_agent_mpi(agent)->places[i], "%s=%s", names[i],
                 mu_agent_mpi(agent)->folder);
}

/* In memory where that can be had: what lies there is mapped. */
void mu_agent_name_mpi_folder(struct mu_agent *agent)
{
    const char *above = getenv("TMPDIR");
    uint64_t random;

    mu_agent_mpi(agent)->folder[0] = 0;
    mu_agent_mpi(agent)->has_folder = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return;
    if (access("/dev/shm", W_OK | X_OK) == 0)
        above = "/dev/shm";
    else if (!above || *above != '/' || strlen(above) > 80)
        above = "/tmp";
    snprintf(mu_agent_mpi(agent)->folder, sizeof mu_agent_mpi(agent)->folder, "%s" MU_LAUNCH_MPI_FOLDER "%016llx",
             above, (unsigned long long)random);
    mu_agent_name_mpi_places(agent);
    mu_launch_guard_folder(agent->launching.guard, mu_agent_mpi(agent)->folder);
}

/* A task that takes its time to fail, as Python does, finds it. */
void mu_agent_begin_mpi_folder(struct mu_agent *agent)
{
    if (mu_agent_mpi(agent)->folder[0] && (mkdir(mu_agent_mpi(agent)->folder, 0700) == 0 || errno == EEXIST))
        mu_agent_watch_unserved(agent);
}

/* FNV-1a of the name that PMI gives the job, and the number of this host. */
static void link_mpichs(struct mu_agent *agent)
{
    static const char *const kinds[] = {"mpich_shm", "mpich_vci"};
    uint32_t hash = 2166136261u, host = agent->bridge ? mu_bridge_shape(agent->bridge->bridge)->host : 0;
    char path[sizeof mu_agent_mpi(agent)->folder + 32], target[64];

    for (const char *at = mu_agent_mpi(agent)->name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", mu_agent_mpi(agent)->folder, kinds[i]);
        snprintf(target, sizeof target, "/dev/shm/%s_%x_%u", kinds[i], hash, host);
        (void)!symlink(target, path); /* a file that stays is no reason for the job to end */
    }
}

void mu_agent_make_mpi_folder(struct mu_agent *agent)
{
    if (!mu_agent_mpi(agent)->folder[0] || mu_agent_mpi(agent)->has_folder)
        return;
    mu_agent_mpi(agent)->has_folder = 1;
    if (mkdir(mu_agent_mpi(agent)->folder, 0700) && errno != EEXIST) /* one of its tasks has been faster */
        mu_agent_say("no folder for what Open MPI's tasks share: %s: %s", mu_agent_mpi(agent)->folder, strerror(errno));
    else
        link_mpichs(agent);
}

void mu_agent_remove_mpi_folder(struct mu_agent *agent)
{
    if (!mu_agent_mpi(agent)->folder[0])
        return;
    mu_launch_remove_folder(mu_agent_mpi(agent)->folder); /* also one that was made without a word to us */
    mu_launch_guard_folder(agent->launching.guard, NULL);
    mu_agent_mpi(agent)->folder[0] = 0;
}

static bool is_set(char *const *vars, size_t count, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < count; i++)
        if (strncmp(vars[i], name, len) == 0 && vars[i][len] == '=')
            return 1;
    return 0;
}

int mu_agent_list_mpi_places(struct mu_agent *agent, uint32_t app, char **ret_vars)
{
    const struct mu_launch_env *env = &agent->launching.envs[app];
    int n = 0;

    for (int i = 0; i < MU_AGENT_MPI_PLACES && mu_agent_mpi(agent)->folder[0]; i++)
        if (!is_set(env->vars, env->count, names[i]))
            ret_vars[n++] = mu_agent_mpi(agent)->places[i];
    return n;
}
