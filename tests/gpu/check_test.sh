#!/bin/bash
# `make gpu-check`: with this machine's GPU where there is one, as an ordinary test; before that, what it makes of facts
# that agree and of facts that do not. Those are of our fake NVML and CUDA driver and of an nvidia-smi that is a script:
# they show that a row can fail, and nothing about a GPU.
# variants: release
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"

export GPU_DEVICE=$BUILD/tests/gpu/device GPU_STREAM=$BUILD/tests/stream/gpu_test GPU_NCCL=$BUILD/tests/accel/nccl_gpu_test
CHECK=$BUILD/tests/gpu/check
U1=GPU-00000000-0000-0000-0000-000000000001 U2=GPU-00000000-0000-0000-0000-000000000002

gpus() # gpus MEMORY_OF_THE_SECOND
{
    printf '%s\n' 'gpu 0000:01:00.0' 'name Fake GPU 0' "uuid $U1" 'memory 1073741824' \
        'gpu 0000:02:00.0' 'name Fake GPU 1' "uuid $U2" "memory $1" 'link 0 gpu 0000:01:00.0' > "$TMPDIR/facts"
}
smi() # smi BUS_OF_THE_SECOND LINK
{
    mkdir -p "$TMPDIR/bin"
    cat > "$TMPDIR/bin/nvidia-smi" << EOF
#!/bin/sh
case "\$*" in
"-q -x") cat << XML
<nvidia_smi_log><gpu id="00000000:01:00.0"><product_name>Fake GPU 0</product_name>
<mig_mode><current_mig>N/A</current_mig></mig_mode><uuid>$U1</uuid><fb_memory_usage><total>1024 MiB</total></fb_memory_usage></gpu>
<gpu id="00000000:$1:00.0"><product_name>Fake GPU 1</product_name>
<mig_mode><current_mig>N/A</current_mig></mig_mode><uuid>$U2</uuid><fb_memory_usage><total>2048 MiB</total></fb_memory_usage></gpu>
</nvidia_smi_log>
XML
;;
"topo -m") printf '\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t$2\t0-1\nGPU1\t$2\t X \t0-1\n' ;;
*) exit 1 ;;
esac
EOF
    chmod +x "$TMPDIR/bin/nvidia-smi"
}
faked() # faked STATUS OPTION...
{
    local status=$1 got=0
    shift
    env PATH="$TMPDIR/bin:$PATH" MUSTER_NVML="$BUILD/tests/topology/libfake_nvml.so" MUSTER_FAKE_NVML="$TMPDIR/facts" \
        MUSTER_CUDA="$BUILD/tests/topology/libfake_cuda.so" MUSTER_FAKE_CUDA=2 \
        "$CHECK" --report "$TMPDIR/report.md" "$@" > "$OUT" 2> "$ERR" || got=$?
    [ $got -eq "$status" ] || fail "gpu-check $* ended with $got, not $status"
}

if "$MUSTER" topo --json | grep -q '"kind":"gpu"'; then
    echo "a GPU is here: no fakes"
else
    gpus 2147483648
    smi 02 NV1
    faked 0 --only topology,links,proto
    out_has '^ok  *topology  *2 GPUs, '
    out_has '^ok  *links  *2 of 2 cells (equal)$'
    out_has '^3 ok, 0 failed, 0 not run$'
    grep -q '^| links: .* | ok | 2 of 2 cells | equal |  |$' "$TMPDIR/report.md" || fail "the report has no row of the links"
    smi 03 NV1
    faked 1 --only topology
    out_has 'GPU .* is at 0000:02:00.0 for muster, and at 0000:03:00.0 for nvidia-smi$'
    smi 02 NV2
    faked 1 --only links
    out_has "GPU0 to GPU1 is 'NV1' for muster, and 'NV2' for nvidia-smi\$"
    gpus 1073741824
    smi 02 NV1
    faked 1 --only topology
    out_has 'GPU 0000:02:00.0 has 1073741824 bytes for muster, and 2147483648 for nvidia-smi$'
    faked 1 --only stream-cost
    out_has 'the CUDA driver has no cuGetErrorName(): it is too old$'
    check 0 env MUSTER_CUDA=/nowhere "$CHECK" --help
    out_has '^  death '
    got=0
    "$CHECK" --only deth > "$OUT" 2> "$ERR" || got=$?
    [ $got -eq 2 ] || fail "a row that there is not: exit status $got"
    err_has '^gpu-check: there is no row deth '
fi

got=0
"$CHECK" --report "$TMPDIR/report.md" > "$OUT" 2> "$ERR" || got=$?
if [ $got -eq 77 ]; then
    out_has '^no GPU: '
    skip "$(cat "$OUT")"
fi
cat "$OUT"
[ $got -eq 0 ] || fail "exit status $got"
