#!/bin/bash
# tests/bridgesim/run.sh [--seconds N] [--seed S]: schedules without end, one run on each processor, from fresh seeds; on
# every second one the hosts have clocks of their own.
# It stops at the first failure and prints how to replay it.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
sim=${BUILD:-$top/build/release}/tests/bridgesim/bridgesim
seconds=60 seed=$(( $(date +%s) * 1000000 ))
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --seed) seed=$2 ;;
    *) echo "usage: tests/bridgesim/run.sh [--seconds N] [--seed S]" >&2; exit 2 ;;
    esac
    shift 2
done
[ -x "$sim" ] || { echo "run.sh: $sim is not built: make $sim" >&2; exit 1; }
pids=() failed=0
for ((i = 0; i < $(nproc); i++)); do
    how=--clocks
    [ $((i % 2)) -eq 1 ] || how=
    "$sim" $how --seconds "$seconds" --seed $((seed + i * 1000000000000)) &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
