#!/bin/bash
# The hosts of a job that has several, as muster status shows them: on any of them, and where only some are here.
. "$(dirname "$0")/common.sh"
mkfifo "$TMPDIR/go"

# start HOST...: these hosts' segments; stop: removed again.
start() {
    "$BUILD/tests/cli/hosts" "$JOB" "$@" < "$TMPDIR/go" > "$OUT.hosts" &
    HOSTS=$!
    exec 7> "$TMPDIR/go"
    await "the segments are there" grep -q '^ready$' "$OUT.hosts"
}
stop() {
    exec 7>&-
    wait $HOSTS || fail "the hosts' segments could not be made"
}

start
check 0 "$MUSTER" status --job "$JOB"
err_is_empty
out_has '^hosts    3: 1 up, 1 down, 1 awaited; this is host 0$'
out_has '^HOST  NAME  .* RTT  .* CALLS$'
out_has '^0     alpha \*  *up  *0/2  *5\.[0-9]* s  *1\.[0-9]* s  *-  *-  *0 B  *0 B  *0/0  *0  *0$'
out_has '^1     beta "2"  *down  *0/3  *5\.[0-9]* s  *1\.[0-9]* s  *52\.3 us  *41\.0 us  *4.*B  *8.*B  *17/18  *3  *2$'
out_has '^2     host 2  *awaited  *0/1  *-  *-  *-  *-  *0 B'
# The diagnosis: what is not there, the worse first.
out_has '^host 1 (beta "2") has not been connected for 5\.[0-9]* s: tasks 2 to 4 are there, 2 calls are unanswered$'
out_has '^host 2 has not come yet: task 5 is there$'
check 0 "$MUSTER" status --job "$JOB" --json
json_is 'it["host"]' 0
json_is '[(h["host"], h["name"], h["state"], h["leader"]) for h in it["hosts"]]' \
    '[[0, "alpha", "up", true], [1, "beta \"2\"", "down", false], [2, "host 2", "awaited", false]]'
json_is '[(h["first_task"], h["num_tasks"], h["connected"], h["in_error"]) for h in it["hosts"]]' \
    '[[0, 2, 0, 0], [2, 3, 0, 0], [5, 1, 0, 0]]'
json_is '[it["hosts"][1][k] for k in ("rtt_ns", "rtt_min_ns", "bytes_in", "bytes_out", "frames_in", "frames_out")]' \
    '[52300, 41000, 4096, 8192, 17, 18]'
json_is '[it["hosts"][1][k] for k in ("connects", "calls", "agent_pid")]' '[3, 2, 4711]'
json_is '[it["hosts"][2][k] for k in ("rtt_ns", "since_ns", "heard_ns", "agent_pid")]' '[null, null, null, null]'
json_is 'it["hosts"][0]["heard_ns"] - it["hosts"][0]["since_ns"]' 4000000000

# Another host's own view; and without a name the one job that is here is chosen, though it has three segments.
check 0 "$MUSTER" status --job "$JOB.h1"
out_has '; this is host 1$'
out_has '^0     alpha (leader)  *up '
out_has '^1     beta "2" \*  *down '
check 0 "$MUSTER" status
[ "$(cat "$ERR")" = "muster status: job $JOB" ] || [ "$(ls /dev/shm | grep -c "^muster-$(id -u)-")" -gt 3 ] ||
    fail "the job was not chosen"

# Metrics.
grep -qx 'muster_host_up{index="1",host="beta \\"2\\"",state="down"} 0' "$OUT.hosts" || fail "no muster_host_up"
grep -qx 'muster_host_up{index="0",host="alpha",state="up"} 1' "$OUT.hosts" || fail "no muster_host_up of the leader"
grep -qx 'muster_host_round_trip_seconds{index="1",host="beta \\"2\\""} 0.000052300' "$OUT.hosts" || fail "no round trip"
grep -qx 'muster_host_bytes_total{index="1",host="beta \\"2\\"",direction="out"} 8192' "$OUT.hosts" || fail "no bytes"
grep -qx 'muster_host_frames_total{index="1",host="beta \\"2\\"",direction="in"} 17' "$OUT.hosts" || fail "no frames"
grep -qx 'muster_host_connects_total{index="1",host="beta \\"2\\""} 3' "$OUT.hosts" || fail "no connects"
grep -qx 'muster_host_calls{index="1",host="beta \\"2\\""} 2' "$OUT.hosts" || fail "no calls"
stop

# On a host where the leader's segment is not: the job's name finds what is here, the least first.
start 2 1
check 0 "$MUSTER" status --job "$JOB"
[ "$(cat "$ERR")" = "muster status: job $JOB.h1, this host's part of it" ] || fail "it is not said which part is shown"
out_has '; this is host 1$'
check 0 "$MUSTER" status --job "$JOB" --json
err_is_empty
json_is 'it["host"]' 1
stop
start 2
check 0 "$MUSTER" status --job "$JOB" --json
json_is 'it["host"]' 2
check 3 "$MUSTER" status --job "$JOB.h1"
err_is_one_line
stop
check 3 "$MUSTER" status --job "$JOB"
err_has "$JOB"

# A name that only looks like a part is a job of its own.
JOB=$JOB-x
start_job 1 sleep 1000
await "it is there" has_segment "$JOB"
check 3 "$MUSTER" status --job "${JOB%-x}"
kill -TERM $RUN
wait $RUN
exit 0
