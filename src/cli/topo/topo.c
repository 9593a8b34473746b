/*
 * cli/topo/topo.c: `muster topo`: what this machine consists of, how its accelerators are connected, and where the
 * ranks of a job lie on it. It looks, and changes nothing.
 *
 * Also of another machine, by a file of hwloc's or by hwloc's words. What is looked at is complete before the file of
 * --output is touched.
 */
#include "cli/topo/topo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which machine ----------------------------------------------------------------------------------------------- */

/* hwloc's words begin with a kind of object and a number of them; a file is there, or looks as if it were. */
static bool is_words(const char *input)
{
    struct stat status;

    return stat(input, &status) != 0 && strchr(input, ':') && !strchr(input, '/') && !strstr(input, ".xml");
}

/* hwloc would wait until the other end of a FIFO is opened, and read a device without end. */
static int check_file(const struct mu_cli_call *call, const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0 || S_ISREG(status.st_mode))
        return 0; /* the library says why it cannot be opened */
    fprintf(stderr, "%s: ", call->path);
    mu_cli_print_line(stderr, path);
    fprintf(stderr, " is %s, no file: a machine is read from a file in hwloc's XML form\n",
            S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device");
    return MU_CLI_EXIT_FAILURE;
}

static int find_source(const struct mu_cli_call *call, struct muster_topology_source *source)
{
    static const char prefix[] = "synthetic:";
    const char *input = call->values[MU_OPT_INPUT];

    *source = (struct muster_topology_source){.ask_cuda = call->values[MU_OPT_CUDA] != NULL};
    if (!input)
        return 0;
    if (!*input)
        return mu_cli_usage(call,
                            "--input is a file in hwloc's XML form, or hwloc's words: synthetic:package:2 core:4");
    if (call->values[MU_OPT_CUDA])
        return mu_cli_usage(call, "--cuda asks the driver of this machine, --input shows another");
    if (call->values[MU_OPT_JOB])
        return mu_cli_usage(call, "--job shows ranks on this machine, --input shows another");
    if (strncmp(input, prefix, sizeof prefix - 1) == 0)
        source->synthetic = input + sizeof prefix - 1;
    else if (is_words(input))
        source->synthetic = input;
    else
        source->hwloc_xml = input;
    return source->hwloc_xml ? check_file(call, input) : 0;
}

/* GPUs are counted without their parts, and parts within their GPU; processors go by their package's number. */
static void name_devices(struct mu_cli_topo *topo)
{
    unsigned gpus = 0;
    struct names {
        unsigned number, parts;
    } *names = calloc(topo->num_devices + 1, sizeof *names);

    topo->labels = calloc(topo->num_devices + 1, sizeof *topo->labels);
    if (!topo->labels || !names)
        abort();
    for (size_t i = 0; i < topo->num_devices; i++) {
        const struct muster_device *device = muster_topology_device(topo->topology, i);

        if (device->kind == MUSTER_DEVICE_GPU_PART && device->parent >= 0 && (size_t)device->parent < i) {
            struct names *gpu = &names[device->parent];

            snprintf(topo->labels[i], sizeof topo->labels[i], "GPU%u.%u", gpu->number, gpu->parts++);
        } else if (device->kind == MUSTER_DEVICE_CPU) {
            snprintf(topo->labels[i], sizeof topo->labels[i], "CPU%d", device->package < 0 ? 0 : (int)device->package);
        } else {
            names[i].number = gpus++;
            snprintf(topo->labels[i], sizeof topo->labels[i], "GPU%u", names[i].number);
        }
    }
    topo->num_gpus = gpus;
    free(names);
}

static int topo_take(struct mu_cli_call *call, struct mu_cli_topo *topo)
{
    struct muster_topology_source source;
    enum muster_status status;
    int code = find_source(call, &source);

    if (code)
        return code;
    status = muster_topology_load(&source, &topo->topology);
    if (status != MUSTER_OK)
        return mu_cli_fail(call, status);
    topo->input = call->values[MU_OPT_INPUT];
    topo->is_words = source.synthetic != NULL;
    topo->boxes = mu_topology_boxes(topo->topology, &topo->num_boxes);
    topo->num_devices = muster_topology_num_devices(topo->topology);
    topo->num_numas = muster_topology_num_numas(topo->topology);
    name_devices(topo);
    return call->values[MU_OPT_JOB] ? mu_cli_topo_ranks(call, topo) : 0;
}

/* ---- in which form ----------------------------------------------------------------------------------------------- */

static unsigned terminal_width(FILE *out)
{
    struct winsize size = {.ws_col = 0};

    return out == stdout && isatty(1) && ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* What nobody else tells; NULL: somebody has told of a device what this provider knows. */
static const char *cost_of(const struct mu_cli_topo *topo, const char *note)
{
    static const struct {
        const char *name;
        uint32_t source;
        const char *cost;
    } providers[] = {
        {"hwloc: ", MUSTER_SOURCE_HWLOC, "caches, cores one by one and PCI switches are not shown"},
        {"NVML: ", MUSTER_SOURCE_NVML, "NVLinks, MIG parts, UUIDs and the health of NVIDIA's GPUs are not known"},
        {"CUDA: ", MUSTER_SOURCE_CUDA, "CUDA's numbers of GPUs and their multiprocessors are not known"},
        {"KFD: ", MUSTER_SOURCE_KFD, "memory, links and compute units of AMD's GPUs are not known"},
    };

    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
        if (strncmp(note, providers[i].name, strlen(providers[i].name)) != 0)
            continue;
        for (size_t k = 0; k < topo->num_devices; k++)
            if (muster_topology_device(topo->topology, k)->sources & providers[i].source)
                return NULL;
        return providers[i].cost;
    }
    return NULL;
}

