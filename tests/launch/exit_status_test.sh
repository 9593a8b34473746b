#!/bin/bash
# `muster run` exits with the highest status; the first failure ends the job and is named.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run "$@"; }

# What cannot be run.
check 127 run -n 2 no-such-command-$$
err_has "^muster run: no-such-command-$$: command not found$"
err_is_one_line
check 127 run /no/such/file
err_has '^muster run: cannot run /no/such/file: No such file or directory$'
check 127 "$MUSTER" run ''
err_has '^muster run: the command is an empty word$'
check 126 "$MUSTER" run /
err_has '^muster run: cannot run /: Permission denied (it is a directory)$'
printf '#!/no/such/interpreter\n' > "$TMPDIR/script"
chmod 755 "$TMPDIR/script"
check 127 "$MUSTER" run "$TMPDIR/script"
err_has ': No such file or directory (it is there: what is not is its interpreter, or its loader)$'
check 125 bash -c 'ulimit -f 1000000; exec "$@"' - "$MUSTER" run true # of 1 KiB; the heap has 1 GiB
err_has "no file may be as large as the segment .*'ulimit -f'"
check 125 bash -c 'ulimit -f 1; exec "$@"' - "$MUSTER" run true # less than the guard's table
err_has '^muster run: cannot start the guard: guard: File too large$'
check 0 bash -c 'ulimit -f 1000000; exec "$@"' - "$MUSTER" run --heap 64M true
check 126 run /etc/passwd
err_has 'cannot run /etc/passwd: Permission denied'
check 126 run /
check 125 run --chdir /no/such/directory true
err_has 'cannot change to /no/such/directory: No such file'
printf '#!/no/such/interpreter\n' > "$TMPDIR/script"
chmod +x "$TMPDIR/script"
check 127 run "$TMPDIR/script"

# One task, several, none failing.
check 0 run true
err_is_empty
check 1 run false
err_has '^muster run: task 0 (pid [0-9]*) exited with status 1$'
err_is_one_line
check 0 run -n 8 true
check 255 run sh -c 'exit 255'
check 139 run sh -c 'kill -SEGV $$'
err_has 'was killed by signal 11 (SIGSEGV'
check 137 run sh -c 'kill -KILL $$'
check 143 run sh -c 'kill -TERM $$'

# The first failure ends the job at once: the others would sleep for a quarter of an hour.
check 3 run -n 4 sh -c '[ $RANK = 2 ] && exit 3; exec sleep 900'
err_has '^muster run: task 2 (pid [0-9]*) exited with status 3; ending the other 3 tasks$'
err_is_one_line
check 137 run -n 3 sh -c '[ $RANK = 1 ] && kill -KILL $$; exec sleep 900'
err_has '^muster run: task 1 .* was killed by signal 9 (SIGKILL); ending the other 2 tasks$'

# Told to go on: all run to their end, and the highest counts.
check 9 run -n 4 --kill-on-fail=no sh -c 'echo done > '"$TMPDIR"'/end.$RANK; case $RANK in 1) exit 9;; 3) exit 4;; esac'
for i in 0 1 2 3; do [ -e "$TMPDIR/end.$i" ] || fail "task $i did not run to its end"; done
check 143 run -n 2 --kill-on-fail=no sh -c '[ $RANK = 0 ] && exit 9; kill -TERM $$'

# Then the first to fail is named, and at the end, where others failed as well, whose status it is: not those that were
# ended.
last_is() { [ "$(tail -n 1 "$ERR")" = "$1" ] || fail "stderr does not end with: $1"; }
check 7 run -n 3 --kill-on-fail=no sh -c 'echo "I am $RANK" >&2; exit $((RANK * 3 + 1))'
[ "$(grep -c '^muster run: task [0-2] (pid [0-9]*) exited with status [147]$' "$ERR")" -eq 1 ] || fail "not one is named"
last_is "muster run: 3 of 3 tasks failed; the exit status, 7, is task 2's"
check 143 run -n 4 --kill-on-fail=no sh -c 'case $RANK in 0) exit 9;; 1) kill -TERM $$;; 2) exit 143;; esac'
last_is "muster run: 3 of 4 tasks failed; the exit status, 143, is task 1's"
check 5 run -n 3 --kill-on-fail=no sh -c 'exit $((RANK % 2 * 5))'
err_is_one_line
check 3 run -n 2 sh -c '[ $RANK = 1 ] && exit 3; exec sleep 900'
err_is_one_line
check 124 run -n 3 --kill-on-fail=no --timeout 200ms sh -c '[ $RANK = 2 ] && exec sleep 900; exit 4'
! grep -q 'tasks failed' "$ERR" || fail "the status is of the timeout"
check 4 run -n 2 --kill-on-fail=no --restarts 1 --restart-policy task --restart-delay 0 sh -c \
    'exit $((MUSTER_ATTEMPT < 1 || RANK == 1 ? 4 : 0))'
! grep -q 'tasks failed' "$ERR" || fail "the one that went well the second time has failed"

# One that ignores SIGTERM is killed after the grace; one that is stopped gets to act on it.
check 5 run -n 2 --grace 50ms sh -c 'cd "$0"; if [ $RANK = 0 ]; then
        until [ -e deaf ]; do :; done; exit 5
    fi; trap "" TERM; : > deaf; while :; do :; done' "$TMPDIR"
check 6 run -n 2 --grace 10m bash -c 'cd "$0"; if [ $RANK = 0 ]; then
        until [ -s stopping ] && grep -q "^State:.*T (stopped)" /proc/$(cat stopping)/status; do :; done; exit 6
    fi; trap "echo heard > heard; exit 1" TERM; echo $$ > stopping; kill -STOP $$; while :; do :; done' "$TMPDIR"
[ -s "$TMPDIR/heard" ] || fail "the stopped task did not hear SIGTERM"

# Time is up.
check 124 run -n 2 --timeout 100ms sleep 900
err_has '^muster run: timed out after 0.1 s with 2 of 2 tasks running: ending the job$'
check 0 run -n 2 --timeout 10m true
exit 0
