#!/bin/bash
# Agents that something else starts: by hand, by Open MPI's mpirun, by MPICH's mpiexec. What does not fit is said in
# words by both sides; a leader that is killed takes the others' tasks with it.
# timeout: 180
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}" HOME=$TMPDIR/home
mkdir "$HOME"
unset MUSTER_KEY MUSTER_KEY_FILE

keep_ports 23
# agent I H WORDS...: node I of H, in the foreground.
agent()
{
    local node=$1 nodes=$2
    shift 2
    "$MUSTER" agent --join "127.0.0.1:$PORT" --node-id "$node" --nodes "$nodes" --join-timeout 20s "$@"
}
# begin I H WORDS...: in the background, its pid in $AGENT, its output in $OUT.I and $ERR.I.
begin()
{
    : > "$OUT.$1" > "$ERR.$1" # now: nothing that an earlier one wrote is taken for this one's
    env --default-signal=INT "$MUSTER" agent --join "127.0.0.1:$PORT" --node-id "$1" --nodes "$2" --join-timeout 20s "${@:3}" \
        > "$OUT.$1" 2> "$ERR.$1" < /dev/null &
    AGENT=$!
}
ends_with() # STATUS PID
{
    local got=0
    wait "$2" || got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1: $(cat "$ERR".[0-9] 2> /dev/null)"
}
is_said() { grep -qe "$1" "$ERR.$2"; }
clean()
{
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segment "$JOB"
}

# Three nodes by hand, with a key that node 0 makes; the leader's status is everybody's.
next_port
begin 2 3 -n 2 sh -c 'muster barrier wait b > /dev/null; echo $RANK/$WORLD_SIZE $LOCAL_RANK'
two=$AGENT
begin 1 3 sh -c 'muster barrier wait b > /dev/null; echo $RANK/$WORLD_SIZE $LOCAL_RANK'
one=$AGENT
check 0 agent 0 3 --job "$JOB" -n 1 sh -c 'muster barrier wait b > /dev/null; echo $RANK/$WORLD_SIZE $MUSTER_JOB'
out_is "0/4 $JOB"
ends_with 0 $one
ends_with 0 $two
[ "$(sort "$OUT.1" "$OUT.2")" = "$(printf '1/4 0\n2/4 0\n3/4 1')" ] || fail "the others: $(cat "$OUT.1" "$OUT.2")"
clean

# Where task 0 is, is what --join calls it, on all hosts; where that names no host, or each host itself, what
# node 0 calls itself, or its address where that name does not resolve.
OWN=$("$PYTHON" -c 'import socket; print(socket.gethostname()); socket.getaddrinfo(socket.gethostname(), 0)' 2> /dev/null) ||
    OWN='[0-9]*[.:]*'
for address in 127.0.0.2 "" 0.0.0.0 localhost; do
    next_port
    "$MUSTER" agent --join "127.0.0.2:$PORT" --node-id 1 --nodes 2 --join-timeout 20s sh -c 'echo $MASTER_ADDR' > "$OUT.1" 2> "$ERR.1" < /dev/null &
    one=$!
    check 0 "$MUSTER" agent --join "$address:$PORT" --node-id 0 --nodes 2 --join-timeout 20s --job "$JOB" sh -c 'echo $MASTER_ADDR'
    ends_with 0 $one
    called=$address
    [ "$address" = 127.0.0.2 ] || called=$OWN
    [[ $(cat "$OUT") = $called && $(cat "$OUT.1") = "$(cat "$OUT")" ]] || fail "MASTER_ADDR, node 0 at '$address': $(cat "$OUT" "$OUT.1")"
done
clean

# A number that leads to node 0 only from elsewhere, as through a NAT, is for the tasks that are elsewhere.
next_port
"$MUSTER" agent --join "127.0.0.2:$PORT" --node-id 1 --nodes 2 --join-timeout 20s sh -c 'echo $MASTER_ADDR' > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 0 "$MUSTER" agent --join "192.0.2.7:$PORT" --node-id 0 --nodes 2 --join-timeout 20s --job "$JOB" sh -c 'echo $MASTER_ADDR ${JAX_COORDINATOR_ADDRESS%:*}'
ends_with 0 $one
[ "$(cat "$OUT" "$OUT.1")" = "127.0.0.1 127.0.0.1"$'\n'"192.0.2.7" ] || fail "MASTER_ADDR behind a NAT: $(cat "$OUT" "$OUT.1")"
err_has '^muster agent (host [^?]*): 192.0.2.7 is no address of this host'
clean

