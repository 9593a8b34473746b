#!/bin/bash
# run --hosts --grpc: each host's agent serves its own tasks, and they are one job: keys, barriers, who is alive, errors
# and the shutdown reach across; tasks and agents that are killed are named everywhere; a connection that breaks is
# noticed by nobody. The other hosts are this machine again.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/guests.sh"
. "$(dirname "$0")/relay.sh"
. "$(dirname "$0")/served_hosts.sh"

SERVICE=grpc

# ---- one job: two hosts, three, and a leader's without tasks ----
for hosts in localhost:2,b:2 localhost:1,b:2,c:1 b:1,c:3; do
    check 0 run --hosts $hosts --grpc -l -- sh -c "
        exec $GUEST register set from/\$RANK v\$RANK barrier all get from/0 get from/3 alive shutdown"
    [ "$(grep -c '^\[[0-3]\] v[03]$' "$OUT")" -eq 8 ] || fail "keys do not reach all"
    [ "$(grep -c '0 1 2 3$' "$OUT")" -eq 4 ] || fail "they do not see each other alive"
    err_is_empty
done
clean

# Each has its own host's address, and no other's engine takes it.
check 0 run --hosts localhost:2,b:2 --grpc -l -- sh -c 'echo $MUSTER_GRPC_ADDRESS $JAX_COORDINATOR_ADDRESS $JAX_COORDINATOR_BIND_ADDRESS'
[ "$(sed 's/^\[.\] //' "$OUT" | sort -u | wc -l)" -eq 2 ] || fail "there are not two addresses"
for i in 0 1 2 3; do
    grep -qE "^\[$i\] (127.0.0.1:[1-9][0-9]*) \1 127.0.0.1:0$" "$OUT" || fail "task $i's variables"
done
check 9 run --hosts localhost:1,b:1 --grpc --register-barrier=no -l -- sh -c "
    [ \$RANK = 1 ] || exec $GUEST register set address \$MUSTER_GRPC_ADDRESS poll hold
    exec $GUEST --address \$(muster kv get --wait=30s address) register" # which nobody waits for: it does not come
out_has '^\[1\] INVALID_ARGUMENT: task 1 is a task of host b: its client is to connect to the service there'
clean

# Guests and tasks of the library on both.
cat > "$TMPDIR/both.sh" <<EOS2
case \$RANK in
0 | 3) exec $GUEST register set from/\$RANK wire\$RANK barrier both get from/1 get from/2 shutdown ;;
*) muster barrier wait both > /dev/null && muster kv get from/0 && muster kv get from/3 && muster kv set from/\$RANK shared\$RANK ;;
esac
EOS2
check 0 run --hosts localhost:2,b:2 --grpc --register-barrier=no --shutdown-timeout 0 -l -- bash "$TMPDIR/both.sh"
for i in 0 3; do
    out_has "^\[$i\] shared1$"
    out_has "^\[$i\] shared2$"
done
[ "$(grep -c '^\[[12]\] wire0wire3$' "$OUT")" -eq 2 ] || fail "tasks of the library do not see the guests' keys"
clean

# ---- errors: reported, and by death, on either host ----
check 13 run --hosts localhost:2,b:2 --grpc -l --kill-on-fail=no -- sh -c "
    [ \$RANK = 1 ] || exec $GUEST register poll barrier a hold
    exec $GUEST register barrier a report 'it broke' exit 13"
for i in 0 2 3; do
    out_has "^\[$i\] INTERNAL: task 1 (pid [0-9]*.*) is in error: it broke"
done
for dies in 0 3; do
    check 137 run --hosts localhost:2,b:2 --grpc -l --kill-on-fail=no -- sh -c "
        [ \$RANK = $dies ] || exec $GUEST register poll barrier a hold
        exec $GUEST register barrier a kill"
    for i in 0 1 2 3; do
        [ $i -eq $dies ] || out_has "^\[$i\] [A-Z_]*: .*task $dies (pid [0-9]* on host [a-z]*.*signal 9"
    done
    err_has "^muster run: task $dies (host [^,]*, pid [0-9]*) was killed by signal 9 (SIGKILL)"
