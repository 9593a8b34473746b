/*
 * tests/topology/fake_nvml.c: a fake libnvidia-ml.so.1. No GPU is behind it.
 *
 * What it tells is read from the text file that MUSTER_FAKE_NVML names, one fact a line; those below a line "gpu" are
 * of that GPU, those below "mig" of that part of it, those before all of them of the library:
 *
 *   driver 550.54.15             count 3000000000 (a lie)      gpu 0000:3b:00.0 0x233010de
 *   name, uuid, serial TEXT      minor 3                       memory BYTES
 *   capability 9 0               cpus MASK-IN-HEX              numa 1
 *   speed 26562 (of each link)   link N gpu|switch|npu|unknown|down|broken [ADDRESS|bad]
 *   fabric VERSION 32-HEX-DIGITS CLIQUE [STATE]                events 0xb (those that it supports)
 *   slots 7
 *   mig SLOT UUID GI CI MULTIPROCESSORS SLICES COMPUTE-SLICES MIB
 *   fail FUNCTION CODE           hang FUNCTION                 crash FUNCTION          garbage FUNCTION
 *
 * Events are what is written to the file that MUSTER_FAKE_NVML_EVENTS names, each delivered once, whoever
 * waits (the file with ".at" behind its name says how far): "GPU TYPE DATA [GI]", "lost GPU", "hang", "crash".
 * fake_nvml_old.c is the same without what an old driver lacks.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_nvml_facts.h"
#include "topology/nvml_abi.h"

#define PROTOTYPE(member, symbol, parameters) __attribute__((visibility("default"))) int symbol parameters
MU_NVML_CALLS(PROTOTYPE);
__attribute__((visibility("default"))) const char *nvmlErrorString(int code);

/* ---- the calls --------------------------------------------------------------------------------------------------- */

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

/* One letter a start in the file that MUSTER_FAKE_NVML_STARTS names. */
static int start(void)
{
    const char *path = getenv("MUSTER_FAKE_NVML_STARTS");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (path && write(fd, "s", 1) != 1)
        abort();
    if (path)
        close(fd);
    is_started = 1;
    return NVML_OK;
}

#ifndef FAKE_OLD
int nvmlInitWithFlags(uint32_t flags)
{
    RULED(NULL, &flags, 0);
    return start();
}
#endif

int nvmlInit_v2(void)
{
    RULED(NULL, NULL, 0);
    return start();
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
    return device->links[link].is_broken ? NVML_NOT_SUPPORTED : NVML_OK;
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

/* ---- events ------------------------------------------------------------------------------------------------------ */

struct nvml_event_set {
    int dummy;
};

/* What of the file has been delivered is so for every set that comes after. */
static struct {
    int fd, at_fd, is_open;
    char line[256];
    size_t len;
    off_t at;
} events;

static void open_events(void)
{
    const char *path = getenv("MUSTER_FAKE_NVML_EVENTS");
    char at[512];

    events.is_open = 1;
    events.fd = events.at_fd = -1;
    if (!path)
        return;
    snprintf(at, sizeof at, "%s.at", path);
    events.fd = open(path, O_RDONLY | O_CLOEXEC);
    events.at_fd = open(at, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (pread(events.at_fd, &events.at, sizeof events.at, 0) == sizeof events.at)
        lseek(events.fd, events.at, SEEK_SET);
}

int nvmlDeviceGetSupportedEventTypes(nvml_device device, uint64_t *types)
{
    RULED(device, types, sizeof *types);
    *types = device->events;
    return NVML_OK;
}

int nvmlEventSetCreate(nvml_event_set *set)
{
    RULED(NULL, set, sizeof *set);
    *set = calloc(1, sizeof **set);
    if (!events.is_open)
        open_events();
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
    events.at += end - events.line;
    if (pwrite(events.at_fd, &events.at, sizeof events.at, 0) != sizeof events.at)
        abort();
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
            if (sscanf(line, "%u %lu %lu %u", &gpu, &event->type, &event->data, &event->gpu_instance) >= 3 &&
                gpu < num_gpus && (gpus[gpu].registered & event->type)) {
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
