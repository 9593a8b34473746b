#!/bin/bash
# tests/torture/run.sh [--seconds N] [--seed S]: behind `make torture`: one node for half of the time, three hosts for the
# other half.
set -eu
seconds=60 seed=()
while [ $# -ge 2 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --seed) seed=(--seed "$2") ;;
    *) break ;;
    esac
    shift 2
done
[ $# -eq 0 ] || { echo "torture: no such option: $1" >&2; exit 2; }
"$BUILD/tests/torture/torture" --seconds $((seconds / 2)) "${seed[@]}"
exec "${PYTHON:-python3}" "$(dirname "$0")/../lin/across_test.py" --seconds $((seconds / 2)) "${seed[@]}"
