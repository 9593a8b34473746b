#!/bin/bash
# run --hosts --tcpstore: each host's agent serves its own tasks, and all see the same keys; what is set on one host
# wakes who waits on another, also where a task was killed meanwhile, and where the connection between the hosts broke;
# an agent's end is seen, and nobody hangs. The other hosts are this machine again.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
[ ! -x /usr/bin/python3 ] || PYTHON=/usr/bin/python3
cp "$TOP/tests/launch/store.py" "$TMPDIR/store.py" # a path without blanks
STORE="$PYTHON -S -E $TMPDIR/store.py" # begun so often that what it imports counts
. "$(dirname "$0")/relay.sh"
. "$(dirname "$0")/served_hosts.sh"

SERVICE=tcpstore

# ---- one job: two hosts, three, and a leader's without tasks ----
for hosts in localhost:2,b:2 localhost:1,b:2,c:1 b:1,c:3; do
    check 0 run --hosts $hosts --tcpstore -l -- sh -c "
        exec $STORE set from/\$RANK v\$RANK get from/0 get from/3 add n 1 barrier all delete from/\$RANK barrier gone check from/3 add n 0"
    [ "$(grep -c '^\[[0-3]\] v[03]$' "$OUT")" -eq 8 ] || fail "keys do not reach all"
    [ "$(grep -c '^\[[0-3]\] 4$' "$OUT")" -ge 4 ] || fail "they do not count together"
    [ "$(grep -c '^\[[0-3]\] no$' "$OUT")" -eq 4 ] || fail "deleted keys are still there"
    err_is_empty
done
clean

# Each has its own host's address.
check 0 run --hosts localhost:2,b:2 --tcpstore -l -- sh -c 'echo $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE'
[ "$(sed 's/^\[.\] //' "$OUT" | sort -u | wc -l)" -eq 2 ] || fail "there are not two addresses"
[ "$(grep -cE '^\[[0-3]\] 127\.0\.0\.1:[1-9][0-9]* True$' "$OUT")" -eq 4 ] || fail "a task's variables"

# The variable says it for all hosts; clients and tasks of the library on both.
cat > "$TMPDIR/both.sh" <<EOS2
case \$RANK in
0 | 3) exec $STORE set from/\$RANK wire\$RANK get from/1 get from/2 ;;
*) muster kv get --wait=30s tcpstore/:from:0 && muster kv get --wait=30s tcpstore/:from:3 && muster kv set tcpstore/:from:\$RANK shared\$RANK ;;
esac
EOS2
check 0 env MUSTER_TCPSTORE=1 "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:2,b:2 -l -- bash "$TMPDIR/both.sh"
for i in 0 3; do
    out_has "^\[$i\] shared1$"
    out_has "^\[$i\] shared2$"
done
[ "$(grep -c '^\[[12]\] wire0wire3$' "$OUT")" -eq 2 ] || fail "tasks of the library do not see the clients' keys"
clean

# ---- a task is killed on either host while the others wait: what they wait for may yet come, from the other host ----
for dies in 0 3; do
    rm -f "$TMPDIR/dead"
    background localhost:2,b:2 -- bash -c '
        case $RANK in
        '$dies') exec '"$STORE"' set here 1 ask never kill ;;
        1) exec '"$STORE"' get here await '"$TMPDIR/dead"' set one 1 get two ;;
        2) exec '"$STORE"' get here get one set two both ;;
        *) exec '"$STORE"' get two ;;
        esac'
    is_said() { grep -q "^muster run: task $dies (host [^,]*, pid [0-9]*) was killed by signal 9 (SIGKILL)" "$ERR.run"; }
    await "the launcher says who was killed" is_said
    : > "$TMPDIR/dead"
    ended 137
    [ "$(grep -c '\] both$' "$OUT")" -eq 2 ] || fail "not all were woken"
done

# ---- what is shown, and a connection that breaks while calls wait at the other host ----
export RELAY=$TMPDIR/relay
background localhost:1,b:1 -- sh -c "
    [ \$RANK = 0 ] || exec $STORE get late get later
    exec $STORE await '$TMPDIR/go' set late v await '$TMPDIR/on' set later w"
reaches_host_b_all_the_same waiting

# ---- agents are killed: their own tasks end with them, and a client from outside sees the end, and does not hang ----
outside() # N ADDRESS: client N waits there
{
    rm -f "$OUT.client$1"
    env -u "${MARK%%=*}" $STORE --address "$2" say waiting wait never > "$OUT.client$1" 2> "$ERR.client$1" &
    CLIENTS[$1]=$!
    await "client $1 from outside waits" test -s "$OUT.client$1"
}
saw_the_end() # N
{
    wait "${CLIENTS[$1]}"
    [ $? -eq 9 ] || fail "client $1 from outside: $(cat "$OUT.client$1" "$ERR.client$1")"
}
address_of() { sed -n "s/^\[$1\] \([0-9.]*:[0-9]*\)$/\1/p" "$OUT.run"; }
background localhost:1,b:1 -- sh -c 'echo $MASTER_ADDR:$MASTER_PORT; exec '"$STORE"' barrier all say ready ask never hold'
await "both are ready" says ready 2
await "host b's agent is known" is_known
agent=$(agent_of "$JOB.h1")
for i in 0 1; do outside $i "$(address_of $i)"; done
kill -KILL "$agent"
saw_the_end 1
await "the leader has heard of it" grep -q '^muster run: host b is lost: ' "$ERR.run"
kill -TERM $RUN 2> /dev/null # if it has not ended for that
wait $RUN 2> /dev/null
saw_the_end 0
clean

background b:1,c:1 -- sh -c 'echo $MASTER_ADDR:$MASTER_PORT; exec '"$STORE"' barrier all say ready ask never hold'
await "both are ready" says ready 2
outside 1 "$(address_of 1)"
kill -KILL $RUN
wait $RUN 2> /dev/null
saw_the_end 1
clean

# ---- started again; by hand, one agent each, where one alone serves ----
check 0 run --hosts localhost:1,b:1 --tcpstore --restarts 1 --restart-delay 0 -l -- sh -c '
    if [ $MUSTER_ATTEMPT = 0 ]; then exec '"$STORE"' set k/$RANK 1 barrier a exit 3; fi
    exec '"$STORE"' check k/0 check k/1 barrier a'
[ "$(grep -c '\] no$' "$OUT")" -eq 4 ] || fail "the second attempt has the first one's keys"
clean

agents_by_hand
for who in 0 1; do
    agent 1 $([ $who = 0 ] || echo --tcpstore) -- sh -c "[ $who = 1 ] && exec $STORE set a wire get b || { muster kv get --wait=30s tcpstore/:a && muster kv set tcpstore/:b shared; }" > "$OUT.1" 2> "$ERR.1" < /dev/null &
    one=$!
    check 0 agent 0 --job "$JOB" $([ $who = 1 ] || echo --tcpstore) -- sh -c "[ $who = 0 ] && exec $STORE set a wire get b || { muster kv get --wait=30s tcpstore/:a && muster kv set tcpstore/:b shared; }"
    wait $one || fail "node 1: $(cat "$ERR.1")"
    [ "$(cat "$OUT" "$OUT.1" | grep -oE 'shared|wire' | sort | tr -d '\n')" = sharedwire ] || fail "agents by hand: $(cat "$OUT" "$OUT.1")"
done
clean
exit 0
