/*
 * cli/topo/wires.c: NVLink and XGMI in the picture of a machine.
 *
 * GPUs that all reach each other the same way, through NVSwitches or because every two have a wire, share one bar with
 * a line down from each: a fabric of 16 GPUs has 120 pairs, which no eye follows. Other pairs are arcs.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topo/svg.h"

enum {
    BAR_HEIGHT = 20,
    BAR_GAP = 14,
    ARC_DEPTH = 16, /* of neighbours; others' are deeper */
    ARC_STEP = 9,
    ARC_STEPS_MAX = 8,
    ARC_NAME = 6,
    ARCS_MAX = 200, /* more are no picture */
};

struct bar {
    int is_switched;
    char name[40];
    uint64_t bandwidth_mbs;
};

struct mu_svg_wires {
    int num_bars, num_arcs, deepest;
    struct bar *bars;
    int32_t *bar_of; /* of devices; -1: none */
};

static bool is_wire(struct muster_link link)
{
    return link.level == MUSTER_LINK_NVLINK || link.level == MUSTER_LINK_XGMI;
}

static struct muster_link link_of(const struct mu_cli_topo *topo, size_t a, size_t b)
{
    return muster_topology_link(topo->topology, a, b);
}

static bool is_gpu(const struct mu_cli_topo *topo, size_t device)
{
    return muster_topology_device(topo->topology, device)->kind == MUSTER_DEVICE_GPU;
}

/* "NV6", "NV12 to NV18" */
static void name_bar(const struct mu_cli_topo *topo, const struct mu_svg_wires *wires, int32_t index)
{
    struct muster_link least = {.lanes = 0}, most = {.lanes = 0};
    struct bar *bar = &wires->bars[index];
    char one[16], other[16];
    int seen = 0;

    for (size_t a = 0; a < topo->num_devices; a++)
        for (size_t b = 0; b < a; b++) {
            struct muster_link link = link_of(topo, a, b);

            if (wires->bar_of[a] != index || wires->bar_of[b] != index || !is_wire(link))
                continue;
            if (!seen || link.lanes < least.lanes)
                least = link;
            if (!seen || link.lanes > most.lanes)
                most = link;
            seen = 1;
        }
    muster_link_name(least, one, sizeof one);
    muster_link_name(most, other, sizeof other);
    if (strcmp(one, other) == 0)
        snprintf(bar->name, sizeof bar->name, "%s", one);
    else
        snprintf(bar->name, sizeof bar->name, "%s to %s", one, other);
    bar->bandwidth_mbs = least.bandwidth_mbs == most.bandwidth_mbs ? least.bandwidth_mbs : 0;
}

static bool is_free(const struct mu_cli_topo *topo, const struct mu_svg_wires *wires, size_t device)
{
    return wires->bar_of[device] < 0 && is_gpu(topo, device);
}

/* Whether the GPUs that `first` has a wire to, and no others, all have the same to each other. At least four. */
static bool is_mesh(const struct mu_cli_topo *topo, const struct mu_svg_wires *wires, size_t first,
                    struct muster_link *of)
{
    int count = 1;

    of->level = MUSTER_LINK_SELF;
    for (size_t b = 0; b < topo->num_devices; b++)
        if (b != first && is_free(topo, wires, b) && is_wire(link_of(topo, first, b))) {
            *of = link_of(topo, first, b);
            count++;
        }
    if (count < 4)
        return 0;
    for (size_t a = 0; a < topo->num_devices; a++)
        for (size_t b = 0; b < topo->num_devices; b++) {
            struct muster_link link = link_of(topo, a, b);
            int is_in = a != b && is_free(topo, wires, a) && is_free(topo, wires, b) &&
                        (a == first || is_wire(link_of(topo, first, a)));
            int should = b == first || is_wire(link_of(topo, first, b));

            if (is_in && (is_wire(link) != should || (should && (link.level != of->level || link.lanes != of->lanes))))
                return 0;
        }
    return 1;
}

static int add_bar(struct mu_svg_wires *wires, int is_switched)
{
    wires->bars[wires->num_bars] = (struct bar){.is_switched = is_switched};
    return wires->num_bars++;
}

static void find_bars(const struct mu_cli_topo *topo, struct mu_svg_wires *wires)
{
    int switched = -1;

    for (size_t i = 0; i < topo->num_devices; i++) {
        wires->bar_of[i] = -1;
        if (is_gpu(topo, i) && mu_topology_is_switched(topo->topology, i))
            wires->bar_of[i] = switched < 0 ? (switched = add_bar(wires, 1)) : switched;
    }
    for (size_t i = 0; i < topo->num_devices; i++) {
        struct muster_link link;
        int bar;

        if (!is_free(topo, wires, i) || !is_mesh(topo, wires, i, &link))
            continue;
        bar = add_bar(wires, 0);
        for (size_t b = 0; b < topo->num_devices; b++)
            if (is_free(topo, wires, b) && b != i && is_wire(link_of(topo, i, b)))
                wires->bar_of[b] = bar;
        wires->bar_of[i] = bar;
    }
    for (int i = 0; i < wires->num_bars; i++)
        name_bar(topo, wires, i);
}

