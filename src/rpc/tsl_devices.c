/*
 * rpc/tsl_devices.c: WaitForAllTasks.
 *
 * Three questions to the engine: what the task tells of its devices becomes a key, unless it has told before; a barrier
 * of all tasks; then everybody's keys. So what was told lies in the segment, bounded by it, and survives this service.
 * The answer is put together once, and the same for all:
 *
 *   today      each device a google.protobuf.Any: TensorFlow's, one behind the other, byte for byte. JAX told of one
 *              LocalTopologyProto, and gets one GlobalTopologyProto
 *   2022       TensorFlow's attributes, one behind the other; or XLA's topology of one node, and that of all
 */
#include "rpc/tsl_devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rpc/devices.h"
#include "topology/message.h"

#define DIRECTORY "muster/grpc/devices"
enum {
    WAIT_MS = 3600 * 1000,
    ID_SIZE = 64,
};
static const char local_type[] = "xla.LocalTopologyProto";
static const char global_type[] = "type.googleapis.com/xla.GlobalTopologyProto";
static const char *const not_text[] = {"value", "devices", NULL};

/* Everything told, of one kind. Points into the requests. */
struct devices_told {
    ProtobufCBinaryData *list;
    size_t count, capacity;
};

static bool device_tell(struct devices_told *t, ProtobufCBinaryData device)
{
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        ProtobufCBinaryData *list = reallocarray(t->list, capacity, sizeof *list);

        if (!list)
            return false;
        t->list = list;
        t->capacity = capacity;
    }
    t->list[t->count++] = device;
    return true;
}

static bool tell_all(struct devices_told *t, const ProtobufCBinaryData *devices, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!device_tell(t, devices[i]))
            return false;
    return true;
}

/* What the answer is made of; the requests stay until it is packed. */
struct together {
    ProtobufCMessage **requests; /* as read */
    size_t count;
    struct devices_told any, tf, xla;
    ProtobufCMessage **inner; /* what had to be read to look into a device */
    size_t num_inner;
};

static enum muster_status read_into(ProtobufCMessage **list, size_t *count, const ProtobufCMessageDescriptor *kind,
                                    ProtobufCBinaryData bytes)
{
    enum muster_status status = mu_codec_read(kind, not_text, bytes.data, bytes.len, &list[*count]);

    *count += !status;
    return status;
}

static enum muster_status devices_collect(struct together *t, const ProtobufCBinaryData *requests, size_t count)
{
    bool ok = true;

    for (size_t i = 0; i < count && ok; i++) {
        const Mu__TslCoordination__WaitForAllTasksRequest *q;
        const Mu__TslCoordination__CoordinationServiceDeviceInfo *old;
        enum muster_status status = read_into(
            t->requests, &t->count, &mu__tsl_coordination__wait_for_all_tasks_request__descriptor, requests[i]);

        if (status)
            return status;
        q = (const void *)t->requests[i];
        old = q->local_device_info;
        if (q->device_info)
            ok = ok && tell_all(&t->any, q->device_info->devices, q->device_info->n_devices);
        if (old && old->type_case == MU__TSL_COORDINATION__COORDINATION_SERVICE_DEVICE_INFO__TYPE_TF)
            ok = ok && tell_all(&t->tf, old->tf->devices, old->tf->n_devices);
        if (old && old->type_case == MU__TSL_COORDINATION__COORDINATION_SERVICE_DEVICE_INFO__TYPE_XLA)
            ok = ok && device_tell(&t->xla, old->xla->devices);
    }
    return ok ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the devices of %zu tasks", count);
}

/* XLA's global topologies of one node each, as the nodes. */
static enum muster_status open_nodes(struct together *t, struct devices_told *ret_nodes)
{
    for (size_t i = 0; i < t->xla.count; i++) {
        const Mu__TslCoordination__TfDeviceList *nodes; /* 1: repeated, which is all that we look at */
        enum muster_status status =
            read_into(t->inner, &t->num_inner, &mu__tsl_coordination__tf_device_list__descriptor, t->xla.list[i]);

        if (status)
            return status;
        nodes = (const void *)t->inner[t->num_inner - 1];
        if (!tell_all(ret_nodes, nodes->devices, nodes->n_devices))
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu nodes", t->xla.count);
    }
    return MUSTER_OK;
}

