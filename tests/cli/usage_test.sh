#!/bin/bash
# A wrong word on the command line is one line on stderr and exit status 2; nothing is created.
. "$(dirname "$0")/common.sh"

# usage LINE ARGUMENT...: exactly this line.
usage()
{
    local line=$1
    shift
    check 2 "$MUSTER" "$@"
    [ "$(cat "$ERR")" = "$line" ] || fail "stderr is not: $line"
    out_is_empty
}

# Bad words.
usage "muster: which verb? (see 'muster --help')"
usage "muster: unknown verb 'frob' (see 'muster --help')" frob
usage "muster: unknown option --frob (see 'muster --help')" --frob
usage "muster: unknown option -X (see 'muster --help')" -X
usage "muster: unknown option -é (see 'muster --help')" -é status
usage "muster status: unknown option -é (see 'muster status --help')" status -éa
usage "muster status: unknown option -\\xc3 (see 'muster status --help')" status $'-\303'
usage "muster: put --job after the verb (see 'muster --help')" --job x status
usage "muster: put --job after the verb (see 'muster --help')" --job=x status
usage "muster: put -n after the verb (see 'muster --help')" -n 2 run true
usage "muster: unknown verb '-' (see 'muster --help')" -
usage "muster kv: unknown option --foo (see 'muster kv --help')" kv --foo
usage "muster kv get: unknown option --foo (see 'muster kv get --help')" kv get --foo
usage "muster kv get: unknown option -x (see 'muster kv get --help')" kv get -x k
usage "muster kv: unknown command 'frob' (see 'muster kv --help')" kv frob
usage "muster kv get: KEY is missing (see 'muster kv get --help')" kv get
usage "muster kv get: operand 'b' is too much (see 'muster kv get --help')" kv get a b
usage "muster status: operand 'b' is too much; a job is named by --job b (see 'muster status --help')" status b
usage "muster status: operand 'b' is too much (see 'muster status --help')" status --job a b
# The value of an option that takes one behind '=' alone.
usage "muster status: operand '1s' is too much; did you mean --watch=1s or --job 1s? (see 'muster status --help')" \
    status --watch 1s
usage "muster status: operand '1s' is too much; did you mean --watch=1s? (see 'muster status --help')" \
    status --job x -w 1s
usage "muster status: operand '2s' is too much (see 'muster status --help')" status --job x --watch=1s 2s
usage "muster status: operand '2s' is too much (see 'muster status --help')" status --job x -w1s 2s
usage "muster topo: operand '2020' is too much; did you mean --proto=2020 or --job 2020? (see 'muster topo --help')" \
    topo --proto 2020
usage "muster kv set: too few operands: KEY VALUE|- (see 'muster kv set --help')" kv set a
usage "muster status: option --json takes no value (see 'muster status --help')" status --json=yes
usage "muster status: option --job needs a value: NAME (see 'muster status --help')" status --job
usage "muster help: unknown verb 'frob' (see 'muster help --help')" help frob
usage "muster run: a command is missing (see 'muster run --help')" run
usage "muster run: a command is missing (see 'muster run --help')" run -n 2 --
usage "muster run: unknown option --frob (see 'muster run --help')" run --frob true

# Did you mean. One guess, in the same line; none where two words are as near, or for one or two letters.
meant()
{
    local guess=$1
    shift
    check 2 "$MUSTER" "$@"
    err_is_one_line
    out_is_empty
    if [ -n "$guess" ]; then
        err_has "; did you mean $guess? (see 'muster"
    elif grep -q 'did you mean' "$ERR"; then
        fail "a guess for: $*"
    fi
}
usage "muster: unknown verb 'stauts'; did you mean 'status'? (see 'muster --help')" stauts
usage "muster: unknown option --verison; did you mean --version? (see 'muster --help')" --verison
usage "muster kv: unknown command 'gte'; did you mean 'get'? (see 'muster kv --help')" kv gte
usage "muster status: unknown option --jsno; did you mean --json? (see 'muster status --help')" status --jsno
usage "muster help: unknown command 'insrt'; did you mean 'insert'? (see 'muster help --help')" help kv insrt
usage "muster task error: --code: 'INTERNL' is no error code such as INTERNAL, ABORTED, UNAVAILABLE; did you mean INTERNAL?\
 (see 'muster task error --help')" task error 1 --code INTERNL text
