#!/bin/bash
# `muster kv` on a live job: every command, any bytes, exit statuses, JSON.
. "$(dirname "$0")/common.sh"
start_job 1 sleep 1000
kv() { "$MUSTER" kv "$@" --job "$JOB"; }

# Bad input first.
check 3 kv get absent
err_has absent
err_is_one_line
check 4 kv get absent --wait 20ms
check 3 "$MUSTER" kv get --job "$JOB-other" k
check 1 kv set a/../b x
err_is_one_line
check 1 kv set '' x
check 1 kv set "$(head -c 5000 /dev/zero | tr '\0' x)" x
check 1 kv get /
[ "$("$MUSTER" kv count --job "$JOB")" = 0 ] || fail "a refused set left a key"

# set, get, insert, append.
check 0 kv set /a/b hello
out_is_empty
check 0 kv get a//b/
out_is hello
[ "$(wc -c < "$OUT")" -eq 5 ] || fail "a newline was added"
check 1 kv insert a/b other
check 0 kv insert a/c second
check 0 kv append a/c ' half'
check 0 kv get a/c
out_is 'second half'
check 0 kv set a/b "$(printf 'two\nlines')"
check 0 kv get a/b
out_is "$(printf 'two\nlines')"
check 0 kv set empty ''
check 0 kv get empty
out_is_empty

# Any bytes, from stdin.
head -c 300000 /dev/urandom > "$TMPDIR/bytes"
STDIN=$TMPDIR/bytes check 0 kv set blob -
check 0 kv get blob
cmp -s "$OUT" "$TMPDIR/bytes" || fail "bytes were changed"
check 0 kv get blob --json
"$PYTHON" -c 'import base64, json, sys
it = json.load(open(sys.argv[1]))
sys.exit(base64.b64decode(it["value_base64"]) != open(sys.argv[2], "rb").read() or it["key"] != "blob")' \
    "$OUT" "$TMPDIR/bytes" || fail "base64 is wrong"
check 0 kv set text $'quote " back \\ tab \t newline \n bell \a umlaut \xc3\xa4 zero-width \xe2\x80\x8b'
check 0 kv get text --json
json_is 'it["value"] == "quote \" back \\ tab \t newline \n bell \a umlaut \u00e4 zero-width \u200b"' true

# Too much.
head -c $((64 * 1024 * 1024 + 1)) /dev/zero > "$TMPDIR/big"
STDIN=$TMPDIR/big check 1 kv set big -
err_is_one_line
check 3 kv get big

# increment, count, list, delete.
check 0 kv increment n
out_is 1
check 0 kv increment n 41
out_is 42
check 0 kv increment n -50
out_is -8
check 1 kv increment a/b
err_is_one_line
check 0 kv set max 9223372036854775807
check 1 kv increment max
check 0 kv count a
out_is 2
check 0 kv list a
out_is "$(printf 'a/b\na/c')"
check 0 kv list --values a
out_is "$(printf 'a/b\ttwo\\nlines\na/c\tsecond half')"
check 0 kv list --json a
json_is '[e["key"] for e in it]' '["a/b", "a/c"]'
json_is 'it[1]["value"]' 'second half'
check 0 kv list nothing
out_is_empty
check 0 kv delete a
out_is 2
check 0 kv delete a
out_is 0

# Keys that JSON and terminals must be protected from.
check 0 kv set $'odd\x01\xffkey' v
check 0 kv list --json
json_is '"odd\u0001\ufffdkey" in [e["key"] for e in it]' true
check 0 kv list
out_has 'odd\\x01\\xffkey'

# A wait ends when the key comes.
kv get late --wait 60s > "$OUT" 2> "$ERR" &
waiter=$!
kv watch late --wait 60s > "$OUT.watch" 2>&1 &
watcher=$!
kv watch late --follow --json > "$OUT.follow" 2>&1 &
follower=$!
slots_in_use() { [ "$("$MUSTER" segment info "$JOB" --json | grep -o '"slots_live":[0-9]*' | cut -d: -f2)" -ge "$1" ]; }
await "the three wait" slots_in_use 4
kv set late news
wait $waiter || fail "the waiting get failed"
out_is news
wait $watcher || fail "the watch failed"
grep -qE $'^[0-9]+\tnews$' "$OUT.watch" || fail "the watch printed: $(cat "$OUT.watch")"
await "the follower has the first value" grep -q '"value":"news"' "$OUT.follow"
kv set late 2
await "the follower has the second value" grep -q '"value":"2"' "$OUT.follow"
kv delete late > /dev/null
await "the follower has the deletion" grep -q '"deleted":true' "$OUT.follow"
kv set late 3
await "the follower has the third value" grep -q '"value":"3"' "$OUT.follow"
kill -TERM $follower
wait $follower
[ $? -eq 143 ] || fail "a watch that was ended by SIGTERM must say 143"
grep -q muster "$OUT.follow" && fail "it complained: $(cat "$OUT.follow")"

# watch --after an old version answers at once; of a deleted key it says so.
check 0 kv watch late --after 1 --wait 10s
check 4 kv watch late --wait 20ms
kv delete late > /dev/null
check 3 kv watch late --after 1 --wait 10s

"$MUSTER" segment check "$JOB" > "$OUT" || fail "the audit found something"
exit 0
