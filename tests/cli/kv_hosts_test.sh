#!/bin/bash
# Every verb for keys, events, barriers and tasks, typed on a host whose keys are another's: as on one host.
# timeout: 120
. "$(dirname "$0")/common.sh"

cat > "$TMPDIR/rsh" <<'EOS'
#!/bin/sh
shift
eval "exec $*" # as a shell at the other end would: words come quoted
EOS
chmod +x "$TMPDIR/rsh"

# On host 1, and on host 0 the same words: what they print must be equal.
cat > "$TMPDIR/words" <<'EOS'
set -u
say() { echo "\$ $*"; "$@" 2>&1; echo "= $?"; }
k=$1
say muster kv set $k/a one
say muster kv get $k/a
echo
say muster kv insert $k/a two
say muster kv append $k/a ,more
say muster kv get --wait 10s $k/a
echo
say muster kv increment $k/n 41
say muster kv increment $k/n
say muster kv count $k
say muster kv list $k
say muster kv get $k/absent
say muster kv get --wait 10ms $k/absent
say muster kv delete $k
say muster kv count $k
say muster kv set $k/a/../b x
EOS
mkdir "$TMPDIR/bin"
ln -s "$MUSTER" "$TMPDIR/bin/muster"
export PATH=$TMPDIR/bin:$PATH
check 0 "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1 --output "$TMPDIR/{rank}" -- \
    bash -c 'bash "$0" dir$RANK | sed "s/dir$RANK/DIR/g; s/; who could set it: task [0-9].*/; THE OTHER TASK/"' "$TMPDIR/words"
grep -q 'absent; THE OTHER TASK$' "$TMPDIR/0" || fail "nobody is named: $(cat "$TMPDIR/0")"
diff "$TMPDIR/0" "$TMPDIR/1" || fail 'on another host the verbs say something else'
grep -q '^one,more= 0$' "$TMPDIR/1" || fail "what host 1 printed: $(cat "$TMPDIR/1")"

# What one host does the other sees.
cat > "$TMPDIR/both" <<'EOS'
set -u
other=$((1 - RANK))
muster kv set from/$RANK here
muster kv get --wait 20s from/$other; echo
muster barrier wait --timeout 20s met
muster kv count from
EOS
check 0 "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1 --output "$TMPDIR/{rank}" -- bash "$TMPDIR/both"
for i in 0 1; do
    sed -n 1,2p "$TMPDIR/$i" | tr '\n' ' ' | grep -q '^here 2 $' || fail "task $i: $(cat "$TMPDIR/$i")"
done