/* ---- arcs -------------------------------------------------------------------------------------------------------- */

static bool is_arc(const struct mu_cli_topo *topo, const struct mu_svg_wires *wires, size_t a, size_t b)
{
    return a < b && is_gpu(topo, a) && is_gpu(topo, b) && is_wire(link_of(topo, a, b)) &&
           (wires->bar_of[a] < 0 || wires->bar_of[a] != wires->bar_of[b]);
}

static int depth_of(size_t a, size_t b)
{
    size_t span = b - a - 1;

    return ARC_DEPTH + ARC_STEP * (int)(span < ARC_STEPS_MAX ? span : ARC_STEPS_MAX);
}

/* "NV6"; "NV1-2" where its links differ; malloc()ed. */
static char *name_of(const struct mu_cli_topo *topo, size_t device)
{
    struct muster_link least = {.lanes = 0}, most = {.lanes = 0};
    char name[16] = "", text[32];

    for (size_t b = 0; b < topo->num_devices; b++) {
        struct muster_link link = link_of(topo, device, b);

        if (!is_gpu(topo, device) || !is_gpu(topo, b) || !is_wire(link))
            continue;
        if (!*name || link.lanes < least.lanes)
            least = link;
        if (!*name || link.lanes > most.lanes)
            most = link;
        muster_link_name(least, name, sizeof name);
    }
    if (least.lanes != most.lanes)
        snprintf(text, sizeof text, "%s-%u", name, most.lanes);
    else
        snprintf(text, sizeof text, "%s", name);
    return strdup(text);
}

struct mu_svg_wires *mu_svg_wires_find(struct mu_svg_sheet *sheet)
{
    const struct mu_cli_topo *topo = sheet->topo;
    struct mu_svg_wires *wires = calloc(1, sizeof *wires);

    if (!wires || !(wires->bars = calloc(topo->num_devices + 1, sizeof *wires->bars)) ||
        !(wires->bar_of = calloc(topo->num_devices + 1, sizeof *wires->bar_of)))
        abort();
    find_bars(topo, wires);
    for (size_t a = 0; a < topo->num_devices; a++) {
        sheet->wires[a] = name_of(topo, a);
        if (!sheet->wires[a])
            abort();
        for (size_t b = a + 1; b < topo->num_devices; b++) {
            if (!is_arc(topo, wires, a, b))
                continue;
            wires->num_arcs++;
            if (depth_of(a, b) > wires->deepest)
                wires->deepest = depth_of(a, b);
        }
    }
    return wires;
}

int mu_svg_wires_height(const struct mu_svg_wires *wires)
{
    return wires->num_bars * (BAR_HEIGHT + BAR_GAP) + (wires->num_arcs ? wires->deepest + ARC_NAME + BAR_GAP : 0);
}

