#!/bin/bash
# Of the tasks of a job that ask for hwloc's tree at once one loads it and the others map it; in the next attempt, which
# is another job, too; and tasks whose launcher has died load for themselves.
source "$(dirname "$0")/../cli/common.sh"
SHARE="$(dirname "$MUSTER")/tests/topology/share"

count() { grep -c "^$1 " "$OUT" || true; }

check 0 "$MUSTER" run -n 128 "$SHARE"
[ "$(count filled)/$(count adopted)" = 1/127 ] || fail "$(sort "$OUT" | uniq -c)"
[ "$(sed 's/.* //' "$OUT" | sort -u | wc -l)" = 1 ] || fail "they do not see the same number of processors"

check 1 "$MUSTER" run -n 4 --restarts 1 --restart-policy job --restart-delay 1ms bash -c '"$0" && muster barrier wait seen && [ $MUSTER_TASK_ID != 0 ]' "$SHARE"
[ "$(count filled)/$(count adopted)" = 2/6 ] || fail "$(sort "$OUT" | uniq -c)"

# By the public calls, of members of the job; and then for who asks inside.
check 0 "$MUSTER" run -n 6 bash -c '"$0" public && "$0"' "$SHARE"
[ "$(count adopted)" = 6 ] || fail "no task mapped what the public call had shared: $(cat "$OUT")"
[ "$(grep -c ' processors, .* devices, the first is a [CG]PU$' "$OUT")" = 6 ] || fail "$(cat "$OUT")"
[ "$(grep -o '^[0-9]* processors' "$OUT" | sort -u | wc -l)" = 1 ] || fail "they differ: $(cat "$OUT")"

# What is not there, or is no such file, costs a load and nothing else.
for path in /nowhere /dev/null /proc/self/fd/1; do
    check 0 "$MUSTER" run -n 1 env MUSTER_TOPOLOGY="$path" "$SHARE"
    [ "$(count loaded)" = 1 ] || fail "$path: $(cat "$OUT")"
done

# Nor does a task die that may not write so much: the next fills it.
check 0 "$MUSTER" run -n 1 bash -c '(ulimit -f 8; exec "$0") && "$0"' "$SHARE"
[ "$(count loaded)/$(count filled)" = 1/1 ] || fail "under a limit of file sizes: $(cat "$OUT")"

# No hwloc is shared that reads another machine.
check 0 env HWLOC_SYNTHETIC='package:2 core:3 pu:1' "$MUSTER" run -n 2 "$SHARE"
[ "$(grep -c '^loaded 6$' "$OUT")" = 2 ] || fail "$(cat "$OUT")"
exit 0
