#!/bin/bash
# tests/torture/run.sh [--seconds N] [--seed S]: behind `make torture`.
set -eu
exec "$BUILD/tests/torture/torture" "$@"
