#!/bin/bash
# tests/layout/golden_test.sh: the image that is kept in the tree is still read and mended.
#
# variants: release release-clang asan
set -euo pipefail

base64 -d tests/layout/image.gz.base64 | gzip -dc > "$TMPDIR/image"
"$BUILD/tests/layout/image" read "$TMPDIR/image"
"$BUILD/tests/layout/image" mend "$TMPDIR/image"
echo "the kept image is read and mended"
