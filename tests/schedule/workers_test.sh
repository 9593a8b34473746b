#!/bin/bash
# muster worker, and muster run --workers: processes beside the tasks that run what these call.
# variants: release asan
. "$(dirname "$0")/../cli/common.sh"
CALLER=$BUILD/tests/schedule/caller
[ -x "$CALLER" ] || fail "$CALLER is not built"
cat > "$TMPDIR/functions.c" << 'EOF'
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum muster_status square(struct muster *m, struct muster_call *call)
{
    struct muster_object_view in;
    struct muster_object_room out;
    enum muster_status status = muster_call_argument(call, 0, &in);
    uint64_t x;

    (void)m;
    if (!status)
        status = muster_call_result(call, 0, sizeof x, 0, &out);
    if (status)
        return status;
    memcpy(&x, in.data, sizeof x);
    x *= x;
    memcpy(out.data, &x, sizeof x);
    return MUSTER_OK;
}

enum muster_status die(struct muster *m, struct muster_call *call)
{
    (void)m;
    (void)call;
    fputs("the disk\nis full\n", stderr);
    signal(SIGSEGV, SIG_DFL);
    return raise(SIGSEGV);
}
EOF
LIBRARY=$TMPDIR/functions.so
"${CC:-cc}" -shared -fPIC -I"$TOP/include" "$TMPDIR/functions.c" -o "$LIBRARY" "$BUILD/libmuster.so.0" || fail "no compiler"
export LD_LIBRARY_PATH=$BUILD
run() { "$MUSTER" run --job "$JOB" --workers 2 --worker-command "$MUSTER worker $LIBRARY" "$@"; }

# The tasks' ranks, numbers and status are as without workers, which end with them.
check 7 run -n 2 sh -c 'muster barrier wait start && "$1" $RANK square && muster kv insert called/$RANK "" &&
    muster kv get --wait 30s called/$((1 - RANK)) && [ $WORLD_SIZE = 2 ] && exit 7' sh "$CALLER"
[ "$(sort "$OUT")" = "$(printf '0\n1')" ] || fail "not what they called"
! grep -q worker "$ERR" || fail "workers are told of"
check 0 run "$CALLER" 2 square 3 square 4 square
[ "$(cat "$OUT")" = "$(printf '4\n9\n16')" ] || fail "not what it called"
err_is_empty

# A death ends its call alone, is no error of the job, and is made good.
check 0 run sh -c '"$1" 0 die 5 square 0 die 6 square && muster kv get --wait 30s $(muster kv list muster/workers | head -1)
    until [ $(muster kv list muster/workers | wc -l) = 2 ]; do sleep 0.02; done' sh "$CALLER"
PID=$(sed -n 's/^object 0x[0-9a-f]* is an error: its worker (pid \([0-9]*\) on host .*) ended in the midst of the call$/\1/p' "$OUT" | head -1)
[ -n "$PID" ] || fail "the worker is not named"
[ "$(sed -n '2p;4p' "$OUT")" = "$(printf '25\n36')" ] || fail "other calls have not run"
[ "$(sed -n '5,$p' "$OUT" | sed 's/pid [0-9]* on host [^)]*/W/')" = "$(
    printf 'worker (W) was killed by signal 11 (SIGSEGV): it touched memory that it may not touch\nthe disk\nis full')" ] ||
    fail "the key does not say how it ended"
err_has "^muster run: a worker (pid $PID) was killed by signal 11 (SIGSEGV): .*; starting another"
err_has '^is full$'

# One that cannot work is not started for ever, and the job goes on.
LIBRARY=$TMPDIR/none.so
run sh -c 'until [ -e "$1" ]; do sleep 0.02; done' sh "$TMPDIR/enough" > "$OUT" 2> "$ERR" &
RUN=$!
given_up() { [ "$(grep -c 'the 4th time within 10 s of its start: it is not started again$' "$ERR")" -eq 2 ]; }
await "both are given up" given_up
: > "$TMPDIR/enough"
wait $RUN || fail "the job's status is $?"
err_has "^muster worker: $LIBRARY: cannot open shared object file"
check 127 run --worker-command "no-such-$$" sleep 600
err_has "^muster run: cannot start a worker: cannot run no-such-$$: No such file or directory$"

# In a job by its name: told to end, it ends; so it does when the job is over. A worker of symbols that nobody has.
"$MUSTER" run --job "$JOB" sh -c 'until [ -e "$1" ]; do sleep 0.02; done' sh "$TMPDIR/go" &
RUN=$!
await "the job is there" muster status --job "$JOB" > /dev/null
LIBRARY=$TMPDIR/functions.so
for end in TERM over; do
    "$MUSTER" worker --job "$JOB" "$LIBRARY" &
    WORKER=$!
    MUSTER_JOB=$JOB MUSTER_TASK_ID=0 "$CALLER" 11 square 1 no_such_function > "$OUT" || fail "the caller failed"
    [ "$(head -1 "$OUT")" = 121 ] || fail "a worker from outside has not worked"
    grep -q 'function no_such_function: no symbol no_such_function in it' "$OUT" || fail "what is wrong is not said"
    [ $end = over ] && : > "$TMPDIR/go" || kill -TERM $WORKER
    wait $WORKER || fail "the worker's status is $?"
done
wait $RUN || fail "the job's status is $?"
check 3 "$MUSTER" worker --job "$JOB"

check 2 "$MUSTER" run --workers 0 true
check 2 "$MUSTER" run --worker-command x true
check 2 "$MUSTER" run --workers 2 --hosts a:1,b:1 true
check 2 "$MUSTER" run --workers 2 --survive true
check 2 "$MUSTER" worker --threads 0
no_segment "$JOB" || fail "a segment is left"
exit 0
