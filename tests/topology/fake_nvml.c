/*
 * tests/topology/fake_nvml.c: a fake libnvidia-ml.so.1. No GPU is behind it.
 *
 * What it tells is read from the text file that MUSTER_FAKE_NVML names, one fact a line; those below a line "gpu" are
 * of that GPU, those below "mig" of that part of it, those before all of them of the library:
 *
 *   driver 550.54.15             count 3000000000 (a lie)      gpu 0000:3b:00.0 0x233010de
 *   name, uuid, serial TEXT      minor 3                       memory BYTES
 *   capability 9 0               cpus MASK-IN-HEX              numa 1
 *   speed 26562 (of each link)   link N gpu|switch|npu|unknown|down [ADDRESS|bad]
 *   fabric VERSION 32-HEX-DIGITS CLIQUE [STATE]                events 0xb (those that it supports)
 *   near OTHER-GPU 10            slots 7
 *   mig SLOT UUID GI CI MULTIPROCESSORS SLICES COMPUTE-SLICES MIB
 *   fail FUNCTION CODE           hang FUNCTION                 crash FUNCTION          garbage FUNCTION
 *
 * Events are what is written to the file that MUSTER_FAKE_NVML_EVENTS names, each delivered once: "GPU TYPE DATA",
 * "lost GPU", "hang", "crash". fake_nvml_old.c is the same without what an old driver lacks.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology/nvml_abi.h"

#define PROTOTYPE(member, symbol, parameters) __attribute__((visibility("default"))) int symbol parameters
MU_NVML_CALLS(PROTOTYPE);
__attribute__((visibility("default"))) const char *nvmlErrorString(int code);

#define LINKS 40
#define SLOTS 8
#define RULES 32

struct rule {
    char function[64], what; /* f, h, c, g */
    int code;
};

struct nvml_device {
    struct nvml_device *parent; /* of a part */
    char bus_id[32], name[96], uuid[96], serial[96];
    uint32_t device_id, minor, gi, ci, fabric_version, num_links, speed, slots, near[16];
    int is_here, is_lost, capability[2];
    uint64_t memory, events, registered;
    unsigned long cpus, nodes;
    struct {
        uint32_t far, is_up;
        char bus_id[32];
    } links[LINKS];
    struct nvml_fabric fabric;
    struct nvml_attributes attributes;
    struct rule rules[RULES];
    int num_rules;
    struct nvml_device *parts[SLOTS];
};

static struct nvml_device gpus[64], whole;
static uint32_t num_gpus, count_told;
static char driver[96];
static int is_started;

/* ---- the file -----------------------------------------------------------------------------------------------------
 */

static void bus_id_of(const char *text, char to[32])
{
    unsigned domain, bus, device, function;

    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
        snprintf(to, 32, "%08X:%02X:%02X.%X", domain, bus, device, function);
    else
        memset(to, 0xfe, 32); /* not even a string */
}

static void read_link(struct nvml_device *device, const char *line)
{
    char kind[16] = "", address[32] = "bad";
    unsigned number;

    if (sscanf(line, "%u %15s %31s", &number, kind, address) < 2 || number >= LINKS)
        abort();
    if (number >= device->num_links)
        device->num_links = number + 1;
    device->links[number].is_up = strcmp(kind, "down") != 0;
    device->links[number].far = strcmp(kind, "gpu") == 0      ? NVML_REMOTE_GPU
                                : strcmp(kind, "switch") == 0 ? NVML_REMOTE_SWITCH
                                : strcmp(kind, "npu") == 0    ? NVML_REMOTE_NPU
                                                              : NVML_REMOTE_UNKNOWN;
    bus_id_of(address, device->links[number].bus_id);
}

static void read_fabric(struct nvml_device *device, const char *line)
{
    unsigned state = NVML_FABRIC_COMPLETED;
    char digits[40] = "";

    if (sscanf(line, "%u %32s %u %u", &device->fabric_version, digits, &device->fabric.clique, &state) < 3)
        abort();
    device->fabric.state = (uint8_t)state;
    for (int i = 0; i < 16; i++)
        sscanf(digits + 2 * i, "%2hhx", &device->fabric.cluster[i]);
}

