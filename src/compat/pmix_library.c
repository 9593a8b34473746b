/*
 * compat/pmix_library.c: opening libpmix.
 */
#include "compat/pmix_library.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY   "libpmix.so.2"
#define MEND      "install it (Debian: apt-get install libpmix2), or name another in MUSTER_PMIX_LIBRARY"
#define MAJOR_MIN 4

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define ROW(result, name, parameters) {#name, offsetof(struct mu_pmix_library, name)},
    MU_PMIX_CALLS(ROW)
#undef ROW
};

/* "OpenPMIx 4.2.2 (...)": 4; 0: not to be seen. */
static unsigned major_of(const char *version)
{
    while (*version && !isdigit((unsigned char)*version))
        version++;
    return (unsigned)strtoul(version, NULL, 10);
}

int mu_pmix_library_open(const char *library, struct mu_pmix_library *ret_library, char *why, size_t size)
{
    const char *named = getenv("MUSTER_PMIX_LIBRARY");
    struct mu_pmix_library found;
    void *handle;

    if (!library)
        library = named && *named ? named : LIBRARY;
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, size, "cannot load libpmix (%s); " MEND, dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(handle, calls[i].name);

        if (!address) {
            snprintf(why, size, "libpmix is too old, muster needs 4.2 (%s); " MEND, dlerror());
            dlclose(handle);
            return -1;
        }
        memcpy((char *)&found + calls[i].offset, &address, sizeof address);
    }
    found.major = major_of(found.PMIx_Get_version());
    if (found.major < MAJOR_MIN) {
        snprintf(why, size, "libpmix is too old, muster needs 4.2 (it is %.80s); " MEND, found.PMIx_Get_version());
        dlclose(handle);
        return -1;
    }
    *ret_library = found;
    return 0;
}
