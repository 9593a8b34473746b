/*
 * topology/nvml.c: opening NVML and calling it.
 *
 * Each symbol is looked up by its full name and may be missing: an old driver lacks what is newer. Calls are made under
 * one lock (NCCL does so as well: the library has had races) and only by the process that has started it. A forked
 * child finds the lock as new, for its holder is not there, and must open for itself. NVML stays started until the
 * process ends: starting and ending it in turns has upset drivers.
 */
#include "topology/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void nvml_prepare(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

const char *mu_nvml_path(const char *path)
{
    if (!path)
        path = getenv("MUSTER_NVML");
    return path ? path : MU_NVML_LIBRARY;
}

int mu_nvml_enter(const struct mu_nvml *nvml, int is_there)
{
    if (!is_there)
        return NVML_FUNCTION_NOT_FOUND;
    if (nvml->pid != getpid())
        return NVML_UNINITIALIZED;
    pthread_mutex_lock(&lock);
    return NVML_OK;
}

void mu_nvml_leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* dlsym() gives an object pointer: POSIX lets it be copied so. */
static void nvml_find(void *handle, const char *symbol, void *ret_function)
{
    void *address = dlsym(handle, symbol);

    memcpy(ret_function, &address, sizeof address);
}

const char *mu_nvml_words(const struct mu_nvml *nvml, int code)
{
    const char *words = nvml->error_string ? nvml->error_string(code) : NULL;

    switch (code) {
    case NVML_NO_PERMISSION: return "no permission";
    case NVML_OPERATING_SYSTEM: return "the operating system keeps it from us (a control group?)";
    case NVML_GPU_IS_LOST: return "it has gone from the bus";
    case NVML_RESET_REQUIRED: return "it must be reset";
    case NVML_DRIVER_NOT_LOADED: return "the driver is not loaded";
    case NVML_VERSION_MISMATCH: return "library and driver are of different versions";
    case NVML_FUNCTION_NOT_FOUND: return "the library has no such function";
    default: return words ? words : "unknown error";
    }
}

static int nvml_start(struct mu_nvml *nvml, const char *path, char *why, size_t size)
{
    int rc;

    nvml->pid = getpid();
    rc = MU_NVML(nvml, init_flags, NVML_INIT_NO_ATTACH);
    if (rc == NVML_FUNCTION_NOT_FOUND || rc == NVML_INVALID_ARGUMENT || rc == NVML_NOT_SUPPORTED) /* older than it */
        rc = MU_NVML(nvml, init);
    if (rc == NVML_OK)
        return 0;
    snprintf(why, size, "%s does not start: %s (%d)", path, mu_nvml_words(nvml, rc), rc);
    return rc;
}

/* Functions, each of which may be missing but for the three without which nothing can be asked. */
static int find_all(struct mu_nvml *nvml, const char *path, char *why, size_t size)
{
#define FIND(name, symbol, parameters) nvml_find(nvml->handle, #symbol, &nvml->name)
    MU_NVML_CALLS(FIND);
#undef FIND
    nvml_find(nvml->handle, "nvmlErrorString", &nvml->error_string);
    if (nvml->init && nvml->count && nvml->by_index)
        return 0;
    snprintf(why, size, "%s has no %s", path,
             !nvml->init    ? "nvmlInit_v2"
             : !nvml->count ? "nvmlDeviceGetCount_v2"
                            : "nvmlDeviceGetHandleByIndex_v2");
    return MU_NVML_BROKEN;
}

int mu_nvml_open(const char *path, struct mu_nvml *ret_nvml, char *why, size_t size)
{
    struct mu_nvml nvml = {.pid = 0};
    const char *reason;
    int rc;

    path = mu_nvml_path(path);
    if (!*path) {
        snprintf(why, size, "not asked");
        return MU_NVML_ABSENT;
    }
    pthread_once(&once, nvml_prepare);
    nvml.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!nvml.handle) {
        reason = dlerror();
        rc = reason && strstr(reason, "No such file") ? MU_NVML_ABSENT : MU_NVML_BROKEN;
        if (rc == MU_NVML_ABSENT)
            snprintf(why, size, "%s is not here", path);
        else
            snprintf(why, size, "cannot be loaded: %s", reason ? reason : path);
        return rc;
    }
    rc = find_all(&nvml, path, why, size);
    if (rc == 0)
        rc = nvml_start(&nvml, path, why, size);
    if (rc == 0)
        *ret_nvml = nvml;
    return rc;
}
