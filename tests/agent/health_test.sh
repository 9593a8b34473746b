#!/bin/bash
# Errors of GPUs become errors of the tasks that compute on them. The NVML is our fake one, no GPU is asked; the jobs are
# real ones.
# timeout: 240
. "$(dirname "$0")/../cli/common.sh"

MEMBER=$BUILD/tests/launch/member WORKER=$BUILD/tests/cli/worker
export MUSTER_NVML=$BUILD/tests/topology/libfake_nvml.so
export MUSTER_FAKE_NVML=$TMPDIR/facts MUSTER_FAKE_NVML_EVENTS=$TMPDIR/events
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER MUSTER_GPUS

gpus() # gpus [MORE FACTS OF THE SECOND]: two that are alike
{
    printf '%s\n' 'gpu 0000:5d:00.0' 'name NVIDIA H100' 'uuid GPU-11111111-aaaa' 'memory 1000000' \
        'gpu 0000:5e:00.0' 'name NVIDIA H100' 'uuid GPU-22222222-bbbb' 'memory 1000000' "$@" > "$MUSTER_FAKE_NVML"
}
gpus

# launch OPTIONS -- the rest of `muster run`: in the background, as $RUN, with no event yet.
launch()
{
    : > "$MUSTER_FAKE_NVML_EVENTS"
    rm -f "$MUSTER_FAKE_NVML_EVENTS.at"
    "$MUSTER" run --job "$JOB" "$@" > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
    there() { has_segment "$JOB" || is_gone "$RUN"; } # a short one may have ended before we look
    await "the job is there" there
}
event() { echo "$1" >> "$MUSTER_FAKE_NVML_EVENTS"; }
says() { grep -qe "$1" "$ERR"; }
ends() # ends STATUS: the launcher, with it
{
    local got=0
    wait "$RUN" || got=$?
    trap - EXIT
    [ $got -eq "$1" ] || fail "the job ended with $got, not $1"
    no_segment "$JOB" || fail "a segment is left"
}
stop() { kill -TERM "$RUN"; ends 143; }
watchers()
{
    local file
    for file in $(grep -lzxF muster-health /proc/[0-9]*/cmdline 2> /dev/null); do
        grep -qE "^PPid:[[:space:]]+$RUN$" "${file%cmdline}status" 2> /dev/null && echo "${file//[^0-9]/}"
    done
}
watched() { [ -n "$(watchers)" ]; }

two() # two COMMAND...: two tasks, each with a GPU of its own
{
    launch "${OPTIONS[@]}" -n 1 --env CUDA_VISIBLE_DEVICES=0 "$@" : -n 1 --env CUDA_VISIBLE_DEVICES=GPU-2222 "$@"
}
OPTIONS=()

# The task that computes on it is in error, the job ends.
two "$WORKER" stay sleep
await "both have joined" connected 2
await "somebody watches" watched
WATCHER=$(watchers)
event '1 8 79'
ends 143 # task 1 ended as it was told to
err_has '^muster run: GPU 0000:5e:00.0 fell off the bus (Xid 79); task 1 computes on it$'
err_has '^muster run: task 1 (pid [0-9]*) was killed by signal 15 (SIGTERM) after its GPU had failed'
is_gone "$WATCHER" || fail "the watcher is left"

# Without that, the peers learn of it, and status shows it.
OPTIONS=(--kill-on-fail=no)
two "$MEMBER" stay
await "both have joined" connected 2
event '1 8 79'
ends 7
err_has '^member: .*task 1 .*GPU 0000:5e:00.0 fell off the bus (Xid 79)'
two "$WORKER" stay sleep
await "both have joined" connected 2
event '0 2 0'
status_says() { "$MUSTER" status --job "$JOB" 2> /dev/null | grep -q "$1"; }
await "status shows it" status_says 'task 0 .*GPU 0000:5d:00.0 lost data: an error of two bits'
event '0 8 95' # it has failed already: nothing more is said of it
event '1 8 31'
await "the next is said" says '^muster run: GPU 0000:5e:00.0 stopped a program that touched memory .* (Xid 31): a program'
if says 'Xid 95'; then fail "the same GPU's next error is said, too"; fi
stop

