/*
 * tests/fuzz/topology.c: the global topology of arbitrary bytes, and what must hold of it whatever they are.
 */
#include "topology.h"

#include <muster/topology.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/xla.pb-c.h"
#include "topology/xla2020.pb-c.h"

enum { LOCALS_MAX = 16 };

struct locals {
    const void *bytes[LOCALS_MAX];
    size_t sizes[LOCALS_MAX];
    size_t count;
    uint8_t *memory[LOCALS_MAX];
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s (last error: %s)\n", what, muster_last_error());
        abort();
    }
}

/* Each in memory of its own, to the byte. With `number`, a process id behind it: the last one counts. */
static void split(struct locals *l, const uint8_t *data, size_t size, bool number)
{
    while (size > 2 && l->count < LOCALS_MAX) {
        size_t want = (size_t)data[0] | (size_t)data[1] << 8, len;
        uint8_t *copy;

        data += 2;
        size -= 2;
        len = want < size ? want : size;
        copy = malloc(len + 2);
        must(copy != NULL, "no memory");
        memcpy(copy, data, len);
        copy[len] = 0x08;
        copy[len + 1] = (uint8_t)l->count;
        l->memory[l->count] = copy;
        l->bytes[l->count] = copy;
        l->sizes[l->count++] = len + (number ? 2 : 0);
        data += len;
        size -= len;
    }
}

/* Every id from 0 on once; today's are those of the process where there is one only. */
static long check_ids(enum muster_topology_form form, const void *bytes, size_t size)
{
    Mu__Xla__GlobalTopologyProto *today = NULL;
    Mu__Xla2020__GlobalTopologyProto *old = NULL;
    size_t processes, devices = 0, place = 0;
    bool *seen;

    if (form == MUSTER_FORM_XLA)
        today = mu__xla__global_topology_proto__unpack(NULL, size, bytes);
    else
        old = mu__xla2020__global_topology_proto__unpack(NULL, size, bytes);
    must(today || old, "what was written cannot be read");
    processes = today ? today->n_processes : old->n_nodes;
    for (size_t i = 0; i < processes; i++)
        devices += today ? today->processes[i]->n_devices : old->nodes[i]->n_devices;
    seen = calloc(devices + 1, sizeof *seen);
    must(seen != NULL, "no memory");
    for (size_t i = 0; i < processes; i++)
        for (size_t k = 0; k < (today ? today->processes[i]->n_devices : old->nodes[i]->n_devices); k++, place++) {
            int32_t id =
                today ? today->processes[i]->devices[k]->global_device_id : old->nodes[i]->devices[k]->global_device_id;

            if (today && processes == 1) {
                must(id == today->processes[i]->devices[k]->local_device_ordinal, "one process has other ids");
                continue;
            }
            must(id >= 0 && (size_t)id < devices && !seen[id], "an id is given twice, or to nobody");
            must(today || (size_t)id == place, "ids of 2020 are out of order");
            seen[id] = true;
        }
    free(seen);
    if (today)
        mu__xla__global_topology_proto__free_unpacked(today, NULL);
    if (old)
        mu__xla2020__global_topology_proto__free_unpacked(old, NULL);
    return (long)devices;
}

long topology_try(const uint8_t *data, size_t size)
{
    enum muster_topology_form form = size && data[0] & 1 ? MUSTER_FORM_2020 : MUSTER_FORM_XLA;
    struct locals l = {0}, back = {0};
    void *bytes = NULL, *again = NULL;
    size_t len = 0, len_again = 0;
    enum muster_status status, status_again;
    long devices = -1;

    if (!size)
        return -1;
    split(&l, data + 1, size - 1, data[0] & 2);
    back.count = l.count;
    for (size_t i = 0; i < l.count; i++) {
        back.bytes[i] = l.bytes[l.count - 1 - i];
        back.sizes[i] = l.sizes[l.count - 1 - i];
    }
    status = muster_topology_global(form, l.bytes, l.sizes, l.count, &bytes, &len);
    status_again = muster_topology_global(form, back.bytes, back.sizes, back.count, &again, &len_again);
    must(!status == !status_again, "the order of the locals decides whether they are refused");
    if (!status) {
        must(len == len_again && !memcmp(bytes, again, len), "the order of the locals is seen in the global topology");
        devices = check_ids(form, bytes, len);
    } else {
        must(status == MUSTER_INVALID_ARGUMENT || status == MUSTER_RESOURCE_EXHAUSTED, "refused with an odd status");
    }
    for (size_t i = 0; i < l.count; i++)
        free(l.memory[i]);
    free(bytes);
    free(again);
    return devices;
}
