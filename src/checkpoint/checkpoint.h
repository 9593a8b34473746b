/* checkpoint/checkpoint.h: what the launcher and its guard do with a run's checkpoints. */
#ifndef MU_CHECKPOINT_CHECKPOINT_H
#define MU_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

#include "base/pack.h"

/* The folder in shared memory that this run's checkpoints lie in, for this user. */
void mu_checkpoint_folder(const char *run_id, char *path, size_t size);

/* Make or find it. FAILED_PRECONDITION: that is no run's number; PERMISSION_DENIED: somebody else has it. */
enum muster_status mu_checkpoint_folder_make(const char *run_id, char *path, size_t size);

/* Remove it with all that lies in it, where there is one. */
void mu_checkpoint_remove(const char *run_id);

/*
 * No process of that rank lives, and it is started again: its part of a generation that is not whole counts no more.
 * An error is of the last head that could not be set back; what can be is.
 */
enum { MU_CHECKPOINT_ALL = -1 };
enum muster_status mu_checkpoint_rewind(const char *run_id, int32_t rank);

/* ---- several hosts (hosts.c) ---- */

/* Whether any task of this run has opened a checkpoint on this host. */
bool mu_checkpoint_is_there(const char *run_id);
/* The newest whole generation of each, as the leader's host has it; and another host's taking it over, before its tasks
 * start: what they have saved beyond it counts no more. False: it cannot be read. */
void mu_checkpoint_pack_newest(const char *run_id, uint32_t ranks, struct mu_pack *p);
bool mu_checkpoint_take_newest(const char *run_id, uint32_t ranks, struct mu_unpack *u);

/* What an agent has of the checkpoints of its job of several hosts. */
struct mu_checkpoint_relay;
/* For the ranks of this host, `count` from `first`. NULL: no memory, or no folder. */
struct mu_checkpoint_relay *mu_checkpoint_relay_new(const char *run_id, uint32_t ranks, uint32_t first, uint32_t count,
                                                    bool leads);
void mu_checkpoint_relay_free(struct mu_checkpoint_relay *relay);
/* Readable when a task has changed something; mu_checkpoint_relay_look() reads it empty. */
int mu_checkpoint_relay_fd(const struct mu_checkpoint_relay *relay);
/* Commit what is whole, and say what the others have to know: a follower to the leader, the leader to all. When to look
 * again though nothing rings; UINT64_MAX: not. `ended`: a task's process has, and may not have rung. */
typedef void (*mu_checkpoint_say)(void *arg, const struct mu_pack *what);
uint64_t mu_checkpoint_relay_look(struct mu_checkpoint_relay *relay, uint64_t now, bool ended, mu_checkpoint_say say,
                                  void *arg);
/* What the agent of the ranks `count` from `first` has said; of the leader all. A look is due. False: it cannot be
 * read, or is of ranks that are not that host's. */
bool mu_checkpoint_relay_hear(struct mu_checkpoint_relay *relay, uint32_t first, uint32_t count, struct mu_unpack *u);
/* The other side knows nothing any more: all is said anew. */
void mu_checkpoint_relay_forget(struct mu_checkpoint_relay *relay);

#endif
