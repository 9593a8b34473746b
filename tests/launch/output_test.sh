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
for policy in job task; do # the log of the attempt that failed would be lost
    check 2 run --restarts 1 --restart-policy $policy --output "$D/kept-{rank}" false
    err_has 'lacks {attempt}: each attempt would empty the files of the last (--restarts, --elastic)'
done
[ ! -e "$D/kept-0" ] || fail "something was started"
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
    check 125 run --label --output /dev/full echo shown
    out_is '[0] shown'
    err_has "^muster run: cannot write /dev/full: No space left on device: the rest of task 0's output is lost there$"
    check 3 run --label --output /dev/full sh -c 'echo lost; exit 3'
    # to_full STATUS ARGUMENT...: whose standard output is lost. Without labels the tasks write themselves.
    to_full()
    {
        local want=$1 got=0
        shift
        run "$@" > /dev/full 2> "$ERR" || got=$?
        [ $got -eq "$want" ] || fail "exit status $got instead of $want, and the output is lost: $*"
    }
    to_full 125 --label sh -c 'echo lost; exit 0'
    err_has "^muster run: cannot write standard output: No space left on device: the tasks' output is lost$"
    to_full 3 --label sh -c 'echo lost; exit 3'
    to_full 1 cat "$0"
    for option in --label --kill-on-fail; do # what cannot be said is counted
        got=0
        run $option sh -c 'echo lost >&2; exit 0' > "$OUT" 2> /dev/full || got=$?
        [ $got -eq 125 ] || fail "standard error is lost, and the exit status is $got"
    done
    run sh -c 'echo lost; exit 0' > /dev/full 2>&1 # the launcher writes: it may have to say it again
    [ $? -eq 125 ] || fail "both streams are lost, and the exit status is not 125"
fi

# 'ulimit -f' is like a full disk for what the launcher writes: no signal ends it, and the tasks have theirs.
limited() { bash -c 'ulimit -f 3000; exec "$@"' - "$MUSTER" run --heap 1M "$@"; } # of 1 KiB
MUCH='yes "$(printf %99s)" | head -n 40000' # 4 MB
limited --label --output "$D/limited-{rank}" sh -c "$MUCH; echo end" 2> "$ERR" | tail -n 1 > "$OUT"
[ "${PIPESTATUS[0]}" -eq 125 ] || fail "exit status ${PIPESTATUS[0]}"
err_has "^muster run: cannot write $D/limited-0: File too large (raise the limit: 'ulimit -f'): the rest of task 0's output is lost there$"
out_is '[0] end'
[ "$(stat -c %s "$D/limited-0")" -eq 3072000 ] || fail "the file has not all that the limit lets be there"
check 125 limited --label sh -c "trap '' PIPE; $MUCH 2> /dev/null; exit 0" # its standard output is a file, too
err_has "^muster run: cannot write standard output: File too large (raise the limit: 'ulimit -f'): the tasks' output is lost$"
check 153 limited --output "$D/limited-{rank}" head -c 4000000 /dev/zero
err_has 'was killed by signal 25 (SIGXFSZ): its limit of file size, ulimit -f$'
no_segment "$JOB" || fail "a segment is left"

# A standard output that is closed loses what is written there, too.
for options in --label --pty; do
    check 125 sh -c '"$@" >&-' - "$MUSTER" run --job "$JOB" $options echo lost
    err_has "^muster run: cannot write standard output: It is closed: the tasks' output is lost$"
done
check 0 sh -c '"$@" >&-' - "$MUSTER" run --job "$JOB" --label true
err_is_empty
check 1 sh -c '"$@" >&-' - "$MUSTER" version
err_has 'cannot write'

# Where nobody reads the output, --timeout ends the job all the same, and says that some is lost.
mkfifo "$TMPDIR/unread"
exec 8<> "$TMPDIR/unread"
for how in '124 exec cat /dev/zero' '125 head -c 200000 /dev/zero'; do
    code=0
    timeout -s KILL 60 "$MUSTER" run --job "$JOB" --label --timeout 1s --grace 100ms sh -c "${how#* }" \
        > "$TMPDIR/unread" 2> "$ERR" < /dev/null || code=$?
    [ $code -eq "${how%% *}" ] || fail "with output that nobody reads ($how) it exits with $code"
    err_has '^muster run: nobody reads the output: the rest of it is lost, since the time of --timeout is over$'
    no_segment "$JOB" || fail "a segment is left"
done
exec 8>&-
exit 0
