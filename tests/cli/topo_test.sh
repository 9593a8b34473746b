#!/bin/bash
# `muster topo`: the tree and the matrix of machines that were written by hand, what is no machine, and a job's ranks.
. "$(dirname "$0")/common.sh"
TOP=${TOP:-$(dirname "$0")/../..}
MACHINES=$TOP/tests/topology/machines
unset CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES

# ---- whole pages ----

cat > "$TMPDIR/want" << 'END'
hgx: 2 packages, 8 cores, 8 processors, 2 TiB, 4 GPUs
  package 0: Intel(R) Xeon(R) Platinum 8480C, 4 cores
    NUMA node 0: 1 TiB, 4 cores, CPUs 0-3
      PCI 0000:00
        2 NVSwitches
      PCI 0000:16
        GPU0  0000:19:00.0  NVIDIA H100 80GB HBM3
        GPU1  0000:1a:00.0  NVIDIA H100 80GB HBM3
  package 1: Intel(R) Xeon(R) Platinum 8480C, 4 cores
    NUMA node 8: 1 TiB, 4 cores, CPUs 4-7
      PCI 0000:99
        GPU2  0000:9a:00.0  NVIDIA H100 80GB HBM3, 80 GiB
      PCI 0000:ba
        GPU3  0000:bb:00.0  NVIDIA H100 80GB HBM3

      GPU0   GPU1   GPU2   GPU3   NUMA0  NUMA8  CPUs
GPU0  X      NV18   NV18   NV13   PHB    SYS    0-3
GPU1  NV18   X      NV18   NV13   PHB    SYS    0-3
GPU2  NV18   NV18   X      NV13   SYS    PHB    4-7
GPU3  NV13   NV13   NV13   X      SYS    PHB    4-7

  X     itself
  NV#   so many NVLinks, bonded
  PHB   one PCIe host bridge; of memory: the nearest
  SYS   from one NUMA node to another
END
check 0 "$MUSTER" topo --input "$MACHINES/switched.xml"
err_is_empty
cmp "$OUT" "$TMPDIR/want" || fail "the page of switched.xml is another one"
check 0 "$MUSTER" topo --input "$MACHINES/switched.xml" --matrix
sed '1,/^$/d' "$TMPDIR/want" | cmp - "$OUT" || fail "--matrix is not what is below the tree"

cat > "$TMPDIR/want" << 'END'
row.xml: 1 package, 2 cores, 2 processors, 16 GiB, 3 GPUs
  package 0, 2 cores
    NUMA node 0: 16 GiB, 2 cores, CPUs 0-1
      PCI 0001:01
        GPU0  0001:01:00.0  Tesla P100-SXM2-16GB
      PCI 0002:01
        GPU1  0002:01:00.0  Tesla P100-SXM2-16GB
      PCI 0003:01
        GPU2  0003:01:00.0  Tesla P100-SXM2-16GB

      GPU0   GPU1   GPU2   NUMA0  CPUs
GPU0  X      NV2    NODE   PHB    0-1
GPU1  NV2    X      NV2    PHB    0-1
GPU2  NODE   NV2    X      PHB    0-1

  X     itself
  NV#   so many NVLinks, bonded
  PHB   one PCIe host bridge; of memory: the nearest
  NODE  several PCIe host bridges of one NUMA node
END
check 0 "$MUSTER" topo -i "$MACHINES/row.xml" -o "$TMPDIR/got"
out_is_empty
cmp "$TMPDIR/got" "$TMPDIR/want" || fail "the page of row.xml is another one"

# Caches and memory that are alike share a line; nobody has accelerators in words.
cat > "$TMPDIR/want" << 'END'
synthetic:package:2 [numa(memory=8GB)] l3:2(size=16MiB) core:4 pu:2: 2 packages, 16 cores, 32 processors, 14.9 GiB, no accelerator
  package 0, 8 cores, 16 processors  (CPU0)
    NUMA node 0: 7.5 GiB, 8 cores, 16 processors, CPUs 0-15
      2 x L3 cache: 16 MiB, 4 cores, 8 processors each
  package 1, 8 cores, 16 processors  (CPU1)
    NUMA node 1: 7.5 GiB, 8 cores, 16 processors, CPUs 16-31
      2 x L3 cache: 16 MiB, 4 cores, 8 processors each

      CPU0   CPU1   NUMA0  NUMA1  CPUs
