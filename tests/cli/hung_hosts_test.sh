#!/bin/bash
# A hung job of two hosts is diagnosed on the first of them: one `muster status` there names the one task that the others
# wait for, on whichever host it is, says which host that is, and what is the matter with it; so does the report of a
# timeout. The other host is this machine again.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/../launch/relay.sh"
. "$(dirname "$0")/hung.sh"

what_they_said() { [ "$1" -eq 0 ] || tail -n 5 "$ERR".run "$ERR".adopted* 2> /dev/null; }

# begin COMMAND...: tasks 0 and 1 here, 2 and 3 on host b; connected, all four
begin()
{
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:2,b:2 --heartbeat-timeout 10m \
        ${OPTIONS[@]+"${OPTIONS[@]}"} -- "$@" > "$OUT.run" 2> "$ERR.run" < /dev/null &
    RUN=$!
    trap 'what_they_said $?; kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
    await "all four are connected" connected 4
}
pid_of() { "$MUSTER" status --job "$JOB" --json > "$OUT.pids" && json "it['tasks'][$1]['pid']" "$OUT.pids"; }
end_job()
{
    kill -KILL $RUN
    wait $RUN 2> /dev/null
    clean
}
sights() { "$MUSTER" kv list --job "$JOB" muster/sights 2> /dev/null; }
no_sights() { [ -z "$(sights)" ]; }

# A task of the other host is stopped, wherever it was: named at once, and what is the matter soon after. It goes on, the
# job too, and nothing is left of what was told.
for what in epochs group; do
    begin "$WORKER" $what
    stop 3 $what
    await_says "task 3 \(pid $pid on host b\) has been stopped for $SECONDS_AGO: 3 tasks wait for it in $place, for $SECONDS_AGO"
    out_has "^TASK  HOST  *STATE  *PROCESS "
    out_has "^3     b  *CONNECTED *stopped *$pid "
    out_has "^  missing: task 3, stopped on host b, pid $pid, for "
    waits() { says '.*' && grep -qE "^2     b  *CONNECTED *sleeping .* (barrier epoch|group workers), for " "$OUT"; }
    await "the wait of the other one there shows" waits
    check 0 "$MUSTER" status --job "$JOB" --json
    json_is '[m["task"] for b in it["barriers"] + it["groups"] for m in b["missing"] if b["arrived"] == 3]' '[3]'
    json_is '[(t["process_state"], t["host"], (t["waiting"] or {"in": ""})["in"][:5]) for t in it["tasks"][2:3]]' \
        "[[\"sleeping\", \"b\", \"$(echo "${place:0:5}")\"]]"
    json_is 'it["tasks"][3]["process_state"]' stopped
    kill -CONT "$pid"
    await "nothing is told of tasks that work" no_sights
    # And one of this host, seen from the other: it says where to look.
    stop 1 $what
    await_says "task 1 \(pid $pid\) has been stopped for $SECONDS_AGO: 3 tasks wait for it in $place, for $SECONDS_AGO"
    await_says "task 1 \(pid $pid on host [^ ]+\) is alive \(what it does is known on host [^ ]+\): 3 tasks wait for it in $place, for $SECONDS_AGO" "$JOB.h1"
    kill -KILL "$pid"
    end_job
done

# Stopped before it has joined, which is its host's agent's to know.
"$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:2,b:2 --heartbeat-timeout 10m \
    sh -c '[ $RANK = 3 ] && kill -STOP $$; exec "$0" epochs' "$WORKER" > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
trap 'what_they_said $?; kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
await_says "task 3 \(pid [0-9]+ on host b\) has been stopped for $SECONDS_AGO, and has not joined: 3 tasks wait for it in barrier epoch.*"
out_has "^3     b  *DISCONNECTED *stopped *[0-9]"
out_has "^  missing: task 3, stopped on host b, pid [0-9]*, .*not registered$"
pid=$(pid_of 3)
await_says "task 3 \(pid $pid\) has been stopped for $SECONDS_AGO, and has not joined(: 3 tasks wait .*)?" "$JOB.h1"
kill -CONT "$pid"
await "all four are connected" connected 4
await "nothing is told of tasks that work" no_sights
end_job

