#!/bin/bash
# Many tasks: started, numbered, reaped.
# timeout: 300
. "$(dirname "$0")/../cli/common.sh"

hard=$(ulimit -Hn)
[ "$hard" = unlimited ] || [ "$hard" -ge 4200 ] || skip "needs 4200 open files, the hard limit is $hard"
tasks=$(ulimit -u)
[ "$tasks" = unlimited ] || [ "$tasks" -ge 6000 ] || skip "needs 6000 processes, the limit is $tasks"
check 0 "$MUSTER" run -n 4096 --job "$JOB" true
err_is_empty
check 0 "$MUSTER" run -n 1000 --job "$JOB" --label sh -c 'echo $RANK'
[ "$(sort -u "$OUT" | wc -l)" -eq 1000 ] || fail "not a thousand"
no_segment "$JOB" || fail "a segment is left"
exit 0