static struct nvml_device *read_mig(struct nvml_device *gpu, const char *line)
{
    struct nvml_device *part = calloc(1, sizeof *part);
    unsigned slot;

    if (!part ||
        sscanf(line, "%u %95s %u %u %u %u %u %lu", &slot, part->uuid, &part->gi, &part->ci,
               &part->attributes.multiprocessors, &part->attributes.gpu_slices, &part->attributes.compute_slices,
               &part->attributes.memory_mib) != 8 ||
        slot >= SLOTS)
        abort();
    part->parent = gpu;
    part->memory = part->attributes.memory_mib << 20;
    return gpu->parts[slot] = part;
}

static void read_rule(struct nvml_device *device, char what, const char *line)
{
    struct rule *rule = &device->rules[device->num_rules++];

    if (device->num_rules > RULES || sscanf(line, "%63s %d", rule->function, &rule->code) < 1)
        abort();
    rule->what = what;
}

static int read_numbers(struct nvml_device *device, const char *key, const char *rest)
{
    unsigned other;

    if (strcmp(key, "minor") == 0)
        sscanf(rest, "%u", &device->minor);
    else if (strcmp(key, "memory") == 0)
        sscanf(rest, "%lu", &device->memory);
    else if (strcmp(key, "capability") == 0)
        sscanf(rest, "%d %d", &device->capability[0], &device->capability[1]);
    else if (strcmp(key, "cpus") == 0)
        sscanf(rest, "%lx", &device->cpus);
    else if (strcmp(key, "numa") == 0 && sscanf(rest, "%u", &other) == 1)
        device->nodes = 1ul << (other & 63);
    else if (strcmp(key, "speed") == 0)
        sscanf(rest, "%u", &device->speed);
    else if (strcmp(key, "events") == 0)
        sscanf(rest, "%lx", &device->events);
    else if (strcmp(key, "slots") == 0)
        sscanf(rest, "%u", &device->slots);
    else if (strcmp(key, "near") == 0 && sscanf(rest, "%u", &other) == 1 && other < 16)
        sscanf(rest, "%*u %u", &device->near[other]);
    else if (strcmp(key, "count") == 0)
        sscanf(rest, "%u", &count_told);
    else
        return 0;
    return 1;
}

static struct nvml_device *read_line(struct nvml_device *device, const char *key, const char *rest)
{
    char *to = strcmp(key, "name") == 0     ? device->name
               : strcmp(key, "uuid") == 0   ? device->uuid
               : strcmp(key, "serial") == 0 ? device->serial
               : strcmp(key, "driver") == 0 ? driver
                                            : NULL;

    if (to) {
        snprintf(to, 96, "%s", rest);
    } else if (strcmp(key, "gpu") == 0 && num_gpus < 64) {
        device = &gpus[num_gpus++];
        count_told = num_gpus;
        device->is_here = 1;
        device->minor = num_gpus - 1;
        device->events = 0xb;
        bus_id_of(rest, device->bus_id);
        sscanf(rest, "%*s %x", &device->device_id);
    } else if (strcmp(key, "link") == 0) {
        read_link(device, rest);
    } else if (strcmp(key, "fabric") == 0) {
        read_fabric(device, rest);
    } else if (strcmp(key, "mig") == 0) {
        return read_mig(device->parent ? device->parent : device, rest);
    } else if (strcmp(key, "fail") == 0 || strcmp(key, "hang") == 0 || strcmp(key, "crash") == 0 ||
               strcmp(key, "garbage") == 0) {
        read_rule(device, key[0], rest);
    } else if (!read_numbers(device, key, rest)) {
        fprintf(stderr, "the fake NVML does not know '%s'\n", key);
        abort();
    }
    return device;
}

