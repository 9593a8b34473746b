#!/bin/bash
# run --grpc: what the tasks are given, what they find there, what is said when one fails; nothing is left.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/guests.sh"
set -m # background jobs get SIGINT
run() { "$MUSTER" run --job "$JOB" "$@"; }

# ---- a job that goes well ----
check 0 run -n 3 --grpc --label -- $GUEST register barrier all alive shutdown
[ "$(grep -c '0 1 2$' "$OUT")" -eq 3 ] || fail "they do not see each other alive"
err_is_empty
no_segment "$JOB" || fail "a segment is left"

# It is one job for clients of the wire and of the library.
cat > "$TMPDIR/both.sh" <<EOS
if [ \$RANK = 0 ]; then
    exec $GUEST register set from/0 wire barrier both get from/1 shutdown
fi
muster barrier wait both > /dev/null && muster kv get from/0 && muster kv set from/1 shared
EOS
check 0 run -n 2 --grpc --register-barrier=no --shutdown-timeout 0 --label -- bash "$TMPDIR/both.sh"
out_has '^\[0\] shared$'
out_has '^\[1\] wire$'

# ---- what the tasks are given ----
check 0 env JAX_COORDINATOR_ADDRESS=elsewhere:1 JAX_COORDINATOR_BIND_ADDRESS=elsewhere:2 "$MUSTER" run --grpc env
address=$(sed -n 's/^MUSTER_GRPC_ADDRESS=//p' "$OUT")
[[ $address =~ ^127\.0\.0\.1:[1-9][0-9]*$ ]] || fail "the address is $address"
out_has "^JAX_COORDINATOR_ADDRESS=$address$"
out_has '^JAX_COORDINATOR_BIND_ADDRESS=127.0.0.1:0$'
out_has '^OMPI_MCA_orte_hnp_uri='
grep -q '^no_grpc_proxy' "$OUT" && fail "no proxy is set"
check 0 env http_proxy=http://proxy:1 no_proxy=.example.org "$MUSTER" run --grpc env
out_has '^no_grpc_proxy=.example.org,127.0.0.1$'
check 0 env https_proxy=http://proxy:1 no_grpc_proxy=a "$MUSTER" run --grpc sh -c 'echo $no_grpc_proxy; muster run --grpc sh -c "echo \$no_grpc_proxy"'
out_is "$(printf 'a,127.0.0.1\na,127.0.0.1,127.0.0.1')"
check 0 run --grpc --env JAX_COORDINATOR_ADDRESS=mine sh -c 'echo $JAX_COORDINATOR_ADDRESS; muster run sh -c "echo \$MUSTER_GRPC_ADDRESS,\$OMPI_MCA_orte_hnp_uri"'
out_is "$(printf 'mine\n,')"
check 0 run sh -c 'echo "$MUSTER_GRPC_ADDRESS,$OMPI_MCA_orte_hnp_uri"'
out_is ,
check 0 env http_proxy=http://127.0.0.1:1 "$MUSTER" run -n 2 --grpc -- $GUEST register shutdown
check 0 run --dry-run --grpc=127.0.0.1:4711 true
out_has 'JAX_COORDINATOR_ADDRESS=127.0.0.1:4711$'

# A Unix socket: a path that is short enough, and one that a killed launcher has left.
check 0 run -n 2 --grpc="unix:$TMPDIR/s" -- $GUEST register shutdown
[ ! -e "$TMPDIR/s" ] || fail "the socket is left"
"$PYTHON" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$TMPDIR/s"
check 0 run -n 2 --grpc="unix:$TMPDIR/s" -- $GUEST register shutdown

# ---- where it cannot be served the job does not run ----
hog_port
check 125 run --grpc="127.0.0.1:$PORT" echo started
out_is_empty
err_has "^muster run: no coordination service at 127.0.0.1:$PORT: .*in use"
err_is_one_line
kill -KILL $HOG
wait $HOG 2> /dev/null
for bad in 'nonsense' '127.0.0.1:99999' 'unix:' '0.0.0.0:0'; do
    got=0
    run --grpc="$bad" echo started > "$OUT" 2> "$ERR" || got=$?
    [ $got -eq 2 ] || [ $got -eq 125 ] || fail "exit status $got with $bad"
    out_is_empty
    err_is_one_line
