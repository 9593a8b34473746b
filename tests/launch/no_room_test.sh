#!/bin/bash
# A /dev/shm that cannot hold the segment: the launcher says so and uses a memfd, which other commands still reach.
. "$(dirname "$0")/../cli/common.sh"

if [ -z "${IN_SMALL_SHM:-}" ]; then
    unshare --mount sh -c 'mount -t tmpfs -o size=64k small /dev/shm' 2> /dev/null ||
        skip "needs the right to mount a small /dev/shm"
    IN_SMALL_SHM=1 exec unshare --mount "$0"
fi
mount -t tmpfs -o size=64k small /dev/shm || skip "cannot mount a small /dev/shm"

"$MUSTER" run -n 2 --job "$JOB" sh -c 'muster kv set from/$RANK here; exec sleep 1000' > "$OUT.run" 2> "$ERR.run" < /dev/null &
RUN=$!
path() { sed -n 's/^muster run: .*memfd (reach it with --job \(.*\))$/\1/p' "$ERR.run" | grep .; }
await "the launcher has said where the segment is" path
full() { [ "$("$MUSTER" kv count --job "$(path)" from 2> /dev/null)" = 2 ]; }
await "both tasks have written" full
check 0 "$MUSTER" status --job "$(path)"
out_has "^job *$JOB, made by pid $RUN "
out_has '^segment *memfd: '
check 0 "$MUSTER" kv get --job "$(path)" from/1
out_is here
check 0 "$MUSTER" segment check "$(path)"
check 3 "$MUSTER" status --job "$JOB"
[ -z "$(ls -A /dev/shm)" ] || fail "something lies in /dev/shm: $(ls /dev/shm)"
kill -TERM $RUN
wait $RUN
[ $? -eq 143 ] || fail "exit status"

exit 0
