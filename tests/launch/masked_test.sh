#!/bin/bash
# Machines of which something is hidden, as containers do: folders of /sys, /dev/shm, /proc; and of which a process may
# have little address space. What muster can do without, it does without; else the sentence names what is hidden.
# timeout: 180
. "$(dirname "$0")/../cli/common.sh"

if [ -z "${IN_MASKED:-}" ]; then
    for way in --mount "--user --map-root-user --mount"; do
        # shellcheck disable=SC2086 # several words
        if unshare $way sh -c 'mount -t tmpfs hidden /sys && mount -t tmpfs hidden /dev/shm' 2> /dev/null; then
            IN_MASKED=1 exec unshare $way --propagation private "$0"
        fi
    done
    skip "needs the right to mount: root's, or a user namespace's"
fi
is_x86() { [ "$(uname -m)" = x86_64 ]; }
cores=$("$MUSTER" run -n core sh -c 'echo x' | wc -l)
packages=$("$MUSTER" topo --json | "$PYTHON" -c 'import json, sys; print(sum(b["kind"] == "package" for b in json.load(sys.stdin)["boxes"]))')
fact() { json "[f['mark'] + ': ' + f['text'] + '; ' + (f['mend'] or '') for f in it['facts'] if f['topic'] == '$1'][0]"; }

# works_without NOTE: topo says it, and counts what it does with all there; tasks are counted and bound; doctor notes it.
works_without()
{
    check 0 "$MUSTER" topo
    err_is_empty
    out_has "^note: hwloc: $1"
    check 0 "$MUSTER" topo --json
    if is_x86; then
        json_is 'sum(b["kind"] == "package" for b in it["boxes"])' "$packages"
        json_is 'sum(b["kind"] == "core" for b in it["boxes"])' "$cores"
        check 0 "$MUSTER" run -n core sh -c 'echo x'
        err_is_empty
        [ "$(wc -l < "$OUT")" -eq "$cores" ] || fail "-n core is not $cores"
        check 0 "$MUSTER" run -n 1 --bind-to core true
        err_is_empty
    fi
    check 0 "$MUSTER" doctor --json
    err_is_empty
    fact topology | grep -q "^note: $1.*; mount sysfs whole" || fail "doctor says of the topology: $(fact topology)"
}

# ---- /sys ----

hide() { mount -t tmpfs hidden "$1" || fail "cannot hide $1"; }
check 0 "$MUSTER" doctor --json
fact topology | grep -q '^ok: ' || fail "doctor says of the topology: $(fact topology)"
if [ -e /sys/devices/system/node ]; then
    hide /sys/devices/system/node # of which hwloc's assertions end the process that asks it
    works_without '/sys/devices/system/node is empty: hwloc ends a process that asks it here (.*ABRT)'
    umount /sys/devices/system/node
else
    echo "not tested: /sys/devices/system/node is hidden (this kernel has none)"
fi
if is_x86; then
    hide /sys/devices/system/cpu
    works_without '/sys/devices/system/cpu is empty: packages, caches and cores are what the processors tell'
    umount /sys/devices/system/cpu
    hide /sys
    works_without '/sys is empty: packages, caches and cores are what the processors tell'
    umount /sys
else
    echo "not tested: /sys is hidden, and the processors are asked (not on $(uname -m))"
fi

# ---- an hwloc that dies whatever it is asked ----

