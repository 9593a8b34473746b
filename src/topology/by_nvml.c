/*
 * topology/by_nvml.c: what NVIDIA's management library tells of the node.
 *
 * It is asked in a child process: a sick driver makes it hang, and a task that asks for its topology shall not. Where
 * nothing hints at an NVIDIA GPU it is not asked at all. GPUs are found by their PCI address and never by NVML's
 * number, which another GPU may have as soon as one is lost. Of a GPU that it refuses to open NVML tells no address:
 * that is one of those that others have told of and NVML has not. One that nobody has told of before (its bus is not
 * shown to a virtual machine or a container) is added. How far two GPUs are from each other on PCI is not asked for:
 * NVML reads that from the same files as we do.
 *
 * The tasks of a job ask once: the one that loads hwloc's tree for all keeps NVML's answers in it, in an info of the
 * machine, as the bytes that the child has told, in hexadecimal. Answers of another build are not understood; then
 * the task asks for itself.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "topology/apart.h"
#include "topology/node.h"
#include "topology/nvml.h"

#define LIMIT_MS 10000u

/* What the child tells: a device, or words. */
struct nvml_told {
    int32_t is_device;
    union {
        struct mu_nvml_device device;
        char words[512];
    } u;
};
_Static_assert(sizeof(struct nvml_told) <= MU_APART_RECORD_MAX, "a record goes through the pipe at once");

struct answers {
    const char *library;
    struct nvml_told *told; /* devices in NVML's order, parts behind their GPU; words between them */
    size_t count;
    int failed; /* no memory */
};

#define INFO         "MusterNVML"
#define TOLD_MAX     (2 * MU_NVML_GPUS_MAX * (MU_NVML_PARTS_MAX + 1))
#define FORM_FORMAT  "2 %zu %zu " /* the form and what tells builds apart */
#define FORM_NUMBERS sizeof(struct nvml_told), offsetof(struct nvml_told, u.device.fabric)

/* ---- in the child ------------------------------------------------------------------------------------------------ */

static void nvml_tell_words(const struct mu_apart_pipe *pipe, const char *words)
{
    struct nvml_told told = {.is_device = 0};

    snprintf(told.u.words, sizeof told.u.words, "%s", words);
    mu_apart_tell(pipe, &told);
}

static void tell_gpu(const struct mu_apart_pipe *pipe, const struct mu_nvml *nvml, uint32_t index)
{
    static struct mu_nvml_device parts[MU_NVML_PARTS_MAX];
    static struct nvml_told told;
    nvml_device handle;
    size_t count;

    told.is_device = 1;
    mu_nvml_gpu(nvml, index, &told.u.device, &handle);
    if (told.u.device.refused) /* the words for it are the library's */
        snprintf(told.u.device.name, sizeof told.u.device.name, "%s", mu_nvml_words(nvml, told.u.device.refused));
    mu_apart_tell(pipe, &told);
    count = told.u.device.refused ? 0 : mu_nvml_parts(nvml, index, handle, parts);
    for (size_t i = 0; i < count; i++) {
        told.u.device = parts[i];
        mu_apart_tell(pipe, &told);
    }
}

static void nvml_tell(const struct mu_apart_pipe *pipe, void *arg)
{
    const struct answers *answers = arg;
    struct mu_nvml nvml;
    char why[400];
    uint32_t count;

    if (mu_nvml_open(answers->library, &nvml, why, sizeof why)) {
        nvml_tell_words(pipe, why);
        return;
    }
    if (mu_nvml_count(&nvml, &count))
        nvml_tell_words(pipe, "it does not tell how many GPUs there are");
    for (uint32_t i = 0; i < count; i++)
        tell_gpu(pipe, &nvml, i);
}

/* ---- in the caller ----------------------------------------------------------------------------------------------- */

static void text_terminate(char *text, size_t size)
{
    text[size - 1] = '\0';
}

/* Trusts no writer: strings end, counts are in bounds. */
static void make_sound(struct nvml_told *told)
{
    struct mu_nvml_device *device = &told->u.device;

    if (!told->is_device) {
        text_terminate(told->u.words, sizeof told->u.words);
        return;
    }
    text_terminate(device->pci, sizeof device->pci);
    text_terminate(device->name, sizeof device->name);
    text_terminate(device->uuid, sizeof device->uuid);
    text_terminate(device->serial, sizeof device->serial);
    text_terminate(device->profile, sizeof device->profile);
    text_terminate(device->fabric, sizeof device->fabric);
    if (device->num_wires > MU_NVML_WIRES_MAX)
        device->num_wires = MU_NVML_WIRES_MAX;
    for (uint32_t i = 0; i < device->num_wires; i++)
        text_terminate(device->wires[i].pci, sizeof device->wires[i].pci);
}

