#!/bin/bash
# A host whose agent has died is not awaited for the heartbeat timeout when the job ends: its connection has ended, and
# who lives comes again within a second. The other host is this machine again, and its command outlives the agent.
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/relay.sh"
cat > "$TMPDIR/rsh" <<EOS
#!/bin/bash
shift
exec 3<&0
eval "\$* <&3 &"
echo \$! > "$TMPDIR/agent"
exec sleep 1000 # sleep: nobody learns from this command that the agent is gone
EOS
cat > "$TMPDIR/task" <<EOS
#!/bin/bash
touch "$TMPDIR/task.\$MUSTER_TASK_ID"
[ \$MUSTER_ATTEMPT = 0 ] || touch "$TMPDIR/again"
until [ \$MUSTER_TASK_ID = 0 ] && [ -e "$TMPDIR/go" ]; do sleep 0.02; done # sleep: between two looks
exit 3
EOS
chmod +x "$TMPDIR/task"

# The end is known, and not how its tasks are: where its network alone is gone they may run, so none is started again.
run --hosts localhost:1,b:1 --heartbeat-timeout 10m --grace 200ms --restarts 1 --restart-delay 0 -- "$TMPDIR/task" > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
both() { [ -e "$TMPDIR/task.0" ] && [ -e "$TMPDIR/task.1" ]; }
await "both tasks run" both
kill -KILL "$(cat "$TMPDIR/agent")"
is_down() { "$MUSTER" status --job "$JOB" --json > "$OUT" && [ "$(json 'it["hosts"][1]["state"]')" = down ]; }
await "the leader sees that the connection has ended" is_down
touch "$TMPDIR/go"
has_ended() { ! kill -0 $RUN 2> /dev/null; }
await "the job ends" has_ended
wait $RUN
[ $? -eq 3 ] || fail "exit status: $(cat "$ERR.run")"
cp "$ERR.run" "$ERR"
err_has '^muster run: task 0 (host [^ ]*, pid [0-9]*) exited with status 3'
err_has '^muster run: host b is lost: the job ends, and it has no agent;'
err_has '^muster run: the job is not started again: nobody knows whether the lost host'
[ ! -e "$TMPDIR/again" ] || fail "it was started again"
clean
exit 0
