#!/bin/bash
# What a launcher that joins late must not miss: tasks that take all slots before that leave it its own, and a /dev/shm
# that is filled before ends nobody who does not use it; when there is room again, tasks join and so does the launcher.
. "$(dirname "$0")/../cli/common.sh"

for _ in 1 2 3; do
    check 0 "$MUSTER" run -n 1 --job "$JOB" "$BUILD/tests/launch/crowd"
    out_is full
done

if [ -z "${IN_SMALL_SHM:-}" ]; then
    unshare --mount sh -c 'mount -t tmpfs -o size=4m small /dev/shm' 2> /dev/null || exit 0 # the rest needs that right
    IN_SMALL_SHM=1 exec unshare --mount "$0"
fi
mount -t tmpfs -o size=4m small /dev/shm || skip "cannot mount a small /dev/shm"

# two of its threads are there in the end: the one that joined and the watcher
check 0 "$MUSTER" run -n 1 --job "$JOB" sh -c '
    kill -STOP $PPID
    cat /dev/zero > /dev/shm/ballast 2> /dev/null
    kill -CONT $PPID
    muster kv set a b && exit 90
    sleep 0.3 # sleep: so that the launcher has looked as well
    muster kv set a b && exit 91
    rm /dev/shm/ballast
    muster kv set a b || exit 92
    until muster status | grep " 2 of [0-9]* slots in use"; do sleep 0.02; done'
# on a loaded machine the launcher may have joined before the task began
grep -q "no room to grow" "$ERR" || err_has "muster run: /dev/shm is full: no room for the segment of job $JOB,"

exit 0
