#!/bin/bash
# Runs one example of a built variant: scripts/run-example.sh build/release demo
# The command is the example's own "run:" comment line, where $MUSTER is the muster command and $EXAMPLE the program;
# without such a line, the program alone.
set -euo pipefail
cd "$(dirname "$0")/.."
variant=$1
name=$2
[ -f "examples/$name.c" ] || { echo "run-example: there is no examples/$name.c" >&2; exit 2; }
[ -x "$variant/examples/$name" ] || { echo "run-example: $variant/examples/$name is not built; type make" >&2; exit 2; }
MUSTER=$(realpath "$variant")/muster
EXAMPLE=$(realpath "$variant/examples/$name")
export MUSTER EXAMPLE
command=$(sed -n '1,40s|^[ */]*run: *||p' "examples/$name.c" | sed -e '1!d' -e 's| *\*/ *$||')
exec /bin/bash -c "${command:-exec \"\$EXAMPLE\"}"
