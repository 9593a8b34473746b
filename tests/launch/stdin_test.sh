#!/bin/bash
# --stdin: who gets the launcher's standard input, and its end.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" --label "$@"; }
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "not: $1"; }
printf 'one\ntwo\n' > "$TMPDIR/in"

# WHO and what each of three tasks then reads ('.' ends the row), by a file and by a pipe; every one sees the end.
while read -r who wanted; do
    wanted=${wanted//,/$'\n'}
    wanted=${wanted%.}
    STDIN=$TMPDIR/in check 0 run -n 3 --stdin $who sh -c 'echo $(cat)'
    sorted_is "$wanted"
    printf 'one\ntwo\n' | run -n 3 --stdin $who sh -c 'echo $(cat)' > "$OUT" 2> "$ERR" || fail "status"
    sorted_is "$wanted"
done << 'EOS'
0 [0] one two,[1] ,[2] .
1 [0] ,[1] one two,[2] .
2 [0] ,[1] ,[2] one two.
none [0] ,[1] ,[2] .
all [0] one two,[1] one two,[2] one two.
EOS

# Much of it to all, whole, though one is slow, one reads nothing, and one goes away in the midst.
head -c 3000000 /dev/urandom > "$TMPDIR/much"
sum=$(cksum < "$TMPDIR/much")
STDIN=$TMPDIR/much check 0 run -n 5 --stdin all bash -c 'case $RANK in
    2) head -c 10 > /dev/null ;;
    3) exec cksum /dev/null ;;
    4) { head -c 100; sleep 0.2; cat; } | cksum ;; # sleep: a slow reader
    *) cksum ;; esac'
[ "$(grep -c " $sum$" "$OUT")" -eq 3 ] || fail "not three have it whole"

# A task that never reads and never ends does not keep the end from the others.
mkfifo "$TMPDIR/fifo"
"$MUSTER" run -n 2 --stdin all bash -c '[ $RANK = 0 ] && { cat > /dev/null; : > "$1"; exit 0; }; sleep 60' sh "$TMPDIR/ended" \
    < "$TMPDIR/fifo" > "$OUT" 2> "$ERR" &
RUN=$!
exec 7> "$TMPDIR/fifo"
cat "$TMPDIR/much" >&7
exec 7>&-
await "task 0 has seen the end" test -e "$TMPDIR/ended"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "status"

# An input that never ends does not keep the job from ending.
mkfifo "$TMPDIR/open"
exec 7<> "$TMPDIR/open"
echo hello >&7
STDIN=$TMPDIR/open check 0 run -n 2 --stdin all sh -c 'read -r line; echo $line'
exec 7>&-
sorted_is "$(printf '[0] hello\n[1] hello')"

for who in 3 -1 some 0x1; do
    check 2 run -n 3 --stdin=$who true
    err_has "is all, none or a task from 0 to 2, not '$who'"
done
exit 0
