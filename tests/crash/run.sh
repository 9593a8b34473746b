#!/bin/bash
# tests/crash/run.sh [VARIANT...]: the long form of the crash tests, hours of it: each in the variants named (all four),
# with nothing sampled that can be done whole. Prints how many cases ran. The short form is part of `make check`.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build}
[ $# -gt 0 ] || set -- step step3 step-clang step3-clang
for variant; do
    make -s BUILD="$build" "$build/$variant/tests/crash/kill_test" "$build/$variant/tests/crash/pause_test"
done
for variant; do
    for test in kill pause; do
        VARIANT=$variant "$build/$variant/tests/crash/${test}_test" --long
    done
done
