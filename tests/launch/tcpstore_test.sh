#!/bin/bash
# run --tcpstore: what the tasks are given, what they find there, what the others see of one that is killed; the store
# ends with the job, and whoever still waits there is told; nothing is left. What takes longest is to import PyTorch, at the
# end, where that is installed.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
set -m # background jobs get SIGINT
[ ! -x /usr/bin/python3 ] || PYTHON=/usr/bin/python3
cp "$TOP/tests/launch/store.py" "$TMPDIR/store.py" # a path without blanks
STORE="$PYTHON -S -E $TMPDIR/store.py" # begun so often that what it imports counts
unset MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE
run() { "$MUSTER" run --job "$JOB" "$@"; }

# ---- a job that goes well ----
check 0 run -n 3 --tcpstore --label -- sh -c "
    exec $STORE set from/\$RANK v\$RANK get from/0 get from/1 get from/2 barrier all add n 1 barrier all2 add n 0"
for i in 0 1 2; do
    [ "$(sed -n "s/^\[$i\] v//p" "$OUT" | tr '\n' ' ')" = '0 1 2 ' ] || fail "task $i does not see all keys"
done
[ "$(grep -c '^\[[012]\] 3$' "$OUT")" -ge 3 ] || fail "they do not count together"
err_is_empty
no_segment "$JOB" || fail "a segment is left"

# It is one job for clients of the wire, for tasks of the library, and for who looks at it.
cat > "$TMPDIR/both.sh" <<EOS
if [ \$RANK = 0 ]; then
    exec $STORE set from/0 wire get from/1
fi
muster kv get --wait=30s tcpstore/:from:0 && muster kv set tcpstore/:from:1 shared && muster kv list tcpstore
EOS
check 0 run -n 2 --tcpstore --label -- bash "$TMPDIR/both.sh"
out_has '^\[0\] shared$'
out_has '^\[1\] wire'
out_has '^\[1\] .*tcpstore/:from:0'

# ---- what the tasks are given ----
show='echo $MASTER_ADDR:$MASTER_PORT,$TORCHELASTIC_USE_AGENT_STORE,$TORCHELASTIC_RESTART_COUNT; echo $JAX_COORDINATOR_ADDRESS'
given() # whatever the launcher's environment had
{
    grep -qE '^127\.0\.0\.1:[1-9][0-9]*,True,0$' "$OUT" || fail "the store's address"
    [ "$(sed -n 's/,.*//p' "$OUT")" != "$(tail -n 1 "$OUT")" ] || fail "JAX is sent to PyTorch's store"
}
check 0 env MASTER_ADDR=elsewhere MASTER_PORT=1 TORCHELASTIC_USE_AGENT_STORE=False "$MUSTER" run --tcpstore sh -c "$show"
given
check 0 env MUSTER_TCPSTORE=1 "$MUSTER" run sh -c "$show"
given
for off in 0 no ''; do
    check 0 env MUSTER_TCPSTORE=$off "$MUSTER" run sh -c "$show"
    out_has '^127\.0\.0\.1:[1-9][0-9]*,False,0$'
done
check 0 env MASTER_ADDR=elsewhere MASTER_PORT=1 "$MUSTER" run sh -c "$show"
out_has '^elsewhere:1,False,0$'
check 0 run --tcpstore sh -c "muster run sh -c '$show'" # of another job nothing is passed on
out_has '^127\.0\.0\.1:[1-9][0-9]*,False,0$'
check 0 run --dry-run --tcpstore=127.0.0.1:4711 true
out_has ' MASTER_PORT=4711$'
out_has ' TORCHELASTIC_USE_AGENT_STORE=True$'
check 0 run --dry-run --tcpstore true
out_has ' MASTER_PORT=[1-9][0-9]*$'

# ---- where it cannot be served the job does not run ----
"$PYTHON" -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)' > "$TMPDIR/port" & # sleep: until it is killed
HOG=$!
await "a port is taken" test -s "$TMPDIR/port"
PORT=$(cat "$TMPDIR/port")
check 125 run --tcpstore="127.0.0.1:$PORT" echo started
out_is_empty
err_has "^muster run: no store for PyTorch at 127.0.0.1:$PORT: .*in use"
err_is_one_line
kill -KILL $HOG
wait $HOG 2> /dev/null
for bad in nonsense 127.0.0.1:99999 0.0.0.0:0 unix:x; do
    got=0
    run --tcpstore="$bad" echo started > "$OUT" 2> "$ERR" || got=$?
    [ $got -eq 2 ] || [ $got -eq 125 ] || fail "exit status $got with $bad"
    out_is_empty
    err_is_one_line
done
for words in '--tcpstore --survive' --tcpstore-insecure '--tcpstore --env MASTER_ADDR=x' \
    '--tcpstore --env TORCHELASTIC_USE_AGENT_STORE=True'; do
    check 2 run $words true
    err_is_one_line
done
check 2 env MUSTER_TCPSTORE=1 "$MUSTER" run --survive true
err_has 'MUSTER_TCPSTORE'

# ---- a task is killed while others wait: they go on to wait, and what they wait for may yet come ----
RUN_OPTIONS='--tcpstore --label --kill-on-fail=no' start_job 3 bash -c '
    case $RANK in
    0) exec '"$STORE"' get late ;;
    1) exec '"$STORE"' set here 1 ask never kill ;;
    2) exec '"$STORE"' get here await '"$TMPDIR/dead"' set late all-the-same ;;
    esac'
