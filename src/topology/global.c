/*
 * topology/global.c: the ids of all devices of the job, as the services of both forms give them.
 *
 * 2020: 0, 1, 2, ... in the order of the nodes and of the devices of each. Today's XLA numbers partitions first
 * (devices of one NVLink fabric, else of one host, else as the tasks say) and the devices in the order of partitions;
 * tasks are sorted by where they lie in the network, and come out in that order. One process alone keeps its own
 * numbers.
 *
 * Everything is decided by sorting, with the place in the list as the last word: no hashing, so no input is slow.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topology/message.h"

/* A device in the order of the walk. */
struct walked {
    struct mu_local_device device;
    ProtobufCBinaryData key;
    int32_t partition;
    size_t place;
};

struct numbering {
    struct mu_locals set;
    size_t *order; /* of the locals */
    struct walked *devices;
    size_t num_devices;
};

static int compare_text(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int sign = len ? memcmp(a->data, b->data, len) : 0;

    return sign ? sign : (a->len > b->len) - (a->len < b->len);
}

/* ---- the order of the tasks -------------------------------------------------------------------------------------- */

/* By process id: what is there once each, from 0 up, is in its place. */
static enum muster_status place_processes(struct numbering *n)
{
    const char *what = n->set.form == MUSTER_FORM_XLA ? "process" : "node";
    size_t count = n->set.count, missing = 0;

    for (size_t i = 0; i < count; i++)
        n->order[i] = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        int32_t id = n->set.locals[i].process_id;

        if (id < 0 || (size_t)id >= count)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "local topology %zu: its %s id is %d; ids are 0 to %zu", i, what,
                           id, count - 1);
        if (n->order[id] == SIZE_MAX)
            n->order[id] = i;
    }
    while (missing < count && n->order[missing] != SIZE_MAX)
        missing++;
    for (size_t i = 0; missing < count && i < count; i++) {
        int32_t id = n->set.locals[i].process_id;

        if (n->order[id] != i)
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "%s id %d is given twice, by local topologies %zu and %zu, and %zu is missing", what, id,
                           n->order[id], i, missing);
    }
    return MUSTER_OK;
}

/* Outermost network first; a task that lies in fewer comes first. */
static int compare_network(const void *a, const void *b)
{
    const struct mu_local *const *x = a, *const *y = b;

    for (size_t i = 0; i < (*x)->num_network_nodes && i < (*y)->num_network_nodes; i++) {
        int sign = compare_text(&(*x)->network_nodes[i], &(*y)->network_nodes[i]);

        if (sign)
            return sign;
    }
    if ((*x)->num_network_nodes != (*y)->num_network_nodes)
        return (*x)->num_network_nodes < (*y)->num_network_nodes ? -1 : 1;
    return ((*x)->process_id > (*y)->process_id) - ((*x)->process_id < (*y)->process_id);
}

static enum muster_status sort_by_network(struct numbering *n)
{
    const struct mu_local **sorted = calloc(n->set.count, sizeof *sorted);

    if (!sorted)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to sort %zu local topologies", n->set.count);
    for (size_t i = 0; i < n->set.count; i++)
        sorted[i] = &n->set.locals[n->order[i]];
    qsort(sorted, n->set.count, sizeof *sorted, compare_network);
    for (size_t i = 0; i < n->set.count; i++)
        n->order[i] = (size_t)(sorted[i] - n->set.locals);
    free(sorted);
    return MUSTER_OK;
}

/* ---- partitions -------------------------------------------------------------------------------------------------- */

/* All devices, tasks in order. */
static enum muster_status devices_walk(struct numbering *n)
{
    size_t total = 0, place = 0;

    for (size_t i = 0; i < n->set.count; i++)
        total += n->set.locals[i].num_devices; /* no overflow: each has memory of its own */
    n->devices = calloc(total ? total : 1, sizeof *n->devices);
    if (!n->devices || total > INT32_MAX)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to number %zu devices", total);
    n->num_devices = total;
    for (size_t i = 0; i < n->set.count; i++) {
        const struct mu_local *l = &n->set.locals[n->order[i]];

        for (size_t k = 0; k < l->num_devices; k++, place++)
            n->devices[place] = (struct walked){.device = mu_local_device(&n->set, l, k),
                                                .key = l->boot_id,
                                                .partition = l->partition_index,
                                                .place = place};
    }
    return MUSTER_OK;
}

