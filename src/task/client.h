/*
 * task/client.h: wire clients: tasks that speak through the agent of their host (over gRPC), which registers,
 * fails and ends them.
 *
 * A wire client's record refers to the slot of the agent's thread, with the flag MU_TASK_GUEST: it is alive while it is
 * connected and that slot has the same holder. When the agent dies, a scavenger puts its clients in error, and so does
 * a check of heartbeats (mu_beats_check()), or a task that finds one in its way. Heartbeats are those brought for it
 * (mu_task_beat()), and each registration. With other tasks, barriers, errors and liveness a client is as any task.
 * Nothing here sleeps.
 */
#ifndef MU_TASK_CLIENT_H
#define MU_TASK_CLIENT_H

#include "segment/cluster.h"

struct mu_client {
    uint32_t task;
    uint32_t flags;       /* MUSTER_JOIN_RECOVERABLE, _TRANSIENT */
    uint64_t incarnation; /* 0 is one, too; but a query which tasks are alive takes it for "not alive" */
    uint32_t pid;         /* 0: not known */
    bool reconnects;      /* after an error with UNAVAILABLE it may come again, though it is not recoverable */
};
/*
 * Register, or refresh. The agent's slot is the context's. OK: it is connected; perhaps it was, with this incarnation,
 * or it is recoverable and has another one now. ABORTED: in error, or connected with another incarnation, and then it
 * is put in error. ALREADY_EXISTS: a process has the id that joined by itself, and lives. INVALID_ARGUMENT: no such
 * task here.
 */
enum muster_status mu_client_register(struct mu_ctx *ctx, const struct mu_client *client);

/* It has gone, or is to begin anew: DISCONNECTED, also from ERROR. FAILED_PRECONDITION: it is so already; or it is no
 * client, and lives. */
enum muster_status mu_client_disconnect(struct mu_ctx *ctx, uint32_t task);

/* It is lost (its connection, its process), says `text`: in error, UNAVAILABLE, unless it is another incarnation by
 * now, no client, or not connected. */
enum muster_status mu_client_lost(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation, const char *text);

/* For so long after it has disconnected its heartbeats and its waiting for errors are not refused: the heartbeat
 * timeout. Never for one that has not been there. */
bool mu_client_has_grace(const struct muster_segment *seg, const struct mu_task_record *record, uint64_t now);

/* An agent has died: tasks that were its clients are in error. For the scavenger. */
void mu_clients_orphaned(struct mu_ctx *ctx, uint32_t agent_pid);

#endif
