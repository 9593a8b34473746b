#!/bin/bash
# timeout: 180
# tests/torture/torture_test.sh: ten seconds of torture; `make torture SECONDS=60` is the long form.
set -eu
exec "$BUILD/tests/torture/torture" --seconds 10
