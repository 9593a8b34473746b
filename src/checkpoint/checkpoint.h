/* checkpoint/checkpoint.h: what the launcher and its guard do with a run's checkpoints. */
#ifndef MU_CHECKPOINT_CHECKPOINT_H
#define MU_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

/* The folder in shared memory that this run's checkpoints lie in, for this user. */
void mu_checkpoint_folder(const char *run_id, char *path, size_t size);

/* Remove it with all that lies in it, where there is one. */
void mu_checkpoint_remove(const char *run_id);

/*
 * No process of that rank lives, and it is started again: its part of a generation that is not whole counts no more.
 * An error is of the last head that could not be set back; what can be is.
 */
enum { MU_CHECKPOINT_ALL = -1 };
enum muster_status mu_checkpoint_rewind(const char *run_id, int32_t rank);

#endif