# Not stopped, and yet not there.
for how in sleep spin key; do
    begin "$WORKER" away 2 $how
    case $how in
    sleep) matter="has slept elsewhere for $SECONDS_AGO" ;;
    spin) matter='is running elsewhere' ;;
    key) matter="waits in key never, for $SECONDS_AGO" ;;
    esac
    await_says "task 2 \(pid [0-9]+ on host b\) $matter: 3 tasks wait for it in barrier late, for $SECONDS_AGO"
    end_job
done

# All wait for a key; two of the other host are stopped, and are one sentence.
begin "$WORKER" stay key
await_says "tasks 0-3 wait for key never, for $SECONDS_AGO"
kill -STOP "$(pid_of 2)" "$(pid_of 3)"
await_says "tasks 2 and 3 \(on host b\) have been stopped for $SECONDS_AGO"
end_job

# The report of a timeout says the same.
OPTIONS=(--timeout 10s --grace 100ms)
begin "$WORKER" away 2 key
wait $RUN
trap - EXIT
grep -qE "^task 2 \(pid [0-9]+ on host b\) waits in key never, for $SECONDS_AGO: 3 tasks wait for it in barrier late, for" "$ERR.run" ||
    fail "the timeout's report: $(cat "$ERR.run")"
clean

# The leader's agent dies, and another takes its place: it is told all anew; so it is when the other host's has died.
OPTIONS=(--survive=2m --output "$TMPDIR/out-{rank}")
begin "$WORKER" away 2 key
pid=$(pid_of 2)
waits_there="task 2 \(pid $pid on host b\) waits in key never, for $SECONDS_AGO: 3 tasks wait for it in .*"
await_says "$waits_there"
kill -KILL $RUN
wait $RUN 2> /dev/null
await_says "task 2 \(pid $pid on host b\) is alive: .*" # what a dead agent was told is old
"$MUSTER" agent --adopt "$JOB" > "$OUT.adopted" 2> "$ERR.adopted" < /dev/null &
RUN=$!
await "it is adopted" grep -q "adopted: " "$ERR.adopted"
await_says "$waits_there"
agent=$("$MUSTER" status --job "$JOB" --json > "$OUT" && json 'it["hosts"][1]["agent_pid"]')
kill -KILL "$agent"
await_says "host 1 \(b\) has not been connected for .*: tasks 2 to 3 are there.*"
out_has "^task 2 (pid $pid on host b) is alive: "
"$MUSTER" agent --adopt "$JOB.h1" > "$OUT.adopted.h1" 2> "$ERR.adopted.h1" < /dev/null &
await "the other one is adopted" grep -q "adopted: " "$ERR.adopted.h1"
await_says "$waits_there"
kill -KILL "$pid"
wait $RUN
trap - EXIT
clean

# Both agents die, and what was told before is old when others have taken their places.
begin "$WORKER" epochs
pid=$(pid_of 3)
kill -STOP "$pid"
await_says "task 3 \(pid $pid on host b\) has been stopped .*"
agent=$("$MUSTER" status --job "$JOB" --json > "$OUT" && json 'it["hosts"][1]["agent_pid"]')
kill -KILL $RUN "$agent"
wait $RUN 2> /dev/null
is_gone() { ! kill -0 "$agent" 2> /dev/null; }
await "the other agent has ended" is_gone
kill -CONT "$pid"
"$MUSTER" agent --adopt "$JOB" > "$OUT.adopted" 2> "$ERR.adopted" < /dev/null &
RUN=$!
"$MUSTER" agent --adopt "$JOB.h1" > "$OUT.adopted.h1" 2> "$ERR.adopted.h1" < /dev/null &
await "it is adopted" grep -q "adopted: " "$ERR.adopted"
await "the other one is adopted" grep -q "adopted: " "$ERR.adopted.h1"
await "nothing is left of what was told before" no_sights
kill -KILL "$pid"
wait $RUN
trap - EXIT
clean
exit 0
