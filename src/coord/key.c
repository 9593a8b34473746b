/*
 * coord/key.c: the keys that wire clients use and the C library does not: with parts "." and "..", empty, and longer
 * than MUSTER_KEY_MAX, as JAX's are that list all devices of a clique.
 *
 * The reference folds slashes and ends a key at its first NUL; so it is here. What the store can hold it holds as it
 * is. A longer key has a name of its own (kv/key.h), and lies in front of its value. The empty key's name is one NUL.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "coord/private.h"

enum { BEGINS = MU_KV_LONG_BEGINS, HASH_DIGITS = MU_KV_LONG_HASH };

/* The parts of the path, one '/' between them, whatever they are. */
static size_t fold_path(const char *key, size_t len, char *to)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        if (key[i] != '/')
            to[n++] = key[i];
        else if (n && to[n - 1] != '/')
            to[n++] = '/';
    return n && to[n - 1] == '/' ? n - 1 : n;
}

/* FNV-1a of 128 bits. */
static void write_hash(char to[HASH_DIGITS + 1], const char *key, size_t len)
{
    const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 h = ((unsigned __int128)0x6c62272e07bb0142ull << 64) + 0x62b821756295c58dull;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)key[i]) * prime;
    snprintf(to, HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)(h >> 64), (uint64_t)h);
}

void mu_coord_id(const char *id, size_t len, char text[MUSTER_BARRIER_ID_MAX + 1])
{
    size_t shown = mu_utf8_cut(id, len ? strnlen(id, len) : 0, MUSTER_BARRIER_ID_MAX - HASH_DIGITS - 2);
    char hash[HASH_DIGITS + 1];

    if (len && len <= MUSTER_BARRIER_ID_MAX && !memchr(id, 0, len)) {
        memcpy(text, id, len);
        text[len] = 0;
        return;
    }
    write_hash(hash, id, len);
    snprintf(text, MUSTER_BARRIER_ID_MAX + 1, "%.*s%%H%s", (int)shown, id, hash);
}

static enum muster_status name_folded(struct mu_coord *coord, char *path, size_t len, struct mu_key *ret_key,
                                      struct mu_coord_head *ret_head)
{
    char name[BEGINS + HASH_DIGITS + 2] = {0};

    if (len == 0) {
        mu_key_make(ret_key, coord->seg, "", 1);
    } else if (len <= MUSTER_KEY_MAX) {
        mu_key_make(ret_key, coord->seg, path, len);
    } else if (len > MU_WIRE_KEY_MAX) {
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is %zu bytes long; %u is the most", len, MU_WIRE_KEY_MAX);
    } else {
        memcpy(name, path, BEGINS);
        write_hash(name + BEGINS + 1, path, len);
        mu_key_make(ret_key, coord->seg, name, BEGINS + 1 + HASH_DIGITS);
        ret_head->key = path;
        ret_head->len = len;
    }
    return MUSTER_OK;
}

enum muster_status mu_coord_key(struct mu_coord *coord, const char *key, size_t len, struct mu_key *ret_key,
                                struct mu_coord_head *ret_head)
{
    enum muster_status status;
    char *path;

    *ret_head = (struct mu_coord_head){0};
    len = len ? strnlen(key, len) : 0;
    if (len && len <= MUSTER_KEY_MAX && !mu_kv_key(coord->seg, key, len, ret_key))
        return MUSTER_OK;
    path = malloc(len + 1);
    if (!path)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a key of %zu bytes", len);
    status = name_folded(coord, path, fold_path(key, len, path), ret_key, ret_head);
    if (!ret_head->key)
        free(path);
    return status;
}

size_t mu_coord_head_bytes(const struct mu_coord_head *head)
{
    return head->key ? sizeof(uint64_t) + head->len : 0;
}

void *mu_coord_head_join(const struct mu_coord_head *head, const void *value, size_t len)
{
    uint64_t key_len = head->len;
    char *joined = malloc(sizeof key_len + head->len + len + 1);

    if (!joined)
        return NULL;
    memcpy(joined, &key_len, sizeof key_len);
    memcpy(joined + sizeof key_len, head->key, head->len);
    if (len)
        memcpy(joined + sizeof key_len + head->len, value, len);
    return joined;
}

void mu_coord_entry(const struct muster_kv_entry *stored, struct muster_kv_entry *ret_entry)
{
    size_t head;

    *ret_entry = *stored;
    if (!mu_kv_is_long(stored->key, stored->key_len) ||
        !mu_kv_long_key(stored->value, stored->value_len, &ret_entry->key, &ret_entry->key_len))
        return;
    head = sizeof(uint64_t) + ret_entry->key_len;
    ret_entry->value = (const char *)stored->value + head;
    ret_entry->value_len = stored->value_len - head;
}

enum muster_status mu_coord_directory(const char *key, size_t len, char **ret_path, size_t *ret_len)
{
    len = len ? strnlen(key, len) : 0;
    *ret_path = NULL;
    if (len > MU_WIRE_KEY_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the directory's name is %zu bytes long; %u is the most", len,
                       MU_WIRE_KEY_MAX);
    *ret_path = malloc(len + 2);
    if (!*ret_path)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a directory's name of %zu bytes", len);
    *ret_len = fold_path(key, len, *ret_path);
    if (*ret_len)
        (*ret_path)[(*ret_len)++] = '/';
    (*ret_path)[*ret_len] = 0;
    return MUSTER_OK;
}

size_t mu_coord_below(struct muster_kv_entry *entries, size_t count, const char *path, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (len <= BEGINS ||
            mu_kv_begins(entries[i].key, entries[i].key_len, entries[i].value, entries[i].value_len, path, len))
            entries[kept++] = entries[i];
    return kept;
}
