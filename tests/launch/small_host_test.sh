#!/bin/bash
# Hosts that have not the same room: a value that is larger than what another host can hold is refused there, or by the
# leader, in words that name the host; all else goes on, and every host has the same keys in the end. The other hosts are
# this machine again, each with a /dev/shm of its own.
# timeout: 120
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/three_hosts.sh"

mount_shm='mount -t tmpfs -o size=$0 small /dev/shm && exec "$@"'
unshare --mount sh -c "$mount_shm" 3m true 2> /dev/null || skip "needs the right to mount a small /dev/shm"
cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/sh
host=$1; shift
case $host in small) size=3m ;; *) size=64m ;; esac
exec unshare --mount sh -c 'mount -t tmpfs -o size=$0 small /dev/shm && eval "exec $1"' $size "$*"
EOS
head -c 4000000 /dev/urandom > "$TMPDIR/4m" # one that goes as a copy
head -c 6000000 /dev/urandom > "$TMPDIR/6m" # and one that does not
head -c 400000 /dev/urandom > "$TMPDIR/400k"
all_sound() { [ "$(grep -c '^sound: .* 0 problems$' "$OUT")" -eq 3 ] || fail "the segments"; }
cat > "$TMPDIR/common" <<'EOS'
cd "$1" || exit 1
together() { muster barrier wait "$1" > /dev/null || exit 1; }
# gets KEY FILE: it is there, and whole.
gets() { muster kv get "$1" | cmp - "$2" || { echo "$1 is not $2"; exit 1; }; }
# refused WORDS COMMAND...: with this sentence.
refused()
{
    "${@:2}" > out.$RANK 2> err.$RANK && { echo "$* went well"; exit 1; }
    grep -qe "$1" err.$RANK || { echo "$* says: $(cat err.$RANK)"; exit 1; }
}
same() # all have the keys of all, and sound segments
{
    together "$1"
    muster kv set "$1/$RANK" "$RANK$RANK$RANK" || exit 1
    together "$1 set"
    for i in 0 1 2; do [ "$(muster kv get "$1/$i")" = $i$i$i ] || { echo "$1/$i is not there"; exit 1; }; done
    muster kv list | grep -v / | sort > keys.$RANK
    together "$1 got"
    cmp keys.$RANK keys.0 || exit 1
    muster segment check || exit 1
}
EOS

# A follower with less room than the others: what is too large for it it cannot read, nor write.
cat > "$TMPDIR/work" <<'EOS'
. "$1/common"
full="/dev/shm is full: no room to grow the segment of job $2.h2"
if [ $RANK = 2 ]; then
    refused "$full" muster kv get --wait 60s 4m & # before there is one
    waits=$!
fi
together begun
case $RANK in
0)
    muster kv set 4m - < 4m || exit 1
    muster kv set 6m - < 6m || exit 1
    ;;
2)
    wait $waits || exit 1
    refused "$full" muster kv set own - < 4m
    ;;
esac
together set
if [ $RANK = 2 ]; then
    for key in 4m 6m 4m; do refused "$full" muster kv get $key; done
    refused 'own not found' muster kv get own
else
    for key in 4m 6m; do gets $key $key; done
fi
together tried
[ $RANK != 2 ] || muster kv append 6m more || exit 1 # the leader has room for it
together longer
if [ $RANK = 0 ]; then
    for key in 4m 6m; do muster kv set $key little || exit 1; done
    for i in 0 1 2 3 4 5 6 7 8 9; do muster kv set part$i - < 400k || exit 1; done # not all at a time are its copies
fi
together again
for key in 4m 6m; do [ "$(muster kv get $key)" = little ] || exit 1; done
for turn in 1 2; do for i in 0 1 2 3 4 5 6 7 8 9; do gets part$i 400k; done; done
together held
[ $RANK != 1 ] || for i in 0 1 2 3 4 5 6 7 8 9; do muster kv delete part$i || exit 1; done # a listing has them all at once
same end
EOS
timeout 100 "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,large:1,small:1 bash "$TMPDIR/work" "$TMPDIR" "$JOB" \
    > "$OUT" 2> "$ERR" < /dev/null || fail "the follower with little room: $?"
all_sound
err_is_empty
clean

# The leader has less: who asks it for more is told which host it is.
cat > "$TMPDIR/work" <<'EOS'
. "$1/common"
full="on host $(uname -n), which leads the job: /dev/shm is full: no room to grow the segment of job $2 "
if [ $RANK = 1 ]; then
    refused "$full" muster kv set key - < 4m
    refused "$full" muster kv insert key - < 6m
    muster kv set key little || exit 1
    refused "$full" muster kv set key - < 6m
    n=0
    while muster kv append log - < 400k 2> err; do n=$((n + 1)); done
    grep -qe "$full" err || { echo "append says: $(cat err)"; exit 1; }
    echo $((n * 400000)) > told
fi
together set
[ "$(muster kv get key)" = little ] || exit 1
[ "$(muster kv get log | wc -c)" -eq "$(cat told)" ] || { echo "the log is not what was acknowledged"; exit 1; }
[ "$(cat told)" -ge 400000 ] || { echo "nothing could be appended"; exit 1; }
together read
[ $RANK != 2 ] || muster kv delete log || exit 1
together deleted
same end
EOS
timeout 100 unshare --mount sh -c "$mount_shm" 3m "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1,c:1 \
    bash "$TMPDIR/work" "$TMPDIR" "$JOB" > "$OUT" 2> "$ERR" < /dev/null || fail "the leader with little room: $?"
all_sound
err_is_empty
clean
exit 0
