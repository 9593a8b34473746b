/*
 * topology/node.c: the parts of a node, and the calls that read them.
 *
 * Strings live as long as the node, in a list; a string that could not be had is "", and the node says that it failed,
 * so that providers need not look at each. Arrays double when a power of two is reached. What a provider may add is
 * bounded, for files are not to be trusted.
 */
#include "topology/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"

enum {
    DEVICES_MAX = 1024, /* all pairs of them have a link */
    NUMAS_MAX = 4096,
    PACKAGES_MAX = 1024,
    NOTES_MAX = 64,
    WIRES_MAX = 16384,
};

struct mu_text {
    struct mu_text *next;
    char text[];
};

/* ---- making it --------------------------------------------------------------------------------------------------- */

struct muster_topology *mu_node_new(void)
{
    struct muster_topology *node = calloc(1, sizeof *node);

    if (node)
        node->root = "";
    return node;
}

void muster_topology_free(struct muster_topology *topology)
{
    if (!topology)
        return;
    for (struct mu_text *text = topology->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    free(topology->devices);
    free(topology->wheres);
    free(topology->packages);
    free(topology->links);
    free(topology->numas);
    free(topology->wires);
    free(topology->notes);
    free(topology->shape.boxes);
    free(topology);
}

static const char *text_of(struct muster_topology *node, const char *format, va_list args)
{
    va_list again;
    struct mu_text *text;
    int length;

    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = length < 0 ? NULL : malloc(sizeof *text + (size_t)length + 1);
    if (!text) {
        node->failed = 1;
        return "";
    }
    vsnprintf(text->text, (size_t)length + 1, format, args);
    text->next = node->texts;
    node->texts = text;
    return text->text;
}

const char *mu_node_text(struct muster_topology *node, const char *format, ...)
{
    va_list args;
    const char *text;

    va_start(args, format);
    text = text_of(node, format, args);
    va_end(args);
    return text;
}

/* The array with room for one more behind `count`: it doubles at each power of two. As it was without memory. */
static void *array_grow(struct muster_topology *node, void *array, size_t count, size_t size)
{
    void *larger;

    if (count & (count - 1))
        return array;
    larger = realloc(array, (count ? 2 * count : 1) * size);
    if (!larger)
        node->failed = 1;
    return larger ? larger : array;
}

/* Whether there is room for one more. */
#define ROOM(node, array, count)                                                                                       \
    ((node)->array = array_grow(node, (node)->array, (node)->count, sizeof *(node)->array), !(node)->failed)

void mu_node_note(struct muster_topology *node, const char *format, ...)
{
    va_list args;

    if (node->num_notes >= NOTES_MAX || !ROOM(node, notes, num_notes))
        return;
    va_start(args, format);
    node->notes[node->num_notes++] = text_of(node, format, args);
    va_end(args);
}

struct muster_device *mu_node_add_device(struct muster_topology *node, enum muster_device_kind kind,
                                         const struct mu_pci *pci)
{
    struct muster_device *device;
    struct mu_where *where;
    char text[24];

    if (node->num_devices == DEVICES_MAX) {
        if (!node->too_many)
            mu_node_note(node, "more than %d devices: the others are left out", DEVICES_MAX);
        node->too_many = 1;
        return NULL;
    }
    if (!ROOM(node, wheres, num_devices) || !ROOM(node, devices, num_devices))
        return NULL;
    where = &node->wheres[node->num_devices];
    device = &node->devices[node->num_devices];
    *device = (struct muster_device){.kind = kind,
                                     .index = (int32_t)node->num_devices,
                                     .parent = -1,
                                     .numa_node = -1,
                                     .package = -1,
                                     .minor = -1,
                                     .cuda_ordinal = -1,
                                     .gpu_instance = -1,
                                     .compute_instance = -1};
    device->name = device->vendor = device->uuid = device->serial = device->compute_capability = "";
    device->fabric = device->cpus = device->part_profile = "";
    device->pci = pci ? mu_node_text(node, "%s", mu_pci_print(pci, text, sizeof text)) : "";
    *where = (struct mu_where){.path = ""};
    if (pci)
        where->pci = *pci;
    node->num_devices++;
    return device;
}

struct muster_device *mu_node_find_device(struct muster_topology *node, const struct mu_pci *pci)
{
    for (size_t i = 0; i < node->num_devices; i++)
        if (node->devices[i].kind == MUSTER_DEVICE_GPU && *node->devices[i].pci &&
            mu_pci_compare(&node->wheres[i].pci, pci) == 0)
            return &node->devices[i];
    return NULL;
}

int32_t mu_node_index(const struct muster_topology *node, const struct muster_device *device)
{
    return (int32_t)(device - node->devices);
}

void mu_node_add_wire(struct muster_topology *node, const struct mu_wire *wire)
{
    if (node->num_wires == WIRES_MAX) { /* it is not even looked for: a file may tell of millions */
        if (!node->too_many_wires)
            mu_node_note(node, "more than %d links between devices: the others are left out", WIRES_MAX);
        node->too_many_wires = 1;
        return;
    }
    for (size_t i = 0; i < node->num_wires; i++) {
        struct mu_wire *old = &node->wires[i];

        if (old->from != wire->from || old->to != wire->to || old->level != wire->level)
            continue;
        if (wire->lanes > old->lanes || (wire->lanes == old->lanes && wire->bandwidth_mbs > old->bandwidth_mbs))
            *old = *wire;
        return;
    }
    if (ROOM(node, wires, num_wires))
        node->wires[node->num_wires++] = *wire;
}

struct muster_numa *mu_node_add_numa(struct muster_topology *node, int32_t number)
{
    struct muster_numa *numa;

    if (node->num_numas == NUMAS_MAX || !ROOM(node, numas, num_numas))
        return NULL;
    numa = &node->numas[node->num_numas++];
    *numa = (struct muster_numa){.number = number, .package = -1, .cpus = "", .kind = ""};
    return numa;
}

struct mu_package *mu_node_add_package(struct muster_topology *node)
{
    struct mu_package *package;

    if (node->num_packages == PACKAGES_MAX || !ROOM(node, packages, num_packages))
        return NULL;
    package = &node->packages[node->num_packages++];
    *package = (struct mu_package){.name = "", .vendor = "", .cpus = ""};
    return package;
}

/* ---- another order ----------------------------------------------------------------------------------------------- */

/* The wires with both ends still there. */
static void reorder_wires(struct muster_topology *node, const int32_t *now)
{
    size_t kept = 0;

    for (size_t i = 0; i < node->num_wires; i++) {
        struct mu_wire wire = node->wires[i];

        wire.from = now[wire.from];
        if (wire.to >= 0)
            wire.to = now[wire.to] >= 0 ? now[wire.to] : MU_WIRE_ELSEWHERE;
        if (wire.from >= 0)
            node->wires[kept++] = wire;
    }
    node->num_wires = kept;
}

int mu_node_reorder(struct muster_topology *node, const int32_t *order, size_t count)
{
    struct muster_device *devices;
    struct mu_where *wheres;
    size_t room = 1;
    int32_t *now;

    while (room < count) /* as array_grow() expects it */
        room *= 2;
    devices = calloc(room, sizeof *devices);
    wheres = calloc(room, sizeof *wheres);
    now = malloc((node->num_devices + 1) * sizeof *now);
    if (!devices || !wheres || !now) {
        free(devices);
        free(wheres);
        free(now);
        node->failed = 1;
        return -1;
    }
    for (size_t i = 0; i < node->num_devices; i++)
        now[i] = -1;
    for (size_t i = 0; i < count; i++)
        now[order[i]] = (int32_t)i;
    for (size_t i = 0; i < count; i++) {
        devices[i] = node->devices[order[i]];
        wheres[i] = node->wheres[order[i]];
        devices[i].index = (int32_t)i;
        if (devices[i].parent >= 0)
            devices[i].parent = now[devices[i].parent];
    }
    reorder_wires(node, now);
    free(now);
    free(node->devices);
    free(node->wheres);
    node->devices = devices;
    node->wheres = wheres;
    node->num_devices = count;
    return 0;
}

/* ---- reading it -------------------------------------------------------------------------------------------------- */

size_t muster_topology_num_devices(const struct muster_topology *topology)
{
    return topology->num_devices;
}

const struct muster_device *muster_topology_device(const struct muster_topology *topology, size_t index)
{
    return index < topology->num_devices ? &topology->devices[index] : NULL;
}

size_t muster_topology_num_numas(const struct muster_topology *topology)
{
    return topology->num_numas;
}

const struct muster_numa *muster_topology_numa(const struct muster_topology *topology, size_t index)
{
    return index < topology->num_numas ? &topology->numas[index] : NULL;
}

struct muster_link muster_topology_link(const struct muster_topology *topology, size_t a, size_t b)
{
    if (a >= topology->num_devices || b >= topology->num_devices)
        return (struct muster_link){.level = MUSTER_LINK_UNKNOWN};
    return topology->links[a * topology->num_devices + b];
}

/* Whether a processor is in both lists; -1: it cannot be said. */
static int lists_meet(const char *one, const char *other)
{
    size_t size = CPU_ALLOC_SIZE(MU_CPUS_MAX / 64);
    cpu_set_t *first = mu_cpus_new(size), *second = mu_cpus_new(size);
    int meet = -1;

    if (first && second && *one && *other && mu_cpus_parse(one, first, size) >= 0 &&
        mu_cpus_parse(other, second, size) >= 0) {
        CPU_AND_S(size, first, first, second);
        meet = CPU_COUNT_S(size, first) > 0;
    }
    CPU_FREE(first);
    CPU_FREE(second);
    return meet;
}

/* Of a package's processors all memory of the package is the nearest, whatever its kind. */
static enum muster_link_level level_of_package(const struct muster_topology *topology, const struct muster_device *at,
                                               const struct muster_numa *memory)
{
    int meet;

    if (at->numa_node == memory->number || at->package < 0 || topology->num_packages == 1)
        return MUSTER_LINK_PHB;
    if (memory->package >= 0)
        return at->package == memory->package ? MUSTER_LINK_PHB : MUSTER_LINK_SYS;
    meet = lists_meet(at->cpus, memory->cpus);
    return meet > 0 ? MUSTER_LINK_PHB : meet == 0 || at->numa_node >= 0 ? MUSTER_LINK_SYS : MUSTER_LINK_UNKNOWN;
}

struct muster_link muster_topology_numa_link(const struct muster_topology *topology, size_t device, size_t numa)
{
    struct muster_link link = {.level = MUSTER_LINK_UNKNOWN};
    const struct muster_device *at = muster_topology_device(topology, device);
    const struct muster_numa *memory = muster_topology_numa(topology, numa);

    if (!at || !memory)
        return link;
    if (at->kind == MUSTER_DEVICE_CPU)
        link.level = level_of_package(topology, at, memory);
    else if (at->numa_node >= 0)
        link.level = at->numa_node == memory->number ? MUSTER_LINK_PHB : MUSTER_LINK_SYS;
    else if (at->package >= 0 && memory->package >= 0 && at->package != memory->package)
        link.level = MUSTER_LINK_SYS;
    return link;
}

const char *muster_link_name(struct muster_link link, char *buffer, size_t size)
{
    static const char *const names[] = {
        [MUSTER_LINK_SELF] = "X",    [MUSTER_LINK_NVLINK] = "NV?", [MUSTER_LINK_XGMI] = "XGMI",
        [MUSTER_LINK_PIX] = "PIX",   [MUSTER_LINK_PXB] = "PXB",    [MUSTER_LINK_PHB] = "PHB",
        [MUSTER_LINK_NODE] = "NODE", [MUSTER_LINK_SYS] = "SYS",    [MUSTER_LINK_UNKNOWN] = "?",
    };

    if (link.level == MUSTER_LINK_NVLINK && link.lanes)
        snprintf(buffer, size, "NV%u", link.lanes);
    else
        snprintf(buffer, size, "%s", (unsigned)link.level < sizeof names / sizeof *names ? names[link.level] : "?");
    return buffer;
}

const char *muster_topology_host(const struct muster_topology *topology)
{
    return topology->host;
}

const char *muster_topology_boot_id(const struct muster_topology *topology)
{
    return topology->boot_id;
}

const char *muster_topology_note(const struct muster_topology *topology, size_t index)
{
    return index < topology->num_notes ? topology->notes[index] : NULL;
}