mkdir -p "$TMPDIR/lib"
{
    echo '#include <stdlib.h>
        int hwloc_topology_load(void *topology) { (void)topology; abort(); }
        unsigned hwloc_get_api_version(void) { return 0x20900; }'
    for name in $(grep -o 'each(hwloc_[a-z_]*)' "${TOP:-.}/src/topology/hwloc_library.h" | sed 's/each(//; s/)//'); do
        case $name in hwloc_topology_load | hwloc_get_api_version) ;; *) echo "int $name(void) { return 0; }" ;; esac
    done
} > "$TMPDIR/dies.c"
"${CC:-gcc}" -shared -fPIC -o "$TMPDIR/lib/libhwloc.so.15" "$TMPDIR/dies.c" || fail "cannot compile"
check 0 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo
err_is_empty
out_has '^note: hwloc: hwloc cannot read this machine: asking it kills the process: signal 6 (ABRT); so caches, '
check 125 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" run -n core true
err_is_one_line
err_has 'hwloc cannot read this machine: asking it kills the process: signal 6 (ABRT)'
check 1 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" doctor --json
fact topology | grep -q "^problem: hwloc cannot read this machine: .*'muster run -n core' and '--bind-to' do not work" ||
    fail "doctor says of the topology: $(fact topology)"
check 1 env LD_LIBRARY_PATH="$TMPDIR/lib" "$MUSTER" topo -i 'package:1 core:2 pu:1'
err_is_one_line
err_has 'asking it kills the process: signal 6'

# ---- address space ----

if [[ $VARIANT != asan* ]]; then # which needs terabytes of it
    none_of_doctor() { ! ls /dev/shm | grep -q 'doctor-[0-9]'; }
    check 0 bash -c 'ulimit -v 1500000; exec "$@"' - "$MUSTER" doctor --json # one segment fits, two do not
    none_of_doctor || fail "doctor has left its segment: $(ls /dev/shm)"
    json_is '[f for f in it["facts"] if f["name"] == "left over"]' '[]'
    check 125 bash -c 'ulimit -v 200000; exec "$@"' - "$MUSTER" run -n 2 true
    err_is_one_line
    err_has "a process may have 200000 KiB of address space ('ulimit -v'): raise the limit, or make the heap smaller"
    check 0 bash -c 'ulimit -v 200000; exec "$@"' - "$MUSTER" run -n 2 --heap 16M muster barrier wait two
fi

# ---- /proc ----

if [[ $VARIANT != *san* ]]; then # which read /proc themselves
    "$MUSTER" run -n 1 --job "$JOB" sh -c 'muster kv set here 1; exec sleep 1000' > "$OUT.run" 2>&1 < /dev/null &
    RUN=$!
    there() { "$MUSTER" kv get --job "$JOB" here > /dev/null 2>&1; }
    await "the job is there" there
    without_proc() { unshare --mount sh -c 'mount -t tmpfs hidden /proc && exec "$@"' - "$@"; }
    check 125 without_proc "$MUSTER" run -n 2 true
    err_has "/proc is not here: mount it ('mount -t proc proc /proc'), or use a memfd (--memfd)"
    check 0 without_proc "$MUSTER" run -n 2 --memfd "$MUSTER" barrier wait two
    check 0 without_proc "$MUSTER" segment list
    out_has "^$JOB .* in use$" # it cannot be known that its processes are dead
    check 125 without_proc "$MUSTER" run -n 1 --job "$JOB" true
    check 0 "$MUSTER" kv get --job "$JOB" here
    kill -TERM $RUN
    wait $RUN
fi

# ---- /dev/shm ----

mkdir "$TMPDIR/dev"
mount --rbind /dev "$TMPDIR/dev"
hide /dev
for node in null zero random urandom tty; do
    : > "/dev/$node"
    mount --bind "$TMPDIR/dev/$node" "/dev/$node"
done
check 0 "$MUSTER" run -n 2 "$MUSTER" barrier wait two
err_has '^muster run: /dev/shm cannot hold the segment: No such file or directory: it is in a memfd (reach it with --job /proc/'
check 125 "$MUSTER" run --survive true -n 1 true # its segment is to be found by its name
err_has 'cannot create a segment in /dev/shm: No such file or directory$'
check 1 "$MUSTER" doctor --json
fact shm | grep -q '^problem: /dev/shm: No such file.*; mkdir -p /dev/shm' || fail "doctor says of shm: $(fact shm)"
exit 0