meant "'segment'" segemnt list
meant "'segment'" SEGMENT list
meant "'barrier'" bar
meant "'run'" help rnu
meant "'increment'" kv incr
meant "--heartbeat-timeout" run --hearbeat-timeout 3s true
meant "--num-tasks" run --num-task=3 true
meant "-n" run --np 3 true
meant "-n" run --n=3 true

# Options of other launchers: what does that here, which is there.
theirs() # OPTION WORDS
{
    check 2 "$MUSTER" run "$1" true
    [ "$(cat "$ERR")" = "muster run: unknown option ${1%=*}; here that is $2 (see 'muster run --help')" ] ||
        fail "stderr does not say of $1: $2"
    local option
    for option in $(grep -oE -- '--?[a-z][a-z-]*' <<< "$2"); do
        [[ $2 = *"muster agent $option"* ]] || grep -qE -- "^ .*$option\b" "$OUT.run" || fail "there is no $option"
    done
}
"$MUSTER" run --help > "$OUT.run"
theirs --tag-output --label
theirs --label-io --label
theirs -prepend-rank --label
theirs --kill-on-bad-exit=1 'the default, and --kill-on-fail=no is the other way'
theirs --ntasks=4 '-n N'
theirs --nproc-per-node=4 '-n N, or -n gpu'
theirs --nproc_per_node '-n N, or -n gpu'
theirs -ppn '--hosts a:N,b:N'
theirs -H '--hosts a:N,b:N'
theirs --node-rank=1 "'muster agent --node-id I', or --hosts on one host alone"
theirs -x '--env NAME=VALUE; the environment is inherited'
theirs --oversubscribe "always allowed; 'core:overload' for --bind-to binds all the same"
theirs --cpu-bind=cores '--bind-to core, l3, numa or package'
theirs --cpus-per-task=2 '--map-by slot:pe=N'
theirs -wdir '--chdir DIR'
theirs --max-restarts=3 '--restarts N'
usage "muster run: unknown option --tag-output; here that is --label (see 'muster run --help')" run true : --tag-output true
usage "muster status: unknown option --tag-output (see 'muster status --help')" status --tag-output
meant "'core'" run -n cores true
meant "'gpu'" run -n gpus true
meant '' status --np
meant "--timeout" run --time 3s true
meant "--help" kv get --hlep k
meant "--job" kv --jib x get k
meant UNAVAILABLE task error 1 --code unavailible text
for word in r k kx rn qqq xyzzy "$(printf 'x%.0s' {1..5000})"; do
    meant '' "$word"
    meant '' kv "$word"
    meant '' run --"$word" true
done
meant '' run --he true # two letters
meant '' kv set --jo n x y
meant '' kv xet k # get or set

# Bad values.
for n in 0 4097 -1 1.5 x '' 99999999999999999999 4x 0x10 ' 4'; do
    usage "muster run: -n: '$n' is no number of tasks from 1 to 4096, nor auto, gpu, core, l3, numa, package, hwthread (see 'muster run --help')" run -n "$n" true
done
for d in 5 '' s -3s 1e3s 5x 0x5s 1.2.3s 99999999999d inf nan 5S; do
    usage "muster run: --timeout: '$d' is no duration: write 500ms, 30s, 5m (see 'muster run --help')" run --timeout="$d" true
done
usage "muster status: --watch: 'often' is no duration: write 500ms, 30s, 5m (see 'muster status --help')" status --watch=often
usage "muster status: --watch: '1ms' is too often: 20ms is the least (see 'muster status --help')" status --watch=1ms
usage "muster top: --sort is id, state, cpu, wait or beat, not 'size' (see 'muster top --help')" top --sort size
usage "muster top: --state is all, trouble, waiting or working, not 'x' (see 'muster top --help')" top --state=x
usage "muster top: --every: 'x' is no duration: write 500ms, 30s, 5m (see 'muster top --help')" top --every x
usage "muster top: it needs a terminal; elsewhere there is 'muster status --watch' (see 'muster top --help')" top
for s in '' G 1Q -1 1e9; do
    usage "muster run: --heap: '$s' is no size: write 64M, 1G (see 'muster run --help')" run --heap="$s" true
done
usage "muster run: --num-tasks: '0' is no number of tasks from 1 to 4096, nor auto, gpu, core, l3, numa, package, hwthread\
 (see 'muster run --help')" run --num-tasks=0 true
usage "muster top: -s is id, state, cpu, wait or beat, not 'size' (see 'muster top --help')" top -s size
for s in 1:1 1023K:1047552 9G:9663676416; do
    usage "muster run: --heap ${s%:*}: a heap of ${s#*:} bytes; 1 MiB to 8 GiB is possible (see 'muster run --help')" \
        run --heap "${s%:*}" true
