/*
 * launch/binding/machine.c: what this node has, as a flat table of hardware threads.
 *
 * hwloc knows it. It is opened when a binding or a count needs it, asked, and closed: the table is all that stays. It
 * is kept from what it would do besides and we do not ask for: read distances, I/O and kinds of memory and processors.
 *
 * What the launcher may not use is left out: sched_getaffinity() gives the cpuset of the control group and what the
 * caller inherited, in one. When HWLOC_SYNTHETIC or its kind show hwloc another machine than this one, there is nothing
 * to leave out, and the machine says that it is foreign.
 */
#include "launch/binding/bind_private.h"
#include "launch/binding/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology/hwloc_library.h"

/* ---- hwloc's tree ------------------------------------------------------------------------------------------------ */

struct tree {
    struct mu_hwloc hwloc;
    hwloc_topology_t topology; /* NULL: not started */
};

/*
 * Only caches are left out. hwloc hangs each NUMA node at the object that spans the same processors, and where that is
 * filtered out the node moves up and seems to span more: groups must stay, with four nodes a package they stand for
 * these.
 */
static void set_filters(const struct mu_hwloc *hwloc, hwloc_topology_t topology)
{
    static const hwloc_obj_type_t unwanted[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};

    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc->hwloc_topology_set_type_filter(topology, unwanted[i], HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc->hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L2CACHE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    hwloc->hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
}

static int read_topology(struct tree *tree, const char *synthetic, char *why, size_t size)
{
    const struct muster_topology_source source = {.synthetic = synthetic};
    const struct mu_hwloc_wish wish = {.source = &source,
                                       .filter = set_filters,
                                       .lean = HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                               HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS};
    char note[MU_HWLOC_NOTE_SIZE];

    if (mu_hwloc_load(&tree->hwloc, &wish, &tree->topology, note) == MUSTER_OK)
        return 0;
    snprintf(why, size, "%s", muster_last_error());
    tree->topology = NULL;
    return -1;
}

/* ---- from its tree to our table ---------------------------------------------------------------------------------- */

static unsigned num_objects(struct tree *tree, hwloc_obj_type_t type)
{
    int depth = tree->hwloc.hwloc_get_type_depth(tree->topology, type);

    return depth == HWLOC_TYPE_DEPTH_UNKNOWN ? 0 : tree->hwloc.hwloc_get_nbobjs_by_depth(tree->topology, depth);
}

static hwloc_obj_t object_of(struct tree *tree, hwloc_obj_type_t type, unsigned index)
{
    return tree->hwloc.hwloc_get_obj_by_depth(tree->topology, tree->hwloc.hwloc_get_type_depth(tree->topology, type),
                                              index);
}

/* The smallest NUMA node around the thread, the first of equals: memory of another kind has nodes of its own. */
static int numa_of(struct tree *tree, unsigned cpu)
{
    int found = -1, least = 0;

    for (unsigned i = 0; i < num_objects(tree, HWLOC_OBJ_NUMANODE); i++) {
        hwloc_obj_t node = object_of(tree, HWLOC_OBJ_NUMANODE, i);
        int weight;

        if (!tree->hwloc.hwloc_bitmap_isset(node->cpuset, cpu))
            continue;
        weight = tree->hwloc.hwloc_bitmap_weight(node->cpuset);
        if ((found < 0 || weight < least) && node->os_index < MU_CPUS_MAX) {
            found = (int)node->os_index;
            least = weight;
        }
    }
    return found;
}

static struct mu_launch_thread thread_of(struct tree *tree, hwloc_obj_t pu)
{
    struct mu_launch_thread thread = {.cpu = pu->os_index};

    thread.part[MU_PART_MACHINE] = 0;
    thread.part[MU_PART_HWTHREAD] = (int)pu->logical_index;
    thread.part[MU_PART_NUMA] = numa_of(tree, pu->os_index);
    thread.part[MU_PART_L3] = thread.part[MU_PART_PACKAGE] = -1;
    /* where no core is known, each thread is one */
    thread.part[MU_PART_CORE] = (int)(num_objects(tree, HWLOC_OBJ_CORE) + pu->logical_index);
    for (hwloc_obj_t above = pu->parent; above; above = above->parent) {
        if (above->type == HWLOC_OBJ_CORE)
            thread.part[MU_PART_CORE] = (int)above->logical_index;
        else if (above->type == HWLOC_OBJ_L3CACHE)
            thread.part[MU_PART_L3] = (int)above->logical_index;
        else if (above->type == HWLOC_OBJ_PACKAGE)
            thread.part[MU_PART_PACKAGE] = (int)above->logical_index;
    }
    return thread;
}

static int machine_fill(struct mu_launch_machine *machine, struct tree *tree, const cpu_set_t *allowed,
                        size_t allowed_size)
{
    unsigned count = num_objects(tree, HWLOC_OBJ_PU);
    size_t bits = CPU_SETSIZE;

    machine->threads = calloc(count ? count : 1, sizeof *machine->threads);
    if (!machine->threads)
        return -1;
    for (unsigned i = 0; i < count; i++) {
        hwloc_obj_t pu = object_of(tree, HWLOC_OBJ_PU, i);

        if (pu->os_index >= MU_CPUS_MAX)
            continue;
        if (pu->os_index >= bits)
            bits = (size_t)pu->os_index + 1;
        if (!allowed || (pu->os_index < allowed_size * 8 && CPU_ISSET_S(pu->os_index, allowed_size, allowed)))
            machine->threads[machine->num_threads++] = thread_of(tree, pu);
    }
    for (size_t i = 0; i < machine->num_threads; i++) /* a node's number may be larger than any processor's */
        if (machine->threads[i].part[MU_PART_NUMA] >= (int)bits)
            bits = (size_t)machine->threads[i].part[MU_PART_NUMA] + 1;
    machine->set_size = CPU_ALLOC_SIZE(bits + 2 * (size_t)count);
    return 0;
}

static int machine_load(struct mu_launch_machine *machine, struct tree *tree, const struct mu_launch_source *source,
                        char *why, size_t size)
{
    const cpu_set_t *allowed = source->allowed;
    size_t allowed_size = source->allowed_size;
    cpu_set_t *own = NULL;
    int code;

    if (read_topology(tree, source->synthetic, why, size))
        return -1;
    if (!tree->hwloc.hwloc_topology_is_thissystem(tree->topology)) {
        machine->foreign = mu_hwloc_foreign() ? mu_hwloc_foreign() : "hwloc";
    } else if (!allowed) {
        if (mu_cpus_allowed(&own, &allowed_size)) {
            snprintf(why, size, "cannot ask which processors may be used: %s", strerror(errno));
            return -1;
        }
        allowed = own;
    }
    code = machine_fill(machine, tree, allowed, allowed_size);
    CPU_FREE(own);
    if (code)
        snprintf(why, size, "out of memory");
    else if (machine->num_threads == 0)
        snprintf(why, size, "hwloc knows none of the processors that may be used");
    return code || machine->num_threads == 0 ? -1 : 0;
}

int mu_launch_machine_load(const struct mu_launch_source *source, struct mu_launch_machine **ret_machine, char *why,
                           size_t size)
{
    static const struct mu_launch_source here;
    struct mu_launch_machine *machine;
    struct tree tree = {0};
    int code = -1;

    if (!source)
        source = &here;
    if (mu_hwloc_open(source->library, &tree.hwloc, why, size))
        return -1;
    machine = calloc(1, sizeof *machine);
    if (machine)
        code = machine_load(machine, &tree, source, why, size);
    else
        snprintf(why, size, "out of memory");
    if (tree.topology)
        tree.hwloc.hwloc_topology_destroy(tree.topology);
    mu_hwloc_close(&tree.hwloc);
    if (code)
        mu_launch_machine_free(machine);
    else
        *ret_machine = machine;
    return code;
}

void mu_launch_machine_free(struct mu_launch_machine *machine)
{
    if (!machine)
        return;
    free(machine->threads);
    free(machine);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Parts of the kind that have a thread in the table. */
const char *mu_launch_machine_foreign(const struct mu_launch_machine *machine)
{
    return machine->foreign;
}

static uint32_t count_part(const struct mu_launch_machine *machine, enum mu_launch_part part)
{
    uint32_t count = 0;

    for (size_t i = 0; i < machine->num_threads; i++) {
        int id = machine->threads[i].part[part], is_new = id >= 0;

        for (size_t j = 0; is_new && j < i; j++)
            is_new = machine->threads[j].part[part] != id;
        count += (uint32_t)is_new;
    }
    return count;
}

/* "auto" without an accelerator on a bus, or one that is shown to us, is answered by the cores. */
static int count_gpus(const char *what, struct mu_launch_gpus **gpus, uint32_t *ret_count, char *why, size_t size)
{
    struct mu_launch_gpus *own = NULL;
    int is_auto = strcmp(what, "auto") == 0;

    *ret_count = 0;
    if (!gpus)
        gpus = &own;
    if (!*gpus && is_auto && !mu_hwloc_foreign() && !getenv("MUSTER_NVML") && mu_launch_gpus_seen("") == 0)
        return 0;
    if (!*gpus && mu_launch_gpus_load(NULL, environ, gpus, why, size))
        return -1;
    *ret_count = (uint32_t)(*gpus)->count;
    if (*ret_count == 0 && !is_auto)
        mu_launch_gpus_lack(*gpus, why, size);
    mu_launch_gpus_free(own);
    return *ret_count == 0 && !is_auto ? -1 : 0;
}

int mu_launch_count(const char *what, struct mu_launch_machine **machine, struct mu_launch_gpus **gpus,
                    uint32_t *ret_count, char *why, size_t size)
{
    struct mu_launch_machine *own = NULL;
    int is_auto = strcmp(what, "auto") == 0;
    enum mu_launch_part part = is_auto ? MU_PART_CORE : mu_launch_part_find(what);

    if (!mu_launch_is_count(what)) {
        snprintf(why, size,
                 "-n is a number of tasks or one of auto, gpu, core, l3, numa, package and hwthread, not '%.60s'",
                 what);
        return -1;
    }
    if (is_auto || strcmp(what, "gpu") == 0) {
        if (count_gpus(what, gpus, ret_count, why, size))
            return -1;
        if (*ret_count)
            return 0;
    }
    if (!machine)
        machine = &own;
    if (!*machine && mu_launch_machine_load(NULL, machine, why, size))
        return -1;
    *ret_count = count_part(*machine, part);
    mu_launch_machine_free(own);
    if (*ret_count == 0)
        snprintf(why, size, "hwloc knows no %s on this machine", what);
    return *ret_count ? 0 : -1;
}
