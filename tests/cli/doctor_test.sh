#!/bin/bash
# `muster doctor`: what it says of this machine, and of one that lacks something: small limits, a /dev/shm that is
# read-only, tiny, not ours or a container's, no /proc, libraries that are broken in each way that they can be.
# timeout: 180
. "$(dirname "$0")/common.sh"

# fact TOPIC NAME: its mark and text.
fact() { json "(lambda f: (f['mark'] + ': ' + f['text']) if f else '')(([f for f in it['facts'] if (f['topic'], f['name']) == ('$1', '$2')] or [None])[0])"; }
mend() { json "[f['mend'] for f in it['facts'] if (f['topic'], f['name']) == ('$1', '$2')][0] or ''"; }
# fact_has TOPIC NAME PATTERN: that it begins with a mark and matches.
fact_has() { fact "$1" "$2" | grep -qe "^$3" || fail "$1, $2: '$(fact "$1" "$2")' is not: $3"; }
mend_has() { mend "$1" "$2" | grep -qe "$3" || fail "$1, $2: to mend: '$(mend "$1" "$2")' is not: $3"; }
sound() # each document: the counts are right, only what is not ok is to be mended, the exit status says it
{
    json_is "[[len([f for f in it['facts'] if f['mark'] == m]) for m in ('ok', 'note', 'problem')] == [it['ok'], it['notes'], it['problems']],
        [f for f in it['facts'] if not f['text'] or (f['mark'] == 'ok' and f['mend'])]]" '[true, []]'
}
# doctor STATUS COMMAND...: its JSON under that command.
doctor()
{
    check "$@" doctor --json
    err_is_empty
    sound
}

# This machine. The tests run here, so nothing prevents muster from working.
doctor 0 "$MUSTER"
json_is 'sorted(it)' '["facts", "notes", "ok", "problems", "version"]'
json_is 'it["problems"]' 0
for name in kernel pidfd_open clone memfd 'robust futexes'; do
    fact_has kernel "$name" 'ok: .'
done
fact_has kernel kernel "ok: $(uname -s) $(uname -r) "
fact_has clock clock '[on].*: clock_gettime takes [0-9]* ns'
fact_has shm segment '[on]' # a note where the tests run with a small /dev/shm
fact_has processors processors ".*$(nproc)"
fact_has limits 'open files' ".*$(ulimit -Hn)"
fact_has openssl OpenSSL 'ok: OpenSSL 3'
fact_has pci GPUs '[on]'
check 0 "$MUSTER" doctor
[ "$(grep -cE '^(ok|note) +[a-zA-Z]' "$OUT")" -eq $(($(wc -l < "$OUT") - 1)) ] || fail "not one line a fact"
tail -n 1 "$OUT" | grep -qE '^0 problems, [0-9]+ notes?: muster works here$' || fail "the last line"
if grep -q $'\033' "$OUT"; then fail "colours where there is no terminal"; fi
if command -v script > /dev/null; then
    TERM=xterm NO_COLOR='' script -qec "'$MUSTER' doctor" /dev/null > "$OUT" < /dev/null
    grep -q $'^\033\\[32mok' "$OUT" || fail "no colours on a terminal"
    TERM=xterm NO_COLOR=1 script -qec "'$MUSTER' doctor" /dev/null > "$OUT" < /dev/null
    if grep -q $'\033' "$OUT"; then fail "colours in spite of NO_COLOR"; fi
else
    echo "not tested: colours (there is no script(1))"
fi
none_of_doctor() { ! ls /dev/shm | grep -q 'doctor-[0-9]'; } # another doctor may be at work here
await "no segment of a doctor is left" none_of_doctor

# Limits of the user.
doctor 1 bash -c 'ulimit -n 40; exec "$@"' - "$MUSTER"
fact_has limits 'open files' 'problem: 40 '
mend_has limits 'open files' 'ulimit -Hn'
doctor 0 bash -c 'ulimit -n 100; exec "$@"' - "$MUSTER"
fact_has limits 'open files' 'note: 100 .* 36 tasks'
doctor 1 bash -c 'ulimit -f 10; exec "$@"' - "$MUSTER" # its own output is shorter
fact_has limits 'file size' 'problem: 10240 '
fact_has shm segment 'problem: no file may be as large as the segment'
mend_has limits 'file size' 'ulimit -f'
if [[ $VARIANT != asan* ]]; then # which needs terabytes of addresses
    start_job 1 sleep 1000
    doctor 1 bash -c 'ulimit -v 500000; exec "$@"' - "$MUSTER"
    fact_has limits 'virtual memory' 'note: 0.48 GiB'
    fact_has shm segment 'problem: .*Cannot allocate memory'
    fact_has shm 'memfd segment' 'problem: .*Cannot allocate memory'
    if grep -q "muster segment rm[^\"]* $JOB" "$OUT"; then fail "a segment that it cannot map is to be removed"; fi
    await "nothing is left that could not be mapped" none_of_doctor
    kill -TERM "$RUN"
    wait "$RUN"
