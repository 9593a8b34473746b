#!/bin/bash
# run --grpc --grpc-workers, or with TF_CONFIG: tasks that are servers themselves and do not ask for errors are called when
# one of the job is killed, on whatever host; wrong words are refused.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/guests.sh"
protoc -I"$TOP/src" --python_out="$TMPDIR" "$TOP/src/rpc/tsl_coordination.proto" || fail "protoc"
run() { "$MUSTER" run --job "$JOB" "$@"; }
cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/bash
shift
eval "$*"
EOS
chmod +x "$TMPDIR/rsh"

mkdir "$TMPDIR/w"
mkfifo "$TMPDIR/end"
"$PYTHON" "$TOP/tests/launch/called.py" "$TMPDIR/w" 3 < "$TMPDIR/end" &
WORKERS=$!
exec 9> "$TMPDIR/end"
trap 'kill $WORKERS 2> /dev/null; wait $WORKERS 2> /dev/null' EXIT
await "the workers are there" test -s "$TMPDIR/w/addresses"
LIST=$(cat "$TMPDIR/w/addresses")
CONFIG='{"cluster": {"worker": ["'${LIST//,/'", "'}'"], "ps": ["x:1"]}}'

# one COMMAND...: of three tasks task 1 is killed; the other two end when their own servers have been called, once each.
cat > "$TMPDIR/task.sh" <<EOS
if [ \$RANK = 1 ]; then exec $GUEST register barrier a kill; fi
exec $GUEST register barrier a await $TMPDIR/w/told.\$RANK
EOS
one()
{
    check 137 "$@" --kill-on-fail=no -- bash "$TMPDIR/task.sh"
    err_has '^muster run: task 1 (.*pid [0-9]*) was killed by signal 9'
    [ "$(sed -n 's/^\([0-9]\) 14 jax_worker 1 task 1 (pid [0-9]* on host .*) is in error: killed by signal 9.*/\1/p' "$TMPDIR/w/told" | sort |
        tr -d '\n')" = 02 ] || fail "the workers were told: $(cat "$TMPDIR/w/told")"
    [ "$(wc -l < "$TMPDIR/w/told")" -eq 2 ] || fail "the workers were told more: $(cat "$TMPDIR/w/told")"
    : > "$TMPDIR/w/told"
    rm "$TMPDIR/w"/told.?
    no_segment "$JOB" || fail "a segment is left"
}
one run -n 3 --grpc --grpc-workers "$LIST"
one env TF_CONFIG="$CONFIG" "$MUSTER" run --job "$JOB" -n 3 --grpc
one run -n 3 --grpc --env TF_CONFIG="$CONFIG"
one run --hosts localhost:1,b:2 --rsh "$TMPDIR/rsh" --grpc --grpc-workers "$LIST"
one env TF_CONFIG="$CONFIG" "$MUSTER" run --job "$JOB" --hosts localhost:2,b:1 --rsh "$TMPDIR/rsh" --grpc

# What is said of workers goes before TF_CONFIG, which is looked at only where it fits: this job is none of its.
check 0 env TF_CONFIG="$CONFIG" "$MUSTER" run --job "$JOB" -n 2 --grpc -- $GUEST register shutdown
err_is_empty
check 0 env TF_CONFIG='{"cluster": {"worker": [' "$MUSTER" run --job "$JOB" --grpc -- $GUEST register shutdown
err_is_empty

# ---- wrong words ----
check 2 run --grpc-workers a:1 true
err_is_one_line
err_has '^muster run: --grpc-workers needs --grpc '
check 2 run --grpc --grpc-workers '' true
err_has '^muster run: --grpc-workers wants HOST:PORT'
check 2 run --grpc --grpc-workers a:1 --grpc-cert "$TMPDIR/rsh" --grpc-key "$TMPDIR/rsh" true
err_is_one_line
err_has '^muster run: --grpc-workers and --grpc-cert exclude each other: '
check 125 run -n 2 --grpc --grpc-workers a:1 echo started
out_is_empty
err_has 'the list of workers has 1 addresses, and the job 2 tasks$'
err_is_one_line
check 125 "$MUSTER" serve --job "$JOB" -n 1 --grpc-workers nonsense
err_has "'nonsense' is no address of a worker: write HOST:PORT or \[V6\]:PORT$"
no_segment "$JOB" || fail "a segment is left"
exec 9>&-
wait $WORKERS || fail "the workers ended with $?"
exit 0
