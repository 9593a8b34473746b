#!/bin/bash
# Guests, tasks that speak through the agent, as the verbs show them: connected, and lost.
. "$(dirname "$0")/common.sh"
mkfifo "$TMPDIR/go"

"$BUILD/tests/cli/guest" "$JOB" < "$TMPDIR/go" > "$OUT.guest" &
GUEST=$!
exec 7> "$TMPDIR/go"
await "the guests are there" grep -q '^ready$' "$OUT.guest"

check 0 "$MUSTER" status --job "$JOB"
err_is_empty
out_has "^0 *CONNECTED *guest *$GUEST *1 "
out_has '^1 *ERROR *lost *- *1 '
out_has 'its connection was reset by its peer'
out_has '^2 *DISCONNECTED *- '
out_has '^task 1 is lost (died, noticed .* ago: its connection was reset by its peer)'
check 0 "$MUSTER" status --job "$JOB" --json
json_is '[t["guest"] for t in it["tasks"]]' '[true, true, false]'
json_is '[t["alive"] for t in it["tasks"]]' '[true, false, false]'
json_is '[t["process"] for t in it["tasks"]]' '["guest", "lost", "-"]'
json_is '[t["process_state"] for t in it["tasks"]]' '["guest", "lost", "-"]'
check 0 "$MUSTER" task list --job "$JOB"
out_has "^0 *CONNECTED *guest *$GUEST "
out_has '^1 *ERROR *lost *- '

# While it is connected it keeps its id; lost, it is reset like any task.
check 1 "$MUSTER" task reset 0 --job "$JOB"
err_is_one_line
err_has 'task 0 is alive, over the wire: end it first'
check 0 "$MUSTER" task reset 1 --job "$JOB"
check 0 "$MUSTER" task list --job "$JOB"
out_has '^1 *DISCONNECTED *left *- '
exec 7>&-
wait $GUEST || fail "the guests' agent did not end well"
