#!/bin/bash
# The guard is shown as what it is, and keeps nothing of the launcher's: the one that mu-guard sleeps for, and the
# one of a command that was copied alone, which is forked.
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
guards() { for p in $(with_mark "$MARK"); do
    [ "$(cat "/proc/$p/comm" 2> /dev/null)" = mu-guard ] && echo "$p"; done; }
has_guards() { [ "$(guards | wc -l)" -eq "$1" ]; }
words() { tr '\0' '\n' < "/proc/$1/cmdline" | sed '/^$/d'; }

# looks_right DESCRIPTORS EXECUTABLE: 0, 1 and 2; its table, the launcher's pidfd and, where it is to be exec'ed, what.
looks_right()
{
    start_job 1 sleep 1000
    await "the guard is there" has_guards 1
    GUARD=$(guards)
    [ "$(readlink "/proc/$GUARD/exe")" = "$2" ] || fail "it runs $(readlink "/proc/$GUARD/exe"), not $2"
    [ "$(words "$GUARD" | head -n 1)" = mu-guard ] || fail "its command line is: $(words "$GUARD")"
    case "$JOB" in "$(words "$GUARD" | sed -n 2p)"*) ;; *) fail "its command line does not name the job" ;; esac
    [ "$(readlink "/proc/$GUARD/cwd")" = / ] || fail "it keeps a folder busy"
    for fd in 0 1; do
        [ "$(readlink "/proc/$GUARD/fd/$fd")" = /dev/null ] || fail "its descriptor $fd is $(readlink "/proc/$GUARD/fd/$fd")"
    done
    [ "$(ls "/proc/$GUARD/fd" | wc -l)" -eq "$1" ] || fail "it has open: $(ls -l "/proc/$GUARD/fd")"
    [ "$(sed 's/.*) //' "/proc/$GUARD/stat" | cut -d' ' -f4)" = "$GUARD" ] || fail "it has no session of its own"
    grep -q "$(segment_file "$JOB")" "/proc/$GUARD/maps" && fail "it has the segment mapped"
    kill -TERM "$RUN"
    wait "$RUN"
    trap - EXIT
}
exec 9< /dev/null # something open that the launcher has of its parent
program=$(realpath "$(dirname "$MUSTER")/mu-guard")
if [ -x "$program" ]; then
    looks_right 6 "$program"
else
    looks_right 5 "$(realpath "$MUSTER")"
fi
mkdir "$TMPDIR/alone"
cp "$MUSTER" "$TMPDIR/alone/muster"
whole=$MUSTER
MUSTER=$TMPDIR/alone/muster looks_right 5 "$(realpath "$TMPDIR")/alone/muster"
MUSTER=$whole

# A job in a job: the inner guard does not bear the outer job's mark, or the outer guard would end it before its work.
"$MUSTER" run --job "$JOB-outer" "$MUSTER" run --job "$JOB-inner" sleep 1000 > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
disown $RUN # the shell need not say that it was killed
await "both guards are there" has_guards 2
await "the inner job is there" has_segment "$JOB-inner"
for p in $(guards); do
    tr '\0' '\n' < "/proc/$p/environ" | grep -q '^MUSTER_RUN_ID=' && fail "guard $p bears the mark of a job"
done
kill -KILL $RUN
await "nothing is alive" none_with_mark "$MARK"
no_segment "$JOB-outer" || fail "the outer segment is left"
no_segment "$JOB-inner" || fail "the inner segment is left"
exit 0
