#!/bin/bash
# Our declarations of libnccl agree with NVIDIA's own header, where one is installed; NCCL_INCLUDE names another folder.
# variants: release
set -euo pipefail
cd "$TOP"

for folder in ${NCCL_INCLUDE:-} ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /usr/include; do
    [ -e "$folder/nccl.h" ] && break
    folder=
done
if [ -z "$folder" ]; then
    echo "skipped: no nccl.h in /usr/include or /usr/local/cuda/include, and NCCL_INCLUDE names no other folder"
    exit 77
fi
# It wants CUDA's headers, but for these types only: they are declared here, so that none is needed.
mkdir "$TMPDIR/cuda"
cat > "$TMPDIR/cuda/cuda_runtime.h" <<'END'
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
END
echo '#define CUDART_VERSION 0' > "$TMPDIR/cuda/cuda_fp16.h"
cat > "$TMPDIR/check.c" <<'END'
#include <assert.h>
#include <nccl.h>

#include "accel/nccl_library.h"

static_assert(sizeof(struct mu_nccl_id) == sizeof(ncclUniqueId), "what is passed by value");
static_assert(MU_NCCL_SUCCESS == (int)ncclSuccess && MU_NCCL_IN_PROGRESS == (int)ncclInProgress, "results");
/* How every config begins, which is all that accel/nccl_comm.c knows of it. */
static_assert(offsetof(ncclConfig_t, size) == 0 && offsetof(ncclConfig_t, magic) == 8 &&
                  offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16 &&
                  sizeof(ncclConfig_t) >= 24 && sizeof(ncclConfig_t) <= 4096,
              "the config");
static_assert(NCCL_VERSION(2, 14, 0) == 21400 && NCCL_VERSION(2, 8, 4) == 2804, "versions");

/* The same parameters: a call is refused by the compiler where a number or a pointer differs. */
static inline void check(ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, ncclResult_t result)
{
    struct ncclComm *same = comm, **ours = &same;
    const char *text = ncclGetErrorString(result);
    ncclResult_t (*get_version)(int *) = ncclGetVersion, (*get_id)(ncclUniqueId *) = ncclGetUniqueId;
    ncclResult_t (*get_error)(ncclComm_t, ncclResult_t *) = ncclCommGetAsyncError, (*end)(ncclComm_t) = ncclCommAbort;

    text = ncclGetLastError(same);
    ncclCommInitRankConfig(ours, 0, id, 0, config);
#if NCCL_VERSION_CODE >= 22300
    ncclCommInitRankScalable(ours, 0, 0, 0, &id, config);
#endif
    (void)text, (void)get_version, (void)get_id, (void)get_error, (void)end;
}
static const ncclConfig_t begun = NCCL_CONFIG_INITIALIZER;
int main(void)
{
    check(0, (ncclUniqueId){{0}}, 0, 0);
    return begun.size != sizeof begun || begun.magic != 0xcafebeefu || begun.version != NCCL_VERSION_CODE;
}
END
# Compiled only, but for the config's initialiser, which is compared: without a library to link with.
"$CC" -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I "$TMPDIR/cuda" -isystem "$folder" -Iinclude -Isrc "$TMPDIR/check.c"
sed -i '/check(0, /d' "$TMPDIR/check.c"
"$CC" -std=gnu17 -O2 -w -I "$TMPDIR/cuda" -isystem "$folder" -Iinclude -Isrc "$TMPDIR/check.c" -o "$TMPDIR/check"
"$TMPDIR/check"
echo "agrees with $folder/nccl.h of NCCL $(sed -n 's/^#define NCCL_VERSION_CODE //p' "$folder/nccl.h")"
