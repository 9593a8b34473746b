/* agent/mpi/mpi.h: what the files share that serve MPI: mpi.c, folder.c, unserved.c, wait.c. */
#ifndef MU_AGENT_MPI_MPI_H
#define MU_AGENT_MPI_MPI_H

#include "agent/hosts/bridge.h"
#include "compat/pmi1.h"

struct mu_agent_mpi_state {
    struct mu_pmi1 *pmi1;                  /* NULL: MPI programs are not served by PMI-1 */
    char name[64], map[MU_PMI1_VALUE_MAX]; /* what MPI programs are told: of their keys; the place of each task */
    char flux_job[32], flux_library[4200]; /* by which Open MPI is led to our libpmi; "": not found */
    char folder[160];                      /* of what Open MPI's tasks here share; "": none */
    int has_folder;                        /* it has been made, or tried to be */
    uv_timer_t timer;
    int has_timer;
    uint64_t look_at, look_ns; /* at what unserved.c put into the folder, and how long it waited before; 0: not */
    char waits[MU_AGENT_NOTE]; /* what is known of the waiters in MPI here */
    char places[MU_AGENT_MPI_PLACES][224];
};

static inline struct mu_agent_mpi_state *mu_agent_mpi(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_MPI);
}

#endif
