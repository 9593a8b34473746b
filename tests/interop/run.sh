#!/bin/sh
# Real JAX programs under muster, several versions of them: `make interop`, or tests/interop/run.sh --help.
here=$(dirname "$0")
PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" "$here/interop.py" "$@"
