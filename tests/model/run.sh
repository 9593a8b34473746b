#!/bin/bash
# Runs the Spin models of this directory and compares each result with what the model's own header expects.
#
# usage: run.sh [--short] [-j JOBS] [-k DIR] [MODEL.pml ...]
#   --short   only the runs marked "short" (seconds each); the default is every run
#   -j JOBS   so many runs at a time (default: the number of processors; one may need up to MEMORY_MB)
#   -k DIR    keep the counterexample of every failing run, as text, in DIR
#
# A model lists its runs in its header, one a line:
#     RUN <short|full> <ok|assert|stuck> <flags or -> : <sentence>
# ok: no error; assert: an assertion must be violated; stuck: somebody must be left waiting for ever (Spin's "invalid end
# state"). Anything else, running out of memory, depth or time included, is a mismatch.
# Exit status: 0 all as expected, 1 some mismatch, 2 usage, 77 no spin or no C compiler here.

set -u
here=$(cd "$(dirname "$0")" && pwd)
memory_mb=${MEMORY_MB:-2200}
seconds=${SECONDS_EACH:-300}
depth=${DEPTH:-2000000}
# more flags for the checkers, e.g. PAN_FLAGS=-DNOREDUCE: without partial-order reduction
optimise=${OPTIMISE:--O2}

# One run: model, expected result, flags, sentence. Prints one line of the table; the exit status says whether it matched.
run_one() {
    local model=$1 expected=$2 flags=$3 sentence=$4
    local work name got states start took verdict=as-expected
    name=$(basename "$model" .pml)
    work=$(mktemp -d) || return 1
    start=$(date +%s%N)
    cd "$work" || return 1
    # flags are a list of -D options, meant to be split
    # shellcheck disable=SC2086
    if ! spin -a $flags "$model" >spin.out 2>&1 || grep -qiE '^spin:.*error|syntax error' spin.out; then
        got="spin: $(grep -iE 'error' spin.out | head -1)"
    elif ! ${CC:-gcc} $optimise -w ${PAN_FLAGS:-} -DSAFETY -DCOLLAPSE -DMEMLIM="$memory_mb" -DVECTORSZ=4096 -o pan pan.c >cc.out 2>&1; then
        got="compiler: $(head -1 cc.out)"
    else
        timeout "$seconds" ./pan -m"$depth" -w22 >pan.out 2>&1
        case $? in 124) echo "ran out of time" >>pan.out ;; esac
        if grep -q 'ran out of time' pan.out; then
            got="out of time (${seconds} s)"
        elif grep -qE 'pan: (out of memory|reached -DMEMLIM)' pan.out; then
            got="out of memory (${memory_mb} MB)"
        elif grep -q 'max search depth too small' pan.out; then
            got="search depth too small"
        elif grep -qE '^pan:[0-9]+: assertion violated' pan.out; then
            got=assert
        elif grep -qE '^pan:[0-9]+: invalid end state' pan.out; then
            got=stuck
        elif grep -q 'errors: 0' pan.out; then
            got=ok
        else
            got="pan: $(grep -E '^pan:' pan.out | head -1)"
        fi
    fi
    states=$(grep -oE '[0-9.e+]+ states, stored' pan.out 2>/dev/null | head -1 | cut -d' ' -f1)
    took=$((($(date +%s%N) - start) / 1000000))
    [ "$got" = "$expected" ] || verdict="MISMATCH: expected $expected"
    printf '%-8s %-10s %10s %8d ms  %-11s %s [%s]\n' "$name" "${got:0:60}" "${states:--}" "$took" "$verdict" "$sentence" \
        "$flags"
    if [ -n "${KEEP_DIR:-}" ] && [ -e "$(basename "$model").trail" ]; then
        # shellcheck disable=SC2086
        spin -k "$(basename "$model").trail" -p -g -l $flags "$model" >"$KEEP_DIR/$name$(printf '%s' "$flags" | tr -d ' ').trace" 2>&1
    fi
    cd / && rm -rf "$work"
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
models=()
chosen=no
while [ $# -gt 0 ]; do
    case $1 in
    --short) form=short && export OPTIMISE=-O0 ;; # compiling takes longer than most of these runs
    -j) jobs=${2:?} && shift ;;
    -k) mkdir -p "${2:?}" && KEEP_DIR=$(cd "$2" && pwd) && shift ;;
    -*)
        sed -n '4,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    *) models+=("$here/$(basename "$1")") && chosen=yes ;;
    esac
    shift
done
export KEEP_DIR

for tool in spin "${CC:-gcc}"; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "no model was checked: $tool is not installed"
        exit 77
    fi
done

if [ ${#models[@]} -eq 0 ]; then
    for m in "$here"/*.pml; do
        grep -q '^ \* RUN ' "$m" && models+=("$m")
    done
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
printf '%-8s %-10s %10s %11s  %-11s %s\n' model result states time verdict "what is run [flags]"
number=0
for m in "${models[@]}"; do
    while IFS= read -r line; do
        if [[ ! $line =~ ^\ \*\ RUN\ (short|full)\ +(ok|assert|stuck)\ +([^:]*[^:\ ])\ *:\ (.*)$ ]]; then
            echo "$m: cannot read: $line"
            exit 1
        fi
        [ "$form" = short ] && [ "${BASH_REMATCH[1]}" = full ] && continue
        flags=${BASH_REMATCH[3]}
        [ "$flags" = - ] && flags=
        number=$((number + 1))
        # NUL-separated arguments for xargs: no quoting to get wrong
        printf '%s\0' "$results/$(printf %03d $number)" "$m" "${BASH_REMATCH[2]}" "$flags" "${BASH_REMATCH[4]}"
    done < <(grep '^ \* RUN' "$m")
done >"$results/list"
grep -aq 'cannot read' "$results/list" && tr '\0' '\n' <"$results/list" | grep -a 'cannot read' && exit 1

xargs -0 -r -n 5 -P "$jobs" bash -c '
    "$0" --one "${@:2}" >"$1" 2>&1 || touch "$1.bad"
    cat "$1"' "$here/run.sh" <"$results/list"

# models of other checkers that live below; 77 from one says that its checker is not installed, and it has said so
others=0
if [ "$form" = full ] && [ "$chosen" = no ]; then
    for run in "$here"/*/run.sh; do
        [ -x "$run" ] || continue
        echo
        "$run" || [ $? -eq 77 ] || others=1
    done
fi

total=$(find "$results" -name '[0-9][0-9][0-9]' | wc -l)
bad=$(find "$results" -name '*.bad' | wc -l)
echo "Spin: $total runs, $((total - bad)) as expected, $bad not"
[ "$total" -gt 0 ] && [ "$bad" -eq 0 ] && [ $others -eq 0 ]