done
for words in --survive '--hosts localhost:1,b:1 --survive --output x' '--register-timeout 0' '--register-barrier=maybe' '--grpc-cert /none' \
    '--grpc-key /none' '--grpc-ca /none' '--grpc-peer-uri spiffe://x/' '--shutdown-timeout x'; do
    check 2 run --grpc $words true
    err_is_one_line
done
for words in '--register-timeout 1s' '--shutdown-timeout 1s' --register-barrier --grpc-recoverable --grpc-insecure --grpc-any-user \
    '--grpc-peer-uri spiffe://x/'; do
    check 2 run $words true
    err_has "^muster run: --[a-z-]* needs --grpc "
done

# ---- a task is killed: it is named to the others, and to people ----
RUN_OPTIONS='--grpc --label --kill-on-fail=no' start_job 3 bash -c '
    if [ $RANK = 1 ]; then exec '"$GUEST"' register barrier a kill; fi; exec '"$GUEST"' register poll barrier a hold'
wait $RUN
[ $? -eq 137 ] || fail "exit status $? instead of 137"
cp "$OUT.run" "$OUT"; cp "$ERR.run" "$ERR"
for i in 0 2; do
    grep -qE "^\[$i\] [A-Z_]+: .*task 1.*pid [0-9]+.*signal 9" "$OUT" || fail "task $i does not know what became of task 1"
done
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL)'
check 137 run -n 3 --grpc -- bash -c 'if [ $RANK = 1 ]; then exec '"$GUEST"' register barrier a kill; fi; exec '"$GUEST"' register poll barrier a hold'
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL).*; ending the other 2 tasks$'
# With --grpc-recoverable the others go on, unless it is said what a failure leads to.
goes_on='until [ $RANK = 0 ] || [ -e "$0" ]; do sleep 0.05; done; [ $RANK = 1 ] || exit 3; echo went on'
: > "$TMPDIR/failed"
check 3 run -n 2 --grpc --grpc-recoverable sh -c "$goes_on" "$TMPDIR/failed"
out_is 'went on'
err_has '^muster run: task 0 (pid [0-9]*) exited with status 3$'
for words in --kill-on-fail '--restarts 1 --restart-delay 0'; do
    check 3 run -n 2 --grpc --grpc-recoverable $words sh -c "$goes_on" "$TMPDIR/never"
    out_is_empty
    err_has 'exited with status 3; ending the other 1 task$'
done
no_segment "$JOB" || fail "a segment is left"

# ---- another user of this machine does not take part, unless all may ----
if [ "$(id -u)" = 0 ]; then
    check 9 run --grpc --register-barrier=no -- $GUEST become 65534 try a
    out_has '^UNAVAILABLE: '
    err_has '^muster run: gRPC: a client is refused: it is of user 65534, and the job of user 0 (--grpc-any-user serves'
    check 0 run --grpc --grpc-any-user -- $GUEST become 65534 register set a 1 get a shutdown
    out_is 1
else
    echo "not tested: other users' clients (needs root)"
fi

# ---- starting again: the job, at the same address, where nobody is registered and no key is there; one task ----
check 0 run -n 2 --grpc="unix:$TMPDIR/s" --restarts 1 --restart-delay 0 --label -- bash -c '
    if [ $MUSTER_ATTEMPT = 0 ]; then exec '"$GUEST"' register set k/$RANK 1 barrier a exit 3; fi
    exec '"$GUEST"' register set k/$RANK 2 barrier a get k/0 shutdown'
[ "$(grep -c '\] 2$' "$OUT")" -eq 2 ] || fail "the second attempt has other keys"
check 0 run -n 2 --grpc --restarts 1 --restart-delay 0 --restart-policy task --label -- bash -c '
    if [ $RANK.$MUSTER_ATTEMPT = 1.0 ]; then exec '"$GUEST"' register kill; fi
    exec '"$GUEST"' register barrier a shutdown'
err_has 'task 1 (pid [0-9]*) was killed by signal 9.*starting it again'

