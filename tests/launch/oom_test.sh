#!/bin/bash
# A task that the kernel kills for want of memory: that is said.
. "$(dirname "$0")/../cli/common.sh"
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/muster-$$ limit=memory.limit_in_bytes
else
    group=/sys/fs/cgroup/muster-$$ limit=memory.max
fi
mkdir "$group" 2> /dev/null || skip "no control group can be made here"
trap 'rmdir "$group"' EXIT
echo 67108864 2> /dev/null > "$group/$limit" || skip "control groups do not limit memory here"
[ ! -e "$group/memory.swap.max" ] || echo 0 > "$group/memory.swap.max"

check 137 "$MUSTER" run -n 2 --job "$JOB" bash -c 'echo $$ > "$1/cgroup.procs" || exit 9
    [ $RANK = 0 ] || exec "$2" -c "x = bytearray(1 << 28); print(len(x))"
    exec sleep 60' sh "$group" "$PYTHON"
err_has "^muster run: task 1 (pid [0-9]*) was killed by signal 9 (SIGKILL): \(the kernel ran out of memory and chose it\|perhaps for want of memory\)"
no_segment "$JOB" || fail "a segment is left"
exit 0
