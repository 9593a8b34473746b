/*
 * launch/binding/gpu_groups.c: which GPUs belong together, when a task is given several.
 *
 * Each group begins with the first GPU that is free and takes the nearest to those that it has, one by one; then pairs
 * of GPUs of different groups are exchanged for as long as all together come closer, for what the first groups took may
 * have torn the last ones apart. The order of equals is kept, so a plain machine is dealt out in order.
 */
#include "launch/binding/gpu.h"

#include <stdbool.h>
#include <stdlib.h>

#define ROUNDS_MAX 64

struct dealer {
    const struct mu_launch_gpus *gpus;
    size_t each, groups;
    size_t *order; /* group * each + n: a GPU */
    char *taken;
};

/* By level, then by how strong the connection is, then by memory node; a GPU and a part of one do not match. */
static uint64_t gpus_distance(const struct mu_launch_gpus *gpus, size_t a, size_t b)
{
    const struct muster_device *one = gpus->list[a].device, *other = gpus->list[b].device;
    struct muster_link link = muster_topology_link(gpus->topology, gpus->list[a].place, gpus->list[b].place);
    uint64_t strength = link.lanes ? link.lanes : link.bandwidth_mbs / 25000;
    int same_node = one->numa_node >= 0 && one->numa_node == other->numa_node;

    if (strength > 1023)
        strength = 1023;
    return ((uint64_t)link.level << 12) + ((1023 - strength) << 2) + (!same_node << 1) + (one->kind != other->kind);
}

static uint64_t distance_to_group(const struct dealer *d, size_t gpu, size_t group, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        if (d->order[group * d->each + i] != gpu)
            sum += gpus_distance(d->gpus, gpu, d->order[group * d->each + i]);
    return sum;
}

/* The free GPU that is nearest to the `count` first of the group. */
static size_t nearest_gpu(const struct dealer *d, size_t group, size_t count)
{
    size_t best = SIZE_MAX;
    uint64_t best_sum = 0;

    for (size_t i = 0; i < d->gpus->count; i++) {
        uint64_t sum;

        if (d->taken[i])
            continue;
        sum = distance_to_group(d, i, group, count);
        if (best == SIZE_MAX || sum < best_sum) {
            best = i;
            best_sum = sum;
        }
    }
    return best;
}

/* What two places of different groups would gain by exchanging their GPUs; 0: nothing. */
static bool is_better_exchanged(const struct dealer *d, size_t a, size_t b)
{
    size_t group_a = a / d->each, group_b = b / d->each, gpu_a = d->order[a], gpu_b = d->order[b];
    uint64_t now = distance_to_group(d, gpu_a, group_a, d->each) + distance_to_group(d, gpu_b, group_b, d->each);
    uint64_t then = distance_to_group(d, gpu_b, group_a, d->each) - gpus_distance(d->gpus, gpu_a, gpu_b) +
                    distance_to_group(d, gpu_a, group_b, d->each) - gpus_distance(d->gpus, gpu_a, gpu_b);

    return then < now;
}

static int gpus_exchange(struct dealer *d)
{
    int any = 0;

    for (size_t a = 0; a < d->groups * d->each; a++)
        for (size_t b = (a / d->each + 1) * d->each; b < d->groups * d->each; b++)
            if (is_better_exchanged(d, a, b)) {
                size_t gpu = d->order[a];

                d->order[a] = d->order[b];
                d->order[b] = gpu;
                any = 1;
            }
    return any;
}

static int compare_places(const void *a, const void *b)
{
    size_t one = *(const size_t *)a, other = *(const size_t *)b;

    return one < other ? -1 : one > other;
}

/* Groups in the order of their first GPUs, and each in order. */
static void groups_sort(struct dealer *d)
{
    for (size_t group = 0; group < d->groups; group++)
        qsort(d->order + group * d->each, d->each, sizeof *d->order, compare_places);
    qsort(d->order, d->groups, d->each * sizeof *d->order, compare_places);
}

int mu_launch_gpu_groups(const struct mu_launch_gpus *gpus, size_t groups, size_t each, size_t *ret_order)
{
    struct dealer d = {.gpus = gpus, .each = each, .groups = groups, .order = ret_order};

    d.taken = calloc(gpus->count + 1, 1);
    if (!d.taken)
        return -1;
    for (size_t group = 0; group < groups; group++)
        for (size_t i = 0; i < each; i++) {
            size_t gpu = nearest_gpu(&d, group, i);

            d.order[group * each + i] = gpu;
            d.taken[gpu] = 1;
        }
    free(d.taken);
    for (int round = 0; each > 1 && round < ROUNDS_MAX && gpus_exchange(&d); round++)
        ;
    groups_sort(&d);
    return 0;
}

struct muster_link mu_launch_gpu_link(const struct mu_launch_gpus *gpus, const size_t *list, size_t count)
{
    struct muster_link furthest = {.level = MUSTER_LINK_SELF};

    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            struct muster_link link =
                muster_topology_link(gpus->topology, gpus->list[list[i]].place, gpus->list[list[j]].place);

            if (link.level > furthest.level || (link.level == furthest.level && link.lanes < furthest.lanes))
                furthest = link;
        }
    return furthest;
}
