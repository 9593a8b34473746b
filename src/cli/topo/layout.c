/*
 * cli/topo/layout.c: how large each box of the picture is, and where it is.
 *
 * What is in a box comes in four sections below each other: its cores as squares, caches and memory without
 * processors, packages and memory nodes, and PCI, which stands at the bottom, so that GPUs of a row end at one height
 * and wires can leave them. A section is a row, or several where it would be too wide. Sizes are found from the inside,
 * then places from the outside; boxes of a row are equally high.
 */
#include <stdbool.h>
#include <string.h>

#include "cli/topo/svg.h"

enum {
    SQUARE = 10,
    SQUARE_GAP = 3,
    SQUARES_MAX = 512,
    GPU_WIDTH = 50,
    BOX_WIDTH = 54, /* at least */
    NAME_WIDTH = 150,
    CACHES_WIDTH = 430,
    ROW_WIDTH = 1500,
};

enum section { CORES, CACHES, BLOCKS, PCI, NUM_SECTIONS, NONE = -1 };

/* One of those that are shown as squares: nothing is in it. */
static bool is_square(const struct mu_box *box)
{
    return box->kind == MU_BOX_CORE && box->first < 0;
}

static int num_cores(const struct mu_svg_sheet *sheet, int32_t around)
{
    int count = 0;

    for (int32_t at = sheet->topo->boxes[around].first; at >= 0; at = sheet->topo->boxes[at].next)
        count += is_square(&sheet->topo->boxes[at]);
    return count;
}

/* Its cores are shown one by one. */
static bool has_squares(const struct mu_svg_sheet *sheet, int32_t box)
{
    int count = num_cores(sheet, box);

    return count > 0 && count <= SQUARES_MAX;
}

static enum section section_of(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];

    switch (box->kind) {
    case MU_BOX_CORE: return !is_square(box) ? BLOCKS : has_squares(sheet, box->parent) ? CORES : NONE;
    case MU_BOX_L3: return CACHES;
    case MU_BOX_NUMA: return *box->cpus || box->first >= 0 ? BLOCKS : CACHES;
    case MU_BOX_DEVICE:
        return sheet->topo->boxes[box->parent].kind == MU_BOX_DEVICE ? NONE : PCI; /* parts are lines of their GPU */
    case MU_BOX_HOST_BRIDGE:
    case MU_BOX_BRIDGE:
    case MU_BOX_SWITCH: return PCI;
    default: return BLOCKS;
    }
}

/* The next box of this section, from `at` on. */
static int32_t next_of(const struct mu_svg_sheet *sheet, int32_t at, enum section section)
{
    while (at >= 0 && section_of(sheet, at) != section)
        at = sheet->topo->boxes[at].next;
    return at;
}

static int squares_per_row(int count)
{
    return count <= 8 ? count : count <= 32 ? 8 : count <= 128 ? 16 : 32;
}

const char *mu_svg_short_pci(const char *pci)
{
    return strncmp(pci, "0000:", 5) == 0 ? pci + 5 : pci;
}

/* Lines of text below its name. */
static int device_lines(const struct mu_svg_sheet *sheet, int32_t index)
{
    const struct muster_device *device = muster_topology_device(sheet->topo->topology, (size_t)index);

    return (*device->pci != 0) + (device->memory_bytes != 0) + sheet->shows_models + (*sheet->wires[index] != 0);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int head_of(const struct mu_svg_sheet *sheet, int32_t at)
{
    int is_bare = sheet->topo->boxes[at].kind == MU_BOX_MACHINE; /* its name is the picture's */

    return is_bare ? 0 : MU_SVG_HEAD + (*sheet->ranks[at] ? MU_SVG_PILL : 0);
}

static int pad_of(const struct mu_svg_sheet *sheet, int32_t at)
{
    return sheet->topo->boxes[at].kind == MU_BOX_MACHINE ? 0 : MU_SVG_PAD;
}

static void measure_device(struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];
    struct mu_svg_place *place = &sheet->places[at];
    int width = mu_svg_width(mu_svg_letters(mu_svg_short_pci(box->name)), MU_SVG_SMALL) + 10;

    place->width = width > GPU_WIDTH ? width : GPU_WIDTH;
    place->height = MU_SVG_HEAD + 4 + (*sheet->ranks[at] ? MU_SVG_PILL : 0);
    if (box->kind == MU_BOX_SWITCH) {
        place->width = 58; /* its word */
        place->height += MU_SVG_LINE;
        return;
    }
    if (sheet->shows_models || box->first >= 0)
        place->width = place->width > 84 ? place->width : 84;
    place->height += MU_SVG_LINE * device_lines(sheet, box->device);
    for (int32_t part = box->first; part >= 0; part = sheet->topo->boxes[part].next)
        place->height += MU_SVG_PILL + (*sheet->ranks[part] ? MU_SVG_PILL : 0);
}

