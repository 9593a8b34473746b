/*
 * rpc/devices.c: many local topologies into one, by topology/'s rules.
 *
 * A message does not say of which form it is: field 2 of a local topology was its devices, and became its boot id. Each
 * form is tried, today's first: it refuses a boot id that holds what only a device begins with.
 */
#include "rpc/devices.h"

#include <muster/topology.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

enum muster_status mu_devices_global(const ProtobufCBinaryData *locals, size_t count, void **ret_bytes,
                                     size_t *ret_size)
{
    const void **each = calloc(count + 1, sizeof *each);
    size_t *sizes = calloc(count + 1, sizeof *sizes);
    enum muster_status status = MUSTER_RESOURCE_EXHAUSTED;
    char why[512];

    for (size_t i = 0; each && sizes && i < count; i++) {
        each[i] = locals[i].len ? (const void *)locals[i].data : "";
        sizes[i] = locals[i].len;
    }
    if (each && sizes)
        status = muster_topology_global(MUSTER_FORM_XLA, each, sizes, count, ret_bytes, ret_size);
    else
        mu_fail(status, "no memory for %zu local topologies", count);
    snprintf(why, sizeof why, "%s", muster_last_error());
    if (status == MUSTER_INVALID_ARGUMENT) {
        status = muster_topology_global(MUSTER_FORM_2020, each, sizes, count, ret_bytes, ret_size);
        if (status)
            mu_fail(status, "%s", why);
    }
    free(each);
    free(sizes);
    return status;
}
