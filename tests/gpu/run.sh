#!/bin/bash
# make gpu-check: the rows of gpu.h with this machine's GPUs; build/gpu/report.md has the table.
set -eu
export MUSTER PYTHON GPU_DEVICE=$BUILD/tests/gpu/device GPU_STREAM=$BUILD/tests/stream/gpu_test GPU_NCCL=$BUILD/tests/accel/nccl_gpu_test
GPU_COMMIT=$(git rev-parse --short HEAD 2> /dev/null | sed 's/^/ of /' || true)
export GPU_COMMIT
mkdir -p "$BUILD/../gpu"
exec "$BUILD/tests/gpu/check" --report "$BUILD/../gpu/report.md" "$@"