/* A section's rows: whether the next box begins another one. */
struct flow {
    int limit, width, height, row_width, row_height;
};

static void flow_on(struct flow *flow, const struct mu_svg_place *place)
{
    if (flow->row_width && flow->row_width + MU_SVG_GAP + place->width > flow->limit) {
        flow->height += flow->row_height + MU_SVG_GAP;
        flow->row_width = flow->row_height = 0;
    }
    flow->row_width += (flow->row_width ? MU_SVG_GAP : 0) + place->width;
    if (flow->row_width > flow->width)
        flow->width = flow->row_width;
    if (place->height > flow->row_height)
        flow->row_height = place->height;
}

static int limit_of(enum section section, int least)
{
    int limit = section == CACHES ? CACHES_WIDTH : ROW_WIDTH;

    return limit > least ? limit : least;
}

static struct flow measure_section(const struct mu_svg_sheet *sheet, int32_t around, enum section section, int least)
{
    struct flow flow = {.limit = limit_of(section, least)};
    int32_t at = next_of(sheet, sheet->topo->boxes[around].first, section);

    for (; at >= 0; at = next_of(sheet, sheet->topo->boxes[at].next, section))
        flow_on(&flow, &sheet->places[at]);
    flow.height += flow.row_height;
    return flow;
}

static struct flow measure_cores(const struct mu_svg_sheet *sheet, int32_t around)
{
    int count = has_squares(sheet, around) ? num_cores(sheet, around) : 0, columns = squares_per_row(count);

    if (count == 0)
        return (struct flow){.width = 0};
    return (struct flow){.width = columns * (SQUARE + SQUARE_GAP) - SQUARE_GAP,
                         .height = ((count + columns - 1) / columns) * (SQUARE + SQUARE_GAP) - SQUARE_GAP};
}

/* The sections of a box; PCI first, for caches may be as wide as it is. */
static void measure_sections(const struct mu_svg_sheet *sheet, int32_t at, struct flow flows[NUM_SECTIONS])
{
    flows[PCI] = measure_section(sheet, at, PCI, 0);
    flows[BLOCKS] = measure_section(sheet, at, BLOCKS, 0);
    flows[CACHES] = measure_section(sheet, at, CACHES,
                                    flows[PCI].width > flows[BLOCKS].width ? flows[PCI].width : flows[BLOCKS].width);
    flows[CORES] = measure_cores(sheet, at);
}

/* The name of a package may be cut, and many ranks; others should be whole. */
static int least_width(const struct mu_svg_sheet *sheet, int32_t at)
{
    char text[320];
    int width, ranks = mu_svg_width(mu_svg_letters(sheet->ranks[at]), MU_SVG_SMALL) + 8;

    mu_svg_head(&sheet->topo->boxes[at], text, sizeof text);
    width = mu_svg_width(mu_svg_letters(text), MU_SVG_COMMON);
    if (sheet->topo->boxes[at].kind == MU_BOX_PACKAGE && width > NAME_WIDTH)
        width = NAME_WIDTH;
    if (*sheet->ranks[at] && ranks > width)
        width = ranks < NAME_WIDTH ? ranks : NAME_WIDTH;
    return (width > BOX_WIDTH ? width : BOX_WIDTH) + 2 * MU_SVG_PAD;
}

static void box_measure(struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];
    struct mu_svg_place *place = &sheet->places[at];
    struct flow flows[NUM_SECTIONS];
    int pad = pad_of(sheet, at);

    if (is_square(box)) /* where there are not too many */
        return;
    for (int32_t below = box->first; below >= 0; below = sheet->topo->boxes[below].next)
        box_measure(sheet, below);
    if (box->kind == MU_BOX_DEVICE || box->kind == MU_BOX_SWITCH) {
        measure_device(sheet, at);
        return;
    }
    measure_sections(sheet, at, flows);
    *place =
        (struct mu_svg_place){.width = least_width(sheet, at), .height = head_of(sheet, at) + (pad ? 2 : -MU_SVG_GAP)};
    for (int section = 0; section < NUM_SECTIONS; section++) {
        if (flows[section].width + 2 * pad > place->width)
            place->width = flows[section].width + 2 * pad;
        if (flows[section].height)
            place->height += flows[section].height + MU_SVG_GAP;
    }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void box_place(struct mu_svg_sheet *sheet, int32_t at, int x, int y, int width, int height);

