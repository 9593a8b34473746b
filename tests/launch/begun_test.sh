#!/bin/bash
# Tasks are started several at once: each is its own, and a failure among them is said once and leaves nothing.
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
cd "$TMPDIR" || exit 1

# Each has its own number, in every name for it.
check 0 "$MUSTER" run -n 64 --job "$JOB" sh -c 'echo "$RANK $MUSTER_TASK_ID $LOCAL_RANK $JAX_PROCESS_ID $MUSTER_ATTEMPT"'
sort -n "$OUT" > "$OUT.sorted"
for ((i = 0; i < 64; i++)); do echo "$i $i $i $i 0"; done > "$OUT.wanted"
cmp -s "$OUT.sorted" "$OUT.wanted" || fail "the tasks' numbers are not 0 to 63, each its own"

# Its own output: what one wrote is not in another's file.
check 0 "$MUSTER" run -n 40 --job "$JOB" --output "$TMPDIR/out-{rank}" sh -c 'echo $RANK; echo $RANK >&2'
for ((i = 0; i < 40; i++)); do
    [ "$(cat "$TMPDIR/out-$i")" = "$(printf '%d\n%d' $i $i)" ] || fail "the output of task $i"
done

# A script without "#!" is for the shell, every time.
echo 'echo "script $RANK"' > script
chmod +x script
check 0 "$MUSTER" run -n 40 --job "$JOB" ./script
[ "$(sort -u "$OUT" | wc -l)" -eq 40 ] || fail "not every script has run"

# What cannot be started is said once; who has been started is ended.
check 125 "$MUSTER" run -n 40 --job "$JOB" --chdir "$TMPDIR/none" true
err_is_one_line
err_has "^muster run: cannot change to $TMPDIR/none: No such file"
check 127 "$MUSTER" run -n 4 --job "$JOB" sleep 1000 : -n 20 ./none
err_is_one_line
err_has '^muster run: cannot run ./none: No such file'
none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"
no_segment "$JOB" || fail "a segment is left"
: > data
check 126 "$MUSTER" run -n 20 --job "$JOB" ./data
err_is_one_line
err_has '^muster run: cannot run ./data: Permission denied'
none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"

# A user who may have six processes: some tasks are on their way when there is no room for the next, nor for a thread.
other=$((100000 + $$))
as_other() { setpriv --reuid $other --regid $other --clear-groups "$@"; }
muster_for $other || exit 0
cd / || exit 1
check 125 as_other env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" bash -c 'ulimit -u 6; exec "$@"' - \
    "$THEIRS" run -n 40 --job "$JOB" sleep 1000
err_is_one_line
err_has '^muster run: cannot start task [0-9]*: clone: Resource temporarily unavailable'
none_with_mark "$MARK" || fail "a process is left: $(with_mark "$MARK")"
[ ! -e "/dev/shm/muster-$other-$JOB" ] || fail "a segment is left"
exit 0
