#!/bin/bash
# --bind-to, --map-by, -n by parts of the machine, --report-bindings: on this machine, by the kernel's word. The tables
# of other machines are bind_test.c's.
. "$(dirname "$0")/../cli/common.sh"
ldconfig -p | grep -q 'libhwloc\.so\.15' || skip "libhwloc15 is not installed"
run() { "$MUSTER" run --job "$JOB" "$@"; }
allowed() { sed -n 's/^Cpus_allowed_list:\t//p' "/proc/${1:-self}/status"; }
mine=$(allowed)

# One task a core, each with its core's own processors, none with another's, all together ours.
check 0 run -n core --bind-to core --label grep -h Cpus_allowed_list /proc/self/status
cores=$(wc -l < "$OUT")
[ "$(sort -k 2 -u "$OUT" | wc -l)" -eq "$cores" ] || fail "two tasks on one core"
count() { "$PYTHON" -c 'import sys
print(sum(int(b or a) - int(a) + 1 for a, _, b in (p.partition("-") for p in ",".join(sys.argv[1:]).split(","))))' "$@"; }
[ "$(count $(awk '{ print $3 }' "$OUT"))" -eq "$(count "$mine")" ] || fail "not all processors are given out: $mine"
check 0 run -n auto sh -c 'echo $MUSTER_NUM_TASKS'
if [ ! -e /proc/driver/nvidia/gpus ]; then
    [ "$(wc -l < "$OUT")" -eq "$cores" ] || fail "auto is not the number of cores"
else
    [ "$(wc -l < "$OUT")" -ge 1 ] || fail "auto is nothing"
    echo "not tested: -n auto without GPUs (this machine has some)"
fi

# Bound to nothing unless asked; what the launcher may not use, the tasks may not either.
check 0 run grep -h Cpus_allowed_list /proc/self/status
out_has "$(printf '\t')$mine$"
first=${mine%%[-,]*}
check 0 taskset -c "$first" "$MUSTER" run -n core --bind-to core --label grep -h Cpus_allowed_list /proc/self/status
[ "$(awk '{ print $1, $3 }' "$OUT")" = "[0] $first" ] || fail "beyond what the launcher may use"

# More tasks than cores: none is bound, and that is said; with :overload they share.
check 0 run -n $((cores + 1)) --bind-to core --label grep -h Cpus_allowed_list /proc/self/status
err_has "^muster run: $((cores + 1)) tasks on $cores core.*not bound"
[ "$(awk '{ print $3 }' "$OUT" | sort -u)" = "$mine" ] || fail "bound"
check 0 run -n $((cores + 1)) --bind-to core:overload --label grep -h Cpus_allowed_list /proc/self/status
[ "$(sort -u -k 2 "$OUT" | wc -l)" -eq "$cores" ] || fail "overload"

# The report: a line a task, verified while it runs.
reports() # OPTION...: what is said on stderr of tasks that run until it has been said
{
    rm -f "$TMPDIR/go"
    : > "$ERR" # now: what an earlier run reported is not this one's
    run "$@" sh -c 'until [ -e "$1" ]; do sleep 0.02; done' sh "$TMPDIR/go" > "$OUT" 2> "$ERR" < /dev/null & # sleep: it runs
    RUN=$!
    await "the report is made" grep -q . "$ERR"
    : > "$TMPDIR/go"
    wait $RUN || fail "status: $*"
}
reports -n core --bind-to core --report-bindings
err_has '^TASK  *HOST  *PID  *BOUND TO  *CPUS  *NUMA  *VERIFIED'
[ "$(grep -c ' yes *$' "$ERR")" -eq "$cores" ] || fail "not every task is verified"
reports --report-bindings
err_has 'not bound .* yes *$'
reports -n core --bind-to core --report-bindings=json
cp "$ERR" "$OUT"
json_is 'len(it)' "$cores"
json_is 'all(row["bound"] and row["verified"] and row["pid"] > 0 for row in it)' true
check 0 run --dry-run -n core --bind-to core --report-bindings sleep 600
[ "$(grep -c '^[0-9].* -  *package' "$OUT")" -eq "$cores" ] || fail "the dry run's report"
check 2 run --report-bindings=jsn true
err_has "did you mean 'json'?"

# A task started again is bound as before.
check 0 run --bind-to core --restarts 1 --restart-policy task --restart-delay 0 sh -c \
    'grep -h Cpus_allowed_list /proc/self/status; exit $((1 - MUSTER_ATTEMPT))'
[ "$(wc -l < "$OUT")" -eq 2 ] && [ "$(sort -u "$OUT" | wc -l)" -eq 1 ] || fail "bound otherwise: $(cat "$OUT")"

check 2 env HWLOC_SYNTHETIC='core:6 pu:1' "$MUSTER" run -n core true
err_has 'HWLOC_SYNTHETIC shows another machine'
check 0 timeout 60 env HWLOC_SYNTHETIC='core:2 pu:1(indexes=0,20000000)' "$MUSTER" run -n 1 --dry-run --bind-to core true

for words in '--bind-to nowhere' '--map-by nothing' '--bind-to core:upside-down' '--map-by core:pe=0'; do
    check 2 run $words true
    err_is_one_line
done
exit 0