# A number of its own is where the leader listens, and nowhere else: another job has the port at another address.
next_port
begin 0 2 --job "$JOB.a" cat
first=$AGENT
listens() { "$PYTHON" -c 'import socket, sys; socket.create_connection(("127.0.0.1", sys.argv[1])).close()' "$PORT" 2> /dev/null; }
await "the first leader listens" listens
at() { "$MUSTER" agent --join "$1:$PORT" --node-id "$2" --nodes 2 --join-timeout 20s --job "$JOB" true; }
at 127.0.0.2 1 > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 0 at 127.0.0.2 0
ends_with 0 $one
# One that is not its own: it says so, and listens as behind a name.
kill "$first"
ends_with 143 "$first"
next_port
at 127.0.0.1 1 > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 0 at 203.0.113.7 0
err_has "^muster agent (host .*): 203.0.113.7 is no address of this host: listening at port $PORT of all that it has$"
ends_with 0 $one
clean
# Nor is one that nothing can be bound to: of one link, and which is not said.
next_port
at 127.0.0.1 1 > "$OUT.1" 2> "$ERR.1" < /dev/null &
one=$!
check 0 at "[fe80::1]" 0
err_has "^muster agent (host .*): fe80::1 is no address of this host: listening at port $PORT of all that it has$"
ends_with 0 $one
clean

next_port
begin 1 2 sh -c 'exit 6'
check 6 agent 0 2 --job "$JOB" --host-name alpha sleep 900
err_has "^muster agent (host alpha): task 1 (host .*, pid [0-9]*) exited with status 6; ending the other 1 task$"
ends_with 6 $AGENT

# A leader that dies; one that never comes.
next_port
begin 0 2 --job "$JOB" sh -c 'echo up; exec sleep 900'
leader=$AGENT
disown $leader
begin 1 2 --grace 300ms sh -c 'echo up; exec sleep 900'
both_up() { [ "$(cat "$OUT.0" "$OUT.1" | grep -c up)" -eq 2 ]; }
await "both are up" both_up
kill -INT "$AGENT" # ends all
ends_with 130 "$AGENT"
await "the leader has ended" is_gone $leader
clean
next_port
begin 0 2 --job "$JOB" --heartbeat-timeout 1s sh -c 'echo up; exec sleep 900'
leader=$AGENT
disown $leader
begin 1 2 --grace 300ms sh -c 'echo up; exec sleep 900'
await "both are up" both_up
kill -KILL $leader
ends_with 125 "$AGENT"
is_said 'the leader is lost: .*; ending 1 task$' 1 || fail "the loss: $(cat "$ERR.1")"
clean
next_port
check 125 agent 1 2 --join-timeout 300ms true
err_has "127.0.0.1:$PORT"
check 125 agent 0 3 --job "$JOB" --join-timeout 300ms true
err_has 'hosts 1, 2 of 3 have not come in time'
clean

# Twice the same node, and a wrong number of nodes: refused, and the others go on.
next_port
begin 1 3 true
one=$AGENT
begin 0 3 --job "$JOB" true
leader=$AGENT
check 125 agent 2 4 true
err_has 'it was told that the job has 4 hosts, and it has 3'
begin 2 3 sh -c true
two=$AGENT
ends_with 0 $leader
ends_with 0 $one
ends_with 0 $two
# Of two that say that they are node 1 one is refused, whichever.
next_port
begin 0 3 --job "$JOB" true
leader=$AGENT
begin 1 3 true
one=$AGENT
"$MUSTER" agent --join "127.0.0.1:$PORT" --node-id 1 --nodes 3 --join-timeout 20s true > /dev/null 2> "$ERR.9" < /dev/null &
other=$!
either_refused() { cat "$ERR.1" "$ERR.9" | grep -q 'node 1 is taken by host'; }
await "one is refused" either_refused
begin 2 3 true
ends_with 0 $leader
ends_with 0 "$AGENT"
wait $one; first=$?
wait $other; second=$?
[ "$first $second" = "0 125" ] || [ "$first $second" = "125 0" ] || fail "the two ended with $first and $second"
clean

# Keys: of a file that others may read, another one, none.
openssl rand -hex 32 > "$TMPDIR/key" 2> /dev/null || head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$TMPDIR/key"
chmod 644 "$TMPDIR/key"
check 125 agent 0 2 --key-file "$TMPDIR/key" true
err_has 'may be used by others (mode 644)'
check 125 env MUSTER_KEY_FILE="$TMPDIR/key" "$MUSTER" agent --join a:1 --node-id 1 --nodes 2 true
err_has 'may be used by others (mode 644)'
chmod 600 "$TMPDIR/key"
next_port
begin 0 2 --job "$JOB" --key-file "$TMPDIR/key" --join-timeout 4s true
leader=$AGENT
check 125 agent 1 2 true # with this user's
err_has 'has another key than this host'
MUSTER_KEY=$(cat "$TMPDIR/key") check 0 agent 1 2 true
ends_with 0 $leader
clean

# The key by standard input: a plain file is only read; the end of a pipe is the launcher's death, and said to be.
next_port
MUSTER_KEY=$(cat "$TMPDIR/key") begin 1 2 true
one=$AGENT
"$MUSTER" agent --join "127.0.0.1:$PORT" --node-id 0 --nodes 2 --join-timeout 20s --job "$JOB" --key-file - true \
    < "$TMPDIR/key" > "$OUT" 2> "$ERR" || fail "the key from a plain file: $(cat "$ERR")"