__attribute__((constructor)) static void read_facts(void)
{
    const char *path = getenv("MUSTER_FAKE_NVML");
    FILE *file = path ? fopen(path, "re") : NULL;
    struct nvml_device *device = &whole;
    char line[512], key[32];
    int end;

    snprintf(driver, sizeof driver, "550.54.15");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, " %31s %n", key, &end) == 1 && key[0] != '#')
            device = read_line(device, key, line + end);
    }
    if (file)
        fclose(file);
}

/* ---- the calls ----------------------------------------------------------------------------------------------------
 */

/* What a rule says of this call: a code, or -1: it is to be answered. The answer may already be garbage. */
static int ruled(struct nvml_device *device, const char *function, void *answer, size_t size)
{
    struct nvml_device *owners[] = {device, device && device->parent ? device->parent : NULL, &whole};

    if (!is_started && strncmp(function, "nvmlInit", 8) != 0)
        return NVML_UNINITIALIZED;
    for (int o = 0; o < 3; o++)
        for (int i = 0; owners[o] && i < owners[o]->num_rules; i++) {
            const struct rule *rule = &owners[o]->rules[i];

            if (strcmp(rule->function, function) != 0)
                continue;
            if (rule->what == 'h')
                for (;;)
                    pause();
            if (rule->what == 'c')
                abort();
            if (rule->what == 'g')
                memset(answer, 0xff, size);
            return rule->what == 'g' ? NVML_OK : rule->code;
        }
    if (device && (device->is_lost || (device->parent && device->parent->is_lost)))
        return NVML_GPU_IS_LOST;
    return -1;
}

#define RULED(device, answer, size)                                                                                    \
    do {                                                                                                               \
        int rule_ = ruled(device, __func__, answer, size);                                                             \
        if (rule_ >= 0)                                                                                                \
            return rule_;                                                                                              \
    } while (0)

#ifndef FAKE_OLD
int nvmlInitWithFlags(uint32_t flags)
{
    RULED(NULL, &flags, 0);
    is_started = 1;
    return NVML_OK;
}
#endif

int nvmlInit_v2(void)
{
    RULED(NULL, NULL, 0);
    is_started = 1;
    return NVML_OK;
}

const char *nvmlErrorString(int code)
{
    return code == NVML_OK ? "Success" : "An Error of the Fake";
}

static int say(const char *text, char *to, uint32_t size)
{
    snprintf(to, size, "%s", text);
    return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *text, uint32_t size)
{
    RULED(NULL, text, size);
    return say(driver, text, size);
}

int nvmlDeviceGetCount_v2(uint32_t *count)
{
    RULED(NULL, count, sizeof *count);
    *count = count_told;
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvml_device *device)
{
    if (index >= num_gpus)
        return NVML_INVALID_ARGUMENT;
    RULED(&gpus[index], device, sizeof *device);
    *device = &gpus[index];
    return NVML_OK;
}

int nvmlDeviceGetName(nvml_device device, char *text, uint32_t size)
{
    RULED(device, text, size);
    return say(device->name[0] || !device->parent ? device->name : device->parent->name, text, size);
}

int nvmlDeviceGetUUID(nvml_device device, char *text, uint32_t size)
{
    RULED(device, text, size);
    return say(device->uuid, text, size);
}

int nvmlDeviceGetSerial(nvml_device device, char *text, uint32_t size)
{
    RULED(device, text, size);
    return device->serial[0] ? say(device->serial, text, size) : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci)
{
    RULED(device, pci, sizeof *pci);
    *pci = (struct nvml_pci){.device_id = device->device_id};
    memcpy(pci->bus_id, device->bus_id, sizeof pci->bus_id);
    return NVML_OK;
}

int nvmlDeviceGetMinorNumber(nvml_device device, uint32_t *minor)
{
    RULED(device, minor, sizeof *minor);
    *minor = device->minor;
    return NVML_OK;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    RULED(device, memory, sizeof *memory);
    *memory = (struct nvml_memory){.total = device->memory};
    return device->memory ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor)
{
    RULED(device, major, sizeof *major);
    *major = device->capability[0];
    *minor = device->capability[1];
    return NVML_OK;
}

