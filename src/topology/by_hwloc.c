/*
 * topology/by_hwloc.c: packages, memory nodes and accelerators, as hwloc's tree shows them.
 *
 * A GPU's neighbourhood is what its first ancestor that is no I/O object spans: a package, a NUMA node, on some
 * machines one L3 cache. What a driver knew when the tree was made (on another machine, in a file) hangs below the GPU
 * as OS devices with infos; this hwloc makes none, for its vendors' components are off.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topology/by_hwloc.h"

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

static unsigned num_objects(const struct mu_tree *tree, hwloc_obj_type_t type)
{
    int depth = tree->library->hwloc_get_type_depth(tree->root, type);

    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE
               ? 0
               : tree->library->hwloc_get_nbobjs_by_depth(tree->root, depth);
}

static hwloc_obj_t object_of(const struct mu_tree *tree, hwloc_obj_type_t type, unsigned index)
{
    return tree->library->hwloc_get_obj_by_depth(tree->root, tree->library->hwloc_get_type_depth(tree->root, type),
                                                 index);
}

static const char *info_of(hwloc_obj_t object, const char *name)
{
    for (unsigned i = 0; i < object->infos_count; i++)
        if (strcmp(object->infos[i].name, name) == 0)
            return object->infos[i].value;
    return NULL;
}

static uint64_t info_number(hwloc_obj_t object, const char *name)
{
    const char *value = info_of(object, name);

    return value ? strtoull(value, NULL, 10) : 0;
}

static bool is_empty(const struct mu_tree *tree, hwloc_const_bitmap_t set)
{
    return !set || tree->library->hwloc_bitmap_iszero(set);
}

/* "" also where the set has no end: only a damaged file says so. */
const char *mu_hwloc_tree_list(const struct mu_tree *tree, hwloc_const_bitmap_t set)
{
    const char *text = "";
    char *list;

    if (is_empty(tree, set) || tree->library->hwloc_bitmap_weight(set) < 0)
        return "";
    if (tree->library->hwloc_bitmap_list_asprintf(&list, set) < 0) {
        tree->node->failed = 1;
        return "";
    }
    text = mu_node_text(tree->node, "%s", list);
    free(list);
    return text;
}

/* ---- packages and memory ----------------------------------------------------------------------------------------- */

/* The package around all of the set. -1: there is none. */
static int32_t hwloc_package_of(const struct mu_tree *tree, hwloc_const_bitmap_t set)
{
    for (unsigned i = 0; !is_empty(tree, set) && i < num_objects(tree, HWLOC_OBJ_PACKAGE); i++)
        if (tree->library->hwloc_bitmap_isincluded(set, object_of(tree, HWLOC_OBJ_PACKAGE, i)->cpuset))
            return (int32_t)i;
    return -1;
}

/* Memory that hangs at processors only because it must hang somewhere. */
static bool has_no_processors(const char *kind)
{
    return strcmp(kind, "GPUMemory") == 0 || strncmp(kind, "CXL", 3) == 0;
}

static void hwloc_add_memory(const struct mu_tree *tree)
{
    for (unsigned i = 0; i < num_objects(tree, HWLOC_OBJ_NUMANODE); i++) {
        hwloc_obj_t memory = object_of(tree, HWLOC_OBJ_NUMANODE, i);
        struct muster_numa *numa =
            mu_node_add_numa(tree->node, memory->os_index <= INT32_MAX ? (int32_t)memory->os_index : -1);

        if (!numa)
            return;
        numa->package = hwloc_package_of(tree, memory->cpuset);
        numa->memory_bytes = memory->attr->numanode.local_memory;
        if (memory->subtype)
            numa->kind = mu_node_text(tree->node, "%s", memory->subtype);
        if (!has_no_processors(numa->kind))
            numa->cpus = mu_hwloc_tree_list(tree, memory->cpuset);
    }
}

/* The only node there that has processors, or, with fast memory beside the common, the only common one. */
static int32_t hwloc_numa_of(const struct mu_tree *tree, hwloc_const_bitmap_t nodes)
{
    int32_t found = -1;

    for (size_t i = 0; nodes && i < tree->node->num_numas; i++) {
        const struct muster_numa *numa = &tree->node->numas[i];

        if (numa->number < 0 || !tree->library->hwloc_bitmap_isset(nodes, (unsigned)numa->number) || !*numa->cpus ||
            (*numa->kind && strcmp(numa->kind, "DRAM") != 0))
            continue;
        if (found >= 0)
            return -1;
        found = numa->number;
    }
    return found;
}

