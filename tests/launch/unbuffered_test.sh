#!/bin/bash
# What Python has printed is there when its process is killed, by whatever way it comes: Python keeps nothing back.
. "$(dirname "$0")/../cli/common.sh"
unset PYTHONUNBUFFERED
run() { "$MUSTER" run --job "$JOB" "$@"; }
cat > "$TMPDIR/prints.py" <<'EOT'
import os, sys, time
if os.environ["RANK"] == "1":
    print("task 1 has printed this")
    open(sys.argv[1], "w").close()
    time.sleep(900)  # sleep: it is killed
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)  # sleep: between two looks
sys.exit(3)
EOT
tries() # WAY OPTION...: task 0 fails when task 1 has printed
{
    rm -f "$TMPDIR/printed" "$OUT"
    check 3 "$@" "$PYTHON" "$TMPDIR/prints.py" "$TMPDIR/printed"
}
tries run -n 2 --
out_has '^task 1 has printed this$'
tries run -n 2 --label --
out_has '^\[1\] task 1 has printed this$'
tries run -n 2 --output "$TMPDIR/{rank}.{stream}" --
grep -qx 'task 1 has printed this' "$TMPDIR/1.stdout" || fail "the file: $(cat "$TMPDIR/1.stdout")"
tries run -n 2 --label --output "$TMPDIR/{rank}.both" --
grep -qx 'task 1 has printed this' "$TMPDIR/1.both" || fail "the file: $(cat "$TMPDIR/1.both")"
tries sh -c '"$0" "$@" 2>&1' "$MUSTER" run --job "$JOB" -n 2 --
out_has '^task 1 has printed this$'
tries run -n 2 --label --pty --
out_has '^\[1\] task 1 has printed this$'

# Who has said otherwise counts; where it writes to a terminal, Python ends each line by itself.
show='echo "<${PYTHONUNBUFFERED-not set}>"'
for pair in '<1>' '<>=' '<x>=x'; do
    [ "${pair#*>}" ] && export PYTHONUNBUFFERED=${pair#*=}
    check 0 run sh -c "$show"
    out_is "${pair%>*}>"
done
unset PYTHONUNBUFFERED
check 0 run --env PYTHONUNBUFFERED= sh -c "$show"
out_is '<>'
check 0 run --pty sh -c "$show"
out_is '<not set>'
exit 0
