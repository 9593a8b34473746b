/*
 * topology/hwloc_library.h: hwloc, opened when it is needed.
 *
 * Linked, it would cost every start of the command 0.2 ms, and every task that never asks. Its plugins are kept out:
 * they start OpenCL and vendors' runtimes and ask X servers for GPUs (2 ms of 3, and hangs). hwloc.h's inline helpers
 * call the library by name; so only what is in this table may be used.
 */
#ifndef MU_TOPOLOGY_HWLOC_LIBRARY_H
#define MU_TOPOLOGY_HWLOC_LIBRARY_H

#include <hwloc.h>
#include <hwloc/distances.h>
#include <hwloc/shmem.h>

#include <muster/topology.h>

#define MU_HWLOC_CALLS(each)                                                                                           \
    each(hwloc_get_api_version) each(hwloc_topology_init) each(hwloc_topology_destroy) each(hwloc_topology_load)       \
        each(hwloc_topology_abi_check) each(hwloc_topology_set_synthetic) each(hwloc_topology_set_xml)                 \
            each(hwloc_topology_set_xmlbuffer) each(hwloc_topology_set_flags) each(hwloc_topology_set_type_filter)     \
                each(hwloc_topology_set_io_types_filter) each(hwloc_topology_set_components)                           \
                    each(hwloc_topology_is_thissystem) each(hwloc_topology_get_depth) each(hwloc_get_type_depth)       \
                        each(hwloc_get_depth_type) each(hwloc_get_nbobjs_by_depth) each(hwloc_get_obj_by_depth)        \
                            each(hwloc_obj_type_string) each(hwloc_topology_export_xmlbuffer)                          \
                                each(hwloc_free_xmlbuffer) each(hwloc_topology_refresh) each(hwloc_distances_get)      \
                                    each(hwloc_distances_get_by_name) each(hwloc_distances_release)                    \
                                        each(hwloc_distances_get_name) each(hwloc_shmem_topology_get_length)           \
                                            each(hwloc_shmem_topology_write) each(hwloc_shmem_topology_adopt)          \
                                                each(hwloc_bitmap_alloc) each(hwloc_bitmap_free)                       \
                                                    each(hwloc_bitmap_isset) each(hwloc_bitmap_weight)                 \
                                                        each(hwloc_bitmap_next) each(hwloc_bitmap_list_asprintf)       \
                                                            each(hwloc_bitmap_and) each(hwloc_bitmap_intersects)       \
                                                                each(hwloc_bitmap_isincluded)                          \
                                                                    each(hwloc_bitmap_iszero) each(hwloc_obj_add_info)

struct mu_hwloc {
    void *handle;
#define MEMBER(name) __typeof__(name) *name;
    MU_HWLOC_CALLS(MEMBER)
#undef MEMBER
    /* From hwloc 2.4 on: how many kinds of processors there are, which one a set is of, and how it ranks.
     * NULL: an older hwloc. */
    int (*cpukinds_get_nr)(hwloc_topology_t tree, unsigned long flags);
    int (*cpukinds_get_by_cpuset)(hwloc_topology_t tree, hwloc_const_bitmap_t set, unsigned long flags);
    int (*cpukinds_get_info)(hwloc_topology_t tree, unsigned kind, hwloc_bitmap_t set, int *ret_efficiency,
                             unsigned *ret_infos, struct hwloc_info_s **infos, unsigned long flags);
};

/*
 * The machine's libhwloc.so.15; where it has none, the copy that a wheel brings. NULL: there is neither, and dlerror()
 * says why of the former.
 */
void *mu_hwloc_library(void);

/*
 * Open `library` (NULL: mu_hwloc_library()) with all of the above. 0, or -1 with the reason and the remedy in `why`.
 * mu_hwloc_close() lets go of it: no tree may be left then.
 */
int mu_hwloc_open(const char *library, struct mu_hwloc *ret_hwloc, char *why, size_t size);
void mu_hwloc_close(struct mu_hwloc *hwloc);

/*
 * hwloc_topology_init() with the vendors' components off. Where no other thread runs, `environ` is another one for as
 * long as it takes, which keeps the plugins from being opened at all. 0, or -1 with errno.
 */
int mu_hwloc_start(const struct mu_hwloc *hwloc, hwloc_topology_t *ret_tree);

/* ---- hwloc_load.c ------------------------------------------------------------------------------------------------ */

#define MU_HWLOC_NOTE_SIZE 400u

/* Which tree is wanted. */
struct mu_hwloc_wish {
    const struct muster_topology_source *source; /* an XML file or words; NULL, or neither in it: this machine */
    /* What is kept, set before it is loaded; NULL: what a look at the node needs, with I/O. */
    void (*filter)(const struct mu_hwloc *hwloc, hwloc_topology_t tree);
    unsigned long lean; /* flags that leave something out, where hwloc knows them */
};

/*
 * Load it, with a child process of which hwloc may have the life: hwloc ends a process by assertions where a folder of
 * /sys is empty, or a file is damaged. What the child has read of this machine is handed over as XML. On failure the
 * status, with the thread's last sentence. *ret_note: what the tree lacks and why; "": nothing.
 */
enum muster_status mu_hwloc_load(const struct mu_hwloc *hwloc, const struct mu_hwloc_wish *wish,
                                 hwloc_topology_t *ret_tree, char ret_note[MU_HWLOC_NOTE_SIZE]);

/* ---- hwloc_library.c --------------------------------------------------------------------------------------------- */

/* The variable that shows hwloc another machine than this one; NULL: none is set. */
const char *mu_hwloc_foreign(void);

#endif
