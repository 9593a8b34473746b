#!/bin/bash
# --dry-run says what would be started, as a shell would have to be told it, and starts nothing.
. "$(dirname "$0")/../cli/common.sh"
check 0 "$MUSTER" run --job "$JOB" --dry-run -n 1 --chdir /tmp --output "$TMPDIR/{rank}.{stream}" touch "$TMPDIR/a file" "it's" : \
    -n 2 --env A=b true
err_is_empty
out_has "^job $JOB: 3 tasks; nothing is started$"
out_has "^task 0 on $(uname -n): touch '$TMPDIR/a file' 'it'\\\\''s'$"
out_has '^    in /tmp$'
out_has "^    stderr to $TMPDIR/0.stderr$"
out_has "^task 2 on $(uname -n): true$"
[ "$(grep -c '^    A=b$' "$OUT")" -eq 2 ] || fail "A=b"
for i in 0 1 2; do
    sed -n "/^task $i /,/^task $((i + 1))/p" "$OUT" | grep -qx "    RANK=$i" || fail "RANK of $i"
done
out_has '^    WORLD_SIZE=3$'
out_has '^    MASTER_PORT=[1-9]'
for name in MASTER_PORT JAX_COORDINATOR_ADDRESS; do
    [ "$(grep "^    $name=" "$OUT" | sort | uniq -c | wc -l)" -eq 1 ] || fail "the job's commands have several $name"
done
[ -z "$(ls "$TMPDIR" | grep -v "\.$$\$")" ] || fail "something was made: $(ls "$TMPDIR")"
no_segment "$JOB" || fail "a segment"

# On a machine that is not this one, which only a dry run may use.
check 0 env HWLOC_SYNTHETIC='package:2 numa:1 core:2 pu:2' "$MUSTER" run -n core --bind-to core --dry-run true
[ "$(grep -c '^    on processors ' "$OUT")" -eq 4 ] || fail "four cores"
out_has '^    on processors 6-7: package 1 core 3$'
check 2 env HWLOC_SYNTHETIC='package:2 core:2 pu:1' "$MUSTER" run -n core --bind-to core true
err_has 'HWLOC_SYNTHETIC shows another machine'

# A dry run's complaints are those of a run.
check 2 "$MUSTER" run --dry-run -n x true
check 2 "$MUSTER" run --dry-run --bind-to nowhere true
exit 0
