/*
 * topology/shape.c: boxes from hwloc's tree, and the devices in them.
 *
 * hwloc hangs memory at the side of what it is nearest to; here the first node with processors becomes a box around
 * these, and others (fast memory, a GPU's) stand within it. When the tree is read nobody knows yet which PCI devices
 * will count as accelerators, nor their places in the list; so every candidate gets a box, with its address as name,
 * and those for which there is no device go at the end, with the bridges that then lead nowhere.
 */
#include "topology/shape.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "topology/by_hwloc.h"

enum {
    BOXES_MAX = 1 << 16, /* files are not to be trusted */
    DEPTH_MAX = 64,
};

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* The place of a new box at the end of its parent's. -1: no memory, or there are too many. */
static int32_t add_box(struct muster_topology *node, enum mu_box_kind kind, int32_t parent)
{
    struct mu_shape *shape = &node->shape;
    size_t count = shape->num_boxes;
    struct mu_box *box;

    if (count == BOXES_MAX)
        return -1;
    if (count == 0 || (count >= 64 && (count & (count - 1)) == 0)) {
        box = realloc(shape->boxes, (count ? 2 * count : 64) * sizeof *box);
        if (!box) {
            node->failed = 1;
            return -1;
        }
        shape->boxes = box;
    }
    box = &shape->boxes[count];
    *box = (struct mu_box){.kind = kind,
                           .parent = parent,
                           .first = -1,
                           .last = -1,
                           .next = -1,
                           .number = -1,
                           .device = -1,
                           .name = "",
                           .cpus = ""};
    if (parent >= 0) {
        struct mu_box *around = &shape->boxes[parent];

        if (around->last >= 0)
            shape->boxes[around->last].next = (int32_t)count;
        else
            around->first = (int32_t)count;
        around->last = (int32_t)count;
    }
    shape->num_boxes++;
    return (int32_t)count;
}

const struct mu_box *mu_topology_boxes(const struct muster_topology *topology, size_t *ret_count)
{
    *ret_count = topology->shape.num_boxes;
    return topology->shape.boxes;
}

bool mu_topology_is_switched(const struct muster_topology *topology, size_t device)
{
    for (size_t i = 0; i < topology->num_wires; i++)
        if (topology->wires[i].from == (int32_t)device && topology->wires[i].to == MU_WIRE_SWITCH)
            return 1;
    return 0;
}

/* ---- from hwloc's tree ------------------------------------------------------------------------------------------- */

static void tree_walk(const struct mu_tree *tree, hwloc_obj_t object, int32_t around, int depth);

static const char *object_info(hwloc_obj_t object, const char *name)
{
    for (unsigned i = 0; i < object->infos_count; i++)
        if (strcmp(object->infos[i].name, name) == 0)
            return object->infos[i].value;
    return "";
}

/* Without the blanks that processors fill their names with. */
static size_t length_of(const char *text)
{
    size_t length = strlen(text);

    while (length && text[length - 1] == ' ')
        length--;
    return length;
}

/*
 * Where a machine has cores of several kinds: "performance" for those that hwloc ranks first, "efficiency" for the
 * last, "kind 1" for others and where it cannot rank them. Else "".
 */
static const char *core_kind(const struct mu_tree *tree, hwloc_obj_t core)
{
    const struct mu_hwloc *hwloc = tree->library;
    int kinds = hwloc->cpukinds_get_nr && hwloc->cpukinds_get_by_cpuset && hwloc->cpukinds_get_info
                    ? hwloc->cpukinds_get_nr(tree->root, 0)
                    : 0;
    int kind = kinds > 1 ? hwloc->cpukinds_get_by_cpuset(tree->root, core->cpuset, 0) : -1, rank = -1;

    if (kind < 0)
        return "";
    if (hwloc->cpukinds_get_info(tree->root, (unsigned)kind, NULL, &rank, NULL, NULL, 0) || rank < 0 ||
        (kind && kind < kinds - 1))
        return mu_node_text(tree->node, "kind %d", kind);
    return kind ? "performance" : "efficiency";
}

