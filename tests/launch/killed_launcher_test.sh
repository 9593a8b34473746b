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
    [ "$(cat /proc/$p/comm)" = mu-guard ] && echo "$p"; done 2> /dev/null; }
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

# Tasks that fork and end every two milliseconds: no listing of processes shows the one that lives. One stays in its
# task's group, one leaves it.
cat > "$TMPDIR/hop.py" <<'EOS'
import os, sys, time
if os.fork():
    time.sleep(1000)
if sys.argv[1] == "apart":
    os.setsid()
until = time.monotonic() + 2
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
os.execlp("sleep", "sleep", "1000")
EOS
for how in near apart near apart; do
    "$MUSTER" run -n 1 --job "$JOB" python3 "$TMPDIR/hop.py" $how > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    disown $RUN
    await "the task is there" hidden 3
    await "the guard is there" has_guard $RUN
    GUARD=$(guard_pid $RUN)
    sleep 0.3 # sleep: it forks meanwhile, and shows nothing of it
    kill -KILL $RUN
    await "the guard has ended" is_gone "$GUARD"
    # At once: what had escaped would be a process without end.
    none_with_mark "$MARK" || fail "a task that forks ($how) leaves $(with_mark "$MARK" | tr '\n' ' ')"
    await "no segment is left" no_segment "$JOB"
done

# Its sockets go, one by a relative path too, and the segment's file, though it is none any more; what others have put
# in their places stays.
listens() { "$PYTHON" -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(1000)' "$1" & OTHER=$!; }
serves() { [ -S "$TMPDIR/grpc" ] && [ -S "$TMPDIR/metrics" ]; }
for how in ours theirs; do
    cd "$TMPDIR" || fail "no folder"
    begin --grpc=unix:grpc --metrics "unix:$TMPDIR/metrics"
    cd "$OLDPWD" || fail "no folder"
    await "it listens" serves
    kill -STOP $RUN
    if [ $how = theirs ]; then
        rm "$TMPDIR/grpc" "$TMPDIR/metrics" "$(segment_file "$JOB")"
        MUSTER_TEST_MARK='' listens "$TMPDIR/grpc"
        await "another listens" test -S "$TMPDIR/grpc"
        "$PYTHON" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$TMPDIR/metrics"
        echo theirs > "$(segment_file "$JOB")"
    else
        truncate -s 5000 "$(segment_file "$JOB")"
    fi
    kill -KILL $RUN
    await "the guard has ended" is_gone "$GUARD"
    none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"
    if [ $how = theirs ]; then
        serves || fail "the guard has removed another's socket: $(ls "$TMPDIR")"
        has_segment "$JOB" || fail "the guard has removed another's file"
        kill $OTHER
        rm "$TMPDIR/grpc" "$TMPDIR/metrics" "$(segment_file "$JOB")"
    else
        [ ! -e "$TMPDIR/grpc" ] && [ ! -e "$TMPDIR/metrics" ] || fail "a socket is left: $(ls "$TMPDIR")"
        no_segment "$JOB" || fail "the file of a truncated segment is left"
    fi
done

# 'pkill -9 muster', with -f too, ends launchers; the guard, which cleans up, is no match.
"$MUSTER" run --job "plain$$" sleep 1000 > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
disown $RUN
await "the guard is there" has_guard $RUN
GUARD=$(guard_pid $RUN)
grep -q muster "/proc/$GUARD/comm" "/proc/$GUARD/cmdline" && fail "'pkill muster' matches the guard"
[ "$(sed 's/.*) //' "/proc/$GUARD/stat" | cut -d' ' -f4)" = "$GUARD" ] || fail "the guard has no session of its own"
kill -KILL $RUN
await "the guard has ended" is_gone "$GUARD"
await "no segment is left" no_segment "plain$$"
await "no process is left" none_with_mark "$MARK"

# A launcher that ends by itself has no guard left either.
check 0 "$MUSTER" run -n 2 --job "$JOB" true
err_is_empty
none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"
no_segment "$JOB" || fail "a segment is left"
exit 0
