#!/bin/bash
# A task of the job in a pid namespace of its own: its ids mean something else to the others, so they take only its
# liveness words' word for its death, and leave it alone while it lives.
. "$(dirname "$0")/common.sh"
unshare -pf --mount-proc true 2> /dev/null || skip "a pid namespace of our own needs root"

start_job 2 sh -c 'exec sleep 1000'
slots() { "$MUSTER" segment info "$JOB" --json 2> /dev/null | "$PYTHON" -c 'import json, sys
print(json.load(sys.stdin)["slots_live"])'; }
given_back() { [ "$(slots)" -eq "$before" ]; }
watched() { [ "$(slots)" -ge 2 ]; } # by the launcher's second thread, which comes behind the tasks
await "the launcher watches" watched
before=$(slots)
# The pids in there are small; those of our own that have the same numbers are other processes, or none.
unshare -pf --mount-proc --kill-child "$MUSTER" barrier wait apart --task 1 --job "$JOB" > "$OUT.apart" 2>&1 &
apart=$!
await "the task apart is connected" connected 1
waits() { "$MUSTER" task list --job "$JOB" --json 2> /dev/null | grep -q '"in":"barrier apart'; }
await "it waits" waits
[ "$(slots)" -eq $((before + 2)) ] || fail "$(slots) slots live, not $before and two"
check 0 "$MUSTER" barrier wait apart --task 0 --job "$JOB"
wait $apart || fail "the task apart did not pass: $(cat "$OUT.apart")"
await "its slots are given back" given_back

# Killed in there, it is dead out here.
unshare -pf --mount-proc --kill-child "$MUSTER" barrier wait again --task 1 --job "$JOB" > /dev/null 2>&1 &
apart=$!
waits() { "$MUSTER" task list --job "$JOB" --json 2> /dev/null | grep -q '"in":"barrier again'; }
await "it waits" waits
kill -KILL $apart
wait $apart 2> /dev/null
in_error() { "$MUSTER" task list --job "$JOB" --json 2> /dev/null | "$PYTHON" -c '
import json, sys
sys.exit(json.load(sys.stdin)["tasks"][1]["state"] != "ERROR")'; }
await "its death is known" in_error
