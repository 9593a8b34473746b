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

# What it says that a task would be given is, by name, what a task of a run has beyond its parent's variables.
names() { sed -n 's/^\([A-Za-z_][A-Za-z_0-9]*\)=.*/\1/p' "$@" | sort -u; }
compare() # OPTION...
{
    env > "$TMPDIR/parent"
    names "$TMPDIR/parent" > "$TMPDIR/parent.names"
    check 0 "$MUSTER" run --dry-run "$@"
    cp "$OUT" "$TMPDIR/dry"
    check 0 "$MUSTER" run --label "$@"
    for rank in $(sed -n 's/^task \([0-9]*\) on .*/\1/p' "$TMPDIR/dry"); do
        sed -n "/^task $rank on /,/^task $((rank + 1)) on /s/^    //p" "$TMPDIR/dry" > "$TMPDIR/one"
        names "$TMPDIR/one" | comm -23 - "$TMPDIR/parent.names" > "$TMPDIR/said"
        sed -n "s/^\[$rank\] //p" "$OUT" > "$TMPDIR/one"
        names "$TMPDIR/one" | comm -23 - "$TMPDIR/parent.names" > "$TMPDIR/given"
        if grep -q '^    PMIX_\*=<' "$TMPDIR/dry"; then # what libpmix says is its own affair
            grep -q '^PMIX_RANK$' "$TMPDIR/given" || fail "task $rank has no PMIX_RANK"
            sed -i '/^PMIX_/d' "$TMPDIR/given"
        fi
        [ -s "$TMPDIR/given" ] || fail "task $rank shows no variables: $*"
        cmp -s "$TMPDIR/said" "$TMPDIR/given" ||
            fail "task $rank of '$*': said (<) and given (>) are: $(diff "$TMPDIR/said" "$TMPDIR/given")"
    done
}
compare env
compare -n 2 env : -n 1 --env A=b env : -n 1 --chdir / --env MASTER_PORT=7 env
compare -n 2 --restarts 1 --restart-policy task env
compare -n 2 --mpi none env
compare --mpi port env
compare --mpi pmi1 --env OMPI_MCA_osc_sm_backing_directory=/tmp env
compare --memfd --bind-to core env
compare -n 2 --grpc --tcpstore env
(export http_proxy=http://127.0.0.1:9 && compare --grpc env) || exit 1
if "$MUSTER" run --mpi pmix true 2> "$ERR"; then
    compare -n 2 --mpi pmix env
else
    echo "not tested here: --mpi pmix ($(cat "$ERR"))"
fi
check 0 "$MUSTER" run --dry-run -n 2 true
out_has '^    PMI_FD=<a socket>$'
out_has '^    PMI_RANK=1$'
check 0 "$MUSTER" run --dry-run --hosts localhost:1,there:1 true
out_has '^    MASTER_PORT=[1-9]'

# A dry run's complaints are those of a run.
check 125 "$MUSTER" run --dry-run --mpi pmix --restarts 1 --restart-policy task true
err_has '^muster run: --mpi pmix serves no job with --restart-policy task: '
check 2 "$MUSTER" run --dry-run -n x true
check 2 "$MUSTER" run --dry-run --bind-to nowhere true

# Where the coordination service will be, as tasks are told it.
check 0 "$MUSTER" run --dry-run --grpc true
out_has '^    MUSTER_GRPC_ADDRESS=127.0.0.1:<a port>$'
out_has '^    JAX_COORDINATOR_ADDRESS=127.0.0.1:<a port>$'
check 0 "$MUSTER" run --dry-run --grpc=0.0.0.0:25324 --grpc-insecure true
out_has '^    MUSTER_GRPC_ADDRESS=127.0.0.1:25324$'
exit 0
