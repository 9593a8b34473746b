/*
 * cli/topo/tree.c: the machine as an indented tree.
 *
 * Cores are counted where they are, and caches and memory nodes that are alike and hold no device and no rank stand in
 * one line: 24 L3 caches of a large machine say no more than one of them and their number. A memory node is always
 * there by its number, so what holds one is not folded, and a line of several nodes lists their numbers.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topo/topo.h"

/* ---- one box ----------------------------------------------------------------------------------------------------- */

static void tree_put_ranks(const struct mu_cli_topo *topo, int32_t box, int32_t device, FILE *out)
{
    char *ranks = mu_cli_topo_ranks_at(topo, box, device, 0, "task ", "tasks ");

    if (*ranks)
        fprintf(out, "%s  <- %s%s", out == stdout ? mu_cli_colour(MU_CLI_YELLOW) : "", ranks,
                out == stdout ? mu_cli_colour(MU_CLI_PLAIN) : "");
    free(ranks);
}

static void tree_put_text(FILE *out, const char *before, const char *text)
{
    size_t length = strlen(text);

    while (length && text[length - 1] == ' ')
        length--;
    if (length == 0)
        return;
    fputs(before, out);
    mu_cli_print_text(out, text, length);
}

/* The kind that all cores directly below have; "" when they differ, or have none. */
static const char *core_kind_below(const struct mu_cli_topo *topo, const struct mu_box *around)
{
    const char *kind = NULL;

    for (int32_t at = around->first; at >= 0; at = topo->boxes[at].next) {
        if (topo->boxes[at].kind != MU_BOX_CORE || (kind && strcmp(kind, topo->boxes[at].name) != 0))
            return "";
        kind = topo->boxes[at].name;
    }
    return kind ? kind : "";
}

static void put_processors(const struct mu_cli_topo *topo, const struct mu_box *box, FILE *out)
{
    const char *kind = core_kind_below(topo, box);
    int ranked = *kind && strncmp(kind, "kind", 4) != 0;

    if (box->cores)
        fprintf(out, ", %u %s%score%s", box->cores, ranked ? kind : "", ranked ? " " : "", box->cores == 1 ? "" : "s");
    if (box->cores && *kind && !ranked)
        fprintf(out, " of %s", kind);
    if (box->processors && box->processors != box->cores)
        fprintf(out, ", %u processor%s", box->processors, box->processors == 1 ? "" : "s");
}

static void tree_put_device(const struct mu_cli_topo *topo, int32_t index, FILE *out)
{
    const struct muster_device *device = muster_topology_device(topo->topology, (size_t)index);
    char bytes[32], model[32];
    size_t widest = 0;

    for (size_t i = 0; i < topo->num_devices; i++)
        if (muster_topology_device(topo->topology, i)->kind == device->kind && strlen(topo->labels[i]) > widest)
            widest = strlen(topo->labels[i]);
    fprintf(out, "%s%s%s%*s", out == stdout ? mu_cli_colour(MU_CLI_GREEN) : "", topo->labels[index],
            out == stdout ? mu_cli_colour(MU_CLI_PLAIN) : "", (int)(widest - strlen(topo->labels[index])), "");
    if (device->kind == MUSTER_DEVICE_GPU_PART) {
        tree_put_text(out, "  ", device->part_profile);
    } else {
        tree_put_text(out, "  ", device->pci);
        tree_put_text(out, "  ", mu_cli_topo_model(device, model));
    }
    if (device->memory_bytes)
        fprintf(out, ", %s", mu_cli_topo_bytes(device->memory_bytes, bytes));
    if (device->kind == MUSTER_DEVICE_GPU_PART)
        tree_put_text(out, "  ", device->uuid);
    if (device->health)
        fputs(", lost", out);
}

/* "2-5,8": of so many boxes side by side. */
static void put_numbers(const struct mu_cli_topo *topo, int32_t at, size_t alike, FILE *out)
{
    const char *before = "";

    while (alike > 0) {
        int32_t first = topo->boxes[at].number, last = first;

        for (at = topo->boxes[at].next, alike--; alike > 0 && topo->boxes[at].number == last + 1; alike--) {
            last++;
            at = topo->boxes[at].next;
        }
        fprintf(out, "%s%d", before, (int)first);
        if (last > first)
            fprintf(out, "-%d", (int)last);
        before = ",";
    }
}

