#!/bin/bash
# `muster segment`: what lies in /dev/shm, sound or not; the audit; removal. And which job is meant when none is named.
. "$(dirname "$0")/common.sh"

check 3 "$MUSTER" segment info "$JOB"
check 3 "$MUSTER" segment rm "$JOB"
check 2 "$MUSTER" segment rm a/b
check 2 "$MUSTER" segment rm

start_job 2 sleep 1000
check 0 "$MUSTER" segment list
out_has "^$JOB .* $RUN .*in use"
check 0 "$MUSTER" segment list --names
out_has "^$JOB$"
check 0 "$MUSTER" segment list --json
json_is "[r['creator_pid'] for r in it if r['job'] == '$JOB']" "[$RUN]"
check 0 "$MUSTER" segment info "$JOB" --json
json_is 'it["num_tasks"]' 2
json_is 'it["path"]' "$(segment_file "$JOB")"
json_is 'it["closed"]' false
check 0 "$MUSTER" segment info --job "$(segment_file "$JOB")"
out_has "^job *$JOB$"
"$MUSTER" kv set --job "$JOB" k v
check 0 "$MUSTER" segment check "$JOB" --json
json_is '(it["problems"], it["keys"], it["violations"])' '[0, 1, []]'
check 0 "$MUSTER" segment check "$JOB"
out_has '^sound: '
check 0 "$MUSTER" kv get --job "$(segment_file "$JOB")" k
out_is v

# In use: not without --force.
check 1 "$MUSTER" segment rm "$JOB"
err_has 'in use'
has_segment "$JOB" || fail "it was removed all the same"

# Files that are no segments are listed with the reason, and refused.
for bad in empty zeros noise; do
    name=$JOB.$bad
    case $bad in
    empty) : > "$(segment_file "$name")" ;;
    zeros) head -c 65536 /dev/zero > "$(segment_file "$name")" ;;
    noise) head -c 300000 /dev/urandom > "$(segment_file "$name")" ;;
    esac
    check 0 "$MUSTER" segment list --json
    json_is "[bool(r['problem']) for r in it if r['job'] == '$name']" '[true]'
    check 1 "$MUSTER" status --job "$name"
    err_is_one_line
    check 1 "$MUSTER" segment check "$name"
    check 1 "$MUSTER" kv set --job "$name" k v
    rm -f "$(segment_file "$name")"
done

check 0 "$MUSTER" segment rm --force "$JOB"
no_segment "$JOB" || fail "it is still there"
check 3 "$MUSTER" segment rm "$JOB"
# Its launcher ends the job, and blames the removal, also where a task fails of it.
ended_by_removal()
{
    code=0
    wait $RUN || code=$?
    trap - EXIT
    [ $code -eq 125 ] || fail "exit status $code of a job whose segment was removed"
    cp "$ERR.run" "$ERR"
    err_has "^muster run: the segment of job $JOB was removed by 'muster segment rm --force': ending the job$"
    grep -q "^muster run: task" "$ERR" && fail "a task is blamed"
    none_with_mark "MUSTER_JOB=$JOB" || fail "a task is left"
}
ended_by_removal
for how in yes no; do
    RUN_OPTIONS="--kill-on-fail=$how --restarts 1" start_job 3 sh -c '[ $RANK = 0 ] || exec sleep 1000
        trap "" TERM; exec muster barrier wait b 2> "$0"' "$TMPDIR/waiter"
    waits() { "$MUSTER" barrier list --job "$JOB" 2> /dev/null | grep -q b; }
    await "a task waits" waits
    check 0 "$MUSTER" segment rm --force "$JOB"
    ended_by_removal
    cp "$TMPDIR/waiter" "$ERR"
    err_has "^muster barrier wait: the segment of job $JOB was removed by 'muster segment rm --force' while waiting for barrier b::0$"
done

# Which job? In a folder of our own: those of other tests are out of sight.
export MUSTER_SHM_DIR=$TMPDIR/own
mkdir "$MUSTER_SHM_DIR"
segment_file() { echo "$MUSTER_SHM_DIR/muster-$(id -u)-$1"; }
check 3 "$MUSTER" status
err_has 'this user has no job here'
start_job 1 sleep 1000
check 0 "$MUSTER" kv count
out_is 0
[ "$(cat "$ERR")" = "muster kv count: job $JOB" ] || fail "it did not say which job"
check 0 "$MUSTER" status --json
err_is_empty
"$MUSTER" run -n 1 --job "$JOB-2" sleep 1000 > /dev/null 2>&1 < /dev/null &
second=$!
await "the second job is there" has_segment "$JOB-2"
check 2 "$MUSTER" status
[ "$(cat "$ERR")" = "muster status: which job? --job NAME, one of: $JOB, $JOB-2 (see 'muster status --help')" ] ||
    fail "the jobs are not named in order"
here=" here; there are $JOB, $JOB-2"
for command in 'status --job' 'kv count --job' 'segment info' 'segment check' 'segment rm' 'topo --job'; do
    check 3 "$MUSTER" $command w3
    [ "$(cat "$ERR")" = "muster ${command% --job}: there is no job w3$here" ] || fail "$command w3"
done
check 3 env MUSTER_JOB=w3 "$MUSTER" status
err_has "there is no job w3$here$"
check 125 "$MUSTER" agent --adopt w3
[ "$(cat "$ERR")" = "muster agent: there is no job w3$here" ] || fail "agent --adopt w3"
check 3 "$MUSTER" status --job "$JOB-22"
err_has "there is no job $JOB-22 here; did you mean $JOB-2?$"
kill -TERM $second
wait $second
check 3 "$MUSTER" status --job w3
err_has "there is no job w3 here; there is $JOB$"
kill -TERM $RUN
wait $RUN
check 3 "$MUSTER" status --job w3
err_has 'there is no job w3 here$'

# What is left over of jobs of which nothing lives any more.
for job in "$JOB-2" "$JOB"; do
    "$MUSTER" run --survive --output "$TMPDIR/survivor" --job "$job" sleep 1000 > /dev/null 2>&1 < /dev/null &
    launcher=$!
    await "$job is there" has_segment "$job"
    knows_task() { "$MUSTER" status --job "$job" --json 2> /dev/null | grep -q '"alive":true'; }
    await "the guard knows its task" knows_task
    mapfile -t children < <(pgrep -P $launcher)
    kill -9 $launcher
    wait $launcher
    picks_job() { "$MUSTER" status 2>&1 > /dev/null | grep -qx "muster status: job $job"; }
    await "the guard watches the task that lives, and could be supervised" picks_job
    kill -9 "${children[@]}" # the guard is the first of them, and removes nothing any more
    for pid in "${children[@]}"; do await "$pid is dead" is_gone "$pid"; done
    has_segment "$job" || fail "nothing is left over of $job"
    [ "$job" = "$JOB" ] || left=$job
    check 3 "$MUSTER" status
    if [ "$job" = "$left" ]; then
        [ "$(cat "$ERR")" = "muster status: this user has no job here; $left is left over from one: --job $left \
shows it, 'muster segment rm $left' removes it" ] || fail "one left-over"
    else
        err_has "this user has no job here; $JOB, $left are left over: --job NAME shows one, 'muster segment rm NAME'"
    fi
done
check 0 "$MUSTER" status --job "$left"
check 0 "$MUSTER" segment rm "$JOB" "$left"
check 3 "$MUSTER" status
err_has 'this user has no job here$'
exit 0
