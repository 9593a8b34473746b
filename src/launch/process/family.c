/*
 * launch/process/family.c: by which variables other launchers tell their processes what they are.
 *
 * A launcher that was itself started by one of these has such variables, and they are true of it alone. Its tasks are
 * other processes, in other numbers: a program that found half of a family from there and half from here would believe
 * what nobody has said. So a family is muster's own and whole (env.c), or the tasks have nothing of it. What says where
 * they run, and not what they are, stays: the allocation's number, its owner, its limits.
 */
#include "launch/launch.h"

#include <string.h>

/* Of the step that has started this launcher; Lightning, JAX and others believe in it where they find it. */
static const char slurm[] = "SLURM_";

/* What names begin with, or, with the '=', are. Those that env.c sets are not repeated here. */
static const char *const told[] = {
    /* Open MPI's mpirun: what is beside OMPI_COMM_WORLD_*; by the others its library knows that mpirun is there */
    "OMPI_APP_CTX_NUM_PROCS=",
    "OMPI_ARGV=",
    "OMPI_COMMAND=",
    "OMPI_COMM_WORLD_",
    "OMPI_FILE_LOCATION=",
    "OMPI_FIRST_RANKS=",
    "OMPI_NUM_APP_CTX=",
    "OMPI_UNIVERSE_SIZE=",
    "OMPI_MCA_ess=",
    "OMPI_MCA_ess_base_",
    "OMPI_MCA_initial_wdir=",
    "OMPI_MCA_orte_app_num=",
    "OMPI_MCA_orte_bound_at_launch=",
    "OMPI_MCA_orte_ess_",
    "OMPI_MCA_orte_hnp_uri=",
    "OMPI_MCA_orte_jobfam_session_dir=",
    "OMPI_MCA_orte_launch=",
    "OMPI_MCA_orte_local_daemon_uri=",
    "OMPI_MCA_orte_num_nodes=",
    "OMPI_MCA_orte_precondition_transports=",
    "OMPI_MCA_pmix=^s1,s2,",
    "PRTE_LAUNCHED=",
    /* MVAPICH, Cray's PALS and ALPS, IBM's jsrun, Flux */
    "MV2_COMM_WORLD_",
    "MVP_COMM_WORLD_",
    "PALS_",
    "ALPS_APP_",
    "JSM_",
    "FLUX_JOB_NNODES=",
    "FLUX_JOB_SIZE=",
    "FLUX_TASK_",
};

/* Of Slurm's, what is said of the allocation, or of the machine. */
static const char *const kept[] = {
    "SLURM_ARRAY_",          "SLURM_CLUSTER_NAME=",  "SLURM_CONF",         "SLURM_CPUS_ON_NODE=",
    "SLURM_GPUS_ON_NODE=",   "SLURM_JOBID=",         "SLURM_JOB_ACCOUNT=", "SLURM_JOB_END_TIME=",
    "SLURM_JOB_GID=",        "SLURM_JOB_GPUS=",      "SLURM_JOB_GROUP=",   "SLURM_JOB_ID=",
    "SLURM_JOB_NAME=",       "SLURM_JOB_PARTITION=", "SLURM_JOB_QOS=",     "SLURM_JOB_RESERVATION=",
    "SLURM_JOB_START_TIME=", "SLURM_JOB_UID=",       "SLURM_JOB_USER=",    "SLURM_JWT=",
    "SLURM_MEM_PER_NODE=",   "SLURM_RESTART_COUNT=", "SLURM_SUBMIT_",      "SLURM_TMPDIR=",
};

static int begins_with_one(const char *entry, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(entry, list[i], strlen(list[i])) == 0)
            return 1;
    return 0;
}

int mu_launch_family_told(const char *entry, int of_mpi)
{
    if (strncmp(entry, slurm, sizeof slurm - 1) == 0)
        return !begins_with_one(entry, kept, sizeof kept / sizeof kept[0]);
    return of_mpi && begins_with_one(entry, told, sizeof told / sizeof told[0]);
}