done
check 137 run --hosts localhost:2,b:2 --grpc -- sh -c "
    [ \$RANK = 3 ] || exec $GUEST register poll barrier a hold await '$TMPDIR/never' # until it is ended
    exec $GUEST register barrier a kill"
err_has '^muster run: task 3 (host b, pid [0-9]*) was killed by signal 9 (SIGKILL).*; ending the other 3 tasks$'
clean

# A shutdown that not all come to fails for all; a task of the other host that is started again registers anew.
check 9 run --hosts localhost:1,b:1 --grpc --shutdown-timeout 1s -l --kill-on-fail=no -- sh -c "
    [ \$RANK = 1 ] || exec $GUEST register poll hold
    exec $GUEST register shutdown"
for i in 0 1; do
    out_has "^\[$i\] INTERNAL: Shutdown barrier has failed"
    out_has "^\[$i\] task 0 (pid [0-9]* on host "
done
check 0 run --hosts localhost:1,b:2 --grpc --restarts 1 --restart-delay 0 --restart-policy task -- bash -c '
    if [ $RANK.$MUSTER_ATTEMPT = 2.0 ]; then exec '"$GUEST"' register kill; fi
    exec '"$GUEST"' register barrier a shutdown'
err_has '^muster agent (host b): task 2 (pid [0-9]*) was killed by signal 9.*starting it again'
clean

# ---- what is shown, and a connection that breaks while calls wait at the other host ----
export RELAY=$TMPDIR/relay
background localhost:1,b:1 -- sh -c "
    [ \$RANK = 0 ] || exec $GUEST register get late barrier a get later shutdown
    exec $GUEST register await '$TMPDIR/go' set late v barrier a await '$TMPDIR/on' set later w shutdown"
reaches_host_b_all_the_same parked

# ---- agents are killed: the host is named to the guests elsewhere; without the leader's all ends ----
background localhost:2,b:1 $GUEST register say ready poll barrier a hold
await "all are ready" says ready 3
await "host b's agent is known" is_known
kill -KILL "$(agent_of "$JOB.h1")"
ended 125
for i in 0 1; do
    out_has "^\[$i\] .*task 2 (pid [0-9]* on host b).*host b is lost"
done
err_has '^muster run: host b is lost: '

background b:1,c:1 $GUEST register say ready hold
await "both are ready" says ready 2
kill -KILL $RUN
wait $RUN 2> /dev/null
clean

# ---- started again; by hand, one agent each, where the leader's must serve, too ----
check 0 run --hosts localhost:1,b:1 --grpc --restarts 1 --restart-delay 0 -l -- sh -c '
    if [ $MUSTER_ATTEMPT = 0 ]; then exec '"$GUEST"' register set k/$RANK 1 barrier a exit 3; fi
    exec '"$GUEST"' register set k/$RANK 2 barrier a get k/0 get k/1 shutdown'
[ "$(grep -c '\] 2$' "$OUT")" -eq 4 ] || fail "the second attempt has other keys"
clean

agents_by_hand
agent 1 --grpc -l -- $GUEST register barrier a alive shutdown > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 0 agent 0 --job "$JOB" --grpc -n 2 -l -- $GUEST register barrier a alive shutdown
wait $one || fail "node 1: $(cat "$ERR.1")"
[ "$(cat "$OUT" "$OUT.1" | grep -c '0 1 2$')" -eq 3 ] || fail "agents by hand: $(cat "$OUT.1")"
agent 1 --grpc true > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 125 agent 0 --job "$JOB" sleep 900
wait $one && fail "node 1 serves what nobody leads"
grep -q '^muster agent (host [^)]*): --grpc is to be said to the leader.s agent, too: it decides when' "$ERR.1" || fail "$(cat "$ERR.1")"
clean
exit 0
