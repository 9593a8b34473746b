#!/bin/bash
# muster trace of a job of two hosts: the table of a host does not blame its own tasks where all of them waited on for one
# of the other host; that host's table names it. The other host is this machine again.
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/../launch/relay.sh"
LATE=$BUILD/tests/trace/late
[ -x "$LATE" ] || fail "$LATE is not built"
FOLDER=$TMPDIR/late
mkdir -p "$FOLDER"

# so long PLACE PART TASK...: these tasks of that host have waited there for two seconds
so_long()
{
    local place=$1 part=$2
    shift 2
    "$MUSTER" status --job "$part" --json > "$OUT" 2> "$ERR" || return 1
    [ "$(json "all((t['waiting'] or {'in': ''})['in'].startswith('$place') and
        it['now_ns'] - t['waiting']['since_ns'] > 2000000000 for t in it['tasks'] if str(t['task']) in '$*'.split())")" = true ]
}
# late NAME PLACE: task 0 or 3, as NAME is, comes to it when all others have waited for long
late()
{
    case $1 in
    first*) here=1 there='2 3' ;;
    *) here='0 1' there=2 ;;
    esac
    await "the others here wait in $2" so_long "$2" "$JOB" $here
    await "the others there wait in $2" so_long "$2" "$JOB.h1" $there
    : > "$FOLDER/$1"
}
# The LAST of a meeting in the table that was printed last; a wait for others of less than a second is none.
last_of() { awk -v name="$1" -v n="$2" '$1 == name && n-- == 0 { print $4, $4 == "other" && $6 != "s" ? "for a moment" : "" }' "$OUT"; }
is_last() # NAME NTH TASK
{
    local last
    last=$(last_of "$1" "$2")
    case $last in
    "$3 ") ;;
    'other for a moment') [ "$3" != other ] || fail "$1 $2: others came late, but not for long" ;;
    *) fail "$1 $2: last is $last, not $3" ;;
    esac
}

"$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:2,b:2 --heartbeat-timeout 10m --trace=256 \
    -- "$LATE" "$FOLDER" > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
await "all four are connected" connected 4
late last 'barrier epoch'
late last-again 'group ring'
late first 'barrier epoch'
late first-again 'group ring'
await "all is done" "$MUSTER" kv get --job "$JOB" done

for name in epoch ring; do
    check 0 "$MUSTER" trace --job "$JOB" --stragglers
    is_last $name 0 other
    is_last $name 1 0
    out_has '^other  *-  *[2-4] '
    out_has "^this is one host's trace: 'other' is a task of another host"
    check 0 "$MUSTER" trace --job "$JOB.h1" --stragglers
    is_last $name 0 3
    is_last $name 1 other
done
# The JSON blames nobody either.
check 0 "$MUSTER" trace --job "$JOB"
json_is '{e["args"]["last_task"] for e in it["traceEvents"] if e["name"] == "epoch" and e["args"]["instance"] == 0} == {None}' true
kill -KILL $RUN
wait $RUN 2> /dev/null
trap - EXIT
clean
exit 0
