#!/bin/bash
# run --grpc: clients of xla.DistributedRuntimeService: one that connects anew while it waits for the others takes the place of
# the one before, on whatever host.
# timeout: 120
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/guests.sh"
cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/bash
shift
eval "$*"
EOS
chmod +x "$TMPDIR/rsh"
for hosts in localhost:2 localhost:1,b:1; do
    rm -f "$TMPDIR/go"
    check 0 "$MUSTER" run --job "$JOB" --hosts $hosts --rsh "$TMPDIR/rsh" --grpc -l -- "$PYTHON" "$TOP/tests/launch/twice.py" "$TMPDIR/go"
    out_has '^\[1\] the older: ABORTED: Duplicate node ID 1$'
    [ "$(grep -c '\] connected and shut down$' "$OUT")" -eq 2 ] || fail "with $hosts they did not end well"
done
no_segment "$JOB" || fail "a segment is left"
exit 0
