/*
 * agent/process/elastic.h: a job with a number of tasks that changes: what the launcher's other files ask of it.
 */
#ifndef MU_AGENT_PROCESS_ELASTIC_H
#define MU_AGENT_PROCESS_ELASTIC_H

#include "agent/private.h"

/* A task of a live job: one that is no member any more; one that was started for a change. */
struct mu_agent_leaver {
    uint64_t end_at; /* it is told to end; 0: it is a member, or does not live */
    int is_told;
    uint64_t change; /* for which its process was started; 0: it is of the first */
};

struct elastic_state {
    uint64_t look_at, word; /* when the membership is looked at; its word, as it was then */
    uint32_t wanted;        /* tasks of the next epoch that were asked for; 0: nothing was */
    uint32_t failures;      /* after which there was another attempt; of a live job replacements */
    char why[448];          /* there is this epoch; "": it is the first */
    /* of a live job */
    struct mu_agent_leaver *leavers; /* by task */
    uint32_t size, target;           /* members, and as many as there are to be */
    uint64_t epoch;
};

static inline struct elastic_state *mu_agent_elastic(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_ELASTIC);
}
static inline int mu_agent_is_live(const struct mu_agent *agent)
{
    return agent->options->elastic && agent->options->elastic->live;
}

/* Of so many tasks from this one on: those that are started at first. */
static inline uint32_t mu_agent_at_first(const struct mu_agent *agent, uint32_t first, uint32_t count)
{
    uint32_t all = agent->options->num_tasks;

    if (!mu_agent_is_live(agent))
        return count;
    return first >= all ? 0 : all - first < count ? all - first : count;
}

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

/* ---- live.c: a job with epochs that follow each other in its segment ---- */
/* Start the tasks that a pending change asks for; end those that are no members. Ten times a second. */
void mu_agent_live_look(struct mu_agent *agent, uint64_t now);
/* The task has ended, and the segment knows: whether that is the job's failure. */
void mu_agent_live_ended(struct mu_agent *agent, uint32_t task_id);
/* On the leader's host: another host has started it, not at first. */
void mu_agent_live_began(struct mu_agent *agent, uint32_t task_id);
/* A host with these tasks is lost. True: the job goes on without them, in *ret_epoch with *ret_left members. */
int mu_agent_live_without(struct mu_agent *agent, uint32_t first, uint32_t count, const char *why, uint64_t *ret_epoch,
                          uint32_t *ret_left);

/* hosts/tell.c: the task's host is lost: none of its tasks can be started. */
int mu_agent_is_out_of_reach(const struct mu_agent *agent, uint32_t task_id);

/* ---- attempt.c ---- */
/* Before what was started again so often is started once more. */
uint64_t mu_agent_restart_delay(const struct mu_agent *agent, uint32_t times);

#endif
