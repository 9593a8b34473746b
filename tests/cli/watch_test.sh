#!/bin/bash
# `muster status --watch`: pictures one below the other where stdout is no terminal, a document a line with --json. It
# ends with the job, or by a signal, and what only two looks can tell is there from the second on.
. "$(dirname "$0")/common.sh"
WORKER=$BUILD/tests/cli/worker
[ -x "$WORKER" ] || fail "$WORKER is not built"
pictures() { [ "$(grep -sc "$2" "$1")" -ge "$3" ]; } 2> /dev/null

RUN_OPTIONS="--heartbeat-timeout 4s" start_job 3 "$WORKER" away 1 spin
await "all are connected" connected 3
"$MUSTER" status --job "$JOB" --watch=50ms > "$OUT.people" 2> "$ERR.people" &
people=$!
"$MUSTER" status --job "$JOB" -w50ms --json > "$OUT.json" 2> "$ERR.json" &
script=$!
trap 'kill -9 $RUN $people $script 2> /dev/null; wait $RUN $people $script 2> /dev/null' EXIT
await "five pictures were printed" pictures "$OUT.people" "^job  *$JOB," 5
await "five documents were printed" pictures "$OUT.json" '^{.*}$' 5

# The age of every heartbeat becomes known within some periods; the one who spins uses its processor.
known() { tail -n 1 "$OUT.json" > "$OUT.last" && [ "$(json "$1" "$OUT.last")" = true ]; }
await "the heartbeats' ages are known" known 'all(t["heartbeat_age"]["max_ns"] is not None for t in it["tasks"])'
OUT=$OUT.last json_is 'all(t["heartbeat_age"]["max_ns"] >= t["heartbeat_age"]["min_ns"] for t in it["tasks"])' true
await "task 1 is busy, the others are not" known \
    'it["tasks"][1]["cpu_percent"] > 10 and it["tasks"][0]["cpu_percent"] < it["tasks"][1]["cpu_percent"]'
await "task 1 is named" known 'it["diagnosis"][0].startswith("task 1 (pid ")'

# A signal ends it.
kill -TERM $script
wait $script
[ $? -eq 143 ] || fail "SIGTERM: exit status $?"
"$PYTHON" -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$OUT.json" || fail "a line is no JSON"
[ ! -s "$ERR.json" ] || fail "stderr: $(cat "$ERR.json")"

# The job's end is its end.
kill -TERM $RUN
wait $RUN
wait $people
[ $? -eq 0 ] || fail "the job's end: exit status $?"
[ "$(tail -n 1 "$OUT.people")" = "job $JOB has ended" ] || fail "the end is not said"
[ -z "$(sed -n "/^job  *$JOB,/{x;p;x};h" "$OUT.people" | grep -v '^$')" ] || fail "no blank line before a picture's job"
grep -q $'\033' "$OUT.people" && fail "control characters in a file"
pictures "$OUT.people" '^no barriers$\|^BARRIER' 5 || fail "the barriers are not there"

# It does not begin without a job; nobody who reads is no reason to go on.
check 3 "$MUSTER" status --watch --job "$JOB"
start_job 1 "$WORKER" away 0 sleep
await "it is connected" connected 1
"$MUSTER" status --job "$JOB" --watch=20ms 2> "$ERR" | head -n 1 > "$OUT"
[ -s "$OUT" ] || fail "nothing was printed"
exit 0
