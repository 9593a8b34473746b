/*
 * accel/cuda_library.c: finding libcuda.so.1 and its functions.
 *
 * A name in that library has several binary interfaces, and the plain name is the oldest. cuGetProcAddress hands out
 * the one of a version, so that is asked first; drivers before 11.3 lack it, and there the name is spelt with the
 * suffix that the version has. The library is never closed: it has threads of its own once it is started.
 */
#include "accel/cuda_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static_assert(sizeof(struct mu_cuda_mem_op) == 48 && offsetof(struct mu_cuda_mem_op, address) == 8 &&
                  offsetof(struct mu_cuda_mem_op, value) == 16 && offsetof(struct mu_cuda_mem_op, flags) == 24 &&
                  offsetof(struct mu_cuda_mem_op, alias) == 32,
              "CUstreamBatchMemOpParams of cuda.h");

enum { LEGACY_STREAM = 1 }; /* NULL is the legacy stream, whatever the program was compiled for */

typedef mu_cuda_result (*ask_v1_fn)(const char *name, void **address, int version, uint64_t flags);
typedef mu_cuda_result (*ask_v2_fn)(const char *name, void **address, int version, uint64_t flags, int *found);

#define FIELD(name) offsetof(struct mu_cuda, name)
static const struct {
    size_t at;
    const char *name, *symbol; /* as asked of cuGetProcAddress; as exported */
    int version;               /* the one with the interface that our header declares */
} functions[] = {
    {FIELD(init), "cuInit", "cuInit", 2000},
    {FIELD(driver_version), "cuDriverGetVersion", "cuDriverGetVersion", 2020},
    {FIELD(error_name), "cuGetErrorName", "cuGetErrorName", 6000},
    {FIELD(error_string), "cuGetErrorString", "cuGetErrorString", 6000},
    {FIELD(device_count), "cuDeviceGetCount", "cuDeviceGetCount", 2000},
    {FIELD(device_get), "cuDeviceGet", "cuDeviceGet", 2000},
    {FIELD(device_name), "cuDeviceGetName", "cuDeviceGetName", 2000},
    {FIELD(device_attribute), "cuDeviceGetAttribute", "cuDeviceGetAttribute", 2000},
    {FIELD(primary_retain), "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000},
    {FIELD(primary_release), "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000},
    {FIELD(context_set), "cuCtxSetCurrent", "cuCtxSetCurrent", 4000},
    {FIELD(context_get), "cuCtxGetCurrent", "cuCtxGetCurrent", 4000},
    {FIELD(context_device), "cuCtxGetDevice", "cuCtxGetDevice", 2000},
    {FIELD(host_register), "cuMemHostRegister", "cuMemHostRegister_v2", 6050},
    {FIELD(host_unregister), "cuMemHostUnregister", "cuMemHostUnregister", 4000},
    {FIELD(host_address), "cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", 3020},
    {FIELD(stream_create), "cuStreamCreate", "cuStreamCreate", 2000},
    {FIELD(stream_destroy), "cuStreamDestroy", "cuStreamDestroy_v2", 4000},
    {FIELD(stream_query), "cuStreamQuery", "cuStreamQuery", 2000},
    {FIELD(stream_synchronize), "cuStreamSynchronize", "cuStreamSynchronize", 2000},
    {FIELD(stream_is_capturing), "cuStreamIsCapturing", "cuStreamIsCapturing", 10000},
    {FIELD(stream_batch), "cuStreamBatchMemOp", "cuStreamBatchMemOp_v2", 11070},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mu_cuda cuda;
static void *library;
static bool complete;
static pid_t started_by;

/* ---- results in words ---- */

static const struct {
    mu_cuda_result result;
    const char *words;
} meanings[] = {
    {1, "an argument is not valid"},
    {MU_CUDA_NOT_INITIALIZED, "CUDA is not started in this process: call cuInit() (any CUDA call of the runtime does) "
                              "after the last fork(), for a child forked from a process that uses CUDA cannot use it"},
    {4, "CUDA is shutting down: the process is ending"},
    {MU_CUDA_STUB_LIBRARY, "this libcuda.so.1 is the toolkit's stub, for linking only: take its folder out of "
                           "LD_LIBRARY_PATH, or start the container with its GPUs"},
    {MU_CUDA_NO_DEVICE, "the driver finds no GPU, or CUDA_VISIBLE_DEVICES hides it, or the container was started "
                        "without its GPUs"},
    {MU_CUDA_INVALID_CONTEXT, "no CUDA context is current in this thread, or another than the stream's: call "
                              "cudaSetDevice() or cuCtxSetCurrent() in it first"},
    {MU_CUDA_ALREADY_REGISTERED, "the memory is registered already in this process"},
    {801, "the device or driver does not support it"},
    {802, "the GPU fabric is not started: see the service nvidia-fabricmanager"},
    {MU_CUDA_SYSTEM_MISMATCH, "the kernel's driver and the library are of different versions: restart after a driver "
                              "upgrade, or mend the container's copy"},
    {804, "this library of forward compatibility does not support the GPU"},
    {906, "the stream is part of a capture into a graph"},
    {MU_CUDA_UNKNOWN,
     "unknown to the driver itself: see 'nvidia-smi' and NVRM lines in 'dmesg' (the kernel's module may "
     "be missing, or /dev/nvidia-uvm)"},
};

/* The driver's own words for what is not in the table. It answers before cuInit(), too. */
static const char *words_for(mu_cuda_result result)
{
    const char *text = NULL;

    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].result == result)
            return meanings[i].words;
    if (cuda.error_string && !cuda.error_string(result, &text) && text)
        return text;
    return "the driver does not say what that is";
}

enum muster_status mu_cuda_fail(mu_cuda_result result, const char *doing)
{
    const char *name = NULL;
    enum muster_status status = result == MU_CUDA_NOT_INITIALIZED || result == MU_CUDA_INVALID_CONTEXT ||
                                        result == MU_CUDA_ALREADY_REGISTERED || result == 906
                                    ? MUSTER_FAILED_PRECONDITION
                                : result == 801 ? MUSTER_UNIMPLEMENTED
                                : result == 2   ? MUSTER_RESOURCE_EXHAUSTED
                                                : MUSTER_UNAVAILABLE;

    if (cuda.error_name && cuda.error_name(result, &name))
        name = NULL;
    return mu_fail(status, "%s: %s (%s%s%d)", doing, words_for(result), name ? name : "", name ? ", " : "", result);
}

/* ---- loading ---- */

static void *symbol_find(ask_v2_fn ask_v2, ask_v1_fn ask_v1, size_t i)
{
    void *address = NULL;
    int found = 0;

    if (ask_v2 && !ask_v2(functions[i].name, &address, functions[i].version, LEGACY_STREAM, &found) && address)
        return address;
    if (!ask_v2 && ask_v1 && !ask_v1(functions[i].name, &address, functions[i].version, LEGACY_STREAM) && address)
        return address;
    return dlsym(library, functions[i].symbol);
}

/* An address from dlsym(), an object pointer: POSIX lets it be copied into a function's. */
static enum muster_status find_all(void)
{
    void *v2 = dlsym(library, "cuGetProcAddress_v2"), *v1 = dlsym(library, "cuGetProcAddress");
    ask_v2_fn ask_v2;
    ask_v1_fn ask_v1;

    memcpy(&ask_v2, &v2, sizeof v2);
    memcpy(&ask_v1, &v1, sizeof v1);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = symbol_find(ask_v2, ask_v1, i);

        if (!address)
            return mu_fail(MUSTER_UNAVAILABLE,
                           "libcuda.so.1 has no %s of CUDA %d.%d: the driver is older; 11.7 (515) is needed",
                           functions[i].name, functions[i].version / 1000, functions[i].version % 1000 / 10);
        memcpy((char *)&cuda + functions[i].at, &address, sizeof address);
    }
    if (cuda.driver_version(&cuda.version))
        cuda.version = 0;
    complete = true;
    return MUSTER_OK;
}

static enum muster_status cuda_load(void)
{
    const char *why;

    if (complete)
        return MUSTER_OK;
    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library)
        return find_all();
    why = dlerror();
    return mu_fail(MUSTER_UNAVAILABLE, "NVIDIA's driver library cannot be loaded: %s", why ? why : "libcuda.so.1");
}

enum muster_status mu_cuda_load(const struct mu_cuda **ret_cuda)
{
    enum muster_status status;

    pthread_mutex_lock(&lock);
    status = cuda_load();
    pthread_mutex_unlock(&lock);
    if (!status)
        *ret_cuda = &cuda;
    return status;
}

enum muster_status mu_cuda_start(const struct mu_cuda **ret_cuda)
{
    enum muster_status status;
    mu_cuda_result result = MU_CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    status = cuda_load();
    if (!status && started_by && started_by != getpid())
        status = mu_cuda_fail(MU_CUDA_NOT_INITIALIZED, "this is a forked child of a process that uses CUDA");
    if (!status && !started_by) {
        result = cuda.init(0);
        if (result)
            status = mu_cuda_fail(result, "cuInit");
        else
            started_by = getpid();
    }
    pthread_mutex_unlock(&lock);
    if (!status)
        *ret_cuda = &cuda;
    return status;
}