fi
if [ "$(nproc)" -gt 1 ]; then
    doctor 0 taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$MUSTER"
    fact_has processors processors 'note: 1 of '
fi

# A job whose launcher and guard are gone: left over.
start_job 1 sleep 1000
guard() { grep -lzxF mu-guard /proc/[0-9]*/cmdline 2> /dev/null | tr -dc '0-9\n' |
    while read -r pid; do grep -qE "^PPid:[[:space:]]+$RUN$" "/proc/$pid/status" 2> /dev/null && echo "$pid"; done; }
await "the guard is there" eval '[ -n "$(guard)" ]'
GUARD=$(guard)
await "the job lives" eval '"$MUSTER" doctor --json > "$OUT"; [[ $(fact segments jobs) = "ok: "[1-9]* ]]'
kill -STOP "$GUARD"
kill -KILL "$RUN"
wait "$RUN" 2> /dev/null
left_over() # it, whatever other tests leave meanwhile
{
    "$MUSTER" doctor --json > "$OUT"
    [[ $(fact segments 'left over') = *'of dead jobs'* ]] && mend segments 'left over' | grep -q "^muster segment rm.* $JOB\( \|$\)"
}
await "it is left over" left_over
kill -CONT "$GUARD"
await "the guard has removed it" no_segment "$JOB"
: > "$(segment_file "$JOB")"
doctor 0 "$MUSTER"
json_is "[(f['mark'], f['mend'].endswith('muster segment rm $JOB')) for f in it['facts'] if f['name'] == 'segment' and f['text'].startswith('job $JOB: ')]" \
    '[["note", true]]'
rm -f "$(segment_file "$JOB")"

# Libraries: no library at all, one that crashes, ends the process, hangs, is another, is of another version.
LIB=$TMPDIR/lib
mkdir -p "$LIB"
with_hwloc() # with_hwloc TEXT: compiled as libhwloc.so.15
{
    echo "$1" | "${CC:-gcc}" -x c -shared -fPIC -o "$LIB/libhwloc.so.15" - || fail "cannot compile: $1"
    doctor 0 env LD_LIBRARY_PATH="$LIB" "$MUSTER"
}
echo "no library" > "$LIB/libhwloc.so.15"
doctor 0 env LD_LIBRARY_PATH="$LIB" "$MUSTER"
fact_has hwloc hwloc 'note: cannot be loaded: .*libhwloc.so.15: '
mend_has hwloc hwloc LD_LIBRARY_PATH
with_hwloc '#include <signal.h>
    #include <unistd.h>
    __attribute__((constructor)) static void start(void) { kill(getpid(), SIGKILL); }'
fact_has hwloc hwloc 'note: looking at it kills the process: Killed'
with_hwloc '#include <unistd.h>
    __attribute__((constructor)) static void start(void) { write(1, "noise", 5); write(2, "noise", 5); _exit(0); }'
fact_has hwloc hwloc 'note: looking at it ends the process with status 0'
with_hwloc '#include <unistd.h>
    __attribute__((constructor)) static void start(void) { for (;;) pause(); }'
fact_has hwloc hwloc 'note: no answer within 5 s'
# One that closes what it finds and hangs, or leaves a child behind: neither holds doctor up, nor is it said of the other.
with_hwloc '#include <unistd.h>
    __attribute__((constructor)) static void start(void) { for (int i = 3; i < 200; i++) close(i); for (;;) pause(); }'
fact_has hwloc hwloc 'note: no answer within 5 s'
with_hwloc '#include <unistd.h>
    unsigned hwloc_get_api_version(void) { if (fork() == 0) { sleep(8); _exit(0); } return 0x20000; }'
fact_has hwloc hwloc 'ok: API 2.0'
if grep -q 'no answer' "$OUT"; then fail "a child of a library was waited for"; fi
# One that writes over what lies in shared memory costs its own line, not doctor.
with_hwloc '#include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    __attribute__((constructor)) static void start(void)
    {
        FILE *maps = fopen("/proc/self/maps", "r");
        unsigned long from, to;
        char line[512], mode[8];
        while (fgets(line, sizeof line, maps))
            if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[3] == 0x73 && mode[1] == 0x77)
                memset((void *)from, 0xff, to - from);
        abort();
    }'
fact_has hwloc hwloc 'note: looking at it kills the process: Aborted'

# NCCL is found as jobs find it.
doctor 0 env MUSTER_NCCL_LIBRARY="$LIB/nothing" "$MUSTER"
fact_has nccl NCCL 'note: MUSTER_NCCL_LIBRARY names no library .*nothing: cannot open'
mend_has nccl NCCL 'unset MUSTER_NCCL_LIBRARY'
echo 'int ncclGetVersion(int *version) { *version = 22809; return 0; }
    int ncclGetUniqueId(void *id) { return id == 0; }
    const char *ncclGetErrorString(int error) { return error ? "?" : ""; }' |
    "${CC:-gcc}" -x c -shared -fPIC -o "$LIB/fake_nccl.so" - || fail "cannot compile"
