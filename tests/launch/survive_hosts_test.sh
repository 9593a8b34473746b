#!/bin/bash
# --survive with several hosts: agents are killed while tasks write, count and meet; another adopts the part of each, and
# nothing that was acknowledged is lost, nothing is made twice. The other hosts are this machine again.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"
. "$(dirname "$0")/three_hosts.sh"
# begin WITHIN COMMAND...: four tasks on three hosts. The first agents are $LEADER, and $B and $C of the other hosts.
begin()
{
    local within=$1
    shift
    rm -f "$TMPDIR/stop" "$TMPDIR/round" "$TMPDIR"/out-* "$TMPDIR"/adopted.*
    : > "$RSH_LOG"
    "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" --hosts localhost:1,b:2,c:1 --survive="$within" --grace 500ms \
        --output "$TMPDIR/out-{rank}" "$@" > "$OUT" 2> "$ERR" < /dev/null &
    LEADER=$!
    disown $LEADER
    both() { B=$(rsh_pid b) C=$(rsh_pid c); [ -n "$B" ] && [ -n "$C" ]; }
    await "the other hosts are called" both
}
counts() { begin "$1" "$BUILD/tests/launch/counts" "$TMPDIR"; goes_on; }
# adopt PART [OPTION...]: $ADOPTER is the agent, what it says is in $TMPDIR/adopted.PART
adopt()
{
    local part=$1
    shift
    : > "$TMPDIR/adopted.$part"
    "$MUSTER" agent --adopt "$part" "$@" > "$TMPDIR/adopted.out" 2> "$TMPDIR/adopted.$part" < /dev/null &
    ADOPTER=$!
    await "$part is adopted" grep -q "job $part adopted: " "$TMPDIR/adopted.$part"
}
# With all of its threads: the last of them lets go of what it had open.
is_wholly_gone() { is_gone "$1" && [ "$(ls "/proc/$1/task" 2> /dev/null | wc -l)" -le 1 ]; }
killed() { kill -KILL "$@"; for pid in "$@"; do await "$pid is gone" is_wholly_gone "$pid"; done; }
# ended PID STATUS: of a process of ours
ended()
{
    local got=0
    wait "$1" || got=$?
    [ $got -eq "$2" ] || fail "exit status $got instead of $2 ($(tail -n 20 "$TMPDIR"/adopted.* 2> /dev/null))"
}
err_gets() { await "the launcher says: $1" grep -qe "$1" "$ERR"; } # which goes on meanwhile
launcher_gone() { is_gone "$LEADER"; }
every_count_is_right() # each task saw the same sum, of all rounds
{
    local sum
    sum=$(($(round) * 4))
    for i in 0 1 2 3; do
        [ "$(cat "$TMPDIR/out-$i.stdout" "$TMPDIR/out-$i" 2> /dev/null)" = "task $i: $sum" ] || fail "task $i, not $sum: $(cat "$TMPDIR"/out-*)"
    done
}
tidy_up()
{
    [ "$1" -eq 0 ] && return
    tail -n 20 "$ERR" 2> /dev/null
    tail -n 5 "$TMPDIR"/adopted.* "$TMPDIR/refused" 2> /dev/null
    for pid in $(with_mark "$MARK"); do
        echo "left: $pid $(tr '\0' ' ' < "/proc/$pid/cmdline")"
        kill -9 "$pid" 2> /dev/null
    done
    rm -f "$(segment_file "$JOB")"*
}
trap 'tidy_up $?' EXIT
LEADER='' B='' C='' ADOPTER='' SECOND=''

# A follower's agent, and the one that took its place; the leader's, and the same again; then both at once.
counts 2m
killed "$B"
err_gets "^muster run: host b: its command (.*rsh, pid $B) was killed by signal 9; its agent, if it lives, or another can go on$"
adopt "$JOB.h1"
goes_on
err_gets "^muster run: host b has another agent: "
check_refused() # PART WORDS
{
    local got=0
    "$MUSTER" agent --adopt "$1" > "$TMPDIR/refused" 2>&1 < /dev/null || got=$?
    [ $got -eq 125 ] && grep -q "$2" "$TMPDIR/refused" || fail "status $got, and not '$2' but: $(cat "$TMPDIR/refused")"
}
check_refused "$JOB.h1" 'has been adopted already'
check_refused "$JOB" "the launcher of job $JOB (pid $LEADER) lives"
check_refused "$JOB.h2" "lives: there is nothing to adopt"
check_refused "$JOB.h3" "there is no job $JOB.h3 here"
killed $ADOPTER
adopt "$JOB.h1"
goes_on
SECOND=$ADOPTER
killed "$LEADER"
adopt "$JOB"
goes_on
killed $ADOPTER
adopt "$JOB"
goes_on
killed $ADOPTER $SECOND
adopt "$JOB.h1"
SECOND=$ADOPTER
adopt "$JOB"
goes_on
killed $ADOPTER $SECOND "$C"
adopt "$JOB"
SECOND=$ADOPTER
adopt "$JOB.h2"
adopt "$JOB.h1"
goes_on
: > "$TMPDIR/stop"
ended $SECOND 0
ended $ADOPTER 0
clean
every_count_is_right

