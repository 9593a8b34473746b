# What tests of jobs of several hosts share, whose connections they break: source it behind cli/common.sh. The other hosts
# are this machine again, by $TMPDIR/rsh; every process of the test has $MARK in its environment.
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"

# rsh HOST COMMAND...: with $RELAY its connection to the leader goes through cut.py, which notes its address there.
cat > "$TMPDIR/rsh" <<EOS2
#!/bin/bash
shift
words=\$*
if [ "\${RELAY:-}" ]; then
    join=\$(sed 's/.*--join \\([^ ]*\\) .*/\\1/' <<< "\$words")
    "$PYTHON" "$TOP/tests/launch/cut.py" "\$join" "\$RELAY" < /dev/null &
    echo \$! > "\$RELAY.pid"
    until [ -s "\$RELAY" ]; do sleep 0.02; done # sleep: between two looks
    words=\${words/--join \$join /--join \$(cat "\$RELAY") }
fi
eval "\$words"
EOS2
chmod +x "$TMPDIR/rsh"
run() { "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "$@"; }
no_segments() { [ -z "$(compgen -G "$(segment_file "$JOB")*")" ]; }
clean()
{
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segments
}
