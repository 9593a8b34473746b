/*
 * topology/by_hwloc_wires.c: NVLinks and XGMI, from the matrices of bandwidths that hwloc keeps.
 *
 * NVLinkBandwidth has GPUs, and, where there are, switches and packages (POWER); each cell is the sum of the links of
 * that pair, each way. On a machine with NVSwitches no cell of two GPUs is filled: each GPU has links to switches, six
 * of 25,000 MB/s to six of them on a DGX-2, and those are one wire of six lanes to the fabric. hwloc can conclude
 * this, too (its transitive closure), but clears the links of machines that have no switch when asked to. The
 * diagonal means nothing: it is 0 in one file and 1,000,000 in another.
 *
 * A matrix tells no number of links. What one link carries is known from the generation of the GPU, and in which way
 * hwloc counts it: each way at first, both ways since the third.
 */
#include "topology/by_hwloc.h"

/* By NVIDIA's PCI device ids, which rise with the generations; MB/s of one link. */
static const struct generation {
    uint32_t first_device, counted, each_way;
} generations[] = {
    {0x2900, 0, 0},         /* Blackwell: hwlocs differ */
    {0x2000, 50000, 25000}, /* Ampere, Hopper */
    {0x1d80, 25000, 25000}, /* Volta, Turing */
    {0, 20000, 20000},      /* Pascal */
};

/* In links; 0 when that cannot be said. */
static uint32_t count_lanes(const struct muster_device *gpu, uint64_t bandwidth, uint64_t *ret_each_way)
{
    const struct generation *generation = generations;
    uint64_t lanes;

    while (gpu->pci_device < generation->first_device)
        generation++;
    *ret_each_way = bandwidth;
    if (gpu->pci_vendor != MU_VENDOR_NVIDIA || !generation->counted || bandwidth % generation->counted)
        return 0;
    lanes = bandwidth / generation->counted;
    if (lanes > 1000) /* no GPU: a file */
        return 0;
    *ret_each_way = lanes * generation->each_way;
    return (uint32_t)lanes;
}

/* Where an object of the matrix lies: a device, a switch, or elsewhere. */
static int32_t matrix_end_of(const struct mu_tree *tree, hwloc_obj_t object)
{
    const struct muster_device *device;
    struct mu_pci pci;

    while (object && object->type == HWLOC_OBJ_OS_DEVICE)
        object = object->parent;
    if (!object || object->type != HWLOC_OBJ_PCI_DEVICE)
        return MU_WIRE_ELSEWHERE;
    if (mu_hwloc_tree_pci(object, &pci) == MU_PCI_SWITCH)
        return MU_WIRE_SWITCH;
    device = mu_node_find_device(tree->node, &pci);
    return device ? mu_node_index(tree->node, device) : MU_WIRE_ELSEWHERE;
}

static void add_wire(const struct mu_tree *tree, enum muster_link_level level, int32_t from, int32_t to,
                     uint64_t bandwidth)
{
    struct mu_wire wire = {.from = from, .to = to, .level = level, .bandwidth_mbs = bandwidth};

    if (!bandwidth)
        return;
    if (level == MUSTER_LINK_NVLINK)
        wire.lanes = count_lanes(&tree->node->devices[from], bandwidth, &wire.bandwidth_mbs);
    mu_node_add_wire(tree->node, &wire);
}

/* Of one GPU: a wire to each peer, one to all switches together. */
static void read_row(const struct mu_tree *tree, enum muster_link_level level, const struct hwloc_distances_s *matrix,
                     unsigned row)
{
    int32_t from = matrix_end_of(tree, matrix->objs[row]);
    uint64_t to_switches = 0;

    for (unsigned i = 0; from >= 0 && i < matrix->nbobjs; i++) {
        uint64_t bandwidth = matrix->values[(size_t)row * matrix->nbobjs + i];
        int32_t to = i == row ? from : matrix_end_of(tree, matrix->objs[i]);

        if (to == MU_WIRE_SWITCH)
            to_switches += bandwidth;
        else if (to != from)
            add_wire(tree, level, from, to, bandwidth);
    }
    if (from >= 0)
        add_wire(tree, level, from, MU_WIRE_SWITCH, to_switches);
}

void mu_hwloc_tree_wires(const struct mu_tree *tree)
{
    static const struct {
        const char *name;
        enum muster_link_level level;
    } matrices[] = {{"NVLinkBandwidth", MUSTER_LINK_NVLINK}, {"XGMIBandwidth", MUSTER_LINK_XGMI}};

    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        struct hwloc_distances_s *matrix = NULL;
        unsigned count = 1;

        if (tree->library->hwloc_distances_get_by_name(tree->root, matrices[i].name, &count, &matrix, 0) || count == 0)
            continue;
        for (unsigned row = 0; row < matrix->nbobjs; row++)
            read_row(tree, matrices[i].level, matrix, row);
        tree->library->hwloc_distances_release(tree->root, matrix);
    }
}
