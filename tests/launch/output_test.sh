#!/bin/bash
# --output: files by template, with --label and without; what goes wrong with them.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" "$@"; }
SAY='echo out $RANK; echo err $RANK >&2'
D=$TMPDIR/files

check 0 run -n 3 --output "$D/{job}/{rank}.{stream}" sh -c "$SAY"
out_is_empty
err_is_empty
for i in 0 1 2; do
    [ "$(cat "$D/$JOB/$i.stdout")" = "out $i" ] || fail "stdout of task $i"
    [ "$(cat "$D/$JOB/$i.stderr")" = "err $i" ] || fail "stderr of task $i"
done
[ "$(ls "$D/$JOB" | wc -l)" -eq 6 ] || fail "files: $(ls "$D/$JOB")"

# Both streams in one file, in order; a file that is there is emptied.
for round in 1 2; do
    check 0 run -n 2 --output "$D/{rank}{{}}" sh -c "$SAY; echo more"
    [ "$(cat "$D/1{}")" = "$(printf 'out 1\nerr 1\nmore')" ] || fail "merged, round $round: $(cat "$D/1{}")"
done
check 0 run --output "$D/{host}" echo here
[ "$(cat "$D/$(uname -n)")" = here ] || fail "{host}"

# As files and labelled as well.
check 0 run -n 2 --label --output "$D/both-{rank}" sh -c "$SAY"
[ "$(sort "$OUT")" = "$(printf '[0] out 0\n[1] out 1')" ] || fail "labelled stdout"
[ "$(sort "$ERR")" = "$(printf '[0] err 0\n[1] err 1')" ] || fail "labelled stderr"
[ "$(sort "$D/both-1")" = "$(printf 'err 1\nout 1')" ] || fail "both-1"

# Each attempt its own.
check 3 run --restarts 1 --restart-delay 0 --output "$D/try-{attempt}" sh -c 'echo $MUSTER_ATTEMPT; exit 3'
[ "$(cat "$D/try-0" "$D/try-1")" = "$(printf '0\n1')" ] || fail "{attempt}"

# The root cause's last lines are said, from the file too; twenty of them.
check 5 run -n 2 --output "$D/{rank}.{stream}" sh -c '[ $RANK = 1 ] || sleep 60; seq 1 50 >&2; exit 5'
err_has "^muster run: the last 20 lines of task 1's stderr:$"
[ "$(grep '^    ' "$ERR" | xargs)" = "$(seq -s ' ' 31 50)" ] || fail "the last twenty: $(grep '^    ' "$ERR" | xargs)"

# What cannot be.
check 2 run -n 2 --output "$D/x" true
err_has 'lacks {rank}'
check 2 run --output "$D/{user}" true
err_has "'{user}' is none of"
check 2 run --output "$D/}" true
check 2 run --output '' true
: > "$D/plain"
check 125 run --output "$D/plain/{rank}" true
err_has "^muster run: cannot write $D/plain/0: Not a directory$"
err_is_one_line
mkfifo "$D/fifo-0"
check 125 run --output "$D/fifo-{rank}" true
err_has "^muster run: cannot write $D/fifo-0: No such device or address$"
if [ ! -e /dev/full ]; then
    echo "not tested: a full file system (there is no /dev/full)"
else
    check 0 run --label --output /dev/full echo shown
    out_is '[0] shown'
    err_has "cannot write task 0's output file: No space left"
    "$MUSTER" run --label echo lost > /dev/full 2> "$ERR"
    err_has "^muster run: cannot write standard output: No space left on device: the tasks' output is lost$"
fi
no_segment "$JOB" || fail "a segment is left"
exit 0
