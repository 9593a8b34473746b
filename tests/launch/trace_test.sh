#!/bin/bash
# muster run --trace: the tasks of a real job are traced; what the trace is, is tests/cli's.
. "$(dirname "$0")/../cli/common.sh"
MEMBER=$BUILD/tests/launch/member
[ -x "$MEMBER" ] || fail "$MEMBER is not built"

RUN_OPTIONS="--trace=256" start_job 3 "$MEMBER" stay
await "all are connected" connected 3
await "all wait" eval '[ "$("$MUSTER" kv count --job "$JOB" ready 2> /dev/null)" = 3 ]'
check 0 "$MUSTER" trace --job "$JOB"
json_is 'len({e["pid"] for e in it["traceEvents"] if e["ph"] == "i"}) >= 3' true
kill -TERM $RUN
wait $RUN
start_job 1 "$MEMBER" stay
await "it is connected" connected 1
check 1 "$MUSTER" trace --job "$JOB"
err_is_one_line
kill -TERM $RUN
wait $RUN
for n in 0 -1 x 99999999; do
    check 2 "$MUSTER" run --trace=$n true
    err_has "'$n' is no number of events"
done
exit 0
