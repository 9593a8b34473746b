#!/bin/bash
# MPI programs as they are, of MPICH and Open MPI, with no option of ours: on one host and two, with an abort, a task that
# leaves, an early end, restarts. Their compilers are the distribution's; the programs know nothing of muster.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
run() { timeout 60 "$MUSTER" run --job "$JOB" "$@"; }
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "sorted, stdout is not: $1"; }
clean()
{
    await "no process is left" none_with_mark "$MARK"
    [ -z "$(compgen -G "$(segment_file "$JOB")*")" ] || fail "a segment is left"
}

# Open MPI is spared looking for networks, which takes it most of a start's time, and told that there are more tasks
# than processors. Two "hosts" are this machine.
unset "${!OMPI_@}"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,tcp,self OMPI_MCA_mpi_yield_when_idle=1
cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/sh
host=$1; shift
cd /
eval "exec env PMI_RANK=77 $*" # what stands there of another launcher's must not be taken for ours
EOS
chmod +x "$TMPDIR/rsh"
export TMPDIR PYTHON

# What tasks of Open MPI share lies in a folder of the job's on this host, told to them when $TMPDIR/folder is written.
held() { grep -q '^held$' "$OUT.held"; }
is_no_folder() { [ ! -e "$folder" ]; }
hold() # in the background, its pid in $HELD
{
    : > "$OUT.held"
    rm -f "$TMPDIR/folder"
    "$MUSTER" run --job "$JOB-held" -n 2 sh -c '[ $RANK = 1 ] || echo "$OMPI_MCA_orte_tmpdir_base" > "$TMPDIR/folder"
        FLUX_JOB_ID=77 exec "$1" hold "$TMPDIR/go"' sh "$RING" > "$OUT.held" 2> "$ERR.held" < /dev/null &
    HELD=$!
    await "the ring is held" held
    folder=$(cat "$TMPDIR/folder")
    [ -d "$folder" ] || fail "no folder '$folder'"
}
try_folders()
{
    # Two jobs at once that have one number, and a third within a task: each has its own.
    rm -f "$TMPDIR/go"
    hold
    check 0 run -n 2 env FLUX_JOB_ID=77 "$RING"
    sorted_is "$(printf 'ring of 2: 101\nsum over 2: 3')"
    check 0 run -n 1 sh -c 'echo "$OMPI_MCA_orte_tmpdir_base"; exec "$MUSTER" run -n 2 "$1"' sh "$RING"
    out_has '^sum over 2: 3$'
    : > "$TMPDIR/go"
    wait $HELD || fail "who was held ends with $?: $(cat "$ERR.held")"
    [ "$(grep -c '^ring of 2: 101$' "$OUT.held")" = 2 ] || fail "who was held says: $(cat "$OUT.held")"
    is_no_folder || fail "the folder is left"

    # It goes when ranks are killed, and when the launcher is.
    check 7 run -l -n 2 sh -c 'echo "$OMPI_MCA_orte_tmpdir_base" > "$TMPDIR/folder"; exec "$1" abort' sh "$RING"
    folder=$(cat "$TMPDIR/folder")
    is_no_folder || fail "an aborted job leaves $folder"
    rm "$TMPDIR/go"
    hold
    kill -KILL $HELD
    wait $HELD 2> /dev/null
    await "the folder is gone" is_no_folder
    clean
}