/* A row of boxes, from `first`; the box behind it, or -1. Blocks share the room that is left, each at most *share,
 * which becomes what each has: a last row of few is no wider than the rows above it. */
static int32_t put_row(struct mu_svg_sheet *sheet, int32_t first, enum section section, const struct mu_svg_place *in,
                       int is_last, int *share, int *ret_height)
{
    struct flow flow = {.limit = limit_of(section, in->width)};
    int count = 0, extra, x = in->x;
    int32_t at = first, end;

    for (; at >= 0 && flow.height == 0; at = next_of(sheet, sheet->topo->boxes[at].next, section)) {
        struct flow before = flow;

        flow_on(&flow, &sheet->places[at]);
        if (flow.height) {
            flow = before;
            break;
        }
        count++;
    }
    end = at;
    extra = section == BLOCKS ? (in->width - flow.row_width) / (count ? count : 1) : 0;
    extra = extra < *share ? extra : *share;
    *share = extra;
    if (is_last && end < 0 && in->height > flow.row_height)
        flow.row_height = in->height;
    for (at = first; at != end; at = next_of(sheet, sheet->topo->boxes[at].next, section)) {
        int width = sheet->places[at].width + (extra > 0 ? extra : 0);

        box_place(sheet, at, x, in->y, width, flow.row_height);
        x += width + MU_SVG_GAP;
    }
    *ret_height = flow.row_height;
    return end;
}

/* In `in`: the last row of blocks and of PCI fills its height. */
static void put_section(struct mu_svg_sheet *sheet, int32_t around, enum section section, struct mu_svg_place in)
{
    int32_t at = next_of(sheet, sheet->topo->boxes[around].first, section);
    int height, share = in.width;

    while (at >= 0) {
        at = put_row(sheet, at, section, &in, section >= BLOCKS, &share, &height);
        in.y += height + MU_SVG_GAP;
        in.height -= height + MU_SVG_GAP;
    }
}

static void put_cores(struct mu_svg_sheet *sheet, int32_t around, int x, int y)
{
    int columns = squares_per_row(num_cores(sheet, around)), i = 0;
    int32_t at = next_of(sheet, sheet->topo->boxes[around].first, CORES);

    for (; at >= 0; at = next_of(sheet, sheet->topo->boxes[at].next, CORES), i++)
        sheet->places[at] = (struct mu_svg_place){x + i % columns * (SQUARE + SQUARE_GAP),
                                                  y + i / columns * (SQUARE + SQUARE_GAP), SQUARE, SQUARE};
}

static void box_place(struct mu_svg_sheet *sheet, int32_t at, int x, int y, int width, int height)
{
    int pad = pad_of(sheet, at), top = y + head_of(sheet, at) + (pad ? 2 : 0), bottom = y + height - pad;
    struct flow flows[NUM_SECTIONS];
    struct mu_svg_place in = {x + pad, top, width - 2 * pad, 0};

    sheet->places[at] = (struct mu_svg_place){x, y, width, height};
    if (sheet->topo->boxes[at].kind == MU_BOX_DEVICE || sheet->topo->boxes[at].kind == MU_BOX_SWITCH)
        return;
    measure_sections(sheet, at, flows);
    put_cores(sheet, at, in.x, in.y);
    in.y += flows[CORES].height ? flows[CORES].height + MU_SVG_GAP : 0;
    put_section(sheet, at, CACHES, in);
    in.y += flows[CACHES].height ? flows[CACHES].height + MU_SVG_GAP : 0;
    in.height = bottom - in.y - (flows[PCI].height ? flows[PCI].height + MU_SVG_GAP : 0);
    put_section(sheet, at, BLOCKS, in);
    in.y = bottom - flows[PCI].height;
    in.height = flows[PCI].height;
    put_section(sheet, at, PCI, in);
}

int mu_svg_layout(struct mu_svg_sheet *sheet, int top)
{
    struct mu_svg_place *machine = sheet->places;

    box_measure(sheet, 0);
    box_place(sheet, 0, MU_SVG_MARGIN, top, machine->width, machine->height);
    return top + machine->height;
}
