#!/bin/bash
# --restarts: the whole job, or one task in it.
. "$(dirname "$0")/../cli/common.sh"
MEMBER=$BUILD/tests/launch/member
[ -x "$MEMBER" ] || fail "$MEMBER is not built"
run() { "$MUSTER" run --job "$JOB" --restart-delay 1ms "$@"; }
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "not: $1"; }

# The job: each attempt finds an empty segment, and knows its number; the last one's status counts.
check 0 run -n 2 --restarts 3 bash -c '
    echo $RANK $MUSTER_ATTEMPT $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS
    muster kv insert mark/$RANK x || exit 9
    muster kv get --wait 30s mark/0 > /dev/null || exit 8
    [ $MUSTER_ATTEMPT -eq 2 ] || [ $RANK -eq 0 ] || exit 5'
sorted_is "$(printf '0 0 0 of 3\n0 1 1 of 3\n0 2 2 of 3\n1 0 0 of 3\n1 1 1 of 3\n1 2 2 of 3')"
[ "$(grep -c 'task 1 (pid [0-9]*) exited with status 5' "$ERR")" -eq 2 ] || fail "the failures are not named"
err_has '^muster run: starting the job again in 0.001 s (1 of 3)$'
err_has '^muster run: starting the job again in 0.002 s (2 of 3)$'
check 5 run -n 2 --restarts 1 sh -c 'exit $((5 * RANK))'
[ "$(grep -c 'exited with status 5' "$ERR")" -eq 2 ] || fail "it was not tried twice"
check 0 run -n 2 --restarts 1 true
err_is_empty

# Nothing is started again that was not a task's failure: a signal, the timeout, a command that is not there.
check 127 run --restarts 5 "no-such-$$"
[ "$(wc -l < "$ERR")" -eq 1 ] || fail "a missing command was tried again"
check 124 run --restarts 5 --timeout 200ms sleep 60
! grep -q 'starting the job again' "$ERR" || fail "started again after the timeout"

# A signal or the timeout ends the pause before the next attempt.
"$MUSTER" run --job "$JOB" --restarts 5 --restart-delay 10m false > "$OUT" 2> "$ERR" &
RUN=$!
await "it pauses" grep -q 'starting the job again in 600 s' "$ERR"
no_segment "$JOB" || fail "the segment of the attempt before is there"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "status after SIGTERM in the pause"
check 124 "$MUSTER" run --job "$JOB" --restarts 5 --restart-delay 10m --timeout 300ms false

# One task: its peers run on, its successor has the same number, the next attempt, another process.
check 0 run -n 2 --restarts 3 --restart-policy task bash -c 'echo $RANK $MUSTER_ATTEMPT
    [ $RANK -eq 0 ] && { until [ -e "$1" ]; do sleep 0.02; done; exit 0; }
    [ $MUSTER_ATTEMPT -eq 2 ] || exit 6
    : > "$1"' sh "$TMPDIR/done"
sorted_is "$(printf '0 0\n1 0\n1 1\n1 2')"
err_has '^muster run: task 1 (pid [0-9]*) exited with status 6; starting it again in 0.001 s (1 of 3)$'
check 6 run -n 2 --restarts 1 --restart-policy task sh -c '[ $RANK -eq 0 ] && sleep 60; exit 6'
err_has 'task 1 (pid [0-9]*) exited with status 6; ending the other 1 task'

# Members: peers of a dead one do not fail with it, but wait at the barrier for its successor.
check 0 run -n 3 --restarts 2 --restart-policy task "$MEMBER" again 1 2
[ "$(grep -c '^passed$' "$OUT")" -eq 3 ] || fail "not all have passed the barrier"

# What the failing one leaves behind in its process group does not meet its successor.
check 0 run --restarts 1 --restart-policy task bash -c '[ $MUSTER_ATTEMPT -eq 1 ] && { [ -z "$(pgrep -g $(cat "$1"))" ]; exit; }
    echo $$ > "$1"; sleep 600 & exit 3' sh "$TMPDIR/group"

check 2 run --restart-policy task true
err_has 'needs --restarts N'
check 2 run --restarts x true
check 2 run --restarts 1 --restart-policy all true
err_has "is job or task, not 'all'"
check 2 run --restarts 1 --restart-policy tsk true
err_has "did you mean 'task'?"
no_segment "$JOB" || fail "a segment is left"
exit 0
