#!/bin/bash
# `muster barrier`: shell tasks meet, are cancelled, run out of time; the missing are named.
. "$(dirname "$0")/common.sh"

check 0 "$MUSTER" run -n 4 --job "$JOB" sh -c 'muster barrier wait start --wait 60s && echo $RANK'
[ "$(sort "$OUT" | xargs)" = "0 1 2 3" ] || fail "not all passed"

# Time runs out: exit status 4, and who is missing.
check 4 "$MUSTER" run -n 2 --job "$JOB" --kill-on-fail=no \
    sh -c '[ $RANK = 1 ] && exec sleep 1; muster barrier wait late --timeout 100ms'
err_has '^muster barrier wait: .*1'

# A task that takes no part; a list.
# One after the other: each call joins and leaves, and who leaves late harms nobody who is at the next one already.
check 0 "$MUSTER" run -n 3 --job "$JOB" sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do muster barrier wait step --wait 60s || exit 1; done'

check 0 "$MUSTER" run -n 3 --job "$JOB" sh -c '[ $RANK = 1 ] || muster barrier wait some --tasks 0,2 --wait 60s'
check 1 "$MUSTER" run -n 2 --job "$JOB" --kill-on-fail=no \
    sh -c '[ $RANK = 0 ] || muster barrier wait none --tasks 0 --wait 60s'
for list in '' x 3-1 1, ,1 1-x 99999; do
    check 2 "$MUSTER" barrier wait --job "$JOB" --task 0 --tasks "$list" b
    err_has 'is no list of tasks'
done

# From outside: list, cancel.
start_job 2 sh -c '[ $RANK = 1 ] && exec sleep 1000; muster barrier wait stuck; echo $? > '"$TMPDIR/status; exec sleep 1000"
waiting() { "$MUSTER" barrier list --job "$JOB" --json 2> /dev/null | grep -q '"arrived":1,'; }
await "task 0 has arrived" waiting
check 0 "$MUSTER" barrier list --job "$JOB"
out_has '^stuck *0 *WAITING *1/2'
out_has 'missing: task 1, [a-z]*, pid [0-9]*, not registered'
check 1 "$MUSTER" barrier cancel --job "$JOB" stuck --instance 7
check 0 "$MUSTER" barrier cancel --job "$JOB" stuck
await "the waiter has returned" test -s "$TMPDIR/status"
[ "$(cat "$TMPDIR/status")" = 1 ] || fail "a cancelled wait has exit status $(cat "$TMPDIR/status")"
check 0 "$MUSTER" barrier list --job "$JOB" --json
json_is '[(b["id"], b["result"]) for b in it["barriers"]]' '[["stuck", "CANCELLED"]]'
"$MUSTER" segment check "$JOB" > "$OUT" || fail "the audit found something"
exit 0
