#!/bin/bash
# The launcher of tasks that make 200 NCCL ids and give them up has no thread and no descriptor more than before, and
# never maps libnccl. Real libnccl, real processes.
. "$(dirname "$0")/../cli/common.sh"

got=0
"$MUSTER" run -n 3 "$(dirname "$MUSTER")/tests/accel/agent" > "$OUT" 2> "$ERR" < /dev/null || got=$?
[ $got != 77 ] || skip "no libnccl makes ids here: $(head -n 1 "$ERR")"
[ $got = 0 ] || fail "exit status $got"
read -r _ threads_before threads _ descriptors_before descriptors _ nccl _ itself < "$OUT"
[ "$threads" = "$threads_before" ] || fail "$threads_before threads became $threads"
[ "$descriptors" = "$descriptors_before" ] || fail "$descriptors_before descriptors became $descriptors"
[ "$nccl" = 0 ] || fail "the launcher has mapped libnccl"
[ "$itself" = 1 ] || fail "that was not the launcher's map"
exit 0