/* `around`: a package, or, where hwloc knows none, the machine. */
static void hwloc_add_package(const struct mu_tree *tree, hwloc_obj_t around, int32_t number)
{
    struct mu_package *package = mu_node_add_package(tree->node);
    const char *name = info_of(around, "CPUModel"), *vendor = info_of(around, "CPUVendor");

    if (!package)
        return;
    package->number = number;
    package->numa_node = hwloc_numa_of(tree, around->nodeset);
    package->sources = MUSTER_SOURCE_HWLOC;
    package->cpus = mu_hwloc_tree_list(tree, around->cpuset);
    package->name = name ? mu_node_text(tree->node, "%s", name) : "";
    package->vendor = vendor ? mu_node_text(tree->node, "%s", vendor) : "";
    for (unsigned i = 0; i < num_objects(tree, HWLOC_OBJ_CORE); i++)
        if (tree->library->hwloc_bitmap_isincluded(object_of(tree, HWLOC_OBJ_CORE, i)->cpuset, around->cpuset))
            package->core_count++;
    package->memory_bytes = around->total_memory;
}

static void hwloc_add_packages(const struct mu_tree *tree)
{
    unsigned count = num_objects(tree, HWLOC_OBJ_PACKAGE);

    for (unsigned i = 0; i < count; i++)
        hwloc_add_package(tree, object_of(tree, HWLOC_OBJ_PACKAGE, i), (int32_t)i);
    if (count == 0)
        hwloc_add_package(tree, tree->library->hwloc_get_obj_by_depth(tree->root, 0, 0), -1);
}

/* ---- accelerators ------------------------------------------------------------------------------------------------ */

/* The way from the host bridge, in the words of sysfs. */
static const char *hwloc_path_of(const struct mu_tree *tree, hwloc_obj_t object)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    const char *path = mu_node_text(tree->node, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->dev, pci->func);

    for (object = object->parent; object && object->type == HWLOC_OBJ_BRIDGE; object = object->parent) {
        const struct hwloc_bridge_attr_s *bridge = &object->attr->bridge;

        if (bridge->upstream_type == HWLOC_OBJ_BRIDGE_PCI)
            path = mu_node_text(tree->node, "%04x:%02x:%02x.%x/%s", bridge->upstream.pci.domain,
                                bridge->upstream.pci.bus, bridge->upstream.pci.dev, bridge->upstream.pci.func, path);
        else
            return mu_node_text(tree->node, "pci%04x:%02x/%s", bridge->downstream.pci.domain,
                                bridge->downstream.pci.secondary_bus, path);
    }
    return ""; /* without its host bridge nothing can be said */
}

static hwloc_obj_t processors_above(hwloc_obj_t object)
{
    while (object && !object->cpuset)
        object = object->parent;
    return object;
}

/* What drivers said, the one that knows best last. */
static void read_driver(const struct mu_tree *tree, struct muster_device *device, hwloc_obj_t gpu)
{
    static const char *const backends[] = {"OpenCL", "LevelZero", "RSMI", "CUDA", "NVML"};

    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        for (hwloc_obj_t os = gpu->io_first_child; os; os = os->next_sibling) {
            const char *backend = info_of(os, "Backend"), *text;
            uint64_t number;

            if (os->type != HWLOC_OBJ_OS_DEVICE || !backend || strcmp(backend, backends[i]) != 0)
                continue;
            if ((text = info_of(os, "GPUModel")))
                device->name = mu_node_text(tree->node, "%s", text);
            if ((text = info_of(os, "NVIDIAUUID")))
                device->uuid = mu_node_text(tree->node, "%s", text);
            if ((text = info_of(os, "AMDUUID")))
                device->uuid = mu_node_text(tree->node, "GPU-%016llx", strtoull(text, NULL, 16));
            if ((text = info_of(os, "NVIDIASerial")) || (text = info_of(os, "AMDSerial")))
                device->serial = mu_node_text(tree->node, "%s", text);
            if ((number = info_number(os, "OpenCLGlobalMemorySize")) || (number = info_number(os, "RSMIVRAMSize")) ||
                (number = info_number(os, "CUDAGlobalMemorySize")))
                device->memory_bytes = number * 1024;
            if ((number = info_number(os, "OpenCLComputeUnits")) || (number = info_number(os, "CUDAMultiProcessors")))
                device->core_count = (int32_t)(number & INT32_MAX);
        }
}

