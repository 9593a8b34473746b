#!/bin/bash
# tests/fuzz/record.sh FOLDER: seeds of real traffic, into a folder: jobs of three hosts do what the
# bridge is for, and record_main.c writes down what their agents hear. Those of the fuzzers are made, and must be made anew
# when frames change, by
#     make build/release/muster build/release/tests/fuzz/record build/release/tests/bridge/worker
#     BUILD=$PWD/build/release tests/fuzz/record.sh tests/fuzz/seeds
set -eu
: "${BUILD:?the folder of the built programs}"
seeds=$1
if [ -z "${RECORD_INSIDE-}" ]; then # of this machine's names, paths and environment nothing is in the seeds
    [ "$(id -u)" = 0 ] || { echo "only root can have /mnt for itself, and a host name" >&2; exit 1; }
    mkdir -p "$seeds"
    exec env -i PATH=/usr/bin:/bin RECORD_INSIDE=1 "BUILD=$BUILD" unshare --uts --mount "$0" "$(realpath "$seeds")"
fi
hostname node-a
mount -t tmpfs seeds /mnt
cp "$BUILD/muster" "$BUILD/tests/fuzz/record" "$BUILD/tests/bridge/worker" "$(dirname "$0")/../launch/store.py" /mnt
unset RECORD_INSIDE BUILD
cd /mnt
dir=/mnt record=/mnt/record muster=/mnt/muster worker=/mnt/worker folder=/mnt/all
mkdir "$folder"
printf '#!/bin/sh\nhost=$1\nshift\neval "exec $*"\n' > "$dir/rsh"
chmod +x "$dir/rsh"
export WORKER_DOES=all MUSTER=$muster

await() { for _ in $(seq 3000); do "$@" && return; sleep 0.01; done; echo "in vain: $*" >&2; exit 1; } # sleep: between looks
agent() { pgrep -f "^$record agent .*--node-id $2 .*$1|^$record agent .*$1.*--node-id $2 " | head -n 1; }

# Keys, barriers, a group, events; and the end of a job.
run() { "$record" run --job "$1" --hosts localhost:2,b:3,c:1 --address 127.0.0.1 --rsh "$dir/rsh" "${@:2}" < /dev/null > "$dir/out" 2>&1 || { tail -n 5 "$dir/out" >&2; false; }; }
mkdir "$folder/plain" "$folder/calls" "$folder/lanes" "$folder/pair" "$folder/failure" "$folder/survive"
MUSTER_TEST_RECORD=$folder/plain run seeds-1 -- "$worker" 3
# Every call of the command line's.
# shellcheck disable=SC2016 # for the tasks' shells
MUSTER_TEST_RECORD=$folder/calls run seeds-2 -- sh -c '
    m=$MUSTER
    "$m" kv set "dir/$RANK" "value $RANK"; "$m" kv insert once "$RANK"; "$m" kv append log "$RANK,"; "$m" kv increment count 2
    "$m" barrier wait first
    "$m" kv get dir/0; "$m" kv list dir; "$m" kv count dir; "$m" kv delete "dir/$RANK"; "$m" event send "of $RANK"
    "$m" task list; "$m" kv get dir/0; "$m" kv set large "$(head -c 3000 /dev/zero | tr "\0" x)"
    "$m" barrier wait second; "$m" kv get large > /dev/null; exit 0'
# What an agent asks for those who speak to it in PyTorch's way: by lanes.
# shellcheck disable=SC2016
MUSTER_TEST_RECORD=$folder/lanes run seeds-5 --tcpstore -- sh -c 'exec python3 -S -E /mnt/store.py set "from/$RANK" "v$RANK" \
    get from/0 get from/3 add n 1 barrier all ask "never/$RANK" check from/3 delete "from/$RANK" barrier gone add n 0 count'
# Groups of two of the hosts, whose tasks speak to each other.
WORKER_DOES=pair MUSTER_TEST_RECORD=$folder/pair run seeds-6 --latency -- "$worker" 60
# A task that fails, which ends the job.
# shellcheck disable=SC2016
MUSTER_TEST_RECORD=$folder/failure run seeds-3 -- sh -c '"$MUSTER" barrier wait begun; [ $RANK != 3 ] || exit 7
    "$MUSTER" barrier wait never' || :
# Agents that die, and others that go on.
export MUSTER_TEST_RECORD=$folder/survive
# shellcheck disable=SC2016
run seeds-4 --survive=1m --output "$dir/out-{rank}" -- sh -c 'i=0
    while [ $i -lt 12 ]; do
        "$MUSTER" kv increment count; "$MUSTER" kv set "of/$RANK" $i; "$MUSTER" kv get "of/$RANK"; "$MUSTER" event send "of $RANK"
        "$MUSTER" barrier wait --timeout 1m "round-$i"; echo "round $((i += 1))"; sleep 0.1 # sleep: a round is not to fill the record
    done' &
leader=$!
adopted() # HOST NAME: not while the one before is still ending
{
    "$record" agent --adopt "$2" < /dev/null > "$dir/adopted.$1" 2>&1 &
    until grep -q adopted: "$dir/adopted.$1"; do
        kill -0 $! 2> /dev/null || return 1
        sleep 0.01 # sleep: between looks
    done
}
part() # HOST NAME PID
{
    kill -KILL "$3"
    await adopted "$1" "$2"
}
ready() { grep -q 'round 1' "$dir/out-3"* 2> /dev/null; }
await ready
leader=$(pgrep -f "^$record run --job seeds-4 " | head -n 1)
part 1 seeds-4.h1 "$(agent seeds-4 1)"
part 0 seeds-4 "$leader"
wait

# What is kept: of each job the leader's side and one follower's; where agents died, those of their successors.
rm -f "$seeds"/*.session "$seeds"/*.frames
keep() { cp "$(ls -t "$folder/$1"/$2 | head -n 1)" "$seeds/$3"; }
for job in plain calls lanes pair failure survive; do
    keep $job 'session.*.0' $job-leader.session
    keep $job 'session.*.1' $job-follower.session
done
for job in failure survive; do
    of=$(ls -t "$folder/$job"/session.*.0 | head -n 1)
    of=${of%.0}
    keep $job "frames.${of##*.}.0" $job-leader.frames
    of=$(ls -t "$folder/$job"/session.*.1 | head -n 1)
    of=${of%.1}
    keep $job "frames.${of##*.}.0" $job-follower.frames
done
