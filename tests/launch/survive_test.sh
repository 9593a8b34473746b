#!/bin/bash
# --survive: the launcher is killed, the tasks go on; another agent takes over, and may be killed too.
. "$(dirname "$0")/../cli/common.sh"
cat > "$TMPDIR/task.sh" <<'EOS'
until [ -e "$1/stop" ]; do
    muster kv increment beat/$RANK > /dev/null || exit 9
    sleep 0.02 # sleep: between two beats
done
echo "ended $RANK"
EOS
beats() { "$MUSTER" kv get --job "$JOB" beat/$1 2> /dev/null; }
grows() # the counter of task $1 does, from here on
{
    local from
    from=$(beats $1)
    further() { [ "$(beats $1)" -gt "$from" ] 2> /dev/null; }
    await "task $1 goes on" further $1
}
begin() # start it, and kill its launcher
{
    rm -f "$TMPDIR/stop"
    "$MUSTER" run -n 2 --job "$JOB" --survive --output "$TMPDIR/out-{rank}" bash "$TMPDIR/task.sh" "$TMPDIR" \
        > "$OUT.run" 2> "$ERR.run" < /dev/null &
    RUN=$!
    await "task 0 beats" beats 0 > /dev/null
    await "task 1 beats" beats 1 > /dev/null
    check 125 "$MUSTER" agent --adopt "$JOB"
    err_has "the launcher of job $JOB (pid $RUN) lives"
    kill -KILL $RUN
    wait $RUN 2> /dev/null
    await "the guard says so" grep -q "its tasks go on; 'muster agent --adopt' takes them over" "$ERR.run"
    grows 0
    grows 1
}
adopt()
{
    "$MUSTER" agent --adopt "$JOB" "$@" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    await "the job is adopted" grep -q "job $JOB adopted: 2 of 2 tasks are running" "$ERR"
}
ends_with()
{
    wait $RUN
    local got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    no_segment "$JOB" || fail "a segment is left"
    await "nothing of it is alive" none_with_mark "MUSTER_JOB=$JOB"
}
trap 'touch "$TMPDIR/stop"; kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT

# By themselves, to the end: the guard removes the segment.
begin
: > "$TMPDIR/stop"
await "the segment is gone" no_segment "$JOB"
await "nothing is alive" none_with_mark "MUSTER_JOB=$JOB"
[ "$(cat "$TMPDIR/out-0" "$TMPDIR/out-1")" = "$(printf 'ended 0\nended 1')" ] || fail "their output"

# Adopted; a second agent is refused; the first is killed, and the job survives that; the next sees it to its end.
begin
adopt
check 125 "$MUSTER" agent --adopt "$JOB"
err_has 'has been adopted already'
kill -KILL $RUN
wait $RUN 2> /dev/null
grows 0
adopt
grows 1
: > "$TMPDIR/stop"
ends_with 0

# A task that dies is in error; the adopter names it, and ends the others.
"$MUSTER" run -n 2 --job "$JOB" --survive "$BUILD/tests/launch/member" stay > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
await "both are connected" connected 2
kill -KILL $RUN
wait $RUN 2> /dev/null
adopt
set -- $(pids)
kill -KILL "$2"
ends_with 1
err_has "^muster agent: task 1 (pid $2) has failed: "

# What the tasks leave behind is told to end, and then made to.
rm -f "$TMPDIR/left" "$TMPDIR/told" "$TMPDIR/go"
"$MUSTER" run --job "$JOB" --survive bash -c '(trap "echo > \"$1/told\"" TERM; : > "$1/left"; while :; do sleep 0.02; done) & # sleep: it stays
    until [ -e "$1/go" ]; do sleep 0.02; done' bash "$TMPDIR" > "$OUT.run" 2> "$ERR.run" < /dev/null & # sleep: until told
RUN=$!
await "it has left something" test -e "$TMPDIR/left"
kill -KILL $RUN
wait $RUN 2> /dev/null
await "the guard says so" grep -q "its tasks go on" "$ERR.run"
"$MUSTER" agent --adopt "$JOB" --grace 100ms > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "the job is adopted" grep -q "job $JOB adopted: 1 of 1 tasks are running" "$ERR"
: > "$TMPDIR/go"
ends_with 0
[ -e "$TMPDIR/told" ] || fail "what was left was not told to end"

