/*
 * agent/serve/gather.h: each host's agent gives bytes, and each gets those of all, in the order of the hosts.
 *
 * For servers beside the tasks (PMI's barrier, PMIx's fence). A round has a name; the first of that name that a host
 * gives to is the first of every other host's, and so on: rounds of one name are met in order and need no numbers.
 * Host 0's agent puts them together, as talk of the agents (agent/hosts/talk.h). Alone a host has its answer at once.
 */
#ifndef MU_AGENT_SERVE_GATHER_H
#define MU_AGENT_SERVE_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

#include "base/pack.h"

#define MU_GATHER_BYTES_MAX (64u << 20) /* of one host, most */
#define MU_GATHER_NAME_MAX  256u

struct mu_agent;

/* What the hosts gave; as long as done() runs. */
struct mu_gathered {
    uint32_t num_parts; /* 0 when it failed */
    const struct mu_gathered_part {
        const void *bytes;
        size_t len;
    } * parts;
    const char *why; /* it failed; "" otherwise */
};

/* In the loop's thread, once, perhaps before the call that it is of returns. */
typedef void mu_gather_done(void *arg, enum muster_status status, const struct mu_gathered *all);

/* 0, or INVALID_ARGUMENT, RESOURCE_EXHAUSTED, ABORTED with the reason as muster_last_error(): then nobody is called. */
enum muster_status mu_agent_gather(struct mu_agent *agent, const char *name, const void *bytes, size_t len,
                                   mu_gather_done *done, void *arg);
/* The same among some hosts: their numbers, ascending, this one's among them. All of them say the same list. */
enum muster_status mu_agent_gather_among(struct mu_agent *agent, const uint32_t *hosts, uint32_t num_hosts,
                                         const char *name, const void *bytes, size_t len, mu_gather_done *done,
                                         void *arg);

/* A host is lost, or has another agent, and gives no more: all that waits for it fails. */
void mu_agent_gather_lost(struct mu_agent *agent, uint32_t host, const char *why);
/* Host 0: the hosts that have not given to the oldest round of this name that waits; their number, 0: none waits. */
uint32_t mu_agent_gather_missing(const struct mu_agent *agent, const char *name, uint32_t *ret_hosts, uint32_t most);
/* Host 0: that round fails for all its hosts, also those that have not given yet. */
void mu_agent_gather_fail(struct mu_agent *agent, const char *name, const char *why);

/* ---- the same without an agent: what tests put between hosts that are none ---- */

struct mu_gathers;
typedef void mu_gathers_tell(void *arg, uint32_t host, const struct mu_pack *what);

/* Host `self` of so many. NULL: no memory. */
struct mu_gathers *mu_gathers_new(uint32_t self, uint32_t num_hosts, mu_gathers_tell *tell, void *arg);
enum muster_status mu_gathers_give(struct mu_gathers *g, const uint32_t *hosts, uint32_t num_hosts, const char *name,
                                   const void *bytes, size_t len, mu_gather_done *done, void *arg);
void mu_gathers_hear(struct mu_gathers *g, uint32_t host, struct mu_unpack *u);
void mu_gathers_lost(struct mu_gathers *g, uint32_t host, const char *why);
uint32_t mu_gathers_missing(const struct mu_gathers *g, const char *name, uint32_t *ret_hosts, uint32_t most);
void mu_gathers_fail(struct mu_gathers *g, const char *name, const char *why);
/* All that waits here fails; NULL is allowed. */
void mu_gathers_free(struct mu_gathers *g, const char *why);

#endif
