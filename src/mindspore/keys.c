/*
 * mindspore/keys.c: the keys that RPC0's nodes write for each other.
 */
#include "mindspore/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define KEY_COST 128u /* bytes, of a key besides its name and value */

struct mu_ms_key *mu_ms_key_find(const struct mu_ms_topology *t, const char *name)
{
    for (struct mu_ms_key *key = t->keys; key; key = key->next)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

void mu_ms_key_drop(struct mu_ms_topology *t, struct mu_ms_key *key)
{
    MU_LIST_DROP(t->keys, key);
    t->held -= strlen(key->name) + key->len + KEY_COST;
    free(key->name);
    free(key);
}

bool mu_ms_key_put(struct mu_ms_topology *t, const char *name, const void *value, size_t len)
{
    struct mu_ms_key *old = mu_ms_key_find(t, name), *key;

    if (strlen(name) + len + KEY_COST > MU_MS_KEYS_MAX - t->held)
        return false;
    key = malloc(sizeof *key + len);
    if (!key)
        return false;
    key->name = strdup(name);
    if (!key->name) {
        free(key);
        return false;
    }
    key->len = len;
    if (len)
        memcpy(key->value, value, len);
    if (old)
        mu_ms_key_drop(t, old);
    t->held += strlen(name) + len + KEY_COST;
    MU_LIST_PUSH(t->keys, key);
    return true;
}
