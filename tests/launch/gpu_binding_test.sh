#!/bin/bash
# --bind-to gpu, --gpus-per-task, --gpu-visibility and -n gpu. Plans for machines of every shape are gpu_plan_test.c's;
# here are the command's words, and the environments of real processes: of a machine in a file, whose four GPUs do not
# exist, taken for this one only because HWLOC_THISSYSTEM says so. With a real GPU the same is done with it.
. "$(dirname "$0")/../cli/common.sh"
ldconfig -p | grep -q 'libhwloc\.so\.15' || skip "libhwloc15 is not installed"
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES MUSTER_GPUS MUSTER_RUN_ID
run() { "$MUSTER" run --job "$JOB" "$@"; }
FOUR=${TOP:-.}/tests/topology/machines/switched.xml
elsewhere() { env HWLOC_XMLFILE="$FOUR" "$MUSTER" run --job "$JOB" --dry-run "$@"; }
for i in 0 1 2 3; do
    printf -v "U$i" 'GPU-%08d-1111-2222-3333-444444444444' $i
done

# ---- words ----
check 2 run --gpus-per-task 1 true
err_has '^muster run: --gpus-per-task needs --bind-to gpu'
check 2 run --bind-to core --gpu-visibility own true
err_has '^muster run: --gpu-visibility needs --bind-to gpu'
check 2 run --bind-to gpu --map-by numa true
err_has 'map-by has no say there'
for words in '--gpus-per-task 0' '--gpus-per-task x' '--gpus-per-task 99999' '--gpu-visibility mine'; do
    check 2 elsewhere --bind-to gpu $words true
    err_is_one_line
done
check 2 env HWLOC_XMLFILE="$FOUR" "$MUSTER" run --bind-to gpu true
err_has 'HWLOC_XMLFILE shows another machine'
check 2 env HWLOC_XMLFILE="$FOUR" "$MUSTER" run -n gpu true
err_has 'HWLOC_XMLFILE shows another machine'

# ---- a machine in a file ----
check 0 elsewhere -n gpu --bind-to gpu --report-bindings true
err_is_empty
out_has "^job $JOB: 4 tasks; "
out_has '^TASK .* BOUND TO  *CPUS  *NUMA  *MEMORY  *GPU  *PCI  *AT NUMA  *LINK  *VERIFIED$'
out_has '^3  .*package 1 cores 6-7  6-7  *8  *8  *NVIDIA H100 80GB HBM3  0000:bb:00.0  8  *-  *-$'
out_has "^    on GPU 0000:bb:00.0 $U3: NVIDIA H100 80GB HBM3, NUMA 8$"
[ "$(grep -c "^    CUDA_VISIBLE_DEVICES=$U0,$U1,$U2,$U3$" "$OUT")" -eq 4 ] || fail "not all see all"
check 0 elsewhere -n gpu --gpus-per-task 2 --bind-to gpu --gpu-visibility own --report-bindings=json true
sed -i -n '/^\[/p' "$OUT"
json_is '[[gpu["pci"] for gpu in row["gpus"]] for row in it]' '[["0000:19:00.0", "0000:1a:00.0"], ["0000:9a:00.0", "0000:bb:00.0"]]'
json_is '[(row["cpus"], row["memory"], row["link"], row["visible"].count(","), row["verified"]) for row in it]' \
    '[["0-3", "0", "NV18", 1, null], ["4-7", "8", "NV13", 1, null]]'
check 125 elsewhere -n 5 --bind-to gpu true
err_has '5 tasks with 1 GPU each need 5, of the 4 that there are: start 4 tasks'
check 0 elsewhere -n 5 --bind-to gpu:overload true
err_has '5 tasks share the GPUs of 4.*MPS'
[ "$(grep -c "^    MUSTER_GPUS=$U0$" "$OUT")" -eq 2 ] || fail "two on the first"
check 0 elsewhere -n 5 --bind-to gpu:overload --report-bindings true
[ "$(grep -c 'H100 80GB HBM3 (shared)  0000:19' "$OUT")" -eq 2 ] || fail "two on the first, in the report"
check 0 elsewhere -n auto --gpus-per-task 4 --bind-to gpu true
out_has "^job $JOB: 1 task; "
check 0 env CUDA_VISIBLE_DEVICES=2,GPU-00000000 HWLOC_XMLFILE="$FOUR" "$MUSTER" run --dry-run -n gpu --bind-to gpu true
out_has "^    CUDA_VISIBLE_DEVICES=$U2,$U0$"
check 125 env CUDA_VISIBLE_DEVICES= HWLOC_XMLFILE="$FOUR" "$MUSTER" run --dry-run -n 1 --bind-to gpu true
err_has "CUDA_VISIBLE_DEVICES='' leaves no GPU of 4"
check 2 elsewhere -n 2 --bind-to gpu true : -n 2 --env CUDA_VISIBLE_DEVICES=0 true
err_has "CUDA_VISIBLE_DEVICES=0 contradicts --bind-to gpu, which gives task 2 $U0,"
check 2 run --env MUSTER_GPUS=0 true
err_has 'MUSTER_GPUS is set by muster itself'
check 0 elsewhere --grpc -n 2 --bind-to gpu --gpus-per-task 2 true
[ "$(grep -o 'JAX_LOCAL_DEVICE_IDS=.*' "$OUT")" = "$(printf 'JAX_LOCAL_DEVICE_IDS=0,1\nJAX_LOCAL_DEVICE_IDS=2,3')" ] ||
    fail "JAX is not told which GPUs are its own"