static int32_t box_add_processors(const struct mu_tree *tree, enum mu_box_kind kind, hwloc_obj_t object, int32_t around)
{
    int32_t at = add_box(tree->node, kind, around);
    struct mu_box *box;

    if (at < 0)
        return -1;
    box = &tree->node->shape.boxes[at];
    box->cpus = mu_hwloc_tree_list(tree, object->cpuset);
    box->number = object->logical_index <= INT32_MAX ? (int32_t)object->logical_index : -1;
    if (kind == MU_BOX_L3)
        box->bytes = object->attr->cache.size;
    if (kind == MU_BOX_PACKAGE || kind == MU_BOX_MACHINE)
        box->bytes = object->total_memory;
    if (kind == MU_BOX_CORE)
        box->name = core_kind(tree, object);
    if (kind == MU_BOX_PACKAGE)
        box->name = mu_node_text(tree->node, "%.*s", (int)length_of(object_info(object, "CPUModel")),
                                 object_info(object, "CPUModel"));
    return at;
}

/* The box of a memory node, or -1. */
static int32_t box_add_memory(const struct mu_tree *tree, hwloc_obj_t memory, int32_t around)
{
    int32_t at = add_box(tree->node, MU_BOX_NUMA, around);
    struct mu_box *box;

    if (at < 0)
        return -1;
    box = &tree->node->shape.boxes[at];
    box->number = memory->os_index <= INT32_MAX ? (int32_t)memory->os_index : -1;
    box->bytes = memory->attr->numanode.local_memory;
    if (memory->subtype)
        box->name = mu_node_text(tree->node, "%s", memory->subtype);
    for (size_t i = 0; i < tree->node->num_numas; i++)
        if (tree->node->numas[i].number == box->number)
            box->cpus = tree->node->numas[i].cpus;
    return at;
}

/* The memory that hangs at an object: the box that its processors belong into. */
static int32_t walk_memory(const struct mu_tree *tree, hwloc_obj_t memory, int32_t around, int32_t inner, int depth)
{
    for (; memory; memory = memory->next_sibling) {
        if (memory->type == HWLOC_OBJ_NUMANODE) {
            int32_t box = box_add_memory(tree, memory, inner);

            if (box >= 0 && inner == around && *tree->node->shape.boxes[box].cpus)
                inner = box;
        } else if (depth < DEPTH_MAX) { /* a cache at the memory's side */
            inner = walk_memory(tree, memory->memory_first_child, around, inner, depth + 1);
        }
    }
    return inner;
}

static void count_processors(const struct mu_tree *tree, int32_t around, uint32_t cores, uint32_t processors)
{
    struct mu_box *boxes = tree->node->shape.boxes;

    for (; around >= 0; around = boxes[around].parent) {
        boxes[around].cores += cores;
        boxes[around].processors += processors;
    }
}

static int32_t add_bridge(const struct mu_tree *tree, hwloc_obj_t object, int32_t around)
{
    const struct hwloc_bridge_attr_s *bridge = &object->attr->bridge;
    int is_host = bridge->upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    int32_t at = add_box(tree->node, is_host ? MU_BOX_HOST_BRIDGE : MU_BOX_BRIDGE, around);

    if (at >= 0 && is_host)
        tree->node->shape.boxes[at].name =
            mu_node_text(tree->node, "%04x:%02x", bridge->downstream.pci.domain, bridge->downstream.pci.secondary_bus);
    else if (at >= 0)
        tree->node->shape.boxes[at].name =
            mu_node_text(tree->node, "%04x:%02x:%02x.%x", bridge->upstream.pci.domain, bridge->upstream.pci.bus,
                         bridge->upstream.pci.dev, bridge->upstream.pci.func);
    return at;
}

static void add_pci(const struct mu_tree *tree, hwloc_obj_t object, int32_t around)
{
    struct mu_pci pci;
    enum mu_pci_kind kind = mu_hwloc_tree_pci(object, &pci);
    char address[24];
    int32_t at;

    if (kind == MU_PCI_OTHER)
        return;
    at = add_box(tree->node, kind == MU_PCI_SWITCH ? MU_BOX_SWITCH : MU_BOX_DEVICE, around);
    if (at < 0)
        return;
    tree->node->shape.boxes[at].count = kind == MU_PCI_SWITCH;
    tree->node->shape.boxes[at].name = mu_node_text(tree->node, "%s", mu_pci_print(&pci, address, sizeof address));
}

static void walk_all(const struct mu_tree *tree, hwloc_obj_t first, int32_t around, int depth)
{
    for (; first && depth < DEPTH_MAX; first = first->next_sibling)
        tree_walk(tree, first, around, depth + 1);
}

