/*
 * mindspore/keys.c: the keys that RPC0's nodes write for each other, in a tree of the C library's.
 */
#include "mindspore/private.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define KEY_COST 128u /* bytes, of a key besides its name and value */

static int key_compare(const void *a, const void *b)
{
    return strcmp(((const struct mu_ms_key *)a)->name, ((const struct mu_ms_key *)b)->name);
}

struct mu_ms_key *mu_ms_key_find(const struct mu_ms_topology *t, const char *name)
{
    const struct mu_ms_key wanted = {.name = name};
    struct mu_ms_key *const *found = tfind(&wanted, &t->keys, key_compare);

    return found ? *found : NULL;
}

void mu_ms_key_drop(struct mu_ms_topology *t, struct mu_ms_key *key)
{
    tdelete(key, &t->keys, key_compare);
    t->held -= strlen(key->name) + key->len + KEY_COST;
    free(key);
}

bool mu_ms_key_put(struct mu_ms_topology *t, const char *name, const void *value, size_t len)
{
    size_t name_len = strlen(name);
    struct mu_ms_key *old = mu_ms_key_find(t, name), *key;

    if (name_len + len + KEY_COST > MU_MS_KEYS_MAX - t->held)
        return false;
    key = malloc(sizeof *key + len + name_len + 1);
    if (!key)
        return false;
    key->len = len;
    if (len)
        memcpy(key->value, value, len);
    key->name = memcpy(key->value + len, name, name_len + 1);
    if (old)
        mu_ms_key_drop(t, old);
    if (!tsearch(key, &t->keys, key_compare)) {
        free(key);
        return false;
    }
    t->held += name_len + len + KEY_COST;
    return true;
}

void mu_ms_keys_free(struct mu_ms_topology *t)
{
    tdestroy(t->keys, free);
    t->keys = NULL;
    t->held = 0;
}