# What is a program's error, or not known, is said once; the job goes on, and so it does after an error of another's GPU.
OPTIONS=()
two "$WORKER" stay sleep
event '1 8 13'
event '1 8 13'
event '1 8 63'
event '1 8 999'
event '1 8 999'
event '1 4 0' # nobody asked for these
event '1 8 92'
await "all are said" says 'GPU 0000:5e:00.0 corrects more errors .* (Xid 92)'
err_has 'GPU 0000:5e:00.0 reported an error (Xid 999); what that means is not known'
[ "$(grep -c 'Xid 999)' "$ERR")" -eq 1 ] || fail "Xid 999 is not said once"
[ "$(grep -c 'Xid 13)' "$ERR")" -eq 1 ] || fail "Xid 13 is not said once"
err_has 'Xid 63): the job goes on'
connected 2 || fail "a task is in error"
stop
launch -n 2 --env CUDA_VISIBLE_DEVICES=1 "$WORKER" stay sleep
event '0 8 79'
await "that is said" says 'GPU 0000:5d:00.0 fell off the bus (Xid 79); no task of this job computes on it'
stop

# Nobody says who computes on it: everybody may.
launch -n 3 "$WORKER" stay sleep
await "all have joined" connected 3
event '0 8 48'
ends 143
err_has 'Xid 48); which tasks compute on it is not known (CUDA_VISIBLE_DEVICES does not tell): tasks 0, 1, 2$'
gpus 'capability 9 0'
sed -i '0,/H100/s//A100/' "$MUSTER_FAKE_NVML" # now CUDA may count them in another order
launch -n 2 --env CUDA_VISIBLE_DEVICES=1 sleep 1000
event '0 8 48'
ends 143
err_has 'which tasks compute on it is not known .*: tasks 0, 1$'
launch -n 2 --env CUDA_VISIBLE_DEVICES=1 --env CUDA_DEVICE_ORDER=PCI_BUS_ID sleep 1000
event '0 8 48'
event '1 8 61'
ends 143
err_has 'no task of this job computes on it'
err_has 'GPU 0000:5e:00.0 .*Xid 61); tasks 0, 1 compute on it'

# Parts: of the two tasks on one GPU, the error of the GPU concerns both, that of one part one.
gpus 'slots 2' 'mig 0 MIG-aaaa 7 0 16 1 1 1000' 'mig 1 MIG-bbbb 8 0 16 1 1 1000'
launch -n 1 --env CUDA_VISIBLE_DEVICES=MIG-aaaa sleep 1000 : -n 1 --env CUDA_VISIBLE_DEVICES=MIG-bbbb sleep 1000
event '1 8 94'
ends 143
err_has 'tasks 0, 1 compute on it'
launch --kill-on-fail=no -n 1 --env CUDA_VISIBLE_DEVICES=MIG-aaaa sleep 1000 : -n 1 --env CUDA_VISIBLE_DEVICES=MIG-bbbb sleep 1000
event '1 8 94 8'
await "one part's error is said" says 'GPU 0000:5e:00.0 .*Xid 94); task 1 computes on it$'
event '1 8 95 7'
await "and the other's" says 'GPU 0000:5e:00.0 .*Xid 95); task 0 computes on it$'
event '1 8 48' # of all of it
await "and the GPU's" says 'GPU 0000:5e:00.0 .*Xid 48); tasks 0, 1 compute on it$'
stop
gpus

# It is lost: the wait says only that some GPU is.
two sleep 1000
event 'lost 1'
ends 143
err_has 'GPU 0000:5e:00.0 is gone: .*; task 1 computes on it'
gpus 'fail nvmlDeviceGetMemoryInfo 15' # found by asking
two sleep 1000
ends 143
err_has 'GPU 0000:5e:00.0 is gone: '
gpus

# Tasks that end well when they are told to do not make a good job of it.
two bash -c 'trap "exit 0" TERM; : > "$0.$MUSTER_TASK_ID"; while :; do sleep 0.05; done' "$TMPDIR/ready"
await "both have begun" eval '[ -e "$TMPDIR/ready.0" ] && [ -e "$TMPDIR/ready.1" ]'
event '1 8 79'
ends 1
err_has 'task 1 (pid [0-9]*) exited with status 0 after its GPU had failed'

