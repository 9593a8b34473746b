/*
 * agent/hosts/hosts.h: a job of several hosts: an agent on each, of which one, host 0's, leads.
 *
 * The leader's agent listens; the others come to it, started by it with rsh or by another launcher. When all are there
 * each makes its own segment and starts its own tasks. From then on the leader decides and they tell and obey
 * (agent/hosts/talk.h). A host that is lost ends the job, as a task does that fails; a follower that has lost its
 * leader ends its own tasks. With --survive another agent may take a dead one's place (agent/hosts/rejoin.c) before
 * that.
 */
#ifndef MU_AGENT_HOSTS_HOSTS_H
#define MU_AGENT_HOSTS_HOSTS_H

#include <stdint.h>

#include "agent/agent.h"
#include "launch/hosts.h"
#include "launch/launch.h"

#define MU_AGENT_JOIN_TIMEOUT_NS 60000000000ull

struct mu_agent_bridge;

/* What the leader's agent tells each that comes. */
struct mu_agent_orders {
    uint32_t attempt;           /* of the job */
    int colour[3];              /* its stdout and stderr show colours */
    struct mu_launch_size size; /* of its terminal */
    int serves;                 /* the coordination service; then, as its engine does it: */
    int register_barrier, shutdown_barrier;
    uint16_t ports[2];    /* for torch and JAX, on the host of task 0 */
    char master[300];     /* which is called this */
    uint8_t *checkpoints; /* the newest whole generations, as checkpoint/hosts.c packs them; NULL: none */
    size_t checkpoints_len;
    char *directory;     /* where the job was started; NULL: the agent's own will do */
    char **words, **env; /* of its command line, behind "muster run", and its variables; NULL: the agent has its own */
    /* not packed: the bridge knows */
    char job[208];
    uint64_t heap_bytes, object_bytes, segment_timeout_ns;
    uint32_t first_task, num_tasks;
};

struct mu_agent_hosts {
    uint32_t node, nodes; /* which one this is, of how many */
    uint32_t tasks_here;
    const struct mu_launch_hosts
        *list;           /* the leader's: the hosts that it starts; NULL: they are started by somebody else */
    const char *rsh;     /* by this command */
    const char *address; /* the leader's: HOST:PORT; its own, where it leads, may be NULL */
    const char *file;    /* where the leader writes it for the others, and they wait for it; NULL */
    const char *name;    /* what this host is called; NULL: its host name */
    uint8_t key[MU_LAUNCH_KEY_BYTES];
    uint64_t join_timeout_ns;
    uint64_t heartbeat_timeout_ns; /* 0: the default */
    uint64_t adopt_ns;             /* an agent that has died may be replaced for so long; 0: its host is lost */
    uint64_t incarnation[2];       /* of this host's part in the job, also when its agent is replaced */
    int latency;
    int is_called;     /* a follower's: by its leader, which so listens */
    int watches_stdin; /* a follower's: the end of its standard input is the end of the job */
    int colour[3];
    struct mu_agent_orders *orders; /* the leader's, to be filled in further; a follower's: that it got */
    struct mu_agent_bridge *met;    /* a follower's, from mu_agent_come() */
    /* a follower's that stays for the next attempt (agent/hosts/stay.c) */
    int stays;
    uint64_t stays_ns;             /* how long the leader may take to listen again */
    char run_id[40];               /* of all its attempts; "": of none yet */
    struct mu_launch_guard *guard; /* of the last one: it guards what outlives that; NULL: none */
};

/* A follower: meet the leader, and hear what is to be done. 0, or an exit status with the reason said. */
int mu_agent_come(struct mu_agent_hosts *hosts, const char *job);
/* The same when nothing comes of it, or of what it has stayed for: that is removed. */
void mu_agent_go(struct mu_agent_hosts *hosts);

/* What messages begin with; "muster run" until then. */
void mu_agent_call_me(const char *name);
/* An address or a name of the host of task 0, for the tasks' environment. */
void mu_agent_find_master(const struct mu_agent_hosts *hosts, char *ret_master, size_t size);
/* What this host calls that: where a number leads here from elsewhere and is none of ours, as through a NAT, loopback.
 */
const char *mu_agent_master_here(const struct mu_agent_hosts *hosts);

void mu_agent_orders_done(struct mu_agent_orders *orders);

#endif
