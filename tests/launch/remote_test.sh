#!/bin/bash
# A job of several hosts, whose other hosts are this machine again, started by a command that stands for ssh: tasks and
# their variables, output, input, failures, signals; what is killed leaves nothing behind; what goes wrong is said with
# its host.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
export RSH_WITHOUT=WILL # of our environment
. "$(dirname "$0")/three_hosts.sh"
run() { "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "$@"; }
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "sorted, stdout is not: $1"; }

# 2, 3 and 8 hosts; this one with tasks and without.
WORDS='echo $MUSTER_NODE_ID/$MUSTER_NUM_NODES $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MUSTER_JOB'
check 0 run --hosts localhost:2,b:1 sh -c "$WORDS"
sorted_is "0/2 0/3 0/2 $JOB
0/2 1/3 1/2 $JOB
1/2 2/3 0/1 $JOB.h1"
check 0 run --hosts b:1,c:2 sh -c "$WORDS"
sorted_is "1/3 0/3 0/1 $JOB.h1
2/3 1/3 0/2 $JOB.h2
2/3 2/3 1/2 $JOB.h2"
printf 'localhost slots=1\n# seven more\nb slots=2\nc:1\nd\ne\nf\ng\nh max_slots=9\n' > "$TMPDIR/hosts"
check 0 run --hostfile "$TMPDIR/hosts" sh -c 'echo $MUSTER_NODE_ID $RANK $WORLD_SIZE'
sorted_is "$(printf '%s\n' '0 0 9' '1 1 9' '1 2 9' '2 3 9' '3 4 9' '4 5 9' '5 6 9' '6 7 9' '7 8 9')"
check 0 run -n 2 --hosts localhost:2,b:2 echo alone # nobody else is needed
sorted_is "$(printf 'alone\nalone')"
clean

# The key is on no command line, and in no task's environment; the command's words stay what they were.
: > "$RSH_LOG"
check 0 run --hosts 'user@b:1,c:1' -l --env 'A=two words' -- sh -c 'echo "$A|$1|${MUSTER_KEY-no key}"' sh "it's  \$here"
sorted_is "[0] two words|it's  \$here|no key
[1] two words|it's  \$here|no key"
grep -q "^[0-9]* user@b .*/muster'\\? agent --join .* --node-id 1 --nodes 3 -n 1 --job $JOB --host-name b --key-file - --join-timeout 60000000000ns$" "$RSH_LOG" ||
    fail "what rsh was given: $(cat "$RSH_LOG")"
grep -qE '[0-9a-f]{64}' "$RSH_LOG" && fail "a key on a command line"
: > "$RSH_LOG"
MUSTER_KEY=$(printf %064d 7) check 0 run --hosts localhost:1,b:1 --latency --join-timeout 90s --heartbeat-timeout 20s \
    sh -c 'echo "${MUSTER_KEY-no key}"' # a given one is in none either; what is said of waiting goes for all hosts
sorted_is "$(printf 'no key\nno key')"
grep -q -- "--join-timeout 90000000000ns --heartbeat-timeout 20000000000ns --latency$" "$RSH_LOG" ||
    fail "what rsh was given: $(cat "$RSH_LOG")"

# Variables and the folder are those of the launcher; --chdir and commands behind ':' go for all hosts.
mkdir "$TMPDIR/there"
(cd "$TMPDIR/there" && WILL=passes check 0 run --hosts b:1 sh -c 'echo $WILL ${PWD##*/}') || exit 1
out_is 'passes there'
check 0 run --hosts localhost:1,b:2 -n 1 echo first : -n 2 --chdir "$TMPDIR/there" sh -c 'echo second $RANK ${PWD##*/}'
sorted_is "$(printf 'first\nsecond 1 there\nsecond 2 there')"

# Segments without a name, which the tasks of each host inherit.
check 0 run --hosts localhost:1,b:2 --memfd sh -c 'muster kv set from/$RANK x && muster barrier wait all && muster kv count from &&
    echo ${MUSTER_SEGMENT%:*} && muster status | sed -n "s/^hosts .*this is //p" && ls /dev/shm'
for pair in 3:3 fd:3 'host 0:1' 'host 1:2'; do
    [ "$(grep -cx "${pair%:*}" "$OUT")" -eq "${pair#*:}" ] || fail "not ${pair#*:} tasks that say '${pair%:*}'"
done
! grep -q "^muster-[0-9]*-$JOB" "$OUT" || fail "a segment has a name"

