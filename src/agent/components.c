/*
 * agent/components.c: the components of a launcher, in the order in which they begin.
 *
 * Each may use what stands before it: services are counted by the metrics, MPI's servers speak to other hosts. What is
 * gathered of all hosts stands last, so that whatever still waits for it is answered first when the job ends.
 */
#include "agent/private.h"

const struct mu_component *const mu_components[MU_COMPONENT_COUNT] = {
    [MU_COMPONENT_OBSERVER] = &mu_observer_component,
    [MU_COMPONENT_HOSTS] = &mu_hosts_component,
    [MU_COMPONENT_METRICS] = &mu_metrics_component,
    [MU_COMPONENT_COORDINATION] = &mu_coordination_component,
    [MU_COMPONENT_GRPC] = &mu_grpc_component,
    [MU_COMPONENT_TCPSTORE] = &mu_tcpstore_component,
    [MU_COMPONENT_RAY] = &mu_ray_component,
    [MU_COMPONENT_MINDSPORE] = &mu_mindspore_component,
    [MU_COMPONENT_WORKERS] = &mu_workers_component,
    [MU_COMPONENT_SESSION] = &mu_session_component,
    [MU_COMPONENT_NOTES] = &mu_notes_component,
    [MU_COMPONENT_MPI] = &mu_mpi_component,
    [MU_COMPONENT_PMIX] = &mu_pmix_component,
    [MU_COMPONENT_HEALTH] = &mu_health_component,
    [MU_COMPONENT_STATUS] = &mu_status_component,
    [MU_COMPONENT_GATHER] = &mu_gather_component,
    [MU_COMPONENT_CHECKPOINTS] = &mu_checkpoints_component,
    [MU_COMPONENT_ELASTIC] = &mu_elastic_component,
    [MU_COMPONENT_KEEP] = &mu_keep_component,
};
