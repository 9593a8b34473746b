#!/bin/bash
# mu-guard sleeps until the launcher is killed, then is the guard: whatever has become of the files meanwhile. Where
# it cannot be started, or others could have put it there, the guard is forked.
. "$(dirname "$0")/../cli/common.sh"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
HERE="$TMPDIR/a folder"
mkdir "$HERE"
[ -x "$(dirname "$MUSTER")/mu-guard" ] || skip "this machine's launchers fork their guards"

guards() { for p in $(with_mark "$MARK"); do
    [ "$(cat "/proc/$p/comm" 2> /dev/null)" = mu-guard ] && echo "$p"; done; }
has_guard() { [ "$(guards | wc -l)" -eq 1 ] && [ "$(readlink "/proc/$(guards)/exe")" = "$(realpath "$1")" ]; }
running() { [ "$(with_mark "$MARK" | wc -l)" -ge 5 ]; } # two tasks, a child each, the launcher

# begin PROGRAM: a job of the copy, whose guard becomes PROGRAM.
begin()
{
    "$HERE/muster" run -n 2 --job "$JOB" sh -c 'setsid sleep 1000 & exec sleep 1000' > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    disown $RUN # the shell need not say that it was killed
    await "all are running" running
    await "the guard is $1" has_guard "$1"
    has_segment "$JOB" || fail "no segment"
}
nothing_left()
{
    await "no process is left" none_with_mark "$MARK"
    await "no segment is left" no_segment "$JOB"
    err_has "the launcher of job $JOB (pid $RUN) was killed: its tasks are ended, its segment is removed"
}
copy()
{
    rm -rf "${HERE:?}"/*
    cp "$MUSTER" "$(dirname "$MUSTER")/mu-guard" "$HERE/"
    chmod 755 "$HERE/mu-guard" # whatever the umask is
}

copy
begin "$HERE/mu-guard"
[ "$(awk '/VmRSS/ { print $2 }' "/proc/$(guards)/status")" -le 64 ] || fail "it sleeps in $(grep VmRSS "/proc/$(guards)/status")"
kill -TERM "$(guards)"; kill -HUP "$(guards)" # not to be talked out of it
kill -KILL $RUN
nothing_left

# Both files are other ones by then, and then none: a new version was installed.
copy
begin "$HERE/mu-guard"
guard=$(guards)
for file in muster mu-guard; do
    printf '#!/bin/sh\nexit 9\n' > "$HERE/new"
    chmod 755 "$HERE/new"
    mv "$HERE/new" "$HERE/$file"
done
kill -STOP "$guard" # SIGKILL to the launcher comes while it cannot run
kill -KILL $RUN
rm "$HERE/muster" "$HERE/mu-guard"
kill -CONT "$guard"
nothing_left

# One that ends is followed by one that is forked; so is one that cannot be exec'ed.
copy
begin "$HERE/mu-guard"
kill -KILL "$(guards)"
await "another is there" has_guard "$HERE/muster"
kill -KILL $RUN
nothing_left
copy
printf 'no program' > "$HERE/mu-guard"
begin "$HERE/muster"
kill -KILL $RUN
nothing_left

# With few descriptors for itself, which the launcher may raise, it could not start a program: it is forked, and has enough.
copy
(
    ulimit -S -n 7
    begin "$HERE/muster"
    kill -KILL $RUN
    echo $RUN > "$TMPDIR/run"
) || exit 1
RUN=$(cat "$TMPDIR/run")
nothing_left

# One that others may write is not ours.
copy
chmod g+w "$HERE/mu-guard"
begin "$HERE/muster"
kill -KILL $RUN
nothing_left

# No task begins before that: the guard of a task that looks for it is one, however slow its exec.
copy
for i in 1 2 3 4 5 6 7 8 9 10; do
    "$HERE/muster" run --job "$JOB" sh -c 'for p in $(cat /proc/$PPID/task/$PPID/children); do readlink /proc/$p/fd/3; done; true' > "$OUT" 2> "$ERR" < /dev/null ||
        fail "the job failed"
    [ "$(grep -c "^/memfd:mu-guard" "$OUT")" -eq 1 ] || fail "its task saw no guard"
done

# A kernel may seal memory files of itself: the table is the guard's all the same.
copy
if unshare --pid --fork --mount-proc sh -c 'echo 1 > /proc/sys/vm/memfd_noexec' 2> /dev/null; then
    unshare --pid --fork --mount-proc --kill-child bash -c 'echo 1 > /proc/sys/vm/memfd_noexec
        "$1" run -n 2 --job "$2" sh -c "setsid sleep 1000 & exec sleep 1000" > /dev/null 2>&1 < /dev/null &
        until [ -e "$3" ] && [ "$(pgrep -cx sleep)" -ge 4 ]; do sleep 0.02; done # sleep: between two looks
        kill -KILL $! && disown $!
        until [ ! -e "$3" ] && ! pgrep -x sleep; do sleep 0.02; done > /dev/null # sleep: likewise
    ' - "$HERE/muster" "$JOB" "$(segment_file "$JOB")" &
    NEST=$!
    trap 'kill -KILL $NEST; rm -f "$(segment_file "$JOB")"' EXIT
    has_ended() { ! kill -0 $NEST 2> /dev/null; }
    await "the guard has done its work where vm.memfd_noexec is 1" has_ended
    trap - EXIT
    wait $NEST || fail "in a namespace of processes it failed"
fi

# As it is installed.
copy
mkdir "$HERE/bin" "$HERE/lib" "$HERE/lib/muster"
mv "$HERE/muster" "$HERE/bin/"
mv "$HERE/mu-guard" "$HERE/lib/muster/"
OLD=$HERE
HERE="$HERE/bin"
begin "$OLD/lib/muster/mu-guard"
kill -KILL $RUN
nothing_left

# Started by somebody else, either says what it is.
code=0
said=$("$OLD/lib/muster/mu-guard" 2>&1 4<&- < /dev/null) || code=$?
[ $code -eq 2 ] && [[ $said == "mu-guard: this is started by 'muster run'"* ]] || fail "alone it says, with status $code: $said"
code=0
said=$(exec -a mu-guard "$MUSTER" 2>&1 < /dev/null) || code=$?
[ $code -eq 2 ] && [[ $said == "mu-guard: this is started by 'muster run'"* ]] || fail "by its name: $code, $said"
exit 0
