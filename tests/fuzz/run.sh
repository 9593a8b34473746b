#!/bin/sh
# The long form of the fuzz targets: every one in turn, for its share of the time. `make fuzz SECONDS=60`
#   run.sh --seconds N [libFuzzer options]
# Those of which real traffic was recorded begin with that (seeds/).
# What a target finds it leaves in the current folder (crash-*, timeout-*), and says how to run it again.
set -eu
seconds=60
if [ "${1-}" = --seconds ]; then
    seconds=$2
    shift 2
fi
programs=$(dirname "$BUILD")/fuzz/tests/fuzz
count=$(ls "$programs"/*_fuzz | wc -l)
for program in "$programs"/*_fuzz; do
    echo "== $(basename "$program"), $((seconds / count)) s"
    corpus=$(mktemp -d) longest=256
    kind=$(basename "$program" _fuzz)
    case $kind in
    session) longest=8192 ending=session ;;
    frame) longest=4096 ending=frames ;;
    *) ending='' ;;
    esac
    [ -z "$ending" ] || cp "$(dirname "$0")"/seeds/*."$ending" "$corpus"
    "$program" -max_total_time=$((seconds / count)) -timeout=20 -rss_limit_mb=2048 -max_len=$longest -len_control=0 -print_final_stats=1 "$@" \
        "$corpus"
    rm -r "$corpus"
done
