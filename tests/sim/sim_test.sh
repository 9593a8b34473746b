#!/bin/bash
# Thousands of schedules of every workload; then the library is broken on purpose, one rule at a time, and each break
# must be found; then a failing seed must replay to the letter.
# variants: sim
# timeout: 300
set -euo pipefail
sim="$BUILD/tests/sim/sim"
within=8000 # seeds, to find a break; most are found within a hundred

"$sim" --count "${COUNT:-10000}"

# Whatever the scheduler says of a break, it says with a seed and a command that replays it.
caught() {
    local out
    if out=$("$sim" --mutation "$1" --workload "$2" --count "$within" 2>&1); then
        echo "FAILED: $1 was not noticed by $2 in $within schedules"
        exit 1
    fi
    if ! grep -q '^replay: .* --seed [0-9]* --trace$' <<<"$out"; then
        printf 'FAILED: %s, %s: no way to replay:\n%s\n' "$1" "$2" "$out"
        exit 1
    fi
    printf '%-16s %-8s %s\n' "$1" "$2" "$(sed -n 's/^[a-z]*, \(seed [0-9]*\)[^:]*: /\1: /p' <<<"$out" | head -1 | cut -c1-90)"
}

for w in wait barrier group event; do caught lose-wakes $w; done
for w in wait barrier group; do caught lose-epoch $w; done
for w in counter tasks group event; do caught blind-recheck $w; done
for w in kv counter parts wait tasks barrier group event; do caught no-intent $w; done
for w in kv counter tasks barrier group slots; do caught stopped-is-dead $w; done

# The same steps again, and the same end.
first=$("$sim" --mutation no-intent --workload group --count "$within" 2>&1 || true)
seed=$(sed -n 's/^replay: .* --seed \([0-9]*\) --trace$/\1/p' <<<"$first")
replay() {
    "$sim" --mutation no-intent --workload group --seed "$seed" --trace 2>&1 || true
}
replay >"$TMPDIR/one"
replay >"$TMPDIR/two"
cmp "$TMPDIR/one" "$TMPDIR/two"
end='/, seed [0-9]*: /,/^replay:/p' # what went wrong, and where each task was
sed -n "$end" <<<"$first" >"$TMPDIR/want"
[ -s "$TMPDIR/want" ] || { echo "FAILED: no report of the end"; exit 1; }
sed -n "$end" "$TMPDIR/one" | cmp - "$TMPDIR/want"
echo "seed $seed replays: $(wc -l <"$TMPDIR/one") steps, twice the same"
