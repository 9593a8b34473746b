/*
 * topology/links.c: how each pair of devices is connected.
 *
 * Wires first: devices with a wire between them, or with one each to a switch, for within a node all switches are one
 * fabric. Where there is no switch nothing is concluded from a wire to elsewhere: three GPUs in a row are two pairs.
 * Then PCI, by the two ways from their host bridges, with the levels of nvidia-smi. A PCIe switch is one bridge
 * there, and three on the way: its upper port, which both ways share, and one lower port each.
 */
#include <stdlib.h>
#include <string.h>

#include "topology/node.h"

/* ---- PCI --------------------------------------------------------------------------------------------------------- */

static size_t num_parts(const char *path)
{
    size_t count = *path != '\0';

    for (; *path; path++)
        count += *path == '/';
    return count;
}

/* Leading parts that two paths share. */
static size_t num_common(const char *a, const char *b)
{
    size_t count = 0;

    for (;;) {
        size_t length = strcspn(a, "/");

        if (length == 0 || length != strcspn(b, "/") || memcmp(a, b, length) != 0)
            return count;
        count++;
        if (!a[length] || !b[length])
            return count;
        a += length + 1;
        b += length + 1;
    }
}

/* Between host bridges: by where they lie. */
static enum muster_link_level level_of_places(const struct muster_topology *node, const struct muster_device *a,
                                              const struct muster_device *b)
{
    if (a->numa_node >= 0 && b->numa_node >= 0)
        return a->numa_node == b->numa_node ? MUSTER_LINK_NODE : MUSTER_LINK_SYS;
    if (a->package >= 0 && b->package >= 0 && a->package != b->package)
        return MUSTER_LINK_SYS;
    return node->num_numas == 1 ? MUSTER_LINK_NODE : MUSTER_LINK_UNKNOWN;
}

static enum muster_link_level level_of(const struct muster_topology *node, size_t a, size_t b)
{
    const char *one = node->wheres[a].path, *other = node->wheres[b].path;
    size_t common = num_common(one, other), below_one, below_other;

    if (common == 0)
        return level_of_places(node, &node->devices[a], &node->devices[b]);
    if (common == 1)
        return MUSTER_LINK_PHB;
    below_one = num_parts(one) - common; /* ports below the last that they share, and the device itself */
    below_other = num_parts(other) - common;
    return below_one <= 2 && below_other <= 2 ? MUSTER_LINK_PIX : MUSTER_LINK_PXB;
}

/* ---- wires ------------------------------------------------------------------------------------------------------- */

/* Told from both ends, or twice: the most counts. */
static void link_connect(struct muster_link *link, const struct mu_wire *wire)
{
    if (link->level != wire->level)
        *link = (struct muster_link){.level = wire->level};
    if (wire->lanes > link->lanes)
        link->lanes = wire->lanes;
    if (wire->bandwidth_mbs > link->bandwidth_mbs)
        link->bandwidth_mbs = wire->bandwidth_mbs;
}

/* As narrow as the narrower of the two. */
static struct mu_wire through_switch(const struct mu_wire *a, const struct mu_wire *b)
{
    struct mu_wire both = *a;

    if (b->lanes < both.lanes)
        both.lanes = b->lanes;
    if (b->bandwidth_mbs < both.bandwidth_mbs)
        both.bandwidth_mbs = b->bandwidth_mbs;
    return both;
}

static void connect_wires(struct muster_topology *node)
{
    size_t n = node->num_devices;

    for (size_t i = 0; i < node->num_wires; i++) {
        const struct mu_wire *wire = &node->wires[i];
        size_t from = (size_t)wire->from;

        if (wire->to >= 0 && wire->to != wire->from) {
            link_connect(&node->links[from * n + (size_t)wire->to], wire);
            link_connect(&node->links[(size_t)wire->to * n + from], wire);
        }
        for (size_t j = 0; wire->to == MU_WIRE_SWITCH && j < node->num_wires; j++) {
            const struct mu_wire *other = &node->wires[j];
            struct mu_wire both = through_switch(wire, other);

            if (other->to == MU_WIRE_SWITCH && other->from != wire->from && other->level == wire->level)
                link_connect(&node->links[from * n + (size_t)other->from], &both);
        }
    }
}

/* ---- parts of a GPU ---------------------------------------------------------------------------------------------- */

static size_t whole_device(const struct muster_topology *node, size_t index)
{
    return node->devices[index].parent >= 0 ? (size_t)node->devices[index].parent : index;
}

/* NVIDIA's parts do not reach others over NVLink; AMD's use the GPU's XGMI. */
static struct muster_link link_of_parts(const struct muster_topology *node, size_t a, size_t b)
{
    size_t one = whole_device(node, a), other = whole_device(node, b);
    struct muster_link link = node->links[one * node->num_devices + other];

    if (one == other)
        return (struct muster_link){.level = MUSTER_LINK_SELF};
    if (link.level == MUSTER_LINK_NVLINK)
        link = (struct muster_link){.level = level_of(node, one, other)};
    return link;
}

void mu_node_link(struct muster_topology *node)
{
    size_t n = node->num_devices;

    free(node->links);
    node->links = calloc(n ? n * n : 1, sizeof *node->links);
    if (!node->links) {
        node->failed = 1;
        return;
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            node->links[a * n + b].level = a == b ? MUSTER_LINK_SELF : level_of(node, a, b);
    connect_wires(node);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            if (node->devices[a].kind == MUSTER_DEVICE_GPU_PART || node->devices[b].kind == MUSTER_DEVICE_GPU_PART)
                node->links[a * n + b] = link_of_parts(node, a, b);
}
