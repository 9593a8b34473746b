/* tests/topology/fake_nvml_facts.h: what the fake libnvidia-ml.so.1 tells, and the file that it learns it from. */
#ifndef TEST_FAKE_NVML_FACTS_H
#define TEST_FAKE_NVML_FACTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/nvml_abi.h"

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
    uint32_t device_id, minor, gi, ci, fabric_version, num_links, speed, slots;
    int is_here, is_lost, capability[2];
    uint64_t memory, events, registered;
    unsigned long cpus, nodes;
    struct {
        uint32_t far, is_up, is_broken;
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

/* ---- the file ---------------------------------------------------------------------------------------------------- */

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
    device->links[number].is_broken = strcmp(kind, "broken") == 0;
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

#endif