void mu_svg_wires_free(struct mu_svg_wires *wires)
{
    free(wires->bars);
    free(wires->bar_of);
    free(wires);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static const struct mu_svg_place *place_of(const struct mu_svg_sheet *sheet, size_t device)
{
    for (size_t i = 0; i < sheet->topo->num_boxes; i++)
        if (sheet->topo->boxes[i].kind == MU_BOX_DEVICE && sheet->topo->boxes[i].device == (int32_t)device &&
            sheet->places[i].width)
            return &sheet->places[i];
    return NULL;
}

/* Nothing but the boxes around it is below the device: a line can leave it. */
static bool is_open(const struct mu_svg_sheet *sheet, const struct mu_svg_place *place)
{
    int x = place->x + place->width / 2, bottom = place->y + place->height;

    for (size_t i = 0; i < sheet->topo->num_boxes; i++)
        if (sheet->places[i].width && sheet->places[i].y >= bottom && sheet->places[i].x <= x &&
            sheet->places[i].x + sheet->places[i].width >= x)
            return 0;
    return 1;
}

static void draw_bar(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, int32_t index, int y)
{
    const struct bar *bar = &wires->bars[index];
    struct mu_svg_place place = {0};
    char text[160], rate[48] = "";
    int left = sheet->width, right = 0, members = 0;

    for (size_t i = 0; i < sheet->topo->num_devices; i++) {
        const struct mu_svg_place *gpu = wires->bar_of[i] == index ? place_of(sheet, i) : NULL;
        int x = gpu ? gpu->x + gpu->width / 2 : 0;

        members += wires->bar_of[i] == index;
        if (!gpu)
            continue;
        left = gpu->x < left ? gpu->x : left;
        right = gpu->x + gpu->width > right ? gpu->x + gpu->width : right;
        if (is_open(sheet, gpu))
            fprintf(sheet->out, "<path d=\"M%d %dV%d\" class=\"wire\" stroke-width=\"%d\"/>\n", x, gpu->y + gpu->height,
                    y, 3);
    }
    if (right == 0)
        return;
    if (bar->bandwidth_mbs)
        snprintf(rate, sizeof rate, ", %.0f GB/s each way", (double)bar->bandwidth_mbs / 1000);
    snprintf(text, sizeof text, "%s: %s between every two of %d GPUs%s", bar->is_switched ? "NVSwitch" : "direct links",
             bar->name, members, rate);
    place = (struct mu_svg_place){left, y, mu_svg_width(mu_svg_letters(text), MU_SVG_COMMON) + 20, BAR_HEIGHT};
    if (place.width > sheet->width - MU_SVG_MARGIN - left)
        place.width = sheet->width - MU_SVG_MARGIN - left;
    if (place.width < right - left)
        place.width = right - left;
    fputs("<g><title>", sheet->out);
    mu_svg_escape(sheet->out, text);
    fputs("</title>\n", sheet->out);
    mu_svg_rect(sheet->out, &place, 5, "bar");
    mu_svg_text(sheet->out, left + 10, y + 14, MU_SVG_COMMON, place.width - 20, "on b", text);
    fputs("</g>\n", sheet->out);
}

/* Arcs leave a GPU side by side. */
static int port_of(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, size_t device, size_t peer,
                   const struct mu_svg_place *place)
{
    int count = 0, rank = 0, step;

    for (size_t b = 0; b < sheet->topo->num_devices; b++) {
        if (!is_arc(sheet->topo, wires, device < b ? device : b, device < b ? b : device))
            continue;
        rank += b < peer;
        count++;
    }
    step = count > 1 ? (place->width - 12) / count : 0;
    if (step > 12)
        step = 12;
    return place->x + place->width / 2 + (2 * rank - (count - 1)) * step / 2;
}

/* Where an arc is. */
struct arc {
    const struct mu_svg_place *one, *other;
    int from, to, top, depth;
};

/* 0: it cannot be drawn. */
static int find_arc(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, size_t a, size_t b, int top,
                    struct arc *arc)
{
    if (!is_arc(sheet->topo, wires, a, b))
        return 0;
    *arc = (struct arc){.one = place_of(sheet, a), .other = place_of(sheet, b), .top = top, .depth = depth_of(a, b)};
    if (!arc->one || !arc->other || !is_open(sheet, arc->one) || !is_open(sheet, arc->other))
        return 0;
    arc->from = port_of(sheet, wires, a, b, arc->one);
    arc->to = port_of(sheet, wires, b, a, arc->other);
    return 1;
}

/* With its control points a third lower than it is to be, a curve is as deep as it is to be. */
static void draw_arc(const struct mu_svg_sheet *sheet, size_t a, size_t b, const struct arc *arc)
{
    struct muster_link link = link_of(sheet->topo, a, b);
    int control = arc->top + arc->depth * 4 / 3;
    char name[16];

    fprintf(sheet->out, "<g><title>%s to %s: %s", sheet->topo->labels[a], sheet->topo->labels[b],
            muster_link_name(link, name, sizeof name));
    if (link.bandwidth_mbs)
        fprintf(sheet->out, ", %.0f GB/s each way", (double)link.bandwidth_mbs / 1000);
    fprintf(sheet->out,
            "</title>\n<path d=\"M%d %dV%dC%d %d %d %d %d %dV%d\" class=\"wire\" stroke-width=\"%u\"/></g>\n",
            arc->from, arc->one->y + arc->one->height, arc->top, arc->from, control, arc->to, control, arc->to,
            arc->top, arc->other->y + arc->other->height,
            link.lanes > 4   ? 3
            : link.lanes > 1 ? 2
                             : 1);
}

/* Its name stands on its deepest point, upon all lines. */
static void draw_name(const struct mu_svg_sheet *sheet, size_t a, size_t b, const struct arc *arc)
{
    char name[16];

    fprintf(sheet->out, "<text x=\"%d\" y=\"%d\" class=\"f9 tag m\">%s</text>\n", (arc->from + arc->to) / 2,
            arc->top + arc->depth + 3, muster_link_name(link_of(sheet->topo, a, b), name, sizeof name));
}

static void draw_arcs(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, int top)
{
    struct arc arc;

    for (int names = 0; names < 2; names++)
        for (size_t a = 0; a < sheet->topo->num_devices; a++)
            for (size_t b = a + 1; b < sheet->topo->num_devices; b++) {
                if (!find_arc(sheet, wires, a, b, top, &arc))
                    continue;
                if (names)
                    draw_name(sheet, a, b, &arc);
                else
                    draw_arc(sheet, a, b, &arc);
            }
}

void mu_svg_wires_draw(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, int top)
{
    for (int i = 0; i < wires->num_bars; i++, top += BAR_HEIGHT + BAR_GAP)
        draw_bar(sheet, wires, i, top + BAR_GAP);
    if (wires->num_arcs > ARCS_MAX)
        fprintf(sheet->out, "<text x=\"%d\" y=\"%d\" class=\"f10 link\">%d links: muster topo --matrix</text>\n",
                MU_SVG_MARGIN, top + BAR_GAP + MU_SVG_COMMON, wires->num_arcs);
    else if (wires->num_arcs)
        draw_arcs(sheet, wires, top + BAR_GAP / 2);
}
