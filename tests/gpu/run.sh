#!/bin/bash
# make gpu-check: the rows of gpu.h with this machine's GPUs; build/gpu/report.md has the table.
set -eu
export MUSTER PYTHON GPU_DEVICE=$BUILD/tests/gpu/device GPU_STREAM=$BUILD/tests/stream/gpu_test GPU_NCCL=$BUILD/tests/accel/nccl_gpu_test
GPU_COMMIT=$(git rev-parse --short HEAD 2> /dev/null | sed 's/^/ of /' || true)
export GPU_COMMIT
# The Python that is active, with its PyTorch or JAX, and NCCL, rather than the system's.
PYTHON=$(command -v python3 || echo "$PYTHON")
nccl=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("nvidia.nccl").submodule_search_locations[0])' 2> /dev/null || true)
[ -z "$nccl" ] || [ -n "${MUSTER_NCCL_LIBRARY:-}" ] || export MUSTER_NCCL_LIBRARY="$nccl/lib/libnccl.so.2"
mkdir -p "$BUILD/../gpu"
exec "$BUILD/tests/gpu/check" --report "$BUILD/../gpu/report.md" "$@"
