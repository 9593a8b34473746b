#!/bin/bash
# With the CUDA toolkit's own stub of libcuda, which people link with and by mistake run with: every function is found
# in it, and everything that would need CUDA says that this is the stub.
set -euo pipefail
cd "$TOP"

stub=
for found in ${CUDA_HOME:+"$CUDA_HOME"/lib*/stubs/libcuda.so} /usr/local/cuda/{lib,lib64,targets/*/lib}/stubs/libcuda.so; do
    if [ -e "$found" ]; then
        stub=$found
        break
    fi
done
if [ -z "$stub" ]; then
    echo "skipped: no stubs/libcuda.so below /usr/local/cuda or CUDA_HOME"
    exit 77
fi
ln -s "$stub" "$TMPDIR/libcuda.so.1"
export LD_LIBRARY_PATH=$TMPDIR
if "$BUILD/tests/stream/gpu_test" > "$TMPDIR/said"; then
    echo "the stub served as a GPU"
    exit 1
fi
cat "$TMPDIR/said"
grep -q "the toolkit's stub" "$TMPDIR/said"
"$BUILD/tests/stream/cuda_library_test" > "$TMPDIR/said"
cat "$TMPDIR/said"
grep -q "no CUDA here: cuInit: .*stub" "$TMPDIR/said"
