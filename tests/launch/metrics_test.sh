#!/bin/bash
# --metrics: the job's numbers over HTTP while it runs, the adopter's too. The pages themselves are tests/agent's.
. "$(dirname "$0")/../cli/common.sh"
MEMBER=$BUILD/tests/launch/member
[ -x "$MEMBER" ] || fail "$MEMBER is not built"
fetch() { "$PYTHON" -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())' "$URL" > "$OUT"; }
served() { URL=$(sed -n 's/^muster [a-z]*: metrics at \(http.*\)$/\1/p' "$1"); [ -n "$URL" ]; }
shows() { fetch && grep -qE "$1" "$OUT"; }

RUN_OPTIONS="--metrics :0 --restarts 1 --restart-policy task --restart-delay 0 --kill-on-fail=no" start_job 3 "$MEMBER" stay
await "it says where" served "$ERR.run"
await "three are connected" shows '^muster_tasks\{state="connected"\} 3$'
shows "^muster_info\{muster_job=\"$JOB\"" || fail "no job"
set -- $(pids)
kill -KILL "$2"
await "the restart is counted" shows '^muster_restarts_total 1$'
await "the failure is counted" shows '^muster_failures_total 1$'
kill -TERM $RUN
wait $RUN
fetch 2> /dev/null && fail "it is served after the job's end"

# Of programs that never join: who lives, and who has failed.
trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
rm -f "$ERR.run"
RUN_OPTIONS="--metrics :0 --kill-on-fail=no" start_job 3 sh -c '[ $RANK = 1 ] && exit 3; exec sleep 1000'
await "it says where" served "$ERR.run"
await "the failure is counted" shows '^muster_failures_total 1$'
await "two live" shows '^muster_task_alive\{task="0"\} 1$'
shows '^muster_task_alive\{task="1"\} 0$' || fail "the one that has ended lives"
await "how it has ended" shows '^muster_task_exit_code\{task="1"\} 3$'
shows '^muster_task_exit_code\{task="0"\}' && fail "task 0 has not ended"
shows '^muster_task_alive\{task="2"\} 1$' || fail "task 2 does not live"
kill -TERM $RUN
wait $RUN

# On another host as well: one that is started anew there has failed, and lives.
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
rm -f "$ERR.run"
"$MUSTER" run --job "$JOB" --metrics :0 --hosts localhost:1,b:1 --rsh "$TMPDIR/rsh" --restarts 3 --restart-policy task --restart-delay 10ms \
    sh -c '[ $RANK = 1 ] && [ $MUSTER_ATTEMPT -lt 2 ] && exit 5; exec sleep 1000' > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
await "it says where" served "$ERR.run"
await "both failures are counted" shows '^muster_failures_total 2$'
await "both restarts are counted" shows '^muster_restarts_total 2$'
await "it lives" shows '^muster_task_alive\{task="1"\} 1$'
kill -TERM $RUN
wait $RUN

# Where it cannot be served the job does not run.
check 2 "$MUSTER" run --metrics 999.1.1.1:80 true
err_has "^muster run: --metrics: '999.1.1.1' is no numeric address"
for bad in 127.0.0.1:99999 foo '[zz::1]:80'; do
    check 2 "$MUSTER" run --dry-run --metrics "$bad" true
    check 2 "$MUSTER" agent --adopt "$JOB" --metrics "$bad"
    err_is_one_line
done
check 125 "$MUSTER" run --metrics unix:/no-such-folder/x true
err_has "^muster run: no metrics at unix:/no-such-folder/x: .*no such file"

# With each attempt of the job.
check 0 "$MUSTER" run --metrics "unix:$TMPDIR/socket" --restarts 2 --restart-delay 0 sh -c '[ -S "$1" ] && exit $((2 - MUSTER_ATTEMPT))' sh "$TMPDIR/socket"

# Off loopback it says so.
check 0 "$MUSTER" run --metrics '*:0' true
err_has '^muster run: metrics at http://0\.0\.0\.0:[0-9]*/metrics: reachable from other machines, without a key$'
check 0 "$MUSTER" run --metrics :0 true
err_has '^muster run: metrics at http://127\.0\.0\.1:[0-9]*/metrics$'
exit 0