doctor 0 env MUSTER_NCCL_LIBRARY="$LIB/fake_nccl.so" "$MUSTER"
fact_has nccl NCCL "ok: 2.28.9, $LIB/fake_nccl.so"
echo 'int x;' | "${CC:-gcc}" -x c -shared -fPIC -o "$LIB/libnccl.so.2" - || fail "cannot compile"
doctor 0 env LD_LIBRARY_PATH="$LIB" "$MUSTER"
fact_has nccl NCCL 'note: the library has no ncclGetVersion(): it is no libnccl'
rm "$LIB/libnccl.so.2"

with_hwloc 'int x;'
fact_has hwloc hwloc 'note: the library has no hwloc_get_api_version'
with_hwloc 'unsigned hwloc_get_api_version(void) { return 0x10b00; }'
fact_has hwloc hwloc 'note: API 1.11, but'

echo 'int x;' | "${CC:-gcc}" -x c -shared -fPIC -o "$LIB/libssl.so.3" - || fail "cannot compile"
doctor 0 env LD_LIBRARY_PATH="$LIB" "$MUSTER"
fact_has openssl OpenSSL 'note: the library has no OpenSSL_version'
rm "$LIB/libssl.so.3"

# Another folder for segments: what mends it is said of that one.
doctor 1 env MUSTER_SHM_DIR="$TMPDIR/there-is-none" "$MUSTER"
fact_has shm mounted 'problem: .*/there-is-none: '
mend_has shm mounted 'mkdir -p .*/there-is-none .*tmpfs .*/there-is-none$'

# What only root can take away.
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2> /dev/null; then
    echo "not tested: odd mounts and control groups (may not mount here)"
    exit 0
fi
in_shm() # in_shm OPTIONS STATUS COMMAND...: with such a tmpfs on /dev/shm
{
    local options=$1 status=$2
    shift 2
    doctor "$status" unshare --mount sh -c 'mount -t tmpfs -o "$0" doctor /dev/shm && exec "$@"' "$options" "$@" "$MUSTER"
}
in_shm ro 1
fact_has shm mounted 'problem: /dev/shm is read-only'
mend_has shm mounted remount,rw
fact_has shm segment 'problem: .*Read-only'
in_shm size=64k 0
fact_has shm size 'note: 0.[01] MiB of 0.1 MiB free'
fact_has shm segment 'note: does not fit'
fact_has shm 'memfd segment' 'ok: '
in_shm size=64m 0
fact_has shm size 'note: 64 MiB, .*what containers have by default'
mend_has shm size '--shm-size='
in_shm mode=777,noexec,size=1g 0
fact_has shm 'sticky bit' 'note: '
fact_has shm mounted 'ok: .*noexec: no matter'
in_shm mode=1777,nr_inodes=9,size=1g 0
fact_has shm inodes 'note: '
if muster_for 65534; then
    MUSTER=$THEIRS in_shm mode=755 1 setpriv --reuid=65534 --clear-groups
    fact_has shm mounted 'problem: /dev/shm may not be written by user 65534'
fi
doctor 0 unshare --mount sh -c 'mount -t tmpfs none /sys && exec "$@"' - "$MUSTER"
fact_has processors 'NUMA nodes' 'ok: one, '
fact_has pci GPUs 'ok: no PCI bus'
if [[ $VARIANT != asan* ]]; then # which reads /proc itself
    doctor 1 unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' - "$MUSTER"
    fact_has limits proc 'problem: '
fi
check 0 unshare --uts sh -c 'hostname no-such-host.invalid && exec "$@"' - "$MUSTER" doctor --json
sound
[[ $(fact host 'host name') = 'note: no-such-host.invalid has no address'*': muster goes by this host'* || $(fact host host) = 'note: no answer within'* ]] ||
    fail "a host without an address: $(fact host 'host name')"

# A control group with few processes. Version 1 or 2, where this test may make one.
for root in /sys/fs/cgroup/pids /sys/fs/cgroup /sys/fs/cgroup/unified; do
    group=$root/muster-$JOB
    mkdir "$group" 2> /dev/null || continue
    trap 'rmdir "$group"' EXIT
    if [ -e "$group/pids.max" ] && echo 60 > "$group/pids.max"; then
        doctor 0 bash -c 'echo $BASHPID > "$0/cgroup.procs"; exec "$@"' "$group" "$MUSTER"
        fact_has limits 'control group' 'note: [1-9][0-9]* of at most 60 processes'
        mend_has limits 'control group' pids.max
        exit 0
    fi
    rmdir "$group"
    trap - EXIT
done
echo "not tested: a control group's limit of processes (none can be made here)"
exit 0
