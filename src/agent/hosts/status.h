/*
 * agent/hosts/status.h: what tasks of another host do, and wait for in muster, as their host's agent saw it.
 *
 * A task status is told only of tasks that are there, joined or not. The leader's agent keeps what a host's said,
 * behind the time at which it came, in a key: "muster/sights/3".
 */
#ifndef MU_AGENT_HOSTS_STATUS_H
#define MU_AGENT_HOSTS_STATUS_H

#include "base/pack.h"

#define MU_AGENT_STATUS "muster/sights"

struct mu_agent_status {
    uint32_t task;
    uint64_t incarnation;
    uint32_t pid;     /* of its process, where that lives and has not joined; 0: it has */
    char letter;      /* of its first thread, as in its stat file; 'S' only where that sleeps for long; 0: not known */
    uint64_t ran;     /* when that last ran, CLOCK_MONOTONIC; 0: not known */
    uint64_t since;   /* likewise, since when it waits in muster; 0: it does not, or not for long */
    char waiting[96]; /* for what; "" */
};

/* Ages travel, never times: these are those before `now`. */
void mu_agent_status_pack(struct mu_pack *p, const struct mu_agent_status *status, uint64_t now);
/* False: it cannot be read. */
bool mu_agent_status_unpack(struct mu_unpack *u, uint64_t now, struct mu_agent_status *ret_status);

#endif