CPU0  X      SYS    PHB    SYS    0-15
CPU1  SYS    X      SYS    PHB    16-31

  X     itself
  PHB   one PCIe host bridge; of memory: the nearest
  SYS   from one NUMA node to another
END
check 0 "$MUSTER" topo --input 'synthetic:package:2 [numa(memory=8GB)] l3:2(size=16MiB) core:4 pu:2'
cmp "$OUT" "$TMPDIR/want" || fail "the page of a machine in words is another one"
check 0 "$MUSTER" topo --input 'pack:1 core:2 pu:1'
out_has '^pack:1 core:2 pu:1: 1 package, 2 cores, 2 processors,'

# ---- this machine, also when there is no hwloc for it ----

check 0 "$MUSTER" topo
out_has '^.*: [0-9]* packages\?, '
out_has '^  X     itself$'
check 0 env HWLOC_SYNTHETIC='package:1 core:3 pu:1' "$MUSTER" topo
out_has ' 3 cores'
out_has '^note: hwloc: HWLOC_SYNTHETIC in the environment shows another machine'

mkdir "$TMPDIR/lib"
echo "no library" > "$TMPDIR/lib/libhwloc.so.15"
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo
out_has '^note: hwloc: cannot load hwloc .*install the package libhwloc15; so caches, '
out_has '^  X     itself$'
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo --json
json_is '[box["kind"] for box in it["boxes"]][:2]' '["machine", "package"]'
json_is 'it["boxes"][0]["processors"] == sum(b["processors"] for b in it["boxes"] if b["kind"] == "package")' true
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo --svg
out_has '</svg>'
check 1 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo -i "$MACHINES/row.xml"
err_has 'cannot load hwloc'

# ---- what is no machine ----

is_refused() # is_refused STATUS SENTENCE ARGUMENT...
{
    local status=$1 sentence=$2
    shift 2
    check "$status" timeout 20 "$MUSTER" topo "$@"
    out_is_empty
    err_is_one_line
    err_has "$sentence"
}
is_refused 1 "is a folder, no file" --input "$TMPDIR"
mkfifo "$TMPDIR/fifo"
is_refused 1 "is a pipe or a device, no file" --input "$TMPDIR/fifo"
is_refused 1 "is a pipe or a device, no file" --input /dev/zero
is_refused 3 "cannot read $TMPDIR/none.xml: No such file" --input "$TMPDIR/none.xml"
truncate -s 8G "$TMPDIR/huge.xml"
is_refused 1 "huge.xml" --input "$TMPDIR/huge.xml"
: > "$TMPDIR/empty.xml"
is_refused 1 "empty.xml" --input "$TMPDIR/empty.xml"
printf '<?xml version="1.0"?>\n<system version="1"><cpu numaid="0"/></system>\n' > "$TMPDIR/nccl.xml"
is_refused 1 "a topology of NCCL's" --input "$TMPDIR/nccl.xml"
head -c 2000 "$MACHINES/switched.xml" > "$TMPDIR/cut.xml"
is_refused 1 "cut.xml" --input "$TMPDIR/cut.xml"
head -c 100000 /dev/urandom > "$TMPDIR/noise.xml"
is_refused 1 "noise.xml" --input "$TMPDIR/noise.xml"
is_refused 1 "describes no machine" --input "synthetic:package:0"
is_refused 1 "describes no machine" --input $'pack\033:age:1\n'

# ---- what is typed wrong ----

