# Sourced by the scripts of tests/cli and tests/launch: what they check with. Nothing here waits for a fixed time: await
# polls a condition and gives up, loudly, after half a minute.
set -u
: "${MUSTER:?the muster executable}" "${TMPDIR:=/tmp}"
PYTHON=${PYTHON:-python3}
unset MUSTER_JOB MUSTER_SEGMENT MUSTER_TASK_ID MUSTER_NUM_TASKS
JOB=t$$-$(basename "$0" _test.sh)
OUT=$TMPDIR/out.$$ ERR=$TMPDIR/err.$$
PATH=$(dirname "$MUSTER"):$PATH

fail()
{
    echo "FAIL: $*"
    [ ! -s "$OUT" ] || { echo "stdout was:"; head -n 40 "$OUT"; }
    [ ! -s "$ERR" ] || { echo "stderr was:"; head -n 40 "$ERR"; }
    exit 1
}

skip()
{
    echo "$*"
    exit 77
}

# muster_for USER: $THEIRS is a muster that this user may run: this one or, where it lies below a folder that others may
# not enter, a copy. False, and why: only root can become another user, and by setpriv.
muster_for()
{
    local as=(setpriv "--reuid=$1" --clear-groups)
    THEIRS=$MUSTER
    if [ "$(id -u)" -ne 0 ] || ! "${as[@]}" true 2> /dev/null; then
        echo "not tested: another user (needs root, and setpriv)"
        return 1
    fi
    if ! "${as[@]}" test -x "$THEIRS"; then
        THEIRS=$TMPDIR/theirs/muster
        [[ $TMPDIR != */muster-test.*/tmp ]] || chmod 711 "$TMPDIR" "${TMPDIR%/*}"
        mkdir -p "$TMPDIR/theirs"
        cp -r "$MUSTER" "$(dirname "$MUSTER")/whole" "$TMPDIR/theirs" 2> /dev/null # not every variant has two parts
        "${as[@]}" test -x "$THEIRS" || fail "user $1 may not run the copy of muster in $TMPDIR"
    fi
}

# await WHAT COMMAND...: until it succeeds.
await()
{
    local what=$1 end=$((SECONDS + 30))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "waited in vain until $what"
        sleep 0.02 # sleep: between two looks at the condition
    done
}

# check STATUS COMMAND...: run it with this exit status; its output is in $OUT and $ERR.
check()
{
    local want=$1 got=0
    shift
    "$@" > "$OUT" 2> "$ERR" < "${STDIN:-/dev/null}" || got=$?
    [ $got -eq "$want" ] || fail "exit status $got instead of $want: $*"
}

# What the last check printed.
out_is() { [ "$(cat "$OUT")" = "$1" ] || fail "stdout is not: $1"; }
out_has() { grep -qe "$1" "$OUT" || fail "stdout lacks: $1"; }
err_has() { grep -qe "$1" "$ERR" || fail "stderr lacks: $1"; }
err_is_one_line() { [ "$(wc -l < "$ERR")" -eq 1 ] || fail "stderr is not one line"; }
out_is_empty() { [ ! -s "$OUT" ] || fail "stdout is not empty"; }
err_is_empty() { [ ! -s "$ERR" ] || fail "stderr is not empty"; }

# json EXPRESSION [FILE]: evaluate it in Python with `it` as the document (a list of documents when there are several).
json()
{
    "$PYTHON" -c 'import json, sys
text = open(sys.argv[2]).read()
lines = [json.loads(line) for line in text.splitlines()]
it = lines[0] if len(lines) == 1 else lines
result = eval(sys.argv[1])
print(result if isinstance(result, str) else json.dumps(result))' "$1" "${2:-$OUT}"
}
json_is() { [ "$(json "$1")" = "$2" ] || fail "JSON: $1 is $(json "$1"), not $2"; }

# keep_ports N: that nobody else is given before we end; next_port: the next of them is $PORT.
keep_ports()
{
    read -ra PORTS <<< "$(env -i PATH="$PATH" "$PYTHON" "$(dirname "$0")/../common/ports.py" "$1" $$)"
    [ ${#PORTS[@]} -eq "$1" ] || fail "there are no $1 ports"
}
next_port()
{
    [ ${#PORTS[@]} -gt 0 ] || fail "keep_ports is to keep more"
    PORT=${PORTS[0]} PORTS=("${PORTS[@]:1}")
}

segment_file() { echo "/dev/shm/muster-$(id -u)-$1"; }
no_segment() { [ ! -e "$(segment_file "$1")" ]; }
has_segment() { [ -e "$(segment_file "$1")" ]; }

# Living processes (zombies are dead) whose environment has the line.
with_mark()
{
    local file state
    for file in $(grep -lzxF -- "$1" /proc/[0-9]*/environ 2> /dev/null); do
        state=$(sed 's/.*) //' "${file%environ}stat" 2> /dev/null | cut -c1)
        file=${file#/proc/}
        case $state in '' | Z | X) ;; *) echo "${file%/environ}" ;; esac
    done
}
none_with_mark() { [ -z "$(with_mark "$1")" ]; }
is_gone()
{
    local state
    state=$(sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -c1)
    case $state in '' | Z | X) return 0 ;; *) return 1 ;; esac
}
is_stopped() { [ "$(sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -c1)" = T ]; }

# start_job N COMMAND...: job $JOB in the background, its output in $OUT.run; $RUN is the launcher. Ended at exit.
start_job()
{
    local n=$1
    shift
    "$MUSTER" run -n "$n" --job "$JOB" ${RUN_OPTIONS:-} -- "$@" > "$OUT.run" 2> "$ERR.run" < /dev/null &
    RUN=$!
    trap 'kill -9 $RUN 2> /dev/null; wait $RUN 2> /dev/null' EXIT
    await "the segment of $JOB is there" has_segment "$JOB"
}
# The tasks' pids, in order, once there are N.
pids() { "$MUSTER" task list --job "$JOB" --json 2> /dev/null | "$PYTHON" -c 'import json, sys
print(*[t["pid"] for t in json.load(sys.stdin)["tasks"] if t["pid"]])'; }
connected() { [ "$("$MUSTER" task list --job "$JOB" --json 2> /dev/null | grep -o '"CONNECTED"' | wc -l)" -eq "$1" ]; }