ends_with 0 $one
clean
next_port
MUSTER_KEY=$(cat "$TMPDIR/key") begin 1 2 sleep 60
one=$AGENT
"$MUSTER" agent --join "127.0.0.1:$PORT" --node-id 0 --nodes 2 --join-timeout 20s --job "$JOB" --key-file - sleep 60 \
    < <(cat "$TMPDIR/key") > "$OUT" 2> "$ERR"
[ $? -eq 125 ] || fail "exit status"
err_has "^muster agent (host .*): standard input has ended: with --key-file - that is the launcher's death; ending 1 task$"
ends_with 125 $one
clean

# OpenSSL is opened for hosts alone: a job of one does without it, others say what they lack.
mkdir "$TMPDIR/broken"
echo "no library" > "$TMPDIR/broken/libssl.so.3"
next_port
LD_LIBRARY_PATH=$TMPDIR/broken check 125 agent 0 2 --job "$JOB" true
err_has "cannot load OpenSSL ($TMPDIR/broken/libssl.so.3: "
err_has 'apt-get install libssl3'
LD_LIBRARY_PATH=$TMPDIR/broken check 0 "$MUSTER" run --job "$JOB" true
err_is_empty
clean

# What is not said.
check 2 "$MUSTER" agent true
err_has 'say --join LEADER --node-id I --nodes H'
check 2 agent 2 2 true
err_has -- '--node-id 2 is no node of 2'
check 2 agent 0 2
err_has 'a command is missing'
check 0 "$MUSTER" agent --join a:1 --node-id 0 --nodes 1 -n 2 --job "$JOB" echo alone
out_is "$(printf 'alone\nalone')"

# Open MPI's mpirun, on two "hosts" that are this one; MPICH's mpiexec, which needs --join.
# (Each of its daemons has a folder of its own: two of them make the same one at the same time, else.)
printf '#!/bin/sh\nTMPDIR=$TMPDIR/$1; export TMPDIR; mkdir -p "$TMPDIR"\nshift\nexec sh -c "$*"\n' > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
WORDS='muster barrier wait b > /dev/null; echo $MUSTER_NODE_ID/$MUSTER_NUM_NODES $RANK/$WORLD_SIZE'
THREE="$(printf '0/2 0/3\n0/2 1/3\n1/2 2/3')"
if command -v mpirun.openmpi > /dev/null; then
    STAGE=$TMPDIR/n.sh
    printf '#!/bin/sh\nn=1; [ $OMPI_COMM_WORLD_RANK = 1 ] || n=2\nexec "$MUSTER" agent -n $n -- "$@"\n' > "$STAGE"
    chmod +x "$STAGE"
    check 0 mpirun.openmpi --allow-run-as-root -x MUSTER -x PATH -x HOME -x ${MARK%%=*} --mca plm_rsh_agent "$TMPDIR/rsh" \
        --host ha:1,hb:1 --map-by ppr:1:node "$STAGE" sh -c "$WORDS"
    [ "$(sort "$OUT")" = "$THREE" ] || fail "under mpirun: $(cat "$OUT")"
    [ -z "$(compgen -G "$HOME/.muster/leader-*")" ] || fail "the leader's file is left: $(ls "$HOME/.muster")"
else
    echo "mpirun.openmpi is not installed: not tried"
fi
# hydra dies of SIGPIPE now and then, whatever it runs (sh alone, too), when one of its proxies ends before the other.
hydra() # STATUS WORDS...
{
    local got
    for _ in 1 2 3 4 5; do
        got=0
        mpiexec.hydra -launcher fork -hosts ha,hb -ppn 1 -np 2 "${@:2}" > "$OUT" 2> "$ERR" < /dev/null || got=$?
        [ $got -eq 141 ] || break
        clean
    done
    [ $got -eq "$1" ] || fail "exit status $got instead of $1: mpiexec.hydra ${*:2}"
}
if command -v mpiexec.hydra > /dev/null; then
    next_port
    STAGE=$TMPDIR/n.sh
    printf '#!/bin/sh\nn=1; [ $PMI_RANK = 1 ] || n=2\nexec "$MUSTER" agent --join 127.0.0.1:$1 -n $n -- sh -c "$2"\n' > "$STAGE"
    chmod +x "$STAGE"
    export MUSTER
    hydra 0 "$STAGE" "$PORT" "$WORDS"
    [ "$(sort "$OUT")" = "$THREE" ] || fail "under mpiexec: $(cat "$OUT")"
    hydra 2 "$MUSTER" agent true
    err_has 'hydra does not say where node 0 is: say --join HOST:PORT'
else
    echo "mpiexec.hydra is not installed: not tried"
fi
clean
exit 0
