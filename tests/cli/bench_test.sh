#!/bin/bash
# `muster bench` in short: every row is measured, the figures are in order, nothing is left, whoever ends it. No figure
# is compared with a limit: that is for `make bench`.
. "$(dirname "$0")/common.sh"
ROWS="group-barrier named-barrier kv-get kv-set kv-wait heartbeat attach death launch launch-spawn"

check 0 "$MUSTER" bench --seconds 0.02 --json
err_is_empty
json_is '" ".join(row["name"] for row in it["rows"])' "$ROWS"
json_is 'sorted(it)' '["clock_ps", "cpu", "host", "kernel", "machine", "processors", "rows", "seconds", "tasks", "version"]'
json_is '(it["host"], it["kernel"], it["processors"], it["clock_ps"] > 0)' "[\"$(uname -n)\", \"$(uname -r)\", $(nproc), true]"
json_is '[r["name"] for r in it["rows"] if not 0 < r["min_ps"] <= r["p50_ps"] <= r["p99_ps"] <= r["max_ps"] < 60 * 10**12]' '[]'
json_is '[r["name"] for r in it["rows"] if not r["min_ps"] <= r["mean_ps"] <= r["max_ps"] or r["n"] < 5 or r["batch"] < 1]' '[]'
# What cannot be otherwise on any machine: a launch of tasks is not shorter than one get.
json_is '(lambda r: r["kv-get"] < r["launch-spawn"])({r["name"]: r["p50_ps"] for r in it["rows"]})' true

check 0 "$MUSTER" bench --seconds 0.01 --tasks 3 --only named-barrier,group-barrier
out_has "^muster .* on $(uname -n), Linux $(uname -r), .* processor"
out_has '^3 tasks, 0.01 s a row; a reading of the clock takes [0-9]* ns, not subtracted$'
[ "$(sed -n 's/^\([a-z-]*\) .* [0-9.]* [num]s .*[0-9.]* [num]s$/\1/p' "$OUT" | xargs)" = "group-barrier named-barrier" ] ||
    fail "not these two rows"
if grep -q '\.\.\.' "$ERR"; then fail "progress where there is no terminal"; fi
check 0 "$MUSTER" bench --only kv-get,kv-get --seconds 0.01 --tasks 2 --json
json_is '[(r["name"], r["tasks"], r["batch"]) for r in it["rows"]]' '[["kv-get", 1, 64]]'

# Inside a job it has a job of its own.
check 0 "$MUSTER" run -n 1 --job "$JOB" "$MUSTER" bench --only attach,death,launch --seconds 0.01
out_has '^death '

# Wrong words.
for bad in '--only=kv' '--only=' '--only=kv-get,' '--only=,kv-get' --seconds=0 --seconds=-1 --seconds=x --seconds=601 \
    --seconds=nan --tasks=1 --tasks=65 --tasks=x; do
    check 2 "$MUSTER" bench "$bad"
    err_is_one_line
    out_is_empty
done
check 2 "$MUSTER" bench --only kv-gte
err_has "--only is group-barrier, .* or launch-spawn, not 'kv-gte'; did you mean 'kv-get'?"

# Times read as elsewhere.
check 0 "$MUSTER" bench --only kv-get --seconds 5ms
for bad in 0x1 1e-1 1.5.2 5mss; do
    check 2 "$MUSTER" bench --seconds "$bad"
    err_has "'$bad' is no time"
done

# Ended from outside: by a signal that it catches, and by one that nobody can; not by one that it was told to ignore.
set -m # else INT is ignored in the background
for signal in INT TERM KILL HUP; do
    MARK=bench$$$signal
    ( [ $signal != HUP ] || trap '' HUP
      BENCH_MARK=$MARK exec "$MUSTER" bench --seconds 300 --only kv-wait > "$OUT" 2> "$ERR" < /dev/null) &
    pid=$!
    running() { [ "$(with_mark BENCH_MARK=$MARK | wc -l)" -gt 2 ]; }
    await "its tasks are there" running

    kill -$signal $pid
    if [ $signal = HUP ]; then
        signal=TERM
        kill -TERM $pid # were HUP not ignored, that would be the status
    fi
    wait $pid 2> /dev/null
    got=$?
    [ $got -eq $((128 + $(kill -l $signal))) ] || fail "exit status $got after SIG$signal"
    await "all are gone" none_with_mark "BENCH_MARK=$MARK"
done
exit 0
