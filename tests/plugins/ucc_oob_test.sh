#!/bin/bash
# The example of UCC's out-of-band allgather: a member that dies before it has given its part is an error of the others'
# req_test(), with its name, and no hang. (That all parts arrive is what the example itself checks.)
# variants: release
set -euo pipefail

die='import ctypes, os
library = ctypes.CDLL(os.environ["BUILD"] + "/libmuster.so.0")
assert library.muster_join(None, ctypes.byref(ctypes.c_void_p())) == 0
os.kill(os.getpid(), 9)'
export BUILD die
got=0
timeout 60 "$MUSTER" run -n 4 --kill-on-fail=no -- \
    /bin/sh -c '[ "$MUSTER_TASK_ID" != 2 ] || exec python3 -c "$die"; exec "$BUILD/examples/ucc_oob"' \
    > "$TMPDIR/said" 2>&1 || got=$?
cat "$TMPDIR/said"
[ $got -eq 137 ] # the dead member's, which is the highest
[ "$(grep -c '^allgather: task 2 (pid [0-9]*) is lost: ' "$TMPDIR/said")" -ge 3 ]
