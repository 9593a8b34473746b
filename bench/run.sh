#!/bin/sh
# Measures muster against its alternatives: `make bench`, or bench/run.sh --help. What is measured and how: bench/README.md.
here=$(dirname "$0")
PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" "$here/run.py" "$@"
