/*
 * launch/binding/gpu_visible.c: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and their like, read as their makers do.
 *
 * CUDA: numbers, UUIDs or beginnings of them that are one GPU's only, MIG instances; the list ends at the first entry
 * that is nothing of this ("0,2,-1,1" is 0 and 2). ROCm: the same with whole UUIDs, ROCR first and HIP's numbers among
 * what that has left; HIP takes CUDA's variable where its own is not set. A list that names a GPU twice shows none, as
 * PyTorch reads it, too.
 */
#include "launch/binding/gpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct mu_launch_maker mu_launch_makers[] = {
    {.vendor = 0x10de, .name = "NVIDIA", .visible = "CUDA_VISIBLE_DEVICES", .stages = {{"CUDA_VISIBLE_DEVICES"}}},
    {.vendor = 0x1002,
     .name = "AMD",
     .visible = "ROCR_VISIBLE_DEVICES",
     .stages = {{"ROCR_VISIBLE_DEVICES"}, {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}},
     .dropped = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}},
    {.vendor = 0},
};

#define NONE SIZE_MAX

static const struct muster_device *device_at(const struct mu_launch_seen *seen, size_t place)
{
    return muster_topology_device(seen->topology, place);
}

size_t mu_launch_first_part(const struct muster_topology *topology, size_t device)
{
    for (size_t i = 0; i < muster_topology_num_devices(topology); i++) {
        const struct muster_device *part = muster_topology_device(topology, i);

        if (part->kind == MUSTER_DEVICE_GPU_PART && part->parent == (int32_t)device)
            return i;
    }
    return device;
}

static size_t by_number(const struct mu_launch_seen *seen, const char *entry, size_t len)
{
    char *end;
    unsigned long number = strtoul(entry, &end, 10);

    return end == entry + len && number < seen->count ? seen->list[number] : NONE;
}

/* The whole UUID goes before the beginning of one; a beginning must be one GPU's. */
static size_t by_uuid(const struct mu_launch_seen *seen, const char *entry, size_t len)
{
    size_t found = NONE;

    for (size_t i = 0; i < seen->count; i++) {
        const char *uuid = device_at(seen, seen->list[i])->uuid;

        if (strncasecmp(uuid, entry, len) != 0)
            continue;
        if (!uuid[len])
            return seen->list[i];
        if (found != NONE)
            return NONE;
        found = seen->list[i];
    }
    return found;
}

static bool is_seen(const struct mu_launch_seen *seen, int32_t place)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->list[i] == (size_t)place)
            return 1;
    return 0;
}

/* "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", as drivers before R470 wrote it. */
static bool is_old_name(const struct mu_launch_seen *seen, const struct muster_device *part, const char *entry,
                        size_t len)
{
    const struct muster_device *gpu = device_at(seen, (size_t)part->parent);
    size_t uuid = strlen(gpu->uuid);
    char numbers[32];

    snprintf(numbers, sizeof numbers, "/%d/%d", (int)part->gpu_instance, (int)part->compute_instance);
    return uuid > 0 && len == 4 + uuid + strlen(numbers) && strncasecmp(entry + 4, gpu->uuid, uuid) == 0 &&
           strncmp(entry + 4 + uuid, numbers, strlen(numbers)) == 0;
}

static size_t by_part(const struct mu_launch_seen *seen, const char *entry, size_t len)
{
    for (size_t i = 0; i < muster_topology_num_devices(seen->topology); i++) {
        const struct muster_device *part = device_at(seen, i);

        if (part->kind == MUSTER_DEVICE_GPU_PART && (is_seen(seen, part->parent) || is_seen(seen, part->index)) &&
            ((strlen(part->uuid) == len && strncasecmp(part->uuid, entry, len) == 0) ||
             is_old_name(seen, part, entry, len)))
            return i;
    }
    return NONE;
}

static size_t by_address(const struct mu_launch_seen *seen, const char *entry, size_t len)
{
    for (size_t i = 0; i < seen->count; i++) {
        const char *pci = device_at(seen, seen->list[i])->pci;

        if (*pci && strlen(pci) == len && strncasecmp(pci, entry, len) == 0)
            return seen->list[i];
    }
    return NONE;
}

static size_t find_entry(const struct mu_launch_seen *seen, const char *entry, size_t len,
                         struct mu_launch_visible *visible)
{
    size_t found;

    if (len == 0)
        return NONE;
    if (strspn(entry, "0123456789") >= len) {
        visible->by_number = 1;
        found = by_number(seen, entry, len);
    } else if (len >= 4 && strncasecmp(entry, "MIG-", 4) == 0) {
        visible->named_part = 1;
        return by_part(seen, entry, len);
    } else if (len >= 4 && strncasecmp(entry, "GPU-", 4) == 0) {
        found = by_uuid(seen, entry, len);
    } else {
        found = by_address(seen, entry, len);
    }
    return found == NONE ? NONE : mu_launch_first_part(seen->topology, found);
}

static bool place_is_among(const size_t *list, size_t count, size_t place)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == place)
            return 1;
    return 0;
}

static int is_part(const char *entry)
{
    return strncasecmp(entry, "MIG-", 4) == 0;
}

int mu_launch_visible(const char *text, struct mu_launch_seen *seen, struct mu_launch_visible *ret_visible)
{
    size_t room = muster_topology_num_devices(seen->topology), count = 0;
    size_t *picked = calloc(room + 1, sizeof *picked);
    const char *begin = text + strspn(text, " ");
    int is_again;

    *ret_visible = (struct mu_launch_visible){.odd = NULL};
    if (!picked)
        return -1;
    while (*text) {
        size_t space = strspn(text, " "), len = strcspn(text + space, ","), place;
        const char *entry = text + space;

        while (len > 0 && entry[len - 1] == ' ')
            len--;
        place = find_entry(seen, entry, len, ret_visible);
        is_again = place != NONE && place_is_among(picked, count, place);
        if (is_again && is_part(entry) == is_part(begin)) {
            ret_visible->again = entry;
            count = 0;
            break;
        }
        if (place == NONE || is_again) {
            ret_visible->odd = entry;
            break;
        }
        picked[count++] = place;
        text = entry + strcspn(entry, ",");
        text += *text == ',';
    }
    free(seen->list);
    seen->list = picked;
    seen->count = count;
    return 0;
}