try_all()
{
    # The ring, and a sum of all.
    for n in 2 4 8; do
        check 0 run -n $n "$RING"
        sorted_is "$(printf 'ring of %d: %d\nsum over %d: %d' $n $((100 + n * (n - 1) / 2)) $n $(((1 << n) - 1)))"
        err_is_empty
    done
    check 0 run -n 1 "$RING"
    sorted_is "sum over 1: 1"
    check 0 run -n 2 --mpi port "$RING"
    sorted_is "$(printf 'ring of 2: 101\nsum over 2: 3')"
    # Two programs one after the other: who is between them is not gone. (sleep: between two looks.) Open MPI's have a
    # folder by the job's number, which the first that ends removes from under the next.
    case $RING in *openmpi) ;; *)
        rm -f "$TMPDIR/second"
        check 0 run -n 2 --mpi port sh -c '"$1" || exit
            if [ $RANK = 1 ]; then : > "$2"; else until [ -e "$2" ]; do sleep 0.02; done; fi
            exec "$1"' sh "$RING" "$TMPDIR/second"
        sorted_is "$(printf 'ring of 2: 101\nring of 2: 101\nsum over 2: 3\nsum over 2: 3')" ;;
    esac
    check 0 run -n 2 sh -c '"$1"; exit $?' sh "$RING" # a shell has the socket, too
    sorted_is "$(printf 'ring of 2: 101\nsum over 2: 3')"
    check 0 run -n 1 "$RING" appnum : -n 1 "$RING" appnum
    out_has '^rank 0 is of command 0$'
    out_has '^rank 1 is of command 1$'
    clean

    # What goes wrong: its status, and who. Lines are whole with -l: a rank that is killed may be within one.
    for n in 2 4 8; do
        check 7 run -l -n $n "$RING" abort
        err_has "^muster run: task 1 (pid [0-9]*) called MPI_Abort with status 7; ending the other $((n - 1)) task"
    done
    check 1 run -l -n 2 "$RING" leave
    err_has '^muster run: task 1 (pid [0-9]*) exited with status 0 between MPI_Init and MPI_Finalize; ending the other 1 task$'
    check 0 run -n 2 "$RING" never
    check 1 run -l -n 2 sh -c '[ $RANK = 0 ] && exec "$1"; exit 0' sh "$RING"
    err_has '^muster run: task 0 (pid [0-9]*) waited in vain in MPI: task 1 has ended without MPI_Init'
    clean

    # Again, with keys of its own: the first attempt is aborted.
    check 0 run -n 2 --restarts 1 --restart-delay 0s sh -c '[ $MUSTER_ATTEMPT = 0 ] && exec "$1" abort; exec "$1"' sh "$RING"
    sorted_is "$(printf 'ring of 2: 101\nsum over 2: 3')"
    err_has 'starting the job again'
    clean

    # Two hosts.
    for n in 2 4 8; do
        check 0 run --rsh "$TMPDIR/rsh" --hosts localhost:$((n / 2)),b:$((n / 2)) "$RING"
        sorted_is "$(printf 'ring of %d: %d\nsum over %d: %d' $n $((100 + n * (n - 1) / 2)) $n $(((1 << n) - 1)))"
    done
    for n in 1 4; do
        check 7 run -l --rsh "$TMPDIR/rsh" --hosts localhost:1,b:$n "$RING" abort
        err_has "^muster run: task 1 (host b, pid [0-9]*) called MPI_Abort with status 7; ending the other $n task"
    done
    check 1 run -l --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1 sh -c '[ $RANK = 0 ] && exec "$1"; exit 0' sh "$RING"
    err_has '^muster run: task 0 (host .*, pid [0-9]*) waited in vain in MPI: task 1 has ended'
    check 1 run -l --rsh "$TMPDIR/rsh" --hosts localhost:1,b:2 sh -c '[ $RANK != 1 ] && exec "$1"; exit 0' sh "$RING"
    err_has '^muster run: task [02] (host .*, pid [0-9]*) waited in vain in MPI: task 1 has ended'
    clean
}

# Who asks for PMIx follows a link that leads nowhere: it is said at a task's end, and in time where none ends; of a job
# of one task it is not, for it is right that it finds itself alone. (sleep: until it is ended.)
asks='link=$PMIX_SYSTEM_TMPDIR/pmix.sys.$(uname -n); until [ -L "$link" ]; do sleep 0.02; done; [ ! -e "$link" ]'
check 0 run -n 3 sh -c "[ \$RANK != 1 ] || { $asks; }"
err_is_one_line
err_has '^muster run: a task asks for PMIx, .* (run the job with --mpi pmix)$'
: > "$ERR"
"$MUSTER" run --job "$JOB" -n 2 sh -c "$asks && exec sleep 60" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
said() { grep -q 'a task asks for PMIx' "$ERR"; }
await "it is said while they run" said
kill $RUN
wait $RUN
check 0 run -n 1 sh -c '[ -z "$(ls "$PMIX_SYSTEM_TMPDIR")" ]'
check 0 run -n 2 --mpi none sh -c '[ -z "${PMIX_SYSTEM_TMPDIR:-}" ]'
err_is_empty
clean

# What a task is given, and what it is not.
check 0 run -n 2 --label env PMIX_NAMESPACE=x env
for i in 0 1; do
    for line in PMI_RANK=$i PMI_SIZE=2 "FLUX_PMI_LIBRARY_PATH=$(dirname "$MUSTER")/libpmi.so.0"; do
        grep -qxF "[$i] $line" "$OUT" || fail "task $i lacks $line"
    done
