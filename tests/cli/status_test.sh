#!/bin/bash
# `muster status`: who is missing, where, since when, and is it dead, stopped or elsewhere? It reads only: it answers
# when every process of the job, the launcher too, is stopped.
. "$(dirname "$0")/common.sh"

check 3 "$MUSTER" status --job "$JOB"
err_is_one_line

# Tasks 0 and 1 wait in a barrier that task 2 does not come to.
start_job 3 sh -c '[ $RANK = 2 ] && exec sleep 1000; exec muster barrier wait ready'
await "two are connected" connected 2
arrived() { "$MUSTER" barrier list --job "$JOB" 2> /dev/null | grep -qE "^ready .* $1/3"; }
await "two have arrived" arrived 2
both_wait() { [ "$("$MUSTER" task list --job "$JOB" --json 2> /dev/null | grep -o '"in":"barrier ready' | wc -l)" -eq 2 ]; }
await "both say that they wait" both_wait
check 0 "$MUSTER" status --job "$JOB"
out_has "^job *$JOB, made by pid $RUN "
out_has '^tasks *3: 2 connected, 0 in error, 1 not connected'
out_has '^0 *CONNECTED *[rs][a-z]*ing *[0-9]* .*barrier ready'
out_has '^2 *DISCONNECTED *[a-z]* *[0-9]'
head -n 1 "$OUT" | grep -qE '^task 2 \(pid [0-9]+\) has never joined(, and [^:]*)?: 2 tasks wait for it in barrier ready, for ' ||
    fail "the first line does not name task 2"
out_has '^ready *0 *WAITING *2/3'
out_has 'missing: task 2, [a-z]*, pid [0-9]*, not registered'
grep -q $'\033' "$OUT" && fail "colours on a file"

check 0 "$MUSTER" status --job "$JOB" --json
err_is_empty
json_is 'it["job"]' "$JOB"
json_is 'it["creator_pid"]' "$RUN"
json_is '[t["state"] for t in it["tasks"]]' '["CONNECTED", "CONNECTED", "DISCONNECTED"]'
json_is '[(b["id"], b["arrived"], [m["task"] for m in b["missing"]]) for b in it["barriers"]]' '[["ready", 2, [2]]]'
json_is 'it["groups"]' '[]'
json_is 'it["diagnosis"][0].split(")")[1][:17]' ' has never joined'
json_is '[t["process"] for t in it["tasks"]]' '["running", "running", "-"]'
json_is 'it["error"]' null
json_is '[(t["alive"], t["joined"], t["pid"] > 0) for t in it["tasks"][1:]]' '[[true, true, true], [true, false, true]]'

# Everything is stopped.
tasks=$(pids)
all="$tasks $RUN $(with_mark "MUSTER_JOB=$JOB" | grep -vxF "$(echo $tasks | tr ' ' '\n')")"
kill -STOP $all
for pid in $all; do await "$pid is stopped" is_stopped "$pid"; done
check 0 timeout 20 "$MUSTER" status --job "$JOB"
out_has '^0 *CONNECTED *stopped'
check 0 timeout 20 "$MUSTER" status --job "$JOB" --json
json_is '[t["process"] for t in it["tasks"]]' '["stopped", "stopped", "-"]'
json_is '[t["alive"] for t in it["tasks"]]' '[true, true, true]'
check 0 timeout 20 "$MUSTER" barrier list --job "$JOB"
check 0 timeout 20 "$MUSTER" kv list --job "$JOB"
check 0 timeout 20 "$MUSTER" segment check "$JOB"
kill -CONT $all

# $MUSTER_JOB, and the only live job.
check 0 env MUSTER_JOB="$JOB" "$MUSTER" status --json
err_is_empty

# The launcher's end is the job's.
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "the launcher did not exit with 143"
check 3 "$MUSTER" status --job "$JOB"

# A segment that cannot be read is said to be one, also by the launcher that would say at its timeout who does what.
check 124 "$MUSTER" run -n 1 --job "$JOB" --timeout 2s --grace 1s -- "$BUILD/tests/cli/worker" damage
err_has '^muster run: timed out after 2 s with 1 of 1 tasks running'
err_has "^what its tasks do is not known: the segment of job $JOB is corrupt: bucket"
await "the segment is gone" no_segment "$JOB"
exit 0