/* A compute driver knew it: there is an OS device of one below it. */
static bool is_served(hwloc_obj_t gpu)
{
    for (hwloc_obj_t os = gpu->io_first_child; os; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE &&
            (os->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC || info_of(os, "GPUModel")))
            return 1;
    return 0;
}

static void add_gpu(const struct mu_tree *tree, hwloc_obj_t gpu, const struct mu_pci *pci)
{
    struct muster_device *device = mu_node_add_device(tree->node, MUSTER_DEVICE_GPU, pci);
    hwloc_obj_t around = processors_above(gpu);
    const char *name = info_of(gpu, "PCIDevice");

    if (!device)
        return;
    device->sources = MUSTER_SOURCE_HWLOC;
    device->pci_class = gpu->attr->pcidev.class_id;
    device->pci_vendor = gpu->attr->pcidev.vendor_id;
    device->pci_device = gpu->attr->pcidev.device_id;
    device->vendor = mu_pci_vendor(device->pci_vendor);
    device->name = name ? mu_node_text(tree->node, "%s", name) : "";
    tree->node->wheres[mu_node_index(tree->node, device)].path = hwloc_path_of(tree, gpu);
    if (around) {
        device->numa_node = hwloc_numa_of(tree, around->nodeset);
        device->package = hwloc_package_of(tree, around->cpuset);
        device->cpus = mu_hwloc_tree_list(tree, around->cpuset);
    }
    read_driver(tree, device, gpu);
}

enum mu_pci_kind mu_hwloc_tree_pci(hwloc_obj_t object, struct mu_pci *ret_pci)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    enum mu_pci_kind kind;

    *ret_pci = (struct mu_pci){pci->domain, pci->bus, pci->dev, pci->func};
    kind = mu_pci_kind(ret_pci, pci->vendor_id, pci->class_id);
    if (object->subtype && strcmp(object->subtype, "NVSwitch") == 0) /* one that slept has no ids */
        return MU_PCI_SWITCH;
    return kind == MU_PCI_PERHAPS && is_served(object) ? MU_PCI_ACCELERATOR : kind;
}

static void add_gpus(const struct mu_tree *tree)
{
    for (unsigned i = 0; i < num_objects(tree, HWLOC_OBJ_PCI_DEVICE); i++) {
        hwloc_obj_t device = object_of(tree, HWLOC_OBJ_PCI_DEVICE, i);
        struct mu_pci pci;

        if (mu_hwloc_tree_pci(device, &pci) == MU_PCI_ACCELERATOR && !mu_node_find_device(tree->node, &pci))
            add_gpu(tree, device, &pci);
    }
}

/* ---- the provider ------------------------------------------------------------------------------------------------ */

/* A tree of another machine: what files and drivers tell here is not of it. */
static void tree_recognize(const struct mu_tree *tree, const struct mu_look *look)
{
    hwloc_obj_t machine = tree->library->hwloc_get_obj_by_depth(tree->root, 0, 0);
    struct muster_topology *node = tree->node;
    const char *host = info_of(machine, "HostName"), *foreign = mu_hwloc_foreign();

    if (tree->library->hwloc_topology_is_thissystem(tree->root))
        return;
    if (!look->source->hwloc_xml && !look->source->synthetic)
        mu_node_note(node, "hwloc: %s%s shows another machine than this one: files and drivers here are not asked",
                     foreign ? foreign : "its tree", foreign ? " in the environment" : "");
    node->is_this_machine = 0;
    node->root = NULL;
    if (host)
        snprintf(node->host, sizeof node->host, "%s", host);
}

void mu_provider_hwloc(struct muster_topology *node, const struct mu_look *look)
{
    struct mu_tree tree = {.library = node->library, .root = look->tree, .node = node};
    struct mu_hwloc_wish wish = {.source = look->source};
    char note[MU_HWLOC_NOTE_SIZE];
    enum muster_status status;

    if (!node->library)
        return;
    if (!tree.root) {
        status = mu_hwloc_load(tree.library, &wish, &tree.root, note);
        if (status == MUSTER_UNAVAILABLE) {
            mu_node_note(node, "hwloc: %s", muster_last_error());
            return;
        }
        node->status = status;
        if (status != MUSTER_OK)
            return;
        if (*note)
            mu_node_note(node, "hwloc: %s", note);
    }
    tree_recognize(&tree, look);
    hwloc_add_memory(&tree);
    hwloc_add_packages(&tree);
    add_gpus(&tree);
    mu_hwloc_tree_wires(&tree);
    mu_hwloc_tree_shape(&tree);
    if (tree.root != look->tree)
        tree.library->hwloc_topology_destroy(tree.root);
}
