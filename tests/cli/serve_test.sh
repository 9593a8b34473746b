#!/bin/bash
# muster serve: the coordination service for tasks that others start.
# timeout: 240
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/../launch/guests.sh"
set -m

# begin OPTIONS...: $SERVE serves job $JOB at $ADDRESS.
begin()
{
    rm -f "$OUT.serve"
    "$MUSTER" serve --job "$JOB" "$@" > "$OUT.serve" 2> "$ERR.serve" < /dev/null &
    SERVE=$!
    trap 'kill -9 $SERVE 2> /dev/null' EXIT
    await "it says where" test -s "$OUT.serve"
    ADDRESS=$(head -n 1 "$OUT.serve")
}
ends_with()
{
    local got=0
    wait $SERVE || got=$?
    cp "$ERR.serve" "$ERR"
    cp "$OUT.serve" "$OUT"
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    no_segment "$JOB" || fail "a segment is left"
}
guest() { local task=$1; shift; $GUEST --address "$ADDRESS" --task "$task" "$@"; }

# Two tasks, from the first registration to the last shutdown.
begin -n 2 --once
[[ $ADDRESS =~ ^127\.0\.0\.1:[1-9][0-9]*$ ]] || fail "the address is $ADDRESS"
guest 1 register set one 1 barrier all shutdown &
check 0 guest 0 register get one barrier all shutdown
out_is 1
wait $! || fail "the other one"
ends_with 0
err_is_empty

# It stays, its verbs look into it, and a signal ends it.
begin -n 2 --json
cp "$OUT.serve" "$OUT"
[ "$(json 'it["job"]')" = "$JOB" ] || fail "the job's name in JSON"
ADDRESS=$(json 'it["address"]')
check 0 "$MUSTER" status --job "$JOB"
out_has "^grpc     $ADDRESS: 0 connections, 0 calls wait$"
check 125 "$MUSTER" serve --job "$JOB" -n 2
err_has "^muster serve: job $JOB is running already: pid $SERVE holds the name"
err_is_one_line
"$MUSTER" kv set --job "$JOB" k v
for i in 0 1; do guest $i register get k shutdown > "$OUT.$i" & done
wait %2 %3
[ "$(cat "$OUT".[01])" = "$(printf 'v\nv')" ] || fail "a key of the library's for both"
kill -TERM $SERVE
ends_with 0

# Who is missing is said while the others wait; a wait is answered when the service ends.
begin -n 3
guest 0 register > "$OUT.0" &
WAITS=$!
said() { grep -q '^muster serve: 2 of 3 tasks have not registered yet: task 1, task 2$' "$ERR.serve"; }
await "it says who is missing" said
kill -TERM $SERVE
ends_with 0
wait $WAITS
[ $? -eq 9 ] || fail "the registration was not answered: $(cat "$OUT.0")"

# So it is when their time is over.
begin -n 2 --once --register-timeout 200ms
check 9 guest 0 register
out_has '^DEADLINE_EXCEEDED: '
kill -TERM $SERVE
ends_with 143
err_has '^muster serve: 1 of 2 tasks have not registered in time: task 1$'

# A task that fails: by name, and by the exit status.
begin -n 2 --once --register-barrier=no --grpc "unix:$TMPDIR/s"
[ "$ADDRESS" = "unix:$TMPDIR/s" ] || fail "the address is $ADDRESS"
guest 0 register poll hold > "$OUT.0" &
guest 1 register poll set there 1 kill # its answer comes behind what the poll has sent
wait $!
grep -qE '^[A-Z]+: .*task 1' "$OUT.0" || fail "task 0 does not know what became of task 1: $(cat "$OUT.0")"
ends_with 1
err_has '^muster serve: task 1 has failed: '
[ ! -e "$TMPDIR/s" ] || fail "the socket is left"

# Over TCP, where no process is known: a survivor that was told, and goes without a shutdown, is not waited for.
begin -n 2 --once --register-barrier=no --heartbeat-timeout 1h
guest 0 register poll hold await "$TMPDIR/said" > "$OUT.0" &
guest 1 register poll set there 1 kill # its answer comes behind what the poll has sent
failed() { cp "$ERR.serve" "$ERR"; grep -q '^muster serve: task 1 has failed: its connection .* by its peer without a shutdown$' "$ERR.serve"; }
await "the failure is said" failed
touch "$TMPDIR/said"
wait %%
ends_with 1
err_is_one_line

# A signal before the tasks were done; killed, it leaves nothing behind but a name that the next one takes.
begin -n 2 --once
kill -INT $SERVE
ends_with 130
begin -n 2 --grpc "unix:$TMPDIR/s"
kill -KILL $SERVE
wait $SERVE 2> /dev/null
await "no segment is left" no_segment "$JOB"
begin -n 2 --grpc "unix:$TMPDIR/s"
kill -HUP $SERVE
ends_with 0

# Bad words.
hog_port
check 125 "$MUSTER" serve -n 2 --grpc "127.0.0.1:$PORT"
err_has "^muster serve: no coordination service at 127.0.0.1:$PORT: .*in use"
kill -KILL $HOG
for words in '' '-n 0' '-n x' '-n 99999' '-n 2 --jobs worker:2,ps:1' '--jobs worker' '--jobs worker:2,,' '--jobs :2' \
    '-n 2 --register-timeout 0' '-n 2 --grpc-cert /none' '-n 2 --job .x' '-n 2 more' '-n 2 --heap 1' '-n 2 --threads 0' '-n 2 --metrics x'; do
    check 2 "$MUSTER" serve $words
    err_is_one_line
done
exit 0
