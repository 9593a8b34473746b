#!/bin/bash
# run --elastic --live over several hosts, which are this machine again: the leader commits, the others have mirrors; a
# host that is lost is an epoch of those that are left.
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/three_hosts.sh"
EPOCHS=$BUILD/tests/launch/epochs
[ -x "$EPOCHS" ] || fail "$EPOCHS is not built"
scale() { "$MUSTER" scale --job "$JOB" "$@"; }
has_lines() { [ "$(grep -c "^$1 " "$TMPDIR/out")" = "$2" ]; }
start() # OPTIONS... -- WORDS...
{
    : > "$TMPDIR/out"
    : > "$RSH_LOG"
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --live "$@" > "$TMPDIR/out" 2> "$TMPDIR/err" &
    RUN=$!
}
# EPOCH: its ranks, with the tasks that have them.
ranks() { awk -v epoch="$1" '$1 == epoch { print $2 ":" $4 }' "$TMPDIR/out" | sort | tr '\n' ' '; }
pid_of() { awk -v epoch="$1" -v task="$2" '$1 == epoch && $4 == task { print $6 }' "$TMPDIR/out"; }
ranks_are() { [ "$(ranks "$1")" = "$2 " ] || fail "epoch $1 has $(ranks "$1")"; }
ends() # STATUS
{
    local got=0
    wait $RUN || got=$?
    cp "$TMPDIR/err" "$ERR"
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
    clean
}

# Tasks of other hosts come, are lost, are replaced, go.
start --elastic 2:6 -n 3 --hosts localhost:2,b:2,c:2 -- "$EPOCHS"
await "3 tasks are in epoch 1" has_lines 1 3
ranks_are 1 '0/3:0 1/3:1 2/3:2'
check 0 scale 6
out_is "job $JOB has 6 tasks in epoch 2"
await "6 tasks are in epoch 2" has_lines 2 6
[ "$(pid_of 1 2)" = "$(pid_of 2 2)" ] || fail "task 2 was started again"
kill -KILL "$(pid_of 2 3)"
await "5 tasks are in epoch 3" has_lines 3 5
ranks_are 3 '0/5:0 1/5:1 2/5:2 3/5:4 4/5:5'
check 0 "$MUSTER" scale --job "$JOB.h2" --remove 1 4 # by another host's mirror
await "3 tasks are in epoch 4" has_lines 4 3
ranks_are 4 '0/3:0 1/3:2 2/3:5'
for host in '' .h1 .h2; do
    check 0 "$MUSTER" status --job "$JOB$host"
    out_has '^epoch    4: 3 tasks (2 to 6), for '
done
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0
err_has '^muster run: task 3 (host b, pid [0-9]*) was killed by signal 9 (SIGKILL); epoch 3 goes on with 5 tasks$'

# A host whose agent was killed: the command that stands for ssh has ended. The others are in the next epoch. Another that
# falls silent is lost after the heartbeat's time.
start --elastic 2:8 --hosts localhost:2,b:2,c:2,d:2 --heartbeat-timeout 2s -- "$EPOCHS"
await "8 tasks are in epoch 1" has_lines 1 8
kill -KILL "$(rsh_pid c)"
await "6 tasks are in epoch 2" has_lines 2 6
ranks_are 2 '0/6:0 1/6:1 2/6:2 3/6:3 4/6:6 5/6:7'
gone() { ! kill -0 "$1" 2> /dev/null; }
await "a task of the lost host is gone" gone "$(pid_of 1 5)"
kill -STOP "$(rsh_pid b)"
await "4 tasks are in epoch 3" has_lines 3 4
ranks_are 3 '0/4:0 1/4:1 2/4:6 3/4:7'
check 0 "$MUSTER" status --job "$JOB.h3"
out_has '^epoch    3: 4 tasks (2 to 8), for .*host b is lost: '
check 1 scale 5 --timeout 100ms
err_has '^muster scale: only 0 tasks can come: the other numbers are taken, or of hosts that are lost$'
check 0 scale -2
await "2 tasks are in epoch 4" has_lines 4 2
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0
err_has '^muster run: host c is lost: its command (.*) was killed by signal 9; epoch 2 goes on with 6 tasks$'
err_has '^muster run: host b is lost: nothing was heard of it for 2.0 s; epoch 3 goes on with 4 tasks$'

# Fewer than there must be.
start --elastic 3:4 --hosts localhost:2,b:2 -- "$EPOCHS"
await "4 tasks are in epoch 1" has_lines 1 4
kill -KILL "$(rsh_pid b)"
ends 125
err_has '^muster run: host b is lost: .*; ending the other 2 tasks$'

# The lost host's tasks are not replaced there; one that can come is.
start --elastic 1:5 -n 3 --on-failure replace --restarts 9 --hosts localhost:1,b:2,c:2 -- "$EPOCHS"
await "3 tasks are in epoch 1" has_lines 1 3
kill -KILL "$(rsh_pid b)"
await "3 tasks are in epoch 3" has_lines 3 3
ranks_are 3 '0/3:0 1/3:3 2/3:4'
check 0 "$MUSTER" kv set --job "$JOB" stop now
ends 0

check 2 "$MUSTER" run --elastic 1:2 --hosts localhost:1,b:1 true
err_has '^muster run: --elastic with --hosts needs --live: '
check 2 "$MUSTER" run --elastic 1:9 --live --hosts localhost:1,b:1 true
err_has '9 tasks need as many slots, and the hosts have 2'
