#!/bin/bash
# What the tasks are given: variables, directory, standard input, signals, limits, descriptors.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" "$@"; }

check 0 run -n 3 --label env
for i in 0 1 2; do
    for line in MUSTER_JOB="$JOB" MUSTER_SEGMENT="$(segment_file "$JOB")" MUSTER_TASK_ID=$i MUSTER_NUM_TASKS=3 \
        MUSTER_LOCAL_ID=$i MUSTER_NODE_ID=0 RANK=$i WORLD_SIZE=3 LOCAL_RANK=$i LOCAL_WORLD_SIZE=3 \
        MUSTER_PROCESSORS="$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)"; do
        grep -qxF "[$i] $line" "$OUT" || fail "task $i lacks $line"
    done
    grep -qE "^\[$i\] MUSTER_TOPOLOGY=/proc/[0-9]+/fd/[0-9]+$" "$OUT" || fail "task $i is not told where hwloc's tree is"
    [ "$(grep -cE "^\[$i\] (RANK|MUSTER_JOB|MUSTER_RUN_ID)=" "$OUT")" -eq 3 ] || fail "a variable is there twice"
done

# A launcher inside a task of another job does not pass that job on.
check 0 env MUSTER_JOB=outer MUSTER_SEGMENT=/nowhere MUSTER_TASK_ID=77 RANK=77 MUSTER_PROCESSORS=outer "$MUSTER" run --job "$JOB" env
grep -qE '=(77|outer|/nowhere)$' "$OUT" && fail "the outer job shows through"
out_has "^MUSTER_JOB=$JOB$"

# Nor where it meets; but an address that somebody else has set stays.
check 0 run sh -c 'echo $MASTER_PORT; muster run sh -c "echo \$MASTER_PORT"'
[ "$(sort -u "$OUT" | wc -l)" -eq 2 ] || fail "the outer job's port: $(cat "$OUT")"
check 0 env MASTER_ADDR=elsewhere MASTER_PORT=7 "$MUSTER" run --job "$JOB" sh -c 'echo $MASTER_ADDR:$MASTER_PORT'
out_is elsewhere:7

# --env, --chdir.
check 0 run --env A=1 --env=B=two=2 --env A=3 sh -c 'echo "$A $B"'
out_is '3 two=2'
mkdir "$TMPDIR/bin"
printf '#!/bin/sh\necho found in $PWD\n' > "$TMPDIR/bin/tool$$"
chmod +x "$TMPDIR/bin/tool$$"
check 0 run --env PATH="$TMPDIR/bin:$PATH" --chdir / "tool$$"
out_is 'found in /'

# The first operand ends the options.
check 0 run echo --label -n 3
out_is '--label -n 3'

# Without a name, each run has its own.
check 0 "$MUSTER" run sh -c 'echo $MUSTER_JOB'
out_has '^run-[0-9]*-[0-9a-f]*$'

# Task 0 inherits stdin, to the end of file and no further than it reads; the others have none.
printf 'one\ntwo\n' > "$TMPDIR/in"
STDIN=$TMPDIR/in check 0 run -n 3 --label cat
out_is "$(printf '[0] one\n[0] two')"
printf 'a\nb\n' | { run -n 2 true; cat; } > "$OUT"
out_is "$(printf 'a\nb')"
check 0 run -n 2 --label readlink /proc/self/fd/0
out_has '^\[1\] /dev/null$'

# Signals and limits are those that the launcher was started with; each task leads its own process group.
check 0 run grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status
cp "$OUT" "$OUT.inside"
check 0 grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status
cmp -s "$OUT" "$OUT.inside" || fail "signals differ: $(cat "$OUT.inside")"
(ulimit -Sn 128; check 0 run -n 200 --label sh -c 'ulimit -Sn'; [ "$(sort -u "$OUT" | grep -c ' 128$')" -eq 200 ]) ||
    fail "the limit of open files is not the one from outside"
(ulimit -n 100; check 125 run -n 200 true; err_has 'open files') || exit 1
check 0 run -n 2 --label sh -c 'set -- $(cat /proc/$$/stat); [ $5 = $$ ] && echo leader'
[ "$(grep -c leader "$OUT")" -eq 2 ] || fail "a task does not lead its process group"
check 0 ls /proc/self/fd
outside=$(sort -u "$OUT" | xargs)
check 0 run -n 2 --mpi none --label ls /proc/self/fd
[ "$(sed 's/.* //' "$OUT" | sort -u | xargs)" = "$outside" ] || fail "descriptors leak into the tasks"
check 0 run -n 2 --label sh -c 'ls /proc/self/fd | grep -vx "$PMI_FD"'
[ "$(sed 's/.* //' "$OUT" | sort -u | xargs)" = "$outside" ] || fail "more than the MPI programs' socket leaks into the tasks"

# A segment that the address space has no room for leaves nothing behind.
if [ "$VARIANT" = release ]; then
    (ulimit -v 500000; check 125 run true; no_segment "$JOB") || fail "a segment is left"
else
    echo "not tested here: too little address space (a sanitizer's own need is larger)"
fi

# The segment as an inherited memfd.
check 0 run -n 2 --memfd --label sh -c 'echo $MUSTER_SEGMENT; muster kv set from/$RANK x && muster kv count from'
out_has '^\[0\] fd:[0-9]*$'
out_has '^\[[01]\] 2$'
no_segment "$JOB" || fail "it has a name"
exit 0
