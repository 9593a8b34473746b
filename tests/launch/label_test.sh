#!/bin/bash
# --label: whole lines, each of its task, nothing lost, nothing mixed.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --label "$@"; }

# A line without an end, an empty line, both streams.
check 0 run -n 2 sh -c 'printf "a\n\nb"; printf "to stderr" >&2'
[ "$(sort "$OUT")" = "$(printf '[0] \n[0] a\n[0] b\n[1] \n[1] a\n[1] b' | sort)" ] || fail "lines"
[ "$(sort "$ERR")" = "$(printf '[0] to stderr\n[1] to stderr')" ] || fail "stderr"

# Much from many: every line once, in its task's order, though the pieces come as they like.
check 0 run -n 8 "$PYTHON" -c '
import os
text = b"".join(b"%06d %s\n" % (i, b"x" * (i % 211)) for i in range(4000))
while text:
    n = os.write(1, text[:1 + (len(text) * 7919) % 997])
    text = text[n:]'
for i in 0 1 2 3 4 5 6 7; do
    grep "^\[$i\] " "$OUT" | "$PYTHON" -c 'import sys
for i, line in enumerate(sys.stdin):
    assert line == "[%s] %06d %s\n" % (sys.argv[1], i, "x" * (i % 211)), line
assert i == 3999' $i || fail "task $i's lines"
done
[ "$(wc -l < "$OUT")" -eq 32000 ] || fail "a line too many or too few"

# A line longer than any buffer is broken, not lost.
check 0 run sh -c 'head -c 3000000 /dev/zero | tr "\0" y; echo; echo end'
[ "$(grep -o y "$OUT" | wc -l)" -eq 3000000 ] || fail "bytes were lost"
[ "$(tail -n 1 "$OUT")" = '[0] end' ] || fail "the end"
[ "$(grep -vc '^\[0\] ' "$OUT")" -eq 0 ] || fail "a line without its label"

# What an output's descendants write after the task has ended is still relayed.
check 0 run sh -c '{ sleep 0.1; echo late; } &'
out_is '[0] late'

# A reader that goes away ends the tasks as it would without the launcher.
"$MUSTER" run -n 2 --label yes 2> "$ERR" | head -n 3 > "$OUT"
[ "${PIPESTATUS[0]}" -eq 141 ] || fail "status ${PIPESTATUS[0]} instead of 141"
[ "$(wc -l < "$OUT")" -eq 3 ] || fail "head"
exit 0
