#!/bin/bash
# `muster event`: numbers without holes, any bytes, following, the overrun.
. "$(dirname "$0")/common.sh"
MEMBER=$BUILD/tests/launch/member
[ -x "$MEMBER" ] || fail "$MEMBER is not built"
start_job 1 sh -c "until [ -s $TMPDIR/flood ]; do sleep 0.05; done
    '$MEMBER' flood \$(cat $TMPDIR/flood) && touch $TMPDIR/flooded; exec sleep 1000"
event() { "$MUSTER" event "$@" --job "$JOB"; }

check 0 event read
out_is_empty
check 4 event read --wait 20ms
check 0 event send hello
out_is 0
check 0 event send --type 7 $'tab\there'
out_is 1
head -c 1000 /dev/urandom > "$TMPDIR/bytes"
STDIN=$TMPDIR/bytes check 0 event send --json -
json_is 'it["sequence"]' 2
head -c 16385 /dev/zero > "$TMPDIR/long"
STDIN=$TMPDIR/long check 1 event send -
err_is_one_line
check 0 event send
out_is 3

check 0 event read
[ "$(wc -l < "$OUT")" -eq 4 ] || fail "not four events"
out_has $'^1\t.* ago\ttask -1\ttype 7\ttab\\\\there$'
check 0 event read --json --from 1 --count 2
json_is '[e["sequence"] for e in it]' '[1, 2]'
json_is 'it[0]["payload"] + str(it[0]["type"])' $'tab\there7'
"$PYTHON" -c 'import base64, json, sys
it = json.loads(open(sys.argv[1]).read().splitlines()[1])
sys.exit(base64.b64decode(it["payload_base64"]) != open(sys.argv[2], "rb").read())' "$OUT" "$TMPDIR/bytes" ||
    fail "the payload was changed"

# Follow: only what comes.
event read --follow --count 2 --json > "$OUT.follow" 2>&1 &
follower=$!
follows() { [ "$("$MUSTER" segment info "$JOB" --json | grep -o '"slots_live":[0-9]*' | cut -d: -f2)" -ge 2 ]; }
await "the reader is there" follows
# It may not have asked for its position yet: send until it has its two.
send_one() { event send more > /dev/null; is_gone $follower; }
await "the reader has two events" send_one
wait $follower || fail "the reader failed"
[ "$(wc -l < "$OUT.follow")" -eq 2 ] || fail "the follower read: $(cat "$OUT.follow")"
grep -q hello "$OUT.follow" && fail "it saw an event from before"

# More than are kept: the loss is counted.
kept=$("$MUSTER" segment info "$JOB" --json | grep -o '"num_events":[0-9]*' | cut -d: -f2)
[ "$kept" -gt 0 ] || fail "num_events is $kept"
echo $((kept + 1)) > "$TMPDIR/flood.new"
mv "$TMPDIR/flood.new" "$TMPDIR/flood"
await "the events are sent" test -e "$TMPDIR/flooded"
check 0 event read --count 1
err_has 'events lost: overwritten'
exit 0
