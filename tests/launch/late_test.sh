#!/bin/bash
# A job whose tasks do not use muster: its launcher joins it a while after the start, and nothing is left of one that was
# killed before that.
. "$(dirname "$0")/../cli/common.sh"

row() { "$MUSTER" segment list --json | tr '{' '\n' | grep "\"job\":\"$JOB\"" > "$OUT.row"; }

"$MUSTER" run -n 2 --job "$JOB" sleep 1000 2> "$ERR.run" < /dev/null &
RUN=$!
bytes() { row && sed 's/.*"committed_bytes":\([0-9]*\),.*/\1/' "$OUT.row"; }
joined() { [ "$(bytes)" -gt 700000 ] 2> /dev/null; }
await "the launcher has joined" joined
grep -q '"slots_live":[12],' "$OUT.row" || fail "not its slot and the watcher's: $(cat "$OUT.row")"
check 0 "$MUSTER" segment check "$JOB"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "exit status"

gone() { ! row; }
for delay in 0.001 0.002 0.003 0.004 0.005 0.006 0.008 0.01; do
    "$MUSTER" run -n 2 --job "$JOB" sleep 1000 2> "$ERR.run" < /dev/null &
    RUN=$!
    sleep $delay # sleep: so long it lives; whatever it has done by then, the end is the same
    kill -KILL $RUN
    wait $RUN 2> /dev/null
    await "the segment of a launcher that lived $delay s has gone" gone
done

exit 0