static void put_kind(const struct mu_cli_topo *topo, int32_t at, size_t alike, FILE *out)
{
    const struct mu_box *box = &topo->boxes[at];
    char bytes[32] = "", some[24] = "";

    if (alike > 1)
        snprintf(some, sizeof some, "%zu x ", alike);
    if (box->bytes)
        mu_cli_topo_bytes(box->bytes, bytes);
    switch (box->kind) {
    case MU_BOX_PACKAGE:
        fprintf(out, "package %d", (int)box->number);
        tree_put_text(out, ": ", box->name);
        break;
    case MU_BOX_NUMA:
        fputs(alike > 1 ? "NUMA nodes " : "NUMA node ", out);
        put_numbers(topo, at, alike, out);
        tree_put_text(out, ", ", box->name);
        tree_put_text(out, ": ", bytes);
        break;
    case MU_BOX_L3:
        fprintf(out, "%sL3 cache", some);
        tree_put_text(out, ": ", bytes);
        break;
    case MU_BOX_CORE:
        fprintf(out, "core %d", (int)box->number);
        tree_put_text(out, ", ", box->name);
        break;
    case MU_BOX_HOST_BRIDGE: fprintf(out, "PCI %s", box->name); break;
    case MU_BOX_BRIDGE: fprintf(out, "PCI switch %s", box->name); break;
    case MU_BOX_SWITCH: fprintf(out, "%u NVSwitch%s", box->count, box->count == 1 ? "" : "es"); break;
    case MU_BOX_DEVICE: tree_put_device(topo, box->device, out); break;
    case MU_BOX_MACHINE: break;
    }
}

static void tree_put_box(const struct mu_cli_topo *topo, int32_t at, size_t alike, FILE *out)
{
    const struct mu_box *box = &topo->boxes[at];

    put_kind(topo, at, alike, out);
    if (box->kind == MU_BOX_PACKAGE || box->kind == MU_BOX_NUMA || box->kind == MU_BOX_L3)
        put_processors(topo, box, out);
    if (alike > 1)
        fputs(" each", out);
    if (alike == 1 && (box->kind == MU_BOX_NUMA || box->kind == MU_BOX_L3 || box->kind == MU_BOX_CORE))
        tree_put_text(out, ", CPUs ", box->cpus);
    if (box->kind != MU_BOX_DEVICE && box->device >= 0)
        fprintf(out, "  (%s)", topo->labels[box->device]);
    tree_put_ranks(topo, at, box->device, out);
    putc('\n', out);
}

/* ---- the tree --------------------------------------------------------------------------------------------------- */

static bool has_rank(const struct mu_cli_topo *topo, int32_t box)
{
    for (size_t i = 0; i < topo->num_ranks; i++)
        if (topo->ranks[i].box == box)
            return 1;
    return 0;
}

/* Whether a line for both says all: below either there are at most cores, and caches that are alike too. */
static bool box_is_alike(const struct mu_cli_topo *topo, int32_t one, int32_t other)
{
    const struct mu_box *a = &topo->boxes[one], *b = &topo->boxes[other];

    if (a->kind != b->kind || a->bytes != b->bytes || a->cores != b->cores || a->processors != b->processors ||
        a->device >= 0 || b->device >= 0 || a->count != b->count ||
        ((a->kind == MU_BOX_NUMA || a->kind == MU_BOX_CORE) && strcmp(a->name, b->name) != 0) || has_rank(topo, one) ||
        has_rank(topo, other))
        return 0;
    if (a->kind != MU_BOX_NUMA && a->kind != MU_BOX_L3 && a->kind != MU_BOX_CORE)
        return 0;
    one = a->first;
    other = b->first;
    for (; one >= 0 && other >= 0; one = topo->boxes[one].next, other = topo->boxes[other].next)
        if (topo->boxes[one].kind == MU_BOX_NUMA || !box_is_alike(topo, one, other))
            return 0;
    return one < 0 && other < 0;
}

