/*
 * accel/nccl_roots.h: the roots that libnccl runs in this process for the ids that it made: a thread and a listening
 * socket each. Here they are kept from leaking: into children, and beyond the life of their generation.
 */
#ifndef MU_ACCEL_NCCL_ROOTS_H
#define MU_ACCEL_NCCL_ROOTS_H

#include <stdbool.h>

#include "accel/nccl_library.h"

/* The owner of a root. */
struct mu_nccl_root_key {
    uint64_t handle; /* struct muster's id */
    uint64_t generation;
    char name[MUSTER_NCCL_NAME_MAX + 1];
};

/*
 * Make `count` ids. On failure none is left, and the sentence has NCCL's words. With NCCL_COMM_ID in the environment no
 * root is made here: rank 0 becomes it when it initialises. What still runs when it `expires` is ended.
 */
enum muster_status mu_nccl_roots_make(const struct mu_nccl *nccl, const struct mu_nccl_root_key *key, uint64_t expires,
                                      uint32_t count, struct mu_nccl_id *ret_ids);

/* End those of one generation that still run. */
void mu_nccl_roots_end(const struct mu_nccl_root_key *key);

/* End those of this handle with a dead generation, and all that have expired; forget those that have ended. It is
 * asked outside of any lock. */
typedef bool (*mu_nccl_dead_fn)(void *arg, const struct mu_nccl_root_key *key);
void mu_nccl_roots_reap(uint64_t handle, mu_nccl_dead_fn is_dead, void *arg);

/* How many run, as far as known. */
uint32_t mu_nccl_roots_count(void);

/* "10.0.0.1:41123", where an id says that its root listens; "an unknown address". For people only. */
#define MU_NCCL_ADDRESS 80u
void mu_nccl_id_address(const struct mu_nccl_id *id, char text[MU_NCCL_ADDRESS]);
/* It was made by another host, and says that its root listens on loopback, where nobody listens here. */
bool mu_nccl_is_out_of_reach(const struct mu_nccl_id *id);

#endif
