#!/bin/bash
# ^Z of a job of several hosts: the tasks of all of them stop, and the launcher; the other agents do not, and take nobody
# for lost, however long it lasts. The other hosts are this machine again.
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/three_hosts.sh"
set -m # the launcher has a process group of its own, so the kernel lets it stop
# begin TIMEOUT OPTION...: four tasks on three hosts, which count and meet in rounds. $RUN, $B and $C are the agents.
begin()
{
    local timeout=$1
    shift
    rm -f "$TMPDIR/stop" "$TMPDIR/round"
    : > "$RSH_LOG"
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:2,c:1 --heartbeat-timeout "$timeout" --grace 500ms \
        "$@" "$BUILD/tests/launch/counts" "$TMPDIR" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    goes_on
    B=$(rsh_pid b) C=$(rsh_pid c)
    TASKS="$(task_pid 0) $(task_pid 1) $(task_pid 2) $(task_pid 3)"
    [ "$(wc -w <<< "$TASKS")" -eq 4 ] || fail "the tasks: '$TASKS'"
}
suspended()
{
    kill -TSTP "$RUN"
    await "the launcher is stopped" is_stopped "$RUN"
    for pid in $TASKS; do await "task $pid is stopped" is_stopped "$pid"; done
    for pid in "$B" "$C"; do is_stopped "$pid" && fail "an agent is stopped"; done
}
ended()
{
    local got=0
    await "the launcher has ended" is_gone "$RUN" # bash waits for no job that it takes for stopped
    wait "$RUN" || got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
}
tidy_up()
{
    [ "$1" -eq 0 ] && return
    for pid in $(with_mark "$MARK"); do
        echo "left: $pid $(tr '\0' ' ' < "/proc/$pid/cmdline")"
        kill -9 "$pid" 2> /dev/null
    done
    rm -f "$(segment_file "$JOB")"*
}
trap 'tidy_up $?' EXIT

# Longer than a silent host is waited for, and a task without a heartbeat; twice, and then to the end. As a star, and
# with hosts behind a relay, which hears nothing of the leader either.
for star in 64 1; do
    export MUSTER_STAR_HOSTS=$star
    begin 4s
    suspended
    "$MUSTER" status --job "$JOB" > "$TMPDIR/status" 2>&1
    grep -q 'stopped' "$TMPDIR/status" || fail "status: $(cat "$TMPDIR/status")"
    at=$(round)
    sleep 9 # sleep: twice the timeout
    [ "$(round)" -eq "$at" ] || fail "the tasks went on"
    kill -CONT "$RUN"
    goes_on
    suspended
    kill -CONT "$RUN"
    goes_on
    : > "$TMPDIR/stop"
    ended 0
    err_is_empty
    sum=$(($(round) * 4))
    for i in 0 1 2 3; do grep -qx "task $i: $sum" "$OUT" || fail "task $i, not $sum"; done
    clean
done
unset MUSTER_STAR_HOSTS

# Told to end while it is suspended, it does when it goes on.
begin 100s
suspended
kill -TERM "$RUN"
kill -CONT "$RUN"
ended 143
clean

# What kills it ends all: the others see their connections close.
begin 4s
suspended
kill -KILL "$RUN"
clean

# A host whose agent does not answer would not know why the launcher is silent: all go on.
begin 100s
kill -STOP "$B"
kill -TSTP "$RUN"
await "it says so" grep -q '^muster run: the job is not suspended: host b does not answer$' "$ERR"
is_stopped "$RUN" && fail "it is stopped"
kill -CONT "$B"
goes_on
: > "$TMPDIR/stop"
ended 0
clean

# Another host's agent is not where a job is suspended.
begin 100s
kill -TSTP "$B"
await "it says so" grep -q '^muster agent (host b): the job cannot be suspended now: only where it was started$' "$ERR"
goes_on
: > "$TMPDIR/stop"
ended 0
clean
exit 0
