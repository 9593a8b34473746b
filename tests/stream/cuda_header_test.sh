#!/bin/bash
# Our declarations of libcuda agree with NVIDIA's own header, where one is installed; CUDA_INCLUDE names another folder.
# variants: release
set -euo pipefail
cd "$TOP"

for folder in ${CUDA_INCLUDE:-} ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /usr/include; do
    [ -e "$folder/cuda.h" ] && break
    folder=
done
if [ -z "$folder" ]; then
    echo "skipped: no cuda.h in /usr/include or /usr/local/cuda/include, and CUDA_INCLUDE names no other folder"
    exit 77
fi
# cudaTypedefs.h says which version of a name has which interface, and the types of both.
cat > "$TMPDIR/check.c" <<'END'
#include <assert.h>
#include <stddef.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "accel/cuda_library.h"

static_assert(sizeof(struct mu_cuda_mem_op) == sizeof(CUstreamBatchMemOpParams), "size");
#define SAME(field, theirs) \
    static_assert(offsetof(struct mu_cuda_mem_op, field) == offsetof(CUstreamBatchMemOpParams, theirs), #theirs)
SAME(operation, operation);
SAME(address, writeValue.address);
SAME(value, writeValue.value);
SAME(flags, writeValue.flags);
SAME(alias, writeValue.alias);
SAME(address, waitValue.address);
SAME(value, waitValue.value64);
SAME(flags, waitValue.flags);
#define EQUAL(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)
EQUAL(MU_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
EQUAL(MU_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
EQUAL(MU_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
EQUAL(MU_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
EQUAL(MU_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
EQUAL(MU_CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
EQUAL(MU_CUDA_SYSTEM_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
EQUAL(MU_CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN);
EQUAL(801, CUDA_ERROR_NOT_SUPPORTED);
EQUAL(802, CUDA_ERROR_SYSTEM_NOT_READY);
EQUAL(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
EQUAL(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
EQUAL(MU_CUDA_CAN_REGISTER, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
EQUAL(MU_CUDA_CAN_WAIT_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
EQUAL(MU_CUDA_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
EQUAL(MU_CUDA_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
EQUAL(MU_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
EQUAL(MU_CUDA_NOT_CAPTURING, CU_STREAM_CAPTURE_STATUS_NONE);
EQUAL(MU_CUDA_WRITE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
EQUAL(MU_CUDA_WAIT_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
EQUAL(MU_CUDA_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
EQUAL(0, CU_STREAM_WRITE_VALUE_DEFAULT);
EQUAL(1, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

/* The same parameters, one by one: each assignment is refused by the compiler where a size or a pointer differs. */
#define PARAMETERS(theirs, ...)               \
    void check_##theirs(PFN_##theirs f);      \
    void check_##theirs(PFN_##theirs f) { (void)f(__VA_ARGS__); }
PARAMETERS(cuMemHostRegister_v6050, (void *)0, (size_t)0, (unsigned)0)
PARAMETERS(cuMemHostUnregister_v4000, (void *)0)
PARAMETERS(cuMemHostGetDevicePointer_v3020, (mu_cuda_address *)0, (void *)0, (unsigned)0)
PARAMETERS(cuStreamBatchMemOp_v11070, (mu_cuda_stream)0, (unsigned)0, (CUstreamBatchMemOpParams *)0, (unsigned)0)
PARAMETERS(cuStreamCreate_v2000, (mu_cuda_stream *)0, (unsigned)0)
PARAMETERS(cuStreamDestroy_v4000, (mu_cuda_stream)0)
PARAMETERS(cuStreamQuery_v2000, (mu_cuda_stream)0)
PARAMETERS(cuStreamSynchronize_v2000, (mu_cuda_stream)0)
PARAMETERS(cuStreamIsCapturing_v10000, (mu_cuda_stream)0, (CUstreamCaptureStatus *)0)
PARAMETERS(cuCtxGetDevice_v2000, (mu_cuda_device *)0)
PARAMETERS(cuCtxSetCurrent_v4000, (CUcontext)0)
PARAMETERS(cuDevicePrimaryCtxRetain_v7000, (CUcontext *)0, (mu_cuda_device)0)
PARAMETERS(cuDevicePrimaryCtxRelease_v11000, (mu_cuda_device)0)
PARAMETERS(cuDeviceGetAttribute_v2000, (int *)0, (CUdevice_attribute)0, (mu_cuda_device)0)
PARAMETERS(cuGetProcAddress_v12000, (const char *)0, (void **)0, (int)0, (cuuint64_t)0, (CUdriverProcAddressQueryResult *)0)
PARAMETERS(cuGetProcAddress_v11030, (const char *)0, (void **)0, (int)0, (cuuint64_t)0)
END
# The names that cuda.h gives to the interfaces above are those that we look for without cuGetProcAddress.
"$CC" -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -isystem "$folder" -Iinclude -Isrc "$TMPDIR/check.c"
names=$("$CC" -E -dM -I "$folder" -include cuda.h -x c /dev/null)
for name in cuMemHostRegister:_v2 cuMemHostGetDevicePointer:_v2 cuStreamDestroy:_v2 cuDevicePrimaryCtxRelease:_v2 \
    cuStreamBatchMemOp:_v2; do
    grep -Eq "#define ${name%:*} .*${name/:/}\b" <<< "$names" || {
        echo "cuda.h does not call ${name%:*} ${name/:/}"
        exit 1
    }
    grep -q "\"${name/:/}\"" src/accel/cuda_library.c
done
for name in cuInit cuMemHostUnregister cuStreamCreate cuStreamQuery cuCtxGetDevice cuStreamIsCapturing; do
    ! grep -Eq "#define $name .*${name}_v[0-9]" <<< "$names"
done
echo "agrees with $folder/cuda.h of CUDA $(sed -n 's/^#define CUDA_VERSION //p' "$folder/cuda.h")"
