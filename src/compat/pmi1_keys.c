/*
 * compat/pmi1_keys.c: a table of keys and values in the agent's own memory.
 *
 * Each get of a client is a round trip to this process, so that is where the values lie; what a job's store shows of
 * them is a copy for people.
 */
#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "compat/pmi1_private.h"

static uint64_t key_hash(const char *key, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

/* Where it is, or would be. */
static size_t key_find(const struct mu_pmi1_keys *keys, uint64_t hash, const char *key, size_t key_len)
{
    size_t at = hash & (keys->size - 1);

    for (;; at = (at + 1) & (keys->size - 1)) {
        const struct mu_pmi1_entry *entry = keys->slots[at];

        if (!entry || (entry->hash == hash && entry->key_len == key_len && memcmp(entry->bytes, key, key_len) == 0))
            return at;
    }
}

static bool keys_grow(struct mu_pmi1_keys *keys)
{
    struct mu_pmi1_keys larger = *keys;

    larger.size = keys->size ? keys->size * 2 : 64;
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < keys->size; i++)
        if (keys->slots[i])
            larger.slots[key_find(&larger, keys->slots[i]->hash, keys->slots[i]->bytes, keys->slots[i]->key_len)] =
                keys->slots[i];
    free(keys->slots);
    *keys = larger;
    return true;
}

static void drop_entry(struct mu_pmi1_keys *keys, struct mu_pmi1_entry *entry)
{
    size_t bytes = sizeof *entry + entry->key_len + entry->value_len + 2;

    keys->counted -= bytes;
    if (keys->account)
        mu_account_give(keys->account, bytes);
    free(entry);
}

int mu_pmi1_keys_put(struct mu_pmi1_keys *keys, const char *key, size_t key_len, const char *value, size_t value_len)
{
    size_t bytes = sizeof(struct mu_pmi1_entry) + key_len + value_len + 2, at;
    struct mu_pmi1_entry *entry;
    int is_new;

    if (keys->account && !mu_account_take(keys->account, 0, bytes))
        return -1;
    entry = malloc(bytes);
    if (!entry || (keys->count * 2 >= keys->size && !keys_grow(keys))) {
        if (keys->account)
            mu_account_give(keys->account, bytes);
        free(entry);
        return -1;
    }
    keys->counted += bytes;
    *entry = (struct mu_pmi1_entry){key_hash(key, key_len), (uint32_t)key_len, (uint32_t)value_len};
    memcpy(entry->bytes, key, key_len);
    entry->bytes[key_len] = 0;
    memcpy(entry->bytes + key_len + 1, value, value_len);
    entry->bytes[key_len + 1 + value_len] = 0;
    at = key_find(keys, entry->hash, key, key_len);
    is_new = !keys->slots[at];
    if (!is_new)
        drop_entry(keys, keys->slots[at]);
    keys->slots[at] = entry;
    keys->count += (size_t)is_new;
    return is_new;
}

const char *mu_pmi1_keys_get(const struct mu_pmi1_keys *keys, const char *key, size_t key_len, size_t *ret_len)
{
    const struct mu_pmi1_entry *entry =
        keys->size ? keys->slots[key_find(keys, key_hash(key, key_len), key, key_len)] : NULL;

    if (!entry)
        return NULL;
    *ret_len = entry->value_len;
    return entry->bytes + key_len + 1;
}

void mu_pmi1_keys_done(struct mu_pmi1_keys *keys)
{
    for (size_t i = 0; i < keys->size; i++)
        free(keys->slots[i]);
    free(keys->slots);
    if (keys->account)
        mu_account_give(keys->account, keys->counted);
    *keys = (struct mu_pmi1_keys){.slots = NULL};
}
