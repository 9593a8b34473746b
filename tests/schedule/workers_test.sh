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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

enum muster_status hold(struct muster *m, struct muster_call *call)
{
    (void)m;
    (void)call;
    while (access(getenv("RELEASE"), F_OK))
        usleep(10000);
    return MUSTER_OK;
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

# What it waits for: the call's function and its worker; without a worker, that. And what has failed, and why.
export RELEASE=$TMPDIR/release
run --metrics "unix:$TMPDIR/metrics" --ray=127.0.0.1:0 --mindspore "$CALLER" 0 no_such 0 hold &
RUN=$!
is_held() { "$MUSTER" status --job "$JOB" > "$OUT" 2> "$ERR" && grep -q '^task 0 .* waits for object 0x[0-9a-f]*, of function hold' "$OUT"; }
await "it waits" is_held
grep -q ', of function hold, which runs in the process with pid [0-9]*, for' "$OUT" || fail "the worker is not named"
grep -q '^calls    1 running, 0 queued, 0 waiting; 2 workers: 1 idle, 0 blocked; ' "$OUT" || fail "calls are not counted"
check 0 "$MUSTER" task list --job "$JOB"
grep -qE '^ +0 +0 +0 +1  hold$' "$OUT" || fail "the function is not listed"
[ "$(grep -cE '^[0-9]+ +- (idle     -|busy     0x[0-9a-f]{16} hold)$' "$OUT")" = 2 ] || fail "the workers are not listed"
grep -qE '^0x[0-9a-f]{16}  NOT_FOUND: function no_such: no symbol no_such in it$' "$OUT" || fail "the failure is not listed"
check 0 "$MUSTER" task list --job "$JOB" --json
"$PYTHON" - "$OUT" << 'EOF' || fail "not what --json has"
import json, sys
said = json.load(open(sys.argv[1]))
assert {f["name"]: f["running"] for f in said["functions"]} == {"no_such": 0, "hold": 1}, said
assert sorted((w["state"], w["function"] or "") for w in said["workers"]) == [("busy", "hold"), ("idle", "")], said
assert said["errors"] == 1 and said["failed"][0]["error"] == "NOT_FOUND", said
EOF
"$PYTHON" - "$TMPDIR/metrics" << 'EOF' || fail "not what the metrics have"
import re, socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
text = b"".join(iter(lambda: one.recv(65536), b"")).decode()
has = dict(re.findall(r"^(muster_(?:workers|calls|objects|ray|mindspore)(?:{.*})?) (\d+)$", text, re.M))
for name, number in (('muster_workers{state="idle"}', 1), ('muster_workers{state="busy"}', 1), ('muster_calls{state="running"}', 1),
                     ('muster_calls{state="failed"}', 1), ('muster_calls{state="queued"}', 0), ('muster_ray{count="workers"}', 0),
                     ('muster_mindspore{count="workers_wanted"}', 1)):
    assert has.get(name) == str(number), (name, has)
EOF
: > "$RELEASE"
wait $RUN || fail "the job's status is $?"
rm "$RELEASE"
"$MUSTER" run --job "$JOB" "$CALLER" 0 hold &
RUN=$!
await "it waits" is_held
grep -q ', of function hold, which is queued: there is no worker, for' "$OUT" || fail "the missing worker is not told of"
kill -TERM $RUN
wait $RUN

# The trace has each call that has ended as a span of its worker's.
check 0 run --trace sh -c '"$1" 4 square 5 no_such && muster trace --output "$2"' sh "$CALLER" "$TMPDIR/trace"
"$PYTHON" - "$TMPDIR/trace" << 'EOF' || fail "not what the trace has"
import json, sys
calls = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e.get("cat") == "call"]
assert sorted((e["ph"], e["name"], e["args"]["status"]) for e in calls) == [("X", "no_such", "NOT_FOUND"), ("X", "square", "OK")], calls
assert all(e["dur"] > 0 and e["ts"] > 0 for e in calls), calls
EOF

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
for threads in 0 x 4097; do
    check 2 "$MUSTER" worker --threads $threads
    err_has "'$threads' is no number of threads from 1 to 4096"
done
no_segment "$JOB" || fail "a segment is left"
exit 0