is_refused 2 "a file in hwloc's XML form" --input ''
is_refused 2 "needs a value" --input
is_refused 2 "did you mean --matrix" --matrx
is_refused 2 "operand 'x' is too much" x
is_refused 2 "\-\-json or --svg, not both" --svg --json
is_refused 2 "\-\-json or --matrix, not both" --matrix --json
is_refused 2 "\-\-input shows another" --cuda --input "$MACHINES/row.xml"
is_refused 2 "\-\-input shows another" --job x --input "$MACHINES/row.xml"
is_refused 1 "cannot write /no/such: " --output /no/such
check 1 sh -c '"$0" topo --json > /dev/full' "$MUSTER"
err_has "cannot write: No space left"
is_refused 3 "" --job "$JOB"
check 0 "$MUSTER" topo --matrix --output "$TMPDIR/kept" -i "$MACHINES/row.xml"
cp "$TMPDIR/kept" "$TMPDIR/before"
is_refused 1 "cut.xml" --output "$TMPDIR/kept" -i "$TMPDIR/cut.xml"
cmp "$TMPDIR/kept" "$TMPDIR/before" || fail "a machine that cannot be read has emptied the file of --output"
check 2 "$MUSTER" tpoo
err_has "did you mean 'topo'"

# ---- ranks: bound by the launcher, by themselves, and not here ----

RUN_OPTIONS='--kill-on-fail=no' start_job 3 sh -c '
    [ $RANK = 2 ] && exec sleep 1000
    [ $RANK = 1 ] && export CUDA_VISIBLE_DEVICES=0,1
    [ $RANK = 0 ] && exec taskset -c "$(taskset -cp $$ | sed "s/.*: //; s/[-,].*//")" muster barrier wait one --tasks 0,1
    exec muster barrier wait two --tasks 0,1' # each waits for the other, and not for task 2
await "two are connected" connected 2
one=$(sed 's/[-,].*//' <<< "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)")
all=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
await "task 0 has cut itself down" sh -c '"$0" topo --job "$1" --json | grep -q "\"task\":0,\"pid\":[0-9]*,\"cpus\":\"$2\","' \
    "$MUSTER" "$JOB" "$one"
check 0 "$MUSTER" topo --job "$JOB"
out_has "^0     $(pids | cut -d' ' -f1) .* $one  *\(all\|none\)$"
out_has "^1 .* $all  *\(none\|GPU0\)"
out_has "^2     [0-9][0-9]* .* $all  *\(all\|none\|GPU0\)" # which has not joined, and is the launcher's all the same
check 0 "$MUSTER" topo --job "$JOB" --json
json_is 'it["job"]' "$JOB"
json_is '[t["cpus"] for t in it["tasks"]]' "[\"$one\", \"$all\", \"$all\"]"
json_is '[t["unknown"] for t in it["tasks"]]' '[null, null, null]'
json_is 'it["tasks"][1]["devices"] is not None' true
json_is '{b["id"]: b["cpus"] for b in it["boxes"]}[it["tasks"][0]["box"]]' \
    "$("$MUSTER" topo --json | "$PYTHON" -c '
import json, sys
def cpus(text):
    return {n for part in text.split(",") if part for a, _, b in [part.partition("-")] for n in range(int(a), int(b or a) + 1)}
held = [b["cpus"] for b in json.load(sys.stdin)["boxes"] if int(sys.argv[1]) in cpus(b["cpus"])]
print(min(held, key=lambda text: len(cpus(text))))' "$one")"
check 0 "$MUSTER" topo --job "$JOB" --svg
grep -q 'not here</text>' "$OUT" && fail "somebody is not here"
out_has "^task 0 (pid [0-9]*): CPUs $one"
kill -KILL "$("$MUSTER" topo --job "$JOB" --json | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["tasks"][2]["pid"])')"
gone() { "$MUSTER" topo --job "$JOB" > "$OUT" && grep -q '^2     -        -              -                (its process has ended)$' "$OUT"; }
await "task 2 has ended" gone
check 0 "$MUSTER" topo --job "$JOB" --json
json_is '[t["cpus"] for t in it["tasks"]]' "[\"$one\", \"$all\", null]"
json_is '[t["unknown"] for t in it["tasks"]]' '[null, null, "its process has ended"]'
check 0 "$MUSTER" topo --job "$JOB" --svg
out_has '>1 not here</text>\|, 1 not here</text>'
out_has "^task 2: its process has ended"
exit 0
