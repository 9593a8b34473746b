#!/bin/bash
# `muster doctor`, NVML and CUDA. The libraries are our fake ones, no GPU is asked: as libnvidia-ml.so.1, or named by
# MUSTER_NVML and MUSTER_CUDA.
. "$(dirname "$0")/../cli/common.sh"

FAKE=$BUILD/tests/topology/libfake_nvml.so
fact() { json "(lambda f: (f['mark'] + ': ' + f['text']) if f else '')(([f for f in it['facts'] if (f['topic'], f['name']) in (('nvml', '$1'), ('cuda', '$1'))] or [None])[0])"; }
fact_has() { fact "$1" | grep -qe "^$2" || fail "$1: '$(fact "$1")' is not: $2"; }
doctor() # doctor FACTS: what it says with the fake that tells these
{
    echo "$1" > "$TMPDIR/facts"
    check 0 env MUSTER_NVML="$FAKE" MUSTER_FAKE_NVML="$TMPDIR/facts" "$MUSTER" doctor --json
    err_is_empty
}

doctor 'driver 550.54.15
gpu 0000:01:00.0
gpu 0000:02:00.0'
fact_has NVML 'ok: 2 GPUs, driver 550.54.15$'
doctor 'gpu 0000:01:00.0
slots 7
mig 0 MIG-1 7 0 16 1 1 9728
mig 3 MIG-2 9 0 16 1 1 9728'
fact_has NVML 'ok: 1 GPU with 2 MIG parts, driver '
doctor 'gpu 0000:01:00.0
fail nvmlDeviceGetHandleByIndex_v2 4
gpu 0000:02:00.0
fail nvmlDeviceGetUUID 15
gpu 0000:03:00.0'
fact_has NVML 'ok: 3 GPUs'
fact_has 'a GPU' 'note: may not be opened: no permission'
fact_has 'GPU 0000:02:00.0' 'note: has gone from the bus'
[ -z "$(fact 'GPU 0000:03:00.0')" ] || fail "something is said of a GPU that is well"

# What is broken is a line, not a failure.
doctor 'fail nvmlInitWithFlags 9'
fact_has NVML 'note: .*does not start: the driver is not loaded (9)'
doctor 'fail nvmlInitWithFlags 18'
fact_has NVML 'note: .*does not start: library and driver are of different versions (18)'
doctor 'fail nvmlDeviceGetCount_v2 999'
fact_has NVML 'note: does not tell the GPUs or the driver'
doctor 'hang nvmlInitWithFlags'
fact_has nvml 'note: no answer within 10 s'
doctor 'gpu 0000:01:00.0
crash nvmlDeviceGetUUID'
fact_has nvml 'note: looking at it '
doctor 'garbage nvmlSystemGetDriverVersion
gpu 0000:01:00.0
garbage nvmlDeviceGetName
count 4000000000'
fact_has NVML 'ok: 64 GPUs, driver '

# Found by its own name, absent, not a library, not to be asked, another library.
mkdir -p "$TMPDIR/lib"
cp "$FAKE" "$TMPDIR/lib/libnvidia-ml.so.1"
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" MUSTER_FAKE_NVML=/dev/null "$MUSTER" doctor --json
fact_has NVML 'ok: 0 GPUs, driver 550.54.15$'
check 0 env MUSTER_NVML=/no/such.so "$MUSTER" doctor --json
fact_has NVML '[on].*: /no/such.so is not here'
echo "no library" > "$TMPDIR/lib/libnvidia-ml.so.1"
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" doctor --json
fact_has NVML 'note: cannot be loaded: '
check 0 env MUSTER_NVML= "$MUSTER" doctor --json
fact_has NVML '[on].*: not asked'
check 0 env MUSTER_NVML=libdl.so.2 "$MUSTER" doctor --json
fact_has NVML 'note: libdl.so.2 has no nvmlInit_v2'

# The CUDA driver.
cuda() # cuda WHAT-THE-FAKE-DOES PATTERN
{
    check 0 env MUSTER_CUDA="$BUILD/tests/topology/libfake_cuda.so" MUSTER_FAKE_CUDA="$1" CUDA_VISIBLE_DEVICES=0 "$MUSTER" doctor --json
    fact_has CUDA "$2"
}
cuda 3 'ok: 12.4, 3 devices (CUDA_VISIBLE_DEVICES is set)$'
cuda 0 "note: 12.4: no device (100): CUDA_VISIBLE_DEVICES is '0'$"
cuda 'fail 34' "note: 12.4: .* is the toolkit's stub (34), not the driver"
cuda 'fail 803' 'note: 12.4: library and driver do not fit (803)'
exit 0
