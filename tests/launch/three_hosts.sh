# What tests of jobs of several hosts share, also those whose tasks count and meet in rounds (counts_main.c): source it
# behind cli/common.sh. The other hosts are this machine again, by $TMPDIR/rsh, which notes its pid, the host and the
# command in $RSH_LOG, and leaves the variable that RSH_WITHOUT names behind; every process of the test has $MARK in its
# environment.
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/sh
host=$1; shift
echo "$$ $host $*" >> "$RSH_LOG"
cd /
eval "exec ${RSH_WITHOUT:+env -u $RSH_WITHOUT} $*" # as a shell at the other end would: words come quoted
EOS
chmod +x "$TMPDIR/rsh"
export RSH_LOG=$TMPDIR/rsh.log
rsh_pid() { awk -v host="$1" '$2 == host { print $1 }' "$RSH_LOG"; } # of the command that was given for that host
no_segments() { [ -z "$(compgen -G "$(segment_file "$JOB")*")" ]; }
clean()
{
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segments
}
round() { cat "$TMPDIR/round" 2> /dev/null || echo 0; }
goes_on() # the tasks do several rounds, from here on
{
    local from
    from=$(round)
    further() { [ "$(round)" -ge $((from + 5)) ]; }
    await "the tasks go on" further
}
task_pid() { for pid in $(with_mark "MUSTER_TASK_ID=$1"); do grep -qzxF "$MARK" "/proc/$pid/environ" 2> /dev/null && echo "$pid"; done; }