check 0 env JAX_LOCAL_DEVICE_IDS=7 HWLOC_XMLFILE="$FOUR" "$MUSTER" run --dry-run --grpc -n 1 --bind-to gpu true
grep -q 'JAX_LOCAL_DEVICE_IDS' "$OUT" && fail "what the user says is changed"

# ---- real processes ----
first=$(sed -n 's/^Cpus_allowed_list:\t\([0-9]*\).*/\1/p' /proc/self/status)
if [ -e /proc/driver/nvidia/gpus ]; then
    echo "not tested: made-up GPUs in real processes (this machine has real ones)"
elif [ "$first" -gt 7 ]; then
    echo "not tested: made-up GPUs in real processes (none of processors 0 to 7 may be used)"
else
    export HWLOC_XMLFILE=$FOUR HWLOC_THISSYSTEM=1
    check 0 run -n gpu --bind-to gpu --label sh -c 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_GPUS $MUSTER_GPU_ORDINALS"'
    for i in 0 1 2 3; do
        u=U$i
        grep -qx "\[$i\] $U0,$U1,$U2,$U3 ${!u} $i" "$OUT" || fail "what task $i was told"
    done
    check 0 run -n 1 --bind-to gpu --gpus-per-task 1 sh -c 'echo "$MUSTER_GPUS"' : -n 1 sh -c 'echo "$MUSTER_GPUS"'
    [ "$(sort "$OUT" | tr '\n' ' ')" = "$U0 $U1 " ] || fail "two commands"
    check 0 run --bind-to gpu --restarts 1 --restart-policy task --restart-delay 0 sh -c \
        'echo "$MUSTER_GPUS"; exit $((1 - MUSTER_ATTEMPT))'
    [ "$(uniq "$OUT")" = "$U0,$U1,$U2,$U3" ] || fail "other GPUs when started again"

    # In a task that was given two, those two are all that there are.
    check 0 run -n 2 --bind-to gpu --gpus-per-task 2 "$MUSTER" run -n gpu --bind-to gpu --gpu-visibility own sh -c \
        'echo "$MUSTER_GPUS $CUDA_VISIBLE_DEVICES"'
    ! grep -q "job $JOB .*as well" "$ERR" || fail "the job around it is no other job"
    [ "$(sort "$OUT" | tr '\n' ' ')" = "$U0 $U0 $U1 $U1 $U2 $U2 $U3 $U3 " ] || fail "a launcher in a task"
    check 0 run -n 2 --bind-to gpu "$MUSTER" run sh -c 'echo "${MUSTER_GPUS-none}"'
    [ "$(uniq "$OUT")" = none ] || fail "GPUs of another job are handed on"

    # The report is the kernel's word; a job beside it hears of ours.
    "$MUSTER" run --job "$JOB" -n 4 --bind-to gpu --report-bindings=json sh -c \
        'until [ -e "$1" ]; do sleep 0.02; done' sh "$TMPDIR/go" > "$OUT.run" 2> "$ERR.run" < /dev/null & # sleep: it runs
    RUN=$!
    trap 'touch "$TMPDIR/go"; wait $RUN 2> /dev/null' EXIT
    await "the report is made" grep -q ']$' "$ERR.run"
    grep '^\[' "$ERR.run" > "$OUT"
    json_is '[row["verified"] for row in it]' '[true, true, true, true]'
    check 0 "$MUSTER" run --job "$JOB-2" -n 2 --bind-to gpu true
    err_has "^muster run: GPU GPU-0000000.* has been given to task [0-3] of job $JOB (pid [0-9]*) as well$"
    [ "$(grep -c "job $JOB .*as well" "$ERR")" -eq 1 ] || fail "one sentence a job"
    touch "$TMPDIR/go"
    wait $RUN || fail "the job with the report"
    trap - EXIT

    # muster topo shows each task at its own GPU, though all see all of them.
    RUN_OPTIONS='--kill-on-fail=no --bind-to gpu' start_job 4 sh -c \
        '[ $RANK = 3 ] && exec sleep 1000; exec muster barrier wait ready'
    await "three are connected" connected 3
    check 0 "$MUSTER" topo --job "$JOB" --json
    json_is '[task["devices"] for task in it["tasks"]][:3]' '[[0], [1], [2]]'
    kill -9 $RUN
    wait $RUN 2> /dev/null
    await "the job's end" no_segment "$JOB"
    trap - EXIT
    unset HWLOC_XMLFILE HWLOC_THISSYSTEM
fi

