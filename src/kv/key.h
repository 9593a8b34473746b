/* kv/key.h: key paths. */
#ifndef MU_KV_KEY_H
#define MU_KV_KEY_H

#include <muster/kv.h>

#include "segment/table.h"

/*
 * Normalise: strip '/' at both ends, collapse runs of it. INVALID_ARGUMENT for NUL bytes, "." and ".." parts, empty
 * keys and keys over MUSTER_KEY_MAX bytes. `len` may be MUSTER_NTS.
 */
enum muster_status mu_kv_key(const struct muster_segment *seg, const char *key, size_t len, struct mu_key *ret_key);

/* The same for a directory: ret_prefix gets "path/", or "" for the root; room for MUSTER_KEY_MAX + 2 bytes. */
enum muster_status mu_kv_directory(const char *directory, size_t len, char *ret_prefix, size_t *ret_len);

/* A key that mu_kv_key() makes does not begin with '/'. Those that do are muster's own, and no call on keys finds them:
 * what is to go to other hosts as keys do (accel/nccl_cell.c). */
static inline bool mu_kv_is_own(const char *key)
{
    return key[0] == '/';
}

/* For messages: at most 120 bytes of the key. */
#define MU_KEY_SHOWN(k) (int)((k)->len < 120 ? (k)->len : 120), (const char *)(k)->words

#endif
