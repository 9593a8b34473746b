/*
 * cli/topo/svg.c: the machine as a picture, SVG: boxes within boxes, wires below them, ranks on them.
 *
 * Each box has a tooltip with all that is known of it, for what is written in it is cut to its width.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "cli/topo/svg.h"

enum { LEAST_WIDTH = 456, WORDS_WIDTH = 760 };

/* ---- words ------------------------------------------------------------------------------------------------------- */

void mu_svg_head(const struct mu_box *box, char *text, size_t size)
{
    char bytes[32] = "";

    if (box->bytes)
        mu_cli_topo_bytes(box->bytes, bytes);
    switch (box->kind) {
    case MU_BOX_PACKAGE: snprintf(text, size, "package %d  %s", (int)box->number, box->name); break;
    case MU_BOX_NUMA: snprintf(text, size, "NUMA %d  %s  %s", (int)box->number, bytes, box->name); break;
    case MU_BOX_L3: snprintf(text, size, "L3 %s", bytes); break;
    case MU_BOX_CORE: snprintf(text, size, "core %d%s%s", (int)box->number, *box->name ? "  " : "", box->name); break;
    case MU_BOX_HOST_BRIDGE: snprintf(text, size, "PCI %s", mu_svg_short_pci(box->name)); break;
    case MU_BOX_BRIDGE: snprintf(text, size, "switch %s", mu_svg_short_pci(box->name)); break;
    case MU_BOX_SWITCH: snprintf(text, size, "%u x", box->count); break;
    default: snprintf(text, size, "%s", ""); break;
    }
}

static void svg_put_ranks(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];

    for (size_t i = 0; i < sheet->topo->num_ranks; i++) {
        const struct mu_cli_rank *rank = &sheet->topo->ranks[i];
        int is_here = rank->box == at || (at == 0 && rank->box < 0) ||
                      (rank->box >= 0 && sheet->topo->boxes[rank->box].kind == MU_BOX_CORE &&
                       sheet->topo->boxes[rank->box].parent == at);

        for (size_t k = 0; k < rank->num_devices; k++)
            is_here |= box->device == rank->devices[k];
        if (!is_here)
            continue;
        fprintf(sheet->out, "\ntask %d", (int)rank->task);
        if (rank->pid)
            fprintf(sheet->out, " (pid %u)", rank->pid);
        if (rank->cpus)
            fprintf(sheet->out, ": CPUs %s", rank->cpus);
        for (size_t k = 0; k < rank->num_devices; k++)
            fprintf(sheet->out, "%s%s", k ? "," : "; ", sheet->topo->labels[rank->devices[k]]);
        if (rank->unknown)
            fprintf(sheet->out, "%s%s", rank->cpus ? "; " : ": ", rank->unknown);
    }
}

static void put_device_title(const struct mu_svg_sheet *sheet, const struct muster_device *device)
{
    const char *const words[] = {device->name, device->part_profile, device->pci, device->uuid};
    char bytes[32];

    fputs(sheet->topo->labels[device->index], sheet->out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*words[i]) {
            fputs(i ? "\n" : ": ", sheet->out);
            mu_svg_escape(sheet->out, words[i]);
        }
    if (device->memory_bytes)
        fprintf(sheet->out, "\n%s", mu_cli_topo_bytes(device->memory_bytes, bytes));
    if (*device->cpus)
        fprintf(sheet->out, "\nnear CPUs %s", device->cpus);
    if (device->health)
        fputs("\nlost", sheet->out);
}

static void put_title(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];
    char text[320];

    fputs("<title>", sheet->out);
    if (box->kind == MU_BOX_DEVICE) {
        put_device_title(sheet, muster_topology_device(sheet->topo->topology, (size_t)box->device));
    } else {
        mu_svg_head(box, text, sizeof text);
        mu_svg_escape(sheet->out, box->kind == MU_BOX_MACHINE ? mu_cli_topo_name(sheet->topo) : text);
        if (box->kind == MU_BOX_SWITCH)
            fputs(" NVSwitch", sheet->out);
        if (box->device >= 0)
            fprintf(sheet->out, " (%s)", sheet->topo->labels[box->device]);
        if (box->cores > 1)
            fprintf(sheet->out, "\n%u cores, %u processors", box->cores, box->processors);
        if (*box->cpus)
            fprintf(sheet->out, "\nCPUs %s", box->cpus);
    }
    svg_put_ranks(sheet, at);
    fputs("</title>\n", sheet->out);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

static void svg_draw(const struct mu_svg_sheet *sheet, int32_t at);