int nvmlDeviceGetCpuAffinity(nvml_device device, uint32_t words, unsigned long *cpus)
{
    RULED(device, cpus, words * sizeof *cpus);
    cpus[0] = device->cpus;
    return words > 0 && device->cpus ? NVML_OK : NVML_NOT_SUPPORTED;
}

#ifndef FAKE_OLD
int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory)
{
    if (memory->version != 0x02000028)
        return NVML_STRUCT_VERSION;
    RULED(device, memory, sizeof *memory);
    memory->total = device->memory;
    return device->memory ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetCpuAffinityWithinScope(nvml_device device, uint32_t words, unsigned long *cpus, uint32_t scope)
{
    RULED(device, cpus, words * sizeof *cpus);
    cpus[0] = device->cpus;
    return words > 0 && scope < 2 && device->cpus ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryAffinity(nvml_device device, uint32_t words, unsigned long *nodes, uint32_t scope)
{
    RULED(device, nodes, words * sizeof *nodes);
    nodes[0] = device->nodes;
    return words > 0 && scope < 2 && device->nodes ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, uint32_t link, uint32_t *type)
{
    RULED(device, type, sizeof *type);
    *type = device->links[link].far;
    return NVML_OK;
}

int nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct nvml_fabric *fabric)
{
    uint32_t version = fabric->version;

    if (version != 0x02000024 && version != 0x03000028)
        return NVML_STRUCT_VERSION;
    RULED(device, fabric, version & 0xffff);
    if (device->fabric_version < version >> 24)
        return device->fabric_version ? NVML_STRUCT_VERSION : NVML_NOT_SUPPORTED;
    memcpy(fabric, &device->fabric, version & 0xffff);
    fabric->version = version;
    return NVML_OK;
}

int nvmlDeviceGetGpuFabricInfo(nvml_device device, struct nvml_fabric_v1 *fabric)
{
    RULED(device, fabric, sizeof *fabric);
    if (device->fabric_version == 0)
        return NVML_NOT_SUPPORTED;
    memcpy(fabric->cluster, device->fabric.cluster, sizeof fabric->cluster);
    fabric->status = device->fabric.status;
    fabric->clique = device->fabric.clique;
    fabric->state = device->fabric.state;
    return NVML_OK;
}
#endif

int nvmlDeviceGetMigMode(nvml_device device, uint32_t *now, uint32_t *pending)
{
    RULED(device, now, sizeof *now);
    *now = *pending = device->slots > 0;
    return NVML_OK;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, uint32_t *count)
{
    RULED(device, count, sizeof *count);
    *count = device->slots;
    return NVML_OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, uint32_t slot, nvml_device *part)
{
    RULED(device, part, sizeof *part);
    if (slot >= SLOTS)
        return NVML_INVALID_ARGUMENT;
    *part = device->parts[slot];
    return *part ? NVML_OK : NVML_NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(nvml_device device, uint32_t *id)
{
    RULED(device, id, sizeof *id);
    *id = device->gi;
    return device->parent ? NVML_OK : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetComputeInstanceId(nvml_device device, uint32_t *id)
{
    RULED(device, id, sizeof *id);
    *id = device->ci;
    return device->parent ? NVML_OK : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetAttributes_v2(nvml_device device, struct nvml_attributes *attributes)
{
    RULED(device, attributes, sizeof *attributes);
    *attributes = device->attributes;
    return device->parent ? NVML_OK : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(nvml_device device, uint32_t link, uint32_t *is_up)
{
    RULED(device, is_up, sizeof *is_up);
    if (device->num_links == 0)
        return NVML_NOT_SUPPORTED;
    if (link >= device->num_links)
        return NVML_INVALID_ARGUMENT;
    *is_up = device->links[link].is_up;
    return NVML_OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, uint32_t link, struct nvml_pci *pci)
{
    RULED(device, pci, sizeof *pci);
    memset(pci, 0, sizeof *pci);
    memcpy(pci->bus_id, device->links[link].bus_id, sizeof pci->bus_id);
    return NVML_OK;
}

int nvmlDeviceGetFieldValues(nvml_device device, int count, struct nvml_field *fields)
{
    RULED(device, fields, (size_t)count * sizeof *fields);
    for (int i = 0; i < count; i++) {
        int is_known = fields[i].id == NVML_FIELD_NVLINK_SPEED || fields[i].id == NVML_FIELD_NVLINK_SPEED_COMMON;

        fields[i].error = is_known && device->speed ? NVML_OK : NVML_NOT_SUPPORTED;
        fields[i].type = NVML_VALUE_U32;
        fields[i].value.u32 = device->speed;
    }
    return NVML_OK;
}

int nvmlDeviceGetTopologyCommonAncestor(nvml_device a, nvml_device b, uint32_t *level)
{
    RULED(a, level, sizeof *level);
    *level = a->near[(b - gpus) & 15];
    return NVML_OK;
}

/* ---- events -------------------------------------------------------------------------------------------------------
 */

struct nvml_event_set {
    int dummy;
};

/* What of the file has been delivered is so for every set that comes after. */
static struct {
    int fd, is_open;
    char line[256];
    size_t len;
} events;

int nvmlDeviceGetSupportedEventTypes(nvml_device device, uint64_t *types)
{
    RULED(device, types, sizeof *types);
    *types = device->events;
    return NVML_OK;
}

int nvmlEventSetCreate(nvml_event_set *set)
{
    const char *path = getenv("MUSTER_FAKE_NVML_EVENTS");

    RULED(NULL, set, sizeof *set);
    *set = calloc(1, sizeof **set);
    if (!events.is_open)
        events.fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    events.is_open = 1;
    return NVML_OK;
}

int nvmlDeviceRegisterEvents(nvml_device device, uint64_t types, nvml_event_set set)
{
    RULED(device, set, 0);
    if (types & ~device->events)
        return NVML_NOT_SUPPORTED; /* and none is registered */
    device->registered |= types;
    return NVML_OK;
}

/* The next whole line of the file. */
static int next_line(char line[256])
{
    char *end;
    ssize_t n;

    while (!(end = memchr(events.line, '\n', events.len))) {
        n = events.fd < 0 ? 0 : read(events.fd, events.line + events.len, sizeof events.line - events.len);
        if (n <= 0)
            return 0;
        events.len += (size_t)n;
    }
    *end++ = 0;
    memcpy(line, events.line, (size_t)(end - events.line));
    events.len -= (size_t)(end - events.line);
    memmove(events.line, end, events.len);
    return 1;
}

int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *event, uint32_t timeout_ms)
{
    char line[256];
    unsigned gpu;

    (void)set;
    RULED(NULL, event, sizeof *event);
    for (uint32_t waited = 0;; waited += 10) {
        *event = (struct nvml_event){.gpu_instance = 0xffffffff, .compute_instance = 0xffffffff};
        while (next_line(line)) {
            if (strcmp(line, "hang") == 0)
                for (;;)
                    pause();
            if (strcmp(line, "crash") == 0)
                abort();
            if (sscanf(line, "lost %u", &gpu) == 1 && gpu < num_gpus) {
                gpus[gpu].is_lost = 1;
                return NVML_GPU_IS_LOST;
            }
            if (sscanf(line, "%u %lu %lu", &gpu, &event->type, &event->data) == 3 && gpu < num_gpus &&
                (gpus[gpu].registered & event->type)) {
                event->device = &gpus[gpu];
                return NVML_OK;
            }
        }
        for (gpu = 0; gpu < num_gpus; gpu++)
            if (gpus[gpu].is_lost && gpus[gpu].registered)
                return NVML_GPU_IS_LOST;
        if (waited >= timeout_ms)
            return NVML_TIMEOUT;
        poll(NULL, 0, 10);
    }
}

int nvmlEventSetFree(nvml_event_set set)
{
    RULED(NULL, set, 0);
    free(set);
    for (uint32_t i = 0; i < num_gpus; i++)
        gpus[i].registered = 0;
    return NVML_OK;
}
