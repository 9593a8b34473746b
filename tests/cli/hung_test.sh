#!/bin/bash
# A hung job is diagnosed by one `muster status`: its first line names the one task that the others wait for, and says
# what is the matter with it. Real processes: stopped, dead, in a system call, spinning, waiting elsewhere.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/hung.sh"
RUN_OPTIONS="--heartbeat-timeout 10m"

pid_of() { json "it['tasks'][$1]['pid']"; }
all_there() { "$MUSTER" task list --job "$JOB" --json > "$OUT" 2> "$ERR" && [ "$(json 'sum(t["state"] == "CONNECTED" for t in it["tasks"])')" = 8 ]; }
silent() { "$MUSTER" status --job "$JOB" --json > "$OUT" && [ "$(json 'it["tasks"][3]["heartbeat_age"]["min_ns"] > 0')" = true ]; }
end_job()
{
    kill -KILL $RUN
    wait $RUN 2> /dev/null
    await "the segment is gone" no_segment "$JOB"
}

# One of eight is stopped, wherever it was: sooner or later all others wait for it.
for what in epochs group; do
    start_job 8 "$WORKER" $what
    await "all eight are connected" all_there
    stop 3 $what
    await_says "task 3 \(pid $pid\) has been stopped for $SECONDS_AGO: 7 tasks wait for it in $place, for $SECONDS_AGO"
    out_has "^3 *CONNECTED *stopped *$pid "
    out_has "^  missing: task 3, stopped, pid $pid"
    check 0 "$MUSTER" status --job "$JOB" --json
    json_is '[m["task"] for b in it["barriers"] + it["groups"] for m in b["missing"] if b["arrived"] == 7]' '[3]'
    json_is 'it["tasks"][3]["process"], it["tasks"][3]["process_state"]' '["stopped", "stopped"]'
    await "its silence shows" silent
    if [ $what = epochs ]; then # every process of the job, and the answer is as good
        everybody="$(json '" ".join(str(t["pid"]) for t in it["tasks"])') $RUN $(with_mark "MUSTER_JOB=$JOB")"
        kill -STOP $everybody
        for i in $everybody; do await "$i is stopped" is_stopped "$i"; done
        check 0 timeout 20 "$MUSTER" status --job "$JOB"
        head -n 1 "$OUT" | grep -qE "^task 3 \(pid $pid\) has been stopped for .*: 7 tasks wait for it in barrier epoch" ||
            fail "the first line does not name task 3"
        out_has '^tasks 0-2 and 4-7 have been stopped for '
        kill -CONT $everybody
    fi
    end_job
done

# One that is stopped before it has joined is nobody to the segment, and is named all the same; so is one of a job of
# which nobody joins; and one that was started again, and hangs before it has joined again.
start_job 8 sh -c '[ $RANK = 5 ] && kill -STOP $$; exec "$0" epochs' "$WORKER"
await_says "task 5 \(pid [0-9]+\) has been stopped for $SECONDS_AGO, and has not joined: 7 tasks wait for it in barrier epoch, for $SECONDS_AGO"
check 0 "$MUSTER" status --job "$JOB" --json
pid=$(pid_of 5)
is_stopped "$pid" || fail "$pid is not the one that is stopped"
json_is '[(t["process_state"], t["joined"], t["alive"]) for t in it["tasks"][4:6]]' '[["sleeping", true, true], ["stopped", false, true]]'
says '.*'
out_has "^  missing: task 5, stopped, pid $pid, .*not registered$"
out_has '^tasks    8: 7 connected, 0 in error, 1 not connected; 8 alive$'
kill -CONT "$pid"
await "it has joined" all_there
end_job
start_job 4 sh -c '[ $RANK = 2 ] && kill -STOP $$; exec sleep 1000'
await_says "task 2 \(pid [0-9]+\) has been stopped for $SECONDS_AGO, and has not joined"
out_has '^tasks    4: 0 connected, 0 in error, 4 not connected; 4 alive$'
check 0 "$MUSTER" status --job "$JOB" --json
kill -CONT "$(pid_of 2)"
await_says 'no task has joined: still starting, or none uses muster; the processes of 4 of 4 live'
end_job
RUN_OPTIONS="$RUN_OPTIONS --restarts 1 --restart-policy task --restart-delay 0" \
    start_job 4 sh -c '[ $RANK.$MUSTER_ATTEMPT = 1.1 ] && kill -STOP $$; exec "$0" epochs' "$WORKER"
first() { "$MUSTER" status --job "$JOB" --json > "$OUT" && [ "$(json 'it["tasks"][1]["state"]')" = CONNECTED ]; }
await "task 1 has joined" first
kill -KILL "$(pid_of 1)"
await_says "task 1 \(pid [0-9]+\) has been stopped for $SECONDS_AGO, and has not joined again: 3 tasks wait for it in barrier epoch.*"
end_job

