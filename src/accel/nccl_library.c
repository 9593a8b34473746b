/*
 * accel/nccl_library.c: finding libnccl and its entry points.
 *
 * A process must have one libnccl only: ids of another version are not understood. So the name that the loader knows
 * comes first, which is the library that PyTorch or JAX has loaded already, if one has. The folders that follow are
 * where the vendor's packages put it without telling the loader. A failure is not remembered: the next call looks
 * again.
 */
#include "accel/nccl_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NAME "libnccl.so.2"

static const char *const folders[] = {"/usr/local/cuda/lib*/" NAME, "/usr/local/cuda-*/lib*/" NAME,
                                      "/usr/lib/*-linux-gnu/" NAME, "/opt/nvidia/nccl/lib/" NAME};

static const struct {
    const char *name;
    size_t at;
    bool required;
} entries[] = {
    {"ncclGetVersion", offsetof(struct mu_nccl, get_version), true},
    {"ncclGetUniqueId", offsetof(struct mu_nccl, get_unique_id), true},
    {"ncclGetErrorString", offsetof(struct mu_nccl, get_error_string), true},
    {"ncclGetLastError", offsetof(struct mu_nccl, get_last_error), false},
    {"ncclCommGetAsyncError", offsetof(struct mu_nccl, comm_get_async_error), false},
    {"ncclCommAbort", offsetof(struct mu_nccl, comm_abort), false},
    {"ncclCommInitRankConfig", offsetof(struct mu_nccl, comm_init_rank_config), false},
    {"ncclCommInitRankScalable", offsetof(struct mu_nccl, comm_init_rank_scalable), false},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mu_nccl library;
static bool is_open;

const char *mu_nccl_version_text(int version, char text[MU_NCCL_VERSION_TEXT])
{
    int per_major = version < 10000 ? 1000 : 10000;

    snprintf(text, MU_NCCL_VERSION_TEXT, "%d.%d.%d", version / per_major, version % per_major / 100, version % 100);
    return text;
}

void mu_nccl_describe(const struct mu_nccl *nccl, struct ncclComm *comm, int result, char *text, size_t size)
{
    const char *words = nccl->get_error_string(result);
    const char *more = nccl->get_last_error ? nccl->get_last_error(comm) : "";
    size_t length = more ? strcspn(more, "\n") : 0;

    snprintf(text, size, "%s%s%.*s", words ? words : "an unknown error", length ? ": " : "", (int)length,
             more ? more : "");
}

static void *open_in_folders(void)
{
    void *handle = NULL;

    for (size_t i = 0; !handle && i < sizeof folders / sizeof folders[0]; i++) {
        glob_t found;

        if (glob(folders[i], 0, NULL, &found))
            continue;
        for (size_t k = 0; !handle && k < found.gl_pathc; k++)
            handle = dlopen(found.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return handle;
}

static enum muster_status nccl_find(void **ret_handle)
{
    const char *said = getenv("MUSTER_NCCL_LIBRARY");
    char why[256];

    if (said && *said) {
        *ret_handle = dlopen(said, RTLD_NOW | RTLD_LOCAL);
        if (!*ret_handle)
            return mu_fail(MUSTER_NOT_FOUND, "MUSTER_NCCL_LIBRARY names no library that can be loaded: %s", dlerror());
        return MUSTER_OK;
    }
    *ret_handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    if (*ret_handle)
        return MUSTER_OK;
    snprintf(why, sizeof why, "%s", dlerror());
    *ret_handle = open_in_folders();
    if (!*ret_handle)
        return mu_fail(MUSTER_NOT_FOUND,
                       "there is no " NAME
                       " here: %s; nor is there one in %s, %s, %s or %s; MUSTER_NCCL_LIBRARY may name it",
                       why, folders[0], folders[1], folders[2], folders[3]);
    return MUSTER_OK;
}

static enum muster_status nccl_bind(void *handle, struct mu_nccl *n)
{
    Dl_info where;

    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *symbol = dlsym(handle, entries[i].name);

        if (!symbol && entries[i].required)
            return mu_fail(MUSTER_FAILED_PRECONDITION, "the library has no %s(): it is no libnccl: %s", entries[i].name,
                           dlerror());
        memcpy((char *)n + entries[i].at, &symbol, sizeof symbol);
    }
    memcpy(&handle, &n->get_unique_id, sizeof handle);
    snprintf(n->path, sizeof n->path, "%s", dladdr(handle, &where) && where.dli_fname ? where.dli_fname : NAME);
    if (n->get_version(&n->version) != MU_NCCL_SUCCESS || n->version < 2000)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s does not say a version of NCCL 2 (ncclGetVersion: %d)", n->path,
                       n->version);
    return MUSTER_OK;
}

enum muster_status mu_nccl_open(const struct mu_nccl **ret_nccl)
{
    enum muster_status status = MUSTER_OK;
    void *handle;

    pthread_mutex_lock(&lock);
    if (!is_open) {
        memset(&library, 0, sizeof library);
        status = nccl_find(&handle);
        if (!status) {
            status = nccl_bind(handle, &library);
            if (status)
                dlclose(handle);
        }
        is_open = !status;
    }
    pthread_mutex_unlock(&lock);
    if (!status)
        *ret_nccl = &library;
    return status;
}

enum muster_status muster_nccl_version(int *ret_version)
{
    const struct mu_nccl *nccl;
    enum muster_status status = mu_nccl_open(&nccl);

    if (!status)
        *ret_version = nccl->version;
    return status;
}