static void tree_walk(const struct mu_tree *tree, hwloc_obj_t object, int32_t around, int depth)
{
    int32_t inner = around;

    switch (object->type) {
    case HWLOC_OBJ_MACHINE: inner = box_add_processors(tree, MU_BOX_MACHINE, object, around); break;
    case HWLOC_OBJ_PACKAGE: inner = box_add_processors(tree, MU_BOX_PACKAGE, object, around); break;
    case HWLOC_OBJ_L3CACHE: inner = box_add_processors(tree, MU_BOX_L3, object, around); break;
    case HWLOC_OBJ_CORE:
        inner = box_add_processors(tree, MU_BOX_CORE, object, around);
        count_processors(tree, inner, 1, 0);
        break;
    case HWLOC_OBJ_PU: count_processors(tree, around, 0, 1); break;
    case HWLOC_OBJ_BRIDGE: inner = add_bridge(tree, object, around); break;
    case HWLOC_OBJ_PCI_DEVICE: add_pci(tree, object, around); return;
    default: break;
    }
    if (inner < 0)
        return;
    inner = walk_memory(tree, object->memory_first_child, inner, inner, depth);
    walk_all(tree, object->first_child, inner, depth);
    walk_all(tree, object->io_first_child, inner, depth);
}

void mu_hwloc_tree_shape(const struct mu_tree *tree)
{
    tree_walk(tree, tree->library->hwloc_get_obj_by_depth(tree->root, 0, 0), -1, 0);
}

/* ---- without hwloc ----------------------------------------------------------------------------------------------- */

static uint32_t num_processors(const char *cpus)
{
    size_t size = CPU_ALLOC_SIZE(MU_CPUS_MAX / 64);
    cpu_set_t *set = mu_cpus_new(size);
    uint32_t count = set && mu_cpus_parse(cpus, set, size) >= 0 ? (uint32_t)CPU_COUNT_S(size, set) : 0;

    CPU_FREE(set);
    return count;
}

static void add_numas(struct muster_topology *node, int32_t package, int32_t around)
{
    for (size_t i = 0; i < node->num_numas; i++) {
        int32_t at = node->numas[i].package == package ? add_box(node, MU_BOX_NUMA, around) : -1;

        if (at < 0)
            continue;
        node->shape.boxes[at].number = node->numas[i].number;
        node->shape.boxes[at].bytes = node->numas[i].memory_bytes;
        node->shape.boxes[at].name = node->numas[i].kind;
        node->shape.boxes[at].cpus = node->numas[i].cpus;
        node->shape.boxes[at].processors = num_processors(node->numas[i].cpus);
    }
}

