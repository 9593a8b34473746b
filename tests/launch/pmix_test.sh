#!/bin/bash
# run --mpi pmix: programs of PMIx find each other, on one host and on three (which are this machine again); who aborts,
# or exits in between, is named and is the job's end; nothing is left behind, whoever is killed; a libpmix that is
# missing is named with its package. Open MPI's programs run the same way, where Open MPI is installed.
# timeout: 180
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
CLIENT=$BUILD/tests/compat/pmix_client
unset "${!PMIX_@}" "${!OMPI_@}"
printf 'leak:%s\n' libpmix libhwloc libevent mca_ > "$TMPDIR/kept" # what they keep until the process ends
export LSAN_OPTIONS=suppressions=$TMPDIR/kept:print_suppressions=0

check 125 env MUSTER_PMIX_LIBRARY=/no/libpmix.so "$MUSTER" run --job "$JOB" -n 2 --mpi pmix -- true
err_has 'muster run: --mpi pmix: cannot load libpmix (/no/libpmix.so: .*); install it (Debian: apt-get install libpmix2)'
err_is_one_line
ldconfig -p | grep -q 'libpmix\.so\.2 ' || skip "libpmix is not installed (Debian: libpmix2): only its absence was tested"

# Where PMI-1 is served, a program that asks for PMIx alone is told how to have it.
check 3 "$MUSTER" run --job "$JOB" -n 2 --kill-on-fail=no -- "$CLIENT" ring
err_has '^muster run: a task asks for PMIx, .*: it runs as the only rank of a job of its own (run the job with --mpi pmix)$'
[ "$(grep -c 'asks for PMIx' "$ERR")" = 1 ] || fail "it is not said once"

printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
# on WHERE STATUS COMMAND...: WHERE is "1" (three tasks here), or "3" (four on three hosts).
on()
{
    local where=$1 status=$2 how=(-n 3)
    shift 2
    [ "$where" = 1 ] || how=(--hosts localhost:2,b:1,c:1 --rsh "$TMPDIR/rsh")
    check "$status" "$MUSTER" run --job "$JOB" "${how[@]}" --mpi pmix -- "$@"
    await "no process is left" none_with_mark "$MARK"
    no_segment "$JOB" || fail "the segment is left"
}
lines() { [ "$(grep -c "$1" "$OUT")" -eq "$2" ] || fail "not $2 lines: $1"; }

for where in 1 3; do
    tasks=$((where == 1 ? 3 : 4)) last=$((where == 1 ? 2 : 3))
    for what in ring direct 'large 700000'; do
        [ $where = 3 ] || [ "$what" = ring ] || continue # the others on one host: tests/compat/pmix_test.c
        # shellcheck disable=SC2086
        on $where 0 "$CLIENT" $what
        lines 'all values are there' $tasks
    done
    on $where 0 "$CLIENT" subset
    lines passed $tasks
    on $where 0 "$CLIENT" publish
    out_is "found tcp://somewhere:1 of $last"
    on $where 9 "$CLIENT" abort 9
    err_has "task $last (.*) called PMIx_Abort (or MPI_Abort) with status 9: no such matrix; ending the other"
    on $where 1 "$CLIENT" leave
    err_has "task $last (.*) exited with status 0 between PMIx_Init and PMIx_Finalize"
    # Who ends without PMIx, before the others begin (f: when they may) or while they wait, is missed: the job ends.
    for order in first later; do
        rm -f "$TMPDIR/f"
        on $where 1 sh -c 'if [ $RANK = $1 ]; then [ $2 = first ] || sleep 0.5; : > "$3"; exit 0; fi
            until [ $2 = later ] || [ -e "$3" ]; do sleep 0.02; done
            exec "$4" wait' sh $last $order "$TMPDIR/f" "$CLIENT"
        err_has "task [0-9]* (.*) \(waited in vain in PMIx (or MPI): task $last has ended without it\|exited with status 0 before PMIx_Init (or MPI_Init), and others wait\)"
    done
done
on 3 0 "$CLIENT" facts
lines "of 4, " 4
on 1 0 sh -c '[ "$PMIX_RANK" = "$RANK" ] && [ -z "${PMI_SIZE:-}${PMI_FD:-}" ] && [ -d "$PMIX_SERVER_TMPDIR" ]'
check 125 "$MUSTER" run --job "$JOB" -n 2 --mpi pmix --survive -- true
err_is_one_line

# The folder goes, whoever is killed.
start() { "$MUSTER" run --job "$JOB" -n 2 --mpi pmix -- sh -c "echo \$PMIX_SERVER_TMPDIR >> '$TMPDIR/folder'; exec sleep 60" & }
start > "$OUT.run" 2>&1 < /dev/null
RUN=$!
trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
both_told() { [ "$(wc -l 2> /dev/null < "$TMPDIR/folder")" = 2 ]; }
await "both tasks run" both_told
folder=$(head -n 1 "$TMPDIR/folder")
[ -d "$folder" ] || fail "no folder $folder"
kill -9 $RUN
wait $RUN 2> /dev/null
is_no_folder() { [ ! -e "$folder" ]; }
await "the folder is gone" is_no_folder
await "no process is left" none_with_mark "$MARK"

command -v mpicc.openmpi > /dev/null || { echo "Open MPI is not installed (Debian: libopenmpi-dev): it was not run"; exit 0; }
cat > "$TMPDIR/ring.c" <<'EOC'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: %d\n", rank, size, sum);
    if (argc > 1 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (argc > 1)
        pause();
    MPI_Finalize();
    return 0;
}
EOC
# Linked as its wrapper would, without what a sanitizer of ours would add.
check 0 mpicc.openmpi -o "$TMPDIR/ring" "$TMPDIR/ring.c"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp # no network's libraries are looked for: 0.2 s
for n in 2 4; do
    check 0 "$MUSTER" run --job "$JOB" -n $n --mpi pmix -- "$TMPDIR/ring"
    lines "of $n: $((n * (n - 1) / 2))\$" $n
done
on 3 0 "$TMPDIR/ring"
lines 'of 4: 6$' 4
on 1 7 "$TMPDIR/ring" abort
err_has 'task 1 (.*) called PMIx_Abort (or MPI_Abort) with status 7; ending the other'
on 1 1 sh -c '[ $RANK != 1 ] && exec "$1"; exit 0' sh "$TMPDIR/ring"
err_has 'task [02] (.*) waited in vain in PMIx\|task 1 (.*) exited with status 0 before PMIx_Init'