# ---- a divided GPU, and one that is lost, as a fake of NVIDIA's library tells of them ----
cat > "$TMPDIR/facts" << 'END'
driver 550.54.15
gpu 0000:19:00.0 0x233010de
name NVIDIA H100 80GB HBM3
uuid GPU-aaaaaaaa-1111-2222-3333-444444444444
gpu 0000:1a:00.0 0x233010de
name NVIDIA H100 80GB HBM3
uuid GPU-bbbbbbbb-1111-2222-3333-444444444444
slots 7
mig 0 MIG-11111111-1111-2222-3333-444444444444 7 0 16 1 1 9728
mig 2 MIG-22222222-1111-2222-3333-444444444444 9 0 16 1 1 9728
gpu 0000:1b:00.0 0x233010de
uuid GPU-cccccccc-1111-2222-3333-444444444444
fail nvmlDeviceGetName 15
END
FAKE=$BUILD/tests/topology/libfake_nvml.so
if [ -e /proc/driver/nvidia/gpus ]; then
    echo "not tested: MIG instances of a fake (this machine has real GPUs)"
else
    for n in gpu auto; do
        check 0 env MUSTER_NVML="$FAKE" MUSTER_FAKE_NVML="$TMPDIR/facts" "$MUSTER" run --job "$JOB" -n $n --bind-to gpu \
            --label sh -c 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_GPUS $MUSTER_GPU_ORDINALS"'
        err_has 'each task sees only its own'
        err_has 'GPU 0000:1b:00.0 is lost and is not given out'
        [ "$(sort "$OUT" | sed 's/-1111-2222-3333-444444444444//g')" = "[0] GPU-aaaaaaaa GPU-aaaaaaaa 0
[1] MIG-11111111 MIG-11111111 0
[2] MIG-22222222 MIG-22222222 0" ] || fail "-n $n: a GPU and two parts of another"
    done
    check 0 env MUSTER_NVML="$FAKE" MUSTER_FAKE_NVML="$TMPDIR/facts" "$MUSTER" run -n gpu true
    err_is_one_line
    err_has 'GPU 0000:1b:00.0 is lost and is not given out'
    sed 's/^fail .*/fail nvmlDeviceGetHandleByIndex_v2 15/' "$TMPDIR/facts" > "$TMPDIR/nameless"
    check 0 env MUSTER_NVML="$FAKE" MUSTER_FAKE_NVML="$TMPDIR/nameless" "$MUSTER" run -n gpu true
    err_is_one_line
    err_has '1 GPU more is lost and is not given out'
    sed -i '/^gpu 0000:19/,/^mig 2/d' "$TMPDIR/facts"
    check 125 env MUSTER_NVML="$FAKE" MUSTER_FAKE_NVML="$TMPDIR/facts" "$MUSTER" run -n gpu true
    err_has 'of 1 GPU here none answers'
fi

# ---- real machines, in files ----
FOLDER=${MUSTER_TEST_TOPOLOGIES:-}
if [ ! -e "$FOLDER/mb_eas-tioga.xml" ] || [ ! -e "$FOLDER/nvidiaDGX2.xml" ]; then
    echo "not tested: real machines (MUSTER_TEST_TOPOLOGIES names no folder with mb_eas-tioga.xml and nvidiaDGX2.xml)"
else # of the first its users' guide says which eight cores each GPU is connected to
    FOUR=$FOLDER/mb_eas-tioga.xml
    check 0 elsewhere -n gpu --bind-to gpu --report-bindings=json true
    sed -i -n '/^\[/p' "$OUT"
    json_is '[(row["cpus"].split(",")[0], row["memory"]) for row in it]' '[["48-55", "3"], ["56-63", "3"], ["16-23", "1"], ["24-31", "1"], ["0-7", "0"], ["8-15", "0"], ["32-39", "2"], ["40-47", "2"]]'
    FOUR=$FOLDER/nvidiaDGX2.xml
    check 0 elsewhere -n gpu --gpus-per-task 8 --bind-to gpu --report-bindings=json true
    sed -i -n '/^\[/p' "$OUT"
    json_is '[({gpu["numa"] for gpu in row["gpus"]} == {row["task"]}, len(row["gpus"]), row["link"]) for row in it]' \
        '[[true, 8, "NV6"], [true, 8, "NV6"]]'
fi

# ---- real GPUs ----
if ! nvidia-smi -L > "$OUT.smi" 2> /dev/null || grep -q MIG "$OUT.smi"; then
    check 125 run -n gpu true
    err_is_one_line
    check 125 run --bind-to gpu true
    err_is_one_line
    echo "not tested: a real GPU (nvidia-smi: $(head -n 1 "$OUT.smi" | grep . || echo "none here"))"
    exit 0
fi
check 0 run -n gpu --bind-to gpu --label sh -c 'echo "$MUSTER_GPUS"'
[ "$(sed 's/.* //' "$OUT" | sort)" = "$(sed -n 's/.*UUID: \(GPU-[^)]*\).*/\1/p' "$OUT.smi" | sort)" ] ||
    fail "not nvidia-smi's GPUs: $(cat "$OUT.smi")"
echo "tested with: $(head -n 1 "$OUT.smi")"
exit 0
