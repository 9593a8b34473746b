/*
 * topology/hwloc_library.c: hwloc, opened when it is needed, without what we do not ask for.
 *
 * That is: its plugins, of which one starts OpenCL and one asks X servers for GPUs, and the backends that start a
 * vendor's runtime: these wake GPUs up, and a process that has started CUDA may not fork. An environment in which no
 * plugin is found keeps them all out, but may be set up only while no other thread reads it; so they are
 * blacklisted, too, each by name.
 */
#include "topology/hwloc_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

#define LIBRARY "libhwloc.so.15"
#define SHIPPED "libhwloc-muster.so.15" /* beside what asks, in a wheel: mk/wheel.mk */
#define PACKAGE "libhwloc15"

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define ROW(name) {#name, offsetof(struct mu_hwloc, name)},
    MU_HWLOC_CALLS(ROW)
#undef ROW
};

void *mu_hwloc_library(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        handle = dlopen(SHIPPED, RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* so that dlerror() speaks of this one */
}

int mu_hwloc_open(const char *library, struct mu_hwloc *ret_hwloc, char *why, size_t size)
{
    struct mu_hwloc hwloc = {.handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : mu_hwloc_library()};

    for (size_t i = 0; hwloc.handle && i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(hwloc.handle, calls[i].name);

        if (!address) {
            snprintf(why, size, "cannot use hwloc (%s); install the package " PACKAGE, dlerror());
            dlclose(hwloc.handle);
            return -1;
        }
        memcpy((char *)&hwloc + calls[i].offset, &address, sizeof address);
    }
    if (hwloc.handle) {
        *(void **)&hwloc.cpukinds_get_nr = dlsym(hwloc.handle, "hwloc_cpukinds_get_nr");
        *(void **)&hwloc.cpukinds_get_by_cpuset = dlsym(hwloc.handle, "hwloc_cpukinds_get_by_cpuset");
        *(void **)&hwloc.cpukinds_get_info = dlsym(hwloc.handle, "hwloc_cpukinds_get_info");
    }
    if (!hwloc.handle) {
        snprintf(why, size, "cannot load hwloc (%s); install the package " PACKAGE, dlerror());
        return -1;
    }
    *ret_hwloc = hwloc;
    return 0;
}

void mu_hwloc_close(struct mu_hwloc *hwloc)
{
    dlclose(hwloc->handle);
    hwloc->handle = NULL;
}

/* ---- without plugins --------------------------------------------------------------------------------------------- */

/* The environment, with no place to find plugins in. The strings are those of the real one. NULL: no memory. */
static char **without_plugins(void)
{
    static char none[] = "HWLOC_PLUGINS_PATH=/dev/null";
    size_t count = 0;
    char **copy;

    while (environ && environ[count])
        count++;
    copy = calloc(count + 2, sizeof *copy);
    if (!copy)
        return NULL;
    copy[0] = none; /* the first of a name is found */
    for (size_t i = 0; i < count; i++)
        copy[i + 1] = environ[i];
    return copy;
}

int mu_hwloc_start(const struct mu_hwloc *hwloc, hwloc_topology_t *ret_tree)
{
    static const char *const unwanted[] = {"gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"};
    char **bare = mu_is_alone() ? without_plugins() : NULL, **real = environ;
    hwloc_topology_t tree;
    int code;

    if (bare)
        environ = bare; /* not setenv(): children inherit that, and others hold pointers into it */
    code = hwloc->hwloc_topology_init(&tree);
    if (bare)
        environ = real;
    free(bare);
    if (code)
        return -1;
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++) /* it refuses names that it does not know */
        hwloc->hwloc_topology_set_components(tree, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    *ret_tree = tree;
    return 0;
}

const char *mu_hwloc_foreign(void)
{
    static const char *const variables[] = {"HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_SYNTHETIC", "HWLOC_XMLFILE"};

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return variables[i];
    return NULL;
}
