#!/bin/bash
# Signals to the launcher: the first ends the job, a second SIGINT within a second kills it, others are passed on.
. "$(dirname "$0")/../cli/common.sh"
set -m # background jobs get SIGINT

cat > "$TMPDIR/task.sh" <<'EOS'
cd "$1"
trap 'echo TERM >> heard.$RANK; [ $2 = deaf ] || exit 0' TERM
trap 'echo INT >> heard.$RANK; [ $2 != mild ] || exit 0' INT
trap 'echo USR1 >> heard.$RANK' USR1
trap 'echo USR2 >> heard.$RANK' USR2
: > ready.$RANK
while :; do sleep 0.05; done
EOS
begin()
{
    rm -f "$TMPDIR"/ready.* "$TMPDIR"/heard.*
    "$MUSTER" run -n 2 --job "$JOB" --grace "$2" bash "$TMPDIR/task.sh" "$TMPDIR" "$1" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    await "the tasks are ready" test -e "$TMPDIR/ready.0" -a -e "$TMPDIR/ready.1"
}
ends_with()
{
    wait $RUN
    local got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    no_segment "$JOB" || fail "a segment is left"
}
heard() { grep -qx "$1" "$TMPDIR/heard.0" 2> /dev/null && grep -qx "$1" "$TMPDIR/heard.1" 2> /dev/null; }

for triple in INT:130:INT TERM:143:TERM HUP:129:TERM; do
    IFS=: read -r given status got <<< "$triple"
    begin mild 10m
    kill -$given $RUN
    ends_with $status
    heard $got || fail "the tasks did not get SIG$got"
    [ "$(cat "$TMPDIR/heard.0" "$TMPDIR/heard.1" | wc -l)" -eq 2 ] || fail "the tasks got more than SIG$got"
    err_has "^muster run: SIG$given: ending 2 tasks$"
done

# After SIGINT those that stay get SIGTERM, within the grace.
begin uninterrupted 2s
kill -INT $RUN
ends_with 130
[ "$(sort -u "$TMPDIR/heard.0" "$TMPDIR/heard.1" | xargs)" = 'INT TERM' ] || fail "not SIGINT, and then SIGTERM"

# What Python, and a program that saves its state, make of ^C.
cat > "$TMPDIR/training.py" <<'EOS'
import sys, time
try:
    open(sys.argv[1], "w").close()
    time.sleep(600)  # sleep: until the signal
except KeyboardInterrupt:
    print("saved")
EOS
"$MUSTER" run --job "$JOB" --grace 10m "$PYTHON" "$TMPDIR/training.py" "$TMPDIR/training" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "the program runs" test -e "$TMPDIR/training"
kill -INT $RUN
ends_with 130
out_is saved

# Deaf tasks: a second SIGINT soon after the first does not wait for the grace.
begin deaf 10m
kill -INT $RUN
await "the tasks have SIGINT" heard INT
kill -INT $RUN
again() { kill -INT $RUN 2> /dev/null; is_gone $RUN; } # were it late, the next pair is not
await "the launcher has ended" again
ends_with 130

# The grace ends deaf tasks too.
begin deaf 100ms
kill -TERM $RUN
ends_with 143

# Passed on.
begin mild 10m
kill -USR1 $RUN
await "the tasks have SIGUSR1" heard USR1
kill -USR2 $RUN
await "the tasks have SIGUSR2" heard USR2

# Stopped and continued together.
stopped() { is_stopped "$1"; }
tasks=$(with_mark "MUSTER_JOB=$JOB" | while read -r p; do grep -qz task.sh /proc/$p/cmdline 2> /dev/null && echo $p; done)
[ -n "$tasks" ] || fail "no tasks found"
kill -TSTP $RUN
await "the launcher is stopped" is_stopped $RUN
for p in $tasks; do await "task $p is stopped" is_stopped "$p"; done
kill -CONT $RUN
not_stopped() { ! is_stopped "$1"; }
for p in $tasks; do await "task $p goes on" not_stopped "$p"; done
kill -TERM $RUN
ends_with 143

# nohup stays nohup.
nohup "$MUSTER" run --job "$JOB" sh -c "until [ -e $TMPDIR/go ]; do sleep 0.05; done" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "it runs" has_segment "$JOB"
kill -HUP $RUN
touch "$TMPDIR/go"
ends_with 0
# Passed on as well: a terminal's change of size.
cat > "$TMPDIR/winch.sh" <<'EOS'
trap 'echo WINCH > "$1/winch.$RANK"; exit 0' WINCH
: > "$1/ready.$RANK"
while :; do sleep 0.05; done # sleep: until the signal
EOS
rm -f "$TMPDIR"/ready.*
"$MUSTER" run -n 2 --job "$JOB" bash "$TMPDIR/winch.sh" "$TMPDIR" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "the tasks are ready" test -e "$TMPDIR/ready.0" -a -e "$TMPDIR/ready.1"
kill -WINCH $RUN
ends_with 0

# A stderr that nobody reads stops neither the timeout nor the grace.
mkfifo "$TMPDIR/unread"
exec 8<> "$TMPDIR/unread"
"$MUSTER" run --job "$JOB" --timeout 300ms --grace 100ms bash -c 'trap "" TERM
    head -c 200000 /dev/zero >&2; sleep 600' > "$OUT" 2>&8 < /dev/null &
RUN=$!
gone() { none_with_mark "MUSTER_JOB=$JOB"; }
await "the segment is there" has_segment "$JOB"
await "the tasks are ended" gone
await "the segment is gone" no_segment "$JOB"
kill -KILL $RUN # it has its last words to say yet
wait $RUN 2> /dev/null
exec 8>&-

# While what the tasks left behind is waited for: a first signal ends the wait for it to go by itself, and no attempt
# follows; a second one within a second does not wait for the grace.
cat > "$TMPDIR/leaves.sh" <<'EOS'
(trap '' TERM INT; : > "$1/left"; while :; do sleep 0.05; done) & # sleep: it lives on
until [ -e "$1/left" ]; do sleep 0.05; done # sleep: until that is deaf
exit 1
EOS
"$MUSTER" run --job "$JOB" --restarts 3 --restart-delay 1ms --grace 10m bash "$TMPDIR/leaves.sh" "$TMPDIR" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "the task has failed" grep -q 'exited with status 1' "$ERR"
kill -TERM $RUN
await "the signal is heard" again
wait $RUN
grep -q 'starting the job again' "$ERR" && fail "another attempt after SIGTERM"
no_segment "$JOB" || fail "a segment is left"

exit 0
