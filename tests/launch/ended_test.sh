#!/bin/bash
# A task whose process ends without ever having joined: the launcher knows, so whoever waits for it is told at once, by
# name, and status says so.
. "$(dirname "$0")/../cli/common.sh"

run() { "$MUSTER" run --job "$JOB" "$@" > "$OUT" 2> "$ERR" < /dev/null; }
ended() { echo "task $1 (pid [0-9]* on host [^ ]*):* has ended ($2) without joining"; }

# A named barrier, whoever comes first.
run -n 2 -- sh -c '[ $RANK = 1 ] && exit 0; exec muster barrier wait x'
[ $? -ne 0 ] || fail "exit status"
err_has "$(ended 1 'exited with status 0')"
run -n 2 --kill-on-fail=no -- sh -c '[ $RANK = 1 ] && exec kill -USR1 $$; sleep 0.2; exec muster barrier wait x' # sleep: any order
err_has "$(ended 1 'killed by signal 10, User defined signal 1')"

# A key that nobody can set any more: of the last task, when it is all that there is of it.
run -n 3 --kill-on-fail=no -- sh -c '[ $RANK = 0 ] || exit $RANK; exec muster kv get --wait 1h k'
err_has "key k: nobody is left who could set it: $(ended 1 'exited with status 1'); $(ended 2 'exited with status 2')"
# Another process of its task still may.
run -n 2 -- sh -c '[ $RANK = 1 ] && exit 0; (muster barrier wait --help > /dev/null; sleep 0.3; muster kv set k v) & exec muster kv get --wait 1h k' || # sleep: long enough for a wrong verdict
    fail "the key was given up"
out_is v

# The caller's own deadline names them, too.
run -n 3 --kill-on-fail=no -- sh -c '[ $RANK = 1 ] && exit 3; [ $RANK = 2 ] && exec muster kv get --wait 1h end
    until muster status --json | grep -q "\"ended\":{\"status\":3,"; do sleep 0.02; done # sleep: between two looks
    muster kv get --wait 10ms k; muster kv set end 1'
err_has "the deadline passed while waiting for key k; who could set it: task 2 (on host [^ ]*): never joined; $(ended 1 'exited with status 3')"

# Who looks is told, and how it ended.
"$MUSTER" run -n 2 --job "$JOB" --kill-on-fail=no -- sh -c '[ $RANK = 1 ] && exit 3; exec sleep 1000' > /dev/null 2>&1 < /dev/null &
RUN=$!
known() { "$MUSTER" status --job "$JOB" --json > "$OUT" 2> "$ERR" && grep -q '"ended":{"status":3,"signal":null}' "$OUT"; }
await "status knows of the end" known
json_is 'it["tasks"][1]["process"]' ended
json_is 'it["tasks"][0]["ended"]' null
check 0 "$MUSTER" status --job "$JOB"
out_has "^task 1 (pid [0-9]*) has ended (exited with status 3) without joining$"
out_has "^1  *DISCONNECTED ended "
kill -TERM $RUN
wait $RUN

# Of several hosts the others are told, both ways.
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
for gone in 0 1; do
    run --hosts localhost:1,b:1 --rsh "$TMPDIR/rsh" --kill-on-fail=no -- sh -c "[ \$RANK = $gone ] && exit 6; exec muster barrier wait x"
    err_has "$(ended $gone 'exited with status 6')"
done

# One that is started again has not ended.
run -n 2 --restarts 1 --restart-policy task --restart-delay 10ms -- sh -c '[ $RANK$MUSTER_ATTEMPT = 10 ] && exit 1; exec muster barrier wait x' || fail "a restart"
err_has "starting it again"
exit 0
