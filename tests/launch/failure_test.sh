#!/bin/bash
# Tasks that have joined the job: when one dies, stops or reports an error, the others learn who it was, and the
# launcher names that one, not the first whose process was reaped.
. "$(dirname "$0")/../cli/common.sh"
MEMBER=$BUILD/tests/launch/member
[ -x "$MEMBER" ] || fail "$MEMBER is not built"

# Killed: the survivors learn of it before they are ended; here they leave in good order by themselves.
RUN_OPTIONS="--kill-on-fail=no" start_job 4 "$MEMBER" learn
await "all four are connected" connected 4
set -- $(pids)
kill -KILL "$3"
wait $RUN
[ $? -eq 137 ] || fail "exit status"
cp "$OUT.run" "$OUT"; cp "$ERR.run" "$ERR"
for i in 0 1 3; do out_has "^task $i learned of task 2: "; done
err_has "^muster run: task 2 (pid $3) was killed by signal 9 (SIGKILL)$"

# The default: the job ends, the root cause is the killed one, whatever its peers' exit statuses.
start_job 4 "$MEMBER" stay
await "all four are connected" connected 4
set -- $(pids)
kill -KILL "$2"
wait $RUN
[ $? -eq 137 ] || fail "exit status"
cp "$ERR.run" "$ERR"
err_has "^muster run: task 1 (pid $2) was killed by signal 9 (SIGKILL)"
no_segment "$JOB" || fail "a segment is left"

# A large process takes long to be torn down: its peers have failed, and been reaped, before it. It is named all the same.
start_job 4 "$MEMBER" stay 512
await "task 1 has filled its memory" "$MUSTER" kv get --job "$JOB" filled > /dev/null 2>&1
await "all four are connected" connected 4
set -- $(pids)
kill -KILL "$2"
wait $RUN
[ $? -eq 137 ] || fail "exit status"
cp "$ERR.run" "$ERR"
err_has "^muster run: task 1 (pid $2) was killed by signal 9 (SIGKILL)"

# Exits without leaving: 0 is no failure for the launcher, but the others, who need it, are told.
check 7 "$MUSTER" run -n 2 --job "$JOB" --kill-on-fail=no "$MEMBER" exit 0 1
err_has '^member: .*task 1'
check 9 "$MUSTER" run -n 2 --job "$JOB" "$MEMBER" exit 9 1 # its peer may exit with 7 meanwhile
err_has '^muster run: task 1 (pid [0-9]*) exited with status 9'

# By its own word.
check 0 "$MUSTER" run -n 3 --job "$JOB" "$MEMBER" report 'out of cheese'
for i in 0 1 2; do out_has "^task $i learned of task 1: .*out of cheese"; done

# Stopped, every one of them: the launcher notices.
RUN_OPTIONS="--heartbeat-timeout 500ms" start_job 2 "$MEMBER" stay
await "both are connected" connected 2
tasks=$(pids)
kill -STOP $tasks
in_error() { "$MUSTER" status --job "$JOB" --json | grep -q '"cause":"silent"'; }
await "a task is in error" in_error
check 0 "$MUSTER" status --job "$JOB"
out_has 'ERROR *stopped'
check 0 "$MUSTER" task error --job "$JOB" --json
json_is 'it["cause"]' silent
said() { grep -q 'muster run: task [01] (pid [0-9]*) is in error: ' "$ERR.run"; }
await "the launcher has said so" said
kill -CONT $tasks
kill -TERM $RUN
wait $RUN
"$MUSTER" segment list --names | grep -qx "$JOB" && fail "a segment is left"
exit 0