# The same where one of the other hosts is connected by the other: the agents of both, the leader's, then all at once.
listens() # PID: for others' connections
{
    local sockets
    sockets=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l ' 2> /dev/null | tr -dc '0-9 ')
    awk -v sockets=" $sockets " '$4 == "0A" && index(sockets, " " $10 " ") { n++ } END { exit !n }' "/proc/$1/net/tcp" "/proc/$1/net/tcp6"
}
one_relays() { listens "$B" || listens "$C"; }
export MUSTER_STAR_HOSTS=1
counts 2m
await "a host relays" one_relays
killed "$B"
adopt "$JOB.h1"
B=$ADOPTER
goes_on
killed "$C"
adopt "$JOB.h2"
C=$ADOPTER
goes_on
killed "$LEADER"
adopt "$JOB"
goes_on
await "a host relays" one_relays
killed "$ADOPTER" "$B" "$C"
adopt "$JOB.h2"
C=$ADOPTER
adopt "$JOB"
LEADER=$ADOPTER
adopt "$JOB.h1"
goes_on
: > "$TMPDIR/stop"
for pid in $LEADER $C $ADOPTER; do ended "$pid" 0; done
clean
every_count_is_right
unset MUSTER_STAR_HOSTS

# The statuses of those whose agent lives are known, also to a new leader; a task that dies unseen is in error.
begin 2m sh -c 'until [ -e "$1/stop" ]; do sleep 0.1; done; exit $RANK' sh "$TMPDIR" # sleep: until told
all_there() { [ "$(compgen -G "$TMPDIR/out-*" | wc -l)" -eq 4 ]; }
await "all are there" all_there
killed "$LEADER"
adopt "$JOB" --kill-on-fail=no
both_back() { [ "$(grep -c ' is back' "$TMPDIR/adopted.$JOB")" -eq 2 ]; }
await "both have come" both_back
: > "$TMPDIR/stop"
ended $ADOPTER 3
clean

# Also one of which the dead leader had heard, where all other tasks end before there is a new one.
begin 2m --kill-on-fail=no sh -c 'echo $$ > "$1/pid-$RANK.new"; mv "$1/pid-$RANK.new" "$1/pid-$RANK"; [ $RANK = 1 ] && exit 7
    until [ -e "$1/stop" ]; do sleep 0.1; done' sh "$TMPDIR" # sleep: until told
heard() { grep -q "^muster run: task 1 (host b, pid [0-9]*) exited with status 7" "$ERR"; }
await "the leader has heard of it" heard
has_pids() { [ -s "$TMPDIR/pid-0" ] && [ -s "$TMPDIR/pid-2" ] && [ -s "$TMPDIR/pid-3" ]; }
await "the others are there" has_pids
killed "$LEADER"
: > "$TMPDIR/stop"
for i in 0 2 3; do await "task $i has ended" is_gone "$(cat "$TMPDIR/pid-$i")"; done
adopt "$JOB" --kill-on-fail=no
ended $ADOPTER 7
clean

counts 2m
killed "$B"
adopt "$JOB.h1"
goes_on
VICTIM=$(task_pid 1)
killed "$VICTIM"
await "the launcher has ended" launcher_gone
err_has "^muster run: task 1 (host b, pid $VICTIM) has failed: "
wait $ADOPTER || true # the job's status: of the one that failed, or of those that ended by that
clean

# Nobody adopts it in time: a follower's part, and the leader's.
begin 2s sleep 900
await "all are there" all_there
killed "$B"
await "the launcher has ended" launcher_gone
err_has '^muster run: host b is away (.*): its tasks are given up in 2 s at most, unless'
err_has '^muster run: host b is lost: nothing was heard of it for 2.0 s; ending the other 2 tasks$'
clean
check_refused "$JOB.h1" "there is no job $JOB.h1 here"
begin 2s sleep 900
await "all are there" all_there
killed "$LEADER"
clean
check_refused "$JOB" "there is no job $JOB here"

