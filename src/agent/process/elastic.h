/*
 * agent/process/elastic.h: a job with a number of tasks that changes: what the launcher's other files ask of it.
 */
#ifndef MU_AGENT_PROCESS_ELASTIC_H
#define MU_AGENT_PROCESS_ELASTIC_H

#include "agent/private.h"

/* Entries of agent->tasks: the tasks that the job may have here. */
static inline uint32_t mu_agent_capacity(const struct mu_agent *agent)
{
    return agent->options->elastic ? agent->options->elastic->most : agent->num_tasks;
}

/* The attempt has ended: with how many tasks the job is started again, and after how long; 0: it is not. */
uint32_t mu_agent_elastic_again(struct mu_agent *agent, uint64_t *ret_delay_ns);
/* What its tasks are told: attempts that no failure has brought; how often a failure may start the job again. */
uint32_t mu_agent_elastic_changes(const struct mu_agent *agent);
uint32_t mu_agent_elastic_restarts(const struct mu_agent *agent);

/* ---- attempt.c ---- */
/* Before what was started again so often is started once more. */
uint64_t mu_agent_restart_delay(const struct mu_agent *agent, uint32_t times);

#endif
