#!/bin/bash
# Checkpoints of a job of several hosts, which are this machine again: what is committed is whole on all of them and is
# found after any death by the whole job; what nobody needs any more is removed, whichever process is killed.
# timeout: 120
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/../launch/three_hosts.sh"
SAVER=$(dirname "$MUSTER")/tests/checkpoint/saver
export MUSTER_SHM_DIR=$TMPDIR/shm # other jobs of this machine have checkpoints, too
mkdir "$MUSTER_SHM_DIR"
run() { "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "$@"; }
no_folders() { [ -z "$(compgen -G "$MUSTER_SHM_DIR/*")" ]; }
all_gone()
{
    await "no process is left" none_with_mark "$MARK"
    await "no folder is left: $(ls "$MUSTER_SHM_DIR")" no_folders
}

# Deaths at each step of a save, of ranks on each host. All tasks of an attempt load one generation.
mkdir "$TMPDIR/a"
check 0 run --hosts localhost:2,b:2,c:1 --restarts 12 --restart-delay 0 "$SAVER" "$TMPDIR/a" 17 \
    0:3:begin 2:4:copy 4:5:commit 3:6:wait 1:7:commit 0:8:wait 2:10:commit 4:11:begin 3:12:wait 0:14:commit 2:15:wait 4:16:copy
[ "$(wc -l < "$OUT")" -eq 65 ] || fail "not 13 attempts of 5 tasks"
awk '{ if ($2 in g && g[$2] != $3) exit 1; g[$2] = $3 } END { for (i = 1; i < 13; i++) if (g[i] < g[i - 1]) exit 1 }' "$OUT" ||
    fail "tasks of an attempt loaded different generations, or older ones than before"
all_gone

# What is wrong is named on each host.
check 0 run --hosts localhost:1,b:1,c:1 "$SAVER" "$TMPDIR/a" steps
[ "$(grep -c 'ABORTED: task 0 has saved step 7 as generation 1 of checkpoint model, task 2 step 8$' "$OUT")" -eq 3 ] || fail "steps"
check 0 run --hosts localhost:1,b:1,c:1 "$SAVER" "$TMPDIR/a" late
[ "$(grep -c 'DEADLINE_EXCEEDED: generation 1 of checkpoint model is not whole: not saved by task 2 ' "$OUT")" -eq 2 ] || fail "late"
check 0 run --hosts localhost:1,b:1,c:1 "$SAVER" "$TMPDIR/a" others
[ "$(grep -c 'OK: $' "$OUT")" -eq 2 ] || fail "own parts"
[ "$(grep -c 'FAILED_PRECONDITION: the part of rank 2 of checkpoint model is on host c, and can be loaded there alone$' "$OUT")" -eq 2 ] ||
    fail "other hosts' parts"
check 7 run --hosts localhost:1,b:1 --restarts 1 --restart-delay 0 --restart-policy task "$SAVER" "$TMPDIR/a" others
err_has 'checkpoints over 2 hosts need all tasks to be started again together: recoverable tasks (--restart-policy task) have none$'
all_gone

# Whatever is killed between two attempts: nothing is left.
pauses() # a job that is between two attempts, with a folder on each host; its launcher is $RUN
{
    rm -rf "$TMPDIR/b" && mkdir "$TMPDIR/b" && : > "$RSH_LOG" > "$ERR"
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1,c:1 --restarts 1 --restart-delay "$1" \
        "$SAVER" "$TMPDIR/b" 5 1:3:wait > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    is_paused() { grep -q 'starting the job again' "$ERR"; }
    await "the job pauses" is_paused
    [ "$(find "$MUSTER_SHM_DIR" -name 'model@3.head' | wc -l)" -eq 3 ] || { find "$MUSTER_SHM_DIR"; cat "$ERR"; fail "no checkpoint is kept"; }
}
ends() { wait "$RUN"; STATUS=$?; }
pauses 60s
kill -TERM "$RUN"
ends
[ "$STATUS" -ne 0 ] || fail "a job that was ended in the pause succeeded"
all_gone
pauses 60s
kill -KILL "$RUN"
ends 2> /dev/null
all_gone
pauses 1s # its host is started anew, without its part
kill -KILL "$(rsh_pid b)"
ends
[ "$STATUS" -eq 7 ] || fail "status $STATUS"
err_has "saver: task 1: the part of rank 1 of generation [34] of checkpoint model is not in $MUSTER_SHM_DIR/"
all_gone
