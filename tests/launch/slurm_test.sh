#!/bin/bash
# Under Slurm: a controller and three node daemons of its own on this machine; srun starts an agent on each node, which
# find each other by Slurm's variables alone.
# timeout: 240
# variants: release
. "$(dirname "$0")/../cli/common.sh"

for tool in slurmctld slurmd srun munged; do
    PATH=$PATH:/usr/sbin command -v $tool > /dev/null || skip "$tool is not installed (slurmctld, slurmd, slurm-client, munge)"
done
[ "$(id -u)" = 0 ] || skip "Slurm's daemons need root"
PATH=$PATH:/usr/sbin
chmod 755 "$TMPDIR" # for munge
D=$TMPDIR/slurm
mkdir -p "$D/state" "$D/munge" "$D/socket" "$D/home"
chmod 755 "$D" "$D/socket"
chmod 700 "$D/munge"
export HOME=$D/home SLURM_CONF=$D/slurm.conf

# The nodes are one machine: their names must lead to it. /etc/hosts is another one in this test's own mounts.
printf '127.0.0.1 localhost mn1 mn2 mn3 %s\n' "$(hostname)" > "$D/hosts"
if [ -z "${SLURM_TEST_MOUNTED:-}" ]; then
    unshare --mount true 2> /dev/null || skip "mount namespaces are not allowed here"
    export SLURM_TEST_MOUNTED=1
    exec unshare --mount bash -c 'mount --bind "$1" /etc/hosts && exec bash "$2"' - "$D/hosts" "$0"
fi

keep_ports 4 # the controller's, and the daemons'
set -- "${PORTS[@]}"
cat > "$SLURM_CONF" <<EOT
ClusterName=muster$$
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/socket/munge
CryptoType=crypto/munge
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool-%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName=mn1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$2 CPUs=8 State=UNKNOWN
NodeName=mn2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$3 CPUs=8 State=UNKNOWN
NodeName=mn3 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$4 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOT
head -c 1024 /dev/urandom > "$D/munge/key"
chmod 600 "$D/munge/key"
PIDS=()
end_all()
{
    kill "${PIDS[@]}" 2> /dev/null
    local end=$((SECONDS + 10)) # a slurmd was seen that slept in a lock of its own, whatever it was sent
    while [ -n "$(jobs -pr)" ] && [ $SECONDS -lt $end ]; do
        sleep 0.1 # sleep: between two looks at the condition
    done
    kill -KILL $(jobs -pr) 2> /dev/null
    wait 2> /dev/null
    end_munge
}
end_munge() { [ ! -s "$D/munge/pid" ] || kill "$(cat "$D/munge/pid")" 2> /dev/null; }
trap end_all EXIT
munged --force --key-file="$D/munge/key" --socket="$D/socket/munge" --pid-file="$D/munge/pid" \
    --log-file="$D/munge/log" --seed-file="$D/munge/seed" || fail "munged: $(cat "$D/munge/log")"
slurmctld -D > "$D/out-ctld" 2>&1 &
PIDS+=($!)
for node in mn1 mn2 mn3; do
    slurmd -D -N $node > "$D/out-$node" 2>&1 &
    PIDS+=($!)
done
# Where the daemons cannot be had (a container without what they need), that is no failure of ours.
end=$((SECONDS + 60))
until [ "$(sinfo -h -t idle -o %D 2> /dev/null)" = 3 ]; do
    [ $SECONDS -lt $end ] || skip "Slurm's nodes do not come up: $(tail -n 1 "$D/out-mn1" "$D/out-ctld" | tr '\n' ' ')"
    sleep 0.2 # sleep: between two looks at the condition
done
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "sorted, stdout is not: $1"; }

# Nothing but the command: the nodes, their order, node 0's address and the key are found.
check 0 srun -N3 "$MUSTER" agent -- sh -c 'echo $MUSTER_NODE_ID/$MUSTER_NUM_NODES $RANK/$WORLD_SIZE $SLURMD_NODENAME'
sorted_is '0/3 0/3 mn1
1/3 1/3 mn2
2/3 2/3 mn3'
[ "$(stat -c %a "$HOME/.muster/key")" = 600 ] || fail "the key: $(ls -l "$HOME/.muster")"
check 0 srun -N2 "$MUSTER" agent -n 2 --label -- "$MUSTER" barrier wait --timeout 30s b
[ "$(grep -c '^\[[0-3]\] ' "$OUT")" -eq "$(wc -l < "$OUT")" ] || fail "labels"

# The tasks are muster's: of Slurm they have the allocation, and nothing of the step that has started the agents.
check 0 srun -N2 --ntasks-per-node=1 "$MUSTER" agent -n 2 -- sh -c 'env | grep -E "^SLURM_.*(TASKS|NPROCS|PROCID|LOCALID|NODEID|NODELIST|NODES|STEP)" && exit 9
    [ "$SLURM_JOB_ID" -gt 0 ] && [ -n "$SLURMD_NODENAME" ] && echo $RANK of $WORLD_SIZE'
sorted_is '0 of 4
1 of 4
2 of 4
3 of 4'

# The calls go across the nodes.
check 0 srun -N2 "$MUSTER" agent -- sh -c 'if [ $RANK = 0 ]; then muster kv set greeting "from $SLURMD_NODENAME"; else muster kv get --wait=30s greeting; fi'
out_has '^from mn1$'

# A failure on one node ends the job on all, and every agent says so.
got=0
srun -N3 "$MUSTER" agent --grace 500ms -- sh -c 'if [ $RANK = 2 ]; then exit 3; fi; exec sleep 900' > "$OUT" 2> "$ERR" || got=$?
[ $got = 3 ] || fail "exit status $got instead of 3"
err_has 'task 2 (host mn3, pid [0-9]*) exited with status 3; ending the other 2 tasks'

# scancel ends it.
srun -J long -N2 "$MUSTER" agent --grace 500ms -- sh -c 'echo up; exec sleep 900' > "$OUT" 2> "$ERR" &
RUN=$!
both_up() { [ "$(grep -c up "$OUT")" -eq 2 ]; }
await "both are up" both_up
scancel -n long
await "srun has ended" is_gone $RUN

# As a batch: the script of packaging/ as it stands.
PATH=$(dirname "$MUSTER"):$PATH TASKS=2 check 0 sbatch --wait -N2 -o "$D/batch" "$TOP/packaging/slurm.sbatch" sh -c 'echo $RANK of $WORLD_SIZE'
sort "$D/batch" > "$OUT"
out_is '[0] 0 of 4
[1] 1 of 4
[2] 2 of 4
[3] 3 of 4'
TASKS=1 check 3 sbatch --wait -N2 -o "$D/batch" "$TOP/packaging/slurm.sbatch" sh -c '[ $RANK = 0 ] || exit 3; exec sleep 900'
grep -q 'task 1 (host mn[12], pid [0-9]*) exited with status 3; ending the other 1 task' "$D/batch" || fail "$(cat "$D/batch")"

# More than one agent on a node is refused in words.
got=0
srun -N2 -n4 "$MUSTER" agent true > "$OUT" 2> "$ERR" || got=$?
[ $got = 125 ] || fail "exit status $got instead of 125"
err_has 'Slurm has started 2 agents on this node: start one on each, and say -n 2 here'
exit 0
