#!/bin/bash
# run --elastic beside what counts tasks: each epoch has a coordination service, PMI and checkpoints of its own number of
# tasks; checkpoints are refused beside --live. And what becomes of a live task that has done its work.
# variants: release
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/guests.sh"
scale() { "$MUSTER" scale --job "$JOB" "$@"; }
has_lines() { [ "$(grep -c "^$1 " "$TMPDIR/out")" = "$2" ]; }
start() # OPTIONS... -- WORDS...
{
    : > "$TMPDIR/out"
    "$MUSTER" run --job "$JOB" --elastic 2:4 "$@" > "$TMPDIR/out" 2> "$TMPDIR/err" &
    RUN=$!
}
ends()
{
    kill -TERM $RUN
    wait $RUN
    [ $? -eq 143 ] || fail "the status after SIGTERM"
    no_segment "$JOB" || fail "a segment is left"
}
# Lines of an attempt, in order, without its number.
lines_are() { [ "$(grep "^$1 " "$TMPDIR/out" | cut -d' ' -f2- | sort | tr '\n' ';')" = "$2" ] || fail "attempt $1: $(cat "$TMPDIR/out")"; }

# ---- the coordination service: registration, a barrier of all, who is alive, the end of all ----
start -n 2 --grpc -- sh -c "alive=\$($GUEST register barrier all alive shutdown) && echo \$MUSTER_ATTEMPT \$RANK sees \$alive \$\$ && exec sleep 600"
await "2 tasks have met" has_lines 0 2
check 0 scale 4
await "4 tasks have met" has_lines 1 4
grep -q '^1 3 sees .*0 1 2 3 [0-9]*$' "$TMPDIR/out" || fail "$(cat "$TMPDIR/out")"
kill -KILL "$(awk '$1 == 1 && $2 == 0 { print $NF }' "$TMPDIR/out")"
await "3 tasks have met" has_lines 2 3
grep -q '^2 2 sees .*0 1 2 [0-9]*$' "$TMPDIR/out" || fail "$(cat "$TMPDIR/out")"
ends

# ---- PMI ----
start -n 2 --mpi pmi1 -- sh -c 'echo $MUSTER_ATTEMPT $PMI_RANK/$PMI_SIZE; exec sleep 600'
await "2 tasks run" has_lines 0 2
check 0 scale 3
await "3 tasks run" has_lines 1 3
lines_are 0 '0/2;1/2;'
lines_are 1 '0/3;1/3;2/3;'
ends

# ---- checkpoints: an epoch loads, rank by rank, what another number of tasks has saved ----
cat > "$TMPDIR/saves.py" <<'EOP'
import os, time
import muster
with muster.join() as task:
    cp = muster.Checkpoint("m")
    info = cp.newest()
    before = [cp.load(rank=r).state for r in range(info.ranks)] if info else []
    if info and info.ranks != task.num_tasks:
        try:
            cp.load()
        except muster.FailedPrecondition:
            before.append("refused")
    cp.save(100 * task.num_tasks + task.id, step=task.num_tasks)
    cp.wait()
    line = [os.environ["MUSTER_ATTEMPT"], task.id, info.step if info else 0, *before]
    os.write(1, (" ".join(map(str, line)) + "\n").encode())  # at once: others write there, too
    time.sleep(600)
EOP
export MUSTER_LIBRARY=$BUILD/libmuster.so.0 PYTHONPATH=$TMPDIR:$TOP/python/src
start -n 2 -- "$PYTHON" "$TMPDIR/saves.py"
await "2 ranks have saved" has_lines 0 2
check 0 scale 3
await "3 ranks have saved" has_lines 1 3
lines_are 0 '0 0;1 0;'
lines_are 1 '0 2 200 201 refused;1 2 200 201 refused;2 2 200 201 refused;'
check 0 scale 2
await "2 ranks have saved again" has_lines 2 2
lines_are 2 '0 3 300 301 302 refused;1 3 300 301 302 refused;'
ends

# ---- live ----
check 1 "$MUSTER" run --job "$JOB" --elastic 1:2 --live -n 1 -- "$PYTHON" "$TMPDIR/saves.py"
err_has "use '--elastic' without '--live'"

# A live task that ends with status 0 stays a member of its epoch; the next change goes without it.
cat > "$TMPDIR/leaves.py" <<'EOP'
import os
import muster
with muster.join(recoverable=True) as task:
    for epoch in task.epochs():
        os.write(1, b"%d %d/%d %d\n" % (epoch.number, epoch.rank, epoch.size, task.id))
        if task.id == 1:
            break
EOP
start --live -n 3 -- "$PYTHON" "$TMPDIR/leaves.py"
await "3 tasks are in epoch 1" has_lines 1 3
is_gone() { "$MUSTER" status --json --job "$JOB" > "$TMPDIR/status" && [ "$(json "it['tasks'][1]['alive']" "$TMPDIR/status")" = false ]; }
await "task 1 has left" is_gone
check 0 "$MUSTER" status --job "$JOB"
out_has '^epoch    1: 3 tasks (2 to 4), for '
check 1 scale +1
err_has 'task 1 has left already, so the job is about to end'
ends
