#!/bin/bash
# run --elastic and scale: a lost task, or another number that is asked for, begins the job anew with other ranks.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" "$@"; }
scale() { "$MUSTER" scale --job "$JOB" "$@"; }
epoch() { "$MUSTER" status --json --job "$JOB" 2> /dev/null > "$TMPDIR/status" && json "it['membership']['epoch']" "$TMPDIR/status"; }
epoch_is() { [ "$(epoch)" = "$1" ]; }
lines() { grep -c "^$1 " "$TMPDIR/out"; }
has_lines() { [ "$(lines "$1")" = "$2" ]; }
start() # OPTIONS...: tasks that say what they are, and then sleep
{
    : > "$TMPDIR/out"
    "$MUSTER" run --job "$JOB" "$@" -- sh -c '
        echo "$MUSTER_ATTEMPT $RANK/$WORLD_SIZE $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS $MUSTER_NUM_TASKS $$"
        exec sleep 600' > "$TMPDIR/out" 2> "$TMPDIR/err" &
    RUN=$!
}
pid_of() { awk -v attempt="$1" -v rank="$2" '$1 == attempt && $2 == rank { print $NF }' "$TMPDIR/out"; } # ATTEMPT RANK/SIZE

# ---- what is asked for ----
start --elastic 2:6 -n 4 --metrics "unix:$TMPDIR/metrics"
await "4 tasks run" has_lines 0 4
check 0 scale +1
out_is "job $JOB has 5 tasks in epoch 2"
await "5 tasks run" has_lines 1 5
check 0 scale --json 6
[ "$(json "[it['epoch'], it['tasks']]")" = '[3, 6]' ] || fail "the JSON is another"
await "6 tasks run" has_lines 2 6
check 0 scale --remove 1 4 1
out_is "job $JOB has 4 tasks in epoch 4"
await "4 tasks run again" has_lines 3 4
check 0 scale 4
out_is "job $JOB has 4 tasks in epoch 4"
check 1 scale 7
err_has '^muster scale: 7 members would be left; the job may have 2 to 6$'
check 1 scale -- -3
check 1 scale --remove 9
err_has 'task 9 is no member'
check 2 scale x
check 2 scale
check 2 scale 3 4
epoch_is 4 || fail "what was refused has begun an epoch"
[ "$(awk '$1 == 3 { print $2 }' "$TMPDIR/out" | sort | tr '\n' ' ')" = '0/4 1/4 2/4 3/4 ' ] || fail "the ranks have gaps"
[ "$(awk '{ print $3 }' "$TMPDIR/out" | sort -u)" = 0 ] || fail "no failure has begun an epoch"

# ---- a task that is lost ----
kill -KILL "$(pid_of 3 1/4)"
await "3 tasks run" has_lines 4 3
grep -q ' 1 of 2 3 ' "$TMPDIR/out" || fail "they are not told how often it was started after a failure"
check 0 "$MUSTER" status --job "$JOB"
out_has '^epoch    5: 3 tasks (2 to 6), for .*; task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL)'
check 0 "$MUSTER" status --json --job "$JOB"
[ "$(json "[it['membership'][k] for k in ('phase', 'size', 'wanted', 'least', 'most', 'anew')]")" = '["steady", 3, 3, 2, 6, true]' ] ||
    fail "the membership is another"