static void build_from_lists(struct muster_topology *node)
{
    if (add_box(node, MU_BOX_MACHINE, -1) < 0)
        return;
    for (size_t i = 0; i < node->num_packages; i++) {
        int32_t at = add_box(node, MU_BOX_PACKAGE, 0);

        if (at < 0)
            return;
        node->shape.boxes[at].number = node->packages[i].number;
        node->shape.boxes[at].name = node->packages[i].name;
        node->shape.boxes[at].cpus = node->packages[i].cpus;
        node->shape.boxes[at].bytes = node->packages[i].memory_bytes;
        node->shape.boxes[at].cores = node->packages[i].core_count > 0 ? (uint32_t)node->packages[i].core_count : 0;
        node->shape.boxes[at].processors = num_processors(node->packages[i].cpus);
        node->shape.boxes[0].cores += node->shape.boxes[at].cores;
        node->shape.boxes[0].processors += node->shape.boxes[at].processors;
        node->shape.boxes[0].bytes += node->shape.boxes[at].bytes;
        if (node->packages[i].number >= 0)
            add_numas(node, node->packages[i].number, at);
    }
    add_numas(node, -1, 0);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static int32_t find_box(const struct muster_topology *node, enum mu_box_kind kind, int32_t number)
{
    for (size_t i = 0; number >= 0 && i < node->shape.num_boxes; i++)
        if (node->shape.boxes[i].kind == kind && node->shape.boxes[i].number == number)
            return (int32_t)i;
    return -1;
}

static int32_t find_device(const struct muster_topology *node, int32_t device)
{
    for (size_t i = 0; i < node->shape.num_boxes; i++)
        if (node->shape.boxes[i].kind == MU_BOX_DEVICE && node->shape.boxes[i].device == device)
            return (int32_t)i;
    return 0;
}

/* What hwloc did not see hangs at its memory node, its package, or the machine; a part at its GPU. */
static void add_device(struct muster_topology *node, int32_t index)
{
    const struct muster_device *device = &node->devices[index];
    int32_t around, at;

    if (device->kind == MUSTER_DEVICE_CPU) {
        at = find_box(node, MU_BOX_PACKAGE, device->package);
        node->shape.boxes[at >= 0 ? at : 0].device = index;
        return;
    }
    if (device->parent >= 0) {
        around = find_device(node, device->parent);
    } else {
        around = find_box(node, MU_BOX_NUMA, device->numa_node);
        if (around < 0)
            around = find_box(node, MU_BOX_PACKAGE, device->package);
    }
    at = add_box(node, MU_BOX_DEVICE, around >= 0 ? around : 0);
    if (at >= 0) {
        node->shape.boxes[at].device = index;
        node->shape.boxes[at].name = device->pci;
    }
}

static void add_devices(struct muster_topology *node)
{
    char *has_box = calloc(node->num_devices + 1, 1);

    if (!has_box) {
        node->failed = 1;
        return;
    }
    for (size_t i = 0; i < node->shape.num_boxes; i++) {
        struct mu_box *box = &node->shape.boxes[i];
        struct mu_pci pci;
        struct muster_device *device =
            box->kind == MU_BOX_DEVICE && mu_pci_parse(box->name, &pci) == 0 ? mu_node_find_device(node, &pci) : NULL;

        if (!device || has_box[device->index])
            continue;
        box->device = device->index;
        has_box[device->index] = 1;
    }
    for (size_t i = 0; i < node->num_devices; i++)
        if (!has_box[i])
            add_device(node, (int32_t)i);
    free(has_box);
}

/* ---- what leads nowhere ------------------------------------------------------------------------------------------ */

static bool leads_nowhere(const struct mu_box *box)
{
    return box->kind == MU_BOX_DEVICE
               ? box->device < 0
               : (box->kind == MU_BOX_HOST_BRIDGE || box->kind == MU_BOX_BRIDGE) && box->first < 0;
}

/* The first device of a box of PCI, in which they are in order; -1: it is no such box. */
static int32_t first_device(const struct mu_box *boxes, int32_t at)
{
    while ((boxes[at].kind == MU_BOX_HOST_BRIDGE || boxes[at].kind == MU_BOX_BRIDGE) && boxes[at].first >= 0)
        at = boxes[at].first;
    return boxes[at].kind == MU_BOX_DEVICE ? boxes[at].device : -1;
}

/* Hang the box at the end of its parent's, again, or before one with later devices: bridges need not be in the
 * order of what is below them. NVSwitches side by side become one. */
static void put_back(struct mu_box *boxes, int32_t around, int32_t at)
{
    int32_t last = boxes[around].last, device = first_device(boxes, at), before = -1, behind = boxes[around].first;

    if (last >= 0 && boxes[last].kind == MU_BOX_SWITCH && boxes[at].kind == MU_BOX_SWITCH) {
        boxes[last].count += boxes[at].count;
        return;
    }
    for (; behind >= 0 && (device < 0 || first_device(boxes, behind) <= device); behind = boxes[behind].next)
        before = behind;
    boxes[at].parent = around;
    boxes[at].next = behind;
    if (before >= 0)
        boxes[before].next = at;
    else
        boxes[around].first = at;
    if (behind < 0)
        boxes[around].last = at;
}

/* Bridges with one below it are a way, no fork. */
static void boxes_tidy(struct mu_box *boxes, int32_t around)
{
    int32_t at = boxes[around].first, next;

    boxes[around].first = boxes[around].last = -1;
    for (; at >= 0; at = next) {
        next = boxes[at].next;
        boxes_tidy(boxes, at);
        if (leads_nowhere(&boxes[at]))
            continue;
        if (boxes[at].kind == MU_BOX_BRIDGE && boxes[at].first == boxes[at].last)
            put_back(boxes, around, boxes[at].first);
        else
            put_back(boxes, around, at);
    }
    if (boxes[around].kind == MU_BOX_HOST_BRIDGE && boxes[around].first >= 0 &&
        boxes[around].first == boxes[around].last && boxes[boxes[around].first].kind == MU_BOX_BRIDGE) {
        int32_t only = boxes[around].first;

        boxes[around].first = boxes[around].last = -1;
        for (at = boxes[only].first; at >= 0; at = next) {
            next = boxes[at].next;
            put_back(boxes, around, at);
        }
    }
}

void mu_shape_finish(struct muster_topology *node)
{
    if (node->shape.num_boxes == 0)
        build_from_lists(node);
    if (node->shape.num_boxes == 0)
        return;
    add_devices(node);
    boxes_tidy(node->shape.boxes, 0);
}