static void nvml_take(const void *record, void *arg)
{
    struct answers *answers = arg;
    struct nvml_told *more =
        answers->count == TOLD_MAX ? NULL : realloc(answers->told, (answers->count + 1) * sizeof *answers->told);

    if (!more) {
        answers->failed = 1;
        return;
    }
    answers->told = more;
    memcpy(&more[answers->count], record, sizeof *more);
    make_sound(&more[answers->count++]);
}

/* What went wrong becomes the last answer. */
static void nvml_ask(struct answers *answers)
{
    struct nvml_told silence = {.is_device = 0};

    if (mu_apart(nvml_tell, nvml_take, answers, sizeof(struct nvml_told), LIMIT_MS, silence.u.words,
                 sizeof silence.u.words))
        nvml_take(&silence, answers);
}

static void set_text(struct muster_topology *node, const char **to, const char *text)
{
    if (*text)
        *to = mu_node_text(node, "%s", text);
}

static void set_cpus(struct muster_topology *node, struct muster_device *device, const struct mu_nvml_device *told)
{
    cpu_set_t *set = mu_cpus_new(sizeof told->cpus);
    char *list = NULL;

    if (set) {
        memcpy(set, told->cpus, sizeof told->cpus);
        if (CPU_COUNT_S(sizeof told->cpus, set) > 0)
            list = mu_cpus_list(set, sizeof told->cpus);
    }
    if (list)
        device->cpus = mu_node_text(node, "%s", list);
    free(list);
    CPU_FREE(set);
}

/* The device that NVML tells of; NULL: there is no room. */
static struct muster_device *nvml_device_of(struct muster_topology *node, const struct mu_nvml_device *told,
                                            int32_t gpu)
{
    const char *address = told->is_part ? node->devices[gpu].pci : told->pci;
    struct muster_device *device;
    struct mu_pci pci;
    int has_pci = mu_pci_parse(address, &pci) == 0;

    if (told->is_part) {
        device = mu_node_add_device(node, MUSTER_DEVICE_GPU_PART, has_pci ? &pci : NULL);
        if (device)
            device->parent = gpu;
        return device;
    }
    device = has_pci ? mu_node_find_device(node, &pci) : NULL;
    return device ? device : mu_node_add_device(node, MUSTER_DEVICE_GPU, has_pci ? &pci : NULL);
}

static void set_gpu(struct muster_topology *node, struct muster_device *device, const struct mu_nvml_device *told)
{
    if (told->minor >= 0)
        device->minor = told->minor;
    if (told->major_capability > 0)
        device->compute_capability =
            mu_node_text(node, "%d.%d", (int)told->major_capability, (int)told->minor_capability);
    if (told->device_id && !device->pci_vendor) {
        device->pci_vendor = told->device_id & 0xffff;
        device->pci_device = told->device_id >> 16;
    }
    if (!*device->vendor)
        device->vendor = mu_pci_vendor(MU_VENDOR_NVIDIA);
    if (device->numa_node < 0)
        device->numa_node = told->numa_node;
    if (!*device->cpus)
        set_cpus(node, device, told);
    if (told->is_lost)
        device->health = -1;
}

/* As the GPU's, whatever it has of its own: also what other providers told of that. */
static void set_part(struct muster_device *device, const struct muster_device *gpu, const struct mu_nvml_device *told)
{
    device->vendor = gpu->vendor;
    device->compute_capability = gpu->compute_capability;
    device->minor = gpu->minor;
    device->pci_class = gpu->pci_class;
    device->pci_vendor = gpu->pci_vendor;
    device->pci_device = gpu->pci_device;
    device->health = gpu->health;
    device->core_count = told->multiprocessors;
    device->gpu_instance = told->gpu_instance;
    device->compute_instance = told->compute_instance;
}

/* The index of what has become of it; -1: nothing. */
static int32_t nvml_merge(struct muster_topology *node, const struct mu_nvml_device *told, int32_t gpu)
{
    struct muster_device *device = nvml_device_of(node, told, gpu);

    if (!device)
        return -1;
    device->sources |= MUSTER_SOURCE_NVML;
    set_text(node, &device->name, told->name);
    set_text(node, &device->uuid, told->uuid);
    set_text(node, &device->serial, told->serial);
    set_text(node, &device->fabric, told->fabric);
    set_text(node, &device->part_profile, told->profile);
    if (told->memory_bytes)
        device->memory_bytes = told->memory_bytes;
    if (told->is_part)
        set_part(device, &node->devices[gpu], told);
    else
        set_gpu(node, device, told);
    return mu_node_index(node, device);
}

