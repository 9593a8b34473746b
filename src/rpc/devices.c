/*
 * rpc/devices.c: many local topologies into one, by topology/'s rules.
 *
 * A message does not say of which form it is: field 2 of a local topology was its devices, and became its boot id. Each
 * form is tried, today's first: it refuses a boot id that holds what only a device begins with.
 *
 * Where clients exchange topologies by themselves, devices are numbered partition by partition. The services that did
 * it for them numbered node by node, and so is it done here.
 */
#include "rpc/devices.h"

#include <muster/topology.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "rpc/codec.h"
#include "topology/message.h"
#include "topology/xla.pb-c.h"

static int by_node(const void *a, const void *b)
{
    int32_t one = (*(Mu__Xla__LocalTopologyProto *const *)a)->process_id;
    int32_t two = (*(Mu__Xla__LocalTopologyProto *const *)b)->process_id;

    return (one > two) - (one < two);
}

/* Today's form, in place: in the order of the nodes, and of each node's devices. */
static enum muster_status number_by_node(void **bytes, size_t *size)
{
    Mu__Xla__GlobalTopologyProto *topology;
    ProtobufCMessage *message;
    void *numbered;
    int32_t id = 0;
    enum muster_status status =
        mu_codec_read(&mu__xla__global_topology_proto__descriptor, NULL, *bytes, *size, &message);

    if (status)
        return status;
    topology = (Mu__Xla__GlobalTopologyProto *)message;
    qsort(topology->processes, topology->n_processes, sizeof(void *), by_node);
    for (size_t i = 0; i < topology->n_processes; i++)
        for (size_t k = 0; k < topology->processes[i]->n_devices; k++)
            topology->processes[i]->devices[k]->global_device_id = id++;
    status = mu_message_pack(message, &numbered, size);
    mu_codec_free(message);
    if (!status) {
        free(*bytes);
        *bytes = numbered;
    }
    return status;
}

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
    if (!status) {
        status = number_by_node(ret_bytes, ret_size);
        if (status)
            free(*ret_bytes);
    }
    snprintf(why, sizeof why, "%s", muster_last_error());
    if (status == MUSTER_INVALID_ARGUMENT) {
        status = muster_topology_global(MUSTER_FORM_2020, each, sizes, count, ret_bytes, ret_size);
        if (status)
            mu_fail(status, "%s", why);
    }
    if (status)
        *ret_bytes = NULL;
    free(each);
    free(sizes);
    return status;
}