# Labels: whole lines of every host.
check 0 run --hosts localhost:1,b:2,c:1 --label "$PYTHON" -c '
import os
text = b"".join(b"%05d %s\n" % (i, b"x" * (i % 101)) for i in range(1500))
while text:
    n = os.write(1, text[:1 + (len(text) * 7919) % 997])
    text = text[n:]'
for i in 0 1 2 3; do
    grep "^\[$i\] " "$OUT" | "$PYTHON" -c 'import sys
for i, line in enumerate(sys.stdin):
    assert line == "[%s] %05d %s\n" % (sys.argv[1], i, "x" * (i % 101)), line
assert i == 1499' $i || fail "task $i's lines"
done
[ "$(wc -l < "$OUT")" -eq 6000 ] || fail "a line too many or too few"

# Files by template, on their hosts.
check 0 run --hosts localhost:1,b:1 --output "$TMPDIR/o/{job}-{rank}.{stream}" sh -c 'echo out $RANK; echo err $RANK >&2'
[ "$(cat "$TMPDIR/o/$JOB-1.stdout" "$TMPDIR/o/$JOB-0.stderr")" = "$(printf 'out 1\nerr 0')" ] || fail "files: $(ls "$TMPDIR/o")"

if [ -e /dev/full ]; then # on one of them there is no room: that it could not be written is not lost
    ln -s /dev/full "$TMPDIR/o/full-1"
    check 125 run --hosts localhost:1,b:1 --label --output "$TMPDIR/o/full-{rank}" echo written
    err_has "cannot write /dev/full: No space left on device: the rest of task 1's output is lost there"
    [ "$(cat "$TMPDIR/o/full-0")" = written ] || fail "the other host's output"
    check 3 run --hosts localhost:1,b:1 --label --output "$TMPDIR/o/full-{rank}" sh -c 'echo lost; exit 3'
fi

# Standard input: task 0's, wherever it is; all; one.
seq 1 20000 > "$TMPDIR/in"
for hosts in localhost:1,b:1 b:1,c:1; do
    STDIN=$TMPDIR/in check 0 run --hosts $hosts sh -c 'wc -l'
    sorted_is "$(printf '0\n20000')"
done
STDIN=$TMPDIR/in check 0 run --hosts localhost:1,b:2,c:1 --stdin all sh -c 'wc -l'
sorted_is "$(printf '20000\n20000\n20000\n20000')"
STDIN=$TMPDIR/in check 0 run --hosts localhost:1,b:2 --stdin 2 -l sh -c 'wc -l'
sorted_is "$(printf '[0] 0\n[1] 0\n[2] 20000')"

# A failure anywhere ends all, and is named with its host and its last words; its status is the job's.
check 3 run --hosts localhost:1,b:1,c:2 sh -c 'if [ $RANK = 3 ]; then echo woe >&2; exit 3; fi; exec sleep 900'
err_has '^muster run: task 3 (host c, pid [0-9]*) exited with status 3; ending the other 3 tasks$'
err_has "^muster run: the last line of task 3's stderr:$"
err_has '^    woe$'
clean
check 4 run --hosts localhost:2,b:1 sh -c 'if [ $RANK = 1 ]; then exit 4; fi; exec sleep 900'
err_has "^muster run: task 1 (host [^ ]*, pid [0-9]*) exited with status 4; ending the other 2 tasks$"
check 139 run --hosts b:2 sh -c 'if [ $RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 900'
err_has 'task 1 (host b, pid [0-9]*) was killed by signal 11 (SIGSEGV'
check 7 run --hosts localhost:1,b:2 --kill-on-fail=no sh -c 'if [ $RANK = 1 ]; then exit 7; fi; sleep 0.3; echo on' # sleep: work
sorted_is "$(printf 'on\non')"
check 127 run --hosts b:1 nosuchcommand
err_has '^muster agent (host b): nosuchcommand: command not found$'
err_has '^muster run: host b could not start its tasks: ending the job$'
check 124 run --hosts localhost:1,b:1 --timeout 300ms --grace 200ms sh -c 'trap "" TERM; while :; do sleep 9; done' # sleep: to be killed
err_has 'timed out after 0.3 s with [0-2] of 2 tasks running' # on a machine under load the others may not have come
clean

# A restart is one of all hosts, or of one task where it is.
check 0 run --hosts localhost:1,b:1 --restarts 2 --restart-delay 10ms sh -c \
    'echo $RANK:$MUSTER_ATTEMPT; if [ $RANK.$MUSTER_ATTEMPT = 1.0 ]; then exit 5; fi; [ $MUSTER_ATTEMPT = 1 ] || exec sleep 900'