/* ---- wires ------------------------------------------------------------------------------------------------------- */

/* That the far end has an address that is no switch's: then it is a processor's, or something that we do not know. */
static bool is_no_switch(const struct muster_topology *node, const char *pci)
{
    char path[256], text[32] = "";
    FILE *file;

    if (!*pci || !node->root ||
        snprintf(path, sizeof path, "%.200s/sys/bus/pci/devices/%.24s/class", node->root, pci) >= (int)sizeof path)
        return 0;
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = '\0';
    fclose(file);
    return strtoul(text, NULL, 16) >> 8 != 0x0680;
}

/*
 * Where it leads. A GPU that is not among ours is another container's; what is not told is, as a rule, a switch:
 * drivers hide those, or give them an address that nobody has.
 */
static int32_t wire_end_of(struct muster_topology *node, const struct mu_nvml_wire *wire)
{
    const struct muster_device *far = NULL;
    struct mu_pci pci;

    if (wire->far == NVML_REMOTE_SWITCH)
        return MU_WIRE_SWITCH;
    if (wire->far == NVML_REMOTE_NPU)
        return MU_WIRE_ELSEWHERE;
    if (mu_pci_parse(wire->pci, &pci) == 0)
        far = mu_node_find_device(node, &pci);
    if (far)
        return mu_node_index(node, far);
    return wire->far == NVML_REMOTE_GPU || is_no_switch(node, wire->pci) ? MU_WIRE_ELSEWHERE : MU_WIRE_SWITCH;
}

static void add_wires(struct muster_topology *node, const struct mu_nvml_device *told, int32_t from)
{
    for (uint32_t i = 0; i < told->num_wires; i++) {
        struct mu_wire wire = {.from = from,
                               .to = wire_end_of(node, &told->wires[i]),
                               .level = MUSTER_LINK_NVLINK,
                               .lanes = told->wires[i].lanes,
                               .bandwidth_mbs = told->wires[i].bandwidth_mbs};

        mu_node_add_wire(node, &wire);
    }
}

static bool is_refused(const struct nvml_told *told)
{
    return told->is_device && !told->u.device.is_part && told->u.device.refused != 0;
}

static bool is_unclaimed(const struct muster_device *device) /* another has told of it and NVML has not */
{
    return device->kind == MUSTER_DEVICE_GPU && device->pci_vendor == MU_VENDOR_NVIDIA && *device->pci &&
           (device->sources & MUSTER_SOURCE_NVML) == 0;
}

/* The unclaimed GPU behind `last` (NULL: the first) by PCI address; NULL: there is none. */
static struct muster_device *next_unclaimed(struct muster_topology *node, const struct muster_device *last)
{
    struct muster_device *found = NULL;

    for (size_t i = 0; i < node->num_devices; i++) {
        const struct mu_pci *pci = &node->wheres[i].pci;

        if (is_unclaimed(&node->devices[i]) &&
            (!last || mu_pci_compare(pci, &node->wheres[mu_node_index(node, last)].pci) > 0) &&
            (!found || mu_pci_compare(pci, &node->wheres[mu_node_index(node, found)].pci) < 0))
            found = &node->devices[i];
    }
    return found;
}

static void note_refused(struct muster_topology *node, struct muster_device *device, const struct mu_nvml_device *told)
{
    if (device)
        mu_node_note(node, "NVML: %s may not be looked at: %s", device->pci, told->name);
    else
        mu_node_note(node, "NVML: a GPU may not be looked at: %s (which one is not told; its number is %u in NVML)",
                     told->name, told->gpu);
    if (device && told->is_lost)
        device->health = -1;
    node->num_lost += !device && told->is_lost;
}

/* NVML counts in the order of PCI addresses: where as many are unclaimed as it refuses, these are they. */
static void place_refused(struct muster_topology *node, const struct answers *answers)
{
    struct muster_device *device = NULL;
    size_t refused = 0, unclaimed = 0;

    for (size_t i = 0; i < answers->count; i++)
        refused += is_refused(&answers->told[i]);
    while ((device = next_unclaimed(node, device)))
        unclaimed++;
    for (size_t i = 0; i < answers->count; i++)
        if (is_refused(&answers->told[i])) {
            device = refused == unclaimed ? next_unclaimed(node, device) : NULL;
            note_refused(node, device, &answers->told[i].u.device);
        }
    for (device = NULL; refused == 0 && (device = next_unclaimed(node, device));)
        if (device->sources & MUSTER_SOURCE_NVIDIA_PROC) {
            mu_node_note(node, "NVML: %s is in the driver's list, and NVML does not count it: it is lost", device->pci);
            device->health = -1;
        }
}

