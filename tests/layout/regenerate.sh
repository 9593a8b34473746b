#!/bin/bash
# tests/layout/regenerate.sh: writes layout.txt and the kept image anew, from the release build. After a change of the
# format that is meant, with MU_LAYOUT_MAJOR or _MINOR raised.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build}
make BUILD="$build" "$build/release/tests/layout/image"
image=$build/release/tests/layout/image
"$image" layout > tests/layout/layout.txt
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
MUSTER_SHM_DIR=$folder "$image" write golden
gzip -9nc "$folder"/muster-*-golden | base64 -w 100 > tests/layout/image.gz.base64
wc -c tests/layout/layout.txt tests/layout/image.gz.base64