# A task that failed before it was adopted is known by the segment.
"$MUSTER" run -n 2 --job "$JOB" --survive --kill-on-fail=no "$BUILD/tests/launch/member" stay > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
await "both are connected" connected 2
set -- $(pids)
kill -KILL $RUN
wait $RUN 2> /dev/null
kill -STOP "$2" # it would end by the other's death, and the job with it
kill -KILL "$1"
"$MUSTER" agent --adopt "$JOB" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "it says what has failed" grep -q "^muster agent: task 0 (pid $1) has failed: " "$ERR"
kill -CONT "$2"
ends_with 1

# More tasks than the guard may have open files: it waits for every one.
(ulimit -Sn 64; exec "$MUSTER" run -n 100 --job "$JOB" --survive sh -c '[ $RANK -eq 99 ] && wait=last || wait=others
    until [ -e "$1/$wait" ]; do sleep 0.2; done' sh "$TMPDIR") > "$OUT.run" 2> "$ERR.run" < /dev/null & # sleep: their work
RUN=$!
last()
{
    LAST=$(for pid in $(with_mark "MUSTER_JOB=$JOB"); do grep -qzxF MUSTER_TASK_ID=99 "/proc/$pid/environ" 2> /dev/null && echo "$pid"; done)
    [ -n "$LAST" ]
}
await "the last task is there" last
launcher_sleeps() { [ "$(sed 's/.*) //' "/proc/$RUN/stat" | cut -c1)" = S ]; }
await "the launcher has noted its pid" launcher_sleeps
kill -KILL $RUN
wait $RUN 2> /dev/null
await "the guard says so" grep -q "its tasks go on" "$ERR.run"
: > "$TMPDIR/others"
others() { [ "$(with_mark "MUSTER_JOB=$JOB" | wc -l)" -le 2 ]; }
await "the others have ended" others
has_segment "$JOB" || fail "the segment went before the last task"
is_gone "$LAST" && fail "the last task was ended"
: > "$TMPDIR/last"
await "the segment is gone" no_segment "$JOB"

# Another user's job of the same name is not taken for ours.
if muster_for 65534; then
    setpriv --reuid=65534 --clear-groups "$THEIRS" run -n 3 --job "$JOB" --survive sleep 60 > "$OUT.run" 2> "$ERR.run" < /dev/null &
    OTHER=$!
    started() { [ "$(with_mark "MUSTER_JOB=$JOB" | wc -l)" -ge 3 ]; }
    await "its tasks are there" started # its segment is there before them
    kill -KILL $OTHER
    wait $OTHER 2> /dev/null
    await "its guard says so" grep -q "its tasks go on" "$ERR.run"
    check 125 "$MUSTER" agent --adopt "$JOB"
    begin
    adopt # it says: 2 of 2
    kill -TERM $RUN
    ends_with_ours() { wait $RUN; [ $? -eq 143 ] && no_segment "$JOB"; }
    ends_with_ours || fail "our own job"
    [ "$(pgrep -c -u 65534 -x sleep)" -ge 3 ] || fail "the other user's tasks were ended"
    setpriv --reuid=65534 --clear-groups "$THEIRS" agent --adopt "$JOB" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    await "its owner has it" grep -q "3 of 3 tasks are running" "$ERR"
    kill -TERM $RUN
    wait $RUN
fi

# Told to end by a signal, it ends the tasks.
begin
adopt --grace 10s
kill -TERM $RUN
ends_with 143

# What nobody can adopt.
check 125 "$MUSTER" agent --adopt "$JOB"
err_is_one_line
start_job 1 sleep 60
check 125 "$MUSTER" agent --adopt "$JOB"
err_has 'lives'
kill -TERM $RUN
wait $RUN
check 2 "$MUSTER" agent
err_has 'or --adopt JOB '
check 2 "$MUSTER" run --survive --label true
check 2 "$MUSTER" run --survive --stdin all true
check 2 "$MUSTER" run --survive --memfd true
exit 0
