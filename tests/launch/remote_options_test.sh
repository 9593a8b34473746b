#!/bin/bash
# Each option of muster run together with --hosts: it works on every host, or is refused in words before anything starts.
# The other host is this machine again, started by a command that stands for ssh.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
printf '#!/bin/sh\nshift; cd /\neval "exec $*"\n' > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
D=$TMPDIR/d
mkdir "$D"
seq 1 2000 > "$D/in"
export D PYTHON

# What works: STATUS | OPTIONS | THE TASKS' SHELL WORDS | STDOUT, SORTED ; and what stderr must have, if anything.
row() # row STATUS OPTIONS WORDS STDOUT [STDERR]
{
    local options
    eval "options=($2)"
    check "$1" "$MUSTER" run --job "$JOB" --hosts localhost:1,me@b:2 --rsh "$TMPDIR/rsh" "${options[@]}" -- sh -c "$3"
    [ "$(sort "$OUT")" = "$4" ] || fail "$2: sorted, stdout is not: $4"
    [ -z "${5-}" ] || grep -qe "$5" "$ERR" || fail "$2: stderr lacks: $5"
    [ -n "${5-}" ] || [ ! -s "$ERR" ] || fail "$2: stderr is not empty"
}
lines() { printf '%s\n' "$@"; }

row 0 '' 'echo $RANK' "$(lines 0 1 2)"
row 0 '--label' 'echo $RANK; echo woe >&2' "$(lines '[0] 0' '[1] 1' '[2] 2')" '^\[2\] woe$'
row 0 '--env "A=two words" --env B=' 'echo "$RANK $A|$B|"' "$(lines '0 two words||' '1 two words||' '2 two words||')"
row 0 '--chdir "$D"' 'echo $RANK ${PWD##*/}' "$(lines '0 d' '1 d' '2 d')"
row 125 '--chdir /nonexistent' 'echo $RANK' '' '^muster agent (host b): cannot change to /nonexistent: No such file or directory$'
row 0 '--heap 64M --heartbeat-timeout 20s --join-timeout 50s --latency --grace 1s' 'echo $RANK' "$(lines 0 1 2)"
row 0 '--threads 1' '"$MUSTER" segment info $MUSTER_JOB | sed -n "s/^slots *\([0-9]*\), .*/\1/p"' "$(lines 66 68 68)" # 64 and two a task
row 0 '--kill-on-fail' 'echo $RANK' "$(lines 0 1 2)"
row 2 '--kill-on-fail=no' 'echo $RANK; [ $RANK != 2 ] || exit 2' "$(lines 0 1 2)" 'task 2 (host me@b, pid [0-9]*) exited with status 2$'
row 9 '--kill-on-fail=no' 'echo $RANK; exit $((RANK * 4 + 1))' "$(lines 0 1 2)" "^muster run: 3 of 3 tasks failed; the exit status, 9, is task 2's$"
row 0 '--restarts 1 --restart-delay 10ms' '[ $MUSTER_ATTEMPT = 1 ] || exit 3; echo $RANK' "$(lines 0 1 2)" 'starting the job again in 0.01 s (1 of 1)$'
row 0 '--restarts 1 --restart-delay 10ms --restart-policy task' '[ $MUSTER_ATTEMPT = 1 ] || exit 3; echo $RANK' "$(lines 0 1 2)" \
    '^muster agent (host b): task 2 (pid [0-9]*) exited with status 3; starting it again in 0.01 s (1 of 1)$'
row 124 '--timeout 300ms --grace 100ms' 'exec sleep 900' '' '^muster run: timed out after 0.3 s with [0-3] of 3 tasks running: ending the job$'
row 0 '--trace=64' '"$MUSTER" trace --job $MUSTER_JOB > /dev/null && echo $RANK' "$(lines 0 1 2)"

# Standard input.
for who in all:2000,2000,2000 2:2000,0,0 0:2000,0,0 none:0,0,0; do
    want=${who#*:}
    STDIN=$D/in row 0 "--stdin ${who%:*}" 'wc -l' "$(lines ${want//,/ } | sort)"
done

# Files: {host} is what --hosts calls it.
row 0 '--output "$D/{job}/{host}-{rank}-{attempt}.{stream}"' 'echo $RANK; echo woe $RANK >&2' ''
for name in "$(uname -n)-0" b-1 b-2; do
    [ "$(cat "$D/$JOB/$name-0.stdout" "$D/$JOB/$name-0.stderr")" = "$(lines "${name##*-}" "woe ${name##*-}")" ] ||
        fail "$name's files: $(cd "$D/$JOB" && grep . ./*)"
done

# Where tasks run: of each host a table, or a line of JSON.
row 0 '--report-bindings' ':' '' '^2  *b  *[0-9]*  *not bound .* yes$'
if "$MUSTER" run -n 2 --bind-to core true 2> /dev/null; then
    row 0 '--report-bindings --bind-to core' ':' '' '^2  *b  *[0-9]*  *package [0-9]* core [0-9]* .* yes$'
fi
check 0 "$MUSTER" run --job "$JOB" --hosts localhost:1,me@b:2 --rsh "$TMPDIR/rsh" --report-bindings=json true
"$PYTHON" - "$ERR" << 'EOS' || fail "the bindings as JSON"
import json, sys
rows = sorted((row["task"], row["host"] == "b") for line in open(sys.argv[1]) for row in json.loads(line))
assert rows == [(0, False), (1, True), (2, True)], rows
EOS

# What would be started, where.
check 0 "$MUSTER" run --job "$JOB" --hosts localhost:1,me@b:2 --rsh "$TMPDIR/rsh" --output "$D/{host}-{rank}" --dry-run true
out_has '^task 2 on me@b: true$'
out_has "^    stdout to $D/b-2$"

# The leader's metrics are the whole job's.
cat > "$D/metrics.py" << 'EOS'
import re, sys, urllib.request
address = re.search("metrics at (.*)", open(sys.argv[1]).read()).group(1)
text = urllib.request.urlopen(address, timeout=60).read().decode()
assert 'tasks="3"' in text and 'muster_task_alive{task="2"}' in text and 'muster_host_up{index="1",host="b",state="up"} 1' in text, text
print("good")
EOS
export ERR
row 0 '--metrics 127.0.0.1:0' '[ $RANK != 0 ] || "$PYTHON" "$D/metrics.py" "$ERR"' good '^muster run: metrics at http://127.0.0.1:[0-9]*/metrics$'

# What is refused.
refused() # refused WORDS OPTION...
{
    local words=$1
    shift
    check 2 "$MUSTER" run --job "$JOB" --hosts localhost:1,b:2 --rsh "$TMPDIR/nobody" "$@" true
    err_has "^muster run: $words"
    err_is_one_line
    no_segment "$JOB" || fail "a segment"
}
refused '-n gpu counts what this host has' -n gpu
refused '-n auto counts what this host has' -n auto
refused '4 tasks need as many slots, and the hosts have 3' -n 4
refused "--stdin is all, none or a task from 0 to 2, not '3'" --stdin 3
refused "--env: 'B' is not NAME=VALUE" --env B
refused "--trace: '0' is no number of events" --trace=0
refused "--grace: '-1' is no duration" --grace -1
exit 0
