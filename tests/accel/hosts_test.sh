#!/bin/bash
# Ranks on two and three hosts, under `muster run`, at roots of a real libnccl: the same id and a check-in of all, the
# maker's death by name and host, communicators. The other hosts are this machine again, started by a command that
# stands for ssh; without a GPU the communicators fail in NCCL's words, and end for all.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
HOSTS=$BUILD/tests/accel/hosts

cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/sh
shift
cd /
eval "exec $*" # as a shell at the other end would: words come quoted
EOS
chmod +x "$TMPDIR/rsh"
run() { "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "$@"; }
no_segments() { [ -z "$(compgen -G "$(segment_file "$JOB")*")" ]; }

got=0
"$HOSTS" > "$OUT" 2>&1 < /dev/null || got=$?
[ $got != 77 ] || skip "no libnccl makes ids here: $(head -n 1 "$OUT")"

# The same id everywhere, at whose root all check in; several times under one name.
check 0 run --hosts localhost:1,b:1 -- "$HOSTS" ring
[ "$(sort "$OUT")" = "rank 0 of 2 has checked in three times
rank 1 of 2 has checked in three times" ] || fail "not both have checked in"
check 0 run --hosts localhost:2,b:1,c:2 -- "$HOSTS" ring
[ "$(sort -u "$OUT" | wc -l)" = 5 ] || fail "not all have checked in"
check 0 run --hosts b:1,c:1 -- "$HOSTS" ring # the leader's host has no task
[ "$(sort -u "$OUT" | wc -l)" = 2 ] || fail "not both have checked in"

# The maker, on another host than the leader's, is killed; the others, on both, hear whose death it was.
check 137 run --hosts localhost:1,b:2 --kill-on-fail=no -- "$HOSTS" die
[ "$(wc -l < "$OUT")" = 2 ] || fail "not both survivors have heard"
for rank in 0 1; do # by the job's error or the record's, whichever is seen first
    out_has "^rank $rank: \(UNAVAILABLE: NCCL id world: task 2 (pid [0-9]* on host b) is in error\|ABORTED: NCCL id world, generation 1: task 2 (host b), which .* is dead\)"
done

# Communicators: they come up, or the first that fails ends all.
check 0 run --hosts localhost:1,b:2 -- "$HOSTS" world
[ "$(wc -l < "$OUT")" = 3 ] || fail "not all have come back"
if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then
    echo "not tried: how communicators fail without a GPU"
else
    out_has ': INTERNAL: communicator world, rank [0-2] of 3: NCCL: '
    ! grep -v ': INTERNAL: communicator\|: \(ABORTED\|UNAVAILABLE\): NCCL id world.*: task [0-2] (host ' "$OUT" ||
        fail "words of another kind"
fi
await "no segment is left" no_segments
exit 0
