/*
 * rpc/methods.c: the methods of a server, by path.
 */
#include "rpc/private.h"

#include <stdlib.h>
#include <string.h>

static uint32_t path_hash(const char *text, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

int mu_rpc_methods_open(struct mu_rpc *rpc)
{
    uint32_t count = 0, size = 16;

    for (unsigned i = 0; i < rpc->num_lists; i++)
        for (const struct mu_rpc_method *m = rpc->lists[i]; m->path; m++)
            count++;
    while (size < 2 * count + 2)
        size *= 2;
    rpc->table = calloc(size, sizeof(const struct mu_rpc_method *));
    if (!rpc->table)
        return -1;
    rpc->table_mask = size - 1;
    for (unsigned i = 0; i < rpc->num_lists; i++)
        for (const struct mu_rpc_method *m = rpc->lists[i]; m->path; m++) {
            uint32_t at = path_hash(m->path, strlen(m->path)) & rpc->table_mask;

            while (rpc->table[at])
                at = (at + 1) & rpc->table_mask;
            rpc->table[at] = m;
        }
    return 0;
}

const struct mu_rpc_method *mu_rpc_find(const struct mu_rpc *rpc, const char *path, size_t len)
{
    for (uint32_t at = path_hash(path, len) & rpc->table_mask; rpc->table[at]; at = (at + 1) & rpc->table_mask)
        if (strlen(rpc->table[at]->path) == len && memcmp(rpc->table[at]->path, path, len) == 0)
            return rpc->table[at];
    return NULL;
}
