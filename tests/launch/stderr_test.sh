#!/bin/bash
# The task that failed first is named with its last lines of stderr, where these pass through the launcher; and how it
# ended is explained.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" "$@"; }

# As it comes, bytes and all, in order; then the end of the failing one's.
check 4 run -n 3 sh -c '[ $RANK = 2 ] || sleep 60; printf "one\ntwo" >&2; exit 4'
[ "$(tail -n 3 "$ERR")" = "$(printf "muster run: the last 2 lines of task 2's stderr:\n    one\n    two")" ] || fail "tail"
grep -q '^one$' "$ERR" || fail "what it wrote is not there as it wrote it"
check 0 run sh -c 'head -c 300000 /dev/urandom | tee "$1" >&2' sh "$TMPDIR/random"
cmp -s "$ERR" "$TMPDIR/random" || fail "bytes were changed"

# Labelled too; nothing is said of who wrote nothing; a long line is cut, not lost in the stream.
check 4 run --label sh -c 'echo last words >&2; exit 4'
err_has "^\[0\] last words$"
[ "$(tail -n 2 "$ERR")" = "$(printf "muster run: the last line of task 0's stderr:\n    last words")" ] || fail "labelled tail"
check 4 run sh -c 'exit 4'
err_is_one_line
check 4 run sh -c 'head -c 100000 /dev/zero | tr "\0" z >&2; exit 4'
[ "$(tr -cd z < "$ERR" | wc -c)" -gt 100000 ] || fail "a long line"

check 4 run sh -c 'yes "$(head -c 459 /dev/zero | tr "\0" y)" | head -n 60 >&2; printf "a\0b\n" >&2; exit 4'
err_has '^    \.\.\.y*$'
[ "$(tail -n 1 "$ERR" | tr '\0' 0)" = '    a0b' ] || fail "a NUL"

# Several that fail are each followed by their own words.
check 0 run -n 6 --restarts 1 --restart-policy task --restart-delay 0 sh -c '[ $MUSTER_ATTEMPT = 1 ] || { echo "word $RANK" >&2; exit 3; }'
for i in 0 1 2 3 4 5; do
    [ "$(grep -A 1 "last line of task $i's stderr" "$ERR" | tail -n 1)" = "    word $i" ] || fail "the words of task $i"
done

# In one file with stdout, the order is kept.
run sh -c 'i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i + 1)); echo $i >&2; i=$((i + 1)); done; exit 4' > "$OUT" 2>&1
[ "$(grep '^[0-9]' "$OUT")" = "$(seq 0 1999)" ] || fail "out of order"
grep -q "^muster run: the last 20 lines of task 0's output:$" "$OUT" || fail "the end of both"

# A descendant that keeps the pipe delays neither the supervision nor the words.
check 4 run --grace 100ms sh -c 'sleep 60 & echo said >&2; exit 4'
err_has '^    said$'

# Words for signals.
for pair in SEGV:11:'touched memory that it may not touch' ABRT:6:'gave up by itself' FPE:8:'division by zero' \
    BUS:7:'memory that is not there' PIPE:13:'nobody reads' XCPU:24:'limit of processor time'; do
    IFS=: read -r name number words <<< "$pair"
    check $((128 + number)) run sh -c "ulimit -c 0; kill -$name \$\$"
    err_has "^muster run: task 0 (pid [0-9]*) was killed by signal $number (SIG$name[^)]*): .*$words"
done
# A core: that there is one, and where.
if (cd "$TMPDIR" && ulimit -c unlimited 2> /dev/null); then
    (cd "$TMPDIR" && ulimit -c unlimited && check 139 run sh -c 'kill -SEGV $$') || exit 1
    if grep -q 'core dumped' "$ERR"; then
        err_has "core dumped): it touched memory that it may not touch; its core \(went to \|is '\)"
    else
        echo "not tested: where a core goes (the kernel made none: $(cat /proc/sys/kernel/core_pattern))"
    fi
    rm -f "$TMPDIR"/core*
else
    echo "not tested: cores (ulimit -Hc is $(ulimit -Hc))"
fi
check 127 run sh -c "no-such-command-$$"
err_has "exited with status 127: a shell's word for: command not found"
check 137 run sh -c 'kill -KILL $$'
err_has 'was killed by signal 9 (SIGKILL)$'

# The launcher's threads: the watcher a while after the tasks, the one that relays when there is something to be relayed.
"$MUSTER" run --job "$JOB" -n 2 sh -c 'until [ -e "$1/$RANK" ]; do sleep 0.02; done # sleep: until it is told to go on
    [ $RANK = 0 ] || { echo something >&2; until [ -e "$1/end" ]; do sleep 0.02; done; }' sh "$TMPDIR" 2> "$ERR" < /dev/null &
RUN=$!
threads() { [ "$(ls "/proc/$RUN/task" | wc -l)" -eq "$1" ]; }
await "the watcher is there" threads 2
: > "$TMPDIR/0"
reaped() { [ "$(pgrep -c -P "$RUN")" -eq 2 ]; } # the guard is left, and task 1
await "a task that wrote nothing is reaped" reaped
threads 2 || fail "a thread for nothing"
: > "$TMPDIR/1"
await "what was written is there" grep -q '^something$' "$ERR"
threads 3 || fail "who has relayed it?"
: > "$TMPDIR/end"
wait $RUN || fail "exit status $?"
exit 0
