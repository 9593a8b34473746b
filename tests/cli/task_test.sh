#!/bin/bash
# `muster task`: list, report, wait for the first error, reset, watch.
. "$(dirname "$0")/common.sh"
RUN_OPTIONS=--kill-on-fail=no start_job 3 sh -c '[ $RANK = 2 ] && exec sleep 1000; muster barrier wait "$(printf "never\033[31m\302\2332J")"
    echo "task $RANK: $?" >> '"$TMPDIR/ended; exec sleep 1000"
task() { "$MUSTER" task "$@" --job "$JOB"; }
await "two are connected" connected 2
both_wait() { [ "$(task list --json 2> /dev/null | grep -o '"in":"barrier never' | wc -l)" -eq 2 ]; }
await "both wait" both_wait

# What a terminal would obey is printed, not sent: no byte below space, no DEL, no U+0080 to U+009F.
is_harmless() { ! LC_ALL=C grep -qaP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1"; }
check 0 task list
out_has 'barrier never\\x1b\[31m\\xc2\\x9b2J::0, for '
is_harmless "$OUT" || fail "the terminal is told something by a barrier's name"

# Refusals first.
check 3 task error
err_has 'no task is in error'
check 4 task error --wait 20ms
check 1 task reset 99
err_is_one_line
check 1 task error 99 text
check 1 task reset 2
err_has 'task 2\|/task:2'
check 1 task reset 0
check 3 "$MUSTER" task reset --job "$JOB-other" 0

check 0 task list
out_has '^0 *CONNECTED *running'
out_has '^2 *DISCONNECTED *-'
check 0 task list --json
json_is '[t["task"] for t in it["tasks"]]' '[0, 1, 2]'
json_is 'it["tasks"][0]["waiting"]["in"].startswith("barrier never")' true
version=$(json 'it["version"]')

# Everybody who waits for it learns of an error, and it stays the first.
task error --wait 60s --json > "$OUT.error" 2>&1 &
waiter=$!
task watch --json --wait 60s > "$OUT.watch" 2>&1 &
watcher=$!
await "the watcher has begun" grep -q '"tasks"' "$OUT.watch"
check 0 task error 1 $'out of cheese\nand \302\2332J\e[31mbread' --code ABORTED
wait $waiter || fail "the wait for an error failed"
OUT=$OUT.error json_is '[it["task"], it["code"], it["cause"]]' '[1, "ABORTED", "reported"]'
ended() { grep -qx "task $1: 1" "$TMPDIR/ended" 2> /dev/null; }
await "task 0's barrier has failed" ended 0
await "task 1's barrier has failed" ended 1
task error 1 'another' > /dev/null 2>&1 # the first is kept
check 0 task error
out_has '^task 1 .*ABORTED (reported): .*out of cheese\\nand \\xc2\\x9b2J\\x1b\[31mbread'
is_harmless "$OUT" || fail "the terminal is told something by an error"
check 0 task list
out_has '^      ABORTED, reported: .*out of cheese\\nand \\xc2\\x9b2J'
is_harmless "$OUT" || fail "the terminal is told something by a task's error"
await "the launcher has said it" grep -q '^muster run: task 1 .*out of cheese' "$ERR.run"
is_harmless "$ERR.run" || fail "the terminal is told something by the launcher"
await "the watcher has seen it" grep -q '"state":"ERROR"' "$OUT.watch"
kill -INT $watcher 2> /dev/null
kill -TERM $watcher
wait $watcher
[ $? -gt 128 ] || fail "a watch that was ended by a signal must say so"
[ "$version" -lt "$(task list --json | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["version"])')" ] ||
    fail "the version did not grow"

# Its process has ended, so it may be reset, and join anew.
reset() { "$MUSTER" task reset --job "$JOB" 1 2> /dev/null; }
await "the task can be reset" reset
check 0 task list --json
json_is 'it["tasks"][1]["state"]' DISCONNECTED
check 1 task reset 1
check 0 task watch --count 0
exit 0