done
usage "muster run: --objects 0: 16 KiB to 16 TiB is possible (see 'muster run --help')" run --objects 0 true
usage "muster run: --objects 17000G: 18253611008000 bytes for objects; 16 TiB is the most (see 'muster run --help')" \
    run --objects 17000G true
for s in 0 x 1992; do
    usage "muster run: --threads: '$s' is no number of threads from 1 to 1991, the most for 8 tasks (see 'muster run --help')" \
        run -n 8 --threads "$s" true
done
usage "muster run: --kill-on-fail is yes or no, not 'maybe' (see 'muster run --help')" run --kill-on-fail=maybe true
usage "muster run: --env: 'FOO' is not NAME=VALUE (see 'muster run --help')" run --env FOO true
usage "muster run: --env: RANK is set by muster itself (see 'muster run --help')" run --env RANK=3 true
# wrong VERB OPTION VALUE OPERAND...: what is said of a wrong value begins with its option.
wrong()
{
    local verb=$1 option=$2 value=$3
    shift 3
    check 2 "$MUSTER" $verb "$option=$value" "$@"
    err_is_one_line
    grep -qE -- "^muster $verb: $option(:| is) .*'$value'" "$ERR" || fail "$verb $option=$value is not named"
}
for option in timeout grace restart-delay survive heartbeat-timeout restarts restart-policy stdin mpi report-bindings \
    kill-on-fail trace; do
    wrong run --$option soon true
done
for option in register-timeout shutdown-timeout register-barrier; do
    wrong run --$option soon --grpc true
done
wrong run --gpus-per-task none --bind-to gpu true
wrong run --gpu-visibility none --bind-to gpu true
wrong run --join-timeout soon --hosts localhost true
wrong run --job a/b true
wrong agent --node-id x true
wrong agent --nodes x true
wrong agent --adopt a/b
wrong serve --tasks x
wrong status --job 'a b'
wrong 'barrier wait' --timeout soon --task 0 b
wrong 'barrier wait' --wait soon --task 0 b
wrong 'barrier wait' --task x b
wrong 'barrier wait' --tasks x --task 0 b
wrong 'barrier wait' --instance x --task 0 b
wrong 'event read' --from x
wrong 'event read' --count x
wrong 'kv get' --wait soon k
wrong 'kv watch' --after x k
wrong 'task watch' --count x
wrong bench --only x
wrong bench --seconds x
wrong bench --tasks 1
wrong topo --proto x
wrong topo --task x --proto
wrong topo --global x --proto

usage "muster event send: --type: '-1' is no number from 0 to 4294967295 (see 'muster event send --help')" event send --type -1
usage "muster kv increment: '1x' is no number (see 'muster kv increment --help')" kv increment k 1x
usage "muster task reset: 'x' is no task number (see 'muster task reset --help')" task reset x
usage "muster task error: the MESSAGE is missing (see 'muster task error --help')" task error 1
usage "muster task error: --code: 'OK' is no error code such as INTERNAL, ABORTED, UNAVAILABLE (see 'muster task error --help')" \
    task error 1 --code OK text
usage "muster barrier wait: as which task? Give --task, or run it under 'muster run' (see 'muster barrier wait --help')" \
    barrier wait b

# TensorFlow's master: what it cannot do is refused before it serves, with what to say instead.
for list in ps ps:0 ps:1,ps:2 ps/:1 1s:1 ps:1, ps:1:2 ps:9999999; do
    usage "muster serve: --tf-jobs reads NAME:TASKS,..., as in ps:1,worker:2, each name once, of letters, digits and _, not '$list' (see 'muster serve --help')" \
        serve --tf-master=127.0.0.1:0 --tf-jobs "$list"
done
usage "muster serve: --tf-workers and --libtensorflow none exclude each other: muster's own kernels run where there are no servers (see 'muster serve --help')" \
    serve --tf-master=127.0.0.1:0 --tf-workers 127.0.0.1:1 --libtensorflow none
usage "muster executor: --address and --ops exclude each other: --ops writes its lists and ends (see 'muster executor --help')" \
    executor --address 127.0.0.1:1 --ops
for tasks in 1 3; do
    check 125 "$MUSTER" run -n 2 --tf-master=127.0.0.1:0 --tf-jobs "ps:$tasks" true
    err_has "--tf-jobs ps:$tasks names $tasks tasks, but there are 2 tasks in the job (-n)"
