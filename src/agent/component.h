/*
 * agent/component.h: what a launcher is made of. Each component is a row of the table in agent/components.c; the core
 * (agent/life.c, agent/process/tasks.c) calls them through the row alone.
 *
 * A component keeps its state in a struct of its own. It is told of the steps of a job's life, in the order of the
 * table, at the end in the reverse order, and any function of the row may be NULL. A component never ends the job: it
 * posts an event (mu_agent_post(), mu_agent_break()).
 */
#ifndef MU_AGENT_COMPONENT_H
#define MU_AGENT_COMPONENT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

struct mu_agent;
struct mu_agent_gift;

/* By place in the table. */
enum mu_component_id {
    MU_COMPONENT_OBSERVER,
    MU_COMPONENT_HOSTS,
    MU_COMPONENT_METRICS,
    MU_COMPONENT_COORDINATION,
    MU_COMPONENT_GRPC,
    MU_COMPONENT_TCPSTORE,
    MU_COMPONENT_RAY,
    MU_COMPONENT_MINDSPORE,
    MU_COMPONENT_WORKERS,
    MU_COMPONENT_SESSION,
    MU_COMPONENT_KEEP,
    MU_COMPONENT_NOTES,
    MU_COMPONENT_MPI,
    MU_COMPONENT_PMIX,
    MU_COMPONENT_HEALTH,
    MU_COMPONENT_STATUS,
    MU_COMPONENT_GATHER,
    MU_COMPONENT_CHECKPOINTS,
    MU_COMPONENT_ELASTIC,
    MU_COMPONENT_COUNT
};

struct mu_component {
    const char *name;
    /* Bytes of its state, which is zeroed before open() and freed when the loop is closed: mu_component_state(). */
    size_t state_size;
    /* Once, before anything else of the job. 0, or -1 with the reason said. */
    int (*open)(struct mu_agent *agent);
    /* The attempt's segment is there, and no task yet. 0, or -1 with the reason said. */
    int (*begin)(struct mu_agent *agent);
    /* What a task is given before it starts. 0, or -1 with the reason said. */
    int (*equip)(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift);
    /* Tasks of this host have been started: all at first, one when it is started again. */
    void (*started)(struct mu_agent *agent, uint32_t first, uint32_t count);
    /* A task's process has ended so: it may be condemned. */
    void (*judge)(struct mu_agent *agent, uint32_t task_id, int wait_status);
    /* It has ended, and the segment knows. */
    void (*ended)(struct mu_agent *agent, uint32_t task_id);
    /* The time at which the component wants to be called, UINT64_MAX: not; and the call, after every turn. */
    uint64_t (*due)(const struct mu_agent *agent);
    void (*tick)(struct mu_agent *agent, uint64_t now);
    /* The tasks are told to end: at once, where `killed`. */
    void (*ending)(struct mu_agent *agent, int killed);
    /* A report of the job is about to be made: what people are to see of it is to be there. */
    void (*report)(struct mu_agent *agent);
    /* A child has ended that is no task: 1 when it was this component's, and is reaped. */
    int (*child_ended)(struct mu_agent *agent, const siginfo_t *info);
    /* No task is left here or elsewhere; the services stop; nothing of the attempt lives; the agent ends. */
    void (*part)(struct mu_agent *agent);
    void (*stop)(struct mu_agent *agent);
    void (*clear)(struct mu_agent *agent);
    /* The attempt's segment is about to be left. */
    void (*leave)(struct mu_agent *agent);
    void (*close)(struct mu_agent *agent);
    /* What another host's component says, as talk of this kind; 0: nothing. */
    uint32_t talk;
    void (*hear)(struct mu_agent *agent, uint32_t host, struct mu_unpack *u);
    /* What it serves, and what goes on there, for people: in this key, of other hosts below the other. */
    const char *key, *hosts_key;
    void (*describe)(const struct mu_agent *agent, char *text, size_t size);
};

/* All of them, in components.c. */
extern const struct mu_component *const mu_components[MU_COMPONENT_COUNT];

void *mu_component_state(const struct mu_agent *agent, enum mu_component_id id);

/* component.c: call all that have such a function. 0, or -1 as soon as one fails. */
int mu_components_open(struct mu_agent *agent, const struct mu_component *const *components);
int mu_components_begin(struct mu_agent *agent);
int mu_components_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift);
void mu_components_started(struct mu_agent *agent, uint32_t first, uint32_t count);
void mu_components_judge(struct mu_agent *agent, uint32_t task_id, int wait_status);
void mu_components_ended(struct mu_agent *agent, uint32_t task_id);
uint64_t mu_components_due(const struct mu_agent *agent);
void mu_components_tick(struct mu_agent *agent);
void mu_components_ending(struct mu_agent *agent, int killed);
void mu_components_report(struct mu_agent *agent);
int mu_components_child_ended(struct mu_agent *agent, const siginfo_t *info);
void mu_components_part(struct mu_agent *agent);
void mu_components_stop(struct mu_agent *agent);
void mu_components_clear(struct mu_agent *agent);
void mu_components_leave(struct mu_agent *agent);
void mu_components_close(struct mu_agent *agent);
void mu_components_free(struct mu_agent *agent);
void mu_components_hear(struct mu_agent *agent, uint32_t host, uint32_t talk, struct mu_unpack *u);

#endif
