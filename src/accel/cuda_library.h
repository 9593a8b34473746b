/*
 * accel/cuda_library.h: NVIDIA's driver library, loaded when it is there: our own declarations of what we call.
 *
 * Loading alone starts nothing. cuInit() is called by mu_cuda_start() only, which a program must ask for by a call of
 * its own: it is slow, opens every GPU, starts threads, and a child forked after it can never use CUDA. What works on
 * the program's streams needs no cuInit() of ours, for the program has made its own.
 */
#ifndef MU_ACCEL_CUDA_LIBRARY_H
#define MU_ACCEL_CUDA_LIBRARY_H

#include <muster/status.h>

typedef int mu_cuda_result;
typedef int mu_cuda_device;
typedef unsigned long long mu_cuda_address;
typedef struct mu_cuda_context_opaque *mu_cuda_context;
typedef struct CUstream_st *mu_cuda_stream;

enum {
    MU_CUDA_SUCCESS = 0,
    MU_CUDA_NOT_INITIALIZED = 3,
    MU_CUDA_STUB_LIBRARY = 34,
    MU_CUDA_NO_DEVICE = 100,
    MU_CUDA_INVALID_CONTEXT = 201,
    MU_CUDA_NOT_READY = 600,
    MU_CUDA_ALREADY_REGISTERED = 712,
    MU_CUDA_SYSTEM_MISMATCH = 803,
    MU_CUDA_UNKNOWN = 999,

    MU_CUDA_CAN_REGISTER = 99, /* device attributes */
    MU_CUDA_CAN_WAIT_64 = 122,

    MU_CUDA_REGISTER_PORTABLE = 1, /* of cuMemHostRegister() */
    MU_CUDA_REGISTER_MAPPED = 2,

    MU_CUDA_STREAM_NON_BLOCKING = 1,
    MU_CUDA_NOT_CAPTURING = 0,

    MU_CUDA_WRITE_32 = 2, /* stream memory operations */
    MU_CUDA_WAIT_64 = 4,
    MU_CUDA_WAIT_GEQ = 0,
    MU_CUDA_BATCH_MAX = 255,
};

/* CUstreamBatchMemOpParams of the 11.7 ABI: 48 bytes whatever the operation. */
struct mu_cuda_mem_op {
    uint32_t operation;
    mu_cuda_address address;
    uint64_t value; /* of 32-bit operations the low half */
    uint32_t flags;
    mu_cuda_address alias; /* not looked at by the driver at our flags */
    uint64_t pad;
};

struct mu_cuda {
    int version; /* of the driver: 12040 is 12.4 */
    mu_cuda_result (*init)(unsigned flags);
    mu_cuda_result (*driver_version)(int *version);
    mu_cuda_result (*error_name)(mu_cuda_result, const char **name);
    mu_cuda_result (*error_string)(mu_cuda_result, const char **text);
    mu_cuda_result (*device_count)(int *count);
    mu_cuda_result (*device_get)(mu_cuda_device *, int ordinal);
    mu_cuda_result (*device_name)(char *name, int size, mu_cuda_device);
    mu_cuda_result (*device_attribute)(int *value, int attribute, mu_cuda_device);
    mu_cuda_result (*primary_retain)(mu_cuda_context *, mu_cuda_device);
    mu_cuda_result (*primary_release)(mu_cuda_device);
    mu_cuda_result (*context_set)(mu_cuda_context);
    mu_cuda_result (*context_get)(mu_cuda_context *);
    mu_cuda_result (*context_device)(mu_cuda_device *);
    mu_cuda_result (*host_register)(void *, size_t bytes, unsigned flags);
    mu_cuda_result (*host_unregister)(void *);
    mu_cuda_result (*host_address)(mu_cuda_address *, void *, unsigned flags);
    mu_cuda_result (*stream_create)(mu_cuda_stream *, unsigned flags);
    mu_cuda_result (*stream_destroy)(mu_cuda_stream);
    mu_cuda_result (*stream_query)(mu_cuda_stream);
    mu_cuda_result (*stream_synchronize)(mu_cuda_stream);
    mu_cuda_result (*stream_is_capturing)(mu_cuda_stream, int *state);
    mu_cuda_result (*stream_batch)(mu_cuda_stream, unsigned count, struct mu_cuda_mem_op *, unsigned flags);
};

/*
 * Load libcuda.so.1, once a process; it stays loaded. MUSTER_UNAVAILABLE: it is not here, or cannot be loaded, or lacks
 * a function (an old driver): the sentence says which. Starts nothing.
 */
enum muster_status mu_cuda_load(const struct mu_cuda **ret_cuda);

/*
 * Load it and cuInit(). MUSTER_UNAVAILABLE, with words for what it said. After a fork in a process that had started it,
 * MUSTER_FAILED_PRECONDITION without a call into the library.
 */
enum muster_status mu_cuda_start(const struct mu_cuda **ret_cuda);

/* The sentence for a result that is not success: "DOING: what it means (CUDA_ERROR_..., code)". */
enum muster_status mu_cuda_fail(mu_cuda_result result, const char *doing);

#endif