static int draw_line(const struct mu_svg_sheet *sheet, const struct mu_svg_place *place, int y, const char *how,
                     const char *text)
{
    if (!*text)
        return y;
    mu_svg_text(sheet->out, place->x + 5, y + 9, MU_SVG_SMALL, place->width - 8, how, text);
    return y + MU_SVG_LINE;
}

static int draw_pill(const struct mu_svg_sheet *sheet, int32_t at, int x, int y, int room)
{
    if (!*sheet->ranks[at])
        return y;
    mu_svg_pill(sheet->out, x, y, room, "rank", sheet->ranks[at]);
    return y + MU_SVG_PILL;
}

static int draw_part(const struct mu_svg_sheet *sheet, int32_t at, const struct mu_svg_place *gpu, int y)
{
    const struct muster_device *part =
        muster_topology_device(sheet->topo->topology, (size_t)sheet->topo->boxes[at].device);
    struct mu_svg_place place = {gpu->x + 3, y, gpu->width - 6,
                                 MU_SVG_PILL - 2 + (*sheet->ranks[at] ? MU_SVG_PILL : 0)};

    fputs("<g>", sheet->out);
    put_title(sheet, at);
    mu_svg_rect(sheet->out, &place, 2, part->health ? "bad" : "part");
    mu_svg_text(sheet->out, place.x + 3, y + 9, MU_SVG_SMALL, place.width - 4, "dim",
                *part->part_profile ? part->part_profile : sheet->topo->labels[part->index]);
    y = draw_pill(sheet, at, place.x + 3, y + MU_SVG_PILL - 2, place.width - 6) + 2;
    fputs("</g>\n", sheet->out);
    return y;
}

static void draw_device(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];
    const struct muster_device *device = muster_topology_device(sheet->topo->topology, (size_t)box->device);
    const struct mu_svg_place *place = &sheet->places[at];
    char bytes[32], model[32];
    int y = place->y + MU_SVG_HEAD;

    mu_svg_rect(sheet->out, place, 3, device->health ? "bad" : "gpu");
    mu_svg_text(sheet->out, place->x + 5, place->y + 12, MU_SVG_COMMON, place->width - 8, "b",
                sheet->topo->labels[box->device]);
    y = draw_line(sheet, place, y, "dim", mu_svg_short_pci(device->pci));
    if (sheet->shows_models)
        y = draw_line(sheet, place, y, "dim", mu_cli_topo_model(device, model));
    if (device->memory_bytes)
        y = draw_line(sheet, place, y, "dim", mu_cli_topo_bytes(device->memory_bytes, bytes));
    y = draw_line(sheet, place, y, "link", sheet->wires[box->device]);
    for (int32_t part = box->first; part >= 0; part = sheet->topo->boxes[part].next)
        y = draw_part(sheet, part, place, y);
    draw_pill(sheet, at, place->x + 3, y, place->width - 6);
}

static void draw_switch(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_svg_place *place = &sheet->places[at];
    char text[32];

    mu_svg_head(&sheet->topo->boxes[at], text, sizeof text);
    mu_svg_rect(sheet->out, place, 3, "nvswitch");
    mu_svg_text(sheet->out, place->x + 5, place->y + 12, MU_SVG_COMMON, place->width - 8, "b", text);
    draw_line(sheet, place, place->y + MU_SVG_HEAD, "dim", "NVSwitch");
}

static bool is_used(const struct mu_svg_sheet *sheet, const struct mu_box *core)
{
    size_t size = CPU_ALLOC_SIZE(MU_CPUS_MAX / 64);
    int used = 0;

    for (size_t i = 0; i < sheet->topo->num_ranks && !used; i++) {
        const struct mu_cli_rank *rank = &sheet->topo->ranks[i];
        cpu_set_t *one = rank->box > 0 ? mu_cpus_new(size) : NULL, *other = mu_cpus_new(size);

        if (one && other && mu_cpus_parse(rank->cpus, one, size) >= 0 && mu_cpus_parse(core->cpus, other, size) >= 0) {
            CPU_AND_S(size, one, one, other);
            used = CPU_COUNT_S(size, one) > 0;
        }
        CPU_FREE(one);
        CPU_FREE(other);
    }
    return used;
}

static const char *core_look(const struct mu_box *core)
{
    return strcmp(core->name, "efficiency") == 0 ? "ecore" : strncmp(core->name, "kind", 4) == 0 ? "kcore" : "core";
}

static void draw_below(const struct mu_svg_sheet *sheet, int32_t at)
{
    for (int32_t below = sheet->topo->boxes[at].first; below >= 0; below = sheet->topo->boxes[below].next)
        if (sheet->places[below].width)
            svg_draw(sheet, below);
}