# A task that is a script whose child joined, and has left: the script is no process that was started anew.
start_job 2 sh -c 'if [ $RANK = 0 ]; then exec muster barrier wait b; else muster barrier wait x --wait 100ms; exec sleep 1000; fi'
await_says "task 1 \(pid [0-9]+\) left the job $SECONDS_AGO ago: 1 task waits for it in barrier b, for $SECONDS_AGO"
out_has '^1 *DISCONNECTED *left '
end_job
# Ended while its launcher is stopped, before it has joined: nobody has reaped it.
start_job 2 sh -c 'if [ $RANK = 0 ]; then exec muster barrier wait b; else exec sleep 1000; fi'
sleeps() { "$MUSTER" status --job "$JOB" --json > "$OUT" && [ "$(json 'it["tasks"][1]["pid"] or 0')" != 0 ]; }
await "task 1 is known" sleeps
pid=$(pid_of 1)
kill -STOP $RUN
await "the launcher is stopped" is_stopped $RUN
kill -KILL "$pid"
await_says "task 1 \(pid $pid\) has never joined, and has ended: 1 task waits for it in barrier b, for $SECONDS_AGO"
out_has '^tasks    2: 1 connected, 0 in error, 1 not connected; 1 alive$'
kill -CONT $RUN
end_job

# The report of a timeout says the same.
check 124 "$MUSTER" run -n 3 --timeout 2s --grace 0s --heartbeat-timeout 10m sh -c '[ $RANK = 1 ] && kill -STOP $$; exec "$0" epochs' "$WORKER"
err_has '^task 1 (pid [0-9]*) has been stopped for .*, and has not joined: 2 tasks wait for it in barrier epoch'

# Not stopped, and yet not there.
has_slept() # its first thread, for more than a second
{
    "$MUSTER" status --job "$JOB" --json > "$OUT" && [ "$(json "it['now_ns'] - (it['tasks'][5]['last_ran_ns'] or 0) > 1100000000")" = true ]
}
for how in sleep spin thread key; do
    start_job 8 "$WORKER" away 5 $how
    case $how in
    sleep) matter="has slept elsewhere for $SECONDS_AGO" ;;
    thread) await "the first thread of task 5 has slept" has_slept ;;&
    thread | spin) matter='is running elsewhere \([1-9][0-9]* % CPU\)' ;; # a second look: now, not so far
    key) matter="waits in key never, for $SECONDS_AGO" ;;
    esac
    await_says "task 5 \(pid [0-9]+\) $matter: 7 tasks wait for it in barrier late, for $SECONDS_AGO"
    end_job
done

# All wait for a key, and nobody is known to be late; who is stopped is named for that, and not again. Two are one
# sentence.
start_job 8 "$WORKER" stay key
await_says "tasks 0-7 wait for key never, for $SECONDS_AGO"
check 0 "$MUSTER" status --job "$JOB" --json
kill -STOP "$(pid_of 3)" "$(pid_of 5)"
await_says "tasks 3 and 5 have been stopped for $SECONDS_AGO"
grep -qxE "tasks 0-2, 4, 6 and 7 wait for key never, for $SECONDS_AGO" "$OUT" || fail "the stopped are named twice, or badly"
end_job

# A wait that nobody can be late for is no reason to say that there is none.
start_job 2 "$WORKER" stay error
await_says "nobody is known to hold the job up: 2 of 2 tasks connected; task [01] \(pid [0-9]+\) has waited longest, \
for an error of any task, for $SECONDS_AGO"
end_job

# Stopped for longer than the timeout: it is in error, and it is said that it is stopped.
RUN_OPTIONS="--heartbeat-timeout 500ms --kill-on-fail=no" start_job 8 "$WORKER" epochs
await "all eight are connected" all_there
pid=$(pid_of 6)
kill -STOP "$pid" "$(pid_of 2)"
await_says "task [26] \(pid [0-9]+\) has been stopped for $SECONDS_AGO, and in error \(silent: .*\)"
kill -KILL $RUN
wait $RUN 2> /dev/null
await "the segment is gone" no_segment "$JOB"

# Post mortem: the launcher and the guard are killed at once, so nobody has taken the segment away.
start_job 8 "$WORKER" epochs
await "all eight are connected" all_there
pids=$(json '" ".join(str(t["pid"]) for t in it["tasks"])')
guard=$(for p in $(cat /proc/$RUN/task/$RUN/children); do [ "$(cat /proc/$p/comm)" = mu-guard ] && echo "$p"; done)
kill -STOP "$guard"
await "the guard is stopped" is_stopped "$guard"
kill -KILL $RUN
for pid in $pids; do await "$pid is gone" is_gone "$pid"; done
kill -KILL "$guard"
check 0 "$MUSTER" status --job "$JOB"
head -n 1 "$OUT" | grep -qE '^tasks? [0-7].* (is|are) dead' || fail "the first line does not say that they are dead"
grep -E 'waits? for' "$OUT" && fail "the dead are said to wait"
out_has "^job *$JOB, made by pid $RUN .* ago, which is gone"
out_has '^epoch  *[0-9]* *[A-Z]* *[0-9]/8'
check 0 "$MUSTER" status --job "$JOB" --json
json_is 'it["creator_gone"], [t["alive"] for t in it["tasks"]]' '[true, [false, false, false, false, false, false, false, false]]'
check 0 "$MUSTER" segment rm "$JOB" --force
exit 0
