/*
 * topology/local.c: what this node has, as the message in which a task tells the others.
 *
 * The fields are those that XLA's CUDA backend fills, with its values; what it leaves empty is empty. A device's place
 * in the list is its local ordinal.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topology/message.h"
#include "topology/xla.pb-c.h"
#include "topology/xla2020.pb-c.h"

/* The words of the node that a message refers to: they live as long as the call. */
static ProtobufCBinaryData text_bytes(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

/* As XLA reads it: 0 where there is no choice, or the firmware does not say; -1 where nothing could be read. */
static int32_t xla_numa_of(const struct muster_topology *topology, const struct muster_device *d)
{
    if (muster_topology_num_numas(topology) < 2)
        return 0;
    if (d->numa_node >= 0)
        return d->numa_node;
    return d->sources & (MUSTER_SOURCE_HWLOC | MUSTER_SOURCE_SYSFS) ? 0 : -1;
}

static void fill_xla(Mu__Xla__DeviceProto *m, const struct muster_topology *topology, const struct muster_device *d,
                     int32_t ordinal)
{
    mu__xla__device_proto__init(m);
    m->local_device_ordinal = ordinal;
    m->name = text_bytes(d->name);
    m->vendor = text_bytes(d->vendor);
    m->compute_capability = text_bytes(d->compute_capability);
    m->core_count = d->core_count;
    m->fabric_uuid = text_bytes(d->kind == MUSTER_DEVICE_GPU ? d->fabric : ""); /* a part of a GPU is on no fabric */
    m->shared_memory_per_block_optin =
        (int32_t)(d->shared_memory_optin < INT32_MAX ? d->shared_memory_optin : INT32_MAX);
    m->numa_node = xla_numa_of(topology, d);
    m->device_memory_bytes_limit = (int64_t)(d->memory_bytes < INT64_MAX ? d->memory_bytes : INT64_MAX);
}

static void fill_2020(Mu__Xla2020__DeviceProto *m, const struct muster_device *d, int32_t ordinal)
{
    mu__xla2020__device_proto__init(m);
    m->local_device_ordinal = ordinal;
    m->name = text_bytes(d->name);
    m->vendor = text_bytes(d->vendor);
}

/* What a local topology is made of: places in the node, and arrays for as many devices of either form. */
struct message_making {
    const struct muster_topology *topology;
    const struct muster_local *local;
    size_t count;
    void *devices;
    void **refs; /* to each of them */
    ProtobufCBinaryData *networks;
    size_t num_networks;
};

static const struct muster_device *device_at(const struct message_making *k, size_t i)
{
    return muster_topology_device(k->topology, k->local->devices ? k->local->devices[i] : i);
}

/* "a,b,c"; as XLA splits it, so that "a,,b" are three. */
static enum muster_status split_networks(struct message_making *k)
{
    const char *at = k->local->network_nodes;

    if (!at || !*at)
        return MUSTER_OK;
    k->num_networks = 1;
    for (const char *p = at; *p; p++)
        k->num_networks += *p == ',';
    k->networks = calloc(k->num_networks, sizeof *k->networks);
    if (!k->networks)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu network nodes", k->num_networks);
    for (size_t i = 0; i < k->num_networks; i++, at++) {
        k->networks[i] = text_bytes(at);
        k->networks[i].len = strcspn(at, ",");
        at += k->networks[i].len;
    }
    return MUSTER_OK;
}

static enum muster_status message_prepare(struct message_making *k, size_t size)
{
    k->count = k->local->devices ? k->local->num_devices : muster_topology_num_devices(k->topology);
    if (k->count > INT32_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu devices of one task", k->count);
    for (size_t i = 0; i < k->count; i++)
        if (!device_at(k, i))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "device %u of a local topology: the node has %zu",
                           k->local->devices[i], muster_topology_num_devices(k->topology));
    k->devices = calloc(k->count + 1, size);
    k->refs = calloc(k->count + 1, sizeof *k->refs);
    if (!k->devices || !k->refs)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu devices", k->count);
    for (size_t i = 0; i < k->count; i++)
        k->refs[i] = (char *)k->devices + i * size;
    return split_networks(k);
}

static enum muster_status message_pack(const ProtobufCMessage *message, void **ret_bytes, size_t *ret_size)
{
    char why[128];

    if (mu_message_fault(message, NULL, why, sizeof why))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "in the local topology %s", why);
    return mu_message_pack(message, ret_bytes, ret_size);
}

static enum muster_status make_xla(struct message_making *k, void **ret_bytes, size_t *ret_size)
{
    Mu__Xla__LocalTopologyProto m;
    const char *boot_id = k->local->boot_id ? k->local->boot_id : muster_topology_boot_id(k->topology);
    enum muster_status status = message_prepare(k, sizeof(Mu__Xla__DeviceProto));

    if (status)
        return status;
    mu__xla__local_topology_proto__init(&m);
    m.process_id = k->local->process_id;
    m.boot_id = text_bytes(boot_id);
    for (size_t i = 0; i < k->count; i++)
        fill_xla(k->refs[i], k->topology, device_at(k, i), (int32_t)i);
    m.n_devices = k->count;
    m.devices = (Mu__Xla__DeviceProto **)k->refs;
    m.n_network_nodes = k->num_networks;
    m.network_nodes = k->networks;
    if (k->local->has_partition_index) {
        m.has_partition_index_case = MU__XLA__LOCAL_TOPOLOGY_PROTO__HAS_PARTITION_INDEX_PARTITION_INDEX;
        m.partition_index = k->local->partition_index;
    }
    return message_pack(&m.base, ret_bytes, ret_size);
}

static enum muster_status make_2020(struct message_making *k, void **ret_bytes, size_t *ret_size)
{
    Mu__Xla2020__LocalTopologyProto m;
    enum muster_status status = message_prepare(k, sizeof(Mu__Xla2020__DeviceProto));

    if (status)
        return status;
    mu__xla2020__local_topology_proto__init(&m);
    m.node_id = k->local->process_id;
    for (size_t i = 0; i < k->count; i++)
        fill_2020(k->refs[i], device_at(k, i), (int32_t)i);
    m.n_devices = k->count;
    m.devices = (Mu__Xla2020__DeviceProto **)k->refs;
    return message_pack(&m.base, ret_bytes, ret_size);
}

enum muster_status muster_topology_local(const struct muster_topology *topology, const struct muster_local *local,
                                         enum muster_topology_form form, void **ret_bytes, size_t *ret_size)
{
    struct message_making k = {.topology = topology, .local = local};
    enum muster_status status;

    if (!topology || !local)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no %s to tell of", topology ? "task" : "topology");
    if (!mu_form_name(form))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%d is no form of the topology messages", (int)form);
    status = form == MUSTER_FORM_XLA ? make_xla(&k, ret_bytes, ret_size) : make_2020(&k, ret_bytes, ret_size);
    free(k.devices);
    free(k.refs);
    free(k.networks);
    return status;
}