static void draw_box(const struct mu_svg_sheet *sheet, int32_t at)
{
    static const char *const looks[] = {
        [MU_BOX_PACKAGE] = "package", [MU_BOX_NUMA] = "numa",   [MU_BOX_L3] = "l3",
        [MU_BOX_HOST_BRIDGE] = "pci", [MU_BOX_BRIDGE] = "fork", [MU_BOX_CORE] = "package",
    };
    const struct mu_box *box = &sheet->topo->boxes[at];
    const struct mu_svg_place *place = &sheet->places[at];
    char text[320];

    mu_svg_head(box, text, sizeof text);
    mu_svg_rect(sheet->out, place, box->kind == MU_BOX_PACKAGE ? 6 : 4, looks[box->kind]);
    mu_svg_text(sheet->out, place->x + MU_SVG_PAD, place->y + 12, MU_SVG_COMMON, place->width - 2 * MU_SVG_PAD,
                box->kind == MU_BOX_PACKAGE ? "b" : "dim", text);
    draw_pill(sheet, at, place->x + MU_SVG_PAD, place->y + MU_SVG_HEAD, place->width - 2 * MU_SVG_PAD);
}

static void svg_draw(const struct mu_svg_sheet *sheet, int32_t at)
{
    const struct mu_box *box = &sheet->topo->boxes[at];

    fputs("<g>", sheet->out);
    put_title(sheet, at);
    if (box->kind == MU_BOX_CORE && box->first < 0)
        mu_svg_rect(sheet->out, &sheet->places[at], 2, is_used(sheet, box) ? "used" : core_look(box));
    else if (box->kind == MU_BOX_DEVICE)
        draw_device(sheet, at);
    else if (box->kind == MU_BOX_SWITCH)
        draw_switch(sheet, at);
    else
        draw_box(sheet, at);
    if (box->kind != MU_BOX_DEVICE)
        draw_below(sheet, at);
    fputs("</g>\n", sheet->out);
}

/* ---- the sheet --------------------------------------------------------------------------------------------------- */

/* What the picture's colours mean, as far as they occur. */
static void draw_legend(const struct mu_svg_sheet *sheet, int y)
{
    static const struct {
        enum mu_box_kind kind;
        const char *how, *text;
    } rows[] = {
        {MU_BOX_NUMA, "numa", "memory"},
        {MU_BOX_L3, "l3", "L3 cache"},
        {MU_BOX_CORE, "core", "core"},
        {MU_BOX_CORE, "ecore", "efficiency core"},
        {MU_BOX_CORE, "kcore", "core of another kind"},
        {MU_BOX_HOST_BRIDGE, "pci", "PCI"},
        {MU_BOX_BRIDGE, "fork", "PCI switch"},
        {MU_BOX_DEVICE, "gpu", "GPU"},
    };
    int x = MU_SVG_MARGIN;

    for (size_t i = 0; i < sizeof rows / sizeof *rows + (sheet->topo->num_ranks > 0); i++) {
        int is_rank = i == sizeof rows / sizeof *rows, is_there = is_rank, width;
        struct mu_svg_place swatch = {x, y, 10, 10};
        const char *text = is_rank ? "task, core of one" : rows[i].text;

        for (size_t k = 0; k < sheet->topo->num_boxes && !is_there; k++)
            is_there = sheet->topo->boxes[k].kind == rows[i].kind && sheet->places[k].width &&
                       (rows[i].kind != MU_BOX_CORE || strcmp(core_look(&sheet->topo->boxes[k]), rows[i].how) == 0);
        width = 14 + mu_svg_width(mu_svg_letters(text), MU_SVG_SMALL);
        if (!is_there || x + width > sheet->width)
            continue;
        mu_svg_rect(sheet->out, &swatch, 2, is_rank ? "used" : rows[i].how);
        mu_svg_text(sheet->out, x + 14, y + 9, MU_SVG_SMALL, width, "dim", text);
        x += width + 14;
    }
}

/* All GPUs are the same: their name, once; else NULL. */
static const char *common_model(const struct mu_cli_topo *topo)
{
    const char *model = NULL;

    for (size_t i = 0; i < topo->num_devices; i++) {
        const struct muster_device *device = muster_topology_device(topo->topology, i);

        if (device->kind == MUSTER_DEVICE_GPU && model && strcmp(model, device->name) != 0)
            return NULL;
        if (device->kind == MUSTER_DEVICE_GPU)
            model = device->name;
    }
    return model;
}

/* malloc()ed. */
static char *subtitle_of(const struct mu_cli_topo *topo, const char *model)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        abort();
    mu_cli_topo_summary(topo, out);
    if (model && *model)
        fprintf(out, topo->num_gpus > 1 ? ", each %s" : ": %s", model);
    if (fclose(out) != 0)
        abort();
    return text;
}

