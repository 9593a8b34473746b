#!/bin/bash
# The bridge under the seeded scheduler, in its short form: schedules with broken links and killed agents keep every
# promise; each thing that is broken on purpose is found, and its seed replays to the letter. `tests/bridgesim/run.sh` is
# the long form.
# timeout: 240
set -u
: "${BUILD:?the variant that was built}" "${TMPDIR:=/tmp}"
sim=$BUILD/tests/bridgesim/bridgesim

"$sim" --count 200 || exit 1
# More than a real connection does: what was sent on the last one comes on the next.
"$sim" --count 50 --mutation strays || exit 1

# Hosts that come by others.
"$sim" --relays --count 200 || exit 1

# Hosts whose clocks are hours apart, and faster or slower.
"$sim" --clocks --count 200 || exit 1
"$sim" --clocks --relays --count 50 || exit 1

# caught MUTATION: within some hundred schedules, with a sentence and a way to replay it.
caught() {
    local out
    if out=$("$sim" --mutation "$@" --count 1000 2>&1); then
        echo "FAILED: $1 was not noticed in 1000 schedules"
        exit 1
    fi
    if ! grep -q '^replay: .* --seed [0-9]* --trace$' <<<"$out"; then
        printf 'FAILED: %s: no way to replay:\n%s\n' "$1" "$out"
        exit 1
    fi
    printf '%-13s %s\n' "$1" "$(grep -m 1 '^seed ' <<<"$out" | cut -c1-140)"
}
for m in late-copies forget-done lose-frames silent-break; do caught $m; done
caught lose-frames --relays

# The same steps again, and the same end.
seed=$("$sim" --mutation lose-frames 2>&1 | sed -n 's/^replay: .* --seed \([0-9]*\) --trace$/\1/p')
for i in 1 2; do "$sim" --mutation lose-frames --seed "$seed" --trace > "$TMPDIR/$i" 2>&1; done
[ "$(wc -l < "$TMPDIR/1")" -gt 100 ] || { echo "FAILED: nothing is traced"; exit 1; }
cmp <(grep -v schedules "$TMPDIR/1") <(grep -v schedules "$TMPDIR/2") || { echo "FAILED: seed $seed does not replay"; exit 1; }

# Larger jobs, of 8 tasks a host, who are all given the same global topology. What an agent keeps does not grow with the
# hosts, but for the leader's, and that no more than they do.
hosts=128
[ "$(df --output=avail -k /dev/shm | tail -1)" -gt 600000 ] || { hosts=32; echo "less than 600 MB in /dev/shm: 32 hosts, not 128"; }
for n in 8 $hosts; do
    "$BUILD/tests/bridgesim/scale" $n 8 10 exchange > "$TMPDIR/$n" || { cat "$TMPDIR/$n"; exit 1; }
done
# figure NAME HOSTS
figure() { sed -n "s/^{\"metric\": \"scale\.$1\.$2\",.*\"value\": \([0-9]*\).*/\1/p" "$TMPDIR/$2"; }
few=$(figure memory.follower 8) many=$(figure memory.follower $hosts)
echo "memory of a follower's agent with 8 hosts: $few bytes, with $hosts: $many"
[ "$many" -lt $((few + few / 10)) ] || { echo "FAILED: a follower's agent grows with the hosts"; exit 1; }
leader=$(figure memory.leader $hosts)
echo "memory of the leader's agent with $hosts hosts: $leader bytes"
[ "$leader" -lt $((400000 + hosts * 12000)) ] || { echo "FAILED: the leader's agent grows faster than the hosts"; exit 1; }
bytes=$(figure join.bytes $hosts) told=$((hosts * 8 * (hosts - 1)))
echo "joining $hosts hosts: $bytes bytes, $((bytes / told)) a task and host that is told of it"
[ "$bytes" -lt $((20 * told)) ] || { echo "FAILED: joining says more than it must"; exit 1; }
