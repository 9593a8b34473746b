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

/*
 * A wire client's key may be longer than MUSTER_KEY_MAX (coord/key.c). Its name in the store is then its first
 * MU_KV_LONG_BEGINS bytes, a NUL, which no other key has there, and a hash; the whole key lies in front of the value,
 * behind its length in 8 bytes.
 */
#define MU_KV_LONG_BEGINS 3968u
#define MU_KV_LONG_HASH   32u
static inline bool mu_kv_is_long(const char *name, size_t len)
{
    return len == MU_KV_LONG_BEGINS + 1 + MU_KV_LONG_HASH && !name[MU_KV_LONG_BEGINS];
}
/* What lies in front of its value. False: nothing that could. */
bool mu_kv_long_key(const void *value, size_t value_len, const char **ret_key, size_t *ret_len);
/* The key, as clients know it, begins with these bytes, which are more than MU_KV_LONG_BEGINS. */
bool mu_kv_begins(const char *name, size_t name_len, const void *value, size_t value_len, const char *with, size_t len);

/* For messages: at most 120 bytes of the key. */
#define MU_KEY_SHOWN(k) (int)((k)->len < 120 ? (k)->len : 120), (const char *)(k)->words

#endif
