#!/bin/bash
# tests/sim/run.sh --seconds N [--seed S] [--workload W]: schedules without end, on every processor, from fresh seeds.
# It stops at the first failure and prints how to replay it.
set -uo pipefail
cd "$(dirname "$0")/../.."
seconds=60 seed=$(($(date +%s) % 1000000 * 1000000000)) more=()
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --seed) seed=$2 ;;
    --workload) more=(--workload "$2") ;;
    *)
        sed -n '2,3s/^# //p' "$0" >&2
        exit 2
        ;;
    esac
    shift 2
done
build=${BUILD:-$PWD/build/release}
sim="${build%/*}/sim/tests/sim/sim"
[ -x "$sim" ] || {
    echo "run.sh: $sim is not built; make sim builds it" >&2
    exit 2
}
jobs=()
for ((i = 0; i < $(nproc); i++)); do
    start=$((seed + i * 100000000))
    echo "seeds from $start, $seconds s"
    "$sim" --seconds "$seconds" --seed "$start" "${more[@]}" &
    jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do
    wait "$job" || status=1
done
exit $status
