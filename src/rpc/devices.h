/* rpc/devices.h: the devices that tasks have told of, each of its own, as one topology. */
#ifndef MU_RPC_DEVICES_H
#define MU_RPC_DEVICES_H

#include <muster/status.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/*
 * The GlobalTopologyProto of these LocalTopologyProtos, malloc()ed: in the form of today's XLA, or in that of 2020
 * where they are of it. As of muster_topology_global(), but that devices are numbered in the order of the nodes. NULL
 * with an error.
 */
enum muster_status mu_devices_global(const ProtobufCBinaryData *locals, size_t count, void **ret_bytes,
                                     size_t *ret_size);

#endif