static void put_notes(const struct mu_cli_topo *topo, FILE *out)
{
    const char *note, *cost;

    for (size_t i = 0; (note = muster_topology_note(topo->topology, i)); i++) {
        fputs(i ? "note: " : "\nnote: ", out);
        mu_cli_print_line(out, note);
        cost = cost_of(topo, note);
        if (cost)
            fprintf(out, "; so %s", cost);
        putc('\n', out);
    }
}

static void topo_put_text(const struct mu_cli_topo *topo, FILE *out)
{
    mu_cli_topo_tree(topo, out);
    putc('\n', out);
    mu_cli_topo_matrix(topo, terminal_width(out), out);
    mu_cli_topo_tasks(topo, out);
    put_notes(topo, out);
}

static void write_form(const struct mu_cli_call *call, const struct mu_cli_topo *topo, FILE *out)
{
    if (call->values[MU_OPT_JSON])
        mu_cli_topo_json(topo, out);
    else if (call->values[MU_OPT_SVG])
        mu_cli_topo_svg(topo, out);
    else if (call->values[MU_OPT_MATRIX])
        mu_cli_topo_matrix(topo, terminal_width(out), out);
    else if (call->values[MU_OPT_PROTO])
        fwrite(topo->message, 1, topo->message_size, out);
    else
        topo_put_text(topo, out);
}

static int check_forms(const struct mu_cli_call *call)
{
    static const enum mu_cli_option_id forms[] = {MU_OPT_JSON, MU_OPT_MATRIX, MU_OPT_SVG, MU_OPT_PROTO};
    static const char *const names[] = {"--json", "--matrix", "--svg", "--proto"};
    const char *first = NULL;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!call->values[forms[i]])
            continue;
        if (first)
            return mu_cli_usage(call, "%s or %s, not both", first, names[i]);
        first = names[i];
    }
    return 0;
}

/* The message is whole before a file is touched. */
static int make_message(const struct mu_cli_call *call, struct mu_cli_topo *topo, const struct mu_cli_topo_proto *proto)
{
    enum muster_status status;

    if (!call->values[MU_OPT_PROTO])
        return 0;
    status = mu_cli_topo_proto(topo, proto, &topo->message, &topo->message_size);
    return status == MUSTER_OK ? 0 : mu_cli_fail(call, status);
}

static int topo_write_out(const struct mu_cli_call *call, const struct mu_cli_topo *topo)
{
    const char *path = call->values[MU_OPT_OUTPUT];
    FILE *out = path ? fopen(path, "we") : stdout;

    if (out)
        write_form(call, topo, out);
    if (!path || (out && !(ferror(out) | fclose(out))))
        return 0;
    fprintf(stderr, "%s: cannot write ", call->path);
    mu_cli_print_line(stderr, path);
    fprintf(stderr, ": %s\n", strerror(errno));
    return MU_CLI_EXIT_FAILURE;
}

static int topo_run(struct mu_cli_call *call)
{
    struct mu_cli_topo topo = {.topology = NULL};
    struct mu_cli_topo_proto proto;
    int code = check_forms(call);

    if (!code)
        code = mu_cli_topo_proto_form(call, &proto);
    if (!code && call->values[MU_OPT_PROTO] && !call->values[MU_OPT_OUTPUT] && isatty(1))
        code = mu_cli_usage(call, "--proto writes bytes, which a terminal would obey: give --output FILE, or a pipe");
    if (!code)
        code = topo_take(call, &topo);
    if (!code)
        code = make_message(call, &topo, &proto);
    if (!code)
        code = topo_write_out(call, &topo);
    mu_cli_topo_ranks_free(&topo);
    free(topo.labels);
    free(topo.message);
    muster_topology_free(topo.topology);
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option topo_options[] = {
    {MU_OPT_MATRIX, 0, "matrix", NULL, NULL, "only how each GPU reaches the others and the memory"},
    {MU_OPT_SVG, 0, "svg", NULL, NULL, "print a picture, SVG"},
    {MU_OPT_PROTO, 0, "proto", "[=xla|2020]", mu_cli_topo_form, "write a task's LocalTopologyProto, bytes for protoc"},
    {MU_OPT_TASK, 0, "task", "K", NULL, "with --proto: of task K (default 0)"},
    {MU_OPT_GLOBAL, 0, "global", "N", NULL, "with --proto: the GlobalTopologyProto of N tasks that share the devices"},
    {MU_OPT_INPUT, 'i', "input", "MACHINE", mu_cli_files,
     "another one: hwloc's XML file, or \"package:2 core:4 pu:2\""},
    {MU_OPT_CUDA, 0, "cuda", NULL, NULL, "ask the CUDA driver too (seconds, where nobody uses the GPUs)"},
    {MU_OPT_OUTPUT, 'o', "output", "FILE", mu_cli_files, "write to this file instead of stdout"},
    {MU_OPT_JOB, 0, "job", "NAME", mu_cli_jobs, "show where the tasks of this job are, a name or a path"},
    MU_CLI_JSON,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_topo = {
    .name = "topo",
    .operands = "",
    .summary = "Show this machine: processors, memory, accelerators, and how they are connected",
    .options = topo_options,
    .run = topo_run,
};
