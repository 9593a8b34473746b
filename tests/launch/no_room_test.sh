#!/bin/bash
# A /dev/shm that cannot hold the segment, being too small or read-only, or another's: the launcher says so and uses a memfd, which other commands still reach.
. "$(dirname "$0")/../cli/common.sh"

if [ -z "${IN_SMALL_SHM:-}" ]; then
    unshare --mount sh -c 'mount -t tmpfs -o size=64k small /dev/shm' 2> /dev/null ||
        skip "needs the right to mount a small /dev/shm"
    IN_SMALL_SHM=1 exec unshare --mount "$0"
fi

path() { sed -n 's/^muster run: .*memfd (reach it with --job \(.*\))$/\1/p' "$ERR.run" 2> /dev/null | grep .; }
full() { [ "$("$MUSTER" kv count --job "$(path)" from 2> /dev/null)" = 2 ]; }

# in_memfd WHY COMMAND...: a job, started by this, is in a memfd for that reason
in_memfd()
{
    local why=$1
    rm -f "$ERR.run" # of the job before
    shift
    "$@" "$MUSTER" run -n 2 --job "$JOB" sh -c 'muster kv set from/$RANK here; exec sleep 1000' > "$OUT.run" 2> "$ERR.run" < /dev/null &
    RUN=$!
    await "the launcher has said where the segment is" path
    grep -q "^muster run: /dev/shm cannot hold the segment$why: it is in a memfd" "$ERR.run" || fail "$(cat "$ERR.run")"
    await "both tasks have written" full
    check 0 "$MUSTER" status --job "$(path)"
    out_has "^job *$JOB, made by pid $RUN "
    out_has '^segment *memfd: '
    check 0 "$MUSTER" kv get --job "$(path)" from/1
    out_is here
    check 0 "$MUSTER" segment check "$(path)"
    check 3 "$MUSTER" status --job "$JOB"
    [ -z "$(ls -A /dev/shm | grep -v '^mpi-muster-')" ] || fail "more than the tasks' folder lies in /dev/shm: $(ls /dev/shm)"
    kill -TERM $RUN
    wait $RUN
    [ $? -eq 143 ] || fail "exit status"
}

mount -t tmpfs -o size=64k small /dev/shm || skip "cannot mount a small /dev/shm"
in_memfd ''
mount -o remount,ro /dev/shm || fail "cannot make /dev/shm read-only"
in_memfd ': Read-only file system' env
check 125 "$MUSTER" run --survive true # its segment is to be found by its name
err_has '^muster run: cannot create a segment in /dev/shm: Read-only file system$'
# Another's folder, and root without its right to ignore that.
mount -t tmpfs -o uid=65534,mode=755 another /dev/shm || fail "cannot mount another's /dev/shm"
weak=(setpriv --bounding-set=-dac_override,-dac_read_search)
"${weak[@]}" true 2> /dev/null && ! "${weak[@]}" touch /dev/shm/a 2> /dev/null || exit 0 # no setpriv
in_memfd ': Permission denied' "${weak[@]}"
# A name that is taken is so there, too.
mount -t tmpfs small /dev/shm || fail "cannot mount /dev/shm"
"$MUSTER" run --job "$JOB" sleep 1000 > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
there() { "$MUSTER" status --job "$JOB" > /dev/null 2>&1; }
await "the job is there" there
chmod 755 /dev/shm
chown 65534 /dev/shm
check 125 "${weak[@]}" "$MUSTER" run --job "$JOB" true
err_has "^muster run: job $JOB is running already: pid $RUN holds the name"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "exit status"
exit 0
