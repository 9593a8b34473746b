#!/bin/bash
# tests/layout/compilers_test.sh: an image written by gcc's build is read and mended by clang's, and the other way round.
#
# variants: release
set -euo pipefail

gcc=$BUILD/tests/layout/image
clang=${BUILD%/*}/release-clang/tests/layout/image
if [ ! -x "$clang" ]; then
    echo "clang's build is not there (make check builds it)"
    exit 77
fi
export MUSTER_SHM_DIR=$TMPDIR
unset MUSTER_SEGMENT MUSTER_JOB

try() { # WRITER READER NAME
    "$1" write "$3"
    path=$TMPDIR/muster-$(id -u)-$3
    for reader in "$1" "$2"; do
        "$reader" read "$path"
        cp --sparse=always "$path" "$TMPDIR/copy"
        "$reader" mend "$TMPDIR/copy"
    done
    rm "$path" "$TMPDIR/copy"
    echo "written by $3, read and mended by both"
}
try "$gcc" "$clang" gcc
try "$clang" "$gcc" clang