/* Whether every Any holds a local topology, which are then in *ret_locals. */
static enum muster_status open_locals(struct together *t, struct devices_told *ret_locals, bool *ret_are_locals)
{
    size_t suffix = strlen(local_type);

    *ret_are_locals = false;
    for (size_t i = 0; i < t->any.count; i++) {
        const Mu__TslCoordination__Any *any;
        enum muster_status status =
            read_into(t->inner, &t->num_inner, &mu__tsl_coordination__any__descriptor, t->any.list[i]);

        if (status)
            return status;
        any = (const void *)t->inner[t->num_inner - 1];
        if (any->type_url.len <= suffix || any->type_url.data[any->type_url.len - suffix - 1] != '/' ||
            memcmp(any->type_url.data + any->type_url.len - suffix, local_type, suffix) != 0)
            return MUSTER_OK;
        if (!device_tell(ret_locals, any->value))
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu local topologies", t->any.count);
    }
    *ret_are_locals = t->any.count > 0;
    return MUSTER_OK;
}

/* ---- the answer's parts: each leaves what it has made, to be freed, in *ret_made ---- */

static enum muster_status put_any(struct together *t, Mu__TslCoordination__DeviceInfo *to,
                                  ProtobufCBinaryData *ret_device, void **ret_made)
{
    Mu__TslCoordination__Any any = MU__TSL_COORDINATION__ANY__INIT;
    struct devices_told locals = {0};
    bool are_locals;
    void *topology = NULL;
    enum muster_status status = open_locals(t, &locals, &are_locals);

    to->n_devices = t->any.count;
    to->devices = t->any.list;
    if (!status && are_locals) {
        status = mu_devices_global(locals.list, locals.count, &topology, &any.value.len);
        any.value.data = topology;
        any.type_url = mu_reply_bytes(global_type, strlen(global_type));
        if (!status)
            status = mu_message_pack(&any.base, ret_made, &ret_device->len);
        ret_device->data = *ret_made;
        to->n_devices = 1;
        to->devices = ret_device;
    }
    free(topology);
    free(locals.list);
    return status;
}

static enum muster_status put_xla(struct together *t, Mu__TslCoordination__XlaDeviceList *to, void **ret_made)
{
    struct devices_told nodes = {0};
    enum muster_status status = open_nodes(t, &nodes);

    if (!status)
        status = mu_devices_global(nodes.list, nodes.count, ret_made, &to->devices.len);
    to->devices.data = *ret_made;
    free(nodes.list);
    return status;
}

static enum muster_status devices_pack(struct together *t, uint64_t incarnation, void **ret_bytes, size_t *ret_size)
{
    Mu__TslCoordination__WaitForAllTasksResponse r = MU__TSL_COORDINATION__WAIT_FOR_ALL_TASKS_RESPONSE__INIT;
    Mu__TslCoordination__CoordinationServiceDeviceInfo old =
        MU__TSL_COORDINATION__COORDINATION_SERVICE_DEVICE_INFO__INIT;
    Mu__TslCoordination__TfDeviceList tf = MU__TSL_COORDINATION__TF_DEVICE_LIST__INIT;
    Mu__TslCoordination__XlaDeviceList xla = MU__TSL_COORDINATION__XLA_DEVICE_LIST__INIT;
    Mu__TslCoordination__DeviceInfo info = MU__TSL_COORDINATION__DEVICE_INFO__INIT;
    ProtobufCBinaryData topology = {0, NULL};
    void *made[2] = {NULL, NULL};
    enum muster_status status = MUSTER_OK;