static bool has_fabric(const ProtobufCBinaryData *fabric)
{
    static const char none[] = "00000000-0000-0000-0000-000000000000/0";

    return fabric->len && (fabric->len != sizeof none - 1 || memcmp(fabric->data, none, sizeof none - 1) != 0);
}

static int compare_key(const void *a, const void *b)
{
    const struct walked *x = a, *y = b;
    int sign = compare_text(&x->key, &y->key);

    return sign ? sign : (x->place > y->place) - (x->place < y->place);
}

static int compare_partition(const void *a, const void *b)
{
    const struct walked *x = a, *y = b;

    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int compare_place(const void *a, const void *b)
{
    const struct walked *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

/*
 * Devices with one key are one partition; partitions are numbered as their first devices come. Sorted by key, each is
 * given the place of the first with that key; back in the order of the walk, a first one opens a partition, and the
 * others find theirs at that place.
 */
static void find_partitions(struct numbering *n)
{
    struct walked *d = n->devices;
    bool fabric = true;
    int32_t partitions = 0;

    for (size_t i = 0; i < n->num_devices; i++)
        fabric = fabric && has_fabric(&d[i].device.fabric);
    for (size_t i = 0; fabric && i < n->num_devices; i++)
        d[i].key = d[i].device.fabric;
    qsort(d, n->num_devices, sizeof *d, compare_key);
    for (size_t i = 0; i < n->num_devices; i++)
        d[i].partition =
            i && !compare_text(&d[i].key, &d[i - 1].key) ? d[i - 1].partition : (int32_t)d[i].place; /* the first's */
    qsort(d, n->num_devices, sizeof *d, compare_place);
    for (size_t i = 0; i < n->num_devices; i++)
        d[i].partition = (size_t)d[i].partition == i ? partitions++ : d[d[i].partition].partition;
}

/* All say their partition, or none does. *ret_given: all do. */
static enum muster_status agree_on_partitions(const struct numbering *n, bool *ret_given)
{
    const struct mu_local *l = n->set.locals;
    size_t with = SIZE_MAX, without = SIZE_MAX;

    for (size_t i = n->set.count; i-- > 0;)
        *(l[i].has_partition_index ? &with : &without) = i;
    *ret_given = without == SIZE_MAX;
    if (with != SIZE_MAX && without != SIZE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "local topology %zu (process %d) has a partition index, %zu (process %d) has none: all give one "
                       "or none does",
                       with, l[with].process_id, without, l[without].process_id);
    return MUSTER_OK;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

static enum muster_status number_by_partition(struct numbering *n)
{
    bool given;
    enum muster_status status = agree_on_partitions(n, &given);

    if (!status && !given)
        status = sort_by_network(n);
    if (!status)
        status = devices_walk(n);
    if (status)
        return status;
    if (!given)
        find_partitions(n);
    qsort(n->devices, n->num_devices, sizeof *n->devices, compare_partition);
    for (size_t i = 0; i < n->num_devices; i++) {
        *n->devices[i].device.id = (int32_t)i;
        *n->devices[i].device.partition_index = n->devices[i].partition;
    }
    return MUSTER_OK;
}

static enum muster_status devices_number(struct numbering *n)
{
    bool is_alone = n->set.form == MUSTER_FORM_XLA && n->set.count == 1;
    enum muster_status status = place_processes(n);

    if (!status && n->set.form == MUSTER_FORM_XLA && !is_alone)
        return number_by_partition(n);
    if (!status)
        status = devices_walk(n);
    for (size_t i = 0; !status && i < n->num_devices; i++)
        *n->devices[i].device.id = is_alone ? n->devices[i].device.ordinal : (int32_t)i;
    return status;
}

enum muster_status muster_topology_global(enum muster_topology_form form, const void *const *locals,
                                          const size_t *sizes, size_t count, void **ret_bytes, size_t *ret_size)
{
    struct numbering n = {0};
    enum muster_status status = mu_locals_read(&n.set, form, locals, sizes, count);

    if (!status) {
        n.order = calloc(count, sizeof *n.order);
        status =
            n.order ? devices_number(&n) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu topologies", count);
    }
    if (!status)
        status = mu_locals_pack(&n.set, n.order, ret_bytes, ret_size);
    mu_locals_done(&n.set);
    free(n.order);
    free(n.devices);
    return status;
}
