#!/bin/bash
# A launcher that is SIGKILLed leaves nothing: no task, no descendant however it hides, no segment, no guard.
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"

# The task, a child, a child in its own session, one of those without the job's mark, one that left the tree.
cat > "$TMPDIR/hide.sh" <<'EOS'
sleep 1000 & # sleep: a child that would outlive us
setsid sleep 1000 &
env -u MUSTER_RUN_ID sleep 1000 &
setsid sh -c 'setsid sleep 1000 & exec sleep 1000' &
exec sleep 1000
EOS
hidden() { [ "$(with_mark "$MARK" | wc -l)" -ge "$1" ]; }
guard_pid() { for p in $(cat /proc/$1/task/$1/children); do
    [ "$(cat /proc/$p/comm)" = muster-guard ] && echo "$p"; done 2> /dev/null; }
has_guard() { [ -n "$(guard_pid "$1")" ]; }

begin()
{
    "$MUSTER" run -n 3 --job "$JOB" "$@" sh "$TMPDIR/hide.sh" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    disown $RUN # the shell need not say that it was killed
    # Three tasks with five descendants each, the launcher and the guard.
    await "all are running" hidden 20
    await "the guard is there" has_guard $RUN
    has_segment "$JOB" || fail "no segment"
    GUARD=$(guard_pid $RUN)
}
nothing_left()
{
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segment "$JOB"
    await "the guard has ended" is_gone "$GUARD"
}

begin
kill -KILL $RUN
nothing_left
err_has "the launcher of job $JOB (pid $RUN) was killed: its tasks are ended, its segment is removed"

# The guard is killed first: there is another.
begin
for i in 1 2 3; do
    old=$GUARD
    kill -KILL "$old"
    other_guard() { has_guard $RUN && [ "$(guard_pid $RUN)" != "$old" ]; }
    await "another guard is there" other_guard
    GUARD=$(guard_pid $RUN)
done
kill -KILL $RUN
nothing_left

# The guard cannot be talked out of it, nor held up by the tasks being stopped.
begin
kill -TERM "$GUARD"; kill -INT "$GUARD"; kill -HUP "$GUARD"
kill -STOP $(with_mark "$MARK" | grep -vxF -e "$RUN" -e "$GUARD")
kill -KILL $RUN
nothing_left

# Killed as early as can be, at many moments: never anything left.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    "$MUSTER" run -n 4 --job "$JOB-$i" sleep 1000 > /dev/null 2>&1 < /dev/null &
    RUN=$!
    disown $RUN
    for ((spin = 0; spin < i * 150; spin++)); do :; done
    kill -KILL $RUN
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segment "$JOB-$i"
done

# A launcher that ends by itself has no guard left either.
check 0 "$MUSTER" run -n 2 --job "$JOB" true
err_is_empty
none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"
no_segment "$JOB" || fail "a segment is left"
exit 0
