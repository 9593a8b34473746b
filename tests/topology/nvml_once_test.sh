#!/bin/bash
# The tasks of a job ask NVML once, and all know the same GPUs. The library is our fake one, no GPU is asked.
. "$(dirname "$0")/../cli/common.sh"

export MUSTER_NVML=$BUILD/tests/topology/libfake_nvml.so
export MUSTER_FAKE_NVML=$TMPDIR/facts MUSTER_FAKE_NVML_STARTS=$TMPDIR/starts
export CUDA_VISIBLE_DEVICES= # nobody watches, who would ask as well
starts() { wc -c < "$MUSTER_FAKE_NVML_STARTS"; }
facts() { printf '%s\n' 'gpu 0000:01:00.0' 'uuid GPU-a' 'slots 7' 'mig 3 MIG-1 7 0 16 1 1 9728' 'gpu 0000:02:00.0' "$@" > "$MUSTER_FAKE_NVML"; }

facts
check 0 "$MUSTER" run -n 12 "$BUILD/tests/topology/share" public
[ "$(grep -c ', 3 devices, the first is a GPU$' "$OUT")" -eq 12 ] || fail "not all know two GPUs and a part"
[ "$(starts)" -eq 1 ] || fail "NVML was started $(starts) times"

# What went wrong is said to all, and not tried again by each.
facts 'crash nvmlDeviceGetUUID'
rm "$MUSTER_FAKE_NVML_STARTS"
check 0 "$MUSTER" run -n 12 "$BUILD/tests/topology/share" public
[ "$(grep -c ', 2 devices, the first is a GPU$' "$OUT")" -eq 12 ] || fail "not all know the GPU that was told"
[ "$(starts)" -eq 1 ] || fail "NVML was started $(starts) times"

# Nothing of it is left where nobody is to be asked.
rm "$MUSTER_FAKE_NVML_STARTS"
check 0 env MUSTER_NVML= "$MUSTER" run -n 2 "$BUILD/tests/topology/share" public
[ ! -e "$MUSTER_FAKE_NVML_STARTS" ] || fail "NVML was asked"
exit 0