# ---- a program that fails waits in the shutdown while its peer works: it is named at once, and blamed at the end ----
check 9 run -n 2 --grpc --shutdown-timeout 4s --kill-on-fail=no -- bash -c '
    if [ $RANK = 0 ]; then exec '"$GUEST"' register poll hold; fi
    echo "ValueError: out of luck" >&2
    exec '"$GUEST"' register poll shutdown'
waits='task 1 (pid [0-9]* on host .*) waits in the shutdown: 1 of 2 tasks have not called .*: task 0 (pid [0-9]* .*)'
err_has "^muster run: $waits; it said last: ValueError: out of luck$"
err_has '^muster run: task 1 (pid [0-9]*) .* after the coordination service had put it in error: the shutdown has timed out: task 1 (.*) waited in it, without task 0 '
[ "$(grep -c 'it said last: ValueError' "$ERR")" -eq 2 ] || fail "it is not said again at the end"

RUN_OPTIONS=--grpc start_job 3 bash -c '
    if [ $RANK = 1 ]; then exec '"$GUEST"' register shutdown; fi
    exec '"$GUEST"' register await '"$TMPDIR/most"' shutdown'
names() { "$MUSTER" status --job "$JOB" 2> /dev/null | head -n 1 | grep -q '^task 1 (pid [0-9]*) waits in the shutdown, for which most'; }
await "status names it" names
: > "$TMPDIR/most"
wait $RUN || fail "exit status $?"

# ---- a client that exits with status 0 has left, with or without a shutdown; waits for it end ----
check 0 run -n 2 --grpc --label -- bash -c '
    if [ $RANK = 1 ]; then exec '"$GUEST"' register poll barrier a exit 0; fi
    exec '"$GUEST"' register poll barrier a await '"$TMPDIR/gone"' shutdown say well' &
RUN=$!
is_gone() { "$MUSTER" status --job "$JOB" 2> /dev/null | grep -q '^ *1 .*DISCONNECTED'; }
await "task 1 has left" is_gone
: > "$TMPDIR/gone"
wait $RUN || fail "its end fails the job"
out_has '^\[0\] well$'
check 9 run -n 2 --grpc -- bash -c '
    if [ $RANK = 1 ]; then exec '"$GUEST"' register poll barrier a exit 0; fi
    exec '"$GUEST"' register barrier a barrier b'
out_has 'task 1 (pid [0-9]* on host .*) has ended (exited with status 0)'

# ---- status and metrics tell of it ----
RUN_OPTIONS="--grpc --metrics unix:$TMPDIR/m" start_job 2 $GUEST register poll say ready await "$TMPDIR/go" shutdown
is_registered() { [ "$(grep -c ready "$OUT.run")" -eq 2 ]; }
await "both are registered" is_registered
shows() { "$MUSTER" status --job "$JOB" > "$OUT" && grep -qE "^grpc     127.0.0.1:[0-9]+: 2 connections, 2 calls wait$" "$OUT"; }
await "status shows the connections" shows
check 0 "$MUSTER" status --job "$JOB" --json
json_is 'it["grpc"]["connections"]' 2
cat > "$TMPDIR/scrape.py" <<'EOS'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode())
EOS
check 0 "$PYTHON" "$TMPDIR/scrape.py" "$TMPDIR/m"
out_has '^muster_grpc_connections 2$'
for name in $(grep -o '^muster_grpc_[a-z_]*' "$OUT" | sort -u); do
    grep -q "^| .$name. |" "$TOP/docs/METRICS.md" || fail "docs/METRICS.md lacks $name"
done
out_has '^muster_grpc_calls_total{method="[a-z.]*CoordinationService/RegisterTask",code="OK"} 2$'
: > "$TMPDIR/go"
wait $RUN || fail "exit status $?"

# ---- the launcher ends: by ^C, by SIGKILL ----
RUN_OPTIONS='--grpc --grace 10m' start_job 2 $GUEST register say ready hold
await "both are registered" is_registered
kill -INT $RUN
wait $RUN
[ $? -eq 130 ] || fail "exit status $? instead of 130"
no_segment "$JOB" || fail "a segment is left"

MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
RUN_OPTIONS="--grpc=unix:$TMPDIR/k" start_job 2 $GUEST register say ready hold
await "both are registered" is_registered
kill -KILL $RUN
await "no process is left" none_with_mark "$MARK"
await "no segment is left" no_segment "$JOB"
exit 0