[ "$(grep -c ':1$' "$OUT")" -eq 2 ] || fail "the second attempt"
check 0 run --hosts localhost:1,b:1 --restarts 1 --restart-delay 10ms sh -c \
    '[ $MUSTER_ATTEMPT = 1 ] || exit 125' # which an agent says for itself where it has lost output
check 0 run --hosts localhost:1,b:2 --restarts 1 --restart-policy task --restart-delay 10ms sh -c \
    'if [ $RANK.$MUSTER_ATTEMPT = 2.0 ]; then exit 5; fi; echo $RANK:$MUSTER_ATTEMPT'
sorted_is "$(printf '0:0\n1:0\n2:1')"
clean

# ---- what does not come ----
for wrong in a:4711 '[fd00::1]' '' 'a b'; do
    check 2 run --hosts b:1 --address "$wrong" true
    err_has "^muster run: --address: '.*' is not a name or an address alone"
done
check 125 run --hosts b:1 --rsh false true
err_has '^muster run: host b has not come: its command (false) exited with status 1$'
check 125 run --hosts b:1 --rsh /nonexistent/rsh true
err_has '^muster run: cannot start host b: cannot run /nonexistent/rsh: No such file or directory$'
printf '#!/bin/sh\nshift 2; exec /nonexistent/muster "$@"\n' > "$TMPDIR/lacks"
chmod +x "$TMPDIR/lacks"
check 125 run --hosts localhost:1,b:1 --rsh "$TMPDIR/lacks" true
err_has 'host b has not come: its command (.*) exited with status 127: muster was not found there, or could not be run: .*nonexistent.muster'
printf '#!/bin/sh\nexec sleep 900\n' > "$TMPDIR/idles"
chmod +x "$TMPDIR/idles"
check 125 run --hosts b:1,c:1 --rsh "$TMPDIR/idles" --join-timeout 300ms true
err_has '^muster run: hosts 1 (b), 2 (c) of 3 have not come in time$'
check 124 run --hosts b:1 --rsh "$TMPDIR/idles" --timeout 200ms true
err_has 'timed out after 0.2 s with 0 of 1 tasks running'
printf '#!/bin/sh\nkill -TERM $PPID; exec sleep 900\n' > "$TMPDIR/ends" # the launcher
chmod +x "$TMPDIR/ends"
check 143 run --hosts b:1 --rsh "$TMPDIR/ends" true
err_has '^muster run: SIGTERM: ending the job$'
printf '#!/bin/sh\nshift; head -c 65 > /dev/null; { echo %064d; cat; } | eval "$*"\n' 0 > "$TMPDIR/forges"
chmod +x "$TMPDIR/forges"
check 125 run --hosts b:1 --rsh "$TMPDIR/forges" --join-timeout 3s true
err_has '^muster agent (host b): the leader (.*) has another key than this host'
clean
check 125 run --hosts b:1 --address 127.0.0.1 --rsh "$TMPDIR/rsh" --env X=1 --chdir /nonexistent true
err_has 'cannot change to /nonexistent: No such file or directory'

# ---- what is killed ----
WHAT='echo up; sleep 900 & exec sleep 900'
begin()
{
    : > "$RSH_LOG" > "$OUT"
    env --default-signal=INT "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --grace 500ms "$@" sh -c "$WHAT" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    disown $RUN
    all_up() { [ "$(grep -c up "$OUT")" -eq 4 ]; }
    await "all tasks are up" all_up
}
agent_of() { awk -v h="$1" '$2 == h { print $1 }' "$RSH_LOG"; }
ended() { is_gone "$RUN"; }

for signal in INT TERM; do
    begin --hosts localhost:1,b:2,c:1
    kill -$signal $RUN
    await "the launcher has ended" ended
    err_has "^muster run: SIG$signal: ending 4 tasks$"
    clean
done
WHAT='trap "echo heard INT; exit 0" INT; trap "echo heard TERM; exit 0" TERM; echo up; while :; do sleep 0.05; done' \
    begin --hosts localhost:1,b:2,c:1 --grace 10m
kill -INT $RUN
await "the launcher has ended" ended
[ "$(grep -c '^heard INT$' "$OUT")" -eq 4 ] || fail "not all tasks got SIGINT first"
clean
begin --hosts localhost:1,b:2,c:1
kill -KILL $RUN
clean
begin --hosts b:2,c:2 # without a task of its own
kill -KILL $RUN
clean
for victim in b c; do
    begin --hosts localhost:1,b:2,c:1
    kill -KILL "$(agent_of $victim)" # the command is the agent here
    await "the launcher has ended" ended
    err_has "^muster run: host $victim is lost: .* was killed by signal 9; ending the other"
    clean
