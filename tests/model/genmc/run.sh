#!/bin/bash
# Checks the production source under weak memory with GenMC: each harness of this directory includes files of src/ and is
# run as its own header says.
#
# usage: run.sh [--short] [-j JOBS] [-m MODEL] [-k DIR] [HARNESS.c ...]
#   --short    only the runs marked "short"; the default is every run
#   -j JOBS    so many runs at a time (default: the number of processors)
#   -m MODEL   rc11 (default), or imm, which also allows a load to see a store that comes after it
#   -k DIR     keep GenMC's report of every run in DIR
# SOURCE=DIR in the environment checks the source of another tree.
#
# A harness lists its runs in its header, one a line:
#     RUN <short|full> <expected> <flags or -> : <sentence>
# ok: no error, in at least one complete execution; hang: somebody waits for ever ("Liveness violation"); any other word:
# the assertion MUST(word, ...) is violated. Anything else, running out of time included, is a mismatch.
# Exit status: 0 all as expected, 1 some mismatch, 2 usage, 77 no genmc here.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=${SOURCE:-$(cd "$here/../../.." && pwd)}
seconds=${SECONDS_EACH:-900}
# The inliner and the detection of spin loops are off: they do not see what is in thread-local storage (mechanism.h), and
# every retry loop here ends because the others' commits do. Instruction caching is off: with it, GenMC 0.10 sometimes gives
# one stack address to two variables. The checker of memory models is off: it may settle for a stronger one.
options=(-disable-estimation -disable-ipr -disable-sr -disable-mm-detector -disable-instruction-caching
    -disable-function-inliner -disable-spin-assume -check-liveness)

# One run: harness, expected result, flags, sentence. Prints one line of the table; the exit status says whether it matched.
run_one() {
    local harness=$1 expected=$2 flags=$3 sentence=$4
    local name mark out rc got executions blocked start took verdict=as-expected
    name=$(basename "$harness" .c)
    mark=model_$$_$RANDOM
    out=$(mktemp) || return 1
    start=$(date +%s%N)
    # flags are a list of -D options, meant to be split
    # shellcheck disable=SC2086
    (cd "$top" && timeout "$seconds" genmc "-$MODEL" "${options[@]}" -- -std=gnu17 -D_GNU_SOURCE -DMU_GENMC \
        -Dstatic_assert=_Static_assert "-DMODEL_MARK=$mark" -Wno-implicit-function-declaration \
        -Itests/model/genmc/standin -Itests/model/genmc -Iinclude -Isrc -I. $flags \
        "tests/model/genmc/$name.c") >"$out" 2>&1 # relative: genmc takes names apart at spaces
    rc=$?
    took=$((($(date +%s%N) - start) / 1000000))
    # genmc leaves its compiled input in /tmp; ours carries the mark
    grep -ls "$mark" /tmp/__genmc.ll.* 2>/dev/null | xargs -r rm -f
    executions=$(sed -n 's/^Number of complete executions explored: //p' "$out")
    blocked=$(sed -n 's/^Number of blocked executions seen: //p' "$out")
    if [ $rc -eq 124 ]; then
        got="out of time ($seconds s)"
    elif [ $rc -eq 0 ] && grep -q '^No errors were detected' "$out" && [ "${executions:-0}" -gt 0 ]; then
        got=ok
    elif [ $rc -eq 42 ] && grep -q '^Error: Liveness violation' "$out"; then
        got=hang
    elif [ $rc -eq 42 ] && grep -q '^Assertion violation: .* || !"[a-z]*"$' "$out"; then
        got=$(sed -n 's/^Assertion violation: .* || !"\([a-z]*\)"$/\1/p' "$out")
    else
        got="genmc $rc: $(grep -m1 -iE 'error|violation' "$out")"
    fi
    [ "$got" = "$expected" ] || verdict="MISMATCH: expected $expected"
    printf '%-10s %-8s %10s %8s %8d ms  %-11s %s [%s]\n' "$name" "${got:0:60}" "${executions:--}" "${blocked:-0}" "$took" \
        "$verdict" "$sentence" "$flags"
    if [ -n "${KEEP_DIR:-}" ]; then
        cp "$out" "$KEEP_DIR/$name$(printf '%s' "$flags" | tr -d ' ').txt"
    elif [ "$verdict" != as-expected ]; then
        sed 's/^/    /' "$out" | tail -n 15
    fi
    rm -f "$out"
    [ "$verdict" = as-expected ]
}

if [ "${1:-}" = --one ]; then
    shift
    run_one "$@"
    exit
fi

form=full
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
KEEP_DIR=
MODEL=rc11
harnesses=()
while [ $# -gt 0 ]; do
    case $1 in
    --short) form=short ;;
    -j) jobs=${2:?} && shift ;;
    -m) MODEL=${2:?} && shift ;;
    -k) mkdir -p "${2:?}" && KEEP_DIR=$(cd "$2" && pwd) && shift ;;
    -*)
        sed -n '5,10s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    *) harnesses+=("$here/$(basename "$1")") ;;
    esac
    shift
done
export KEEP_DIR MODEL

if [ ${#harnesses[@]} -eq 0 ]; then
    for h in "$here"/*.c; do
        grep -q '^ \* RUN ' "$h" && harnesses+=("$h")
    done
fi

if ! command -v genmc >/dev/null 2>&1; then
    echo "genmc is not installed (it is not in Debian: github.com/MPI-SWS/genmc, 0.10, with LLVM 14); not run:"
    for h in "${harnesses[@]}"; do
        echo "    $(basename "$h" .c): $(grep -c '^ \* RUN' "$h") runs"
    done
    echo "the production source was not checked under weak memory: genmc is not installed"
    exit 77
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
echo "memory model: $MODEL"
printf '%-10s %-8s %10s %8s %11s  %-11s %s\n' harness result executions blocked time verdict "what is run [flags]"
number=0
for h in "${harnesses[@]}"; do
    while IFS= read -r line; do
        if [[ ! $line =~ ^\ \*\ RUN\ (short|full)\ +([a-z]+)\ +([^:]*[^:\ ])\ *:\ (.*)$ ]]; then
            echo "$h: cannot read: $line"
            exit 1
        fi
        [ "$form" = short ] && [ "${BASH_REMATCH[1]}" = full ] && continue
        flags=${BASH_REMATCH[3]}
        [ "$flags" = - ] && flags=
        number=$((number + 1))
        # NUL-separated arguments for xargs: no quoting to get wrong
        printf '%s\0' "$results/$(printf %03d $number)" "$h" "${BASH_REMATCH[2]}" "$flags" "${BASH_REMATCH[4]}"
    done < <(grep '^ \* RUN' "$h")
done >"$results/list"
grep -aq 'cannot read' "$results/list" && tr '\0' '\n' <"$results/list" | grep -a 'cannot read' && exit 1

xargs -0 -r -n 5 -P "$jobs" bash -c '
    "$0" --one "${@:2}" >"$1" 2>&1 || touch "$1.bad"
    cat "$1"' "$here/run.sh" <"$results/list"

total=$(find "$results" -name '[0-9][0-9][0-9]' | wc -l)
bad=$(find "$results" -name '*.bad' | wc -l)
echo "$total runs, $((total - bad)) as expected, $bad not"
[ "$total" -gt 0 ] && [ "$bad" -eq 0 ]
