#!/bin/bash
# run --elastic --live: programs wait for each epoch themselves, and those that stay are not started again.
. "$(dirname "$0")/../cli/common.sh"
EPOCHS=$BUILD/tests/launch/epochs
[ -x "$EPOCHS" ] || fail "$EPOCHS is not built"
scale() { "$MUSTER" scale --job "$JOB" "$@"; }
has_lines() { [ "$(grep -c "^$1 " "$TMPDIR/out")" = "$2" ]; }
start() # OPTIONS... -- WORDS...
{
    : > "$TMPDIR/out"
    "$MUSTER" run --job "$JOB" --elastic 2:6 --live "$@" > "$TMPDIR/out" 2> "$TMPDIR/err" &
    RUN=$!
}
# EPOCH: its ranks, with the tasks that have them.
ranks() { awk -v epoch="$1" '$1 == epoch { print $2 ":" $4 }' "$TMPDIR/out" | sort | tr '\n' ' '; }
pid_of() { awk -v epoch="$1" -v task="$2" '$1 == epoch && $4 == task { print $6 }' "$TMPDIR/out"; }
ranks_are() { [ "$(ranks "$1")" = "$2 " ] || fail "epoch $1 has $(ranks "$1")"; }
ends() # STATUS
{
    local got=0
    wait $RUN || got=$?
    cp "$TMPDIR/err" "$ERR"
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    no_segment "$JOB" || fail "a segment is left"
}

start -n 4 -- "$EPOCHS"
await "4 tasks are in epoch 1" has_lines 1 4
ranks_are 1 '0/4:0 1/4:1 2/4:2 3/4:3'
check 0 scale +1
out_is "job $JOB has 5 tasks in epoch 2"
await "5 tasks are in epoch 2" has_lines 2 5
for task in 0 1 2 3; do
    [ "$(pid_of 1 $task)" = "$(pid_of 2 $task)" ] || fail "task $task was started again"
done
kill -KILL "$(pid_of 2 1)"
await "4 tasks are in epoch 3" has_lines 3 4
ranks_are 3 '0/4:0 1/4:2 2/4:3 3/4:4'
check 0 scale 6 # the lost one's number is taken again
await "6 tasks are in epoch 4" has_lines 4 6
ranks_are 4 '0/6:0 1/6:2 2/6:3 3/6:4 4/6:1 5/6:5'
check 0 scale --remove 0 3
await "4 tasks are in epoch 5" has_lines 5 4
ranks_are 5 '0/4:2 1/4:4 2/4:1 3/4:5'
gone() { ! kill -0 "$1" 2> /dev/null; }
await "task 0 has left" gone "$(pid_of 4 0)"
check 1 scale 7
err_has '7 members would be left; the job may have 2 to 6'
check 0 "$MUSTER" status --job "$JOB"
out_has '^epoch    5: 4 tasks (2 to 6), for '
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL).*; epoch 3 goes on with 4 tasks$'

# Fewer than there must be: the loss is the job's failure.
start -n 2 -- "$EPOCHS"
await "2 tasks are in epoch 1" has_lines 1 2
kill -KILL "$(pid_of 1 1)"
ends 137
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL).*; ending the other 1 task$'

# Another takes the place of the lost one.
start -n 3 --on-failure replace --restarts 1 -- "$EPOCHS"
await "3 tasks are in epoch 1" has_lines 1 3
kill -KILL "$(pid_of 1 0)"
await "3 tasks are in epoch 3" has_lines 3 3
ranks_are 2 '0/2:1 1/2:2'
ranks_are 3 '0/3:1 1/3:2 2/3:0'
kill -KILL "$(pid_of 3 1)" # and no other, for it was said how often
await "2 tasks are in epoch 4" has_lines 4 2
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0

# One that ends before it takes part brings its change back, by name; the others go on as they were.
start -n 2 -- "$EPOCHS" 2
await "2 tasks are in epoch 1" has_lines 1 2
check 1 scale 3
err_has 'change 1 was cancelled: task 2 (pid [0-9]*), which was to come, exited with status 3'
check 0 "$MUSTER" status --job "$JOB"
out_has '^epoch    1: 2 tasks (2 to 6)'
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0

start -n 2 -- sh -c '[ "$MUSTER_TASK_ID" -lt 2 ] || exit 0; exec "$1"' sh "$EPOCHS" # nor is it started again and again
await "2 tasks are in epoch 1" has_lines 1 2
check 1 scale 3
err_has 'change 1 was cancelled: task 2 (pid [0-9]*), which was to come, exited with status 0'
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0

# Nor does one that cannot be started end the job: its change is over, and a later one can have it.
cp "$EPOCHS" "$TMPDIR/epochs"
start -n 2 -- "$TMPDIR/epochs"
await "2 tasks are in epoch 1" has_lines 1 2
mv "$TMPDIR/epochs" "$TMPDIR/away"
check 1 scale 3
err_has 'change 1 was cancelled: task 2, which was to come, cannot be started'
mv "$TMPDIR/away" "$TMPDIR/epochs"
check 0 scale 3
await "3 tasks are in epoch 2" has_lines 2 3
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0

# Tasks that do not wait for epochs are named, and the newcomer is ended.
start -n 2 --grace 10ms -- sleep 600
await "the job is there" "$MUSTER" status --job "$JOB"
check 1 scale 3 --timeout 300ms
err_has 'change 1 was rolled back: its time was over, and task 0.* had not said ready'
newcomer_is_gone() { "$MUSTER" status --json --job "$JOB" > "$TMPDIR/status" && [ "$(json "it['tasks'][2]['alive']" "$TMPDIR/status")" = false ]; }
await "the newcomer is ended" newcomer_is_gone
kill -TERM $RUN
ends 143

# A member that has left well stays one, so no other number can be had.
start -n 3 --grace 10ms -- sh -c '[ "$MUSTER_TASK_ID" = 2 ] || exec "$1"; echo $$ > "$3"; exec "$2" barrier wait b --tasks 2' sh \
    "$EPOCHS" "$MUSTER" "$TMPDIR/leaver"
leaver_is_gone() { [ -s "$TMPDIR/leaver" ] && gone "$(cat "$TMPDIR/leaver")"; }
await "task 2 has left" leaver_is_gone
is_refused() { ! scale --timeout 200ms 2 > "$TMPDIR/scaled" 2>&1 && grep -q 'task 2 has left already' "$TMPDIR/scaled"; }
await "2 tasks of 3 are no number to ask for" is_refused
kill -TERM $RUN
ends 143

check 2 "$MUSTER" run --live -- true
check 2 "$MUSTER" run --elastic 1:2 --live --restarts 1 --on-failure restart -- true
check 2 "$MUSTER" run --elastic 1:2 --live --grpc -- true
check 2 "$MUSTER" run --elastic 1:2 --live --mpi pmi1 -- true
exit 0