done
PMIX_NAMESPACE=x PMI_PORT=y check 0 run -n 1 env
grep -E '^(PMIX_NAMESPACE|PMI_PORT)=' "$OUT" && fail "another launcher's variables come through"
check 0 run -n 2 --mpi none env
grep -E '^(PMI_|FLUX_)' "$OUT" && fail "--mpi none says something of MPI"
ln -s "$(command -v env)" "$TMPDIR/mpirun" # Open MPI's own would crash of them
check 0 run -n 1 "$TMPDIR/mpirun"
grep '^FLUX_' "$OUT" && fail "a task called mpirun is told of Flux"
out_has '^PMI_RANK=0$'
check 0 run -n 1 "$MUSTER" run --mpi none env # nor are those of the job that a launcher is a task of
grep -E '^(PMI_|FLUX_)' "$OUT" && fail "a launcher's own variables come through"
check 2 run --mpi pmi3 true
OMPI_MCA_btl_vader_backing_directory=/mine check 0 run -n 1 env # the user's own counts
[ "$(grep '^OMPI_MCA_btl_vader' "$OUT")" = OMPI_MCA_btl_vader_backing_directory=/mine ] || fail "not his: $(cat "$OUT")"
out_has '^OMPI_MCA_osc_sm_backing_directory=/[^ ]*/mpi-muster-[0-9a-f]*$'
(ulimit -n 150; check 0 run -n 40 true; err_is_one_line
 err_has '^muster run: MPI programs are not served, .*: with it 40 tasks need [0-9]* open files, the limit is 150 (.*ulimit -n.*--mpi none'
 check 0 run -n 40 --mpi none true; err_is_empty
 check 125 run -n 40 --mpi pmi1 true; err_has 'open files') || exit 1

# Who waits in MPI, and for whom, in `muster status` and at a timeout; on two hosts, too. (sleep: until it is ended.)
cat > "$TMPDIR/wait" <<'EOS'
[ "$RANK" = "$1" ] || printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n' >&"$PMI_FD"
exec sleep 60
EOS
check 124 run -n 3 --timeout 4s bash "$TMPDIR/wait" 2
grep -qxF "mpi      tasks 0-1 in MPI's barrier (PMI) for task 2" "$ERR" || fail "the report: $(cat "$ERR")"
"$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:2 bash "$TMPDIR/wait" 1 > /dev/null 2>&1 < /dev/null &
RUN=$!
says() { "$MUSTER" status --job "$JOB" 2> /dev/null | grep -qxF "$1"; }
await "host 0's wait" says "mpi      host 0: task 0 in MPI's barrier (PMI) for other hosts: b"
await "host 1's wait" says "mpi      host 1: task 2 in MPI's barrier (PMI) for task 1"
kill $RUN
wait $RUN
clean

# One that ends without a word to MPI leaves the others waiting, wherever they do: MPICH 5's wait in memory that they
# share. What its tasks have there goes with them; its name is made of what PMI calls the job. (sleep: until it is ended.)
cat > "$TMPDIR/shares.py" <<'EOS'
import os, socket, sys, time
pmi = socket.socket(fileno=int(os.environ["PMI_FD"]))
def ask(line):
    pmi.sendall((line + "\n").encode())
    return dict(word.split("=", 1) for word in pmi.makefile().readline().split())
ask("cmd=init pmi_version=1 pmi_subversion=1")
number = 2166136261
for byte in ask("cmd=get_my_kvsname")["kvsname"].encode():
    number = (number ^ byte) * 16777619 & 0xffffffff
for kind in "shm", "vci":
    open("/dev/shm/mpich_%s_%x_0" % (kind, number), "w").close()
print("mpich_shm_%x_0" % number, flush=True)
time.sleep(60)
EOS
are_gone() { [ ! -e "/dev/shm/$(cat "$OUT")" ] && [ ! -e "/dev/shm/$(sed 's/shm/vci/' "$OUT")" ]; }
for when in first later; do
    rm -f "$TMPDIR/shares"
    check 1 run -n 2 --kill-on-fail=no sh -c '[ $RANK = 1 ] || exec "$PYTHON" "$1.py" > "$1"
        [ $2 = first ] || until [ -s "$1" ]; do sleep 0.02; done' sh "$TMPDIR/shares" $when
    err_has '^muster run: task 0 (pid [0-9]*) waited in vain in MPI: task 1 has ended without MPI_Init'
    clean
done
cp "$TMPDIR/shares" "$OUT"
out_has '^mpich_shm_[0-9a-f]*_0$'
are_gone || fail "MPICH's files are left"
: > "$OUT"
"$MUSTER" run --job "$JOB" -n 1 "$PYTHON" "$TMPDIR/shares.py" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "its files are there" test -s "$OUT"
[ -e "/dev/shm/$(cat "$OUT")" ] || fail "MPICH's file is gone early"
kill -KILL $RUN
wait $RUN 2> /dev/null
await "a killed launcher's files are gone" are_gone
clean

tried=0
for compiler in mpicc.mpich mpicc.openmpi; do
    if ! command -v $compiler > /dev/null; then
        echo "$compiler is not installed: not tried"
        continue
    fi
    RING=$TMPDIR/ring.$compiler
    # As any user would, without what this build gives to compilers.
    env -u CFLAGS -u LDFLAGS $compiler -o "$RING" "$HERE/programs/mpi_ring.c" || fail "$compiler does not compile"
    try_all
    case $compiler in *openmpi) try_folders ;; esac
    tried=1
done
[ $tried = 1 ] || skip "neither MPICH nor Open MPI is installed: what their programs do under muster run is not tried"
exit 0