done
begin --hosts b:4 # with which nobody is left
kill -KILL "$(agent_of b)"
await "the launcher has ended" ended
err_has "^muster run: host b is lost: .*; ending the job$"
clean
begin --hosts localhost:1,b:2,c:1
kill -TERM "$(agent_of b)"
await "the launcher has ended" ended
err_has 'SIGTERM: ending'
clean

# A host that is silent is lost; nobody waits for it.
begin --hosts localhost:1,b:2,c:1 --heartbeat-timeout 1s
kill -STOP "$(agent_of b)"
await "the launcher has ended" ended
err_has '^muster run: host b is lost: nothing was heard of it for 1.0 s; ending the other 2 tasks$'
grep -q 'does not end' "$ERR" && fail "it was waited for"
clean

# The command is killed, and its agent goes on alone: it sees that.
printf '#!/bin/sh\nshift; echo $$ >> "$RSH_LOG"; eval "$*" <&0\n' > "$TMPDIR/through"
chmod +x "$TMPDIR/through"
begin --hosts localhost:2,b:2 --rsh "$TMPDIR/through"
kill -KILL "$(cat "$RSH_LOG")"
await "the launcher has ended" ended
err_has '^muster run: host b is lost: its command (.*through, pid [0-9]*) was killed by signal 9; ending the other 2 tasks$'
clean

# The command has let go of its agent, but does not end: what the agent ends by itself is not done.
cat > "$TMPDIR/hangs" << 'EOS'
#!/bin/sh
shift
{ head -c 65; until [ -e "$CUT" ]; do sleep 0.05; done; } | eval "$*" # sleep: between two looks
exec sleep 900
EOS
chmod +x "$TMPDIR/hangs"
export CUT=$TMPDIR/cut
begin --hosts localhost:2,b:2 --rsh "$TMPDIR/hangs"
touch "$CUT"
await "the launcher has ended" ended
err_has '^muster agent (host b): the leader is lost: the command that started .* has ended; ending 2 tasks$'
err_has '^muster run: host b is lost: .*; ending the other 2 tasks$'
clean

# What a command has started goes with it: when the launcher is killed, when it cannot come, when it is killed itself.
cat > "$TMPDIR/family" << 'EOS'
#!/bin/sh
sleep 900 & # sleep: hung, and deaf
(trap '' TERM HUP; echo there >> "$RSH_LOG"; sleep 900; true)
EOS
chmod +x "$TMPDIR/family"
for end in KILL TERM; do
    : > "$RSH_LOG"
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/family" --hosts localhost:1,b:1 true > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    disown $RUN
    await "the command is there" grep -q there "$RSH_LOG"
    kill -$end $RUN
    clean
done
printf '#!/bin/sh\nsleep 900 &\nexit 1\n' > "$TMPDIR/leaves" # sleep: it stays
chmod +x "$TMPDIR/leaves"
check 125 run --hosts b:1 --rsh "$TMPDIR/leaves" true
clean

# What cannot be is refused before anything is started.
refused()
{
    local words=$1
    shift
    check 2 "$MUSTER" run "$@" true
    err_has "$words"
    err_is_one_line
}
refused "--hosts: 'b:0' has no number of slots" --hosts b:0
refused '3 tasks need as many slots, and the hosts have 2' -n 3 --hosts b:2
refused '-n core counts what this host has' -n core --hosts b
refused '--rsh needs --hosts' --rsh ssh
refused '--rsh is empty' --hosts b --rsh ' '
refused '--hostfile: /nonexistent: No such file' --hostfile /nonexistent
check 0 "$MUSTER" run --hosts localhost:1,b:2 --dry-run true
out_has '^host 1, b: tasks 1 to 2$'
out_has '^task 2 on b: true$'

# The launcher's input ends while the other host's agent still receives its orders, over a slow link: that is the end of
# the input, and not the launcher's.
cat > "$TMPDIR/slow" <<EOS
#!/bin/bash
shift
words="\$*"
port=\$(sed 's/.*--join [^ ]*:\([0-9]*\).*/\1/' <<< "\$words")
coproc python3 $TOP/tests/launch/slow_link.py \$port
trap 'kill \$COPROC_PID' EXIT
read -r slow <&\${COPROC[0]}
eval "\$(sed "s/--join '*[^ ]*:\$port'*/--join 127.0.0.1:\$slow/" <<< "\$words")"
EOS
chmod 755 "$TMPDIR/slow"
LARGE=$(head -c 60000 /dev/zero | tr '\0' x) check 0 "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/slow" --hosts b:1 \
    sh -c 'cat; echo "${#LARGE}"' < /dev/null
out_is 60000
exit 0
