/* kv/size.h: how much the store holds. */
#ifndef MU_KV_SIZE_H
#define MU_KV_SIZE_H

#include <muster/kv.h>

/*
 * Keys, and the bytes of their values, by one pass over the store: not of one instant while others write, but it never
 * repeats itself, takes no slot and copies no value. For people that look at a job. On a host that is not the leader's:
 * the copies that lie there.
 */
enum muster_status mu_kv_size(struct muster *muster, uint64_t *ret_keys, uint64_t *ret_bytes);

#endif
