# What tests of a service on several hosts share: source it behind relay.sh. SERVICE is the service, as its option says it.

# background HOSTS COMMAND...: a job that goes on; $RUN.
background()
{
    rm -f "$OUT.run" "$ERR.run" # what the job before has said is not this one's
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "--$SERVICE" -l --kill-on-fail=no --hosts "$@" > "$OUT.run" 2> "$ERR.run" < /dev/null &
    RUN=$!
    trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
}
says() { [ "$(grep -c "$1" "$OUT.run")" -eq "$2" ]; }
ended() # STATUS: it has, so
{
    local got=0
    wait $RUN || got=$?
    cp "$OUT.run" "$OUT"; cp "$ERR.run" "$ERR"
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    clean
}
shown() # JOB EXPRESSION
{
    "$MUSTER" status --job "$1" --json > "$OUT" 2> "$ERR" && [ "$(json "$2" 2> /dev/null)" = true ]
}
agent_of() { "$MUSTER" status --job "$1" --json > "$OUT" 2> "$ERR" && json 'it["hosts"][1]["agent_pid"]' | grep -E '^[1-9]'; }
is_known() { [ -n "$(agent_of "$JOB.h1")" ]; }

# A call of host b waits: it is counted under the name COUNT, and is answered though the connection is cut; then once more.
reaches_host_b_all_the_same() # COUNT
{
    local word
    await "the leader's status shows both" shown "$JOB" "[host['$SERVICE'][k] for host in it['hosts'] for k in ('connections', '$1')] == [1, 0, 1, 1]"
    await "host b's part shows its own" shown "$JOB.h1" "it['$SERVICE']['$1'] == 1 and it['$SERVICE'] == it['hosts'][1]['$SERVICE'] and it['hosts'][0]['$SERVICE']['connections'] == 1"
    check 0 "$MUSTER" status --job "$JOB"
    out_has "^$(printf %-8s "$SERVICE") 127.0.0.1:[0-9]*: 1 connection, 0 calls wait; on 2 hosts: 2 connections, 1 call waits\$"
    for word in go on; do
        rm -f "$RELAY.cut"
        kill -USR1 "$(cat "$RELAY.pid")"
        await "the connection is cut" test -s "$RELAY.cut"
        [ "$(cat "$RELAY.cut")" -ge 1 ] || fail "there was no connection to be cut"
        : > "$TMPDIR/$word"
        [ $word = on ] || await "the key comes to host b all the same" says '^\[1\] v$' 1
    done
    ended 0
    out_has '^\[1\] w$'
    err_is_empty
    unset RELAY
}

# agent N ...: the agent of node N of two.
agents_by_hand()
{
    keep_ports 1
    next_port
    export MUSTER_KEY
    MUSTER_KEY=$(printf %064d 7)
}
agent() { "$MUSTER" agent --join "127.0.0.1:$PORT" --node-id "$1" --nodes 2 --join-timeout 30s "${@:2}"; }