is_said() { grep -q '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL)' "$ERR.run"; }
await "the launcher says who was killed" is_said
: > "$TMPDIR/dead"
wait $RUN
[ $? -eq 137 ] || fail "exit status $? instead of 137"
grep -q '^\[0\] all-the-same$' "$OUT.run" || fail "task 0 was not woken"
check 137 run -n 3 --tcpstore -- bash -c 'if [ $RANK = 1 ]; then exec '"$STORE"' set here 1 kill; fi; exec '"$STORE"' get here get never'
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL).*; ending the other 2 tasks$'
no_segment "$JOB" || fail "a segment is left"

# ---- starting again: the job, at the same address, where no key is; one task, where all are ----
check 0 run -n 2 --tcpstore --restarts 1 --restart-delay 0 -- bash -c '
    echo $RANK.$MUSTER_ATTEMPT $MASTER_PORT $TORCHELASTIC_RESTART_COUNT
    if [ $MUSTER_ATTEMPT = 0 ]; then exec '"$STORE"' set k 1 barrier a exit 3; fi
    exec '"$STORE"' check k barrier a'
[ "$(grep -c '^no$' "$OUT")" -eq 2 ] || fail "the second attempt has the first one's keys"
[ "$(awk '/^[01]\./ { print $2 }' "$OUT" | sort -u | wc -l)" -eq 1 ] || fail "the second attempt is at another port"
out_has '^1\.1 [0-9]* 1$'
check 0 run -n 2 --tcpstore --restarts 1 --restart-delay 0 --restart-policy task -- bash -c '
    if [ $RANK.$MUSTER_ATTEMPT = 1.0 ]; then exec '"$STORE"' set k 1 kill; fi
    if [ $RANK = 1 ]; then exec '"$STORE"' check k set l 1; fi
    exec '"$STORE"' wait l'
out_is yes
err_has 'task 1 (pid [0-9]*) was killed by signal 9.*starting it again'

# ---- status and metrics tell of it, beside the coordination service as well ----
RUN_OPTIONS="--tcpstore --grpc --metrics unix:$TMPDIR/m" start_job 2 sh -c 'echo $MASTER_ADDR:$MASTER_PORT
    if [ $RANK = 0 ]; then exec '"$STORE"' set mine 1 await '"$TMPDIR/go"' set later 1; fi; exec '"$STORE"' wait later'
shows() { "$MUSTER" status --job "$JOB" > "$OUT" && grep -qE "^tcpstore 127.0.0.1:[0-9]+: 2 connections, 1 call waits$" "$OUT"; }
await "status shows the connections" shows
out_has '^grpc     127.0.0.1:[0-9]*: 0 connections, 0 calls wait$'
check 0 "$MUSTER" status --job "$JOB" --json
json_is '[it["tcpstore"][k] for k in ("connections", "waiting")]' '[2, 1]'
json_is 'it["tcpstore"]["address"]' "$(head -n 1 "$OUT.run")"
cat > "$TMPDIR/scrape.py" <<'EOS'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode())
EOS
has_set() { "$PYTHON" "$TMPDIR/scrape.py" "$TMPDIR/m" > "$OUT" && grep -q '^muster_tcpstore_calls_total{call="SET"} 1$' "$OUT"; }
await "the set is counted" has_set
out_has '^muster_tcpstore_connections 2$'
out_has '^muster_tcpstore_waiting 1$'
for name in $(grep -o '^muster_tcpstore_[a-z_]*' "$OUT" | sort -u); do
    grep -q "^| .$name. |" "$TOP/docs/METRICS.md" || fail "docs/METRICS.md lacks $name"
done
: > "$TMPDIR/go"
wait $RUN || fail "exit status $?"

# ---- the launcher ends, by a signal that it obeys and by one that it does not: clients see the end, and do not hang ----
MARK=MUSTER_TEST_MARK=$$-$RANDOM
for signal in TERM KILL; do
    rm -f "$OUT.run" "$OUT.client"
    export "${MARK?}"
    RUN_OPTIONS='--tcpstore --grace 1s' start_job 1 sh -c 'echo $MASTER_ADDR:$MASTER_PORT; exec '"$STORE"' set here 1 ask never hold'
    export -n "${MARK%%=*}"
    await "the task has its address" test -s "$OUT.run"
    # shellcheck disable=SC2086
    $STORE --address "$(head -n 1 "$OUT.run")" wait here say waiting wait never > "$OUT.client" 2> "$ERR.client" &
    CLIENT=$!
    await "a client from outside waits" test -s "$OUT.client"
    kill -$signal $RUN
    wait $RUN 2> /dev/null
    wait $CLIENT
    [ $? -eq 9 ] || fail "the client outside: $(cat "$OUT.client" "$ERR.client")"
    [ "$(cat "$OUT.client")" = "$(printf 'waiting\nended')" ] || fail "the client outside: $(cat "$OUT.client")"
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segment "$JOB"
done

# ---- PyTorch's own client, where PyTorch is ----
/usr/bin/python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2> /dev/null ||
    { echo "all but PyTorch itself, which is not here (python3-torch)" && exit 0; }
cat > "$TMPDIR/reduce.py" <<'EOS'
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("the sum is", int(total.item()), flush=True)
dist.destroy_process_group()
EOS
check 0 run -n 2 --tcpstore --label --env OMP_NUM_THREADS=1 --env GLOO_SOCKET_IFNAME=lo -- /usr/bin/python3 "$TMPDIR/reduce.py"
for i in 0 1; do out_has "^\[$i\] the sum is 3$"; done
exit 0
