#!/bin/bash
# muster serve --tcpstore: PyTorch's store for tasks that others start, alone or beside the coordination service.
. "$(dirname "$0")/common.sh"
[ ! -x /usr/bin/python3 ] || PYTHON=/usr/bin/python3
cp "$TOP/tests/launch/store.py" "$TMPDIR/store.py" # a path without blanks
STORE="$PYTHON -S -E $TMPDIR/store.py"

# begin OPTIONS...: $SERVE serves job $JOB; what it says is in $OUT.serve.
begin()
{
    rm -f "$OUT.serve"
    "$MUSTER" serve --job "$JOB" "$@" > "$OUT.serve" 2> "$ERR.serve" < /dev/null &
    SERVE=$!
    trap 'kill -9 $SERVE 2> /dev/null' EXIT
    await "it says where" test -s "$OUT.serve"
}
ends_with()
{
    local got=0
    wait $SERVE || got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1: $(cat "$ERR.serve")"
    no_segment "$JOB" || fail "a segment is left"
}

# Alone; who waits when it ends is told by the end of his connection.
begin -n 2 --tcpstore
ADDRESS=$(cat "$OUT.serve")
[[ $ADDRESS =~ ^127\.0\.0\.1:[1-9][0-9]*$ ]] || fail "the address is $ADDRESS"
$STORE --address "$ADDRESS" get from/1 set from/0 zero say waiting wait never > "$OUT.0" &
FIRST=$!
check 0 $STORE --address "$ADDRESS" set from/1 one get from/0
out_is zero
await "the other one waits" grep -q waiting "$OUT.0"
check 0 "$MUSTER" kv get --job "$JOB" tcpstore/:from:0
out_is zero
shows() { "$MUSTER" status --job "$JOB" > "$OUT" && grep -q "^tcpstore $ADDRESS: 1 connection, 1 call waits$" "$OUT"; }
await "status shows it" shows
grep -q '^grpc' "$OUT" && fail "nobody has asked for gRPC"
kill -TERM $SERVE
ends_with 0
wait $FIRST
[ $? -eq 9 ] || fail "the waiting client: $(cat "$OUT.0")"

# Both, as lines and as JSON.
begin -n 2 --tcpstore --grpc 127.0.0.1:0
[ "$(grep -cE '^127\.0\.0\.1:[1-9][0-9]*$' "$OUT.serve")" -eq 2 ] || fail "there are not two addresses"
check 0 $STORE --address "$(tail -n 1 "$OUT.serve")" count
out_is 0
check 0 "$MUSTER" status --job "$JOB" --json
json_is 'it["grpc"]["address"]' "$(head -n 1 "$OUT.serve")"
json_is 'it["tcpstore"]["address"]' "$(tail -n 1 "$OUT.serve")"
kill -TERM $SERVE
ends_with 0
begin -n 2 --tcpstore --json
cp "$OUT.serve" "$OUT"
json_is '"address" in it' false
check 0 $STORE --address "$(json 'it["tcpstore"]' "$OUT.serve")" count
kill -TERM $SERVE
ends_with 0

# Bad words.
for words in '-n 2 --tcpstore --once' '--tcpstore --jobs worker:2' --tcpstore '-n 2 --tcpstore-insecure' \
    '-n 2 --tcpstore --register-timeout 1s'; do
    check 2 "$MUSTER" serve $words
    err_is_one_line
done
check 125 "$MUSTER" serve -n 2 --tcpstore=0.0.0.0:0
err_is_one_line
exit 0
