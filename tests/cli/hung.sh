# What the tests of hung jobs share: source it behind common.sh. Their tasks are those of worker_main.c.
WORKER=$BUILD/tests/cli/worker
[ -x "$WORKER" ] || fail "$WORKER is not built"
SECONDS_AGO='([0-9.]+ (us|ms|s))'

# says PATTERN [PART]: the whole first line of a status, of the job or of another host's part of it.
says()
{
    "$MUSTER" status --job "${2:-$JOB}" > "$OUT" 2> "$ERR" || return 1
    head -n 1 "$OUT" | grep -qxE "$1"
}
await_says() { await "status says: $1" says "$@"; }

# stop TASK WHAT: its process, $pid, is stopped, and $place is where the others of a job that does WHAT will wait for it.
stop()
{
    pid=$(pid_of "$1")
    kill -STOP "$pid"
    case $2 in
    epochs) place='barrier epoch \(instance [0-9]+\)' ;;
    group) place='group workers' ;;
    esac
}
