/*
 * agent/health/uses.c: which GPU a process computes on, as its environment tells.
 *
 * MUSTER_GPUS is the launcher's own word and goes first; CUDA_VISIBLE_DEVICES is read as CUDA's documentation has it: a
 * list of numbers, of UUIDs or their beginnings, of MIG parts, up to the first entry that names nothing. Numbers are
 * those of NVML where CUDA must count in the same order: CUDA_DEVICE_ORDER says so, or all GPUs are alike; with MIG
 * they are not. A process with no such list may use any, so nothing is known of it.
 */
#include "agent/health/health.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The value, or NULL. The first of several is what getenv() finds. */
static const char *value_of(const char *environment, size_t size, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = environment, *end = environment + size; at < end; at += strnlen(at, (size_t)(end - at)) + 1)
        if ((size_t)(end - at) > len && memcmp(at, name, len) == 0 && at[len] == '=' &&
            memchr(at, 0, (size_t)(end - at)))
            return at + len + 1;
    return NULL;
}

/* Whether CUDA's numbers are those of the GPUs that are not refused, in our order. */
static bool numbers_are_ours(const struct mu_health_gpus *gpus, const char *order)
{
    const char *name = NULL;

    if (gpus->num_parts > 0)
        return 0;
    if (order && strcmp(order, "PCI_BUS_ID") == 0)
        return 1;
    for (uint32_t i = 0; i < gpus->num_gpus; i++) {
        if (gpus->gpus[i].is_refused)
            continue;
        if (name && strcmp(name, gpus->gpus[i].name) != 0)
            return 0;
        name = gpus->gpus[i].name;
    }
    return 1;
}

/* Our number of CUDA's; UINT32_MAX: there is none. */
static uint32_t by_number(const struct mu_health_gpus *gpus, unsigned long number)
{
    for (uint32_t i = 0; i < gpus->num_gpus; i++)
        if (!gpus->gpus[i].is_refused && number-- == 0)
            return i;
    return UINT32_MAX;
}

/* What begins several names none. */
static uint32_t by_uuid(const struct mu_health_gpus *gpus, const char *uuid, size_t len)
{
    uint32_t found = UINT32_MAX;

    if (len <= strlen("GPU-"))
        return UINT32_MAX;
    for (uint32_t i = 0; i < gpus->num_gpus; i++) {
        if (strncmp(gpus->gpus[i].uuid, uuid, len) != 0)
            continue;
        if (found != UINT32_MAX)
            return UINT32_MAX;
        found = i;
    }
    return found;
}

/* "MIG-<uuid>", and as it was before: "MIG-GPU-<uuid>/<gpu instance>/<compute instance>". */
static enum mu_health_use uses_part(const struct mu_health_gpus *gpus, const char *entry, size_t len, uint32_t gpu,
                                    int32_t gpu_instance)
{
    const char *slash = memchr(entry, '/', len);

    if (len > 8 && strncmp(entry, "MIG-GPU-", 8) == 0 && slash) {
        if (by_uuid(gpus, entry + 4, (size_t)(slash - entry) - 4) != gpu)
            return MU_HEALTH_USES_NOT;
        return gpu_instance < 0 || strtol(slash + 1, NULL, 10) == gpu_instance ? MU_HEALTH_USES : MU_HEALTH_USES_NOT;
    }
    for (uint32_t i = 0; i < gpus->num_parts; i++) {
        const struct mu_health_part *part = &gpus->parts[i];

        if (strncmp(part->uuid, entry, len) == 0)
            return part->gpu == gpu && (gpu_instance < 0 || part->gpu_instance == gpu_instance) ? MU_HEALTH_USES
                                                                                                : MU_HEALTH_USES_NOT;
    }
    return MU_HEALTH_USE_NOT_TOLD; /* made since we looked, or none */
}

/* -1: the list ends here. */
static int uses_entry(const struct mu_health_gpus *gpus, const char *entry, size_t len, int numbers_tell, uint32_t gpu,
                      int32_t gpu_instance)
{
    uint32_t named;
    char *end;

    if (isdigit((unsigned char)*entry)) {
        if (!numbers_tell)
            return MU_HEALTH_USE_NOT_TOLD;
        named = by_number(gpus, strtoul(entry, &end, 10));
        if (end != entry + len)
            return -1;
    } else if (len >= 4 && strncmp(entry, "MIG-", 4) == 0) {
        return (int)uses_part(gpus, entry, len, gpu, gpu_instance);
    } else {
        named = by_uuid(gpus, entry, len);
    }
    if (named == UINT32_MAX)
        return -1;
    return named == gpu ? MU_HEALTH_USES : MU_HEALTH_USES_NOT;
}

enum mu_health_use mu_health_uses(const struct mu_health_gpus *gpus, const char *environment, size_t size, uint32_t gpu,
                                  int32_t gpu_instance)
{
    const char *list = value_of(environment, size, "MUSTER_GPUS");
    int numbers_tell = numbers_are_ours(gpus, value_of(environment, size, "CUDA_DEVICE_ORDER"));
    enum mu_health_use use = MU_HEALTH_USES_NOT;

    if (!list)
        list = value_of(environment, size, "CUDA_VISIBLE_DEVICES");
    if (!list)
        return MU_HEALTH_USE_NOT_TOLD;
    while (*list && use != MU_HEALTH_USES) {
        size_t len = strcspn(list, ",");
        int one = uses_entry(gpus, list, len, numbers_tell, gpu, gpu_instance);

        if (one < 0)
            break;
        if (one != MU_HEALTH_USES_NOT)
            use = (enum mu_health_use)one;
        list += len;
        list += *list == ',';
    }
    return use;
}
