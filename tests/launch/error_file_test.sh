#!/bin/bash
# TORCHELASTIC_ERROR_FILE: the exception that a task has written there, as torch.distributed.elastic's @record does, is
# said with its end; of several that have, the one that raised first is the root cause. No such file stays.
. "$(dirname "$0")/../cli/common.sh"
export RSH_WITHOUT=WILL # of our environment
. "$(dirname "$0")/three_hosts.sh"
run() { "$MUSTER" run --job "$JOB" "$@"; }
PROGRAM='
raises() { # as PyTorch writes it
    until [ -d "${TORCHELASTIC_ERROR_FILE%/*}" ]; do :; done
    printf "{\"message\": {\"message\": \"%s\", \"extraInfo\": {\"py_callstack\": \"Traceback\\\\n\", \"timestamp\": \"1\"}}}" \
        "$1" > "$TORCHELASTIC_ERROR_FILE.new" && mv "$TORCHELASTIC_ERROR_FILE.new" "$TORCHELASTIC_ERROR_FILE"
}
file_of() { echo "${TORCHELASTIC_ERROR_FILE%/*}/error-$1-0.json"; }
written() { until [ -s "$(file_of $1)" ]; do :; done; }
'
raises() { run "${@:1:$#-1}" -- bash -c "$PROGRAM ${*: -1}"; }
no_file() { ! ls -d /dev/shm/mpi-muster-* 2> /dev/null || fail "a folder is left"; }

check 7 raises -n 2 '[ $RANK = 0 ] && { written 1; exec sleep 900; }; raises "ValueError: the loss is \\\"nan\\\" \\u00e4"; exit 7'
err_has '^muster run: task 1 (pid [0-9]*) exited with status 7: ValueError: the loss is "nan" ä; ending the other 1 task$'
check 134 raises -n 1 'raises "RuntimeError: out of luck"; ulimit -c 0; kill -ABRT $$'
err_has '^muster run: task 0 (pid [0-9]*) was killed by signal 6 (SIGABRT): RuntimeError: out of luck$'

# Task 1 raises first, and is still on its way out when task 0, which failed for it, has ended.
check 3 raises -n 2 'if [ $RANK = 1 ]; then raises "KeyError: mine"; exec sleep 900; fi
    written 1; sleep 0.05; raises "ConnectionError: peer closed"; exit 3' # sleep: files have their time by the clock tick
err_has "^muster run: task 1 (pid [0-9]*) failed: KeyError: mine$"

# Who has written nothing is not blamed for it, nor is another in its place.
check 3 raises -n 2 '[ $RANK = 0 ] || { raises "KeyError: mine"; exec sleep 900; }; written 1; exit 3'
err_has '^muster run: task 0 (pid [0-9]*) exited with status 3; ending the other 1 task$'
check 0 raises -n 1 'raises "KeyError: caught"'
err_is_empty
check 5 raises -n 1 'raises "" && printf "{\"message\": [" > $TORCHELASTIC_ERROR_FILE; exit 5'
err_has '^muster run: task 0 (pid [0-9]*) exited with status 5$'
no_file

# Each attempt has its own; so has each host.
check 4 raises -n 1 --restarts 1 --restart-delay 0s '[ -e $TORCHELASTIC_ERROR_FILE ] && exit 9; raises "E: $MUSTER_ATTEMPT"; exit 4'
err_has 'exited with status 4: E: 0'
err_has 'exited with status 4: E: 1$'
check 4 raises -n 1 --restarts 1 --restart-delay 0s --restart-policy task '[ -e $TORCHELASTIC_ERROR_FILE ] && exit 9; raises "E: $MUSTER_ATTEMPT"; exit 4'
err_has 'exited with status 4: E: 0; starting it again'
err_has 'exited with status 4: E: 1$'
check 6 raises --rsh "$TMPDIR/rsh" --hosts localhost:1,b:1 '[ $RANK = 0 ] && exec sleep 900; raises "OSError: far"; exit 6'
err_has '^muster run: task 1 (host b, pid [0-9]*) exited with status 6: OSError: far; ending the other 1 task$'
check 8 raises --mpi none -n 1 'raises "E: without MPI"; exit 8'
err_has ': E: without MPI$'
no_file

# Nor does one stay when the launcher is killed.
"$MUSTER" run --job "$JOB" --mpi none -- bash -c "$PROGRAM raises E; echo up; exec sleep 900" > "$OUT" 2> "$ERR" &
RUN=$!
up() { grep -q up "$OUT"; }
await "the task has written" up
kill -KILL $RUN
gone() { ! ls -d /dev/shm/mpi-muster-* > /dev/null 2>&1; }
await "the guard has removed the folder" gone
exit 0
