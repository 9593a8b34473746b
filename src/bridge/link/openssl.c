/*
 * bridge/link/openssl.c: opening OpenSSL.
 *
 * It is never closed, for another link may come, and it is told not to clean up at exit: that is 0.1 ms for every agent
 * of a job, one after the other, in which it frees what goes with the process.
 */
#define MU_OPENSSL_ITSELF
#include "bridge/link/openssl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define MEND "install OpenSSL (Debian: apt-get install libssl3)"

struct mu_openssl mu_openssl;

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define ROW(name) {#name, offsetof(struct mu_openssl, name)},
    MU_OPENSSL_CALLS(ROW)
#undef ROW
};

int mu_openssl_open(const char *library, char *why, size_t size)
{
    struct mu_openssl openssl;
    void *handle;

    if (mu_openssl.SSL_new)
        return 0;
    handle = dlopen(library ? library : MU_OPENSSL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, size, "cannot load OpenSSL (%s); " MEND, dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(handle, calls[i].name);

        if (!address) {
            snprintf(why, size, "cannot use OpenSSL (%s); " MEND, dlerror());
            dlclose(handle);
            return -1;
        }
        memcpy((char *)&openssl + calls[i].offset, &address, sizeof address);
    }
    openssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL); /* what it cannot do now, the first call says */
    mu_openssl = openssl;
    return 0;
}
