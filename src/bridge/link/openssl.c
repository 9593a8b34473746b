/*
 * bridge/link/openssl.c: opening OpenSSL, and what both of its users need of it.
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

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is held back; of all else nothing is known */
}

BIO_METHOD *mu_openssl_socket(const char *name, int (*write)(BIO *bio, const char *from, int len),
                              int (*read)(BIO *bio, char *to, int size))
{
    BIO_METHOD *method = mu_openssl.BIO_meth_new(mu_openssl.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);

    if (!method)
        return NULL;
    mu_openssl.BIO_meth_set_write(method, write);
    mu_openssl.BIO_meth_set_read(method, read);
    mu_openssl.BIO_meth_set_ctrl(method, bio_control);
    return method;
}