[ "$(json "[m['rank'] for m in it['membership']['members']]")" = '[0, 1, 2]' ] || fail "its members are others"
metrics() { "$PYTHON" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
print(s.makefile().read())' "$TMPDIR/metrics"; }
check 0 metrics
for count in 'epoch"} 5' 'tasks"} 3' 'tasks_wanted"} 3' 'failures"} 1'; do
    out_has "^muster_elastic{count=\"$count$"
done
check 0 scale 2
await "2 tasks run" has_lines 5 2

# Below the least number it ends, with the task's status.
kill -KILL "$(pid_of 5 1/2)"
wait $RUN
[ $? -eq 137 ] || fail "the status is not the lost task's"
cp "$TMPDIR/err" "$ERR"
err_has '^muster run: the job ends: 1 of its 2 tasks is left, and --elastic asks for 2 at least$'
no_segment "$JOB" || fail "a segment is left"
check 3 scale 3

# ---- what follows a failure ----
fails() { "$MUSTER" run --job "$JOB" "$@" -- sh -c 'echo $MUSTER_ATTEMPT $RANK of $WORLD_SIZE; [ $RANK -lt 2 ] || exit 3'; }
check 0 fails --elastic 1:4 # what fails because it is there is left out, one after the other
[ "$(sort "$OUT" | tail -n 2 | tr '\n' ' ')" = '2 0 of 2 2 1 of 2 ' ] || fail "it does not go on with what is left"
check 3 fails --elastic 1:3 --on-failure replace --restarts 2 --restart-delay 1ms
[ "$(grep -c '^[012] 2 of 3$' "$OUT")" -eq 3 ] || fail "not each epoch had three tasks" # the others may end before they speak
err_has '^muster run: the job ends: it was started again after 2 failures already (--restarts)$'
check 3 fails --elastic 1:3 --on-failure end
grep -q '^1 ' "$OUT" && fail "it was started again"

# A task that has ended well is not to be done again.
: > "$TMPDIR/go"
"$MUSTER" run --job "$JOB" --elastic 1:3 -n 2 -- sh -c '[ $RANK = 1 ] || { while [ -e "$0" ]; do sleep 0.02; done; }' "$TMPDIR/go" 2> "$ERR" &
RUN=$!
ended() { "$MUSTER" status --json --job "$JOB" > "$TMPDIR/status" 2> /dev/null && [ "$(json "it['tasks'][1]['ended'] is not None" "$TMPDIR/status")" = true ]; }
await "task 1 has ended" ended
check 1 scale 3
err_has 'change 1 was cancelled: a task has ended already'
rm "$TMPDIR/go"
wait $RUN || fail "the job did not end well"

# A launcher that is stopped takes nothing up: the time of what is asked for ends it, in words.
start --elastic 1:3 -n 1
await "1 task runs" has_lines 0 1
kill -STOP $RUN
check 1 scale 2 --timeout 100ms
err_has 'change 1 was rolled back: its time was over, and the launcher had not taken it up'
kill -CONT $RUN
check 0 scale 2
out_is "job $JOB has 2 tasks in epoch 2"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "the status after SIGTERM"
no_segment "$JOB" || fail "a segment is left"

# ---- what does not go together ----
for options in '--survive' '--memfd' '--mindspore' '--ray' '--tf-master' '--workers 2' '--bind-to core' '--map-by slot' \
    '--kill-on-fail=no' '--restarts 2 --restart-policy task'; do
    check 2 run --elastic 1:2 $options -- true
    err_has '^muster run: --elastic and --[a-z-]* exclude each other: '
done
check 2 run --elastic 1:2 --mpi pmix -- true
check 2 run --elastic 1:2 -n 3 -- true
err_has '^muster run: -n 3 is not within --elastic 1:2'
check 2 run --elastic 1:2 -n 1 -- true : -n 1 true
check 2 run --elastic 1:2 --stdin 1 -- true
check 2 run --elastic 1:2 --output "$TMPDIR/{rank}" -- true
err_has 'lacks {attempt}'
for range in 2 0:2 3:2 1:x :2 1:; do
    check 2 run --elastic $range -- true
    err_has "is no MIN:MAX"
done
check 2 run --on-failure shrink -- true
err_has 'needs --elastic MIN:MAX'
check 2 run --elastic 1:2 --on-failure replace -- true
err_has 'needs --restarts N'
"$MUSTER" run --job "$JOB" -- sleep 600 &
RUN=$!
await "the job is there" "$MUSTER" status --job "$JOB"
check 1 scale 2
err_has 'has no membership'
kill -TERM $RUN
wait $RUN
exit 0
