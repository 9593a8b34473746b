#!/bin/bash
# Many tasks: started, numbered, reaped; nothing of the ended stays with the launcher, however often it starts again.
# timeout: 300
. "$(dirname "$0")/../cli/common.sh"

hard=$(ulimit -Hn)
[ "$hard" = unlimited ] || [ "$hard" -ge 4200 ] || skip "needs 4200 open files, the hard limit is $hard"
tasks=$(ulimit -u)
[ "$tasks" = unlimited ] || [ "$tasks" -ge 6000 ] || skip "needs 6000 processes, the limit is $tasks"
# Task 0 waits until 255 others have ended: of them the launcher keeps no zombie, and no descriptor that it has not
# when there is one task. (A few it may be about to close.)
FEW=40 # the relay of a busy machine may be some attempts behind
cat > "$TMPDIR/first.sh" <<'EOS'
[ $((RANK + 1)) -eq $WORLD_SIZE ] && : > "$1/last"
[ $RANK -eq 0 ] || exec true
until [ -e "$1/last" ]; do sleep 0.01; done # sleep: between two looks whether the last one was started
left=0 looks=0
until [ "$left" = 2 ]; do # we and the guard
    left=$(wc -w < /proc/$PPID/task/$PPID/children)
    looks=$((looks + 1))
    [ $looks -lt 6000 ] || exit 9
    sleep 0.01 # sleep: between two looks
done
# what its threads have to do is waited for: what it keeps stays above the limit
while ls /proc/$PPID/fd | wc -l > "$1/count"; [ "$(cat "$1/count")" -ge "${LIMIT:-1000000}" ]; do
    looks=$((looks + 1))
    [ $looks -lt 6000 ] || break
    sleep 0.01 # sleep: between two looks
done
EOS
count() # OPTION... N
{
    rm -f "$TMPDIR/last"
    check 0 "$MUSTER" run --job "$JOB" -n "${@: -1}" "${@:1:$#-1}" sh "$TMPDIR/first.sh" "$TMPDIR"
    cat "$TMPDIR/count"
}
for options in "" --label "--stdin all" "--output $TMPDIR/out-{rank}"; do
    one=$(count $options 1) || fail "with one task ($options): $one"
    many=$(LIMIT=$((one + FEW)) count $options 256) || fail "with 256 tasks ($options): $many"
    [ "$many" -lt $((one + FEW)) ] || fail "the launcher has $many descriptors, with one task $one ($options)"
done

# 200 times again, by the job and by the task: nothing is kept of the attempts before.
for options in "" "--restart-policy task" "--label --stdin all" "--output $TMPDIR/out-{rank}-{attempt}"; do
    check 5 "$MUSTER" run --job "$JOB" --restarts 200 --restart-delay 0 $options \
        sh -c 'ls /proc/$PPID/fd | wc -l >> "$0"; exit 5' "$TMPDIR/counts"
    [ "$(wc -l < "$TMPDIR/counts")" -eq 201 ] || fail "not 201 starts ($options)"
    set -- $(sort -n "$TMPDIR/counts" | sed -n '1p;$p')
    [ "$2" -lt $(($1 + FEW)) ] || fail "from $1 to $2 descriptors ($options)"
    rm "$TMPDIR/counts"
done

check 0 "$MUSTER" run -n 4096 --job "$JOB" true
err_is_empty
check 0 "$MUSTER" run -n 1000 --job "$JOB" --label sh -c 'echo $RANK'
[ "$(sort -u "$OUT" | wc -l)" -eq 1000 ] || fail "not a thousand"
no_segment "$JOB" || fail "a segment is left"
exit 0
