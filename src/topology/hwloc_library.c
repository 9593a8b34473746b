/*
 * topology/hwloc_library.c: hwloc, opened when it is needed, without what we do not ask for.
 *
 * That is: its plugins, of which one starts OpenCL and one asks X servers for GPUs, and the backends that start a
 * vendor's runtime: these wake GPUs up, and a process that has started CUDA may not fork. An environment in which no
 * plugin is found keeps them all out, but may be set up only while no other thread reads it; so they are
 * blacklisted, too, each by name. Nor may hwloc bind the calling thread to look at processors one by one.
 *
 * A file is read here, checked (xml.c says why) and handed over as a buffer: hwloc only says "invalid argument" of
 * whatever is wrong with it.
 */
#include "topology/hwloc_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "topology/xml.h"

#define LIBRARY "libhwloc.so.15"
#define PACKAGE "libhwloc15"
#define XML_MAX (64u << 20) /* bytes; that of 384 processors is 0.3 MB */

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define ROW(name) {#name, offsetof(struct mu_hwloc, name)},
    MU_HWLOC_CALLS(ROW)
#undef ROW
};

int mu_hwloc_open(const char *library, struct mu_hwloc *ret_hwloc, char *why, size_t size)
{
    struct mu_hwloc hwloc = {.handle = dlopen(library ? library : LIBRARY, RTLD_NOW | RTLD_LOCAL)};

    for (size_t i = 0; hwloc.handle && i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(hwloc.handle, calls[i].name);

        if (!address) {
            snprintf(why, size, "cannot use hwloc (%s); install the package " PACKAGE, dlerror());
            dlclose(hwloc.handle);
            return -1;
        }
        memcpy((char *)&hwloc + calls[i].offset, &address, sizeof address);
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

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

/* All of a file, with a NUL behind it. */
static enum muster_status read_whole(const char *path, char **ret_text, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    size_t size = 0, room = 1 << 16;
    char *text = file ? malloc(room) : NULL;
    int error = file ? ENOMEM : errno;

    while (text) {
        char *larger;

        size += fread(text + size, 1, room - size - 1, file);
        if (size < room - 1 || room > XML_MAX)
            break;
        room *= 2;
        larger = realloc(text, room);
        if (!larger)
            free(text);
        text = larger;
    }
    if (text) {
        error = ferror(file) ? EIO : size > XML_MAX ? EFBIG : 0;
        text[size] = '\0';
    }
    if (file)
        fclose(file);
    if (error) {
        free(text);
        return mu_fail(error == ENOENT   ? MUSTER_NOT_FOUND
                       : error == EACCES ? MUSTER_PERMISSION_DENIED
                       : error == ENOMEM ? MUSTER_RESOURCE_EXHAUSTED
                                         : MUSTER_INVALID_ARGUMENT,
                       "cannot read %s: %s", path, strerror(error));
    }
    *ret_text = text;
    *ret_size = size;
    return MUSTER_OK;
}

/* The file is refused: what it is instead, as far as its first element tells. */
static enum muster_status no_machine(const char *path, const char *text)
{
    size_t line;
    const char *fault = mu_xml_check(text, &line);
    static const char key[] = " version=\"";
    const char *topology = strstr(text, "<topology");
    unsigned long version = 0;

    if (!topology && strstr(text, "<system"))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is a topology of NCCL's (its first element is <system>), not one of hwloc's: make that with "
                       "'lstopo --of xml' on the machine",
                       path);
    if (!topology)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no topology of hwloc's: it has no <topology>", path);
    topology += strlen("<topology");
    if (strncmp(topology, key, strlen(key)) == 0)
        version = strtoul(topology + strlen(key), NULL, 10);
    if (version > 2)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is a topology of hwloc %lu's, and the hwloc here is older: export it for version 2, with "
                       "'lstopo --export-xml-flags v2'",
                       path, version);
    if (fault)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no whole topology of hwloc's: %s (line %zu)", path, fault, line);
    if (strstr(topology, "<object type=\"System\""))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is of several machines (its outermost object is hwloc 1's System), and the hwloc here reads "
                       "one machine a file: export each machine by itself",
                       path);
    return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no topology that hwloc can read: it is damaged", path);
}

static enum muster_status tree_load(const struct mu_hwloc *hwloc, const struct muster_topology_source *source,
                                    const char *xml, size_t size, hwloc_topology_t tree)
{
    const char *foreign = mu_hwloc_foreign();
    size_t line;

    hwloc->hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc->hwloc_topology_set_flags(tree, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING); /* this thread stays where it is */
    if (xml && (mu_xml_check(xml, &line) || hwloc->hwloc_topology_set_xmlbuffer(tree, xml, (int)size + 1) ||
                hwloc->hwloc_topology_load(tree)))
        return no_machine(source->hwloc_xml, xml);
    if (xml)
        return MUSTER_OK;
    if (source && source->synthetic) {
        if (hwloc->hwloc_topology_set_synthetic(tree, source->synthetic) || hwloc->hwloc_topology_load(tree))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.80s' describes no machine", source->synthetic);
        return MUSTER_OK;
    }
    if (hwloc->hwloc_topology_load(tree) == 0)
        return MUSTER_OK;
    if (foreign)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "hwloc cannot read the machine that %s=%.200s shows: %s", foreign,
                       getenv(foreign), strerror(errno));
    return mu_fail(MUSTER_UNAVAILABLE, "hwloc cannot read this machine: %s", strerror(errno));
}

enum muster_status mu_hwloc_load(const struct mu_hwloc *hwloc, const struct muster_topology_source *source,
                                 hwloc_topology_t *ret_tree)
{
    enum muster_status status = MUSTER_OK;
    hwloc_topology_t tree;
    char *xml = NULL;
    size_t size = 0;

    if (source && source->hwloc_xml)
        status = read_whole(source->hwloc_xml, &xml, &size);
    if (status == MUSTER_OK && mu_hwloc_start(hwloc, &tree)) {
        status = mu_fail(MUSTER_UNAVAILABLE, "hwloc does not start: %s", strerror(errno));
    } else if (status == MUSTER_OK) {
        status = tree_load(hwloc, source, xml, size, tree);
        if (status == MUSTER_OK)
            *ret_tree = tree;
        else
            hwloc->hwloc_topology_destroy(tree);
    }
    free(xml);
    return status;
}