# That tasks are being ended makes GPUs report things, of which nothing is said.
two bash -c 'trap ": > \"$0.told.$MUSTER_TASK_ID\"" TERM; : > "$0.$MUSTER_TASK_ID"; until [ -e "$0.go" ]; do sleep 0.05; done' "$TMPDIR/end"
await "both have begun" eval '[ -e "$TMPDIR/end.0" ] && [ -e "$TMPDIR/end.1" ]'
await "somebody watches" watched
kill -TERM "$RUN"
await "both are told to end" eval '[ -e "$TMPDIR/end.told.0" ] && [ -e "$TMPDIR/end.told.1" ]'
event '1 8 79'
delivered() { [ "$(tr -d '\0' < "$MUSTER_FAKE_NVML_EVENTS.at" | wc -c)" -gt 0 ]; }
await "the event is delivered" delivered
: > "$TMPDIR/end.go"
ends 143
if says 'Xid 79'; then fail "an error is said of a job that is being ended"; fi

# Starting again: the job, or the task.
OPTIONS=(--restarts 1 --restart-delay 0)
two bash -c '[ $MUSTER_ATTEMPT = 1 ] || exec sleep 1000'
event '1 8 79'
ends 0
err_has 'starting the job again'
OPTIONS=(--restarts 1 --restart-policy task --restart-delay 0)
two bash -c '[ $MUSTER_ATTEMPT = 1 ] || exec sleep 1000'
event '1 8 79'
await "task 1 is started again" says 'task 1 (pid .*starting it again'
if says 'task 0 (pid'; then fail "task 0 is started again, too"; fi
stop
OPTIONS=()

# A library that crashes, hangs, or does not start does not concern the job.
two "$WORKER" stay sleep
await "both have joined" connected 2
event 'crash'
await "that is said" says 'GPUs are not watched any more: the process that did has ended'
connected 2 || fail "a task is in error"
stop
two sleep 1000
await "somebody watches" watched
event 'hang'
stop
for trouble in 'hang nvmlInitWithFlags' 'crash nvmlInitWithFlags' 'fail nvmlInitWithFlags 9' 'crash nvmlDeviceGetUUID' \
    'fail nvmlEventSetCreate 3' 'events 0'; do
    gpus "$trouble"
    [[ $trouble != *Init* ]] || echo "$trouble" > "$MUSTER_FAKE_NVML"
    launch -n 2 sleep 0.2 # sleep: a task that does not know of GPUs
    ends 0
    err_is_empty
done
gpus 'fail nvmlEventSetWait_v2 999' # not that it was ever well
launch -n 1 sleep 1000
stop

# Nobody watches where there is nothing to be watched; who does dies with the launcher.
for nothing in 'MUSTER_NVML=' 'CUDA_VISIBLE_DEVICES='; do
    (export "$nothing"; exec "$MUSTER" run --job "$JOB" sleep 1000 > "$OUT" 2> "$ERR" < /dev/null) &
    RUN=$!
    trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
    await "the task runs" eval '[ -n "$(with_mark "MUSTER_JOB=$JOB")" ]'
    sleep 0.2 # sleep: in which a watcher would come; there is nothing else to wait for
    if watched; then fail "somebody watches with $nothing"; fi
    stop
done
gpus
two sleep 1000
await "somebody watches" watched
WATCHER=$(watchers)
kill -KILL "$RUN"
wait "$RUN" 2> /dev/null
await "the watcher is gone" is_gone "$WATCHER"
await "nothing is left" no_segment "$JOB"

# Who adopts a job watches, too.
OPTIONS=(--survive)
two "$WORKER" stay sleep
await "both have joined" connected 2
kill -KILL "$RUN"
wait "$RUN" 2> /dev/null
await "the guard says so" says "takes them over"
"$MUSTER" agent --adopt "$JOB" > "$OUT" 2> "$ERR" < /dev/null &
RUN=$!
await "the job is adopted" says "adopted: 2 of 2 tasks are running"
event '0 8 79'
ends 1
err_has '^muster agent: GPU 0000:5d:00.0 fell off the bus (Xid 79); task 0 computes on it$'
exit 0
