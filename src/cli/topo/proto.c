/*
 * cli/topo/proto.c: what a task would tell the others of this machine, and what all would get, as bytes of protobuf.
 *
 * With N tasks the devices are dealt in the order of their list, as evenly as it goes: task K's local topology has
 * those from K * devices / N on.
 */
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "cli/topo/topo.h"

enum { TASKS_MAX = 65536 };

struct locals {
    void **bytes;
    size_t *sizes;
    size_t count;
};

MU_WORDS(mu_cli_topo_form, [MUSTER_FORM_XLA] = "xla", [MUSTER_FORM_2020] = "2020")

int mu_cli_topo_proto_form(const struct mu_cli_call *call, struct mu_cli_topo_proto *ret_proto)
{
    const char *form = call->values[MU_OPT_PROTO];
    uint64_t task = 0, tasks = 0;
    size_t index = 0;
    int code;

    *ret_proto = (struct mu_cli_topo_proto){.form = MUSTER_FORM_XLA};
    if (!form && (call->values[MU_OPT_GLOBAL] || call->values[MU_OPT_TASK]))
        return mu_cli_usage(call, "--%s goes with --proto", call->values[MU_OPT_GLOBAL] ? "global" : "task");
    if (!form)
        return 0;
    if (call->values[MU_OPT_GLOBAL] && call->values[MU_OPT_TASK])
        return mu_cli_usage(call, "--global or --task, not both: a global topology is of all tasks");
    code = mu_cli_word(call, MU_OPT_PROTO, &index);
    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_TASK, INT32_MAX, &task);
    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_GLOBAL, TASKS_MAX, &tasks);
    if (!code && call->values[MU_OPT_GLOBAL] && tasks == 0)
        return mu_cli_usage(call, "--global is of one task or more");
    ret_proto->form = (enum muster_topology_form)index;
    ret_proto->task = (int32_t)task;
    ret_proto->num_tasks = (size_t)tasks;
    return code;
}

static enum muster_status make_local(const struct mu_cli_topo *topo, const struct mu_cli_topo_proto *proto, size_t task,
                                     struct locals *locals)
{
    size_t first = task * topo->num_devices / proto->num_tasks, end = (task + 1) * topo->num_devices / proto->num_tasks;
    uint32_t *devices = calloc(end - first + 1, sizeof *devices);
    struct muster_local local = {.process_id = (int32_t)task, .devices = devices, .num_devices = end - first};
    enum muster_status status;

    if (!devices)
        abort();
    for (size_t i = first; i < end; i++)
        devices[i - first] = (uint32_t)i;
    status = muster_topology_local(topo->topology, &local, proto->form, &locals->bytes[task], &locals->sizes[task]);
    free(devices);
    locals->count += status == MUSTER_OK;
    return status;
}

static enum muster_status make_global(const struct mu_cli_topo *topo, const struct mu_cli_topo_proto *proto,
                                      void **ret_bytes, size_t *ret_size)
{
    struct locals locals = {.bytes = calloc(proto->num_tasks, sizeof *locals.bytes),
                            .sizes = calloc(proto->num_tasks, sizeof *locals.sizes)};
    enum muster_status status = MUSTER_OK;

    if (!locals.bytes || !locals.sizes)
        abort();
    for (size_t i = 0; i < proto->num_tasks && status == MUSTER_OK; i++)
        status = make_local(topo, proto, i, &locals);
    if (status == MUSTER_OK)
        status = muster_topology_global(proto->form, (const void *const *)locals.bytes, locals.sizes, locals.count,
                                        ret_bytes, ret_size);
    for (size_t i = 0; i < locals.count; i++)
        free(locals.bytes[i]);
    free(locals.bytes);
    free(locals.sizes);
    return status;
}

enum muster_status mu_cli_topo_proto(const struct mu_cli_topo *topo, const struct mu_cli_topo_proto *proto,
                                     void **ret_bytes, size_t *ret_size)
{
    struct muster_local local = {.process_id = proto->task};

    return proto->num_tasks ? make_global(topo, proto, ret_bytes, ret_size)
                            : muster_topology_local(topo->topology, &local, proto->form, ret_bytes, ret_size);
}
