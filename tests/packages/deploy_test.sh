#!/bin/bash
# docs/DEPLOY.md: what it says is said where a place lacks something is said there, word for word but for numbers and
# names; and the unit of systemd in packaging/ is one, whose command serves.
# variants: release
. "$TOP/tests/cli/common.sh"

# The sentence of a run, which a row of DEPLOY.md shows in backticks; numbers and the job's name are those of that run.
plain() { sed -E 's/job [a-z0-9-]+/job J/g; s/[0-9]+/N/g'; }
tr '`' '\n' < "$TOP/docs/DEPLOY.md" | plain > "$TMPDIR/documented"
documented() # documented WORDS FILE: a line of the file that has these words, or a part of it, stands in DEPLOY.md
{
    grep -e "$1" "$2" | plain > "$TMPDIR/said"
    [ -s "$TMPDIR/said" ] || fail "this was not said: $1: $(cat "$2")"
    grep -e "$(plain <<< "$1")" "$TMPDIR/documented" | while read -r sentence; do
        if grep -qF -e "$sentence" "$TMPDIR/said"; then
            echo "$sentence"
        fi
    done | grep -q . || fail "DEPLOY.md shows other words: $(cat "$TMPDIR/said")"
}
# in_place STATUS PREPARATION COMMAND...: in mounts of its own.
in_place()
{
    local want=$1 prepare=$2 got=0
    shift 2
    unshare --mount bash -c "$prepare"' && exec "$@"' - "$@" > "$OUT" 2> "$ERR" < /dev/null || got=$?
    [ $got -eq "$want" ] || fail "exit status $got instead of $want: $prepare; $*"
}

# ---- the unit ----

mkdir "$TMPDIR/units" "$TMPDIR/run"
UNIT=$TOP/packaging/muster-serve@.service
if command -v systemd-analyze > /dev/null; then
    sed "s|^ExecStart=muster|ExecStart=$MUSTER|" "$UNIT" > "$TMPDIR/units/muster-serve@.service"
    XDG_RUNTIME_DIR=$TMPDIR/run check 0 systemd-analyze verify --user --man=no "$TMPDIR/units/muster-serve@4.service"
    err_is_empty
else
    echo "not tested: systemd-analyze is not here"
fi
words=$(sed -n 's/^ExecStart=muster //p' "$UNIT")
options=$(sed -n 's/^Environment=MUSTER_SERVE=//p' "$UNIT")
words=${words//%i/4} options=${options/:4711/:0} # that port may be taken
# shellcheck disable=SC2086
"$MUSTER" ${words/\$MUSTER_SERVE/$options} > "$TMPDIR/served" 2> "$ERR" &
SERVER=$!
trap 'kill $SERVER 2> /dev/null; wait' EXIT
is_served() { grep -q '^127\.0\.0\.1:[0-9]' "$TMPDIR/served"; }
await "it serves" is_served
check 0 "$MUSTER" task list --job serve-4
kill $SERVER
await "it has ended" is_gone $SERVER

# ---- limits of a process ----

check 125 bash -c 'ulimit -n 20 && exec "$@"' - "$MUSTER" run -n 2 true
documented 'need [0-9]* open files' "$ERR"
check 125 bash -c 'ulimit -v 600000 && exec "$@"' - "$MUSTER" run -n 2 true
documented 'a process may have [0-9]* KiB of address space' "$ERR"
check 3 "$MUSTER" kv get --job nowhere a
documented 'there is no job' "$ERR"

# ---- places ----

[ "$(id -u)" = 0 ] && unshare --mount true 2> /dev/null || skip "mounts of our own need root"
JOBS=("$MUSTER" run -n 2)
head -c 30000000 /dev/zero > "$TMPDIR/value"
FILL='for i in 1 2 3; do muster kv set a/$RANK/$i - < "$0" || exit; done'
in_place 1 'mount -t tmpfs -o size=64m tmpfs /dev/shm' "${JOBS[@]}" --job train -- sh -c "$FILL" "$TMPDIR/value"
documented '/dev/shm is full: no room to grow the segment' "$ERR"
in_place 0 'mount -t tmpfs -o size=64m tmpfs /dev/shm' "${JOBS[@]}" --memfd -- sh -c "$FILL" "$TMPDIR/value"
in_place 0 'mount -t tmpfs -o ro tmpfs /dev/shm' "${JOBS[@]}" muster kv set a b
documented 'cannot hold the segment: Read-only file system' "$ERR"
mkdir "$TMPDIR/dev"
touch "$TMPDIR/dev/null"
in_place 0 "mount --bind /dev/null $TMPDIR/dev/null && mount --rbind $TMPDIR/dev /dev" "${JOBS[@]}" muster kv set a b
documented 'cannot hold the segment: No such file or directory' "$ERR"
in_place 125 'umount --lazy /proc' "${JOBS[@]}" true
documented '/proc is not here: mount it' "$ERR"
in_place 0 'umount --lazy /proc' "${JOBS[@]}" --memfd true
in_place 0 'umount --lazy /sys' "$MUSTER" doctor
documented '/sys is empty' "$OUT"

# Namespaces: a job as process 1; without a user's number; what a doctor says of both.
check 0 unshare --pid --fork --kill-child --mount-proc "${JOBS[@]}" muster kv set a b
check 0 unshare --pid --fork --kill-child --mount-proc "$MUSTER" doctor
documented 'pid: one of its own' "$OUT"
check 0 unshare --user "${JOBS[@]}" muster kv set a b

# Control groups, where a group may be made: version 1's or 2's.
for root in /sys/fs/cgroup/pids /sys/fs/cgroup; do
    GROUP=$root/muster-test-$$
    mkdir "$GROUP" 2> /dev/null && [ -e "$GROUP/pids.max" ] && break
    rmdir "$GROUP" 2> /dev/null
    GROUP=
done
if [ -n "$GROUP" ]; then
    trap 'rmdir "$GROUP" 2> /dev/null' EXIT
    echo 8 > "$GROUP/pids.max"
    check 125 sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$GROUP" "$MUSTER" run -n 16 sleep 900
    documented 'cannot start task [0-9]*: clone' "$ERR"
    is_empty() { rmdir "$GROUP" 2> /dev/null; }
    await "the group is empty" is_empty
else
    echo "not tested: control groups may not be made here"
fi
exit 0
