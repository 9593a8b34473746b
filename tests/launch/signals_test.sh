#!/bin/bash
# Signals to the launcher: the first ends the job, a second SIGINT within a second kills it, others are passed on.
. "$(dirname "$0")/../cli/common.sh"
set -m # background jobs get SIGINT

cat > "$TMPDIR/task.sh" <<'EOS'
cd "$1"
trap 'echo TERM >> heard.$RANK; [ $2 = deaf ] || exit 0' TERM
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

for pair in INT:130 TERM:143 HUP:129; do
    begin mild 10m
    kill -${pair%:*} $RUN
    ends_with ${pair#*:}
    heard TERM || fail "the tasks did not get SIGTERM"
    err_has "^muster run: SIG${pair%:*}: ending 2 tasks$"
done

# Deaf tasks: a second SIGINT soon after the first does not wait for the grace.
begin deaf 10m
kill -INT $RUN
await "the tasks have SIGTERM" heard TERM
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
exit 0