done
check 125 "$MUSTER" serve --tf-master=127.0.0.1:0 --tf-workers 127.0.0.1:1 --tf-jobs ps:2
err_has "--tf-jobs ps:2 names 2 tasks, but there are 1 servers (--tf-workers)"
for option in tf-master ray; do
    check 125 "$MUSTER" serve "--$option=0.0.0.0:0"
    err_has "say that this is meant (--${option%-master}-insecure)"
done
check 3 "$MUSTER" executor --ops --libtensorflow /none
err_has "no TensorFlow here: /none is neither TensorFlow's library nor a folder with"

# Bad job names: for run no path is allowed either.
long=$(printf 'x%.0s' {1..300})
for name in a/b /a . .. .a 'a b' '' $'a\nb' "$long" ä; do
    check 2 "$MUSTER" run --job "$name" true
    err_has 'is no job name'
    out_is_empty
done
for name in .a 'a b' "$long"; do
    check 2 "$MUSTER" status --job "$name"
    err_has 'is no job name'
    err_is_one_line
done
[ -z "$(ls /dev/shm | grep -F x300 || true)" ] || fail "something was created"

# Help of every verb and command: exit status 0, on stdout.
check 0 "$MUSTER" --help
verbs=$(sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT")
[ "$(echo $verbs)" = "run serve agent scale status top kv barrier checkpoint task event object session segment worker trace topo bench doctor executor version help" ] || fail "verbs: $verbs"
for verb in $verbs; do
    check 0 "$MUSTER" "$verb" --help
    err_is_empty
    cp "$OUT" "$OUT.help"
    check 0 "$MUSTER" help "$verb"
    cmp -s "$OUT" "$OUT.help" || fail "'help $verb' differs from '$verb --help'"
    for sub in $(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT.help"); do
        check 0 "$MUSTER" "$verb" "$sub" --help
        out_has "^Usage: muster $verb $sub "
        cp "$OUT" "$OUT.sub"
        check 0 "$MUSTER" help "$verb" "$sub"
        cmp -s "$OUT" "$OUT.sub" || fail "'help $verb $sub' differs"
    done
done

# What is said of tasks and hosts means nothing to who adopts a job that has them, and the job is not looked for.
check 0 "$MUSTER" agent --help
sed -n 's/^  \(-[a-z],\|   \|-n, -np,\) --\([a-z-]*\)\(.*\)/\2\3/p' "$OUT" > "$TMPDIR/options"
[ "$(wc -l < "$TMPDIR/options")" -ge 40 ] || fail "muster agent has few options"
while read -r option argument _; do
    words=(--"${option%%[*}")
    case $option/$argument in
        *'['* | */[a-z]*) ;; # its argument may be left out, or there is none
        */D) words+=(1s) ;;
        *) words+=(9464) ;;
    esac
    case $option in
        adopt | help) continue ;;
        timeout | kill-on-fail* | grace | metrics)
            check 125 "$MUSTER" agent --adopt "$JOB" "${words[@]}"
            err_has "^muster agent: there is no job $JOB here" ;;
        *)
            check 2 "$MUSTER" agent "${words[@]}" --adopt "$JOB"
            err_has "^muster agent: --adopt and ${words[0]} exclude each other (see 'muster agent --help')$" ;;
    esac
    err_is_one_line
done < "$TMPDIR/options"
check 2 "$MUSTER" agent --adopt "$JOB" -n 3
err_has '^muster agent: --adopt and --num-tasks exclude each other '
check 2 "$MUSTER" agent --adopt "$JOB" --env A=b --env C=d --bind-to core
err_has '^muster agent: --adopt and --[a-z-]* exclude each other '
err_is_one_line

# Options in every spelling, before and behind a command's name.
check 3 "$MUSTER" kv --job "$JOB" get k
err_has "^muster kv get: "
check 3 "$MUSTER" kv get --job="$JOB" k
check 3 "$MUSTER" kv get k --job "$JOB"
check 3 "$MUSTER" kv get --job "$JOB" -- --k
check 0 "$MUSTER" run -n2 true
check 0 "$MUSTER" run --num-tasks=2 true
check 0 "$MUSTER" run true --help
check 0 "$MUSTER" run -- true

check 0 "$MUSTER" version
out_has '^muster [0-9]*\.[0-9]*\.[0-9]*$'
check 0 "$MUSTER" --version
check 0 "$MUSTER" version --json
json_is 'sorted(it)' '["version"]'
"$MUSTER" --help > /dev/full 2> "$ERR" && fail "a full disk was not noticed"
err_has 'cannot write'
exit 0
