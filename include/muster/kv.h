/*
 * muster/kv.h: the key-value store of the job.
 *
 * Semantics: tensorflow.CoordinationService *KeyValue RPCs, and what TCPStore and etcd users expect besides.
 * Keys are paths of 1 to 4096 bytes: leading and trailing '/' are stripped, repeated '/' count once; NUL bytes and
 * parts "." or ".." are MUSTER_INVALID_ARGUMENT. Values are 0 to 64 MiB of any bytes. A length of MUSTER_NTS means
 * "a NUL-terminated string" (the NUL is not stored). Every key has a version that grows with each change, also
 * through delete and re-insert; versions of different keys are not comparable. Keys under "muster/" are muster's own
 * (topologies that tasks exchange): they are listed and deleted like all others.
 *
 * Every mutation commits at one instant: a process killed before it changed nothing, after it everything. No call
 * blocks unless it has a deadline. MUSTER_RESOURCE_EXHAUSTED: the segment (or /dev/shm) is full, nothing changed.
 *
 * In a job of several hosts the keys are those of its leader's host. There nothing is different; on the others a
 * mutation asks the leader and waits for its answer, while the connection is down too: it is made once, whatever breaks
 * meanwhile. MUSTER_UNAVAILABLE: the leader is lost, and whether the mutation was made is not known; MUSTER_CANCELLED:
 * interrupted, and it may yet be made.
 */
#ifndef MUSTER_KV_H
#define MUSTER_KV_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_KEY_MAX   4096u
#define MUSTER_VALUE_MAX (64u << 20)

/* Insert: MUSTER_ALREADY_EXISTS when the key is there (its value is kept). (InsertKeyValue) */
MUSTER_API enum muster_status muster_kv_insert(struct muster *muster, const char *key, size_t key_len,
                                               const void *value, size_t value_len);

/* Insert or replace. *ret_version (may be NULL) gets the new version. (InsertKeyValue, allow_overwrite) */
MUSTER_API enum muster_status muster_kv_set(struct muster *muster, const char *key, size_t key_len, const void *value,
                                            size_t value_len, uint64_t *ret_version);

/*
 * Copy the value into `buffer`; *ret_len gets its length. When `capacity` is smaller, MUSTER_OUT_OF_RANGE with the
 * length needed, and nothing is copied. `buffer` may be NULL with capacity 0. MUSTER_NOT_FOUND when absent.
 * Torn values are never seen. *ret_version may be NULL. (TryGetKeyValue)
 */
MUSTER_API enum muster_status muster_kv_try_get(struct muster *muster, const char *key, size_t key_len, void *buffer,
                                                size_t capacity, size_t *ret_len, uint64_t *ret_version);

/*
 * The same, but wait until the key exists. Ends early with MUSTER_UNAVAILABLE (and the task's name) when a
 * non-recoverable task of the job is in error while the key is absent. (GetKeyValue)
 */
MUSTER_API enum muster_status muster_kv_get(struct muster *muster, const char *key, size_t key_len,
                                            muster_deadline deadline, void *buffer, size_t capacity, size_t *ret_len,
                                            uint64_t *ret_version);

/* As muster_kv_get(), into malloc()ed memory with a NUL added behind it; the caller frees *ret_value. */
MUSTER_API enum muster_status muster_kv_get_alloc(struct muster *muster, const char *key, size_t key_len,
                                                  muster_deadline deadline, void **ret_value, size_t *ret_len,
                                                  uint64_t *ret_version);

/*
 * Wait until the key is present with a version above `after` (0: until it is present), then as muster_kv_get().
 * With `after` > 0 and the key absent: MUSTER_NOT_FOUND at once: it was deleted since.
 */
MUSTER_API enum muster_status muster_kv_watch(struct muster *muster, const char *key, size_t key_len, uint64_t after,
                                              muster_deadline deadline, void *buffer, size_t capacity, size_t *ret_len,
                                              uint64_t *ret_version);

/* Add to a decimal number; absent counts as 0; *ret_value gets the sum. MUSTER_FAILED_PRECONDITION: not a number, or
 * the sum leaves 64 bits. (IncrementKeyValue) */
MUSTER_API enum muster_status muster_kv_increment(struct muster *muster, const char *key, size_t key_len, int64_t by,
                                                  int64_t *ret_value);

/*
 * Replace the value if its version is `expected` (0: only if absent). MUSTER_ABORTED when it is another: *ret_version
 * (may be NULL) then holds the present one (0: absent); on success the new one.
 */
MUSTER_API enum muster_status muster_kv_compare_and_set(struct muster *muster, const char *key, size_t key_len,
                                                        uint64_t expected, const void *value, size_t value_len,
                                                        uint64_t *ret_version);

/* Append to the value; absent counts as empty. */
MUSTER_API enum muster_status muster_kv_append(struct muster *muster, const char *key, size_t key_len,
                                               const void *value, size_t value_len, size_t *ret_len);

/*
 * Delete the key and everything under "key/"; "" or "/" is the root directory: every key goes. MUSTER_OK also when
 * there was nothing to delete; *ret_count (may be NULL) gets how many went. The keys go one by one, each at its own
 * instant; where one cannot (no memory, a corrupt segment), the call stops with that error, and a second one goes on.
 * (DeleteKeyValue)
 */
MUSTER_API enum muster_status muster_kv_delete(struct muster *muster, const char *key, size_t key_len,
                                               size_t *ret_count);

/*
 * For jobs of several hosts: after it, reads on this host see everything that was committed anywhere before the call.
 * Without it they see what came before anything that this host has learnt of through muster (a barrier, a value, an
 * event, its own writes). On one node it returns at once.
 */
MUSTER_API enum muster_status muster_kv_sync(struct muster *muster, muster_deadline deadline);

/* One entry of a listing: key and value point into the listing; both are followed by a NUL. */
struct muster_kv_entry {
    const char *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    uint64_t version;
};
struct muster_kv_list {
    struct muster_kv_entry *entries; /* sorted by key bytes */
    size_t count;
};

/*
 * All keys under "directory/", recursively, as one snapshot; the directory's own key is not part of it. "" or "/"
 * lists every key. The caller frees with muster_kv_list_free(). MUSTER_ABORTED when the keys changed so fast that no
 * snapshot could be had in 1000 tries. (GetKeyValueDir)
 */
MUSTER_API enum muster_status muster_kv_get_dir(struct muster *muster, const char *directory, size_t directory_len,
                                                struct muster_kv_list **ret_list);
MUSTER_API void muster_kv_list_free(struct muster_kv_list *list);

/* Number of keys under "directory/" ("" or "/": of all keys). */
MUSTER_API enum muster_status muster_kv_count(struct muster *muster, const char *directory, size_t directory_len,
                                              size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