# Told to end while a host has no agent: it is not waited for.
begin 2m sleep 900
await "all are there" all_there
killed "$B"
kill -TERM "$LEADER"
await "the launcher has ended" launcher_gone
err_has '^muster run: host b is lost: the job ends, and it has no agent; '
clean # what it had is our own child here: elsewhere its guard waits on

# Nor is one whose agent dies later than those were given up that had none. An agent that is stopped cannot be over.
begin 2m --heartbeat-timeout 100s sleep 900
await "all are there" all_there
killed "$C"
kill -STOP "$B"
kill -TERM "$LEADER"
err_gets '^muster run: host c is lost: the job ends, and it has no agent; '
killed "$B"
await "the launcher has ended" launcher_gone
err_has '^muster run: host b is lost: the job ends, and it has no agent; '
clean

# Nor is the leader, by an agent that was told of the end, or hears of it there.
begin 2m --heartbeat-timeout 100s sleep 900
await "all are there" all_there
kill -STOP "$C"
TASKS="$(task_pid 1) $(task_pid 2)"
kill -TERM "$LEADER"
[ "$(wc -w <<< "$TASKS")" -eq 2 ] || fail "host b's tasks: '$TASKS'"
for pid in $TASKS; do await "task $pid of host b has ended" is_gone "$pid"; done
killed "$LEADER"
await "host b's agent has ended" is_gone "$B"
kill -TERM "$C"
kill -CONT "$C"
await "host c's agent has ended" is_gone "$C"
adopt "$JOB" # its guard would wait on
kill -TERM $ADOPTER
ended $ADOPTER 143
clean

# An agent that the new leader has given up, and the dead one had started, is not killed by the guard of that, but told.
begin 2m --heartbeat-timeout 100s sleep 900
await "all are there" all_there
killed "$LEADER"
kill -STOP "$B"
adopt "$JOB" --grace 500ms
kill -TERM $ADOPTER
ended $ADOPTER 143
grep -q '^muster agent: host b is lost: the job ends, and it has no agent; ' "$TMPDIR/adopted.$JOB" || fail "host b is not lost"
kill -CONT "$B"
clean # else its guard waits on

# A host that was lost before is not waited for by a new leader.
begin 2m --kill-on-fail=no --heartbeat-timeout 4s sh -c 'until [ -e "$1/stop" ]; do sleep 0.1; done' sh "$TMPDIR" # sleep: until told
await "all are there" all_there
kill -STOP "$C"
c_lost() { grep -q '^muster run: host c is lost: nothing was heard of it for 4.0 s; its tasks are given up$' "$ERR"; }
await "it is lost" c_lost
killed "$LEADER"
adopt "$JOB" --kill-on-fail=no
# It is told that it was given up, and ends its task. The death of its parent has woken it, if the kernel saw to that: a
# SIGCONT that comes while a sanitizer stops it for its last look would take that stop away for ever.
is_stopped "$C" && kill -CONT "$C"
await "its agent has ended" is_gone "$C"
: > "$TMPDIR/stop"
ended $ADOPTER 125
clean

# Another user's job is not there.
if muster_for 65534; then
    begin 2m sleep 900
    await "all are there" all_there
    killed "$LEADER"
    got=0
    setpriv --reuid=65534 --clear-groups "$THEIRS" agent --adopt "$JOB" > "$TMPDIR/refused" 2>&1 < /dev/null || got=$?
    [ $got -eq 125 ] && grep -q "there is no job $JOB here" "$TMPDIR/refused" || fail "another user: $(cat "$TMPDIR/refused")"
    adopt "$JOB"
    await "both have come" both_back # who has not is not waited for, and hears of the end when its time is over
    kill -TERM $ADOPTER
    ended $ADOPTER 143
    clean
fi

refused()
{
    local words=$1
    shift
    check 2 "$MUSTER" run "$@" true
    err_has "$words"
    err_is_one_line
}
refused '--survive with --hosts needs --output' --survive --hosts b
refused '--survive=1m needs --hosts' --survive=1m
refused '--survive=0 leaves no time' --survive=0 --hosts b --output x
refused "--survive: 'soon' is no duration" --survive=soon --hosts b --output x
exit 0
