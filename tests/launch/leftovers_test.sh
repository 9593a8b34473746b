#!/bin/bash
# What the tasks leave running when they end is ended too, and said.
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"

LONG=1000.$$ # tells our sleeps from others', where the mark is gone
sleeping() { local f; for f in /proc/[0-9]*/cmdline; do grep -qzxF "$LONG" "$f" 2> /dev/null && return; done; return 1; }

for how in "sleep $LONG &" "setsid sleep $LONG &" "setsid sh -c 'env -i /bin/sleep $LONG &'" \
    "trap '' TERM; setsid sleep $LONG &"; do
    check 0 "$MUSTER" run -n 2 --job "$JOB" --grace 100ms -- sh -c "$how
        exit 0"
    err_has '^muster run: the tasks left [0-9]* processes behind (pid [0-9]*, sleep): ending them$'
    none_with_mark "$MARK" || fail "a process is left after: $how"
    sleeping && fail "a sleep is left after: $how"
done

# Those that end by themselves are waited for, and nothing is said.
check 0 "$MUSTER" run sh -c '{ sleep 0.1; echo late; } &'
out_is late
err_is_empty

# What was the launcher's child before its exec, as a script's tee, is not the tasks': it gets all output, and lives on.
: > "$TMPDIR/log"
check 3 bash -c 'exec > >(sleep 0.3; exec cat > "$1") 2>&1; exec "$2" run -l -n 2 sh -c "echo hi; exit 3"' bash \
    "$TMPDIR/log" "$MUSTER"
end_of_log() { grep -q "exited with status 3" "$TMPDIR/log" && grep -q "^.[01]. hi$" "$TMPDIR/log"; }
await "the script's own child has written everything" end_of_log
grep -q 'left .* behind' "$TMPDIR/log" && fail "a process that the tasks did not leave is ended: $(cat "$TMPDIR/log")"
check 0 bash -c 'sleep 1000.5 & echo $! > "$1"; exec "$2" run -n 2 true' bash "$TMPDIR/preexisting" "$MUSTER"
err_is_empty
kill "$(cat "$TMPDIR/preexisting")" || fail "a process that is none of the tasks' was ended"

# Failure: descendants go with their task.
check 3 "$MUSTER" run -n 2 --grace 100ms sh -c 'sleep 1000 & [ $RANK = 1 ] && exit 3; wait'
none_with_mark "$MARK" || fail "a process is left"

# A job inside a job: the inner one goes with the outer.
"$MUSTER" run -n 2 --job "$JOB" "$MUSTER" run -n 2 sleep 1000 > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
inner() { [ "$(ls /dev/shm | grep -c "^muster-$(id -u)-run-")" -ge 2 ] && [ "$(with_mark "$MARK" | wc -l)" -ge 10 ]; }
await "the inner jobs are running" inner
names=$("$MUSTER" segment list --names)
disown $RUN
kill -KILL $RUN
await "no process is left" none_with_mark "$MARK"
for name in $names; do
    case $name in "$JOB" | run-*) await "segment $name is gone" no_segment "$name" ;; esac
done
# A job inside the job: its launcher is killed with the rest, its guard has time to remove its segment.
"$MUSTER" run --job "$JOB" --grace 200ms sh -c 'exec muster run --job "$1" sh -c "trap \"\" TERM; : > \"\$1\"; while :; do sleep 0.1; done" sh "$2"' \
    sh "$JOB-inner" "$TMPDIR/deaf" > "$OUT" 2> "$ERR" < /dev/null & # sleep: the inner task's work
RUN=$!
await "the inner task is deaf" test -e "$TMPDIR/deaf"
has_segment "$JOB-inner" || fail "there is no job inside the job"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "exit status"
no_segment "$JOB-inner" || fail "the inner job's segment is left"
no_segment "$JOB" || fail "a segment is left"
exit 0