static void merge_all(struct muster_topology *node, const struct answers *answers)
{
    int32_t *places = calloc(answers->count + 1, sizeof *places), gpu = -1;
    int has_answered = 0; /* it has told of a GPU, and has not broken off */

    if (!places || answers->failed)
        node->failed = 1;
    for (size_t i = 0; places && i < answers->count; i++) {
        const struct nvml_told *told = &answers->told[i];

        places[i] = -1;
        has_answered = told->is_device;
        if (!told->is_device)
            mu_node_note(node, "NVML: %s", told->u.words);
        else if (!is_refused(told) && (gpu >= 0 || !told->u.device.is_part))
            places[i] = nvml_merge(node, &told->u.device, gpu);
        if (told->is_device && !told->u.device.is_part)
            gpu = places[i];
    }
    if (places && has_answered)
        place_refused(node, answers);
    for (size_t i = 0; places && i < answers->count; i++) /* now all far ends are known */
        if (places[i] >= 0)
            add_wires(node, &answers->told[i].u.device, places[i]);
    free(places);
}

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

static char *write_down(const struct answers *answers)
{
    const unsigned char *bytes = (const unsigned char *)answers->told;
    size_t size;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fprintf(out, FORM_FORMAT, FORM_NUMBERS);
    for (size_t i = 0; i < answers->count * sizeof *answers->told; i++)
        fprintf(out, "%02x", bytes[i]);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 0, or -1: this is not what write_down() of this build has written. */
static int read_back(const char *text, struct answers *answers)
{
    char form[64];
    size_t len = (size_t)snprintf(form, sizeof form, FORM_FORMAT, FORM_NUMBERS);
    struct nvml_told told;

    if (strncmp(text, form, len) != 0 || strlen(text + len) % (2 * sizeof told) != 0)
        return -1;
    for (text += len; *text; text += 2 * sizeof told) {
        for (size_t i = 0; i < sizeof told; i++) {
            int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

            if (high < 0 || low < 0) {
                answers->count = 0;
                return -1;
            }
            ((unsigned char *)&told)[i] = (unsigned char)(high << 4 | low);
        }
        nvml_take(&told, answers);
    }
    return 0;
}

static hwloc_obj_t root_of(const struct mu_hwloc *hwloc, hwloc_topology_t tree)
{
    return hwloc->hwloc_get_obj_by_depth(tree, 0, 0);
}

/* 0: the tree has told. */
static int answers_recall(const struct mu_hwloc *hwloc, hwloc_topology_t tree, struct answers *answers)
{
    hwloc_obj_t root = hwloc && tree ? root_of(hwloc, tree) : NULL;

    for (unsigned i = 0; root && i < root->infos_count; i++)
        if (strcmp(root->infos[i].name, INFO) == 0)
            return read_back(root->infos[i].value, answers);
    return -1;
}

/* ---- whether to ask ---------------------------------------------------------------------------------------------- */

/* MUSTER_NVML is somebody's word that there is something to be asked. */
static bool may_be_here(void)
{
    return *mu_nvml_path(NULL) &&
           (getenv("MUSTER_NVML") || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0);
}

static bool is_worth_it(const struct muster_topology *node, const struct muster_topology_source *source)
{
    if (source->nvml)
        return *source->nvml != '\0';
    if (!node->is_this_machine || !*mu_nvml_path(NULL))
        return 0;
    for (size_t i = 0; i < node->num_devices; i++)
        if (node->devices[i].pci_vendor == MU_VENDOR_NVIDIA)
            return 1;
    return may_be_here();
}

void mu_nvml_keep(const struct mu_hwloc *hwloc, hwloc_topology_t tree)
{
    struct answers answers = {.library = NULL};
    char *text;

    if (!may_be_here())
        return;
    nvml_ask(&answers);
    text = answers.failed ? NULL : write_down(&answers);
    if (text)
        hwloc->hwloc_obj_add_info(root_of(hwloc, tree), INFO, text);
    free(text);
    free(answers.told);
}

void mu_provider_nvml(struct muster_topology *node, const struct mu_look *look)
{
    struct answers answers = {.library = look->source->nvml};

    if (!is_worth_it(node, look->source))
        return;
    if (look->source->nvml || answers_recall(node->library, look->tree, &answers))
        nvml_ask(&answers);
    merge_all(node, &answers);
    free(answers.told);
}