/* Cores are told of by what holds them, unless something is in one, or a task has it for itself. */
static bool is_told(const struct mu_cli_topo *topo, int32_t at)
{
    return topo->boxes[at].kind == MU_BOX_CORE && topo->boxes[at].first < 0 && !has_rank(topo, at);
}

static void put_below(const struct mu_cli_topo *topo, int32_t around, int depth, FILE *out)
{
    int32_t at = topo->boxes[around].first, next;

    for (; at >= 0; at = next) {
        size_t alike = 1;

        next = topo->boxes[at].next;
        if (is_told(topo, at))
            continue;
        while (next >= 0 && topo->boxes[at].kind != MU_BOX_CORE && box_is_alike(topo, at, next)) {
            alike++;
            next = topo->boxes[next].next;
        }
        fprintf(out, "%*s", 2 * depth, "");
        tree_put_box(topo, at, alike, out);
        put_below(topo, at, depth + 1, out);
    }
}

void mu_cli_topo_tree(const struct mu_cli_topo *topo, FILE *out)
{
    fputs(out == stdout ? mu_cli_colour(MU_CLI_BOLD) : "", out);
    mu_cli_print_line(out, mu_cli_topo_name(topo));
    fprintf(out, "%s: ", out == stdout ? mu_cli_colour(MU_CLI_PLAIN) : "");
    mu_cli_topo_summary(topo, out);
    if (topo->num_boxes && topo->boxes[0].device >= 0)
        fprintf(out, "  (%s)", topo->labels[topo->boxes[0].device]);
    if (topo->num_boxes)
        tree_put_ranks(topo, 0, topo->boxes[0].device, out);
    putc('\n', out);
    if (topo->num_boxes)
        put_below(topo, 0, 1, out);
}

/* ---- the tasks -------------------------------------------------------------------------------------------------- */

static void put_place(const struct mu_cli_topo *topo, const struct mu_cli_rank *rank, char *text, size_t size)
{
    const struct mu_box *box = rank->box < 0 ? NULL : &topo->boxes[rank->box];

    while (box && box->kind != MU_BOX_MACHINE && box->kind != MU_BOX_PACKAGE && box->kind != MU_BOX_NUMA &&
           box->kind != MU_BOX_L3 && box->kind != MU_BOX_CORE)
        box = &topo->boxes[box->parent];
    if (!box)
        snprintf(text, size, "-");
    else if (box->kind == MU_BOX_MACHINE)
        snprintf(text, size, "anywhere");
    else
        snprintf(text, size, "%s %d",
                 box->kind == MU_BOX_PACKAGE ? "package"
                 : box->kind == MU_BOX_NUMA  ? "NUMA node"
                 : box->kind == MU_BOX_L3    ? "L3"
                                             : "core",
                 (int)box->number);
}

void mu_cli_topo_tasks(const struct mu_cli_topo *topo, FILE *out)
{
    char pid[16], place[32];

    if (!topo->job)
        return;
    fprintf(out, "\n%s%-5s %-8s %-14s %-16s %s%s\n", out == stdout ? mu_cli_colour(MU_CLI_BOLD) : "", "TASK", "PID",
            "PLACE", "CPUS", "GPUS", out == stdout ? mu_cli_colour(MU_CLI_PLAIN) : "");
    for (size_t i = 0; i < topo->num_ranks; i++) {
        const struct mu_cli_rank *rank = &topo->ranks[i];

        snprintf(pid, sizeof pid, rank->pid ? "%u" : "-", rank->pid);
        put_place(topo, rank, place, sizeof place);
        fprintf(out, "%-5d %-8s %-14s %-16s ", (int)rank->task, pid, place, rank->cpus ? rank->cpus : "-");
        for (size_t k = 0; k < rank->num_devices; k++)
            fprintf(out, "%s%s", k ? "," : "", topo->labels[rank->devices[k]]);
        if (rank->unknown)
            fprintf(out, "(%s)", rank->unknown);
        else if (rank->num_devices == 0)
            fputs(rank->is_restricted || topo->num_gpus == 0 ? "none" : "all", out);
        putc('\n', out);
    }
}