    r.leader_incarnation = incarnation;
    if (t->any.count) {
        status = put_any(t, &info, &topology, &made[0]);
        r.device_info = &info;
    }
    if (!status && t->xla.count) {
        status = put_xla(t, &xla, &made[1]);
        old.type_case = MU__TSL_COORDINATION__COORDINATION_SERVICE_DEVICE_INFO__TYPE_XLA;
        old.xla = &xla;
        r.cluster_device_info = &old;
    } else if (t->tf.count) {
        tf.n_devices = t->tf.count;
        tf.devices = t->tf.list;
        old.type_case = MU__TSL_COORDINATION__COORDINATION_SERVICE_DEVICE_INFO__TYPE_TF;
        old.tf = &tf;
        r.cluster_device_info = &old;
    }
    if (!status)
        status = mu_message_pack(&r.base, ret_bytes, ret_size);
    free(made[0]);
    free(made[1]);
    return status;
}

enum muster_status mu_devices_together(const ProtobufCBinaryData *requests, size_t count, uint64_t incarnation,
                                       void **ret_bytes, size_t *ret_size)
{
    struct together t = {.requests = calloc(count + 1, sizeof(ProtobufCMessage *))};
    enum muster_status status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the devices of %zu tasks", count);

    if (t.requests)
        status = devices_collect(&t, requests, count);
    if (!status) {
        t.inner = calloc(t.any.count + t.xla.count + 1, sizeof *t.inner);
        status = t.inner ? devices_pack(&t, incarnation, ret_bytes, ret_size)
                         : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu devices", t.any.count);
    }
    while (t.num_inner > 0)
        mu_codec_free(t.inner[--t.num_inner]);
    while (t.count > 0)
        mu_codec_free(t.requests[--t.count]);
    free(t.inner);
    free(t.requests);
    free(t.any.list);
    free(t.tf.list);
    free(t.xla.list);
    return status;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static enum muster_status tsl_devices_make(const struct muster_kv_entry *entries, size_t count, uint64_t incarnation,
                                           void **ret_bytes, size_t *ret_size)
{
    ProtobufCBinaryData *requests = calloc(count + 1, sizeof *requests);
    enum muster_status status;

    if (!requests)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the devices of %zu tasks", count);
    for (size_t i = 0; i < count; i++)
        requests[i] = mu_reply_bytes(entries[i].value, entries[i].value_len);
    status = mu_devices_together(requests, count, incarnation, ret_bytes, ret_size);
    free(requests);
    return status;
}

const struct mu_gather mu_tsl_devices = {.directory = DIRECTORY, .make = tsl_devices_make};

static void on_tsl_devices_met(struct mu_visit *v)
{
    if (v->request.status)
        mu_visit_refuse(v);
    else
        mu_gather_answer(&v->service->devices, v);
}

static void on_tsl_devices_told(struct mu_visit *v)
{
    char id[ID_SIZE];
    int len;

    if (v->request.status && v->request.status != MUSTER_ALREADY_EXISTS) { /* what was told first stands */
        mu_visit_refuse(v);
        return;
    }
    len = snprintf(id, sizeof id, "WaitForAllTasks::%" PRIu64, mu_coord_incarnation(v->coord));
    mu_coord_barrier(v->coord, mu_visit_again(v, on_tsl_devices_met), v->task, id, (size_t)len, WAIT_MS, NULL, 0, 0);
}

void mu_devices_wait(struct mu_visit *v, int32_t task, const Mu__TslCoordination__WaitForAllTasksRequest *request)
{
    Mu__TslCoordination__WaitForAllTasksRequest kept = MU__TSL_COORDINATION__WAIT_FOR_ALL_TASKS_REQUEST__INIT;
    char key[ID_SIZE];
    void *bytes;
    size_t size;
    int len;

    kept.local_device_info = request->local_device_info;
    kept.device_info = request->device_info;
    if (mu_message_pack(&kept.base, &bytes, &size)) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "%s", muster_last_error());
        return;
    }
    v->task = task;
    len = snprintf(key, sizeof key, DIRECTORY "/%010" PRId32, task); /* sorted as the tasks are */
    mu_coord_insert(v->coord, mu_visit_again(v, on_tsl_devices_told), key, (size_t)len, bytes, size, false);
    free(bytes);
}