static void sheet_draw_head(const struct mu_svg_sheet *sheet, const char *subtitle)
{
    int room = sheet->width - 2 * MU_SVG_MARGIN;

    mu_svg_text(sheet->out, MU_SVG_MARGIN, MU_SVG_MARGIN + 12, MU_SVG_LARGE, room, "b", mu_cli_topo_name(sheet->topo));
    mu_svg_text(sheet->out, MU_SVG_MARGIN, MU_SVG_MARGIN + 28, MU_SVG_COMMON, room, "dim", subtitle);
}

/* As wide as the machine, or as its words, where these are not long. */
static int sheet_width(const struct mu_svg_sheet *sheet, const char *subtitle)
{
    int machine = sheet->places[0].width, words = mu_svg_width(mu_svg_letters(subtitle), MU_SVG_COMMON);
    int width = words > machine && words < WORDS_WIDTH ? words : machine;

    return (width > LEAST_WIDTH ? width : LEAST_WIDTH) + 2 * MU_SVG_MARGIN;
}

/* The ranks of the machine: those that may run anywhere on it, and those of which nothing is known. */
static char *machine_ranks(const struct mu_cli_topo *topo)
{
    char *anywhere = mu_cli_topo_ranks_at(topo, 0, -1, 0, "task ", "tasks "), *text = NULL;
    size_t size, unknown = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        abort();
    if (*anywhere)
        fprintf(out, "%s anywhere", anywhere);
    for (size_t i = 0; i < topo->num_ranks; i++)
        unknown += topo->ranks[i].box < 0;
    if (unknown)
        fprintf(out, "%s%zu not here", *anywhere ? ", " : "", unknown);
    fclose(out);
    free(anywhere);
    return text;
}

static void sheet_prepare(struct mu_svg_sheet *sheet)
{
    const struct mu_cli_topo *topo = sheet->topo;

    sheet->places = calloc(topo->num_boxes + 1, sizeof *sheet->places);
    sheet->ranks = calloc(topo->num_boxes + 1, sizeof *sheet->ranks);
    sheet->wires = calloc(topo->num_devices + 1, sizeof *sheet->wires);
    if (!sheet->places || !sheet->ranks || !sheet->wires)
        abort();
    sheet->ranks[0] = machine_ranks(topo);
    for (size_t i = 1; i < topo->num_boxes; i++) {
        int is_device = topo->boxes[i].kind == MU_BOX_DEVICE;

        /* a rank with a core of its own is shown where there is room for its name */
        sheet->ranks[i] = mu_cli_topo_ranks_at(topo, (int32_t)i, is_device ? topo->boxes[i].device : -1, 1,
                                               is_device ? "T" : "task ", is_device ? "T" : "tasks ");
    }
}

static void sheet_done(struct mu_svg_sheet *sheet)
{
    for (size_t i = 0; i < sheet->topo->num_boxes; i++)
        free(sheet->ranks[i]);
    for (size_t i = 0; i < sheet->topo->num_devices; i++)
        free(sheet->wires[i]);
    free(sheet->places);
    free(sheet->ranks);
    free(sheet->wires);
}

void mu_cli_topo_svg(const struct mu_cli_topo *topo, FILE *out)
{
    struct mu_svg_sheet sheet = {.topo = topo, .out = out};
    const char *model = common_model(topo);
    char *subtitle = subtitle_of(topo, model);
    struct mu_svg_wires *wires;
    int top = MU_SVG_MARGIN + 36, bottom;

    sheet_prepare(&sheet);
    sheet.shows_models = !model && topo->num_gpus > 0;
    wires = mu_svg_wires_find(&sheet);
    bottom = mu_svg_layout(&sheet, top + (*sheet.ranks[0] ? MU_SVG_PILL + 4 : 0));
    sheet.width = sheet_width(&sheet, subtitle);
    sheet.height = bottom + mu_svg_wires_height(wires) + MU_SVG_MARGIN + 10 + MU_SVG_MARGIN;
    mu_svg_begin(&sheet);
    sheet_draw_head(&sheet, subtitle);
    if (*sheet.ranks[0]) {
        fputs("<g>", out);
        put_title(&sheet, 0);
        mu_svg_pill(out, MU_SVG_MARGIN, top, sheet.width - 2 * MU_SVG_MARGIN, "rank", sheet.ranks[0]);
        fputs("</g>\n", out);
    }
    draw_below(&sheet, 0);
    mu_svg_wires_draw(&sheet, wires, bottom);
    draw_legend(&sheet, sheet.height - MU_SVG_MARGIN - 10);
    fputs("</svg>\n", out);
    mu_svg_wires_free(wires);
    sheet_done(&sheet);
    free(subtitle);
}
