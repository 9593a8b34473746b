#!/bin/bash
# Of two runs with one job name the second is refused and told who holds the name; the first goes on.
. "$(dirname "$0")/../cli/common.sh"

start_job 2 sleep 1000
for i in 1 2 3; do
    check 125 "$MUSTER" run --job "$JOB" true
    err_has "^muster run: job $JOB is running already: pid $RUN holds the name"
    err_is_one_line
done
has_segment "$JOB" || fail "the refused run took the segment with it"
check 0 "$MUSTER" status --job "$JOB"
kill -TERM $RUN
wait $RUN

# Many at once: exactly one wins.
for i in 1 2 3 4 5 6 7 8; do
    { "$MUSTER" run --job "$JOB" sh -c "until [ -e $TMPDIR/go ]; do sleep 0.02; done" > /dev/null 2>&1 < /dev/null
      echo $? > "$TMPDIR/status.$i"; } &
done
seven() { [ "$(cat "$TMPDIR"/status.* 2> /dev/null | grep -cx 125)" -eq 7 ]; }
await "seven are refused" seven
has_segment "$JOB" || fail "the winner has no segment"
touch "$TMPDIR/go"
wait
[ "$(cat "$TMPDIR"/status.* | grep -cx 0)" -eq 1 ] || fail "not exactly one won"

# Of a job that has outlived its launcher a process that lives is named.
"$MUSTER" run --job "$JOB" --survive muster kv get --wait 10m never > /dev/null 2>&1 < /dev/null &
RUN=$!
disown $RUN
joined() { "$MUSTER" task list --job "$JOB" | grep -q CONNECTED; }
await "the task has joined" joined
kill -KILL $RUN
await "the launcher is gone" is_gone $RUN
check 125 "$MUSTER" run --job "$JOB" true
HOLDER=$(sed -n "s/^muster run: job $JOB is running already: pid \([0-9]*\) holds the name.*/\1/p" "$ERR")
[ -n "$HOLDER" ] && kill -KILL "$HOLDER" || fail "the holder named does not live"
await "its guard has removed it" no_segment "$JOB"

# What a run whose processes are all dead left behind is replaced. (The guard is killed first, so it is left at all.)
"$MUSTER" run --job "$JOB" sleep 1000 > /dev/null 2>&1 < /dev/null &
RUN=$!
disown $RUN
await "it runs" has_segment "$JOB"
has_guard() { for p in $(cat /proc/$RUN/task/$RUN/children); do
    [ "$(cat /proc/$p/comm 2> /dev/null)" = mu-guard ] && GUARD=$p && return; done; return 1; }
await "the guard is there" has_guard
kill -STOP $RUN
kill -KILL "$GUARD" $RUN
await "the launcher is gone" is_gone $RUN
has_segment "$JOB" || fail "nothing was left to be replaced"
check 0 "$MUSTER" segment list
check 0 "$MUSTER" run --job "$JOB" true
no_segment "$JOB" || fail "a segment is left"
exit 0
